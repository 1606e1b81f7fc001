//! Updates and graphs: serialisable, with nothing between reading and effect (S15).

use crate::support::endpoint::{LONG, Slow};
use crate::support::scenario::*;
use somersault::oxrdf::{GraphName, NamedNode};
use somersault::{
    Engine, EngineError, LimitKind, LoadOptions, QueryOptions, RdfFormat, SubscribeOptions,
    SubscriptionEvent, UpdateOptions,
};
use std::time::Duration;

#[test]
fn an_update_between_pushes_is_seen_by_the_next_close_and_no_earlier() {
    let engine = engine();
    let text = format!("CREATE STREAM <{NS}s> TIMELESS BATCH 1s IDLE NEVER");
    engine.create_stream(None, &text).unwrap();
    let query = format!(
        "PREFIX : <{NS}> SELECT ?x FROM STREAM :s [RANGE 1s STEP 1s] WHERE {{ ?x :p ?y . ?x :is :good }}"
    );
    engine.register(Some("q"), &query).unwrap();
    advance(&engine, 0);
    let update = |text: &str| {
        let text = format!("PREFIX : <{NS}> {text}");
        engine.update(&text).run().unwrap()
    };
    let first = update("INSERT DATA { :a :is :good }");
    assert_eq!((first.inserted, first.deleted), (1, 0));
    for second in 0..3 {
        let at = second * 1000 + 10;
        engine
            .push(&format!("{NS}s"), push(&[(at, "a p b"), (at, "c p d")]))
            .unwrap();
        advance(&engine, (second + 1) * 1000);
        match second {
            0 => {
                let both = update(
                    "DELETE { ?x :is :good } INSERT { :c :is :good } WHERE { ?x :is :good }",
                );
                assert_eq!((both.inserted, both.deleted), (1, 1));
            }
            1 => {
                // Absorbed statements can be deleted; the window keeps what arrived.
                let gone = update("DELETE DATA { :c :p :d }");
                assert_eq!(gone.deleted, 1);
            }
            _ => {}
        }
    }
    let all = firings(&engine, "q", None);
    assert_eq!(
        all,
        expected(&[(1000, &["a"]), (2000, &["c"]), (3000, &["c"])])
    );
    let nothing = update("DELETE DATA { :nobody :is :good }");
    assert_eq!((nothing.inserted, nothing.deleted), (0, 0));
    assert_eq!(nothing.sn, engine.stable());
    engine.check().unwrap();
}

#[test]
fn an_update_under_evaluation_delays_no_read_and_no_firing() {
    let slow = Slow::open(config());
    let engine = &slow.engine;
    let text = format!("CREATE STREAM <{NS}s> BATCH 1s IDLE NEVER");
    engine.create_stream(None, &text).unwrap();
    let query =
        format!("SELECT ?s FROM STREAM <{NS}s> [RANGE 1s STEP 1s] WHERE {{ ?s <{NS}p> ?o }}");
    engine.register(Some("q"), &query).unwrap();
    let answers = engine.subscribe("q", SubscribeOptions::default()).unwrap();
    advance(engine, 0);
    engine
        .push(&format!("{NS}s"), push(&[(10, "a p b")]))
        .unwrap();
    std::thread::scope(|scope| {
        // The push comes first: after the update it would wait for its effects (S15). Its firing
        // may end before the evaluation begins; runtime's test of the same name holds it back.
        engine
            .push(&format!("{NS}s"), push(&[(1010, "c p d")]))
            .unwrap();
        let update = "INSERT { <urn:x> <urn:is> ?there } \
                      WHERE { SERVICE <urn:endpoint> { <urn:x> <urn:is> ?there } }";
        let update = scope.spawn(|| engine.update(update).run().unwrap());
        slow.endpoint.wait_until_asked(1);
        let firing = answers.recv_timeout(LONG).unwrap();
        assert!(matches!(firing, Some(SubscriptionEvent::Firing(_))));
        assert_eq!(engine.streams().len(), 1);
        assert_eq!(engine.query_info("q").unwrap().name, "q");
        assert_eq!(engine.metrics().streams.len(), 1);
        assert_eq!(engine.queries().len(), 1);
        assert!(ask(engine, "SELECT ?o { <urn:x> <urn:is> ?o }").is_empty());
        // A push that comes now waits, as the update's effects are the next SN (S15).
        let after = scope.spawn(|| engine.push(&format!("{NS}s"), push(&[(2010, "e p f")])));
        assert!(!update.is_finished() && !after.is_finished());
        slow.endpoint.open();
        assert_eq!(update.join().unwrap().inserted, 1);
        after.join().unwrap().unwrap();
    });
    engine.quiesce(LONG).unwrap();
    let all = firings(engine, "q", None);
    assert_eq!(all, expected(&[(1000, &["a"]), (2000, &["c"])]));
}

#[test]
fn concurrent_updates_are_serialisable() {
    let engine = engine();
    let options = UpdateOptions::default();
    engine
        .update("INSERT DATA { <urn:n> <urn:is> 0 }")
        .options(&options)
        .run()
        .unwrap();
    let add = "DELETE { <urn:n> <urn:is> ?i } INSERT { <urn:n> <urn:is> ?j } WHERE { <urn:n> <urn:is> ?i BIND(?i + 1 AS ?j) }";
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..10 {
                    engine.update(add).run().unwrap();
                }
            });
        }
    });
    let rows = ask(&engine, "SELECT ?i { <urn:n> <urn:is> ?i }");
    assert_eq!(rows, ["\"40\"^^<http://www.w3.org/2001/XMLSchema#integer"]);
    engine.check().unwrap();
}

