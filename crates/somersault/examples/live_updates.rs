//! Measures live queries: a join of two sets of stored edges under small updates and under batches,
//! with DSTREAM beside ISTREAM, and many queries of one shape of which each update touches ten.
//!
//! `cargo run --release --example live_updates -- [EDGES] [QUERIES]`

use somersault::{
    DeltaMode, Engine, EngineConfig, EngineError, LoadOptions, NewQuery, QueryInfo, RdfFormat,
};
use std::fmt::Write;
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_secs(3600);
/// Rows of the join that one update changes: the edges of the second set at each middle node.
const ROWS: usize = 10;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse());
    let edges: usize = arguments.next().unwrap_or(Ok(1_000_000))?;
    let queries: usize = arguments.next().unwrap_or(Ok(100_000))?;
    for delta in [DeltaMode::Auto, DeltaMode::Never] {
        join(edges, delta)?;
    }
    same_shape(queries)?;
    Ok(())
}

fn open(delta: DeltaMode) -> Result<Engine, EngineError> {
    let mut config = EngineConfig {
        delta,
        kept_firings: 4,
        ..EngineConfig::default()
    };
    config.limits.registered_queries = 10_000_000;
    Engine::open(config)
}

/// `edges` edges from sources to middle nodes, and as many from there to ends, ten at each.
fn join(edges: usize, delta: DeltaMode) -> Result<(), Box<dyn std::error::Error>> {
    let engine = open(delta)?;
    let mut lines = String::new();
    let middle = edges / ROWS;
    for at in 0..edges {
        writeln!(lines, "<urn:s{at}> <urn:p> <urn:m{}> .", at % middle)?;
        writeln!(lines, "<urn:m{}> <urn:q> <urn:e{at}> .", at % middle)?;
    }
    engine.load(
        lines.as_bytes(),
        RdfFormat::NTriples,
        LoadOptions::default(),
    )?;
    drop(lines);
    let text = "SELECT ISTREAM ?s ?e { ?s <urn:p> ?m . ?m <urn:q> ?e }";
    engine.register(Some("came"), text)?;
    engine.quiesce(LONG)?;
    let whole = engine.query_info("came")?.execution_p50;
    let updates = match delta {
        DeltaMode::Never => 10,
        _ => 10_000,
    };
    let begun = Instant::now();
    for at in 0..updates {
        let verb = ["INSERT", "DELETE"][at % 2];
        let number = (at / 2 * 7919) % middle;
        engine
            .update(&format!(
                "{verb} DATA {{ <urn:new> <urn:p> <urn:m{number}> }}"
            ))
            .run()?;
        engine.quiesce(LONG)?;
    }
    let took = begun.elapsed() / updates as u32;
    let info = engine.query_info("came")?;
    println!(
        "{edges} x {edges} edges, {delta:?}: first answer {whole:?}; {updates} updates of {ROWS} rows: evaluation p50 {:?}, p99 {:?}; an update to its answer {took:?}",
        info.execution_p50, info.execution_p99
    );
    if delta != DeltaMode::Never {
        batches(&engine, middle)?;
    }
    engine.shutdown()?;
    Ok(())
}

/// Updates of a thousand statements each.
fn batches(engine: &Engine, middle: usize) -> Result<(), Box<dyn std::error::Error>> {
    const BATCH: usize = 1_000;
    const BATCHES: usize = 200;
    let before = engine.query_info("came")?;
    let begun = Instant::now();
    for batch in 0..BATCHES {
        let mut text = String::from("INSERT DATA {");
        for at in 0..BATCH {
            let number = (batch * BATCH + at) * 7919 % middle;
            write!(text, " <urn:b{batch}> <urn:p> <urn:m{number}> .")?;
        }
        engine.update(&(text + " }")).run()?;
        engine.quiesce(LONG)?;
    }
    let took = begun.elapsed();
    let after = engine.query_info("came")?;
    println!(
        "{BATCHES} batches of {BATCH} updates in {took:?}: {:.0} updates/s with their answers; {} rows came; evaluation p50 {:?} of all firings so far",
        (BATCH * BATCHES) as f64 / took.as_secs_f64(),
        after.rows - before.rows,
        after.execution_p50
    );
    Ok(())
}

/// Many queries that differ in a constant, and updates that change the answers of ten of them.
fn same_shape(queries: usize) -> Result<(), Box<dyn std::error::Error>> {
    let engine = open(DeltaMode::Auto)?;
    let begun = Instant::now();
    let all = (0..queries).map(|at| NewQuery {
        name: Some(format!("q{at}")),
        text: format!("SELECT ?x {{ <urn:n{at}> <urn:p> ?x }}"),
    });
    for outcome in engine.register_many(all)? {
        outcome?;
    }
    engine.quiesce(LONG)?;
    println!(
        "{queries} queries registered and answered in {:?}",
        begun.elapsed()
    );
    let updates = 1_000;
    let mut times = Vec::with_capacity(updates);
    for at in 0..updates {
        let mut text = String::from("INSERT DATA {");
        for touched in 0..10 {
            write!(
                text,
                " <urn:n{}> <urn:p> {at} .",
                (at * 10 + touched) % queries
            )?;
        }
        let begun = Instant::now();
        engine.update(&(text + " }")).run()?;
        engine.quiesce(LONG)?;
        times.push(begun.elapsed());
    }
    times.sort_unstable();
    let firings: u64 = (0..10)
        .map(|at| {
            engine
                .query_info(&format!("q{at}"))
                .map(|info: QueryInfo| info.firings)
        })
        .sum::<Result<u64, EngineError>>()?;
    println!(
        "{updates} updates that touch 10 of {queries}: to all answers p50 {:?}, p99 {:?} ({firings} firings of the first ten queries)",
        times[updates / 2],
        times[updates * 99 / 100]
    );
    engine.shutdown()?;
    Ok(())
}
