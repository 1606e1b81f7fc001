//! The effect of cutting snapshots between closes more or less often (`serve --freshness-ms`): the
//! age of the newest statement that a one-shot query sees, and the cost of a tuple. First without
//! continuous queries, where nothing else cuts, then with L1–L3, whose closes cut as well.
//!
//! Batches are of 1 ms, so that they delay nothing. Statements alone advance the streams: an
//! advance is answered when it is visible, which takes a cut whatever the setting.

use super::figures::{QueryFigures, quantile_ms};
use super::measure::{Play, measure, named};
use super::stage::{Stage, configuration, network};
use super::{Failure, StreamsOptions};
use crate::figures::table::{self, time};
use crate::harness::machine::{Machine, processor_time_of};
use crate::harness::markdown;
use crate::harness::target::{Row, at_most};
use serde::{Deserialize, Serialize};
use somersault::{Engine, EngineConfig};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The steps.
const STEPS_MS: [u64; 4] = [1, 10, 100, 1_000];
const BATCH_MS: i64 = 1;
/// The most triples stored: steps do not depend on it.
const MOST_STORED: u64 = 1_000_000;
/// The interval between looks at the visible time; no divisor of a step, so that all phases of a
/// step are seen.
const LOOK: Duration = Duration::from_micros(3_700);
/// The most time beyond a step until a statement is visible: its batch, the injection, and a switch
/// of threads.
const BESIDES_MS: f64 = 10.0;
const QUERIES: [&str; 3] = ["L1", "L2", "L3"];

/// The figures of each step.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Steps {
    machine: Machine,
    rate: u32,
    points: Vec<StepPoint>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct StepPoint {
    step_ms: u64,
    /// The age of the newest visible statement, without continuous queries.
    age_p50_ms: f64,
    age_p99_ms: f64,
    /// Processor time of the whole process a tuple, without continuous queries.
    us_per_tuple: f64,
    /// The same with L1–L3.
    us_per_tuple_with_queries: f64,
    queries: Vec<QueryFigures>,
}

/// Measures, and prints the figures as they come.
pub(super) fn run(options: &StreamsOptions) -> Result<Steps, Failure> {
    let network = network(options.stored.min(MOST_STORED), options.rate);
    let mut figures = Steps {
        machine: Machine::read(),
        rate: options.rate,
        points: Vec::new(),
    };
    for step_ms in STEPS_MS {
        let config = EngineConfig {
            freshness: Duration::from_millis(step_ms),
            ..configuration(options.workers)
        };
        let mut stage = Stage::with_batches(&network, config, BATCH_MS)?;
        stage.tell_time_by_statements();
        let point = point(&mut stage, options, step_ms)?;
        stage.engine.shutdown()?;
        println!(
            "a snapshot every {step_ms} ms: the newest visible statement is {:.1} ms old, {:.1} ms at p99; {:.2} µs of processor time a tuple, {:.2} with L1–L3",
            point.age_p50_ms, point.age_p99_ms, point.us_per_tuple, point.us_per_tuple_with_queries
        );
        for query in &point.queries {
            println!(
                "  {}: execution p50 {:.3} ms, delay p50 {:.3} ms, p99 {:.3} ms",
                query.query, query.execution_p50_ms, query.delay_p50_ms, query.delay_p99_ms
            );
        }
        figures.points.push(point);
    }
    Ok(figures)
}

fn point(
    stage: &mut Stage<'_>,
    options: &StreamsOptions,
    step_ms: u64,
) -> Result<StepPoint, Failure> {
    let warm_up = stage.stretch(1_000, 1.0);
    stage.play(warm_up, true)?;
    let (ages, us_per_tuple) = without_queries(stage, options)?;
    let how = Play {
        duration_ms: options.seconds * 1000,
        times: 1.0,
        paced: true,
    };
    let queries = named(stage, &QUERIES);
    let measured = measure(stage, &queries, how)?;
    Ok(StepPoint {
        step_ms,
        age_p50_ms: quantile_ms(&ages, 50),
        age_p99_ms: quantile_ms(&ages, 99),
        us_per_tuple,
        us_per_tuple_with_queries: measured.us_per_tuple,
        queries: measured.queries,
    })
}

