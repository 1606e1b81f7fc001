//! All registered continuous queries, as the driver's `Host`. The query pool executes a firing over
//! its pinned snapshot and the window versions of its close, and passes the result to the hub of
//! its cohort.

mod due;
mod saved;

pub use crate::cohort::CohortSize;
pub use crate::cohort::{DurableEvent, DurableReader};
pub use crate::delivery::hub::MemberSummary;
pub use crate::delivery::outbox::DurableState;

use crate::cohort::{Cohort, Freeze, RestoredCohort, Source};
use crate::evaluation::incremental::{Incremental, SingleTarget};
use crate::evaluation::live;
use crate::metrics::QueryMetrics;
use crate::order::firing_slots::SharedSlots;
use crate::resources::{Resources, Settings};
use crate::saved::AnswerRecord;
use crate::subscriptions::{FiringId, SubscribeOptions, Subscription};
use parking_lot::{Mutex, RwLock};
use rustc_hash::FxHashMap;
use somersault_lang::ContinuousQuery;
use somersault_log::AnswerPosition;
use somersault_model::{EventTime, QueryUid, Sn};
use somersault_pool::{Class, QueryPool};
use somersault_query::{Environment, Execution, Prepared, QueryError, SnapshotView};
use somersault_runtime::{FiringAcks, FiringJob, Host, LimitReport, RuntimeError, SavedRecords};
use somersault_store::Store;
use somersault_stream::{MemberId, QueryChange, QueryEvent, QueryStatus};
use std::collections::HashMap;
use std::fmt;
use std::slice;
use std::sync::{Arc, OnceLock};

/// From this number on, a separate job puts queries that join a cohort at once in place.
const MANY: usize = 64;

/// Cohorts that have ended.
type EndedCohorts = Vec<(QueryUid, Arc<Cohort>)>;

/// All registered queries.
pub struct Registry {
    resources: Arc<Resources>,
    pool: Arc<QueryPool>,
    answered: OnceLock<FiringAcks>,
    cohorts: RwLock<HashMap<QueryUid, Arc<Cohort>>>,
    /// Extra threads for queries that already have a firing under way.
    spare: SharedSlots,
    /// The newest checkpoint.
    freeze: Mutex<Freeze>,
    /// While a checkpoint is made: the cohorts of its position that have ended since. `None` while
    /// there is none.
    ended: Mutex<Option<EndedCohorts>>,
    /// The cohorts of the checkpoint that the engine was started from, until they are formed.
    restored: Mutex<FxHashMap<QueryUid, RestoredCohort>>,
}

impl Registry {
    /// Returns a registry without queries, whose firings the pool executes over this store.
    pub fn new(
        environment: Arc<Environment>,
        store: Arc<Store>,
        pool: Arc<QueryPool>,
        settings: Settings,
    ) -> Registry {
        let spare = SharedSlots::of_threads(settings.threads);
        Registry {
            resources: Arc::new(Resources::new(environment, store, settings)),
            pool,
            answered: OnceLock::new(),
            cohorts: RwLock::new(HashMap::new()),
            spare,
            freeze: Mutex::default(),
            ended: Mutex::default(),
            restored: Mutex::default(),
        }
    }

    fn cohort(&self, uid: QueryUid) -> Option<Arc<Cohort>> {
        self.cohorts.read().get(&uid).cloned()
    }

    /// Returns a reader of a query's answers; `None` if the query has left, or has not joined yet.
    pub fn subscribe(
        &self,
        query: &QueryStatus,
        options: &SubscribeOptions,
    ) -> Option<Subscription> {
        let cohort = self.cohort(query.member.cohort)?;
        let member = (query.member.slot, query.uid, query.name.as_str());
        cohort.subscribe(member, options, self.resources.decoder())
    }

    /// Returns a reader of a durable subscription; `None` if the query has left.
    pub fn read_durably(&self, query: &QueryStatus, name: &str) -> Option<DurableReader> {
        let cohort = self.cohort(query.member.cohort)?;
        let decoder = Arc::clone(self.resources.decoder());
        let member = (query.member, query.uid);
        Some(DurableReader::new(cohort, decoder, member, name))
    }

    /// Returns the durable subscriptions to a query.
    pub fn durable(&self, member: MemberId) -> Vec<DurableState> {
        let cohort = self.cohort(member.cohort);
        cohort.map_or_else(Vec::new, |cohort| cohort.durable(member.slot))
    }

    /// Returns the position of a kept answer.
    pub fn position_of(&self, member: MemberId, id: &FiringId) -> Option<AnswerPosition> {
        self.cohort(member.cohort)?.position_of(member.slot, id)
    }

    /// How the durable subscriptions with deadlines stand to their limits.
    fn limits(&self) -> LimitReport {
        let cohorts = self.cohorts.read();
        let mut with_deadlines: Vec<(QueryUid, Arc<Cohort>)> = (cohorts.iter())
            .filter(|(_, cohort)| cohort.has_deadlines())
            .map(|(uid, cohort)| (*uid, Arc::clone(cohort)))
            .collect();
        drop(cohorts);
        // Looking at a cohort reads the clock, which is a function of all earlier readings where
        // the process is simulated.
        with_deadlines.sort_unstable_by_key(|(uid, _)| *uid);
        let mut all = LimitReport::default();
        (with_deadlines.iter()).for_each(|(_, cohort)| all.extend(cohort.limits()));
        all
    }

