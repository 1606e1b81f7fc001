//! The persistent store against a set of quads per SN: any mutations, graphs and shards, with pins
//! taken and dropped in between. The set is the dull twin; every read is compared with it.

use crate::lists::{self, Mirror};
use proptest::prelude::*;
use somersault_dictionary::rdf_type;
use somersault_model::{
    Direction, Mutation, Operation, Placement, QuadIds, ShardId, Sn, Tag, TermId, VirtualShard,
};
use somersault_store::{
    Applied, PredicateStatistics, PreparedEdges, RenewalNeed, ShardBatch, ShardWriter, Snapshot,
    Store, fingerprint,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub(crate) type Quads = BTreeSet<QuadIds>;

/// A vertex, spread over the virtual shards.
pub(crate) fn vertex(n: u64) -> TermId {
    let shard = VirtualShard::truncated((n as u16).reverse_bits() >> 4);
    TermId::in_dictionary(Tag::NamedNode, shard, n)
}

pub(crate) fn predicate(n: u64) -> TermId {
    match n {
        0 => rdf_type(),
        n => TermId::in_dictionary(Tag::NamedNode, VirtualShard::truncated(7), 1_000_000 + n),
    }
}

pub(crate) fn graph(n: u64) -> TermId {
    match n {
        0 => TermId::DEFAULT_GRAPH,
        n => TermId::in_dictionary(Tag::NamedNode, VirtualShard::truncated(9), 2_000_000 + n),
    }
}

#[derive(Debug, Clone)]
pub(crate) enum Step {
    /// The mutations of one SN, applied in one or two batches.
    Apply(Vec<Mutation>, bool),
    /// Graphs that are emptied, and mutations after that, as one SN.
    Clear(BTreeSet<u64>, Vec<Mutation>),
    /// A load as one SN.
    Load(Vec<QuadIds>),
    /// Insertions that are prepared for a later SN.
    Prepare(Vec<QuadIds>),
    /// All that was prepared and these insertions as one SN.
    Close(Vec<QuadIds>),
    /// Gives up what was prepared.
    Forget,
    Pin,
    PinWithDeadline,
    /// Drops the n-th pin that is left.
    Unpin(usize),
    Expire,
    Fold,
    /// Some steps of renewing images.
    Renew(usize),
    /// The writers' part of it.
    Publish,
    /// Asks for the next marker of the mirror.
    Mark,
    /// Brings the mirror up to date.
    Copy,
}

fn quad(vertices: u64) -> impl Strategy<Value = QuadIds> {
    (0u64..3, 0..vertices, 0u64..4, 0..vertices).prop_map(|(g, s, p, o)| QuadIds {
        graph: graph(g),
        subject: vertex(s),
        predicate: predicate(p),
        object: vertex(o),
    })
}

fn mutation(vertices: u64) -> impl Strategy<Value = Mutation> {
    (quad(vertices), prop::bool::weighted(0.6)).prop_map(|(quad, insert)| Mutation {
        quad,
        operation: if insert {
            Operation::Insert
        } else {
            Operation::Delete
        },
    })
}

fn step(vertices: u64) -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (prop::collection::vec(mutation(vertices), 0..60), any::<bool>())
            .prop_map(|(mutations, halves)| Step::Apply(mutations, halves)),
        1 => (prop::collection::btree_set(0u64..3, 1..3), prop::collection::vec(mutation(vertices), 0..20))
            .prop_map(|(graphs, mutations)| Step::Clear(graphs, mutations)),
        3 => prop::collection::vec(quad(vertices), 0..30).prop_map(Step::Prepare),
        2 => prop::collection::vec(quad(vertices), 0..30).prop_map(Step::Close),
        1 => Just(Step::Forget),
        12 => quiet_step(),
    ]
}

pub(crate) fn writers(store: &Arc<Store>) -> Vec<ShardWriter> {
    let shards = 0..store.shard_count();
    shards
        .map(|n| store.take_writer(ShardId(n)).expect("free"))
        .collect()
}

/// Makes the changes in a plain set.
pub(crate) fn change(model: &mut Quads, mutations: &[Mutation]) {
    for mutation in mutations {
        match mutation.operation {
            Operation::Insert => model.insert(mutation.quad),
            Operation::Delete => model.remove(&mutation.quad),
        };
    }
}

pub(crate) fn apply(
    store: &Store,
    writers: &mut [ShardWriter],
    sn: Sn,
    mutations: &[Mutation],
) -> Applied {
    let mut sum = Applied::default();
    for (writer, batch) in writers
        .iter_mut()
        .zip(ShardBatch::split(mutations, store.placement()))
    {
        let applied = writer.apply(sn, &batch).expect("in order");
        sum.inserted += applied.inserted;
        sum.deleted += applied.deleted;
    }
    sum
}

