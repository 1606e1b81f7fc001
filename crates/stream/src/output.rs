//! The commands of the coordinator to the driver.
//!
//! Before changing anything here: the driver carries outputs out in the order given, and every
//! `Due` is followed by exactly one `Fire` or `Cancelled` of the same key (in recovery: of those
//! not yet delivered).

use crate::protocol::cohort_view::CohortView;
use crate::protocol::firing::{Firing, FiringKey};
use crate::protocol::inject::Inject;
use crate::protocol::status::SubscriptionStatus;
use crate::streams::clock::StreamClock;
use crate::streams::messages::KeptMessage;
use somersault_lang::Overload;
use somersault_lang::lift::Shape;
use somersault_log::AnswerPosition;
use somersault_model::{BatchNumber, EventTime, QueryUid, Sn, StreamUid};
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
    /// A stream was created, or begins again after a reset.
    StreamCreated {
        /// Its uid, its declaration and its times.
        clock: Arc<StreamClock>,
    },
    /// A stream was dropped, or ends with a reset: its slices may be retired.
    StreamDropped {
        /// Its uid.
        uid: StreamUid,
        /// Its IRI.
        iri: String,
    },
    /// Something happened to registered queries.
    Query(QueryEvent),
    /// Messages came into a stream that procedures consume.
    Messages {
        /// The stream.
        stream: StreamUid,
        /// The messages, in the order of their places.
        messages: Vec<KeptMessage>,
    },
    /// Transactions have emitted messages into a stream that procedures consume. The lane that ran
    /// the transactions has these messages already; only a replay needs them.
    Emitted {
        /// The stream.
        stream: StreamUid,
        /// The messages, in the order of their places.
        messages: Vec<KeptMessage>,
    },
    /// A stream that procedures consume is complete through another time. Its messages up to there
    /// have been told before.
    Reached {
        /// The stream.
        stream: StreamUid,
        /// The time.
        through: EventTime,
    },
}

impl Output {
    pub(crate) fn query(cohort: QueryUid, change: QueryChange) -> Output {
        Output::Query(QueryEvent { cohort, change })
    }
}

/// A change of the registered queries of a cohort. A query that no other joins has a cohort of its
/// own.
#[derive(Clone, Debug, PartialEq)]
pub struct QueryEvent {
    /// The uid that the cohort fires under: that of its first member.
    pub cohort: QueryUid,
    /// The change.
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
        /// The behaviour of its members if they cannot keep up.
        overload: Overload,
        /// Its size and the name of a member, now and later.
        view: Arc<CohortView>,
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
        /// The end of its firings.
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
        /// The number of them.
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
    /// A durable subscription to a member was created, or is there after a restart.
    Subscribed {
        /// The member's slot.
        slot: u32,
        /// The subscription, which has a reader's place after a restart.
        subscription: SubscriptionStatus,
    },
    /// The reader of a durable subscription has all answers up to this one.
    Acknowledged {
        /// The member's slot.
        slot: u32,
        /// The subscription's name.
        subscription: String,
        /// The position of the answer.
        through: AnswerPosition,
    },
    /// Answers are no longer kept for a durable subscription, which may end with that.
    LetGo {
        /// The member's slot.
        slot: u32,
        /// The subscription as it is now.
        subscription: SubscriptionStatus,
    },
    /// A durable subscription was dropped.
    Unsubscribed {
        /// The member's slot.
        slot: u32,
        /// The subscription's name.
        subscription: String,
    },
}

/// The pause of a member of a cohort. Its firings are those that became due before.
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
