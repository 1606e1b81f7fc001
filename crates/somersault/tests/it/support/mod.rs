//! The common parts of the tests.

pub(crate) mod endpoint;
pub(crate) mod scenario;
