//! Subscriptions: the kept firings of a query, then the live ones, in close order.
//! A subscriber that is too slow is told how many firings it lost; nothing is skipped silently.

use crate::answer::Answer;
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

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
    /// Counts the firings at one close from 0; only count windows have several.
    pub ordinal: u32,
    /// The snapshot number that it saw.
    pub sn: u64,
    /// The windows are complete from here on only, if they reach back further than what was kept.
    pub complete_from_ms: Option<i64>,
    /// The answer, or the sentence that says why there is none.
    pub answer: Result<Answer, String>,
    /// Start of execution → answer ready.
    pub execution: Duration,
    /// The last record that it needed acknowledged → answer ready.
    pub delay: Duration,
    /// What of the delay was waiting behind other queries.
    pub waiting: Duration,
}

/// From where and what a subscriber wants.
///
/// ```
/// let options = somersault::SubscribeOptions { after_ms: Some(802_000), ..Default::default() };
/// assert!(options.empties);
/// ```
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
        /// How many; `None` where they had gone before it subscribed.
        missed: Option<u64>,
    },
}

/// Where the firings for one subscriber wait.
pub(crate) struct Mailbox {
    /// Closes up to here are not wanted; recovery may answer some of them again.
    after_ms: Option<i64>,
    empties: bool,
    capacity: usize,
    inner: Mutex<Waiting>,
    arrived: Condvar,
}

#[derive(Default)]
struct Waiting {
    events: VecDeque<SubscriptionEvent>,
    /// Firings given up since the last one that was read.
    missed: u64,
    ended: bool,
    waker: Option<Waker>,
}

impl Waiting {
    fn take(&mut self) -> Option<SubscriptionEvent> {
        if self.missed > 0 {
            let missed = Some(std::mem::take(&mut self.missed));
            return Some(SubscriptionEvent::Lagged { missed });
        }
        self.events.pop_front()
    }
}

impl Mailbox {
    pub(crate) fn new(options: &SubscribeOptions, capacity: usize) -> Mailbox {
        Mailbox {
            after_ms: options.after_ms,
            empties: options.empties,
            capacity,
            inner: Mutex::new(Waiting::default()),
            arrived: Condvar::new(),
        }
    }

    pub(crate) fn deliver(&self, result: &Arc<FiringResult>) {
        if self.after_ms.is_some_and(|after| result.close_ms <= after) {
            return;
        }
        let is_empty = result.answer.as_ref().is_ok_and(Answer::is_empty);
        if self.empties || !is_empty {
            self.put(SubscriptionEvent::Firing(Arc::clone(result)));
        }
    }

    pub(crate) fn put(&self, event: SubscriptionEvent) {
        let mut inner = self.inner.lock();
        if inner.events.len() >= self.capacity {
            inner.events.pop_front();
            inner.missed += 1;
        }
        inner.events.push_back(event);
        self.wake(&mut inner);
    }

    pub(crate) fn end(&self) {
        let mut inner = self.inner.lock();
        inner.ended = true;
        self.wake(&mut inner);
    }

    fn wake(&self, inner: &mut Waiting) {
        if let Some(waker) = inner.waker.take() {
            waker.wake();
        }
        self.arrived.notify_all();
    }
}

/// A reader of a query's firings; dropping it unsubscribes.
pub struct Subscription {
    mailbox: Arc<Mailbox>,
}

impl Subscription {
    pub(crate) fn new(mailbox: Arc<Mailbox>) -> Subscription {
        Subscription { mailbox }
    }

    /// Waits for the next event; `None` when the query was dropped or the engine stopped.
    pub fn recv(&self) -> Option<SubscriptionEvent> {
        let mut inner = self.mailbox.inner.lock();
        loop {
            if let Some(event) = inner.take() {
                return Some(event);
            }
            if inner.ended {
                return None;
            }
            self.mailbox.arrived.wait(&mut inner);
        }
    }

    /// Waits at most `timeout`; `Ok(None)` when there will be no more.
    ///
    /// # Errors
    /// `Err(())` when time is up.
    #[allow(clippy::result_unit_err)]
    pub fn recv_timeout(&self, timeout: Duration) -> Result<Option<SubscriptionEvent>, ()> {
        let until = Instant::now() + timeout;
        let mut inner = self.mailbox.inner.lock();
        loop {
            if let Some(event) = inner.take() {
                return Ok(Some(event));
            }
            if inner.ended {
                return Ok(None);
            }
            if self
                .mailbox
                .arrived
                .wait_until(&mut inner, until)
                .timed_out()
            {
                return inner.take().map(|event| Ok(Some(event))).unwrap_or(Err(()));
            }
        }
    }

    /// The next event if there is one.
    pub fn try_recv(&self) -> Option<SubscriptionEvent> {
        self.mailbox.inner.lock().take()
    }

    /// The same for asynchronous callers (with `std::future::poll_fn` or a `Stream`).
    pub fn poll_recv(&self, context: &mut Context<'_>) -> Poll<Option<SubscriptionEvent>> {
        let mut inner = self.mailbox.inner.lock();
        if let Some(event) = inner.take() {
            return Poll::Ready(Some(event));
        }
        if inner.ended {
            return Poll::Ready(None);
        }
        inner.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

impl std::fmt::Debug for Subscription {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let waiting = self.mailbox.inner.lock().events.len();
        f.debug_struct("Subscription")
            .field("waiting", &waiting)
            .finish()
    }
}
