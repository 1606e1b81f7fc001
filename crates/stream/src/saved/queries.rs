//! Cohorts with their members, and groups, as a checkpoint holds them.
//!
//! Before changing anything here: a cohort's text is saved once for each spelling, and a member as
//! its name and words. Windows and closes follow from the text and from the streams.

use serde::{Deserialize, Serialize};
use somersault_model::{BatchNumber, EventTime, QueryUid, Sn, StreamUid};

/// A part of the queries' state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum QueryRecord {
    /// A cohort; its further records follow it.
    Cohort(Box<SavedCohort>),
    /// When members of a cohort joined, ascending.
    Waves(QueryUid, Vec<SavedWave>),
    /// The histories of members that are paused or were, ascending by slot.
    Histories(QueryUid, Vec<SavedHistory>),
    /// Members of a cohort, ascending by slot.
    Members(QueryUid, Vec<SavedMember>),
    /// The newest delivered firings.
    Delivered(Vec<SavedMark>),
}

/// A cohort without its members.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SavedCohort {
    /// Its uid: that of its first member.
    pub uid: QueryUid,
    /// The default namespace that its texts are parsed with.
    pub namespace: Option<String>,
    /// For each spelling: the text of a member that has it.
    pub texts: Vec<String>,
    /// Its windows, in the order of the text.
    pub windows: Vec<SavedWindow>,
    /// The stream that it derives.
    pub derives: Option<SavedDerivation>,
    /// Whether further queries of its shape may join it.
    pub takes_members: bool,
    /// The group for whose closes it fires; `None` while no member runs.
    pub group: Option<u64>,
    /// The time after which its eldest running member fires.
    pub base: EventTime,
    /// Its counts.
    pub counts: SavedCounts,
    /// The newest close that it fired for.
    pub last_close: Option<EventTime>,
    /// The slot that the next member gets.
    pub next_slot: u32,
}

/// The parts of a window that do not follow from the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedWindow {
    /// For ALL: the batch that was open at the registration.
    pub since: Option<BatchNumber>,
    /// The first batch that the stream retained when the cohort started.
    pub kept_from: BatchNumber,
}

/// The stream that a cohort derives, and which of its firings have come back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SavedDerivation {
    /// The stream.
    pub stream: StreamUid,
    /// The newest close and ordinal, amended firings left out.
    pub through: Option<(EventTime, u32)>,
    /// The newest revision of each close that may still be amended, ascending.
    pub revisions: Vec<(EventTime, u32)>,
    /// No close before this may still be amended.
    pub settled_before: EventTime,
}

/// Counts of closes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedCounts {
    /// Firings.
    pub firings: u64,
    /// Those of them for amended closes.
    pub amended: u64,
    /// Empty closes that were passed.
    pub skipped_empty: u64,
}

/// Members that joined together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedWave {
    /// The first slot.
    pub first: u32,
    /// The time after which they fire.
    pub base: EventTime,
    /// The cohort's counts when their first close came.
    pub before: Option<SavedCounts>,
}

/// A member's history in the slots that it had before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedHistory {
    /// Its slot.
    pub slot: u32,
    /// While it is paused: the close that it would have fired for next, if its closes had begun.
    pub paused: Option<Option<EventTime>>,
    /// Its counts then.
    pub counts: SavedCounts,
    /// The closes that it passed while it was paused.
    pub passed_while_paused: u64,
    /// The newest close that it fired for.
    pub last_close: Option<EventTime>,
}

/// A member. One that has left has the uid 0, and neither a name nor words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedMember {
    /// Its slot.
    pub slot: u32,
    /// Its spelling: an index into the cohort's texts.
    pub spelling: u32,
    /// Its uid.
    pub uid: QueryUid,
    /// Its name.
    pub name: String,
    /// The words of its text in the places of the shape.
    pub words: Vec<String>,
}

/// The newest delivered firing of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedMark {
    /// The query.
    pub query: QueryUid,
    /// The close.
    pub close: EventTime,
    /// The SN that it became due with.
    pub sn: Option<Sn>,
}

/// Cohorts over the same streams with the same closes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SavedGroup {
    /// Its id; groups that are due at one close fire in this order.
    pub id: u64,
    /// The next close; `None` until each stream has had a time.
    pub next: Option<EventTime>,
    /// The first close.
    pub first: Option<EventTime>,
    /// The stream that it waits for, and the time; `None` if its next close is due.
    pub waits_for: Option<(StreamUid, EventTime)>,
    /// The first batch that each stream retained when the group's closes began.
    pub kept_from: Vec<(StreamUid, BatchNumber)>,
    /// The number of times that each close that may still be amended was amended, ascending.
    pub revisions: Vec<(EventTime, u32)>,
    /// From when on it needs each of its streams, as last reckoned.
    pub needs: Vec<(StreamUid, EventTime)>,
}

/// A live query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedLiveQuery {
    /// The uid of its cohort.
    pub uid: QueryUid,
    /// Whether a member runs.
    pub is_running: bool,
    /// The close and the ordinal of its newest firing.
    pub newest: Option<(EventTime, u32)>,
    /// Whether something that it reads has changed since.
    pub is_touched: bool,
}
