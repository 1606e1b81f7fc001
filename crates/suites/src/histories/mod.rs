//! Histories: what concurrent clients asked of an engine and were answered, an event a line, as
//! Jepsen and Elle write them; workloads that make them; and a check whether a history could have
//! come from transactions that ran one after the other.
//!
//! The check searches circles in the graph of dependencies (Adya, "Weak Consistency", 1999;
//! Kingsbury and Alvaro, "Elle", 2020). It is for small histories: some ten thousand transactions.

mod bank;
mod check;
mod cycles;
mod event;
mod rows;
mod versions;
mod workload;

pub use bank::check_bank;
pub use check::{Anomaly, Verdict, check, judge};
pub use event::{EventKind, HistoryEvent, MicroOp, Operation, Seen, read_history, write_history};
pub use rows::{ReplyRows, TransactionRequest, reply_row};
pub use workload::{Drawing, Workload};
