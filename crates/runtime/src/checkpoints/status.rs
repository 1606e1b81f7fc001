//! What is known of an engine's checkpoints, for people and for sources of streams.
//!
//! Before changing anything here: the sequencer publishes it at each of its looks at the policy, so
//! the numbers may be a second old.

use super::policy::RestartEstimate;
use somersault_checkpoint::Manifest;
use somersault_model::{Sn, StreamUid};
use somersault_stream::SourceNumbers;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The newest whole checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewestCheckpoint {
    /// Its number.
    pub number: u64,
    /// The position of the newest log record that it covers.
    pub position: u64,
    /// Its SN.
    pub sn: Sn,
    /// The bytes of its files.
    pub bytes: u64,
    /// The time from its freezing until it was whole; `None` for the one that the engine began
    /// from.
    pub took: Option<Duration>,
    /// The time of the state that it holds, in milliseconds since the Unix epoch; `None` without a
    /// clock.
    pub taken_ms: Option<i64>,
}

impl NewestCheckpoint {
    /// The checkpoint of a manifest. It was frozen soon after the newest record that it covers.
    pub(crate) fn of(manifest: &Manifest) -> NewestCheckpoint {
        NewestCheckpoint {
            number: manifest.number(),
            position: manifest.position(),
            sn: manifest.sn(),
            bytes: manifest.bytes(),
            took: None,
            // Without a clock, records have time 0.
            taken_ms: Some(manifest.times().newest_ms).filter(|ms| *ms > 0),
        }
    }
}

/// What is known of checkpoints.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckpointStatus {
    /// The newest one.
    pub newest: Option<NewestCheckpoint>,
    /// The age of the state that the newest one holds; `None` without a clock.
    pub age: Option<Duration>,
    /// Whether another is being taken.
    pub is_under_way: bool,
    /// Bytes of log behind the newest one.
    pub log_bytes: u64,
    /// How long a restart would take.
    pub restart: RestartEstimate,
    /// Whether a clean shutdown takes one.
    pub is_due_at_end: bool,
    /// Checkpoints that were taken since the engine was opened.
    pub taken: u64,
    /// Checkpoints that could not be written since then.
    pub failures: u64,
    /// Why the newest attempt failed; `None` if it succeeded.
    pub failure: Option<String>,
    /// Files that were found damaged since then, and whose content the next checkpoint wrote again.
    pub rewritten_files: u64,
}

/// The sequence numbers of sources that the newest checkpoint covers, by stream.
pub(crate) type CheckpointedNumbers = Arc<BTreeMap<StreamUid, SourceNumbers>>;
