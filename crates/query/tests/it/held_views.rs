//! A query that takes long reads its SN through pins that come and go: its answers are those of a
//! pinned snapshot, and what is replaced beside it is freed while it runs.

use crate::morsels::Threads;
use crate::updates::store;
use oxrdf::{NamedNode, Quad};
use parking_lot::Mutex;
use somersault_lang::Parser;
use somersault_model::{Direction, EventTime, Limits, Mutation, ShardId, Sn, TermId, TripleIds};
use somersault_pool::Workers;
use somersault_query::{
    Answer, Dataset, Execution, GraphView, HeldView, Invocation, Prepared, QueryError,
    SnapshotView, Source, TermSource,
};
use somersault_store::{PinEnd, PredicateStatistics, ShardBatch, ShardWriter, Store};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const SUBJECTS: u64 = 4_000;
/// The number of steps of the writer beside a query.
const MOST_STEPS: usize = 12;

fn iri(name: &str) -> NamedNode {
    NamedNode::new_unchecked(format!("http://x/{name}"))
}

/// Each subject has `p` to two objects, `q` to one and `r` to one, in one graph and in another.
fn quads() -> Vec<Quad> {
    let mut quads = Vec::new();
    for s in 0..SUBJECTS {
        let subject = iri(&format!("s{s}"));
        let mut add = |predicate: &str, object: u64, graph: &str| {
            let object = iri(&format!("o{object}"));
            let triple = oxrdf::Triple::new(subject.clone(), iri(predicate), object);
            quads.push(triple.clone().in_graph(oxrdf::GraphName::DefaultGraph));
            quads.push(triple.in_graph(iri(graph)));
        };
        add("p", s % 50, "g");
        add("p", 50 + s % 7, "h");
        add("q", s % 11, "g");
        add("r", s, "h");
    }
    quads
}

/// A writer that replaces the edges `p` of all subjects at each of its steps.
struct Stream {
    store: Arc<Store>,
    writer: Mutex<(ShardWriter, u64)>,
    steps: AtomicUsize,
    /// The most bytes that were held for readers after a step.
    most_held: AtomicUsize,
}

impl Stream {
    fn new(store: &Arc<Store>) -> Stream {
        let writer = store
            .take_writer(ShardId(0))
            .expect("the writer was dropped");
        Stream {
            store: Arc::clone(store),
            writer: Mutex::new((writer, 1)),
            steps: AtomicUsize::new(0),
            most_held: AtomicUsize::new(0),
        }
    }

    /// Replaces lists, unless that was done often enough.
    fn step(&self) {
        if self.steps.fetch_add(1, Ordering::Relaxed) >= MOST_STEPS {
            return;
        }
        let mut writer = self.writer.lock();
        let (writer, sn) = &mut *writer;
        *sn += 1;
        let dictionary = self.store.dictionary();
        let id = |name: &str| dictionary.intern(iri(name).as_ref().into());
        let p = id("p");
        let mutations: Vec<Mutation> = (0..SUBJECTS / 8)
            .map(|s| {
                let triple = TripleIds::new(id(&format!("s{s}")), p, id(&format!("new{sn}")));
                Mutation::insert(triple.in_graph(TermId::DEFAULT_GRAPH))
            })
            .collect();
        for batch in ShardBatch::split(&mutations, self.store.placement()) {
            writer.apply(Sn(*sn), &batch).expect("in order");
        }
        self.store.snapshots().publish_stable(Sn(*sn));
        writer.fold(usize::MAX);
        let held = self.store.held_bytes().values().sum();
        self.most_held.fetch_max(held, Ordering::Relaxed);
    }
}

/// A held view beside a writer, which makes a step whenever the view is opened. Everything is read
/// through what was opened.
struct Beside {
    view: HeldView,
    stream: Stream,
    /// The step at which the SN is given up.
    revoked_at: usize,
}

impl GraphView for Beside {
    fn dictionary(&self) -> TermSource<'_> {
        self.view.dictionary()
    }

    fn dataset(&self) -> &Dataset {
        self.view.dataset()
    }

    fn open(&self) -> Option<Box<dyn GraphView>> {
        self.stream.step();
        if self.stream.steps.load(Ordering::Relaxed) == self.revoked_at {
            let revoked = self.stream.store.snapshots().revoke_oldest();
            assert_eq!(revoked, Some(Sn(1)));
        }
        self.view.open()
    }

    fn open_time(&self) -> Duration {
        Duration::ZERO
    }

    fn end(&self) -> Option<PinEnd> {
        self.view.end()
    }

    fn stored_graphs(&self) -> Vec<TermId> {
        unreachable!("read through what was opened")
    }

    fn neighbours<'a>(
        &'a self,
        _: Source,
        _: TermId,
        _: TermId,
        _: Direction,
        _: &'a mut Vec<TermId>,
    ) -> &'a [TermId] {
        unreachable!("read through what was opened")
    }

    fn neighbour_estimate(&self, _: Source, _: TermId, _: TermId, _: Direction) -> usize {
        unreachable!("read through what was opened")
    }

    fn contains(&self, _: Source, _: TripleIds) -> bool {
        unreachable!("read through what was opened")
    }

    fn predicates_of<'a>(
        &'a self,
        _: Source,
        _: TermId,
        _: Direction,
        _: &'a mut Vec<TermId>,
    ) -> &'a [TermId] {
        unreachable!("read through what was opened")
    }

    fn vertices_with<'a>(
        &'a self,
        _: Source,
        _: TermId,
        _: Direction,
        _: &'a mut Vec<TermId>,
    ) -> &'a [TermId] {
        unreachable!("read through what was opened")
    }

    fn predicates(&self, _: Source) -> Vec<TermId> {
        unreachable!("read through what was opened")
    }

    fn predicate_statistics(&self, _: Source, _: TermId) -> PredicateStatistics {
        unreachable!("read through what was opened")
    }

    fn statement_count(&self, _: Source) -> u64 {
        unreachable!("read through what was opened")
    }
}

