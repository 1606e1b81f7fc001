//! Drops the rows that a plan finds something for: NOT EXISTS, and MINUS where that is the same.

use crate::algebra::error::QueryError;
use crate::algebra::varset::VarSet;
use crate::context::table::Table;
use crate::exec::names::Names;
use crate::exec::operators::{Child, Input, PhysicalOperator};
use crate::exec::run::Runner;
use crate::exec::step::Plan;

/// Drops the rows that the plan finds something for.
#[derive(Debug)]
pub(crate) struct AntiSemi {
    pub(crate) plan: Plan,
}

impl PhysicalOperator for AntiSemi {
    fn mentioned(&self) -> VarSet {
        self.plan.mentioned.clone()
    }

    fn prune(&mut self, needed: VarSet, _once: bool) -> VarSet {
        let read = self.plan.prune(&VarSet::new(), true);
        needed.union(&read)
    }

    fn may_split(&self) -> bool {
        self.plan.is_by_part()
    }

    fn may_multiply(&self) -> bool {
        false
    }

    fn children(&self) -> Vec<Child<'_>> {
        vec![Child::from_rows(&self.plan)]
    }

    fn explain(&self, _names: &Names<'_>, _bound: &VarSet) -> String {
        "without".to_owned()
    }

    fn run(&self, input: Input<'_>, runner: &mut Runner<'_, '_>) -> Result<Table, QueryError> {
        let Input { table, step, .. } = input;
        let found = runner.matched(&self.plan, &table)?;
        Ok(runner.select(table, &step.keep, |row| !found[row]))
    }
}
