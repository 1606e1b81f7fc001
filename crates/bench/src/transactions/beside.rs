//! Transfers beside the five streams: what they cost the continuous queries, and what the streams
//! cost them. Everything is durable.

use super::bank::{Bank, Called, Spread};
use super::{Failure, TransactionOptions, TransactionPart};
use crate::figures::sheet::{Grid, Sheet};
use crate::figures::table::thousands;
use crate::harness::target::{Row, at_least, at_most};
use crate::streams::absorption::clear;
use crate::streams::measure::{Play, measure, named};
use crate::streams::stage::{Stage, network};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

pub(super) const PART: TransactionPart = TransactionPart {
    name: "beside",
    run,
    rows,
};

const QUERIES: [&str; 6] = ["L1", "L2", "L3", "L4", "L5", "L6"];
const HELD: [&str; 3] = ["L1", "L2", "L3"];
const WITHOUT: &str = "execution p50 without transfers, ms";
const WITH: &str = "beside transfers, ms";
const RATE: &str = "transfers/s";
const ALONE: &str = "transfers alone";
const BESIDE: &str = "transfers beside the streams";
/// The time between two frames of transfers.
const FRAME: Duration = Duration::from_millis(5);

/// Measures, and prints the figures as they come.
fn run(options: &TransactionOptions) -> Result<Sheet, Failure> {
    let sheet = Sheet::new(
        "Transactions: beside the streams",
        format!(
            "L1–L6 together, five streams at {} tuples/s in real time over {} stored triples, beside {} transfers a second in frames of {} ms; all durable.",
            thousands(options.rate.into()),
            thousands(options.stored),
            thousands(options.transfers),
            FRAME.as_millis()
        ),
    );
    let folder = options.folder("beside")?;
    let network = network(options.stored, options.rate);
    let engine = options.durable(&folder)?;
    let mut stage = Stage::fill(&engine, &network, 100)?;
    let mut bank = Bank::found(engine, options.accounts, Spread::Uniform)?;
    let warm_up = stage.stretch(2_000, 1.0);
    stage.play(warm_up, true)?;
    let time = Duration::from_secs(options.seconds);
    let stop = AtomicBool::new(false);
    let alone = std::thread::scope(|scope| {
        let offered = scope.spawn(|| offer(&mut bank, options.transfers, &stop));
        std::thread::sleep(time);
        stop.store(true, Ordering::Relaxed);
        offered
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })?;
    let queries = named(&stage, &QUERIES);
    let how = Play {
        duration_ms: i64::try_from(options.seconds)? * 1_000,
        times: 1.0,
        paced: true,
    };
    let without = measure(&mut stage, &queries, how)?;
    stop.store(false, Ordering::Relaxed);
    let (with, beside) = std::thread::scope(|scope| {
        let offered = scope.spawn(|| offer(&mut bank, options.transfers, &stop));
        let with = measure(&mut stage, &queries, how);
        stop.store(true, Ordering::Relaxed);
        let beside = offered
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Ok::<_, Failure>((with?, beside?))
    })?;
    bank.audit()?;
    let mut streams = Grid::new("query", [WITHOUT, WITH]);
    for (before, after) in without.queries.iter().zip(&with.queries) {
        let times = [before.execution_p50_ms, after.execution_p50_ms];
        streams.line(before.query.clone(), times.map(Some));
    }
    let mut transfers = Grid::new("setting", [RATE]);
    transfers.line(ALONE, [Some(alone.rate())]);
    transfers.line(BESIDE, [Some(beside.rate())]);
    bank.engine.shutdown()?;
    clear(&folder)?;
    Ok(sheet.with([streams, transfers]))
}

/// Hands in a frame of transfers at a time, so that so many a second are offered; a frame waits
/// until the one before is answered.
fn offer(bank: &mut Bank, rate: u64, stop: &AtomicBool) -> Result<Called, Failure> {
    let start = Instant::now();
    let mut called = Called::default();
    let mut handed_in = 0;
    while !stop.load(Ordering::Relaxed) {
        let due = (start.elapsed().as_secs_f64() * rate as f64) as u64;
        let mut pending = Vec::new();
        while handed_in < due {
            pending.push(bank.hand_in()?);
            handed_in += 1;
        }
        for call in pending {
            called.add(&call.wait()?);
        }
        std::thread::sleep(FRAME);
    }
    called.took = start.elapsed();
    Ok(called)
}

/// The targets that these figures are held to.
fn rows(sheet: Option<&Sheet>) -> Vec<Row> {
    let mut rows: Vec<Row> = (HELD.into_iter())
        .map(|query| {
            let of = |column| sheet?.figure(query, column);
            let against = || Some(of(WITH)? / of(WITHOUT)?);
            let what =
                format!("transactions: {query} beside transfers, execution p50 against without");
            at_most(&what, 1.3, against(), "×")
        })
        .collect();
    let rate = |line: &str| sheet?.figure(line, RATE);
    let against = || Some(rate(BESIDE)? / rate(ALONE)?);
    rows.push(at_least(
        "transactions: transfers beside the streams against alone",
        0.8,
        against(),
        "×",
    ));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transfers_are_offered_at_a_rate() {
        let folder = tempfile::tempdir().unwrap();
        let options = TransactionOptions::smallest(folder.path().to_owned());
        let engine = options.in_memory().unwrap();
        let mut bank = Bank::found(engine, options.accounts, Spread::Uniform).unwrap();
        let stop = AtomicBool::new(false);
        let called = std::thread::scope(|scope| {
            let offered = scope.spawn(|| offer(&mut bank, options.transfers, &stop));
            std::thread::sleep(Duration::from_millis(200));
            stop.store(true, Ordering::Relaxed);
            offered.join().unwrap()
        });
        assert!(called.unwrap().committed > 0);
        bank.audit().unwrap();
    }
}
