//! The shared state that each one-shot query writes to, in stripes: threads that answer at the same
//! time count in different stripes, and a reader adds them up. Each stripe also has its own
//! reference counts for the objects that queries hold.

use super::QueryResults;
use crate::error::EngineError;
use parking_lot::{Mutex, MutexGuard};
use somersault_continuous::{Latency, Recorder};
use somersault_model::EventTime;
use somersault_query::Dataset;
use somersault_store::{Store, StoreHold};
use std::cell::Cell;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

pub(super) const STRIPES: usize = 8;

/// The stripe of the next thread.
static NEXT: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static STRIPE: Cell<usize> = Cell::new(NEXT.fetch_add(1, Ordering::Relaxed) % STRIPES);
}

/// The counts and shared objects of one-shot queries.
pub(super) struct StripedCounters {
    stripes: Box<[Padded]>,
    /// The dataset of a query without a dataset clause, once for each stripe.
    stored: Box<[Arc<Dataset>]>,
    /// A hold on the store for each stripe.
    stores: Box<[Arc<StoreHold>]>,
    /// The first key of this start, anywhere among 64 bits: the next start, and another engine,
    /// draw other identifiers.
    first_key: u64,
}

// Its own cache line, and the one that is fetched along with it.
#[repr(align(128))]
struct Padded(Mutex<Stripe>);

/// The counts of several threads.
pub(super) struct Stripe {
    /// Executions that have a key.
    numbered: u64,
    answered: u64,
    failed: u64,
    execution: Recorder,
}

impl Stripe {
    fn new() -> Stripe {
        Stripe {
            numbered: 0,
            answered: 0,
            failed: 0,
            // One slow execution, by a thread that was preempted, allocates nothing either.
            execution: Recorder::with_all_room(),
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

impl StripedCounters {
    /// The counters of all threads. With a seed, which a process without threads has, there is one
    /// stripe, and its keys follow from the seed.
    pub(super) fn new(store: &Arc<Store>, seed: Option<u64>) -> StripedCounters {
        let count = seed.map_or(STRIPES, |_| 1);
        let stripes = std::iter::repeat_with(|| Padded(Mutex::new(Stripe::new())));
        let stored = std::iter::repeat_with(|| Arc::new(Dataset::stored()));
        let stores = std::iter::repeat_with(|| StoreHold::new(store));
        StripedCounters {
            stripes: stripes.take(count).collect(),
            stored: stored.take(count).collect(),
            stores: stores.take(count).collect(),
            first_key: seed.unwrap_or_else(|| RandomState::new().hash_one(STRIPES)),
        }
    }

    /// Returns the number of this thread's stripe.
    fn own(&self) -> usize {
        own() % self.stripes.len()
    }

    /// Returns the stripe of this thread.
    pub(super) fn stripe(&self) -> MutexGuard<'_, Stripe> {
        self.stripes[self.own()].0.lock()
    }

    /// Returns the key of the random functions of one execution; no other execution gets it. UUID()
    /// promises a new IRI each time, and no log replays a one-shot query, so the key need not be
    /// reproducible.
    pub(super) fn key(&self) -> EventTime {
        let own = self.own();
        let mut stripe = self.stripes[own].0.lock();
        stripe.numbered += 1;
        let number = stripe.numbered * STRIPES as u64 + own as u64;
        EventTime(self.first_key.wrapping_add(number) as i64)
    }

    /// Returns the dataset of a query without a dataset clause.
    pub(super) fn stored(&self) -> &Arc<Dataset> {
        &self.stored[self.own()]
    }

    /// Returns the hold on the store that the threads of this stripe share.
    pub(super) fn store(&self) -> &Arc<StoreHold> {
        &self.stores[self.own()]
    }

    /// Returns the sum of all stripes: answered, failed, execution times.
    pub(super) fn sum(&self) -> (u64, u64, Latency) {
        let mut all = Stripe::new();
        for stripe in &self.stripes {
            let stripe = stripe.0.lock();
            all.answered += stripe.answered;
            all.failed += stripe.failed;
            all.execution.add(&stripe.execution);
        }
        (all.answered, all.failed, all.execution.latency())
    }
}

/// Returns the number of this thread's stripe.
pub(super) fn own() -> usize {
    // A thread that is ending no longer has its own stripe.
    STRIPE.try_with(Cell::get).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_once() {
        let store = Store::new(1);
        let counters = StripedCounters::new(&store, None);
        let first = counters.key();
        for bit in 0..u64::BITS - STRIPES.trailing_zeros() {
            counters.stripe().numbered = 1 << bit;
            assert_ne!(counters.key(), first, "after 2^{bit} executions");
        }
        assert_ne!(
            StripedCounters::new(&store, None).key(),
            StripedCounters::new(&store, None).key()
        );
    }
}
