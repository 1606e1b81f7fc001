//! Many standing queries: L1–L3 with random constants, and the same with L4–L6 mixed in, in each
//! requested number and with each requested length of batches. One engine runs all crowds, one
//! after the other, so that the stored graph is loaded once.

use super::registration::{self, Registration};
use super::stage::{Stage, configuration, network};
use super::standing_queries::{self, StandingQueries};
use super::{Failure, StreamsOptions};
use crate::figures::table::{self, time};
use crate::harness::machine::Machine;
use crate::harness::markdown;
use crate::harness::target::{Row, at_least, at_most};
use serde::{Deserialize, Serialize};

/// The time played on newly declared streams before a measurement.
const WARM_UP_MS: i64 = 2_000;
/// The STEP of all windows.
pub(super) const STEP_MS: f64 = 100.0;
/// The targets for L1–L3, and with L4–L6 mixed in: executions a second.
const LIGHT: f64 = 1.08e6;
const MIXED: f64 = 8e5;

/// The figures of many standing queries.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Standing {
    machine: Machine,
    stored_triples: u64,
    rate: u32,
    registration: Registration,
    stands: Vec<Stand>,
}

impl Standing {
    /// The stands that have L4–L6, or those that do not.
    fn of(&self, mixed: bool) -> impl Iterator<Item = &Stand> {
        (self.stands.iter()).filter(move |stand| stand.mixed == mixed)
    }
}

/// A number of queries registered at the same time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Stand {
    pub(crate) queries: u64,
    /// Whether L4–L6 are among them.
    pub(crate) mixed: bool,
    /// The batch of the streams.
    pub(crate) batch_ms: i64,
    pub(crate) executions_per_second: f64,
    /// Executions with rows, and the rows.
    pub(crate) nonempty_per_second: f64,
    pub(crate) rows_per_second: f64,
    /// A group's firing for a close: its execution, and the processor time of query threads.
    pub(crate) firing_ms: f64,
    pub(crate) firing_processor_ms: f64,
    /// Processor time of the whole process, the player's among it, in cores.
    pub(crate) cores: f64,
    /// Answers kept for reconnecting subscribers.
    pub(crate) kept_bytes_per_query: f64,
    pub(crate) delay_p50_ms: f64,
    pub(crate) delay_p99_ms: f64,
    pub(crate) later_than_step: usize,
    pub(crate) behind_ms: f64,
    pub(crate) stolen_ms: u64,
}

impl Stand {
    /// Whether every close was answered within its step.
    fn keeps_up(&self) -> bool {
        self.later_than_step == 0 && self.behind_ms < STEP_MS
    }
}

/// Measures, and prints the figures as they come.
pub(super) fn run(options: &StreamsOptions) -> Result<Standing, Failure> {
    let network = network(options.stored, options.rate);
    let mut batches = options.batches.iter().copied();
    let first = batches.next().ok_or("no batch was asked for (--batches)")?;
    let most = options.standing.iter().copied().max();
    let most = most.ok_or("no number of queries was asked for (--standing)")?;
    let bytes_per_query = registration::memory(&network, most)?;
    let mut stage = Stage::with_batches(&network, configuration(options.workers), first)?;
    let mut figures = Standing {
        machine: Machine::read(),
        stored_triples: stage.stored.triples,
        rate: options.rate,
        ..Standing::default()
    };
    let mut counts = options.standing.clone();
    counts.sort_unstable_by(|a, b| b.cmp(a));
    figures.registration = registration::measure(&stage, most, bytes_per_query)?;
    for batch_ms in [first].into_iter().chain(batches) {
        stage.declare_again(batch_ms)?;
        let stretch = stage.stretch(WARM_UP_MS, 1.0);
        stage.play(stretch, true)?;
        for queries in &counts {
            let mut crowd = StandingQueries::default();
            for mixed in [false, true] {
                crowd.register(&stage, *queries, mixed)?;
                let stand = standing_queries::measured(&mut stage, options.seconds, &crowd)?;
                print(&stand);
                figures.stands.push(stand);
            }
            crowd.leave(&stage)?;
        }
    }
    stage.engine.shutdown()?;
    Ok(figures)
}

