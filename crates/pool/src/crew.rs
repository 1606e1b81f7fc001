//! The query's view of the pool: threads that take shares of its work.

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
