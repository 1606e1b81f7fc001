//! The number of one-shot queries that wait for the query pool or run there, and its limit. Light
//! queries need no permit: each uses the thread of its caller, and only for a moment.

use std::sync::atomic::{AtomicU64, Ordering};

/// The permits of one-shot queries.
pub(super) struct Permits {
    limit: u64,
    held: AtomicU64,
}

impl Permits {
    pub(super) fn new(limit: u64) -> Permits {
        Permits {
            limit,
            held: AtomicU64::new(0),
        }
    }

    /// Takes a permit; returns `false` if none is left.
    pub(super) fn acquire(&self) -> bool {
        let order = Ordering::Relaxed;
        let one_more = |held: u64| (held < self.limit).then_some(held + 1);
        self.held.fetch_update(order, order, one_more).is_ok()
    }

    /// Returns a permit.
    pub(super) fn release(&self) {
        self.held.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_never_more_than_may_be() {
        let permits = Permits::new(2);
        let inside = AtomicU64::new(0);
        let most = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..5_000 {
                        if !permits.acquire() {
                            std::thread::yield_now();
                            continue;
                        }
                        let now = inside.fetch_add(1, Ordering::SeqCst) + 1;
                        most.fetch_max(now, Ordering::SeqCst);
                        inside.fetch_sub(1, Ordering::SeqCst);
                        permits.release();
                    }
                });
            }
        });
        assert!((1..=2).contains(&most.into_inner()));
        assert!(permits.acquire() && permits.acquire() && !permits.acquire());
    }
}