/// The steps that change nothing that a reader sees.
pub(crate) fn quiet_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => Just(Step::Pin),
        1 => Just(Step::PinWithDeadline),
        2 => (0usize..4).prop_map(Step::Unpin),
        1 => Just(Step::Expire),
        1 => Just(Step::Fold),
        4 => (0usize..60).prop_map(Step::Renew),
        2 => Just(Step::Publish),
        1 => Just(Step::Mark),
        1 => Just(Step::Copy),
    ]
}

/// Compares everything that a snapshot shows with the set of its SN.
pub(crate) fn compare(snapshot: &Snapshot, model: &Quads, vertices: &[TermId]) {
    let mut scratch = Vec::new();
    let graphs: BTreeSet<TermId> = model.iter().map(|q| q.graph).collect();
    let named: Vec<TermId> = graphs.iter().copied().filter(|g| *g != graph(0)).collect();
    assert_eq!(snapshot.graphs(), named);
    for g in (0..3).map(graph) {
        let of_graph: Vec<&QuadIds> = model.iter().filter(|q| q.graph == g).collect();
        assert_eq!(snapshot.statement_count(g), of_graph.len() as u64);
        let predicates: BTreeSet<TermId> = of_graph.iter().map(|q| q.predicate).collect();
        assert_eq!(snapshot.predicates(g), Vec::from_iter(predicates));
        let mut lists: BTreeMap<_, BTreeSet<TermId>> = BTreeMap::new();
        let mut used: BTreeMap<_, BTreeSet<TermId>> = BTreeMap::new();
        let mut index: BTreeMap<_, BTreeSet<TermId>> = BTreeMap::new();
        for q in &of_graph {
            for (from, to, direction) in [
                (q.subject, q.object, Direction::Out),
                (q.object, q.subject, Direction::In),
            ] {
                lists
                    .entry((from, q.predicate, direction))
                    .or_default()
                    .insert(to);
                used.entry((from, direction))
                    .or_default()
                    .insert(q.predicate);
                index
                    .entry((q.predicate, direction))
                    .or_default()
                    .insert(from);
            }
        }
        let ids = |set: Option<&BTreeSet<TermId>>| -> Vec<TermId> {
            set.into_iter().flatten().copied().collect()
        };
        for p in (0..5).map(predicate) {
            let statements = of_graph.iter().filter(|q| q.predicate == p).count() as u64;
            for direction in [Direction::Out, Direction::In] {
                let expected = ids(index.get(&(p, direction)));
                assert_eq!(
                    snapshot.vertices_with(g, p, direction, &mut scratch),
                    expected
                );
            }
            let number = |direction| ids(index.get(&(p, direction))).len() as u64;
            let expected = PredicateStatistics {
                statements,
                subjects: number(Direction::Out),
                objects: number(Direction::In),
            };
            assert_eq!(snapshot.predicate_statistics(g, p), expected);
        }
        for v in vertices.iter().copied() {
            for direction in [Direction::Out, Direction::In] {
                let expected = ids(used.get(&(v, direction)));
                assert_eq!(
                    snapshot.predicates_of(g, v, direction, &mut scratch),
                    expected
                );
                for p in (0..5).map(predicate) {
                    let expected = ids(lists.get(&(v, p, direction)));
                    let estimate = snapshot.neighbour_estimate(g, v, p, direction);
                    assert_eq!(estimate, expected.len());
                    let read = snapshot.neighbours(g, v, p, direction, &mut scratch);
                    assert_eq!(read, expected, "{v:?} {p:?} {direction:?}");
                }
            }
        }
    }
    for g in (0..3).map(graph) {
        for p in (0..5).map(predicate) {
            crate::columns::compare(snapshot, g, p, vertices);
        }
    }
    for q in model {
        assert!(snapshot.contains(*q));
    }
    for n in 0..200 {
        let q = QuadIds {
            graph: graph(n as u64 % 3),
            subject: vertices[n * 7 % vertices.len()],
            predicate: predicate(n as u64 % 4),
            object: vertices[n * 13 % vertices.len()],
        };
        assert_eq!(snapshot.contains(q), model.contains(&q));
    }
}

/// Insertions that wait for their SN.
struct Ahead {
    placement: Placement,
    quads: Vec<QuadIds>,
    edges: Vec<PreparedEdges>,
}

