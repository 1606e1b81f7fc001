//! The registered continuous queries, as the driver's `Host`. The query pool executes a firing over
//! its pinned snapshot and the window versions of its close, and passes the result to the hub of
//! its cohort.

mod cohort;
mod delta;
mod due;
mod evaluator;
mod firing;
mod firing_slots;
mod hub;
mod ledger;
mod outcome;
mod resequencer;
mod stages;

pub(crate) use delta::{Delta, SingleTarget};
pub(crate) use due::Due;

use crate::config::EngineConfig;
use crate::subscription::FiringId;
use cohort::Cohort;
use firing_slots::SharedSlots;
use parking_lot::RwLock;
use somersault_dictionary::Dictionary;
use somersault_lang::{ContinuousQuery, Dialect};
use somersault_model::{EventTime, QueryUid, Sn, TermId};
use somersault_pool::{Class, QueryPool};
use somersault_query::{Dataset, Execution, NamedGraphs, Source};
use somersault_runtime::{Answered, FiringJob, Host, RuntimeError};
use somersault_store::Store;
use somersault_stream::{QueryChange, QueryEvent};
use stages::Comparison;
use std::collections::HashMap;
use std::slice;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};

/// The share of all executions' memory for those on their callers' threads: one part in this many.
const IN_PLACE_PART: u64 = 8;

/// From this number on, a separate job puts queries that join a cohort at once in place.
const MANY: usize = 64;

/// All registered queries.
pub(crate) struct ContinuousQueries {
    pub(crate) config: EngineConfig,
    pub(crate) store: Arc<Store>,
    pub(crate) pool: Arc<QueryPool>,
    answered: OnceLock<Answered>,
    cohorts: RwLock<HashMap<QueryUid, Arc<Cohort>>>,
    /// Extra threads for queries that already have a firing under way.
    spare: SharedSlots,
    /// The time of the stable SN, for NOW() of one-shot queries.
    stable_ms: AtomicI64,
    /// Set when the engine ends; executions under way then stop.
    pub(crate) cancel: Arc<AtomicBool>,
}

impl ContinuousQueries {
    pub(crate) fn new(
        config: EngineConfig,
        store: Arc<Store>,
        pool: Arc<QueryPool>,
    ) -> ContinuousQueries {
        ContinuousQueries {
            spare: SharedSlots::of_threads(config.query_threads),
            config,
            store,
            pool,
            answered: OnceLock::new(),
            cohorts: RwLock::new(HashMap::new()),
            stable_ms: AtomicI64::new(0),
            cancel: Arc::new(AtomicBool::new(false)),
        }
    }

    pub(crate) fn cohort(&self, uid: QueryUid) -> Option<Arc<Cohort>> {
        self.cohorts.read().get(&uid).cloned()
    }

    /// Returns the dictionary that decodes answers.
    pub(crate) fn decoder(&self) -> Arc<Dictionary> {
        Arc::clone(self.store.dictionary_arc())
    }

    /// The time of the stable SN.
    pub(crate) fn stable_time(&self) -> EventTime {
        EventTime(self.stable_ms.load(Ordering::Relaxed))
    }

    /// Returns the parameters of one execution.
    pub(crate) fn execution(&self, now: EventTime, query: QueryUid) -> Execution {
        let mut execution = self.execution_in_place(now, query);
        execution.limits.query_memory_bytes = self.memory_share();
        execution.cancel = Some(Arc::clone(&self.cancel));
        execution.crew = Some(Arc::clone(self.pool.crew()));
        execution
    }

    /// Returns the parameters of an execution on its caller's thread. It has no helpers and cannot
    /// be cancelled, since its budget soon stops it. So it holds no reference count that all
    /// threads would contend for.
    pub(crate) fn execution_in_place(&self, now: EventTime, query: QueryUid) -> Execution {
        let mut execution = Execution::new(self.config.limits.clone(), now);
        execution.limits.query_memory_bytes = self.memory_in_place();
        execution.query = query;
        if self.config.allow_remote {
            execution.remote = self.config.remote.clone();
        }
        execution
    }

    /// Returns the memory limit of one execution, in bytes: as many as can run at once stay within
    /// the limit on all of them together.
    fn memory_share(&self) -> u64 {
        let limits = &self.config.limits;
        let in_place = limits.total_query_memory_bytes / IN_PLACE_PART;
        // Each thread of the pool runs one execution, and the sequencer runs an update.
        let at_once = QueryPool::jobs_at_once(self.config.query_threads) as u64 + 1;
        let share = (limits.total_query_memory_bytes - in_place) / at_once;
        limits.query_memory_bytes.min(share)
    }

