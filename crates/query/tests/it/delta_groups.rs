//! Groups that are kept from close to close, against the whole evaluation at every close: generated
//! aggregates, over numbers of all types, over what is no number and over what is not bound, with
//! HAVING, ORDER BY and LIMIT above.

use crate::delta::{Round, Scenario, Shape, World, cases, choices, play, play_within, scenario};
use crate::equals_spareval::{iri, literal, node};
use oxrdf::vocab::xsd;
use oxrdf::{Literal, NamedNodeRef, Term, Triple};
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use somersault_lang::Parser;
use somersault_model::Limits;
use somersault_query::{Grouping, IncrementalQuery, PlanChoices, Prepared, RetainedRows};
use std::cell::RefCell;

fn typed(text: &str, datatype: NamedNodeRef<'_>) -> Term {
    Literal::new_typed_literal(text, datatype).into()
}

/// Objects: of several kinds, so that sums are not errors most of the time.
fn object() -> impl Strategy<Value = BoxedStrategy<Term>> {
    let integers = || {
        prop_oneof![
            8 => (-9i64..9).prop_map(|n| Literal::from(n).into()),
            1 => Just(typed("007", xsd::INTEGER)),
            1 => Just(typed("4", xsd::LONG)),
            1 => select(vec![i64::MAX, i64::MAX - 1, i64::MIN]).prop_map(|n| Literal::from(n).into()),
            // Pairs of which doubles and floats have only one.
            1 => select(vec![1 << 53, (1 << 53) + 1, (1 << 24) + 1]).prop_map(|n: i64| Literal::from(n).into()),
        ]
    };
    let decimals = || {
        select(vec![
            "0.5",
            "-2.25",
            "1.0",
            "7.00",
            "0.333333333333333333",
            "170141183460469231731.5",
            "9007199254740992.0",
            "9007199254740992.000000000000000001",
            "16777216.0",
            "16777217.0",
            "0.1",
        ])
        .prop_map(|text| typed(text, xsd::DECIMAL))
    };
    let doubles = || {
        let doubles = select(vec![
            "0.1",
            "1.0E0",
            "1e308",
            "-1e308",
            "2.5",
            "-0.0",
            "1e-320",
            "9007199254740992",
            "16777217",
        ]);
        prop_oneof![
            8 => doubles.prop_map(|text| typed(text, xsd::DOUBLE)),
            3 => select(vec!["0.1", "2.5", "3e38", "16777216"]).prop_map(|text| typed(text, xsd::FLOAT)),
            1 => select(vec!["INF", "-INF", "NaN"]).prop_map(|text| typed(text, xsd::DOUBLE)),
        ]
    };
    let others = || prop_oneof![literal().prop_map(Term::from), node().prop_map(Term::from)];
    prop_oneof![
        2 => Just(integers().boxed()),
        2 => Just(prop_oneof![2 => integers(), 1 => decimals()].boxed()),
        2 => Just(prop_oneof![3 => integers(), 1 => decimals(), 2 => doubles()].boxed()),
        2 => Just(prop_oneof![12 => integers(), 3 => decimals(), 2 => doubles(), 1 => others()].boxed()),
        1 => Just(others().boxed()),
    ]
}

/// Statements of few subjects, half of them with such an object.
fn statements() -> impl Strategy<Value = BoxedStrategy<Triple>> {
    object().prop_map(|object| {
        let name = |names: Vec<&'static str>| select(names).prop_map(iri);
        let object = prop_oneof![3 => object, 1 => name(vec!["a", "b", "c"]).prop_map(Term::from)];
        (
            name(vec!["a", "b", "c"]),
            name(vec!["p", "p", "q", "r"]),
            object,
        )
            .prop_map(|(s, p, o)| Triple::new(s, p, o))
            .boxed()
    })
}

const BODIES: [&str; 7] = [
    "GRAPH :v { ?a :p ?b }",
    "GRAPH :v { ?a :p ?b } GRAPH :w { ?a :q ?c }",
    "?a :p ?b . ?a :q ?c",
    "GRAPH :v { ?a :p ?b } ?a :r ?c FILTER(?a != :b)",
    "{ GRAPH :v { ?a :p ?b } } UNION { GRAPH :w { ?a :q ?c } }",
    "GRAPH :v { ?a :p ?b . ?a :q ?c } BIND(?b * ?c AS ?d)",
    "GRAPH :v { ?a :p ?b } OPTIONAL { GRAPH :w { ?a :q ?c } }",
];

