//! Triggers against what one would do without them, as S-Store's figures 6 and 7: a chain inside
//! one transaction against the same stages in a table, in memory; and a chain of procedures against
//! a client that calls them one after another, durable.

use super::{Failure, TransactionOptions, TransactionPart, chains};
use crate::figures::sheet::{Grid, Sheet};
use crate::harness::target::{Row, at_least};
use crate::streams::absorption::clear;
use std::time::Duration;

pub(super) const PART: TransactionPart = TransactionPart {
    name: "triggers",
    run,
    rows,
};

const RATE: &str = "chains/s";
const TRIGGERS: &str = "9 triggers in one transaction, in memory";
const STEPS: &str = "the same by steps that fill and empty 9 graphs";
const PROCEDURES: &str = "10 procedures in a row, durable";
const CALLED: &str = "the same, called by a client one after another";
/// Chains that warm an engine up.
const WARM_UP: u64 = 500;

/// Measures, and prints the figures as they come.
fn run(options: &TransactionOptions) -> Result<Sheet, Failure> {
    let sheet = Sheet::new(
        "Transactions: chains of triggers",
        "Each message goes through the stages and is stored at the end of the chain. Messages come 500 in a body, until every round is committed.",
    );
    let mut grid = Grid::new("chain", [RATE]);
    for (words, texts) in [
        (TRIGGERS, chains::by_triggers(9)),
        (STEPS, chains::by_steps(9)),
    ] {
        let engine = options.in_memory()?;
        chains::declare(&engine, &texts)?;
        chains::feed(&engine, WARM_UP)?;
        grid.line(words, [Some(fed_again(&engine, options)?)]);
        engine.shutdown()?;
    }
    let folder = options.folder("triggers")?;
    let engine = options.durable(&folder)?;
    chains::declare(&engine, &chains::by_procedures(10, "STRONG"))?;
    chains::feed(&engine, WARM_UP)?;
    grid.line(PROCEDURES, [Some(fed_again(&engine, options)?)]);
    engine.shutdown()?;
    let folder = options.folder("triggers")?;
    let engine = options.durable(&folder)?;
    chains::declare(&engine, &chains::called(10))?;
    let time = Duration::from_secs(options.seconds);
    grid.line(CALLED, [Some(chains::call_in_order(&engine, 10, time)?)]);
    engine.shutdown()?;
    clear(&folder)?;
    Ok(sheet.with([grid]))
}

/// Chains a second, of as many as `recovery` logs.
fn fed_again(engine: &somersault::Engine, options: &TransactionOptions) -> Result<f64, Failure> {
    let took = chains::feed_from(engine, WARM_UP, options.batches)?;
    Ok(options.batches as f64 / took.as_secs_f64())
}

/// The targets that these figures are held to.
fn rows(sheet: Option<&Sheet>) -> Vec<Row> {
    let rate = |line: &str| sheet?.figure(line, RATE);
    let inside = || Some(rate(TRIGGERS)? / rate(STEPS)?);
    let across = || Some(rate(PROCEDURES)? / rate(CALLED)?);
    vec![
        at_least(
            "transactions: 9 triggers against 9 stages in tables",
            2.5,
            inside(),
            "×",
        ),
        at_least(
            "transactions: 10 procedures against a client that calls them",
            20.0,
            across(),
            "×",
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_chain_stores_each_value() {
        let folder = tempfile::tempdir().unwrap();
        let options = TransactionOptions::smallest(folder.path().to_owned());
        let chains_of = [
            chains::by_triggers(3),
            chains::by_steps(3),
            chains::by_procedures(3, "STRONG"),
        ];
        for texts in chains_of {
            let engine = options.in_memory().unwrap();
            chains::declare(&engine, &texts).unwrap();
            chains::feed(&engine, 20).unwrap();
            let text = "ASK { { SELECT (COUNT(*) AS ?n) { ?x ?p ?v } } FILTER(?n = 20) }";
            let answer = engine.query(text).run().unwrap();
            assert_eq!(answer.answer.boolean(), Some(true), "{texts:?}");
        }
        let engine = options.in_memory().unwrap();
        chains::declare(&engine, &chains::called(3)).unwrap();
        assert!(chains::call_in_order(&engine, 3, Duration::from_millis(20)).unwrap() > 0.0);
    }
}
