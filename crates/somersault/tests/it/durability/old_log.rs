//! A log of queries of every kind that an earlier version wrote: it is read to the same state and
//! the same answers.
//!
//! The folder `fixtures/registered-queries` was written by the version before queries had one kind,
//! and is not written again. A later format gets a folder of its own: run this with
//! `SOMERSAULT_WRITE_FIXTURE=1` where there is none.

use crate::support::scenario::*;
use somersault::{
    Engine, EngineConfig, EventTime, FiringId, NewQuery, SubscribeOptions, SubscriptionEvent,
};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/registered-queries")
}

fn at(folder: &Path) -> Engine {
    Engine::open(EngineConfig {
        data: Some(folder.to_owned()),
        kept_firings: 4,
        ..config()
    })
    .unwrap()
}

fn prefixed(text: &str) -> String {
    format!("PREFIX : <{NS}> {text}")
}

/// A query of the shape that several have.
fn likes(what: &str) -> String {
    prefixed(&format!(
        "SELECT ?x FROM NAMED STREAM :s [RANGE 2s STEP 1s] WHERE {{ GRAPH :s {{ ?x :likes :{what} }} }}"
    ))
}

/// Queries that have no shape, by name.
const APART: [(&str, &str); 6] = [
    (
        "alone",
        "BASE <urn:x> SELECT ?x FROM NAMED STREAM :s [RANGE 2s STEP 1s] WHERE { GRAPH :s { ?x :likes :a } }",
    ),
    (
        "changes",
        "SELECT ISTREAM ?x FROM NAMED WINDOW :w ON :s [RANGE 2s STEP 1s] WHERE { WINDOW :w { ?x :likes ?y } }",
    ),
    (
        "counts",
        "SELECT ?x FROM NAMED WINDOW :w ON :s [ELEMENTS 3 STEP 2] WHERE { WINDOW :w { ?x :likes ?o } }",
    ),
    (
        "reports",
        "SELECT ?x FROM NAMED STREAM :s [RANGE 1s STEP 1s] REPORT ON CHANGE WHERE { GRAPH :s { ?x :likes :a } }",
    ),
    (
        "skips",
        "SELECT ?x FROM NAMED STREAM :s [RANGE 1s STEP 1s] ON OVERLOAD SKIP WHERE { GRAPH :s { ?x :likes :b } }",
    ),
    (
        "everything",
        "SELECT ?x WHERE { STREAM :s [ALL] { ?x :likes :c } }",
    ),
];

fn second(engine: &Engine, second: i64) {
    let names = ["a", "b", "c"];
    let likes: Vec<String> = (0..second % 4)
        .map(|n| {
            format!(
                "p{} likes {}",
                (second + n) % 5,
                names[(second * n % 3) as usize]
            )
        })
        .collect();
    let likes: Vec<(i64, &str)> = likes
        .iter()
        .map(|like| (second * 1000 + 100, like.as_str()))
        .collect();
    for name in ["s", "t"] {
        engine.push(&format!("{NS}{name}"), push(&likes)).unwrap();
    }
    advance_sources(engine, (second + 1) * 1000);
}

fn advance_sources(engine: &Engine, to_ms: i64) {
    let to = ["s", "t"].map(|name| (format!("{NS}{name}"), EventTime(to_ms)));
    engine.advance(to).unwrap();
}

