//! Subscribing to a continuous query by its name, while queries come and go.
//!
//! The one thing to know before changing it: a name is known from when the driver has applied the record, and what stands
//! for it hears of that a moment later, on the driver's thread. Who asks in between has to ask again.

use super::Engine;
use crate::error::EngineError;
use crate::subscription::{SubscribeOptions, Subscription};
use somersault_stream::{Input, QueryStatus};

impl Engine {
    /// Reads the firings of a query: the kept ones, then the live ones.
    ///
    /// # Errors
    /// There is no such query.
    pub fn subscribe(
        &self,
        name: &str,
        options: SubscribeOptions,
    ) -> Result<Subscription, EngineError> {
        self.check_running()?;
        let mut not_standing = None;
        loop {
            let status = self.query_status(name)?;
            if let Some(subscription) = self.subscribe_to(&status, &options) {
                return Ok(subscription);
            }
            if not_standing == Some(status.uid) {
                return Err(EngineError::Internal(format!(
                    "the query {name} is registered but not standing"
                )));
            }
            not_standing = Some(status.uid);
            // An input that changes nothing: when the driver has taken it, it has told of whoever came or went before.
            self.inner.driver.log_input(Input::Advance {
                received_ms: self.now_ms(),
                to: Vec::new(),
            })?;
        }
    }

    /// `None` where a query with this status is not among those that stand.
    fn subscribe_to(
        &self,
        status: &QueryStatus,
        options: &SubscribeOptions,
    ) -> Option<Subscription> {
        let standing = &self.inner.standing;
        match status.cohort {
            None => standing
                .query(status.uid)
                .map(|query| query.subscribe(status.uid, options)),
            Some((place, _)) => {
                let cohort = standing.cohort(place.cohort)?;
                let member = (place.place, status.uid, status.name.as_str());
                cohort.subscribe(member, options, standing)
            }
        }
    }
}