impl Ahead {
    fn new(store: &Store) -> Ahead {
        let placement = store.placement();
        Ahead {
            placement,
            quads: Vec::new(),
            edges: placement.all().map(|_| PreparedEdges::default()).collect(),
        }
    }

    fn split(&self, quads: &[QuadIds]) -> Vec<ShardBatch> {
        let mutations: Vec<Mutation> = quads.iter().copied().map(Mutation::insert).collect();
        ShardBatch::split(&mutations, self.placement)
    }

    fn prepare(&mut self, quads: &[QuadIds]) {
        let batches = self.split(quads);
        for (batch, edges) in batches.into_iter().zip(&mut self.edges) {
            let before = edges.len();
            let more = batch.len();
            edges.add(batch);
            assert_eq!(edges.len(), before + more);
        }
        self.quads.extend_from_slice(quads);
    }

    /// Inserts all of them, and more. Returns how many of them are new.
    fn close(&mut self, sn: Sn, more: &[QuadIds], writers: &mut [ShardWriter]) -> u64 {
        let mut inserted = 0;
        let batches = self.split(more);
        for ((writer, mut batch), edges) in writers.iter_mut().zip(batches).zip(&mut self.edges) {
            batch.insert_prepared(std::mem::take(edges));
            inserted += writer
                .apply_promptly(sn, &batch)
                .expect("in order")
                .inserted;
        }
        self.quads.clear();
        inserted
    }
}

/// Takes all steps on an empty store, and compares what is pinned and what is stable at the end.
pub(crate) fn run(store: Arc<Store>, vertices: &[TermId], steps: Vec<Step>) {
    let mut writers = writers(&store);
    let mut model = Quads::new();
    let mut sn = Sn::ZERO;
    let mut pins: Vec<(Snapshot, Quads, u64)> = Vec::new();
    let mut mirror = Mirror::new(&store, &mut writers);
    let mut ahead = Ahead::new(&store);
    for step in steps {
        match step {
            Step::Apply(mutations, halves) => {
                sn = sn.next();
                let before = model.clone();
                change(&mut model, &mutations);
                if halves {
                    let (first, second) = mutations.split_at(mutations.len() / 2);
                    apply(&store, &mut writers, sn, first);
                    apply(&store, &mut writers, sn, second);
                } else {
                    let applied = apply(&store, &mut writers, sn, &mutations);
                    assert_eq!(applied.inserted, model.difference(&before).count() as u64);
                    assert_eq!(applied.deleted, before.difference(&model).count() as u64);
                }
                store.snapshots().publish_stable(sn);
            }
            Step::Clear(graphs, mutations) => {
                sn = sn.next();
                let before = model.len();
                let graphs: Arc<[TermId]> = graphs.into_iter().map(graph).collect();
                model.retain(|quad| !graphs.contains(&quad.graph));
                change(&mut model, &mutations);
                let batches = ShardBatch::split(&mutations, store.placement());
                let mut net = 0;
                for (writer, batch) in writers.iter_mut().zip(batches) {
                    let batch = batch.clearing(&graphs);
                    let applied = writer.apply(sn, &batch).expect("in order");
                    net += applied.inserted as i64 - applied.deleted as i64;
                }
                assert_eq!(net, model.len() as i64 - before as i64);
                store.snapshots().publish_stable(sn);
            }
            Step::Load(quads) => {
                sn = sn.next();
                let before = model.len();
                model.extend(&quads);
                let mut inserted = 0;
                let (first, second) = quads.split_at(quads.len() / 3);
                let loads: [Arc<[QuadIds]>; 2] = [first.into(), second.into()];
                let batches = ShardBatch::split_with_loads(&loads, &[], store.placement());
                for (writer, batch) in writers.iter_mut().zip(batches) {
                    inserted += writer.apply(sn, &batch).expect("in order").inserted;
                }
                assert_eq!(inserted, (model.len() - before) as u64);
                store.snapshots().publish_stable(sn);
            }
            Step::Prepare(quads) => ahead.prepare(&quads),
            Step::Close(rest) => {
                sn = sn.next();
                let before = model.len();
                model.extend(rest.iter().chain(&ahead.quads));
                let inserted = ahead.close(sn, &rest, &mut writers);
                assert_eq!(inserted, (model.len() - before) as u64);
                store.snapshots().publish_stable(sn);
                writers.iter_mut().for_each(ShardWriter::settle);
            }
            Step::Forget => ahead = Ahead::new(&store),
            Step::Pin | Step::PinWithDeadline => {
                let snapshot = match step {
                    Step::Pin => store.pin_stable(),
                    _ => store.pin_stable_until(10),
                };
                let print = fingerprint(&snapshot);
                pins.push((snapshot, model.clone(), print));
            }
            Step::Unpin(at) => {
                if at < pins.len() {
                    pins.remove(at);
                }
            }
            Step::Expire => {
                store.snapshots().expire(10);
                // An expired pin may show anything, but must be safe to read.
                for (snapshot, ..) in pins.iter().filter(|(s, ..)| !s.is_valid()) {
                    fingerprint(snapshot);
                }
                pins.retain(|(snapshot, ..)| snapshot.is_valid());
            }
            Step::Fold => {
                for writer in &mut writers {
                    writer.fold(usize::MAX);
                }
            }
            Step::Renew(portions) => {
                for _ in 0..portions {
                    store.renew_portion(RenewalNeed::Worthwhile);
                }
            }
            Step::Publish => {
                for writer in &mut writers {
                    writer.renew();
                }
            }
            Step::Mark => mirror.mark(&store, &model),
            Step::Copy => mirror.copy(&store, &mut writers),
        }
    }
    compare(&store.pin_stable(), &model, vertices);
    for (snapshot, model, print) in &pins {
        compare(snapshot, model, vertices);
        assert_eq!(fingerprint(snapshot), *print, "SN-1");
    }
    store.check().expect("the invariants hold");
    let shards = store.shard_count();
    let others = [1, shards, 2 * shards][model.len() % 3];
    mirror.restore(&store, others, &model, vertices);
    let kept: Vec<_> = pins.iter().map(|(_, model, _)| model.clone()).collect();
    drop((pins, mirror));
    lists::renew_to_the_end(&store, &mut writers);
    for writer in &mut writers {
        assert_eq!(writer.fold(usize::MAX), 0, "without pins nothing waits");
    }
    compare(&store.pin_stable(), &model, vertices);
    drop(kept);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 1 } else { 96 }))]

    #[test]
    fn every_retained_snapshot_equals_its_set(
        shards in prop::sample::select(vec![1u16, 2, 4]),
        steps in prop::collection::vec(step(12), 1..if cfg!(miri) { 8 } else { 40 }),
    ) {
        let vertices: Vec<TermId> = (0..12).map(vertex).collect();
        run(Store::new(shards), &vertices, steps);
    }
}

