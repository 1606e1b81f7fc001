//! What a source is: where messages come from, how far it is, and what it does with repeats.
//!
//! The one thing to know before changing it: a message has a position in its partition, and the
//! same message has the same position each time. Partition and position are the source and the
//! sequence number of a push, so the engine itself drops repeats, and it alone knows how far a
//! source is.

use crate::error::SourceError;
use crate::worker::StopSignal;
use serde_json::Value;
use somersault::EventTime;
use std::time::Duration;

/// The messages of a portion, at most.
pub(crate) const PORTION_MESSAGES: usize = 1_024;
/// The bytes after which a portion takes no further message.
pub(crate) const PORTION_BYTES: usize = 4 << 20;
/// The bytes of a message that is read. Of longer ones the beginning is kept.
pub(crate) const LONGEST_MESSAGE: usize = 16 << 20;
/// The bytes that are kept of a message that is too long.
pub(crate) const KEPT_OF_TOO_LONG: usize = 16 << 10;
/// The interval at which a source that has nothing to bring looks whether it is to stop.
pub(crate) const LOOK: Duration = Duration::from_millis(100);

/// A message as its source has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceMessage {
    /// Its number in its partition. Later messages have higher ones; there may be gaps.
    pub position: u64,
    /// The event time that the broker gives it.
    pub at: Option<EventTime>,
    /// Its bytes.
    pub body: MessageBody,
}

/// The bytes of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MessageBody {
    /// All of them.
    Whole(Vec<u8>),
    /// The beginning of a message that is longer than messages may be.
    TooLong {
        /// The first bytes.
        beginning: Vec<u8>,
        /// The length of the message.
        bytes: u64,
    },
}

impl MessageBody {
    /// Returns the bytes as a message, if it is not too long.
    pub fn new(bytes: Vec<u8>) -> MessageBody {
        match bytes.len() > LONGEST_MESSAGE {
            false => MessageBody::Whole(bytes),
            true => MessageBody::TooLong {
                beginning: bytes[..KEPT_OF_TOO_LONG].to_vec(),
                bytes: bytes.len() as u64,
            },
        }
    }

    /// The bytes that are there, and the length of the message.
    pub(crate) fn shown(&self) -> (&[u8], u64) {
        match self {
            MessageBody::Whole(bytes) => (bytes, bytes.len() as u64),
            MessageBody::TooLong { beginning, bytes } => (beginning, *bytes),
        }
    }
}

/// Messages of one partition, in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Portion {
    /// The partition, by the name under which its stream knows it as a source.
    pub partition: String,
    /// The messages; at least one.
    pub messages: Vec<SourceMessage>,
}

/// How far a source is, and what it has noted for its next start.
pub trait Ledger {
    /// The highest position of a partition that the stream has taken.
    ///
    /// # Errors
    /// The stream is not there.
    fn position(&self, partition: &str) -> Result<Option<u64>, SourceError>;

    /// What the source noted last.
    fn note(&self) -> Option<Value>;

    /// Keeps a note, durably where the engine is durable.
    ///
    /// # Errors
    /// It cannot be written.
    fn keep(&self, note: Value) -> Result<(), SourceError>;
}

/// What happens to a message that is brought again, because a crash came between its arrival here
/// and its acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SourceClass {
    /// It has the same position again, so the engine drops the repeat.
    ExactlyOnce,
    /// The broker keeps no positions: it has its old position again as long as the broker knows
    /// this client's session, and a new one afterwards.
    OncePerSession,
}

impl std::fmt::Display for SourceClass {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            SourceClass::ExactlyOnce => "exactly once",
            SourceClass::OncePerSession => "once per session",
        })
    }
}

/// A place from which messages come. One thread drives it.
pub trait Source: Send {
    /// What it does with repeats.
    fn class(&self) -> SourceClass;

    /// Connects, also again after an error. Messages that were brought before and not acknowledged
    /// come again.
    ///
    /// # Errors
    /// It cannot be reached at present.
    fn open(&mut self, ledger: &dyn Ledger, stop: &StopSignal) -> Result<(), SourceError>;

    /// Brings the next messages; `None` if none came for a moment. If `stop` is set while it waits,
    /// it returns soon.
    ///
    /// # Errors
    /// The connection has broken. It is opened again.
    fn next(
        &mut self,
        ledger: &dyn Ledger,
        stop: &StopSignal,
    ) -> Result<Option<Portion>, SourceError>;

    /// The first `messages` of those brought and not acknowledged are durable here, or refused for
    /// good. Tells the broker, where that keeps track.
    ///
    /// # Errors
    /// The connection has broken.
    fn acknowledge(&mut self, messages: usize) -> Result<(), SourceError>;

    /// The source is dropped: what the broker keeps for it is let go.
    ///
    /// # Errors
    /// The broker cannot be reached.
    fn forget(&mut self) -> Result<(), SourceError> {
        Ok(())
    }

    /// How much waits at the place from which messages come, if that is known, in its own unit.
    fn lag(&self) -> Option<u64> {
        None
    }
}
