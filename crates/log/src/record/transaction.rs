//! Transactions of procedures: what led to each, and what it left (S14).
//!
//! Before changing anything here: recovery drives the core of transactions by these entries, and
//! runs no step. So an entry holds what its effect depends on, and nothing that follows from
//! entries before it: slides of windows and positions of consumers do.

use oxrdf::{Quad, Term};
use somersault_model::{EventTime, Place, ProcedureUid, StreamUid};

/// Transactions that committed or aborted one after another. Their effects are one SN.
///
/// `Q` is the form that statements have in memory; a log gives back quads of terms.
#[derive(Clone, Debug, PartialEq)]
pub struct TxnRecord<Q = Quad> {
    /// When the record was made, in milliseconds since the Unix epoch.
    pub received_ms: i64,
    /// The transactions in the order in which they ran, and what interior streams are complete
    /// through between them.
    pub items: Vec<TxnItem<Q>>,
    /// For streams whose messages were let go: the first place that is still needed.
    pub released: Vec<(StreamUid, Place)>,
}

impl<Q> Default for TxnRecord<Q> {
    fn default() -> TxnRecord<Q> {
        TxnRecord {
            received_ms: 0,
            items: Vec::new(),
            released: Vec::new(),
        }
    }
}

impl<Q> TxnRecord<Q> {
    /// The statements of its transactions in the order of the log: of each what it changes, then
    /// what it emits.
    pub fn statements(&self) -> impl Iterator<Item = &Q> {
        self.items.iter().flat_map(|item| {
            let (changes, emitted) = match item {
                TxnItem::Entry(TxnEntry {
                    outcome:
                        TxnOutcome::Committed {
                            changes, emitted, ..
                        },
                    ..
                }) => (changes.as_slice(), emitted.as_slice()),
                _ => (&[][..], &[][..]),
            };
            let changed = changes.iter().map(|change| &change.quad);
            changed.chain(emitted.iter().flat_map(|message| &message.statements))
        })
    }

    /// What its transactions change in the stored graphs, in their order.
    pub fn changes(&self) -> impl Iterator<Item = &TxnChange<Q>> {
        self.items.iter().flat_map(|item| match item {
            TxnItem::Entry(TxnEntry {
                outcome: TxnOutcome::Committed { changes, .. },
                ..
            }) => changes.as_slice(),
            _ => &[],
        })
    }
}

/// One item of a [`TxnRecord`].
#[derive(Clone, Debug, PartialEq)]
pub enum TxnItem<Q = Quad> {
    /// A transaction.
    Entry(TxnEntry<Q>),
    /// Interior streams are complete through these times.
    Advance(Vec<(StreamUid, EventTime)>),
    /// This many transactions, each of which was next because of those before it. They committed,
    /// and recovery runs them again.
    Triggered(u64),
}

/// A transaction that committed or aborted.
#[derive(Clone, Debug, PartialEq)]
pub struct TxnEntry<Q = Quad> {
    /// What led to it.
    pub origin: TxnOrigin,
    /// How it ended.
    pub outcome: TxnOutcome<Q>,
}

/// What led to a transaction.
#[derive(Clone, Debug, PartialEq)]
pub enum TxnOrigin {
    /// The batches of a round.
    Round {
        /// The round.
        round: TxnRound,
        /// The batches, in the order in which they were consumed.
        consumed: Vec<TxnConsumed>,
    },
    /// A call.
    Call(TxnCall),
    /// An update, or a procedure of the program that embeds the engine.
    Update,
}

/// The round of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TxnRound {
    /// The number of the border batch.
    Batch(u64),
    /// The number of the call whose messages led to it.
    Call(u64),
}

/// A batch that a procedure consumed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TxnConsumed {
    /// The procedure.
    pub procedure: ProcedureUid,
    /// The stream.
    pub stream: StreamUid,
    /// The places of its messages.
    pub places: TxnPlaces,
}

/// The places of a batch's messages, ascending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TxnPlaces {
    /// Consecutive ones.
    Run {
        /// The first one.
        first: Place,
        /// Their number.
        count: u64,
    },
    /// Any others.
    List(Vec<Place>),
}

/// A call of a procedure.
#[derive(Clone, Debug, PartialEq)]
pub struct TxnCall {
    /// The procedure.
    pub procedure: ProcedureUid,
    /// The number of the call: 1, 2, ….
    pub number: u64,
    /// Under which source and number it is remembered.
    pub key: Option<(String, u64)>,
    /// When it was received, which is NOW() of its steps.
    pub received: EventTime,
    /// Its arguments, where recovery runs the steps again.
    pub arguments: Vec<Term>,
}

/// How a transaction ended.
#[derive(Clone, Debug, PartialEq)]
pub enum TxnOutcome<Q = Quad> {
    /// It committed, with these effects.
    Committed {
        /// What changes in the stored graphs. No statement is there twice.
        changes: Vec<TxnChange<Q>>,
        /// The messages that it emitted, in their order.
        emitted: Vec<TxnMessage<Q>>,
        /// What a call with a key was answered.
        answer: Vec<u8>,
    },
    /// It aborted, and left nothing but this.
    Aborted {
        /// The procedure whose abort it was.
        procedure: ProcedureUid,
        /// The reason.
        reason: String,
    },
    /// It committed, and recovery runs its steps again.
    Rerun,
}

/// A statement that a transaction changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TxnChange<Q = Quad> {
    /// The statement.
    pub quad: Q,
    /// Whether it is inserted; else it is deleted.
    pub inserts: bool,
}

/// A message that a transaction emitted.
#[derive(Clone, Debug, PartialEq)]
pub struct TxnMessage<Q = Quad> {
    /// The interior stream.
    pub stream: StreamUid,
    /// Its place there.
    pub place: Place,
    /// Its event time.
    pub at: EventTime,
    /// Its statements.
    pub statements: Vec<Q>,
}
