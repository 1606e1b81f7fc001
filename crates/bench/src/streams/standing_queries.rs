//! A crowd of standing queries: it is registered, measured while the five streams run at their
//! rate, and dropped. One query of each shape has a subscriber, which measures the delay: the same
//! firings answer all queries of a group.

use super::Failure;
use super::figures::{Stolen, quantile_ms};
use super::measure::{Firing, Reader};
use super::stage::Stage;
use super::standing::{STEP_MS, Stand};
use super::threads::Spent;
use crate::harness::machine::processor_time_of;
use somersault::{Engine, MetricsSnapshot, NewQuery};
use somersault_generate::SocialNetwork;
use std::time::{Duration, Instant};

/// The time played before a crowd is measured.
const WARM_UP_MS: i64 = 2_000;
/// The number of shapes among the queries that are always there; the first query of each shape
/// comes first.
pub(crate) const LIGHT_SHAPES: u64 = 3;
/// The shapes that are mixed in, and the number of queries of each for a hundred of the others.
const HEAVY: [&str; 3] = ["L4", "L5", "L6"];
const HEAVY_IN_A_HUNDRED: u64 = 1;
/// The number of threads that drop queries: each call waits until its record is durable.
const DROPPING: usize = 8;

/// Standing queries that were registered for a measurement.
#[derive(Debug, Default)]
pub(crate) struct StandingQueries {
    names: Vec<String>,
    mixed: bool,
}

impl StandingQueries {
    /// Registers a number of queries of L1–L3, or the queries that are mixed in for that number.
    pub(crate) fn register(
        &mut self,
        stage: &Stage<'_>,
        queries: u64,
        mixed: bool,
    ) -> Result<(), Failure> {
        let new = || -> Box<dyn Iterator<Item = NewQuery>> {
            match mixed {
                false => Box::new(light(stage.network, queries)),
                true => Box::new(heavy(stage, queries)),
            }
        };
        for outcome in stage.engine.register_many(new())? {
            outcome?;
        }
        self.names.extend(new().filter_map(|query| query.name));
        self.mixed |= mixed;
        Ok(())
    }

    /// The names of the first query of each shape.
    fn probes(&self, network: &SocialNetwork) -> Vec<String> {
        let light = light(network, LIGHT_SHAPES).filter_map(|query| query.name);
        let heavy = HEAVY.iter().filter(|_| self.mixed);
        light
            .chain(heavy.map(|shape| heavy_name(shape, 0)))
            .collect()
    }

    /// Drops all of them.
    pub(crate) fn leave(self, stage: &Stage<'_>) -> Result<(), Failure> {
        drop_all(&stage.engine, &self.names)
    }
}

/// A number of queries of L1–L3 with random constants, with their names; one of each shape comes
/// first.
pub(crate) fn light(
    network: &SocialNetwork,
    queries: u64,
) -> impl Iterator<Item = NewQuery> + use<'_> {
    let all = network.standing_queries();
    let named = all.map(|(name, text)| NewQuery {
        name: Some(name),
        text,
    });
    named.take(queries as usize)
}

/// The queries that are mixed in for a number of others.
fn heavy(stage: &Stage<'_>, queries: u64) -> impl Iterator<Item = NewQuery> + use<> {
    let all = stage.network.continuous_queries().into_iter();
    let of_each = (queries * HEAVY_IN_A_HUNDRED / 100).max(1);
    all.filter(|query| HEAVY.contains(&query.name))
        .flat_map(move |query| {
            (0..of_each).map(move |at| {
                let name = heavy_name(query.name, at);
                let header = format!("QUERY {} ", query.name);
                NewQuery {
                    text: query.text.replace(&header, &format!("QUERY {name} ")),
                    name: Some(name),
                }
            })
        })
}

fn heavy_name(shape: &str, at: u64) -> String {
    format!("{shape}-{at}")
}

/// Drops queries, on several threads at once.
pub(crate) fn drop_all(engine: &Engine, names: &[String]) -> Result<(), Failure> {
    let share = names.len().div_ceil(DROPPING).max(1);
    std::thread::scope(|scope| {
        let threads: Vec<_> = names
            .chunks(share)
            .map(|names| scope.spawn(|| names.iter().try_for_each(|name| engine.drop_query(name))))
            .collect();
        for thread in threads {
            let dropped = thread.join();
            dropped.map_err(|_| "a thread that drops queries has panicked")??;
        }
        Ok(())
    })
}

