//! Evaluation of a live query from the statements that changed since its firing before. The one
//! thing to know before changing it: where that is not possible, or reaches a limit, the whole is
//! evaluated, and the answer is the same.

use crate::resources::{DeltaMode, Settings};
use somersault_lang::ContinuousQuery;
use somersault_model::QuadIds;
use somersault_query::{
    Execution, Prepared, SnapshotView, StoredDelta, StoredDifference, Template,
};
use std::sync::OnceLock;

/// The evaluation of one live query from changed statements.
pub(crate) struct LiveDelta {
    /// Made for the first firing that needs it.
    delta: OnceLock<Result<StoredDelta, &'static str>>,
}

impl LiveDelta {
    /// For a query that is live, unless a setting forbids it.
    pub(crate) fn new(settings: &Settings, query: &ContinuousQuery) -> Option<LiveDelta> {
        let is_possible = query.is_live() && settings.delta != DeltaMode::Never;
        is_possible.then(|| LiveDelta {
            delta: OnceLock::new(),
        })
    }

    /// Returns what came and left between two views, of which these statements may differ; `None`
    /// if the whole has to be evaluated.
    pub(crate) fn difference(
        &self,
        query: &Prepared,
        changed: &[QuadIds],
        (before, now): (&SnapshotView, &SnapshotView),
        execution: &Execution,
    ) -> Option<StoredDifference> {
        let delta = self.delta.get_or_init(|| StoredDelta::new(query, now));
        let delta = delta.as_ref().ok()?;
        delta.run(changed, before, now, execution).ok()
    }
}

/// Returns a line of EXPLAIN that says how a live query is evaluated.
pub(crate) fn explain(settings: &Settings, query: &ContinuousQuery, view: &SnapshotView) -> String {
    let mut compared = query.query.clone();
    if query.operator.compares() {
        Template::split_off(&mut compared);
    }
    let obstacle = match settings.delta {
        DeltaMode::Never => Some("the engine's setting forbids incremental evaluation"),
        DeltaMode::Auto | DeltaMode::Always => {
            StoredDelta::new(&Prepared::new(compared), view).err()
        }
    };
    match obstacle {
        Some(obstacle) => format!("evaluated as a whole at each firing: {obstacle}\n"),
        None => "incremental: what came and left is found from the changed statements; as a whole at the first firing, after a pause, \
                 and where changes of several snapshots were joined\n"
            .to_owned(),
    }
}
