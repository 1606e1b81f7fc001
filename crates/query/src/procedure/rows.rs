//! The rows of LET, FOR EACH and ABORT, as ids that the steps after them may use.

use crate::context::table::Table;
use crate::prepared::Prepared;
use crate::prepared::execute::Run;
use crate::procedure::template::Terms;
use somersault_lang::VarId;
use somersault_model::TermId;

/// Rows of a SELECT, one after the other.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    ids: Vec<TermId>,
    width: usize,
    count: usize,
}

/// Where a column of a SELECT comes from.
enum RowSource<'t> {
    /// The table of the execution.
    Table(&'t [TermId]),
    /// The value of a slot, or nothing.
    Same(TermId),
}

impl Rows {
    /// The columns of a SELECT from the table that its execution left.
    pub(crate) fn of(prepared: &Prepared, run: &Run<'_>, table: &Table, terms: Terms<'_>) -> Rows {
        let constants = &run.evaluation.constants;
        let column = |variable: &VarId| match table.column(*variable) {
            Some(column) => RowSource::Table(column),
            None => RowSource::Same(prepared.given(*variable, constants)),
        };
        let projection = prepared.query().projection();
        let columns: Vec<RowSource<'_>> = projection.iter().map(column).collect();
        let mut ids = Vec::with_capacity(table.rows * columns.len());
        for row in 0..table.rows {
            ids.extend(columns.iter().map(|column| match column {
                RowSource::Table(column) => terms.settle(column[row], &run.evaluation.local),
                RowSource::Same(id) => *id,
            }));
        }
        Rows {
            ids,
            width: columns.len(),
            count: table.rows,
        }
    }

    /// Their number.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// The columns of a row.
    pub(crate) fn row(&self, row: usize) -> &[TermId] {
        &self.ids[row * self.width..(row + 1) * self.width]
    }

    /// The bytes that they take.
    pub(crate) fn bytes(&self) -> usize {
        self.ids.len() * size_of::<TermId>()
    }
}
