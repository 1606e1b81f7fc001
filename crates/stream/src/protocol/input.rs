//! Inputs of the coordinator, and its answers.
//!
//! Before changing anything here: an [`Input`] is not yet a fact. Only the record that admission
//! makes of it is, and everything that the record's effect depends on must be in the record (S6).

use super::command::{ParsedCommand, ParsedQuery};
use super::statements::{Numbered, PushStatements, Record};
use crate::protocol::declaration::QueryDeclaration;
use crate::protocol::firing::FiringKey;
use crate::protocol::refusal::Refusal;
use oxrdf::{GraphName, Quad};
use somersault_lang::CreateStream;
use somersault_lang::lift::Shape;
use somersault_log::{AnswerPosition, LoadSegment, SubscriptionLimit, SubscriptionTerms};
use somersault_model::{EventTime, QueryUid, Sn, StreamUid};
use std::sync::Arc;

/// Something that a client, a source or the clock asks for. `received_ms` is the driver's clock, in
/// milliseconds since the Unix epoch; it goes into the record.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Input {
    /// Statements of one stream from one source: all of them are taken, or none.
    Push(Push),
    /// The same, already read where it was received.
    ReadPush(ReadPush),
    /// Messages of one stream from one source: each is taken or refused by itself.
    Messages(MessagesInput),
    /// Streams that are complete through a time, moved together (S4). Going back is no error and
    /// moves nothing.
    Advance {
        /// When it was received.
        received_ms: i64,
        /// Stream IRI and its new complete-through time.
        to: Vec<(String, EventTime)>,
    },
    /// The clock has reached a time for which a live query waits.
    Tick {
        /// The time.
        received_ms: i64,
    },
    /// `CREATE STREAM`. The same text again is a repeat.
    CreateStream {
        /// When it was received.
        received_ms: i64,
        /// The parsed statement; its text goes into the record.
        declaration: CreateStream,
        /// The default namespace that the text was parsed with.
        namespace: Option<String>,
    },
    /// `DROP STREAM`: refused while a query windows it.
    DropStream {
        /// When it was received.
        received_ms: i64,
        /// The stream.
        iri: String,
    },
    /// A stream begins again, without a time: refused while a query windows it.
    ResetStream {
        /// When it was received.
        received_ms: i64,
        /// The stream.
        iri: String,
    },
    /// A continuous query. The same text under the same name again is a repeat; another text
    /// replaces the query of that name if `replaces` is set.
    RegisterQuery {
        /// When it was received.
        received_ms: i64,
        /// The name to register it under.
        name: String,
        /// The whole text; it goes into the record.
        text: String,
        /// The default namespace that the text was parsed with.
        namespace: Option<String>,
        /// What the text says.
        query: ParsedQuery,
        /// Whether it may replace a query of this name.
        replaces: bool,
    },
    /// Continuous queries of one shape, spaced alike. Each is taken or refused on its own.
    RegisterQueries {
        /// When they were received.
        received_ms: i64,
        /// The common parts of their texts.
        shape: Arc<Shape>,
        /// The default namespace that the texts are parsed with.
        namespace: Option<String>,
        /// The windows and closes of the texts.
        declaration: Arc<QueryDeclaration>,
        /// Their names, with the words of their texts.
        members: Vec<(String, Vec<String>)>,
    },
    /// `DROP QUERY`.
    DropQuery {
        /// When it was received.
        received_ms: i64,
        /// The query.
        name: String,
    },
    /// `PAUSE QUERY`: closes from now on are passed and counted, and its windows hold no slices.
    PauseQuery {
        /// When it was received.
        received_ms: i64,
        /// The query.
        name: String,
    },
    /// `RESUME QUERY`: fires again from the first close after the latest complete-through time of
    /// its streams.
    ResumeQuery {
        /// When it was received.
        received_ms: i64,
        /// The query.
        name: String,
    },
    /// A durable subscription to a query is created, moved on or dropped.
    Subscription(SubscriptionRequest),
    /// A statement about procedures or dataflows. The lane of transactions has judged it.
    Declaration(Box<ParsedCommand>),
    /// A load segment that is already on disk.
    Load {
        /// When it was received.
        received_ms: i64,
        /// The segment.
        segment: LoadSegment,
        /// Graphs to empty before.
        clears: Vec<GraphName>,
    },
    /// The statements of a firing whose query derives a stream: the answer becomes an input.
    Derived {
        /// When the firing was done.
        received_ms: i64,
        /// The firing. Its key is taken once (S13).
        key: FiringKey,
        /// The statements; empty if the firing failed or had none.
        statements: Vec<Quad>,
    },
    /// The effects of an update (S15): clears, then deletes, then inserts.
    Update {
        /// When it was received.
        received_ms: i64,
        /// The SN that it was evaluated at; refused as [`crate::Refusal::Overtaken`] if that is no
        /// longer the newest. `None` for effects that depend on no state.
        evaluated_at: Option<Sn>,
        /// Graphs to empty.
        clears: Vec<GraphName>,
        /// Statements to delete.
        deletes: Vec<Quad>,
        /// Statements to insert.
        inserts: Vec<Quad>,
    },
}

/// A request that concerns a durable subscription.
#[derive(Clone, Debug)]
pub struct SubscriptionRequest {
    /// When it was received.
    pub received_ms: i64,
    /// The query.
    pub query: String,
    /// The subscription's name.
    pub name: String,
    /// The request.
    pub ask: SubscriptionAsk,
}

