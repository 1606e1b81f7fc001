//! The difference that changed statements of stored graphs make, against that of two whole answers:
//! over drawn inserts and deletes of several statements each, repeats and such without effect among
//! them. Also that planted mistakes are caught.

use crate::delta::{World, graph, rows};
use crate::equals_spareval::{query, triple};
use oxrdf::Triple;
use proptest::prelude::*;
use somersault_lang::{Parser, QueryForm};
use somersault_model::{EventTime, Limits, QuadIds};
use somersault_query::{
    Answer, Dataset, Execution, Invocation, Prepared, SnapshotView, Solutions, StoredDelta,
};
use std::sync::Arc;

/// Queries that follow from changed statements: joins, also of a pattern with itself, filters, BIND,
/// VALUES, and projections that make rows equal.
const QUERIES: [&str; 10] = [
    "SELECT * { ?a :p ?b }",
    "SELECT ?a { ?a :p ?b }",
    "SELECT * { ?a :p ?b . ?b :q ?c }",
    "SELECT ?c { ?a :p ?b . ?b :p ?c }",
    "SELECT * { ?a :p ?a }",
    "SELECT * { ?a ?p ?b . ?b ?p ?a FILTER(?a != ?b) }",
    "SELECT ?a ?n { ?a :p ?b . ?b :q ?c BIND(STR(?c) AS ?n) FILTER(STRLEN(?n) > 2) }",
    "SELECT * { VALUES ?b { :a :b :c } ?a :p ?b . GRAPH :g { ?b :q ?c } }",
    "SELECT * { ?a :p ?b . ?b :q ?c . ?c :r ?d . ?d :p ?a }",
    "SELECT ?b { :a :p :b . :b :q ?b }",
];

