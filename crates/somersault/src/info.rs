//! The engine's reports about its streams, its queries and itself.

use somersault_checkpoint::Manifest;
use somersault_model::{EventTime, Sn};
use somersault_runtime::CheckpointStatus;
use std::time::Duration;

/// A declared stream.
#[derive(Clone, Debug)]
pub struct StreamInfo {
    /// Its IRI.
    pub iri: String,
    /// Its number in this engine.
    pub uid: u32,
    /// The CREATE STREAM text, or the text of the query that derives it.
    pub text: String,
    /// The query that derives it, whose answers are its statements.
    pub derived_by: Option<String>,
    /// Whether it is INTERIOR: procedures fill it, and no client pushes into it.
    pub is_interior: bool,
    /// Its batch interval, in milliseconds.
    pub batch_ms: i64,
    /// Its watermark: every statement with an earlier event time has been seen. `None` before the
    /// first push or advance.
    pub watermark: Option<EventTime>,
    /// Its batches are visible in the stable snapshot up to here.
    pub stable_time: Option<EventTime>,
    /// The distance of `stable_time` behind the watermark, in milliseconds.
    pub lag_ms: Option<i64>,
    /// How far the watermark is ahead of the clock, in milliseconds; `None` if it is not ahead, or
    /// if there is no clock.
    pub ahead_of_clock_ms: Option<i64>,
    /// Statements taken so far.
    pub tuples: u64,
    /// Late statements dropped so far (LATE DROP, and LATE AMEND beyond WITHIN).
    pub late: u64,
    /// Late statements taken so far (LATE AMEND).
    pub amended: u64,
    /// Batches closed so far that were not empty.
    pub batches: u64,
    /// Memory of its slices, in bytes.
    pub memory_bytes: u64,
    /// Limit of that memory (BUDGET), in bytes.
    pub budget_bytes: u64,
    /// The time for which it may be silent before its time follows the clock; `None` is IDLE NEVER.
    pub idle: Option<Duration>,
}

/// A checkpoint.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct CheckpointInfo {
    /// Its number, which stands in the names of its files.
    pub number: u64,
    /// The last record of the log that it covers.
    pub position: u64,
    /// The snapshot number that it holds.
    pub sn: Sn,
    /// The length of all its files, in bytes.
    pub bytes: u64,
    /// The length of those that it does not share with the checkpoint before it.
    pub written_bytes: u64,
    /// The time from the request until it was written.
    pub seconds: f64,
}

impl CheckpointInfo {
    pub(crate) fn of(manifest: &Manifest, seconds: f64) -> CheckpointInfo {
        CheckpointInfo {
            number: manifest.number(),
            position: manifest.position(),
            sn: manifest.sn(),
            bytes: manifest.bytes(),
            written_bytes: manifest.written_bytes(),
            seconds,
        }
    }
}

/// How far the numbered pushes of a source are. A source that numbers them in order sends those
/// above `durable` again after a crash of the engine. It keeps those above `checkpointed` if it
/// prepares for the loss of the log behind the newest checkpoint, too.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SourceInfo {
    /// Its name.
    pub name: String,
    /// The highest sequence number that was taken.
    pub taken: u64,
    /// The highest one that survives a crash; `None` without a data folder, or if that is not
    /// known.
    pub durable: Option<u64>,
    /// The highest one that the newest checkpoint covers; `None` if it covers none.
    pub checkpointed: Option<u64>,
}

/// One window of a continuous query.
#[derive(Clone, Debug)]
pub struct WindowInfo {
    /// The stream that it covers.
    pub stream: String,
    /// The text between its brackets, as it was understood: `RANGE 10s STEP 1s`.
    pub extent: String,
    /// RANGE in milliseconds, for a window over a span of time.
    pub range_ms: Option<i64>,
    /// STEP in milliseconds, if the window states one in time.
    pub step_ms: Option<i64>,
}

/// The progress of a query's stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamProgress {
    /// The stream.
    pub stream: String,
    /// Its watermark; `None` if it has no time yet.
    pub watermark: Option<EventTime>,
    /// When the watermark last moved, by the engine's clock; `None` if it never has.
    pub since: Option<EventTime>,
}

