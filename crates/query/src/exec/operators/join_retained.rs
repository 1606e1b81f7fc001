//! Joins the rows with rows or groups that an incremental query retains between executions.

use crate::algebra::error::QueryError;
use crate::algebra::logical::RetainedScan;
use crate::algebra::varset::VarSet;
use crate::context::table::Table;
use crate::exec::names::Names;
use crate::exec::operators::{Input, PhysicalOperator};
use crate::exec::run::Runner;
use somersault_lang::VarId;

/// Joins the rows with those that are retained from one execution to the next.
#[derive(Debug)]
pub(crate) struct JoinRetained(pub(crate) RetainedScan);

impl PhysicalOperator for JoinRetained {
    fn binds(&self, bound: &mut VarSet) {
        bound.extend(&self.mentioned());
    }

    fn mentioned(&self) -> VarSet {
        VarSet::of(self.0.variables.iter().copied())
    }

    fn explain(&self, names: &Names<'_>, _bound: &VarSet) -> String {
        format!(
            "maintained ({})",
            names.list(self.0.variables.iter().copied())
        )
    }

    fn run(&self, input: Input<'_>, runner: &mut Runner<'_, '_>) -> Result<Table, QueryError> {
        let Input { table, step, .. } = input;
        let RetainedScan { number, variables } = &self.0;
        let held = &runner.evaluation.maintained[*number];
        if table.rows == 1 && !table.is_numbered_or_wide() {
            let wanted: Vec<VarId> = (variables.iter().copied())
                .filter(|variable| step.keep.contains(*variable))
                .collect();
            let bytes = held.rows * (8 * wanted.len() + 4);
            runner.limiter.check_memory(bytes)?;
            return Ok(held.of_columns(&wanted, runner.workspace));
        }
        runner.limiter.check_memory(held.bytes() + table.bytes())?;
        let right = held.of_columns(variables, runner.workspace);
        runner.join(table, right, &self.mentioned(), &step.keep)
    }
}
