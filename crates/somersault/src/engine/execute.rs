//! Executes one-shot queries. A light query runs on its caller's thread, with a small budget of
//! time and memory, since handing it over and waking up again would cost more than the query does.
//! A query that exceeds the budget, or is expected to, starts again on the query pool. The one
//! thing to know before changing it is that only the budget may differ between the two.

use super::{CancelToken, Engine, FastPath, QueryOptions, QueryResults};
use crate::access::{RightKind, missing_right};
use crate::error::{EngineError, LimitKind};
use crossbeam_channel::{TryRecvError, bounded};
use somersault_dictionary::Dictionary;
use somersault_lang::DatasetClause;
use somersault_model::{QueryUid, Sn};
use somersault_pool::Class;
use somersault_query::{
    Answer as QueryAnswer, BoundQuery, Dataset, Execution, GraphView, HeldView, Invocation,
    Prepared, QueryError, SnapshotView,
};
use somersault_results::Answer;
use somersault_store::Snapshot;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The uid under which one-shot queries key their random functions; no registration ever gets this
/// far.
const ONE_SHOT: QueryUid = QueryUid(u64::MAX);
/// A pin outlives the query's own limit a little: the query should hit its limit first.
const PIN_SLACK_MS: i64 = 1_000;
/// A query that took this many times its budget before it looked at the clock was not light. A
/// smaller overrun may just be preemption.
const FAR_BEYOND: u32 = 16;
/// Patterns that are nested deeper go to the pool, whose stacks are large.
const DEPTH: usize = 16;

/// The outcome of an execution, before it is combined with the dictionary.
pub(super) struct Executed {
    answer: Arc<QueryAnswer>,
    sn: Sn,
    pub(super) execution: Duration,
}

impl Executed {
    pub(super) fn into_results(self, dictionary: &Arc<Dictionary>) -> QueryResults {
        QueryResults {
            answer: Answer::new(self.answer, Arc::clone(dictionary)),
            sn: self.sn,
            execution: self.execution,
        }
    }

    /// Puts the outcome into results that are no longer needed.
    pub(super) fn replace(self, results: &mut QueryResults, dictionary: &Arc<Dictionary>) {
        results.answer.replace(self.answer, dictionary);
        results.sn = self.sn;
        results.execution = self.execution;
    }
}

/// What a thread of the query pool is to execute.
pub(super) enum Wanted {
    Query(Arc<BoundQuery>),
    /// A text that takes long to parse.
    Text(String),
}

/// A query for the query pool. It has a place there, which is freed when it is dropped.
pub struct DeferredQuery {
    engine: Engine,
    query: Wanted,
    options: QueryOptions,
    /// The time of the request: the time limit counts from then, waiting included.
    asked: Instant,
}

impl DeferredQuery {
    /// Has the pool answer the query, and waits for the answer.
    ///
    /// ```
    /// use somersault::{Engine, EngineConfig, FastPath};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// if let FastPath::Deferred(query) = engine.query("SELECT * { ?s ?p ?o }").begin()? {
    ///     println!("{} rows", query.wait()?.answer.len());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// It hits a limit, or the engine stops; see [`EngineError`].
    pub fn wait(self) -> Result<QueryResults, EngineError> {
        let process = self.engine.inner.config.process.clone();
        let (reply, answer) = bounded(1);
        self.submit(move |result| {
            let _ = reply.send(result);
        });
        match process {
            None => answer.recv().map_err(|_| EngineError::Stopped)?,
            Some(process) => loop {
                match answer.try_recv() {
                    Ok(result) => return result,
                    Err(TryRecvError::Empty) if process.take_turn() => {}
                    Err(_) => return Err(EngineError::Stopped),
                }
            },
        }
    }

    /// Has the pool answer the query. `done` is called with the answer on a thread of the pool, and
    /// must not wait for anything. If the engine stops earlier, `done` is dropped without a call.
    ///
    /// ```
    /// use somersault::{Engine, EngineConfig, FastPath};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// if let FastPath::Deferred(query) = engine.query("SELECT * { ?s ?p ?o }").begin()? {
    ///     query.submit(|results| match results {
    ///         Ok(results) => println!("{} rows", results.answer.len()),
    ///         Err(error) => eprintln!("{error}"),
    ///     });
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn submit(self, done: impl FnOnce(Result<QueryResults, EngineError>) + Send + 'static) {
        let pool = Arc::clone(&self.engine.inner.pool);
        let expects_help = match &self.query {
            Wanted::Query(query) => query.prepared().expects_help(),
            Wanted::Text(_) => false,
        };
        pool.submit(Class::OneShot, move || {
            let run = AssertUnwindSafe(|| self.engine.execute_there(&self));
            let result = catch_unwind(run).unwrap_or_else(|_| Err(panicked()));
            self.engine.inner.counters.stripe().note(&result);
            // Dropped before the answer is passed on: the pool must not drop the last handle.
            drop(self);
            done(result);
        });
        if expects_help {
            // Helpers wake up at the same time as the thread that takes it.
            pool.workers().wake();
        }
    }
}

