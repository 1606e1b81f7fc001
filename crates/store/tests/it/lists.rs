//! What readers take out of the store, list by list, against the plain set of statements: all lists
//! and those that changed since a marker, and stores that are restored from both.

use crate::reference::{Quads, apply, change, compare, graph, predicate, vertex, writers};
use somersault_model::{Direction, Mutation, QuadIds, ShardId, Sn, TermId};
use somersault_store::{
    ListKey, ListRun, Marker, MergedRuns, RenewalNeed, RenewalState, RestoreError, RestoredLists,
    RestoredRange, ShardBatch, ShardRestore, ShardWriter, Snapshot, Store, fingerprint,
};
use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;

type ListEntry = (ListKey, Vec<TermId>);

/// The runs of one shard, oldest first.
type Runs = Vec<Vec<ListEntry>>;

/// A copy of a store outside it, which reads what changed since it last did.
pub(crate) struct Mirror {
    since: Marker,
    runs: Vec<Runs>,
    /// A marker that was asked for, and what was stable then.
    asked: Option<(Marker, Snapshot, Quads)>,
}

impl Mirror {
    /// A mirror of an empty store.
    pub(crate) fn new(store: &Arc<Store>, writers: &mut [ShardWriter]) -> Mirror {
        let since = store.mark();
        assert_eq!(since.after(), None, "writers set markers");
        for writer in writers {
            writer.fold(0);
        }
        assert_eq!(since.after(), Some(Sn::ZERO));
        Mirror {
            since,
            runs: vec![Vec::new(); store.shard_count().into()],
            asked: None,
        }
    }

    /// Asks for the next marker.
    pub(crate) fn mark(&mut self, store: &Arc<Store>, model: &Quads) {
        if self.asked.is_none() {
            self.asked = Some((store.mark(), store.pin_stable(), model.clone()));
        }
    }

    /// Takes over what changed up to the marker that was asked for.
    pub(crate) fn copy(&mut self, store: &Arc<Store>, writers: &mut [ShardWriter]) {
        let Some((until, snapshot, model)) = self.asked.take() else {
            return;
        };
        if until.after().is_none() {
            for writer in writers {
                writer.fold(0);
            }
        }
        assert!(until.after().is_some_and(|after| after <= snapshot.sn()));
        for (shard, runs) in self.runs.iter_mut().enumerate() {
            let shard = ShardId(shard as u16);
            let reader = store.changes_at(&self.since, &until, shard, snapshot.sn());
            let mut reader = reader.expect("it is pinned");
            assert_eq!(reader.sn(), snapshot.sn());
            let mut run = Vec::new();
            while reader.portion(3, &mut |key, ids| run.push((key, ids.to_vec()))) {}
            assert!(run.is_sorted_by(|a, b| a.0 < b.0), "keys ascend");
            if reader.is_whole() {
                runs.clear();
            }
            runs.push(run);
        }
        self.since = until;
        let (mut runs, mut ids) = (merged(&self.runs), Vec::new());
        let mut lists = BTreeMap::new();
        while let Some(key) = runs.next_list(&mut ids).expect("it cannot fail") {
            if !ids.is_empty() {
                lists.insert(key, ids.clone());
            }
        }
        assert_eq!(lists, lists_of(&model));
    }

    /// Compares stores restored from all lists, and from the runs of the mirror, with the set.
    pub(crate) fn restore(
        &self,
        store: &Arc<Store>,
        shards: u16,
        model: &Quads,
        vertices: &[TermId],
    ) {
        let sn = store.snapshots().stable();
        let all: Vec<Runs> = (0..store.shard_count())
            .map(|shard| {
                let mut reader = store.lists_at(ShardId(shard), sn).expect("it is stable");
                let mut run = Vec::new();
                while reader.portion(5, &mut |key, ids| run.push((key, ids.to_vec()))) {}
                vec![run]
            })
            .collect();
        let mut restored = restored(&all, shards, sn.next());
        // The runs of a mirror are as old as its newest copy, so they are compared to each other.
        for runs in [&all, &self.runs] {
            let (dull, _writers) = self::restored(runs, shards, sn.next());
            let cut = 1 + vertices.len() % 7;
            let (parts, _writers) = restored_in_stretches(runs, shards, sn.next(), cut);
            let prints = [&dull, &parts].map(|store| fingerprint(&store.pin_stable()));
            assert_eq!(prints[0], prints[1]);
            parts.check().expect("the invariants hold");
        }
        if shards == store.shard_count() {
            let prints = [store, &restored.0].map(|store| fingerprint(&store.pin_stable()));
            assert_eq!(prints[0], prints[1]);
        } else {
            compare(&restored.0.pin_stable(), model, vertices);
        }
        restored.0.check().expect("the invariants hold");
        // It goes on like any other.
        let change: Vec<Mutation> = (model.iter().take(20).copied().map(Mutation::delete))
            .chain([Mutation::insert(quad(1, 1, 3))])
            .collect();
        let sn = sn.next().next();
        apply(&restored.0, &mut restored.1, sn, &change);
        restored.0.snapshots().publish_stable(sn);
        let mut model: Quads = model.iter().skip(20).copied().collect();
        model.insert(quad(1, 1, 3));
        if shards == store.shard_count() {
            compare(&restored.0.pin_stable(), &model, vertices);
        }
        restored.0.check().expect("the invariants hold");
    }
}

