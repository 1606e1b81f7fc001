//! The coordinator's state as a checkpoint holds it: plain records, which follow each other in a
//! fixed order. The machines make them and take them back; no machine is encoded as it is.
//!
//! Before changing anything here: these types *are* the format. It is postcard's, so a variant may
//! be added at the end of an enum, and nothing else may change: a record that needs another field
//! gets another variant, and the old one is read on. A change of meaning raises [`VERSION`]. Which
//! fields of the machines are persisted, derived again or waited for is in ADR 40.

pub(crate) mod queries;
pub(crate) mod streams;

use crate::protocol::declaration::ResolveError;
use crate::protocol::status::SubscriptionStatus;
use queries::{QueryRecord, SavedGroup, SavedLiveQuery};
use serde::{Deserialize, Serialize};
use somersault_log::{AnswerPosition, SubscriptionLimit, SubscriptionTerms};
use somersault_model::{EventTime, Sn};
use streams::StreamRecord;

/// The version of the records that this program writes.
pub(crate) const VERSION: u32 = 1;

/// The number of list entries in one record, at most.
pub(crate) const PORTION: usize = 4_096;

/// A part of the coordinator's state. The records of one checkpoint are read in the order in which
/// they were written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum CoreRecord {
    /// The first record.
    Counters(SavedCounters),
    /// Of streams, and of what waits for a cut.
    Stream(StreamRecord),
    /// Of queries; after all streams.
    Query(QueryRecord),
    /// A group of cohorts with the same closes; after all cohorts.
    Group(SavedGroup),
    /// For names whose query replaced another: the last close that a predecessor fired for.
    AnsweredBefore(Vec<(String, EventTime)>),
    /// The last record: the number of records before it.
    End(u64),
    /// Durable subscriptions, by the names of their queries and their own; after all queries.
    Subscriptions(Vec<SavedSubscription>),
    /// The time of the newest record, and live queries, ascending by uid; after all cohorts.
    Live(EventTime, Vec<SavedLiveQuery>),
}

/// A durable subscription.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedSubscription {
    /// The query's name.
    pub query: String,
    /// Its name.
    pub name: String,
    /// The newest answer that was acknowledged or let go: its SN, close, ordinal and revision.
    pub after: (Sn, EventTime, u32, u32),
    /// The number of answers that are kept for it at most.
    pub answers: u64,
    /// Their memory at most, in bytes.
    pub bytes: u64,
    /// The time within which an answer is to be acknowledged.
    pub deadline_ms: Option<u64>,
    /// Whether it also receives answers without rows.
    pub empties: bool,
    /// Whether the oldest answers are let go at a limit, and it goes on.
    pub skips_oldest: bool,
    /// The answers that were let go since the last acknowledgement.
    pub missed: u64,
    /// The limit that ended it.
    pub ended: Option<SavedLimit>,
}

/// A limit of a durable subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SavedLimit {
    /// The number of kept answers.
    Answers,
    /// Their memory.
    Bytes,
    /// The time within which an answer is to be acknowledged.
    Deadline,
}

impl SavedSubscription {
    pub(crate) fn new(subscription: &SubscriptionStatus) -> SavedSubscription {
        let terms = subscription.terms;
        let after = terms.after;
        SavedSubscription {
            query: subscription.query.clone(),
            name: subscription.name.clone(),
            after: (after.sn, after.close, after.ordinal, after.revision),
            answers: terms.answers,
            bytes: terms.bytes,
            deadline_ms: terms.deadline_ms,
            empties: terms.empties,
            skips_oldest: terms.skips_oldest,
            missed: subscription.missed,
            ended: subscription.ended.map(|limit| match limit {
                SubscriptionLimit::Answers => SavedLimit::Answers,
                SubscriptionLimit::Bytes => SavedLimit::Bytes,
                SubscriptionLimit::Deadline => SavedLimit::Deadline,
            }),
        }
    }

    pub(crate) fn restore(self) -> SubscriptionStatus {
        let (sn, close, ordinal, revision) = self.after;
        let after = AnswerPosition {
            sn,
            close,
            ordinal,
            revision,
        };
        SubscriptionStatus {
            query: self.query,
            name: self.name,
            terms: SubscriptionTerms {
                after,
                answers: self.answers,
                bytes: self.bytes,
                deadline_ms: self.deadline_ms,
                empties: self.empties,
                skips_oldest: self.skips_oldest,
            },
            missed: self.missed,
            ended: self.ended.map(|limit| match limit {
                SavedLimit::Answers => SubscriptionLimit::Answers,
                SavedLimit::Bytes => SubscriptionLimit::Bytes,
                SavedLimit::Deadline => SubscriptionLimit::Deadline,
            }),
        }
    }
}

/// Numbers that go on where they were.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedCounters {
    /// The version of the records.
    pub version: u32,
    /// The newest SN that was cut.
    pub sn: Sn,
    /// The uid of the newest stream.
    pub newest_stream: u32,
    /// The uid that the next query gets.
    pub next_query: u64,
    /// The number of groups that were ever created.
    pub groups: u64,
}

/// Why the coordinator's part of a checkpoint cannot be restored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// The bytes are no record.
    #[error(
        "a record of the checkpoint's core does not decode; start from the checkpoint before it"
    )]
    Damaged,
    /// The records are those of a newer version.
    #[error(
        "the checkpoint's core has version {found}, and this program reads versions up to {known}; start the version that wrote it"
    )]
    Newer {
        /// The version of the records.
        found: u32,
        /// The newest version that this program reads.
        known: u32,
    },
    /// A text of the checkpoint means something else to this version.
    #[error("the checkpoint's core: {0}")]
    Text(#[from] ResolveError),
    /// The records contradict each other.
    #[error("the checkpoint's core is not whole: {0}; start from the checkpoint before it")]
    Contradiction(String),
}

impl CoreRecord {
    /// The record in bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        postcard::to_stdvec(self).expect("plain values in memory are always written")
    }

    /// The record that [`CoreRecord::to_bytes`] made these bytes from.
    ///
    /// # Errors
    /// [`RestoreError::Damaged`] for any other bytes that do not happen to be a record.
    pub fn from_bytes(bytes: &[u8]) -> Result<CoreRecord, RestoreError> {
        match postcard::take_from_bytes(bytes) {
            Ok((record, [])) => Ok(record),
            _ => Err(RestoreError::Damaged),
        }
    }
}

/// A list in portions that fit a record.
pub(crate) fn portions<T>(list: impl IntoIterator<Item = T>) -> impl Iterator<Item = Vec<T>> {
    let mut list = list.into_iter();
    std::iter::from_fn(move || {
        let portion: Vec<T> = list.by_ref().take(PORTION).collect();
        (!portion.is_empty()).then_some(portion)
    })
}

/// The error of records that contradict each other.
pub(crate) fn contradiction<T>(what: impl Into<String>) -> Result<T, RestoreError> {
    Err(RestoreError::Contradiction(what.into()))
}