impl Drop for DeferredQuery {
    fn drop(&mut self) {
        self.engine.inner.permits.release();
    }
}

impl std::fmt::Debug for DeferredQuery {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DeferredQuery").finish_non_exhaustive()
    }
}

pub(super) fn panicked() -> EngineError {
    EngineError::Internal("the evaluation panicked".to_owned())
}

impl Engine {
    /// Executes a query here if it is light.
    pub(super) fn start_query(
        &self,
        query: Arc<BoundQuery>,
        options: &QueryOptions,
    ) -> Result<FastPath, EngineError> {
        if Engine::may_run_here(query.prepared()) {
            let run = AssertUnwindSafe(|| {
                self.execute_here(query.prepared(), options, |view, execution| {
                    query.run(Invocation::new(view, execution)).map(Arc::new)
                })
            });
            let result = catch_unwind(run).unwrap_or_else(|_| Err(panicked()));
            if let Some(executed) = result? {
                self.inner.counters.stripe().answered(executed.execution);
                let dictionary = self.inner.store.dictionary_arc();
                return Ok(FastPath::Answered(executed.into_results(dictionary)));
            }
        }
        Ok(FastPath::Deferred(
            self.deferred(Wanted::Query(query), options)?,
        ))
    }

    /// Returns a query for the pool, with a place among those that run there or wait.
    ///
    /// # Errors
    /// No place is left.
    pub(super) fn deferred(
        &self,
        query: Wanted,
        options: &QueryOptions,
    ) -> Result<DeferredQuery, EngineError> {
        let limit = self.inner.config.limits.concurrent_queries;
        if !self.inner.permits.acquire() {
            return Err(EngineError::Limit {
                which: LimitKind::ConcurrentQueries,
                message: format!(
                    "{limit} one-shot queries are running or waiting, as many as there may be; try again, or raise the limit (concurrent_queries)"
                ),
            });
        }
        Ok(DeferredQuery {
            engine: self.clone(),
            query,
            options: options.clone(),
            asked: Instant::now(),
        })
    }

    /// Returns why a query failed; a query cancelled by its caller is distinguished from the
    /// engine's end, and a missing right from a network that is switched off.
    fn query_error(&self, options: &QueryOptions, error: QueryError) -> EngineError {
        match error {
            QueryError::Cancelled if options.is_given_up() => EngineError::Cancelled,
            error => self.evaluation_error(error),
        }
    }

    /// Returns why an evaluation failed; a missing right is distinguished from a network that is
    /// switched off.
    pub(super) fn evaluation_error(&self, error: QueryError) -> EngineError {
        match error {
            QueryError::RemoteNotAllowed { .. }
                if self.inner.config.allow_remote
                    && !self.access.allows(RightKind::Remote, None) =>
            {
                missing_right(RightKind::Remote, None)
            }
            error => error.into(),
        }
    }

    /// Whether a query may be tried on its caller's thread.
    pub(super) fn may_run_here(prepared: &Prepared) -> bool {
        prepared.depth() <= DEPTH && prepared.is_light()
    }

    /// Executes a query on its caller's thread; returns `None` if the budget is used up.
    pub(super) fn execute_here(
        &self,
        prepared: &Prepared,
        options: &QueryOptions,
        run: impl FnOnce(&dyn GraphView, &Execution) -> Result<Arc<QueryAnswer>, QueryError>,
    ) -> Result<Option<Executed>, EngineError> {
        let started = Instant::now();
        let deadline_ms = self.pin_deadline(started, self.query_time(options.timeout));
        let held = self.inner.counters.one_shot.store();
        let snapshot = held.pin_stable(deadline_ms);
        let sn = snapshot.sn();
        let environment = &self.inner.environment;
        let execution = environment.execution_in_place(environment.stable_time(), ONE_SHOT);
        let execution = self.keyed(execution, options.timeout, options.result_rows);
        let mut execution = self.restricted(execution);
        let budget = self.inner.config.in_place_time;
        execution.budget = Some(budget);
        let view = |dataset| SnapshotView::new(snapshot, Vec::new(), dataset);
        execution.started = Some(started);
        match self.execute_on((sn, view), prepared, options, execution, run) {
            Ok(executed) => {
                prepared.note_in_place(executed.execution < budget.saturating_mul(FAR_BEYOND));
                Ok(Some(executed))
            }
            Err(QueryError::OverBudget | QueryError::Memory { .. }) => Ok(None),
            Err(error) => Err(self.query_error(options, error)),
        }
    }

