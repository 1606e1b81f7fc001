//! The number of one-shot queries that wait for the query pool or run there, and its limit. Light
//! queries need no place: each uses the thread of its caller, and only for a moment.

use std::sync::atomic::{AtomicU64, Ordering};

/// The places for one-shot queries.
pub(super) struct Places {
    limit: u64,
    taken: AtomicU64,
}

impl Places {
    pub(super) fn new(limit: u64) -> Places {
        Places {
            limit,
            taken: AtomicU64::new(0),
        }
    }

    /// Takes a place; returns `false` if none is left.
    pub(super) fn take(&self) -> bool {
        let order = Ordering::Relaxed;
        let one_more = |taken: u64| (taken < self.limit).then_some(taken + 1);
        self.taken.fetch_update(order, order, one_more).is_ok()
    }

    /// Frees a place.
    pub(super) fn give(&self) {
        self.taken.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_never_more_than_may_be() {
        let places = Places::new(2);
        let inside = AtomicU64::new(0);
        let most = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..5_000 {
                        if !places.take() {
                            std::thread::yield_now();
                            continue;
                        }
                        let now = inside.fetch_add(1, Ordering::SeqCst) + 1;
                        most.fetch_max(now, Ordering::SeqCst);
                        inside.fetch_sub(1, Ordering::SeqCst);
                        places.give();
                    }
                });
            }
        });
        assert!((1..=2).contains(&most.into_inner()));
        assert!(places.take() && places.take() && !places.take());
    }
}