fn quad(subject: u64, of: u64, object: u64) -> QuadIds {
    QuadIds {
        graph: graph(0),
        subject: vertex(subject),
        predicate: predicate(of),
        object: vertex(object),
    }
}

/// A run in memory.
struct MemoryRun<'a>(std::slice::Iter<'a, ListEntry>);

impl ListRun for MemoryRun<'_> {
    type Error = Infallible;

    fn next_list(&mut self, members: &mut Vec<TermId>) -> Result<Option<ListKey>, Infallible> {
        members.clear();
        let Some((key, ids)) = self.0.next() else {
            return Ok(None);
        };
        members.extend_from_slice(ids);
        Ok(Some(*key))
    }
}

fn merged(ranges: &[Runs]) -> MergedRuns<MemoryRun<'_>> {
    fn of_range(runs: &Runs) -> Vec<MemoryRun<'_>> {
        runs.iter().map(|run| MemoryRun(run.iter())).collect()
    }
    MergedRuns::new(ranges.iter().map(of_range).collect())
}

/// A store that shows these runs from `sn` on.
fn restored(ranges: &[Runs], shards: u16, sn: Sn) -> (Arc<Store>, Vec<ShardWriter>) {
    let store = Store::with_images_from(shards, 1, 3);
    let writers = writers(&store).into_iter().map(|writer| {
        let (shard, placement) = (writer.shard(), store.placement());
        let restore = ShardRestore::new(writer, sn).expect("the store is empty");
        let (mut runs, mut ids) = (merged(ranges), Vec::new());
        let mut lists = RestoredLists::base(shard, placement, 0);
        while let Some(key) = runs.next_list(&mut ids).expect("it cannot fail") {
            lists.list(key, &ids).expect("runs ascend");
        }
        let mut range = RestoredRange::default();
        range.base.push(lists);
        restore.finish(vec![range], 2).expect("one stretch ascends")
    });
    let writers = writers.collect();
    store.snapshots().publish_stable(sn);
    (store, writers)
}

/// As [`restored`], with each run as a layer that was cut into stretches of some lists.
fn restored_in_stretches(
    ranges: &[Runs],
    shards: u16,
    sn: Sn,
    cut: usize,
) -> (Arc<Store>, Vec<ShardWriter>) {
    let store = Store::with_images_from(shards, 1, 3);
    let writers = writers(&store).into_iter().map(|writer| {
        let (shard, placement) = (writer.shard(), store.placement());
        let restore = ShardRestore::new(writer, sn).expect("the store is empty");
        let fill = |mut stretch: RestoredLists, lists: &[ListEntry]| {
            for (key, ids) in lists {
                stretch.list(*key, ids).expect("runs ascend");
            }
            stretch.settle();
            stretch
        };
        let ranges = ranges.iter().map(|runs| {
            let mut range = RestoredRange::default();
            for (layer, run) in runs.iter().enumerate() {
                let stretches = run.chunks(cut).map(|lists| match layer {
                    0 => fill(RestoredLists::base(shard, placement, lists.len()), lists),
                    _ => fill(RestoredLists::changes(shard, placement, lists.len()), lists),
                });
                match layer {
                    0 => range.base = stretches.collect(),
                    _ => range.changes.push(stretches.collect()),
                }
            }
            range
        });
        let ranges = ranges.collect();
        restore.finish(ranges, 2).expect("runs ascend")
    });
    let writers = writers.collect();
    store.snapshots().publish_stable(sn);
    (store, writers)
}

