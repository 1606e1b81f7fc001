//! What old snapshots keep in memory is limited: the query that reads the oldest one ends with a
//! sentence that says so, and the memory is free again.

use crate::support::scenario::*;
use somersault::{Engine, EngineConfig, EngineError, LimitKind, Limits};
use std::thread;
use std::time::{Duration, Instant};

/// The statements that queries read, and that updates replace.
const SUBJECTS: usize = 400;

/// Takes minutes, and little memory.
const LONG_QUERY: &str = "ASK { ?a <urn:p> ?x . ?b <urn:p> ?y . ?c <urn:p> ?z \
     FILTER(SHA512(CONCAT(STR(?a), STR(?b), STR(?c))) = \"none\") }";

fn replace_all(engine: &Engine, round: usize) {
    let statements: String = (0..SUBJECTS)
        .map(|subject| format!("<urn:s{subject}> <urn:p> {round} . "))
        .collect();
    let text = format!("DELETE WHERE {{ ?s <urn:p> ?o }} ; INSERT DATA {{ {statements} }}");
    engine.update(&text).run().unwrap();
}

fn engine(superseded_bytes: u64) -> Engine {
    let limits = Limits {
        superseded_bytes,
        ..Limits::default()
    };
    let engine = Engine::open(EngineConfig { limits, ..config() }).unwrap();
    replace_all(&engine, 0);
    engine
}

#[test]
fn a_query_that_keeps_too_much_ends_and_says_so() {
    let engine = engine(1_000);
    let reader = engine.clone();
    let asked = thread::spawn(move || reader.query(LONG_QUERY).run());
    let mut round = 0;
    while !asked.is_finished() {
        round += 1;
        replace_all(&engine, round);
    }
    let error = asked.join().unwrap().expect_err("it was ended");
    let EngineError::Limit { which, message } = error else {
        panic!("{error}");
    };
    assert_eq!(which, LimitKind::SupersededBytes, "{message}");
    assert!(message.contains("1000 bytes"), "{message}");
    // Helping threads and the renewal of images let go of theirs a little later.
    let since = Instant::now();
    while engine.metrics().pins > 0 {
        assert!(since.elapsed() < Duration::from_secs(30), "a pin is left");
        thread::sleep(Duration::from_millis(5));
    }
    assert!(engine.query("ASK { ?s <urn:p> ?o }").run().is_ok());
}
