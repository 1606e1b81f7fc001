//! Counts of one-shot queries, in lanes: threads that answer at the same time count in different
//! places, and whoever reads adds them up.

use super::QueryResults;
use crate::error::EngineError;
use crate::metrics::{Latency, Recorder};
use parking_lot::{Mutex, MutexGuard};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const LANES: usize = 8;

/// The lane of the next thread.
static NEXT: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static LANE: Cell<usize> = Cell::new(NEXT.fetch_add(1, Ordering::Relaxed) % LANES);
}

/// What one-shot queries came to.
pub(super) struct Lanes(Box<[Padded]>);

// A cache line of its own, and the one that is fetched along with it.
#[repr(align(128))]
struct Padded(Mutex<Lane>);

/// The counts of some threads.
pub(super) struct Lane {
    answered: u64,
    failed: u64,
    execution: Recorder,
}

impl Lane {
    fn new() -> Lane {
        Lane {
            answered: 0,
            failed: 0,
            execution: Recorder::new(),
        }
    }

    pub(super) fn answered(&mut self, execution: Duration) {
        self.answered += 1;
        self.execution.record(execution);
    }

    pub(super) fn failed(&mut self) {
        self.failed += 1;
    }

    pub(super) fn note(&mut self, result: &Result<QueryResults, EngineError>) {
        match result {
            Ok(results) => self.answered(results.execution),
            Err(_) => self.failed(),
        }
    }
}

impl Lanes {
    pub(super) fn new() -> Lanes {
        let lanes = std::iter::repeat_with(|| Padded(Mutex::new(Lane::new())));
        Lanes(lanes.take(LANES).collect())
    }

    /// The lane of this thread.
    pub(super) fn lane(&self) -> MutexGuard<'_, Lane> {
        // A thread that is ending has no lane of its own any more.
        self.0[LANE.try_with(Cell::get).unwrap_or(0)].0.lock()
    }

    /// All lanes together: answered, failed, execution times.
    pub(super) fn sum(&self) -> (u64, u64, Latency) {
        let mut all = Lane::new();
        for lane in &self.0 {
            let lane = lane.0.lock();
            all.answered += lane.answered;
            all.failed += lane.failed;
            all.execution.add(&lane.execution);
        }
        (all.answered, all.failed, all.execution.latency())
    }
}
