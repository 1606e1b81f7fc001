//! SN-1 with real threads: writers inject without pause while readers pin, read, read again and
//! compare with what must hold at that SN. Each SN moves one mark along a chain, so that a reader
//! can tell from the SN alone what it has to see.

use crate::reference::{predicate, vertex};
use somersault_model::{Direction, Mutation, Operation, Placement, QuadIds, ShardId, Sn, TermId};
use somersault_store::{ListKey, RenewalNeed, ShardBatch, Snapshot, Store};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const KEYS: u64 = if cfg!(miri) { 4 } else { 64 };
const WIDTH: u64 = 40;
const GRAPH: TermId = TermId::DEFAULT_GRAPH;

fn quad(key: u64, member: u64) -> QuadIds {
    QuadIds {
        graph: GRAPH,
        subject: vertex(key),
        predicate: predicate(1),
        object: vertex(1_000 + member),
    }
}

/// Key k holds, at SN n, the members n−WIDTH+1 ..= n for every SN that touched k (n ≡ k mod 4).
fn members(key: u64, sn: u64) -> Vec<TermId> {
    let from = sn.saturating_sub(WIDTH - 1).max(1);
    let mut ids: Vec<_> = (from..=sn)
        .filter(|n| n % 4 == key % 4)
        .map(|n| vertex(1_000 + n))
        .collect();
    ids.sort_unstable();
    ids
}

fn mutations(sn: u64) -> Vec<Mutation> {
    let mut out = Vec::new();
    for key in 0..KEYS {
        if sn % 4 == key % 4 {
            out.push(Mutation::insert(quad(key, sn)));
        }
        if sn > WIDTH && (sn - WIDTH) % 4 == key % 4 {
            out.push(Mutation::delete(quad(key, sn - WIDTH)));
        }
    }
    // New keys all the time, so that tables grow under the readers.
    out.push(Mutation::insert(quad(10_000 + sn, sn)));
    out
}

/// The batches of an SN, applied one after the other. With loads, the insertions of some SNs are
/// one batch, which may make a new generation, and the deletions of that SN follow it.
fn batches(sn: u64, loads: bool, placement: Placement) -> Vec<Vec<ShardBatch>> {
    let mut mutations = mutations(sn);
    if !loads || sn % 5 != 3 {
        return vec![ShardBatch::split(&mutations, placement)];
    }
    let quads: Arc<[QuadIds]> = (mutations.iter())
        .filter(|mutation| mutation.operation == Operation::Insert)
        .map(|mutation| mutation.quad)
        .collect();
    mutations.retain(|mutation| mutation.operation == Operation::Delete);
    vec![
        ShardBatch::split_with_loads(&[quads], &[], placement),
        ShardBatch::split(&mutations, placement),
    ]
}

fn verify(snapshot: &Snapshot) {
    let sn = snapshot.sn().0;
    let mut scratch = Vec::new();
    for key in 0..KEYS {
        let read = snapshot.neighbours(
            GRAPH,
            vertex(key),
            predicate(1),
            Direction::Out,
            &mut scratch,
        );
        assert_eq!(read, members(key, sn), "SN-1: key {key} at SN {sn}");
        let newest = quad(key, sn);
        assert_eq!(snapshot.contains(newest), sn % 4 == key % 4 && sn > 0);
    }
    let keys: Vec<TermId> = (0..KEYS).map(vertex).collect();
    let (mut rows, mut ids) = (Vec::new(), Vec::new());
    snapshot.expand(
        GRAPH,
        predicate(1),
        Direction::Out,
        &keys,
        0,
        usize::MAX,
        &mut rows,
        &mut ids,
    );
    let expected: Vec<TermId> = (0..KEYS).flat_map(|key| members(key, sn)).collect();
    assert_eq!(ids, expected, "SN-1: a column at SN {sn}");
    let own = snapshot.neighbour_estimate(GRAPH, vertex(10_000 + sn), predicate(1), Direction::Out);
    assert_eq!(own, usize::from(sn > 0));
    let next = quad(10_001 + sn, sn + 1);
    assert!(!snapshot.contains(next));
    let index = snapshot.vertices_with(GRAPH, predicate(1), Direction::Out, &mut scratch);
    assert!(index.is_sorted_by(|a, b| a < b));
    assert_eq!(
        index.iter().filter(|v| v.sequence() >= 10_000).count() as u64,
        sn
    );
}

