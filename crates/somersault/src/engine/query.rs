//! One-shot queries and updates: evaluated on the stable snapshot, on the query pool or, for an
//! update, by the sequencer itself with nothing between (S15).

use super::{Engine, QueryOptions, QueryResults, UpdateOptions, UpdateSummary};
use crate::answer::Answer;
use crate::continuous::continuous_dataset;
use crate::error::{EngineError, LimitKind};
use crossbeam_channel::bounded;
use parking_lot::Mutex;
use somersault_lang::{DatasetClause, Update};
use somersault_model::{BatchNumber, EventTime, QueryUid};
use somersault_query::{
    Dataset, Effects, Execution, Prepared, SnapshotView, Using, evaluate_update,
};
use somersault_runtime::{Class, UpdateJob, UpdateResult, window_version};
use somersault_store::{Snapshot, WindowVersion};
use somersault_stream::{QueryDeclaration, WindowBatches};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// The uids under which one-shot queries and updates key their random functions; no registration
/// ever gets so far.
const ONE_SHOT: QueryUid = QueryUid(u64::MAX);
const UPDATE: QueryUid = QueryUid(u64::MAX - 1);

/// A pin outlives the query's own limit a little: the query should hit its limit first.
const PIN_SLACK_MS: i64 = 1_000;

impl Engine {
    /// Answers a SPARQL query on the stable snapshot.
    ///
    /// # Errors
    /// It does not parse, or hits a limit; see [`EngineError`].
    pub fn query(&self, text: &str, options: &QueryOptions) -> Result<QueryResults, EngineError> {
        let counters = &self.inner.counters;
        let result = self.run_query(text, options);
        match &result {
            Ok(results) => {
                counters.one_shot.fetch_add(1, Ordering::Relaxed);
                counters.one_shot_execution.lock().record(results.execution);
            }
            Err(_) => {
                counters.one_shot_failed.fetch_add(1, Ordering::Relaxed);
            }
        }
        result
    }

    fn run_query(&self, text: &str, options: &QueryOptions) -> Result<QueryResults, EngineError> {
        self.check_running()?;
        let prepared = self.prepare(text, options.base.as_deref())?;
        let limits = &self.inner.config.limits;
        if self.inner.pool.one_shots() as u64 >= limits.concurrent_queries {
            return Err(EngineError::Limit {
                which: LimitKind::ConcurrentQueries,
                message: format!(
                    "{} one-shot queries are running or waiting, as many as there may be; try again, or raise the limit (concurrent_queries)",
                    limits.concurrent_queries
                ),
            });
        }
        let engine = self.clone();
        let options = options.clone();
        let (reply, answer) = bounded(1);
        self.inner.pool.submit(Class::OneShot, move || {
            let run = AssertUnwindSafe(|| engine.execute(&prepared, &options));
            let result = catch_unwind(run).unwrap_or_else(|_| {
                Err(EngineError::Internal("the evaluation panicked".to_owned()))
            });
            // Given up before the answer is: the last handle must not be dropped by the pool.
            drop(engine);
            let _ = reply.send(result);
        });
        answer.recv().map_err(|_| EngineError::Stopped)?
    }

    fn prepare(&self, text: &str, base: Option<&str>) -> Result<Prepared, EngineError> {
        self.check_text(text)?;
        let key = format!("{}\n{text}", base.unwrap_or_default());
        let parse = || self.parser(base).parse_query(text);
        Ok(self.inner.plans.get_or_prepare(&key, parse)?)
    }

    pub(super) fn check_text(&self, text: &str) -> Result<(), EngineError> {
        let limit = self.inner.config.limits.query_text_bytes;
        if text.len() as u64 > limit {
            return Err(EngineError::Limit {
                which: LimitKind::QueryText,
                message: format!(
                    "the text has {} bytes, more than {limit}; shorten it, load data instead of writing it into an update, or raise the limit (query_text_bytes)",
                    text.len()
                ),
            });
        }
        Ok(())
    }

