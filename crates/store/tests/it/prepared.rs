//! Insertions that are prepared while they wait for their SN: whatever comes between, the store
//! becomes what it becomes without preparation, and readers see nothing before.

use crate::reference::{Quads, apply, change, compare, predicate, vertex};
use somersault_model::{Mutation, Placement, QuadIds, ShardId, Sn, TermId};
use somersault_store::{
    PreparedEdges, RenewalNeed, ShardBatch, ShardWriter, Snapshot, Store, fingerprint,
};
use std::sync::Arc;

const VERTICES: u64 = 12;

fn quad(subject: u64, of: u64, object: u64) -> QuadIds {
    QuadIds {
        graph: TermId::DEFAULT_GRAPH,
        subject: vertex(subject),
        predicate: predicate(of),
        object: vertex(object),
    }
}

/// A store of one shard whose image has a part of its lists, and cells others.
struct Bench {
    store: Arc<Store>,
    writers: Vec<ShardWriter>,
    model: Quads,
    sn: Sn,
}

impl Bench {
    fn new() -> Bench {
        let store = Store::with_images_from(1, 1, 1);
        let writers = vec![store.take_writer(ShardId(0)).expect("it is free")];
        let mut bench = Bench {
            store,
            writers,
            model: Quads::new(),
            sn: Sn::ZERO,
        };
        bench.load(&[quad(0, 0, 1), quad(0, 0, 2), quad(1, 1, 2), quad(3, 0, 4)]);
        bench.apply(&[
            Mutation::insert(quad(0, 1, 5)),
            Mutation::insert(quad(6, 0, 1)),
        ]);
        bench
    }

    fn load(&mut self, quads: &[QuadIds]) {
        self.sn = self.sn.next();
        self.model.extend(quads);
        let batches = ShardBatch::split_with_loads(&[quads.into()], &[], Placement::new(1));
        self.writers[0]
            .apply(self.sn, &batches[0])
            .expect("in order");
        self.store.snapshots().publish_stable(self.sn);
    }

    fn apply(&mut self, mutations: &[Mutation]) {
        self.sn = self.sn.next();
        change(&mut self.model, mutations);
        apply(&self.store, &mut self.writers, self.sn, mutations);
        self.store.snapshots().publish_stable(self.sn);
    }

    /// Inserts what was prepared of these, and `rest`.
    fn close(&mut self, prepared: PreparedEdges, quads: &[QuadIds], rest: &[QuadIds]) {
        self.sn = self.sn.next();
        let before = self.model.len();
        self.model.extend(quads.iter().chain(rest));
        let mut batch = inserting(rest);
        batch.insert_prepared(prepared);
        let applied = self.writers[0].apply(self.sn, &batch).expect("in order");
        assert_eq!(applied.inserted as usize, self.model.len() - before);
        self.store.snapshots().publish_stable(self.sn);
    }

    fn renew(&mut self) {
        for _ in 0..100 {
            self.store.renew_portion(RenewalNeed::Worthwhile);
            self.writers[0].renew();
        }
    }

    fn pin(&self) -> (Snapshot, Quads) {
        (self.store.pin_stable(), self.model.clone())
    }

    fn check(&self, earlier: &(Snapshot, Quads)) {
        let vertices: Vec<TermId> = (0..VERTICES).map(vertex).collect();
        compare(&self.store.pin_stable(), &self.model, &vertices);
        compare(&earlier.0, &earlier.1, &vertices);
        self.store.check().expect("the invariants hold");
    }
}

fn prepare(prepared: &mut PreparedEdges, quads: &[QuadIds]) {
    prepared.add(inserting(quads));
}

fn inserting(quads: &[QuadIds]) -> ShardBatch {
    let facts: Vec<Mutation> = quads.iter().copied().map(Mutation::insert).collect();
    ShardBatch::split(&facts, Placement::new(1)).swap_remove(0)
}

/// Into lists of the image, of cells, and into lists that do not exist.
fn facts() -> Vec<QuadIds> {
    vec![
        quad(0, 0, 3),
        quad(0, 0, 2),
        quad(0, 1, 6),
        quad(6, 0, 2),
        quad(7, 0, 1),
        quad(7, 2, 8),
        quad(7, 2, 8),
    ]
}

#[test]
fn nothing_is_seen_of_what_is_prepared_before_its_sn() {
    let mut bench = Bench::new();
    let (earlier, print) = (bench.pin(), fingerprint(&bench.store.pin_stable()));
    let mut prepared = PreparedEdges::default();
    prepare(&mut prepared, &facts()[..3]);
    prepare(&mut prepared, &facts()[3..]);
    bench.check(&earlier);
    assert_eq!(fingerprint(&bench.store.pin_stable()), print);
    bench.close(prepared, &facts(), &[quad(7, 3, 9), quad(8, 0, 1)]);
    bench.check(&earlier);
}

#[test]
fn an_update_between_changes_the_same_lists() {
    let mut bench = Bench::new();
    let earlier = bench.pin();
    let mut prepared = PreparedEdges::default();
    prepare(&mut prepared, &facts());
    bench.apply(&[
        // Of the image, of a cell, and one that is prepared.
        Mutation::delete(quad(0, 0, 2)),
        Mutation::delete(quad(0, 0, 1)),
        Mutation::delete(quad(0, 1, 5)),
        Mutation::insert(quad(7, 2, 8)),
        Mutation::insert(quad(7, 0, 4)),
        Mutation::delete(quad(7, 0, 1)),
    ]);
    bench.check(&earlier);
    bench.close(prepared, &facts(), &[]);
    bench.check(&earlier);
}

#[test]
fn another_stream_prepares_and_closes_the_same_lists() {
    let mut bench = Bench::new();
    let earlier = bench.pin();
    let (mut one, mut other) = (PreparedEdges::default(), PreparedEdges::default());
    prepare(&mut one, &facts());
    prepare(&mut other, &facts()[2..]);
    prepare(&mut other, &[quad(7, 2, 9), quad(0, 0, 9)]);
    bench.close(other, &facts()[2..], &[quad(7, 2, 9), quad(0, 0, 9)]);
    bench.check(&earlier);
    bench.close(one, &facts(), &[]);
    bench.check(&earlier);
}

#[test]
fn a_renewed_image_between_is_followed() {
    let mut bench = Bench::new();
    let earlier = bench.pin();
    let mut prepared = PreparedEdges::default();
    prepare(&mut prepared, &facts()[..4]);
    bench.load(&[quad(8, 0, 9), quad(0, 0, 5)]);
    prepare(&mut prepared, &facts()[4..]);
    bench.apply(&[
        Mutation::insert(quad(9, 0, 1)),
        Mutation::insert(quad(9, 0, 2)),
    ]);
    bench.renew();
    bench.close(prepared, &facts(), &[quad(0, 0, 7)]);
    bench.check(&earlier);
}

#[test]
fn what_is_prepared_and_not_inserted_leaves_nothing() {
    let mut bench = Bench::new();
    let earlier = bench.pin();
    let mut prepared = PreparedEdges::default();
    prepare(&mut prepared, &facts());
    drop(prepared);
    bench.check(&earlier);
    bench.apply(&[
        Mutation::delete(quad(7, 2, 8)),
        Mutation::insert(quad(8, 2, 7)),
    ]);
    bench.check(&earlier);
    bench.renew();
    bench.check(&earlier);
}
