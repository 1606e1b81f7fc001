//! Windows: what a firing sees, and when.

use crate::support::scenario::*;
use somersault::{Engine, EventTime, FiringId, Push, SubscribeOptions, SubscriptionEvent};
use std::time::Duration;

fn stream(engine: &Engine, name: &str, clauses: &str) -> String {
    let iri = format!("{NS}{name}");
    let text = format!("CREATE STREAM <{iri}> {clauses} BATCH 1s IDLE NEVER");
    engine.create_stream(None, &text).unwrap();
    iri
}

fn register(engine: &Engine, name: &str, text: &str) {
    let text = format!("PREFIX : <{NS}> {text}");
    engine.register(Some(name), &text).unwrap();
}

#[test]
fn a_window_is_joined_with_the_graph_as_it_evolves() {
    let engine = engine();
    let likes = stream(&engine, "likes", "");
    let posts = stream(&engine, "posts", "TIMELESS");
    engine
        .load_quads([triple("ann knows bob").in_graph(oxrdf::GraphName::DefaultGraph)])
        .unwrap();
    register(
        &engine,
        "q",
        "SELECT ?who ?post FROM STREAM :likes [RANGE 2s STEP 1s] WHERE { ?who :likes ?post . ?author :wrote ?post . ?who :knows ?author }",
    );
    advance(&engine, 0);
    engine.push(&likes, push(&[(100, "ann likes p1")])).unwrap();
    engine
        .push(
            &posts,
            push(&[(1200, "bob wrote p1"), (1300, "eve wrote p1")]),
        )
        .unwrap();
    for to_ms in [1000, 2000, 3000] {
        advance(&engine, to_ms);
    }
    // At 1000 the post has not arrived; at 2000 it has and the like is still in the window; at 3000
    // the like has expired.
    let all = firings(&engine, "q", None);
    assert_eq!(
        all,
        expected(&[(1000, &[]), (2000, &["ann p1"]), (3000, &[])])
    );
    engine.check().unwrap();
}

#[test]
fn solutions_are_a_bag_and_windows_are_sets() {
    let engine = engine();
    let s = stream(&engine, "s", "");
    register(
        &engine,
        "q",
        "SELECT ?a FROM STREAM :s [RANGE 1s STEP 1s] WHERE { ?a :p ?b . ?b :q ?c }",
    );
    advance(&engine, 0);
    // Twice the same statement in one window counts once; two ways to the same ?a count twice.
    engine
        .push(
            &s,
            push(&[
                (1, "a p b"),
                (2, "a p b"),
                (3, "b q c"),
                (4, "b q d"),
                (5, "x p b"),
            ]),
        )
        .unwrap();
    advance(&engine, 1000);
    let rows: &[&str] = &["a", "a", "x", "x"];
    assert_eq!(firings(&engine, "q", None), expected(&[(1000, rows)]));
}

#[test]
fn windows_of_unequal_steps_show_their_latest_close() {
    let engine = engine();
    let (s, t) = (stream(&engine, "s", ""), stream(&engine, "t", ""));
    register(
        &engine,
        "q",
        "SELECT ?x ?y FROM NAMED STREAM :s [RANGE 1s STEP 1s] FROM NAMED STREAM :t [RANGE 2s STEP 2s]
         WHERE { { GRAPH :s { ?x :p :o } } UNION { GRAPH :t { ?y :p :o } } }",
    );
    advance(&engine, 0);
    for second in 0..4 {
        let at = second * 1000 + 500;
        let (one, two) = (format!("s{second} p o"), format!("t{second} p o"));
        engine.push(&s, push(&[(at, one.as_str())])).unwrap();
        engine.push(&t, push(&[(at, two.as_str())])).unwrap();
        advance(&engine, (second + 1) * 1000);
    }
    assert_eq!(
        firings(&engine, "q", None),
        expected(&[
            (1000, &["s0 -"]),
            (2000, &["- t0", "- t1", "s1 -"]),
            (3000, &["- t0", "- t1", "s2 -"]),
            (4000, &["- t2", "- t3", "s3 -"]),
        ])
    );
}

