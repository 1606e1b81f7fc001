//! What is handed to `spareval` runs there, and runs the same each time.

use oxrdf::{Dataset, Literal, NamedNode, Term, Variable};
use somersault_lang::spareval::KEYED_FUNCTIONS;
use somersault_lang::{Parser, Pattern};
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

/// Each expression alone, evaluated on one row, gives what the whole query gives.
#[test]
fn expressions_mean_the_same_alone() {
    let expressions = [
        "?x + 1",
        "-?x * 2 - +1",
        "?x / 2",
        "?x = 3 || ?x < 2 || ?x >= 9",
        "?x > 1 && ?x <= 3 && !(?x = 4)",
        "?x IN (1, 2, 3)",
        "?x NOT IN (1, 2)",
        "sameTerm(?x, 3)",
        "IF(?x > 1, \"more\", \"less\")",
        "COALESCE(?unbound, ?x)",
        "BOUND(?unbound)",
        "STR(?x)",
        "CONCAT(?y, \"!\")",
        "SUBSTR(?y, 2)",
        "SUBSTR(?y, 2, 1)",
        "REPLACE(?y, \"a\", \"b\")",
        "REGEX(?y, \"^A\", \"i\")",
        "STRLEN(?y)",
        "UCASE(?y)",
        "LANG(\"a\"@en)",
        "LANGMATCHES(\"en-GB\", \"en\")",
        "DATATYPE(?x)",
        "IRI(\"http://example.org/\")",
        "STRDT(\"1\", <http://www.w3.org/2001/XMLSchema#integer>)",
        "STRLANG(\"a\", \"en\")",
        "YEAR(NOW())",
        "SECONDS(NOW())",
        "MD5(?y)",
        "SHA256(?y)",
        "ISNUMERIC(?x)",
        "isIRI(<http://a>)",
        "ABS(-?x)",
        "ROUND(2.5)",
        "ENCODE_FOR_URI(\"a b\")",
        "STRBEFORE(?y, \"b\")",
        "CONTAINS(?y, \"b\")",
        "<http://www.w3.org/2001/XMLSchema#double>(?x)",
        "?y + 1",
    ];
    let now = EventTime(1_700_000_000_000);
    let evaluator = evaluator();
    for text in expressions {
        let query =
            format!("SELECT ({text} AS ?value) WHERE {{ VALUES (?x ?y) {{ (3 \"abc\") }} }}");
        let whole = first_row(&query, now)[0].clone();
        let parsed = Parser::new().parse_query(&query).expect("the query parses");
        let Pattern::Project { inner, .. } = &parsed.pattern else {
            panic!("a projection is outermost")
        };
        let Pattern::Extend { expression, .. } = &**inner else {
            panic!("the column is an extension")
        };
        let alone = expression
            .for_spareval(&parsed.variables, now)
            .expect("there is no EXISTS");
        let (x, y) = (Variable::new_unchecked("x"), Variable::new_unchecked("y"));
        let row = [
            (&x, Term::from(Literal::from(3))),
            (&y, Term::from(Literal::from("abc"))),
        ];
        let value = evaluator.evaluate_expression(&alone, row);
        assert_eq!(
            value.map_or("-".to_owned(), |term| term.to_string()),
            whole,
            "{text}"
        );
    }
}

#[test]
fn exists_needs_the_data() {
    let query = Parser::new()
        .parse_query("SELECT * WHERE { FILTER EXISTS { ?s ?p ?o } }")
        .expect("the query parses");
    let Pattern::Project { inner, .. } = &query.pattern else {
        panic!("a projection is outermost")
    };
    let Pattern::Filter { condition, .. } = &**inner else {
        panic!("then the filter")
    };
    assert!(
        condition
            .for_spareval(&query.variables, EventTime(0))
            .is_none()
    );
}
