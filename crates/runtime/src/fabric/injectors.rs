//! The injectors: the one writer of each shard, owned outside the fabric so that shards survive it
//! (S16). A mutex guards each writer; only its shard's thread takes it, so it is never contended.

use crate::fabric::ahead::{AheadWork, PreparedBatches};
use crate::fabric::{Apply, ShardWork, SliceKind, SliceWork};
use parking_lot::Mutex;
use somersault_model::{BatchNumber, ShardId, Sn, StreamUid};
use somersault_store::{ShardWriter, Slice, Store, WriterTaken};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The number of lists that an injector folds at each tidying.
const FOLDS_PER_TIDYING: usize = 64;

/// The writers of all shards.
pub struct Injectors {
    store: Arc<Store>,
    writers: Vec<Mutex<ShardWriter>>,
    counters: Vec<Counters>,
    /// Per shard: the slices that it has built since it last settled.
    put_down: Vec<Mutex<VecDeque<PutDown>>>,
    /// Per shard: what it has prepared of batches that are open.
    prepared: Vec<PreparedBatches>,
}

/// A slice that was added to a stream.
struct PutDown {
    sn: Sn,
    stream: StreamUid,
    batch: BatchNumber,
}

#[derive(Default)]
struct Counters {
    injected: AtomicU64,
    slices: AtomicU64,
    applied: AtomicU64,
}

/// Counters of one shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShardCounters {
    /// Half edges written, and statements put into slices.
    pub injected: u64,
    /// Slices built.
    pub slices: u64,
    /// The newest SN that had work for it.
    pub applied: Sn,
}

impl Injectors {
    /// Takes the writers of all shards.
    ///
    /// # Errors
    /// One of the writers is taken already.
    pub fn new(store: &Arc<Store>) -> Result<Injectors, WriterTaken> {
        let shards = store.placement().all();
        let writers: Result<Vec<_>, _> = shards
            .map(|shard| store.take_writer(shard).map(Mutex::new))
            .collect();
        let writers = writers?;
        Ok(Injectors {
            store: Arc::clone(store),
            counters: writers.iter().map(|_| Counters::default()).collect(),
            put_down: writers.iter().map(|_| Mutex::default()).collect(),
            prepared: writers.iter().map(|_| PreparedBatches::default()).collect(),
            writers,
        })
    }

    /// The counters of each shard, in order of shards.
    pub fn counters(&self) -> Vec<ShardCounters> {
        self.counters
            .iter()
            .map(|counters| ShardCounters {
                injected: counters.injected.load(Ordering::Relaxed),
                slices: counters.slices.load(Ordering::Relaxed),
                applied: Sn(counters.applied.load(Ordering::Relaxed)),
            })
            .collect()
    }
}

impl Injectors {
    /// Turns a closed batch into a slice, or changes its slice.
    fn put(&self, shard: ShardId, sn: Sn, work: &SliceWork) {
        let slices = self.store.slices();
        let build = |revision| {
            let slice = Slice::build(work.batch, work.interval, revision, &work.statements);
            slice.with_lease(work.lease.clone())
        };
        if work.kind == SliceKind::Whole {
            let rows = self.prepared[usize::from(shard.0)].take_rows(work);
            let slice = Slice::of_rows(work.batch, work.interval, (0, rows), &work.statements);
            slices.insert(work.stream, slice.with_lease(work.lease.clone()));
            return;
        }
        let floor = self.store.snapshots().floor();
        slices.amend(work.stream, work.batch, sn, floor, |old| match old {
            Some(old) if work.kind == SliceKind::Late => {
                old.with_late(work.interval, &work.statements, work.lease.clone())
            }
            Some(old) => build(old.revision() + 1),
            None => build(1),
        });
    }
}

impl Apply for Injectors {
    fn tidy(&self, shard: ShardId) {
        let mut writer = self.writers[usize::from(shard.0)].lock();
        writer.fold(FOLDS_PER_TIDYING);
        writer.renew();
    }

    fn prepare(&self, shard: ShardId, work: AheadWork) {
        let index = usize::from(shard.0);
        match work {
            AheadWork::Portion(portion) => self.prepared[index].add(portion),
            AheadWork::Forget(stream) => self.prepared[index].forget(stream),
        }
    }

    fn settle(&self, shard: ShardId, applied: Sn) {
        self.writers[usize::from(shard.0)].lock().settle();
        let mut ends: BTreeMap<StreamUid, BatchNumber> = BTreeMap::new();
        {
            let mut put_down = self.put_down[usize::from(shard.0)].lock();
            let count = put_down.partition_point(|slice| slice.sn <= applied);
            for slice in put_down.drain(..count) {
                // A stream's batches come in order, each in one SN: the last one counts.
                ends.insert(slice.stream, slice.batch.next());
            }
        }
        for (stream, end) in ends {
            self.store.slices().merge_ahead(stream, end);
            self.store.slices().forget_passed(stream);
        }
        self.writers[usize::from(shard.0)].lock().renew();
    }