fn run(
    view: &dyn GraphView,
    text: &str,
    workers: Option<Arc<dyn Workers>>,
) -> Result<Vec<String>, QueryError> {
    let parsed = Parser::new().parse_query(&format!("PREFIX : <http://x/> {text}"));
    let prepared = Prepared::new(parsed.expect("a query"));
    let execution = Execution {
        morsel_rows: 256,
        workers,
        ..Execution::new(Limits::default(), EventTime(0))
    };
    let answer = prepared.run(Invocation::new(view, &execution))?;
    let Answer::Solutions(solutions) = answer else {
        panic!("SELECT has solutions");
    };
    let rows = solutions.rows(view.dictionary());
    let mut rows: Vec<String> = rows.map(|row| format!("{row:?}")).collect();
    rows.sort_unstable();
    Ok(rows)
}

fn beside(store: &Arc<Store>, revoked_at: usize) -> Beside {
    Beside {
        view: HeldView::new(store.hold_stable_until(1), Dataset::stored()),
        stream: Stream::new(store),
        revoked_at,
    }
}

const QUERIES: [&str; 8] = [
    "SELECT ?s ?a ?b { ?s :p ?a . ?s :q ?b . ?s :r ?c }",
    "SELECT ?a (COUNT(?s) AS ?n) { ?s :p ?a . ?s :q ?b } GROUP BY ?a",
    "SELECT ?s { ?s :q ?b FILTER NOT EXISTS { ?s :p :o1 } }",
    "SELECT ?g ?s ?x { GRAPH ?g { ?s :q ?b OPTIONAL { ?s :p ?x } } }",
    "SELECT ?s ?x { ?s :q :o3 . ?s :p ?x . ?s :r ?y }",
    "SELECT ?x ?y { :s1 (:p/^:p) ?x . ?x :p ?y }",
    "SELECT ?s ?t { ?s :q :o3 . ?t :q :o4 } ORDER BY ?s ?t LIMIT 50000",
    "SELECT DISTINCT ?p ?o { { ?s ?p ?o } UNION { ?o ?p ?s } }",
];

#[test]
fn a_long_query_keeps_only_what_its_sn_shows() {
    let quads = quads();
    let mut opened = 0;
    for text in QUERIES {
        let store = store(&quads);
        let pinned = SnapshotView::new(store.pin_stable(), Vec::new(), Dataset::stored());
        let expected = run(&pinned, text, None).expect("no limit is near");
        drop(pinned);
        let view = beside(&store, 0);
        let found = run(&view, text, None).expect("no limit is near");
        assert!(found == expected, "{text}");
        let held = view.stream.most_held.load(Ordering::Relaxed);
        assert_eq!(held, 0, "{text}: nothing is held between two parts");
        opened += view.stream.steps.load(Ordering::Relaxed);
        drop(view);
        store.check().expect("the invariants hold");
    }
    assert!(opened > 2 * QUERIES.len(), "opened {opened} times");
    let store = store(&quads);
    let (pinned, stream) = (store.pin_stable(), Stream::new(&store));
    (0..MOST_STEPS).for_each(|_| stream.step());
    assert!(
        stream.most_held.load(Ordering::Relaxed) > 100_000,
        "as a pin does"
    );
    drop(pinned);
}

#[test]
fn threads_that_help_read_the_same_sn() {
    let quads = quads();
    for text in QUERIES {
        let store = store(&quads);
        let pinned = SnapshotView::new(store.pin_stable(), Vec::new(), Dataset::stored());
        let expected = run(&pinned, text, None).expect("no limit is near");
        let view = beside(&store, 0);
        let found = run(&view, text, Some(Arc::new(Threads::default())));
        assert!(found.expect("no limit is near") == expected, "{text}");
    }
}

#[test]
fn a_query_whose_sn_is_given_up_says_so() {
    let view = beside(&store(&quads()), 2);
    let error = run(
        &view,
        "SELECT * { ?s :p ?a . ?s :q ?b . ?s :r ?c . ?t :r ?c }",
        None,
    );
    let error = error.expect_err("its SN was given up");
    assert!(
        matches!(error, QueryError::SnapshotTooOld { .. }),
        "{error}"
    );
    assert!(error.to_string().contains("superseded_bytes"), "{error}");
}