/// The kinds of [`SubscriptionRequest`].
#[derive(Clone, Debug)]
pub enum SubscriptionAsk {
    /// It begins. The same terms again change nothing.
    Subscribe {
        /// Its terms.
        terms: SubscriptionTerms,
        /// Whether it begins with the firings that become due from now on; else with `terms`.
        from_now: bool,
    },
    /// Its reader has all answers up to this one.
    Acknowledge(AnswerPosition),
    /// Answers are no longer kept for it. Nothing changes if it was deleted, or if its place
    /// has changed since they were counted.
    LetGo {
        /// Its place then.
        after: AnswerPosition,
        /// The newest of the answers.
        through: AnswerPosition,
        /// Their number.
        answers: u64,
        /// The limit that was reached.
        why: SubscriptionLimit,
    },
    /// It ends.
    Unsubscribe,
}

impl Input {
    /// Memory of the statements that a push brings, estimated; 0 for other inputs.
    pub fn statement_bytes(&self) -> usize {
        match self {
            Input::Push(push) => size_of_val(&push.statements[..]),
            Input::ReadPush(push) => push.statements.bytes(),
            Input::Messages(messages) => messages.statements.bytes(),
            _ => 0,
        }
    }
}

/// Statements of one stream from one source.
#[derive(Clone, Debug)]
pub struct Push {
    /// The stream's IRI.
    pub stream: String,
    /// The source's name; the empty string is the one anonymous source. A stream is complete
    /// through the least of its sources' times.
    pub source: String,
    /// The source's number for this push. A number that was taken before for this (stream, source)
    /// is a repeat and changes nothing (S13). Numbers may come in any order and with gaps: one that
    /// was refused may come after higher ones. Where a source leaves more than 1,024 gaps, the
    /// lowest numbers are forgotten, and refused from then on.
    pub seq: Option<u64>,
    /// When it was received; the event time of an ARRIVAL TIME stream's statements.
    pub received_ms: i64,
    /// The statements in order of arrival.
    pub statements: Vec<PushStatement>,
}

/// A push that was read already: its statements are ids, encoded for the log.
#[derive(Clone, Debug)]
pub struct ReadPush {
    /// Its stream, source and number.
    pub head: PushHead,
    /// When it was received; the event time of an ARRIVAL TIME stream's statements.
    pub received_ms: i64,
    /// The statements in order of arrival.
    pub statements: Numbered,
    /// The index, from 0, of the first statement without an event time. The time that `statements`
    /// has for it means nothing.
    pub untimed: Option<usize>,
}

/// Messages that were offered together, in order.
#[derive(Clone, Debug)]
pub struct MessagesInput {
    /// The stream's IRI.
    pub stream: String,
    /// The source's name; see [`Push::source`].
    pub source: String,
    /// When they were received; the event time on an ARRIVAL TIME stream.
    pub received_ms: i64,
    /// The messages.
    pub messages: Vec<OfferedMessage>,
    /// The statements of those that can be read, one message after the other, each at the event
    /// time of its message.
    pub statements: PushStatements,
}

/// One of several messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OfferedMessage {
    /// The source's number for it; see [`Push::seq`].
    pub seq: Option<u64>,
    /// Its event time.
    pub at: Option<EventTime>,
    /// The number of its statements; `None` if its caller knows already why it cannot be taken. It
    /// may be a repeat all the same: a number that was taken is one whatever it carries.
    pub statements: Option<u32>,
}

/// The verdict on one of several messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MessageOutcome {
    /// It is taken.
    Taken,
    /// Its (stream, source, seq) was taken before.
    Repeated,
    /// It is refused, and leaves no trace.
    Refused(Refusal),
    /// Its caller knows why it cannot be taken.
    Unreadable,
}

/// The stream, source and number of a push.
#[derive(Clone, Debug)]
pub struct PushHead {
    /// The stream's IRI.
    pub stream: String,
    /// The source's name; see [`Push::source`].
    pub source: String,
    /// The source's number for this push; see [`Push::seq`].
    pub seq: Option<u64>,
}

/// One statement of a push.
#[derive(Clone, Debug)]
pub struct PushStatement {
    /// Its event time; an ARRIVAL TIME stream ignores it, an EVENT TIME stream needs it.
    pub at: Option<EventTime>,
    /// The statement.
    pub quad: Quad,
}

/// The decision of admission about an input that is not refused.
#[derive(Clone, Debug)]
pub enum Admission {
    /// Log this record, then apply it.
    Record(Record),
    /// For queries that are registered together: log this record, if there is one, then apply it.
    /// There is one outcome for each query, in their order.
    Several(Option<Record>, Vec<Result<Taken, Refusal>>),
    /// For messages: log this record, if there is one, then apply it. The outcomes are those of the
    /// first messages. If there are fewer than messages, the others are offered again after the
    /// cuts that are due, unless the last outcome [ends the messages](Refusal::ends_messages).
    Messages(Option<Record>, Vec<MessageOutcome>),
    /// It has been done before: acknowledge it, log nothing.
    Repeat(Repeat),
    /// It changes nothing (an empty push, an advance to where the streams are already): acknowledge
    /// it, log nothing.
    Nothing,
}

/// The effects of an applied record on the statements of streams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// Statements of a push that the stream has taken.
    pub accepted: u64,
    /// Late statements of a push that the stream has dropped (LATE DROP, and LATE AMEND beyond
    /// WITHIN).
    pub late: u64,
    /// Statements that the stream held and that a reset or DROP STREAM has dropped.
    pub dropped: u64,
}

/// One of several queries that was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// Its uid.
    pub uid: QueryUid,
    /// Whether it is new; otherwise the same text was registered under this name before.
    pub is_new: bool,
}

/// A request that was taken before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    /// A push whose (stream, source, seq) was taken before.
    Push,
    /// The stream exists with this very text.
    Stream(StreamUid),
    /// The statements of this firing are in the derived stream.
    Derived,
    /// The query exists under this name with this very text.
    Query(QueryUid),
}
