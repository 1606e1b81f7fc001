//! Subscribing to a continuous query by its name, while queries are registered and dropped.
//!
//! The one thing to know before changing it: the driver tells the cohorts of a record before it
//! answers any read, so a name that is found leads to a member that they know. The member may be
//! dropped or replaced before it is asked, though.

use super::Engine;
use crate::error::EngineError;
use somersault_continuous::{SubscribeOptions, Subscription};

/// # Continuous queries
///
/// Reading their answers.
impl Engine {
    /// Reads the firings of a query: the kept ones, then the live ones.
    ///
    /// ```
    /// use somersault::{Engine, EngineConfig, EventTime, SubscribeOptions, SubscriptionEvent};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// # engine.create_stream(None, "CREATE STREAM <urn:s> BATCH 1s IDLE NEVER")?;
    /// # let text = "SELECT ?x FROM STREAM <urn:s> [RANGE 2s STEP 1s] WHERE { ?x ?p ?o }";
    /// # engine.register(Some("seen"), text)?;
    /// # engine.advance([("urn:s", EventTime(0))])?;
    /// let subscription = engine.subscribe("seen", SubscribeOptions::default())?;
    /// engine.advance([("urn:s", EventTime(1_000))])?;
    /// if let Some(SubscriptionEvent::Firing(firing)) = subscription.recv() {
    ///     assert_eq!(firing.close_ms, 1_000);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// There is no such query.
    pub fn subscribe(
        &self,
        name: &str,
        options: SubscribeOptions,
    ) -> Result<Subscription, EngineError> {
        self.check_running()?;
        let mut unknown = None;
        loop {
            let status = self.query_status(name)?;
            if let Some(subscription) = self.inner.continuous.subscribe(&status, &options) {
                return Ok(match self.inner.config.process.clone() {
                    None => subscription,
                    Some(process) => subscription.by_turns(move || process.take_turn()),
                });
            }
            // It has been dropped or replaced since; the uid under the name says which.
            if unknown == Some(status.uid) {
                return Err(EngineError::Internal(format!(
                    "the query {name} is registered, and no cohort knows it"
                )));
            }
            unknown = Some(status.uid);
        }
    }
}
