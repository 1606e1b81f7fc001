//! The integration tests of the command, in one binary.

mod bank_kills;
#[cfg(feature = "tls")]
#[path = "../../../server/tests/it/certificates.rs"]
mod certificates;
mod checkpoints;
mod command;
mod copies;
mod durability;
mod kills;
mod lesson;
mod serve;
mod sinks;
mod sources;
mod subscriptions;
#[cfg(feature = "tls")]
mod tls;
mod tokens;
mod transactions;
