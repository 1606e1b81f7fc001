//! The targets with the newest figures, and the document that shows them.

pub(crate) mod check;
pub(crate) mod report;
