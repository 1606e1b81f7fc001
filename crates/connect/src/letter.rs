//! Dead letters: what a stream is told of messages of a source that another stream has refused.
//!
//! The one thing to know before changing it: a letter has the partition and the position of its
//! message as source and sequence number. So a message that is refused again, after a restart,
//! gives no second letter.

use crate::source::SourceMessage;
use somersault::{DeadLetter, Engine, EngineError, Push, StreamStatement};

/// The bytes of a message that a letter quotes.
const QUOTED: usize = 16 << 10;

/// A message that a stream has refused.
pub(crate) struct Letter<'m> {
    pub(crate) stream: &'m str,
    pub(crate) partition: &'m str,
    pub(crate) message: &'m SourceMessage,
    pub(crate) reason: &'m str,
}

impl Letter<'_> {
    /// Pushes the letter into a stream.
    ///
    /// # Errors
    /// The stream does not take it.
    pub(crate) fn send(&self, engine: &Engine, into: &str) -> Result<(), EngineError> {
        let (shown, bytes) = self.message.body.shown();
        let letter = DeadLetter {
            stream: self.stream,
            source: Some(self.partition),
            number: self.message.position,
            line: None,
            bytes: Some(bytes),
            reason: self.reason,
            text: &shown[..shown.len().min(QUOTED)],
        };
        let statements = letter.statements().into_iter();
        let push = Push {
            source: Some(letter.source_name()),
            seq: Some(self.message.position),
            statements: statements
                .map(|quad| StreamStatement { at: None, quad })
                .collect(),
        };
        engine.push(into, push).map(drop)
    }
}
