//! What every reader of a text needs: a walk over its tokens, its words, names and clauses, and the
//! errors that say where it is wrong.

pub(crate) mod brackets;
pub(crate) mod cursor;
pub(crate) mod error;
pub(crate) mod name_clause;
pub(crate) mod names;
pub(crate) mod nesting;
pub(crate) mod time_clause;
pub(crate) mod words;
