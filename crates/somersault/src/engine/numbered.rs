//! Numbered messages: those of a broker, or lines of a file, which come one by one.
//!
//! The one thing to know before changing it: a message that cannot be taken for want of room ends
//! the receipt, so that a source sends it again before those behind it. Any other refusal is that
//! of the message alone.

use super::Engine;
use crate::access::RightKind;
use crate::error::EngineError;
use crate::mapping::Mapping;
use crate::push::numbered::{
    NumberedMessage, NumberedOutcome, NumberedPush, NumberedReceipt, NumberedSyntax,
};
use oxrdf::Quad;
use somersault_lines::{DocumentSyntax, Message, MessageLimits, MessageReader, RefusedMessage};
use somersault_runtime::{MessageOffer, MessageReceipt, RuntimeError};
use somersault_stream::{MessageOutcome, RefusalKind};
use std::io;
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
    ///     Engine, EngineConfig, MessageSyntax, NumberedMessage, NumberedOutcome, NumberedPush,
    ///     NumberedSyntax,
    /// };
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// engine.create_stream(None, "CREATE STREAM <urn:s> IDLE NEVER TIMESTAMP <urn:at>")?;
    /// let push = NumberedPush {
    ///     source: "readings/0".to_owned(),
    ///     syntax: NumberedSyntax::Message(MessageSyntax::Turtle),
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
    /// There is no such stream, it takes nothing from outside, or the messages are documents and it
    /// has neither `MAPPED BY` nor `CONTEXT`. Nothing was taken then.
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
        let texts = messages.iter().map(|message| message.bytes);
        let mut read: Vec<_> = match push.syntax {
            NumberedSyntax::Message(syntax) => texts
                .map(|bytes| only(read(MessageReader::new(bytes, syntax, limits))))
                .collect(),
            NumberedSyntax::Document => {
                let mapping = self.mapping(stream)?.ok_or_else(|| no_mapping(stream))?;
                texts.map(|bytes| only(mapped(&mapping, bytes))).collect()
            }
        };
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

    /// Returns the stream for messages that a stream refuses (`DEAD LETTER INTO`).
    ///
    /// # Errors
    /// There is no such stream.
    pub fn dead_letters_of(&self, stream: &str) -> Result<Option<String>, EngineError> {
        self.admit(RightKind::Push, Some(stream))?;
        let declaration = self.inner.driver.declaration(stream)?;
        let into = declaration.dead_letters.as_ref();
        Ok(into.map(|stream| stream.as_str().to_owned()))
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

/// The statements of a message, or why there are none.
type Read = io::Result<Result<Vec<Quad>, RefusedMessage>>;

fn read(messages: impl Iterator<Item = io::Result<Message>>) -> impl Iterator<Item = Read> {
    messages.map(|message| Ok(message?.statements))
}

/// What the mapping of a stream makes of the documents of a text.
fn mapped(mapping: &Mapping, bytes: &[u8]) -> impl Iterator<Item = Read> {
    let messages = mapping.messages(bytes, DocumentSyntax::Json);
    messages.map(|mapped| Ok(mapped?.message.statements))
}

/// The statements of the one message of a text.
fn only(mut messages: impl Iterator<Item = Read>) -> Result<Vec<Quad>, EngineError> {
    let first = messages.next().ok_or_else(no_message)?;
    let first = first.map_err(|source| EngineError::Io {
        context: "a message cannot be read".to_owned(),
        source,
    })?;
    let statements = first.map_err(|refused| {
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
    match messages.next() {
        None => Ok(statements),
        Some(_) => Err(EngineError::Invalid(
            "the text holds several messages, and has one number; send each by itself".to_owned(),
        )),
    }
}

fn no_mapping(stream: &str) -> EngineError {
    EngineError::Invalid(format!(
        "the stream {stream} does not say what JSON documents mean; declare it with MAPPED BY or CONTEXT, or send another format"
    ))
}

fn no_message() -> EngineError {
    EngineError::Invalid("the message is empty; it needs one statement at least".to_owned())
}