    /// Returns the counts and times of a query, and the size of its cohort.
    pub fn summary(&self, member: MemberId) -> Option<(MemberSummary, CohortSize)> {
        let cohort = self.cohort(member.cohort)?;
        Some((cohort.summary(member.slot), cohort.size()))
    }

    /// Returns the counters of all cohorts, each under the name of one of its members, by name.
    pub fn metrics(&self) -> Vec<QueryMetrics> {
        let cohorts: Vec<Arc<Cohort>> = self.cohorts.read().values().cloned().collect();
        let metrics = cohorts.iter().filter_map(|cohort| cohort.metrics());
        let mut metrics: Vec<QueryMetrics> = metrics.collect();
        metrics.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        metrics
    }

    /// Returns the memory of the rows that queries keep from one close to the next, in bytes.
    pub fn kept_rows_bytes(&self) -> u64 {
        let cohorts = self.cohorts.read();
        cohorts.values().map(|cohort| cohort.kept_bytes()).sum()
    }

    /// Describes in sentences whether a query would be evaluated incrementally over these windows.
    pub fn explain_query(
        &self,
        query: &ContinuousQuery,
        prepared: &Prepared,
        view: &SnapshotView,
    ) -> String {
        if query.is_live() {
            return live::explain(self.resources.settings(), query, view);
        }
        let incremental = Incremental::new(self.resources.settings(), query);
        incremental.explain(&SingleTarget(prepared, &[]), view)
    }

    /// Describes in sentences how the `members` queries of a cohort are evaluated over these
    /// windows; `None` if there is no such cohort.
    ///
    /// # Errors
    /// Planning hits a limit.
    pub fn explain_cohort(
        &self,
        (cohort, members): (QueryUid, usize),
        view: &SnapshotView,
        execution: &Execution,
    ) -> Result<Option<String>, QueryError> {
        let cohort = self.cohort(cohort);
        let described = cohort.map(|cohort| cohort.explain(members, view, execution));
        described.transpose()
    }

    /// Ends the subscriptions of all queries: no more answers come.
    pub fn end(&self) {
        for cohort in self.cohorts.read().values() {
            cohort.end();
        }
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry")
            .field("cohorts", &self.cohorts.read().len())
            .finish_non_exhaustive()
    }
}

impl Host for Registry {
    fn attach(&self, answered: FiringAcks) {
        let _ = self.answered.set(answered);
    }

    fn on_query(
        &self,
        QueryEvent {
            cohort: uid,
            change,
        }: QueryEvent,
    ) {
        let cohort = match change {
            QueryChange::Formed {
                shape,
                text,
                namespace,
                overload,
                view,
                ..
            } => {
                let source = Source { text, namespace };
                let resources = Arc::clone(&self.resources);
                let restored = self.restored.lock().remove(&uid);
                let freezes = self.freeze().number;
                let history = (restored, freezes);
                let cohort = Cohort::new(shape, (source, overload), view, resources, history);
                self.cohorts.write().insert(uid, Arc::new(cohort));
                return;
            }
            QueryChange::Ended => {
                self.keep_ended(uid);
                self.cohorts.write().remove(&uid)
            }
            _ => self.cohort(uid),
        };
        let Some(cohort) = cohort else { return };
        cohort.note_freeze(self.freeze());
        match change {
            QueryChange::Joined { base, members } => {
                cohort.joined(base, &members, None, self.resources.store());
                if members.len() >= MANY {
                    // The next firing should not wait until all are in place.
                    self.pool.submit(Class::Continuous, move || cohort.settle());
                }
            }
            QueryChange::Resumed {
                base,
                member,
                before,
            } => cohort.joined(
                base,
                slice::from_ref(&member),
                Some(before),
                self.resources.store(),
            ),
            QueryChange::Paused { slot, pause } => cohort.paused(slot, pause),
            QueryChange::AnsweredBefore { slot, close } => {
                cohort.answered_before(slot, FiringId::at(close));
            }
            QueryChange::Passed { last, count, .. } => cohort.passed(last, count),
            QueryChange::Delivered { key, sn } => cohort.record_evicted(FiringId::of(&key, sn)),
            QueryChange::Left { slot } => cohort.left(slot),
            QueryChange::Ended => cohort.dropped(),
            other => cohort.durable_changed(other),
        }
    }

    fn fire(self: Arc<Self>, job: FiringJob) {
        self.take_due(job);
    }

    fn stable(&self, _sn: Sn, now_ms: i64) {
        self.resources.environment().advance(EventTime(now_ms));
    }

    fn failed(&self, error: &RuntimeError) {
        tracing::error!("nothing new becomes visible any more: {error}");
        // A subscriber that heard nothing could not tell a failure from a quiet stream.
        self.end();
    }

    fn look_at_deadlines(self: Arc<Self>) {
        let registry = Arc::clone(&self);
        self.pool.submit(Class::Continuous, move || {
            if let Some(answered) = registry.answered.get() {
                answered.report_limits(registry.limits());
            }
        });
    }

    fn freeze_at(&self, sn: Sn) {
        self.begin_checkpoint(sn);
    }

    fn save(&self, out: &mut dyn FnMut(&[u8])) {
        self.save_answers(&mut |record| out(&record.to_bytes()));
    }

    fn thaw(&self) {
        self.end_checkpoint();
    }

    fn restore(&self, records: &mut SavedRecords<'_>) -> Result<(), RuntimeError> {
        let records = records.map(|bytes| Ok(AnswerRecord::from_bytes(&bytes?)?));
        self.restore_answers(records)
    }

    fn check_restored(&self) -> Result<(), RuntimeError> {
        Ok(self.check_answers()?)
    }
}
