//! The effects of applying a batch, or the reason why it was refused.

use somersault_model::{ShardId, Sn};

/// A shard's writer cannot be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "shard {} has its one writer already, or lost it in a panic while it applied a snapshot: \
     end the other generation, or restart and recover from the log", .0.0
)]
pub struct WriterTaken(pub ShardId);

/// The reason why a batch was not applied. Nothing of it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ApplyError {
    /// SNs ascend.
    #[error(
        "snapshot {sn} came to a shard that is at {at} already; apply snapshots in ascending order"
    )]
    OutOfOrder {
        /// The batch's SN.
        sn: Sn,
        /// The last SN that the shard has applied.
        at: Sn,
    },
    /// A stable SN never changes (SN-1).
    #[error(
        "snapshot {sn} cannot change any more, {stable} is stable already; apply it before publishing it"
    )]
    AlreadyStable {
        /// The batch's SN.
        sn: Sn,
        /// The stable SN.
        stable: Sn,
    },
    /// One writer per shard.
    #[error("a batch for shard {} came to the writer of shard {}; route it by ShardBatch::shard", .batch.0, .writer.0)]
    WrongShard {
        /// The shard of the batch.
        batch: ShardId,
        /// The shard of the writer that got it.
        writer: ShardId,
    },
}

/// The changes that applying a batch made. Statements are counted at the owner of the subject, so
/// sums over the shards are exact.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Applied {
    /// Statements that did not hold before.
    pub inserted: u64,
    /// Statements that held before.
    pub deleted: u64,
}
