//! Why an input is not taken: each refusal says what was wrong, where, and what to do.
//!
//! A refused input leaves no trace: nothing was logged, nothing has changed.

use somersault_model::{EventTime, Sn};
use std::num::NonZeroI64;

/// Why an input was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// A push or command names a stream that is not declared.
    #[error("there is no stream <{stream}>; declare it with CREATE STREAM <{stream}> first")]
    UnknownStream {
        /// The stream.
        stream: String,
    },
    /// A command names a query that is not registered.
    #[error(
        "there is no continuous query {name}; register it first, or look at the list of queries"
    )]
    UnknownQuery {
        /// The query.
        name: String,
    },
    /// A window is over a stream that is not declared.
    #[error(
        "query {query} has a window on <{stream}>, which is not a declared stream; declare it with CREATE STREAM <{stream}> before registering the query"
    )]
    WindowOnUnknownStream {
        /// The query.
        query: String,
        /// The stream.
        stream: String,
    },
    /// The stream exists with another text.
    #[error(
        "stream <{stream}> exists with another declaration: {text}\nDROP STREAM <{stream}> first, or use another name"
    )]
    StreamConflict {
        /// The stream.
        stream: String,
        /// The text that it was declared with.
        text: String,
    },
    /// The query exists with another text.
    #[error(
        "query {name} is registered with another text; replace it, DROP QUERY {name} first, or use another name"
    )]
    QueryConflict {
        /// The query.
        name: String,
    },
    /// A command names a durable subscription that does not exist.
    #[error(
        "query {query} has no durable subscription {name}; create it first (PUT /queries/{{name}}/subscriptions/{{who}})"
    )]
    UnknownSubscription {
        /// The query.
        query: String,
        /// The subscription.
        name: String,
    },
    /// The durable subscription exists with other terms.
    #[error(
        "query {query} has a durable subscription {name} with other terms; delete it first, or use another name"
    )]
    SubscriptionConflict {
        /// The query.
        query: String,
        /// The subscription.
        name: String,
    },
    /// A query that durable subscriptions read is neither dropped nor replaced.
    #[error(
        "query {query} has durable subscriptions: {names}; delete them first, so that no answer is lost unnoticed"
    )]
    QuerySubscribed {
        /// The query.
        query: String,
        /// The subscriptions, as a list for people.
        names: String,
    },
    /// A stream that queries window cannot be dropped.
    #[error("stream <{stream}> is windowed by {queries}; drop them first")]
    StreamInUse {
        /// The stream.
        stream: String,
        /// The queries, as a list for people.
        queries: String,
    },
    /// A stream would be derived from itself.
    #[error(
        "stream <{stream}> would feed itself: {cycle}; derive it from other streams, or DROP QUERY one of those between"
    )]
    DerivationCycle {
        /// The stream.
        stream: String,
        /// The cycle, as a list for people: each stream derived from the next.
        cycle: String,
    },
    /// The name of a derived stream is that of another stream.
    #[error(
        "there is a stream <{stream}> already; DROP STREAM <{stream}> first, or give the derived stream another name"
    )]
    DerivedStreamTaken {
        /// The stream.
        stream: String,
    },
    /// A derived stream takes nothing but its query's answers, and ends with its query.
    #[error(
        "stream <{stream}> is derived by query {query}, which alone says what is in it and how far it is; {remedy}"
    )]
    Derived {
        /// The stream.
        stream: String,
        /// The query.
        query: String,
        /// The remedy.
        remedy: String,
    },
    /// An interior stream is filled by procedures alone.
    #[error(
        "stream <{stream}> is INTERIOR: the EMIT steps of procedures alone fill it and say how far it is; push to the streams that those procedures consume"
    )]
    Interior {
        /// The stream.
        stream: String,
    },
    /// A stream that procedures consume can be neither dropped nor reset.
    #[error("stream <{stream}> is consumed by procedure {procedure}; drop that first")]
    Consumed {
        /// The stream.
        stream: String,
        /// The procedure.
        procedure: String,
    },
    /// A push has several event times, and procedures consume its stream.
    #[error(
        "statement {index} of the push to <{stream}> has another event time than those before it, but procedure {procedure} consumes the stream, and a message has one time; send messages, or one push for each time. Nothing of the push was taken"
    )]
    SeveralTimes {
        /// The stream.
        stream: String,
        /// Which statement of the push, from 1.
        index: usize,
        /// The procedure.
        procedure: String,
    },
    /// A request gives event times to a stream that finds them in the data.
    #[error(
        "stream <{stream}> takes event times from its data (TIMESTAMP); leave out the time that the request gives. Nothing was taken"
    )]
    TimeGiven {
        /// The stream.
        stream: String,
    },
    /// The data of a message does not have the time that TIMESTAMP looks for.
    #[error("{reason}")]
    NoTimestamp {
        /// The sentence.
        reason: String,
    },
    /// A query cannot be dropped while others window the stream that it derives.
    #[error(
        "query {query} derives stream <{stream}>, which is windowed by {queries}; drop them first"
    )]
    DerivedInUse {
        /// The query.
        query: String,
        /// Its stream.
        stream: String,
        /// The queries that window it, as a list for people.
        queries: String,
    },
    /// A query would window the stream that ends with the query that it replaces.
    #[error(
        "query {query} has a window on <{stream}>, which the query that it would replace derives, and which ends with that one; register it under another name"
    )]
    EndsWithReplaced {
        /// The query.
        query: String,
        /// The stream.
        stream: String,
    },
    /// A query cannot replace one that has answered closes which none of the new query's streams
    /// has reached.
    #[error(
        "query {query} has answered closes up to {after}, and none of the streams that the new text windows is there yet; advance them to {after} first, or drop the query and register the new text",
        after = .after.0
    )]
    SuccessorBehind {
        /// The query.
        query: String,
        /// Its newest close, or the time of its streams.
        after: EventTime,
    },
    /// An event time went back further than LATENESS allows.
    #[error(
        "{} has event time {at}, but {source_phrase} complete through {watermark} already; {}. Nothing of {} was taken",
        subject(*.index, .stream, .statement), late_remedy(*.needed_ms, *.idle_ms), unit(*.index),
        at = .at.0, watermark = .watermark.0,
    )]
    Late {
        /// The stream.
        stream: String,
        /// Which statement of the push, from 1.
        index: usize,
        /// The statement itself, shortened.
        statement: String,
        /// Its event time.
        at: EventTime,
        /// The earliest event time that would be accepted.
        watermark: EventTime,
        /// "the stream is", or "its source … is".
        source_phrase: String,
        /// The LATENESS that would have accepted it.
        needed_ms: i64,
        /// The stream's IDLE, where the clock had moved the stream on.
        idle_ms: Option<NonZeroI64>,
    },
    /// A push has a sequence number that is no longer known to be free or taken.
    #[error(
        "sequence number {seq} of source {source_name:?} of <{stream}> is below {floor}, and which numbers below {floor} were taken is no longer known; if this push was acknowledged before, leave it out, else send it with a number that the source has not used. Nothing of the push was taken"
    )]
    SequenceForgotten {
        /// The stream.
        stream: String,
        /// The source; the empty string is the anonymous one.
        source_name: String,
        /// The number of the push.
        seq: u64,
        /// The numbers from this one on are known.
        floor: u64,
    },
    /// An event time lies further ahead than AHEAD allows.
    #[error(
        "{} has event time {at} ({}), which is {bound}, where the clock says {}; send the right time, or, if it is right, declare the stream with a longer AHEAD (AHEAD 400d, or AHEAD ANY). Nothing of {} was taken",
        subject(*.index, .stream, .statement), .at, .received, unit(*.index), at = .at.0,
    )]
    TooFarAhead {
        /// The stream.
        stream: String,
        /// Which statement of the push, from 1.
        index: usize,
        /// The statement itself, shortened.
        statement: String,
        /// Its event time.
        at: EventTime,
        /// The limit, and the time that it is measured from.
        bound: String,
        /// The clock at its reception.
        received: EventTime,
    },
    /// A stream would be advanced further ahead than AHEAD allows.
    #[error(
        "stream <{stream}> would be advanced to {to} ({}), which is {bound}, where the clock says {}; advance it to the right time, or, if it is right, declare the stream with a longer AHEAD (AHEAD 400d, or AHEAD ANY). No stream was advanced",
        .to, .received, to = .to.0,
    )]
    AdvanceTooFar {
        /// The stream.
        stream: String,
        /// The time that it was to be advanced to.
        to: EventTime,
        /// The limit, and the time that it is measured from.
        bound: String,
        /// The clock at its reception.
        received: EventTime,
    },
    /// A push or an advance would make too many closes of one query due.
    #[error(
        "stream <{stream}> would reach {to} ({}), which makes {closes} closes of query {query} due at once, and at most {most} are taken; advance it in steps (POST /streams/{{name}}/advance), to {step} ({}) first, or PAUSE QUERY {query}, or give it a longer STEP. Nothing was taken",
        .to, .step, to = .to.0, step = .step.0,
    )]
    TooManyCloses {
        /// The stream.
        stream: String,
        /// The time that it would reach.
        to: EventTime,
        /// The query.
        query: String,
        /// The number of closes that would be due, including empty ones.
        closes: u64,
        /// The limit.
        most: u64,
        /// A time that it may reach.
        step: EventTime,
    },
    /// Closes of the input's streams wait for their cut, and the limit of inputs that may wait for
    /// them is reached.
    #[error(
        "{closes} closes are due after a jump in time and {waiting} inputs of their streams wait for them already; send this one again later, or DROP or PAUSE their queries. Nothing was taken"
    )]
    ClosesAhead {
        /// The number of closes that wait.
        closes: u64,
        /// The number of inputs that wait for them.
        waiting: usize,
    },
    /// An EVENT TIME stream got a statement without event time.
    #[error(
        "{} has no event time; give one per line or per push, or declare the stream with ARRIVAL TIME or TIMESTAMP. Nothing of {} was taken",
        subject(*.index, .stream, ""), unit(*.index),
    )]
    NoEventTime {
        /// The stream.
        stream: String,
        /// Which statement of the push, from 1.
        index: usize,
    },
    /// An event time is so far out that batches and windows around it cannot be numbered.
    #[error("event time {at} for <{stream}> is out of range; event times are milliseconds since 1970, within 30 million years of it", at = .at.0)]
    TimeOutOfRange {
        /// The stream.
        stream: String,
        /// The time.
        at: EventTime,
    },
    /// The stream's slices have reached their budget.
    #[error(
        "stream <{stream}> holds {held_bytes} bytes of its BUDGET of {budget_bytes}: {reason}. Nothing of the push was taken; send it again"
    )]
    OverBudget {
        /// The stream.
        stream: String,
        /// The bytes that it holds, estimated.
        held_bytes: u64,
        /// The bytes that it may hold.
        budget_bytes: u64,
        /// The holder of the memory, and the remedy.
        reason: String,
    },
    /// BATCH does not divide the value of a clause of a query.
    #[error(
        "BATCH {batch_ms}ms of stream <{stream}> does not divide {clause} {value_ms}ms of query {query}; use multiples of {batch_ms}ms, or declare the stream with BATCH {fitting_ms}ms"
    )]
    BatchDoesNotDivide {
        /// The query.
        query: String,
        /// The stream.
        stream: String,
        /// Its batch interval.
        batch_ms: i64,
        /// RANGE, STEP, STARTING AT or COMPUTED EVERY.
        clause: &'static str,
        /// The value of that clause.
        value_ms: i64,
        /// The greatest batch interval that divides all clauses of the query, and the present
        /// BATCH.
        fitting_ms: i64,
    },
    /// A span of a declaration is zero, negative, or beyond all event times.
    #[error("{clause} of {subject} is {value_ms}ms; it must be between 1ms and 30 million years")]
    SpanOutOfRange {
        /// RANGE, STEP, BATCH…
        clause: &'static str,
        /// The stream or query.
        subject: String,
        /// The value of that clause.
        value_ms: i64,
    },
    /// A query without windows cannot be continuous.
    #[error(
        "query {query} has no window, so nothing would ever make it fire; add FROM STREAM … [RANGE … STEP …], or ask it as a one-shot query"
    )]
    NoWindow {
        /// The query.
        query: String,
    },
    /// A part of the language that does not work yet.
    #[error("{what} is not supported yet; {remedy}")]
    NotYet {
        /// The clause.
        what: &'static str,
        /// The remedy.
        remedy: &'static str,
    },
    /// Another cut came between the evaluation of an update and its effects (S15): evaluate again.
    #[error(
        "the update was evaluated at SN {evaluated_at}, but SN {newest} has been cut since; evaluate it again"
    )]
    Overtaken {
        /// The SN of the evaluation.
        evaluated_at: Sn,
        /// The newest SN.
        newest: Sn,
    },
}

