//! Messages: read one by one from a text, and taken in groups.
//!
//! The one thing to know before changing it: a group is in the log before the next one is offered.
//! A message that is offered before an earlier one has its verdict could make that one late.

use super::Engine;
use super::dead_letters::{DeadLetters, RefusedDocument};
use crate::access::RightKind;
use crate::error::EngineError;
use crate::mapping::{MESSAGE_BYTES, MappedMessage};
use crate::push::messages::{MessagePush, MessageRefusal, MessageSender, MessagesReceipt};
use somersault_lines::{Message, MessageLimits, MessageReader, RefusedMessage};
use somersault_runtime::{MessageOffer, RuntimeError};
use somersault_stream::MessageOutcome;
use std::io::{self, Read};
use std::sync::atomic::Ordering;

/// A group that has this many messages or statements is offered.
const GROUP_MESSAGES: usize = 1_024;
const GROUP_STATEMENTS: usize = 4_096;

/// # Messages
///
/// Statements that belong together, several such units in one text.
impl Engine {
    /// Pushes messages into a stream, while the text is read; returns when those taken are durable.
    /// Each message is taken whole or refused by itself: see the receipt. Blank nodes are the
    /// message's own.
    ///
    /// ```
    /// use somersault::{Engine, EngineConfig, MessagePush, MessageSyntax};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// engine.create_stream(None, "CREATE STREAM <urn:s> IDLE NEVER TIMESTAMP <urn:at>")?;
    /// let text = "<urn:a> <urn:at> 1000 ; <urn:p> 1 .
    /// MESSAGE
    /// <urn:b> <urn:p> 2 .
    /// MESSAGE
    /// <urn:c> <urn:at> 1500 ; <urn:p> 3 .";
    /// let push = MessagePush {
    ///     source: Some("meter".to_owned()),
    ///     seq: Some(1),
    ///     at: None,
    ///     syntax: MessageSyntax::Turtle,
    /// };
    /// let receipt = engine.push_messages("urn:s", push.clone(), text.as_bytes())?;
    /// assert_eq!(receipt.taken.runs(), [(1, 1), (3, 3)]);
    /// assert_eq!(receipt.refused.runs(), [(2, 2)]);
    /// println!("message 2: {}", receipt.reasons[0].error);
    /// let again = engine.push_messages("urn:s", push, text.as_bytes())?;
    /// assert_eq!(again.repeated.count(), 2);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// There is no such stream, it takes nothing from outside, or the first messages cannot be
    /// taken for want of room. Nothing was taken then; after the log has failed, that is not known.
    pub fn push_messages(
        &self,
        stream: &str,
        push: MessagePush,
        text: impl Read,
    ) -> Result<MessagesReceipt, EngineError> {
        self.admit(RightKind::Push, Some(stream))?;
        let MessagePush {
            source,
            seq,
            at,
            syntax,
        } = push;
        let limits = MessageLimits {
            bytes: MESSAGE_BYTES,
            statements: usize::try_from(self.inner.config.limits.push_statements)
                .unwrap_or(usize::MAX),
        };
        let mut reader =
            MessageReader::new(text, syntax, limits).with_contexts(self.context_table());
        let sender = MessageSender { source, seq, at };
        MessageFeed::begin(self, stream, sender)?.run(|| {
            let message = reader.next()?;
            let text = Vec::new();
            Some(message.map(|message| MappedMessage { message, text }))
        })
    }
}

/// Messages of one sender while they are read.
pub(super) struct MessageFeed<'f> {
    engine: &'f Engine,
    stream: &'f str,
    sender: MessageSender,
    dead_letters: Option<DeadLetters>,
    /// The messages that are not offered yet.
    group: Vec<MappedMessage>,
    /// The number of their statements.
    statements: usize,
    receipt: MessagesReceipt,
}

