//! Binds or checks the name of a named graph, for `GRAPH name {}`.

use crate::algebra::error::QueryError;
use crate::algebra::logical::Position;
use crate::algebra::varset::VarSet;
use crate::context::table::Table;
use crate::exec::names::Names;
use crate::exec::operators::{Input, PhysicalOperator};
use crate::exec::row_scan;
use crate::exec::run::Runner;

/// Binds or checks the name of a named graph.
#[derive(Debug)]
pub(crate) struct GraphName(pub(crate) Position);

impl PhysicalOperator for GraphName {
    fn binds(&self, bound: &mut VarSet) {
        bound.extend(&self.mentioned());
    }

    fn mentioned(&self) -> VarSet {
        VarSet::of(self.0.variable())
    }

    fn may_split(&self) -> bool {
        true
    }

    fn explain(&self, names: &Names<'_>, _bound: &VarSet) -> String {
        format!("graph {}", names.position(self.0))
    }

    fn run(&self, input: Input<'_>, runner: &mut Runner<'_, '_>) -> Result<Table, QueryError> {
        let explorer = &mut runner.explorer(input.step, input.wanted);
        row_scan::graph_name(explorer, self.0, input.table)
    }
}