    fn apply(&self, shard: ShardId, sn: Sn, mut work: ShardWork) {
        let index = usize::from(shard.0);
        let counters = &self.counters[index];
        self.prepared[index].insert_facts(&work.prepared, &mut work.batch);
        let mut injected = work.batch.len() as u64;
        if !work.batch.is_empty() {
            let mut writer = self.writers[index].lock();
            let applied = writer.apply_promptly(sn, &work.batch);
            assert!(
                applied.is_ok(),
                "an injector gets its own batches in order: {applied:?}"
            );
        }
        for slice in work.slices {
            injected += slice.statements.len() as u64;
            self.put(shard, sn, &slice);
            if slice.kind == SliceKind::Whole {
                self.put_down[index].lock().push_back(PutDown {
                    sn,
                    stream: slice.stream,
                    batch: slice.batch,
                });
            }
            counters.slices.fetch_add(1, Ordering::Relaxed);
        }
        if let Some(windows) = work.windows {
            windows.shard_done(&self.store);
        }
        counters.injected.fetch_add(injected, Ordering::Relaxed);
        counters.applied.fetch_max(sn.0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use somersault_model::{
        EventTime, Millis, Mutation, Placement, QuadIds, Tag, TermId, TimedTriple, TripleIds,
        VirtualShard,
    };
    use somersault_store::{RenewalNeed, RenewalState, ShardBatch, ViewKey};

    const STREAM: StreamUid = StreamUid(3);
    const SHARDS: u16 = 2;

    fn work(batch: i64) -> (ShardId, ShardWork) {
        let shard = (batch % i64::from(SHARDS)) as u16;
        let id = |number| TermId::from_raw(1 << 60 | number);
        let slice = SliceWork {
            stream: STREAM,
            batch: BatchNumber(batch),
            interval: Millis(1),
            statements: vec![TimedTriple {
                at: EventTime(batch),
                triple: TripleIds::new(id(batch as u64), id(9_999), id(7)),
            }],
            lease: None,
            kind: SliceKind::Whole,
        };
        let placement = Placement::new(SHARDS);
        let work = ShardWork {
            batch: ShardBatch::split(&[], placement).swap_remove(usize::from(shard)),
            prepared: Vec::new(),
            slices: vec![slice],
            windows: None,
        };
        (ShardId(shard), work)
    }

    #[test]
    fn slices_applied_by_all_shards_are_merged_for_the_next_window_only() {
        let store = Store::new(SHARDS);
        let injectors = Injectors::new(&store).unwrap();
        let view = ViewKey {
            range: 20,
            until: 0,
            step: 1,
        };
        let window_at = |batch: i64| {
            let (lo, hi) = (BatchNumber(batch - view.range), BatchNumber(batch));
            store.slices().window(STREAM, lo, hi, view)
        };
        let settle =
            |applied| (0..SHARDS).for_each(|shard| injectors.settle(ShardId(shard), applied));
        for batch in 0..40 {
            let (shard, work) = work(batch);
            injectors.apply(shard, Sn(batch as u64 + 1), work);
            let window = window_at(batch + 1);
            assert_eq!(window.len() as i64, (batch + 1).min(view.range));
            assert_eq!(window.run_count(), if batch == 0 { 1 } else { 2 });
            settle(Sn(batch as u64 + 1));
        }
        // Another shard has not applied what this one has: nothing is made of it yet.
        let (shard, work) = work(40);
        injectors.apply(shard, Sn(41), work);
        assert_eq!(window_at(41).run_count(), 2);
        settle(Sn(40));
        let (shard, work) = self::work(41);
        injectors.apply(shard, Sn(42), work);
        assert_eq!(window_at(42).run_count(), 1, "it was merged at its close");
    }

    /// What many small batches added goes into images, without work of the shards for it other than
    /// what they do between batches.
    #[test]
    fn images_are_renewed_between_batches() {
        let store = Store::with_images_from(SHARDS, 64, 1);
        let injectors = Injectors::new(&store).unwrap();
        let placement = Placement::new(SHARDS);
        let mut renewed = 0;
        for sn in 1..200u64 {
            let node = |number: u64| {
                let home = VirtualShard::truncated((number * 37 % 4096) as u16);
                TermId::in_dictionary(Tag::NamedNode, home, number / 4096)
            };
            let mutation = |number: u64| {
                Mutation::insert(QuadIds {
                    graph: TermId::DEFAULT_GRAPH,
                    subject: node(sn * 20 + number),
                    predicate: node(9_999),
                    object: node(7),
                })
            };
            let mutations: Vec<Mutation> = (0..20).map(mutation).collect();
            for batch in ShardBatch::split(&mutations, placement) {
                let shard = batch.shard();
                let work = ShardWork {
                    batch,
                    prepared: Vec::new(),
                    slices: Vec::new(),
                    windows: None,
                };
                injectors.apply(shard, Sn(sn), work);
            }
            store.snapshots().publish_stable(Sn(sn));
            for shard in placement.all() {
                injectors.settle(shard, Sn(sn));
            }
            for _ in 0..20 {
                renewed += usize::from(
                    store.renew_portion(RenewalNeed::Worthwhile) == RenewalState::Working,
                );
            }
        }
        assert!(renewed > 100, "{renewed} steps");
        let sets = store.pin_stable().predicate_sets(TermId::DEFAULT_GRAPH, 10);
        let in_images: u64 = sets.iter().flatten().map(|(_, count)| count).sum();
        assert!(
            in_images > 199 * 10,
            "{in_images} of 3980 subjects are in images"
        );
        store.check().unwrap();
    }
}
