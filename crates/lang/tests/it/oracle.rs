//! Queries given to `spareval` run there, and run the same each time.

use oxrdf::{Dataset, Literal, NamedNode, Term};
use somersault_lang::Parser;
use somersault_lang::spareval::KEYED_FUNCTIONS;
use somersault_model::EventTime;
use spareval::{QueryEvaluator, QueryResults};
use std::sync::atomic::{AtomicU64, Ordering};

/// An evaluator whose keyed functions count their calls.
fn evaluator() -> QueryEvaluator {
    KEYED_FUNCTIONS
        .into_iter()
        .fold(QueryEvaluator::new(), |evaluator, name| {
            let calls = AtomicU64::new(0);
            evaluator.with_custom_function(
                NamedNode::new_unchecked(name),
                move |arguments: &[Term]| {
                    let call = calls.fetch_add(1, Ordering::Relaxed);
                    Some(
                        Literal::new_simple_literal(format!(
                            "{name} {call} of {}",
                            arguments.len()
                        ))
                        .into(),
                    )
                },
            )
        })
}

fn first_row(text: &str, now: EventTime) -> Vec<String> {
    let query = Parser::new()
        .parse_query(text)
        .expect("the query parses")
        .for_spareval(now);
    let evaluator = evaluator();
    let dataset = Dataset::new();
    let results = evaluator
        .prepare(&query)
        .execute(&dataset)
        .expect("the query runs");
    let QueryResults::Solutions(mut solutions) = results else {
        panic!("SELECT gives solutions")
    };
    let row = solutions.next().expect("there is a row").expect("no error");
    row.values()
        .iter()
        .map(|value| value.as_ref().map_or("-".to_owned(), ToString::to_string))
        .collect()
}

#[test]
fn nothing_differs_between_two_runs() {
    let text = "SELECT (NOW() AS ?now) (RAND() AS ?r) (UUID() AS ?u) (STRUUID() AS ?s) (BNODE() AS ?b) (BNODE('x') AS ?c) \
                FROM <http://example.org/nowhere> WHERE {}";
    let row = first_row(text, EventTime(1_500));
    assert_eq!(
        row,
        [
            "\"1970-01-01T00:00:01.5Z\"^^<http://www.w3.org/2001/XMLSchema#dateTime>",
            "\"urn:somersault:rand 0 of 0\"",
            "\"urn:somersault:uuid 0 of 0\"",
            "\"urn:somersault:struuid 0 of 0\"",
            "\"urn:somersault:bnode 0 of 0\"",
            "\"urn:somersault:bnode 1 of 1\"",
        ]
    );
    assert_eq!(row, first_row(text, EventTime(1_500)));
}
