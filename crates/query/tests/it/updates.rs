//! Updates on the real store: operations see what those before them did, and the effects are net.

use oxrdf::{BlankNode, GraphName, NamedNode, Quad};
use somersault_lang::{Parser, Update};
use somersault_model::{EventTime, Limits, Mutation, QuadIds, ShardId, Sn, StreamUid, TermId};
use somersault_query::{
    Effects, Execution, MOST_LISTED, QueryError, Remote, RemoteSolutions, UpdateKey, Using,
    evaluate_update,
};
use somersault_store::{ShardBatch, Store};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

fn iri(name: &str) -> NamedNode {
    NamedNode::new_unchecked(format!("http://x/{name}"))
}

fn quad(s: &str, p: &str, o: &str, graph: Option<&str>) -> Quad {
    let graph = graph.map_or(GraphName::DefaultGraph, |g| iri(g).into());
    Quad::new(iri(s), iri(p), iri(o), graph)
}

/// A store of one shard that holds these at SN 1.
pub(crate) fn store(quads: &[Quad]) -> Arc<Store> {
    let store = Store::new(1);
    let dictionary = store.dictionary();
    let mutations: Vec<Mutation> = quads
        .iter()
        .map(|quad| {
            Mutation::insert(QuadIds {
                graph: match &quad.graph_name {
                    GraphName::NamedNode(node) => dictionary.intern(node.as_ref().into()),
                    GraphName::BlankNode(node) => dictionary.intern(node.as_ref().into()),
                    GraphName::DefaultGraph => TermId::DEFAULT_GRAPH,
                },
                subject: dictionary.intern(quad.subject.as_ref().into()),
                predicate: dictionary.intern(quad.predicate.as_ref().into()),
                object: dictionary.intern(quad.object.as_ref()),
            })
        })
        .collect();
    let mut writer = store.take_writer(ShardId(0)).expect("the first writer");
    for batch in ShardBatch::split(&mutations, store.placement()) {
        writer.apply(Sn(1), &batch).expect("in order");
    }
    store.snapshots().publish_stable(Sn(1));
    store
}

fn effects(quads: &[Quad], text: &str) -> Result<Effects, QueryError> {
    effects_with(quads, text, None)
}

fn effects_with(
    quads: &[Quad],
    text: &str,
    remote: Option<Arc<dyn Remote>>,
) -> Result<Effects, QueryError> {
    let update = Parser::new()
        .parse_update(&format!("PREFIX : <http://x/>\n{text}"))
        .expect("an update");
    let execution = Execution {
        remote,
        ..Execution::new(Limits::default(), EventTime(0))
    };
    evaluate(&store(quads), &update, None, &execution)
}

fn evaluate(
    store: &Arc<Store>,
    update: &Update,
    using: Option<&Using>,
    execution: &Execution,
) -> Result<Effects, QueryError> {
    let snapshot = store.pin_stable();
    let key = UpdateKey {
        base: snapshot.sn(),
        number: 1,
    };
    let lease = store.dictionary().lease(StreamUid(1));
    evaluate_update(update, using, snapshot, (execution, key), lease)
}

#[test]
fn effects_are_net() {
    let data = [quad("a", "p", "b", None)];
    let done = effects(
        &data,
        "INSERT DATA { :a :p :b . :a :p :c } ; DELETE DATA { :a :p :c . :nobody :p :b }",
    );
    assert_eq!(done.expect("evaluates"), Effects::default());
    let done = effects(&data, "DELETE DATA { :a :p :b } ; INSERT DATA { :a :p :b }");
    assert_eq!(done.expect("evaluates"), Effects::default());
}

#[test]
fn an_operation_sees_those_before_it() {
    let data = [quad("a", "p", "b", None)];
    let done = effects(
        &data,
        "INSERT DATA { :b :p :c } ; \
         DELETE { ?x :p ?y } INSERT { ?x :far ?z } WHERE { ?x :p ?y . ?y :p ?z }",
    )
    .expect("evaluates");
    assert_eq!(done.deletes, [quad("a", "p", "b", None)]);
    let mut inserts = done.inserts;
    inserts.sort_by_key(ToString::to_string);
    assert_eq!(
        inserts,
        [quad("a", "far", "c", None), quad("b", "p", "c", None)]
    );
}

