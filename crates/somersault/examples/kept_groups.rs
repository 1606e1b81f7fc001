//! The cost of a close of an aggregate over a long window: readings of a thousand sensors, averaged
//! by room over ten seconds that slide by a tenth of one, with rows and groups retained between
//! closes and without.
//!
//! `cargo run --release -p somersault --example kept_groups [readings per second]`

use somersault::oxrdf::{GraphName, Literal, NamedNode, Quad, vocab::xsd};
use somersault::{
    DeltaMode, Engine, EngineConfig, EventTime, Push, StreamStatement, SubscribeOptions,
    SubscriptionEvent,
};
use std::time::{Duration, Instant};

const STREAM: &str = "http://example.org/readings";
const SENSORS: u64 = 1000;
const ROOMS: u64 = 100;
const STEP_MS: i64 = 100;
/// Closes until the window is full, and closes that are measured.
const FILLING: i64 = 100;
const MEASURED: i64 = 60;

const QUERIES: [(&str, &str); 6] = [
    ("rows, counted as one group", "SELECT (COUNT(*) AS ?n)"),
    (
        "COUNT, SUM, AVG by room",
        "SELECT ?room (COUNT(*) AS ?n) (SUM(?v) AS ?s) (AVG(?v) AS ?m)",
    ),
    ("AVG of doubles by room", "SELECT ?room (AVG(?w) AS ?m)"),
    (
        "MIN, MAX by room",
        "SELECT ?room (MIN(?v) AS ?l) (MAX(?v) AS ?h)",
    ),
    (
        "COUNT(DISTINCT sensor) by room",
        "SELECT ?room (COUNT(DISTINCT ?sensor) AS ?n)",
    ),
    ("DISTINCT sensors", "SELECT DISTINCT ?sensor"),
];

fn name(local: &str) -> NamedNode {
    NamedNode::new_unchecked(format!("http://example.org/{local}"))
}

fn text(head: &str) -> String {
    let (predicate, variable) = if head.contains("?w") {
        ("power", "?w")
    } else {
        ("heat", "?v")
    };
    let group = if head.contains("?room") {
        "GROUP BY ?room"
    } else {
        ""
    };
    format!(
        "PREFIX : <http://example.org/> {head} FROM NAMED STREAM :readings [RANGE 10s STEP 100ms] \
         WHERE {{ GRAPH :readings {{ ?sensor :{predicate} {variable} }} ?sensor :in ?room }} {group}"
    )
}

/// The readings of a tenth of a second: some numbers that look random.
fn readings(batch: i64, count: u64) -> Vec<StreamStatement> {
    let statement = |number: u64| {
        let mixed = (batch as u64 * count + number).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
        let (sensor, value) = (mixed % SENSORS, mixed / SENSORS % 1_000_000);
        let (predicate, literal) = match number % 2 {
            0 => (
                "heat",
                Literal::new_typed_literal(
                    format!("{}.{:03}", value / 1000, value % 1000),
                    xsd::DECIMAL,
                ),
            ),
            _ => ("power", Literal::from(value as f64 / 1024.0)),
        };
        let subject = name(&format!("sensor{sensor}"));
        StreamStatement {
            at: Some(EventTime(batch * STEP_MS)),
            quad: Quad::new(subject, name(predicate), literal, GraphName::DefaultGraph),
        }
    };
    (0..count).map(statement).collect()
}

fn measure(
    delta: DeltaMode,
    query: &str,
    per_batch: u64,
) -> Result<(Duration, u64), Box<dyn std::error::Error>> {
    let engine = Engine::open(EngineConfig {
        delta,
        ..EngineConfig::default()
    })?;
    let rooms: String = (0..SENSORS)
        .map(|sensor| format!(":sensor{sensor} :in :room{} . ", sensor % ROOMS))
        .collect();
    let update = format!("PREFIX : <http://example.org/> INSERT DATA {{ {rooms} }}");
    engine.update(&update).run()?;
    engine.create_stream(
        None,
        &format!("CREATE STREAM <{STREAM}> TIMING ALL BATCH 100ms IDLE NEVER"),
    )?;
    engine.register(Some("q"), query)?;
    let answers = engine.subscribe("q", SubscribeOptions::default())?;
    engine.advance([(STREAM, EventTime(0))])?;
    let mut took = Vec::new();
    for batch in 0..FILLING + MEASURED {
        let statements = readings(batch, per_batch);
        engine.push(
            STREAM,
            Push {
                statements,
                ..Push::default()
            },
        )?;
        engine.advance([(STREAM, EventTime((batch + 1) * STEP_MS))])?;
        let Some(SubscriptionEvent::Firing(firing)) = answers.recv() else {
            return Err("the subscription ended".into());
        };
        firing.answer.as_ref().map_err(Clone::clone)?;
        if batch >= FILLING {
            took.push(firing.execution);
        }
    }
    took.sort_unstable();
    let kept = engine.metrics().memory.kept_rows_bytes;
    engine.shutdown()?;
    Ok((took[took.len() / 2], kept))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let per_second: u64 = std::env::args()
        .nth(1)
        .map_or(Ok(20_000), |text| text.parse())?;
    let started = Instant::now();
    for (what, head) in QUERIES {
        println!("{what}");
        for delta in [DeltaMode::Never, DeltaMode::Always, DeltaMode::Auto] {
            let (usual, kept) = measure(delta, &text(head), per_second / 10)?;
            println!("  {delta:?}: {usual:?} a close, {} KiB kept", kept >> 10);
        }
    }
    println!("in {:?}", started.elapsed());
    Ok(())
}
