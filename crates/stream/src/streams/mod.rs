//! Declared streams: their sources, times and batches.

pub(crate) mod adaptor;
pub(crate) mod ahead;
pub(crate) mod numbered;
pub(crate) mod stream;
pub(crate) mod taken;
