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
/// By how much slower the streams run that grow old, so that an hour of them fits into memory.
const AGEING: u32 = 10;
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
    for stored in STORED
        .into_iter()
        .filter(|stored| *stored <= options.largest)
    {
        lines.by_stored.push(with_stored(options, stored)?);
    }
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
        let (figures, behind) = measure(stage, &named(stage, &[query]), how)?;
        figures.iter().for_each(print_figures);
        point.queries.extend(figures);
        point.behind_ms = point.behind_ms.max(behind.as_millis() as u64);
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

/// The streams run as fast as they are taken until they are so old, and in real time while that is measured.
fn by_age(options: &Options) -> Result<Vec<Point>, Failure> {
    let rate = options.rate / AGEING;
    println!(
        "streams of {} tuples/s that grow old",
        table::thousands(rate.into())
    );
    let network = network(1_000_000, rate);
    let mut stage = Stage::open(&network, configuration(options.workers))?;
    let apart = Apart::keep();
    let mut points = Vec::new();
    for &minutes in &options.minutes {
        while stage.next_ms() < minutes * 60_000 {
            let stretch = stage.stretch(CHUNK_MS, 1.0);
            stage.play(stretch, false)?;
        }
        println!("{minutes} minutes old");
        points.push(point(&mut stage, options, (minutes * 60) as u64, 1.0)?);
    }
    stage.engine.shutdown()?;
    drop(apart);
    Ok(points)
}
