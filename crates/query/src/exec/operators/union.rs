//! UNION: each branch runs from the same rows, and their results follow each other.

use crate::algebra::error::QueryError;
use crate::algebra::varset::VarSet;
use crate::context::table::Table;
use crate::exec::names::Names;
use crate::exec::operators::{Child, Input, PhysicalOperator};
use crate::exec::run::Runner;
use crate::exec::step::Plan;

/// Concatenates what each branch makes of the rows.
#[derive(Debug)]
pub(crate) struct Union(pub(crate) Vec<Plan>);

impl PhysicalOperator for Union {
    fn binds(&self, bound: &mut VarSet) {
        self.0.iter().for_each(|plan| plan.binds(bound));
    }

    fn mentioned(&self) -> VarSet {
        let plans = self.0.iter();
        plans.fold(VarSet::new(), |set, plan| set.union(&plan.mentioned))
    }

    fn prune(&mut self, needed: VarSet, once: bool) -> VarSet {
        self.0.iter_mut().fold(VarSet::new(), |set, plan| {
            set.union(&plan.prune(&needed, once))
        })
    }

    fn may_split(&self) -> bool {
        self.0.iter().all(Plan::is_by_part)
    }

    fn keeps_order(&self) -> bool {
        false
    }

    fn children(&self) -> Vec<Child<'_>> {
        let child = |plan| Child::from_rows(plan).labelled("branch:");
        self.0.iter().map(child).collect()
    }

    fn explain(&self, _names: &Names<'_>, _bound: &VarSet) -> String {
        "union".to_owned()
    }

    fn run(&self, input: Input<'_>, runner: &mut Runner<'_, '_>) -> Result<Table, QueryError> {
        let table = input.table;
        let mut all: Option<Table> = None;
        let mut held = table.bytes();
        runner.limiter.reserve(held)?;
        for plan in &self.0 {
            let start = table.copy(runner.workspace);
            let one = runner.run(plan, start)?;
            let bytes = one.bytes();
            match &mut all {
                Some(all) => all.append(one, runner.workspace),
                None => all = Some(one),
            }
            // The rows so far stay while the next branch runs.
            runner.limiter.reserve(bytes)?;
            held += bytes;
        }
        runner.limiter.release(held);
        Ok(all.unwrap_or_else(|| Table::empty_like(&table)))
    }
}
