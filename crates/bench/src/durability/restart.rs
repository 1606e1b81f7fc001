//! A restart after `kill -9`: the streams are played for some time over what is stored, nine
//! queries are registered, a checkpoint is taken some time before the end (`--behind`), the process
//! is killed, and started again on its folder. The page cache of the system survives the process,
//! so reading is not from the device alone.

use super::node::{
    Node, checkpoints_in_words, folder, folder_bytes, kill_and_restart, play_with_checkpoints,
};
use super::orders::Order;
use super::{DurabilityOptions, DurabilityPart, Failure};
use crate::figures::sheet::{Grid, Sheet};
use crate::figures::table::thousands;
use crate::harness::target::{Row, at_most};
use crate::streams::absorption::clear;

pub(super) const PART: DurabilityPart = DurabilityPart {
    name: "restart",
    run,
    rows,
};

const CHECKPOINT: &str = "with a checkpoint";
const LOG_ALONE: &str = "from the log alone";
const STORED: &str = "stored, million";
const PLAYED: &str = "event time, s";
const FIRST: &str = "first answer, s";
const AS_BEFORE: &str = "as before, s";
const MEMORY: &str = "memory after against before, ×";
/// So many million stored statements are few.
const FEW_MILLION: f64 = 30.0;
/// The times until the first answer and until everything is as before, with few and with many.
const FEW_S: (f64, f64) = (5.0, 5.0);
const MANY_S: (f64, f64) = (10.0, 15.0);
const DIFFERENT: &str = "states that differ";

/// Measures, and prints the figures as they come.
fn run(options: &DurabilityOptions) -> Result<Sheet, Failure> {
    let sheet = Sheet::new(
        "Durability: a restart",
        format!(
            "{} triples stored at first, five streams at {} tuples/s of event time, nine queries; {}. The first answer is that of a one-shot query. Everything is as before once its state equals the one before the kill (statements stored, rows of S1–S6, statements and watermark of each stream, newest close of each query) and one batch more has been taken and answered. Times are from the start of the process, without that in which it makes the network for its queries.",
            thousands(options.stored),
            thousands(options.rate.into()),
            checkpoints_in_words(options)
        ),
    );
    let columns = [
        STORED,
        PLAYED,
        "folder, MB",
        FIRST,
        AS_BEFORE,
        "as the engine estimated, s",
        MEMORY,
        DIFFERENT,
    ];
    let mut grid = Grid::new("restart", columns);
    grid.line(CHECKPOINT, of(options, true)?);
    if options.log_alone {
        let alone = DurabilityOptions {
            automatic: false,
            ..options.clone()
        };
        grid.line(LOG_ALONE, of(&alone, false)?);
    }
    Ok(sheet.with([grid]))
}

fn of(options: &DurabilityOptions, checkpoint: bool) -> Result<[Option<f64>; 8], Failure> {
    let folder = folder(options, "restart")?;
    let mut node = Node::start(options, options.stored, Some(&folder))?;
    node.order(&Order::Begin { passing: false })?;
    let played_ms = options.played * 1000;
    match checkpoint {
        true => play_with_checkpoints(&mut node, options, played_ms)?,
        false => _ = node.play(played_ms, false, false)?,
    }
    let stored = node.tell()?.state.stored;
    let bytes = folder_bytes(&folder)?;
    let (restarted, node) = kill_and_restart(node, options, options.stored, &folder)?;
    node.kill()?;
    clear(&folder)?;
    Ok([
        Some(stored as f64 / 1e6),
        Some(options.played as f64),
        Some(bytes as f64 / 1e6),
        Some(restarted.first_s),
        Some(restarted.as_before_s),
        restarted.estimate_s,
        Some(restarted.memory),
        Some(f64::from(u8::from(!restarted.same))),
    ])
}

/// The targets that these figures are held to.
fn rows(sheet: Option<&Sheet>) -> Vec<Row> {
    let figure = |column: &str| sheet?.figure(CHECKPOINT, column);
    let of = match (figure(STORED), figure(PLAYED)) {
        (Some(stored), Some(played)) => format!(" ({stored:.0}M stored, {played:.0} s of streams)"),
        _ => String::new(),
    };
    let row = |what: &str, most: f64, column: &str, unit: &str| {
        let what = format!("durability: {what}{of}");
        at_most(&what, most, figure(column), unit)
    };
    let (first, as_before) = match figure(STORED) {
        Some(stored) if stored <= FEW_MILLION => FEW_S,
        _ => MANY_S,
    };
    vec![
        row("restart, first exact one-shot answer", first, FIRST, "s"),
        row("restart, everything as before", as_before, AS_BEFORE, "s"),
        row("memory after the restart against before", 1.1, MEMORY, "×"),
        row("restarts with another state", 0.0, DIFFERENT, ""),
    ]
}