#[test]
fn graphs_are_cleared_copied_and_moved() {
    let data = [quad("a", "p", "b", Some("g")), quad("a", "p", "c", None)];
    let done = effects(&data, "CLEAR NAMED").expect("evaluates");
    assert_eq!(
        (done.deletes.as_slice(), done.inserts.len()),
        (&data[..1], 0)
    );
    let done = effects(&data, "MOVE :g TO DEFAULT").expect("evaluates");
    assert_eq!(done.inserts, [quad("a", "p", "b", None)]);
    assert_eq!(done.deletes.len(), 2);
    let done = effects(&data, "COPY DEFAULT TO :h ; DROP ALL").expect("evaluates");
    assert_eq!((done.inserts.len(), done.deletes.len()), (0, 2));
    let refused = effects(&data, "CREATE GRAPH :g").expect_err("is there");
    assert!(matches!(refused, QueryError::Refused { .. }));
    assert!(effects(&data, "CREATE SILENT GRAPH :g").is_ok());
}

#[test]
fn a_dataset_is_given_by_the_text_or_by_the_request() {
    let using = Using {
        default: vec![iri("g")],
        named: Vec::new(),
    };
    let text = "PREFIX : <http://example.org/> WITH :h DELETE { ?s ?p ?o } WHERE { ?s ?p ?o }";
    let update = Parser::new().parse_update(text).expect("an update");
    let execution = Execution::new(Limits::default(), EventTime(0));
    let refused = evaluate(&store(&[]), &update, Some(&using), &execution).expect_err("twice");
    assert!(matches!(refused, QueryError::Refused { .. }), "{refused}");
    let said = refused.to_string();
    assert!(said.contains("Give it in one place"), "{refused}");
}

#[test]
fn with_and_using_choose_the_graph() {
    let data = [quad("a", "p", "b", Some("g")), quad("a", "p", "c", None)];
    let done = effects(
        &data,
        "WITH :g DELETE { ?s :p ?o } INSERT { ?s :q ?o } WHERE { ?s :p ?o }",
    )
    .expect("evaluates");
    assert_eq!(done.deletes, [quad("a", "p", "b", Some("g"))]);
    assert_eq!(done.inserts, [quad("a", "q", "b", Some("g"))]);
    let done =
        effects(&data, "INSERT { ?s :q ?o } USING :g WHERE { ?s :p ?o }").expect("evaluates");
    assert_eq!(done.inserts, [quad("a", "q", "b", None)]);
}

#[test]
fn one_label_is_one_new_node_in_a_request() {
    let done = effects(
        &[],
        "INSERT DATA { _:x :p :a } ; INSERT DATA { _:y :p :b . :c :p _:y }",
    )
    .expect("evaluates");
    let nodes: std::collections::BTreeSet<String> = done
        .inserts
        .iter()
        .flat_map(|q| [q.subject.to_string(), q.object.to_string()])
        .filter(|term| term.starts_with("_:"))
        .collect();
    assert_eq!(nodes.len(), 2);
    assert!(!nodes.contains("_:x") && !nodes.contains("_:y"));
}

struct Document;

impl Remote for Document {
    fn select(&self, _: &str, _: &str) -> Result<RemoteSolutions, String> {
        Err("no endpoint here".into())
    }

    fn document(&self, iri: &str) -> Result<Vec<Quad>, String> {
        if iri == "http://far/data" {
            Ok(vec![quad("a", "p", "b", None)])
        } else {
            Err("404 Not Found".into())
        }
    }
}

#[test]
fn load_goes_through_the_given_remote() {
    let load = "LOAD <http://far/data> INTO GRAPH :g";
    let done = effects_with(&[], load, Some(Arc::new(Document))).expect("loads");
    assert_eq!(done.inserts, [quad("a", "p", "b", Some("g"))]);
    let refused = effects(&[], load).expect_err("nothing remote");
    assert!(refused.to_string().contains("--allow-remote"), "{refused}");
    let missing = "LOAD SILENT <http://far/other> ; INSERT DATA { :a :p :c }";
    let done = effects_with(&[], missing, Some(Arc::new(Document))).expect("goes on");
    assert_eq!(done.inserts.len(), 1);
}

