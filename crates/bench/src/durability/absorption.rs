//! Absorption with durability: five streams as text, as fast as they go, in memory and with the
//! log; and the bytes that the process has written for each byte of log.

use super::node::folder;
use super::{DurabilityOptions, DurabilityPart, Failure};
use crate::figures::sheet::{Grid, Sheet};
use crate::harness::machine::written_bytes;
use crate::harness::target::{Row, at_least, at_most};
use crate::streams::absorption::{Way, clear, take, texts};
use crate::streams::stage::{Stage, configuration, network};
use somersault::EngineConfig;
use somersault_generate::SocialNetwork;

pub(super) const PART: DurabilityPart = DurabilityPart {
    name: "absorption",
    run,
    rows,
};

const MEMORY: &str = "in memory";
const LOG: &str = "with log";
const TUPLES: &str = "tuples/s";
const WRITTEN: &str = "written a byte of log";
/// The part of the streams that is absorbed before the measurement.
const WARM_UP_MS: i64 = 1_000;

/// Measures, and prints the figures as they come.
fn run(options: &DurabilityOptions) -> Result<Sheet, Failure> {
    let network = network(options.stored_elsewhere, options.rate);
    let sheet = Sheet::new(
        "Durability: absorption",
        "Five streams as text from two threads, as fast as they go, until everything is visible; no queries.",
    );
    let columns = [
        TUPLES,
        "µs of processor time a tuple",
        "log, bytes a tuple",
        WRITTEN,
    ];
    let mut grid = Grid::new("setting", columns);
    for setting in [MEMORY, LOG] {
        grid.line(setting, of_setting(&network, options, setting)?);
    }
    Ok(sheet.with([grid]))
}

fn of_setting(
    network: &SocialNetwork,
    options: &DurabilityOptions,
    setting: &str,
) -> Result<[Option<f64>; 4], Failure> {
    let log = setting != MEMORY;
    let folder = folder(options, "absorption")?;
    let config = EngineConfig {
        data: log.then(|| folder.clone()),
        ..configuration(options.workers)
    };
    let mut stage = Stage::open(network, config)?;
    let way = Way {
        log,
        callers: 2,
        one_core: false,
    };
    let warm_up = texts(&stage.stretch(WARM_UP_MS, 1.0));
    take(&stage.engine, &warm_up, way)?;
    let batches = texts(&stage.stretch(options.seconds * 1000, 1.0));
    let log_bytes = || stage.engine.metrics().memory.log_bytes;
    let (log_before, written_before) = (log_bytes(), written_bytes());
    let run = take(&stage.engine, &batches, way)?;
    let logged = log_bytes().saturating_sub(log_before);
    let written = written_before.zip(written_bytes());
    let written = written.map(|(before, after)| (after - before) as f64 / logged as f64);
    let figures = [
        Some(run.tuples_per_second()),
        Some(run.all_us_per_tuple()),
        log.then_some(logged as f64 / run.tuples as f64),
        written.filter(|_| log),
    ];
    stage.engine.shutdown()?;
    drop(stage);
    clear(&folder)?;
    Ok(figures)
}

/// The targets that these figures are held to.
fn rows(sheet: Option<&Sheet>) -> Vec<Row> {
    let figure = |line: &str, column: &str| sheet?.figure(line, column);
    vec![
        at_least(
            "durability: absorption with log",
            900_000.0,
            figure(LOG, TUPLES),
            "tuples/s",
        ),
        at_most(
            "durability: bytes written a byte of log",
            4.0,
            figure(LOG, WRITTEN),
            "",
        ),
    ]
}
