//! OPTIONAL from the rows so far: each row is extended by what the plan makes of it.

use crate::algebra::error::QueryError;
use crate::algebra::varset::VarSet;
use crate::context::table::Table;
use crate::exec::join;
use crate::exec::names::Names;
use crate::exec::operators::{Child, Input, PhysicalOperator};
use crate::exec::run::Runner;
use crate::exec::step::Plan;

/// Extends the rows by what the plan makes of them; rows that it drops stay as they are.
#[derive(Debug)]
pub(crate) struct Optional {
    pub(crate) plan: Plan,
}

impl PhysicalOperator for Optional {
    fn binds(&self, bound: &mut VarSet) {
        self.plan.binds(bound);
    }

    fn mentioned(&self) -> VarSet {
        self.plan.mentioned.clone()
    }

    fn prune(&mut self, needed: VarSet, once: bool) -> VarSet {
        let read = self.plan.prune(&needed, once);
        needed.union(&read)
    }

    fn may_split(&self) -> bool {
        self.plan.is_by_part()
    }

    /// The plan may make many rows of one, which a UNION in it takes in parts.
    fn keeps_order(&self) -> bool {
        let mut steps = self.plan.steps.iter();
        steps.all(|step| step.kind.operator().keeps_order())
    }

    fn children(&self) -> Vec<Child<'_>> {
        vec![Child::from_rows(&self.plan)]
    }

    fn explain(&self, _names: &Names<'_>, _bound: &VarSet) -> String {
        "optional".to_owned()
    }

    /// Rows in which all is the same that the plan reads are looked at once.
    fn run(&self, input: Input<'_>, runner: &mut Runner<'_, '_>) -> Result<Table, QueryError> {
        let Input { table, step, .. } = input;
        let (mut inputs, groups) = runner.inputs(&table, &self.plan.mentioned)?;
        let count = inputs.rows;
        inputs.number(runner.workspace);
        let held = table.bytes() + groups.as_ref().map_or(0, |groups| groups.len() * 4);
        runner.limiter.reserve(held)?;
        let matched = runner.run(&self.plan, inputs);
        runner.limiter.release(held);
        join::extended(
            table,
            matched?,
            groups.as_deref(),
            count,
            &step.keep,
            runner.limiter,
            runner.workspace,
        )
    }
}
