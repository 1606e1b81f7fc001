//! A firing: which query is executed for which close, and what each of its windows then holds, in
//! numbers of batches; or with which SN a live query fires.
//!
//! Before changing anything here: the key of a firing is its identity for good (S13). Deliveries,
//! derived streams and subscribers tell firings apart by it.

use somersault_model::{BatchNumber, EventTime, QuadIds, QueryUid, Sn, StreamUid};
use std::sync::Arc;

/// The identity of a firing, for good (S13). The firings of one query become due in the order of
/// their SNs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FiringKey {
    /// The query.
    pub query: QueryUid,
    /// The close.
    pub close: EventTime,
    /// Counts the firings of one query at one close from 0.
    pub ordinal: u32,
    /// 0; higher when late statements amended the windows.
    pub revision: u32,
}

impl Firing {
    /// Its key.
    pub fn key(&self) -> FiringKey {
        FiringKey {
            query: self.query,
            close: self.close,
            ordinal: self.ordinal,
            revision: self.revision,
        }
    }
}

/// One execution of a cohort. Its key for exactly-once is (query, close, ordinal, revision) (S13).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Firing {
    /// The cohort.
    pub query: QueryUid,
    /// The number *n* of firing slots: the members in the cohort's first *n* slots fire.
    pub members: u32,
    /// The close: also NOW() of the query.
    pub close: EventTime,
    /// Counts the firings of one query at one close from 0 (count windows may have several).
    pub ordinal: u32,
    /// 0; higher when late statements amended the windows.
    pub revision: u32,
    /// Whether all subscribers had its answer before a restart: the answer is only compared with
    /// the next one and not delivered again.
    pub repeated: bool,
    /// The stored graph is read at this SN.
    pub sn: Sn,
    /// The content of each window, in the order of the query's windows.
    pub windows: Arc<[WindowBatches]>,
    /// For a live query: what its SN changes for it, where that is all that has changed since its
    /// firing before.
    pub changed: Option<Arc<ChangedStatements>>,
    /// The time from which all windows are complete, if a window reaches further back than what was
    /// seen or kept.
    pub complete_from: Option<EventTime>,
}

/// The statements that one SN may change for a live query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedStatements {
    /// The SN of the firing before.
    pub since: Sn,
    /// The statements that were inserted or deleted, each once. They may have been there before, or
    /// not have been there.
    pub statements: Vec<QuadIds>,
}

/// The content of one window at one close, as batches of its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WindowBatches {
    /// The stream.
    pub stream: StreamUid,
    /// The first batch in the window.
    pub lo: BatchNumber,
    /// The first batch after the window; equal to `lo` where the window is empty.
    pub hi: BatchNumber,
    /// Which window it is: versions of one shape slide from each other. All 0 for a window of a
    /// number of statements.
    pub shape: BatchShape,
    /// For a window of a number of statements: its offsets in the first and the last batch.
    pub statements: Option<Statements>,
}

/// The first and last statement of a window of a number of statements within its batches, in the
/// order of arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Statements {
    /// The number of statements of the first batch that come before the window.
    pub skip: u32,
    /// The number of statements of the last batch that are in the window or come before it.
    pub upto: u32,
}

/// A window over a stream, counted in its batches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct BatchShape {
    /// RANGE. It exceeds `hi − lo` where the window reaches further back than the retained batches.
    pub range: i64,
    /// The distance of the window's end before its close.
    pub until: i64,
    /// STEP.
    pub step: i64,
}

/// A batch of a stream, with the times that it spans.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchSpan {
    /// The stream.
    pub(crate) stream: StreamUid,
    /// The number of the batch.
    pub(crate) number: BatchNumber,
    /// The time that it begins at.
    pub(crate) start: EventTime,
    /// The time that it ends before.
    pub(crate) end: EventTime,
}
