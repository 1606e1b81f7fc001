//! Readers against a walk over all patterns, and which queries fire.

use super::*;
use proptest::prelude::*;
use somersault_model::{Mutation, QuadIds};

fn term(number: u64) -> TermId {
    TermId::local(number)
}

fn graph(number: u64) -> TermId {
    match number {
        0 => TermId::DEFAULT_GRAPH,
        number => term(100 + number),
    }
}

fn pattern() -> impl Strategy<Value = ReadPattern> {
    let place = || proptest::option::of(0u64..3);
    let graphs = proptest::option::of(0u64..3);
    (graphs, place(), place(), place()).prop_map(|(graphs, s, p, o)| ReadPattern {
        graph: graphs.map(graph),
        subject: s.map(term),
        predicate: p.map(term),
        object: o.map(term),
    })
}

fn quad() -> impl Strategy<Value = QuadIds> {
    (0u64..3, 0u64..3, 0u64..3, 0u64..3).prop_map(|(g, s, p, o)| QuadIds {
        graph: graph(g),
        subject: term(s),
        predicate: term(p),
        object: term(o),
    })
}

/// Whether a pattern reads a statement, place by place.
fn reads(pattern: &ReadPattern, quad: &QuadIds) -> bool {
    let fits = |constant: Option<TermId>, term| constant.is_none_or(|constant| constant == term);
    let in_graph = match pattern.graph {
        Some(graph) => graph == quad.graph,
        None => quad.graph != TermId::DEFAULT_GRAPH,
    };
    in_graph
        && fits(pattern.subject, quad.subject)
        && fits(pattern.predicate, quad.predicate)
        && fits(pattern.object, quad.object)
}

proptest! {
    #[test]
    fn readers_are_those_that_a_walk_finds(
        queries in proptest::collection::vec(
            (proptest::collection::btree_set(pattern(), 0..4), any::<bool>()), 0..12),
        quads in proptest::collection::vec(quad(), 1..12),
    ) {
        let mut readers = Readers::default();
        let all: Vec<(QueryUid, Vec<ReadPattern>, bool)> = (0..)
            .zip(queries)
            .map(|(uid, (patterns, stays))| (QueryUid(uid), patterns.into_iter().collect(), stays))
            .collect();
        for (uid, patterns, _) in &all {
            readers.add(*uid, patterns);
        }
        for (uid, patterns, _) in all.iter().filter(|(_, _, stays)| !stays) {
            readers.remove(*uid, patterns);
        }
        let left: Vec<_> = all.iter().filter(|(_, _, stays)| *stays).collect();
        prop_assert_eq!(readers.is_empty(), left.iter().all(|(_, patterns, _)| patterns.is_empty()));
        for quad in &quads {
            let mut found = BTreeSet::new();
            readers.of(quad, &mut found);
            let walked = left.iter().filter(|(_, patterns, _)| patterns.iter().any(|it| reads(it, quad)));
            prop_assert_eq!(found, walked.map(|(uid, _, _)| *uid).collect());
        }
        for number in 0..3 {
            let graph = graph(number);
            let mut found = BTreeSet::new();
            readers.of_graph(graph, &mut found);
            let is_in = |it: &ReadPattern| match it.graph {
                Some(read) => read == graph,
                None => graph != TermId::DEFAULT_GRAPH,
            };
            let walked = left.iter().filter(|(_, patterns, _)| patterns.iter().any(is_in));
            prop_assert_eq!(found, walked.map(|(uid, _, _)| *uid).collect());
        }
    }
}

/// A running query that reads statements with the predicate 1 of the default graph.
fn query(every: Option<i64>) -> LiveQueries {
    let mut live = LiveQueries::default();
    let patterns = [ReadPattern {
        graph: Some(TermId::DEFAULT_GRAPH),
        subject: None,
        predicate: Some(term(1)),
        object: None,
    }];
    live.readers.add(QueryUid(7), &patterns);
    let query = LiveQuery {
        patterns: Box::new(patterns),
        every: every.map(Millis),
        is_running: true,
        newest: None,
        newest_sn: None,
    };
    live.queries.insert(QueryUid(7), query);
    live
}

fn change(predicate: u64) -> Inject {
    let quad = QuadIds {
        graph: TermId::DEFAULT_GRAPH,
        subject: term(0),
        predicate: term(predicate),
        object: term(0),
    };
    Inject {
        mutations: vec![Mutation::insert(quad)],
        ..Inject::default()
    }
}

/// The ordinals of the firings with an SN that changes a statement with this predicate.
fn fires(live: &mut LiveQueries, at: i64, predicate: u64, held: &[QueryUid]) -> Vec<u32> {
    live.reach(EventTime(at));
    live.touch(&change(predicate));
    let firings = live.take_due(Sn(at as u64), held);
    firings.into_iter().map(|firing| firing.ordinal).collect()
}

#[test]
fn a_query_fires_with_what_it_reads() {
    let mut live = query(None);
    assert_eq!(fires(&mut live, 10, 2, &[]), []);
    assert_eq!(fires(&mut live, 10, 1, &[]), [0]);
    assert_eq!(fires(&mut live, 10, 1, &[]), [1]);
    assert_eq!(fires(&mut live, 11, 1, &[]), [0]);
    assert_eq!(fires(&mut live, 5, 1, &[]), [1], "times never go back");
    live.stop(QueryUid(7));
    assert_eq!(fires(&mut live, 12, 1, &[]), []);
}

#[test]
fn what_a_held_query_misses_joins_its_next_firing() {
    let mut live = query(None);
    let held = [QueryUid(7)];
    assert_eq!(fires(&mut live, 10, 1, &held), []);
    assert!(live.is_due(&BTreeSet::new()) && !live.is_due(&held.into()));
    assert_eq!(fires(&mut live, 12, 2, &[]), [0]);
    assert!(!live.is_due(&BTreeSet::new()));
}

#[test]
fn every_keeps_firings_apart() {
    let mut live = query(Some(100));
    assert_eq!(fires(&mut live, 10, 1, &[]), [0]);
    assert_eq!(fires(&mut live, 50, 1, &[]), []);
    assert_eq!(live.rests_until(), Some(EventTime(110)));
    assert_eq!(fires(&mut live, 109, 2, &[]), []);
    live.reach(EventTime(110));
    assert!(live.is_due(&BTreeSet::new()));
    assert_eq!(live.take_due(Sn(1), &[]).len(), 1);
    assert_eq!(
        fires(&mut live, 300, 2, &[]),
        [],
        "nothing has changed since"
    );
    assert_eq!(fires(&mut live, 301, 1, &[]), [0]);
}

#[test]
fn a_firing_is_told_what_changed_if_nothing_had_changed_before() {
    let mut live = query(Some(100));
    let mut told = |at: i64, held: &[QueryUid]| {
        live.reach(EventTime(at));
        live.touch(&change(1));
        let firings = live.take_due(Sn(at as u64), held);
        let told = firings
            .into_iter()
            .map(|firing| firing.changed.map(|it| (it.since, it.statements.len())));
        told.collect::<Vec<_>>()
    };
    assert_eq!(told(10, &[]), [None], "nothing is known of before");
    assert_eq!(told(200, &[]), [Some((Sn(10), 1))]);
    assert_eq!(told(250, &[]), [], "it rests");
    assert_eq!(
        told(300, &[]),
        [None],
        "something had changed while it rested"
    );
    assert_eq!(told(400, &[QueryUid(7)]), [], "it is held back");
    assert_eq!(
        told(500, &[]),
        [None],
        "something had changed while it was held back"
    );
    assert_eq!(told(600, &[]), [Some((Sn(500), 1))]);
}
