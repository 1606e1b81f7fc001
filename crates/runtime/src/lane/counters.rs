//! LaneCounters of transactions, which callers read without waiting for the lane.
//!
//! Before changing anything here: they count what this process has run, and begin with zero at each
//! start. What the log says is not counted again.

use super::Declared;
use super::listing::StoppedDataflow;
use super::waiting::WaitingRoom;
use parking_lot::Mutex;
use somersault_query::AbortCause;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// LaneCounters of transactions since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TransactionCounts {
    /// Transactions that committed: calls, and rounds of batches.
    pub commits: u64,
    /// Transactions that a step ABORT ended.
    pub aborts_stated: u64,
    /// Transactions that a limit of time or memory ended.
    pub aborts_limit: u64,
    /// Transactions that ended because a step could not be carried out.
    pub aborts_error: u64,
    /// Transactions that batches led to; of a nest one for each round.
    pub rounds: u64,
    /// Calls that were answered, also with an abort.
    pub calls: u64,
    /// Calls among them that were answered as before, because of their key.
    pub repeated_calls: u64,
    /// Calls that were refused.
    pub refused_calls: u64,
    /// Complete batches that wait for a procedure: those of a moment that may be some time ago if
    /// a transaction takes long.
    pub waiting_batches: u64,
}

/// The counters, as the lane keeps them.
#[derive(Debug, Default)]
pub(crate) struct LaneCounters {
    commits: AtomicU64,
    aborts_stated: AtomicU64,
    aborts_limit: AtomicU64,
    aborts_error: AtomicU64,
    rounds: AtomicU64,
    calls: AtomicU64,
    repeated_calls: AtomicU64,
    refused_calls: AtomicU64,
    waiting_batches: AtomicU64,
    stopped: Mutex<Vec<StoppedDataflow>>,
    absent: Mutex<Vec<String>>,
    room: Arc<WaitingRoom>,
}

impl LaneCounters {
    /// A round has ended; `None` if it committed.
    pub(super) fn count_round(&self, abort: Option<AbortCause>) {
        self.rounds.fetch_add(1, Relaxed);
        self.count_end(abort);
    }

    /// A call has run; `None` if it committed.
    pub(super) fn count_call(&self, abort: Option<AbortCause>) {
        self.calls.fetch_add(1, Relaxed);
        self.count_end(abort);
    }

    /// A call was answered as before.
    pub(super) fn count_repeat(&self) {
        self.calls.fetch_add(1, Relaxed);
        self.repeated_calls.fetch_add(1, Relaxed);
    }

    /// A call was refused.
    pub(super) fn count_refusal(&self) {
        self.refused_calls.fetch_add(1, Relaxed);
    }

    fn count_end(&self, abort: Option<AbortCause>) {
        let counter = match abort {
            None => &self.commits,
            Some(AbortCause::Stated) => &self.aborts_stated,
            Some(AbortCause::Limit) => &self.aborts_limit,
            Some(AbortCause::Error | AbortCause::Interrupted) => &self.aborts_error,
        };
        counter.fetch_add(1, Relaxed);
    }

    /// Notes what waits.
    pub(crate) fn note_waiting(&self, declared: &Declared) {
        let waiting = declared.core().waiting_batches();
        self.waiting_batches.store(waiting, Relaxed);
    }

    /// Notes which dataflows are stopped.
    pub(super) fn note_stopped(&self, declared: &Declared) {
        *self.stopped.lock() = declared.stopped();
    }

    /// The dataflows that aborts have stopped, by name.
    pub(crate) fn stopped(&self) -> Vec<StoppedDataflow> {
        self.stopped.lock().clone()
    }

    /// Where calls wait that are handed in.
    pub(crate) fn room(&self) -> &Arc<WaitingRoom> {
        &self.room
    }

    /// Notes which native procedures have no body.
    pub(super) fn note_absent(&self, declared: &Declared) {
        *self.absent.lock() = declared.absent_names();
    }

    /// The native procedures whose body no program has registered, by name.
    pub(crate) fn absent(&self) -> Vec<String> {
        self.absent.lock().clone()
    }

    /// The counts.
    pub(crate) fn read(&self) -> TransactionCounts {
        let read = |counter: &AtomicU64| counter.load(Relaxed);
        TransactionCounts {
            commits: read(&self.commits),
            aborts_stated: read(&self.aborts_stated),
            aborts_limit: read(&self.aborts_limit),
            aborts_error: read(&self.aborts_error),
            rounds: read(&self.rounds),
            calls: read(&self.calls),
            repeated_calls: read(&self.repeated_calls),
            refused_calls: read(&self.refused_calls),
            waiting_batches: read(&self.waiting_batches),
        }
    }
}
