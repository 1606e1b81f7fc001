//! The figures that should stay flat: group (I), L1–L3, as the streams go faster, as more is
//! stored, and as the streams have run for longer.

use super::figures::{Lines, Point};
use super::measure::{Play, heading, measure, named, print_figures};
use super::stage::{Stage, configuration, network};
use super::threads::Apart;
use super::{Failure, StreamsOptions};
use crate::figures::table;
use crate::harness::machine::{Machine, resident_bytes};
use std::time::{Duration, Instant};

/// The queries of group (I): each reads a small part of its windows, however large they are.
const GROUP: [&str; 3] = ["L1", "L2", "L3"];
/// Quarters of the paper's rate.
pub(crate) const QUARTERS: [u32; 5] = [1, 2, 4, 8, 16];
/// The sizes along the line by stored triples, up to the largest requested.
const STORED: [u64; 3] = [1_000_000, 10_000_000, 100_000_000];
/// The factor by which the streams run slower while they age, so that an hour of them fits into
/// memory.
const AGEING: u32 = 20;
/// The triples stored before the streams age: few, since the streams leave that many themselves.
const STORED_BEFORE: u64 = 1_000_000;
/// The event time that is generated at once for stretches that are played and not measured.
const CHUNK_MS: i64 = 5_000;

/// The longest time that streams may take to grow old; a slower engine is not waited for.
const MOST_AGEING: Duration = Duration::from_secs(20 * 60);
/// The interval between reports of the streams' age.
const SAY_EVERY: Duration = Duration::from_secs(10);

/// Measures the three lines, and prints the figures as they come. `keep` receives the figures so
/// far after each point, so that a failure at a later point loses none; they are complete only
/// after the last point.
pub(super) fn run(
    options: &StreamsOptions,
    keep: &dyn Fn(&Lines) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let network = network(options.stored, options.rate);
    let mut stage = Stage::open(&network, configuration(options.workers))?;
    let mut lines = Lines {
        // This comes before the thread is bound to some of the cores.
        machine: Machine::read(),
        stored: stage.stored.clone(),
        ..Lines::default()
    };
    let apart = Apart::keep();
    for quarters in QUARTERS {
        let rate = options.rate * quarters / 4;
        println!("{} tuples/s", table::thousands(rate.into()));
        let times = f64::from(quarters) / 4.0;
        let point = point(&mut stage, &GROUP, options.seconds, u64::from(rate), times)?;
        lines.by_rate.push(point);
        keep(&lines)?;
    }
    stage.engine.shutdown()?;
    drop((stage, apart));
    let already = lines.stored.triples;
    for stored in STORED {
        // If about this number of triples is stored already, the measurement at the network's own
        // rate counts.
        if stored > options.largest || stored * 2 > already {
            continue;
        }
        lines.by_stored.push(with_stored(options, stored)?);
        keep(&lines)?;
    }
    let at_rate = (lines.by_rate.iter()).find(|point| point.at == u64::from(options.rate));
    lines.by_stored.extend(at_rate.map(|point| Point {
        at: already,
        ..point.clone()
    }));
    keep(&lines)?;
    by_age(options, &mut |point| {
        lines.by_age.push(point);
        keep(&lines)
    })?;
    lines.complete = true;
    keep(&lines)
}

/// Each query of a group alone, at one point of a line.
pub(crate) fn point(
    stage: &mut Stage<'_>,
    group: &[&str],
    seconds: i64,
    at: u64,
    times: f64,
) -> Result<Point, Failure> {
    let mut point = Point {
        at,
        ..Point::default()
    };
    let how = Play {
        duration_ms: seconds * 1000,
        times,
        paced: true,
    };
    heading();
    for query in group {
        let alone = measure(stage, &named(stage, &[query]), how)?;
        alone.queries.iter().for_each(print_figures);
        point.queries.extend(alone.queries);
        point.behind_ms = point.behind_ms.max(alone.behind.as_millis() as u64);
    }
    if point.behind_ms > 0 {
        println!(
            "event time fell behind the clock, by {} ms at most",
            point.behind_ms
        );
    }
    Ok(point)
}

fn with_stored(options: &StreamsOptions, stored: u64) -> Result<Point, Failure> {
    println!("about {} stored triples", table::thousands(stored));
    let network = network(stored, options.rate);
    let mut stage = Stage::open(&network, configuration(options.workers))?;
    let apart = Apart::keep();
    let at = stage.stored.triples;
    let point = point(&mut stage, &GROUP, options.seconds, at, 1.0)?;
    stage.engine.shutdown()?;
    drop(apart);
    Ok(point)
}

