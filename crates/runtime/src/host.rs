//! The driver's interface to the layer above: a host, which keeps the continuous queries and
//! executes their firings.

use crate::clock::{Clock, ManualClock};
use crate::error::RuntimeError;
use crate::fabric::{DueWindows, window_version};
use oxrdf::Quad;
use somersault_log::{AnswerPosition, SubscriptionLimit};
use somersault_model::Sn;
use somersault_store::{Snapshot, Store, WindowVersion};
use somersault_stream::{Firing, FiringKey, QueryEvent};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A firing whose snapshot is stable and pinned.
pub struct FiringJob {
    /// The firing to execute.
    pub firing: Firing,
    /// The stored graph that it reads.
    pub snapshot: DueSnapshot,
    /// The stored graph before it, for a live query that is told what has changed since.
    pub before: Option<DueSnapshot>,
    /// The windows of its SN's firings that were made before the SN was stable.
    pub(crate) made: Option<Arc<DueWindows>>,
    /// When the last record that the firing needed was acknowledged; `None` during recovery.
    pub acknowledged: Option<Instant>,
    /// When its snapshot became stable: from here on it waits only behind other queries.
    pub released: Instant,
}

impl FiringJob {
    /// Returns a firing over a snapshot whose pin does not expire, for a host without a driver.
    pub fn unpaced(firing: Firing, snapshot: Snapshot) -> FiringJob {
        let clock = PinClock::new(Arc::new(ManualClock), Duration::MAX);
        FiringJob {
            firing,
            snapshot: DueSnapshot::new(snapshot, clock),
            before: None,
            made: None,
            acknowledged: None,
            released: Instant::now(),
        }
    }

    /// The windows that the firing reads, in the order of its query's windows. Those made before
    /// are handed over; the others, of amended firings and of windows of a number of statements,
    /// are made now. The job keeps the former alive: hold it until the answer is there.
    pub fn windows(&self, store: &Store) -> Vec<Arc<WindowVersion>> {
        let windows = self.firing.windows.iter().map(|window| {
            let made = self.made.as_ref().and_then(|made| made.version(window));
            made.unwrap_or_else(|| window_version(store, window, self.firing.sn))
        });
        windows.collect()
    }
}

/// The snapshot of a firing that waits to be executed, pinned for as long as that takes; dropping
/// it unpins.
pub struct DueSnapshot {
    snapshot: Snapshot,
    clock: PinClock,
}

impl DueSnapshot {
    pub(crate) fn new(snapshot: Snapshot, clock: PinClock) -> DueSnapshot {
        DueSnapshot { snapshot, clock }
    }

    /// Starts the deadline of the pin: a firing may read for a limited time (S9).
    pub fn begin(self) -> Snapshot {
        self.snapshot.until(self.clock.deadline_ms())
    }
}

/// The clock by which pins expire; it never goes back.
#[derive(Clone)]
pub(crate) struct PinClock {
    clock: Arc<dyn Clock>,
    /// The instant at which it was 0.
    started: Instant,
    /// The time for which a firing may read.
    time: Duration,
}

impl PinClock {
    /// A clock that begins now. A firing may read for `time`.
    pub(crate) fn new(clock: Arc<dyn Clock>, time: Duration) -> PinClock {
        PinClock {
            started: clock.instant(),
            clock,
            time,
        }
    }

    pub(crate) fn ms_at(&self, at: Instant) -> i64 {
        let since = at.saturating_duration_since(self.started).as_millis();
        i64::try_from(since).unwrap_or(i64::MAX)
    }

    pub(crate) fn now_ms(&self) -> i64 {
        self.ms_at(self.clock.instant())
    }

    /// The time at which the pin of a firing that starts now expires, in milliseconds.
    fn deadline_ms(&self) -> i64 {
        let time = i64::try_from(self.time.as_millis()).unwrap_or(i64::MAX);
        self.now_ms().saturating_add(time)
    }
}

/// Acknowledges firings to the driver, and reports the limits of durable subscriptions.
#[derive(Clone)]
pub struct FiringAcks(Arc<dyn Fn(HostReport) + Send + Sync>);

/// A report of the host to the driver.
#[derive(Debug)]
pub enum HostReport {
    /// A firing has been answered.
    Fired(Fired),
    /// The answer to [`Host::look_at_deadlines`].
    Limits(LimitReport),
}

/// A firing that has been answered.
#[derive(Debug)]
pub struct Fired {
    /// The firing.
    pub key: FiringKey,
    /// For a query that derives a stream: the firing's contribution to it.
    pub derived: Option<DerivedOutput>,
    /// For a cohort with durable subscriptions: the state of its outbox.
    pub outbox: Option<Box<OutboxReport>>,
}

/// What the durable subscriptions of a cohort still need.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutboxReport {
    /// The SN of the oldest answer that one of them needs: a restart must execute its firing, and
    /// those after it, again.
    pub needed_from: Option<Sn>,
    /// How its subscriptions stand to their limits.
    pub limits: LimitReport,
}

/// How durable subscriptions stand to their limits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LimitReport {
    /// Answers that are more than a subscription's terms allow.
    pub exceeded: Vec<Exceeded>,
    /// When the next answer reaches its deadline; `None` if no answer that waits has one.
    pub next_deadline: Option<Instant>,
}

