//! Updates of many threads: none is lost, each has seen those before it, and what was acknowledged
//! outlives a crash (S15, ADR 55).

use crate::support::endpoint::LONG;
use somersault::disk::{CrashKeep, SimDisk};
use somersault::oxrdf::{NamedNode, Quad, Term};
use somersault::{Engine, EngineConfig, FabricKind, Remote, RemoteSolutions, UpdateSummary};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex};

fn open(disk: &SimDisk) -> Engine {
    let config = EngineConfig {
        fabric: FabricKind::Simulated { seed: 1 },
        ..EngineConfig::default()
    };
    Engine::open_on(config, Arc::new(disk.clone())).unwrap()
}

fn update(engine: &Engine, text: &str) -> UpdateSummary {
    engine.update(text).run().unwrap()
}

fn number(engine: &Engine, query: &str) -> u64 {
    let found = engine.query(query).run().unwrap();
    let row = found.answer.rows().next().expect("one row");
    match &row[0] {
        Some(Term::Literal(literal)) => literal.value().parse().unwrap(),
        other => panic!("{other:?}"),
    }
}

const COUNT: &str = "SELECT ?n { <urn:c> <urn:count> ?n }";
const NOTES: &str = "SELECT (COUNT(*) AS ?n) { ?t <urn:did> ?n }";

/// Counts one up, and notes that this thread did so for this time.
fn increment(thread: usize, time: usize) -> String {
    format!(
        "DELETE {{ <urn:c> <urn:count> ?n }} INSERT {{ <urn:c> <urn:count> ?m }}
             WHERE {{ <urn:c> <urn:count> ?n BIND(?n + 1 AS ?m) }};
         INSERT DATA {{ <urn:t{thread}> <urn:did> {time} }}"
    )
}

#[test]
fn no_increment_is_lost_also_over_crashes() {
    let mut disk = SimDisk::new();
    update(&open(&disk), "INSERT DATA { <urn:c> <urn:count> 0 }");
    for crash in 0..4 {
        let engine = open(&disk);
        let before = number(&engine, COUNT);
        let (begun, acknowledged) = (AtomicU64::new(0), AtomicU64::new(0));
        let mut crashed = None;
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let (engine, begun, acknowledged) = (&engine, &begun, &acknowledged);
                scope.spawn(move || {
                    for time in 1_000_000 * crash.. {
                        begun.fetch_add(1, SeqCst);
                        // After the crash nothing is taken.
                        let Ok(done) = engine.update(&increment(thread, time)).run() else {
                            break;
                        };
                        assert_eq!((done.inserted, done.deleted), (2, 1));
                        acknowledged.fetch_add(1, SeqCst);
                    }
                });
            }
            while acknowledged.load(SeqCst) < 100 {
                std::thread::yield_now();
            }
            assert!(number(&engine, COUNT) >= before + 100);
            let least = acknowledged.load(SeqCst);
            crashed = Some((disk.crash(CrashKeep::Synced), least, begun.load(SeqCst)));
        });
        drop(engine);
        let (image, least, most) = crashed.unwrap();
        let engine = open(&image);
        let found = number(&engine, COUNT) - before;
        assert!((least..=most).contains(&found), "{least} {found} {most}");
        assert_eq!(number(&engine, COUNT), number(&engine, NOTES));
        engine.check().unwrap();
        drop(engine);
        disk = image;
    }
}

#[test]
fn new_blank_nodes_of_updates_that_share_a_snapshot_differ_also_after_a_restart() {
    let disk = SimDisk::new();
    for restart in 1..=2 {
        let engine = open(&disk);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..20 {
                        update(&engine, "INSERT DATA { _:x <urn:is> <urn:new> }");
                    }
                });
            }
        });
        let nodes = "SELECT (COUNT(DISTINCT ?x) AS ?n) { ?x <urn:is> <urn:new> }";
        assert_eq!(number(&engine, nodes), 160 * restart);
    }
}