const AGGREGATES: [&str; 20] = [
    "COUNT(*)",
    "COUNT(?b)",
    "COUNT(?c)",
    "COUNT(DISTINCT ?b)",
    "COUNT(DISTINCT *)",
    "COUNT(?b + 1)",
    "SUM(?b)",
    "SUM(?c)",
    "SUM(?d)",
    "SUM(DISTINCT ?b)",
    "SUM(?b * ?c)",
    "AVG(?b)",
    "AVG(DISTINCT ?c)",
    "AVG(?b + 0.5)",
    "MIN(?b)",
    "MAX(?b)",
    "MIN(DISTINCT ?c)",
    "MAX(-?b)",
    "MIN(STR(?b))",
    "MAX(IF(?b > 2, ?b, \"none\"))",
];

fn grouped() -> impl Strategy<Value = String> {
    let aggregates = subsequence(AGGREGATES.to_vec(), 1..5);
    let keys = select(vec!["", "?a", "?a", "?c", "?a ?c"]);
    let above = select(vec![
        "",
        "",
        "HAVING(COUNT(*) > 1)",
        "HAVING(SUM(?b) > 2)",
        "ORDER BY ?x0 LIMIT 2",
        "ORDER BY DESC(?x0) LIMIT 3 OFFSET 1",
    ]);
    (select(BODIES.to_vec()), aggregates, keys, above).prop_map(|(body, list, keys, above)| {
        let aggregates = list.iter().enumerate();
        let aggregates: Vec<String> = aggregates
            .map(|(at, one)| format!("({one} AS ?x{at})"))
            .collect();
        let by = match keys {
            "" => String::new(),
            keys => format!("GROUP BY {keys}"),
        };
        format!(
            "SELECT {keys} {} {{ {body} }} {by} {above}",
            aggregates.join(" ")
        )
    })
}

/// Patterns beside a sub-select: over windows, over stored data alone, and with variables that the
/// sub-select hides.
const BESIDE: [&str; 6] = [
    "?a :q ?e",
    "GRAPH :g { ?a :q ?e }",
    "GRAPH :g { ?a :q ?b }",
    "GRAPH :w { ?e :q ?b } FILTER(?e != :b)",
    "GRAPH :w { ?a :q ?e } { GRAPH :v { ?a :p ?f } } UNION { ?a :r ?f }",
    "GRAPH :g { ?a :q ?e } OPTIONAL { GRAPH :w { ?a :r ?b } }",
];

/// DISTINCT, and what stands on groups.
fn distinct() -> impl Strategy<Value = String> {
    let columns = select(vec!["?a", "?b", "?c", "?a ?c", "?a ?b ?c ?d", "*"]);
    let above = select(vec![
        "",
        "",
        "ORDER BY ?a ?b ?c LIMIT 2",
        "ORDER BY DESC(?a)",
    ]);
    let plain = (select(BODIES.to_vec()), columns, above).prop_map(|(body, columns, above)| {
        format!("SELECT DISTINCT {columns} {{ {body} }} {above}")
    });
    let inner = (
        grouped(),
        select(vec![
            "SELECT (MAX(?x0) AS ?m) (COUNT(*) AS ?n)",
            "SELECT DISTINCT ?x0",
            "SELECT ?a (?x0 + 1 AS ?y)",
        ]),
    );
    let nested = inner.prop_map(|(inner, outer)| format!("{outer} {{ {{ {inner} }} }}"));
    let beside = select(BESIDE.to_vec());
    let joined = (grouped(), beside)
        .prop_map(|(inner, beside)| format!("SELECT * {{ {{ {inner} }} {beside} }}"));
    prop_oneof![3 => plain, 1 => nested, 2 => joined]
}

/// Each of these has something to keep, in the sub-select if nowhere else.
#[test]
fn sub_selects_beside_patterns_are_looked_into() {
    for beside in BESIDE {
        let inner = "SELECT ?a (AVG(?b) AS ?m) { GRAPH :v { ?a :p ?b } } GROUP BY ?a";
        let kept = grouping(&format!("SELECT * {{ {{ {inner} }} {beside} }}"));
        assert_eq!(kept, Grouping::Retained, "{beside}");
    }
}

proptest! {
    #![proptest_config(cases(1200))]

    #[test]
    fn kept_groups_equal_whole_evaluations(
        scenario in statements().prop_flat_map(scenario),
        text in prop_oneof![3 => grouped(), 1 => distinct()],
        choices in choices(),
    ) {
        let text = format!("PREFIX : <http://x/> {text}");
        play(&scenario, &text, choices, |_, _| ())?;
    }
}

