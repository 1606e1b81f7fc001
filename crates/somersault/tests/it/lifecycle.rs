//! Queries that come, go, wait and are slow while data flows: none of that is seen in the answers of others.

use crate::endpoint::{LONG, Slow};
use crate::scenario::*;
use somersault::{Engine, FiringResult, SubscribeOptions, Subscription};
use std::sync::Arc;

/// Text of a query over `:s` that differs from others in its constants alone, or that stands alone, as a BASE leaves a text as it is.
fn text(alone: bool, query: &str) -> String {
    let base = if alone { "BASE <urn:x>" } else { "" };
    format!("PREFIX : <{NS}> {base} {query}")
}

/// Who likes something, and an endpoint that says when the answer may come.
fn slow_text() -> String {
    text(
        true,
        "SELECT ?who FROM NAMED STREAM :s [RANGE 1s STEP 1s] WHERE { GRAPH :s { ?who :likes ?what } SERVICE :far { ?x :is ?there } }",
    )
}

fn stream(engine: &Engine, clauses: &str) -> String {
    let iri = format!("{NS}s");
    let text = format!("CREATE STREAM <{iri}> {clauses} BATCH 1s IDLE NEVER");
    engine.create_stream(None, &text).unwrap();
    iri
}

fn next(subscription: &Subscription) -> Arc<FiringResult> {
    let event = subscription.recv_timeout(LONG);
    let event = event.expect("the answer comes").expect("the query stands");
    firing(event).expect("nothing is missed")
}

/// A slow query's firings come and wait for it while all closes of the others are answered: those who wait for the endpoint
/// are more than the threads for queries, and each has more closes due than all threads there are.
#[test]
fn a_slow_query_delays_nobody() {
    let slow = Slow::open(config());
    let engine = &slow.engine;
    let s = stream(engine, "");
    let slow_names = ["slow 0", "slow 1", "slow 2"];
    for name in slow_names {
        engine.register(Some(name), &slow_text()).unwrap();
    }
    let subscribe = |name: &str| engine.subscribe(name, SubscribeOptions::default()).unwrap();
    let light = |at: usize| {
        let name = format!("light {at}");
        let query = format!(
            "SELECT ?who FROM NAMED STREAM :s [RANGE 1s STEP 1s] WHERE {{ GRAPH :s {{ ?who :likes :p{at} }} }}"
        );
        engine.register(Some(&name), &text(at < 5, &query)).unwrap();
        subscribe(&name)
    };
    let lights: Vec<Subscription> = (0..10).map(light).collect();
    advance(engine, 0);
    let closes: Vec<i64> = (1..=12).map(|k| k * 1000).collect();
    for close_ms in &closes {
        let statements: Vec<String> = (0..10)
            .map(|at| format!("{close_ms} likes p{at}"))
            .collect();
        let statements: Vec<(i64, &str)> = statements
            .iter()
            .map(|statement| (close_ms - 500, statement.as_str()))
            .collect();
        engine.push(&s, push(&statements)).unwrap();
        advance(engine, *close_ms);
        for light in &lights {
            let firing = next(light);
            let rows = shown(firing.answer.as_ref().unwrap());
            assert_eq!(
                (firing.close_ms, rows),
                (*close_ms, vec![close_ms.to_string()])
            );
        }
    }
    slow.endpoint.wait_until_asked(slow_names.len());
    for name in slow_names {
        assert_eq!(engine.query_info(name).unwrap().firings, 0);
    }
    slow.endpoint.open();
    let rows = |close: &i64| (*close, vec![close.to_string(); 10]);
    let all: Vec<(i64, Vec<String>)> = closes.iter().map(rows).collect();
    for name in slow_names {
        assert_eq!(firings(engine, name, None), all, "{name}");
    }
}

/// What waits for its turn when its query is dropped is not executed, and nobody waits for it.
#[test]
fn the_firings_of_a_dropped_query_are_given_up() {
    let slow = Slow::open(config());
    let engine = &slow.engine;
    let s = stream(engine, "");
    engine.register(Some("slow"), &slow_text()).unwrap();
    let answers = engine.subscribe("slow", SubscribeOptions::default());
    let answers = answers.unwrap();
    advance(engine, 0);
    for close_ms in (1000..=8000).step_by(1000) {
        let statement = [(close_ms - 500, "a likes p")];
        engine.push(&s, push(&statement)).unwrap();
        advance(engine, close_ms);
    }
    slow.endpoint.wait_until_asked(1);
    engine.drop_query("slow").unwrap();
    assert!(answers.recv().is_none());
    slow.endpoint.open();
    engine.quiesce(LONG).unwrap();
    assert_eq!(slow.endpoint.asked(), 1);
}
