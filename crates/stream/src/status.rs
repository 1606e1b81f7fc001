//! The read side: what streams and queries say about themselves.

use crate::declaration::QueryDeclaration;
use somersault_lang::CreateStream;
use somersault_model::{EventTime, QueryUid, StreamUid};
use std::sync::Arc;

/// How a stream is.
#[derive(Clone, Debug)]
pub struct StreamStatus {
    /// Its uid.
    pub uid: StreamUid,
    /// What was declared; holds the IRI and the text.
    pub declaration: Arc<CreateStream>,
    /// Every statement with an earlier event time has been seen; `None` before the first push or advance.
    pub complete_through: Option<EventTime>,
    /// The closed batches that are in the stable SN end here.
    pub stable_time: Option<EventTime>,
    /// Statements taken so far.
    pub statements: u64,
    /// Late statements dropped so far (LATE DROP).
    pub late: u64,
    /// Batches closed so far that held something.
    pub batches: u64,
    /// Statements in open batches and in slices that are not retired.
    pub held_statements: u64,
    /// An estimate of what those take; it is what BUDGET is compared with.
    pub held_bytes: u64,
    /// Sources that have pushed so far.
    pub sources: usize,
}

/// How a query is.
#[derive(Clone, Debug)]
pub struct QueryStatus {
    /// Its uid.
    pub uid: QueryUid,
    /// Its name.
    pub name: String,
    /// Its text.
    pub text: String,
    /// Its windows and closes.
    pub declaration: Arc<QueryDeclaration>,
    /// The next close that it fires for; `None` while it is paused or a stream of it has no time.
    pub next_close: Option<EventTime>,
    /// The newest close that it fired for.
    pub last_close: Option<EventTime>,
    /// The stream that it waits for while others are further on.
    pub held_up_by: Option<HeldUp>,
    /// Firings that became due so far.
    pub firings: u64,
    /// Closes passed in bulk after jumps in time.
    pub passed_in_bulk: u64,
    /// Closes that passed while it was paused.
    pub passed_while_paused: u64,
    /// Whether it is paused.
    pub paused: bool,
}

/// The stream that a query waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldUp {
    /// The stream's IRI.
    pub stream: String,
    /// Where it stands; `None` before its first push or advance.
    pub complete_through: Option<EventTime>,
    /// When it last moved, by the clock of the driver; `None` if it never has.
    pub since_ms: Option<i64>,
}
