//! The kept rows of one core, each with what has to pass before it may be gone. The one thing to know before changing it:
//! a row is there exactly as long as each of its statements is in something that its pattern reads. Statements of stored
//! graphs stay (where they change, all is made anew), and of a window the newest batch that holds a statement says when it
//! leaves; a statement that came again since is found when that batch has passed.

use super::cores::{Core, Reads};
use crate::SnapshotView;
use crate::explore::End;
use crate::logical::{Position, QuadPattern};
use crate::table::{Table, remove};
use somersault_model::{BatchNumber, TermId, TripleIds};
use somersault_store::PastWindow;

/// The batch of what stays.
const NEVER: BatchNumber = BatchNumber(i64::MAX);

/// See the module.
#[derive(Default)]
pub(super) struct Rows {
    pub(super) table: Table,
    /// Per window of the core: for each row the oldest of the newest batches of its statements there.
    until: Vec<Vec<BatchNumber>>,
}

/// What the statements of rows are looked up in.
#[derive(Clone, Copy)]
pub(super) struct Looks<'l> {
    pub(super) core: &'l Core,
    pub(super) constants: &'l [TermId],
    pub(super) view: &'l SnapshotView,
}

/// The statements that a pattern is in the rows of a table.
struct Statements<'t> {
    subject: End<'t>,
    predicate: End<'t>,
    object: End<'t>,
}

impl<'t> Statements<'t> {
    fn of(pattern: &QuadPattern, table: &'t Table, constants: &[TermId]) -> Statements<'t> {
        let end = |position: Position| End::of(position, table, constants);
        Statements {
            subject: end(pattern.subject),
            predicate: end(pattern.predicate),
            object: end(pattern.object),
        }
    }

    #[inline]
    fn at(&self, row: u32) -> TripleIds {
        let row = row as usize;
        TripleIds::new(
            self.subject.at(row),
            self.predicate.at(row),
            self.object.at(row),
        )
    }
}

impl Looks<'_> {
    fn is_stored(&self, reads: &Reads, triple: TripleIds) -> bool {
        let snapshot = self.view.snapshot();
        let mut graphs = reads.stored.iter();
        graphs.any(|graph| snapshot.contains(triple.in_graph(*graph)))
    }

    /// For these rows: per window of the core what has to pass, and whether all statements are there.
    fn until(&self, table: &Table, rows: &[u32]) -> (Vec<Vec<BatchNumber>>, Vec<bool>) {
        let core = self.core;
        let mut until = vec![vec![NEVER; rows.len()]; core.windows.len()];
        let mut holds = vec![true; rows.len()];
        for (pattern, reads) in core.patterns().iter().zip(&core.reads) {
            if reads.windows.is_empty() {
                continue;
            }
            let statements = Statements::of(pattern, table, self.constants);
            for (at, row) in rows.iter().enumerate() {
                let triple = statements.at(*row);
                let newest = reads.windows.iter().find_map(|window| {
                    let batch = self.view.windows()[*window].newest_batch_of(triple)?;
                    Some((window, batch))
                });
                match newest {
                    Some((window, batch)) => {
                        let column = core.windows.binary_search(window);
                        let column = column.expect("a core knows the windows of its patterns");
                        let own = &mut until[column][at];
                        *own = batch.min(*own);
                    }
                    None => holds[at] &= self.is_stored(reads, triple),
                }
            }
        }
        (until, holds)
    }

    /// Whether an earlier execution could not have found the row, which has something new in this pattern and in none
    /// before it.
    fn is_new(&self, from: usize, table: &Table, row: u32, before: &[PastWindow]) -> bool {
        let core = self.core;
        let parts = core.patterns().iter().zip(&core.reads).enumerate();
        let mut parts = parts.skip(from).filter(|(_, (_, r))| !r.windows.is_empty());
        parts.any(|(_, (pattern, reads))| {
            let triple = Statements::of(pattern, table, self.constants).at(row);
            let windows = || reads.windows.iter();
            let came = windows().any(|window| {
                let fresh = self.view.fresh_of(*window);
                fresh.is_some_and(|fresh| fresh.contains(triple))
            });
            came && !windows().any(|window| before[*window].contains(triple))
                && !self.is_stored(reads, triple)
        })
    }
}

impl Rows {
    /// All rows of a core.
    pub(super) fn of(looks: Looks<'_>, table: Table) -> Rows {
        let all: Vec<u32> = (0..table.rows as u32).collect();
        let (until, holds) = looks.until(&table, &all);
        debug_assert!(
            holds.iter().all(|holds| *holds),
            "rows hold as they are found"
        );
        Rows { table, until }
    }

    /// Drops the rows of which a statement has left.
    pub(super) fn expire(&mut self, looks: Looks<'_>) {
        let mut looked_at: Vec<u32> = Vec::new();
        for (window, until) in looks.core.windows.iter().zip(&self.until) {
            let (first, _) = looks.view.windows()[*window].batches();
            let passed = (0u32..).zip(until).filter(|(_, batch)| **batch < first);
            looked_at.extend(passed.map(|(row, _)| row));
        }
        if looked_at.is_empty() {
            return;
        }
        looked_at.sort_unstable();
        looked_at.dedup();
        let (until, holds) = looks.until(&self.table, &looked_at);
        for (own, found) in self.until.iter_mut().zip(&until) {
            for (row, batch) in looked_at.iter().zip(found) {
                own[*row as usize] = *batch;
            }
        }
        let gone = looked_at.iter().zip(&holds).filter(|(_, holds)| !**holds);
        let gone: Vec<u32> = gone.map(|(row, _)| *row).collect();
        if gone.is_empty() {
            return;
        }
        self.remove(&gone);
    }

    /// Takes out the rows with these numbers, which ascend.
    pub(super) fn remove(&mut self, rows: &[u32]) {
        self.table.remove(rows);
        for until in &mut self.until {
            remove(until, rows);
        }
    }

    /// Adds those of these rows, which have something new in this pattern and in none before it, that were not there
    /// already; `before`: the windows as they were.
    pub(super) fn add(
        &mut self,
        looks: Looks<'_>,
        from: usize,
        mut table: Table,
        before: &[PastWindow],
    ) {
        let known: Vec<u32> = (0..table.rows as u32)
            .filter(|row| !looks.is_new(from, &table, *row, before))
            .collect();
        if !known.is_empty() {
            table.remove(&known);
        }
        let new: Vec<u32> = (0..table.rows as u32).collect();
        let (until, holds) = looks.until(&table, &new);
        debug_assert!(
            holds.iter().all(|holds| *holds),
            "rows hold as they are found"
        );
        for (own, found) in self.until.iter_mut().zip(until) {
            own.extend(found);
        }
        self.table.extend(table);
    }

    pub(super) fn bytes(&self) -> usize {
        self.table.bytes() + self.table.rows * self.until.len() * size_of::<BatchNumber>()
    }
}