/// The lists that a set of statements makes.
fn lists_of(model: &Quads) -> BTreeMap<ListKey, Vec<TermId>> {
    let mut lists: BTreeMap<ListKey, BTreeSet<TermId>> = BTreeMap::new();
    for quad in model {
        for (direction, vertex, neighbour) in [
            (Direction::Out, quad.subject, quad.object),
            (Direction::In, quad.object, quad.subject),
        ] {
            let key = ListKey {
                direction,
                graph: quad.graph,
                predicate: quad.predicate,
                vertex,
            };
            lists.entry(key).or_default().insert(neighbour);
        }
    }
    let lists = lists.into_iter();
    lists
        .map(|(key, ids)| (key, ids.into_iter().collect()))
        .collect()
}

/// Renews all images that are worth it.
pub(crate) fn renew_to_the_end(store: &Arc<Store>, writers: &mut [ShardWriter]) -> usize {
    let mut published = 0;
    loop {
        match store.renew_portion(RenewalNeed::Worthwhile) {
            RenewalState::Idle => return published,
            RenewalState::Working => {}
            RenewalState::Waiting => {
                let renewed = writers.iter_mut().map(|writer| usize::from(writer.renew()));
                published += renewed.sum::<usize>();
            }
        }
    }
}

/// Statements that arrive one by one take hardly more memory than loaded ones once the image is
/// renewed, and are read as before, also by readers from before.
#[test]
fn what_arrived_in_small_batches_becomes_compact() {
    let count = if cfg!(miri) { 60 } else { 20_000 };
    let statements: Vec<QuadIds> = (0..count).map(|n| quad(n, n % 3, n * 7 % 1_000)).collect();
    let loaded = Store::with_images_from(2, 1, 1);
    let mut others = writers(&loaded);
    let loads: [Arc<[QuadIds]>; 1] = [statements.clone().into()];
    let batches = ShardBatch::split_with_loads(&loads, &[], loaded.placement());
    for (writer, batch) in others.iter_mut().zip(batches) {
        writer.apply(Sn(1), &batch).expect("in order");
    }
    let store = Store::with_images_from(2, 1_000, 1);
    let mut writers = writers(&store);
    let mut sn = Sn::ZERO;
    for chunk in statements.chunks(50) {
        sn = sn.next();
        let mutations: Vec<Mutation> = chunk.iter().copied().map(Mutation::insert).collect();
        apply(&store, &mut writers, sn, &mutations);
        store.snapshots().publish_stable(sn);
    }
    let early = store.pin_stable();
    let print = fingerprint(&early);
    let before = store.memory().stored_bytes;
    assert!(renew_to_the_end(&store, &mut writers) > 0 || cfg!(miri));
    assert_eq!(fingerprint(&early), print, "SN-1");
    drop(early);
    for writer in &mut writers {
        writer.fold(usize::MAX);
        writer.fold(usize::MAX);
    }
    assert_eq!(fingerprint(&store.pin_stable()), print);
    store.check().expect("the invariants hold");
    let (after, compact) = (store.memory().stored_bytes, loaded.memory().stored_bytes);
    assert!(
        cfg!(miri) || after < before / 3 && after < 2 * compact,
        "{after} bytes after, {before} before, {compact} if loaded"
    );
    assert_eq!(store.superseded(), 0);
}

/// While there is more urgent work, a renewal that is worthwhile does not begin, until twice as much
/// has changed. Then it goes on to its end.
#[test]
fn a_renewal_waits_for_urgent_work_up_to_a_bound() {
    let store = Store::with_images_from(1, 100, 1);
    let mut writers = writers(&store);
    let add = |writers: &mut Vec<ShardWriter>, sn: u64| {
        // Each statement has two half edges.
        let numbers = sn * 10..(sn + 1) * 10;
        let mutations: Vec<_> = numbers.map(|n| Mutation::insert(quad(n, 0, n))).collect();
        apply(&store, writers, Sn(sn), &mutations);
        store.snapshots().publish_stable(Sn(sn));
    };
    (1..=4).for_each(|sn| add(&mut writers, sn));
    assert_eq!(
        store.renew_portion(RenewalNeed::Worthwhile),
        RenewalState::Idle
    );
    (5..=9).for_each(|sn| add(&mut writers, sn));
    assert_eq!(
        store.renew_portion(RenewalNeed::Overdue),
        RenewalState::Idle
    );
    add(&mut writers, 10);
    let mut published = false;
    while store.renew_portion(RenewalNeed::Overdue) != RenewalState::Idle {
        published |= writers[0].renew();
    }
    assert!(published, "the bound ended the wait");
    (11..=20).for_each(|sn| add(&mut writers, sn));
    assert_eq!(
        store.renew_portion(RenewalNeed::Overdue),
        RenewalState::Idle
    );
    assert!(
        renew_to_the_end(&store, &mut writers) > 0,
        "nothing urgent is left"
    );
    store.check().expect("the invariants hold");
}

