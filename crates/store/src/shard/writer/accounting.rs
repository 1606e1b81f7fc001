//! Tests of the byte counts that a writer keeps: after any changes they equal what a walk over all
//! cells, lists, tables and images of the shard finds.

use super::{ImagePolicy, ShardLayout, ShardWriter, WriterState};
use crate::lists::Content;
use crate::shard::{PreparedEdges, RenewalNeed, Renewals, Shard, ShardBatch};
use crate::snapshots::{Pin, Snapshots};
use somersault_model::{Mutation, Placement, QuadIds, ShardId, Sn, Tag, TermId, VirtualShard};
use std::collections::HashSet;
use std::sync::Arc;

const ONE_SHARD: Placement = Placement::new(1);

/// Bytes found by a walk.
#[derive(Debug, Default, PartialEq, Eq)]
struct WalkedBytes {
    live: usize,
    tails: usize,
}

fn walk(writer: &ShardWriter) -> WalkedBytes {
    let (shard, state) = writer.parts();
    let mut seen = HashSet::new();
    let mut found = WalkedBytes::default();
    // SAFETY: this is the writer, which frees nothing meanwhile.
    unsafe {
        let generation = shard.at(u64::MAX);
        found.live += generation.own_bytes() + generation.segments.bytes();
        found.live += state.cells.bytes();
        generation.segments.for_each(|cell| match cell.content() {
            Content::Nothing | Content::One { .. } => {}
            Content::Block(_) => found.live += cell.block().bytes(),
            Content::Counter(counter) => found.live += counter.bytes(),
            Content::List(list) => {
                let tails = list.tail.as_ref().map_or(0, |tail| tail.chain_bytes());
                found.tails += tails;
                found.live += size_of_val(list) + tails + list.base.walk_bytes(&mut seen);
            }
        });
    }
    found
}

fn counted(state: &WriterState) -> (isize, usize) {
    (state.live_bytes, state.tail_bytes)
}

fn vertex(n: u64) -> TermId {
    TermId::in_dictionary(Tag::NamedNode, VirtualShard::truncated(n as u16), n + 1)
}

fn quad(subject: u64, object: u64) -> QuadIds {
    QuadIds {
        graph: TermId::DEFAULT_GRAPH,
        subject: vertex(subject),
        predicate: vertex(1 << 20),
        object: vertex(object),
    }
}

/// A single shard that makes images of loads of at least `smallest_load` half edges.
fn alone(smallest_load: usize) -> (Arc<Snapshots>, ShardWriter) {
    let snapshots = Arc::new(Snapshots::new());
    let layout = ShardLayout {
        placement: ONE_SHARD,
        images: ImagePolicy {
            smallest_load,
            smallest_predicate: 64,
            portion: 300,
        },
    };
    let shard = Arc::new(Shard::new(ShardId(0)));
    let writer = ShardWriter::take(&shard, &snapshots, layout).expect("free");
    (snapshots, writer)
}

fn apply(snapshots: &Snapshots, writer: &mut ShardWriter, sn: Sn, mutations: &[Mutation]) {
    let batch = ShardBatch::split(mutations, ONE_SHARD).swap_remove(0);
    writer.apply(sn, &batch).expect("in order");
    snapshots.publish_stable(sn);
}

/// Frees all memory that no pin can see, and compares the counts with a walk.
#[track_caller]
fn compare(writer: &mut ShardWriter) {
    writer.fold(usize::MAX);
    writer.fold(usize::MAX);
    let (_, state) = writer.parts();
    assert!(state.retired.is_empty() && state.superseded.is_empty());
    let found = walk(writer);
    assert_eq!(counted(state), (found.live as isize, found.tails));
}

