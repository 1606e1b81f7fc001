//! One call alone: handed in, answered, the next one; against the device's own sync, in turns.

use super::bank::{Bank, Spread};
use super::{Failure, TransactionOptions, TransactionPart};
use crate::figures::sheet::{Grid, Sheet};
use crate::harness::target::{Row, at_most};
use crate::streams::absorption::clear;
use crate::streams::figures::quantile_ms;
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::time::{Duration, Instant};

pub(super) const PART: TransactionPart = TransactionPart {
    name: "one-call",
    run,
    rows,
};

const SYNC: &str = "bytes written over and synced";
const CALL: &str = "a transfer";
const P50: &str = "p50, ms";
const P99: &str = "p99, ms";
/// The bytes that are written over: about those of a transfer's record.
const RECORD: [u8; 240] = [1; 240];
/// The bytes of the file that is written over.
const FILE_BYTES: usize = 4 << 20;

/// Measures, and prints the figures as they come.
fn run(options: &TransactionOptions) -> Result<Sheet, Failure> {
    let sheet = Sheet::new(
        "Transactions: one call alone",
        format!("{} of each, in turns, in the same folder.", options.calls),
    );
    let mut grid = Grid::new("what", [P50, P99]);
    for (words, mut times) in [SYNC, CALL].into_iter().zip(measured(options)?) {
        times.sort_unstable();
        let quantile = |percent| Some(quantile_ms(&times, percent));
        grid.line(words, [quantile(50), quantile(99)]);
    }
    Ok(sheet.with([grid]))
}

/// The times of the syncs and of the calls.
fn measured(options: &TransactionOptions) -> Result<[Vec<Duration>; 2], Failure> {
    let folder = options.folder("one-call")?;
    let engine = options.durable(&folder.join("engine"))?;
    let mut bank = Bank::found(engine, options.accounts, Spread::Uniform)?;
    let mut file = File::create(folder.join("written-over"))?;
    file.write_all(&vec![1; FILE_BYTES])?;
    file.sync_all()?;
    let mut times: [Vec<Duration>; 2] = Default::default();
    for number in 0..options.calls {
        let place = number * RECORD.len() % (FILE_BYTES - RECORD.len());
        file.seek(SeekFrom::Start(place as u64))?;
        let start = Instant::now();
        file.write_all(&RECORD)?;
        file.sync_data()?;
        times[0].push(start.elapsed());
        let start = Instant::now();
        bank.hand_in()?.wait()?;
        times[1].push(start.elapsed());
    }
    bank.engine.shutdown()?;
    clear(&folder)?;
    Ok(times)
}

/// The targets that these figures are held to.
fn rows(sheet: Option<&Sheet>) -> Vec<Row> {
    let against = |column: &str| {
        let of = |line: &str, column: &str| sheet?.figure(line, column);
        Some(of(CALL, column)? / of(SYNC, P50)?)
    };
    vec![
        at_most(
            "transactions: one call alone, p50 against the device's own sync",
            1.5,
            against(P50),
            "×",
        ),
        at_most(
            "the same, p99 against the sync's p50",
            5.0,
            against(P99),
            "×",
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_call_has_a_sync_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let options = TransactionOptions::smallest(folder.path().to_owned());
        let times = measured(&options).unwrap();
        assert!(times.iter().all(|times| times.len() == options.calls));
    }
}
