//! Evaluation of continuous queries: of many together, incrementally from arrived and expired
//! statements, and the difference of two answers. Imports all rooms below it; nothing of a stream.

pub(crate) mod difference;
pub(crate) mod grouped;
pub(crate) mod incremental;