    /// Returns the memory limit of an execution on its caller's thread, in bytes. As many of them
    /// can run at once as there may be one-shot queries.
    fn memory_in_place(&self) -> u64 {
        let limits = &self.config.limits;
        let in_place = limits.total_query_memory_bytes / IN_PLACE_PART;
        let share = in_place / limits.concurrent_queries.max(1);
        share.min(limits.query_memory_bytes)
    }

    /// Returns the memory of the rows that queries keep from one close to the next, in bytes.
    pub(crate) fn kept_rows_bytes(&self) -> u64 {
        let cohorts = self.cohorts.read();
        cohorts.values().map(|cohort| cohort.kept_bytes()).sum()
    }

    /// Returns the limits and the dictionary with which answers of one query are compared.
    pub(crate) fn comparison(&self) -> Comparison {
        Comparison {
            dictionary: self.decoder(),
            firing_time: self.config.limits.firing_time,
            memory_bytes: self.memory_share(),
        }
    }

    /// Ends the subscriptions of all cohorts: no more answers come.
    pub(crate) fn end(&self) {
        for cohort in self.cohorts.read().values() {
            cohort.end();
        }
    }
}

/// Returns the dataset of a continuous query (docs/language.md). Its default graph is its windows
/// merged with the graphs of FROM, or with the stored default graph if there is no FROM. GRAPH
/// reads windows and FROM NAMED.
pub(crate) fn continuous_dataset(query: &ContinuousQuery, store: &Store) -> Dataset {
    // Interned, not looked up: the graph may be created after the registration.
    let id = |name: &oxrdf::NamedNode| store.dictionary().intern(name.as_ref().into());
    let mut default = Vec::new();
    let mut named = Vec::new();
    for (index, window) in query.windows.iter().enumerate() {
        if window.in_default {
            default.push(Source::Window(index));
        }
        if window.named {
            named.push((id(&window.name), Source::Window(index)));
        }
    }
    let clause = &query.query.dataset;
    default.extend(clause.default.iter().map(|graph| Source::Stored(id(graph))));
    if clause.default.is_empty() {
        default.push(Source::Stored(TermId::DEFAULT_GRAPH));
    }
    named.extend(
        clause
            .named
            .iter()
            .map(|graph| (id(graph), Source::Stored(id(graph)))),
    );
    // In CQELS-QL, windows are no dataset clause: without one, GRAPH reads all stored graphs.
    let reads_all = query.dialect == Dialect::CqelsQl && !clause.present;
    Dataset {
        default,
        named: match reads_all {
            true => NamedGraphs::ListAndStored(named),
            false => NamedGraphs::List(named),
        },
    }
}

impl Host for ContinuousQueries {
    fn attach(&self, answered: Answered) {
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
                ..
            } => {
                let cohort = Cohort::new(shape, &text, namespace.as_deref(), self);
                self.cohorts.write().insert(uid, Arc::new(cohort));
                return;
            }
            QueryChange::Ended => self.cohorts.write().remove(&uid),
            _ => self.cohort(uid),
        };
        let Some(cohort) = cohort else { return };
        match change {
            QueryChange::Joined { base, members } => {
                cohort.joined(base, &members, None, &self.store);
                if members.len() >= MANY {
                    // The next firing should not wait until all are in place.
                    self.pool.submit(Class::Continuous, move || cohort.settle());
                }
            }
            QueryChange::Resumed {
                base,
                member,
                before,
            } => cohort.joined(base, slice::from_ref(&member), Some(before), &self.store),
            QueryChange::Paused { slot, pause } => cohort.paused(slot, pause),
            QueryChange::AnsweredBefore { slot, close } => {
                cohort.answered_before(slot, FiringId::at(close.0));
            }
            QueryChange::Passed { last, count, .. } => cohort.passed(last, count),
            QueryChange::Delivered { key, sn } => cohort.note_gone(FiringId::of(&key, sn)),
            QueryChange::Left { slot } => cohort.left(slot),
            QueryChange::Ended => cohort.dropped(),
            // There are no other changes yet.
            _ => {}
        }
    }

    fn fire(self: Arc<Self>, job: FiringJob) {
        self.take_due(job);
    }

    fn stable(&self, _sn: Sn, now_ms: i64) {
        self.stable_ms.fetch_max(now_ms, Ordering::Relaxed);
    }

    fn failed(&self, error: &RuntimeError) {
        tracing::error!("nothing new becomes visible any more: {error}");
    }
}
