//! The firings that wait for one subscriber. A subscriber that is too slow is told how many firings
//! it lost; nothing is skipped silently.

use super::backlog::Backlog;
use super::evicted::Evicted;
use super::firing_id::FiringId;
use super::firing_result::FiringResult;
use super::options::{SubscribeOptions, WhenSlow};
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

/// The events that a [`Subscription`](crate::Subscription) delivers.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum SubscriptionEvent {
    /// The next firing.
    Firing(Arc<FiringResult>),
    /// Firings that this subscriber will not see: they were no longer kept, or it read too slowly.
    Lagged {
        /// Their number; `None` if they had left before it subscribed.
        missed: Option<u64>,
    },
    /// It read too slowly, and its subscription ends here ([`WhenSlow::End`]).
    Slow {
        /// The number of firings up to now that it will not see.
        missed: u64,
    },
}

/// The waiting firings of one subscriber.
pub(crate) struct Mailbox {
    /// Firings up to `after` are not wanted; recovery may answer some of them again.
    options: SubscribeOptions,
    capacity: usize,
    inner: Mutex<Queue>,
    arrived: Condvar,
}

#[derive(Default)]
struct Queue {
    firings: VecDeque<Arc<FiringResult>>,
    /// Their memory in bytes, where there is a backlog.
    bytes: u64,
    /// Whether it must still be told that firings had left before it subscribed.
    gone: bool,
    /// Firings dropped since the last one that was read.
    missed: u64,
    /// Whether it ended because too many firings waited.
    is_slow: bool,
    ended: bool,
    waker: Option<Waker>,
    /// The last seen firing, of which only the close is known, has been passed: later amendments
    /// are new.
    passed: bool,
}

impl Mailbox {
    /// Returns the mailbox of a subscriber that can no longer receive the firings in `gone`; it is
    /// told if it misses one.
    pub(crate) fn new(options: &SubscribeOptions, capacity: usize, gone: Evicted) -> Mailbox {
        let seen = options.after.map(|after| after.close);
        let waiting = Queue {
            passed: (gone.last_close()).is_some_and(|gone| Some(gone) >= seen),
            gone: gone.is_missed(options),
            ..Queue::default()
        };
        Mailbox {
            options: options.clone(),
            capacity,
            inner: Mutex::new(waiting),
            arrived: Condvar::new(),
        }
    }

    /// Makes the subscriber learn first that it has missed some firings.
    pub(crate) fn with_gap(mut self) -> Mailbox {
        self.inner.get_mut().gone = true;
        self
    }

    /// Whether to deliver a firing; called once for each, in their order.
    pub(crate) fn wants(&self, id: FiringId, is_empty: bool) -> bool {
        self.is_new(id) && (self.options.empties || !is_empty)
    }

    /// Whether the subscriber has not seen a firing; firings come here in their order.
    fn is_new(&self, id: FiringId) -> bool {
        let Some(after) = self.options.after else {
            return true;
        };
        let is_amended = id.revision > 0;
        let mut inner = self.inner.lock();
        inner.passed |= !is_amended && id.close >= after.close;
        match after.sn {
            None if is_amended => inner.passed,
            _ => self.options.has_not_seen(id),
        }
    }

    pub(crate) fn put(&self, firing: Arc<FiringResult>) {
        let mut inner = self.inner.lock();
        if inner.is_slow {
            // Firings are counted here only until it has been told.
            inner.missed += u64::from(inner.missed > 0);
            return;
        }
        if let Some(backlog) = &self.options.backlog {
            inner.bytes += backlog.hold(&firing);
        }
        inner.firings.push_back(firing);
        while self.is_too_much(&inner) {
            self.give_up(&mut inner);
        }
        self.wake(&mut inner);
    }

