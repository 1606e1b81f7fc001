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
    /// Apply this to the shards and the slices; it is all there is of its SN, and may be nothing.
    Inject(Inject),
    /// A firing became due with this SN: pin it now (S9). It executes once it is released by
    /// [`Output::Fire`].
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
        /// Batches with lower numbers may go.
        below: BatchNumber,
    },
    /// A stream was created.
    StreamCreated {
        /// Its uid.
        uid: StreamUid,
        /// What was declared.
        declaration: Arc<CreateStream>,
    },
    /// A stream was dropped: its slices may go.
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

/// See [`QueryEvent`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum QueryChange {
    /// The first query of a shape was registered, or one that has none: what its members differ in
    /// comes with [`QueryChange::Joined`].
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
        /// They, ascending by slot.
        members: Vec<JoiningMember>,
    },
    /// A member was paused.
    Paused {
        /// Its slot.
        slot: u32,
        /// When.
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
    /// A member took the place of another query, which had fired for closes up to this one: a
    /// subscriber that saw an earlier one last has missed some.
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
        /// Which; of several at one close the last.
        key: FiringKey,
        /// The SN that it became due with.
        sn: Sn,
    },
    /// A member was dropped. Of one that was replaced this comes after its last firing is done.
    Left {
        /// Its slot.
        slot: u32,
    },
    /// The last member was dropped.
    Ended,
}

/// All that one SN adds to the stored graphs and to the windows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Inject {
    /// The SN.
    pub sn: Sn,
    /// Graphs that are emptied before anything else.
    pub clears: Arc<[TermId]>,
    /// Changes of the stored graphs, in order; of several changes of one statement the last wins.
    pub mutations: Vec<Mutation>,
    /// Loaded statements, to be inserted.
    pub loads: Vec<Arc<[QuadIds]>>,
    /// Batches that closed, to become slices; ascending by end.
    pub slices: Vec<ClosedBatch>,
    /// Batches of earlier SNs that change: those that read at this SN or later see them so.
    pub amended: Vec<AmendedBatch>,
}

/// A closed batch that changes after all.
#[derive(Clone, Debug, PartialEq)]
pub struct AmendedBatch {
    /// The stream.
    pub stream: StreamUid,
    /// The batch; it may have held nothing before.
    pub batch: BatchNumber,
    /// How it changes.
    pub change: BatchChange,
    /// What keeps the terms of the statements that come.
    pub lease: Option<Lease>,
}

/// How a closed batch changes.
#[derive(Clone, Debug, PartialEq)]
pub enum BatchChange {
    /// These came late; they arrived after all that it holds.
    Late(Vec<TimedTriple>),
    /// A firing that derives it was amended: it holds these, and what it held no more.
    Replaced(Vec<TimedTriple>),
}

/// A batch that will not change any more. Empty ones are never handed out.
#[derive(Clone, Debug, PartialEq)]
pub struct ClosedBatch {
    /// The stream.
    pub stream: StreamUid,
    /// The batch.
    pub batch: BatchNumber,
    /// All its statements, timing and timeless, in order of arrival.
    pub statements: Vec<TimedTriple>,
    /// What keeps the terms of its timing statements.
    pub lease: Option<Lease>,
}

/// What tells one firing from all others, for good (S13). Those of one query become due in the
/// order of their SNs.
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

/// When a member of a cohort was paused. Its firings are those that became due before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    /// The newest SN by then.
    pub through: Sn,
    /// The first close that it does not fire for; `None` where it has fired for none.
    pub next: Option<EventTime>,
}

/// A query that joins a cohort.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoiningMember {
    /// Its uid.
    pub uid: QueryUid,
    /// Its slot in the cohort; slots ascend in the order of joining.
    pub slot: u32,
    /// The words that its text has for the shape's constants.
    pub words: Vec<String>,
}

/// One execution of a cohort. Its key for exactly-once is (query, close, ordinal, revision) (S13).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Firing {
    /// The cohort.
    pub query: QueryUid,
    /// The members in the cohort's first *n* slots fire: *n*.
    pub members: u32,
    /// The close: also NOW() of the query.
    pub close: EventTime,
    /// Counts the firings of one query at one close from 0 (count windows may have several).
    pub ordinal: u32,
    /// 0; higher when late statements amended the windows.
    pub revision: u32,
    /// Whether its answer was given to everybody before a restart: the next one is to be compared
    /// with it, and nobody is given it again.
    pub repeated: bool,
    /// The stored graph is read at this SN.
    pub sn: Sn,
    /// What each window holds, in the order of the query's windows.
    pub windows: Arc<[WindowBatches]>,
    /// If a window reaches further back than what was seen or kept: from when on all windows are
    /// complete.
    pub complete_from: Option<EventTime>,
}

/// The content of one window at one close, as batches of its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WindowBatches {
    /// The stream.
    pub stream: StreamUid,
    /// The first batch in the window.
    pub lo: BatchNumber,
    /// The first batch after the window; equal to `lo` where it holds nothing.
    pub hi: BatchNumber,
    /// Which window it is: the versions of one slide from each other. All 0 for a window of a
    /// number of statements.
    pub shape: BatchShape,
    /// Of a window of a number of statements: what of the first and of the last batch is in it.
    pub statements: Option<Statements>,
}

/// Where a window of a number of statements begins and ends within its batches, in the order of
/// arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Statements {
    /// So many statements of the first batch come before the window.
    pub skip: u32,
    /// So many statements of the last batch are in the window or come before it.
    pub upto: u32,
}

/// A window over a stream, counted in its batches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct BatchShape {
    /// RANGE (more than `hi − lo` where the window reaches further back than what is kept).
    pub range: i64,
    /// How far before the close it ends.
    pub until: i64,
    /// STEP.
    pub step: i64,
}
