//! The integration tests of the command, in one binary.

mod command;
mod serve;
mod durability;
