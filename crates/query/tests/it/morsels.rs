//! Tables are cut into morsels, and workers take shares of them: neither shows in an answer (EX-1).
//! Morsels are tiny here, so that a few hundred statements have many. Workers do not show in the
//! order of the rows either; the size of the morsels may, where there is a UNION.

use crate::equals_spareval::{Data, iri, literal, native_by, oracle, query};
use crate::naive::NaiveView;
use oxrdf::{Literal, Term, Triple};
use proptest::prelude::*;
use proptest::sample::select;
use somersault_lang::{Parser, QueryForm};
use somersault_model::{EventTime, Limits};
use somersault_pool::Workers;
use somersault_query::{Execution, Invocation, Prepared, QueryError};
use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Threads that live for one share.
#[derive(Default)]
pub(crate) struct Threads {
    shared: AtomicUsize,
}

impl Workers for Threads {
    fn limit(&self) -> usize {
        3
    }

    fn for_each_share(&self, shares: usize, work: &(dyn Fn(usize) + Sync)) {
        self.shared.fetch_add(1, Ordering::Relaxed);
        std::thread::scope(|scope| {
            for share in 0..shares {
                scope.spawn(move || work(share));
            }
        });
    }
}

fn triple() -> impl Strategy<Value = Triple> {
    let node =
        || select((b'a'..=b'l').collect::<Vec<u8>>()).prop_map(|n| iri(&char::from(n).to_string()));
    let object = prop_oneof![
        4 => node().prop_map(Term::from),
        1 => literal().prop_map(Term::from),
        1 => (0..30i64).prop_map(|n| Literal::from(n).into()),
    ];
    let predicate = select(vec!["p", "q", "r"]).prop_map(iri);
    (node(), predicate, object).prop_map(|(s, p, o)| Triple::new(s, p, o))
}

fn data() -> impl Strategy<Value = Data> {
    let triples = |least, most| proptest::collection::vec(triple(), least..most);
    (
        triples(40, 120),
        [triples(0, 20), triples(0, 20)],
        [triples(0, 40), triples(0, 10)],
    )
        .prop_map(|(default, named, windows)| Data {
            default,
            named,
            windows,
        })
}

fn execution(morsel_rows: usize, workers: Option<Arc<dyn Workers>>) -> Execution {
    Execution {
        morsel_rows,
        workers,
        limits: Limits {
            query_memory_bytes: 64 << 20,
            ..Limits::default()
        },
        ..Execution::new(Limits::default(), EventTime(0))
    }
}

/// The rows of an answer, in order, made by one thread and by workers.
fn alone_and_shared(
    view: &NaiveView,
    prepared: &Prepared,
    morsel_rows: usize,
) -> (Vec<Vec<String>>, Vec<Vec<String>>) {
    let workers: Arc<dyn Workers> = Arc::new(Threads::default());
    (
        native_by(view, prepared, &execution(morsel_rows, None)),
        native_by(view, prepared, &execution(morsel_rows, Some(workers))),
    )
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: std::env::var("CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(150),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn morsels_and_workers_do_not_show(data in data(), text in query()) {
        let parse = || Parser::new().parse_query(&text).map(Prepared::new);
        let Ok(prepared) = parse() else { return Ok(()) };
        let data = data.where_spareval_agrees(&text);
        let view = data.view();
        // A cross product of such data is too large for the oracle.
        let small = Execution {
            limits: Limits { query_memory_bytes: 256 << 10, ..Limits::default() },
            ..Execution::new(Limits::default(), EventTime(0))
        };
        match prepared.run(Invocation::new(&view, &small)) {
            Ok(_) => {}
            Err(QueryError::Memory { .. }) => return Ok(()),
            Err(error) => panic!("{error}"),
        }
        let mut theirs = oracle(&data.oracle(), &prepared);
        theirs.sort();
        let is_graph = matches!(prepared.query().form, QueryForm::Construct { .. });
        if is_graph {
            theirs.dedup();
        }
        for morsel_rows in [1, 3, 1 << 11] {
            let (alone, shared) = alone_and_shared(&view, &prepared, morsel_rows);
            prop_assert_eq!(&alone, &shared, "{}", text);
            let mut ours = alone;
            ours.sort();
            if is_graph {
                ours.dedup();
            }
            prop_assert_eq!(&ours, &theirs, "{} rows\n{}", morsel_rows, text);
        }
    }
}

/// Statements of the default graph.
fn stored(default: Vec<Triple>) -> Data {
    Data {
        default,
        named: [vec![], vec![]],
        windows: [vec![], vec![]],
    }
}

fn edge(s: impl Display, p: &str, o: impl Display) -> Triple {
    Triple::new(iri(&s.to_string()), iri(p), iri(&o.to_string()))
}

