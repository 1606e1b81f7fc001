//! What a query sees of the pool: threads that take shares of its work.

/// Threads that take shares of a heavy query. The pool of the runtime is one; without any, a query
/// runs on its caller's thread alone.
pub trait Crew: Send + Sync {
    /// How many threads may work on one query, the caller's among them; at least 1.
    fn hands(&self) -> usize;

    /// Says that there may be something to share soon, so that whoever is free is awake by then.
    fn ready(&self) {}

    /// Whether somebody waits for a thread that could be helping. Looked at between the parts of a
    /// share, which then ends.
    fn is_awaited(&self) -> bool {
        false
    }

    /// Calls `work` once with each number below `shares`, on the calling thread and on those that
    /// are free, and returns when all calls have. A panic of a share is passed on.
    fn share(&self, shares: usize, work: &(dyn Fn(usize) + Sync));
}
