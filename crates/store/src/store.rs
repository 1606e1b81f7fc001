//! The store as a whole: a dictionary, shards, slices and the registry of snapshots. It is owned by
//! `Arc`s outside the runtime (S16): writers come and go with a generation, snapshots with queries.

mod check;
mod columns;
mod list_reader;
mod merged_runs;
mod shard_source;
mod snapshot;
mod walk;

pub use check::{Violation, fingerprint};
pub use list_reader::{ListReader, Marker};
pub use merged_runs::{ListRun, MergedRuns};
pub use snapshot::{Ends, Snapshot, SnapshotHold, StoreHold};

use crate::shard::{ImagePolicy, PinnedGeneration, Shard, ShardLayout, ShardWriter, WriterTaken};
use crate::shard::{RenewalNeed, RenewalState, Renewals, ReplacedHold};
use crate::snapshots::{SnapshotError, Snapshots};
use crate::windows::SliceStore;
use parking_lot::Mutex;
use somersault_dictionary::Dictionary;
use somersault_model::{BatchNumber, Placement, ShardId, Sn, StreamUid};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The hybrid store.
pub struct Store {
    dictionary: Arc<Dictionary>,
    shards: Box<[Arc<Shard>]>,
    snapshots: Arc<Snapshots>,
    slices: SliceStore,
    layout: ShardLayout,
    renewals: Mutex<Renewals>,
}

/// Memory by part, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Memory {
    /// Terms.
    pub dictionary_bytes: usize,
    /// Lists, keys and tables of the persistent store, with what waits to be freed.
    pub stored_bytes: usize,
    /// The list of memory that waits to be freed.
    pub retired_bytes: usize,
    /// The approximate part of both that is kept only for snapshots: tails, replaced memory that
    /// may still be seen, and that list. Excludes the images that a large load replaces
    /// ([`Store::superseded`]).
    pub snapshots_bytes: usize,
    /// Slices of all streams.
    pub slices_bytes: usize,
    /// Window versions that are kept for sliding, without the slices that they share.
    pub windows_bytes: usize,
}

impl Store {
    /// An empty store at SN 0 with this many shards (at least 1, at most 256).
    pub fn new(shards: u16) -> Arc<Store> {
        Store::with_dictionary(shards, Dictionary::new())
    }

    /// As [`Store::new`], with a dictionary that was restored: its lists and slices are to follow.
    pub fn with_dictionary(shards: u16, dictionary: Dictionary) -> Arc<Store> {
        Store::with_images(shards, 50_000, 64, dictionary)
    }

    /// As [`Store::new`], for tests that are to meet images early: loads of at least `load` half
    /// edges a shard become images, and predicates with at least `predicate` edges go into them.
    /// As many changed half edges make a renewal, which goes on in steps of as many.
    #[doc(hidden)]
    pub fn with_images_from(shards: u16, load: usize, predicate: usize) -> Arc<Store> {
        Store::with_images(shards, load, predicate, Dictionary::new())
    }

    /// As [`Store::with_images_from`], with a dictionary that was restored.
    #[doc(hidden)]
    pub fn with_images(
        shards: u16,
        load: usize,
        predicate: usize,
        dictionary: Dictionary,
    ) -> Arc<Store> {
        let images = ImagePolicy {
            smallest_load: load,
            smallest_predicate: predicate,
            portion: load.clamp(4, 1 << 12),
        };
        let placement = Placement::new(shards);
        Arc::new(Store {
            dictionary: Arc::new(dictionary),
            shards: placement.all().map(Shard::new).map(Arc::new).collect(),
            snapshots: Arc::new(Snapshots::new()),
            slices: SliceStore::new(),
            layout: ShardLayout { placement, images },
            renewals: Mutex::new(Renewals::new(placement.shards())),
        })
    }

    /// The dictionary.
    #[inline]
    pub fn dictionary(&self) -> &Dictionary {
        &self.dictionary
    }

    /// The dictionary, for callers that decode an answer after its pin is gone.
    pub fn dictionary_arc(&self) -> &Arc<Dictionary> {
        &self.dictionary
    }

    /// The placement of terms on shards.
    #[inline]
    pub fn placement(&self) -> Placement {
        self.layout.placement
    }

