//! MINUS with a plan that starts by itself. The comparison of rows is in `exec::join`.

use crate::algebra::error::QueryError;
use crate::algebra::varset::VarSet;
use crate::context::table::Table;
use crate::exec::join;
use crate::exec::names::Names;
use crate::exec::operators::{Child, Input, PhysicalOperator};
use crate::exec::run::Runner;
use crate::exec::step::Plan;

/// Drops the rows that are compatible with one of the plan's, and share a variable with it.
#[derive(Debug)]
pub(crate) struct Minus {
    pub(crate) plan: Plan,
    pub(crate) shared: VarSet,
}

impl PhysicalOperator for Minus {
    fn mentioned(&self) -> VarSet {
        self.shared.clone()
    }

    fn prune(&mut self, needed: VarSet, _once: bool) -> VarSet {
        self.plan.prune(&self.shared, true);
        needed.union(&self.shared)
    }

    fn children(&self) -> Vec<Child<'_>> {
        vec![Child::alone(&self.plan)]
    }

    fn explain(&self, names: &Names<'_>, _bound: &VarSet) -> String {
        format!("minus on ({})", names.list(self.shared.iter()))
    }

    fn run(&self, input: Input<'_>, runner: &mut Runner<'_, '_>) -> Result<Table, QueryError> {
        let Input { table, step, .. } = input;
        let right = runner.alone(&self.plan, &table)?;
        let taken = join::taken(&table, &right, &self.shared, runner.limiter)?;
        Ok(runner.select(table, &step.keep, |row| !taken[row]))
    }
}
