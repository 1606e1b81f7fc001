//! The results of runs, and their tables for the terminal.

pub(crate) mod parts;
pub(crate) mod results;
pub(crate) mod sheet;
pub(crate) mod table;
