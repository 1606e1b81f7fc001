//! VALUES: joins the rows with rows of constants.

use crate::algebra::error::QueryError;
use crate::algebra::logical::Values;
use crate::algebra::varset::VarSet;
use crate::context::table::Table;
use crate::exec::names::Names;
use crate::exec::operators::{Input, PhysicalOperator};
use crate::exec::run::Runner;
use somersault_model::TermId;
use std::sync::Arc;

/// Joins the rows with constants.
#[derive(Debug)]
pub(crate) struct JoinValues(pub(crate) Arc<Values>);

impl PhysicalOperator for JoinValues {
    fn binds(&self, bound: &mut VarSet) {
        bound.extend(&self.mentioned());
    }

    fn mentioned(&self) -> VarSet {
        VarSet::of(self.0.variables.iter().copied())
    }

    fn may_split(&self) -> bool {
        true
    }

    fn explain(&self, names: &Names<'_>, _bound: &VarSet) -> String {
        let Values { variables, rows } = &*self.0;
        let variables = names.list(variables.iter().copied());
        format!("values ({variables}) {} rows", rows.len())
    }

    fn run(&self, input: Input<'_>, runner: &mut Runner<'_, '_>) -> Result<Table, QueryError> {
        let Input { table, step, .. } = input;
        let Values { variables, rows } = &*self.0;
        let constants = &runner.evaluation.constants;
        let columns = variables.iter().enumerate().map(|(at, variable)| {
            let ids =
                (rows.iter()).map(|row| row[at].map_or(TermId::UNBOUND, |c| constants[c.index()]));
            (*variable, ids.collect())
        });
        let right = Table::of(columns, rows.len());
        runner.join(table, right, &self.mentioned(), &step.keep)
    }
}
