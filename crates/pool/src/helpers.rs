//! The query's view of the pool: threads that take shares of its work, or the caller's thread in
//! their stead.

use std::sync::atomic::{AtomicU64, Ordering};

/// Threads that take shares of a heavy query, such as the query pool. Without them a query runs on
/// its caller's thread alone.
pub trait Workers: Send + Sync {
    /// The number of threads that may work on one query, the caller's among them; at least 1.
    fn limit(&self) -> usize;

    /// Announces that there may be work to share soon, so that free threads wake up.
    fn wake(&self) {}

    /// Whether other work waits for a helping thread. A thread checks it between the parts of a
    /// share, and then ends the share.
    fn is_needed_elsewhere(&self) -> bool {
        false
    }

    /// Calls `work` once with each number below `shares`, on the calling thread and on those that
    /// are free, and returns when all calls have. A panic of a share is passed on.
    fn for_each_share(&self, shares: usize, work: &(dyn Fn(usize) + Sync));
}

/// The helpers of a pool without threads: the calling thread does all shares, one after the other,
/// in an order that follows from a seed.
pub(crate) struct InlineWorkers {
    limit: usize,
    /// Decides the next order.
    next: AtomicU64,
}

impl InlineWorkers {
    /// Stands for `limit` threads.
    pub(crate) fn new(limit: usize, seed: u64) -> InlineWorkers {
        InlineWorkers {
            limit,
            next: AtomicU64::new(seed),
        }
    }
}

impl Workers for InlineWorkers {
    fn limit(&self) -> usize {
        self.limit
    }

    fn for_each_share(&self, shares: usize, work: &(dyn Fn(usize) + Sync)) {
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
