//! Rights on graphs: a query with rights answers as one without rights answers over a store that
//! holds the readable graphs alone, and an update changes writable graphs or nothing.

use crate::updates::store;
use oxrdf::{GraphName, GraphNameRef, NamedNode, Quad};
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use somersault_lang::{Parser, Query};
use somersault_model::{EventTime, Limits, StreamUid};
use somersault_query::{
    Answer, Dataset, Effects, Execution, GraphRights, GraphSet, HeldView, Invocation, Prepared,
    QueryError, SnapshotView, UpdateKey, evaluate_update,
};
use somersault_store::Store;
use std::sync::Arc;

const PREFIX: &str = "PREFIX : <http://x/>";

/// Each reads graphs in another way.
const QUERIES: [&str; 16] = [
    "SELECT * { ?s ?p ?o }",
    "SELECT * { GRAPH ?g { ?s ?p ?o } }",
    "SELECT ?g { GRAPH ?g { } }",
    "SELECT * { GRAPH :g1 { ?s ?p ?o } }",
    "SELECT * { { ?s ?p ?o } UNION { GRAPH :g2 { ?s ?p ?o } } }",
    "SELECT * { ?s ?p ?o FILTER NOT EXISTS { GRAPH ?g { ?s ?q ?x } } }",
    "SELECT * { ?s ?p ?o OPTIONAL { GRAPH ?g { ?o ?q ?x } } }",
    "SELECT ?s ?o { GRAPH ?g { ?s :p+ ?o } }",
    "SELECT (COUNT(*) AS ?n) { GRAPH ?g { ?s ?p ?o } }",
    "SELECT * FROM :g1 FROM :h FROM NAMED :g2 { { ?s ?p ?o } UNION { GRAPH ?g { ?s ?p ?o } } }",
    "SELECT * FROM NAMED :h FROM NAMED :g1 { GRAPH ?g { ?s ?p ?o } }",
    "SELECT * FROM :h { ?s ?p ?o }",
    "SELECT * { ?s :graph ?g GRAPH ?g { ?a ?p ?o } }",
    "ASK { GRAPH ?g { :a :p ?o } }",
    "CONSTRUCT { ?s ?g ?o } { GRAPH ?g { ?s ?p ?o } }",
    "SELECT * { VALUES ?g { :g1 :h :none } GRAPH ?g { ?s ?p ?o } }",
];

fn iri(name: &str) -> NamedNode {
    NamedNode::new_unchecked(format!("http://x/{name}"))
}

fn graph() -> impl Strategy<Value = GraphName> {
    let names = vec![None, Some("g1"), Some("g2"), Some("h")];
    select(names).prop_map(|name| name.map_or(GraphName::DefaultGraph, |name| iri(name).into()))
}

fn quad() -> impl Strategy<Value = Quad> {
    let node = || select(vec!["a", "b", "c", "g1", "h"]).prop_map(iri);
    let predicate = select(vec!["p", "q", "graph"]).prop_map(iri);
    (node(), predicate, node(), graph()).prop_map(|(s, p, o, g)| Quad::new(s, p, o, g))
}

/// A set of graphs by its parts: the default graph, one name, another, a beginning, all.
fn graphs() -> impl Strategy<Value = GraphSet> {
    subsequence(vec![0, 1, 2, 3, 4], 0..=3).prop_map(|parts| {
        let mut set = GraphSet::default();
        for part in parts {
            match part {
                0 => set.default = true,
                1 => set.named.add("http://x/g1"),
                2 => set.named.add("http://x/h"),
                3 => set.named.add_beginning("http://x/g"),
                _ => set.named.add_all(),
            }
        }
        set
    })
}

fn execution(rights: Option<Arc<GraphRights>>) -> Execution {
    Execution {
        graph_rights: rights,
        ..Execution::new(Limits::default(), EventTime(0))
    }
}

