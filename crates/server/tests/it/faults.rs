//! A shard that panics, as clients see it: each request is answered with a sentence.

use crate::server::{TestServer, encode, engine_config};
use somersault::EngineConfig;
use somersault_server::ServerConfig;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn after_a_shard_has_failed_writes_are_refused_and_queries_are_answered() {
    let plant = Arc::new(AtomicBool::new(false));
    let is_set = Arc::clone(&plant);
    let engine = EngineConfig {
        before_apply: Some(Arc::new(move |_| {
            assert!(!is_set.load(Ordering::SeqCst), "planted");
        })),
        ..engine_config()
    };
    let server = TestServer::with(engine, ServerConfig::default());
    let stream = format!("/streams/{}", encode("http://e/s"));
    let text = "CREATE STREAM <http://e/s> BATCH 1s IDLE NEVER";
    server.put(&stream, text).expect(201);
    let update = |name: &str| {
        let text = format!("INSERT DATA {{ <urn:{name}> <urn:p> 1 }}");
        server.post("/update", "application/sparql-update", &text)
    };
    update("before").expect(200);
    let text = "SELECT ?s FROM STREAM <http://e/s> [RANGE 1s STEP 1s] WHERE { ?s ?p ?o }";
    server.put("/queries/q", text).expect(201);
    let mut events = server.events("/queries/q/results", &[]);
    plant.store(true, Ordering::SeqCst);
    let lost = update("lost").expect(503).json();
    plant.store(false, Ordering::SeqCst);
    assert_eq!(lost["code"], "failed", "{lost}");
    let said = lost["error"].as_str().expect("a sentence");
    for part in [
        "failed (planted)",
        "restart the engine to go on",
        "it may be there after the restart",
    ] {
        assert!(said.contains(part), "{part} in {said}");
    }

    let push = server.post(
        &stream,
        "text/tab-separated-values",
        "10\t<urn:a> <urn:p> <urn:b> .\n",
    );
    for refused in [update("after"), push, server.delete(&stream)] {
        let refused = refused.expect(503);
        assert!(refused.header("retry-after").is_some());
        let said = refused.json()["error"].as_str().map(str::to_owned);
        let said = said.expect("a sentence");
        assert!(said.contains("restart the engine to go on"), "{said}");
        assert!(
            said.contains("Nothing of this request was applied"),
            "{said}"
        );
    }
    let end = loop {
        let event = events.next().expect("the stream ends with an event");
        if event.event.as_deref() == Some("end") {
            break event.json();
        }
    };
    assert_eq!(end["reason"], "failed", "{end}");
    let said = end["message"].as_str().expect("a sentence");
    assert!(said.contains("restart the engine to go on"), "{said}");
    let health = server.get("/health").expect(503).json();
    assert_eq!(health["status"], "failed", "{health}");
    assert_eq!(server.get("/ready").expect(503).json()["status"], "failed");
    server.get("/livez").expect(200);
    assert_eq!(server.select("SELECT * { ?s <urn:p> 1 }").len(), 1);
    server.get("/streams").expect(200);
    server.get("/metrics").expect(200);
}
