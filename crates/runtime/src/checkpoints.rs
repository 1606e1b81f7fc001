//! Checkpoints of a running engine: what the sequencer has frozen is written to files, and an
//! engine begins from them.
//!
//! Before changing anything here: a checkpoint is the state after the log's records up to one
//! position, at the newest SN that was cut there. The log is replayed behind that position, so
//! whatever a record up to there has changed is in the files, or was waited for.

mod lists;
mod policy;
mod restore;
mod status;
mod write;

pub(crate) use lists::CheckpointMarkers;
pub use policy::{CheckpointConfig, RestartEstimate};
pub(crate) use policy::{CheckpointPolicy, Opened};
pub use restore::{RecentCheckpoint, Restored, RestoredState, restore_checkpoint, restore_newest};
pub(crate) use status::CheckpointedNumbers;
pub use status::{CheckpointStatus, NewestCheckpoint};
pub use write::CheckpointWriter;
pub(crate) use write::{FrozenState, StopFlag};

use lists::ListRuns;
use somersault_checkpoint::TermRuns;

/// The files of a checkpoint that the one after it can carry over.
#[derive(Default)]
pub struct CheckpointRuns {
    terms: TermRuns,
    /// `None` before the first checkpoint, and if its shards were others.
    lists: Option<ListRuns>,
}
