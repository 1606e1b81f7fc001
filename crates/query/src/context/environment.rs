//! The environment that all executions of an engine share: the limits, the part of the memory that
//! each may take, the helping threads, the client that reaches other machines, and the time of
//! NOW().
//!
//! The one thing to know before changing it: an execution on its caller's thread holds no reference
//! count that all threads would contend for.

use super::execution::{Execution, Remote};
use somersault_model::{EventTime, Limits, QueryUid};
use somersault_pool::Workers;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

/// The share of all executions' memory for those on their callers' threads: one part in this many.
const IN_PLACE_PART: u64 = 8;

/// The environment that all executions of an engine share.
pub struct Environment {
    limits: Limits,
    shares: MemoryShares,
    workers: Arc<dyn Workers>,
    remote: Option<Arc<dyn Remote>>,
    clock: StableClock,
    /// Set when the engine ends; executions under way then stop.
    cancel: Arc<AtomicBool>,
}

/// The memory that one execution may take, in bytes.
#[derive(Clone, Copy)]
struct MemoryShares {
    pooled: u64,
    in_place: u64,
}

/// The time of the stable SN. It never goes back.
#[derive(Default)]
struct StableClock(AtomicI64);

impl Environment {
    /// Returns the environment of an engine whose pool runs up to `jobs_at_once` executions, with
    /// these helping threads.
    pub fn new(
        limits: Limits,
        jobs_at_once: usize,
        workers: Arc<dyn Workers>,
        remote: Option<Arc<dyn Remote>>,
    ) -> Environment {
        Environment {
            shares: MemoryShares::of(&limits, jobs_at_once),
            limits,
            workers,
            remote,
            clock: StableClock::default(),
            cancel: Arc::default(),
        }
    }

    /// Returns the limits of the engine.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Returns the memory limit of one execution on a thread of the pool, in bytes.
    pub fn memory_bytes(&self) -> u64 {
        self.shares.pooled
    }

    /// Returns the time of the stable SN.
    pub fn stable_time(&self) -> EventTime {
        self.clock.now()
    }

    /// Advances the time of the stable SN.
    pub fn advance(&self, to: EventTime) {
        self.clock.advance(to);
    }

    /// Stops all executions that are under way on threads of the pool.
    pub fn cancel(&self) {
        self.cancel.store(true, Ordering::Relaxed);
    }

    /// Returns the parameters of an execution on a thread of the pool.
    pub fn execution(&self, now: EventTime, query: QueryUid) -> Execution {
        let mut execution = self.execution_in_place(now, query);
        execution.limits.query_memory_bytes = self.shares.pooled;
        execution.cancel = Some(Arc::clone(&self.cancel));
        execution.workers = Some(Arc::clone(&self.workers));
        execution
    }

    /// Returns the parameters of an execution on its caller's thread. It has no helpers and cannot
    /// be cancelled, since its budget soon stops it.
    pub fn execution_in_place(&self, now: EventTime, query: QueryUid) -> Execution {
        let mut execution = Execution::new(self.limits.clone(), now);
        execution.limits.query_memory_bytes = self.shares.in_place;
        execution.query = query;
        execution.remote.clone_from(&self.remote);
        execution
    }
}

impl StableClock {
    fn now(&self) -> EventTime {
        EventTime(self.0.load(Ordering::Relaxed))
    }

    fn advance(&self, to: EventTime) {
        self.0.fetch_max(to.0, Ordering::Relaxed);
    }
}

impl MemoryShares {
    /// Divides the memory so that all executions that can run at once stay within the limit on all
    /// of them together.
    fn of(limits: &Limits, jobs_at_once: usize) -> MemoryShares {
        let in_place = limits.total_query_memory_bytes / IN_PLACE_PART;
        // Each thread of the pool runs one execution, and the sequencer runs an update.
        let at_once = jobs_at_once as u64 + 1;
        let pooled = (limits.total_query_memory_bytes - in_place) / at_once;
        // There may be as many executions in place as there may be one-shot queries.
        let in_place = in_place / limits.concurrent_queries.max(1);
        MemoryShares {
            pooled: pooled.min(limits.query_memory_bytes),
            in_place: in_place.min(limits.query_memory_bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_executions_at_once_stay_within_the_limit() {
        let limits = Limits {
            query_memory_bytes: 1 << 30,
            total_query_memory_bytes: 1 << 30,
            concurrent_queries: 64,
            ..Limits::default()
        };
        let shares = MemoryShares::of(&limits, 6);
        assert!(shares.pooled * 7 + shares.in_place * 64 <= limits.total_query_memory_bytes);
        let small = Limits {
            query_memory_bytes: 1000,
            ..limits
        };
        let shares = MemoryShares::of(&small, 6);
        assert_eq!([shares.pooled, shares.in_place], [1000, 1000]);
    }

    #[test]
    fn the_time_of_the_stable_sn_never_goes_back() {
        let clock = StableClock::default();
        clock.advance(EventTime(5));
        clock.advance(EventTime(3));
        assert_eq!(clock.now(), EventTime(5));
    }
}