#[test]
fn long_lists_equal_their_sets_while_they_grow_and_shrink() {
    let rounds = if cfg!(miri) { 3 } else { 60 };
    let width = if cfg!(miri) { 400 } else { 2_000 };
    let store = Store::new(2);
    let mut writers = writers(&store);
    let mut model = Quads::new();
    let mut pins: Vec<(Snapshot, Quads)> = Vec::new();
    for round in 0..rounds {
        let sn = Sn(round + 1);
        let mutations: Vec<Mutation> = (0..width)
            .map(|n| {
                let quad = QuadIds {
                    graph: graph(0),
                    subject: vertex(50_000),
                    predicate: predicate(1),
                    object: vertex((n * (round % 7 + 1) + round * 311) % 20_000),
                };
                match (round % 3, n % 5) {
                    (2, 0..=3) => Mutation::delete(quad),
                    _ => Mutation::insert(quad),
                }
            })
            .collect();
        change(&mut model, &mutations);
        apply(&store, &mut writers, sn, &mutations);
        store.snapshots().publish_stable(sn);
        if round % 9 == 4 {
            pins.push((store.pin_stable(), model.clone()));
        }
        if round % 20 == 19 {
            pins.remove(0);
        }
        for (snapshot, model) in &pins {
            let expected: Vec<_> = model.iter().map(|q| q.object).collect();
            let mut scratch = Vec::new();
            let read = snapshot.neighbours(
                graph(0),
                vertex(50_000),
                predicate(1),
                Direction::Out,
                &mut scratch,
            );
            assert_eq!(read, expected);
        }
    }
    store.check().expect("the invariants hold");
}

#[test]
fn untouched_lists_are_borrowed() {
    let store = Store::new(1);
    let mut writers = writers(&store);
    let mutations: Vec<_> = (0..50)
        .map(|n| {
            Mutation::insert(QuadIds {
                graph: graph(0),
                subject: vertex(99),
                predicate: predicate(1),
                object: vertex(n),
            })
        })
        .collect();
    apply(&store, &mut writers, Sn(1), &mutations);
    store.snapshots().publish_stable(Sn(1));
    let snapshot = store.pin_stable();
    let mut scratch = Vec::new();
    let read = |scratch: &mut Vec<TermId>| {
        let list = snapshot.neighbours(graph(0), vertex(99), predicate(1), Direction::Out, scratch);
        (list.len(), list.as_ptr())
    };
    assert_eq!(read(&mut scratch), read(&mut scratch));
    assert_eq!(read(&mut scratch).0, 50);
    assert!(scratch.is_empty());
}

