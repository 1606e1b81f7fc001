//! The resident memory of what streams have absorbed: the growth of the process while timeless
//! statements come, less that of the dictionary and of the slices, for each statement that is new
//! in the store. Images are renewed in the background, so the memory is read when it has settled.

use super::{DurabilityOptions, DurabilityPart, Failure};
use crate::figures::sheet::{Grid, Sheet};
use crate::figures::table::thousands;
use crate::harness::machine::resident_bytes;
use crate::harness::target::{Row, at_most};
use crate::streams::stage::{Stage, configuration, network};
use somersault::Engine;
use std::time::{Duration, Instant};

pub(super) const PART: DurabilityPart = DurabilityPart {
    name: "resident",
    run,
    rows,
};

/// The event time that is generated at once.
const CHUNK_MS: i64 = 2_000;
/// The memory has settled when the store has not changed for this time, or after the other one.
const SETTLED: Duration = Duration::from_secs(2);
const MOST: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(200);
const LINE: &str = "absorbed";
const RESIDENT: &str = "resident, bytes a statement";

/// The memory at one moment.
#[derive(Clone, Copy)]
struct MemoryThen {
    stored: u64,
    resident: u64,
    dictionary: u64,
    slices: u64,
    store: u64,
}

impl MemoryThen {
    fn read(engine: &Engine) -> MemoryThen {
        let metrics = engine.metrics();
        MemoryThen {
            stored: metrics.stored_statements,
            resident: resident_bytes(),
            dictionary: metrics.memory.dictionary_bytes,
            slices: metrics.memory.slices_bytes,
            store: metrics.memory.store_bytes,
        }
    }

    /// The memory once the store has settled.
    fn settled(engine: &Engine) -> MemoryThen {
        let start = Instant::now();
        let mut last = MemoryThen::read(engine);
        let mut since = Instant::now();
        while since.elapsed() < SETTLED && start.elapsed() < MOST {
            std::thread::sleep(LOOK);
            let now = MemoryThen::read(engine);
            if now.store != last.store {
                since = Instant::now();
            }
            last = now;
        }
        last
    }
}

/// Measures, and prints the figures as they come.
fn run(options: &DurabilityOptions) -> Result<Sheet, Failure> {
    let network = network(options.stored_elsewhere, options.rate);
    let sheet = Sheet::new(
        "Durability: the memory of what streams have absorbed",
        format!(
            "At least {} statements absorbed over {} loaded ones, as fast as it goes, in memory; read when the store has settled.",
            thousands(options.absorbed),
            thousands(options.stored_elsewhere)
        ),
    );
    let mut stage = Stage::open(&network, configuration(options.workers))?;
    // Slices and tables reach their size first.
    let warm_up = stage.stretch(CHUNK_MS, 1.0);
    stage.play(warm_up, false)?;
    let before = MemoryThen::settled(&stage.engine);
    while stage.engine.health().stored_statements < before.stored + options.absorbed {
        let stretch = stage.stretch(CHUNK_MS, 1.0);
        stage.play(stretch, false)?;
    }
    let after = MemoryThen::settled(&stage.engine);
    stage.engine.shutdown()?;
    let mut grid = Grid::new(
        "statements",
        ["statements", "store, bytes a statement", RESIDENT],
    );
    let [statements, store, resident] = each(&before, &after);
    grid.line(LINE, [Some(statements), Some(store), Some(resident)]);
    Ok(sheet.with([grid]))
}

/// The statements between two moments, and for each of them the growth of the store, and that of
/// the process less dictionary and slices.
fn each(before: &MemoryThen, after: &MemoryThen) -> [f64; 3] {
    let grown = |of: fn(&MemoryThen) -> u64| of(after) as f64 - of(before) as f64;
    let statements = grown(|then| then.stored);
    let apart = grown(|then| then.dictionary) + grown(|then| then.slices);
    let resident = grown(|then| then.resident) - apart;
    [
        statements,
        grown(|then| then.store) / statements,
        resident / statements,
    ]
}

/// The targets that these figures are held to.
fn rows(sheet: Option<&Sheet>) -> Vec<Row> {
    vec![at_most(
        "durability: resident bytes an absorbed timeless statement, dictionary and slices apart",
        50.0,
        sheet.and_then(|sheet| sheet.figure(LINE, RESIDENT)),
        "bytes",
    )]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dictionary_and_slices_do_not_count() {
        let before = MemoryThen {
            stored: 100,
            resident: 1_000,
            dictionary: 300,
            slices: 50,
            store: 500,
        };
        let after = MemoryThen {
            stored: 110,
            resident: 2_000,
            dictionary: 700,
            slices: 150,
            store: 900,
        };
        assert_eq!(each(&before, &after), [10.0, 40.0, 50.0]);
    }
}