/// The counters and clocks at one moment.
struct Moment {
    counters: MetricsSnapshot,
    at: Instant,
    spent: Duration,
    threads: Spent,
    stolen: Stolen,
}

impl Moment {
    fn now(engine: &Engine) -> Moment {
        Moment {
            counters: engine.metrics(),
            at: Instant::now(),
            spent: processor_time_of("self"),
            threads: Spent::now(),
            stolen: Stolen::from_here(),
        }
    }

    /// The processor time of threads that execute queries, since an earlier moment.
    fn of_queries_since(&self, earlier: &Moment) -> Duration {
        let by_group = self.threads.since(&earlier.threads);
        let executing = by_group.iter().filter(|(name, _)| name.contains("quer"));
        executing.map(|(_, spent)| *spent).sum()
    }
}

/// Measures the crowd that is registered.
pub(crate) fn measured(
    stage: &mut Stage<'_>,
    seconds: i64,
    crowd: &StandingQueries,
) -> Result<Stand, Failure> {
    let probes = crowd.probes(stage.network);
    let readers = probes.iter().map(|name| Reader::of(&stage.engine, name));
    let readers: Vec<Reader> = readers.collect::<Result<_, _>>()?;
    let stretch = stage.stretch(WARM_UP_MS, 1.0);
    stage.play(stretch, true)?;

    let from_ms = stage.next_ms();
    let stretch = stage.stretch(seconds * 1000, 1.0);
    let first = Moment::now(&stage.engine);
    let progress = stage.play(stretch, true)?;
    let last = Moment::now(&stage.engine);

    let mut delays = Vec::new();
    for reader in &readers {
        reader.read(|firing: Firing| {
            if firing.close_ms > from_ms {
                delays.push(firing.delay);
            }
        })?;
    }
    delays.sort_unstable();
    let is_late = |delay: &&Duration| delay.as_secs_f64() * 1e3 > STEP_MS;
    let queries = crowd.names.len() as u64;
    let mut stand = Stand {
        queries,
        mixed: crowd.mixed,
        batch_ms: stage.batch_ms(),
        delay_p50_ms: quantile_ms(&delays, 50),
        delay_p99_ms: quantile_ms(&delays, 99),
        later_than_step: delays.iter().filter(is_late).count(),
        behind_ms: progress.behind.as_secs_f64() * 1e3,
        stolen_ms: first.stolen.ms(),
        ..Stand::default()
    };
    count(&mut stand, &first, &last);
    Ok(stand)
}

/// Adds the work done between two moments.
fn count(stand: &mut Stand, first: &Moment, last: &Moment) {
    let seconds = (last.at - first.at).as_secs_f64();
    let grown = |of: fn(&MetricsSnapshot) -> u64| (of(&last.counters) - of(&first.counters)) as f64;
    let executions = grown(|all| all.queries.iter().map(|query| query.executions).sum());
    let nonempty = grown(|all| all.queries.iter().map(|query| query.nonempty).sum());
    let rows = grown(|all| all.queries.iter().map(|query| query.rows).sum());
    let firings = grown(|all| all.queries.iter().map(|query| query.firings).sum()).max(1.0);
    let busy = |all: &MetricsSnapshot| -> Duration {
        let times = all.queries.iter().map(|query| query.execution.sum);
        times.sum()
    };
    let busy = busy(&last.counters) - busy(&first.counters);
    let kept = last.counters.queries.iter().map(|query| query.kept_bytes);
    stand.executions_per_second = executions / seconds;
    stand.nonempty_per_second = nonempty / seconds;
    stand.rows_per_second = rows / seconds;
    stand.firing_ms = busy.as_secs_f64() * 1e3 / firings;
    stand.firing_processor_ms = last.of_queries_since(first).as_secs_f64() * 1e3 / firings;
    stand.cores = (last.spent - first.spent).as_secs_f64() / seconds;
    stand.kept_bytes_per_query = kept.sum::<u64>() as f64 / stand.queries.max(1) as f64;
}

#[cfg(test)]
mod tests {
    use super::super::stage::network;
    use super::*;

    #[test]
    fn a_query_of_each_shape_shows_the_delay() {
        let network = network(20_000, 2_000);
        let mut crowd = StandingQueries::default();
        assert_eq!(crowd.probes(&network), ["L1-0", "L2-1", "L3-2"]);
        crowd.mixed = true;
        let mixed = ["L1-0", "L2-1", "L3-2", "L4-0", "L5-0", "L6-0"];
        assert_eq!(crowd.probes(&network), mixed);
    }
}
