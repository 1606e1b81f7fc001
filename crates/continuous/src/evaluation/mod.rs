//! One firing's evaluation: over its pinned snapshot and windows, for all cells of its cohort.
//!
//! The one thing to know before changing it: nothing here knows members or subscribers.

mod dataset;
pub(crate) mod evaluator;
pub(crate) mod firing;
pub(crate) mod incremental;
pub(crate) mod live;
pub(crate) mod outcome;
pub(crate) mod saved;

pub use dataset::continuous_dataset;