#[test]
fn blank_nodes_of_two_documents_or_updates_differ() {
    let engine = engine();
    for _ in 0..2 {
        let text = "_:x <urn:p> _:y ; <urn:q> _:y .";
        engine
            .load(text.as_bytes(), RdfFormat::Turtle, LoadOptions::default())
            .unwrap();
        engine
            .update("INSERT DATA { _:x <urn:p> _:y }")
            .run()
            .unwrap();
    }
    assert_eq!(ask(&engine, "SELECT ?a ?b { ?a <urn:p> ?b }").len(), 4);
    assert_eq!(
        ask(&engine, "SELECT ?a ?b { ?a <urn:p> ?b . ?a <urn:q> ?b }").len(),
        2
    );
}

#[test]
fn graphs_are_put_posted_got_and_deleted() {
    let engine = engine();
    let graph = GraphName::from(NamedNode::new_unchecked("urn:g"));
    let put = |text: &str| {
        engine
            .replace_graph(&graph, text.as_bytes(), RdfFormat::Turtle, None)
            .unwrap()
    };
    assert!(matches!(
        engine.graph(&graph),
        Err(EngineError::NotFound(_))
    ));
    let first = put("<urn:a> <urn:p> 1, 2 .");
    assert_eq!((first.created, first.inserted, first.deleted), (true, 2, 0));
    let second = put("<urn:a> <urn:p> 2, 3 .");
    assert_eq!(
        (second.created, second.inserted, second.deleted),
        (false, 1, 1)
    );
    let more = "<urn:a> <urn:p> 3, 4 .";
    let posted = engine
        .add_to_graph(&graph, more.as_bytes(), RdfFormat::Turtle, None)
        .unwrap();
    assert_eq!((posted.inserted, posted.deleted), (1, 0));
    assert_eq!(engine.graph(&graph).unwrap().answer.len(), 3);
    assert_eq!(
        engine.graph(&GraphName::DefaultGraph).unwrap().answer.len(),
        0
    );
    assert_eq!(engine.clear_graph(&graph).unwrap().deleted, 3);
    assert!(matches!(
        engine.clear_graph(&graph),
        Err(EngineError::NotFound(_))
    ));
}

#[test]
fn protocol_datasets_and_limits_apply_to_one_query_only() {
    let engine = engine();
    let data = "GRAPH <urn:g> { <urn:a> <urn:p> 1 , 2 }";
    engine
        .update(&format!("INSERT DATA {{ {data} }}"))
        .run()
        .unwrap();
    let count = |options: &QueryOptions| {
        engine
            .query("SELECT * { ?s ?p ?o }")
            .options(options)
            .run()
            .map(|results| results.answer.len())
    };
    assert_eq!(count(&QueryOptions::default()).unwrap(), 0);
    let mut options = QueryOptions {
        default_graphs: vec![NamedNode::new_unchecked("urn:g")],
        ..QueryOptions::default()
    };
    assert_eq!(count(&options).unwrap(), 2);
    options.result_rows = Some(1);
    let refused = count(&options).unwrap_err();
    assert!(matches!(refused, EngineError::Limit { .. }), "{refused}");
    options.result_rows = None;
    assert_eq!(count(&options).unwrap(), 2);
    engine.quiesce(Duration::from_secs(10)).unwrap();
}

#[test]
fn each_one_shot_execution_draws_its_own_identifiers() {
    let engine = engine();
    let drawn = || ask(&engine, "SELECT ?id { BIND(STRUUID() AS ?id) }");
    assert_ne!(drawn(), drawn());
}

#[test]
fn changes_of_large_graphs_end_at_the_limits_and_leave_the_graph() {
    let mut config = config();
    config.limits.query_memory_bytes = 512 << 10;
    let engine = Engine::open(config).unwrap();
    let graph = GraphName::NamedNode(NamedNode::new_unchecked(format!("{NS}g")));
    let text: String = (0..4000)
        .map(|n| format!("<{NS}s{n}> <{NS}p> <{NS}o{n}> .\n"))
        .collect();
    let put = |text: &str| engine.replace_graph(&graph, text.as_bytes(), RdfFormat::NTriples, None);
    assert_eq!(put(&text).unwrap().inserted, 4000);
    let clear = engine.update("CLEAR ALL").run();
    let replaced = put("<urn:a> <urn:b> <urn:c> .").map(|write| write.deleted);
    let deleted = engine.clear_graph(&graph).map(|write| write.deleted);
    let cleared = clear.map(|summary| summary.deleted);
    for result in [cleared, replaced, deleted] {
        let which = match result {
            Err(EngineError::Limit { which, .. }) => which,
            other => panic!("{other:?}"),
        };
        assert_eq!(which, LimitKind::QueryMemory);
    }
    let count = "SELECT (COUNT(*) AS ?n) { GRAPH ?g { ?s ?p ?o } }";
    assert_eq!(ask(&engine, count).len(), 1);
    assert!(ask(&engine, count)[0].contains("4000"));
    let few =
        "DELETE { GRAPH ?g { ?s ?p ?o } } WHERE { SELECT * { GRAPH ?g { ?s ?p ?o } } LIMIT 100 }";
    let few = engine.update(few).run().unwrap();
    assert_eq!(few.deleted, 100);
    engine.check().unwrap();
}
