//! A query that would take forever, or the whole memory, stops at its limit and says which one it
//! is.

use crate::naive::NaiveView;
use oxrdf::{GraphName, Literal, NamedNode, Quad};
use somersault_lang::Parser;
use somersault_model::{EventTime, Limits};
use somersault_query::{Answer, Execution, Invocation, Prepared, QueryError};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

fn view() -> NaiveView {
    let iri = |name: String| NamedNode::new_unchecked(format!("http://x/{name}"));
    let quads: Vec<Quad> = (0..60)
        .map(|n| {
            let (s, o) = (iri(format!("s{n}")), iri(format!("o{n}")));
            Quad::new(s, iri("p".into()), o, GraphName::DefaultGraph)
        })
        .collect();
    NaiveView::stored(&quads)
}

fn error(text: &str, limits: Limits) -> QueryError {
    let prepared = Prepared::new(Parser::new().parse_query(text).expect("a query"));
    prepared
        .run(Invocation::new(
            &view(),
            &Execution::new(limits, EventTime(0)),
        ))
        .expect_err("stops at a limit")
}

/// 60^5 solutions.
const CROSS: &str = "SELECT * { ?a <http://x/p> ?b . ?c <http://x/p> ?d . ?e <http://x/p> ?f . \
                     ?g <http://x/p> ?h . ?i <http://x/p> ?j }";

#[test]
fn a_cross_product_stops_at_the_memory_limit() {
    let limits = Limits {
        query_memory_bytes: 4 << 20,
        ..Limits::default()
    };
    let error = error(CROSS, limits);
    assert!(matches!(error, QueryError::Memory { limit } if limit == 4 << 20));
    assert!(error.to_string().contains("query_memory_bytes"), "{error}");
}

#[test]
fn the_branches_of_a_union_count_together() {
    let execution = Execution::new(
        Limits {
            query_memory_bytes: 24 << 20,
            ..Limits::default()
        },
        EventTime(0),
    );
    let rows = |text: &str| {
        let prepared = Prepared::new(Parser::new().parse_query(text).expect("a query"));
        match prepared.run(Invocation::new(&view(), &execution))? {
            Answer::Solutions(solutions) => Ok(solutions.len()),
            other => panic!("{other:?}"),
        }
    };
    // 11 MB of ids stay of the first branch; the second one needs 17 MB for one row.
    let all = "?a <http://x/p> ?b . ?c <http://x/p> ?d . ?e <http://x/p> ?f";
    let one = format!("SELECT * {{ {all} }} ORDER BY ?b ?d ?f LIMIT 1");
    assert_eq!(
        rows(&format!("SELECT * {{ {all} }}")).ok(),
        Some(60 * 60 * 60)
    );
    assert_eq!(rows(&one).ok(), Some(1));
    let both: Result<usize, QueryError> =
        rows(&format!("SELECT * {{ {{ {all} }} UNION {{ {one} }} }}"));
    assert!(matches!(both, Err(QueryError::Memory { .. })), "{both:?}");
}

#[test]
fn a_cross_product_stops_at_the_time_limit() {
    let limits = Limits {
        query_time: Duration::from_millis(5),
        ..Limits::default()
    };
    assert!(matches!(
        error(CROSS, limits.clone()),
        QueryError::Time { .. }
    ));
    // The part before a SERVICE is limited too.
    let service = format!(
        "{} OPTIONAL {{ SERVICE SILENT <http://far/> {{ }} }} }}",
        &CROSS[..CROSS.len() - 1]
    );
    assert!(matches!(error(&service, limits), QueryError::Time { .. }));
}

#[test]
fn an_answer_stops_at_the_limit_of_rows() {
    let limits = Limits {
        result_rows: 59,
        ..Limits::default()
    };
    let error = error("SELECT * { ?a ?b ?c }", limits);
    assert!(matches!(error, QueryError::Rows { limit: 59 }));
    assert!(error.to_string().contains("result_rows"), "{error}");
}

#[test]
fn cancelling_stops_a_query() {
    let prepared = Prepared::new(Parser::new().parse_query(CROSS).expect("a query"));
    let execution = Execution {
        cancel: Some(Arc::new(AtomicBool::new(true))),
        ..Execution::new(Limits::default(), EventTime(0))
    };
    let result = prepared.run(Invocation::new(&view(), &execution));
    assert!(matches!(result, Err(QueryError::Cancelled)));
}

