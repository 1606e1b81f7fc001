//! What a run leaves behind, and its tables for the terminal.

pub(crate) mod results;
pub(crate) mod table;
