//! Log records: one input of the engine each, in terms (S1, S2).
//!
//! Before changing anything here: these are the types that the other crates see. What lies on disk
//! is written by `wire`, which has enums and versions of its own, so a field added here needs a
//! place there. A record must hold all that its effect depends on (S6): whatever a setting,
//! a clock or a parser option decided when the input was taken is written down, never looked up
//! again at recovery.

mod transaction;

pub use transaction::{
    TxnCall, TxnChange, TxnConsumed, TxnEntry, TxnItem, TxnMessage, TxnOrigin, TxnOutcome,
    TxnPlaces, TxnRecord, TxnRound,
};

use oxrdf::{GraphName, Quad};
use somersault_model::{EventTime, Place, QueryUid, Sn, StreamUid};

/// The ordinal of a record in one process's log, counted from 1 without gaps.
///
/// Position `p` as a bound means "all records up to and including the `p`-th"; [`Position::START`]
/// means none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(pub u64);

impl Position {
    /// The bound before the first record.
    pub const START: Position = Position(0);

    /// The position of the record after this one.
    #[must_use]
    pub fn next(self) -> Position {
        Position(self.0 + 1)
    }
}

impl std::fmt::Display for Position {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// One input, in the order in which the engine took it (S1).
///
/// `P`, `C` and `T` are the forms that the statements of a push, a command and transactions have in
/// memory; a log gives back [`StreamStatement`]s, [`CommandRecord`]s and [`TxnRecord`]s of terms.
#[derive(Clone, Debug, PartialEq)]
pub enum Record<P = Vec<StreamStatement>, C = CommandRecord, T = TxnRecord> {
    /// Statements of one stream, as one source sent them.
    Push(PushRecord<P>),
    /// Streams whose time advances without statements: heartbeats, IDLE, merged sources (S4).
    Advance(AdvanceRecord),
    /// DDL and registrations, with what they resolved to (S5).
    Command(C),
    /// Statements loaded from a segment file of their own.
    Load(LoadRecord),
    /// The effects of an update (S15).
    Update(UpdateRecord),
    /// A cut: the state after all records before this one has the plan's snapshot number (S3).
    Plan(PlanRecord),
    /// A firing whose answer has been handed over; recovery does not execute it again (S12).
    Delivered(DeliveredRecord),
    /// The statements that a firing puts into the stream that its query derives: the one way back
    /// from an answer to a stream.
    Derived(DerivedRecord),
    /// A change of a durable subscription.
    Subscription(SubscriptionRecord),
    /// Transactions of procedures, calls among them.
    Txn(T),
    /// Messages of one stream, as one source sent them together.
    Messages(MessagesRecord<P>),
}

impl<P, C: AsRef<CommandRecord>, T> Record<P, C, T> {
    /// Whether a full disk refuses it: an input that takes space. What inputs before it have caused
    /// passes, and so does what frees space.
    pub(crate) fn needs_room(&self) -> bool {
        match self {
            Record::Push(_) | Record::Messages(_) | Record::Advance(_) | Record::Load(_) => true,
            Record::Update(update) => {
                let is_clearing = !update.clears.is_empty() && update.inserts.is_empty();
                !is_clearing
            }
            Record::Command(command) => !matches!(
                command.as_ref().command,
                Command::DropStream { .. }
                    | Command::DropQuery { .. }
                    | Command::PauseQuery { .. }
                    | Command::ResetStream { .. }
                    | Command::DropProcedure { .. }
                    | Command::DropDataflow { .. }
                    | Command::PauseDataflow { .. }
            ),
            Record::Subscription(subscription) => {
                matches!(subscription.change, SubscriptionChange::Created(_))
            }
            Record::Plan(_) | Record::Delivered(_) | Record::Derived(_) | Record::Txn(_) => false,
        }
    }
}

impl<P, C, T> Record<P, C, T> {
    /// The record with the statements of a push, a command, and transactions in other forms.
    ///
    /// # Errors
    /// That of `command`.
    pub fn with_forms<Q, D, U, E>(
        self,
        statements: impl FnOnce(P) -> Q,
        command: impl FnOnce(C) -> Result<D, E>,
        transactions: impl FnOnce(T) -> U,
    ) -> Result<Record<Q, D, U>, E> {
        Ok(match self {
            Record::Push(push) => Record::Push(PushRecord {
                stream: push.stream,
                source: push.source,
                seq: push.seq,
                received_ms: push.received_ms,
                statements: statements(push.statements),
            }),
            Record::Advance(advance) => Record::Advance(advance),
            Record::Command(record) => Record::Command(command(record)?),
            Record::Load(load) => Record::Load(load),
            Record::Update(update) => Record::Update(update),
            Record::Plan(plan) => Record::Plan(plan),
            Record::Delivered(delivered) => Record::Delivered(delivered),
            Record::Derived(derived) => Record::Derived(derived),
            Record::Subscription(subscription) => Record::Subscription(subscription),
            Record::Txn(txn) => Record::Txn(transactions(txn)),
            Record::Messages(record) => Record::Messages(MessagesRecord {
                stream: record.stream,
                source: record.source,
                received_ms: record.received_ms,
                messages: record.messages,
                statements: statements(record.statements),
            }),
        })
    }
}

/// A statement of a stream with its event time.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StreamStatement {
    /// The event time; arrival-time streams have it filled in before the record is made.
    pub at: EventTime,
    /// The statement. Its graph counts only when it is absorbed without INTO.
    pub quad: Quad,
}