/// A list of thousands changes between the steps of a renewal: it is not copied whole.
#[test]
#[cfg_attr(miri, ignore = "too many statements")]
fn long_lists_change_while_an_image_is_renewed() {
    let store = Store::with_images_from(1, 100, 1);
    let mut writers = writers(&store);
    let mut model = Quads::new();
    let mut published = 0;
    for round in 0..150u64 {
        let gone = (0..20).map(|n| quad(round * 97 + n * 31, 0, 5));
        let new = (0..100).map(|n| quad(round * 100 + n, 0, 5));
        let mutations: Vec<Mutation> = gone
            .map(Mutation::delete)
            .chain(new.map(Mutation::insert))
            .collect();
        change(&mut model, &mutations);
        apply(&store, &mut writers, Sn(round + 1), &mutations);
        store.snapshots().publish_stable(Sn(round + 1));
        for _ in 0..round % 40 {
            store.renew_portion(RenewalNeed::Worthwhile);
        }
        published += usize::from(writers[0].renew());
        if round % 10 == 9 {
            let snapshot = store.pin_stable();
            let mut scratch = Vec::new();
            let class = snapshot.neighbours(
                graph(0),
                vertex(5),
                predicate(0),
                Direction::In,
                &mut scratch,
            );
            let mut expected: Vec<TermId> = model.iter().map(|quad| quad.subject).collect();
            expected.sort_unstable();
            assert_eq!(class, expected);
        }
    }
    assert!(published > 3, "{published} renewals came to their end");
    store.check().expect("the invariants hold");
}

#[test]
fn damaged_lists_are_refused() {
    let store = Store::new(2);
    let writer = store.take_writer(ShardId(0)).expect("free");
    let restore = ShardRestore::new(writer, Sn(3)).expect("empty");
    let mut lists = RestoredLists::base(ShardId(0), store.placement(), 9);
    let key = |predicate_number: u64| ListKey {
        direction: Direction::Out,
        graph: graph(0),
        predicate: predicate(predicate_number),
        vertex: vertex(2),
    };
    assert_eq!(lists.list(key(2), &[vertex(1)]), Ok(()));
    for behind in [1, 2] {
        let behind = lists.list(key(behind), &[vertex(1)]);
        assert_eq!(behind, Err(RestoreError::OutOfOrder(ShardId(0))));
    }
    let twice = lists.list(key(4), &[vertex(1), vertex(1)]);
    assert_eq!(twice, Err(RestoreError::NoList(ShardId(0))));
    let no_term = lists.list(key(6), &[TermId::UNBOUND]);
    assert_eq!(no_term, Err(RestoreError::NoList(ShardId(0))));
    let range = |base: Vec<RestoredLists>| RestoredRange {
        base,
        ..RestoredRange::default()
    };
    let mut lower = RestoredLists::base(ShardId(0), store.placement(), 9);
    assert_eq!(lower.list(key(1), &[vertex(1)]), Ok(()));
    let twice = restore.finish(vec![range(vec![lists, lower])], 1);
    assert_eq!(twice.err(), Some(RestoreError::OutOfOrder(ShardId(0))));
    let store = Store::new(1);
    let writer = store.take_writer(ShardId(0)).expect("free");
    let restore = ShardRestore::new(writer, Sn(3)).expect("empty");
    let one = || {
        let mut lists = RestoredLists::base(ShardId(0), store.placement(), 9);
        assert_eq!(lists.list(key(1), &[vertex(1)]), Ok(()));
        range(vec![lists])
    };
    let both = vec![one(), one()];
    let twice = restore.finish(both, 1);
    assert_eq!(twice.err(), Some(RestoreError::NoList(ShardId(0))));
    let store = Store::new(2);
    let writer = store.take_writer(ShardId(0)).expect("free");
    let restore = ShardRestore::new(writer, Sn(3)).expect("empty");
    let lists = RestoredLists::base(ShardId(0), store.placement(), 9);
    let writer = restore
        .finish(vec![range(vec![lists])], 1)
        .expect("nothing is wrong");
    assert_eq!(writer.applied(), Sn(3));
    let full = ShardRestore::new(writer, Sn(4));
    assert_eq!(
        full.err(),
        Some(RestoreError::NotEmpty { shard: ShardId(0) })
    );
}

