//! Keeps the rows for which a condition is true. The condition is evaluated in `eval::filter`.

use crate::algebra::error::QueryError;
use crate::algebra::expression::Expr;
use crate::algebra::varset::VarSet;
use crate::context::table::Table;
use crate::eval::filter::Filter;
use crate::exec::names::Names;
use crate::exec::operators::{Input, PhysicalOperator};
use crate::exec::run::Runner;
use std::sync::Arc;

/// Keeps the rows for which the condition is true.
#[derive(Debug)]
pub(crate) struct FilterRows(pub(crate) Arc<Expr>);

impl PhysicalOperator for FilterRows {
    fn mentioned(&self) -> VarSet {
        self.0.variables()
    }

    /// A volatile function has a value for each row of the whole table.
    fn may_split(&self) -> bool {
        !self.is_volatile()
    }

    fn is_volatile(&self) -> bool {
        self.0.is_volatile()
    }

    /// A volatile function gives each row a value of its own.
    fn may_drop_repeats(&self, once: bool) -> bool {
        once && !self.is_volatile()
    }

    fn may_multiply(&self) -> bool {
        false
    }

    fn explain(&self, names: &Names<'_>, _bound: &VarSet) -> String {
        format!("filter {}", names.expr(&self.0))
    }

    fn run(&self, input: Input<'_>, runner: &mut Runner<'_, '_>) -> Result<Table, QueryError> {
        let Input { table, step, .. } = input;
        let mut kept = runner.workspace.rows();
        let mut filter = Filter {
            evaluation: runner.evaluation,
            limiter: runner.limiter,
            workspace: runner.workspace,
            table: &table,
            step: step.number,
        };
        filter.rows_that_hold(&self.0, &mut kept)?;
        let table = table.gather(&kept, &step.keep, runner.workspace);
        runner.workspace.give_rows(kept);
        Ok(table)
    }
}
