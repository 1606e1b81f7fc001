//! Joins the rows with the cells of the queries that are evaluated together.

use crate::algebra::error::QueryError;
use crate::algebra::varset::VarSet;
use crate::context::table::Table;
use crate::exec::explore::ROWS_PER_CHECK;
use crate::exec::names::Names;
use crate::exec::operators::{Input, PhysicalOperator};
use crate::exec::run::Runner;
use somersault_lang::VarId;
use somersault_model::TermId;
use std::sync::Arc;

/// Joins the rows with the cells: keeps those with the constants of one, where these variables have
/// values.
#[derive(Debug)]
pub(crate) struct JoinCells(pub(crate) Arc<[VarId]>);

impl PhysicalOperator for JoinCells {
    fn binds(&self, bound: &mut VarSet) {
        bound.extend(&self.mentioned());
    }

    fn mentioned(&self) -> VarSet {
        VarSet::of(self.0.iter().copied())
    }

    fn may_split(&self) -> bool {
        true
    }

    fn explain(&self, names: &Names<'_>, _bound: &VarSet) -> String {
        format!("cells ({})", names.list(self.0.iter().copied()))
    }

    fn run(&self, input: Input<'_>, runner: &mut Runner<'_, '_>) -> Result<Table, QueryError> {
        let Input { table, step, .. } = input;
        let variables = &*self.0;
        let Some(cells) = runner.evaluation.cells else {
            return Ok(Table::empty_like(&table));
        };
        let columns: Option<Vec<&[TermId]>> = variables.iter().map(|v| table.column(*v)).collect();
        let has_all = |columns: &Vec<&[TermId]>| {
            // A branch of a UNION may have left some without a value.
            (columns.iter()).all(|ids| !ids.contains(&TermId::UNBOUND))
        };
        if let Some(columns) = columns.filter(has_all) {
            let mut kept = runner.workspace.rows();
            for first in (0..table.rows).step_by(ROWS_PER_CHECK) {
                runner.limiter.check_interrupt()?;
                let rows = first..(first + ROWS_PER_CHECK).min(table.rows);
                cells.look_up(&columns, rows, |row, cell| {
                    kept.extend(cell.map(|_| row as u32));
                });
            }
            let table = table.gather(&kept, &step.keep, runner.workspace);
            runner.workspace.give_rows(kept);
            return Ok(table);
        }
        let bytes = cells.len() * variables.len() * size_of::<TermId>();
        runner.limiter.check_memory(bytes)?;
        let columns = variables.iter().enumerate().map(|(at, variable)| {
            let mut ids = Vec::with_capacity(cells.len());
            cells.column(at, &mut ids);
            (*variable, ids)
        });
        let all = Table::of(columns, cells.len());
        if table.rows == 1 && !table.is_numbered_or_wide() {
            return Ok(all);
        }
        runner.join(table, all, &self.mentioned(), &step.keep)
    }
}
