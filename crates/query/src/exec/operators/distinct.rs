//! DISTINCT. The rows are told apart in `exec::distinct_rows`.

use crate::algebra::error::QueryError;
use crate::algebra::varset::VarSet;
use crate::context::table::Table;
use crate::exec::distinct_rows::distinct_rows;
use crate::exec::names::Names;
use crate::exec::operators::{Input, PhysicalOperator};
use crate::exec::run::Runner;
use somersault_lang::VarId;

/// Drops repeats of these columns together.
#[derive(Debug)]
pub(crate) struct Distinct(pub(crate) VarSet);

impl PhysicalOperator for Distinct {
    fn binds(&self, bound: &mut VarSet) {
        *bound = self.0.clone();
    }

    fn mentioned(&self) -> VarSet {
        self.0.clone()
    }

    fn prune(&mut self, _needed: VarSet, _once: bool) -> VarSet {
        self.0.clone()
    }

    fn may_drop_repeats(&self, _once: bool) -> bool {
        true
    }

    fn explain(&self, names: &Names<'_>, _bound: &VarSet) -> String {
        format!("distinct ({})", names.list(self.0.iter()))
    }

    fn run(&self, input: Input<'_>, runner: &mut Runner<'_, '_>) -> Result<Table, QueryError> {
        let Input { table, step, .. } = input;
        let variables: Vec<VarId> = self.0.iter().collect();
        let (_, firsts) = distinct_rows(&table, &variables, runner.limiter)?;
        Ok(table.gather(&firsts, &step.keep, runner.workspace))
    }
}
