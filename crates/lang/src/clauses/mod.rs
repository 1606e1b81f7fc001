//! What stands around SPARQL: registration headers, windows and their options, and the
//! declarations of streams, procedures and dataflows.

pub(crate) mod blocks;
pub(crate) mod connector;
pub(crate) mod dataflow;
pub(crate) mod declare;
pub(crate) mod documents;
pub(crate) mod extent;
pub(crate) mod live;
pub(crate) mod options;
pub(crate) mod procedure;
pub(crate) mod surface;
