//! Streams as a checkpoint holds them, with the statements that no cut has shown.
//!
//! Before changing anything here: ids of terms are those of the dictionary that the same checkpoint
//! holds. The statements of batches that a cut has shown are in the slices.

use serde::{Deserialize, Serialize};
use somersault_model::{
    BatchNumber, EventTime, Millis, Place, QuadIds, QueryUid, StreamUid, TimedTriple, TripleIds,
};

/// A part of the streams' state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum StreamRecord {
    /// A stream; the further records of the stream follow it.
    Stream(Box<SavedStream>),
    /// Sources of a stream, in the order of their numbers.
    Sources(StreamUid, Vec<SavedSource>),
    /// The number of statements in each retained batch that is not empty, ascending.
    Held(StreamUid, Vec<(BatchNumber, u64)>),
    /// The number of the first statement of each retained closed batch, ascending.
    Numbered(StreamUid, Vec<(BatchNumber, u64)>),
    /// Statements of a batch that no cut has shown, or of its change.
    Batch(SavedBatch),
    /// Facts that late statements bring apart from batches, in order.
    Facts(Vec<(StreamUid, QuadIds)>),
    /// The messages of a stream; without it, it has had as many as pushes, and no consumer.
    Messages(StreamUid, SavedMessages),
    /// Messages that consumers of a stream need, ascending.
    Kept(StreamUid, Vec<SavedMessage>),
}

/// The messages of a stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedMessages {
    /// The place of the newest.
    pub newest: Place,
    /// The first place that a consumer needs, and its name.
    pub consumers: Option<(Place, String)>,
}

/// A message that consumers need.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedMessage {
    /// Its place.
    pub place: Place,
    /// Its event time.
    pub at: EventTime,
    /// The epoch of the lease on the terms of its timing statements.
    pub epoch: Option<u64>,
    /// Its statements, in order of arrival.
    pub statements: Vec<TripleIds>,
}

/// A stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SavedStream {
    /// Its uid.
    pub uid: StreamUid,
    /// The text that declares it; of a derived stream, that of its query.
    pub text: String,
    /// The default namespace that the text is parsed with.
    pub namespace: Option<String>,
    /// For a derived stream.
    pub derived: Option<SavedDerived>,
    /// Its pushes so far.
    pub pushes: u64,
    /// Its watermark.
    pub watermark: Option<EventTime>,
    /// Its first time.
    pub begin: Option<EventTime>,
    /// When its watermark last moved, by the clock in the records.
    pub moved_ms: Option<i64>,
    /// The batches that end at or before this are in an SN that was cut.
    pub planned: Option<EventTime>,
    /// The start of the earliest batch that waits for an amendment.
    pub amended_from: Option<EventTime>,
    /// The newest heartbeat, and when it was received.
    pub heartbeat: Option<(EventTime, i64)>,
    /// The first batch that a newly registered window may see.
    pub retained_from: BatchNumber,
    /// The number of statements that all closed batches have had.
    pub numbered: u64,
    /// Its counts.
    pub totals: SavedTotals,
}

/// The additional parts of a derived stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SavedDerived {
    /// The query whose answers are its statements.
    pub by: QueryUid,
    /// The name of that query.
    pub name: String,
    /// Its batch interval.
    pub batch: Millis,
    /// The span by which its closed batches may still be amended.
    pub within: Option<Millis>,
}

/// The counts of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedTotals {
    /// Statements that were taken.
    pub statements: u64,
    /// Late statements that were dropped.
    pub late: u64,
    /// Late statements that were accepted.
    pub amended: u64,
    /// Non-empty batches that were closed.
    pub batches: u64,
}

/// A source of a stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SavedSource {
    /// Its name.
    pub name: String,
    /// Its time, if it has one.
    pub time: Option<EventTime>,
    /// When it last sent something, by the clock in the records.
    pub heard_ms: i64,
    /// Which numbers below this one were taken is not known.
    pub floor: u64,
    /// Runs of taken numbers, first and last, ascending.
    pub taken: Vec<(u64, u64)>,
}

/// The whole or a part of a batch: parts of one batch follow each other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SavedBatch {
    /// The stream.
    pub stream: StreamUid,
    /// The batch.
    pub number: BatchNumber,
    /// What the statements wait for.
    pub kind: BatchKind,
    /// The epoch of the lease on the terms of its timing statements.
    pub epoch: Option<u64>,
    /// Statements, in the order of arrival.
    pub statements: Vec<TimedTriple>,
    /// Facts to be absorbed, in order.
    pub facts: Vec<QuadIds>,
}

/// The batches of a stream that an SN has shown. They are slices, which a checkpoint holds apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShownBatches {
    /// The stream.
    pub stream: StreamUid,
    /// The length of its batches.
    pub interval: Millis,
    /// The batch after the last.
    pub end: BatchNumber,
}

/// What the statements of a saved batch wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BatchKind {
    /// The batch is open.
    Open,
    /// It is closed and waits for its cut.
    Closed,
    /// A cut has shown it, and the next one adds these late statements.
    Late,
    /// A cut has shown it, and the next one puts these statements in the place of its own.
    Replaced,
}