fn grouping(text: &str) -> Grouping {
    let text = format!("PREFIX : <http://x/> {text}");
    let prepared = Prepared::new(Parser::new().parse_query(&text).expect("a query"));
    let world = World::new();
    let shapes = [Shape { range: 2, step: 1 }; 2];
    let view = world.view(&shapes, &world.dataset());
    let maintained = IncrementalQuery::new(&prepared, &[], &view);
    maintained.expect("it has a core").grouping()
}

#[test]
fn groups_of_plain_rows_are_kept() {
    for text in [
        "SELECT ?a (AVG(?b) AS ?m) { GRAPH :v { ?a :p ?b } } GROUP BY ?a",
        "SELECT ?a (AVG(?b) AS ?m) { GRAPH :v { ?a :p ?b } ?a :q ?c FILTER(?b != ?c) } GROUP BY ?a HAVING(SUM(?c) > 1) ORDER BY ?m LIMIT 1",
        "SELECT (COUNT(*) AS ?n) (COUNT(DISTINCT ?b) AS ?m) { GRAPH :v { ?a :p ?b } }",
        "SELECT (SUM(?b * ?c) AS ?n) (MAX(?d) AS ?m) { GRAPH :v { ?a :p ?b . ?a :q ?c } BIND(?b - ?c AS ?d) }",
        "SELECT ?a (COUNT(*) AS ?n) { { GRAPH :v { ?a :p ?b } } UNION { GRAPH :w { ?a :q ?b } } } GROUP BY ?a",
        "SELECT DISTINCT ?a { GRAPH :v { ?a :p ?b } GRAPH :w { ?b :q ?c } }",
        "SELECT DISTINCT ?a { GRAPH :v { ?a :p ?b } } ORDER BY ?a LIMIT 2",
        "SELECT (MAX(?n) AS ?m) { SELECT ?a (COUNT(*) AS ?n) { GRAPH :v { ?a :p ?b } } GROUP BY ?a }",
        "ASK { { SELECT ?a { GRAPH :v { ?a :p ?b } } GROUP BY ?a HAVING(SUM(?b) > 3) } }",
        "SELECT * { { SELECT ?a (AVG(?b) AS ?m) { GRAPH :v { ?a :p ?b } } GROUP BY ?a } GRAPH :g { ?a :in ?room } }",
        "SELECT * { { SELECT ?a (AVG(?b) AS ?m) { GRAPH :v { ?a :p ?b } } GROUP BY ?a } GRAPH :w { ?a :q ?c } }",
    ] {
        assert_eq!(grouping(text), Grouping::Retained, "{text}");
    }
    for text in [
        "SELECT ?a { GRAPH :v { ?a :p ?b } }",
        "SELECT * { { SELECT ?a { GRAPH :v { ?a :p ?b } } } GRAPH :g { ?a :in ?room } }",
    ] {
        assert_eq!(grouping(text), Grouping::None, "{text}");
    }
}

#[test]
fn rebuilt_groups_have_a_reason() {
    for (text, part) in [
        (
            "SELECT ?a (COUNT(*) AS ?n) { GRAPH :v { ?a :p ?b } OPTIONAL { ?a :q ?c } } GROUP BY ?a",
            "stands between",
        ),
        (
            "SELECT ?c (COUNT(*) AS ?n) { GRAPH :v { ?a :p ?b } } GROUP BY (STR(?b) AS ?c)",
            "groups by a value of BIND",
        ),
        (
            "SELECT (COUNT(DISTINCT *) AS ?n) { GRAPH :v { ?a :p ?b } }",
            "DISTINCT solutions",
        ),
        (
            "SELECT (SUM(DISTINCT ?b + 1) AS ?n) { GRAPH :v { ?a :p ?b } }",
            "DISTINCT values of an expression",
        ),
        (
            "SELECT (MIN(STR(?b)) AS ?n) { GRAPH :v { ?a :p ?b } }",
            "not arithmetic",
        ),
        (
            "SELECT (MIN(NOW() - ?b) AS ?n) { GRAPH :v { ?a :p ?b } }",
            "depends on more",
        ),
        (
            "SELECT DISTINCT ?b { GRAPH :v { ?a :p ?b } } ORDER BY ?a",
            "sorted by",
        ),
        (
            "SELECT DISTINCT ?c { { SELECT ?a (COUNT(*) AS ?n) { GRAPH :v { ?a :p ?b } } GROUP BY ?a } GRAPH :w { ?a :q ?c } }",
            "stands between",
        ),
    ] {
        let found = grouping(text);
        assert!(
            matches!(found, Grouping::Rebuilt(why) if why.contains(part)),
            "{text}: {found:?}"
        );
    }
}

