//! Binds one variable to the vertices that several patterns allow together. The lists are compared
//! in `exec::intersect`, the shortest first.

use crate::algebra::error::QueryError;
use crate::algebra::logical::QuadPattern;
use crate::algebra::varset::VarSet;
use crate::context::table::Table;
use crate::exec::intersect;
use crate::exec::names::Names;
use crate::exec::operators::{Input, PhysicalOperator};
use crate::exec::run::Runner;
use somersault_lang::VarId;

/// Binds one variable to what all these patterns allow: shortest list first, the others checked.
#[derive(Debug)]
pub(crate) struct Intersect {
    pub(crate) variable: VarId,
    pub(crate) patterns: Vec<QuadPattern>,
}

impl PhysicalOperator for Intersect {
    fn binds(&self, bound: &mut VarSet) {
        bound.insert(self.variable);
    }

    fn mentioned(&self) -> VarSet {
        let patterns = self.patterns.iter();
        patterns.fold(VarSet::new(), |set, pattern| {
            set.union(&pattern.variables())
        })
    }

    fn may_split(&self) -> bool {
        true
    }

    fn may_leave_ends_open(&self) -> bool {
        true
    }

    fn explain(&self, names: &Names<'_>, _bound: &VarSet) -> String {
        let patterns: Vec<String> = self.patterns.iter().map(|p| names.pattern(p)).collect();
        let variable = names.variable(self.variable);
        format!("intersect {variable} in {}", patterns.join(" and "))
    }

    fn run(&self, input: Input<'_>, runner: &mut Runner<'_, '_>) -> Result<Table, QueryError> {
        let explorer = &mut runner.explorer(input.step, input.wanted);
        let Intersect { variable, patterns } = self;
        intersect::intersect(explorer, *variable, patterns, input.table)
    }
}
