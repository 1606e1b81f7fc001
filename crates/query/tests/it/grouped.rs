//! Queries of one shape, evaluated together, answer as each by itself does: for generated shapes,
//! data and constants, with constants that match nothing, and many queries or few, so that plans
//! start from the constants or end with them.

use crate::equals_spareval::{Data, answer_rows, data, query};
use crate::naive::NaiveView;
use oxrdf::{NamedNode, Term};
use proptest::prelude::*;
use somersault_lang::Parser;
use somersault_lang::lift::lift;
use somersault_model::{EventTime, Limits, TermId};
use somersault_query::{
    Answer, Cells, Execution, GraphView, Grouped, Invocation, PlanChoices, Prepared,
};

fn execution() -> Execution {
    Execution::new(Limits::default(), EventTime(0))
}

/// A shape with the constants of one text; `None` where texts of it share nothing.
pub(crate) fn shape(text: &str) -> Option<(Prepared, Vec<Term>)> {
    let lifted = lift(text, None)?;
    let template = lifted.template();
    let plain = Parser::new().parse_query(text).ok()?;
    let query = Parser::new().parse_query(&template.text).ok()?;
    let prepared = Prepared::of_shape(&plain, query, template.placeholders, &lifted.constants)?;
    Some((prepared, lifted.constants))
}

/// Constants in the place of these: nodes become others, by turns and by `salt`.
pub(crate) fn others(constants: &[Term], salt: usize) -> Vec<Term> {
    const NODES: [&str; 6] = ["a", "b", "c", "d", "e", "nowhere"];
    let turned = constants.iter().enumerate().map(|(at, term)| match term {
        Term::NamedNode(_) => {
            let name = NODES[(salt + at * (salt / NODES.len() + 1)) % NODES.len()];
            NamedNode::new_unchecked(format!("http://x/{name}")).into()
        }
        other => other.clone(),
    });
    turned.collect()
}

fn sorted(mut rows: Vec<Vec<String>>) -> Vec<Vec<String>> {
    rows.sort();
    rows
}

/// Evaluates a shape for several constants, together and each by itself. Returns whether it could
/// be evaluated together.
fn compare(data: &Data, text: &str, queries: usize, choices: PlanChoices) -> bool {
    let view: NaiveView = data.view();
    let Some((single, constants)) = shape(text) else {
        return false;
    };
    let Some(grouped) = Grouped::new(&single) else {
        return false;
    };
    let mut cells = Cells::new(constants.len());
    let intern = |terms: &[Term]| -> Vec<TermId> {
        let dictionary = view.dictionary();
        terms
            .iter()
            .map(|t| dictionary.intern(t.as_ref()))
            .collect()
    };
    cells.enter(&intern(&constants));
    for salt in 0..queries {
        cells.enter(&intern(&others(&constants, salt)));
    }
    let execution = Execution {
        plan_choices: choices,
        ..execution()
    };
    let answers = grouped
        .run(&cells, &view, &execution)
        .expect("no limit is near");
    let mut all = 0;
    for cell in cells.numbers() {
        let alone = single
            .run(Invocation::new(&view, &execution).ids(cells.get(cell)))
            .expect("no limit is near");
        let rows = sorted(answer_rows(&view, alone));
        assert_eq!(answers.count(cell), rows.len(), "\n{text}");
        let own = Answer::Solutions(answers.of(cell));
        assert_eq!(sorted(answer_rows(&view, own)), rows, "\n{text}");
        all += rows.len();
    }
    assert_eq!(answers.len(), all);
    assert_eq!(answers.cells().map(|(_, rows)| rows).sum::<usize>(), all);
    true
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: std::env::var("CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(400),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn queries_together_answer_as_each_alone(
        data in data(),
        text in query(),
        queries in prop_oneof![Just(1usize), 2..40usize],
        greedy in any::<bool>(),
        hash in proptest::option::of(any::<bool>()),
    ) {
        let choices = PlanChoices { greedy, hash, ..PlanChoices::default() };
        compare(&data, &text, queries, choices);
    }
}

/// Shapes that are evaluated together, and shapes that are not.
fn shapes() -> (Vec<String>, Vec<String>) {
    let own = |text: &str| format!("PREFIX : <http://x/> {text}");
    let together = [
        "SELECT ?p ?o { :a ?p ?o }",
        "SELECT ?s { ?s :p :a . ?s :q ?o }",
        "SELECT DISTINCT ?o { :a ?p ?o }",
        "SELECT ?s { ?s :p :a . ?s :q ?o FILTER(?o != :b) ?o :p :b }",
        "SELECT ?s ?o { ?s :p :a OPTIONAL { ?s :q ?o . ?o ?r :a } }",
        "SELECT ?o (COUNT(*) AS ?n) { :a :p ?o . ?o ?q ?z } GROUP BY ?o",
        "SELECT ?o (COUNT(*) AS ?n) { :a :p ?o . ?o ?q ?z } GROUP BY ?o HAVING(COUNT(*) > 1)",
        "SELECT ?s ?o { :a :p ?s { SELECT ?s ?o { ?s :q ?o } } MINUS { ?s :r ?o } }",
        "SELECT ?s ?t { ?s :p :a . { ?s :q ?t } UNION { ?s :r ?t . ?t ?z :a } }",
        "SELECT ?p ?o { GRAPH :w { :a ?p ?o } } ORDER BY ?o",
        "SELECT ?s { ?s ?p :a FILTER(?s = :b) }",
        "SELECT ?s { ?s :p :a FILTER(?s != :b) }",
        "SELECT DISTINCT ?o { :a ?p ?o } ORDER BY ?o",
    ];
    let apart = [
        "SELECT (COUNT(*) AS ?n) { :a :p ?o }",
        "SELECT ?o { :a :p ?o } LIMIT 1",
        "SELECT ?s { ?s :p ?o FILTER(?o != :a) }",
        "SELECT ?s { ?s :p ?o OPTIONAL { ?s :q :a } }",
        "SELECT ?s { ?s :p ?o MINUS { ?s :q :a } }",
        "SELECT ?s { ?s :p :a FILTER EXISTS { ?s :q :b } }",
        "SELECT ?s { ?s :p* :a }",
        "ASK { :a :p ?o }",
    ];
    (together.map(own).to_vec(), apart.map(own).to_vec())
}

#[test]
fn shapes_are_evaluated_together_where_that_means_the_same() {
    let node = |name: &str| NamedNode::new_unchecked(format!("http://x/{name}"));
    let mut triples = Vec::new();
    for (at, s) in ["a", "b", "c", "d"].iter().enumerate() {
        for (by, p) in ["p", "q", "r"].iter().enumerate() {
            for o in [at + by, at + 2 * by + 1] {
                let o = node(["a", "b", "c", "d", "e"][o % 5]);
                triples.push(oxrdf::Triple::new(node(s), node(p), o));
            }
        }
    }
    let data = Data {
        default: triples.clone(),
        named: [triples[3..9].to_vec(), Vec::new()],
        windows: [triples[..12].to_vec(), triples[6..].to_vec()],
    };
    let (together, apart) = shapes();
    for text in &together {
        for queries in [1, 30] {
            assert!(
                compare(&data, text, queries, PlanChoices::default()),
                "{text}"
            );
        }
    }
    for text in &apart {
        assert!(!compare(&data, text, 5, PlanChoices::default()), "{text}");
    }
}
