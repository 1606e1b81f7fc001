//! Whoever a suite is run on, and what it is given and asked.

use crate::error::SuiteError;
use crate::suite::{AlwaysQuery, ProcedureCall};
use oxrdf::Quad;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use somersault_lines::{Message, MessageSyntax};
use somersault_model::EventTime;

/// Consecutive messages of an input, pushed together.
#[derive(Debug, Clone, Copy)]
pub struct BodyOfMessages<'s> {
    /// The stream.
    pub stream: &'s str,
    /// The source that sends them.
    pub source: &'s str,
    /// The number of the first one; the others count on from it.
    pub first_seq: u64,
    /// The syntax of the input.
    pub syntax: MessageSyntax,
    /// The messages. One that cannot be read is to be refused.
    pub messages: &'s [Message],
}

/// What became of the messages of a push, by their numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PushTally {
    /// Those that were taken.
    pub taken: Vec<u64>,
    /// Those that had been taken before.
    pub repeated: Vec<u64>,
    /// Those that were refused.
    pub refused: Vec<u64>,
}

/// A message of an interior stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmittedMessage {
    /// Its place in the stream, from 1.
    pub place: u64,
    /// The round that it belongs to: the number of the border batch, or of the call.
    pub round: u64,
    /// Its event time.
    pub at_ms: i64,
    /// Its statements as N-Triples terms, sorted.
    pub statements: Vec<[String; 3]>,
}

/// A transaction that aborted on a batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AbortedTransaction {
    /// The procedure whose abort it was.
    pub procedure: String,
    /// The round.
    pub round: u64,
    /// The reason.
    pub reason: String,
}

/// An engine to run a suite on. What it refuses is an answer; an error ends the run.
pub trait Subject {
    /// Stores these statements before anything else, and asks these queries from now on, as often
    /// as it can: [`Subject::violations`] says when one was not true.
    ///
    /// # Errors
    /// The engine fails, as in all methods of this trait.
    fn begin(&mut self, stored: Vec<Quad>, always: &[AlwaysQuery]) -> Result<(), SuiteError>;

    /// Carries out a statement of the language. Returns the reason if it is refused.
    ///
    /// # Errors
    /// The engine fails.
    fn statement(&mut self, text: &str) -> Result<Result<(), String>, SuiteError>;

    /// Pushes messages. An input into a stream that takes none has all its messages refused.
    ///
    /// # Errors
    /// The engine fails.
    fn push(&mut self, body: BodyOfMessages<'_>) -> Result<PushTally, SuiteError>;

    /// Makes streams complete through a time.
    ///
    /// # Errors
    /// The engine fails or refuses.
    fn advance(&mut self, streams: &[String], to: EventTime) -> Result<(), SuiteError>;

    /// Calls procedures, in this order and pipelined. Returns the answers as the format writes
    /// them.
    ///
    /// # Errors
    /// The engine fails.
    fn call(&mut self, calls: &[ProcedureCall]) -> Result<Vec<Value>, SuiteError>;

    /// Carries out a SPARQL update. Returns the reason if it is refused.
    ///
    /// # Errors
    /// The engine fails.
    fn update(&mut self, text: &str) -> Result<Result<(), String>, SuiteError>;

    /// Returns the state of a dataflow, or the reason if it has none.
    ///
    /// # Errors
    /// The engine fails.
    fn state(&mut self, dataflow: &str) -> Result<Result<String, String>, SuiteError>;

    /// Answers a query on the stored graphs, as the format writes answers.
    ///
    /// # Errors
    /// The engine fails, or refuses the query.
    fn query(&mut self, text: &str) -> Result<Value, SuiteError>;

    /// Returns when no procedure has a complete batch that it has not consumed, except where its
    /// dataflow is paused or stopped.
    ///
    /// # Errors
    /// The engine fails, or takes too long.
    fn settle(&mut self) -> Result<(), SuiteError>;

    /// Goes on as far as it likes. Called after each push and step that nothing has to end after.
    ///
    /// # Errors
    /// The engine fails.
    fn go_on(&mut self) -> Result<(), SuiteError> {
        Ok(())
    }

    /// Returns what was found wrong beside the answers since the last call, such as a query that
    /// must always be true and was not.
    ///
    /// # Errors
    /// The engine fails.
    fn violations(&mut self) -> Result<Vec<String>, SuiteError>;

    /// Checks itself and stops. After it, only [`Subject::emitted`] is asked.
    ///
    /// # Errors
    /// The engine fails, or its check does.
    fn end(&mut self) -> Result<(), SuiteError> {
        Ok(())
    }

    /// Returns the messages of interior streams from first to last, or the reason if they are not
    /// all known.
    ///
    /// # Errors
    /// The engine fails.
    fn emitted(
        &mut self,
        streams: &[String],
    ) -> Result<Result<Vec<Vec<EmittedMessage>>, String>, SuiteError>;

    /// Returns the transactions of a dataflow that aborted, in order.
    ///
    /// # Errors
    /// The engine fails, or has no such dataflow.
    fn aborted(&mut self, dataflow: &str) -> Result<Vec<AbortedTransaction>, SuiteError>;
}