/// Statements pushed to one stream in one request: visible all together or not at all.
#[derive(Clone, Debug, PartialEq)]
pub struct PushRecord<P = Vec<StreamStatement>> {
    /// The stream's IRI.
    pub stream: String,
    /// The sender; the empty string is the one anonymous source.
    pub source: String,
    /// The source's own number for this push; (stream, source, seq) is the key by which repeats are
    /// dropped (S13).
    pub seq: Option<u64>,
    /// When it was received, in milliseconds since the Unix epoch.
    pub received_ms: i64,
    /// The statements in the order of arrival.
    pub statements: P,
}

/// Messages of one stream that were taken, of those that one source sent in one request. Each is
/// visible as a whole or not at all, and its blank nodes are its own.
#[derive(Clone, Debug, PartialEq)]
pub struct MessagesRecord<P = Vec<StreamStatement>> {
    /// The stream's IRI.
    pub stream: String,
    /// The sender; the empty string is the one anonymous source.
    pub source: String,
    /// When they were received, in milliseconds since the Unix epoch.
    pub received_ms: i64,
    /// The messages, in the order of the request.
    pub messages: Vec<LoggedMessage>,
    /// The statements of the messages, one message after the other. Those of a message have one
    /// event time.
    pub statements: P,
}

/// One message of a [`MessagesRecord`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoggedMessage {
    /// The source's own number for it; (stream, source, seq) is the key by which repeats are
    /// dropped (S13).
    pub seq: Option<u64>,
    /// The number of its statements, at least 1.
    pub statements: u32,
}

/// Streams that are complete through a time, all in one record and hence in one SN (S4). Without
/// streams it only says that the clock has reached a time for which a live query waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdvanceRecord {
    /// When it was received, in milliseconds since the Unix epoch.
    pub received_ms: i64,
    /// Stream IRI and the time through which it is now complete.
    pub to: Vec<(String, EventTime)>,
}

/// A command and what it resolved to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandRecord {
    /// When it was received, in milliseconds since the Unix epoch.
    pub received_ms: i64,
    /// The command.
    pub command: Command,
    /// The resolution when it was first applied; recovery takes it from here (S5).
    pub resolved: Resolved,
}

impl AsRef<CommandRecord> for CommandRecord {
    fn as_ref(&self) -> &CommandRecord {
        self
    }
}

