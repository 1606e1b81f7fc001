//! Dead letters: documents that made no message, as messages of the stream that the declaration
//! names for them.
//!
//! The one thing to know: a letter has the number of its document, so a push that is sent again
//! leaves no second letter.

use super::Engine;
use crate::error::EngineError;
use crate::push::letter::DeadLetter;
use oxrdf::{NamedNode, Quad};
use somersault_runtime::{MessageOffer, RuntimeError};
use somersault_stream::MessageOutcome;

/// A document that was refused.
pub(super) struct RefusedDocument {
    /// The number of the document.
    pub(super) number: u64,
    /// The line of the fault in the pushed text.
    pub(super) line: u64,
    /// Why it was refused.
    pub(super) reason: String,
    /// The document.
    pub(super) text: Vec<u8>,
}

/// The dead letters of one push, on their way to their stream.
pub(super) struct DeadLetters {
    into: String,
    of: NamedNode,
    source: Option<String>,
    is_numbered: bool,
    waiting: Vec<RefusedDocument>,
}

impl DeadLetters {
    /// For the documents of a source that are pushed into the stream `of`.
    pub(super) fn new(
        into: &NamedNode,
        of: &NamedNode,
        source: Option<String>,
        is_numbered: bool,
    ) -> DeadLetters {
        DeadLetters {
            into: into.as_str().to_owned(),
            of: of.clone(),
            source,
            is_numbered,
            waiting: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, letter: RefusedDocument) {
        self.waiting.push(letter);
    }

    /// Pushes the letters that wait. Returns how many are durable, and why others are not.
    pub(super) fn deliver(&mut self, engine: &Engine) -> (u64, Result<(), EngineError>) {
        if self.waiting.is_empty() {
            return (0, Ok(()));
        }
        let letters = std::mem::take(&mut self.waiting);
        let messages: Vec<Vec<Quad>> = letters
            .iter()
            .map(|it| self.letter(it).statements())
            .collect();
        let offers = letters
            .iter()
            .zip(&messages)
            .map(|(letter, statements)| MessageOffer {
                seq: self.is_numbered.then_some(letter.number),
                at: None,
                statements: Some(statements.as_slice()),
            });
        let offers: Vec<MessageOffer<'_>> = offers.collect();
        let source = match (self.is_numbered, letters.first()) {
            (true, Some(first)) => self.letter(first).source_name(),
            _ => String::new(),
        };
        let driver = &engine.inner.driver;
        let receipt = match driver.push_messages(&self.into, &source, &offers) {
            Ok(receipt) => receipt,
            Err(error) => return (0, Err(error.into())),
        };
        let (mut durable, mut failed) = (0, Ok(()));
        for outcome in receipt.outcomes {
            match outcome {
                MessageOutcome::Taken | MessageOutcome::Repeated => durable += 1,
                MessageOutcome::Refused(refusal) if failed.is_ok() => {
                    failed = Err(RuntimeError::from(refusal).into());
                }
                MessageOutcome::Refused(_) | MessageOutcome::Unreadable => {}
            }
        }
        (durable, failed)
    }

    fn letter<'l>(&'l self, document: &'l RefusedDocument) -> DeadLetter<'l> {
        DeadLetter {
            stream: self.of.as_str(),
            source: self.source.as_deref(),
            number: document.number,
            line: Some(document.line),
            bytes: None,
            reason: &document.reason,
            text: &document.text,
        }
    }
}
