//! Subscriptions: the kept firings of a query, then the live ones, in close order.

use super::mailbox::{Mailbox, SubscriptionEvent};
use somersault_model::QueryUid;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// A reader of a query's firings; dropping it unsubscribes. It is an iterator that waits for each
/// event and ends when the query is dropped or the engine stops.
///
/// ```
/// # use somersault::{Engine, EngineConfig, EventTime, SubscribeOptions, SubscriptionEvent};
/// # fn main() -> Result<(), somersault::EngineError> {
/// # let engine = Engine::open(EngineConfig::default())?;
/// # engine.create_stream(None, "CREATE STREAM <urn:s> BATCH 1s IDLE NEVER")?;
/// # let text = "SELECT ?x FROM STREAM <urn:s> [RANGE 2s STEP 1s] WHERE { ?x ?p ?o }";
/// # engine.register(Some("seen"), text)?;
/// # engine.advance([("urn:s", EventTime(0))])?;
/// let subscription = engine.subscribe("seen", SubscribeOptions::default())?;
/// engine.advance([("urn:s", EventTime(2_000))])?;
/// for event in subscription.take(2) {
///     if let SubscriptionEvent::Firing(firing) = event {
///         println!("{}: {:?}", firing.close, firing.answer);
///     }
/// }
/// # Ok(())
/// # }
/// ```
pub struct Subscription {
    query: QueryUid,
    mailbox: Arc<Mailbox>,
    /// In a process without threads: gives a part of it its turn, if one has something to do.
    turn: Option<Box<dyn Fn() -> bool + Send + Sync>>,
}

/// No event came in time; see [`Subscription::recv_timeout`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecvTimeoutError;

impl std::fmt::Display for RecvTimeoutError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the query had no event in the time given")
    }
}

impl std::error::Error for RecvTimeoutError {}

impl Subscription {
    pub(crate) fn new(query: QueryUid, mailbox: Arc<Mailbox>) -> Subscription {
        Subscription {
            query,
            mailbox,
            turn: None,
        }
    }

    /// The same in a process without threads: a reader that waits calls `turn`, which says whether
    /// anything was done.
    #[doc(hidden)]
    pub fn by_turns(self, turn: impl Fn() -> bool + Send + Sync + 'static) -> Subscription {
        Subscription {
            turn: Some(Box::new(turn)),
            ..self
        }
    }

    /// Waits for the next event in a process without threads; `None` if nothing is left to do there
    /// before.
    fn recv_by_turns(&self, turn: &dyn Fn() -> bool) -> Option<Option<SubscriptionEvent>> {
        loop {
            let next = self.mailbox.recv_until(Instant::now());
            if next.is_some() || !turn() {
                return next;
            }
        }
    }

    /// Returns the uid of the query that it reads: another query may later have its name.
    ///
    /// ```
    /// # use somersault::{Engine, EngineConfig, SubscribeOptions};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// # engine.create_stream(None, "CREATE STREAM <urn:s> BATCH 1s IDLE NEVER")?;
    /// # let text = "SELECT ?x FROM STREAM <urn:s> [RANGE 2s STEP 1s] WHERE { ?x ?p ?o }";
    /// let registered = engine.register(Some("seen"), text)?;
    /// let subscription = engine.subscribe("seen", SubscribeOptions::default())?;
    /// assert_eq!(subscription.uid(), registered.uid);
    /// # Ok(())
    /// # }
    /// ```
    pub fn uid(&self) -> u64 {
        self.query.0
    }

    /// Waits for the next event; `None` when the query was dropped or the engine stopped.
    ///
    /// ```
    /// # use somersault::{Engine, EngineConfig, SubscribeOptions};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// # engine.create_stream(None, "CREATE STREAM <urn:s> BATCH 1s IDLE NEVER")?;
    /// # let text = "SELECT ?x FROM STREAM <urn:s> [RANGE 2s STEP 1s] WHERE { ?x ?p ?o }";
    /// # engine.register(Some("seen"), text)?;
    /// let subscription = engine.subscribe("seen", SubscribeOptions::default())?;
    /// engine.drop_query("seen")?;
    /// assert!(subscription.recv().is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub fn recv(&self) -> Option<SubscriptionEvent> {
        match &self.turn {
            None => self.mailbox.recv(),
            Some(turn) => (self.recv_by_turns(turn))
                .expect("a process without threads has something to do while a reader waits"),
        }
    }

    /// Waits at most `timeout`; returns `Ok(None)` when there will be no more events.
    ///
    /// ```
    /// # use somersault::{Engine, EngineConfig, RecvTimeoutError, SubscribeOptions};
    /// # use std::time::Duration;
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// # engine.create_stream(None, "CREATE STREAM <urn:s> BATCH 1s IDLE NEVER")?;
    /// # let text = "SELECT ?x FROM STREAM <urn:s> [RANGE 2s STEP 1s] WHERE { ?x ?p ?o }";
    /// # engine.register(Some("seen"), text)?;
    /// let subscription = engine.subscribe("seen", SubscribeOptions::default())?;
    /// let nothing = subscription.recv_timeout(Duration::from_millis(1));
    /// assert!(matches!(nothing, Err(RecvTimeoutError)));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`RecvTimeoutError`] when time is up.
    pub fn recv_timeout(
        &self,
        timeout: Duration,
    ) -> Result<Option<SubscriptionEvent>, RecvTimeoutError> {
        let received = match &self.turn {
            None => self.mailbox.recv_until(Instant::now() + timeout),
            Some(turn) => self.recv_by_turns(turn),
        };
        received.ok_or(RecvTimeoutError)
    }

    /// Returns the next event if there is one.
    ///
    /// ```
    /// # use somersault::{Engine, EngineConfig, SubscribeOptions};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// # engine.create_stream(None, "CREATE STREAM <urn:s> BATCH 1s IDLE NEVER")?;
    /// # let text = "SELECT ?x FROM STREAM <urn:s> [RANGE 2s STEP 1s] WHERE { ?x ?p ?o }";
    /// # engine.register(Some("seen"), text)?;
    /// let subscription = engine.subscribe("seen", SubscribeOptions::default())?;
    /// assert!(subscription.try_recv().is_none(), "nothing has fired yet");
    /// # Ok(())
    /// # }
    /// ```
    pub fn try_recv(&self) -> Option<SubscriptionEvent> {
        self.mailbox.try_recv()
    }

    /// As [`Subscription::recv`] for asynchronous callers, with `std::future::poll_fn` or in a
    /// `Stream`.
    ///
    /// ```
    /// # use somersault::{Engine, EngineConfig, SubscribeOptions, Subscription, SubscriptionEvent};
    /// async fn next(subscription: &Subscription) -> Option<SubscriptionEvent> {
    ///     std::future::poll_fn(|context| subscription.poll_recv(context)).await
    /// }
    /// ```
    pub fn poll_recv(&self, context: &mut Context<'_>) -> Poll<Option<SubscriptionEvent>> {
        self.mailbox.poll_recv(context)
    }
}

impl Iterator for Subscription {
    type Item = SubscriptionEvent;

    fn next(&mut self) -> Option<SubscriptionEvent> {
        self.recv()
    }
}

impl Iterator for &Subscription {
    type Item = SubscriptionEvent;

    fn next(&mut self) -> Option<SubscriptionEvent> {
        self.recv()
    }
}

impl std::fmt::Debug for Subscription {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Subscription")
            .field("query", &self.query.0)
            .field("waiting", &self.mailbox.waiting())
            .finish()
    }
}
