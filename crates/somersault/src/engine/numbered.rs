//! Numbered messages: those of a broker, or lines of a file, which come one by one.
//!
//! The one thing to know before changing it: a message that cannot be taken for want of room ends
//! the receipt, so that a source sends it again before those behind it. Any other refusal is that
//! of the message alone.

use super::Engine;
use crate::access::RightKind;
use crate::error::EngineError;
use crate::push::numbered::{NumberedMessage, NumberedOutcome, NumberedPush, NumberedReceipt};
use oxrdf::Quad;
use somersault_lines::{MessageLimits, MessageReader, MessageSyntax, RefusedMessage};
use somersault_runtime::{MessageOffer, MessageReceipt, RuntimeError};
use somersault_stream::{MessageOutcome, RefusalKind};
use std::sync::atomic::Ordering;

/// The bytes that the text of one message may have.
const MESSAGE_BYTES: usize = 16 << 20;

/// # Numbered messages
///
/// Messages that come one by one, each with the number that its source gives it.
impl Engine {
    /// Pushes messages that have texts and numbers of their own into a stream, and returns when
    /// those taken are durable. Each is taken whole or refused by itself. Numbers may have gaps.
    ///
    /// ```
    /// use somersault::{
    ///     NumberedMessage, NumberedOutcome, NumberedPush, Engine, EngineConfig, MessageSyntax,
    /// };
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// engine.create_stream(None, "CREATE STREAM <urn:s> IDLE NEVER TIMESTAMP <urn:at>")?;
    /// let push = NumberedPush {
    ///     source: "readings/0".to_owned(),
    ///     syntax: MessageSyntax::Turtle,
    /// };
    /// let message = |seq, text: &'static str| {
    ///     let bytes = text.as_bytes();
    ///     NumberedMessage { seq, at: None, bytes }
    /// };
    /// let messages = [
    ///     message(17, "<urn:a> <urn:at> 1000 ; <urn:p> 1 ."),
    ///     message(18, "no statement"),
    ///     message(25, "<urn:b> <urn:at> 1500 ; <urn:p> 2 ."),
    /// ];
    /// let receipt = engine.push_numbered("urn:s", &push, &messages)?;
    /// use NumberedOutcome::{Refused, Taken};
    /// assert!(matches!(receipt.outcomes[..], [Taken, Refused(_), Taken]));
    /// assert_eq!(engine.source_position("urn:s", "readings/0")?, Some(25));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// There is no such stream, or it takes nothing from outside. Nothing was taken then.
    pub fn push_numbered(
        &self,
        stream: &str,
        push: &NumberedPush,
        messages: &[NumberedMessage<'_>],
    ) -> Result<NumberedReceipt, EngineError> {
        self.admit(RightKind::Push, Some(stream))?;
        let statements = self.inner.config.limits.push_statements;
        let limits = MessageLimits {
            bytes: MESSAGE_BYTES,
            statements: usize::try_from(statements).unwrap_or(usize::MAX),
        };
        let read = messages.iter();
        let mut read: Vec<_> = read
            .map(|it| read_one(it.bytes, push.syntax, limits))
            .collect();
        let mut receipt = NumberedReceipt::default();
        while receipt.outcomes.len() < messages.len() && receipt.ended.is_none() {
            let from = receipt.outcomes.len();
            let offers: Vec<MessageOffer<'_>> = (messages.iter().zip(&read).skip(from))
                .map(|(message, read)| MessageOffer {
                    seq: Some(message.seq),
                    at: message.at,
                    statements: read.as_deref().ok(),
                })
                .collect();
            let driver = &self.inner.driver;
            match driver.push_messages(stream, &push.source, &offers) {
                Ok(offered) => note(&mut receipt, offered, &mut read[from..]),
                Err(error) if from == 0 => return Err(error.into()),
                Err(error) => receipt.ended = Some(error.into()),
            }
            if receipt.outcomes.len() == from && receipt.ended.is_none() {
                let sentence = "messages were offered, and none of them was looked at";
                return Err(EngineError::Internal(sentence.to_owned()));
            }
        }
        self.count_numbered(&receipt);
        Ok(receipt)
    }

    /// Returns the highest number of a source that a stream has taken; `None` before the first.
    ///
    /// # Errors
    /// There is no such stream.
    pub fn source_position(&self, stream: &str, source: &str) -> Result<Option<u64>, EngineError> {
        let sources = self.sources(stream)?;
        let found = sources.into_iter().find(|known| known.name == source);
        Ok(found.map(|known| known.taken))
    }

    fn count_numbered(&self, receipt: &NumberedReceipt) {
        let counters = &self.inner.counters;
        for outcome in &receipt.outcomes {
            let counter = match outcome {
                NumberedOutcome::Taken => &counters.pushes,
                NumberedOutcome::Repeated => &counters.repeats,
                NumberedOutcome::Refused(_) => &counters.refused,
            };
            counter.fetch_add(1, Ordering::Relaxed);
        }
        counters
            .tuples
            .fetch_add(receipt.accepted, Ordering::Relaxed);
    }
}

/// Notes what became of offered messages. `read` is what was read of them.
fn note(
    receipt: &mut NumberedReceipt,
    offered: MessageReceipt,
    read: &mut [Result<Vec<Quad>, EngineError>],
) {
    receipt.accepted += offered.statements;
    receipt.dropped += offered.late;
    for (outcome, read) in offered.outcomes.into_iter().zip(read) {
        let outcome = match outcome {
            MessageOutcome::Taken => NumberedOutcome::Taken,
            MessageOutcome::Repeated => NumberedOutcome::Repeated,
            MessageOutcome::Refused(refusal) => {
                let is_for_now = refusal.kind() == RefusalKind::Retry;
                let error = EngineError::from(RuntimeError::from(refusal));
                if is_for_now {
                    receipt.ended = Some(error);
                    return;
                }
                NumberedOutcome::Refused(error)
            }
            MessageOutcome::Unreadable => {
                let read = std::mem::replace(read, Ok(Vec::new()));
                NumberedOutcome::Refused(read.err().unwrap_or_else(no_message))
            }
        };
        receipt.outcomes.push(outcome);
    }
}

/// Reads the one message of a text.
fn read_one(
    bytes: &[u8],
    syntax: MessageSyntax,
    limits: MessageLimits,
) -> Result<Vec<Quad>, EngineError> {
    let mut reader = MessageReader::new(bytes, syntax, limits);
    let first = reader.next().ok_or_else(no_message)?;
    let first = first.map_err(|source| EngineError::Io {
        context: "a message cannot be read".to_owned(),
        source,
    })?;
    let statements = first.statements.map_err(|refused| {
        let RefusedMessage {
            line,
            column,
            reason,
            ..
        } = refused;
        EngineError::Data {
            line,
            column,
            message: reason,
        }
    })?;
    match reader.next() {
        None => Ok(statements),
        Some(_) => Err(EngineError::Invalid(
            "the text holds several messages, and has one number; send each by itself".to_owned(),
        )),
    }
}

fn no_message() -> EngineError {
    EngineError::Invalid("the message is empty; it needs one statement at least".to_owned())
}