    /// The number of shards.
    pub fn shard_count(&self) -> u16 {
        self.layout.placement.shards()
    }

    /// The one writer of a shard.
    ///
    /// # Errors
    /// Fails while another owner has it.
    ///
    /// # Panics
    /// Panics if there is no such shard.
    pub fn take_writer(self: &Arc<Self>, shard: ShardId) -> Result<ShardWriter, WriterTaken> {
        let home = &self.shards[usize::from(shard.0)];
        ShardWriter::take(home, &self.snapshots, self.layout).ok_or(WriterTaken(shard))
    }

    /// The registry of snapshots.
    #[inline]
    pub fn snapshots(&self) -> &Snapshots {
        &self.snapshots
    }

    /// Slices and windows.
    #[inline]
    pub fn slices(&self) -> &SliceStore {
        &self.slices
    }

    /// Frees the slices of the batches before `below`, as [`SliceStore::retire`] does, and the
    /// terms that only they had once no version holds them.
    pub fn retire(&self, stream: StreamUid, below: BatchNumber) {
        self.slices.retire(stream, below);
        self.dictionary.end_epoch(stream);
    }

    /// Pins the stable SN without a deadline.
    pub fn pin_stable(self: &Arc<Self>) -> Snapshot {
        self.pin_newest(None)
    }

    /// Pins the stable SN until a time of the clock whose readings go to [`Snapshots::expire`].
    pub fn pin_stable_until(self: &Arc<Self>, deadline_ms: i64) -> Snapshot {
        self.pin_newest(Some(deadline_ms))
    }

    /// Holds the stable SN until a time of the clock whose readings go to [`Snapshots::expire`].
    pub fn hold_stable_until(self: &Arc<Self>, deadline_ms: i64) -> SnapshotHold {
        let pin = self.snapshots.hold_stable(Some(deadline_ms));
        SnapshotHold::new(Arc::clone(self), pin)
    }

    /// Pins an SN that is pinned already or is at or after the stable one, without a deadline. An
    /// SN after the stable one (of a firing that became due) must not be read before it is stable.
    ///
    /// # Errors
    /// Fails if the SN is not retained (SN-2).
    pub fn pin(self: &Arc<Self>, sn: Sn) -> Result<Snapshot, SnapshotError> {
        let pin = self.snapshots.pin(Some(sn), None)?;
        Ok(Snapshot::new(Arc::clone(self), pin))
    }

    /// A reader of all lists of edges of a shard at an SN, which is stable and can be pinned. It
    /// holds the SN, and renews its pin between portions.
    ///
    /// # Errors
    /// Fails if the SN is not retained (SN-2).
    ///
    /// # Panics
    /// Panics if there is no such shard, or if the SN is not stable yet.
    pub fn lists_at(&self, shard: ShardId, sn: Sn) -> Result<ListReader, SnapshotError> {
        Ok(ListReader::of_all(self.pinned(shard, sn)?))
    }

    /// A reader of the lists of edges of a shard, as they are at an SN, that changed since a
    /// marker: at least those that differ from what an SN showed that came after `since.after()`.
    /// `until` was asked for when `sn` was stable. The reader gives all lists if it is not known
    /// which changed: after a new generation of the shard.
    ///
    /// # Errors
    /// Fails if the SN is not retained (SN-2).
    ///
    /// # Panics
    /// Panics if there is no such shard, or if the SN is not stable yet.
    pub fn changes_at(
        &self,
        since: &Marker,
        until: &Marker,
        shard: ShardId,
        sn: Sn,
    ) -> Result<ListReader, SnapshotError> {
        let at = self.pinned(shard, sn)?;
        Ok(match since.changed_keys(until, shard, &at) {
            Some(keys) if until.stable() >= sn => ListReader::of_keys(at, keys),
            _ => ListReader::of_all(at),
        })
    }

    /// Asks for a marker: a point of each shard from which on its changes are listed. The writers
    /// set it at their next work, before they change anything.
    pub fn mark(&self) -> Marker {
        Marker::new(&self.shards, self.snapshots.stable())
    }

    fn pinned(&self, shard: ShardId, sn: Sn) -> Result<PinnedGeneration, SnapshotError> {
        assert!(sn <= self.snapshots.stable(), "only a stable SN is read");
        let pin = self.snapshots.pin(Some(sn), None)?;
        let shard = &self.shards[usize::from(shard.0)];
        Ok(PinnedGeneration::new(shard, &self.snapshots, pin))
    }

