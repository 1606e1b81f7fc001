//! Subscriptions: the kept firings of a query, then the live ones, in close order.
//! A subscriber that is too slow is told how many firings it lost; nothing is skipped silently.

use crate::answer::Answer;
use std::sync::Arc;
use std::task::{Context, Poll};
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
    pub close_ms: i64,
    /// 0, and more for amended firings.
    pub revision: u32,
    /// The running number among the query's firings.
    pub ordinal: u64,
    /// The snapshot number that it saw.
    pub sn: u64,
    /// The windows are complete from here on only, if they reach back further than what was kept.
    pub complete_from_ms: Option<i64>,
    /// The answer, or the sentence that says why there is none.
    pub answer: Result<Answer, String>,
    /// Start of execution → answer ready.
    pub execution: Duration,
    /// The last statement it needed acknowledged → answer ready.
    pub delay: Duration,
    /// What of the delay was waiting behind other queries.
    pub waiting: Duration,
}

/// From where and what a subscriber wants.
#[derive(Clone, Debug)]
pub struct SubscribeOptions {
    /// Only firings with a later close (Last-Event-ID); `None` begins with the oldest that is kept.
    pub after_ms: Option<i64>,
    /// Also firings without rows.
    pub empties: bool,
    /// How many firings may wait to be read before the oldest of them are given up.
    pub capacity: usize,
}

impl Default for SubscribeOptions {
    fn default() -> Self {
        SubscribeOptions {
            after_ms: None,
            empties: true,
            capacity: 1024,
        }
    }
}

/// What a [`Subscription`] delivers.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum SubscriptionEvent {
    /// The next firing.
    Firing(Arc<FiringResult>),
    /// Firings that this subscriber will not see: they were no longer kept, or it read too slowly.
    Lagged {
        /// How many, where that is known.
        missed: u64,
    },
}

/// A reader of a query's firings; dropping it unsubscribes.
#[derive(Debug)]
pub struct Subscription {
    _inner: (),
}

impl Subscription {
    /// Waits for the next event; `None` when the query was dropped or the engine stopped.
    pub fn recv(&self) -> Option<SubscriptionEvent> {
        unimplemented!()
    }

    /// Waits at most `timeout`; `Ok(None)` when there will be no more, `Err(())` when time is up.
    #[allow(clippy::result_unit_err)]
    pub fn recv_timeout(&self, _timeout: Duration) -> Result<Option<SubscriptionEvent>, ()> {
        unimplemented!()
    }

    /// The next event if there is one.
    pub fn try_recv(&self) -> Option<SubscriptionEvent> {
        unimplemented!()
    }

    /// The same for asynchronous callers (with `std::future::poll_fn` or a `Stream`).
    pub fn poll_recv(&self, _context: &mut Context<'_>) -> Poll<Option<SubscriptionEvent>> {
        unimplemented!()
    }
}
