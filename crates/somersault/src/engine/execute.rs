//! How one-shot queries are executed. A light one runs on its caller's thread, since handing it over
//! and waking up again would cost more than it does; it starts there with a small budget of time and
//! memory. What does not get done within that, or is not expected to, begins again on the query pool:
//! the one thing to know before changing it is that nothing but the budget may differ between the two.

use super::{Engine, QueryOptions, QueryResults};
use crate::answer::Answer;
use crate::error::{EngineError, LimitKind};
use crossbeam_channel::bounded;
use somersault_model::{EventTime, QueryUid};
use somersault_query::{Bound, Dataset, Execution, QueryError, SnapshotView};
use somersault_runtime::Class;
use somersault_store::Snapshot;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// The uid under which one-shot queries key their random functions; no registration ever gets so far.
const ONE_SHOT: QueryUid = QueryUid(u64::MAX);
/// A pin outlives the query's own limit a little: the query should hit its limit first.
const PIN_SLACK_MS: i64 = 1_000;
/// How long a query may take on its caller's thread.
const BUDGET: Duration = Duration::from_micros(200);
/// Patterns that are nested deeper are left to the pool, whose stacks are large.
const DEPTH: usize = 16;

/// What became of a query that was tried on its caller's thread.
#[derive(Debug)]
pub enum Light {
    /// It is answered.
    Done(QueryResults),
    /// It takes longer than a caller who must not wait can give it.
    Heavy(HeavyQuery),
}

/// A query for the query pool. It counts as a waiting one; dropping it gives it up.
pub struct HeavyQuery {
    engine: Engine,
    query: Arc<Bound>,
    options: QueryOptions,
}

impl HeavyQuery {
    /// Has the pool answer it, and waits for that.
    ///
    /// # Errors
    /// It hits a limit, or the engine stops; see [`EngineError`].
    pub fn wait(self) -> Result<QueryResults, EngineError> {
        let (reply, answer) = bounded(1);
        self.submit(move |result| {
            let _ = reply.send(result);
        });
        answer.recv().map_err(|_| EngineError::Stopped)?
    }

    /// Has the pool answer it; `done` is called with the answer, on a thread of the pool: it must not
    /// wait for anything. If the engine stops before that, `done` is dropped without a call.
    pub fn submit(self, done: impl FnOnce(Result<QueryResults, EngineError>) + Send + 'static) {
        let pool = Arc::clone(&self.engine.inner.pool);
        pool.submit(Class::OneShot, move || {
            let run = AssertUnwindSafe(|| self.engine.execute(&self.query, &self.options, None));
            let result = catch_unwind(run).unwrap_or_else(|_| Err(panicked()));
            let result = result.map(|done| done.expect("without a budget none is used up"));
            self.engine.inner.counters.lane().note(&result);
            // Given up before the answer is: the last handle must not be dropped by the pool.
            drop(self);
            done(result);
        });
    }
}

impl Drop for HeavyQuery {
    fn drop(&mut self) {
        let running = &self.engine.inner.one_shots_running;
        running.fetch_sub(1, Ordering::Relaxed);
    }
}

impl std::fmt::Debug for HeavyQuery {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HeavyQuery").finish_non_exhaustive()
    }
}

fn panicked() -> EngineError {
    EngineError::Internal("the evaluation panicked".to_owned())
}

