//! Buffers that executions hand on to each other, so that a repeated query allocates little more
//! than its answer. The one thing to know before changing it: a buffer that is taken is empty, and
//! a buffer that is not given back is merely dropped.

use crate::context::table::{Column, Table};
use crate::view::sources::Lists;
use somersault_model::TermId;
use std::cell::Cell;

/// The most bytes of unused buffers that a workspace keeps.
const KEPT_BYTES: usize = 64 << 20;
/// The most unused buffers of each kind. Buffers that were allocated elsewhere, or by a helper
/// thread, are given back in addition to those that were taken.
const KEPT_BUFFERS: usize = 1 << 10;

/// The list for sorting is kept in addition, up to this size.
const KEPT_ORDER_BYTES: usize = 1 << 20;

/// The outcome of a condition in one row: a code whose meanings `eval::filter` defines.
pub(crate) type Truth = u8;

/// Reusable buffers of executions: one execution at a time, any number one after the other, of any
/// queries on any views.
#[derive(Default)]
pub(crate) struct Workspace {
    ids: Vec<Vec<TermId>>,
    rows: Vec<Vec<u32>>,
    truths: Vec<Vec<Truth>>,
    shells: Vec<Vec<Option<Column>>>,
    pairs: Vec<(u32, TermId)>,
    order: Vec<u64>,
    kept_bytes: usize,
}

thread_local! {
    // In a box, since it is taken out and put back for each execution.
    static OF_THREAD: Cell<Option<Box<Workspace>>> = const { Cell::new(None) };
}

impl Workspace {
    /// A workspace without buffers; the first executions fill it.
    pub(crate) fn new() -> Workspace {
        Workspace::default()
    }

    /// Runs `work` with the workspace of this thread; a nested call gets a new one.
    pub(crate) fn of_thread<R>(work: impl FnOnce(&mut Workspace) -> R) -> R {
        let mut workspace = OF_THREAD.take().unwrap_or_default();
        let result = work(&mut workspace);
        OF_THREAD.set(Some(workspace));
        result
    }

    /// Does work that also runs on other threads, each with its own workspace. On this thread it
    /// finds this workspace.
    pub(crate) fn lend(&mut self, work: impl FnOnce()) {
        let before = OF_THREAD.replace(Some(Box::new(std::mem::take(self))));
        work();
        *self = *OF_THREAD.replace(before).unwrap_or_default();
    }

    /// An empty column.
    #[inline]
    pub(crate) fn ids(&mut self) -> Vec<TermId> {
        let ids = self.ids.pop().unwrap_or_default();
        self.kept_bytes -= ids.capacity() * size_of::<TermId>();
        ids
    }

    /// Takes a column back.
    #[inline]
    pub(crate) fn give_ids(&mut self, mut ids: Vec<TermId>) {
        let bytes = ids.capacity() * size_of::<TermId>();
        let fits = self.kept_bytes + bytes <= KEPT_BYTES && self.ids.len() < KEPT_BUFFERS;
        if bytes > 0 && fits {
            ids.clear();
            self.kept_bytes += bytes;
            self.ids.push(ids);
        }
    }

    /// An empty list of row numbers.
    /// Buffers for a list that is read.
    pub(crate) fn lists(&mut self) -> Lists {
        let (one, merged) = (self.ids(), self.ids());
        Lists { one, merged }
    }

    pub(crate) fn give_lists(&mut self, lists: Lists) {
        self.give_ids(lists.one);
        self.give_ids(lists.merged);
    }

    #[inline]
    pub(crate) fn rows(&mut self) -> Vec<u32> {
        let rows = self.rows.pop().unwrap_or_default();
        self.kept_bytes -= rows.capacity() * size_of::<u32>();
        rows
    }

    /// Takes a list of row numbers back.
    #[inline]
    pub(crate) fn give_rows(&mut self, mut rows: Vec<u32>) {
        let bytes = rows.capacity() * size_of::<u32>();
        let fits = self.kept_bytes + bytes <= KEPT_BYTES && self.rows.len() < KEPT_BUFFERS;
        if bytes > 0 && fits {
            rows.clear();
            self.kept_bytes += bytes;
            self.rows.push(rows);
        }
    }

    /// An empty list of a condition's results.
    pub(crate) fn truths(&mut self) -> Vec<Truth> {
        let truths = self.truths.pop().unwrap_or_default();
        self.kept_bytes -= truths.capacity();
        truths
    }

    /// Takes such a list back.
    pub(crate) fn give_truths(&mut self, mut truths: Vec<Truth>) {
        let bytes = truths.capacity();
        let fits = self.kept_bytes + bytes <= KEPT_BYTES && self.truths.len() < KEPT_BUFFERS;
        if bytes > 0 && fits {
            truths.clear();
            self.kept_bytes += bytes;
            self.truths.push(truths);
        }
    }

    /// An empty list of columns.
    pub(crate) fn shell(&mut self) -> Vec<Option<Column>> {
        self.shells.pop().unwrap_or_default()
    }

    /// Takes a table's buffers back.
    pub(crate) fn give(&mut self, table: Table) {
        let (mut columns, origin) = table.into_parts();
        for column in columns.drain(..).flatten() {
            self.give_ids(column);
        }
        if columns.capacity() > 0 && self.shells.len() < KEPT_BUFFERS {
            self.shells.push(columns);
        }
        if let Some(origin) = origin {
            self.give_rows(origin);
        }
    }

    /// A list for putting rows in the order of a number.
    pub(crate) fn order(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.order)
    }

    /// Takes such a list back, unless it has become a large one.
    pub(crate) fn give_order(&mut self, mut order: Vec<u64>) {
        if order.capacity() * size_of::<u64>() <= KEPT_ORDER_BYTES {
            order.clear();
            self.order = order;
        }
    }

    /// A list for putting rows of several sources in order.
    pub(crate) fn pairs(&mut self) -> &mut Vec<(u32, TermId)> {
        self.pairs.clear();
        &mut self.pairs
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use somersault_lang::VarId;

    #[test]
    fn returned_buffers_do_not_pile_up() {
        let mut workspace = Workspace::new();
        for _ in 0..2 * KEPT_BUFFERS {
            workspace.give(Table::of([(VarId(0), vec![TermId::DEFAULT_GRAPH; 8])], 8));
            workspace.give_rows(vec![0; 8]);
            workspace.give_truths(vec![0; 8]);
        }
        let lengths = [
            workspace.ids.len(),
            workspace.rows.len(),
            workspace.truths.len(),
            workspace.shells.len(),
        ];
        assert_eq!(lengths, [KEPT_BUFFERS; 4]);
        workspace.give_order(vec![0; KEPT_ORDER_BYTES]);
        assert_eq!(workspace.order.capacity(), 0);
        workspace.give_order(vec![0; 8]);
        assert!(workspace.order().is_empty() && workspace.order.capacity() == 0);
        // A taken buffer comes empty, and is counted no more.
        for _ in 0..KEPT_BUFFERS {
            assert!(workspace.ids().is_empty() && workspace.rows().is_empty());
            assert!(workspace.truths().is_empty());
        }
        assert_eq!(workspace.kept_bytes, 0);
    }
}
