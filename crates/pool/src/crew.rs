//! The query's view of the pool: threads that take shares of its work, or the caller's thread in
//! their stead.

use std::sync::atomic::{AtomicU64, Ordering};

/// Threads that take shares of a heavy query, such as the query pool. Without them a query runs on
/// its caller's thread alone.
pub trait Crew: Send + Sync {
    /// The number of threads that may work on one query, the caller's among them; at least 1.
    fn hands(&self) -> usize;

    /// Announces that there may be work to share soon, so that free threads wake up.
    fn ready(&self) {}

    /// Whether other work waits for a helping thread. A thread checks it between the parts of a
    /// share, and then ends the share.
    fn is_awaited(&self) -> bool {
        false
    }

    /// Calls `work` once with each number below `shares`, on the calling thread and on those that
    /// are free, and returns when all calls have. A panic of a share is passed on.
    fn share(&self, shares: usize, work: &(dyn Fn(usize) + Sync));
}

/// The helpers of a pool without threads: the calling thread does all shares, one after the other,
/// in an order that follows from a seed.
pub(crate) struct InlineCrew {
    hands: usize,
    /// Decides the next order.
    next: AtomicU64,
}

impl InlineCrew {
    /// Stands for `hands` threads.
    pub(crate) fn new(hands: usize, seed: u64) -> InlineCrew {
        InlineCrew {
            hands,
            next: AtomicU64::new(seed),
        }
    }
}

impl Crew for InlineCrew {
    fn hands(&self) -> usize {
        self.hands
    }

    fn share(&self, shares: usize, work: &(dyn Fn(usize) + Sync)) {
        // An odd factor, so that all bits of the seed reach the upper ones.
        let before = self.next.fetch_add(1, Ordering::Relaxed);
        let drawn = (before.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as usize;
        let first = drawn.checked_rem(shares).unwrap_or(0);
        let order = (first..shares).chain(0..first);
        match before.is_multiple_of(2) {
            true => order.for_each(work),
            false => order.rev().for_each(work),
        }
    }
}
