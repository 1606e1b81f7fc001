//! What is on its way to the shards stays within its limit, for pushes, loads and updates alike,
//! and all of it arrives.

use crate::support::endpoint::LONG;
use crate::support::scenario::*;
use somersault::oxrdf::{GraphName, NamedNode};
use somersault::{Engine, EngineConfig, Limits, LoadOptions, RdfFormat};
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

/// The limit of what is on its way.
const LIMIT: u64 = 40_000;

/// Shards that apply nothing until the gate is opened.
#[derive(Default)]
struct Gate {
    is_open: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    fn open(&self) {
        *self.is_open.lock().unwrap() = true;
        self.opened.notify_all();
    }

    fn pass(&self) {
        let is_open = self.is_open.lock().unwrap();
        drop(self.opened.wait_while(is_open, |is_open| !*is_open));
    }
}

/// Opens the gate when a test ends, in any way: the engine waits for its shards.
struct Opened<'g>(&'g Gate);

impl Drop for Opened<'_> {
    fn drop(&mut self) {
        self.0.open();
    }
}

fn gated() -> (Engine, Arc<Gate>) {
    let gate = Arc::new(Gate::default());
    let at = Arc::clone(&gate);
    let engine = Engine::open(EngineConfig {
        before_apply: Some(Arc::new(move |_| at.pass())),
        limits: Limits {
            inflight_bytes: LIMIT,
            ..Limits::default()
        },
        ..config()
    });
    (engine.unwrap(), gate)
}

fn document(name: &str, statements: usize) -> String {
    (0..statements).fold(String::new(), |mut text, number| {
        let _ = writeln!(text, "<{NS}{name}{number}> <{NS}p> <{NS}o> .");
        text
    })
}

fn load(engine: &Engine, text: &str) -> u64 {
    let loaded = engine.load(text.as_bytes(), RdfFormat::NTriples, LoadOptions::default());
    loaded.unwrap().statements
}

/// Waits until inputs have had to wait this often.
fn await_waits(engine: &Engine, times: u64) {
    while engine.metrics().inflight_waits < times {
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn pushes_loads_and_updates_wait_for_slow_shards_and_all_of_them_arrive() {
    let (engine, gate) = gated();
    let _opened = Opened(&gate);
    assert_eq!(engine.health().inflight_limit_bytes, LIMIT);
    let stream = format!("{NS}s");
    let text = format!("CREATE STREAM <{stream}> BATCH 1s IDLE NEVER");
    engine.create_stream(None, &text).unwrap();
    let graph = GraphName::NamedNode(NamedNode::new_unchecked("urn:g"));
    thread::scope(|scope| {
        // 32 bytes a statement: the limit is reached.
        let first = scope.spawn(|| load(&engine, &document("a", 1_250)));
        while engine.metrics().inflight_bytes < LIMIT {
            thread::sleep(Duration::from_millis(1));
        }
        let second = scope.spawn(|| load(&engine, &document("b", 10)));
        await_waits(&engine, 1);
        let pushed = scope.spawn(|| engine.push(&stream, push(&[(10, "c p o")])));
        await_waits(&engine, 2);
        let put = scope.spawn(|| {
            let text = document("d", 10);
            engine.replace_graph(&graph, text.as_bytes(), RdfFormat::NTriples, None)
        });
        await_waits(&engine, 3);
        assert_eq!(engine.health().inflight_bytes, LIMIT);
        // Commands bring no statements.
        let other = format!("CREATE STREAM <{NS}other> BATCH 1s IDLE NEVER");
        engine.create_stream(None, &other).unwrap();
        gate.open();
        assert_eq!(first.join().unwrap(), 1_250);
        assert_eq!(second.join().unwrap(), 10);
        assert_eq!(pushed.join().unwrap().unwrap().accepted, 1);
        assert_eq!(put.join().unwrap().unwrap().inserted, 10);
    });
    advance(&engine, 1_000);
    engine.quiesce(LONG).unwrap();
    assert_eq!(engine.metrics().stored_statements, 1_250 + 10 + 10);
    assert_eq!(engine.stream(&stream).unwrap().tuples, 1);
    assert_eq!(engine.metrics().inflight_bytes, 0);
    engine.check().unwrap();
}

#[test]
fn a_load_larger_than_the_limit_passes_alone() {
    let (engine, gate) = gated();
    gate.open();
    assert_eq!(load(&engine, &document("a", 5_000)), 5_000);
    assert_eq!(engine.metrics().inflight_bytes, 0);
}

#[test]
fn an_engine_that_stops_answers_those_that_wait() {
    let (engine, gate) = gated();
    let _opened = Opened(&gate);
    let stopped = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            // It may be stopped before it is applied.
            let text = document("a", 1_250);
            let _ = engine.load(text.as_bytes(), RdfFormat::NTriples, LoadOptions::default());
        });
        while engine.metrics().inflight_bytes < LIMIT {
            thread::sleep(Duration::from_millis(1));
        }
        let waiting = scope.spawn(|| {
            let text = document("b", 10);
            let answer = engine.load(text.as_bytes(), RdfFormat::NTriples, LoadOptions::default());
            assert!(stopped.load(Ordering::SeqCst), "it was not applied before");
            answer
        });
        await_waits(&engine, 1);
        stopped.store(true, Ordering::SeqCst);
        let stop = scope.spawn(|| engine.shutdown());
        // The shards still stand at the gate.
        let refused = waiting.join().unwrap().unwrap_err().to_string();
        assert!(refused.contains("stopped"), "{refused}");
        gate.open();
        stop.join().unwrap().unwrap();
    });
}
