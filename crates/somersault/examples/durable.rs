//! A durable engine: what was acknowledged is there after a restart, and a subscriber that
//! reconnects misses nothing that is still kept.

use somersault::oxrdf::{GraphName, Literal, NamedNode, Quad};
use somersault::{
    Engine, EngineConfig, EventTime, FiringId, Push, StreamStatement, SubscribeOptions,
    SubscriptionEvent,
};
use std::path::Path;

const STREAM: &str = "http://example.org/readings";

fn open(folder: &Path) -> Result<Engine, somersault::EngineError> {
    Engine::open(EngineConfig {
        data: Some(folder.to_owned()),
        ..EngineConfig::default()
    })
}

/// Pushes the readings of one second; the number makes it safe to send them again.
fn push(engine: &Engine, second: i64) -> Result<(), somersault::EngineError> {
    let statement = |value: i64| StreamStatement {
        at: Some(EventTime(second * 1000 + value)),
        quad: Quad::new(
            NamedNode::new_unchecked("http://example.org/sensor"),
            NamedNode::new_unchecked("http://example.org/shows"),
            Literal::from(second * 10 + value),
            GraphName::DefaultGraph,
        ),
    };
    let receipt = engine.push(
        STREAM,
        Push {
            source: Some("sensor".to_owned()),
            seq: Some(second.unsigned_abs()),
            statements: (0..3).map(statement).collect(),
        },
    )?;
    println!(
        "second {second}: taken {}, repeated {}",
        receipt.accepted, receipt.repeated
    );
    engine.advance([(STREAM, EventTime((second + 1) * 1000))])?;
    Ok(())
}

/// Prints the firings after a close; returns the last one.
fn read(
    engine: &Engine,
    after: Option<EventTime>,
    count: usize,
) -> Result<Option<EventTime>, String> {
    let options = SubscribeOptions {
        after: after.map(FiringId::at),
        ..SubscribeOptions::default()
    };
    let answers = engine
        .subscribe("peak", options)
        .map_err(|error| error.to_string())?;
    let mut last = after;
    for _ in 0..count {
        let Some(SubscriptionEvent::Firing(firing)) = answers.recv() else {
            return Err("the subscription ended".to_owned());
        };
        let answer = firing.answer.as_ref().map_err(Clone::clone)?;
        let cells = answer.rows().flatten().flatten();
        let cells: Vec<String> = cells.map(|term| term.to_string()).collect();
        println!("  close {}: {}", firing.close, cells.join(" "));
        last = Some(firing.close);
    }
    Ok(last)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::temp_dir().join(format!("somersault-durable-{}", std::process::id()));
    let engine = open(&folder)?;
    engine.create_stream(
        None,
        &format!("CREATE STREAM <{STREAM}> BATCH 1s IDLE NEVER"),
    )?;
    engine.register(
        Some("peak"),
        &format!("SELECT (MAX(?v) AS ?max) FROM STREAM <{STREAM}> [RANGE 2s STEP 1s] WHERE {{ ?s ?p ?v }}"),
    )?;
    engine.advance([(STREAM, EventTime(0))])?;
    push(&engine, 0)?;
    push(&engine, 1)?;
    let last = read(&engine, None, 1)?;
    if let Some(last) = last {
        println!("read through {last}; now the engine is dropped without a shutdown");
    }
    drop(engine);

    let engine = open(&folder)?;
    // The client does not know whether its last push arrived: it sends it again.
    push(&engine, 1)?;
    push(&engine, 2)?;
    read(&engine, last, 2)?;
    engine.shutdown()?;
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}