type Change = (bool, &'static str, Triple);

fn change() -> impl Strategy<Value = Change> {
    (any::<bool>(), graph(), triple())
}

/// Text that a difference is compared by.
fn bag(solutions: Solutions, world: &World) -> Vec<Vec<String>> {
    let mut rows = rows(Answer::Solutions(solutions), world.dictionary());
    rows.sort();
    rows
}

/// One bag without the other.
fn without(mut one: Vec<Vec<String>>, other: &[Vec<String>]) -> Vec<Vec<String>> {
    for row in other {
        if let Some(at) = one.iter().position(|own| own == row) {
            one.remove(at);
        }
    }
    one
}

/// A mistake in the changed statements that a delta is told.
type Mistake = fn(&mut Vec<QuadIds>);

/// Plays rounds of changes. Returns how many of them changed the answer; `None` if the query is not
/// evaluated this way.
fn play(
    text: &str,
    stored: &[(&'static str, Triple)],
    rounds: &[Vec<Change>],
    mistake: Mistake,
) -> Result<Option<usize>, TestCaseError> {
    let text = format!("PREFIX : <http://x/> {text}");
    let Ok(parsed) = Parser::new().parse_query(&text) else {
        return Ok(None);
    };
    if !matches!(parsed.form, QueryForm::Select { .. }) {
        return Ok(None);
    }
    let mut world = World::new();
    world.store_all(stored);
    let dataset = Arc::new(Dataset::of_clause(&parsed.dataset, world.dictionary()));
    let prepared = Prepared::new(parsed);
    let mut before = world.stored_view(&dataset);
    let Ok(delta) = StoredDelta::new(&prepared, &before) else {
        return Ok(None);
    };
    let execution = Execution::new(Limits::default(), EventTime(1));
    let whole = |view: &SnapshotView| match prepared.run(Invocation::new(view, &execution)) {
        Ok(Answer::Solutions(solutions)) => solutions,
        other => panic!("a SELECT has solutions: {other:?}"),
    };
    let mut changes = 0;
    for round in rounds {
        let mut changed = world.store_changes(round);
        changed.sort_unstable();
        changed.dedup();
        mistake(&mut changed);
        let now = world.stored_view(&dataset);
        let found = delta.run(&changed, &before, &now, &execution);
        let found = found.map_err(|error| TestCaseError::fail(error.to_string()))?;
        let (came, left) = (bag(found.came, &world), bag(found.left, &world));
        let (old, new) = (bag(whole(&before), &world), bag(whole(&now), &world));
        let names = ["came", "left"];
        let expected = [without(new.clone(), &old), without(old.clone(), &new)];
        let given = [without(came.clone(), &left), without(left.clone(), &came)];
        for ((name, given), expected) in names.into_iter().zip(given).zip(expected) {
            prop_assert_eq!(given, expected, "{}: {} after {:?}", text, name, round);
        }
        changes += usize::from(old != new);
        before = now;
    }
    Ok(Some(changes))
}

fn stored() -> impl Strategy<Value = Vec<(&'static str, Triple)>> {
    proptest::collection::vec((graph(), triple()), 0..40)
}

fn rounds() -> impl Strategy<Value = Vec<Vec<Change>>> {
    proptest::collection::vec(proptest::collection::vec(change(), 0..6), 1..12)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn differences_are_those_of_whole_answers(
        text in proptest::sample::select(QUERIES.to_vec()),
        stored in stored(),
        rounds in rounds(),
    ) {
        let played = play(text, &stored, &rounds, |_| ())?;
        prop_assert!(played.is_some(), "{}", text);
    }

    #[test]
    fn drawn_queries_too(text in query(), stored in stored(), rounds in rounds()) {
        play(&text, &stored, &rounds, |_| ())?;
    }
}

/// A mistake is caught within a number of drawn rounds.
fn is_caught(mistake: Mistake) -> bool {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let config = (stored(), rounds());
    (0..60).any(|_| {
        use proptest::strategy::ValueTree;
        let (stored, rounds) = (config.new_tree(&mut runner))
            .expect("a case can be drawn")
            .current();
        let mut texts = QUERIES.iter();
        texts.any(|text| play(text, &stored, &rounds, mistake).is_err())
    })
}

#[test]
fn planted_mistakes_are_caught() {
    assert!(!is_caught(|_| ()));
    assert!(is_caught(|changed| _ = changed.pop()), "a change is missed");
    assert!(is_caught(Vec::clear), "all changes are missed");
    // Statements that have not changed are harmless.
    assert!(!is_caught(|changed| {
        let other = changed.first().map(|quad| QuadIds {
            subject: quad.object,
            object: quad.subject,
            ..*quad
        });
        changed.extend(other.filter(|other| !changed.contains(other)));
    }));
}

#[test]
fn what_does_not_follow_from_changed_statements_says_why() {
    let world = World::new();
    for (text, why) in [
        ("ASK { ?a :p ?b }", "ASK"),
        ("SELECT * { ?a :p ?b OPTIONAL { ?b :q ?c } }", "OPTIONAL"),
        ("SELECT * { ?a :p ?b FILTER EXISTS { ?b :q ?c } }", "EXISTS"),
        ("SELECT (COUNT(*) AS ?n) { ?a :p ?b }", "GROUP BY"),
        ("SELECT DISTINCT ?a { ?a :p ?b }", "DISTINCT"),
        ("SELECT * { { ?a :p ?b } UNION { ?a :q ?b } }", "UNION"),
        ("SELECT * { ?a :p* ?b }", "path"),
        (
            "SELECT * { GRAPH ?g { ?a :p ?b } }",
            "GRAPH with a variable",
        ),
        ("SELECT * FROM :g FROM :h { ?a :p ?b }", "several graphs"),
        ("SELECT (RAND() AS ?r) { ?a :p ?b }", "RAND"),
        ("SELECT (NOW() AS ?t) { ?a :p ?b }", "NOW()"),
    ] {
        let text = format!("PREFIX : <http://x/> {text}");
        let parsed = Parser::new().parse_query(&text).unwrap();
        for name in ["g", "h"] {
            world
                .dictionary()
                .intern(crate::equals_spareval::iri(name).as_ref().into());
        }
        let dataset = Arc::new(Dataset::of_clause(&parsed.dataset, world.dictionary()));
        let view = world.stored_view(&dataset);
        let refused = StoredDelta::new(&Prepared::new(parsed), &view).err();
        assert!(
            refused.is_some_and(|reason| reason.contains(why)),
            "{text}: {refused:?}"
        );
    }
}
