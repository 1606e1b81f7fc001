//! The integration tests of the command and of the workspace's shape, in one binary.

mod command;
mod import_ranks;
