//! Settings of a log. They decide when bytes are written and how they fall into files, never which
//! records are there.

use crate::progress::OpenProgress;
use std::num::NonZero;
use std::sync::Arc;
use std::time::Duration;

/// The threads on which a log writes and syncs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CommitMode {
    /// On a thread of its own.
    #[default]
    Thread,
    /// On the threads of its callers, group by group: [`Log::commit`](crate::Log::commit). Calls
    /// that wait commit instead. So a single thread can decide when each group becomes durable.
    Callers,
}

/// Settings of a log.
#[derive(Clone, Debug)]
pub struct LogOptions {
    /// The threads on which it writes and syncs.
    pub commits: CommitMode,
    /// A new segment file is begun when the newest has reached this length.
    pub segment_bytes: u64,
    /// `append` waits while more bytes than these have not been written yet.
    pub pending_bytes: usize,
    /// The space that is set aside beyond the end of the newest segment, so that a full disk is met
    /// before a write fails.
    pub ahead_bytes: u64,
    /// The space of the file `log.reserve`, which is given up when the disk is full.
    pub reserve_bytes: u64,
    /// On a full disk, the time after which it is tried whether there is room again.
    pub room_patience: Duration,
    /// After this time without records, a witness is written behind the last group, by which damage
    /// to that group can later be told from an incomplete write.
    pub idle_witness: Duration,
    /// After this number of groups, the proof file is written.
    pub proof_groups: u32,
    /// After this time without records, the proof file is written if it is behind.
    pub idle_proof: Duration,
    /// The number of threads that decode a long log ahead of its reader, besides one that reads it;
    /// 0 for the reader's own thread, and always so if callers commit.
    pub decoders: usize,
    /// Whether the folder was copied from one that may go on. This opening then begins a branch:
    /// its number is far from those that the original will give, so that nothing which the two
    /// write from now on reads as a part of the other. The mark of a copy is taken away.
    pub is_copy: bool,
    /// Told how far opening is, and then how far its records and load segments have been read.
    pub progress: Arc<OpenProgress>,
}

impl Default for LogOptions {
    fn default() -> LogOptions {
        LogOptions {
            commits: CommitMode::Thread,
            segment_bytes: 64 << 20,
            pending_bytes: 64 << 20,
            ahead_bytes: 8 << 20,
            reserve_bytes: 8 << 20,
            room_patience: Duration::from_millis(500),
            idle_witness: Duration::from_millis(5),
            proof_groups: 256,
            idle_proof: Duration::from_secs(1),
            decoders: std::thread::available_parallelism().map_or(1, NonZero::get),
            is_copy: false,
            progress: Arc::default(),
        }
    }
}
