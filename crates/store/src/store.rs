//! The store.
use crate::{Dictionary, ShardBatch, SliceStore, Snapshot, SnapshotError, Snapshots};
use somersault_model::{Placement, ShardId, Sn};
use std::sync::Arc;

pub struct Store {
    dictionary: Arc<Dictionary>,
    snapshots: Snapshots,
    slices: SliceStore,
    placement: Placement,
}

/// A second writer was asked for.
#[derive(Debug, thiserror::Error)]
#[error("shard {} already has its writer: there is one per shard", .0.0)]
pub struct WriterTaken(pub ShardId);

/// A broken invariant.
#[derive(Debug, thiserror::Error)]
#[error("{invariant}: {what}")]
pub struct Violation {
    pub invariant: &'static str,
    pub what: String,
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ApplyError {
    #[error(
        "snapshot {sn} was applied to a shard that is already at {at}; snapshots are applied in ascending order"
    )]
    OutOfOrder { sn: Sn, at: Sn },
    #[error("a batch for shard {} was handed to the writer of shard {}", .batch.0, .writer.0)]
    WrongShard { batch: ShardId, writer: ShardId },
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Applied {
    /// Statements that were new, counted at the owner of the subject: the sum over shards is exact.
    pub inserted: u64,
    pub deleted: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Memory {
    pub dictionary_bytes: usize,
    pub stored_bytes: usize,
    pub retired_bytes: usize,
    pub slices_bytes: usize,
    pub windows_bytes: usize,
}

impl Store {
    pub fn new(shards: u16) -> Arc<Store> {
        unimplemented!()
    }
    pub fn dictionary(&self) -> &Dictionary {
        &self.dictionary
    }
    /// For answers that are decoded after the pin is gone.
    pub fn dictionary_arc(&self) -> &Arc<Dictionary> {
        &self.dictionary
    }
    pub fn placement(&self) -> Placement {
        self.placement
    }
    pub fn shard_count(&self) -> u16 {
        self.placement.shards()
    }
    pub fn take_writer(self: &Arc<Self>, shard: ShardId) -> Result<ShardWriter, WriterTaken> {
        unimplemented!()
    }
    pub fn snapshots(&self) -> &Snapshots {
        &self.snapshots
    }
    pub fn slices(&self) -> &SliceStore {
        &self.slices
    }
    pub fn pin_stable(self: &Arc<Self>) -> Snapshot {
        unimplemented!()
    }
    /// `deadline_ms`: of the clock whose readings are passed to `Snapshots::expire`.
    pub fn pin_stable_until(self: &Arc<Self>, deadline_ms: i64) -> Snapshot {
        unimplemented!()
    }
    /// At or above the floor; may be above stable (a firing that became due pins its SN), but must not be read before it is stable.
    pub fn pin(self: &Arc<Self>, sn: Sn) -> Result<Snapshot, SnapshotError> {
        unimplemented!()
    }
    pub fn pin_until(
        self: &Arc<Self>,
        sn: Sn,
        deadline_ms: i64,
    ) -> Result<Snapshot, SnapshotError> {
        unimplemented!()
    }
    pub fn memory(&self) -> Memory {
        unimplemented!()
    }
    /// ST-1, ST-2 at the stable SN.
    pub fn check(self: &Arc<Self>) -> Result<(), Violation> {
        unimplemented!()
    }
}

/// The one writer of a shard. Dropping it lets another be taken (a new generation, S16).
pub struct ShardWriter {
    store: Arc<Store>,
}

impl ShardWriter {
    pub fn shard(&self) -> ShardId {
        unimplemented!()
    }
    /// SNs ascend; several batches of one SN may follow each other; an SN may be skipped where nothing was for this shard.
    pub fn apply(&mut self, sn: Sn, batch: &ShardBatch) -> Result<Applied, ApplyError> {
        unimplemented!()
    }
    /// Folds what is at or below the floor and frees what no pin can see; at most `lists` lists, returns how many are left. Call it when idle; apply does its share too.
    pub fn fold(&mut self, lists: usize) -> usize {
        unimplemented!()
    }
}