impl<'f> MessageFeed<'f> {
    /// Messages for a stream that is there and takes some. Whether that is so is said of a text
    /// without messages, too.
    pub(super) fn begin(
        engine: &'f Engine,
        stream: &'f str,
        sender: MessageSender,
    ) -> Result<MessageFeed<'f>, EngineError> {
        let source = sender.source.as_deref().unwrap_or_default();
        engine.inner.driver.push_messages(stream, source, &[])?;
        let declaration = engine.inner.driver.declaration(stream)?;
        let dead_letters = declaration.dead_letters.as_ref().map(|into| {
            let source = sender.source.clone();
            DeadLetters::new(into, &declaration.iri, source, sender.seq.is_some())
        });
        Ok(MessageFeed {
            engine,
            stream,
            sender,
            dead_letters,
            group: Vec::new(),
            statements: 0,
            receipt: MessagesReceipt::default(),
        })
    }

    /// Takes messages until there is none, or until the rest cannot be looked at.
    pub(super) fn run(
        mut self,
        mut next: impl FnMut() -> Option<io::Result<MappedMessage>>,
    ) -> Result<MessagesReceipt, EngineError> {
        while self.receipt.ended.is_none() {
            match next() {
                None => break,
                Some(Ok(message)) => self.add(message)?,
                Some(Err(error)) => {
                    self.offer_rest()?;
                    self.end_unread(error);
                }
            }
        }
        self.offer_rest()?;
        Ok(self.finish())
    }

    fn add(&mut self, message: MappedMessage) -> Result<(), EngineError> {
        let statements = &message.message.statements;
        self.statements += statements.as_ref().map_or(0, Vec::len);
        let ends_reading = matches!(statements, Err(refused) if refused.ends_reading);
        let is_full = self.group.len() + 1 >= GROUP_MESSAGES || self.statements >= GROUP_STATEMENTS;
        self.group.push(message);
        match is_full || ends_reading {
            true => self.offer(),
            false => Ok(()),
        }
    }

    /// The number of the message that is the `ordinal`-th of the text, from 0.
    fn number(&self, ordinal: u64) -> u64 {
        self.sender.seq.unwrap_or(1).saturating_add(ordinal)
    }

    /// Offers the messages that are left, if there are any: the stream may be gone.
    fn offer_rest(&mut self) -> Result<(), EngineError> {
        match self.group.is_empty() {
            true => Ok(()),
            false => self.offer(),
        }
    }

    /// Offers the messages so far, and notes what became of them.
    fn offer(&mut self) -> Result<(), EngineError> {
        if self.receipt.ended.is_some() {
            return Ok(());
        }
        let group = std::mem::take(&mut self.group);
        self.statements = 0;
        let offers: Vec<MessageOffer<'_>> =
            group.iter().map(|it| self.offered(&it.message)).collect();
        let source = self.sender.source.as_deref().unwrap_or_default();
        let driver = &self.engine.inner.driver;
        let taken = match driver.push_messages(self.stream, source, &offers) {
            Ok(taken) => taken,
            Err(error) => {
                let first = group.first().map(|it| &it.message);
                return self.end(first, error.into());
            }
        };
        self.receipt.accepted += taken.statements;
        self.receipt.dropped += taken.late;
        let mut outcomes = taken.outcomes.into_iter();
        for message in group {
            match outcomes.next() {
                Some(outcome) => self.note(message, outcome)?,
                None => break,
            }
        }
        self.deliver_dead_letters();
        Ok(())
    }

    /// Sends the dead letters of the documents so far on their way, and says where that fails.
    fn deliver_dead_letters(&mut self) {
        let Some(letters) = &mut self.dead_letters else {
            return;
        };
        let (durable, failed) = letters.deliver(self.engine);
        self.receipt.dead_letters += durable;
        if let Err(error) = failed {
            self.receipt.dead_letter_fault.get_or_insert(error);
        }
    }

    fn offered<'m>(&self, message: &'m Message) -> MessageOffer<'m> {
        let statements = message.statements.as_deref().ok();
        MessageOffer {
            seq: self
                .sender
                .seq
                .and_then(|seq| seq.checked_add(message.ordinal)),
            at: self.sender.at,
            statements,
        }
    }

    fn note(&mut self, read: MappedMessage, outcome: MessageOutcome) -> Result<(), EngineError> {
        let MappedMessage { message, text } = read;
        let number = self.number(message.ordinal);
        match (outcome, message.statements) {
            (MessageOutcome::Taken, _) => self.receipt.taken.add(number),
            (MessageOutcome::Repeated, _) => self.receipt.repeated.add(number),
            (MessageOutcome::Refused(refusal), _) if refusal.ends_messages() => {
                let place = (message.ordinal, message.line);
                return self.end_at(place, RuntimeError::from(refusal).into());
            }
            (MessageOutcome::Refused(refusal), _) => {
                let error = RuntimeError::from(refusal).into();
                self.refuse(number, (message.line, 1), error, text);
            }
            (MessageOutcome::Unreadable, Err(refused)) => {
                self.refuse_unreadable(number, refused, text);
            }
            (MessageOutcome::Unreadable, Ok(_)) => {}
        }
        Ok(())
    }

    fn refuse_unreadable(&mut self, number: u64, refused: RefusedMessage, text: Vec<u8>) {
        let RefusedMessage {
            line,
            column,
            reason,
            ends_reading,
        } = refused;
        let error = |message| EngineError::Data {
            line,
            column,
            message,
        };
        if ends_reading {
            self.receipt.ended = Some(MessageRefusal {
                number: number.saturating_add(1),
                line,
                column,
                error: error(reason.clone()),
            });
        }
        self.refuse(number, (line, column), error(reason), text);
    }

    fn refuse(
        &mut self,
        number: u64,
        (line, column): (u64, u64),
        error: EngineError,
        text: Vec<u8>,
    ) {
        self.receipt.refused.add(number);
        if let Some(letters) = &mut self.dead_letters {
            letters.add(RefusedDocument {
                number,
                line,
                reason: error.sentence(),
                text,
            });
        }
        if self.receipt.reasons.len() < MessagesReceipt::REASONS {
            self.receipt.reasons.push(MessageRefusal {
                number,
                line,
                column,
                error,
            });
        }
    }

    /// The messages from this one on are not looked at. An error, if there is nothing else to say.
    fn end(&mut self, from: Option<&Message>, error: EngineError) -> Result<(), EngineError> {
        match from {
            Some(message) => self.end_at((message.ordinal, message.line), error),
            None => Err(error),
        }
    }

    fn end_at(
        &mut self,
        (ordinal, line): (u64, u64),
        error: EngineError,
    ) -> Result<(), EngineError> {
        if ordinal == 0 {
            return Err(error);
        }
        self.receipt.ended = Some(MessageRefusal {
            number: self.number(ordinal),
            line,
            column: 1,
            error,
        });
        Ok(())
    }

    /// The text cannot be read on.
    fn end_unread(&mut self, source: std::io::Error) {
        let looked_at = [
            &self.receipt.taken,
            &self.receipt.repeated,
            &self.receipt.refused,
        ];
        let ordinal = looked_at.iter().map(|numbers| numbers.count()).sum();
        let number = self.number(ordinal);
        self.receipt.ended.get_or_insert_with(|| MessageRefusal {
            number,
            line: 0,
            column: 0,
            error: EngineError::Io {
                context:
                    "the messages cannot be read to their end; what was taken before is durable"
                        .to_owned(),
                source,
            },
        });
    }

    fn finish(self) -> MessagesReceipt {
        let receipt = self.receipt;
        let counters = &self.engine.inner.counters;
        let counts = [
            (&counters.pushes, receipt.taken.count()),
            (&counters.repeats, receipt.repeated.count()),
            (
                &counters.refused,
                receipt.refused.count() + u64::from(receipt.ended.is_some()),
            ),
            (&counters.tuples, receipt.accepted),
        ];
        for (counter, count) in counts {
            counter.fetch_add(count, Ordering::Relaxed);
        }
        receipt
    }
}
