//! The same streams in batches of 100, 10 and 1 ms: the cost of a tuple, and the delay of L1–L3
//! from the last statement that they need to their answer. Their windows remain RANGE 1s STEP
//! 100ms: batches decide when statements become visible, and the work of each close.

use super::figures::QueryFigures;
use super::measure::{Play, heading, measure, named, print_figures};
use super::stage::{Stage, configuration, network};
use super::{Failure, StreamsOptions};
use crate::figures::table::{self, time};
use crate::harness::machine::Machine;
use crate::harness::markdown;
use crate::harness::target::{Row, at_most};
use serde::{Deserialize, Serialize};

/// The intervals.
const BATCHES_MS: [i64; 3] = [100, 10, 1];
/// The most that is stored: batches have nothing to do with it.
const MOST_STORED: u64 = 1_000_000;
const QUERIES: [&str; 3] = ["L1", "L2", "L3"];

/// The figures of each interval.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Batches {
    machine: Machine,
    rate: u32,
    points: Vec<BatchPoint>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct BatchPoint {
    batch_ms: i64,
    /// Processor time of the whole process a tuple, that of the queries and of the player among it.
    us_per_tuple: f64,
    behind_ms: u64,
    queries: Vec<QueryFigures>,
}

/// Measures, and prints the figures as they come.
pub(super) fn run(options: &StreamsOptions) -> Result<Batches, Failure> {
    let network = network(options.stored.min(MOST_STORED), options.rate);
    let mut figures = Batches {
        machine: Machine::read(),
        rate: options.rate,
        points: Vec::new(),
    };
    for batch_ms in BATCHES_MS {
        let config = configuration(options.workers);
        let mut stage = Stage::with_batches(&network, config, batch_ms)?;
        let how = Play {
            duration_ms: options.seconds * 1000,
            times: 1.0,
            paced: true,
        };
        let queries = named(&stage, &QUERIES);
        let measured = measure(&mut stage, &queries, how)?;
        stage.engine.shutdown()?;
        println!(
            "batches of {batch_ms} ms: {:.2} µs of processor time a tuple, {} ms behind the clock",
            measured.us_per_tuple,
            measured.behind.as_millis()
        );
        heading();
        measured.queries.iter().for_each(print_figures);
        figures.points.push(BatchPoint {
            batch_ms,
            us_per_tuple: measured.us_per_tuple,
            behind_ms: measured.behind.as_millis() as u64,
            queries: measured.queries,
        });
    }
    Ok(figures)
}

/// The targets that these figures are held to.
pub(super) fn rows(figures: Option<&Batches>) -> Vec<Row> {
    let points = figures.map(|figures| figures.points.as_slice());
    let finest = points.and_then(|points| points.iter().min_by_key(|point| point.batch_ms));
    let behind = finest.map(|point| point.behind_ms as f64);
    let late = finest.map(|point| {
        let late = point.queries.iter().map(|query| query.later_than_step);
        late.sum::<usize>() as f64
    });
    vec![
        at_most(
            "streams: event time behind the clock, batches of 1 ms",
            100.0,
            behind,
            "ms",
        ),
        at_most(
            "streams: closes answered later than their step, batches of 1 ms",
            0.0,
            late,
            "closes",
        ),
    ]
}

/// The figures as a table.
pub(super) fn table(figures: &Batches, out: &mut String) {
    let line = |(point, query): (&BatchPoint, &QueryFigures)| {
        [
            format!("{} ms", point.batch_ms),
            format!("{:.2} µs", point.us_per_tuple),
            format!("{} ms", point.behind_ms),
            query.query.clone(),
            time(query.execution_p50_ms * 1e3),
            time(query.delay_p50_ms * 1e3),
            time(query.delay_p99_ms * 1e3),
        ]
    };
    let of_each = figures.points.iter();
    let lines = of_each.flat_map(|point| point.queries.iter().map(move |query| (point, query)));
    let names = [
        "batch",
        "processor time a tuple",
        "behind",
        "query",
        "execution p50",
        "delay p50",
        "delay p99",
    ];
    markdown::table(out, names, lines.map(line));
}

/// The heading of the table.
pub(super) fn heading_of(figures: &Batches) -> (&'static str, &Machine, String) {
    let words = format!(
        "L1–L3 together, windows 1 s/100 ms, five streams at {} tuples/s in real time; the processor time is that of the whole process.",
        table::thousands(figures.rate.into())
    );
    ("Streams: batches", &figures.machine, words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::target::Verdict;

    #[test]
    fn closes_are_the_same_whatever_the_batch() {
        let figures = run(&StreamsOptions::smallest()).unwrap();
        let firings = |point: &BatchPoint| -> Vec<(String, usize, u64)> {
            let queries = point.queries.iter();
            queries
                .map(|query| (query.query.clone(), query.firings, query.rows))
                .collect()
        };
        let [hundred, ten, one] = &figures.points[..] else {
            panic!("three intervals");
        };
        assert_eq!(firings(hundred), firings(ten));
        assert_eq!(firings(hundred), firings(one));
        assert!(one.queries.iter().all(|query| query.firings == 10));
        let rows = rows(Some(&figures));
        assert!(rows.iter().all(|row| row.verdict != Verdict::NotMeasured));
        let mut text = String::new();
        table(&figures, &mut text);
        assert!(text.contains("| 1 ms |"), "{text}");
    }
}
