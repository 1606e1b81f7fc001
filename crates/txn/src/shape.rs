//! What declarations look like to this crate: names, streams, batches, windows and the order of
//! parts. No step, no term.
//!
//! Before changing anything here: shapes are logged and saved with postcard. A field is added by a
//! new variant of a command or of a record, never in place.

use serde::{Deserialize, Serialize};
use somersault_model::{Millis, StreamUid};
pub use somersault_model::{Place, ProcedureUid};

/// A stream, as far as procedures know it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamShape {
    /// Its uid.
    pub uid: StreamUid,
    /// Its IRI.
    pub name: String,
    /// Where its messages come from.
    pub source: StreamSource,
    /// Whether late statements amend closed batches. No procedure may consume such a stream.
    pub amends: bool,
}

/// Where the messages of a stream come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StreamSource {
    /// From clients.
    Pushed,
    /// From EMIT of procedures.
    Interior,
}

/// A procedure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcedureShape {
    /// Its name.
    pub name: String,
    /// The streams that it consumes. Without any it is called.
    pub consumes: Vec<Consumption>,
    /// The windows that it owns, in the order of their declaration.
    pub windows: Vec<WindowShape>,
    /// Its triggers.
    pub triggers: Vec<TriggerShape>,
    /// The streams that its steps emit into, those of triggers included.
    pub emits: Vec<StreamUid>,
}

impl ProcedureShape {
    /// Whether it runs on batches of streams; the others are called.
    pub fn is_streaming(&self) -> bool {
        !self.consumes.is_empty()
    }
}

/// `ON STREAM … BATCH …`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Consumption {
    /// The stream.
    pub stream: StreamUid,
    /// Its batches.
    pub batch: BatchShape,
}

/// How a stream is cut into atomic batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BatchShape {
    /// That many messages in the order of the stream.
    Messages(u64),
    /// All messages of one interval [k·d, (k+1)·d).
    Span(Millis),
}

/// `OWNS WINDOW … ON … [ … ]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WindowShape {
    /// Its name.
    pub name: String,
    /// The stream whose consumed messages it holds.
    pub stream: StreamUid,
    /// What it holds.
    pub extent: Extent,
}

/// What an owned window holds, and when it slides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Extent {
    /// `LAST n MESSAGES SLIDE m`.
    Last {
        /// The number of messages.
        messages: u64,
        /// The number of messages between two slides.
        slide: u64,
    },
    /// `RANGE r SLIDE s`.
    Range {
        /// The span before a close.
        range: Millis,
        /// The span between two closes, which are whole multiples of it.
        slide: Millis,
    },
}

/// `WHEN … { … }`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TriggerShape {
    /// What sets it off.
    pub on: TriggerEvent,
    /// The streams that its steps emit into.
    pub emits: Vec<StreamUid>,
}

/// What sets a trigger off.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TriggerEvent {
    /// A slide of an owned window.
    Slides(String),
    /// A message that the procedure emits into a stream.
    Into(StreamUid),
}

/// A dataflow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataflowShape {
    /// Its name.
    pub name: String,
    /// Its parts.
    pub parts: Vec<Part>,
    /// What is logged of its transactions.
    pub recovery: Recovery,
    /// What an abort does.
    pub on_abort: OnAbort,
}

impl DataflowShape {
    /// The names of its procedures, in the order of the text.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.parts
            .iter()
            .flat_map(|part| match part {
                Part::One(name) => std::slice::from_ref(name),
                Part::Nest { names, .. } => names.as_slice(),
            })
            .map(String::as_str)
    }
}

/// A part of a dataflow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Part {
    /// A procedure.
    One(String),
    /// Procedures whose executions of one round are one transaction.
    Nest {
        /// Their names.
        names: Vec<String>,
        /// Pairs of names: the first one runs before the second one.
        order: Vec<(String, String)>,
    },
}

/// What is logged of a dataflow's transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Recovery {
    /// Their effects: recovery gives the same state.
    Strong,
    /// Their border batches: recovery runs the procedures again.
    Weak,
}

/// What the abort of a transaction does to its dataflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum OnAbort {
    /// The next round begins.
    Skip,
    /// No round begins until RESUME.
    Stop,
}
