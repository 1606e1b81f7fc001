//! Makes one table from the results of several threads. A large table is put together by all
//! threads, a column each: a thread copies pieces that others have just made, and keeps the emptied
//! buffers for the next parts.

use crate::context::table::{Column, Table};
use crate::context::workspace::Workspace;
use parking_lot::Mutex;
use somersault_model::TermId;
use somersault_pool::Workers;

/// Fewer cells than this are copied sooner than a helper wakes up.
const WORTH_SHARING: usize = 1 << 14;

/// Puts tables together, one below the other; columns that some of them lack are unbound there. One
/// plan made all of them from parts of one table; `empty` is its result for no row.
pub(crate) fn assemble(
    mut tables: Vec<Table>,
    empty: Table,
    workers: &dyn Workers,
    workspace: &mut Workspace,
) -> Table {
    tables.retain(|table| table.rows > 0);
    if tables.len() < 2 {
        return tables.pop().unwrap_or(empty);
    }
    let rows = tables.iter().map(|table| table.rows).sum::<usize>();
    let width = tables.iter().map(|table| table.present().count()).max();
    let width = width.unwrap_or(0);
    let mut columns: Vec<Mutex<Pieces>> = Vec::new();
    let mut origin = empty.origin.is_some().then(|| Vec::with_capacity(rows));
    let mut first = 0;
    for table in tables {
        let next = first + table.rows;
        let (made, made_origin) = table.into_parts();
        if let (Some(all), Some(more)) = (&mut origin, made_origin) {
            all.extend_from_slice(&more);
            workspace.give_rows(more);
        }
        if columns.len() < made.len() {
            columns.resize_with(made.len(), Mutex::default);
        }
        for (pieces, column) in columns.iter_mut().zip(made) {
            pieces
                .get_mut()
                .pieces
                .extend(column.map(|ids| (first, ids)));
        }
        first = next;
    }
    if width < 2 || width * rows < WORTH_SHARING || workers.limit() < 2 {
        let columns = columns.iter_mut().map(Mutex::get_mut);
        columns.for_each(|pieces| pieces.join(rows, workspace));
    } else {
        let work = |at: usize| {
            Workspace::of_thread(|workspace| columns[at].lock().join(rows, workspace));
        };
        workspace.lend(|| workers.for_each_share(columns.len(), &work));
    }
    let columns = columns.into_iter().map(|pieces| pieces.into_inner().joined);
    Table::from_parts(columns.collect(), rows, origin)
}

/// A column in pieces.
#[derive(Default)]
struct Pieces {
    /// Each with the row that it starts at.
    pieces: Vec<(usize, Column)>,
    joined: Option<Column>,
}

impl Pieces {
    /// Makes one column of `rows` rows from the pieces; none where there is no piece.
    fn join(&mut self, rows: usize, workspace: &mut Workspace) {
        if self.pieces.is_empty() {
            return;
        }
        let mut column = workspace.ids();
        column.reserve(rows);
        for (start, piece) in self.pieces.drain(..) {
            column.resize(start, TermId::UNBOUND);
            column.extend_from_slice(&piece);
            workspace.give_ids(piece);
        }
        column.resize(rows, TermId::UNBOUND);
        self.joined = Some(column);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use somersault_lang::VarId;

    /// A thread for each share.
    struct Threads;

    impl Workers for Threads {
        fn limit(&self) -> usize {
            3
        }

        fn for_each_share(&self, shares: usize, work: &(dyn Fn(usize) + Sync)) {
            std::thread::scope(|scope| {
                (0..shares).for_each(|share| _ = scope.spawn(move || work(share)));
            });
        }
    }

    /// No helper ever comes.
    struct Nobody;

    impl Workers for Nobody {
        fn limit(&self) -> usize {
            1
        }

        fn for_each_share(&self, _: usize, _: &(dyn Fn(usize) + Sync)) {
            unreachable!("there is no thread to share with");
        }
    }

    /// Tables with these numbers of rows; `column(table, variable)` tells which columns each has.
    fn tables(sizes: &[usize], column: impl Fn(usize, u32) -> bool, numbered: bool) -> Vec<Table> {
        let of = |(number, rows): (usize, &usize)| {
            let ids = |variable: u32| {
                let id = |row| TermId::local((number * 100_000 + row) as u64 * 4 + variable as u64);
                (0..*rows).map(id).collect()
            };
            let variables = (0..4).filter(|variable| column(number, *variable));
            let mut table = Table::of(variables.map(|v| (VarId(v), ids(v))), *rows);
            table.origin = numbered.then(|| (0..*rows as u32).collect());
            table
        };
        sizes.iter().enumerate().map(of).collect()
    }

    #[test]
    fn assembled_tables_equal_appended_ones() {
        type Has = fn(usize, u32) -> bool;
        let has: [Has; 4] = [
            |_, variable| variable != 1,
            |number, variable| variable != 2 || number == 3,
            |number, variable| variable < 2 || number % 2 == 0,
            |number, variable| variable == 0 || variable == 3 && number == 0,
        ];
        for has in has {
            for numbered in [false, true] {
                let sizes = [5_000, 0, 1, 9_000, 2_048];
                let made = || {
                    let mut empty = Table::of([], 0);
                    empty.origin = numbered.then(Vec::new);
                    (tables(&sizes, has, numbered), empty)
                };
                let mut twin = made().1;
                for table in made().0 {
                    twin.append(table, &mut Workspace::new());
                }
                for workers in [&Threads as &dyn Workers, &Nobody] {
                    let (tables, empty) = made();
                    let put_together = assemble(tables, empty, workers, &mut Workspace::new());
                    assert_eq!(put_together.rows, 16_049);
                    assert_eq!(twin.rows, put_together.rows);
                    assert_eq!(twin.origin, put_together.origin);
                    for variable in (0..4).map(VarId) {
                        assert_eq!(twin.column(variable), put_together.column(variable));
                    }
                }
            }
        }
    }
}
