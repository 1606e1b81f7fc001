//! What should stay flat: group (I), L1–L3, as the streams go faster, as more is stored, and as the streams have run for longer.

use super::figures::{Lines, Point};
use super::measure::{Play, heading, measure, named, print_figures};
use super::stage::{Stage, configuration, network};
use super::threads::Apart;
use super::{Failure, Options};
use crate::machine::Machine;
use crate::table;

/// The queries of group (I): each reads little of its windows, whatever they hold.
const GROUP: [&str; 3] = ["L1", "L2", "L3"];
/// Quarters of the paper's rate.
const QUARTERS: [u32; 5] = [1, 2, 4, 8, 16];
/// What is stored along the line by stored triples, as far as it goes.
const STORED: [u64; 3] = [1_000_000, 10_000_000, 100_000_000];
/// By how much slower the streams run while they grow old, so that what an hour of them leaves stored fits into memory.
const AGEING: u32 = 20;
/// What is stored before streams grow old: little, since what they leave comes to it.
const STORED_BEFORE: u64 = 1_000_000;
/// How much event time is made at once of what is played without being measured.
const CHUNK_MS: i64 = 5_000;

/// Measures the three lines, and prints as it goes.
pub(super) fn run(options: &Options) -> Result<Lines, Failure> {
    let network = network(options.stored, options.rate);
    let mut stage = Stage::open(&network, configuration(options.workers))?;
    let apart = Apart::keep();
    let mut lines = Lines {
        machine: Machine::read(),
        stored: stage.stored.clone(),
        ..Lines::default()
    };
    for quarters in QUARTERS {
        let rate = options.rate * quarters / 4;
        println!("{} tuples/s", table::thousands(rate.into()));
        let times = f64::from(quarters) / 4.0;
        let point = point(&mut stage, options, u64::from(rate), times)?;
        lines.by_rate.push(point);
    }
    stage.engine.shutdown()?;
    drop((stage, apart));
    let already = lines.stored.triples;
    for stored in STORED {
        // Where about as much is stored already, it is that which has been measured at the network's own rate.
        if stored > options.largest || stored * 2 > already {
            continue;
        }
        lines.by_stored.push(with_stored(options, stored)?);
    }
    let at_rate = (lines.by_rate.iter()).find(|point| point.at == u64::from(options.rate));
    lines.by_stored.extend(at_rate.map(|point| Point {
        at: already,
        ..point.clone()
    }));
    lines.by_age = by_age(options)?;
    Ok(lines)
}

fn point(stage: &mut Stage<'_>, options: &Options, at: u64, times: f64) -> Result<Point, Failure> {
    let mut point = Point {
        at,
        ..Point::default()
    };
    let how = Play {
        duration_ms: options.seconds * 1000,
        times,
        paced: true,
    };
    heading();
    for query in GROUP {
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

fn with_stored(options: &Options, stored: u64) -> Result<Point, Failure> {
    println!("about {} stored triples", table::thousands(stored));
    let network = network(stored, options.rate);
    let mut stage = Stage::open(&network, configuration(options.workers))?;
    let apart = Apart::keep();
    let at = stage.stored.triples;
    let point = point(&mut stage, options, at, 1.0)?;
    stage.engine.shutdown()?;
    drop(apart);
    Ok(point)
}

/// The streams run until they are so old, slowly in event time but as fast as they are taken by the clock; what is measured
/// then is the streams at their full rate, in real time. So windows hold the same at each age, and what has come and gone
/// by then is what comes and goes with time: batches, slices, windows and snapshots, each as many as at the full rate.
fn by_age(options: &Options) -> Result<Vec<Point>, Failure> {
    let rate = options.rate / AGEING;
    println!(
        "streams that grow old at {} tuples/s",
        table::thousands(rate.into())
    );
    let network = network(STORED_BEFORE.min(options.stored), rate);
    let mut stage = Stage::open(&network, configuration(options.workers))?;
    let apart = Apart::keep();
    let mut points = Vec::new();
    for &minutes in &options.minutes {
        while stage.next_ms() < minutes * 60_000 {
            let stretch = stage.stretch(CHUNK_MS, 1.0);
            stage.play(stretch, false)?;
        }
        println!("{minutes} minutes old");
        let age = (minutes * 60) as u64;
        points.push(point(&mut stage, options, age, f64::from(AGEING))?);
    }
    stage.engine.shutdown()?;
    drop(apart);
    Ok(points)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_measured_at_each_age() {
        let options = Options {
            minutes: vec![1, 2],
            ..Options::smallest()
        };
        let points = by_age(&options).unwrap();
        let ages: Vec<u64> = points.iter().map(|point| point.at).collect();
        assert_eq!(ages, [60, 120]);
        let firings = |point: &Point| point.queries.iter().map(|query| query.firings).sum();
        let firings: Vec<usize> = points.iter().map(firings).collect();
        assert!(firings[0] > 0 && firings[0] == firings[1], "{firings:?}");
    }
}
