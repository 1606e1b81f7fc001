//! The groups of retained rows, with their aggregates. An update touches only groups that gained or
//! lost rows. The one thing to know before changing it: removed rows are subtracted before new rows
//! are added, by the values recorded when they were added ([`Marks`](super::rows::Marks)) and by
//! their ids alone. Their terms may have been reclaimed, and their ids reused.

use super::folds::{Argument, Fold, Measure};
use super::memory;
use super::rows::CoreRows;
use super::states::{RecordedValue, Retracted, RunningAggregate};
use crate::algebra::error::QueryError;
use crate::context::limiter::Limiter;
use crate::context::table::{Column, Table};
use crate::eval::evaluate::{Evaluated, Evaluation, Row};
use crate::value::term_value::Value;
use rustc_hash::{FxHashMap, FxHashSet};
use somersault_model::TermId;

/// Rows added between two limit checks.
const ROWS_PER_LOOK: usize = 1 << 12;

/// The groups of one fold. Groups have numbers; the number of a group without rows is used again.
pub(super) struct RetainedGroups {
    numbers: FxHashMap<Box<[TermId]>, u32>,
    free: Vec<u32>,
    /// Per key: its value in each group.
    keys: Vec<Column>,
    /// The number of rows that each group has.
    rows: Vec<u32>,
    measured: Vec<Measured>,
    /// The groups that gained or lost rows since the last table.
    touched: Vec<u32>,
    is_touched: Vec<bool>,
}

/// A measure in all groups.
#[derive(Default)]
struct Measured {
    states: Vec<RunningAggregate>,
    /// The last results.
    results: Column,
    /// The groups whose result is a term that one execution computed. Its id is invalid in the next
    /// execution.
    passing: Vec<u32>,
    /// For a measure of distinct values: in how many rows of a group each value occurs.
    values: FxHashMap<(u32, TermId), u32>,
    /// Memory of what the states hold.
    heap_bytes: usize,
}

impl Measured {
    fn add(
        &mut self,
        measure: &Measure,
        group: u32,
        value: Option<Evaluated>,
        e: &mut Evaluation<'_>,
    ) {
        if measure.distinct
            && let Some(Evaluated::Id(id)) = value
        {
            let rows = self.values.entry((group, id)).or_default();
            *rows += 1;
            if *rows > 1 {
                return;
            }
        }
        self.put(measure, group, value, e);
    }

    fn put(
        &mut self,
        measure: &Measure,
        group: u32,
        value: Option<Evaluated>,
        e: &mut Evaluation<'_>,
    ) {
        self.change(group, |state| state.add(measure.function, value, e));
    }

    /// Changes the state of a group, and the count of its memory.
    #[inline]
    fn change(&mut self, group: u32, change: impl FnOnce(&mut RunningAggregate)) {
        let state = &mut self.states[group as usize];
        let before = state.heap_bytes();
        change(state);
        self.heap_bytes = self.heap_bytes + state.heap_bytes() - before;
    }

    fn take(&mut self, measure: &Measure, group: u32, known: Retracted) {
        if measure.distinct
            && let Retracted::Term(id) = known
            && !id.is_unbound()
        {
            let rows = self.values.get_mut(&(group, id));
            let rows = rows.expect("values of rows that are there are counted");
            *rows -= 1;
            if *rows > 0 {
                return;
            }
            self.values.remove(&(group, id));
        }
        self.change(group, |state| state.take(known));
    }

    /// Resets the state of a group.
    fn renew(&mut self, measure: &Measure, group: u32) {
        self.change(group, |state| {
            *state = RunningAggregate::new(measure.function)
        });
    }

    fn bytes(&self) -> usize {
        memory::of_list(&self.states)
            + memory::of_list(&self.results)
            + memory::of_list(&self.passing)
            + memory::of_map(&self.values)
            + self.heap_bytes
    }
}

/// The value that a measure reads from a row. `computed` gives the value of the numbered
/// expression.
#[inline]
fn argument_of(
    measure: &Measure,
    row: Row<'_>,
    computed: impl FnOnce(usize) -> Option<Value>,
) -> Option<Evaluated> {
    match measure.argument {
        Argument::Row => Some(true.into()),
        Argument::Column(variable) => row.get(variable).map(Evaluated::Id),
        Argument::Computed(number) => computed(number).map(Evaluated::Value),
    }
}

impl RetainedGroups {
    /// No rows.
    pub(super) fn new(fold: &Fold) -> RetainedGroups {
        let mut groups = RetainedGroups {
            numbers: FxHashMap::default(),
            free: Vec::new(),
            keys: fold.keys.iter().map(|_| Column::new()).collect(),
            rows: Vec::new(),
            measured: fold.measures.iter().map(|_| Measured::default()).collect(),
            touched: Vec::new(),
            is_touched: Vec::new(),
        };
        if fold.keys.is_empty() {
            // Without keys there is one group, also of no rows.
            groups.group(fold, &[]);
        }
        groups
    }

