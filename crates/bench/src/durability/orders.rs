//! The orders to a process that may be killed, and its replies: a line of JSON each.

use serde::{Deserialize, Serialize};

/// What the process is told to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) enum Order {
    /// Store the network, declare its streams, register its queries.
    Begin {
        /// Whether no statement of the streams is absorbed.
        passing: bool,
    },
    /// Make the rest of the streams ready, after a restart.
    Resume,
    /// Play this event time.
    Play {
        ms: i64,
        paced: bool,
        /// Whether the long query runs beside it.
        beside: bool,
    },
    /// Take a checkpoint.
    Checkpoint,
    /// Find a query that takes about this time.
    FindLongQuery { seconds: u64 },
    /// Tell the state, and the memory.
    Tell,
}

/// The reply to an order; `Answered` comes by itself when the process has opened a folder that has
/// been used.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) enum Reply {
    Done,
    /// The engine is open, and its first one-shot query has this many rows. Making the network
    /// before took `made_s`.
    Answered {
        rows: u64,
        made_s: f64,
    },
    Played(Playing),
    Told(Box<Told>),
    Failed(String),
}

/// How a stretch was played.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Playing {
    pub(super) statements: u64,
    pub(super) behind_ms: u64,
    /// The time that a batch's pushes and its advance took.
    pub(super) batch_p50_ms: f64,
    pub(super) batch_p99_ms: f64,
    /// The most memory that was resident meanwhile.
    pub(super) resident_bytes: u64,
    /// The time that the long query took beside it, if there was one and it has ended.
    pub(super) query_seconds: Option<f64>,
}

/// The state of the process, and what it takes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Told {
    pub(super) state: KeptState,
    pub(super) resident_bytes: u64,
    /// The time that a restart would take, as the engine estimates it.
    pub(super) estimate_s: Option<f64>,
}

/// What must be the same after a restart.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct KeptState {
    pub(super) stored: u64,
    /// The rows of S1–S6.
    pub(super) rows: Vec<u64>,
    /// Of each stream: the statements taken, and its watermark.
    pub(super) streams: Vec<(u64, Option<i64>)>,
    /// Of each continuous query: its name, and its newest close that was answered.
    pub(super) closes: Vec<(String, Option<i64>)>,
}