#[test]
fn inserting_an_existing_statement_leaves_no_trace() {
    let store = Store::new(1);
    let mut writers = writers(&store);
    let quad = QuadIds {
        graph: graph(1),
        subject: vertex(1),
        predicate: predicate(1),
        object: vertex(2),
    };
    apply(&store, &mut writers, Sn(1), &[Mutation::insert(quad)]);
    store.snapshots().publish_stable(Sn(1));
    let before = store.memory().stored_bytes;
    let again = [
        Mutation::insert(quad),
        Mutation::delete(QuadIds {
            subject: vertex(3),
            ..quad
        }),
    ];
    assert_eq!(
        apply(&store, &mut writers, Sn(2), &again),
        Applied::default()
    );
    assert_eq!(store.memory().stored_bytes, before);
    assert_eq!(writers[0].fold(usize::MAX), 0);
}

#[test]
fn a_shard_has_one_writer_and_snapshots_stay_as_they_were() {
    let store = Store::new(2);
    let mut all = writers(&store);
    assert!(store.take_writer(ShardId(1)).is_err());
    drop(all.pop());
    all.push(store.take_writer(ShardId(1)).expect("given back"));
    let batches = ShardBatch::split(&[], store.placement());
    assert!(all[0].apply(Sn(5), &batches[1]).is_err(), "another shard's");
    all[0].apply(Sn(5), &batches[0]).expect("gaps are fine");
    assert!(all[0].apply(Sn(4), &batches[0]).is_err(), "back");
    store.snapshots().publish_stable(Sn(5));
    assert!(all[0].apply(Sn(5), &batches[0]).is_err(), "stable already");
    assert!(store.pin(Sn(4)).is_err());
    assert!(store.pin(Sn(6)).is_ok());
}

#[test]
fn replaced_memory_is_freed_when_its_pins_are_dropped() {
    let store = Store::new(1);
    let mut writers = writers(&store);
    let change = |round: u64| -> Vec<Mutation> {
        let quad = |n: u64| QuadIds {
            graph: graph(0),
            subject: vertex(1),
            predicate: predicate(1),
            object: vertex(n),
        };
        let inserts = (0..100).map(|n| Mutation::insert(quad(round * 100 + n)));
        let deletes = (0..100).map(|n| Mutation::delete(quad((round + 1) % 2 * 100 + n)));
        match round {
            0 => inserts.collect(),
            _ => deletes.chain(inserts).collect(),
        }
    };
    let mut sn = Sn::ZERO;
    let mut turn = |writers: &mut [ShardWriter], rounds: u64| {
        for round in 0..rounds {
            sn = sn.next();
            apply(&store, writers, sn, &change(round % 2));
            store.snapshots().publish_stable(sn);
        }
    };
    turn(&mut writers, 4);
    let pin = store.pin_stable();
    turn(&mut writers, 200);
    let memory = store.memory();
    let (pinned, for_snapshots) = (memory.stored_bytes, memory.snapshots_bytes);
    assert_eq!(store.snapshots().retained(), 2, "the pinned and the stable");
    assert!(for_snapshots > 0 && for_snapshots <= pinned + memory.retired_bytes);
    let held = store.held_bytes();
    let by_pin = held.get(&pin.sn()).copied().unwrap_or(0);
    assert_eq!(held.len(), 1, "one SN is pinned: {held:?}");
    assert!(
        by_pin > 0 && by_pin <= for_snapshots,
        "{by_pin} of {for_snapshots} bytes"
    );
    drop(pin);
    assert!(store.held_bytes().is_empty());
    turn(&mut writers, 4);
    let memory = store.memory();
    let free = memory.stored_bytes;
    assert_eq!(store.snapshots().retained(), 1);
    assert!(
        memory.snapshots_bytes < for_snapshots / 4,
        "{} bytes for snapshots after dropping the pin, {for_snapshots} before",
        memory.snapshots_bytes
    );
    turn(&mut writers, 400);
    let later = store.memory().stored_bytes;
    assert!(
        free < pinned,
        "{free} bytes after dropping the pin, {pinned} before"
    );
    assert!(
        later <= free + free / 10,
        "{later} bytes after long, {free} before"
    );
}
