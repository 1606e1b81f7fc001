//! The changes of one SN: mutations of the stored graphs, and slices of windows.
//!
//! Before changing anything here: these types carry ids of terms. The types that plan and fire
//! ([`super::firing`]) carry times and counts alone.

use somersault_model::{BatchNumber, Lease, Mutation, QuadIds, Sn, StreamUid, TermId, TimedTriple};
use std::ops::Range;
use std::sync::Arc;

/// All changes of one SN to the stored graphs and the windows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Inject {
    /// The SN.
    pub sn: Sn,
    /// Graphs to empty before anything else.
    pub clears: Arc<[TermId]>,
    /// Changes of the stored graphs, in order; of several changes of one statement the last wins.
    pub mutations: Vec<Mutation>,
    /// Loaded statements, to be inserted.
    pub loads: Vec<Arc<[QuadIds]>>,
    /// Batches that closed, to become slices; ascending by end.
    pub slices: Vec<ClosedBatch>,
    /// Batches of earlier SNs that change: readers at this SN or later see the change.
    pub amended: Vec<AmendedBatch>,
}

/// A closed batch that changes after all.
#[derive(Clone, Debug, PartialEq)]
pub struct AmendedBatch {
    /// The stream.
    pub stream: StreamUid,
    /// The batch; it may have been empty before.
    pub batch: BatchNumber,
    /// The change.
    pub change: BatchChange,
    /// The lease on the terms of the added statements.
    pub lease: Option<Lease>,
}

/// A change of a closed batch.
#[derive(Clone, Debug, PartialEq)]
pub enum BatchChange {
    /// Late statements, which arrived after all that the batch holds.
    Late(Vec<TimedTriple>),
    /// The batch's new statements in place of the old ones: the firing that derives it was amended.
    Replaced(Vec<TimedTriple>),
}

/// A closed batch. Empty ones are never handed out.
#[derive(Clone, Debug, PartialEq)]
pub struct ClosedBatch {
    /// The stream.
    pub stream: StreamUid,
    /// The batch.
    pub batch: BatchNumber,
    /// All its statements, timing and timeless, in order of arrival.
    pub statements: Vec<TimedTriple>,
    /// The places of its facts in [`Inject::mutations`], in order of arrival.
    pub facts: Range<usize>,
    /// The lease on the terms of its timing statements.
    pub lease: Option<Lease>,
}

/// What a batch holds that still takes statements. More may follow, and what is there stays: a
/// batch of a stream that is not derived only grows until it is handed out.
#[derive(Clone, Copy, Debug)]
pub struct OpenBatch<'c> {
    /// The stream.
    pub stream: StreamUid,
    /// The batch.
    pub batch: BatchNumber,
    /// Its statements so far, in order of arrival.
    pub statements: &'c [TimedTriple],
    /// Its facts so far, in order of arrival.
    pub facts: &'c [Mutation],
}