/// The content of the fixture: queries are registered, paused, resumed, replaced and dropped.
fn write(folder: &Path) {
    let engine = at(folder);
    let register = |name: Option<&str>, text: &str| {
        engine.register(name, text).unwrap();
    };
    for name in ["s", "t"] {
        let late = if name == "t" {
            "LATENESS 0s LATE AMEND WITHIN 3s"
        } else {
            ""
        };
        let text = format!("CREATE STREAM <{NS}{name}> {late} BATCH 1s IDLE NEVER");
        engine.create_stream(None, &text).unwrap();
    }
    register(Some("first"), &likes("a"));
    advance_sources(&engine, 0);
    register(Some("second"), &likes("b"));
    let many = (0..4).map(|at| NewQuery {
        name: Some(format!("many{at}")),
        text: likes(["a", "b", "c", "d"][at]),
    });
    assert!(
        engine
            .register_many(many)
            .unwrap()
            .iter()
            .all(Result::is_ok)
    );
    for (name, text) in APART {
        register(Some(name), &prefixed(text));
    }
    let derives = prefixed(
        "REGISTER STREAM :d TIMING ALL AS CONSTRUCT { ?x :is :liked } FROM NAMED STREAM :s [RANGE 1s STEP 1s] WHERE { GRAPH :s { ?x :likes ?y } }",
    );
    register(None, &derives);
    register(
        Some("reader"),
        &prefixed(
            "SELECT ?x FROM NAMED STREAM :d [RANGE 2s STEP 1s] WHERE { GRAPH :d { ?x :is :liked } }",
        ),
    );
    register(
        Some("amended"),
        &prefixed(
            "SELECT ?x FROM NAMED STREAM :t [RANGE 2s STEP 1s] WHERE { GRAPH :t { ?x :likes ?y } }",
        ),
    );
    for number in 0..4 {
        second(&engine, number);
    }
    let late = push(&[(2500, "late likes a")]);
    engine.push(&format!("{NS}t"), late).unwrap();
    for name in ["second", "alone", "many2", "changes"] {
        engine.pause_query(name).unwrap();
    }
    for number in 4..6 {
        second(&engine, number);
    }
    for name in ["second", "alone"] {
        engine.resume_query(name).unwrap();
    }
    engine.drop_query("many1").unwrap();
    // Within a group, out of it, and into one.
    engine.replace(Some("many0"), &likes("d")).unwrap();
    engine
        .replace(Some("many3"), &prefixed(APART[0].1))
        .unwrap();
    engine.replace(Some("skips"), &likes("c")).unwrap();
    for number in 6..9 {
        second(&engine, number);
    }
    engine.resume_query("changes").unwrap();
    // A jump in time, whose empty closes are skipped.
    advance_sources(&engine, 200_000);
    second(&engine, 200);
    engine.pause_query("reports").unwrap();
    second(&engine, 201);
    engine.quiesce(Duration::from_secs(60)).unwrap();
    engine.shutdown().unwrap();
}

/// All that the queries say of themselves and give their subscribers.
fn seen(engine: &Engine) -> String {
    engine.quiesce(Duration::from_secs(60)).unwrap();
    let mut text = String::new();
    for info in engine.queries() {
        let group = info
            .group
            .map(|group| (group.queries, group.combinations, group.together));
        writeln!(
            text,
            "{} uid {} paused {} group {group:?} firings {} rows {} last {:?} next {:?} amended {} passed {} while paused {} derives {:?} error {:?}\n{}",
            info.name,
            info.uid,
            info.paused,
            info.firings,
            info.rows,
            info.last_close.map(|close| close.0),
            info.next_close.map(|close| close.0),
            info.amended,
            info.skipped_empty,
            info.passed_while_paused,
            info.derives,
            info.last_error,
            info.text
        )
        .unwrap();
        let subscription = engine
            .subscribe(&info.name, SubscribeOptions::default())
            .unwrap();
        while let Some(event) = subscription.try_recv() {
            match event {
                SubscriptionEvent::Firing(firing) => writeln!(
                    text,
                    "  {} {:?}",
                    FiringId {
                        uid: None,
                        ..firing.id()
                    },
                    shown(firing.answer.as_ref().unwrap())
                ),
                other => writeln!(text, "  {other:?}"),
            }
            .unwrap();
        }
    }
    text
}

#[test]
fn a_log_of_an_earlier_version_gives_the_same_queries_and_answers() {
    let fixture = fixture();
    if std::env::var_os("SOMERSAULT_WRITE_FIXTURE").is_some() && !fixture.exists() {
        write(&fixture);
        let folder = copy_of(&fixture);
        let engine = at(folder.path());
        let mut text = seen(&engine);
        second(&engine, 202);
        text.push_str(&seen(&engine));
        std::fs::write(fixture.with_extension("txt"), text).unwrap();
    }
    let folder = copy_of(&fixture);
    let engine = at(folder.path());
    let mut text = seen(&engine);
    // The engine continues from there.
    second(&engine, 202);
    text.push_str(&seen(&engine));
    let expected = std::fs::read_to_string(fixture.with_extension("txt")).unwrap();
    for (line, expected) in text.lines().zip(expected.lines()) {
        assert_eq!(line, expected);
    }
    assert_eq!(text.lines().count(), expected.lines().count());
    engine.check().unwrap();
}

fn copy_of(fixture: &Path) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(fixture).unwrap() {
        let entry = entry.unwrap();
        if entry.file_name() != "LOCK" {
            std::fs::copy(entry.path(), folder.path().join(entry.file_name())).unwrap();
        }
    }
    folder
}
