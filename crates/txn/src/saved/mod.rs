//! The core's state as a checkpoint holds it: plain records, which follow each other in a fixed
//! order.
//!
//! Before changing anything here: these types *are* the format. It is postcard's, so a variant may
//! be added at the end of an enum, and nothing else may change: a record that needs another field
//! gets another variant, and the old one is read on. A change of meaning raises [`VERSION`].

use crate::dataflows::{AbortedRound, DataflowState};
use crate::event::{Answer, Places};
use crate::refusal::Refusal;
use crate::shape::{DataflowShape, Place, ProcedureShape, ProcedureUid, StreamShape};
use crate::streams::Kept;
use crate::windows::{Member, Progress};
use serde::{Deserialize, Serialize};
use somersault_model::{EventTime, StreamUid};

/// The version of the records that this program writes.
pub(crate) const VERSION: u32 = 1;

/// The number of list entries in one record, at most.
pub(crate) const PORTION: usize = 4_096;

/// The number of answers in one record, at most.
pub(crate) const ANSWERS: usize = 16;

/// A part of the core's state. The records of one checkpoint are read in the order in which they
/// were written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SavedRecord {
    /// The first record: the version, numbers that go on, and the uid of the newest procedure.
    Counts(u32, Counts, u32),
    /// A stream: the place of its next message, and the time that it is complete through.
    Stream(StreamShape, Place, EventTime),
    /// Kept messages of a stream, in their order; the last one is before the next place.
    Messages(StreamUid, Vec<Kept>),
    /// A procedure.
    Procedure(ProcedureUid, ProcedureShape),
    /// An inlet, after its procedure: the number of batches that it has consumed.
    Inlet(InletId, u64),
    /// Complete batches by number of an inlet.
    Batches(InletId, Vec<Places>),
    /// Messages of an inlet that are no batch yet.
    Open(InletId, Vec<Place>),
    /// Intervals of an inlet: number, the input that completed it, messages.
    Intervals(InletId, Vec<(i64, Option<u64>, Places)>),
    /// An owned window, after its procedure: how far it has slid, the number of members it shows.
    Window(WindowId, Progress, u64),
    /// Members of a window, in their order.
    Members(WindowId, Vec<Member>),
    /// Members of a window that are older than its newest close, and staged.
    LateMembers(WindowId, Vec<Member>),
    /// A dataflow, after all procedures: its state, and the number of calls before it was held.
    Dataflow(DataflowShape, DataflowState, u64),
    /// Of a dataflow: the number of transactions that aborted, and the newest.
    Aborts(String, u64, Vec<(ProcedureUid, AbortedRound)>),
    /// The same of a procedure.
    AbortsOfProcedure(ProcedureUid, u64, Vec<(ProcedureUid, AbortedRound)>),
    /// Remembered answers of a source, above its floor.
    Keys(String, u64, Vec<(u64, Answer)>),
    /// The last record: the number of records before it.
    End(u64),
}

/// A procedure, and the number of a stream among those that it consumes.
pub(crate) type InletId = (ProcedureUid, u32);

/// A procedure, and the number of a window among those that it owns.
pub(crate) type WindowId = (ProcedureUid, u32);

/// Numbers that go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Transactions so far.
    pub(crate) entries: u64,
    /// Inputs so far: messages and complete-through times.
    pub(crate) stamps: u64,
    /// Calls so far.
    pub(crate) calls: u64,
    /// The latest time of a call.
    pub(crate) call_time: EventTime,
}

impl Default for Counts {
    fn default() -> Counts {
        Counts {
            entries: 0,
            stamps: 0,
            calls: 0,
            call_time: EventTime::MIN,
        }
    }
}

/// Why the core's part of a checkpoint cannot be restored.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// The bytes are no record.
    #[error(
        "a record of the checkpoint's transactions does not decode; start from the checkpoint before it"
    )]
    Damaged,
    /// The records are those of a newer version.
    #[error(
        "the checkpoint's transactions have version {found}, and this program reads versions up to {known}; start the version that wrote it"
    )]
    Newer {
        /// The version of the records.
        found: u32,
        /// The newest version that this program reads.
        known: u32,
    },
    /// This version refuses what is declared.
    #[error("the checkpoint's transactions: {0}")]
    Declaration(#[from] Refusal),
    /// The records contradict each other.
    #[error(
        "the checkpoint's transactions are not whole: {0}; start from the checkpoint before it"
    )]
    Contradiction(String),
}

impl SavedRecord {
    /// The record in bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        postcard::to_stdvec(self).expect("plain values in memory are always written")
    }

    /// The record that [`SavedRecord::to_bytes`] made these bytes from.
    ///
    /// # Errors
    /// [`RestoreError::Damaged`] for any other bytes that do not happen to be a record.
    pub fn from_bytes(bytes: &[u8]) -> Result<SavedRecord, RestoreError> {
        match postcard::take_from_bytes(bytes) {
            Ok((record, [])) => Ok(record),
            _ => Err(RestoreError::Damaged),
        }
    }
}

/// A list in portions that fit a record.
pub(crate) fn portions<T>(
    list: impl IntoIterator<Item = T>,
    size: usize,
) -> impl Iterator<Item = Vec<T>> {
    let mut list = list.into_iter();
    std::iter::from_fn(move || {
        let portion: Vec<T> = list.by_ref().take(size).collect();
        (!portion.is_empty()).then_some(portion)
    })
}

/// The error of records that contradict each other.
pub(crate) fn broken<T>(what: impl Into<String>) -> Result<T, RestoreError> {
    Err(RestoreError::Contradiction(what.into()))
}