/// The age of the newest visible statement at each look, ascending, and the cost of a tuple.
fn without_queries(
    stage: &mut Stage<'_>,
    options: &StreamsOptions,
) -> Result<(Vec<Duration>, f64), Failure> {
    let stretch = stage.stretch(options.seconds * 1000, 1.0);
    let from_ms = stretch.from_ms;
    let over = AtomicBool::new(false);
    let stage = &*stage;
    let spent = processor_time_of("self");
    let start = Instant::now();
    let (ages, progress) = std::thread::scope(|scope| {
        let looker = scope.spawn(|| {
            let mut ages = Vec::new();
            while !over.load(Ordering::Acquire) {
                std::thread::sleep(LOOK);
                ages.extend(age(&stage.engine, from_ms, start));
            }
            ages
        });
        let until_ms = stretch.until_ms;
        let progress = stage.play_while(stretch, true, &mut |progress| {
            // No statement follows, so from here on the age only grows.
            over.fetch_or(progress.at.0 >= until_ms, Ordering::Release);
            true
        });
        over.store(true, Ordering::Release);
        (looker.join(), progress)
    });
    let progress = progress?;
    let spent = processor_time_of("self") - spent;
    let mut ages = ages.map_err(|_| "the thread that reads the counters has panicked")?;
    ages.sort_unstable();
    let us_per_tuple = spent.as_secs_f64() * 1e6 / progress.statements.max(1) as f64;
    Ok((ages, us_per_tuple))
}

/// The distance between the newest time that a one-shot query would see now and the clock, on which
/// the streams began at `start`.
fn age(engine: &Engine, from_ms: i64, start: Instant) -> Option<Duration> {
    let streams = engine.streams();
    let visible = streams.iter().map(|stream| stream.stable_time).min()??;
    let played = Duration::from_millis((visible.0 - from_ms).try_into().ok()?);
    Some(start.elapsed().saturating_sub(played))
}

/// The targets that these figures are held to.
pub(super) fn rows(figures: Option<&Steps>) -> Vec<Row> {
    let row = |step_ms: u64| {
        let find = |figures: &Steps| {
            let found = figures.points.iter().find(|point| point.step_ms == step_ms);
            found.map(|point| point.age_p50_ms)
        };
        let what = format!("streams: age of the newest visible statement, step {step_ms} ms, p50");
        let most = step_ms as f64 + BESIDES_MS;
        at_most(&what, most, figures.and_then(find), "ms")
    };
    let cost = |figures: &Steps| {
        let (finest, coarsest) = (figures.points.first()?, figures.points.last()?);
        Some(coarsest.us_per_tuple / finest.us_per_tuple)
    };
    let mut rows: Vec<Row> = STEPS_MS.into_iter().map(row).collect();
    rows.push(at_most(
        "streams: processor time a tuple, step 1000 ms against 1 ms",
        1.0,
        figures.and_then(cost),
        "×",
    ));
    rows
}

/// The figures as a table.
pub(super) fn table(figures: &Steps, out: &mut String) {
    let line = |point: &StepPoint| {
        let delays = point.queries.iter().map(|query| {
            let (p50, p99) = (query.delay_p50_ms * 1e3, query.delay_p99_ms * 1e3);
            format!("{}: {}, {}", query.query, time(p50), time(p99))
        });
        [
            format!("{} ms", point.step_ms),
            format!("{:.1} ms", point.age_p50_ms),
            format!("{:.1} ms", point.age_p99_ms),
            format!("{:.2} µs", point.us_per_tuple),
            format!("{:.2} µs", point.us_per_tuple_with_queries),
            delays.collect::<Vec<_>>().join("; "),
        ]
    };
    let names = [
        "a snapshot every",
        "newest visible statement, p50",
        "p99",
        "processor time a tuple",
        "with L1–L3",
        "their delay, p50 and p99",
    ];
    markdown::table(out, names, figures.points.iter().map(line));
}

/// The heading of the table.
pub(super) fn heading_of(figures: &Steps) -> (&'static str, &Machine, String) {
    let words = format!(
        "Five streams at {} tuples/s in real time, in batches of 1 ms, their times told by their statements alone; how old the newest statement is that one-shot queries see, and what a \
         tuple costs, without continuous queries; then with L1–L3, whose closes every 100 ms cut snapshots too.",
        table::thousands(figures.rate.into())
    );
    (
        "Streams: how often snapshots are cut",
        &figures.machine,
        words,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_is_measured_both_ways() {
        let figures = run(&StreamsOptions::smallest()).unwrap();
        assert_eq!(figures.points.len(), STEPS_MS.len());
        for point in &figures.points {
            assert!(point.age_p50_ms > 0.0 && point.us_per_tuple > 0.0);
            assert!(point.queries.iter().all(|query| query.firings == 10));
        }
        assert_eq!(rows(Some(&figures)).len(), 4 + 1);
        let mut text = String::new();
        table(&figures, &mut text);
        assert_eq!(text.lines().count(), 2 + 4);
    }
}
