//! Puts items that finish in any order back into the order of their tickets, for one thread at a
//! time.
//!
//! Before changing anything here: the driver's thread takes tickets, so it must never wait for the
//! thread that drains. The thread that leaves the item whose turn it is drains it, and all items
//! whose turn comes meanwhile, one after the other and without holding the lock under which items
//! are left. Other threads only leave theirs.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// Items that wait for their turn.
pub(crate) struct Resequencer<T> {
    tickets: AtomicU64,
    waiting: Mutex<Unordered<T>>,
}

struct Unordered<T> {
    next: u64,
    /// By ticket.
    left: BTreeMap<u64, T>,
    /// A thread is draining.
    is_draining: bool,
}

impl<T> Resequencer<T> {
    pub(crate) fn new() -> Resequencer<T> {
        Resequencer {
            tickets: AtomicU64::new(0),
            waiting: Mutex::new(Unordered {
                next: 0,
                left: BTreeMap::new(),
                is_draining: false,
            }),
        }
    }

    /// Returns the next position in the order. Only one thread takes tickets.
    pub(crate) fn ticket(&self) -> u64 {
        self.tickets.fetch_add(1, Ordering::Relaxed)
    }

    /// Leaves the item of this ticket. Returns whether the caller must drain: call
    /// [`Resequencer::next`] until it returns `None`.
    #[must_use]
    pub(crate) fn leave(&self, ticket: u64, left: T) -> bool {
        let mut waiting = self.waiting.lock();
        waiting.left.insert(ticket, left);
        if waiting.is_draining || !waiting.left.contains_key(&waiting.next) {
            return false;
        }
        waiting.is_draining = true;
        true
    }

    /// Returns the item whose turn it is.
    pub(crate) fn next(&self) -> Option<T> {
        let mut waiting = self.waiting.lock();
        let next = waiting.next;
        match waiting.left.remove(&next) {
            Some(left) => {
                waiting.next += 1;
                Some(left)
            }
            None => {
                waiting.is_draining = false;
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thread_drains_the_items_of_all() {
        let order = Resequencer::new();
        let tickets: Vec<u64> = (0..3).map(|_| order.ticket()).collect();
        assert!(!order.leave(tickets[1], "b"), "the one before has none");
        assert!(order.leave(tickets[0], "a"));
        assert_eq!(order.next(), Some("a"));
        assert_eq!(order.ticket(), 3);
        assert!(!order.leave(tickets[2], "c"), "it is taken on already");
        assert_eq!(order.next(), Some("b"));
        assert_eq!(order.next(), Some("c"));
        assert_eq!(order.next(), None);
        assert!(order.leave(3, "d"), "nobody takes on any more");
    }
}
