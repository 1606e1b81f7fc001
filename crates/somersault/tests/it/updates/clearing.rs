//! Graphs that are larger than the limit on query memory can be cleared, dropped, replaced and
//! deleted: such a change is one record that names the graph, and not its statements.

use crate::support::scenario::*;
use oxrdf::{GraphName, NamedNode, Quad};
use oxrdfio::RdfFormat;
use somersault::{Engine, EngineConfig};
use std::path::Path;

/// With the limit below, this number of statements cannot be listed.
const STATEMENTS: usize = 30_000;

fn settings(folder: &Path, shards: u16) -> EngineConfig {
    let mut settings = config();
    settings.data = Some(folder.to_owned());
    settings.workers = shards;
    settings.limits.query_memory_bytes = 1 << 20;
    settings
}

fn node(name: &str) -> NamedNode {
    NamedNode::new_unchecked(format!("{NS}{name}"))
}

/// An engine with two large named graphs, a small one, and a few statements of the default graph.
fn filled(folder: &Path, shards: u16) -> Engine {
    let engine = Engine::open(settings(folder, shards)).unwrap();
    for graph in ["large", "other"] {
        let quads = (0..STATEMENTS).map(|n| {
            let (subject, object) = (node(&format!("s{}", n / 3)), node(&format!("o{}", n % 700)));
            Quad::new(subject, node(&format!("p{}", n % 5)), object, node(graph))
        });
        engine.load_quads(quads).unwrap();
    }
    let small =
        "INSERT DATA { :a :p :b . GRAPH :small { :s1 :p1 :o1 , :o2 } GRAPH :large { :x :p1 :y } }";
    update(&engine, small);
    engine
}

fn update(engine: &Engine, text: &str) -> (u64, u64) {
    let text = format!("PREFIX : <{NS}> {text}");
    let summary = engine.update(&text).run().unwrap();
    (summary.inserted, summary.deleted)
}

/// Number of statements by graph, the default graph last.
fn counts(engine: &Engine) -> Vec<String> {
    engine.check().unwrap();
    let named = "SELECT ?g (COUNT(*) AS ?n) { GRAPH ?g { ?s ?p ?o } } GROUP BY ?g ORDER BY ?g";
    let mut all = ask(engine, named);
    all.extend(ask(engine, "SELECT (COUNT(*) AS ?n) { ?s ?p ?o }"));
    all
}

/// The counts after the change, and those after a restart, which are to be the same.
fn restarted(change: impl Fn(&Engine), shards: u16) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let engine = filled(folder.path(), shards);
    change(&engine);
    let before = counts(&engine);
    drop(engine);
    let engine = Engine::open(settings(folder.path(), shards)).unwrap();
    assert_eq!(counts(&engine), before, "recovery gives the same counts");
    before
}

#[test]
fn a_graph_above_the_memory_limit_is_cleared_and_dropped() {
    for (text, left) in [
        ("CLEAR GRAPH :large", 3),
        ("DROP GRAPH :large", 3),
        ("CLEAR NAMED", 1),
        ("DROP ALL", 1),
    ] {
        let shards = if text.starts_with("CLEAR") { 2 } else { 4 };
        let counts = restarted(
            |engine| {
                let (inserted, deleted) = update(engine, text);
                assert_eq!(inserted, 0);
                let named = 2 * STATEMENTS as u64 + 3;
                let expected = match text {
                    "CLEAR NAMED" => named,
                    "DROP ALL" => named + 1,
                    _ => STATEMENTS as u64 + 1,
                };
                assert_eq!(deleted, expected, "{text}");
            },
            shards,
        );
        assert_eq!(counts.len(), left, "{text}: {counts:?}");
    }
}

#[test]
fn later_operations_of_a_request_see_the_graph_empty() {
    let counts = restarted(
        |engine| {
            // A statement that is inserted again is neither deleted nor new.
            let text = "CLEAR GRAPH :large ; INSERT DATA { GRAPH :large { :x :p1 :y . :x :p1 :z } } ; \
                        INSERT { :seen :p ?s } WHERE { GRAPH :large { ?s ?p ?o } }";
            assert_eq!(update(engine, text), (2, STATEMENTS as u64));
        },
        2,
    );
    assert_eq!(counts.len(), 4, "{counts:?}");
    assert!(
        counts[0].contains('2') && counts[3].contains('2'),
        "{counts:?}"
    );
}

#[test]
fn a_large_document_replaces_a_graph_above_the_memory_limit() {
    // It shares the second half of the graph's statements, and has as many new ones.
    let half = STATEMENTS / 2;
    let lines = (half..STATEMENTS + half).map(|n| {
        let (subject, object) = (node(&format!("s{}", n / 3)), node(&format!("o{}", n % 700)));
        format!("{subject} {} {object} .\n", node(&format!("p{}", n % 5)))
    });
    let document: String = lines.collect();
    assert!(document.len() > 1 << 20, "it is written like a load");
    let large = GraphName::from(node("large"));
    for shards in [1, 2] {
        let counts = restarted(
            |engine| {
                let write = || {
                    let document = document.as_bytes();
                    let format = RdfFormat::NTriples;
                    let written = engine.replace_graph(&large, document, format, None);
                    let written = written.unwrap();
                    (written.inserted, written.deleted, written.created)
                };
                // Both together would be too many for the query that counts them.
                update(engine, "DROP GRAPH :other");
                assert_eq!(write(), (half as u64, half as u64 + 1, false));
                assert_eq!(write(), (0, 0, false));
            },
            shards,
        );
        assert_eq!(counts.len(), 3, "{counts:?}");
        assert!(counts[0].contains("30000"), "{counts:?}");
    }
}

#[test]
fn a_document_replaces_a_graph_above_the_memory_limit() {
    let document = format!("<{NS}x> <{NS}p1> <{NS}y> , <{NS}new> .");
    let large = GraphName::from(node("large"));
    let counts = restarted(
        |engine| {
            let written = engine
                .replace_graph(&large, document.as_bytes(), RdfFormat::Turtle, None)
                .unwrap();
            assert_eq!((written.inserted, written.deleted), (1, STATEMENTS as u64));
            assert!(!written.created);
        },
        2,
    );
    assert_eq!(counts.len(), 4, "{counts:?}");
    let counts = restarted(
        |engine| {
            let written = engine.clear_graph(&large).unwrap();
            assert_eq!(written.deleted, STATEMENTS as u64 + 1);
        },
        1,
    );
    assert_eq!(counts.len(), 3, "{counts:?}");
}
