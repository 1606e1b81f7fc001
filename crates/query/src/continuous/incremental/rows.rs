//! The retained rows of one core, each with the batches whose expiry may remove it. The one thing
//! to know before changing it: a row exists exactly as long as each of its statements is in a
//! source that its pattern reads. Statements of stored graphs stay (a change there rebuilds all
//! rows). In a window, the newest batch that holds a statement decides when it expires; a statement
//! that arrived again is found when that batch has expired.

use super::cores::{Core, PatternReads};
use super::memory;
use super::states::RecordedValue;
use crate::algebra::logical::{Position, QuadPattern};
use crate::context::table::{Table, remove};
use crate::context::workspace::Workspace;
use crate::exec::explore::End;
use crate::view::snapshot_view::SnapshotView;
use rustc_hash::FxHashMap;
use somersault_model::{BatchNumber, TermId, TripleIds};
use somersault_store::PastWindow;

/// The batch number of statements that never expire.
const NEVER: BatchNumber = BatchNumber(i64::MAX);

/// The retained rows of one core, by row number.
#[derive(Default)]
pub(super) struct CoreRows {
    pub(super) table: Table,
    /// Per window of the core: for each row the oldest of the newest batches of its statements
    /// there.
    until: Vec<Vec<BatchNumber>>,
    /// Empty where rows are not grouped.
    pub(super) marks: Marks,
}

/// The values that groups recorded about rows; the newest rows may not be recorded yet.
#[derive(Default)]
pub(super) struct Marks {
    /// The group that each is in.
    pub(super) groups: Vec<u32>,
    /// Per aggregated expression: its values.
    pub(super) computed: Vec<Vec<RecordedValue>>,
}

/// Context for looking up the statements of rows.
#[derive(Clone, Copy)]
pub(super) struct RowLookup<'l> {
    pub(super) core: &'l Core,
    pub(super) constants: &'l [TermId],
    pub(super) view: &'l SnapshotView,
}

/// The statements that a pattern is in the rows of a table.
pub(super) struct Statements<'t> {
    subject: End<'t>,
    predicate: End<'t>,
    object: End<'t>,
}

impl<'t> Statements<'t> {
    pub(super) fn of(
        pattern: &QuadPattern,
        table: &'t Table,
        constants: &[TermId],
    ) -> Statements<'t> {
        let end = |position: Position| End::of(position, table, constants);
        Statements {
            subject: end(pattern.subject),
            predicate: end(pattern.predicate),
            object: end(pattern.object),
        }
    }

    #[inline]
    pub(super) fn at(&self, row: u32) -> TripleIds {
        let row = row as usize;
        TripleIds::new(
            self.subject.at(row),
            self.predicate.at(row),
            self.object.at(row),
        )
    }
}

/// The place of a statement.
#[derive(Clone, Copy)]
enum StatementLocation {
    /// In the window at this place among those of the core, and in no batch newer than this one.
    Window(usize, BatchNumber),
    Stored,
    Nowhere,
}

/// Remembers where statements are. Many rows share a statement, and a look-up in a large window
/// costs as much as many rows.
struct LookupMemo<T> {
    last: Option<(TripleIds, T)>,
    all: FxHashMap<TripleIds, T>,
}

impl<T> Default for LookupMemo<T> {
    fn default() -> LookupMemo<T> {
        LookupMemo {
            last: None,
            all: FxHashMap::default(),
        }
    }
}

impl<T: Copy> LookupMemo<T> {
    #[inline]
    fn of(&mut self, triple: TripleIds, look: impl FnOnce(TripleIds) -> T) -> T {
        if let Some((last, value)) = self.last
            && last == triple
        {
            return value;
        }
        let value = *self.all.entry(triple).or_insert_with(|| look(triple));
        self.last = Some((triple, value));
        value
    }
}

