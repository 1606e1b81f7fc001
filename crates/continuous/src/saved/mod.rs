//! The answers of continuous queries as a checkpoint holds them: plain records, which follow each
//! other in a fixed order. The machines make them and take them back; no machine is encoded as it
//! is.
//!
//! Before changing anything here: these types *are* the format. It is postcard's, so a variant may
//! be added at the end of an enum, and nothing else may change: a record that needs another field
//! gets another variant, and the old one is read on. A change of meaning raises [`VERSION`]. Which
//! fields of the machines are persisted, derived again or begin again is in ADR 43.

use serde::{Deserialize, Serialize};
use somersault_model::{EventTime, QueryUid, Sn, TermId};
use somersault_runtime::RuntimeError;

/// The version of the records that this program writes.
pub(crate) const VERSION: u32 = 1;

/// The number of list entries in one record, at most.
pub(crate) const PORTION: usize = 4_096;

/// A part of the answers. The records of one checkpoint are read in the order in which they were
/// written: the further records of a cohort, of a result and of an answer follow it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum AnswerRecord {
    /// The first record: the version, and the SN of the checkpoint.
    Begin(u32, Sn),
    /// A cohort.
    Cohort(Box<SavedCohort>),
    /// Members of the cohort that joined at the same time, ascending by slot.
    Waves(Vec<SavedWave>),
    /// Slots of the cohort's members, ascending.
    Members(Vec<SavedMember>),
    /// The rows of the cohort's cells, in the order of the cells' numbers.
    Cells(Vec<u64>),
    /// Slots of the cohort whose members were paused, ascending.
    Pauses(Vec<SavedPause>),
    /// For slots of resumed members, ascending: the slots that they had before.
    Resumed(Vec<(u32, u32)>),
    /// The histories of paused members that others have outlived, ascending by slot.
    Histories(Vec<SavedHistory>),
    /// For members that replaced another query, ascending by slot: that query's last firing.
    Before(Vec<(u32, SavedId)>),
    /// A kept result of the cohort, oldest first.
    Result(Box<SavedResult>),
    /// An answer, and what it is of.
    Answer(SavedPlace, SavedAnswer),
    /// Further rows of the answer, by column.
    Rows(Vec<Vec<TermId>>),
    /// Further terms that only this answer has, as N-Triples writes them.
    LocalTerms(Vec<String>),
    /// For an answer of several cells: further cells with their numbers of rows, ascending.
    Spans(Vec<(u32, u32)>),
    /// Further triples or quads of the answer. A quad has four terms, the last one empty in the
    /// default graph.
    Statements(Vec<Vec<String>>),
    /// The last record: the number of records before it.
    End(u64),
}

/// A cohort without its members and answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SavedCohort {
    /// Its uid.
    pub uid: QueryUid,
    /// The counts of its firings.
    pub counts: SavedTally,
    /// The error of the newest firing, if it failed.
    pub last_error: Option<String>,
    /// The firings that are no longer kept.
    pub gone: SavedEvicted,
    /// Slots below this one have fired.
    pub covered: u32,
    /// The number of results.
    pub results: u64,
    /// The last close with a result.
    pub answered_through: Option<EventTime>,
    /// The last close that was passed without a result.
    pub passed_through: Option<EventTime>,
}

/// The counts of a cohort's firings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedTally {
    /// Firings.
    pub firings: u64,
    /// Answers that they gave to members.
    pub executions: u64,
    /// Those of them that had rows.
    pub nonempty: u64,
    /// Firings that failed.
    pub failed: u64,
    /// Rows of all answers.
    pub rows: u64,
    /// Closes that were passed.
    pub skipped_empty: u64,
    /// Firings that were not executed because a newer one was due.
    pub skipped: u64,
}

/// Members that joined together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedWave {
    /// The first slot.
    pub first: u32,
    /// The time after which they fire.
    pub base: EventTime,
    /// The number of results before their first.
    pub before: Option<u64>,
}

/// The slot of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedMember {
    /// The slot.
    pub slot: u32,
    /// The number of its cell; `None` if the member has left.
    pub cell: Option<u32>,
    /// The number of rows to add to those of the cell.
    pub rows: i64,
}

/// The pause of the member in a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedPause {
    /// The slot.
    pub slot: u32,
    /// The newest SN then.
    pub through: Sn,
    /// The close that it would have fired for next.
    pub next: Option<EventTime>,
    /// The last close before it that was passed.
    pub passed_through: Option<EventTime>,
    /// The firings and rows that the member had seen in the slot, and its last close, once they
    /// are fixed.
    pub seen: Option<(u64, u64, Option<EventTime>)>,
}

