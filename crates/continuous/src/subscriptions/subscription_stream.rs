//! Subscriptions for asynchronous programs.
//!
//! The one thing to know before changing it: this is a type of its own because [`Subscription`] is
//! an iterator. With both traits on one type, a program that imports `StreamExt` could call neither
//! `next` nor `map` on it without naming the trait.

use super::mailbox::SubscriptionEvent;
use super::subscription::Subscription;
use futures_core::Stream;
use std::pin::Pin;
use std::task::{Context, Poll};

/// The events of a subscription as a [`Stream`], for asynchronous programs; made by
/// [`Subscription::into_stream`]. It ends when the query is dropped or the engine stops. Dropping
/// it unsubscribes.
///
/// ```
/// use futures_util::StreamExt;
/// # use somersault::{Engine, EngineConfig, EventTime, SubscribeOptions, SubscriptionEvent};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let engine = Engine::open(EngineConfig::default())?;
/// # engine.create_stream(None, "CREATE STREAM <urn:s> BATCH 1s IDLE NEVER")?;
/// # let text = "SELECT ?x FROM STREAM <urn:s> [RANGE 2s STEP 1s] WHERE { ?x ?p ?o }";
/// # engine.register(Some("seen"), text)?;
/// # engine.advance([("urn:s", EventTime(0))])?;
/// let mut events = engine.subscribe("seen", SubscribeOptions::default())?.into_stream();
/// engine.advance([("urn:s", EventTime(1_000))])?;
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// # runtime.block_on(async {
/// if let Some(SubscriptionEvent::Firing(firing)) = events.next().await {
///     assert_eq!(firing.close, EventTime(1_000));
/// }
/// # });
/// # Ok(())
/// # }
/// ```
pub struct SubscriptionStream {
    subscription: Subscription,
}

impl Subscription {
    /// Turns the subscription into a stream of its events, for asynchronous programs. For an
    /// example see [`SubscriptionStream`].
    ///
    /// ```
    /// use futures_util::StreamExt;
    /// use somersault::{Subscription, SubscriptionEvent};
    ///
    /// /// The number of rows of the next firing.
    /// async fn next_rows(subscription: Subscription) -> Option<usize> {
    ///     match subscription.into_stream().next().await? {
    ///         SubscriptionEvent::Firing(firing) => Some(firing.answer.as_ref().ok()?.len()),
    ///         _ => None,
    ///     }
    /// }
    /// ```
    pub fn into_stream(self) -> SubscriptionStream {
        SubscriptionStream { subscription: self }
    }
}

impl SubscriptionStream {
    /// Returns the subscription again; no event is lost.
    ///
    /// ```
    /// # use somersault::{Engine, EngineConfig, SubscribeOptions};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// # engine.create_stream(None, "CREATE STREAM <urn:s> BATCH 1s IDLE NEVER")?;
    /// # let text = "SELECT ?x FROM STREAM <urn:s> [RANGE 2s STEP 1s] WHERE { ?x ?p ?o }";
    /// # let query = engine.register(Some("seen"), text)?;
    /// let events = engine.subscribe("seen", SubscribeOptions::default())?.into_stream();
    /// assert_eq!(events.into_inner().uid(), query.uid);
    /// # Ok(())
    /// # }
    /// ```
    pub fn into_inner(self) -> Subscription {
        self.subscription
    }
}

impl Stream for SubscriptionStream {
    type Item = SubscriptionEvent;

    fn poll_next(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<SubscriptionEvent>> {
        self.subscription.poll_recv(context)
    }
}

impl std::fmt::Debug for SubscriptionStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SubscriptionStream")
            .field("query", &self.subscription.uid())
            .finish_non_exhaustive()
    }
}