/// A group of continuous queries that differ only in their names and constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GroupInfo {
    /// Number of queries, including this one and paused ones.
    pub queries: usize,
    /// Number of different combinations of constants.
    pub combinations: usize,
    /// Whether all combinations are evaluated at once; otherwise each by itself.
    pub together: bool,
}

/// A registered continuous query.
#[derive(Clone, Debug)]
pub struct QueryInfo {
    /// Its name.
    pub name: String,
    /// Its number; a new registration has a new one.
    pub uid: u64,
    /// Its text as registered.
    pub text: String,
    /// Its windows; a live query has none.
    pub windows: Vec<WindowInfo>,
    /// Whether it is a live query, which fires when the stored graphs change.
    pub live: bool,
    /// The shortest time between two firings of a live query (EVERY), in milliseconds.
    pub every_ms: Option<i64>,
    /// Firings so far, empty ones included. After a restart, those executed since, which include
    /// the kept ones.
    pub firings: u64,
    /// Rows in all of them.
    pub rows: u64,
    /// The newest close that has been answered; of a live query, the time of the snapshot.
    pub last_close: Option<EventTime>,
    /// The close that it fires for next; `None` while it is paused or one of its streams has no
    /// time, and of a live query.
    pub next_close: Option<EventTime>,
    /// The progress of each of its streams.
    pub streams: Vec<StreamProgress>,
    /// The stream that the next close waits for, the one furthest behind; `None` while the query is
    /// paused, and while every stream has reached that close.
    pub waiting_for: Option<StreamProgress>,
    /// Firings that late statements caused: closes that had been answered, with a higher revision.
    pub amended: u64,
    /// Firings that were not executed because a newer one was due (ON OVERLOAD SKIP).
    pub skipped: u64,
    /// The stream that its answers make (REGISTER STREAM).
    pub derives: Option<String>,
    /// Empty closes skipped after jumps in time.
    pub skipped_empty: u64,
    /// Closes that passed while it was paused.
    pub passed_while_paused: u64,
    /// Whether it is paused.
    pub paused: bool,
    /// The group that it belongs to; `None` for a query that stands alone.
    pub group: Option<GroupInfo>,
    /// The newest firing's error, if it failed (a limit, for example).
    pub last_error: Option<String>,
    /// Start of execution → answer ready, median.
    pub execution_p50: Duration,
    /// Start of execution → answer ready, 99th percentile.
    pub execution_p99: Duration,
    /// Last needed statement acknowledged → answer ready, median.
    pub delay_p50: Duration,
    /// Last needed statement acknowledged → answer ready, 99th percentile.
    pub delay_p99: Duration,
    /// The part of the delay spent waiting behind other queries, median.
    pub waiting_p50: Duration,
    /// The part of the delay spent waiting behind other queries, 99th percentile.
    pub waiting_p99: Duration,
    /// Live subscribers.
    pub subscribers: usize,
}

/// A parameter of a procedure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParameterInfo {
    /// Its name, without `?`.
    pub name: String,
    /// The terms that it takes: `ANY`, `IRI`, `LITERAL` or a datatype.
    pub kind: String,
}

/// A stream that a procedure consumes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumedStreamInfo {
    /// The stream.
    pub stream: String,
    /// What of it is one batch, as it was understood: `BATCH 2 MESSAGES`.
    pub batch: String,
    /// The number of batches that the procedure has consumed, aborted ones included; of a stream
    /// that clients push into the number of the newest round.
    pub batches: u64,
    /// The number of complete batches that wait.
    pub waiting_batches: u64,
    /// The number of messages that wait, in complete batches or not.
    pub waiting_messages: u64,
}

/// A window that a procedure owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedWindowInfo {
    /// Its name.
    pub name: String,
    /// The stream whose messages it holds.
    pub stream: String,
    /// The text between its brackets, as it was understood.
    pub extent: String,
}

