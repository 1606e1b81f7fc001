//! ORDER BY. The sorting is in `exec::sort`.

use crate::algebra::error::QueryError;
use crate::algebra::expression::Expr;
use crate::algebra::varset::VarSet;
use crate::context::table::Table;
use crate::exec::names::Names;
use crate::exec::operators::{Input, PhysicalOperator};
use crate::exec::run::Runner;
use crate::exec::sort;
use std::sync::Arc;

/// Sorts; of the sorted rows nothing after the first `limit` is wanted. With a limit, the order of
/// equal rows is that of their terms (S6).
#[derive(Debug)]
pub(crate) struct OrderBy {
    /// The keys, and whether each is descending.
    pub(crate) keys: Arc<[(Expr, bool)]>,
    pub(crate) limit: Option<usize>,
}

impl PhysicalOperator for OrderBy {
    fn mentioned(&self) -> VarSet {
        let keys = self.keys.iter();
        keys.fold(VarSet::new(), |set, (key, _)| set.union(&key.variables()))
    }

    fn is_volatile(&self) -> bool {
        self.keys.iter().any(|(key, _)| key.is_volatile())
    }

    fn may_drop_repeats(&self, once: bool) -> bool {
        once && self.limit.is_none_or(|limit| limit == usize::MAX)
    }

    fn explain(&self, names: &Names<'_>, _bound: &VarSet) -> String {
        let keys = self.keys.iter().map(|(key, descending)| {
            let key = names.expr(key);
            match descending {
                true => format!("desc {key}"),
                false => key,
            }
        });
        let keys = keys.collect::<Vec<_>>().join(", ");
        match self.limit {
            Some(usize::MAX) => format!("order by {keys}, equal ones by terms"),
            Some(limit) => format!("order by {keys}, first {limit}"),
            None => format!("order by {keys}"),
        }
    }

    fn run(&self, input: Input<'_>, runner: &mut Runner<'_, '_>) -> Result<Table, QueryError> {
        let Input { table, step, .. } = input;
        let OrderBy { keys, limit } = self;
        let order = sort::order(runner.evaluation, runner.limiter, keys, *limit, &table)?;
        Ok(table.gather(&order, &step.keep, runner.workspace))
    }
}
