//! What the coordinator asks the driver to do.
//!
//! Before changing anything here: the driver carries outputs out in the order given, and every
//! `Due` is followed by exactly one `Fire` or `Cancelled` of the same key (in recovery: of those
//! not yet delivered).

use somersault_lang::CreateStream;
use somersault_lang::lift::Shape;
use somersault_model::{
    BatchNumber, EventTime, Lease, Mutation, QuadIds, QueryUid, Sn, StreamUid, TermId, TimedTriple,
};
use std::sync::Arc;

/// One thing for the driver to do.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Output {
    /// Apply this to the shards and the slices. It holds all changes of its SN, and may be empty.
    Inject(Inject),
    /// A firing became due with this SN: pin the SN now (S9). Execute the firing once
    /// [`Output::Fire`] releases it.
    Due(Firing),
    /// The firing's SN is stable: execute it, then call [`crate::Coordinator::on_fired`].
    Fire(Firing),
    /// The firing's query was dropped before it could execute: unpin, and forget it.
    Cancelled(Firing),
    /// No window, KEEP or lagging firing needs the slices of the stream's batches below this number
    /// any more.
    Retire {
        /// The stream.
        stream: StreamUid,
        /// Batches with lower numbers may be retired.
        below: BatchNumber,
    },
    /// A stream was created.
    StreamCreated {
        /// Its uid.
        uid: StreamUid,
        /// The parsed declaration.
        declaration: Arc<CreateStream>,
    },
    /// A stream was dropped: its slices may be retired.
    StreamDropped {
        /// Its uid.
        uid: StreamUid,
        /// Its IRI.
        iri: String,
    },
    /// Something happened to registered queries.
    Query(QueryEvent),
}

impl Output {
    pub(crate) fn query(cohort: QueryUid, change: QueryChange) -> Output {
        Output::Query(QueryEvent { cohort, change })
    }
}

/// What happened to the registered queries of a cohort. A query that no other joins has a cohort of
/// its own.
#[derive(Clone, Debug, PartialEq)]
pub struct QueryEvent {
    /// The uid that the cohort fires under: that of its first member.
    pub cohort: QueryUid,
    /// What happened.
    pub change: QueryChange,
}

/// The kinds of [`QueryEvent`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum QueryChange {
    /// A cohort was formed by the first query of a shape, or by a query without one. Its members'
    /// constants come with [`QueryChange::Joined`].
    Formed {
        /// The shape.
        shape: Arc<Shape>,
        /// The text of the first member.
        text: String,
        /// The default namespace that texts of the cohort are parsed with.
        namespace: Option<String>,
        /// The stream that its answers make.
        derives: Option<StreamUid>,
    },
    /// Queries were registered.
    Joined {
        /// They fire for later closes than this.
        base: EventTime,
        /// The members, ascending by slot.
        members: Vec<JoiningMember>,
    },
    /// A member was paused.
    Paused {
        /// Its slot.
        slot: u32,
        /// Where its firings end.
        pause: Pause,
    },
    /// A paused member was resumed, in a slot of its own.
    Resumed {
        /// It fires for later closes than this.
        base: EventTime,
        /// The member, in its new slot.
        member: JoiningMember,
        /// The slot that it was paused in.
        before: u32,
    },
    /// A member replaced another query, which had fired for closes up to this one: a subscriber
    /// that saw an earlier one last has missed some.
    AnsweredBefore {
        /// Its slot.
        slot: u32,
        /// The last close that the old query fired for.
        close: EventTime,
    },
    /// Closes whose windows hold nothing were passed after a jump in time, without a firing (WI-2).
    Passed {
        /// The first of them.
        first: EventTime,
        /// The last of them.
        last: EventTime,
        /// How many there were.
        count: u64,
    },
    /// In recovery: a firing was answered before the restart, and all subscribers have the answer.
    /// It is not executed again.
    Delivered {
        /// The firing; of several at one close, the last.
        key: FiringKey,
        /// The SN that it became due with.
        sn: Sn,
    },
    /// A member was dropped. For one that was replaced, this comes after its last firing is done.
    Left {
        /// Its slot.
        slot: u32,
    },
    /// The last member was dropped.
    Ended,
}

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
    /// How it changes.
    pub change: BatchChange,
    /// The lease on the terms of the added statements.
    pub lease: Option<Lease>,
}

/// How a closed batch changes.
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
    /// The lease on the terms of its timing statements.
    pub lease: Option<Lease>,
}

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

/// Where a member of a cohort was paused. Its firings are those that became due before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    /// The newest SN when it was paused.
    pub through: Sn,
    /// The first close that it does not fire for; `None` if it has fired for none.
    pub next: Option<EventTime>,
}

/// A query that joins a cohort.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoiningMember {
    /// Its uid.
    pub uid: QueryUid,
    /// Its slot in the cohort; slots ascend in the order of joining.
    pub slot: u32,
    /// Its text's words for the shape's constants.
    pub words: Vec<String>,
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
    /// What each window holds, in the order of the query's windows.
    pub windows: Arc<[WindowBatches]>,
    /// The time from which all windows are complete, if a window reaches further back than what was
    /// seen or kept.
    pub complete_from: Option<EventTime>,
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

/// Where a window of a number of statements begins and ends within its batches, in the order of
/// arrival.
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
    /// RANGE (more than `hi − lo` where the window reaches further back than what is kept).
    pub range: i64,
    /// How far before its close the window ends.
    pub until: i64,
    /// STEP.
    pub step: i64,
}
