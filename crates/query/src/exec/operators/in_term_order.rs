//! Puts the rows in the order of their terms, before a step that draws something for each (S6).

use crate::algebra::error::QueryError;
use crate::algebra::varset::VarSet;
use crate::context::table::Table;
use crate::exec::names::Names;
use crate::exec::operators::{Input, PhysicalOperator};
use crate::exec::run::Runner;
use crate::exec::term_order::in_order;

/// Puts the rows in the order of their terms, for a step that draws something for each (S6).
#[derive(Debug)]
pub(crate) struct InTermOrder;

impl PhysicalOperator for InTermOrder {
    fn mentioned(&self) -> VarSet {
        VarSet::new()
    }

    fn explain(&self, _names: &Names<'_>, _bound: &VarSet) -> String {
        "in the order of terms".to_owned()
    }

    fn run(&self, input: Input<'_>, runner: &mut Runner<'_, '_>) -> Result<Table, QueryError> {
        let table = input.table;
        in_order(runner.evaluation, runner.limiter, table, runner.workspace)
    }
}
