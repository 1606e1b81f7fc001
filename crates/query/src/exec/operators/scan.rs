//! Reads one triple pattern for every row: from an index vertex, along an edge, or as a check that
//! the edge is there. The work is in `explore` and `row_scan`.

use crate::algebra::error::QueryError;
use crate::algebra::logical::QuadPattern;
use crate::algebra::varset::VarSet;
use crate::context::table::Table;
use crate::exec::explore;
use crate::exec::names::Names;
use crate::exec::operators::{Input, PhysicalOperator};
use crate::exec::run::Runner;

/// Reads a pattern for every row: from an index vertex, along an edge, or as a check.
#[derive(Debug)]
pub(crate) struct Scan(pub(crate) QuadPattern);

impl PhysicalOperator for Scan {
    fn binds(&self, bound: &mut VarSet) {
        bound.extend(&self.0.variables());
    }

    fn mentioned(&self) -> VarSet {
        self.0.variables()
    }

    fn may_split(&self) -> bool {
        true
    }

    fn may_leave_ends_open(&self) -> bool {
        true
    }

    fn explain(&self, names: &Names<'_>, bound: &VarSet) -> String {
        format!("{} {}", reading(&self.0, bound), names.pattern(&self.0))
    }

    fn run(&self, input: Input<'_>, runner: &mut Runner<'_, '_>) -> Result<Table, QueryError> {
        let explorer = &mut runner.explorer(input.step, input.wanted);
        explore::scan(explorer, &self.0, input.table)
    }
}

/// The way a pattern is read where these variables have values: from an index vertex or one list,
/// along an edge from each row, or as a test whether the edge exists.
fn reading(pattern: &QuadPattern, bound: &VarSet) -> &'static str {
    let variables = pattern.variables();
    if variables.is_subset(bound) {
        "check"
    } else if variables.is_disjoint(bound) {
        "scan"
    } else {
        "expand"
    }
}