impl LimitReport {
    /// Adds the report of other subscriptions.
    pub fn extend(&mut self, other: LimitReport) {
        self.exceeded.extend(other.exceeded);
        let deadlines = self.next_deadline.into_iter().chain(other.next_deadline);
        self.next_deadline = deadlines.min();
    }
}

/// Answers that a durable subscription is to lose: the log says so before they are gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exceeded {
    /// The query.
    pub query: String,
    /// The subscription.
    pub subscription: String,
    /// Its place when they were counted.
    pub after: AnswerPosition,
    /// The newest of the answers.
    pub through: AnswerPosition,
    /// Their number.
    pub answers: u64,
    /// The limit that was reached.
    pub why: SubscriptionLimit,
}

/// The contribution of a firing to the stream that its query derives.
#[derive(Debug)]
pub enum DerivedOutput {
    /// These statements; for an amended firing, in place of those of its close so far.
    Statements(Vec<Quad>),
    /// The firing amends a close and has failed: the statements of its close stay.
    Unchanged,
}

impl FiringAcks {
    /// Returns acknowledgements and reports that come to `take`, on the threads that execute
    /// firings.
    pub fn new(take: impl Fn(HostReport) + Send + Sync + 'static) -> FiringAcks {
        FiringAcks(Arc::new(take))
    }

    /// Reports that this firing, and those of its query that became due before it, have been
    /// answered.
    pub fn tell(&self, key: FiringKey) {
        self.send(Fired {
            key,
            derived: None,
            outbox: None,
        });
    }

    /// The same for a firing whose query derives a stream.
    pub fn tell_derived(&self, key: FiringKey, derives: DerivedOutput) {
        self.send(Fired {
            key,
            derived: Some(derives),
            outbox: None,
        });
    }

    /// The same in the general form.
    pub fn send(&self, fired: Fired) {
        (self.0)(HostReport::Fired(fired));
    }

    /// Reports how durable subscriptions stand to their limits.
    pub fn report_limits(&self, limits: LimitReport) {
        (self.0)(HostReport::Limits(limits));
    }
}

/// The host of the continuous queries. The driver's thread calls it, in order; each call must
/// return quickly and leave execution to the pool.
///
/// Each [`Host::fire`] is followed, when its answer is ready and those of the query's earlier
/// firings are, by one call of a method of [`FiringAcks`].
pub trait Host: Send + Sync + 'static {
    /// Called once, before anything else.
    fn attach(&self, answered: FiringAcks);

    /// Reports a change of registered queries, in recovery too. The driver's registry already shows
    /// the change, and shows nothing later. The sequencer answers no read meanwhile, so the host
    /// must not ask the driver.
    fn on_query(&self, event: QueryEvent);

    /// Executes this firing. The firings of one query come in close order.
    fn fire(self: Arc<Self>, job: FiringJob);

    /// Reports that a new SN is stable; `now_ms` is the time of its newest record.
    fn stable(&self, sn: Sn, now_ms: i64);

    /// Reports a failure after which nothing becomes stable any more.
    fn failed(&self, error: &RuntimeError);

    /// An answer that waits for a reader may have reached its deadline: reports which have, and the
    /// next deadline, by one call of [`FiringAcks::report_limits`], later and on another thread.
    fn look_at_deadlines(self: Arc<Self>) {}

    /// Begins a checkpoint of the answers at the driver's present position, with `sn` the newest SN
    /// that was cut. What an earlier call began is given up.
    fn freeze_at(&self, sn: Sn) {
        let _ = sn;
    }

    /// Gives the records of the checkpoint that [`Host::freeze_at`] began to `out`, once. All
    /// firings that were due by then have been answered. Called on a thread of its own, beside all
    /// other calls.
    fn save(&self, out: &mut dyn FnMut(&[u8])) {
        let _ = out;
    }

    /// The checkpoint is written, or given up: nothing more needs to be kept for it.
    fn thaw(&self) {}

    /// Takes the records of a checkpoint, whose dictionary keeps all transient terms meanwhile. The
    /// changes that make its queries known follow, and then those of the log behind it.
    ///
    /// # Errors
    /// The first error of `records`; or the records make no answers.
    fn restore(&self, records: &mut SavedRecords<'_>) -> Result<(), RuntimeError> {
        for record in records {
            record?;
        }
        Ok(())
    }

    /// After the queries of the checkpoint were made known: checks that the restored answers are
    /// theirs.
    ///
    /// # Errors
    /// They are those of other queries.
    fn check_restored(&self) -> Result<(), RuntimeError> {
        Ok(())
    }
}

/// The records of a host in a checkpoint, in the order in which [`Host::save`] gave them.
pub type SavedRecords<'r> = dyn Iterator<Item = Result<Vec<u8>, RuntimeError>> + 'r;

#[cfg(test)]
mod tests {
    use super::*;
    use somersault_store::Store;

    #[test]
    fn a_firings_time_begins_with_its_execution() {
        let store = Store::new(1);
        let clock = PinClock::new(Arc::new(ManualClock), Duration::from_secs(3600));
        let due = DueSnapshot::new(store.pin_stable(), clock.clone());
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