/// A window in which the least comes first and leaves first, and a sum overflows for a while.
#[test]
fn expired_rows_are_subtracted_from_groups() {
    let value = |n: i64| Triple::new(iri("a"), iri("p"), Literal::from(n));
    let came = [1, 5, i64::MAX, 4, -3, 7, 7, 7, 2];
    let mut scenario = Scenario {
        stored: Vec::new(),
        shapes: [Shape { range: 3, step: 1 }; 2],
        rounds: (came.iter())
            .map(|n| Round {
                came: [vec![value(*n), value(6)], Vec::new()],
                changed: None,
                late: None,
                is_skipped: false,
            })
            .collect(),
    };
    let text = "PREFIX : <http://x/> SELECT (SUM(?b) AS ?s) (AVG(?b) AS ?m) (MIN(?b) AS ?l) (MAX(?b) AS ?h) \
        (COUNT(DISTINCT ?b) AS ?n) { GRAPH :v { ?a :p ?b } }";
    let by = |scenario: &Scenario| play(scenario, text, PlanChoices::default(), |_, _| ()).unwrap();
    assert_eq!(by(&scenario), Some((8, 1)));
    // A string makes an error of the sum until it leaves.
    let string = Literal::new_simple_literal("longer than inline");
    scenario.rounds[2].came[0].push(Triple::new(iri("a"), iri("p"), string));
    assert_eq!(by(&scenario), Some((8, 1)));
}

/// No stored data, and these statements, one round after the other, in windows of two rounds of the
/// first stream.
fn sliding(rounds: impl Iterator<Item = Vec<Triple>>) -> Scenario {
    let rounds = rounds.map(|came| Round {
        came: [came, Vec::new()],
        changed: None,
        late: None,
        is_skipped: false,
    });
    Scenario {
        stored: Vec::new(),
        shapes: [Shape { range: 2, step: 1 }; 2],
        rounds: rounds.collect(),
    }
}

/// A text that is too long to be made ends the query, and is not merely an error that COUNT passes
/// over.
#[test]
fn texts_that_are_too_long_are_refused_as_by_the_whole() {
    let letters = Literal::new_simple_literal("a".repeat(1000));
    let scenario = sliding((0..6).map(|at| match at {
        2 => vec![Triple::new(iri("a"), iri("p"), letters.clone())],
        n => vec![Triple::new(iri("b"), iri("p"), Literal::from(n))],
    }));
    let million = "REPLACE(STR(?b), \"a\", STR(?b))";
    let text = format!(
        "PREFIX : <http://x/> SELECT (COUNT(REPLACE({million}, \"(a)\", CONCAT(\"$1\", {million}))) AS ?n) \
         {{ GRAPH :v {{ ?a :p ?b }} }}"
    );
    let settings = (PlanChoices::default(), Limits::default());
    let played = play_within(&scenario, &text, settings, |_, _| ()).unwrap();
    let played = played.expect("it has a core");
    assert_eq!(played.refused, (2, 2));
    assert_eq!((played.by_delta, played.rebuilt), (2, 2));
}

/// The memory of a burst of rows and groups is returned when they have expired.
#[test]
fn a_burst_leaves_no_memory_behind() {
    let value = |n: i64| {
        let subject = iri(&format!("s{}", n % 5000));
        Triple::new(subject, iri("p"), Literal::from(n))
    };
    let scenario = sliding((0..8).map(|at| match at {
        1 => (0..5000).map(value).collect(),
        at => (at..at + 5).map(value).collect(),
    }));
    for text in [
        "SELECT ?a (SUM(?b) AS ?s) (COUNT(DISTINCT ?b) AS ?n) (AVG(?b * 2) AS ?m) { GRAPH :v { ?a :p ?b } } GROUP BY ?a",
        "SELECT (COUNT(DISTINCT ?b) AS ?n) { GRAPH :v { ?a :p ?b } }",
        "SELECT * { GRAPH :v { ?a :p ?b } }",
    ] {
        let bytes = RefCell::new(Vec::new());
        let text = format!("PREFIX : <http://x/> {text}");
        let outcome = play(&scenario, &text, PlanChoices::default(), |_, kept| {
            bytes
                .borrow_mut()
                .extend(kept.as_ref().map(RetainedRows::bytes));
        });
        assert_eq!(outcome.unwrap(), Some((7, 1)), "{text}");
        let bytes = bytes.into_inner();
        let (most, last) = (bytes.iter().max().unwrap(), bytes.last().unwrap());
        assert!(last * 8 < *most, "{text}: {bytes:?}");
    }
}