fn print(stand: &Stand) {
    println!(
        "{}, batches of {} ms: {} executions/s, {} with rows, {} rows/s; a group's firing {:.2} ms, {:.2} ms of processor time; {:.2} cores; delay p50 {:.2} ms, p99 {:.2} ms; {} later than their step, {:.0} ms behind, {} ms stolen",
        in_words(stand),
        stand.batch_ms,
        table::thousands(stand.executions_per_second as u64),
        table::thousands(stand.nonempty_per_second as u64),
        table::thousands(stand.rows_per_second as u64),
        stand.firing_ms,
        stand.firing_processor_ms,
        stand.cores,
        stand.delay_p50_ms,
        stand.delay_p99_ms,
        stand.later_than_step,
        stand.behind_ms,
        stand.stolen_ms
    );
}

fn in_words(stand: &Stand) -> String {
    let queries = table::thousands(stand.queries);
    match stand.mixed {
        true => format!("{queries} queries, L4–L6 among them"),
        false => format!("{queries} queries"),
    }
}

/// The smallest crowd that answers every close within its step and reaches `wanted` executions,
/// with the batch that answers soonest. If none reaches as many, the one with the most.
fn at_rate(figures: &Standing, mixed: bool, wanted: f64) -> Option<&Stand> {
    let all = || (figures.of(mixed)).filter(|stand| stand.keeps_up());
    let reach = all().filter(|stand| stand.executions_per_second >= wanted);
    reach
        .min_by(|a, b| {
            let by_delay = a.delay_p50_ms.total_cmp(&b.delay_p50_ms);
            a.queries.cmp(&b.queries).then(by_delay)
        })
        .or_else(|| {
            all().max_by(|a, b| a.executions_per_second.total_cmp(&b.executions_per_second))
        })
}

/// The targets that these figures are held to.
pub(super) fn rows(figures: Option<&Standing>) -> Vec<Row> {
    let of = |mixed, wanted| figures.and_then(|figures| at_rate(figures, mixed, wanted));
    let (light, mixed) = (of(false, LIGHT), of(true, MIXED));
    let which = |stand: Option<&Stand>| {
        let words = |stand: &Stand| {
            let queries = table::thousands(stand.queries);
            format!(" ({queries} queries, batches of {} ms)", stand.batch_ms)
        };
        stand.map_or_else(String::new, words)
    };
    // If such stands were measured and none keeps up, the rate in time is zero.
    let in_time = |mixed, found: Option<f64>| {
        let nothing = || figures?.of(mixed).next().map(|_| 0.0);
        found.or_else(nothing)
    };
    let rate = |stand: Option<&Stand>| stand.map(|stand| stand.executions_per_second);
    let kept_up = figures.and_then(|figures| {
        let light = figures.of(false).filter(|stand| stand.keeps_up());
        light.map(|stand| stand.queries as f64).reduce(f64::max)
    });
    let registration = figures.map(|figures| &figures.registration);
    let mut rows = vec![
        at_least(
            &format!("streams: mixed L1–L3{}", which(light)),
            LIGHT,
            in_time(false, rate(light)),
            "executions/s",
        ),
        at_most(
            "the same, delay p50",
            1.0,
            light.map(|stand| stand.delay_p50_ms),
            "ms",
        ),
        at_most(
            "the same, delay p99",
            10.0,
            light.map(|stand| stand.delay_p99_ms),
            "ms",
        ),
        at_least(
            &format!("streams: with L4–L6 mixed in{}", which(mixed)),
            MIXED,
            in_time(true, rate(mixed)),
            "executions/s",
        ),
        at_least(
            "streams: standing queries, every close answered within its step",
            1e6,
            in_time(false, kept_up),
            "queries",
        ),
    ];
    rows.extend(registration::rows(registration));
    rows
}

/// The figures as tables.
pub(super) fn table(figures: &Standing, out: &mut String) {
    out.push_str(&registration::sentence(&figures.registration));
    let line = |stand: &Stand| {
        [
            in_words(stand),
            format!("{} ms", stand.batch_ms),
            table::thousands(stand.executions_per_second as u64),
            table::thousands(stand.nonempty_per_second as u64),
            table::thousands(stand.rows_per_second as u64),
            time(stand.firing_ms * 1e3),
            time(stand.firing_processor_ms * 1e3),
            format!("{:.2}", stand.cores),
            format!("{:.0}", stand.kept_bytes_per_query),
            time(stand.delay_p50_ms * 1e3),
            time(stand.delay_p99_ms * 1e3),
            stand.later_than_step.to_string(),
            format!("{:.0} ms", stand.behind_ms),
            format!("{} ms", stand.stolen_ms),
        ]
    };
    let names = [
        "standing",
        "batch",
        "executions/s",
        "with rows/s",
        "rows/s",
        "a group's firing",
        "its processor time",
        "cores in all",
        "answers kept, bytes a query",
        "delay p50",
        "p99",
        "later than its step",
        "behind",
        "stolen",
    ];
    markdown::table(out, names, figures.stands.iter().map(line));
}

