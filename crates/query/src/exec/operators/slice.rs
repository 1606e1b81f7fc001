//! LIMIT and OFFSET.

use crate::algebra::error::QueryError;
use crate::algebra::varset::VarSet;
use crate::context::table::Table;
use crate::exec::names::Names;
use crate::exec::operators::PhysicalOperator;
use crate::exec::run::Runner;
use crate::exec::step::Step;

/// Passes over the first rows, and keeps some.
#[derive(Debug)]
pub(crate) struct Slice {
    pub(crate) offset: usize,
    pub(crate) limit: Option<usize>,
}

impl PhysicalOperator for Slice {
    fn binds(&self, _bound: &mut VarSet) {}

    fn mentioned(&self) -> VarSet {
        VarSet::new()
    }

    fn prune(&mut self, needed: VarSet, _once: bool) -> VarSet {
        needed
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

    fn run(
        &self,
        _step: &Step,
        mut table: Table,
        _wanted: usize,
        _runner: &mut Runner<'_, '_>,
    ) -> Result<Table, QueryError> {
        table.slice(self.offset, self.limit);
        Ok(table)
    }
}