/// With any limit, retained groups give no answer where the whole evaluation would need too much
/// memory.
#[test]
fn small_limits_are_kept_as_by_the_whole() {
    // Sums of such numbers have 17 digits: their terms are computed again.
    let value = |n: i32| {
        let number = Literal::from(1.0 / (3.0 + f64::from(n)));
        Triple::new(iri(&format!("s{}", n % 300)), iri("p"), number)
    };
    let rounds = (0..6).map(|at| Round {
        came: [(0..200).map(|n| value(200 * at + n)).collect(), Vec::new()],
        changed: None,
        late: None,
        is_skipped: false,
    });
    let scenario = Scenario {
        stored: Vec::new(),
        shapes: [Shape { range: 3, step: 1 }; 2],
        rounds: rounds.collect(),
    };
    let mut kinds = [false; 3];
    for text in [
        "SELECT ?a (SUM(?b) AS ?s) (MIN(?b * 3) AS ?l) { GRAPH :v { ?a :p ?b } } GROUP BY ?a",
        "SELECT (COUNT(DISTINCT ?b) AS ?n) (MAX(?b) AS ?h) { GRAPH :v { ?a :p ?b } }",
    ] {
        let text = format!("PREFIX : <http://x/> {text}");
        for power in 8..44 {
            let limits = Limits {
                // Half a power more each time.
                query_memory_bytes: (1 << (power / 2))
                    + (power as u64 % 2) * (1 << (power / 2 - 1)),
                ..Limits::default()
            };
            let settings = (PlanChoices::default(), limits);
            let played = play_within(&scenario, &text, settings, |_, _| ()).unwrap();
            match played.expect("it has a core").refused {
                (0, 0) => kinds[0] = true,
                (_, 0) => kinds[1] = true,
                _ => kinds[2] = true,
            }
        }
    }
    assert_eq!(kinds, [true; 3], "or it shows nothing");
}

/// Rows that are equal under ORDER BY are ordered by their terms, below DISTINCT as well.
#[test]
fn equal_rows_below_distinct_are_chosen_by_their_terms() {
    let value = |n: &str, datatype| Triple::new(iri("b"), iri("p"), typed(n, datatype));
    let came = [value("4", xsd::LONG), value("4", xsd::INTEGER)];
    let scenario = Scenario {
        stored: Vec::new(),
        shapes: [Shape { range: 3, step: 1 }; 2],
        rounds: (came.into_iter().chain([value("4.0", xsd::DECIMAL)]))
            .map(|triple| Round {
                came: [vec![triple], Vec::new()],
                changed: None,
                late: None,
                is_skipped: false,
            })
            .collect(),
    };
    for optional in ["", "OPTIONAL { GRAPH :w { ?a :q ?c } }"] {
        let text = format!(
            "PREFIX : <http://x/> SELECT DISTINCT ?a ?b ?c {{ GRAPH :v {{ ?a :p ?b }} {optional} }} ORDER BY ?a ?b ?c LIMIT 1"
        );
        let outcome = play(&scenario, &text, PlanChoices::default(), |_, _| ());
        assert_eq!(outcome.unwrap(), Some((2, 1)), "{text}");
    }
}

/// EX-1: a row that is lost between two closes is missed in its group.
#[test]
fn ex1_a_row_lost_from_a_group_is_noticed() {
    let value = |n: i64| Triple::new(iri("a"), iri("p"), Literal::from(n));
    let scenario = Scenario {
        stored: Vec::new(),
        shapes: [Shape { range: 3, step: 1 }; 2],
        rounds: (0..6)
            .map(|n| Round {
                came: [vec![value(n)], Vec::new()],
                changed: None,
                late: None,
                is_skipped: false,
            })
            .collect(),
    };
    let text =
        "PREFIX : <http://x/> SELECT ?a (SUM(?b) AS ?s) { GRAPH :v { ?a :p ?b } } GROUP BY ?a";
    let outcome = play(&scenario, text, PlanChoices::default(), |of, kept| {
        if let Some(kept) = kept {
            kept.lose_a_row(of);
        }
    });
    assert!(outcome.is_err(), "{outcome:?}");
}