#[test]
fn as_many_solutions_are_made_as_are_wanted() {
    let limits = Limits {
        query_memory_bytes: 4 << 20,
        ..Limits::default()
    };
    let rows = |text: &str| {
        let prepared = Prepared::new(Parser::new().parse_query(text).expect("a query"));
        let execution = Execution::new(limits.clone(), EventTime(0));
        match prepared
            .run(Invocation::new(&view(), &execution))
            .expect("stays small")
        {
            Answer::Solutions(solutions) => solutions.len(),
            Answer::Boolean(yes) => usize::from(yes),
            Answer::Graph(triples) => triples.len(),
            Answer::Dataset(quads) => quads.len(),
        }
    };
    assert_eq!(rows(&format!("{CROSS} LIMIT 10")), 10);
    assert_eq!(rows(&format!("{CROSS} OFFSET 1000 LIMIT 100")), 100);
    assert_eq!(rows(&CROSS.replace("SELECT *", "ASK")), 1);
    assert_eq!(
        rows(&format!(
            "SELECT ?n {{ {{ {CROSS} LIMIT 70 }} BIND(1 AS ?n) }}"
        )),
        70
    );
    assert_eq!(rows("SELECT * { ?a ?b ?c } LIMIT 7"), 7);
}

/// More statements than are read between two looks at the limits, with one predicate and one
/// object.
fn hub() -> NaiveView {
    let iri = |name: String| NamedNode::new_unchecked(format!("http://x/{name}"));
    let quads: Vec<Quad> = (0..(1 << 16) + 1_000)
        .map(|n| {
            let (s, p, o) = (iri(format!("s{n}")), iri("p".into()), iri("o".into()));
            Quad::new(s, p, o, GraphName::DefaultGraph)
        })
        .collect();
    NaiveView::stored(&quads)
}

#[test]
fn a_query_for_everything_stops_at_the_limits() {
    let hub = hub();
    let answer = |text: &str, cancel: bool| {
        let prepared = Prepared::new(Parser::new().parse_query(text).expect("a query"));
        let limits = Limits {
            query_memory_bytes: 1 << 20,
            ..Limits::default()
        };
        let execution = Execution {
            cancel: Some(Arc::new(AtomicBool::new(cancel))),
            ..Execution::new(limits, EventTime(0))
        };
        prepared.run(Invocation::new(&hub, &execution))
    };
    let all = "SELECT * { ?s ?p ?o }";
    let stopped = answer(all, false);
    assert!(matches!(stopped, Err(QueryError::Memory { .. })));
    assert!(matches!(answer(all, true), Err(QueryError::Cancelled)));
    // Seven statements are not held to what all of them take.
    let Ok(Answer::Solutions(seven)) = answer("SELECT * { ?s ?p ?o } LIMIT 7", false) else {
        panic!("seven solutions");
    };
    assert_eq!(seven.len(), 7);
}

#[test]
fn planning_stops_at_the_time_limit_too() {
    let chain: String = (0..10_000)
        .map(|n| format!("?s{n} <http://x/p> ?s{} . ", n + 1))
        .collect();
    let limits = Limits {
        query_time: Duration::from_millis(50),
        ..Limits::default()
    };
    assert!(matches!(
        error(&format!("ASK {{ {chain} }}"), limits),
        QueryError::Time { .. }
    ));
}

