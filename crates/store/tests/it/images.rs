//! Images against the same dull twin as everything else: loads that make new generations, mixed
//! with small changes and with pins of earlier ones, over vertices of all kinds.

use crate::reference::{self, Quads, Step, apply, change, compare, graph, predicate, writers};
use proptest::prelude::*;
use somersault_model::{
    Direction, Mutation, Operation, QuadIds, Sn, Tag, TermId, VirtualShard, inline,
};
use somersault_store::{ShardBatch, Store, fingerprint};
use std::sync::Arc;

const VERTICES: u64 = if cfg!(miri) { 12 } else { 240 };

/// Dense enough for bitmaps, with literals among them that have values in the id.
fn vertex(n: u64) -> TermId {
    let shard = VirtualShard::truncated((n * 37 % 4096) as u16);
    match n % 8 {
        7 => inline::integer(n as i64 - 50).expect("fits"),
        6 => TermId::in_dictionary(Tag::Literal, shard, 1),
        5 => TermId::in_dictionary(Tag::BlankNode, shard, 1),
        _ => TermId::in_dictionary(Tag::NamedNode, shard, 0),
    }
}

fn vertices() -> Vec<TermId> {
    (0..VERTICES).map(vertex).collect()
}

fn quad() -> impl Strategy<Value = QuadIds> {
    // Most is in one graph and about a few objects, so that lists are of all lengths.
    let object = prop_oneof![2 => 0..VERTICES, 1 => 0u64..4];
    let graphs = prop_oneof![4 => Just(0u64), 1 => 1u64..3];
    (graphs, 0..VERTICES, 0u64..4, object).prop_map(|(g, s, p, o)| QuadIds {
        graph: graph(g),
        subject: vertex(s),
        predicate: predicate(p),
        object: vertex(o),
    })
}

fn step() -> impl Strategy<Value = Step> {
    let (long, short) = if cfg!(miri) { (30, 6) } else { (900, 40) };
    let mutation = (quad(), any::<bool>())
        .prop_map(|(quad, insert)| Mutation {
            quad,
            operation: if insert {
                Operation::Insert
            } else {
                Operation::Delete
            },
        })
        .boxed();
    let cleared = mutation.clone();
    prop_oneof![
        3 => prop::collection::vec(quad(), 0..long).prop_map(Step::Load),
        4 => (prop::collection::vec(mutation, 0..short), any::<bool>())
            .prop_map(|(mutations, halves)| Step::Apply(mutations, halves)),
        1 => (prop::collection::btree_set(0u64..3, 1..3), prop::collection::vec(cleared, 0..short))
            .prop_map(|(graphs, mutations)| Step::Clear(graphs, mutations)),
        2 => prop::collection::vec(quad(), 0..short).prop_map(Step::Prepare),
        1 => prop::collection::vec(quad(), 0..short).prop_map(Step::Close),
        1 => Just(Step::Forget),
        12 => reference::quiet_step(),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 1 } else { 64 }))]

    #[test]
    fn every_retained_snapshot_equals_its_set_across_generations(
        shards in 1u16..5,
        load in prop::sample::select(vec![1usize, 60]),
        smallest in prop::sample::select(vec![1usize, 30]),
        steps in prop::collection::vec(step(), 1..if cfg!(miri) { 6 } else { 16 }),
    ) {
        let store = Store::with_images_from(shards, load, smallest);
        reference::run(store, &vertices(), steps);
    }
}

fn load(store: &Store, sn: Sn, quads: &[QuadIds], writers: &mut [somersault_store::ShardWriter]) {
    let loads: [Arc<[QuadIds]>; 1] = [quads.into()];
    let batches = ShardBatch::split_with_loads(&loads, &[], store.placement());
    for (writer, batch) in writers.iter_mut().zip(batches) {
        writer.apply(sn, &batch).expect("in order");
    }
    store.snapshots().publish_stable(sn);
}

/// Statements of the n-th load.
fn statements(n: u64, count: u64) -> Vec<QuadIds> {
    let quad = |at: u64| QuadIds {
        graph: graph(0),
        subject: vertex((at * 31 + n * 7) % VERTICES),
        predicate: predicate(at % 4),
        object: vertex(at * at % VERTICES),
    };
    (0..count).map(quad).collect()
}