    /// Executes a query on a thread of the pool.
    fn execute_there(&self, deferred: &DeferredQuery) -> Result<QueryResults, EngineError> {
        let options = &deferred.options;
        if options.is_given_up() {
            return Err(EngineError::Cancelled);
        }
        let query = match &deferred.query {
            Wanted::Query(query) => Arc::clone(query),
            Wanted::Text(text) => {
                let cached = self.cached(text, options.base.as_deref(), |parser| parser)?;
                cached.expect("only a quick parser gives up")
            }
        };
        let started = Instant::now();
        let time = self.query_time(options.timeout);
        let deadline_ms = self.pin_deadline(started, time);
        // It may take long, so it keeps no memory but what it is reading.
        let hold = self.inner.store.hold_stable_until(deadline_ms);
        let sn = hold.sn();
        let mut execution = self.one_shot_execution(options.timeout, options.result_rows);
        execution.deadline = deferred.asked.checked_add(time);
        execution.started = Some(started);
        let run = |view: &dyn GraphView, execution: &Execution| {
            query.run(Invocation::new(view, execution)).map(Arc::new)
        };
        let view = |dataset| HeldView::new(hold, dataset);
        let executed = self.execute_on((sn, view), query.prepared(), options, execution, run);
        let executed = executed.map_err(|error| self.query_error(options, error))?;
        Ok(executed.into_results(self.inner.store.dictionary_arc()))
    }

    /// Executes a query on a view of an SN, which is made with the query's dataset.
    fn execute_on<V: GraphView>(
        &self,
        (sn, view): (Sn, impl FnOnce(Arc<Dataset>) -> V),
        prepared: &Prepared,
        options: &QueryOptions,
        mut execution: Execution,
        run: impl FnOnce(&dyn GraphView, &Execution) -> Result<Arc<QueryAnswer>, QueryError>,
    ) -> Result<Executed, QueryError> {
        let started = execution.started.unwrap_or_else(Instant::now);
        execution.abandoned = options.cancel.as_ref().map(CancelToken::flag);
        let clause = options.dataset(&prepared.query().dataset);
        let view = view(self.dataset(&clause));
        let answer = run(&view, &execution)?;
        Ok(Executed {
            answer,
            sn,
            execution: started.elapsed(),
        })
    }

    /// Returns the dataset of a query, without the graphs that this handle may not read.
    pub(super) fn dataset(&self, clause: &DatasetClause) -> Arc<Dataset> {
        let dictionary = self.inner.store.dictionary_arc();
        match self.access.graph_rights() {
            None if !clause.present => Arc::clone(self.inner.counters.one_shot.stored()),
            None => Arc::new(Dataset::of_clause(clause, dictionary)),
            Some(rights) => {
                let dataset = Dataset::of_clause(clause, dictionary);
                Arc::new(dataset.narrowed(rights, dictionary))
            }
        }
    }

    /// Returns the time limit of a query that sets this limit.
    pub(super) fn query_time(&self, own: Option<Duration>) -> Duration {
        own.unwrap_or(self.inner.config.limits.query_time)
    }

    /// Returns the parameters of a query on the snapshot that was just pinned: NOW() is that
    /// snapshot's time.
    pub(super) fn one_shot_execution(
        &self,
        timeout: Option<Duration>,
        rows: Option<u64>,
    ) -> Execution {
        self.restricted(self.unrestricted_execution(timeout, rows))
    }

    /// Returns the parameters of the execution of a text that runs with the rights of its
    /// declaration.
    pub(super) fn unrestricted_execution(
        &self,
        timeout: Option<Duration>,
        rows: Option<u64>,
    ) -> Execution {
        let environment = &self.inner.environment;
        let execution = environment.execution(environment.stable_time(), ONE_SHOT);
        self.keyed(execution, timeout, rows)
    }

    /// Limits an execution to the rights of this handle.
    fn restricted(&self, mut execution: Execution) -> Execution {
        execution.graph_rights = self.access.graph_rights().cloned();
        if !self.access.allows(RightKind::Remote, None) {
            execution.remote = None;
        }
        execution
    }

    fn keyed(
        &self,
        mut execution: Execution,
        timeout: Option<Duration>,
        rows: Option<u64>,
    ) -> Execution {
        execution.close = self.inner.counters.one_shot.key();
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
