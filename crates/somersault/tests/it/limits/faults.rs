//! Planted panics: in the evaluation of queries, and in a shard that applies an SN. Each caller
//! gets a sentence, and what can go on goes on.

use crate::support::endpoint::LONG;
use crate::support::scenario::*;
use somersault::oxrdf::{GraphName, Quad};
use somersault::{
    Engine, EngineConfig, EngineError, EventTime, FabricKind, HealthStatus, Remote,
    RemoteSolutions, SubscribeOptions,
};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// An endpoint whose requests panic on the thread that evaluates the query.
struct Panics;

impl Remote for Panics {
    fn select(&self, _: &str, _: &str) -> Result<RemoteSolutions, String> {
        panic!("planted")
    }

    fn document(&self, _: &str) -> Result<Vec<Quad>, String> {
        panic!("planted")
    }
}

const STREAM: &str = "http://example.org/s";
/// What the updates have inserted.
const ALL: &str = "SELECT * { ?s <urn:p> 1 }";

fn declare(engine: &Engine) {
    let text = format!("CREATE STREAM <{STREAM}> BATCH 1s IDLE NEVER");
    engine.create_stream(None, &text).unwrap();
    let text = format!("SELECT ?s FROM STREAM <{STREAM}> [RANGE 1s STEP 1s] WHERE {{ ?s ?p ?o }}");
    engine.register(Some("sound"), &text).unwrap();
}

#[test]
fn a_query_that_panics_is_refused_and_all_others_go_on() {
    let engine = Engine::open(EngineConfig {
        allow_remote: true,
        remote: Some(Arc::new(Panics)),
        query_threads: 1,
        ..config()
    })
    .unwrap();
    declare(&engine);
    let service = "SERVICE <http://x/> { ?s ?q ?there }";
    let text = format!(
        "SELECT ?s FROM STREAM <{STREAM}> [RANGE 1s STEP 1s] WHERE {{ ?s ?p ?o {service} }}"
    );
    engine.register(Some("panics"), &text).unwrap();
    let [sound, panics] = ["sound", "panics"]
        .map(|name| engine.subscribe(name, SubscribeOptions::default()).unwrap());
    let text = format!("SELECT * {{ {service} }}");
    for second in 0..3 {
        // One-shot queries and updates, on the only query thread and on the updates' own.
        let refused = engine.query(&text).run().unwrap_err().to_string();
        assert!(refused.contains("the evaluation panicked"), "{refused}");
        let update = format!("INSERT {{ ?s <urn:p> 1 }} WHERE {{ {service} }}");
        let refused = engine.update(&update).run().unwrap_err().to_string();
        assert!(refused.contains("the evaluation panicked"), "{refused}");
        let update = format!("INSERT DATA {{ <urn:{second}> <urn:p> 1 }}");
        assert_eq!(engine.update(&update).run().unwrap().inserted, 1);
        engine
            .push(STREAM, push(&[(second * 1_000, "a p b")]))
            .unwrap();
    }
    advance(&engine, 3_000);
    engine.quiesce(LONG).unwrap();
    for close in 1..=3 {
        let of_sound = firing(sound.recv_timeout(LONG).unwrap().unwrap()).unwrap();
        assert_eq!(of_sound.close, EventTime(close * 1_000));
        assert!(of_sound.answer.is_ok());
        let failed = firing(panics.recv_timeout(LONG).unwrap().unwrap()).unwrap();
        assert_eq!(failed.close, EventTime(close * 1_000));
        let said = failed.answer.as_ref().unwrap_err();
        assert!(said.contains("the evaluation panicked"), "{said}");
    }
    let said = engine.query_info("panics").unwrap().last_error.unwrap();
    assert!(said.contains("the evaluation panicked"), "{said}");
    assert_eq!(engine.health().status, HealthStatus::Ok);
    engine.check().unwrap();
}

