//! What changes the core: messages, complete-through times, commands, and the entries of
//! transactions. All of them are logged, and [`Core::apply`](crate::Core::apply) takes them live
//! and in replay.
//!
//! Before changing anything here: events are logged with postcard. A variant may be added at the
//! end of an enum, and nothing else may change.

use crate::shape::{DataflowShape, Place, ProcedureShape, ProcedureUid, StreamShape};
use serde::{Deserialize, Serialize};
use somersault_model::{EventTime, StreamUid};
use std::fmt;

/// A change of the core.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// A client's message was taken into a stream.
    Message {
        /// The stream.
        stream: StreamUid,
        /// The message's place, one after the message before it.
        place: Place,
        /// Its event time.
        at: EventTime,
    },
    /// A pushed stream is complete through a time: no message before it is missing.
    Complete {
        /// The stream.
        stream: StreamUid,
        /// The time.
        through: EventTime,
    },
    /// Interior streams are complete through these times
    /// ([`Core::advances`](crate::Core::advances)).
    Advance(Vec<(StreamUid, EventTime)>),
    /// A statement.
    Command(Command),
    /// A transaction.
    Entry(Entry),
}

/// A statement about streams, procedures or dataflows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Command {
    /// A stream exists from now on.
    CreateStream(StreamShape),
    /// A stream is gone.
    DropStream(StreamUid),
    /// CREATE \[OR REPLACE\] PROCEDURE.
    CreateProcedure {
        /// The procedure.
        shape: ProcedureShape,
        /// Whether it may replace another one.
        or_replace: bool,
        /// Where pushed streams without a consumer so far stand now.
        begins: Vec<Beginning>,
    },
    /// DROP PROCEDURE.
    DropProcedure {
        /// Its name.
        name: String,
        /// Whether messages that wait for it are given up.
        discard: bool,
    },
    /// CREATE \[OR REPLACE\] DATAFLOW.
    CreateDataflow {
        /// The dataflow.
        shape: DataflowShape,
        /// Whether it may replace another one.
        or_replace: bool,
    },
    /// DROP DATAFLOW.
    DropDataflow {
        /// Its name.
        name: String,
    },
    /// PAUSE DATAFLOW.
    PauseDataflow {
        /// Its name.
        name: String,
    },
    /// RESUME DATAFLOW.
    ResumeDataflow {
        /// Its name.
        name: String,
    },
}

/// Where a pushed stream stands when its first consumer is declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Beginning {
    /// The stream.
    pub stream: StreamUid,
    /// The place of its next message.
    pub next: Place,
    /// The time that it is complete through.
    pub through: EventTime,
}

/// A transaction that committed or aborted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// What led to it.
    pub origin: Origin,
    /// How it ended.
    pub outcome: Outcome,
}

/// What led to a transaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Origin {
    /// The batches of a round.
    Round {
        /// The round.
        round: Round,
        /// The batches, in the order in which they were consumed. Of an aborted nest, those that it
        /// did not make by itself.
        consumed: Vec<Consumed>,
    },
    /// A call.
    Call {
        /// The called procedure.
        procedure: ProcedureUid,
        /// The number of the call: 1, 2, ….
        number: u64,
        /// Under which it is remembered.
        key: Option<Key>,
        /// When its record was received.
        received: EventTime,
    },
}

/// The round of a transaction. Rounds of batches come before rounds of calls in the order of this
/// type; neither waits for the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Round {
    /// The number of the border batch, counted from 1 for each border procedure.
    Batch(u64),
    /// The number of the call whose messages led to it.
    Call(u64),
}

impl fmt::Display for Round {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Round::Batch(number) => write!(f, "round {number}"),
            Round::Call(number) => write!(f, "call {number}"),
        }
    }
}

/// A batch that a procedure consumed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Consumed {
    /// The procedure.
    pub procedure: ProcedureUid,
    /// The stream.
    pub stream: StreamUid,
    /// The messages.
    pub places: Places,
}

/// The places of a batch's messages, ascending.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Places {
    /// Consecutive ones.
    Run {
        /// The first one.
        first: Place,
        /// Their number.
        count: u64,
    },
    /// Any others, as a batch by time may have.
    List(Vec<Place>),
}

impl Places {
    /// The places, ascending.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Place> + '_ {
        let (first, count, list) = match self {
            Places::Run { first, count } => (first.0, *count, [].as_slice()),
            Places::List(list) => (1, 0, list.as_slice()),
        };
        let run = (first..first.saturating_add(count)).map(Place);
        run.chain(list.iter().copied())
    }

    /// The first place.
    pub fn first(&self) -> Option<Place> {
        self.iter().next()
    }

    /// The last place.
    pub fn last(&self) -> Option<Place> {
        self.iter().next_back()
    }
}

/// How a transaction ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// It committed.
    Committed {
        /// The messages that it emitted, in their order.
        emitted: Vec<Emitted>,
        /// What a call was answered.
        answer: Vec<u8>,
    },
    /// It aborted, and left nothing but this.
    Aborted {
        /// The procedure whose abort it was.
        procedure: ProcedureUid,
        /// The reason.
        reason: String,
    },
}

/// A message in an interior stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Emitted {
    /// The stream.
    pub stream: StreamUid,
    /// Its place there.
    pub place: Place,
    /// Its event time.
    pub at: EventTime,
}

/// Under which a call is remembered.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Key {
    /// The source.
    pub source: String,
    /// Its number for the call.
    pub number: u64,
}

/// What a call was answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// These bytes.
    Done(Vec<u8>),
    /// More bytes than are remembered.
    TooLong,
    /// That it aborted, with the reason.
    Aborted(String),
}

/// What an event leads to outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Messages below this place are consumed by all.
    Release {
        /// Their stream.
        stream: StreamUid,
        /// The first place that is still needed.
        below: Place,
    },
    /// A dataflow stopped because of an abort.
    Stopped {
        /// Its name.
        dataflow: String,
    },
}

/// An event contradicts the state: the log is damaged, or a driver broke a rule. The core is not to
/// be used afterwards.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the log contradicts itself: {0}; restore a checkpoint or a backup")]
pub struct Contradiction(pub(crate) String);

/// The error of an event that contradicts the state.
pub(crate) fn contradiction<T>(what: impl Into<String>) -> Result<T, Contradiction> {
    Err(Contradiction(what.into()))
}
