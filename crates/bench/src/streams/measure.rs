//! Continuous queries measured: registered, their windows filled for a second, their firings over a
//! stretch counted and timed.

use super::Failure;
use super::figures::{QueryFigures, Stolen, quantile_ms};
use super::stage::{BATCH_MS, Stage};
use crate::harness::machine::processor_time_of;
use somersault::{Answer, Engine, SubscribeOptions, Subscription, SubscriptionEvent};
use somersault_generate::NamedQuery;
use std::time::Duration;

/// The time for which the windows fill before firings count.
pub(crate) const FILL_MS: i64 = 1_000;
/// The time limit for answering everything that is due.
pub(crate) const QUIESCE: Duration = Duration::from_secs(120);

/// The way in which a stretch is played.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Play {
    /// Event time of the firings that count.
    pub(crate) duration_ms: i64,
    /// The multiple of the network's rate.
    pub(crate) times: f64,
    pub(crate) paced: bool,
}

/// A continuous query that is registered, with its answers.
pub(crate) struct Reader {
    name: String,
    step_ms: i64,
    answers: Subscription,
}

impl Reader {
    /// Registers a query; from here on no answer is lost.
    pub(crate) fn register(engine: &Engine, name: &str, text: &str) -> Result<Reader, Failure> {
        engine.register(Some(name), text)?;
        Reader::of(engine, name)
    }

    /// Reads a query that is registered.
    pub(crate) fn of(engine: &Engine, name: &str) -> Result<Reader, Failure> {
        let info = engine.query_info(name)?;
        let steps = info.windows.iter().filter_map(|window| window.step_ms);
        let options = SubscribeOptions {
            capacity: 1 << 20,
            ..SubscribeOptions::default()
        };
        Ok(Reader {
            name: name.to_owned(),
            step_ms: steps.min().unwrap_or(BATCH_MS),
            answers: engine.subscribe(name, options)?,
        })
    }

    /// Calls `each` with the firings that have arrived: their closes, rows and times.
    pub(crate) fn read(&self, mut each: impl FnMut(Firing)) -> Result<(), Failure> {
        self.read_answers(|firing, _| each(firing))
    }

    /// The same with the answers.
    pub(crate) fn read_answers(
        &self,
        mut each: impl FnMut(Firing, &Answer),
    ) -> Result<(), Failure> {
        while let Some(event) = self.answers.try_recv() {
            let SubscriptionEvent::Firing(firing) = event else {
                let name = &self.name;
                return Err(format!("firings of {name} were lost before they were counted").into());
            };
            let close_ms = firing.close.0;
            let answer = (firing.answer.as_ref())
                .map_err(|reason| format!("{} at {close_ms}: {reason}", self.name))?;
            let counted = Firing {
                close_ms,
                rows: answer.len() as u64,
                execution: firing.execution,
                delay: firing.delay,
            };
            each(counted, answer);
        }
        Ok(())
    }

    /// The figures of all closes after this one.
    pub(crate) fn figures(&self, after_ms: i64, stolen_ms: u64) -> Result<QueryFigures, Failure> {
        let mut firings = Vec::new();
        self.read(|firing| firings.extend((firing.close_ms > after_ms).then_some(firing)))?;
        figures_of(&self.name, self.step_ms, &firings, stolen_ms)
    }
}

/// One firing, its answer counted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Firing {
    pub(crate) close_ms: i64,
    pub(crate) rows: u64,
    pub(crate) execution: Duration,
    pub(crate) delay: Duration,
}

/// The figures of some firings of one query.
pub(crate) fn figures_of(
    name: &str,
    step_ms: i64,
    firings: &[Firing],
    stolen_ms: u64,
) -> Result<QueryFigures, Failure> {
    if firings.is_empty() {
        return Err(format!("{name} has not fired; measure for longer").into());
    }
    let sorted = |of: fn(&Firing) -> Duration| {
        let mut times: Vec<Duration> = firings.iter().map(of).collect();
        times.sort_unstable();
        times
    };
    let executions = sorted(|firing| firing.execution);
    let delays = sorted(|firing| firing.delay);
    let is_late = |delay: &&Duration| delay.as_millis() as i64 > step_ms;
    Ok(QueryFigures {
        query: name.to_owned(),
        firings: firings.len(),
        rows: firings.iter().map(|firing| firing.rows).sum(),
        execution_p50_ms: quantile_ms(&executions, 50),
        execution_p99_ms: quantile_ms(&executions, 99),
        delay_p50_ms: quantile_ms(&delays, 50),
        delay_p99_ms: quantile_ms(&delays, 99),
        delay_max_ms: quantile_ms(&delays, 100),
        later_than_step: delays.iter().filter(is_late).count(),
        step_ms,
        stolen_ms,
    })
}

/// The figures of queries that were measured together.
pub(crate) struct QueriesTogether {
    pub(crate) queries: Vec<QueryFigures>,
    /// The distance of event time behind the clock at the end.
    pub(crate) behind: Duration,
    /// Processor time of the whole process a tuple, the player's among it.
    pub(crate) us_per_tuple: f64,
}

/// Measures these queries together over the next stretch.
pub(crate) fn measure(
    stage: &mut Stage<'_>,
    queries: &[NamedQuery],
    how: Play,
) -> Result<QueriesTogether, Failure> {
    let mut filling = stage.stretch(FILL_MS + how.duration_ms, how.times);
    let measured = filling.split_off(FILL_MS);
    let measured_from = measured.from_ms;
    let readers = queries
        .iter()
        .map(|query| Reader::register(&stage.engine, query.name, &query.text))
        .collect::<Result<Vec<_>, _>>()?;
    stage.play(filling, how.paced)?;
    let (stolen, spent) = (Stolen::from_here(), processor_time_of("self"));
    let progress = stage.play(measured, how.paced)?;
    let (stolen_ms, spent) = (stolen.ms(), processor_time_of("self") - spent);
    let mut figures = Vec::new();
    for reader in &readers {
        figures.push(reader.figures(measured_from, stolen_ms)?);
        stage.engine.drop_query(&reader.name)?;
    }
    Ok(QueriesTogether {
        queries: figures,
        behind: progress.behind,
        us_per_tuple: spent.as_secs_f64() * 1e6 / progress.statements.max(1) as f64,
    })
}

/// The queries of these names.
pub(crate) fn named(stage: &Stage<'_>, names: &[&str]) -> Vec<NamedQuery> {
    let mut queries = stage.network.continuous_queries();
    queries.retain(|query| names.contains(&query.name));
    queries
}

/// The names of the columns of [`print_figures`].
pub(crate) fn heading() {
    println!(
        "{:<6} {:>8} {:>10} {:>11} {:>11} {:>11} {:>11} {:>11} {:>6} {:>9}",
        "query",
        "firings",
        "rows",
        "exec p50",
        "exec p99",
        "delay p50",
        "delay p99",
        "delay max",
        "late",
        "stolen"
    );
}

/// One query's line.
pub(crate) fn print_figures(figures: &QueryFigures) {
    println!(
        "{:<6} {:>8} {:>10} {:>8.3} ms {:>8.3} ms {:>8.3} ms {:>8.3} ms {:>8.3} ms {:>6} {:>6} ms",
        figures.query,
        figures.firings,
        figures.rows,
        figures.execution_p50_ms,
        figures.execution_p99_ms,
        figures.delay_p50_ms,
        figures.delay_p99_ms,
        figures.delay_max_ms,
        figures.later_than_step,
        figures.stolen_ms
    );
}
