//! Absorption with durability: five streams as text, as fast as they go, in memory, with the log,
//! and with the log and checkpoints one after the other; and the bytes that the process has
//! written for each byte of log. The checkpoints trim the log, so its bytes a tuple are those of
//! the setting before.

use super::node::folder;
use super::{DurabilityOptions, DurabilityPart, Failure};
use crate::figures::sheet::{Grid, Sheet};
use crate::harness::checkpoints::beside_checkpoints;
use crate::harness::machine::written_bytes;
use crate::harness::target::{Row, at_least, at_most};
use crate::streams::absorption::{Way, clear, take, texts};
use crate::streams::figures::AbsorptionRun;
use crate::streams::stage::{Stage, configuration, network};
use somersault::EngineConfig;
use somersault_generate::SocialNetwork;
use std::time::Duration;

pub(super) const PART: DurabilityPart = DurabilityPart {
    name: "absorption",
    run,
    rows,
};

const MEMORY: &str = "in memory";
const LOG: &str = "with log";
const CHECKPOINTS: &str = "with log and checkpoints";
const TUPLES: &str = "tuples/s";
const WRITTEN: &str = "written a byte of log";
/// The part of the streams that is absorbed before the measurement.
const WARM_UP_MS: i64 = 1_000;
/// The time between the end of a checkpoint and the begin of the next.
const PAUSE: Duration = Duration::from_secs(1);

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
        "checkpoints",
    ];
    let mut grid = Grid::new("setting", columns);
    let mut log_bytes = None;
    for setting in [MEMORY, LOG, CHECKPOINTS] {
        let mut taken = of_setting(&network, options, setting)?;
        log_bytes = log_bytes.or(taken.log_bytes);
        taken.log_bytes = log_bytes;
        grid.line(setting, taken.figures());
    }
    Ok(sheet.with([grid]))
}

/// What one setting took.
struct TakenTuples {
    run: AbsorptionRun,
    /// Bytes of log a tuple, and of storage.
    log_bytes: Option<f64>,
    written_bytes: Option<f64>,
    checkpoints: usize,
}

impl TakenTuples {
    fn figures(&self) -> [Option<f64>; 5] {
        [
            Some(self.run.tuples_per_second()),
            Some(self.run.all_us_per_tuple()),
            self.log_bytes,
            self.log_bytes
                .zip(self.written_bytes)
                .map(|(log, written)| written / log),
            Some(self.checkpoints as f64),
        ]
    }
}

fn of_setting(
    network: &SocialNetwork,
    options: &DurabilityOptions,
    setting: &str,
) -> Result<TakenTuples, Failure> {
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
    if setting == CHECKPOINTS {
        // The first holds all that is stored; the ones beside the streams hold what they change.
        stage.engine.checkpoint()?;
    }
    let log_bytes = || stage.engine.metrics().memory.log_bytes;
    let (log_before, written_before) = (log_bytes(), written_bytes());
    let take = || take(&stage.engine, &batches, way);
    let (run, checkpoints) = match setting {
        CHECKPOINTS => beside_checkpoints(&stage.engine, PAUSE, take)?,
        _ => (take()?, Vec::new()),
    };
    let a_tuple = |bytes: u64| bytes as f64 / run.tuples as f64;
    let written = written_before.zip(written_bytes());
    let taken = TakenTuples {
        log_bytes: (setting == LOG).then(|| a_tuple(log_bytes().saturating_sub(log_before))),
        written_bytes: written
            .filter(|_| log)
            .map(|(before, after)| a_tuple(after - before)),
        checkpoints: checkpoints.len(),
        run,
    };
    stage.engine.shutdown()?;
    drop(stage);
    clear(&folder)?;
    Ok(taken)
}

/// The targets that these figures are held to.
fn rows(sheet: Option<&Sheet>) -> Vec<Row> {
    let figure = |line: &str, column: &str| sheet?.figure(line, column);
    vec![
        at_least(
            "durability: absorption with log and checkpoints",
            900_000.0,
            figure(CHECKPOINTS, TUPLES),
            "tuples/s",
        ),
        at_most(
            "durability: bytes written a byte of log, with checkpoints",
            4.0,
            figure(CHECKPOINTS, WRITTEN),
            "",
        ),
    ]
}