/// Large graphs are cleared by their names while others write into them: the numbers that were
/// inserted and deleted add up.
#[test]
fn a_graph_that_is_cleared_beside_other_updates_loses_what_it_had() {
    let disk = SimDisk::new();
    let engine = open(&disk);
    let fill = |graph: &str| {
        let rows: String = (0..5_000)
            .map(|n| format!("<urn:a{n}> <urn:p> 1 . "))
            .collect();
        update(
            &engine,
            &format!("INSERT DATA {{ GRAPH <urn:{graph}> {{ {rows} }} }}"),
        );
    };
    fill("g");
    update(&engine, "INSERT DATA { <urn:c> <urn:count> 0 }");
    let (inserted, deleted) = (AtomicU64::new(5_000), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (engine, inserted) = (&engine, &inserted);
            scope.spawn(move || {
                for time in 0..60 {
                    let row = format!("<urn:{thread}> <urn:q> {time}");
                    let done = update(
                        engine,
                        &format!("INSERT DATA {{ GRAPH <urn:g> {{ {row} }} }}"),
                    );
                    inserted.fetch_add(done.inserted, SeqCst);
                    update(engine, &increment(thread, time));
                }
            });
        }
        for _ in 0..4 {
            let done = update(&engine, "DROP GRAPH <urn:g>");
            deleted.fetch_add(done.deleted, SeqCst);
            let done = update(
                &engine,
                "INSERT { GRAPH <urn:g> { ?s ?p ?o } } WHERE { GRAPH <urn:h> { ?s ?p ?o } }",
            );
            assert_eq!(done.inserted, 0, "there is no such graph");
            fill("g");
            inserted.fetch_add(5_000, SeqCst);
        }
    });
    let size = "SELECT (COUNT(*) AS ?n) { GRAPH <urn:g> { ?s ?p ?o } }";
    let expected = inserted.load(SeqCst) - deleted.load(SeqCst);
    assert!(deleted.load(SeqCst) >= 20_000);
    assert_eq!(number(&engine, size), expected);
    assert_eq!(number(&engine, COUNT), 240);
    // Many effects have a record of their own, too.
    let copied = update(&engine, "COPY <urn:g> TO <urn:h>; CLEAR GRAPH <urn:g>");
    assert_eq!(copied.inserted, expected);
    engine.check().unwrap();
    drop(engine);
    let engine = open(&disk.crash(CrashKeep::Synced));
    assert_eq!(number(&engine, size), 0);
    assert_eq!(number(&engine, &size.replace("urn:g", "urn:h")), expected);
    assert_eq!(number(&engine, COUNT), 240);
}

/// A machine that answers only once a test allows it.
#[derive(Default)]
struct Far {
    /// Whether it was asked, and whether it may answer.
    state: Mutex<(bool, bool)>,
    changed: Condvar,
}

impl Far {
    fn wait(&self) {
        let mut state = self.state.lock().unwrap();
        state.0 = true;
        self.changed.notify_all();
        drop(self.changed.wait_while(state, |(_, is_open)| !*is_open));
    }
}

impl Remote for Far {
    fn select(&self, _: &str, _: &str) -> Result<RemoteSolutions, String> {
        Ok(RemoteSolutions {
            variables: vec!["there".to_owned()],
            rows: vec![vec![Some(NamedNode::new_unchecked("urn:there").into())]],
        })
    }

    fn document(&self, _: &str) -> Result<Vec<Quad>, String> {
        self.wait();
        let name = NamedNode::new_unchecked("urn:loaded");
        let graph = somersault::oxrdf::GraphName::DefaultGraph;
        Ok(vec![Quad::new(name.clone(), name.clone(), name, graph)])
    }
}

#[test]
fn a_document_that_is_slow_to_load_keeps_no_other_update_waiting() {
    let far = Arc::new(Far::default());
    let engine = Engine::open(EngineConfig {
        allow_remote: true,
        remote: Some(Arc::clone(&far) as Arc<dyn Remote>),
        ..EngineConfig::default()
    });
    let engine = engine.unwrap();
    std::thread::scope(|scope| {
        let load =
            scope.spawn(|| update(&engine, "LOAD <urn:doc>; INSERT DATA { <urn:b> <urn:p> 1 }"));
        let state = far.state.lock().unwrap();
        let (state, _) = (far.changed)
            .wait_timeout_while(state, LONG, |(was_asked, _)| !*was_asked)
            .unwrap();
        drop(state);
        assert_eq!(
            update(&engine, "INSERT DATA { <urn:a> <urn:p> 1 }").inserted,
            1
        );
        far.state.lock().unwrap().1 = true;
        far.changed.notify_all();
        assert_eq!(load.join().unwrap().inserted, 2);
    });
    // SERVICE is called, with SILENT too, and its rows are used.
    for silent in ["", "SILENT"] {
        let text = format!(
            "INSERT {{ ?there <urn:by> \"{silent}\" }} WHERE {{ SERVICE {silent} <urn:far> {{ ?there ?p ?o }} }}"
        );
        assert_eq!(update(&engine, &text).inserted, 1);
    }
    assert_eq!(
        number(
            &engine,
            "SELECT (COUNT(*) AS ?n) { <urn:there> <urn:by> ?o }"
        ),
        2
    );
}
