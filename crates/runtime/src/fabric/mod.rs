//! The fabric carries records to the shards and reports the progress of the shards. The core knows
//! this trait and no implementation: [`TimelyFabric`] runs shards on timely workers, [`SimFabric`]
//! runs them all on the calling thread in a seeded random order, and the answers must not differ
//! (CL-1).

mod ahead;
mod due_windows;
mod injectors;
mod simulated;
mod timely;

pub use ahead::{AheadWork, BatchPortion, PreparedFacts};
pub use due_windows::{DueWindows, window_version};
pub use injectors::{Injectors, ShardCounters};
pub use simulated::SimFabric;
pub use timely::TimelyFabric;

use somersault_model::{BatchNumber, Lease, Millis, ShardId, Sn, StreamUid, TimedTriple};
use somersault_store::ShardBatch;
use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

/// A closed batch that a shard turns into a slice.
#[derive(Debug)]
pub struct SliceWork {
    /// The stream.
    pub stream: StreamUid,
    /// The batch.
    pub batch: BatchNumber,
    /// The stream's batch interval.
    pub interval: Millis,
    /// Statements of the batch in order of arrival.
    pub statements: Vec<TimedTriple>,
    /// The lease on the terms of timing statements.
    pub lease: Option<Lease>,
    /// The role of the statements in the slice.
    pub kind: SliceKind,
}

/// The role of the statements of a [`SliceWork`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SliceKind {
    /// All of a batch that has closed just now.
    Whole,
    /// Late ones, of a batch that was a slice before.
    Late,
    /// All of a batch that was another slice before.
    Replaced,
}

/// The work of one SN for one shard.
#[derive(Debug)]
pub struct ShardWork {
    /// Half edges of the stored graphs that this shard owns, without those that it has prepared.
    pub batch: ShardBatch,
    /// The facts that it has prepared, which are inserted with this SN too.
    pub prepared: Vec<PreparedFacts>,
    /// Slices that this shard builds; a slice is built whole by one shard (ADR 1).
    pub slices: Vec<SliceWork>,
    /// The windows of the firings that became due with this SN. Every shard gets them, after its
    /// slices; the last one makes them.
    pub windows: Option<Arc<DueWindows>>,
}

impl ShardWork {
    /// Memory of the work, without loads, which all shards share.
    pub fn bytes(&self) -> usize {
        let slices = self.slices.iter();
        let statements = slices.map(|slice| size_of_val(&slice.statements[..]));
        self.batch.bytes() + statements.sum::<usize>()
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.batch.is_empty()
            && self.prepared.is_empty()
            && self.slices.is_empty()
            && self.windows.is_none()
    }
}

/// The destination of a fabric's work: the shards, which others own. Called on the shard's own
/// thread, for one shard in ascending order of SNs.
pub trait Apply: Send + Sync + 'static {
    /// Applies the work of one SN to one shard.
    fn apply(&self, shard: ShardId, sn: Sn, work: ShardWork);

    /// Does work ahead of the SN that it will be part of. Called in the order in which it was
    /// handed over, also with regard to SNs.
    fn prepare(&self, shard: ShardId, work: AheadWork);

    /// Every shard has applied all SNs up to `applied`: does what applying them to this shard left
    /// for later because no firing waits for it. Called on the shard's own thread, once for SNs
    /// that came together; on the thread that reports what is applied, after it has been reported.
    fn settle(&self, shard: ShardId, applied: Sn) {
        let _ = (shard, applied);
    }

    /// Frees what no reader of a shard can see any more, which applying would do with the next SN,
    /// and goes on with renewing the shard's image.
    /// Called on the shard's own thread as well.
    fn tidy(&self, shard: ShardId) {
        let _ = shard;
    }
}

/// Called whenever [`Fabric::applied`] may have moved or the fabric has failed, from any thread.
pub type OnApplied = Arc<dyn Fn() + Send + Sync>;

/// Why a fabric carries nothing more. The shards stay as they are; a new fabric may go on with
/// them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FabricError {
    /// A worker panicked; that ends the whole generation, never one worker alone.
    #[error(
        "shard {shard} failed ({message}); all shards have been stopped, restart the engine to go on"
    )]
    Worker {
        /// The shard whose work failed.
        shard: u16,
        /// The message of the panic.
        message: String,
    },
    /// The workers could not be started.
    #[error("the shards could not be started: {0}")]
    Start(String),
    /// It was stopped.
    #[error("the shards have been stopped")]
    Stopped,
    /// Workers did not stop in time.
    #[error("the shards did not stop within {} ms", .deadline.as_millis())]
    Deadline {
        /// The time that was waited.
        deadline: Duration,
    },
}

impl FabricError {
    /// The failure of a shard whose work panicked.
    fn of_panic(shard: ShardId, payload: &(dyn Any + Send)) -> FabricError {
        let message = payload
            .downcast_ref::<&str>()
            .map(|text| (*text).to_owned())
            .or_else(|| payload.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "a panic without a message".to_owned());
        let shard = shard.0;
        FabricError::Worker { shard, message }
    }
}

/// The number of portions that shards may have to do before no more are handed to them.
const MOST_PORTIONS: usize = 32;

/// Ordered hand-over of work to shards. SNs are dense and ascend; each is injected at most once per
/// shard and then sealed.
pub trait Fabric: Send {
    /// The number of shards.
    fn shards(&self) -> u16;

    /// Hands over the work of `sn`: at most one item per shard, with the shard that it is for.
    ///
    /// # Errors
    /// The fabric has failed or was stopped.
    fn inject(&mut self, sn: Sn, work: Vec<(ShardId, ShardWork)>) -> Result<(), FabricError>;

    /// Nothing more comes for `sn` or before it.
    ///
    /// # Errors
    /// The fabric has failed or was stopped.
    fn seal(&mut self, sn: Sn) -> Result<(), FabricError>;

    /// Whether it would take portions of open batches now: it takes none while the shards have a
    /// number of them to do, for work is done ahead only where a shard has time for it.
    fn takes_portions(&self) -> bool;

    /// Hands over work that is done ahead of the SN that it will be part of, each with the shard
    /// that it is for. It belongs to no SN, and is done between the SNs injected before and after.
    ///
    /// # Errors
    /// The fabric has failed or was stopped.
    fn prepare(&mut self, work: Vec<(ShardId, AheadWork)>) -> Result<(), FabricError>;

    /// Every shard has applied all SNs up to this one (VT-1: never goes back).
    ///
    /// # Errors
    /// The fabric has failed or was stopped.
    fn applied(&self) -> Result<Sn, FabricError>;

    /// Has every shard tidied up on its own thread, now or soon; see [`Apply::tidy`].
    ///
    /// # Errors
    /// The fabric has failed or was stopped.
    fn tidy(&mut self) -> Result<(), FabricError>;

    /// Does some of the outstanding work on the calling thread, for fabrics that have no threads of
    /// their own; whether there is more to do.
    fn drive(&mut self) -> bool {
        false
    }

    /// Ends it. Outstanding work may or may not be done.
    ///
    /// # Errors
    /// [`FabricError::Deadline`] if workers are still running after `deadline`.
    fn stop(&mut self, deadline: Duration) -> Result<(), FabricError>;
}