/// Without a marker nothing is recorded; a marker sees what changes after it, each list once.
/// A marker of another reader falls between two of a renewal, and a list of thousands changes on
/// both sides of it: the builder copies it once, and so does the writer.
#[test]
#[cfg_attr(miri, ignore = "too many statements")]
fn a_long_list_that_changes_around_a_marker_is_copied_once() {
    for is_left_to_writer in [false, true] {
        let store = Store::with_images_from(1, 100, 1);
        let mut writers = writers(&store);
        let class: Vec<QuadIds> = (0..2_000).map(|n| quad(n, 0, 5_000)).collect();
        let change = |writers: &mut [ShardWriter], sn: Sn, mutations: Vec<Mutation>| {
            apply(&store, writers, sn, &mutations);
            store.snapshots().publish_stable(sn);
        };
        let inserts = class.iter().copied().map(Mutation::insert).collect();
        change(&mut writers, Sn(1), inserts);
        // The first step asks for the renewal's first marker, and folding sets what is asked for.
        assert_eq!(
            store.renew_portion(RenewalNeed::Worthwhile),
            RenewalState::Waiting
        );
        writers[0].fold(0);
        // A builder that still waits after its marker is set has left the rest to the writer.
        let mut waits = 0;
        while is_left_to_writer && waits < 2 {
            waits = match store.renew_portion(RenewalNeed::Worthwhile) {
                RenewalState::Waiting => waits + 1,
                _ => 0,
            };
            writers[0].fold(0);
        }
        let delete = |quads: &[QuadIds]| quads.iter().copied().map(Mutation::delete).collect();
        change(&mut writers, Sn(2), delete(&class[..800]));
        let marker = store.mark();
        change(&mut writers, Sn(3), delete(&class[800..1_600]));
        assert_eq!(marker.after(), Some(Sn(2)), "between the changes");
        assert_eq!(renew_to_the_end(&store, &mut writers), 1);
        let snapshot = store.pin_stable();
        let model: Quads = class[1_600..].iter().copied().collect();
        let vertices: Vec<TermId> = (0..2_000).chain([5_000]).map(vertex).collect();
        compare(&snapshot, &model, &vertices);
        store.check().expect("the invariants hold");
    }
}

#[test]
fn a_marker_lists_what_changes_after_it() {
    let store = Store::new(1);
    let mut writers = writers(&store);
    let mut sn = Sn::ZERO;
    let mut change = |writers: &mut [ShardWriter], quads: &[QuadIds]| {
        sn = sn.next();
        let mutations: Vec<Mutation> = quads.iter().copied().map(Mutation::insert).collect();
        apply(&store, writers, sn, &mutations);
        store.snapshots().publish_stable(sn);
    };
    change(&mut writers, &[quad(1, 1, 2)]);
    let since = store.mark();
    change(&mut writers, &[quad(3, 1, 4)]);
    assert_eq!(since.after(), Some(Sn(1)), "set before the change");
    change(&mut writers, &[quad(3, 1, 5), quad(1, 1, 2)]);
    let until = store.mark();
    writers[0].fold(0);
    let changed = |since: &Marker, until: &Marker| -> Vec<ListEntry> {
        let reader = store.changes_at(since, until, ShardId(0), until.stable());
        let mut reader = reader.expect("stable");
        assert!(!reader.is_whole());
        let mut out = Vec::new();
        while reader.portion(1, &mut |key, ids| out.push((key, ids.to_vec()))) {}
        out
    };
    let found = changed(&since, &until);
    let vertices: BTreeSet<TermId> = found.iter().map(|(key, _)| key.vertex).collect();
    assert_eq!(
        vertices,
        BTreeSet::from([3, 4, 5].map(vertex)),
        "1 to 2 was there"
    );
    assert_eq!(found.len(), 3);
    // A thousand markers and more: marks of cells begin again.
    let mut last = store.mark();
    writers[0].fold(0);
    for _ in 0..if cfg!(miri) { 3 } else { 2_100 } {
        last = store.mark();
        writers[0].fold(0);
    }
    change(&mut writers, &[quad(3, 1, 6)]);
    let until = store.mark();
    writers[0].fold(0);
    let found = changed(&last, &until);
    let vertices: BTreeSet<TermId> = found.iter().map(|(key, _)| key.vertex).collect();
    assert_eq!(vertices, BTreeSet::from([3, 6].map(vertex)));
    // And since the first marker.
    assert_eq!(changed(&since, &until).len(), 4);
}