/// As [`verify`], through readers of all lists of edges.
fn verify_lists(store: &Arc<Store>) {
    let pin = store.pin_stable();
    let sn = pin.sn();
    let mut subjects = 0;
    for shard in store.placement().all() {
        let mut reader = store.lists_at(shard, sn).expect("it is pinned");
        let mut visit = |key: ListKey, ids: &[TermId]| {
            if key.direction == Direction::In {
                return;
            }
            let number = key.vertex.sequence();
            if number < KEYS {
                assert_eq!(ids, members(number, sn.0), "SN-1: list {number} at SN {sn}");
            } else {
                subjects += 1;
            }
        };
        while reader.portion(40, &mut visit) {
            std::thread::yield_now();
        }
    }
    assert_eq!(subjects, sn.0, "the lists at SN {sn}");
}

fn stress(shards: u16, last: u64, loads: bool, renewals: bool) {
    let store = if loads || renewals {
        Store::with_images_from(shards, 1, 1)
    } else {
        Store::new(shards)
    };
    let stop = AtomicBool::new(false);
    let applied: Vec<AtomicU64> = (0..shards).map(|_| AtomicU64::new(0)).collect();
    std::thread::scope(|scope| {
        for shard in 0..shards {
            let mut writer = store.take_writer(ShardId(shard)).expect("free");
            let (store, applied) = (&store, &applied);
            scope.spawn(move || {
                for sn in 1..=last {
                    // Stay at most a few SNs ahead of what is stable.
                    while store.snapshots().stable().0 + 3 < sn {
                        std::thread::yield_now();
                    }
                    for batches in batches(sn, loads, store.placement()) {
                        writer
                            .apply(Sn(sn), &batches[usize::from(shard)])
                            .expect("in order");
                    }
                    if renewals {
                        writer.renew();
                    }
                    applied[usize::from(shard)].store(sn, Ordering::Release);
                }
            });
        }
        for reader in 0..if cfg!(miri) { 1 } else { 3 } {
            let (store, stop): (&Arc<Store>, _) = (&store, &stop);
            scope.spawn(move || {
                let mut held: Vec<Snapshot> = Vec::new();
                let mut turn = reader;
                while !stop.load(Ordering::Acquire) {
                    let snapshot = store.pin_stable();
                    verify(&snapshot);
                    turn += 1;
                    if turn % 5 == 0 {
                        held.push(snapshot);
                    }
                    if held.len() > 3 {
                        for old in &held {
                            verify(old);
                        }
                        held.remove(turn % 3);
                    }
                }
            });
        }
        if renewals {
            let (store, stop): (&Arc<Store>, _) = (&store, &stop);
            scope.spawn(move || {
                while !stop.load(Ordering::Acquire) {
                    store.renew_portion(RenewalNeed::Worthwhile);
                }
            });
            scope.spawn(move || {
                while !stop.load(Ordering::Acquire) {
                    verify_lists(store);
                }
            });
        }
        while store.snapshots().stable().0 < last {
            let lowest = applied.iter().map(|a| a.load(Ordering::Acquire)).min();
            store.snapshots().publish_stable(Sn(lowest.unwrap_or(0)));
            std::thread::yield_now();
        }
        stop.store(true, Ordering::Release);
    });
    store.check().expect("the invariants hold");
    verify(&store.pin_stable());
}

#[test]
fn readers_see_each_sn_whole_while_one_shard_is_written() {
    stress(1, if cfg!(miri) { 6 } else { 800 }, false, false);
}

#[test]
fn readers_see_each_sn_whole_while_three_shards_are_written() {
    stress(3, if cfg!(miri) { 4 } else { 400 }, false, false);
}

#[test]
fn readers_see_each_sn_whole_while_generations_of_one_shard_come_and_go() {
    stress(1, if cfg!(miri) { 9 } else { 800 }, true, false);
}

#[test]
fn readers_see_each_sn_whole_while_generations_of_three_shards_come_and_go() {
    stress(3, if cfg!(miri) { 4 } else { 400 }, true, false);
}

#[test]
fn readers_see_each_sn_whole_while_the_image_of_one_shard_is_renewed() {
    stress(1, if cfg!(miri) { 6 } else { 800 }, false, true);
}

#[test]
fn readers_see_each_sn_whole_while_images_are_renewed_and_loads_come() {
    stress(3, if cfg!(miri) { 4 } else { 400 }, true, true);
}
