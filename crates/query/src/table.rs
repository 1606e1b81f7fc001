//! The binding table: columns of ids, one per variable that has values. The one thing to know before
//! changing it: a column that is there may still hold [`TermId::UNBOUND`] in some rows.

use crate::varset::VarSet;
use somersault_lang::VarId;
use somersault_model::TermId;

/// Intermediate solutions, in columns.
#[derive(Debug, Clone, Default)]
pub(crate) struct Table {
    columns: Vec<Option<Vec<TermId>>>,
    pub(crate) rows: usize,
    /// Which row of the table that a sub-plan started from each row came from.
    pub(crate) origin: Option<Vec<u32>>,
}

impl Table {
    /// The one empty solution.
    pub(crate) fn unit() -> Table {
        Table {
            columns: Vec::new(),
            rows: 1,
            origin: None,
        }
    }

    /// No solution, in the place of this table.
    pub(crate) fn empty_like(table: &Table) -> Table {
        Table {
            origin: table.origin.as_ref().map(|_| Vec::new()),
            ..Table::default()
        }
    }

    /// A table with these columns, all of the same length.
    pub(crate) fn of(
        columns: impl IntoIterator<Item = (VarId, Vec<TermId>)>,
        rows: usize,
    ) -> Table {
        let mut table = Table {
            rows,
            ..Table::default()
        };
        for (variable, column) in columns {
            table.set(variable, column);
        }
        table
    }

    #[inline]
    pub(crate) fn get(&self, variable: VarId, row: usize) -> TermId {
        match self.columns.get(variable.index()) {
            Some(Some(column)) => column[row],
            _ => TermId::UNBOUND,
        }
    }

    #[inline]
    pub(crate) fn column(&self, variable: VarId) -> Option<&[TermId]> {
        self.columns.get(variable.index())?.as_deref()
    }

    pub(crate) fn take(&mut self, variable: VarId) -> Option<Vec<TermId>> {
        self.columns.get_mut(variable.index())?.take()
    }

    pub(crate) fn set(&mut self, variable: VarId, column: Vec<TermId>) {
        debug_assert_eq!(column.len(), self.rows);
        let at = variable.index();
        if self.columns.len() <= at {
            self.columns.resize_with(at + 1, || None);
        }
        self.columns[at] = Some(column);
    }

    pub(crate) fn present(&self) -> impl Iterator<Item = (VarId, &[TermId])> {
        self.columns
            .iter()
            .enumerate()
            .filter_map(|(at, column)| Some((VarId(at as u32), column.as_deref()?)))
    }

    /// Drops every column that is not wanted.
    pub(crate) fn keep(&mut self, wanted: &VarSet) {
        for (at, column) in self.columns.iter_mut().enumerate() {
            if column.is_some() && !wanted.contains(VarId(at as u32)) {
                *column = None;
            }
        }
    }

    /// The rows with these numbers, in this order, repeats and all.
    pub(crate) fn gather(mut self, parents: &[u32]) -> Table {
        if parents.len() == self.rows && is_identity(parents) {
            return self;
        }
        for column in self.columns.iter_mut().flatten() {
            *column = parents.iter().map(|row| column[*row as usize]).collect();
        }
        if let Some(origin) = &mut self.origin {
            *origin = parents.iter().map(|row| origin[*row as usize]).collect();
        }
        self.rows = parents.len();
        self
    }

    /// The rows with these numbers, as a table of its own.
    pub(crate) fn select(&self, rows: &[u32]) -> Table {
        let pick = |ids: &Vec<TermId>| rows.iter().map(|row| ids[*row as usize]).collect();
        Table {
            columns: self
                .columns
                .iter()
                .map(|column| column.as_ref().map(pick))
                .collect(),
            rows: rows.len(),
            origin: self
                .origin
                .as_ref()
                .map(|origin| rows.iter().map(|row| origin[*row as usize]).collect()),
        }
    }

    /// The rows from `from` on, `count` at most.
    pub(crate) fn slice(&mut self, from: usize, count: Option<usize>) {
        let from = from.min(self.rows);
        let count = count.unwrap_or(usize::MAX).min(self.rows - from);
        for column in self.columns.iter_mut().flatten() {
            column.drain(..from);
            column.truncate(count);
        }
        if let Some(origin) = &mut self.origin {
            origin.drain(..from);
            origin.truncate(count);
        }
        self.rows = count;
    }

    /// Adds the rows of another table below; columns that one of them lacks are unbound there.
    pub(crate) fn append(&mut self, other: Table) {
        let total = self.rows + other.rows;
        let mut theirs = other.columns;
        if self.columns.len() < theirs.len() {
            self.columns.resize_with(theirs.len(), || None);
        }
        for (at, column) in self.columns.iter_mut().enumerate() {
            match (column.as_mut(), theirs.get_mut(at).and_then(Option::take)) {
                (Some(column), Some(more)) => column.extend(more),
                (Some(column), None) => column.resize(total, TermId::UNBOUND),
                (None, Some(more)) => {
                    let mut fresh = vec![TermId::UNBOUND; self.rows];
                    fresh.extend(more);
                    *column = Some(fresh);
                }
                (None, None) => {}
            }
        }
        match (&mut self.origin, other.origin) {
            (Some(origin), Some(more)) => origin.extend(more),
            (None, None) => {}
            _ => unreachable!("tables of one plan agree on having an origin"),
        }
        self.rows = total;
    }

    /// Memory of the ids.
    pub(crate) fn bytes(&self) -> usize {
        self.rows * (8 * self.columns.iter().flatten().count() + 4)
    }
}

fn is_identity(parents: &[u32]) -> bool {
    parents
        .iter()
        .enumerate()
        .all(|(at, row)| at == *row as usize)
}