/// DDL and registrations. Texts are kept as given, together with what their meaning depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// `CREATE STREAM`.
    CreateStream {
        /// The stream's IRI, resolved.
        iri: String,
        /// The whole CREATE STREAM text.
        text: String,
        /// The default namespace for bare names in `text`, as it was set at the time.
        namespace: Option<String>,
    },
    /// `DROP STREAM`.
    DropStream {
        /// The stream's IRI.
        iri: String,
    },
    /// A stream begins again: it has no time, a new uid, and the declaration and the sources'
    /// numbers that it had.
    ResetStream {
        /// The stream's IRI.
        iri: String,
    },
    /// `REGISTER QUERY`, or a query put under a name.
    RegisterQuery {
        /// The query's name, resolved.
        name: String,
        /// The whole query text.
        text: String,
        /// The default namespace for bare names in `text`, as it was set at the time.
        namespace: Option<String>,
    },
    /// Queries that differ in their names and in some words of their texts alone, registered
    /// together. They have consecutive uids from the resolved one on.
    RegisterQueries {
        /// The text, cut where the words stand: one piece more than there are words.
        pieces: Vec<String>,
        /// The default namespace for bare names in the texts, as it was set at the time.
        namespace: Option<String>,
        /// Names, with the words.
        members: Vec<(String, Vec<String>)>,
    },
    /// A query that takes the place of the one that is registered under its name: that one is
    /// dropped and this one registered, or neither.
    ReplaceQuery {
        /// The name of both.
        name: String,
        /// The whole text of the new one.
        text: String,
        /// The default namespace for bare names in `text`, as it was set at the time.
        namespace: Option<String>,
    },
    /// `DROP QUERY`.
    DropQuery {
        /// The query's name.
        name: String,
    },
    /// `PAUSE QUERY`.
    PauseQuery {
        /// The query's name.
        name: String,
    },
    /// `RESUME QUERY`.
    ResumeQuery {
        /// The query's name.
        name: String,
    },
    /// `CREATE [OR REPLACE] PROCEDURE`.
    CreateProcedure {
        /// The procedure's name.
        name: String,
        /// The whole text.
        text: String,
        /// The default namespace for bare names in `text`, as it was set at the time.
        namespace: Option<String>,
    },
    /// `DROP PROCEDURE`.
    DropProcedure {
        /// The procedure's name.
        name: String,
        /// Whether messages that wait for it are given up.
        discard: bool,
    },
    /// `CREATE [OR REPLACE] DATAFLOW`.
    CreateDataflow {
        /// The dataflow's name.
        name: String,
        /// The whole text.
        text: String,
        /// The default namespace for bare names in `text`, as it was set at the time.
        namespace: Option<String>,
    },
    /// `DROP DATAFLOW`.
    DropDataflow {
        /// The dataflow's name.
        name: String,
    },
    /// `PAUSE DATAFLOW`.
    PauseDataflow {
        /// The dataflow's name.
        name: String,
    },
    /// `RESUME DATAFLOW`.
    ResumeDataflow {
        /// The dataflow's name.
        name: String,
    },
}

/// The resolution of a command (S5).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resolved {
    /// The newest SN that was cut before the command.
    pub sn: Sn,
    /// The uid of the stream that was created or dropped.
    pub stream: Option<StreamUid>,
    /// The uid of the query that was registered, dropped, paused or resumed.
    pub query: Option<QueryUid>,
    /// The complete-through times of the streams concerned, of those that have one.
    pub stream_times: Vec<(StreamUid, EventTime)>,
    /// The first close of a registered query, where its streams already have a time.
    pub first_close: Option<EventTime>,
    /// The query that a replacement replaces.
    pub replaced: Option<Replaced>,
    /// Where the pushed streams stand whose first consumer a procedure is.
    pub begins: Vec<ConsumerBegin>,
}

/// Where a pushed stream stands when its first consumer is declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConsumerBegin {
    /// The stream.
    pub stream: StreamUid,
    /// The place of its next message.
    pub next: Place,
    /// The time that it is complete through.
    pub through: EventTime,
}

/// The query whose place another takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replaced {
    /// Its uid.
    pub query: QueryUid,
    /// It fired for closes up to this time, the new one fires for those after it.
    pub after: EventTime,
}

/// Statements that were written to a load segment before this record (see
/// [`crate::LoadSegmentWriter`]). They are put into the stored graphs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadRecord {
    /// When it was received, in milliseconds since the Unix epoch.
    pub received_ms: i64,
    /// The segment's file and hash.
    pub segment: LoadSegment,
    /// Graphs that are emptied before anything else.
    pub clears: Vec<GraphName>,
}

/// A load segment as [`crate::LoadSegmentWriter::finish`] made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadSegment {
    /// The file's name in the data folder. In a volatile log, a name without a file.
    pub name: String,
    /// SHA-256 of the file's bytes. In a volatile log all zeros.
    pub hash: [u8; 32],
    /// The number of statements in it, repeats counted.
    pub statements: u64,
}

/// The effects of an update: deletes first, then inserts (S15).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UpdateRecord {
    /// When it was received, in milliseconds since the Unix epoch.
    pub received_ms: i64,
    /// Graphs that are emptied before anything else.
    pub clears: Vec<GraphName>,
    /// Statements taken out of the stored graphs.
    pub deletes: Vec<Quad>,
    /// Statements put into the stored graphs.
    pub inserts: Vec<Quad>,
}