/// A renewal publishes a generation that shows the SN of a reader under way, and the old one goes.
#[test]
fn a_reader_goes_on_in_another_generation() {
    let count = if cfg!(miri) { 12 } else { 300 };
    for stop in [0, 1, 7, 20, 40, 90] {
        let store = Store::with_images_from(1, 1, 3);
        let mut writers = writers(&store);
        let model: Quads = (0..count).map(|n| quad(n, n % 4, n * 3 % 50)).collect();
        let mutations: Vec<Mutation> = model.iter().copied().map(Mutation::insert).collect();
        apply(&store, &mut writers, Sn(1), &mutations);
        store.snapshots().publish_stable(Sn(1));
        let mut reader = store.lists_at(ShardId(0), Sn(1)).expect("stable");
        let mut found = Vec::new();
        for _ in 0..stop {
            reader.portion(3, &mut |key, ids| found.push((key, ids.to_vec())));
        }
        let old = store.memory().stored_bytes;
        assert!(renew_to_the_end(&store, &mut writers) > 0);
        let both = store.held_bytes();
        while reader.portion(3, &mut |key, ids| found.push((key, ids.to_vec()))) {
            writers[0].fold(usize::MAX);
        }
        assert_eq!(
            found,
            Vec::from_iter(lists_of(&model)),
            "stopped after {stop} portions"
        );
        assert!(
            cfg!(miri) || both.get(&Sn(1)).is_some_and(|held| *held > 0),
            "{both:?}"
        );
        assert!(
            cfg!(miri) || store.superseded() == 0,
            "the reader keeps the new one"
        );
        assert!(cfg!(miri) || store.memory().stored_bytes < old);
    }
}

/// The steps of `ListReader`'s file, with work of later SNs handed out between any two of them.
#[test]
fn a_copy_is_brought_up_to_date_while_the_writer_goes_on() {
    let store = Store::new(1);
    let mut writers = writers(&store);
    let mut sn = Sn::ZERO;
    // The SN after the stable one, whose batch has been applied.
    let change = |writers: &mut [ShardWriter], sn: &mut Sn, object: u64| {
        *sn = sn.next();
        apply(
            &store,
            writers,
            *sn,
            &[Mutation::insert(quad(1, 1, object))],
        );
    };
    let key = |vertex_number: u64, direction| ListKey {
        direction,
        graph: graph(0),
        predicate: predicate(1),
        vertex: vertex(vertex_number),
    };
    let mut since = store.mark();
    writers[0].fold(0);
    let mut copy: BTreeMap<ListKey, Vec<TermId>> = BTreeMap::new();
    for round in 0..6u64 {
        let object = 10 + 4 * round;
        change(&mut writers, &mut sn, object);
        let marker = store.mark();
        let c = sn;
        let pin = store.pin(c).expect("it is ahead");
        // Later SNs are applied before c is stable, and before the second marker.
        change(&mut writers, &mut sn, object + 1);
        store.snapshots().publish_stable(c);
        change(&mut writers, &mut sn, object + 2);
        let until = store.mark();
        change(&mut writers, &mut sn, object + 3);
        let mut reader = store
            .changes_at(&since, &until, ShardId(0), c)
            .expect("pinned");
        assert!(!reader.is_whole());
        while reader.portion(2, &mut |key, ids| drop(copy.insert(key, ids.to_vec()))) {}
        drop(pin);
        since = marker;
        assert!(since.after().is_some_and(|after| after <= c));
        let mut objects: Vec<TermId> = (10..=object).map(vertex).collect();
        objects.sort_unstable();
        assert_eq!(copy[&key(1, Direction::Out)], objects);
        assert_eq!(copy[&key(object, Direction::In)], [vertex(1)]);
        store.snapshots().publish_stable(sn);
    }
}