impl RowLookup<'_> {
    fn is_stored(&self, reads: &PatternReads, triple: TripleIds) -> bool {
        let snapshot = self.view.snapshot();
        let mut graphs = reads.stored.iter();
        graphs.any(|graph| snapshot.contains(triple.in_graph(*graph)))
    }

    /// For these rows: per window of the core the batch that has to expire, and whether all
    /// statements are present.
    fn until(&self, table: &Table, rows: &[u32]) -> (Vec<Vec<BatchNumber>>, Vec<bool>) {
        let core = self.core;
        let mut until = vec![vec![NEVER; rows.len()]; core.windows.len()];
        let mut holds = vec![true; rows.len()];
        for (pattern, reads) in core.patterns().iter().zip(&core.reads) {
            if reads.windows.is_empty() {
                continue;
            }
            let statements = Statements::of(pattern, table, self.constants);
            let mut known = LookupMemo::default();
            for (at, row) in rows.iter().enumerate() {
                if !holds[at] {
                    continue;
                }
                let found = known.of(statements.at(*row), |triple| {
                    self.whereabouts(reads, triple)
                });
                match found {
                    StatementLocation::Window(column, batch) => {
                        let own = &mut until[column][at];
                        *own = batch.min(*own);
                    }
                    StatementLocation::Stored => {}
                    StatementLocation::Nowhere => holds[at] = false,
                }
            }
        }
        (until, holds)
    }

    /// The place of a statement of a pattern; among windows the first that holds it counts.
    fn whereabouts(&self, reads: &PatternReads, triple: TripleIds) -> StatementLocation {
        let newest = reads.windows.iter().find_map(|window| {
            // The newest statements are few, and new rows are found by them.
            let fresh = self.view.fresh_of(*window);
            let batch = fresh
                .and_then(|fresh| fresh.newest_batch_of(triple))
                .or_else(|| self.view.windows()[*window].newest_batch_of(triple))?;
            Some((window, batch))
        });
        match newest {
            Some((window, batch)) => {
                let column = self.core.windows.binary_search(window);
                let column = column.expect("a core knows the windows of its patterns");
                StatementLocation::Window(column, batch)
            }
            None if self.is_stored(reads, triple) => StatementLocation::Stored,
            None => StatementLocation::Nowhere,
        }
    }

    /// Whether an arrived statement was absent before.
    fn is_new(&self, reads: &PatternReads, triple: TripleIds, before: &[PastWindow]) -> bool {
        let windows = || reads.windows.iter();
        let came = windows().any(|window| {
            let fresh = self.view.fresh_of(*window);
            fresh.is_some_and(|fresh| fresh.contains(triple))
        });
        came && !windows().any(|window| before[*window].contains(triple))
            && !self.is_stored(reads, triple)
    }

    /// The rows that an earlier execution could have found, since all their statements were
    /// present. Each has an arrived statement in this pattern, and none in the patterns before it.
    fn known(&self, from: usize, table: &Table, before: &[PastWindow]) -> Vec<u32> {
        let mut known: Vec<u32> = (0..table.rows as u32).collect();
        let parts = self.core.patterns().iter().zip(&self.core.reads);
        for (pattern, reads) in parts.skip(from).filter(|(_, r)| !r.windows.is_empty()) {
            if known.is_empty() {
                break;
            }
            let statements = Statements::of(pattern, table, self.constants);
            let mut asked = LookupMemo::default();
            known.retain(|row| {
                !asked.of(statements.at(*row), |triple| {
                    self.is_new(reads, triple, before)
                })
            });
        }
        known
    }
}

impl CoreRows {
    /// All rows of a core.
    pub(super) fn of(looks: RowLookup<'_>, table: Table) -> CoreRows {
        let all: Vec<u32> = (0..table.rows as u32).collect();
        let (until, holds) = looks.until(&table, &all);
        debug_assert!(
            holds.iter().all(|holds| *holds),
            "rows hold as they are found"
        );
        CoreRows {
            table,
            until,
            marks: Marks::default(),
        }
    }

    /// The rows that lost a statement, in ascending order.
    pub(super) fn expired(&mut self, looks: RowLookup<'_>) -> Vec<u32> {
        let mut looked_at: Vec<u32> = Vec::new();
        for (window, until) in looks.core.windows.iter().zip(&self.until) {
            let (first, _) = looks.view.windows()[*window].batches();
            let passed = (0u32..).zip(until).filter(|(_, batch)| **batch < first);
            looked_at.extend(passed.map(|(row, _)| row));
        }
        if looked_at.is_empty() {
            return looked_at;
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
        gone.map(|(row, _)| *row).collect()
    }

    /// Removes the rows with these numbers, which ascend; the last rows take their places.
    pub(super) fn remove(&mut self, rows: &[u32]) {
        self.table.remove(rows);
        for until in &mut self.until {
            remove(until, rows);
        }
        let Marks { groups, computed } = &mut self.marks;
        if !groups.is_empty() {
            remove(groups, rows);
            computed.iter_mut().for_each(|column| remove(column, rows));
        }
    }

    /// Adds the rows that are not there already. Each has an arrived statement in this pattern and
    /// in none before it. `before`: the windows at the previous close.
    pub(super) fn add(
        &mut self,
        looks: RowLookup<'_>,
        from: usize,
        mut table: Table,
        before: &[PastWindow],
    ) {
        let known = looks.known(from, &table, before);
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
        Workspace::of_thread(|workspace| self.table.append(table, workspace));
    }

    /// Memory of the full capacity, in use or not.
    pub(super) fn bytes(&self) -> usize {
        let Marks { groups, computed } = &self.marks;
        self.table.columns().map(memory::of_list).sum::<usize>()
            + self.until.iter().map(memory::of_list).sum::<usize>()
            + computed.iter().map(memory::of_list).sum::<usize>()
            + memory::of_list(groups)
    }

    /// Releases memory that removed rows occupied.
    pub(super) fn shrink(&mut self) {
        let Marks { groups, computed } = &mut self.marks;
        self.table.columns_mut().for_each(memory::shrink_list);
        self.until.iter_mut().for_each(memory::shrink_list);
        computed.iter_mut().for_each(memory::shrink_list);
        memory::shrink_list(groups);
    }

    /// Forgets the groups of the rows, before they are grouped again.
    pub(super) fn ungroup(&mut self) {
        self.marks = Marks::default();
    }
}