/// A cut: names the state after all records up to `log_end` with a snapshot number (S3, S4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanRecord {
    /// The snapshot number that is cut.
    pub sn: Sn,
    /// The close for which it was cut; only batches that end at or before it are taken. None for a
    /// freshness cut.
    pub through: Option<EventTime>,
    /// The newest record that counts; in one process always the one before the plan record itself.
    pub log_end: Position,
    /// The complete-through times of the streams for which they changed since the plan before.
    pub stream_times: Vec<(StreamUid, EventTime)>,
    /// The live queries that could not keep up when it was cut, ascending: they do not fire with
    /// it, and what it changes for them joins a later change.
    pub held: Vec<QueryUid>,
}

/// A firing that was handed to its subscribers and sinks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeliveredRecord {
    /// The query.
    pub query: QueryUid,
    /// The close of the newest of them.
    pub close: EventTime,
    /// Every firing of the query that became due with this SN or before is done. Logs of version
    /// 0.1 have none: there no firing is for a close before that of an earlier one, and all up to
    /// `close` are done.
    pub sn: Option<Sn>,
}

/// The statements that a firing puts into the stream that its query derives. The key (query, close,
/// ordinal, revision) is taken once: a second record with it changes nothing (S13).
#[derive(Clone, Debug, PartialEq)]
pub struct DerivedRecord {
    /// The query.
    pub query: QueryUid,
    /// The close, which is the event time of the statements.
    pub close: EventTime,
    /// Counts the firings at one close from 0.
    pub ordinal: u32,
    /// 0; of a firing that was amended, its revision: the statements take the place of those of the
    /// revisions before.
    pub revision: u32,
    /// When the firing was done, in milliseconds since the Unix epoch.
    pub received_ms: i64,
    /// The statements; blank nodes are named as in the stored graphs.
    pub statements: Vec<Quad>,
}

/// A change of a durable subscription to a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubscriptionRecord {
    /// When it was received, in milliseconds since the Unix epoch.
    pub received_ms: i64,
    /// The query's name. A query that has durable subscriptions keeps its name.
    pub query: String,
    /// The subscription's name, which is unique among those of the query.
    pub name: String,
    /// The change.
    pub change: SubscriptionChange,
}

/// The kinds of [`SubscriptionRecord`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SubscriptionChange {
    /// It begins.
    Created(SubscriptionTerms),
    /// Its reader has all answers up to this one.
    Acknowledged(AnswerPosition),
    /// It was deleted.
    Dropped,
    /// Answers are no longer kept for it, and its reader has missed them. Unless its terms say that
    /// it skips the oldest, it has ended.
    LetGo {
        /// The newest of them.
        through: AnswerPosition,
        /// Their number.
        answers: u64,
        /// The limit that was reached.
        why: SubscriptionLimit,
    },
}

/// The limits of a durable subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubscriptionLimit {
    /// The number of kept answers.
    Answers,
    /// Their memory.
    Bytes,
    /// The time within which an answer is to be acknowledged.
    Deadline,
}

/// What a durable subscription receives, and how much is kept for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubscriptionTerms {
    /// It receives the answers after this one.
    pub after: AnswerPosition,
    /// The number of answers that are kept for it at most.
    pub answers: u64,
    /// The memory of the answers that are kept for it at most, in bytes.
    pub bytes: u64,
    /// The time within which an answer is to be acknowledged, in milliseconds.
    pub deadline_ms: Option<u64>,
    /// Whether it also receives answers without rows.
    pub empties: bool,
    /// At a limit: whether the oldest answers are let go and the subscription goes on.
    pub skips_oldest: bool,
}

/// The position of an answer among those of its query, in the order of delivery: it ascends with
/// every firing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AnswerPosition {
    /// The SN that the firing became due with.
    pub sn: Sn,
    /// Its close.
    pub close: EventTime,
    /// Counts the firings at one close from 0.
    pub ordinal: u32,
    /// 0, and more for amended firings.
    pub revision: u32,
}

impl AnswerPosition {
    /// The position before all answers.
    pub const START: AnswerPosition = AnswerPosition {
        sn: Sn(0),
        close: EventTime::MIN,
        ordinal: 0,
        revision: 0,
    };

    /// The position behind all firings that became due with this SN or before.
    pub fn through(sn: Sn) -> AnswerPosition {
        AnswerPosition {
            sn,
            close: EventTime(i64::MAX),
            ordinal: u32::MAX,
            revision: u32::MAX,
        }
    }
}