/// A declared procedure.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProcedureInfo {
    /// Its name.
    pub name: String,
    /// The CREATE PROCEDURE text.
    pub text: String,
    /// `STEPS`, or `NATIVE` where a program gives its body.
    pub body: &'static str,
    /// Why its calls and rounds wait: the program has not registered its body.
    pub waits: Option<String>,
    /// Its parameters. A streaming procedure has none.
    pub parameters: Vec<ParameterInfo>,
    /// The streams that it consumes. Without any it is called.
    pub streams: Vec<ConsumedStreamInfo>,
    /// The windows that it owns.
    pub windows: Vec<OwnedWindowInfo>,
    /// The streams that it emits into.
    pub emits: Vec<String>,
    /// The dataflow that names it.
    pub dataflow: Option<String>,
    /// The newest transaction that it aborted on a batch, if that is still kept.
    pub last_abort: Option<AbortInfo>,
}

/// A declared dataflow.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DataflowInfo {
    /// Its name.
    pub name: String,
    /// The CREATE DATAFLOW text.
    pub text: String,
    /// `running`, `paused`, or `stopped` by an abort.
    pub state: &'static str,
    /// `STRONG` or `WEAK`.
    pub recovery: &'static str,
    /// `SKIP` or `STOP`.
    pub on_abort: &'static str,
    /// The procedures that run as one transaction, in the order of a round. Called procedures are
    /// not among them.
    pub units: Vec<Vec<String>>,
    /// The number of the newest round that has begun.
    pub rounds: u64,
    /// The number of complete batches that wait for its procedures.
    pub waiting_batches: u64,
    /// The number of its transactions that aborted on a batch.
    pub aborts: u64,
    /// The newest of them.
    pub last_abort: Option<AbortInfo>,
    /// The abort that has stopped it.
    pub stopped_by: Option<AbortInfo>,
}

/// A transaction that aborted on a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AbortInfo {
    /// The procedure whose abort it was.
    pub procedure: String,
    /// The number of the round: of the border batch, or of the call that led to it.
    pub round: u64,
    /// Whether messages of a call led to it.
    pub is_of_call: bool,
    /// The reason.
    pub reason: String,
    /// The event time of its batch.
    pub time: EventTime,
}

/// The transactions that aborted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AbortedInfo {
    /// The newest 1,000 at most, oldest first.
    pub newest: Vec<AbortInfo>,
    /// The number of those before them.
    pub dropped: u64,
}

/// A dataflow that an abort has stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoppedInfo {
    /// The dataflow.
    pub dataflow: String,
    /// The abort.
    pub abort: AbortInfo,
}

/// The state of the engine.
#[derive(Clone, Debug)]
pub struct Health {
    /// The state in one word.
    pub status: HealthStatus,
    /// The state in a sentence, with the remedy where there is one.
    pub message: String,
    /// The snapshot number that one-shot queries see.
    pub stable_sn: Sn,
    /// Statements stored.
    pub stored_statements: u64,
    /// Memory of pushes, loads and updates that are on their way to the shards.
    pub inflight_bytes: u64,
    /// The limit of `inflight_bytes` ([`Limits::inflight_bytes`](crate::Limits)).
    pub inflight_limit_bytes: u64,
    /// The engine's checkpoints, and how long a restart would take; `None` without a data folder
    /// that is written to.
    pub checkpoints: Option<CheckpointStatus>,
    /// The dataflows that an abort has stopped (ON ABORT STOP), by name. RESUME DATAFLOW lets them
    /// go on.
    pub stopped_dataflows: Vec<StoppedInfo>,
    /// The native procedures whose body the program has not registered since the start, by name.
    /// Their calls and rounds wait; see [`Engine::procedure`](crate::Engine::procedure).
    pub absent_procedures: Vec<String>,
}

/// The state of the engine, as [`Health`] reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HealthStatus {
    /// Everything works.
    Ok,
    /// The log cannot be written: queries are answered, inputs are refused. After a full disk they
    /// are taken again as soon as there is room; the message says so.
    ReadOnly,
    /// The fabric or the sequencer has failed: one-shot queries at the last stable snapshot still
    /// work.
    Failed,
    /// Shutting down.
    Stopping,
}