/// The history of a paused member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedHistory {
    /// Its slot.
    pub slot: u32,
    /// Its firings.
    pub given: SavedEvicted,
    /// The error of the last one.
    pub error: Option<String>,
}

/// The position of a firing among those of its query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedId {
    /// The close.
    pub close: EventTime,
    /// Counts the firings at one close.
    pub ordinal: u32,
    /// More than 0 for an amended firing.
    pub revision: u32,
    /// The SN that it saw, where that is known.
    pub sn: Option<Sn>,
}

/// The firings that are no longer kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedEvicted {
    /// The newest one that amended nothing.
    pub unamended: Option<SavedId>,
    /// The newest one that amended a close and came later.
    pub amended: Option<SavedId>,
}

/// A kept result, without its answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SavedResult {
    /// The number of firing slots.
    pub members: u32,
    /// The close.
    pub close: EventTime,
    /// Counts the firings at one close.
    pub ordinal: u32,
    /// More than 0 for an amended firing.
    pub revision: u32,
    /// The SN that it saw.
    pub sn: Sn,
    /// The time from which its windows are complete.
    pub complete_from: Option<EventTime>,
    /// Its execution, delay and waiting, in nanoseconds.
    pub took: [u64; 3],
    /// Why nothing was evaluated, if so.
    pub failed: Option<String>,
    /// The largest number of rows that an answer may have.
    pub most_rows: u64,
}

/// What an answer is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SavedPlace {
    /// Of cells that were evaluated together; the answer has spans.
    Together,
    /// Of one cell.
    Cell(u32),
    /// Of all other cells.
    Empty,
    /// The one that ISTREAM and DSTREAM compare the next with; a failure is that of a firing that
    /// was executed again.
    Changes,
    /// The one that REPORT ON CHANGE compares the next with.
    Reporting,
}

/// An answer, whose rows or statements follow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum SavedAnswer {
    /// There is none; the reason.
    Failed(String),
    /// The names of the columns, and the number of rows.
    Solutions(Vec<String>, u64),
    /// Of ASK.
    Boolean(bool),
    /// Triples.
    Graph,
    /// Quads.
    Dataset,
}

/// Why the answers of a checkpoint cannot be restored.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AnswersError {
    /// The bytes are no record.
    Damaged,
    /// The records are those of a newer version: of this one.
    Newer(u32),
    /// The records contradict each other, or the core of the checkpoint.
    Contradiction(String),
}

impl std::fmt::Display for AnswersError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            AnswersError::Damaged => f.write_str(
                "a record of the checkpoint's answers does not decode; start from the checkpoint before it",
            ),
            AnswersError::Newer(found) => write!(
                f,
                "the checkpoint's answers have version {found}, and this program reads versions up to {VERSION}; start the version that wrote it"
            ),
            AnswersError::Contradiction(what) => write!(
                f,
                "the checkpoint's answers are not whole: {what}; start from the checkpoint before it"
            ),
        }
    }
}

impl std::error::Error for AnswersError {}

impl From<AnswersError> for RuntimeError {
    fn from(error: AnswersError) -> RuntimeError {
        RuntimeError::Unreadable {
            file: "checkpoint".to_owned(),
            message: error.to_string(),
        }
    }
}

impl AnswerRecord {
    /// Returns the record in bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        postcard::to_stdvec(self).expect("plain values in memory are always written")
    }

    /// Returns the record that [`AnswerRecord::to_bytes`] made these bytes from.
    ///
    /// # Errors
    /// [`AnswersError::Damaged`] for any other bytes that do not happen to be a record.
    pub fn from_bytes(bytes: &[u8]) -> Result<AnswerRecord, AnswersError> {
        match postcard::take_from_bytes(bytes) {
            Ok((record, [])) => Ok(record),
            _ => Err(AnswersError::Damaged),
        }
    }
}

/// The receiver of records.
pub(crate) type Out<'o> = dyn FnMut(AnswerRecord) + 'o;

/// Writes a list in portions that fit a record.
pub(crate) fn in_portions<T>(
    list: impl IntoIterator<Item = T>,
    out: &mut Out<'_>,
    record: impl Fn(Vec<T>) -> AnswerRecord,
) {
    let mut list = list.into_iter();
    loop {
        let portion: Vec<T> = list.by_ref().take(PORTION).collect();
        if portion.is_empty() {
            return;
        }
        out(record(portion));
    }
}

/// Returns the error of records that contradict each other.
pub(crate) fn contradiction<T>(what: impl Into<String>) -> Result<T, AnswersError> {
    Err(AnswersError::Contradiction(what.into()))
}