/// In the place of a statement's number: the refusal is about a message, whose statements have one
/// time.
pub(crate) const WHOLE_MESSAGE: usize = 0;

/// The subject of a refusal that is about a statement of a push, or about a message.
fn subject(index: usize, stream: &str, statement: &str) -> String {
    let push = format!("statement {index} of the push to <{stream}>");
    match (index, statement) {
        (WHOLE_MESSAGE, _) => format!("the message to <{stream}>"),
        (_, "") => push,
        _ => format!("{push}, {statement},"),
    }
}

/// The unit that is taken whole or not at all.
fn unit(index: usize) -> &'static str {
    match index {
        WHOLE_MESSAGE => "it",
        _ => "the push",
    }
}

/// The kind of a refusal, for status codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalKind {
    /// The input names something that does not exist.
    NotFound,
    /// It contradicts what exists.
    Conflict,
    /// The input itself is wrong.
    Invalid,
    /// It may succeed later as it is.
    Retry,
}

/// The length, in characters, beyond which a statement in a message is cut off.
const LONGEST_STATEMENT: usize = 200;

impl Refusal {
    /// Adds the text of the statement that the refusal is about, as it appears in the request.
    /// `text_of` is called with the statement's index, from 0, only if needed.
    #[must_use]
    pub fn about(mut self, text_of: impl FnOnce(usize) -> String) -> Refusal {
        if let Refusal::Late {
            index, statement, ..
        }
        | Refusal::TooFarAhead {
            index, statement, ..
        } = &mut self
            && statement.is_empty()
            && *index != WHOLE_MESSAGE
        {
            *statement = text_of(*index - 1);
            if let Some((end, _)) = statement.char_indices().nth(LONGEST_STATEMENT) {
                statement.truncate(end);
                statement.push('…');
            }
        }
        self
    }