    /// Runs on a thread of the pool.
    fn execute(
        &self,
        prepared: &Prepared,
        options: &QueryOptions,
    ) -> Result<QueryResults, EngineError> {
        let started = Instant::now();
        let store = &self.inner.store;
        let clause = options.dataset(&prepared.query().dataset);
        let execution = self.one_shot_execution(options.timeout, options.result_rows);
        let snapshot = self.pin_stable(execution.limits.query_time);
        let sn = snapshot.sn().0;
        let dataset = Dataset::of_clause(&clause, store.dictionary());
        let view = SnapshotView::new(snapshot, Vec::new(), dataset);
        let answer = prepared.execute(&view, &execution)?;
        self.inner.standing.count_fallback(prepared);
        Ok(QueryResults {
            answer: Answer::new(answer, Arc::clone(store.dictionary_arc())),
            sn,
            execution: started.elapsed(),
            fallback_reason: prepared.fallback_reason().map(str::to_owned),
        })
    }

    fn one_shot_execution(&self, timeout: Option<Duration>, rows: Option<u64>) -> Execution {
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
        let time_ms = i64::try_from(query_time.as_millis()).unwrap_or(i64::MAX / 4);
        let deadline_ms = self.inner.driver.uptime_ms() + time_ms + PIN_SLACK_MS;
        self.inner.store.pin_stable_until(deadline_ms)
    }

    /// Carries out a SPARQL update and returns when its effects are stable (S15).
    ///
    /// # Errors
    /// It does not parse, is refused, or hits a limit; then it has no effect at all.
    pub fn update(
        &self,
        text: &str,
        options: &UpdateOptions,
    ) -> Result<UpdateSummary, EngineError> {
        self.check_running()?;
        self.check_text(text)?;
        let update = self.parser(options.base.as_deref()).parse_update(text)?;
        let using = options.using();
        let mut execution = self.one_shot_execution(options.timeout, None);
        execution.query = UPDATE;
        let standing = Arc::clone(&self.inner.standing);
        let result = self.evaluate_and_apply(move |snapshot| {
            // NOW() is the time of the SN that it is evaluated at, not of the one when it was sent (S6).
            execution.now = standing.stable_time();
            // Keyed by the SN: no two updates share one, so that their blank nodes differ (S6).
            execution.close = EventTime(snapshot.sn().0 as i64);
            let view = SnapshotView::new(snapshot, Vec::new(), Dataset::stored());
            let effects = evaluate_update(&update, using.as_ref(), view, &execution);
            effects.map_err(EngineError::from)
        })?;
        Ok(result.into())
    }

    /// Has the sequencer evaluate a job on the newest snapshot and apply what it returns; an error of
    /// the job means that nothing happens.
    pub(super) fn evaluate_and_apply(
        &self,
        evaluate: impl FnOnce(Snapshot) -> Result<Effects, EngineError> + Send + 'static,
    ) -> Result<UpdateResult, EngineError> {
        let failure = Arc::new(Mutex::new(None));
        let reported = Arc::clone(&failure);
        let job: UpdateJob = Box::new(move |snapshot| {
            let run = AssertUnwindSafe(|| evaluate(snapshot));
            let result = catch_unwind(run).unwrap_or_else(|_| {
                Err(EngineError::Internal("the evaluation panicked".to_owned()))
            });
            result.map_err(|error| *reported.lock() = Some(error)).ok()
        });
        let result = self.inner.driver.update(job)?;
        if let Some(error) = failure.lock().take() {
            return Err(error);
        }
        self.inner.counters.updates.fetch_add(1, Ordering::Relaxed);
        Ok(result)
    }

    /// Says how a one-shot or continuous query would be run; with `analyze` it is also run, and actual rows are shown.
    /// A continuous query is explained over the windows of its latest close.
    ///
    /// # Errors
    /// It does not parse, or with `analyze` hits a limit.
    pub fn explain(
        &self,
        text: &str,
        options: &QueryOptions,
        analyze: bool,
    ) -> Result<String, EngineError> {
        self.check_running()?;
        self.check_text(text)?;
        let parser = self.parser(options.base.as_deref());
        let one_shot = match parser.parse_query(text) {
            Ok(_) => self.prepare(text, options.base.as_deref())?,
            Err(error) => {
                return match parser.parse_continuous(text) {
                    Ok(query) => self.explain_continuous(&query, options, analyze),
                    Err(other) if is_continuous(text) => Err(other.into()),
                    Err(_) => Err(error.into()),
                };
            }
        };
        let clause = options.dataset(&one_shot.query().dataset);
        let dataset = Dataset::of_clause(&clause, self.inner.store.dictionary());
        let mut text = String::new();
        self.explain_on(&one_shot, dataset, Vec::new(), options, analyze, &mut text)?;
        Ok(text)
    }

