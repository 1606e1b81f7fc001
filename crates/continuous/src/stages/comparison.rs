//! The comparison of two answers, for ISTREAM, DSTREAM and REPORT ON CHANGE: within the rest of the
//! firing's time, and within the memory that an execution may use.

use crate::evaluation::firing;
use crate::resources::Resources;
use crate::subscriptions::FiringResult;
use somersault_dictionary::Dictionary;
use somersault_query::{Bounds, Solutions, StoredDifference};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The limits of a comparison, and the dictionary that it needs.
#[derive(Clone)]
pub(crate) struct Comparison {
    pub(crate) dictionary: Arc<Dictionary>,
    pub(crate) firing_time: Duration,
    pub(crate) memory_bytes: u64,
}

impl Comparison {
    /// Returns the limits and the dictionary with which answers of one query are compared.
    pub(crate) fn new(resources: &Resources) -> Comparison {
        let environment = resources.environment();
        Comparison {
            dictionary: Arc::clone(resources.decoder()),
            firing_time: environment.limits().firing_time,
            memory_bytes: environment.memory_bytes(),
        }
    }

    /// Returns the limits of a comparison for a firing, from now on.
    pub(crate) fn bounds(&self, of: &FiringResult) -> Bounds {
        Bounds {
            until: Instant::now() + self.firing_time.saturating_sub(of.execution),
            time: self.firing_time,
            memory_bytes: self.memory_bytes,
        }
    }

    /// Returns the rows of one answer without those of another, or a sentence that says why they
    /// are not known.
    pub(crate) fn without(
        &self,
        one: &Solutions,
        other: &Solutions,
        bounds: &Bounds,
    ) -> Result<Solutions, String> {
        let rest = one.without(other, &self.dictionary, bounds);
        rest.map_err(firing::sentence)
    }

    /// Returns the solutions of an answer after what came and left since. All that left was there.
    pub(crate) fn after(
        &self,
        one: &Solutions,
        difference: &StoredDifference,
        bounds: &Bounds,
    ) -> Result<Solutions, String> {
        self.without(&one.plus(&difference.came), &difference.left, bounds)
    }
}