/// An edge of a hub comes and goes with each snapshot, while a reader is pinned now and then: its
/// list is long, and a few changes to it stay tails.
#[test]
fn changes_to_a_long_list_are_counted_once() {
    let (snapshots, mut writer) = alone(50_000);
    let hub: Vec<_> = (0..5_000).map(|n| Mutation::insert(quad(n, 0))).collect();
    apply(&snapshots, &mut writer, Sn(1), &hub);
    compare(&mut writer);
    let mut pin: Option<Arc<Pin>> = None;
    for sn in 2..400u64 {
        let fresh = 5_000 + sn;
        let mutations = [
            Mutation::insert(quad(fresh, 0)),
            Mutation::delete(quad(sn, 0)),
        ];
        apply(&snapshots, &mut writer, Sn(sn), &mutations);
        match sn % 10 {
            0 => pin = Some(snapshots.pin_stable(None)),
            7 => pin = None,
            _ => {}
        }
    }
    drop(pin);
    compare(&mut writer);
}

/// A batch that inserts the statements of these mutations.
fn inserting(mutations: &[Mutation]) -> ShardBatch {
    let inserts = mutations.iter().map(|it| Mutation::insert(it.quad));
    ShardBatch::split(&inserts.collect::<Vec<_>>(), ONE_SHARD).swap_remove(0)
}

/// A batch that inserts what was prepared, or nothing.
fn closing(prepared: &mut PreparedEdges, closes: bool) -> ShardBatch {
    let mut batch = inserting(&[]);
    if closes {
        batch.insert_prepared(std::mem::take(prepared));
    }
    batch
}

/// Any changes, loads among them, of lists of all lengths.
#[test]
#[cfg_attr(miri, ignore = "minutes under miri")]
fn any_changes_are_counted_as_a_walk_finds_them() {
    for seed in 0..12u64 {
        let (snapshots, mut writer) = alone(2_000);
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut random = move |below: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) % below
        };
        let mut pins: Vec<Arc<Pin>> = Vec::new();
        let mut renewals = Renewals::new(1);
        let mut published = 0;
        let mut prepared = PreparedEdges::default();
        for sn in 1..120u64 {
            let many = [3, 30, 1_500][random(3) as usize];
            let mut mutations = Vec::new();
            for _ in 0..random(many) {
                let quad = quad(
                    random(3_000),
                    [0, random(4), random(3_000)][random(3) as usize],
                );
                mutations.push(match random(3) {
                    0 => Mutation::delete(quad),
                    _ => Mutation::insert(quad),
                });
            }
            if random(20) == 0 {
                let load = (0..1_500).map(|_| quad(random(3_000), random(8)));
                let batch = ShardBatch::split_with_loads(&[load.collect()], &[], ONE_SHARD);
                writer.apply(Sn(sn), &batch[0]).expect("in order");
                snapshots.publish_stable(Sn(sn));
            } else if random(2) == 0 {
                // Two batches of one snapshot.
                let (first, second) = mutations.split_at(mutations.len() / 2);
                let batch = ShardBatch::split(first, ONE_SHARD).swap_remove(0);
                writer.apply(Sn(sn), &batch).expect("in order");
                apply(&snapshots, &mut writer, Sn(sn), second);
            } else if random(3) == 0 {
                prepared.add(inserting(&mutations));
                let batch = closing(&mut prepared, random(2) == 0);
                writer.apply(Sn(sn), &batch).expect("in order");
                snapshots.publish_stable(Sn(sn));
            } else {
                apply(&snapshots, &mut writer, Sn(sn), &mutations);
            }
            match random(4) {
                0 => pins.push(snapshots.pin_stable(None)),
                1 if !pins.is_empty() => drop(pins.swap_remove(0)),
                2 => pins.clear(),
                _ => {}
            }
            for _ in 0..random(30) {
                let shards = [Arc::clone(&writer.shard)];
                renewals.step(RenewalNeed::Worthwhile, &shards, &snapshots, writer.layout);
                published += usize::from(random(4) == 0 && writer.renew());
            }
            if random(20) == 0 {
                pins.clear();
                renewals = Renewals::new(1);
                drop(writer.shard.renewal.take());
                compare(&mut writer);
            }
        }
        assert!(published > 0, "some renewals come to their end");
        pins.clear();
        drop((renewals, writer.shard.renewal.take()));
        compare(&mut writer);
    }
}
