//! Checkpoints of a running engine: what the sequencer has frozen is written to files, and an
//! engine begins from them.
//!
//! Before changing anything here: a checkpoint is the state after the log's records up to one
//! position, at the newest SN that was cut there. The log is replayed behind that position, so
//! whatever a record up to there has changed is in the files, or was waited for.

mod restore;
mod write;

pub use restore::{Restored, restore_checkpoint};
pub use write::CheckpointWriter;
pub(crate) use write::FrozenState;