/// Two branches of a UNION for each of these vertices, and for 200 others: starting from the rows
/// so far is then the best plan.
fn branches(vertices: &str) -> impl Iterator<Item = Triple> {
    let ends = vertices.chars().map(String::from);
    let ends = ends.chain((0..200).map(|n| format!("other{n}")));
    ends.flat_map(|end| {
        let to = [edge("one", "q", &end), edge("two", "r", &end)];
        to.into_iter().chain([edge(&end, "p", "other")])
    })
}

#[test]
fn tables_inside_of_later_parts_are_cut_as_in_the_first() {
    let text = "SELECT * { ?c <http://x/self> ?c . ?a <http://x/p> ?c .
                { ?d <http://x/q> ?a } UNION { ?d <http://x/r> ?a } }";
    let prepared = Prepared::new(Parser::new().parse_query(text).expect("a query"));
    let triples = ["x", "y", "z"].into_iter().flat_map(|c| {
        let into = ["a", "b"].map(|a| edge(a, "p", c));
        into.into_iter().chain([edge(c, "self", c)])
    });
    let view = stored(triples.chain(branches("ab")).collect()).view();
    let (alone, shared) = alone_and_shared(&view, &prepared, 1);
    assert_eq!(alone.len(), 12);
    assert_eq!(alone, shared);
}

/// A graph of which every join is large enough to be shared.
fn ring() -> Data {
    let triples = (0..400).flat_map(|n: u32| {
        let edge = |p: &str, o: u32| edge(format!("n{n}"), p, format!("n{}", o % 400));
        [edge("p", n + 1), edge("p", n + 7), edge("q", n * 3)]
    });
    stored(triples.collect())
}

#[test]
fn workers_are_asked_where_there_is_much_to_do() {
    let text = "SELECT ?a ?c ?text { ?a <http://x/p> ?b . ?b <http://x/p> ?c . ?c <http://x/q> ?d
                BIND(CONCAT(STR(?d), \" computed\") AS ?text) }";
    let prepared = Prepared::new(Parser::new().parse_query(text).expect("a query"));
    let view = ring().view();
    let workers = Arc::new(Threads::default());
    let alone = native_by(&view, &prepared, &execution(16, None));
    let shared = native_by(
        &view,
        &prepared,
        &execution(16, Some(Arc::clone(&workers) as _)),
    );
    assert_eq!(alone.len(), 1600);
    // The terms that hands compute by themselves become one numbering.
    assert_eq!(alone, shared);
    assert!(workers.shared.load(Ordering::Relaxed) > 0);
}

/// Workers of one thread that is, or is not, needed elsewhere; counts the checks in a share.
struct Awaited {
    is_needed_elsewhere: bool,
    looks: AtomicUsize,
    most_looks: AtomicUsize,
}

impl Workers for Awaited {
    fn limit(&self) -> usize {
        2
    }

    fn is_needed_elsewhere(&self) -> bool {
        self.looks.fetch_add(1, Ordering::Relaxed);
        self.is_needed_elsewhere
    }

    fn for_each_share(&self, shares: usize, work: &(dyn Fn(usize) + Sync)) {
        for share in 0..shares {
            self.looks.store(0, Ordering::Relaxed);
            work(share);
            let looks = self.looks.load(Ordering::Relaxed);
            self.most_looks.fetch_max(looks, Ordering::Relaxed);
        }
    }
}

#[test]
fn a_share_ends_after_the_part_that_is_waited_for() {
    let text = "SELECT * { ?a <http://x/p> ?b . ?b <http://x/p> ?c . ?c <http://x/q> ?d }";
    let prepared = Prepared::new(Parser::new().parse_query(text).expect("a query"));
    let view = ring().view();
    let alone = native_by(&view, &prepared, &execution(16, None));
    let most_looks = |is_needed_elsewhere| {
        let workers = Arc::new(Awaited {
            is_needed_elsewhere,
            looks: AtomicUsize::new(0),
            most_looks: AtomicUsize::new(0),
        });
        let shared = native_by(
            &view,
            &prepared,
            &execution(16, Some(Arc::clone(&workers) as _)),
        );
        assert_eq!(alone, shared);
        workers.most_looks.load(Ordering::Relaxed)
    };
    assert_eq!(most_looks(true), 1);
    assert!(most_looks(false) > 1);
}

#[test]
fn limits_hold_for_all_hands_together() {
    let text = "SELECT * { ?a <http://x/p> ?b . ?c <http://x/p> ?d . ?e <http://x/p> ?f }";
    let prepared = Prepared::new(Parser::new().parse_query(text).expect("a query"));
    let workers: Arc<dyn Workers> = Arc::new(Threads::default());
    let memory = Limits {
        query_memory_bytes: 4 << 20,
        ..Limits::default()
    };
    let limited = Execution {
        limits: memory,
        ..execution(16, Some(workers))
    };
    let result = prepared.run(Invocation::new(&ring().view(), &limited));
    assert!(
        matches!(result, Err(QueryError::Memory { .. })),
        "{result:?}"
    );
}
