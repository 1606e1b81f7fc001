//! What the driver needs from above: a host, which keeps the continuous queries and executes their
//! firings.

use crate::due_windows::{DueWindows, window_version};
use crate::error::RuntimeError;
use crossbeam_channel::Sender;
use oxrdf::Quad;
use somersault_model::Sn;
use somersault_store::{Snapshot, Store, WindowVersion};
use somersault_stream::{Firing, FiringKey, QueryEvent};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A firing whose snapshot is stable and pinned.
pub struct FiringJob {
    /// What to execute.
    pub firing: Firing,
    /// The stored graph that it reads.
    pub snapshot: DueSnapshot,
    /// The windows of all firings of its SN that were made before it was stable.
    pub(crate) made: Option<Arc<DueWindows>>,
    /// When the last record that the firing needed was acknowledged; `None` during recovery.
    pub acknowledged: Option<Instant>,
    /// When its snapshot became stable: from here on it waits only behind other queries.
    pub released: Instant,
}

impl FiringJob {
    /// The windows that the firing reads, in the order of its query's. Those that were made before
    /// are handed over; the others, of amended firings and of windows of a number of statements,
    /// are made now. The job keeps what was made before: hold it until the answer is there.
    pub fn windows(&self, store: &Store) -> Vec<Arc<WindowVersion>> {
        let windows = self.firing.windows.iter().map(|window| {
            let made = self.made.as_ref().and_then(|made| made.version(window));
            made.unwrap_or_else(|| window_version(store, window, self.firing.sn))
        });
        windows.collect()
    }
}

/// What a firing reads that waits to be executed: pinned for as long as that takes; dropping it
/// unpins.
pub struct DueSnapshot {
    snapshot: Snapshot,
    clock: PinClock,
}

impl DueSnapshot {
    pub(crate) fn new(snapshot: Snapshot, clock: PinClock) -> DueSnapshot {
        DueSnapshot { snapshot, clock }
    }

    /// Starts the deadline of the pin: it is read from now on, for as long as a firing may (S9).
    pub fn begin(self) -> Snapshot {
        self.snapshot.until(self.clock.deadline_ms())
    }
}

/// The clock by which pins expire: it only goes on.
#[derive(Clone, Copy)]
pub(crate) struct PinClock {
    /// When it was 0.
    pub(crate) started: Instant,
    /// For how long a firing may read.
    pub(crate) time: Duration,
}

impl PinClock {
    pub(crate) fn ms_at(self, at: Instant) -> i64 {
        let since = at.saturating_duration_since(self.started).as_millis();
        i64::try_from(since).unwrap_or(i64::MAX)
    }

    pub(crate) fn now_ms(self) -> i64 {
        self.ms_at(Instant::now())
    }

    /// When the pin of a firing expires that is executed from now on.
    fn deadline_ms(self) -> i64 {
        let time = i64::try_from(self.time.as_millis()).unwrap_or(i64::MAX);
        self.now_ms().saturating_add(time)
    }
}

/// Acknowledges firings to the driver.
#[derive(Clone)]
pub struct Answered(pub(crate) Sender<Fired>);

/// A firing that has been answered.
#[derive(Debug)]
pub(crate) struct Fired {
    pub(crate) key: FiringKey,
    /// Of a query that derives a stream: what it has for it.
    pub(crate) derived: Option<Derives>,
}

/// What a firing has for the stream that its query derives.
#[derive(Debug)]
pub enum Derives {
    /// These statements; an amended firing has them in the place of those of its close so far.
    Statements(Vec<Quad>),
    /// It amends a close and has failed: what there is of its close stays.
    Unchanged,
}

impl Answered {
    /// This firing has its answer, as have those of its query that became due before it.
    pub fn tell(&self, key: FiringKey) {
        self.send(Fired { key, derived: None });
    }

    /// The same of a firing whose query derives a stream.
    pub fn tell_derived(&self, key: FiringKey, derives: Derives) {
        let derived = Some(derives);
        self.send(Fired { key, derived });
    }

    fn send(&self, fired: Fired) {
        // The sequencer may have stopped.
        let _ = self.0.send(fired);
    }
}

/// Told by the driver's thread, in order; it must return quickly and hand execution to the pool.
///
/// Each [`Host::fire`] is followed, when its answer is ready and those of the query's earlier
/// firings are, by one call of [`Answered::tell`] or [`Answered::tell_derived`].
pub trait Host: Send + Sync + 'static {
    /// Called once, before anything else.
    fn attach(&self, answered: Answered);

    /// Something happened to registered queries, in recovery too. The registry of the driver
    /// already shows it, and shows nothing later: it stays locked meanwhile, so the host must not
    /// ask the driver.
    fn on_query(&self, event: QueryEvent);

    /// Execute this. Firings of one query come in close order.
    fn fire(self: Arc<Self>, job: FiringJob);

    /// A new snapshot number is stable; `now_ms` is the time of its newest record.
    fn stable(&self, sn: Sn, now_ms: i64);

    /// Nothing becomes stable any more.
    fn failed(&self, error: &RuntimeError);
}

#[cfg(test)]
mod tests {
    use super::*;
    use somersault_store::Store;

    #[test]
    fn a_firings_time_begins_with_its_execution() {
        let store = Store::new(1);
        let clock = PinClock {
            started: Instant::now(),
            time: Duration::from_secs(3600),
        };
        let due = DueSnapshot::new(store.pin_stable(), clock);
        assert_eq!(
            store.snapshots().expire(i64::MAX - 1),
            0,
            "however long it waits"
        );
        let snapshot = due.begin();
        assert_eq!(store.snapshots().expire(3_599_999), 0);
        assert!(snapshot.is_valid());
        assert_eq!(store.snapshots().expire(clock.deadline_ms()), 1);
        assert!(!snapshot.is_valid());
    }
}