/// Executes an update whose limits are these.
fn limited(
    quads: &[Quad],
    text: &str,
    change: impl FnOnce(&mut Execution),
) -> Result<Effects, QueryError> {
    let text = format!("PREFIX : <http://x/>\n{text}");
    let update = Parser::new().parse_update(&text).expect("an update");
    let mut execution = Execution::new(Limits::default(), EventTime(0));
    change(&mut execution);
    evaluate(&store(quads), &update, None, &execution)
}

fn many(count: usize) -> Vec<Quad> {
    let number = |n: usize| quad(&format!("s{n}"), "p", &format!("o{n}"), None);
    (0..count).map(number).collect()
}

#[test]
fn the_operations_of_a_request_share_its_deadline() {
    let started = Instant::now();
    let earlier = Duration::from_millis(20);
    for text in [
        "INSERT DATA { :a :p :c }",
        "CREATE SILENT GRAPH :h ; CLEAR ALL",
        "INSERT { ?s :q ?o } WHERE { ?s :p ?o }",
    ] {
        let done = limited(&many(1), text, |execution| {
            execution.started = started.checked_sub(earlier);
            execution.limits.query_time = earlier;
        });
        assert!(matches!(done, Err(QueryError::Time { .. })), "{done:?}");
    }
}

/// A document that sets a flag when it is read.
struct Cancelling(Arc<AtomicBool>);

impl Remote for Cancelling {
    fn select(&self, _: &str, _: &str) -> Result<RemoteSolutions, String> {
        Err("no endpoint here".into())
    }

    fn document(&self, _: &str) -> Result<Vec<Quad>, String> {
        self.0.store(true, Ordering::Relaxed);
        Ok(many(1000))
    }
}

#[test]
fn cancelling_stops_the_writes_of_an_update() {
    for silent in ["", "SILENT"] {
        let flag = Arc::new(AtomicBool::new(false));
        let remote = Arc::new(Cancelling(Arc::clone(&flag)));
        let text = format!("LOAD {silent} <http://far/data>");
        let done = limited(&[], &text, |execution| {
            execution.cancel = Some(flag);
            execution.remote = Some(remote);
        });
        assert!(matches!(done, Err(QueryError::Cancelled)), "{done:?}");
    }
}

#[test]
fn the_writes_of_an_update_count_as_its_memory() {
    let data = many(4000);
    let statements: String = (0..4000).map(|n| format!(":a{n} :p :b{n} .")).collect();
    let long = "x".repeat(10_000);
    for text in [
        "CLEAR ALL".to_owned(),
        "CLEAR DEFAULT ; INSERT DATA { :a :p :c }".to_owned(),
        format!("INSERT DATA {{ {statements} }}"),
        format!("INSERT {{ ?s :q '{long}' }} WHERE {{ ?s :p ?o }}"),
    ] {
        let start: String = text.chars().take(60).collect();
        let done = limited(&data, &text, |execution| {
            execution.limits.query_memory_bytes = 512 << 10;
        });
        let is_limit = |limit| limit == 512 << 10;
        assert!(
            matches!(done, Err(QueryError::Memory { limit }) if is_limit(limit)),
            "{start}"
        );
        assert!(limited(&data, &text, |_| {}).is_ok(), "{start}");
    }
}

#[test]
fn a_where_clause_has_the_memory_that_earlier_operations_left() {
    let data = many(4000);
    let statements: String = (0..400).map(|n| format!(":a{n} :p :b{n} .")).collect();
    let first = format!("INSERT DATA {{ {statements} }}");
    let second = "INSERT { ?s :q ?o } WHERE { { SELECT * { ?s :p ?o } ORDER BY STR(?s) LIMIT 1 } }";
    let done = |text: &str| {
        limited(&data, text, |execution| {
            execution.limits.query_memory_bytes = 640 << 10;
        })
    };
    assert!(done(&first).is_ok());
    assert!(done(second).is_ok());
    let both = done(&format!("{first} ; {second}"));
    assert!(matches!(both, Err(QueryError::Memory { .. })), "{both:?}");
}

