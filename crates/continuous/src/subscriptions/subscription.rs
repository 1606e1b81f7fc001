//! Subscriptions: the kept firings of a query, then the live ones, in close order.

use super::mailbox::{Mailbox, SubscriptionEvent};
use somersault_model::QueryUid;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// A reader of a query's firings; dropping it unsubscribes.
pub struct Subscription {
    query: QueryUid,
    mailbox: Arc<Mailbox>,
}

impl Subscription {
    pub(crate) fn new(query: QueryUid, mailbox: Arc<Mailbox>) -> Subscription {
        Subscription { query, mailbox }
    }

    /// Returns the uid of the query that it reads: another query may later have its name.
    pub fn uid(&self) -> u64 {
        self.query.0
    }

    /// Waits for the next event; `None` when the query was dropped or the engine stopped.
    pub fn recv(&self) -> Option<SubscriptionEvent> {
        self.mailbox.recv()
    }

    /// Waits at most `timeout`; returns `Ok(None)` when there will be no more events.
    ///
    /// # Errors
    /// `Err(())` when time is up.
    #[allow(clippy::result_unit_err)]
    pub fn recv_timeout(&self, timeout: Duration) -> Result<Option<SubscriptionEvent>, ()> {
        self.mailbox.recv_until(Instant::now() + timeout)
    }

    /// Returns the next event if there is one.
    pub fn try_recv(&self) -> Option<SubscriptionEvent> {
        self.mailbox.try_recv()
    }

    /// The same for asynchronous callers (with `std::future::poll_fn` or a `Stream`).
    pub fn poll_recv(&self, context: &mut Context<'_>) -> Poll<Option<SubscriptionEvent>> {
        self.mailbox.poll_recv(context)
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