    /// The number of a group, created if it does not exist.
    fn group(&mut self, fold: &Fold, key: &[TermId]) -> u32 {
        if let Some(group) = self.numbers.get(key) {
            return *group;
        }
        let group = match self.free.pop() {
            Some(group) => group,
            None => {
                self.rows.push(0);
                self.is_touched.push(false);
                (self.keys.iter_mut()).for_each(|ids| ids.push(TermId::UNBOUND));
                for (measured, measure) in self.measured.iter_mut().zip(&fold.measures) {
                    let state = RunningAggregate::new(measure.function);
                    measured.heap_bytes += state.heap_bytes();
                    measured.states.push(state);
                    measured.results.push(TermId::UNBOUND);
                }
                self.rows.len() as u32 - 1
            }
        };
        for (ids, id) in self.keys.iter_mut().zip(key) {
            ids[group as usize] = *id;
        }
        self.numbers.insert(key.into(), group);
        self.touch(group);
        group
    }

    fn touch(&mut self, group: u32) {
        let is_touched = &mut self.is_touched[group as usize];
        if !*is_touched {
            *is_touched = true;
            self.touched.push(group);
        }
    }

    /// Whether there is a group of this number.
    fn lives(&self, group: u32) -> bool {
        self.rows[group as usize] > 0 || self.keys.is_empty()
    }

    /// Subtracts rows that leave their core.
    pub(super) fn take(&mut self, fold: &Fold, rows: &CoreRows, leaving: &[u32]) {
        for row in leaving {
            let at = *row as usize;
            let group = rows.marks.groups[at];
            self.touch(group);
            for (measured, measure) in self.measured.iter_mut().zip(&fold.measures) {
                let known = match measure.argument {
                    Argument::Row => Retracted::Computed(RecordedValue::Other),
                    Argument::Column(variable) => Retracted::Term(rows.table.get(variable, at)),
                    Argument::Computed(number) => {
                        Retracted::Computed(rows.marks.computed[number][at])
                    }
                };
                measured.take(measure, group, known);
            }
            self.rows[group as usize] -= 1;
            if !self.lives(group) {
                self.end(fold, group);
            }
        }
    }

    /// Forgets a group that has no rows.
    fn end(&mut self, fold: &Fold, group: u32) {
        let key: Vec<TermId> = self.keys.iter().map(|ids| ids[group as usize]).collect();
        self.numbers.remove(&key[..]);
        for (measured, measure) in self.measured.iter_mut().zip(&fold.measures) {
            measured.renew(measure, group);
        }
        self.free.push(group);
    }

    /// Adds the rows that a core gained since the last call.
    pub(super) fn add(
        &mut self,
        fold: &Fold,
        rows: &mut CoreRows,
        e: &mut Evaluation<'_>,
        limiter: &mut Limiter<'_>,
    ) -> Result<(), QueryError> {
        let CoreRows { table, marks, .. } = rows;
        marks.computed.resize_with(fold.expressions.len(), Vec::new);
        let columns: Vec<_> = fold.keys.iter().map(|key| table.column(*key)).collect();
        let mut key = Vec::with_capacity(columns.len());
        for at in marks.groups.len()..table.rows {
            key.clear();
            key.extend(
                columns
                    .iter()
                    .map(|ids| ids.map_or(TermId::UNBOUND, |ids| ids[at])),
            );
            let group = self.group(fold, &key);
            self.touch(group);
            self.rows[group as usize] += 1;
            marks.groups.push(group);
            let row = Row { table, at };
            let mut values = Vec::with_capacity(fold.expressions.len());
            for (expression, computed) in fold.expressions.iter().zip(&mut marks.computed) {
                let value = e.evaluate_value(expression.get(), row);
                computed.push(RecordedValue::of(value.as_ref()));
                values.push(value);
            }
            for (measured, measure) in self.measured.iter_mut().zip(&fold.measures) {
                let value = argument_of(measure, row, |number| values[number].clone());
                measured.add(measure, group, value, e);
            }
            if at % ROWS_PER_LOOK == 0 {
                limiter.check_interrupt()?;
                self.fits(table, e, limiter)?;
            }
        }
        self.fits(table, e, limiter)
    }

    /// Whether the groups of these rows are within the limit, with what was computed for them. A
    /// text that could not be made is more than any limit: to the whole evaluation as well.
    fn fits(
        &self,
        table: &Table,
        e: &Evaluation<'_>,
        limiter: &Limiter<'_>,
    ) -> Result<(), QueryError> {
        let own = 2 * self.bytes() + table.bytes();
        limiter.check_memory(own.saturating_add(e.held_bytes()))
    }

