//! How a record lies in a segment: own enums, encoded by postcard, with a table of the terms that
//! the record uses.
//!
//! Before changing anything here: these types *are* the format, which docs/format.md shows to the
//! byte. Variants and fields may only be added at the end. Any other change needs a new format
//! version and a reader for this one. `tests/fixtures` holds a log of each state of the format.
//! Every term is written once per record and referred to by its index; a datatype or a part of a
//! triple term stands before the term that uses it, so decoding is one pass. Event times are
//! differences from the statement before.

mod decode;
mod encode;
mod statements;
mod transaction;

pub(crate) use decode::{Noted, decode, note};
pub(crate) use encode::{EncodeError, Encoder};
pub use statements::{EncodedStatements, PushBody, PushForm, StatementEncoder};

use crate::error::LogError;
use crate::record::{CommandRecord, Record};
use serde::{Deserialize, Serialize};
use transaction::WireTxn;
pub use transaction::{StatementTerms, TxnBody, TxnForm};

/// Triple terms nested deeper than this are refused, so that no reader needs an unbounded stack.
pub(crate) const MAX_NESTING: usize = 64;

/// The first byte of an encoded `Push` record.
const PUSH_TAG: u32 = 0;
/// The first byte of an encoded `Messages` record.
const MESSAGES_TAG: u32 = 13;
/// The first byte of an encoded `Load` record, and of one that clears: opening looks for them
/// without decoding the others.
const LOAD_TAG: u8 = 3;
const CLEARING_LOAD_TAG: u8 = 11;
/// The first byte of an encoded `Delivered` record without an SN, and of one with it.
const DELIVERED_TAG: u8 = 6;
const DELIVERED_AT_TAG: u8 = 9;

/// The first byte of an encoded command.
const COMMAND_TAG: u32 = 2;
/// The greatest discriminants of records and of commands: what is greater was written by a newer
/// version.
const NEWEST_KIND: u32 = 14;
const NEWEST_COMMAND: u32 = 14;

impl<P: PushBody, C: AsRef<CommandRecord>, T: TxnBody> Record<P, C, T> {
    /// The record as it lies in a segment, without its frame: for tools and tests, the log itself
    /// does not need it.
    ///
    /// # Errors
    /// [`LogError::Unwritable`].
    pub fn to_bytes(&self) -> Result<Vec<u8>, LogError> {
        let mut bytes = Vec::new();
        Encoder::default().encode(self, &mut bytes)?;
        Ok(bytes)
    }
}

impl Record {
    /// The record that [`Record::to_bytes`] made these bytes from.
    ///
    /// # Errors
    /// [`LogError::Damaged`], for any other bytes that do not happen to be a record, and
    /// [`LogError::Newer`] for what looks like one of a newer version.
    pub fn from_bytes(bytes: &[u8]) -> Result<Record, LogError> {
        decode(bytes).map_err(|error| error.at("the record".to_owned(), 0, ""))
    }
}

