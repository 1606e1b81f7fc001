//! The half edges of one SN for one shard.
use serde::{Deserialize, Serialize};
use somersault_model::{Mutation, Placement, QuadIds, ShardId};
use std::sync::Arc;

/// The half edges of one SN for one shard.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ShardBatch {
    shard: ShardId,
}

impl ShardBatch {
    /// One batch per shard, in order of shards (empty ones too). Later mutations of one quad win.
    pub fn split(mutations: &[Mutation], placement: Placement) -> Vec<ShardBatch> {
        unimplemented!()
    }
    /// As [`ShardBatch::split`], with loads (inserts without the wrapping) before the mutations.
    pub fn split_with_loads(
        loads: &[Arc<[QuadIds]>],
        mutations: &[Mutation],
        placement: Placement,
    ) -> Vec<ShardBatch> {
        unimplemented!()
    }
    /// Whose this is.
    pub fn shard(&self) -> ShardId {
        self.shard
    }
    pub fn is_empty(&self) -> bool {
        unimplemented!()
    }
    /// Half edges.
    pub fn len(&self) -> usize {
        unimplemented!()
    }
}
