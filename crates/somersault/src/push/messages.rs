//! Messages for a stream, and what became of them.

use crate::error::EngineError;
use somersault_lines::{DocumentSyntax, MessageSyntax};
use somersault_model::EventTime;

/// How a text of messages is to be read, and where they come from.
#[derive(Clone, Debug)]
pub struct MessagePush {
    /// The sending source, as [`Push::source`](crate::Push::source).
    pub source: Option<String>,
    /// The source's number for the first message of the text; the others count on from it, refused
    /// ones too. A message whose number was taken before is dropped and acknowledged again.
    pub seq: Option<u64>,
    /// The event time of all messages; `None` on a stream that has TIMESTAMP or ARRIVAL TIME.
    pub at: Option<EventTime>,
    /// The syntax of the text.
    pub syntax: MessageSyntax,
}

/// Where messages come from, and their event time.
#[derive(Clone, Debug, Default)]
pub struct MessageSender {
    /// As [`MessagePush::source`].
    pub source: Option<String>,
    /// As [`MessagePush::seq`].
    pub seq: Option<u64>,
    /// As [`MessagePush::at`].
    pub at: Option<EventTime>,
}

/// How a text of documents is to be read, and where they come from.
#[derive(Clone, Debug)]
pub struct DocumentPush {
    /// Where they come from.
    pub sender: MessageSender,
    /// The syntax of the text.
    pub syntax: DocumentSyntax,
}

impl DocumentPush {
    /// Documents of the default source, without numbers and event time.
    pub fn new(syntax: DocumentSyntax) -> DocumentPush {
        DocumentPush {
            sender: MessageSender::default(),
            syntax,
        }
    }
}

/// The receipt of [`Engine::push_messages`](crate::Engine::push_messages): all that was taken is
/// durable. The number of a message is that of its source; without one, its place in the text, from
/// 1.
#[derive(Debug, Default)]
pub struct MessagesReceipt {
    /// Messages that were taken.
    pub taken: MessageNumbers,
    /// Messages whose numbers had been taken before.
    pub repeated: MessageNumbers,
    /// Messages that were refused. Their numbers stay free.
    pub refused: MessageNumbers,
    /// Why messages were refused, for the first [`MessagesReceipt::REASONS`].
    pub reasons: Vec<MessageRefusal>,
    /// Number of statements that were taken.
    pub accepted: u64,
    /// Number of statements that were late and dropped, under the stream's LATE DROP.
    pub dropped: u64,
    /// Refused documents that are durable in the stream for dead letters.
    pub dead_letters: u64,
    /// Why some of them are not, if there are any.
    pub dead_letter_fault: Option<EngineError>,
    /// If the text was not read to its end: the first message that was not looked at, and why.
    pub ended: Option<MessageRefusal>,
}

impl MessagesReceipt {
    /// The number of refused messages whose reasons a receipt has, at most.
    pub const REASONS: usize = 1_000;
}

/// Numbers of messages, ascending.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MessageNumbers {
    runs: Vec<(u64, u64)>,
}

impl MessageNumbers {
    /// How many there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.runs.iter().map(|(first, last)| last - first + 1).sum()
    }

    /// Runs of numbers without a gap, first and last.
    #[must_use]
    pub fn runs(&self) -> &[(u64, u64)] {
        &self.runs
    }

    /// Adds a number that is greater than all before.
    pub(crate) fn add(&mut self, number: u64) {
        match self.runs.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => self.runs.push((number, number)),
        }
    }
}

/// Why a message was not taken.
#[derive(Debug)]
pub struct MessageRefusal {
    /// Its number.
    pub number: u64,
    /// The line of the fault in the text, from 1; without a fault in the text, the message's first.
    pub line: u64,
    /// The column of the fault, from 1.
    pub column: u64,
    /// The reason, with the remedy.
    pub error: EngineError,
}