#[test]
fn strings_that_double_stop_at_the_memory_limit() {
    let doubled: String = (0..40)
        .map(|n| format!("BIND(CONCAT(?v{n}, ?v{n}) AS ?v{}) ", n + 1))
        .collect();
    let concat = format!("SELECT (STRLEN(?v40) AS ?n) {{ BIND(\"aaaaaaaa\" AS ?v0) {doubled} }}");
    let replace = format!(
        "SELECT (STRLEN(?c) AS ?n) {{ BIND(\"{}\" AS ?a) BIND(REPLACE(?a, \"a\", ?a) AS ?b)
           BIND(REPLACE(?b, \"(a)\", CONCAT(\"$1\", ?b)) AS ?c) }}",
        "a".repeat(1000)
    );
    for text in [concat, replace] {
        let error = error(&text, Limits::default());
        assert!(matches!(error, QueryError::Memory { .. }), "{error}");
    }
}

#[test]
fn a_hundred_thousand_values_are_no_burden() {
    let values: String = (0..100_000).map(|n| format!("{n} ")).collect();
    let text = format!("SELECT (COUNT(*) AS ?n) {{ VALUES ?x {{ {values} }} }}");
    let prepared = Prepared::new(Parser::new().parse_query(&text).expect("a query"));
    let answer = prepared.run(Invocation::new(
        &view(),
        &Execution::new(Limits::default(), EventTime(0)),
    ));
    assert!(matches!(answer, Ok(Answer::Solutions(solutions)) if solutions.len() == 1));
}

#[test]
fn a_group_ends_where_its_number_ends() {
    let text = r#"ASK { FILTER(REPLACE("abc", "(b)", "$1x\\$\\\\$12") = "abx$\\b2c") }"#;
    let prepared = Prepared::new(Parser::new().parse_query(text).expect("a query"));
    let answer = prepared.run(Invocation::new(
        &view(),
        &Execution::new(Limits::default(), EventTime(0)),
    ));
    assert!(matches!(answer, Ok(Answer::Boolean(true))));
}

/// Sixty subjects with the same literal of 100,000 bytes, and one with a literal of 40,000 each.
fn long_view() -> NaiveView {
    let iri = |name: String| NamedNode::new_unchecked(format!("http://x/{name}"));
    let quads: Vec<Quad> = (0..60)
        .flat_map(|n| {
            let same = Literal::new_simple_literal("x".repeat(100_000));
            let own = Literal::new_simple_literal(format!("{n}{}", "y".repeat(40_000)));
            let graph = GraphName::DefaultGraph;
            let s = iri(format!("s{n}"));
            [
                Quad::new(s.clone(), iri("same".into()), same, graph.clone()),
                Quad::new(s, iri("own".into()), own, graph),
            ]
        })
        .collect();
    NaiveView::stored(&quads)
}

#[test]
fn copies_of_long_literals_count_as_memory() {
    let limited = |text: &str, bytes: u64| {
        let limits = Limits {
            query_memory_bytes: bytes,
            ..Limits::default()
        };
        let prepared = Prepared::new(Parser::new().parse_query(text).expect("a query"));
        prepared.run(Invocation::new(
            &long_view(),
            &Execution::new(limits, EventTime(0)),
        ))
    };
    for text in [
        "SELECT (GROUP_CONCAT(?l) AS ?all) { ?s <http://x/same> ?l }",
        "SELECT (STRLEN(GROUP_CONCAT(?l)) AS ?all) { ?s <http://x/same> ?l }",
        "SELECT (MAX(?l) AS ?most) { ?s <http://x/own> ?l } GROUP BY ?s",
        "CONSTRUCT { ?s <http://x/q> ?l } { ?s <http://x/same> ?l }",
        "SELECT ?s { ?s <http://x/own> ?l } ORDER BY ?l",
        "SELECT ?s { ?s <http://x/own> ?l } ORDER BY STR(?l)",
    ] {
        let answer = limited(text, 2 << 20);
        assert!(matches!(answer, Err(QueryError::Memory { .. })), "{text}");
        assert!(limited(text, 64 << 20).is_ok(), "{text}");
    }
    // A term that is only read is not kept.
    let text = "SELECT (COUNT(*) AS ?n) { ?s <http://x/own> ?l FILTER(STRLEN(?l) > 7) }";
    assert!(limited(text, 1 << 20).is_ok());
}

#[test]
fn lists_of_vertices_count_as_memory() {
    let limited = |text: &str, bytes: u64| {
        let limits = Limits {
            query_memory_bytes: bytes,
            ..Limits::default()
        };
        let prepared = Prepared::new(Parser::new().parse_query(text).expect("a query"));
        prepared.run(Invocation::new(
            &view(),
            &Execution::new(limits, EventTime(0)),
        ))
    };
    // Sixty vertices of eight bytes are read, of which one is enough for the answer.
    let answer = limited("ASK { ?a <http://x/p> ?b }", 400);
    assert!(matches!(answer, Err(QueryError::Memory { .. })));
    assert!(limited("ASK { ?a <http://x/p> ?b }", 800).is_ok());
    let path = "SELECT (COUNT(*) AS ?n) { ?a <http://x/none>* ?b }";
    assert!(matches!(limited(path, 900), Err(QueryError::Memory { .. })));
    assert!(limited(path, 1 << 20).is_ok());
}

#[test]
fn texts_that_are_joined_may_not_be_too_long() {
    let text =
        "SELECT (GROUP_CONCAT(?l) AS ?all) { ?s <http://x/same> ?l . ?s2 <http://x/same> ?l }";
    let prepared = Prepared::new(Parser::new().parse_query(text).expect("a query"));
    let limits = Limits {
        query_memory_bytes: 16 << 30,
        ..Limits::default()
    };
    // 3,600 strings are 360 MB.
    let answer = prepared.run(Invocation::new(
        &long_view(),
        &Execution::new(limits, EventTime(0)),
    ));
    assert!(matches!(answer, Err(QueryError::Memory { .. })));
}

#[test]
fn a_query_that_is_cancelled_while_it_is_planned_stops() {
    let patterns: String = (0..2_000)
        .map(|n| format!("?s{n} ?p{n} ?o{n} . "))
        .collect();
    let query = Parser::new().parse_query(&format!("ASK {{ {patterns} }}"));
    let prepared = Prepared::new(query.expect("a query"));
    let execution = Execution {
        cancel: Some(Arc::new(AtomicBool::new(true))),
        ..Execution::new(Limits::default(), EventTime(0))
    };
    let result = prepared.run(Invocation::new(&view(), &execution));
    assert!(matches!(result, Err(QueryError::Cancelled)));
}