/// An engine, one shard of which panics while the plant is set.
fn planted(folder: &Path, fabric: FabricKind) -> (Engine, Arc<AtomicBool>) {
    let plant = Arc::new(AtomicBool::new(false));
    let is_set = Arc::clone(&plant);
    let engine = Engine::open(EngineConfig {
        data: Some(folder.to_owned()),
        fabric,
        before_apply: Some(Arc::new(move |_| {
            assert!(!is_set.load(Ordering::SeqCst), "planted");
        })),
        ..config()
    });
    (engine.unwrap(), plant)
}

/// What a caller of an engine whose shard has failed is told.
fn assert_failed<T>(what: &str, outcome: Result<T, EngineError>, applied: &str) {
    let Err(EngineError::Failed(said)) = outcome else {
        panic!(
            "{what}: it is refused as failed, and not {:?}",
            outcome.err()
        );
    };
    for part in ["failed (planted)", "restart the engine to go on", applied] {
        assert!(said.contains(part), "{what}: {part} in {said}");
    }
}

fn a_shard_that_panics(fabric: FabricKind) {
    let folder = tempfile::tempdir().unwrap();
    let (engine, plant) = planted(folder.path(), fabric);
    declare(&engine);
    let insert = |name: &str| {
        engine
            .update(&format!("INSERT DATA {{ <urn:{name}> <urn:p> 1 }}"))
            .run()
    };
    assert_eq!(insert("before").unwrap().inserted, 1);
    engine.push(STREAM, push(&[(0, "a p b")])).unwrap();
    let subscription = engine
        .subscribe("sound", SubscribeOptions::default())
        .unwrap();
    plant.store(true, Ordering::SeqCst);
    assert_failed(
        "the update that is applied",
        insert("lost"),
        "it may be there after the restart",
    );
    plant.store(false, Ordering::SeqCst);

    // Nothing is silent, and nothing hangs.
    let nothing = "Nothing of this request was applied";
    assert_failed("an update", insert("after"), nothing);
    assert_failed(
        "a push",
        engine.push(STREAM, push(&[(10, "c p d")])),
        nothing,
    );
    assert_failed("a command", engine.drop_query("sound"), nothing);
    assert_failed(
        "a load",
        engine.load_quads([triple("e p f").in_graph(GraphName::DefaultGraph)]),
        nothing,
    );
    let waited = engine.quiesce(LONG).unwrap_err().to_string();
    assert!(waited.contains("restart the engine to go on"), "{waited}");
    // It ends: a subscriber that heard nothing would wait for ever.
    assert!(matches!(subscription.recv_timeout(LONG), Ok(None)));
    let health = engine.health();
    assert_eq!(health.status, HealthStatus::Failed);
    assert!(
        health.message.contains("restart to go on"),
        "{}",
        health.message
    );
    // Queries go on at the last stable snapshot, and lists are read.
    assert_eq!(ask(&engine, ALL).len(), 1);
    assert_eq!(engine.queries().len(), 1);
    engine.shutdown().unwrap();
    drop(engine);

    // The log has what was acknowledged, and the update that was not known to be applied.
    let (engine, _) = planted(folder.path(), fabric);
    assert_eq!(ask(&engine, ALL).len(), 2);
    let update = "INSERT DATA { <urn:again> <urn:p> 1 }";
    assert_eq!(engine.update(update).run().unwrap().inserted, 1);
    engine.push(STREAM, push(&[(10, "c p d")])).unwrap();
    advance(&engine, 1_000);
    engine.quiesce(LONG).unwrap();
    assert_eq!(
        engine.query_info("sound").unwrap().last_close,
        Some(EventTime(1_000))
    );
    engine.check().unwrap();
}

#[test]
fn a_shard_that_panics_on_timely() {
    a_shard_that_panics(FabricKind::Timely);
}

#[test]
fn a_shard_that_panics_in_the_simulator() {
    a_shard_that_panics(FabricKind::Simulated { seed: 3 });
}