    fn is_too_much(&self, inner: &Queue) -> bool {
        let firings = inner.firings.len();
        let too_large = |backlog: &Backlog| backlog.is_too_much(firings, inner.bytes);
        firings > self.capacity || self.options.backlog.as_ref().is_some_and(too_large)
    }

    /// Drops the oldest waiting firing, or all of them and the subscription.
    fn give_up(&self, inner: &mut Queue) {
        if inner.missed == 0
            && let Some(backlog) = &self.options.backlog
        {
            backlog.note_slow();
        }
        let count = match self.options.when_slow {
            WhenSlow::SkipOldest => 1,
            WhenSlow::End => inner.firings.len(),
        };
        for _ in 0..count {
            inner.missed += u64::from(self.pop(inner).is_some());
        }
        if self.options.when_slow == WhenSlow::End {
            inner.firings = VecDeque::new();
            inner.is_slow = true;
            inner.ended = true;
        }
    }

    fn pop(&self, inner: &mut Queue) -> Option<Arc<FiringResult>> {
        let firing = inner.firings.pop_front()?;
        if let Some(backlog) = &self.options.backlog {
            let bytes = backlog.release(&firing);
            inner.bytes -= bytes;
        }
        Some(firing)
    }

    /// Returns the next event.
    fn take(&self, inner: &mut Queue) -> Option<SubscriptionEvent> {
        if std::mem::take(&mut inner.gone) {
            return Some(SubscriptionEvent::Lagged { missed: None });
        }
        if inner.missed > 0 {
            let missed = std::mem::take(&mut inner.missed);
            return Some(match inner.is_slow {
                true => SubscriptionEvent::Slow { missed },
                false => SubscriptionEvent::Lagged {
                    missed: Some(missed),
                },
            });
        }
        self.pop(inner).map(SubscriptionEvent::Firing)
    }

    /// Waits for the next event; `None` when there will be no more.
    pub(super) fn recv(&self) -> Option<SubscriptionEvent> {
        let mut inner = self.inner.lock();
        loop {
            if let Some(event) = self.take(&mut inner) {
                return Some(event);
            }
            if inner.ended {
                return None;
            }
            self.arrived.wait(&mut inner);
        }
    }

    /// Waits for the next event until this time; `None` when time is up, and `Some(None)` when
    /// there will be no more.
    pub(super) fn recv_until(&self, until: Instant) -> Option<Option<SubscriptionEvent>> {
        let mut inner = self.inner.lock();
        loop {
            if let Some(event) = self.take(&mut inner) {
                return Some(Some(event));
            }
            if inner.ended {
                return Some(None);
            }
            if self.arrived.wait_until(&mut inner, until).timed_out() {
                return self.take(&mut inner).map(Some);
            }
        }
    }

    pub(super) fn try_recv(&self) -> Option<SubscriptionEvent> {
        self.take(&mut self.inner.lock())
    }

    pub(super) fn poll_recv(&self, context: &mut Context<'_>) -> Poll<Option<SubscriptionEvent>> {
        let mut inner = self.inner.lock();
        if let Some(event) = self.take(&mut inner) {
            return Poll::Ready(Some(event));
        }
        if inner.ended {
            return Poll::Ready(None);
        }
        inner.waker = Some(context.waker().clone());
        Poll::Pending
    }

    /// Returns the number of waiting firings.
    pub(super) fn waiting(&self) -> usize {
        self.inner.lock().firings.len()
    }

    pub(crate) fn end(&self) {
        let mut inner = self.inner.lock();
        inner.ended = true;
        self.wake(&mut inner);
    }

    fn wake(&self, inner: &mut Queue) {
        if let Some(waker) = inner.waker.take() {
            waker.wake();
        }
        self.arrived.notify_all();
    }
}

impl Drop for Mailbox {
    fn drop(&mut self) {
        if let Some(backlog) = &self.options.backlog {
            let inner = self.inner.get_mut();
            for firing in inner.firings.drain(..) {
                backlog.release(&firing);
            }
        }
    }
}
