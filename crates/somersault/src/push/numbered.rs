//! Messages that have texts and numbers of their own, and what became of them.

use crate::error::EngineError;
use somersault_lines::MessageSyntax;
use somersault_model::EventTime;

/// Where numbered messages come from, and how they are to be read.
#[derive(Clone, Debug)]
pub struct NumberedPush {
    /// The sending source, as [`Push::source`](crate::Push::source).
    pub source: String,
    /// How the messages are written.
    pub syntax: NumberedSyntax,
}

/// How numbered messages are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NumberedSyntax {
    /// One message in this syntax each.
    Message(MessageSyntax),
    /// One JSON document each, of which the stream's `MAPPED BY` or `CONTEXT` makes the message.
    Document,
}

/// A message with a text and a number of its own, such as one of a broker.
#[derive(Clone, Copy, Debug)]
pub struct NumberedMessage<'d> {
    /// The source's number for it.
    pub seq: u64,
    /// Its event time; `None` on a stream that has TIMESTAMP or ARRIVAL TIME.
    pub at: Option<EventTime>,
    /// Its text.
    pub bytes: &'d [u8],
}

/// What became of a numbered message.
#[derive(Debug)]
#[non_exhaustive]
pub enum NumberedOutcome {
    /// It was taken, and is durable.
    Taken,
    /// Its number had been taken before.
    Repeated,
    /// It was refused, for this reason. Its number stays free.
    Refused(EngineError),
}

/// The receipt of [`Engine::push_numbered`](crate::Engine::push_numbered): all that was taken is
/// durable.
#[derive(Debug, Default)]
pub struct NumberedReceipt {
    /// What became of the messages, in their order. There are fewer if the rest was not looked at.
    pub outcomes: Vec<NumberedOutcome>,
    /// Number of statements that were taken.
    pub accepted: u64,
    /// Number of statements that were late and dropped, under the stream's LATE DROP.
    pub dropped: u64,
    /// Why the messages behind those were not looked at: there was no room for them, or the engine
    /// takes nothing. They can be sent again.
    pub ended: Option<EngineError>,
}