    /// Rebuilds the states that could not be updated by subtraction.
    fn recount(
        &mut self,
        fold: &Fold,
        all: &[CoreRows],
        e: &mut Evaluation<'_>,
        limiter: &mut Limiter<'_>,
    ) -> Result<(), QueryError> {
        let held = 2 * self.bytes();
        let touched = self.touched.iter();
        let live: Vec<u32> = touched
            .copied()
            .filter(|group| self.lives(*group))
            .collect();
        for (measured, measure) in self.measured.iter_mut().zip(&fold.measures) {
            let states = &measured.states;
            let is_stale = |group: &&u32| states[**group as usize].is_stale();
            let stale: Vec<u32> = live.iter().filter(is_stale).copied().collect();
            if stale.is_empty() {
                continue;
            }
            let mut is_wanted = vec![false; measured.states.len()];
            for group in stale {
                is_wanted[group as usize] = true;
                measured.renew(measure, group);
            }
            let mut seen: FxHashSet<(u32, TermId)> = FxHashSet::default();
            for rows in fold.cores.iter().map(|core| &all[*core]) {
                for (at, group) in rows.marks.groups.iter().enumerate() {
                    if at % ROWS_PER_LOOK == 0 {
                        limiter.check_memory(held.saturating_add(e.held_bytes()))?;
                    }
                    if !is_wanted[*group as usize] {
                        continue;
                    }
                    limiter.tick()?;
                    let row = Row {
                        table: &rows.table,
                        at,
                    };
                    let value = argument_of(measure, row, |number| {
                        e.evaluate_value(fold.expressions[number].get(), row)
                    });
                    if measure.distinct
                        && let Some(Evaluated::Id(id)) = value
                        && !seen.insert((*group, id))
                    {
                        continue;
                    }
                    measured.put(measure, *group, value, e);
                }
            }
        }
        limiter.check_memory(held.saturating_add(e.held_bytes()))
    }

    /// Brings the results of measures up to date.
    fn settle(
        &mut self,
        fold: &Fold,
        e: &mut Evaluation<'_>,
        limiter: &mut Limiter<'_>,
    ) -> Result<(), QueryError> {
        let held = 2 * self.bytes();
        let RetainedGroups {
            measured,
            touched,
            is_touched,
            rows,
            keys,
            ..
        } = self;
        for (measured, measure) in measured.iter_mut().zip(&fold.measures) {
            let passing = std::mem::take(&mut measured.passing);
            let others = (passing.iter()).filter(|group| !is_touched[**group as usize]);
            for group in touched.iter().chain(others) {
                let at = *group as usize;
                if rows[at] == 0 && !keys.is_empty() {
                    continue;
                }
                let value = measured.states[at].value(measure.function);
                // The term of a row stays as long as the row does.
                let is_of_row = matches!(value, Some(Evaluated::Id(_)));
                let id = value.map_or(TermId::UNBOUND, |value| e.id(value));
                if !(is_of_row || id.is_inline() || id.is_unbound()) {
                    measured.passing.push(*group);
                }
                measured.results[at] = id;
                limiter.tick()?;
                limiter.check_memory(held.saturating_add(e.held_bytes()))?;
            }
        }
        for group in touched.drain(..) {
            is_touched[group as usize] = false;
        }
        Ok(())
    }

    /// A row for each group.
    pub(super) fn table(
        &mut self,
        fold: &Fold,
        all: &[CoreRows],
        e: &mut Evaluation<'_>,
        limiter: &mut Limiter<'_>,
    ) -> Result<Table, QueryError> {
        self.recount(fold, all, e, limiter)?;
        self.settle(fold, e, limiter)?;
        let groups = self.rows.len() - self.free.len();
        limiter.check_memory(
            2 * self.bytes() + groups * 8 * (self.keys.len() + self.measured.len()),
        )?;
        let live: Vec<u32> = (0..self.rows.len() as u32)
            .filter(|group| self.lives(*group))
            .collect();
        let of_live = |column: &Column| live.iter().map(|group| column[*group as usize]).collect();
        let keys = (fold.keys.iter().zip(&self.keys)).map(|(key, ids)| (*key, of_live(ids)));
        let results = (fold.measures.iter().zip(&self.measured))
            .map(|(measure, measured)| (measure.variable, of_live(&measured.results)));
        Ok(Table::of(keys.chain(results), live.len()))
    }

    /// Whether most numbers belong to no group. Then rebuilding the groups is better than retaining
    /// the memory.
    pub(super) fn are_sparse(&self) -> bool {
        memory::is_sparse(self.rows.len() - self.free.len(), self.rows.len())
    }

    /// Releases memory that removed groups or values occupied.
    pub(super) fn shrink(&mut self) {
        memory::shrink_map(&mut self.numbers);
        memory::shrink_list(&mut self.free);
        memory::shrink_list(&mut self.touched);
        for measured in &mut self.measured {
            memory::shrink_list(&mut measured.passing);
            memory::shrink_map(&mut measured.values);
        }
    }

    /// Memory, roughly.
    pub(super) fn bytes(&self) -> usize {
        let RetainedGroups {
            numbers,
            free,
            keys,
            rows,
            measured,
            touched,
            is_touched,
        } = self;
        let key = keys.len() * size_of::<TermId>();
        let lists = [free, rows, touched].map(memory::of_list);
        memory::of_map(numbers)
            + numbers.len() * key
            + keys.iter().map(memory::of_list).sum::<usize>()
            + measured.iter().map(Measured::bytes).sum::<usize>()
            + lists.iter().sum::<usize>()
            + memory::of_list(is_touched)
    }
}