/// The answer as sorted text.
fn answered(answer: &Answer, store: &Store) -> Vec<String> {
    let mut rows: Vec<String> = match answer {
        Answer::Boolean(truth) => vec![truth.to_string()],
        Answer::Graph(triples) => triples.iter().map(ToString::to_string).collect(),
        Answer::Dataset(quads) => quads.iter().map(ToString::to_string).collect(),
        Answer::Solutions(solutions) => {
            let rows = solutions.rows(store.dictionary());
            rows.map(|row| format!("{row:?}")).collect()
        }
    };
    rows.sort();
    rows
}

fn ask(store: &Arc<Store>, query: &Query, rights: Option<&Arc<GraphRights>>) -> Vec<String> {
    let dictionary = store.dictionary_arc();
    let mut dataset = Dataset::of_clause(&query.dataset, dictionary);
    if let Some(rights) = rights {
        dataset = dataset.narrowed(rights, dictionary);
    }
    let prepared = Prepared::new(query.clone());
    let execution = execution(rights.cloned());
    let held = HeldView::new(store.hold_stable_until(i64::MAX), dataset.clone());
    let view = SnapshotView::new(store.pin_stable(), Vec::new(), dataset);
    let answer = prepared.run(Invocation::new(&view, &execution));
    let answer = answered(&answer.expect("an answer"), store);
    let again = prepared.run(Invocation::new(&held, &execution));
    assert_eq!(answer, answered(&again.expect("an answer"), store));
    answer
}

proptest! {
    #[test]
    fn unreadable_graphs_are_as_if_they_were_empty(
        quads in prop::collection::vec(quad(), 0..24),
        read in graphs(),
    ) {
        let readable: Vec<Quad> = (quads.iter())
            .filter(|quad| read.contains(quad.graph_name.as_ref()))
            .cloned()
            .collect();
        let (all, part) = (store(&quads), store(&readable));
        let rights = Arc::new(GraphRights { read, write: GraphSet::default() });
        for text in QUERIES {
            let text = format!("{PREFIX} {text}");
            let query = Parser::new().parse_query(&text).expect("a query");
            prop_assert_eq!(ask(&all, &query, Some(&rights)), ask(&part, &query, None), "{}", text);
        }
    }

    #[test]
    fn an_update_changes_writable_graphs_or_nothing(
        quads in prop::collection::vec(quad(), 0..16),
        read in graphs(),
        write in graphs(),
        text in select(UPDATES.to_vec()),
    ) {
        let readable: Vec<Quad> = (quads.iter())
            .filter(|quad| read.contains(quad.graph_name.as_ref()))
            .cloned()
            .collect();
        let rights = Arc::new(GraphRights { read, write: write.clone() });
        match (change(&store(&quads), text, Some(rights)), is_by_pattern(text)) {
            (Err(QueryError::Forbidden { right }), _) => {
                prop_assert!(right.starts_with("write"), "{}", right);
                prop_assert!(!write.is_all(), "{}", text);
            }
            (Err(error), _) => prop_assert!(false, "{}: {}", text, error),
            (Ok(effects), is_by_pattern) => {
                for quad in effects.inserts.iter().chain(&effects.deletes) {
                    prop_assert!(write.contains(quad.graph_name.as_ref()), "{} {}", text, quad);
                }
                for graph in &effects.clears {
                    prop_assert!(write.contains(graph.as_ref()), "{} {}", text, graph);
                }
                if is_by_pattern {
                    let over_readable = change(&store(&readable), text, None).expect("no rights are asked for");
                    let deleted: Vec<String> = sorted(&over_readable.deletes);
                    prop_assert_eq!(sorted(&effects.deletes), deleted, "{}", text);
                }
            }
        }
    }
}

