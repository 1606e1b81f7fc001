//! Puts the rows in the order of their terms, before a step that draws something for each (S6).

use crate::algebra::error::QueryError;
use crate::algebra::varset::VarSet;
use crate::context::table::Table;
use crate::exec::names::Names;
use crate::exec::operators::PhysicalOperator;
use crate::exec::run::Runner;
use crate::exec::step::Step;
use crate::exec::term_order::in_order;

/// Puts the rows in the order of their terms, for a step that draws something for each (S6).
#[derive(Debug)]
pub(crate) struct InTermOrder;

impl PhysicalOperator for InTermOrder {
    fn binds(&self, _bound: &mut VarSet) {}

    fn mentioned(&self) -> VarSet {
        VarSet::new()
    }

    fn prune(&mut self, needed: VarSet, _once: bool) -> VarSet {
        needed
    }

    fn explain(&self, _names: &Names<'_>, _bound: &VarSet) -> String {
        "in the order of terms".to_owned()
    }

    fn run(
        &self,
        _step: &Step,
        table: Table,
        _wanted: usize,
        runner: &mut Runner<'_, '_>,
    ) -> Result<Table, QueryError> {
        in_order(runner.evaluation, runner.limiter, table, runner.workspace)
    }
}
