//! ISTREAM and DSTREAM: insertions and deletions since the previous firing, also across a pause, a
//! jump in time, and a restart.

use crate::support::scenario::*;
use somersault::{Engine, EngineConfig};

const CREATE: &str = "TIMING ALL BATCH 1s IDLE NEVER";

fn set_up(engine: &Engine) {
    let text = format!("CREATE STREAM <{NS}s> {CREATE}");
    engine.create_stream(None, &text).unwrap();
    for (name, query) in [
        (
            "came",
            "SELECT ISTREAM ?x FROM NAMED WINDOW :w ON :s [RANGE 2s STEP 1s] WHERE { WINDOW :w { ?x :p ?y } }",
        ),
        (
            "went",
            "REGISTER DSTREAM went AS SELECT ?x FROM NAMED WINDOW :w ON :s [RANGE 2s STEP 1s] WHERE { WINDOW :w { ?x :p ?y } }",
        ),
        (
            "told",
            "CONSTRUCT ISTREAM { ?x :is _:n } FROM NAMED WINDOW :w ON :s [RANGE 2s STEP 1s] WHERE { WINDOW :w { ?x :p ?y } }",
        ),
        (
            "counted",
            "SELECT ISTREAM (COUNT(*) AS ?n) (CONCAT('a text of so many rows: ', STR(COUNT(*))) AS ?t) FROM STREAM :s [RANGE 2s STEP 1s] WHERE { ?x :p ?y }",
        ),
    ] {
        let text = format!("PREFIX : <{NS}> {query}");
        engine.register(Some(name), &text).unwrap();
    }
}

const INPUTS: [(i64, &[&str]); 6] = [
    (100, &["a p 1", "b p 1"]),
    (1100, &["a p 2", "b p 1"]),
    (2100, &["c p 1"]),
    (3100, &[]),
    (4100, &["c p 1", "c p 2"]),
    (5100, &["b p 3"]),
];

fn feed(engine: &Engine, inputs: &[(i64, &[&str])]) {
    for (at, triples) in inputs {
        let statements: Vec<_> = triples.iter().map(|triple| (*at, *triple)).collect();
        let pushed = engine.push(&format!("{NS}s"), push(&statements));
        pushed.unwrap();
        advance(engine, at - 100 + 1000);
    }
}

#[test]
fn insertions_less_deletions_add_up_to_the_answers() {
    let engine = engine();
    set_up(&engine);
    advance(&engine, 0);
    feed(&engine, &INPUTS);
    assert_eq!(
        firings(&engine, "came", None),
        expected(&[
            (1000, &["a", "b"]),
            // Both are still there, and a is there twice.
            (2000, &["a"]),
            (3000, &["c"]),
            (4000, &[]),
            (5000, &["c"]),
            (6000, &["b"]),
        ])
    );
    assert_eq!(
        firings(&engine, "went", None),
        expected(&[
            (1000, &[]),
            (2000, &[]),
            (3000, &["a"]),
            (4000, &["a", "b"]),
            (5000, &[]),
            (6000, &[]),
        ])
    );
    let counts: Vec<usize> = (firings(&engine, "counted", None).into_iter())
        .map(|(_, rows)| rows.len())
        .collect();
    assert_eq!(counts, [1, 1, 0, 1, 1, 1], "2, 3, 3, 1, 2, 3");
    let told: Vec<usize> = (firings(&engine, "told", None).into_iter())
        .map(|(_, rows)| rows.len())
        .collect();
    assert_eq!(
        told,
        [2, 1, 1, 0, 1, 1],
        "each solution has a blank node of its own"
    );
}

#[test]
fn skipped_closes_do_not_hide_deletions() {
    let engine = engine();
    set_up(&engine);
    advance(&engine, 0);
    feed(&engine, &INPUTS[..1]);
    advance(&engine, 1_000_000);
    let went = firings(&engine, "went", None);
    let (_, rows) = went.iter().find(|(_, rows)| !rows.is_empty()).unwrap();
    assert_eq!(rows, &["a", "b"]);
    assert!(went.len() < 10, "the empty closes of the jump were skipped");
    engine.pause_query("went").unwrap();
    feed(&engine, &[(1_000_100, &["d p 1"])]);
    engine.resume_query("went").unwrap();
    feed(&engine, &[(1_001_100, &[]), (1_002_100, &[])]);
    // It was not there at the last firing before the pause, nor is it at the second one after.
    let after = firings(&engine, "went", Some(1_000_000));
    assert_eq!(after, expected(&[(1_002_000, &[]), (1_003_000, &["d"])]));
}

/// The firings of all queries, with as few kept as there may be, so that marks come early.
fn all(engine: &Engine) -> Vec<Vec<(i64, Vec<String>)>> {
    let of = |name: &&str| firings(engine, name, None);
    ["came", "went", "told", "counted"].iter().map(of).collect()
}

#[test]
fn a_restart_changes_no_reported_difference() {
    let inputs: Vec<(i64, Vec<String>)> = (0..60_i64)
        .map(|second| {
            let of = |n: i64| format!("s{} p {}", (second * 7 + n * 3) % 5, n % 2);
            (second * 1000 + 100, (0..second % 4).map(of).collect())
        })
        .collect();
    let feed = |engine: &Engine, from: usize, to: usize| {
        for (at, triples) in &inputs[from..to] {
            let statements: Vec<_> = triples
                .iter()
                .map(|triple| (*at, triple.as_str()))
                .collect();
            engine.push(&format!("{NS}s"), push(&statements)).unwrap();
            advance(engine, at - 100 + 1000);
        }
    };
    let settings = || EngineConfig {
        kept_firings: 4,
        ..config()
    };
    let whole = Engine::open(settings()).unwrap();
    set_up(&whole);
    advance(&whole, 0);
    feed(&whole, 0, 60);
    let expected = all(&whole);
    assert!(expected.iter().all(|firings| firings.len() == 4));

    for cut in [1, 15, 20, 21, 22, 37, 59] {
        let folder = tempfile::tempdir().unwrap();
        let durable = || EngineConfig {
            data: Some(folder.path().to_owned()),
            ..settings()
        };
        let before = {
            let engine = Engine::open(durable()).unwrap();
            set_up(&engine);
            advance(&engine, 0);
            feed(&engine, 0, cut);
            all(&engine)
        };
        let engine = Engine::open(durable()).unwrap();
        assert_eq!(all(&engine), before, "cut at {cut}");
        feed(&engine, cut, 60);
        assert_eq!(all(&engine), expected, "cut at {cut}");
    }
}
