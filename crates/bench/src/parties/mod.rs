//! The engines that take part: this one, and the peers that can be installed.

pub(crate) mod child;
pub(crate) mod line_peer;
pub(crate) mod ours;
pub(crate) mod peers;
pub(crate) mod virtuoso;
