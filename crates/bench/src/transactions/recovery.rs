//! STRONG and WEAK recovery, as S-Store's figure 8: a chain of ten procedures fed while it is
//! logged, and then the time that the engine takes to open again from the log alone.

use super::{Failure, TransactionOptions, TransactionPart, chains};
use crate::figures::sheet::{Grid, Sheet};
use crate::figures::table::thousands;
use crate::harness::target::{Row, at_least, at_most};
use crate::streams::absorption::clear;
use std::time::Instant;

pub(super) const PART: TransactionPart = TransactionPart {
    name: "recovery",
    run,
    rows,
};

const STRONG: &str = "STRONG";
const WEAK: &str = "WEAK";
const RATE: &str = "chains/s";
const RECOVERY: &str = "opened again, s";
const LOG: &str = "log bytes a chain";

/// Measures, and prints the figures as they come.
fn run(options: &TransactionOptions) -> Result<Sheet, Failure> {
    let sheet = Sheet::new(
        "Transactions: the two recoveries",
        format!(
            "{} messages through a chain of ten procedures, each in its transaction, 500 in a body, durable; then the engine is opened again from the log, without a checkpoint.",
            thousands(options.batches)
        ),
    );
    let mut grid = Grid::new("recovery", [RATE, LOG, RECOVERY]);
    for recovery in [STRONG, WEAK] {
        let folder = options.folder("recovery")?;
        let engine = options.durable(&folder)?;
        chains::declare(&engine, &chains::by_procedures(10, recovery))?;
        let before = engine.metrics().memory.log_bytes;
        let took = chains::feed(&engine, options.batches)?;
        let log = engine.metrics().memory.log_bytes - before;
        let stored = engine.health().stored_statements;
        engine.shutdown()?;
        let start = Instant::now();
        let engine = options.durable(&folder)?;
        engine.quiesce(chains::PATIENCE)?;
        let opened = start.elapsed();
        let found = engine.health().stored_statements;
        if found != stored {
            return Err(format!("{stored} statements were stored, and {found} afterwards").into());
        }
        engine.shutdown()?;
        clear(&folder)?;
        grid.line(
            recovery,
            [
                Some(options.batches as f64 / took.as_secs_f64()),
                Some(log as f64 / options.batches as f64),
                Some(opened.as_secs_f64()),
            ],
        );
    }
    Ok(sheet.with([grid]))
}

/// The targets that these figures are held to.
fn rows(sheet: Option<&Sheet>) -> Vec<Row> {
    let figure = |line: &str, column: &str| sheet?.figure(line, column);
    let against = || Some(figure(WEAK, RATE)? / figure(STRONG, RATE)?);
    vec![
        at_least(
            "transactions: WEAK against STRONG, a chain of ten",
            1.5,
            against(),
            "×",
        ),
        at_most(
            "transactions: recovery of 5,000 batches, STRONG",
            1.0,
            figure(STRONG, RECOVERY),
            "s",
        ),
        at_most("the same, WEAK", 1.0, figure(WEAK, RECOVERY), "s"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_are_opened_again() {
        let folder = tempfile::tempdir().unwrap();
        let options = TransactionOptions::smallest(folder.path().to_owned());
        let sheet = run(&options).unwrap();
        assert!(sheet.figure(WEAK, RECOVERY).unwrap() > 0.0);
    }
}