/// The heading of the tables.
pub(super) fn heading_of(figures: &Standing) -> (&'static str, &Machine, String) {
    let words = format!(
        "L1–L3 with random constants, windows 1 s/100 ms, five streams at {} tuples/s in real time over {} stored triples. For each hundred \
         queries there is one of each of L4–L6 where they are mixed in. These have no constants: so the copies of each are evaluated once for \
         all, and each counts as executed.",
        table::thousands(figures.rate.into()),
        table::thousands(figures.stored_triples)
    );
    ("Streams: standing queries", &figures.machine, words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::target::Verdict;

    #[test]
    fn a_few_queries_are_counted() {
        let options = StreamsOptions::smallest();
        let figures = run(&options).expect("measured");
        let stands: Vec<_> = (figures.stands.iter())
            .map(|stand| (stand.queries, stand.mixed, stand.batch_ms))
            .collect();
        let of = |batch_ms| [(30, false, batch_ms), (33, true, batch_ms)];
        assert_eq!(stands, [of(100), of(10)].concat());
        for stand in &figures.stands {
            assert!(stand.executions_per_second > stand.nonempty_per_second);
            assert!(stand.nonempty_per_second > 0.0 && stand.rows_per_second > 0.0);
        }
        let rows = rows(Some(&figures));
        let unmeasured = rows.iter().filter(|row| {
            // Whether a stand keeps up depends on the machine, and so does whether it has delays.
            row.verdict == Verdict::NotMeasured && !row.what.starts_with("the same")
        });
        let unmeasured: Vec<_> = unmeasured.map(|row| row.what.as_str()).collect();
        let of_a_million = [
            "streams: registration of a million queries over HTTP",
            "streams: memory a standing query",
        ];
        assert_eq!(unmeasured, of_a_million, "thirty are no million");
        let mut text = String::new();
        table(&figures, &mut text);
        assert!(
            text.contains("| 33 queries, L4–L6 among them | 10 ms |"),
            "{text}"
        );
    }

    #[test]
    fn the_row_is_of_the_smallest_stand_that_reaches_it_and_of_its_soonest_batch() {
        let stand = |queries, batch_ms, delay_p50_ms, later_than_step| Stand {
            queries,
            batch_ms,
            executions_per_second: queries as f64 * 10.0,
            delay_p50_ms,
            later_than_step,
            ..Stand::default()
        };
        let mut figures = Standing {
            stands: vec![
                stand(1_000_000, 10, 1.0, 0),
                stand(110_000, 100, 9.0, 0),
                stand(110_000, 10, 3.0, 0),
                stand(110_000, 1, 2.0, 4),
                stand(1_000, 10, 0.5, 0),
            ],
            ..Standing::default()
        };
        let found = |figures: &Standing| at_rate(figures, false, LIGHT).cloned();
        assert_eq!(found(&figures), Some(figures.stands[2].clone()));
        let row = &rows(Some(&figures))[0];
        assert_eq!(
            row.what,
            "streams: mixed L1–L3 (110,000 queries, batches of 10 ms)"
        );
        figures.stands.drain(..4);
        assert_eq!(found(&figures), Some(figures.stands[0].clone()));
        assert_eq!(rows(Some(&figures))[0].verdict, Verdict::Short);
    }

    #[test]
    fn crowds_with_late_closes_do_not_count() {
        let stand = |mixed| Stand {
            queries: 2_000_000,
            mixed,
            executions_per_second: 2e7,
            later_than_step: 1,
            ..Stand::default()
        };
        let figures = Standing {
            stands: vec![stand(false), stand(true)],
            ..Standing::default()
        };
        let rows = rows(Some(&figures));
        let short = rows.iter().filter(|row| row.verdict == Verdict::Short);
        let short: Vec<_> = (short.map(|row| (row.what.as_str(), row.figure.as_str()))).collect();
        let expected = [
            ("streams: mixed L1–L3", "0.00 executions/s"),
            ("streams: with L4–L6 mixed in", "0.00 executions/s"),
            (
                "streams: standing queries, every close answered within its step",
                "0.00 queries",
            ),
        ];
        assert_eq!(short, expected);
        assert!(rows.iter().all(|row| row.verdict != Verdict::Holds));
    }
}
