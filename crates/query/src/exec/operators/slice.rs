//! LIMIT and OFFSET.

use crate::algebra::error::QueryError;
use crate::algebra::varset::VarSet;
use crate::context::table::Table;
use crate::exec::names::Names;
use crate::exec::operators::{Input, PhysicalOperator};
use crate::exec::run::Runner;

/// Passes over the first rows, and keeps some.
#[derive(Debug)]
pub(crate) struct Slice {
    pub(crate) offset: usize,
    pub(crate) limit: Option<usize>,
}

impl PhysicalOperator for Slice {
    fn mentioned(&self) -> VarSet {
        VarSet::new()
    }

    fn may_drop_repeats(&self, _once: bool) -> bool {
        false
    }

    fn explain(&self, _names: &Names<'_>, _bound: &VarSet) -> String {
        let offset = self.offset;
        match self.limit {
            Some(limit) => format!("slice from {offset}, {limit} rows"),
            None => format!("slice from {offset}"),
        }
    }

    fn run(&self, input: Input<'_>, _runner: &mut Runner<'_, '_>) -> Result<Table, QueryError> {
        let mut table = input.table;
        table.slice(self.offset, self.limit);
        Ok(table)
    }
}
