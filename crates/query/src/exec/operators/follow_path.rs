//! Follows a property path from each row. The walk is in `exec::path`.

use crate::algebra::error::QueryError;
use crate::algebra::logical::PathPattern;
use crate::algebra::varset::VarSet;
use crate::context::table::Table;
use crate::exec::names::Names;
use crate::exec::operators::{Input, PhysicalOperator};
use crate::exec::path;
use crate::exec::run::Runner;
use std::sync::Arc;

/// Follows a property path.
#[derive(Debug)]
pub(crate) struct FollowPath(pub(crate) Arc<PathPattern>);

impl PhysicalOperator for FollowPath {
    fn binds(&self, bound: &mut VarSet) {
        bound.extend(&self.0.variables());
    }

    fn mentioned(&self) -> VarSet {
        self.0.variables()
    }

    fn may_split(&self) -> bool {
        true
    }

    fn explain(&self, names: &Names<'_>, _bound: &VarSet) -> String {
        let pattern = &self.0;
        format!(
            "path {} {} {}{}",
            names.position(pattern.subject),
            names.path(&pattern.path),
            names.position(pattern.object),
            names.graph(pattern.graph)
        )
    }

    fn run(&self, input: Input<'_>, runner: &mut Runner<'_, '_>) -> Result<Table, QueryError> {
        let explorer = &mut runner.explorer(input.step, input.wanted);
        path::follow(explorer, &self.0, input.table)
    }
}
