//! Terms that only timing statements mention: they are reclaimed with their windows, and stay while
//! an answer still holds them.

use crate::support::scenario::*;
use somersault::{DeltaMode, Engine, EngineConfig, EventTime, SubscribeOptions, Subscription};
use std::time::Duration;

const BATCH_MS: i64 = 100;

fn stream(engine: &Engine, name: &str, clauses: &str) {
    let text = format!("CREATE STREAM <{NS}{name}> BATCH 100ms IDLE NEVER KEEP 1s {clauses}");
    engine.create_stream(None, &text).unwrap();
}

fn register(engine: &Engine, name: &str, query: &str) -> Subscription {
    let text = format!("PREFIX : <{NS}> {query}");
    engine.register(Some(name), &text).unwrap();
    engine.subscribe(name, SubscribeOptions::default()).unwrap()
}

/// Statements of batch `n`, each with a subject, an object and a blank node of its own.
fn play(engine: &Engine, name: &str, n: i64) {
    let at = n * BATCH_MS;
    let statements: Vec<String> = (0..10)
        .flat_map(|m| {
            [
                format!("fix-{n}-{m} at place-{n}-{m}"),
                format!("fix-{n}-{m} by _:device{m}"),
                format!("fix-{n}-{m} near car-{}", m % 3),
            ]
        })
        .collect();
    let timed: Vec<(i64, &str)> = statements.iter().map(|text| (at, text.as_str())).collect();
    engine.push(&format!("{NS}{name}"), push(&timed)).unwrap();
    go_on(engine, name, at + BATCH_MS);
}

fn go_on(engine: &Engine, name: &str, to_ms: i64) {
    engine
        .advance([(format!("{NS}{name}"), EventTime(to_ms))])
        .unwrap();
}

