//! What the driver needs from above: somebody who keeps the continuous queries and executes firings.

use crate::due_windows::DueWindows;
use crate::error::RuntimeError;
use crossbeam_channel::Sender;
use oxrdf::Quad;
use somersault_lang::lift::Shape;
use somersault_model::{EventTime, QueryUid, Sn};
use somersault_store::Snapshot;
use somersault_stream::{Firing, FiringKey, JoiningMember, Pause, Place};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A firing whose snapshot is stable and pinned.
pub struct FiringJob {
    /// What to execute.
    pub firing: Firing,
    /// The stored graph that it reads.
    pub snapshot: DueSnapshot,
    /// The windows that it reads, made already; to be held until it has the answer.
    pub windows: Option<Arc<DueWindows>>,
    /// When the last record that the firing needed was acknowledged; `None` during recovery.
    pub acknowledged: Option<Instant>,
    /// When its snapshot became stable: from here on it waits only behind other queries.
    pub released: Instant,
}

/// What a firing reads that waits to be executed: pinned for as long as that takes; dropping it unpins.
pub struct DueSnapshot {
    snapshot: Snapshot,
    clock: PinClock,
}

impl DueSnapshot {
    pub(crate) fn new(snapshot: Snapshot, clock: PinClock) -> DueSnapshot {
        DueSnapshot { snapshot, clock }
    }

    /// It is read from now on, for as long as a firing may (S9).
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

/// By which a host says that a firing has been answered.
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
        // After the sequencer has stopped there is nobody to tell.
        let _ = self.0.send(fired);
    }
}

/// Told by the driver's thread, in order; it must return quickly and hand execution to the pool.
///
/// Each [`Host::fire`] is followed, when its answer is ready and those of the query's earlier firings
/// are, by one call of [`Answered::tell`] or [`Answered::tell_derived`].
pub trait Host: Send + Sync + 'static {
    /// Called once, before anything else.
    fn attach(&self, answered: Answered);

    /// A query that stands alone was registered (or is registered again by recovery).
    fn registered(&self, uid: QueryUid, name: &str, text: &str, namespace: Option<&str>);

    /// A cohort came into being: queries of this shape will join it, the text is the first one's.
    fn formed(&self, cohort: QueryUid, shape: Arc<Shape>, text: &str, namespace: Option<&str>);

    /// Queries joined a cohort, to fire for closes after `base`; `resumed` is the place that a paused one was at.
    fn joined(
        &self,
        cohort: QueryUid,
        base: EventTime,
        members: Vec<JoiningMember>,
        resumed: Option<u32>,
    );

    /// A member was paused: it has no firing that became due later.
    fn paused(&self, place: Place, pause: Pause);

    /// A member was dropped; a firing under way may still finish.
    fn left(&self, place: Place);

    /// The last member of a cohort was dropped; firings under way may still finish.
    fn ended(&self, cohort: QueryUid);

    /// A query was dropped; firings under way may still finish.
    fn dropped(&self, uid: QueryUid);

    /// A query took the place of another, which answered closes up to this one; `place` says where it is in its cohort.
    fn answered_before(&self, uid: QueryUid, place: Option<Place>, close: EventTime);

    /// Execute this. Firings of one query come in close order.
    fn fire(self: Arc<Self>, job: FiringJob);

    /// In recovery: this firing was answered before the restart with this SN, and will not be executed again. It comes
    /// before those of its query that will.
    fn delivered(&self, key: FiringKey, sn: Sn);

    /// Closes up to `last` were passed because their windows hold nothing.
    fn passed(&self, uid: QueryUid, last: EventTime, count: u64);

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