const UPDATES: [&str; 12] = [
    "INSERT DATA { :a :p :new }",
    "INSERT DATA { GRAPH <http://x/g1> { :a :p :new } }",
    "DELETE DATA { GRAPH :h { :a :p :a } }",
    "DELETE { GRAPH ?g { ?s ?p ?o } } WHERE { GRAPH ?g { ?s ?p ?o } }",
    "DELETE { GRAPH ?g { ?s ?p ?o } } WHERE { GRAPH ?g { ?s :p ?x . ?s ?p ?o } }",
    "DELETE { ?s ?p ?o } WHERE { ?s ?p ?o }",
    "WITH :h DELETE { ?s ?p ?o } WHERE { ?s ?p ?o }",
    "INSERT { GRAPH ?g { ?s :copied ?o } } WHERE { ?s :graph ?g . ?s ?p ?o }",
    "CLEAR GRAPH :h",
    "CLEAR DEFAULT",
    "CLEAR NAMED",
    "DROP ALL",
];

/// Whether an update deletes what its pattern finds, and nothing else.
fn is_by_pattern(text: &str) -> bool {
    text.contains("DELETE {")
}

fn sorted(quads: &[Quad]) -> Vec<String> {
    let mut texts: Vec<String> = quads.iter().map(ToString::to_string).collect();
    texts.sort();
    texts
}

fn change(
    store: &Arc<Store>,
    text: &str,
    rights: Option<Arc<GraphRights>>,
) -> Result<Effects, QueryError> {
    let update = Parser::new().parse_update(&format!("{PREFIX} {text}"));
    let snapshot = store.pin_stable();
    let key = UpdateKey {
        base: snapshot.sn(),
        number: 1,
    };
    let lease = store.dictionary().lease(StreamUid(1));
    let execution = execution(rights);
    evaluate_update(
        &update.expect("an update"),
        None,
        snapshot,
        (&execution, key),
        lease,
    )
}

#[test]
fn the_refusal_names_the_right() {
    let store = store(&[Quad::new(iri("a"), iri("p"), iri("b"), iri("h"))]);
    let rights = |write: GraphSet| {
        let read = GraphSet::all();
        Some(Arc::new(GraphRights { read, write }))
    };
    let mut some = GraphSet::default();
    some.named.add("http://x/h");
    for (text, missing) in [
        ("INSERT DATA { :a :p :c }", "write:default"),
        ("CLEAR ALL", "write"),
        ("DROP NAMED", "write"),
        ("CLEAR GRAPH <http://x/g1>", "write:http://x/g1"),
        ("CREATE GRAPH :new", "write:http://x/new"),
        (
            "INSERT { GRAPH ?s { ?s ?p ?o } } WHERE { GRAPH ?g { ?s ?p ?o } }",
            "write:http://x/a",
        ),
        (
            "DELETE DATA { GRAPH :h { :a :p :b } } ; CLEAR DEFAULT",
            "write:default",
        ),
    ] {
        match change(&store, text, rights(some.clone())) {
            Err(QueryError::Forbidden { right }) => assert_eq!(right, missing, "{text}"),
            other => panic!("{text}: {other:?}"),
        }
    }
    let blank = change(&store, "CLEAR GRAPH :h", rights(some));
    assert_eq!(blank.expect("allowed").deletes.len(), 1);
    assert!(GraphSet::all().contains(GraphNameRef::DefaultGraph));
}

/// The comparison finds a dataset that nothing has narrowed.
#[test]
fn ac_1_a_dataset_that_is_not_narrowed() {
    let secret = Quad::new(iri("a"), iri("p"), iri("b"), iri("h"));
    let text = format!("{PREFIX} SELECT * {{ GRAPH ?g {{ ?s ?p ?o }} }}");
    let query = Parser::new().parse_query(&text).expect("a query");
    let (all, part) = (store(&[secret]), store(&[]));
    let nothing = Arc::new(GraphRights::default());
    assert_eq!(ask(&all, &query, Some(&nothing)), ask(&part, &query, None));
    assert_ne!(ask(&all, &query, None), ask(&part, &query, None));
}
