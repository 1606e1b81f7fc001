//! The read side: the status of streams and queries, for listings.
//!
//! Before changing anything here: these types are answers. Nothing that the coordinator decides
//! depends on them.

use super::declaration::QueryDeclaration;
use somersault_lang::CreateStream;
use somersault_log::{SubscriptionLimit, SubscriptionTerms};
use somersault_model::{EventTime, QueryUid, StreamUid};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A registered query: a slot of its cohort.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberId {
    /// The uid of its cohort.
    pub cohort: QueryUid,
    /// Its slot in the cohort; no other member ever has it.
    pub slot: u32,
}

/// The status of a stream.
#[derive(Clone, Debug)]
pub struct StreamStatus {
    /// Its uid.
    pub uid: StreamUid,
    /// The declaration; holds the IRI and the text.
    pub declaration: Arc<CreateStream>,
    /// The query whose answers are its statements.
    pub derived_by: Option<String>,
    /// Every statement with an earlier event time has been seen; `None` before the first push or
    /// advance.
    pub watermark: Option<EventTime>,
    /// The end of the closed batches that are in the stable SN.
    pub stable_time: Option<EventTime>,
    /// Statements taken so far.
    pub statements: u64,
    /// Late statements dropped so far (LATE DROP, and LATE AMEND beyond WITHIN).
    pub late: u64,
    /// Late statements taken so far (LATE AMEND).
    pub amended: u64,
    /// Non-empty batches closed so far.
    pub batches: u64,
    /// Statements in open batches and in slices that are not retired.
    pub held_statements: u64,
    /// An estimate of their memory; BUDGET is compared with it.
    pub held_bytes: u64,
    /// Sources that have pushed so far.
    pub sources: usize,
}

/// The highest sequence number of each source of a stream that has used one, by name.
pub type SourceNumbers = BTreeMap<String, u64>;

/// A position in the walk over the names of all queries; the default is before the first.
#[derive(Clone, Copy, Debug)]
pub struct NamePosition {
    pub(crate) cohort: QueryUid,
    pub(crate) slot: u32,
}

impl Default for NamePosition {
    fn default() -> Self {
        NamePosition {
            cohort: QueryUid(0),
            slot: 0,
        }
    }
}

/// The status of a registered query.
#[derive(Clone, Debug)]
pub struct QueryStatus {
    /// Its uid.
    pub uid: QueryUid,
    /// Its slot in its cohort.
    pub member: MemberId,
    /// The number of queries that its cohort has; `None` for a query without a shape.
    pub group: Option<usize>,
    /// Its name.
    pub name: String,
    /// Its text.
    pub text: String,
    /// Its windows and closes, and the stream that its answers fill.
    pub declaration: Arc<QueryDeclaration>,
    /// The next close that it fires for; `None` while it is paused or one of its streams has no
    /// time.
    pub next_close: Option<EventTime>,
    /// The newest close that it fired for.
    pub last_close: Option<EventTime>,
    /// The progress of each of its streams, in the order of their uids.
    pub streams: Vec<StreamProgress>,
    /// The stream that its next close waits for: the one furthest behind among those that have not
    /// reached it.
    pub waiting_for: Option<StreamProgress>,
    /// Firings that became due so far.
    pub firings: u64,
    /// The firings among them that late statements caused: closes that were answered before, with a
    /// higher revision.
    pub amended: u64,
    /// Empty closes skipped after jumps in time.
    pub skipped_empty: u64,
    /// Closes that passed while it was paused.
    pub passed_while_paused: u64,
    /// Whether it is paused.
    pub paused: bool,
}

/// The status of a durable subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubscriptionStatus {
    /// The query's name.
    pub query: String,
    /// Its name.
    pub name: String,
    /// Its terms. It receives the answers after `after`: the newest one that was acknowledged or
    /// let go.
    pub terms: SubscriptionTerms,
    /// The number of answers that were let go since the last acknowledgement.
    pub missed: u64,
    /// The limit that ended it.
    pub ended: Option<SubscriptionLimit>,
}

/// The progress of a query's stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamProgress {
    /// The stream's IRI.
    pub stream: String,
    /// Its complete-through time; `None` before its first push or advance.
    pub watermark: Option<EventTime>,
    /// When it last moved, by the clock of the driver; `None` if it never has.
    pub since_ms: Option<i64>,
}
