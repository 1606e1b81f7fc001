//! What the engine says about its streams, its queries and itself.

use std::time::Duration;

/// A declared stream.
#[derive(Clone, Debug)]
pub struct StreamInfo {
    /// Its IRI.
    pub iri: String,
    /// Its number in this engine.
    pub uid: u32,
    /// The CREATE STREAM text, or that of the query that derives it.
    pub text: String,
    /// The query whose answers its statements are.
    pub derived_by: Option<String>,
    /// Its batch interval.
    pub batch_ms: i64,
    /// Every statement with an earlier event time has been seen; `None` before the first push or
    /// advance.
    pub complete_through_ms: Option<i64>,
    /// Up to here its batches are visible in the stable snapshot.
    pub stable_time_ms: Option<i64>,
    /// How far `stable_time_ms` is behind `complete_through_ms`.
    pub lag_ms: Option<i64>,
    /// How far `complete_through_ms` is ahead of the clock; `None` where it is not, and without a
    /// clock.
    pub ahead_of_clock_ms: Option<i64>,
    /// Statements taken so far.
    pub tuples: u64,
    /// Late statements dropped so far (LATE DROP, and LATE AMEND beyond WITHIN).
    pub late: u64,
    /// Late statements taken so far (LATE AMEND).
    pub amended: u64,
    /// Batches closed so far that held something.
    pub batches: u64,
    /// What its slices take.
    pub memory_bytes: u64,
    /// What they may take.
    pub budget_bytes: u64,
    /// How long it may be silent before its time goes on by the clock; `None` is IDLE NEVER.
    pub idle: Option<Duration>,
}

/// One window of a continuous query.
#[derive(Clone, Debug)]
pub struct WindowInfo {
    /// The stream that it is over.
    pub stream: String,
    /// What stands between its brackets, as it was understood: `RANGE 10s STEP 1s`.
    pub extent: String,
    /// RANGE, of a window over a span of time.
    pub range_ms: Option<i64>,
    /// STEP, where the window says one in time.
    pub step_ms: Option<i64>,
}

/// How far a stream of a query is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reached {
    /// The stream.
    pub stream: String,
    /// Its complete-through time; `None` if it has no time yet.
    pub complete_through_ms: Option<i64>,
    /// When that last moved, by the engine's clock; `None` if it never has.
    pub since_ms: Option<i64>,
}

/// A group of continuous queries that differ in their names and constants alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GroupInfo {
    /// How many they are, this one and paused ones counted.
    pub queries: usize,
    /// How many different combinations of constants they have.
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
    /// Its windows.
    pub windows: Vec<WindowInfo>,
    /// Firings so far, empty ones included. After a restart those that were executed since: the
    /// ones that are kept among them.
    pub firings: u64,
    /// Rows in all of them.
    pub rows: u64,
    /// The newest close that has been answered.
    pub last_close_ms: Option<i64>,
    /// The close that it fires for next; `None` while it is paused or a stream of it has no time.
    pub next_close_ms: Option<i64>,
    /// How far each of its streams is.
    pub streams: Vec<Reached>,
    /// The stream that the next close waits for, which is the one that is furthest behind; `None`
    /// while it is paused, and while every stream has reached that close.
    pub held_up_by: Option<Reached>,
    /// Those among them that late statements caused: closes that had been answered, with a higher
    /// revision.
    pub amended: u64,
    /// Firings that were not executed because a newer one was due (ON OVERLOAD SKIP).
    pub skipped: u64,
    /// The stream that its answers make (REGISTER STREAM).
    pub derives: Option<String>,
    /// Closes passed in bulk after jumps in time.
    pub passed_in_bulk: u64,
    /// Closes that passed while it was paused.
    pub passed_while_paused: u64,
    /// Whether it is paused.
    pub paused: bool,
    /// The group that it stands in; `None` for a query that stands alone.
    pub group: Option<GroupInfo>,
    /// The newest firing's error, if it failed (a limit, for example).
    pub last_error: Option<String>,
    /// Start of execution → answer ready, half of the firings.
    pub execution_p50: Duration,
    /// The same, 99 of 100 firings.
    pub execution_p99: Duration,
    /// The last statement it needed acknowledged → answer ready, half of the firings.
    pub delay_p50: Duration,
    /// The same, 99 of 100 firings.
    pub delay_p99: Duration,
    /// What of the delay was waiting behind other queries, half of the firings.
    pub waiting_p50: Duration,
    /// The same, 99 of 100 firings.
    pub waiting_p99: Duration,
    /// Live subscribers.
    pub subscribers: usize,
}

/// How the engine is.
#[derive(Clone, Debug)]
pub struct Health {
    /// In one word.
    pub status: HealthStatus,
    /// In a sentence, with the remedy where there is one.
    pub message: String,
    /// The snapshot number that one-shot queries see.
    pub stable_sn: u64,
    /// Statements stored.
    pub stored_statements: u64,
}

/// See [`Health`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HealthStatus {
    /// Everything works.
    Ok,
    /// The log cannot be written (disk full): queries are answered, nothing is acknowledged.
    ReadOnly,
    /// The fabric or the sequencer has failed: one-shot queries at the last stable snapshot go on.
    Failed,
    /// Shutting down.
    Stopping,
}
