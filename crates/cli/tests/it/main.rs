//! The integration tests of the command, in one binary.

mod bank_kills;
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
mod tokens;
mod transactions;