/// The discriminants are postcard's: the order counts. A new one also needs a change of the
/// constants above, of `tests/fixtures`, and of docs/format.md.
#[derive(Serialize, Deserialize)]
enum WireRecord<'a> {
    #[serde(borrow)]
    Push(WirePush<'a>),
    #[serde(borrow)]
    Advance(WireAdvance<'a>),
    #[serde(borrow)]
    Command(WireCommandRecord<'a>),
    #[serde(borrow)]
    Load(WireLoad<'a>),
    #[serde(borrow)]
    Update(WireUpdate<'a>),
    Plan(WirePlan),
    Delivered(WireDelivered),
    #[serde(borrow)]
    Txn(WireTxn<'a>),
    #[serde(borrow)]
    Derived(WireDerived<'a>),
    DeliveredAt(WireDeliveredAt),
    /// An update that empties graphs; one that does not is written as `Update`.
    #[serde(borrow)]
    ClearingUpdate(WireClearingUpdate<'a>),
    /// A load that empties graphs; one that does not is written as `Load`.
    #[serde(borrow)]
    ClearingLoad(WireClearingLoad<'a>),
    #[serde(borrow)]
    Subscription(WireSubscription<'a>),
    #[serde(borrow)]
    Messages(WireMessages<'a>),
    /// A plan that holds live queries back; one that does not is written as `Plan`.
    HoldingPlan(WireHoldingPlan),
}

#[derive(Serialize, Deserialize)]
struct WirePush<'a> {
    stream: &'a str,
    source: &'a str,
    seq: Option<u64>,
    received_ms: i64,
    #[serde(borrow)]
    terms: Vec<WireTerm<'a>>,
    statements: Vec<WireStatement>,
}

#[derive(Serialize, Deserialize)]
struct WireMessages<'a> {
    stream: &'a str,
    source: &'a str,
    received_ms: i64,
    messages: Vec<WireMessageSpan>,
    #[serde(borrow)]
    terms: Vec<WireTerm<'a>>,
    statements: Vec<WireStatement>,
}

#[derive(Serialize, Deserialize)]
struct WireMessageSpan {
    /// The number less that of the message before (of the first: less 0), modulo 2^64.
    seq_later_by: Option<u64>,
    statements: u32,
}

#[derive(Serialize, Deserialize)]
struct WireAdvance<'a> {
    received_ms: i64,
    #[serde(borrow)]
    to: Vec<(&'a str, i64)>,
}

#[derive(Serialize, Deserialize)]
struct WireCommandRecord<'a> {
    received_ms: i64,
    #[serde(borrow)]
    command: WireCommand<'a>,
    resolved: WireResolved,
}

#[derive(Serialize, Deserialize)]
enum WireCommand<'a> {
    CreateStream {
        iri: &'a str,
        text: &'a str,
        namespace: Option<&'a str>,
    },
    DropStream {
        iri: &'a str,
    },
    RegisterQuery {
        name: &'a str,
        text: &'a str,
        namespace: Option<&'a str>,
    },
    DropQuery {
        name: &'a str,
    },
    PauseQuery {
        name: &'a str,
    },
    ResumeQuery {
        name: &'a str,
    },
    RegisterQueries {
        #[serde(borrow)]
        pieces: Vec<&'a str>,
        namespace: Option<&'a str>,
        #[serde(borrow)]
        members: Vec<(&'a str, Vec<&'a str>)>,
    },
    /// With the uid of the query that is replaced, and the time after which the new one fires.
    ReplaceQuery {
        name: &'a str,
        text: &'a str,
        namespace: Option<&'a str>,
        replaced: Option<(u64, i64)>,
    },
    ResetStream {
        iri: &'a str,
    },
    /// With where streams stand whose first consumer it is: uid, next place, time.
    CreateProcedure {
        name: &'a str,
        text: &'a str,
        namespace: Option<&'a str>,
        begins: Vec<(u32, u64, i64)>,
    },
    DropProcedure {
        name: &'a str,
        discard: bool,
    },
    CreateDataflow {
        name: &'a str,
        text: &'a str,
        namespace: Option<&'a str>,
    },
    DropDataflow {
        name: &'a str,
    },
    PauseDataflow {
        name: &'a str,
    },
    ResumeDataflow {
        name: &'a str,
    },
}

#[derive(Serialize, Deserialize)]
struct WireResolved {
    sn: u64,
    stream: Option<u32>,
    query: Option<u64>,
    stream_times: Vec<(u32, i64)>,
    first_close: Option<i64>,
}

#[derive(Serialize, Deserialize)]
struct WireLoad<'a> {
    received_ms: i64,
    name: &'a str,
    hash: [u8; 32],
    statements: u64,
}

#[derive(Serialize, Deserialize)]
struct WireUpdate<'a> {
    received_ms: i64,
    #[serde(borrow)]
    terms: Vec<WireTerm<'a>>,
    deletes: Vec<WireQuad>,
    inserts: Vec<WireQuad>,
}

#[derive(Serialize, Deserialize)]
struct WireClearingUpdate<'a> {
    #[serde(borrow)]
    update: WireUpdate<'a>,
    /// Graphs, written as in a [`WireQuad`].
    clears: Vec<u32>,
}

#[derive(Serialize, Deserialize)]
struct WireClearingLoad<'a> {
    #[serde(borrow)]
    load: WireLoad<'a>,
    #[serde(borrow)]
    terms: Vec<WireTerm<'a>>,
    /// Graphs, written as in a [`WireQuad`].
    clears: Vec<u32>,
}

#[derive(Serialize, Deserialize)]
struct WirePlan {
    sn: u64,
    through: Option<i64>,
    log_end: u64,
    stream_times: Vec<(u32, i64)>,
}

#[derive(Serialize, Deserialize)]
struct WireHoldingPlan {
    plan: WirePlan,
    held: Vec<u64>,
}

#[derive(Serialize, Deserialize)]
struct WireDelivered {
    query: u64,
    close: i64,
}

#[derive(Serialize, Deserialize)]
struct WireDeliveredAt {
    query: u64,
    close: i64,
    sn: u64,
}

#[derive(Serialize, Deserialize)]
struct WireDerived<'a> {
    query: u64,
    close: i64,
    ordinal: u32,
    revision: u32,
    received_ms: i64,
    #[serde(borrow)]
    terms: Vec<WireTerm<'a>>,
    statements: Vec<WireQuad>,
}

#[derive(Serialize, Deserialize)]
struct WireSubscription<'a> {
    received_ms: i64,
    query: &'a str,
    name: &'a str,
    change: WireSubscriptionChange,
}

#[derive(Serialize, Deserialize)]
enum WireSubscriptionChange {
    Created {
        after: WireAnswerPosition,
        answers: u64,
        bytes: u64,
        deadline_ms: Option<u64>,
        empties: bool,
        skips_oldest: bool,
    },
    Acknowledged(WireAnswerPosition),
    Dropped,
    LetGo {
        through: WireAnswerPosition,
        answers: u64,
        why: WireSubscriptionLimit,
    },
}

#[derive(Serialize, Deserialize)]
enum WireSubscriptionLimit {
    Answers,
    Bytes,
    Deadline,
}

#[derive(Serialize, Deserialize)]
struct WireAnswerPosition {
    sn: u64,
    close: i64,
    ordinal: u32,
    revision: u32,
}

/// Numbers are indexes into the record's table of terms.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum WireTerm<'a> {
    Iri(&'a str),
    Blank(&'a str),
    String(&'a str),
    Typed {
        value: &'a str,
        datatype: u32,
    },
    Tagged {
        value: &'a str,
        language: &'a str,
    },
    Directed {
        value: &'a str,
        language: &'a str,
        right_to_left: bool,
    },
    Triple {
        subject: u32,
        predicate: u32,
        object: u32,
    },
}

#[derive(Serialize, Deserialize)]
struct WireStatement {
    /// The event time less that of the statement before (of the first: less 0), modulo 2^64.
    later_by: i64,
    quad: WireQuad,
}

/// `graph` is 0 for the default graph, else the index of the graph's name plus 1.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct WireQuad {
    subject: u32,
    predicate: u32,
    object: u32,
    graph: u32,
}