#[test]
fn clearing_last_removes_earlier_writes_too() {
    let data = [
        quad("a", "p", "b", None),
        quad("a", "p", "c", Some("g")),
        quad("b", "p", "c", Some("h")),
    ];
    let text = "INSERT DATA { GRAPH :g { :new :p :b } } ; DELETE DATA { :a :p :b } ; CLEAR NAMED";
    let mut done = effects(&data, text).expect("evaluates");
    done.deletes.sort_by_key(ToString::to_string);
    let mut all = data.to_vec();
    all.sort_by_key(ToString::to_string);
    assert_eq!((done.deletes, done.inserts.len()), (all, 0));
}

/// Deleting all that a graph holds by its pattern is one clear, as CLEAR is, and has the effects
/// that deleting statement by statement has, alone and among other operations.
#[test]
fn deleting_all_of_a_graph_by_pattern_is_a_clear() {
    let counts = [10, MOST_LISTED as usize + 10];
    let others = |inner: &str| {
        let data = "INSERT DATA { GRAPH :g { :a0 :p :b . :new :p :b } :new :q :b }";
        [
            inner.to_owned(),
            format!("{data} ; {inner}"),
            format!("{inner} ; {data}"),
            format!("{data} ; {inner} ; {data} ; {inner}"),
            format!("{inner} ; INSERT {{ :n :n ?s }} WHERE {{ GRAPH :g {{ ?s ?p ?o }} }}"),
            format!("{inner} ; INSERT {{ :n :n ?s }} WHERE {{ ?s ?p ?o }}"),
        ]
    };
    let (all, of_g) = ("?s ?p ?o", "GRAPH :g { ?s ?p ?o }");
    let of_each = "GRAPH ?g { ?s ?p ?o }";
    let forms = [
        ("DELETE WHERE { GRAPH :g { ?s ?p ?o } }", of_g),
        (
            "DELETE { GRAPH :g { ?s ?p ?o } } WHERE { GRAPH :g { ?s ?p ?o } }",
            of_g,
        ),
        ("DELETE WHERE { ?s ?p ?o }", all),
        ("WITH :g DELETE { ?s ?p ?o } WHERE { ?s ?p ?o }", of_g),
        (
            "DELETE { GRAPH :g { ?s ?p ?o } } USING :g WHERE { ?s ?p ?o }",
            of_g,
        ),
        ("DELETE WHERE { GRAPH ?g { ?s ?p ?o } }", of_each),
        (
            "DELETE { GRAPH ?g { ?s ?p ?o } } WHERE { GRAPH ?g { ?s ?p ?o } }",
            of_each,
        ),
        (
            "DELETE { GRAPH ?g { ?s ?p ?o } } USING NAMED :g WHERE { GRAPH ?g { ?s ?p ?o } }",
            of_g,
        ),
    ];
    for count in counts {
        let graph = |graph: Option<&'static str>| {
            (0..count).map(move |n| quad(&format!("a{n}"), "p", "b", graph))
        };
        let data: Vec<Quad> = graph(Some("g")).chain(graph(None)).collect();
        for (form, found) in forms {
            // A filter that is always true has each statement deleted by itself.
            let each = format!("DELETE {{ {found} }} WHERE {{ {found} FILTER(isIRI(?s)) }}");
            for (text, twin) in others(form).iter().zip(others(&each)) {
                let done = effects(&data, text).expect("evaluates");
                let expected = effects(&data, &twin).expect("evaluates");
                assert_eq!(done.clears.len(), usize::from(count > 10), "{text}");
                assert!(expected.clears.is_empty(), "{twin}");
                assert_eq!(done.deleted(), expected.deleted(), "{text}");
                assert_eq!(done.inserted(), expected.inserted(), "{text}");
                assert_eq!(after(&data, &done), after(&data, &expected), "{text}");
            }
        }
    }
}