#[test]
fn long_lists_of_an_image_change_a_piece_at_a_time() {
    let count = if cfg!(miri) { 1_100 } else { 20_000 };
    let store = Store::with_images_from(1, 1, 1);
    let mut writers = writers(&store);
    let instance = |n: u64| QuadIds {
        graph: graph(0),
        subject: TermId::in_dictionary(
            Tag::NamedNode,
            VirtualShard::truncated((n % 4096) as u16),
            n / 4096,
        ),
        predicate: predicate(0),
        object: vertex(1),
    };
    let mut model: Quads = (0..count).map(instance).collect();
    let all: Vec<QuadIds> = model.iter().copied().collect();
    load(&store, Sn(1), &all, &mut writers);
    let loaded = store.memory().stored_bytes;
    let first = (store.pin_stable(), model.clone());
    for round in 0..20 {
        let gone = (0..10).map(|n| instance((round * 977 + n * 131) % count));
        let new = (0..10).map(|n| instance(count + round * 10 + n));
        let mutations: Vec<Mutation> = gone
            .map(Mutation::delete)
            .chain(new.map(Mutation::insert))
            .collect();
        change(&mut model, &mutations);
        apply(&store, &mut writers, Sn(round + 2), &mutations);
        store.snapshots().publish_stable(Sn(round + 2));
        writers[0].fold(usize::MAX);
        let snapshot = store.pin_stable();
        let mut scratch = Vec::new();
        let class = snapshot.neighbours(
            graph(0),
            vertex(1),
            predicate(0),
            Direction::In,
            &mut scratch,
        );
        assert!(class.iter().copied().eq(model.iter().map(|q| q.subject)));
        let index = snapshot.vertices_with(graph(0), predicate(0), Direction::Out, &mut scratch);
        assert!(index.iter().copied().eq(model.iter().map(|q| q.subject)));
        let some: Vec<TermId> = (0..40)
            .map(|n| instance(n * 521 % count).subject)
            .chain([vertex(1)])
            .collect();
        for pin in [&snapshot, &first.0] {
            crate::columns::compare(pin, graph(0), predicate(0), &some);
        }
    }
    compare(&first.0, &first.1, &[vertex(1), instance(5).subject]);
    let grown = store.memory().stored_bytes - loaded;
    assert!(
        cfg!(miri) || grown < 100_000 + 20 * 20 * 1_000,
        "{grown} bytes more for 400 changes"
    );
    store.check().expect("the invariants hold");
}

#[test]
fn an_old_generation_is_freed_after_its_last_reader() {
    let count = if cfg!(miri) { 60 } else { 4_000 };
    let store = Store::with_images_from(2, 1, 1);
    let mut writers = writers(&store);
    load(&store, Sn(1), &statements(1, count), &mut writers);
    let one = store.memory().stored_bytes;
    let pin = store.pin_stable();
    let print = fingerprint(&pin);
    for n in 2..6 {
        // The same statements: each generation is as large as the first.
        load(&store, Sn(n), &statements(1, count), &mut writers);
    }
    assert_eq!(fingerprint(&pin), print, "SN-1");
    assert!(store.superseded() >= writers.len());
    drop(pin);
    for writer in &mut writers {
        writer.fold(0);
    }
    // Memory that has been unlinked and stamped is freed with the next batch.
    for writer in &mut writers {
        writer.fold(0);
    }
    assert_eq!(store.superseded(), 0);
    let later = store.memory().stored_bytes;
    assert!(later <= one + one / 10, "{later} bytes, {one} before");
    assert_eq!(fingerprint(&store.pin_stable()), print);
}

/// Statements of many graphs that appear, change and go with one SN each: the list of graphs is
/// written once an SN, not once a graph.
#[test]
fn many_graphs_of_one_sn_take_memory_in_proportion() {
    let count = if cfg!(miri) { 20 } else { 4_000 };
    let store = Store::new(1);
    let mut writers = writers(&store);
    let name = |n: u64| {
        TermId::in_dictionary(
            Tag::NamedNode,
            VirtualShard::truncated((n % 4096) as u16),
            100 + n / 4096,
        )
    };
    let quad = |n: u64, object: u64| QuadIds {
        graph: name(n),
        subject: vertex(0),
        predicate: predicate(0),
        object: vertex(object),
    };
    let all = |object: u64, operation: Operation| -> Vec<Mutation> {
        let mutation = |n: u64| Mutation {
            quad: quad(n, object),
            operation,
        };
        (0..count).map(mutation).collect()
    };
    let mut names: Vec<TermId> = (0..count).map(name).collect();
    names.sort_unstable();

    apply(&store, &mut writers, Sn(1), &all(1, Operation::Insert));
    store.snapshots().publish_stable(Sn(1));
    let pin = store.pin_stable();
    assert_eq!(pin.graphs(), names);
    let bytes = store.memory().stored_bytes + store.memory().snapshots_bytes;
    assert!(bytes < 3_000 * count as usize + 100_000, "{bytes} bytes");

    // Each graph loses its only statement and gets another one: none has gone.
    let mut replaced = all(1, Operation::Delete);
    replaced.extend(all(2, Operation::Insert));
    apply(&store, &mut writers, Sn(2), &replaced);
    store.snapshots().publish_stable(Sn(2));
    assert_eq!(store.pin_stable().graphs(), names);

    apply(&store, &mut writers, Sn(3), &all(2, Operation::Delete));
    store.snapshots().publish_stable(Sn(3));
    assert!(store.pin_stable().graphs().is_empty());
    assert_eq!(pin.graphs(), names, "SN-1");
    store.check().expect("the invariants hold");
}
