//! Only durable streams and queries are listed, and an answer that cannot be logged does not stop a
//! derived stream.

use crate::support::scenario::*;
use parking_lot::{Condvar, Mutex};
use somersault::disk::{AlteredDisk, SimDisk};
use somersault::oxrdf::{GraphName, NamedNode, Quad, Term, Triple};
use somersault::{Engine, EventTime, Push, StreamStatement};
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

/// Whether syncs wait, and how many wait now.
#[derive(Default)]
struct GateState {
    closed: bool,
    waiting: usize,
}

/// Holds the syncs of a disk back while it is closed.
#[derive(Clone, Default)]
struct Gate(Arc<(Mutex<GateState>, Condvar)>);

impl Gate {
    fn set(&self, closed: bool) {
        self.0.0.lock().closed = closed;
        self.0.1.notify_all();
    }

    fn pass(&self) {
        let mut state = self.0.0.lock();
        state.waiting += 1;
        self.0.1.notify_all();
        while state.closed {
            self.0.1.wait(&mut state);
        }
        state.waiting -= 1;
    }

    /// Returns when a sync waits.
    fn until_a_sync_waits(&self) {
        let mut state = self.0.0.lock();
        while state.waiting == 0 {
            self.0.1.wait(&mut state);
        }
    }
}

#[test]
fn streams_and_queries_are_listed_once_they_are_durable() {
    let gate = Gate::default();
    let disk = AlteredDisk::of(&SimDisk::new()).with_sync({
        let gate = gate.clone();
        move |file| {
            gate.pass();
            file.sync()
        }
    });
    let engine = Engine::open_on(config(), Arc::new(disk)).unwrap();
    gate.set(true);
    let create = std::thread::spawn({
        let engine = engine.clone();
        move || {
            engine
                .create_stream(None, &format!("CREATE STREAM <{NS}s>"))
                .map(drop)
        }
    });
    // The sequencer appends a record before the log syncs it, so it takes the list after the stream.
    gate.until_a_sync_waits();
    let (send, listed) = mpsc::channel();
    std::thread::spawn({
        let engine = engine.clone();
        move || send.send(engine.streams().len())
    });
    let early = listed.recv_timeout(Duration::from_millis(300));
    assert!(early.is_err(), "a stream is listed that a crash would lose");
    gate.set(false);
    create.join().unwrap().unwrap();
    assert_eq!(listed.recv().unwrap(), 1);
}

/// A term that is as deep as a log can write.
fn deepest() -> Term {
    let node = |name: &str| NamedNode::new(format!("{NS}{name}")).unwrap();
    let mut term = Term::from(node("core"));
    for _ in 0..64 {
        term = Triple::new(node("s"), node("p"), term).into();
    }
    term
}

#[test]
fn a_derived_stream_continues_after_an_answer_that_cannot_be_logged() {
    let engine = Engine::open_on(config(), Arc::new(SimDisk::new())).unwrap();
    let stream = format!("CREATE STREAM <{NS}s> BATCH 1s IDLE NEVER");
    engine.create_stream(None, &stream).unwrap();
    // One level deeper than what was pushed.
    let derived = format!(
        "PREFIX : <{NS}> REGISTER STREAM :d AS CONSTRUCT {{ ?x :says <<( :a :b ?y )>> }} \
         FROM STREAM :s [RANGE 1s STEP 1s] WHERE {{ ?x :at ?y }}"
    );
    engine.register(None, &derived).unwrap();
    let reader = format!(
        "PREFIX : <{NS}> SELECT ?x FROM STREAM :d [RANGE 1s STEP 1s] WHERE {{ ?x :says ?y }}"
    );
    engine.register(Some("reader"), &reader).unwrap();
    let node = |name: &str| NamedNode::new(format!("{NS}{name}")).unwrap();
    let deep = Quad::new(node("deep"), node("at"), deepest(), GraphName::DefaultGraph);
    let statements = vec![StreamStatement {
        at: Some(EventTime(500)),
        quad: deep,
    }];
    let deep = Push {
        statements,
        ..Push::default()
    };
    engine.push(&format!("{NS}s"), deep).unwrap();
    engine
        .advance([(format!("{NS}s"), EventTime(1_000))])
        .unwrap();
    engine
        .push(&format!("{NS}s"), push(&[(1_500, "flat at x")]))
        .unwrap();
    engine
        .advance([(format!("{NS}s"), EventTime(5_000))])
        .unwrap();
    let rows: Vec<String> = firings(&engine, "reader", None)
        .into_iter()
        .flat_map(|(_, rows)| rows)
        .collect();
    assert_eq!(rows, ["flat"]);
}
