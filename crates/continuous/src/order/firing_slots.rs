//! A query's share of the threads. A query's firings are executed one at a time; more run at once
//! only on spare threads that all queries share ([`SharedSlots`]). So a query that is slower than
//! its closes does not take all threads, and the firings of others find one.
//!
//! Before changing anything here: the driver's thread enters firings, so nothing is done under the
//! lock but moving them.

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The number of further firings that may be executed beyond one of each query.
pub(crate) struct SharedSlots(AtomicUsize);

impl SharedSlots {
    /// Slots for a pool of this size: fewer than half of the threads, so that as many again are
    /// left for other queries.
    pub(crate) fn of_threads(threads: usize) -> SharedSlots {
        SharedSlots(AtomicUsize::new(threads.saturating_sub(1) / 2))
    }

    fn take(&self) -> bool {
        let less = |left: usize| left.checked_sub(1);
        (self.0)
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less)
            .is_ok()
    }

    fn give_back(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// The firings of one query that are executed or wait.
pub(crate) struct FiringSlots<T> {
    /// ON OVERLOAD SKIP: one firing is executed, and only the newest waits.
    skips: bool,
    firings: Mutex<Firings<T>>,
}

struct Firings<T> {
    /// The number of firings that are being executed.
    running: usize,
    waiting: VecDeque<T>,
}

/// The action for a firing that has become due.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Admission<T> {
    /// Execute it, then call [`FiringSlots::leave`].
    Now(T),
    /// Nothing: [`FiringSlots::leave`] returns it when its turn comes.
    Waits,
    /// It waits; this one, which waited before, is not executed any more.
    Skipped(T),
}

impl<T> FiringSlots<T> {
    pub(crate) fn new(skips: bool) -> FiringSlots<T> {
        FiringSlots {
            skips,
            firings: Mutex::new(Firings {
                running: 0,
                waiting: VecDeque::new(),
            }),
        }
    }

    /// Admits a firing that has become due.
    pub(crate) fn enter(&self, due: T, spare: &SharedSlots) -> Admission<T> {
        let mut firings = self.firings.lock();
        let is_free = firings.running == 0;
        // Waiting firings go first.
        let may_more = !is_free && !self.skips && firings.waiting.is_empty();
        if is_free || (may_more && spare.take()) {
            firings.running += 1;
            return Admission::Now(due);
        }
        let skipped = match self.skips {
            true => firings.waiting.pop_back(),
            false => None,
        };
        firings.waiting.push_back(due);
        skipped.map_or(Admission::Waits, Admission::Skipped)
    }

    /// Ends a firing that has been executed; returns the one to execute in its place.
    pub(crate) fn leave(&self, spare: &SharedSlots) -> Option<T> {
        let mut firings = self.firings.lock();
        let next = firings.waiting.pop_front();
        if next.is_none() {
            firings.running -= 1;
            if firings.running > 0 {
                spare.give_back();
            }
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_query_has_one_thread_and_the_spare_ones() {
        let spare = SharedSlots::of_threads(4);
        let [slow, other] = [FiringSlots::new(false), FiringSlots::new(false)];
        assert_eq!(slow.enter(1, &spare), Admission::Now(1));
        assert_eq!(slow.enter(2, &spare), Admission::Now(2), "one is spare");
        assert_eq!(slow.enter(3, &spare), Admission::Waits);
        assert_eq!(slow.enter(4, &spare), Admission::Waits);
        assert_eq!(other.enter(1, &spare), Admission::Now(1));
        assert_eq!(other.enter(2, &spare), Admission::Waits);
        assert_eq!(slow.leave(&spare), Some(3));
        assert_eq!(slow.leave(&spare), Some(4));
        assert_eq!(slow.leave(&spare), None);
        // The spare slot is free again; a waiting firing goes before a new one.
        assert_eq!(other.enter(3, &spare), Admission::Waits);
        assert_eq!(other.leave(&spare), Some(2));
        assert_eq!(other.leave(&spare), Some(3));
        assert_eq!(other.enter(4, &spare), Admission::Now(4));
        assert_eq!(slow.leave(&spare), None);
        assert_eq!(slow.enter(5, &spare), Admission::Now(5));
        assert_eq!(slow.enter(6, &spare), Admission::Waits);
    }

    #[test]
    fn on_two_threads_none_is_spare() {
        let spare = SharedSlots::of_threads(2);
        let share = FiringSlots::new(false);
        assert_eq!(share.enter(1, &spare), Admission::Now(1));
        assert_eq!(share.enter(2, &spare), Admission::Waits);
    }

    #[test]
    fn on_overload_skip_queues_only_the_newest() {
        let spare = SharedSlots::of_threads(8);
        let share = FiringSlots::new(true);
        assert_eq!(share.enter(1, &spare), Admission::Now(1));
        assert_eq!(share.enter(2, &spare), Admission::Waits);
        assert_eq!(share.enter(3, &spare), Admission::Skipped(2));
        assert_eq!(share.leave(&spare), Some(3));
        assert_eq!(share.leave(&spare), None);
    }
}
