//! What stands around SPARQL: registration headers, windows and their options, and the
//! declarations of streams.

pub(crate) mod blocks;
pub(crate) mod declare;
pub(crate) mod extent;
pub(crate) mod options;
pub(crate) mod surface;
