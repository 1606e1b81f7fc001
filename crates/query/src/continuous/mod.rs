//! What standing queries need: many queries evaluated together, evaluation by what has come and
//! gone, and the difference of two answers. Imports all rooms below it; nothing of a stream.

pub(crate) mod difference;
pub(crate) mod grouped;
pub(crate) mod incremental;
