//! Joins the rows with those of a plan that starts by itself, by hash. The hashing is in
//! `exec::join`.

use crate::algebra::error::QueryError;
use crate::algebra::varset::VarSet;
use crate::context::table::Table;
use crate::exec::names::Names;
use crate::exec::operators::{Child, Input, PhysicalOperator};
use crate::exec::run::Runner;
use crate::exec::step::Plan;

/// Joins the rows with those of a plan that starts by itself.
#[derive(Debug)]
pub(crate) struct Join {
    pub(crate) plan: Plan,
    pub(crate) shared: VarSet,
    pub(crate) yields: VarSet,
}

impl PhysicalOperator for Join {
    fn binds(&self, bound: &mut VarSet) {
        bound.extend(&self.yields);
    }

    fn mentioned(&self) -> VarSet {
        self.shared.union(&self.yields)
    }

    fn prune(&mut self, needed: VarSet, once: bool) -> VarSet {
        let inner = needed.intersection(&self.yields).union(&self.shared);
        self.plan.prune(&inner, once);
        needed.union(&self.shared)
    }

    fn children(&self) -> Vec<Child<'_>> {
        vec![Child::alone(&self.plan)]
    }

    fn explain(&self, names: &Names<'_>, _bound: &VarSet) -> String {
        format!("join on ({})", names.list(self.shared.iter()))
    }

    fn run(&self, input: Input<'_>, runner: &mut Runner<'_, '_>) -> Result<Table, QueryError> {
        let Input { table, step, .. } = input;
        if table.rows == 0 {
            return Ok(Table::empty_like(&table));
        }
        let right = runner.alone(&self.plan, &table)?;
        runner.join(table, right, &self.shared, &step.keep)
    }
}
