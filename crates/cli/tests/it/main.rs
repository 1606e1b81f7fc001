//! The integration tests of the command, in one binary.

mod command;
mod durability;
mod kills;
mod serve;
