//! The results of runs, and their tables for the terminal.

pub(crate) mod results;
pub(crate) mod table;
