//! One-shot queries while all five streams run, against standing still: in turns, so that the
//! machine's other work and the growth of the stored graph affect both.

use super::figures::{OneShot, OneShotQuery, Stolen};
use super::stage::{Stage, Stretch, configuration, network, play};
use super::{Failure, StreamsOptions};
use crate::figures::results::quantiles_us;
use crate::figures::table;
use crate::harness::machine::Machine;
use crate::parties::ours::read_all;
use somersault::oxrdf::NamedNode;
use somersault::{Engine, QueryOptions};
use somersault_generate::{NamedQuery, STORED_GRAPH};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The most that is stored: more makes answers longer and tells nothing else.
pub(crate) const MOST_STORED: u64 = 10_000_000;
/// The length of a turn, and the number of turns of each kind.
pub(crate) const TURN_MS: i64 = 2_000;
pub(crate) const TURNS: usize = 5;

/// Measures, and prints the figures as they come.
pub(super) fn run(options: &StreamsOptions) -> Result<OneShot, Failure> {
    let network = network(options.stored.min(MOST_STORED), options.rate);
    let mut stage = Stage::open(&network, configuration(options.workers))?;
    let queries = network.one_shot_queries();
    let stolen = Stolen::from_here();
    let mut asked: Vec<QueryTimes> = queries.iter().map(|_| QueryTimes::default()).collect();
    let warm_up = stage.stretch(TURN_MS, 1.0);
    stage.play(warm_up, true)?;
    // The first of each plans and is not counted.
    ask_in_turn(&stage.engine, &queries, &mut asked, |asked| {
        asked > queries.len()
    })?;
    if asked.iter().all(|asked| asked.rows == 0) {
        return Err("no query has an answer; store more (--stored)".into());
    }
    let mut still: Vec<QueryTimes> = queries.iter().map(|_| QueryTimes::default()).collect();
    let mut running: Vec<QueryTimes> = still.clone();
    let mut behind = Duration::ZERO;
    for _ in 0..TURNS {
        let stretch = made_apart(&mut stage)?;
        let start = Instant::now();
        let turn = Duration::from_millis(TURN_MS.unsigned_abs());
        ask_in_turn(&stage.engine, &queries, &mut still, |_| {
            start.elapsed() >= turn
        })?;
        behind = behind.max(beside(&stage.engine, stretch, &queries, &mut running)?);
    }
    let mut figures = OneShot {
        machine: Machine::read(),
        stored: stage.stored.clone(),
        rate: options.rate,
        behind_ms: behind.as_millis() as u64,
        stolen_ms: stolen.ms(),
        queries: Vec::new(),
    };
    for ((query, still), running) in queries.iter().zip(&mut still).zip(&mut running) {
        let row = row(query.name, still, running)?;
        println!(
            "{}: {} standing still, {} while the streams run: {}",
            row.query,
            table::time(row.still_p50_us),
            table::time(row.running_p50_us),
            table::ratio(row.running_p50_us / row.still_p50_us)
        );
        figures.queries.push(row);
    }
    stage.engine.shutdown()?;
    Ok(figures)
}

/// The next stretch, made by a thread of its own. Otherwise the memory that the player frees would
/// return to the pool of the querying thread, which would then sort tens of thousands of pieces
/// within the time of a query.
pub(crate) fn made_apart(stage: &mut Stage<'_>) -> Result<Stretch, Failure> {
    std::thread::scope(|scope| {
        let made = scope.spawn(|| stage.stretch(TURN_MS, 1.0)).join();
        made.map_err(|_| "the generator panicked".into())
    })
}

/// The times of one query, and the rows of its last answer.
#[derive(Debug, Clone, Default)]
pub(crate) struct QueryTimes {
    pub(crate) rows: u64,
    pub(crate) times: Vec<Duration>,
}

fn row(
    name: &str,
    still: &mut QueryTimes,
    running: &mut QueryTimes,
) -> Result<OneShotQuery, Failure> {
    let unasked = || format!("{name} was not asked; measure for longer");
    let (still_p50_us, still_p99_us) = quantiles_us(&mut still.times).ok_or_else(unasked)?;
    let (running_p50_us, running_p99_us) = quantiles_us(&mut running.times).ok_or_else(unasked)?;
    Ok(OneShotQuery {
        query: name.to_owned(),
        rows: running.rows,
        still_p50_us,
        still_p99_us,
        running_p50_us,
        running_p99_us,
    })
}

/// Runs one query after the other until `enough` returns true; it gets their number so far.
pub(crate) fn ask_in_turn(
    engine: &Engine,
    queries: &[NamedQuery],
    asked: &mut [QueryTimes],
    enough: impl Fn(usize) -> bool,
) -> Result<(), Failure> {
    let options = &QueryOptions {
        default_graphs: vec![NamedNode::new(STORED_GRAPH)?],
        ..QueryOptions::default()
    };
    let mut count = 0;
    while !enough(count) {
        let number = count % queries.len();
        let start = Instant::now();
        let results = engine.query(&queries[number].text).options(options).run()?;
        asked[number].rows = read_all(&results.answer);
        asked[number].times.push(start.elapsed());
        count += 1;
    }
    Ok(())
}

/// Queries while a stretch is played in real time; returns how far the stretch was behind the clock
/// at its end.
pub(crate) fn beside(
    engine: &Engine,
    stretch: Stretch,
    queries: &[NamedQuery],
    asked: &mut [QueryTimes],
) -> Result<Duration, Failure> {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let over = &over;
        let player = scope.spawn(move || {
            let progress = play(engine, stretch, true);
            over.store(true, Ordering::Release);
            progress
        });
        ask_in_turn(engine, queries, asked, |_| over.load(Ordering::Acquire))?;
        let progress = player.join();
        Ok(progress
            .unwrap_or_else(|_| Err("the player panicked".into()))?
            .behind)
    })
}