    /// Whether it does not depend on the data of a message, so that the messages behind it are not
    /// looked at either: taken before it, they could make it late.
    pub fn ends_messages(&self) -> bool {
        self.kind() == RefusalKind::Retry || matches!(self, Refusal::TooManyCloses { .. })
    }

    /// The kind of the refusal.
    pub fn kind(&self) -> RefusalKind {
        match self {
            Refusal::UnknownStream { .. }
            | Refusal::UnknownQuery { .. }
            | Refusal::UnknownSubscription { .. } => RefusalKind::NotFound,
            Refusal::StreamConflict { .. }
            | Refusal::QueryConflict { .. }
            | Refusal::SubscriptionConflict { .. }
            | Refusal::QuerySubscribed { .. }
            | Refusal::StreamInUse { .. }
            | Refusal::DerivedStreamTaken { .. }
            | Refusal::Derived { .. }
            | Refusal::Interior { .. }
            | Refusal::Consumed { .. }
            | Refusal::DerivedInUse { .. }
            | Refusal::EndsWithReplaced { .. }
            | Refusal::SuccessorBehind { .. }
            | Refusal::SequenceForgotten { .. } => RefusalKind::Conflict,
            Refusal::OverBudget { .. }
            | Refusal::Overtaken { .. }
            | Refusal::ClosesAhead { .. } => RefusalKind::Retry,
            _ => RefusalKind::Invalid,
        }
    }
}

/// The remedy for a late statement. A LATENESS of more than a day is no advice: then a time is
/// wrong, or the clock has moved a stream of recorded data.
fn late_remedy(needed_ms: i64, idle_ms: Option<NonZeroI64>) -> String {
    const DAY_MS: i64 = 86_400_000;
    if let Some(idle_ms) = idle_ms {
        return format!(
            "no data had come for longer than IDLE {idle_ms}ms, so that the stream's time went on by the clock; declare a stream of recorded data, or of a source that pauses, with IDLE NEVER, and advance it"
        );
    }
    if needed_ms <= DAY_MS {
        return format!(
            "send statements in order of event time, or declare the stream with a LATENESS of at least {needed_ms}ms"
        );
    }
    format!(
        "that is {} days earlier; if this time is wrong, send the right one, and if the stream's is, because a wrong time was \
         taken before, let it begin again (POST /streams/{{name}}/reset-time)",
        needed_ms / DAY_MS
    )
}