/// The streams run until they have this age, slowly in event time but as fast as possible by the
/// clock; then they are measured at their full rate, in real time. So windows hold the same at each
/// age, and only the objects that come and go with time have accumulated: batches, slices, windows
/// and snapshots, each as many as at the full rate.
fn by_age(
    options: &StreamsOptions,
    each: &mut dyn FnMut(Point) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let rate = options.rate / AGEING;
    println!(
        "streams that grow old at {} tuples/s",
        table::thousands(rate.into())
    );
    let network = network(STORED_BEFORE.min(options.stored), rate);
    let mut stage = Stage::open(&network, configuration(options.workers))?;
    let apart = Apart::keep();
    for &minutes in &options.minutes {
        grow_old(&mut stage, minutes, MOST_AGEING)?;
        let age = (minutes * 60) as u64;
        let times = f64::from(AGEING);
        each(point(&mut stage, &GROUP, options.seconds, age, times)?)?;
    }
    stage.engine.shutdown()?;
    drop(apart);
    Ok(())
}

/// Plays the streams as fast as possible until they have this age in minutes.
fn grow_old(stage: &mut Stage<'_>, minutes: i64, most: Duration) -> Result<(), Failure> {
    let start = Instant::now();
    let from_ms = stage.next_ms();
    let mut said = start;
    while stage.next_ms() < minutes * 60_000 {
        let played_ms = stage.next_ms() - from_ms;
        if start.elapsed() > most {
            return Err(format!(
                "streams have come from {} to {} of {minutes} minutes in {} s, which is as long as they may take",
                from_ms / 60_000,
                (from_ms + played_ms) / 60_000,
                most.as_secs()
            )
            .into());
        }
        if said.elapsed() >= SAY_EVERY {
            said = Instant::now();
            let left_ms = minutes * 60_000 - stage.next_ms();
            let took = start.elapsed().as_secs_f64();
            println!(
                "  {:.1} of {minutes} minutes old, about {:.0} s to go, {} MiB resident",
                stage.next_ms() as f64 / 60_000.0,
                took / played_ms.max(1) as f64 * left_ms as f64,
                resident_bytes() >> 20
            );
        }
        let stretch = stage.stretch(CHUNK_MS, 1.0);
        stage.play(stretch, false)?;
    }
    println!(
        "{minutes} minutes old, {:.0} s later",
        start.elapsed().as_secs_f64()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_measured_at_each_age() {
        let options = StreamsOptions {
            minutes: vec![1, 2],
            ..StreamsOptions::smallest()
        };
        let mut points = Vec::new();
        by_age(&options, &mut |point| {
            points.push(point);
            Ok(())
        })
        .unwrap();
        let ages: Vec<u64> = points.iter().map(|point| point.at).collect();
        assert_eq!(ages, [60, 120]);
        let firings = |point: &Point| point.queries.iter().map(|query| query.firings).sum();
        let firings: Vec<usize> = points.iter().map(firings).collect();
        assert!(firings[0] > 0 && firings[0] == firings[1], "{firings:?}");
    }

    #[test]
    fn an_overlong_run_ends() {
        let options = StreamsOptions::smallest();
        let network = network(options.stored, options.rate);
        let mut stage = Stage::open(&network, configuration(1)).unwrap();
        let error = grow_old(&mut stage, 60, Duration::ZERO).unwrap_err();
        assert!(
            error.to_string().contains("of 60 minutes in 0 s"),
            "{error}"
        );
    }

    #[test]
    fn points_are_kept_one_by_one_and_complete_with_the_last() {
        let options = StreamsOptions::smallest();
        let kept = std::cell::RefCell::new(Vec::new());
        let refused = run(&options, &|lines| {
            kept.borrow_mut().push(lines.clone());
            match lines.complete {
                true => Err("planted".into()),
                false => Ok(()),
            }
        });
        assert_eq!(refused.unwrap_err().to_string(), "planted");
        let kept = kept.into_inner();
        let points = kept.iter().map(|lines| {
            let (by_rate, by_stored) = (lines.by_rate.len(), lines.by_stored.len());
            (by_rate, by_stored, lines.complete)
        });
        let mut expected: Vec<_> = (1..=QUARTERS.len()).map(|n| (n, 0, false)).collect();
        expected.extend([(5, 1, false), (5, 1, true)]);
        assert_eq!(points.collect::<Vec<_>>(), expected);
    }
}
