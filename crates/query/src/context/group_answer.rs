//! The answer of many queries that were evaluated together: one table of rows, cut by cell.

use crate::context::answer::Solutions;
use std::sync::Arc;

/// The answers of all cells.
#[derive(Debug, Clone)]
pub struct GroupAnswer {
    /// The rows, ordered by cell, and within a cell as its own answer has them.
    rows: Solutions,
    /// Each cell that has rows, ascending, with its first row; at the end how many rows there are.
    spans: Vec<(u32, u32)>,
}

impl GroupAnswer {
    /// An answer of rows in the order of their cells, with the cell of each.
    pub(crate) fn new(rows: Solutions, cells: impl Iterator<Item = u32>) -> GroupAnswer {
        let mut spans: Vec<(u32, u32)> = Vec::new();
        for (cell, at) in cells.zip(0..) {
            if spans.last().is_none_or(|(last, _)| *last != cell) {
                spans.push((cell, at));
            }
        }
        spans.push((u32::MAX, rows.rows as u32));
        GroupAnswer { rows, spans }
    }

    /// An answer of rows in the order of their cells, with the cells that have some, ascending, and
    /// how many rows each has; `None` if the numbers do not fit the rows.
    pub fn of_rows(rows: Solutions, cells: &[(u32, u32)]) -> Option<GroupAnswer> {
        let mut spans = Vec::with_capacity(cells.len() + 1);
        let mut from: u32 = 0;
        for (cell, count) in cells {
            let follows = spans.last().is_none_or(|(last, _)| last < cell);
            if !follows || *count == 0 || *cell == u32::MAX {
                return None;
            }
            spans.push((*cell, from));
            from = from.checked_add(*count)?;
        }
        spans.push((u32::MAX, from));
        (rows.rows == from as usize).then_some(GroupAnswer { rows, spans })
    }

    /// The rows of all cells, one cell after the other.
    pub fn rows(&self) -> &Solutions {
        &self.rows
    }

    /// The number of rows that all cells have.
    pub fn len(&self) -> usize {
        self.rows.rows
    }

    /// Whether no cell has a row.
    pub fn is_empty(&self) -> bool {
        self.rows.rows == 0
    }

    /// The cells that have rows, with how many.
    pub fn cells(&self) -> impl Iterator<Item = (u32, usize)> + Clone + '_ {
        let pairs = self.spans.windows(2);
        pairs.map(|pair| (pair[0].0, (pair[1].1 - pair[0].1) as usize))
    }

    /// The number of rows that a cell has.
    pub fn count(&self, cell: u32) -> usize {
        self.span(cell).map_or(0, |(from, to)| to - from)
    }

    fn span(&self, cell: u32) -> Option<(usize, usize)> {
        let at = self.spans.binary_search_by_key(&cell, |(of, _)| *of).ok()?;
        let (_, to) = *self.spans.get(at + 1)?;
        Some((self.spans[at].1 as usize, to as usize))
    }

    /// The answer of one cell.
    pub fn of(&self, cell: u32) -> Solutions {
        let (from, to) = self.span(cell).unwrap_or_default();
        let columns = self.rows.columns.iter();
        Solutions {
            variables: Arc::clone(&self.rows.variables),
            columns: columns.map(|ids| ids[from..to].to_vec()).collect(),
            rows: to - from,
            local: self.rows.local.clone(),
            held: self.rows.held.clone(),
        }
    }

    /// Memory of the answers.
    pub fn memory_bytes(&self) -> usize {
        self.rows.memory_bytes() + self.spans.len() * 8
    }
}