/// `GRAPH ?g` finds each named graph, or those that USING NAMED names.
#[test]
fn deleting_all_of_each_named_graph_clears_the_large_ones() {
    let many = MOST_LISTED as usize + 10;
    let graph = |name: Option<&'static str>, count: usize| {
        (0..count).map(move |n| quad(&format!("a{n}"), "p", "b", name))
    };
    let mut data: Vec<Quad> = graph(Some("g"), many)
        .chain(graph(Some("h"), many))
        .chain(graph(Some("small"), 3))
        .chain(graph(None, many))
        .collect();
    let blank = BlankNode::new_unchecked("b0");
    data.extend(graph(None, many).map(|quad| Quad {
        graph_name: blank.clone().into(),
        ..quad
    }));
    let found = "GRAPH ?g { ?s ?p ?o }";
    for (using, clears) in [
        ("", 3),
        ("USING NAMED :g USING NAMED :small", 1),
        ("USING NAMED :none", 0),
        ("USING :g", 0),
    ] {
        let text = format!("DELETE {{ {found} }} {using} WHERE {{ {found} }}");
        let each = format!("DELETE {{ {found} }} {using} WHERE {{ {found} FILTER(isIRI(?s)) }}");
        for before in [
            "",
            "DELETE DATA { GRAPH :g { :a1 :p :b } GRAPH :small { :a1 :p :b } } ;",
        ] {
            let done = effects(&data, &format!("{before} {text}")).expect("evaluates");
            let expected = effects(&data, &format!("{before} {each}")).expect("evaluates");
            assert_eq!(done.clears.len(), clears, "{text}");
            assert_eq!(done.deleted(), expected.deleted(), "{text}");
            assert_eq!(after(&data, &done), after(&data, &expected), "{text}");
        }
    }
}

/// Patterns that do not find all of the graph that is deleted from, or have another effect.
#[test]
fn deleting_some_of_a_graph_is_no_clear() {
    let count = MOST_LISTED as usize + 10;
    let in_graph = |graph| (0..count).map(move |n| quad(&format!("a{n}"), "p", "b", graph));
    let data: Vec<Quad> = in_graph(Some("g")).chain(in_graph(None)).collect();
    for text in [
        "DELETE WHERE { GRAPH :g { ?s ?p :c } }",
        "DELETE WHERE { GRAPH :g { ?s ?p ?s } }",
        "DELETE { GRAPH :g { ?o ?p ?s } } WHERE { GRAPH :g { ?s ?p ?o } }",
        "DELETE { GRAPH :h { ?s ?p ?o } } WHERE { GRAPH :g { ?s ?p ?o } }",
        "DELETE { GRAPH :g { ?s ?p ?o } } WHERE { ?s ?p ?o }",
        "DELETE { GRAPH :g { ?s ?p ?o } } WHERE { GRAPH ?g { ?s ?p ?o } }",
        "DELETE { GRAPH ?o { ?s ?p ?g } } WHERE { GRAPH ?g { ?s ?p ?o } }",
        "DELETE { GRAPH ?g { ?s ?p ?o } } WHERE { GRAPH ?h { ?s ?p ?o } }",
        "DELETE { GRAPH ?s { ?s ?p ?o } } WHERE { GRAPH ?s { ?s ?p ?o } }",
        "DELETE { ?s ?p ?o } USING :g WHERE { ?s ?p ?o }",
        "DELETE { ?s ?p ?o } USING NAMED :h WHERE { GRAPH :g { ?s ?p ?o } }",
        "DELETE { GRAPH :g { ?s ?p ?o } } INSERT { :x :y ?s } WHERE { GRAPH :g { ?s ?p ?o } }",
        "DELETE { GRAPH :g { ?s ?p ?o } } WHERE { GRAPH :g { ?s ?p ?o } OPTIONAL { ?s :q ?o } }",
    ] {
        assert!(
            effects(&data, text).expect("evaluates").clears.is_empty(),
            "{text}"
        );
    }
}

/// The statements that hold after these effects.
fn after(data: &[Quad], effects: &Effects) -> BTreeSet<String> {
    let is_cleared = |quad: &&Quad| effects.clears.contains(&quad.graph_name);
    let mut left: BTreeSet<String> = (data.iter().filter(|quad| !is_cleared(quad)))
        .map(ToString::to_string)
        .collect();
    for quad in &effects.deletes {
        assert!(left.remove(&quad.to_string()), "{quad} was there");
    }
    left.extend(effects.inserts.iter().map(ToString::to_string));
    left
}
