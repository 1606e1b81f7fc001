//! A query's share of the threads. Its firings are executed one at a time, and more at once only on
//! threads that all queries together may have for that ([`SharedSlots`]): so one that is slower
//! than its closes come does not take all there are, and the firings of others find a thread.
//!
//! Before changing anything here: the driver's thread enters firings, so nothing is done under the
//! lock but moving them.

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many more firings may be executed than one of each query.
pub(crate) struct SharedSlots(AtomicUsize);

impl SharedSlots {
    /// Of a pool with so many threads: fewer than half, so that as many again are there for other
    /// queries.
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

/// See the module.
pub(crate) struct FiringSlots<T> {
    /// Of ON OVERLOAD SKIP: one is executed, and of those that wait only the newest.
    skips: bool,
    firings: Mutex<Firings<T>>,
}

struct Firings<T> {
    /// How many are being executed.
    running: usize,
    waiting: VecDeque<T>,
}

/// What is to be done about a firing that has become due.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Admission<T> {
    /// Execute it, and call [`FiringSlots::leave`] then.
    Now(T),
    /// Nothing: the firing that leaves next is followed by it.
    Waits,
    /// It waits; this one, which did, is not executed any more.
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

    /// A firing has become due.
    pub(crate) fn enter(&self, due: T, spare: &SharedSlots) -> Admission<T> {
        let mut firings = self.firings.lock();
        let is_free = firings.running == 0;
        // Firings that wait go first.
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

    /// A firing has been executed: the one that is to be executed instead.
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
    fn one_query_has_one_thread_and_what_is_spare() {
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
        // What was spare is so again; who waits goes before who comes.
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
    fn who_skips_has_the_newest_wait() {
        let spare = SharedSlots::of_threads(8);
        let share = FiringSlots::new(true);
        assert_eq!(share.enter(1, &spare), Admission::Now(1));
        assert_eq!(share.enter(2, &spare), Admission::Waits);
        assert_eq!(share.enter(3, &spare), Admission::Skipped(2));
        assert_eq!(share.leave(&spare), Some(3));
        assert_eq!(share.leave(&spare), None);
    }
}
