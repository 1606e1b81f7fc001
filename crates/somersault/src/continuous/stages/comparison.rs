//! How one answer of a query is compared with another: within what is left of the firing's time,
//! and within the memory that an execution may use.

use super::super::firing;
use crate::subscription::FiringResult;
use somersault_dictionary::Dictionary;
use somersault_query::{Bounds, Solutions};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// See the module.
#[derive(Clone)]
pub(crate) struct Comparison {
    pub(crate) dictionary: Arc<Dictionary>,
    pub(crate) firing_time: Duration,
    pub(crate) memory_bytes: u64,
}

impl Comparison {
    /// What a comparison for a firing may take from now on.
    pub(crate) fn bounds(&self, of: &FiringResult) -> Bounds {
        Bounds {
            until: Instant::now() + self.firing_time.saturating_sub(of.execution),
            time: self.firing_time,
            memory_bytes: self.memory_bytes,
        }
    }

    /// The rows of one answer without those of another, or the sentence that says why it cannot be
    /// told.
    pub(crate) fn without(
        &self,
        one: &Solutions,
        other: &Solutions,
        bounds: &Bounds,
    ) -> Result<Solutions, String> {
        let rest = one.without(other, &self.dictionary, bounds);
        rest.map_err(firing::sentence)
    }
}