/// Waits until the sequencer has reclaimed expired terms, which it does now and then.
fn until(engine: &Engine, what: &str, is_so: impl Fn(u64) -> bool) {
    for _ in 0..500 {
        if is_so(engine.metrics().transient_terms) {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{what}: {} terms", engine.metrics().transient_terms);
}

#[test]
fn a_stream_of_fresh_terms_leaves_nothing_behind() {
    let engine = engine();
    stream(&engine, "s", "");
    let near = register(
        &engine,
        "near",
        "SELECT ?fix ?car FROM NAMED STREAM :s [RANGE 200ms STEP 100ms] WHERE { GRAPH :s { ?fix :near ?car } }",
    );
    let mut most = 0;
    for n in 0..200 {
        play(&engine, "s", n);
        let answered = near.recv_timeout(Duration::from_secs(10));
        drop(answered);
        if n > 60 {
            most = most.max(engine.metrics().transient_terms);
        }
    }
    engine.quiesce(Duration::from_secs(10)).unwrap();
    // A second is kept, which is 310 terms; and 64 answers are, each of 20 statements, in whose
    // memory theirs stay.
    assert!(most < 31 * 40, "{most} terms");
    let metrics = engine.metrics();
    assert!(metrics.reclaimed_terms > 31 * 100, "{metrics:?}");
    engine.check().unwrap();
    // The answers that are kept still have their terms.
    let kept = firings(&engine, "near", None);
    assert_eq!(kept.len(), 64);
    for (close, rows) in &kept[2..] {
        let newest = close / BATCH_MS - 1;
        let expected = (newest - 1..=newest)
            .flat_map(|n| (0..10).map(move |m| format!("fix-{n}-{m} <{NS}car-{}", m % 3)));
        let mut expected: Vec<String> = expected
            .map(|row| row.replace(&format!("<{NS}"), ""))
            .collect();
        expected.sort();
        assert_eq!(rows, &expected, "close {close}");
    }
    // Dropping the query and the stream reclaims everything.
    drop(near);
    engine.drop_query("near").unwrap();
    engine.drop_stream(&format!("{NS}s")).unwrap();
    until(&engine, "all is dropped", |terms| terms == 0);
    engine.check().unwrap();
}

#[test]
fn terms_absorbed_loaded_or_updated_later_stay() {
    let engine = engine();
    stream(&engine, "s", "");
    stream(&engine, "facts", "TIMING ( <http://example.org/at> )");
    play(&engine, "s", 0);
    let text = format!("PREFIX : <{NS}> INSERT DATA {{ :fix-0-1 :is :stored }}");
    engine.update(&text).run().unwrap();
    engine
        .push(
            &format!("{NS}facts"),
            push(&[(50, "fix-0-2 is stored"), (50, "fix-0-3 at place-9")]),
        )
        .unwrap();
    go_on(&engine, "facts", 3_000);
    for n in 1..30 {
        play(&engine, "s", n);
    }
    engine.quiesce(Duration::from_secs(10)).unwrap();
    let stored = ["fix-0-1", "fix-0-2"];
    assert_eq!(ask(&engine, "SELECT ?x { ?x :is :stored }"), stored);
    engine.check().unwrap();
    // A window over what comes now finds the stored statements by the same ids.
    let joined = register(
        &engine,
        "joined",
        "SELECT ?x FROM NAMED STREAM :s [RANGE 100ms STEP 100ms] WHERE { GRAPH :s { ?x :near ?car } ?x :is :stored }",
    );
    let text = [(3_000, "fix-0-1 near car-0"), (3_001, "fix-0-3 near car-1")];
    engine.push(&format!("{NS}s"), push(&text)).unwrap();
    go_on(&engine, "s", 3_100);
    let rows = firings(&engine, "joined", Some(3_000));
    assert_eq!(rows, [(3_100, vec!["fix-0-1".to_owned()])]);
    drop(joined);
}

#[test]
fn istream_compares_answers_whose_terms_are_in_no_window_any_more() {
    let engine = engine();
    stream(&engine, "s", "");
    let text = format!(
        "PREFIX : <{NS}> REGISTER ISTREAM :new AS SELECT ?fix FROM NAMED WINDOW :w ON :s [RANGE 100ms STEP 100ms] WHERE {{ WINDOW :w {{ ?fix :seen ?car }} }}"
    );
    engine.register(None, &text).unwrap();
    let seen = |n: i64, name: &str| {
        let text = format!("{name} seen car");
        engine
            .push(&format!("{NS}s"), push(&[(n * BATCH_MS, text.as_str())]))
            .unwrap();
        go_on(&engine, "s", (n + 1) * BATCH_MS);
    };
    seen(0, "a");
    // The clock advances so far that no slice with a is left.
    go_on(&engine, "s", 5_000);
    seen(50, "b");
    seen(51, "b");
    seen(52, "a");
    let rows: Vec<_> = firings(&engine, &format!("{NS}new"), Some(5_000))
        .into_iter()
        .filter(|(_, rows)| !rows.is_empty())
        .collect();
    let expected = [(5_100, vec!["b".to_owned()]), (5_300, vec!["a".to_owned()])];
    assert_eq!(rows, expected);
    engine.check().unwrap();
}

#[test]
fn terms_of_derived_statements_are_reclaimed_too() {
    let engine = engine();
    stream(&engine, "s", "");
    let text = format!(
        "PREFIX : <{NS}> REGISTER STREAM :derived KEEP 1s AS CONSTRUCT {{ ?place :of ?new }} FROM NAMED STREAM :s [RANGE 100ms STEP 100ms] WHERE {{ GRAPH :s {{ ?fix :at ?place }} BIND(IRI(CONCAT(STR(?fix), '-derived')) AS ?new) }}"
    );
    engine.register(None, &text).unwrap();
    let mut most = 0;
    for n in 0..120 {
        play(&engine, "s", n);
        if n > 40 {
            most = most.max(engine.metrics().transient_terms);
        }
    }
    engine.quiesce(Duration::from_secs(20)).unwrap();
    assert!(most < 41 * 40, "{most} terms");
    engine.check().unwrap();
}

#[test]
fn rows_that_are_kept_from_close_to_close_keep_no_terms() {
    let engine = Engine::open(EngineConfig {
        delta: DeltaMode::Always,
        ..config()
    })
    .unwrap();
    stream(&engine, "s", "");
    let near = register(
        &engine,
        "near",
        "SELECT ?fix ?place FROM NAMED STREAM :s [RANGE 300ms STEP 100ms] WHERE { GRAPH :s { ?fix :near :car-1 . ?fix :at ?place } }",
    );
    for n in 0..20 {
        play(&engine, "s", n);
    }
    engine.quiesce(Duration::from_secs(10)).unwrap();
    engine.pause_query("near").unwrap();
    let before = engine.metrics().reclaimed_terms;
    for n in 20..60 {
        play(&engine, "s", n);
    }
    engine.quiesce(Duration::from_secs(10)).unwrap();
    let reclaimed = engine.metrics().reclaimed_terms - before;
    // The terms of the kept batches, of forty, are still there, and those of answers.
    assert!(reclaimed > 31 * 20, "{reclaimed} terms");
    engine.resume_query("near").unwrap();
    for n in 60..64 {
        play(&engine, "s", n);
    }
    let newest = firings(&engine, "near", Some(6_300));
    let mut expected: Vec<String> = (61..64)
        .flat_map(|n| [1, 4, 7].map(|m| format!("fix-{n}-{m} <{NS}place-{n}-{m}")))
        .map(|row| row.replace(&format!("<{NS}"), ""))
        .collect();
    expected.sort();
    assert_eq!(newest, [(6_400, expected)]);
    engine.check().unwrap();
    drop(near);
}
