//! Transfers between accounts, called in frames: uniform and zipfian draws; bytes of log for each;
//! the same procedure in PostgreSQL and SQLite.

use super::bank::{Bank, Spread};
use super::peers::{self, Peer};
use super::{Failure, TransactionOptions, TransactionPart};
use crate::figures::sheet::{Grid, Sheet};
use crate::figures::table::thousands;
use crate::harness::target::{Row, at_least, at_most};
use crate::streams::absorption::clear;
use somersault_server::{Running, ServerConfig};
use std::net::TcpListener;
use std::time::Duration;

pub(super) const PART: TransactionPart = TransactionPart {
    name: "transfers",
    run,
    rows,
};

const UNIFORM: &str = "uniform, transfers/s";
const ZIPFIAN: &str = "zipfian, transfers/s";
const HTTP: &str = "uniform, over HTTP, transfers/s";
const LOG: &str = "uniform, log bytes a transfer";
const RATE: &str = "transfers/s";
/// The calls in a frame, and the least rate for them.
const TARGETS: [(usize, f64); 4] = [
    (8_000, 250_000.0),
    (1_000, 80_000.0),
    (100, 45_000.0),
    (10, 10_000.0),
];

/// Measures, and prints the figures as they come.
fn run(options: &TransactionOptions) -> Result<Sheet, Failure> {
    let sheet = Sheet::new(
        "Transactions: transfers between accounts",
        format!(
            "{} accounts; a transfer reads both balances and writes both, or aborts if there is not enough. One caller hands in a frame of calls and waits until all are answered, each durable; over HTTP, a frame is the lines of one body. PostgreSQL runs a PL/pgSQL function with {} clients, SQLite (WAL, synchronous=FULL) a transaction at a time.",
            thousands(options.accounts.into()),
            options.clients
        ),
    );
    let mut ours = Grid::new("calls in a frame", [UNIFORM, ZIPFIAN, HTTP, LOG]);
    for frame in &options.frames {
        let uniform = of(options, *frame, Spread::Uniform)?;
        let zipfian = of(options, *frame, Spread::Zipfian)?;
        ours.line(
            line(*frame),
            [
                Some(uniform.rate),
                Some(zipfian.rate),
                Some(over_http(options, *frame)?),
                Some(uniform.log),
            ],
        );
    }
    let mut beside = Grid::new("peer", [RATE]);
    for peer in [Peer::PostgreSql, Peer::Sqlite] {
        match peers::measure(peer, "transfers", options) {
            Ok(measured) => beside.line(measured.version, [Some(measured.rate)]),
            Err(reason) => beside.line(format!("{}: {reason}", peer.name()), [None]),
        }
    }
    Ok(sheet.with([ours, beside]))
}

struct Figures {
    rate: f64,
    log: f64,
}

fn of(options: &TransactionOptions, frame: usize, spread: Spread) -> Result<Figures, Failure> {
    let folder = options.folder("transfers")?;
    let mut bank = Bank::found(options.durable(&folder)?, options.accounts, spread)?;
    bank.call_in_frames(frame, Duration::from_millis(500))?;
    let log_before = bank.engine.metrics().memory.log_bytes;
    let called = bank.call_in_frames(frame, Duration::from_secs(options.seconds))?;
    let log_bytes = bank.engine.metrics().memory.log_bytes - log_before;
    bank.audit()?;
    bank.engine.shutdown()?;
    clear(&folder)?;
    Ok(Figures {
        rate: called.rate(),
        log: log_bytes as f64 / called.committed as f64,
    })
}

/// Transfers a second of one client that sends a frame as the lines of a body.
fn over_http(options: &TransactionOptions, frame: usize) -> Result<f64, Failure> {
    let folder = options.folder("transfers")?;
    let engine = options.durable(&folder)?;
    let mut bank = Bank::found(engine.clone(), options.accounts, Spread::Uniform)?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let running = Running::start(engine, listener, ServerConfig::default())?;
    let time = Duration::from_secs(options.seconds);
    let called = bank.call_over_http(&running.url(), frame, time)?;
    bank.audit()?;
    if called.aborted > 0 {
        return Err(format!("{} calls did not commit", called.aborted).into());
    }
    running.stop()?;
    bank.engine.shutdown()?;
    clear(&folder)?;
    Ok(called.rate())
}

fn line(frame: usize) -> String {
    thousands(frame as u64)
}

/// The targets that these figures are held to.
fn rows(sheet: Option<&Sheet>) -> Vec<Row> {
    let figure = |frame: usize, column| sheet?.figure(&line(frame), column);
    let mut rows: Vec<Row> = (TARGETS.into_iter())
        .map(|(frame, least)| {
            let what = format!("transactions: transfers in frames of {}", line(frame));
            at_least(&what, least, figure(frame, UNIFORM), "a second")
        })
        .collect();
    let against = |frame| Some(figure(frame, ZIPFIAN)? / figure(frame, UNIFORM)?);
    rows.extend(TARGETS.into_iter().map(|(frame, _)| {
        let what = format!(
            "the same, zipfian against uniform, frames of {}",
            line(frame)
        );
        at_least(&what, 0.8, against(frame), "×")
    }));
    rows.push(at_most(
        "transactions: log of a transfer, frames of 1,000",
        150.0,
        figure(1_000, LOG),
        "bytes",
    ));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_money_is_made_and_each_call_is_answered() {
        let folder = tempfile::tempdir().unwrap();
        let options = TransactionOptions::smallest(folder.path().to_owned());
        let engine = options.in_memory().unwrap();
        let mut bank = Bank::found(engine, options.accounts, Spread::Zipfian).unwrap();
        let called = bank.call_in_frames(7, Duration::from_millis(30)).unwrap();
        assert!(called.committed > 0 && called.committed.is_multiple_of(7));
        assert_eq!(called.aborted, 0);
        bank.audit().unwrap();
    }

    #[test]
    fn calls_over_http_are_answered_a_line_each() {
        let folder = tempfile::tempdir().unwrap();
        let options = TransactionOptions::smallest(folder.path().to_owned());
        assert!(over_http(&options, 10).unwrap() > 0.0);
    }
}