impl Engine {
    /// Executes a query here if it is light.
    pub(super) fn start_query(
        &self,
        query: Arc<Bound>,
        options: &QueryOptions,
    ) -> Result<Light, EngineError> {
        let limit = self.inner.config.limits.concurrent_queries;
        let before = self.inner.one_shots_running.fetch_add(1, Ordering::Relaxed);
        if before >= limit {
            self.inner.one_shots_running.fetch_sub(1, Ordering::Relaxed);
            return Err(EngineError::Limit {
                which: LimitKind::ConcurrentQueries,
                message: format!(
                    "{limit} one-shot queries are running or waiting, as many as there may be; try again, or raise the limit (concurrent_queries)"
                ),
            });
        }
        let prepared = query.prepared();
        if prepared.depth() <= DEPTH && prepared.is_light() {
            let run = AssertUnwindSafe(|| self.execute(&query, options, Some(BUDGET)));
            let result = catch_unwind(run).unwrap_or_else(|_| Err(panicked()));
            if let Some(done) = result.transpose() {
                self.inner.one_shots_running.fetch_sub(1, Ordering::Relaxed);
                if let Ok(results) = &done {
                    self.inner.counters.lane().answered(results.execution);
                }
                return done.map(Light::Done);
            }
        }
        Ok(Light::Heavy(HeavyQuery {
            engine: self.clone(),
            query,
            options: options.clone(),
        }))
    }

    /// Executes a query on this thread; `None` where there is a budget and it is used up.
    fn execute(
        &self,
        query: &Bound,
        options: &QueryOptions,
        budget: Option<Duration>,
    ) -> Result<Option<QueryResults>, EngineError> {
        let started = Instant::now();
        let mut execution = self.one_shot_execution(options.timeout, options.result_rows);
        execution.started = Some(started);
        execution.budget = budget;
        execution.abandoned = options.cancel.clone();
        if budget.is_some() {
            execution.limits.query_memory_bytes = self.inner.standing.memory_in_place();
        }
        let prepared = query.prepared();
        let clause = options.dataset(&prepared.query().dataset);
        let dictionary = self.inner.store.dictionary_arc();
        let dataset = if clause.present {
            Arc::new(Dataset::of_clause(&clause, dictionary))
        } else {
            Arc::clone(&self.inner.stored)
        };
        let deadline_ms = self.pin_deadline(started, execution.limits.query_time);
        let snapshot = match budget {
            Some(_) => self.inner.store.pin_stable_shared(deadline_ms),
            None => self.inner.store.pin_stable_until(deadline_ms),
        };
        let sn = snapshot.sn().0;
        let view = SnapshotView::new(snapshot, Vec::new(), dataset);
        let answer = match query.execute(&view, &execution) {
            Err(QueryError::OverBudget | QueryError::Memory { .. }) if budget.is_some() => {
                return Ok(None);
            }
            Err(QueryError::Cancelled) if options.is_given_up() => {
                return Err(EngineError::Cancelled);
            }
            answer => answer?,
        };
        self.inner.standing.count_fallback(prepared);
        Ok(Some(QueryResults {
            answer: Answer::new(answer, Arc::clone(dictionary)),
            sn,
            execution: started.elapsed(),
            fallback_reason: prepared.fallback_reason().map(str::to_owned),
        }))
    }

    pub(super) fn one_shot_execution(
        &self,
        timeout: Option<Duration>,
        rows: Option<u64>,
    ) -> Execution {
        let standing = &self.inner.standing;
        let mut execution = standing.execution(standing.stable_time(), ONE_SHOT);
        // UUID() promises a new IRI each time: no log replays a one-shot query, so each execution has a key of its own.
        let number = self.inner.one_shots.fetch_add(1, Ordering::Relaxed);
        execution.close = EventTime((self.inner.epoch << 32 | (number & 0xffff_ffff)) as i64);
        if let Some(timeout) = timeout {
            execution.limits.query_time = timeout;
        }
        if let Some(rows) = rows {
            execution.limits.result_rows = rows;
        }
        execution
    }

    /// Pins the stable snapshot for an execution of at most this long (S9).
    pub(super) fn pin_stable(&self, query_time: Duration) -> Snapshot {
        let deadline_ms = self.pin_deadline(Instant::now(), query_time);
        self.inner.store.pin_stable_until(deadline_ms)
    }

    fn pin_deadline(&self, started: Instant, query_time: Duration) -> i64 {
        let time_ms = i64::try_from(query_time.as_millis()).unwrap_or(i64::MAX / 4);
        self.inner.driver.uptime_ms_at(started) + time_ms + PIN_SLACK_MS
    }
}
