//! One firing with its answer, as a subscriber receives it.

use super::firing_id::FiringId;
use crate::metrics::FiringTimes;
use somersault_model::{EventTime, QueryUid, Sn};
use somersault_results::Answer;
use somersault_stream::Firing;
use std::time::Duration;

/// One firing of a continuous query, with its answer.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FiringResult {
    /// The query's name.
    pub query: String,
    /// Its uid: with close, ordinal and revision the key of this firing (S13).
    pub uid: u64,
    /// The close.
    pub close: EventTime,
    /// 0, and more for amended firings.
    pub revision: u32,
    /// Counts the firings at one close from 0; only count windows have several.
    pub ordinal: u32,
    /// The snapshot number that it saw.
    pub sn: Sn,
    /// The windows are complete only from here on, if they reach back further than the kept
    /// statements.
    pub complete_from: Option<EventTime>,
    /// The answer, or a sentence that says why there is none.
    pub answer: Result<Answer, String>,
    /// Start of execution → answer ready.
    pub execution: Duration,
    /// Last needed record acknowledged → answer ready.
    pub delay: Duration,
    /// The part of the delay spent waiting behind other queries.
    pub waiting: Duration,
}

impl FiringResult {
    /// Returns the result of a firing, which may be its cohort's, for the query with this uid and
    /// name.
    pub(crate) fn new(
        firing: &Firing,
        took: FiringTimes,
        (uid, name): (QueryUid, &str),
        answer: Result<Answer, String>,
    ) -> FiringResult {
        FiringResult {
            query: name.to_owned(),
            uid: uid.0,
            close: firing.close,
            revision: firing.revision,
            ordinal: firing.ordinal,
            sn: firing.sn,
            complete_from: firing.complete_from,
            answer,
            execution: took.execution,
            delay: took.delay,
            waiting: took.waiting,
        }
    }

    /// Returns its position among the firings of its query.
    ///
    /// ```
    /// use somersault::{Engine, EngineConfig, EventTime, SubscribeOptions, SubscriptionEvent};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// # engine.create_stream(None, "CREATE STREAM <urn:s> BATCH 1s IDLE NEVER")?;
    /// # let text = "SELECT ?x FROM STREAM <urn:s> [RANGE 2s STEP 1s] WHERE { ?x ?p ?o }";
    /// # engine.register(Some("seen"), text)?;
    /// # engine.advance([("urn:s", EventTime(0))])?;
    /// # engine.advance([("urn:s", EventTime(1_000))])?;
    /// let first = engine.subscribe("seen", SubscribeOptions::default())?;
    /// let Some(SubscriptionEvent::Firing(firing)) = first.recv() else {
    ///     return Ok(());
    /// };
    /// // A subscriber that comes back continues after the last firing that it has read.
    /// let options = SubscribeOptions { after: Some(firing.id()), ..Default::default() };
    /// let again = engine.subscribe("seen", options)?;
    /// assert!(again.try_recv().is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub fn id(&self) -> FiringId {
        FiringId {
            uid: Some(self.uid),
            close: self.close,
            ordinal: self.ordinal,
            revision: self.revision,
            sn: Some(self.sn),
        }
    }
}
