//! The kinds of windows beside RANGE and STEP: past ones, NOW, ALL.

use crate::scenario::*;
use somersault::{Engine, SubscribeOptions, SubscriptionEvent};
use std::time::Duration;

fn set_up(clauses: &str, queries: &[(&str, &str)]) -> Engine {
    let engine = engine();
    let text = format!("CREATE STREAM <{NS}s> TIMING ALL BATCH 1s IDLE NEVER {clauses}");
    engine.create_stream(None, &text).unwrap();
    for (name, query) in queries {
        let text = format!("PREFIX : <{NS}> {query}");
        engine.register(Some(name), &text).unwrap();
    }
    engine
}

fn feed(engine: &Engine, seconds: std::ops::Range<i64>) {
    for second in seconds {
        let triple = format!("s{second} p o");
        let at = second * 1000 + 500;
        engine
            .push(&format!("{NS}s"), push(&[(at, &triple)]))
            .unwrap();
        advance(engine, (second + 1) * 1000);
    }
}

#[test]
fn a_past_window_shows_what_lies_behind() {
    let past = "SELECT ?x FROM NAMED WINDOW :w ON :s [FROM NOW-3s TO NOW-1s STEP 2s] WHERE { WINDOW :w { ?x :p ?o } }";
    let both = "SELECT ?x ?y FROM NAMED WINDOW :w ON :s [FROM NOW-3s TO NOW-2s STEP 1s] FROM NAMED WINDOW :n ON :s [RANGE 1s]
                WHERE { WINDOW :w { ?x :p ?o } WINDOW :n { ?y :p ?o } }";
    let engine = set_up("", &[("past", past), ("both", both)]);
    advance(&engine, 0);
    feed(&engine, 0..6);
    assert_eq!(
        firings(&engine, "past", None),
        expected(&[
            (2000, &["s0"]),
            (4000, &["s1", "s2"]),
            (6000, &["s3", "s4"])
        ])
    );
    assert_eq!(
        firings(&engine, "both", None)[3..],
        expected(&[(4000, &["s1 s3"]), (5000, &["s2 s4"]), (6000, &["s3 s5"])])
    );
    let explained = engine.explain(
        &format!("PREFIX : <{NS}> {past}"),
        &Default::default(),
        false,
    );
    let explained = explained.unwrap();
    assert!(
        explained.contains("holds c − 3000 ms ≤ event time < c − 1000 ms"),
        "{explained}"
    );
}

#[test]
fn now_is_the_batch_and_all_is_what_keep_allows() {
    let now = "SELECT ?x WHERE { STREAM :s [NOW] { ?x :p ?o } }";
    let every = "SELECT (COUNT(*) AS ?n) WHERE { STREAM :s [ALL] { ?x :p ?o } }";
    let engine = set_up("KEEP 3s", &[("now", now)]);
    advance(&engine, 0);
    feed(&engine, 0..2);
    engine
        .register(Some("every"), &format!("PREFIX : <{NS}> {every}"))
        .unwrap();
    feed(&engine, 2..7);
    assert_eq!(
        firings(&engine, "now", Some(5000)),
        expected(&[(6000, &["s5"]), (7000, &["s6"])])
    );
    engine.quiesce(Duration::from_secs(60)).unwrap();
    let reader = engine
        .subscribe("every", SubscribeOptions::default())
        .unwrap();
    let firings: Vec<_> = std::iter::from_fn(|| reader.try_recv())
        .map(|event| match event {
            SubscriptionEvent::Firing(firing) => {
                let rows = shown(firing.answer.as_ref().unwrap());
                let count = rows[0].split('"').nth(1).unwrap().to_owned();
                (firing.close_ms, count, firing.complete_from_ms)
            }
            other => panic!("{other:?}"),
        })
        .collect();
    let firing = |close: i64, count: &str, from: Option<i64>| (close, count.to_owned(), from);
    assert_eq!(
        firings,
        [
            firing(3000, "1", None),
            firing(4000, "2", None),
            firing(5000, "3", None),
            // The statement of 2500 has gone, and the firing says so.
            firing(6000, "3", Some(3000)),
            firing(7000, "3", Some(4000)),
        ]
    );
    let info = engine.query_info("every").unwrap();
    assert_eq!(
        (info.windows[0].extent.as_str(), info.windows[0].range_ms),
        ("ALL", None)
    );
}