#[test]
fn two_windows_of_one_stream_do_not_leak_into_each_other() {
    let engine = engine();
    let s = stream(&engine, "s", "");
    let update = format!("PREFIX : <{NS}> INSERT DATA {{ GRAPH :stored {{ :s0 :p :stored }} }}");
    engine.update(&update).run().unwrap();
    let windows = "FROM NAMED WINDOW :short ON :s [RANGE 1s STEP 1s] FROM NAMED WINDOW :long ON :s [RANGE 3s STEP 1s]";
    for (name, text) in [
        // Statements of the long window alone.
        (
            "rsp",
            format!(
                "SELECT RSTREAM ?x {windows} WHERE {{ WINDOW :long {{ ?x :p :o }} FILTER NOT EXISTS {{ WINDOW :short {{ ?x :p :o }} }} }}"
            ),
        ),
        (
            "cqels",
            "SELECT ?x WHERE { STREAM :s [RANGE 3s SLIDE 1s] { ?x :p :o } MINUS { STREAM :s [RANGE 1s TUMBLING] { ?x :p ?y } } }".to_owned(),
        ),
        (
            "which",
            format!("SELECT ?x ?w {windows} WHERE {{ WINDOW ?w {{ ?x :p :o }} }}"),
        ),
        // In RSP-QL a window is no graph.
        (
            "graphs",
            format!(
                "SELECT ?x ?g {windows} FROM NAMED :stored WHERE {{ GRAPH ?g {{ ?x :p ?o }} }}"
            ),
        ),
    ] {
        register(&engine, name, &text);
    }
    advance(&engine, 0);
    for second in 0..3 {
        let statement = format!("s{second} p o");
        engine
            .push(&s, push(&[(second * 1000 + 500, statement.as_str())]))
            .unwrap();
        advance(&engine, (second + 1) * 1000);
    }
    let older = expected(&[(1000, &[]), (2000, &["s0"]), (3000, &["s0", "s1"])]);
    assert_eq!(firings(&engine, "rsp", None), older);
    assert_eq!(firings(&engine, "cqels", None), older);
    assert_eq!(
        firings(&engine, "which", None),
        expected(&[
            (1000, &["s0 long", "s0 short"]),
            (2000, &["s0 long", "s1 long", "s1 short"]),
            (3000, &["s0 long", "s1 long", "s2 long", "s2 short"]),
        ])
    );
    let stored: &[&str] = &["s0 stored"];
    assert_eq!(
        firings(&engine, "graphs", None),
        expected(&[(1000, stored), (2000, stored), (3000, stored)])
    );
}

#[test]
fn closes_are_counted_from_starting_at() {
    let engine = engine();
    let s = stream(&engine, "s", "");
    register(
        &engine,
        "odd",
        "SELECT ?x FROM STREAM :s [RANGE 2s STEP 2s] STARTING AT \"1970-01-01T00:00:01Z\" WHERE { ?x :p :o }",
    );
    advance(&engine, 0);
    let statements = [
        (500, "a p o"),
        (1500, "b p o"),
        (2500, "c p o"),
        (3500, "d p o"),
    ];
    engine.push(&s, push(&statements)).unwrap();
    advance(&engine, 5000);
    assert_eq!(
        firings(&engine, "odd", None),
        expected(&[(1000, &["a"]), (3000, &["b", "c"]), (5000, &["d"])])
    );
}

#[test]
fn unbound_values_asks_and_graphs() {
    let engine = engine();
    let s = stream(&engine, "s", "");
    register(
        &engine,
        "optional",
        "SELECT ?a ?c FROM STREAM :s [RANGE 1s TUMBLING] WHERE { ?a :p ?b OPTIONAL { ?b :q ?c } }",
    );
    register(
        &engine,
        "ask",
        "ASK FROM STREAM :s [RANGE 1s STEP 1s] WHERE { ?a :q ?b }",
    );
    register(
        &engine,
        "graph",
        "CONSTRUCT { ?b :r ?a } FROM STREAM :s [RANGE 1s STEP 1s] WHERE { ?a :p ?b }",
    );
    register(
        &engine,
        "describe",
        "DESCRIBE ?a FROM STREAM :s [RANGE 1s STEP 1s] WHERE { ?a :q ?c }",
    );
    advance(&engine, 0);
    engine
        .push(&s, push(&[(10, "a p b"), (10, "x p y"), (20, "b q c")]))
        .unwrap();
    advance(&engine, 1000);
    advance(&engine, 2000);
    assert_eq!(
        firings(&engine, "optional", None),
        expected(&[(1000, &["a c", "x -"]), (2000, &[])])
    );
    assert_eq!(
        firings(&engine, "ask", None),
        expected(&[(1000, &["true"]), (2000, &["false"])])
    );
    assert_eq!(
        firings(&engine, "graph", None),
        expected(&[(1000, &["b r a", "y r x"]), (2000, &[])])
    );
    // The description from the window, and from nothing else.
    assert_eq!(
        firings(&engine, "describe", None),
        expected(&[(1000, &["b q c"]), (2000, &[])])
    );
}

