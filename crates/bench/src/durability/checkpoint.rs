//! Delays while a checkpoint is written: L1–L3 together and the pushes of five streams, in real
//! time, without checkpoints and with one after the other, in turns.

use super::node::folder;
use super::{DurabilityOptions, DurabilityPart, Failure};
use crate::figures::sheet::{Grid, Sheet};
use crate::figures::table::thousands;
use crate::harness::checkpoints::beside_checkpoints;
use crate::harness::target::{Row, at_most};
use crate::streams::absorption::clear;
use crate::streams::figures::quantile_ms;
use crate::streams::measure::{Reader, named};
use crate::streams::stage::{Stage, Stretch, configuration, network};
use somersault::{CheckpointInfo, EngineConfig};
use std::time::Duration;

pub(super) const PART: DurabilityPart = DurabilityPart {
    name: "checkpoint",
    run,
    rows,
};

const QUERIES: [&str; 3] = ["L1", "L2", "L3"];
const WITHOUT: &str = "without";
const WHILE: &str = "while one is written";
const COLUMNS: [&str; 3] = [
    "L1–L3 execution p99, ms",
    "L1–L3 delay p99, ms",
    "pushes of 10 ms p99, ms",
];
/// Turns of each kind.
const TURNS: usize = 3;

/// The times of one setting.
#[derive(Default)]
struct Tails {
    executions: Vec<Duration>,
    delays: Vec<Duration>,
    pushes: Vec<Duration>,
}

/// Measures, and prints the figures as they come.
fn run(options: &DurabilityOptions) -> Result<Sheet, Failure> {
    let network = network(options.stored_elsewhere, options.rate);
    let sheet = Sheet::new(
        "Durability: while a checkpoint is written",
        format!(
            "L1–L3 together, five streams at {} tuples/s in real time with the log, over {} stored triples.",
            thousands(options.rate.into()),
            thousands(options.stored_elsewhere)
        ),
    );
    let folder = folder(options, "checkpoint")?;
    let config = EngineConfig {
        data: Some(folder.clone()),
        ..configuration(options.workers)
    };
    let mut stage = Stage::open(&network, config)?;
    let readers = named(&stage, &QUERIES)
        .iter()
        .map(|query| Reader::register(&stage.engine, query.name, &query.text))
        .collect::<Result<Vec<_>, _>>()?;
    let warm_up = stage.stretch(2_000, 1.0);
    turn(&stage, &readers, warm_up, &mut Tails::default())?;
    let (mut without, mut beside) = (Tails::default(), Tails::default());
    let mut taken = Vec::new();
    for _ in 0..TURNS {
        let stretch = stage.stretch(options.seconds * 1000, 1.0);
        turn(&stage, &readers, stretch, &mut without)?;
        let stretch = stage.stretch(options.seconds * 1000, 1.0);
        let ((), checkpoints) = beside_checkpoints(&stage.engine, Duration::ZERO, || {
            turn(&stage, &readers, stretch, &mut beside)
        })?;
        taken.extend(checkpoints);
    }
    stage.engine.shutdown()?;
    drop(stage);
    clear(&folder)?;
    let mut grid = Grid::new("checkpoints", COLUMNS);
    for (words, tails) in [(WITHOUT, &mut without), (WHILE, &mut beside)] {
        let p99 = |times: &mut Vec<Duration>| {
            times.sort_unstable();
            Some(quantile_ms(times, 99))
        };
        let times = [&mut tails.executions, &mut tails.delays, &mut tails.pushes];
        grid.line(words, times.map(p99));
    }
    Ok(sheet.with([grid, written(&taken)]))
}

/// What the checkpoints were like.
fn written(taken: &[CheckpointInfo]) -> Grid {
    let columns = [
        "number",
        "MB each, mean",
        "MB written each, mean",
        "s each, mean",
        "s at most",
    ];
    let mut grid = Grid::new("checkpoints", columns);
    let count = taken.len() as f64;
    let mean = |of: fn(&CheckpointInfo) -> f64| taken.iter().map(of).sum::<f64>() / count;
    let most = taken.iter().map(|one| one.seconds).fold(0.0, f64::max);
    let values = [
        count,
        mean(|one| one.bytes as f64 / 1e6),
        mean(|one| one.written_bytes as f64 / 1e6),
        mean(|one| one.seconds),
        most,
    ];
    grid.line("taken", values.map(Some));
    grid
}

/// Plays a stretch in real time, and adds the times of its firings and pushes.
fn turn(
    stage: &Stage<'_>,
    readers: &[Reader],
    stretch: Stretch,
    tails: &mut Tails,
) -> Result<(), Failure> {
    let from_ms = stretch.from_ms;
    let mut before = Duration::ZERO;
    stage.play_while(stretch, true, &mut |progress| {
        tails.pushes.push(progress.in_engine - before);
        before = progress.in_engine;
        true
    })?;
    for reader in readers {
        reader.read(|firing| {
            if firing.close_ms > from_ms {
                tails.executions.push(firing.execution);
                tails.delays.push(firing.delay);
            }
        })?;
    }
    Ok(())
}

/// The targets that these figures are held to.
fn rows(sheet: Option<&Sheet>) -> Vec<Row> {
    let row = |column: &str| {
        let of = |line| sheet?.figure(line, column);
        let against = || Some(of(WHILE)? / of(WITHOUT)?);
        let name = column.trim_end_matches(", ms");
        let what = format!("durability: {name} while a checkpoint is written, against without");
        at_most(&what, 1.2, against(), "×")
    };
    COLUMNS.map(row).into()
}
