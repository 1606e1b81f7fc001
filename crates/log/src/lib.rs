//! The log of inputs: records, segments, group commit, recovery (design.md S1, S2, S12; LG-1).
//!
//! Before changing anything here: the order of the log *is* the engine's correctness, and a record
//! is acknowledged only once it is durable. Everything below [`Log`] is written so that a crash at
//! any instant, on the simulated disk of the tests, either keeps a record whole or loses it whole,
//! and never loses an acknowledged one. The log knows terms, never ids, and no clock: times come in
//! with the records.
//!
//! Rooms, lowest first: record, error, progress, file, hold, identity, options, wire, segment,
//! proof, copy, load, chain, room, next_segment, open, verify, commit, log.

mod chain;
mod commit;
mod copy;
mod error;
mod file;
mod hold;
mod identity;
mod load;
mod log;
mod next_segment;
mod open;
mod options;
mod progress;
mod proof;
mod record;
mod room;
mod segment;
mod verify;
mod wire;

pub use chain::Trimmed;
pub use commit::GroupHold;
pub use copy::LogCopy;
pub use error::LogError;
pub use hold::{FolderHold, FolderHolds};
pub use identity::LogIdentity;
pub use load::{CompressedPart, LoadPart, LoadSegmentReader, LoadSegmentText, LoadSegmentWriter};
pub use log::Log;
pub use open::{Recovered, TornTail};
pub use options::{CommitMode, LogOptions};
pub use progress::{OpenPhase, OpenProgress};
pub use record::{
    AdvanceRecord, AnswerPosition, Command, CommandRecord, ConsumerBegin, DeliveredRecord,
    DerivedRecord, LoadRecord, LoadSegment, LoggedMessage, MessagesRecord, PlanRecord, Position,
    PushRecord, Record, Replaced, Resolved, StreamStatement, SubscriptionChange, SubscriptionLimit,
    SubscriptionRecord, SubscriptionTerms, TxnCall, TxnChange, TxnConsumed, TxnEntry, TxnItem,
    TxnMessage, TxnOrigin, TxnOutcome, TxnPlaces, TxnRecord, TxnRound, UpdateRecord,
};
pub use verify::{LogFileKind, LostLoad, VerifiedLog, verify_log};
pub use wire::{
    EncodedStatements, PushBody, PushForm, StatementEncoder, StatementTerms, TxnBody, TxnForm,
};