#[test]
fn a_timing_statement_is_never_absorbed_and_pushes_are_seen_within_the_freshness() {
    let engine = engine();
    let s = stream(&engine, "s", "TIMING (<http://example.org/at>)");
    engine
        .push(
            &s,
            push(&[(10, "a at here"), (20, "a wrote b"), (1500, "a wrote c")]),
        )
        .unwrap();
    // Event time has passed the first batch, so its fact becomes visible without any heartbeat.
    let deadline = std::time::Instant::now() + Duration::from_secs(20);
    while ask(&engine, "SELECT ?o { :a :wrote ?o }") != ["b"] {
        assert!(std::time::Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(ask(&engine, "SELECT ?o { :a :at ?o }").is_empty());
}

#[test]
fn repeats_of_a_numbered_push_are_dropped() {
    let engine = engine();
    let s = stream(&engine, "s", "");
    register(
        &engine,
        "q",
        "SELECT (COUNT(*) AS ?n) FROM STREAM :s [RANGE 1s STEP 1s] WHERE { ?a :p ?b }",
    );
    advance(&engine, 0);
    let first = engine.push(&s, numbered(7, &[(10, "_:n p o")])).unwrap();
    assert_eq!((first.accepted, first.repeated), (1, false));
    let again = engine.push(&s, numbered(7, &[(10, "_:n p o")])).unwrap();
    assert_eq!((again.accepted, again.repeated), (0, true));
    // The same label in another push is another node.
    engine.push(&s, numbered(8, &[(10, "_:n p o")])).unwrap();
    advance(&engine, 1000);
    let one = "\"2\"^^<http://www.w3.org/2001/XMLSchema#integer";
    assert_eq!(firings(&engine, "q", None), expected(&[(1000, &[one])]));
}

#[test]
fn slow_subscribers_are_told_and_late_ones_get_a_gap() {
    let mut settings = config();
    settings.kept_firings = 2;
    let engine = Engine::open(settings).unwrap();
    stream(&engine, "s", "");
    register(
        &engine,
        "q",
        "SELECT ?a FROM STREAM :s [RANGE 1s STEP 1s] WHERE { ?a :p ?b }",
    );
    let options = SubscribeOptions {
        capacity: 1,
        ..SubscribeOptions::default()
    };
    let slow = engine.subscribe("q", options).unwrap();
    let quiet = SubscribeOptions {
        empties: false,
        ..SubscribeOptions::default()
    };
    let quiet = engine.subscribe("q", quiet).unwrap();
    advance(&engine, 0);
    // Small steps: after a jump in time, empty closes would be skipped.
    for to_ms in (1000..=4000).step_by(1000) {
        engine
            .push(&format!("{NS}s"), push(&[(to_ms - 1, "a p b")]))
            .unwrap();
        advance(&engine, to_ms);
    }
    engine.quiesce(Duration::from_secs(60)).unwrap();
    assert!(matches!(
        slow.recv(),
        Some(SubscriptionEvent::Lagged { missed: Some(3) })
    ));
    assert_eq!(slow.recv().and_then(firing).unwrap().close.0, 4000);
    let late = SubscribeOptions {
        after: Some(FiringId::at(EventTime(1000))),
        ..SubscribeOptions::default()
    };
    let late = engine.subscribe("q", late).unwrap();
    assert!(matches!(
        late.try_recv(),
        Some(SubscriptionEvent::Lagged { missed: None })
    ));
    assert_eq!(late.try_recv().and_then(firing).unwrap().close.0, 3000);
    assert_eq!(quiet.try_recv().and_then(firing).unwrap().close.0, 1000);
    engine.drop_query("q").unwrap();
    assert_eq!(late.try_recv().and_then(firing).unwrap().close.0, 4000);
    assert!(
        late.recv().is_none(),
        "a dropped query ends its subscriptions"
    );
}

#[test]
fn an_empty_push_changes_nothing() {
    let engine = engine();
    let s = stream(&engine, "s", "");
    let receipt = engine.push(&s, Push::default()).unwrap();
    assert_eq!((receipt.accepted, receipt.repeated), (0, false));
    assert_eq!(engine.stream(&s).unwrap().watermark, None);
}

#[test]
fn a_dropped_stream_leaves_its_facts_and_nothing_else() {
    let engine = engine();
    let s = stream(&engine, "s", "TIMELESS");
    engine
        .push(&s, push(&[(10, "a p b"), (1500, "a p c")]))
        .unwrap();
    engine.drop_stream(&s).unwrap();
    let again = stream(&engine, "s", "");
    register(
        &engine,
        "q",
        "SELECT ?b FROM STREAM :s [RANGE 5s STEP 1s] WHERE { ?a :p ?b }",
    );
    advance(&engine, 1000);
    engine.push(&again, push(&[(1600, "x q y")])).unwrap();
    advance(&engine, 2000);
    // An acknowledged statement is a fact, also in the batch that was still open.
    assert_eq!(ask(&engine, "SELECT ?o { :a :p ?o }"), ["b", "c"]);
    let all = firings(&engine, "q", None);
    assert_eq!(all, expected(&[(2000, &["b", "c"])]));
}

#[test]
fn a_paused_query_fires_again_when_it_is_resumed() {
    let engine = engine();
    let s = stream(&engine, "s", "");
    register(
        &engine,
        "q",
        "SELECT ?a FROM STREAM :s [RANGE 1s STEP 1s] WHERE { ?a :p ?b }",
    );
    advance(&engine, 0);
    for second in 0..4 {
        match second {
            1 => engine.pause_query("q").unwrap(),
            3 => engine.resume_query("q").unwrap(),
            _ => {}
        }
        assert_eq!(
            engine.query_info("q").unwrap().paused,
            (1..3).contains(&second)
        );
        let statement = format!("a{second} p b");
        engine
            .push(&s, push(&[(second * 1000 + 1, statement.as_str())]))
            .unwrap();
        advance(&engine, (second + 1) * 1000);
    }
    assert_eq!(
        firings(&engine, "q", None),
        expected(&[(1000, &["a0"]), (4000, &["a3"])])
    );
}

#[test]
fn late_statements_that_are_dropped_are_not_counted_as_accepted() {
    let engine = engine();
    let s = stream(&engine, "s", "LATENESS 0s LATE DROP");
    advance(&engine, 2000);
    let receipt = engine
        .push(
            &s,
            push(&[(1500, "a p b"), (2500, "c p d"), (2400, "e p f")]),
        )
        .unwrap();
    assert_eq!((receipt.accepted, receipt.dropped), (1, 2));
    assert_eq!(engine.stream(&s).unwrap().late, 2);
    assert_eq!(engine.metrics().tuples, 1);
}

#[test]
fn a_jump_over_more_closes_than_may_be_under_way_answers_them_all() {
    let engine = engine();
    let s = stream(&engine, "s", "");
    register(
        &engine,
        "q",
        "SELECT ?a FROM STREAM :s [RANGE 500s STEP 1s] WHERE { ?a :p ?b }",
    );
    let options = SubscribeOptions::default();
    let answers = engine.subscribe("q", options).unwrap();
    advance(&engine, 0);
    engine.push(&s, push(&[(10, "a p b")])).unwrap();
    advance(&engine, 400_000);
    engine.quiesce(Duration::from_secs(60)).unwrap();
    let mut closes = Vec::new();
    while let Some(SubscriptionEvent::Firing(firing)) = answers.try_recv() {
        closes.push(firing.close.0);
    }
    assert_eq!(closes, (1..=400).map(|k| k * 1000).collect::<Vec<i64>>());
}
