//! The binding table: columns of ids, one per variable that has values. The one thing to know
//! before changing it: a column that is there may still hold [`TermId::UNBOUND`] in some rows.

use crate::algebra::varset::VarSet;
use crate::context::workspace::Workspace;
use somersault_lang::VarId;
use somersault_model::{Tag, TermId};
use std::ops::Range;

/// The values of a variable, one per row.
pub(crate) type Column = Vec<TermId>;

/// Intermediate solutions, in columns.
#[derive(Debug, Default)]
pub(crate) struct Table {
    columns: Vec<Option<Column>>,
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

    /// The one empty solution, to which columns will be added.
    pub(crate) fn growing(workspace: &mut Workspace) -> Table {
        Table {
            columns: workspace.shell(),
            ..Table::unit()
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

    /// A table of one column.
    pub(crate) fn of_column(
        variable: VarId,
        column: Vec<TermId>,
        workspace: &mut Workspace,
    ) -> Table {
        let mut table = Table {
            columns: workspace.shell(),
            rows: column.len(),
            origin: None,
        };
        table.set(variable, column);
        table
    }

    /// Whether its rows hold anything, be it only the number of the row that they came from.
    pub(crate) fn is_numbered_or_wide(&self) -> bool {
        self.origin.is_some() || self.present().next().is_some()
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

    /// As [`Table::set`] where the variable is wanted; otherwise the column is given back.
    pub(crate) fn set_kept(
        &mut self,
        variable: VarId,
        column: Vec<TermId>,
        keep: &VarSet,
        workspace: &mut Workspace,
    ) {
        if !keep.contains(variable) {
            return workspace.give_ids(column);
        }
        if self.columns.capacity() == 0 {
            self.columns = workspace.shell();
        }
        self.set(variable, column);
    }

    pub(crate) fn present(&self) -> impl Iterator<Item = (VarId, &[TermId])> {
        self.columns
            .iter()
            .enumerate()
            .filter_map(|(at, column)| Some((VarId(at as u32), column.as_deref()?)))
    }

    /// Drops every column that is not wanted.
    pub(crate) fn keep(&mut self, wanted: &VarSet, workspace: &mut Workspace) {
        for (at, column) in self.columns.iter_mut().enumerate() {
            if column.is_some()
                && !wanted.contains(VarId(at as u32))
                && let Some(column) = column.take()
            {
                workspace.give_ids(column);
            }
        }
    }

    /// The rows with these numbers, in this order, repeats and all; of the columns those that are
    /// wanted.
    pub(crate) fn gather(
        mut self,
        parents: &[u32],
        keep: &VarSet,
        workspace: &mut Workspace,
    ) -> Table {
        self.keep(keep, workspace);
        if parents.len() == self.rows && is_identity(parents) {
            return self;
        }
        for column in self.columns.iter_mut().flatten() {
            let mut gathered = workspace.ids();
            match column.as_slice() {
                [only] => gathered.resize(parents.len(), *only),
                ids => gathered.extend(parents.iter().map(|row| ids[*row as usize])),
            }
            workspace.give_ids(std::mem::replace(column, gathered));
        }
        if let Some(origin) = &mut self.origin {
            let mut gathered = workspace.rows();
            gathered.extend(parents.iter().map(|row| origin[*row as usize]));
            workspace.give_rows(std::mem::replace(origin, gathered));
        }
        self.rows = parents.len();
        self
    }

    /// The only row, repeated; only with the wanted columns.
    pub(crate) fn repeated(
        mut self,
        times: usize,
        keep: &VarSet,
        workspace: &mut Workspace,
    ) -> Table {
        debug_assert_eq!(self.rows, 1);
        self.keep(keep, workspace);
        for column in self.columns.iter_mut().flatten() {
            let only = column[0];
            column.clear();
            column.resize(times, only);
        }
        if let Some(origin) = &mut self.origin {
            let only = origin[0];
            origin.clear();
            origin.resize(times, only);
        }
        self.rows = times;
        self
    }

    /// A copy of some rows.
    pub(crate) fn part(&self, rows: Range<usize>, workspace: &mut Workspace) -> Table {
        let mut columns = workspace.shell();
        columns.extend(self.columns.iter().map(|column| {
            let column = column.as_ref()?;
            let mut ids = workspace.ids();
            ids.extend_from_slice(&column[rows.clone()]);
            Some(ids)
        }));
        let origin = self.origin.as_ref().map(|origin| {
            let mut part = workspace.rows();
            part.extend_from_slice(&origin[rows.clone()]);
            part
        });
        Table {
            columns,
            rows: rows.len(),
            origin,
        }
    }

    /// A copy of some columns.
    pub(crate) fn of_columns(&self, variables: &[VarId], workspace: &mut Workspace) -> Table {
        let mut table = Table {
            columns: workspace.shell(),
            rows: self.rows,
            origin: None,
        };
        for variable in variables {
            if let Some(column) = self.column(*variable) {
                let mut ids = workspace.ids();
                ids.extend_from_slice(column);
                table.set(*variable, ids);
            }
        }
        table
    }

    /// A copy of some columns in some rows.
    pub(crate) fn of_rows(
        &self,
        variables: &[VarId],
        rows: &[u32],
        workspace: &mut Workspace,
    ) -> Table {
        let mut table = Table {
            columns: workspace.shell(),
            rows: rows.len(),
            origin: None,
        };
        for variable in variables {
            if let Some(column) = self.column(*variable) {
                let mut ids = workspace.ids();
                ids.extend(rows.iter().map(|row| column[*row as usize]));
                table.set(*variable, ids);
            }
        }
        table
    }

    /// Numbers the rows.
    pub(crate) fn number(&mut self, workspace: &mut Workspace) {
        let mut numbers = workspace.rows();
        numbers.extend(0..self.rows as u32);
        if let Some(before) = self.origin.replace(numbers) {
            workspace.give_rows(before);
        }
    }

    /// Removes repeated neighbours of a table without columns.
    pub(crate) fn drop_repeats(&mut self) {
        debug_assert!(self.present().next().is_none());
        self.rows = match &mut self.origin {
            Some(origin) => {
                origin.dedup();
                origin.len()
            }
            None => self.rows.min(1),
        };
    }

    /// The variables that have columns.
    pub(crate) fn variables(&self) -> VarSet {
        VarSet::of(self.present().map(|(variable, _)| variable))
    }

    /// A copy.
    pub(crate) fn copy(&self, workspace: &mut Workspace) -> Table {
        self.part(0..self.rows, workspace)
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

    /// Takes out the rows with these numbers, which ascend; the last rows take their places.
    pub(crate) fn remove(&mut self, rows: &[u32]) {
        for column in self.columns.iter_mut().flatten() {
            remove(column, rows);
        }
        self.rows -= rows.len();
    }

    /// Adds the rows of another table below; columns that one of them lacks are unbound there.
    pub(crate) fn append(&mut self, mut other: Table, workspace: &mut Workspace) {
        if self.rows == 0 && self.origin.is_none() {
            std::mem::swap(self, &mut other);
            return workspace.give(other);
        }
        let total = self.rows + other.rows;
        if self.columns.len() < other.columns.len() {
            self.columns.resize_with(other.columns.len(), || None);
        }
        for (at, column) in self.columns.iter_mut().enumerate() {
            let theirs = other.columns.get(at).and_then(Option::as_deref);
            match (column.as_mut(), theirs) {
                (Some(column), Some(more)) => column.extend_from_slice(more),
                (Some(column), None) => column.resize(total, TermId::UNBOUND),
                (None, Some(more)) => {
                    let mut fresh = workspace.ids();
                    fresh.resize(self.rows, TermId::UNBOUND);
                    fresh.extend_from_slice(more);
                    *column = Some(fresh);
                }
                (None, None) => {}
            }
        }
        match (&mut self.origin, &other.origin) {
            (Some(origin), Some(more)) => origin.extend_from_slice(more),
            (None, None) => {}
            _ => unreachable!("tables of one plan agree on having an origin"),
        }
        self.rows = total;
        workspace.give(other);
    }

    /// Replaces the ids of terms that a helping thread computed, which it numbered from `base` on.
    pub(crate) fn renumber(&mut self, base: u64, ids: &[TermId]) {
        for id in self.columns.iter_mut().flatten().flatten() {
            if id.tag() == Tag::Local && id.payload() >= base {
                *id = ids[(id.payload() - base) as usize];
            }
        }
    }

    /// The table with these columns, by the numbers of their variables.
    pub(crate) fn from_parts(
        columns: Vec<Option<Column>>,
        rows: usize,
        origin: Option<Vec<u32>>,
    ) -> Table {
        Table {
            columns,
            rows,
            origin,
        }
    }

    pub(crate) fn into_parts(self) -> (Vec<Option<Column>>, Option<Vec<u32>>) {
        (self.columns, self.origin)
    }

    /// The columns that exist, for callers that retain them and check their capacity.
    pub(crate) fn columns(&self) -> impl Iterator<Item = &Column> {
        self.columns.iter().flatten()
    }

    pub(crate) fn columns_mut(&mut self) -> impl Iterator<Item = &mut Column> {
        self.columns.iter_mut().flatten()
    }

    /// Memory of the ids.
    pub(crate) fn bytes(&self) -> usize {
        self.rows * (8 * self.columns.iter().flatten().count() + 4)
    }
}

/// Takes out the members at these places, which ascend; the last members take their places, so that
/// few places cost little, however long the list is.
pub(crate) fn remove<T: Copy>(list: &mut Vec<T>, places: &[u32]) {
    let left = list.len() - places.len();
    let (holes, beyond) = places.split_at(places.partition_point(|place| (*place as usize) < left));
    let mut holes = holes.iter();
    let mut beyond = beyond.iter().peekable();
    for from in left..list.len() {
        if beyond.next_if(|place| **place as usize == from).is_some() {
            continue;
        }
        let hole = holes
            .next()
            .expect("what stays beyond the end fits in the holes");
        list[*hole as usize] = list[from];
    }
    list.truncate(left);
}

fn is_identity(parents: &[u32]) -> bool {
    parents
        .iter()
        .enumerate()
        .all(|(at, row)| at == *row as usize)
}
