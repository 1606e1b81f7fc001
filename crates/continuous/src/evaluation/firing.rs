//! One firing's execution, over its pinned snapshot and the windows of its close.
//!
//! The one thing to know before changing it: the job's pin and windows are held until the answer is
//! there and no longer. The windows were made earlier, and the store itself keeps only the newest
//! versions; the pin keeps everything since.

use crate::metrics::FiringTimes;
use crate::resources::Resources;
use somersault_query::{Dataset, Execution, QueryError, SnapshotView};
use somersault_runtime::{DueSnapshot, FiringJob};
use somersault_store::{Snapshot, WindowVersion};
use somersault_stream::{ChangedStatements, Firing};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A firing to be executed, and its position in the order of answers.
pub(crate) struct Due {
    pub(crate) job: FiringJob,
    pub(crate) ticket: u64,
}

/// A firing that is being executed.
pub(crate) struct FiringScope<'f> {
    resources: &'f Resources,
    firing: &'f Firing,
    snapshot: Snapshot,
    before: Option<Snapshot>,
    windows: Vec<Arc<WindowVersion>>,
}

impl FiringScope<'_> {
    /// Returns what has changed for a live query since its firing before, with the stored graphs as
    /// they were then; `None` where that is not known.
    pub(crate) fn changed(
        &mut self,
        dataset: &Arc<Dataset>,
    ) -> Option<(Arc<ChangedStatements>, SnapshotView)> {
        let changed = self
            .firing
            .changed
            .clone()
            .filter(|_| !self.firing.repeated)?;
        let before = self.before.take()?;
        Some((
            changed,
            SnapshotView::new(before, Vec::new(), Arc::clone(dataset)),
        ))
    }

    /// Returns the view of a query over this dataset, and the parameters of its execution, which
    /// stops once the query is dropped.
    pub(crate) fn over(
        self,
        dataset: &Arc<Dataset>,
        dropped: &Arc<AtomicBool>,
    ) -> (SnapshotView, Execution) {
        let FiringScope {
            resources,
            firing,
            snapshot,
            windows,
            ..
        } = self;
        let view = SnapshotView::new(snapshot, windows, Arc::clone(dataset));
        let environment = resources.environment();
        let mut execution = environment.execution(firing.close, firing.query);
        execution.close = firing.close;
        execution.abandoned = Some(Arc::clone(dropped));
        execution.limits.query_time = environment.limits().firing_time;
        (view, execution)
    }
}

/// Returns why a firing has no answer, as a sentence.
pub(crate) fn sentence(error: QueryError) -> String {
    match error {
        QueryError::Time { limit } => format!(
            "The firing was stopped after {} ms, the limit on the time of one. Make the query more selective, or raise the limit (firing_time)",
            limit.as_millis()
        ),
        _ => error.to_string(),
    }
}

/// Executes a firing; a panic becomes its error.
pub(crate) fn execute<T>(
    resources: &Resources,
    job: FiringJob,
    evaluate: impl FnOnce(FiringScope<'_>) -> Result<T, String>,
) -> (Firing, Result<T, String>, FiringTimes) {
    let stopwatch = &resources.settings().stopwatch;
    let started = stopwatch.now();
    let mut firing = job.firing.clone();
    let (acknowledged, released) = (job.acknowledged, job.released);
    let execute = || {
        let windows = job.windows(resources.store());
        evaluate(FiringScope {
            resources,
            firing: &firing,
            snapshot: job.snapshot.begin(),
            before: job.before.map(DueSnapshot::begin),
            windows,
        })
    };
    let answer = catch_unwind(AssertUnwindSafe(execute))
        .unwrap_or_else(|_| Err("internal fault: the evaluation panicked".to_owned()));
    let ready = stopwatch.now();
    let took = FiringTimes {
        execution: ready - started,
        delay: ready.saturating_duration_since(acknowledged.unwrap_or(released)),
        waiting: started.saturating_duration_since(released),
    };
    // A kept answer does not need them.
    firing.changed = None;
    (firing, answer, took)
}
