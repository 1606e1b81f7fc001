//! The runtime of the engine: shards and their injectors, the fabric between them, and the driver,
//! which is the one thread that puts inputs in order.
//!
//! Shards, dictionary and slices are owned outside the fabric and survive it (S16); queries run on
//! the pool, never inside a timely operator; nothing is answered, fired or delivered from a
//! snapshot number that is not stable (S5).
//!
//! Rooms, lowest first: clock, credit, slot, feeds, fabric, error, handover, resolver, host,
//! delivery, replay, checkpoints, lane, sequencer, driver.

mod checkpoints;
mod clock;
mod credit;
mod delivery;
mod driver;
mod error;
mod fabric;
mod feeds;
mod handover;
mod host;
mod lane;
mod replay;
mod resolver;
mod sequencer;
mod slot;

pub use checkpoints::{
    CheckpointConfig, CheckpointRuns, CheckpointStatus, CheckpointWriter, NewestCheckpoint,
    RecentCheckpoint, RestartEstimate, Restored, RestoredState, restore_checkpoint, restore_newest,
};
pub use clock::{Clock, ManualClock, Now, SystemClock};
pub use driver::{
    Driver, DriverParts, DriverStatus, MessageOffer, MessageReceipt, Pending, PendingInput,
    ProcedureCall, Process, SourceProgress,
};
pub use error::RuntimeError;
pub use fabric::{
    AheadWork, Apply, BatchPortion, DueWindows, Fabric, FabricError, Injectors, OnApplied,
    PreparedFacts, ShardCounters, ShardWork, SimFabric, SliceKind, SliceWork, TimelyFabric,
    window_version,
};
pub use feeds::{FeedEnd, FeedReader, FeedStart, StreamMessage};
pub use host::{
    DerivedOutput, DueSnapshot, Exceeded, Fired, FiringAcks, FiringJob, Host, HostReport,
    LimitReport, OutboxReport, SavedRecords,
};
#[doc(hidden)]
pub use lane::saved_transactions_again;
pub use lane::{
    AnalysedEffects, AnswerRoom, CallAnalysis, CallAnswer, CallArguments, CallKey, CallOutcome,
    DataflowListing, NativeBody, ProcedureStatus, StoppedDataflow, TransactionCounts,
    UnreadOutcome, UpdateJob, UpdateOutcome, UpdateResult,
};
pub use resolver::{gather_blocks, intern_quad_with};
pub use sequencer::{Change, ChangeJob, DriverConfig, InputReceipt, Outcome};
