//! Suites of transactions: declarations, messages and calls, and what must hold after them. The
//! format is that of the test data, whose README describes it. Whoever runs a suite is a
//! [`Subject`]: the serial twin of the simulator, and the engine in the conformance runner.
//!
//! Histories of concurrent clients, and their check, are in [`histories`].
//!
//! The one thing to know before changing it: what is in a suite and not understood ends the run
//! with an error. A field that was passed over would make a suite easier than it is.
//!
//! # Rooms
//!
//! `error`, `terms`, `suite`, `subject`, `run`, `histories`

pub mod error;
pub mod histories;
pub mod run;
pub mod subject;
pub mod suite;
pub mod terms;

pub use error::SuiteError;
pub use run::{Feed, RunReport, run};
pub use subject::{AbortedTransaction, BodyOfMessages, EmittedMessage, PushTally, Subject};
pub use suite::{AlwaysQuery, Pace, ProcedureCall, RecoveryText, TransactionSuite};