    /// Makes one small step in renewing the images of shards whose writers have changed much since
    /// theirs were made, or begins one where there is this need. Any thread may call this beside
    /// readers and writers, which do not wait for it; of several calls at a time one makes a step.
    pub fn renew_portion(&self, need: RenewalNeed) -> RenewalState {
        match self.renewals.try_lock() {
            Some(mut renewals) => renewals.step(need, &self.shards, &self.snapshots, self.layout),
            None => RenewalState::Idle,
        }
    }

    /// Memory by part, in bytes.
    pub fn memory(&self) -> Memory {
        let sum = |part: fn(&Shard) -> &std::sync::atomic::AtomicUsize| {
            self.shards
                .iter()
                .map(|s| part(s).load(Ordering::Relaxed))
                .sum()
        };
        let (slices_bytes, windows_bytes) = self.slices.total_bytes();
        Memory {
            dictionary_bytes: self.dictionary.memory_bytes(),
            stored_bytes: sum(|shard| &shard.stored_bytes),
            retired_bytes: sum(|shard| &shard.retired_bytes),
            snapshots_bytes: sum(|shard| &shard.snapshot_bytes),
            slices_bytes,
            windows_bytes,
        }
    }

    /// The number of older generations of shards that are kept: large loads have replaced them, and
    /// readers of earlier SNs still need them. When those readers are gone,
    /// [`ShardWriter::fold`](crate::ShardWriter::fold) frees them in the first or second call after
    /// that; applying does so too.
    pub fn superseded(&self) -> usize {
        let counts = self.shards.iter().map(|shard| &shard.superseded);
        counts.map(|count| count.load(Ordering::Relaxed)).sum()
    }

    /// The approximate bytes of replaced memory that readers keep, by pinned SN: each part is
    /// charged to the newest SN whose readers may see it, and is freed when these and the readers
    /// of all earlier SNs are gone. SNs that keep nothing are left out.
    pub fn held_bytes(&self) -> BTreeMap<Sn, usize> {
        let pins = self.snapshots.live();
        let holder = |hold: ReplacedHold| {
            let sees = |(number, sn): &&(u64, Sn)| match hold {
                ReplacedHold::PinsBefore(pin) => *number < pin,
                ReplacedHold::SnsBelow(until) => sn.0 < until,
            };
            pins.iter().filter(sees).map(|(_, sn)| *sn).max()
        };
        let mut held = BTreeMap::new();
        for (hold, bytes) in self.shards.iter().flat_map(|shard| shard.replaced.all()) {
            if let Some(sn) = holder(hold) {
                *held.entry(sn).or_default() += bytes;
            }
        }
        held
    }

    /// The approximate bytes that are kept for readers of earlier SNs: states that they may see,
    /// replaced memory, and older generations.
    pub fn superseded_bytes(&self) -> u64 {
        let of = |shard: &Arc<Shard>| {
            let parts = shard.replaced.all().into_iter();
            let generations = parts.filter(|(hold, _)| matches!(hold, ReplacedHold::SnsBelow(_)));
            let generations = generations.map(|(_, bytes)| bytes).sum::<usize>();
            generations + shard.snapshot_bytes.load(Ordering::Relaxed)
        };
        self.shards.iter().map(of).sum::<usize>() as u64
    }

    /// Checks ST-1, ST-2 and DI-1 at the stable SN, and SN-2. Walks the whole store.
    ///
    /// # Errors
    /// The first violation found.
    pub fn check(self: &Arc<Self>) -> Result<(), Violation> {
        check::check(&self.pin_stable())
    }

    fn pin_newest(self: &Arc<Self>, deadline_ms: Option<i64>) -> Snapshot {
        Snapshot::new(Arc::clone(self), self.snapshots.pin_stable(deadline_ms))
    }

    pub(crate) fn shard(&self, shard: usize) -> &Shard {
        &self.shards[shard]
    }

    pub(crate) fn shards(&self) -> &[Arc<Shard>] {
        &self.shards
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        // What the builder has finished holds its shard.
        for shard in &self.shards {
            drop(shard.renewal.take());
        }
    }
}