    fn explain_continuous(
        &self,
        query: &somersault_lang::ContinuousQuery,
        options: &QueryOptions,
        analyze: bool,
    ) -> Result<String, EngineError> {
        let mut text = QueryDeclaration::from(query).explain();
        let windows = query
            .windows
            .iter()
            .map(|window| self.latest_window(query, window))
            .collect();
        let dataset = continuous_dataset(query, &self.inner.store);
        let prepared = Prepared::new(query.query.clone());
        self.explain_on(&prepared, dataset, windows, options, analyze, &mut text)?;
        Ok(text)
    }

    /// The window at its latest close, as far as its slices are still there.
    fn latest_window(
        &self,
        query: &somersault_lang::ContinuousQuery,
        window: &somersault_lang::WindowClause,
    ) -> Arc<WindowVersion> {
        let status = self.inner.driver.stream(window.stream.as_str());
        let Some((status, through)) = status.and_then(|status| {
            let through = status.stable_time?;
            Some((status, through))
        }) else {
            return WindowVersion::empty();
        };
        let (origin, step) = (query.starting_at.0, window.step.0.max(1));
        let close = origin + (through.0 - origin).div_euclid(step) * step;
        let batch = status.declaration.batch;
        let of = |ms: i64| BatchNumber::of(EventTime(ms), batch);
        let in_batches = |ms: i64| (ms / batch.0).max(1);
        window_version(
            &self.inner.store,
            &WindowBatches {
                stream: status.uid,
                lo: of(close - window.range.0),
                hi: of(close),
                range_batches: in_batches(window.range.0),
                step_batches: in_batches(window.step.0),
            },
        )
    }

    fn explain_on(
        &self,
        prepared: &Prepared,
        dataset: Dataset,
        windows: Vec<Arc<WindowVersion>>,
        options: &QueryOptions,
        analyze: bool,
        text: &mut String,
    ) -> Result<(), EngineError> {
        use std::fmt::Write as _;
        let execution = self.one_shot_execution(options.timeout, options.result_rows);
        let snapshot = self.pin_stable(execution.limits.query_time);
        let view = SnapshotView::new(snapshot, windows, dataset);
        let explanation = prepared.explain(&view, &execution, analyze)?;
        let _ = write!(text, "{explanation}");
        Ok(())
    }

    /// Whether a query parses, without evaluating it.
    ///
    /// # Errors
    /// [`EngineError::Parse`] where it does not.
    pub fn check_query_syntax(&self, text: &str, base: Option<&str>) -> Result<(), EngineError> {
        self.parser(base).parse_query(text)?;
        Ok(())
    }

    /// Whether an update parses, without evaluating it.
    ///
    /// # Errors
    /// [`EngineError::Parse`] where it does not.
    pub fn check_update_syntax(&self, text: &str, base: Option<&str>) -> Result<(), EngineError> {
        let _: Update = self.parser(base).parse_update(text)?;
        Ok(())
    }
}

/// Whether a text that does not parse was meant as a continuous query.
fn is_continuous(text: &str) -> bool {
    let upper = text.to_ascii_uppercase();
    upper.contains("REGISTER") || (upper.contains("FROM") && upper.contains("RANGE"))
}

impl QueryOptions {
    /// The dataset of the protocol if it gives one, else the query's own.
    fn dataset(&self, own: &DatasetClause) -> DatasetClause {
        if self.default_graphs.is_empty() && self.named_graphs.is_empty() {
            return own.clone();
        }
        DatasetClause {
            present: true,
            default: self.default_graphs.clone(),
            named: self.named_graphs.clone(),
            all_named: false,
        }
    }
}

impl UpdateOptions {
    fn using(&self) -> Option<Using> {
        if self.using_graphs.is_empty() && self.using_named_graphs.is_empty() {
            return None;
        }
        Some(Using {
            default: self.using_graphs.clone(),
            named: self.using_named_graphs.clone(),
        })
    }
}

impl From<UpdateResult> for UpdateSummary {
    fn from(result: UpdateResult) -> Self {
        UpdateSummary {
            sn: result.sn.0,
            inserted: result.inserted,
            deleted: result.deleted,
        }
    }
}
