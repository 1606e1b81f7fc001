//! OPTIONAL with a plan that starts by itself: a left join by hash, and filters on what it makes.

use crate::algebra::error::QueryError;
use crate::algebra::varset::VarSet;
use crate::context::table::Table;
use crate::exec::join;
use crate::exec::names::Names;
use crate::exec::operators::{Child, Input, PhysicalOperator};
use crate::exec::run::Runner;
use crate::exec::step::Plan;

/// Extends the rows by those of a plan that starts by itself, where the filters let them through.
#[derive(Debug)]
pub(crate) struct OptionalJoin {
    pub(crate) plan: Plan,
    pub(crate) shared: VarSet,
    pub(crate) yields: VarSet,
    pub(crate) filters: Plan,
}

impl PhysicalOperator for OptionalJoin {
    fn binds(&self, bound: &mut VarSet) {
        bound.extend(&self.yields);
    }

    fn mentioned(&self) -> VarSet {
        let own = self.shared.union(&self.yields);
        own.union(&self.filters.mentioned)
    }

    fn prune(&mut self, needed: VarSet, once: bool) -> VarSet {
        let needed = self.filters.prune(&needed, once);
        let inner = needed.intersection(&self.yields).union(&self.shared);
        self.plan.prune(&inner, once);
        needed.union(&self.shared)
    }

    fn children(&self) -> Vec<Child<'_>> {
        let mut children = vec![Child::alone(&self.plan)];
        if !self.filters.steps.is_empty() {
            let filters = Child::from_rows(&self.filters).labelled("on:");
            children.push(filters.with(&self.yields));
        }
        children
    }

    fn explain(&self, names: &Names<'_>, _bound: &VarSet) -> String {
        format!("optional join on ({})", names.list(self.shared.iter()))
    }

    fn run(&self, input: Input<'_>, runner: &mut Runner<'_, '_>) -> Result<Table, QueryError> {
        let Input { table, step, .. } = input;
        let right = runner.alone(&self.plan, &table)?;
        let mut numbered = table.copy(runner.workspace);
        numbered.number(runner.workspace);
        let needed = self.filters.input.union(&step.keep);
        let joined = runner.join(numbered, right, &self.shared, &needed)?;
        let held = table.bytes();
        runner.limiter.reserve(held)?;
        let matched = runner.run(&self.filters, joined)?;
        runner.limiter.release(held);
        let count = table.rows;
        join::extended(
            table,
            matched,
            None,
            count,
            &step.keep,
            runner.limiter,
            runner.workspace,
        )
    }
}
