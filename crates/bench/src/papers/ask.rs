//! One-shot queries, prepared once and executed until enough time has passed.

use super::Failure;
use crate::figures::sheet::ms;
use somersault::{Engine, QueryOptions};
use std::time::{Duration, Instant};

/// Executions at least and at most, whatever the time.
const LEAST: usize = 3;
const MOST: usize = 2_000;
/// A limit that no query of a bench meets.
const LIMIT: Duration = Duration::from_secs(600);

/// The times of one query.
#[derive(Debug, Clone, Default)]
pub(super) struct Asked {
    pub(super) rows: u64,
    /// Ascending.
    times: Vec<Duration>,
}

impl Asked {
    /// The median in milliseconds.
    pub(super) fn p50(&self) -> f64 {
        self.times
            .get(self.times.len() / 2)
            .copied()
            .map_or(f64::NAN, ms)
    }
}

/// Executes a query again and again, until the time has passed and `goes_on` returns false.
pub(super) fn ask_while(
    engine: &Engine,
    text: &str,
    least: Duration,
    goes_on: impl Fn() -> bool,
) -> Result<Asked, Failure> {
    let options = QueryOptions {
        timeout: Some(LIMIT),
        ..QueryOptions::default()
    };
    let prepared = engine.query(text).options(&options).prepare(&[])?;
    let mut results = prepared.execute(&[])?;
    let mut asked = Asked::default();
    let start = Instant::now();
    let enough = |count: usize| count >= LEAST && (start.elapsed() >= least || count >= MOST);
    while !enough(asked.times.len()) || goes_on() {
        prepared.execute_into(&[], &mut results)?;
        asked.times.push(results.execution);
    }
    asked.rows = results.answer.len() as u64;
    asked.times.sort_unstable();
    Ok(asked)
}

/// Executes a query for a time.
pub(super) fn ask_for(engine: &Engine, text: &str, least: Duration) -> Result<Asked, Failure> {
    ask_while(engine, text, least, || false)
}
