//! Morsels: steps that look at each row alone run on parts of the table that fit into the caches,
//! all steps on one part before the next part. Of a heavy table the parts are taken by whatever
//! hands are free; what they make is put together in the order of the parts, so that no answer
//! depends on how many hands there were.

use crate::QueryError;
use crate::plan::Step;
use crate::run::Runner;
use crate::table::Table;

/// How many rows are tried first where only some of the answer is wanted.
const FIRST_PART: usize = 64;

impl Runner<'_, '_> {
    /// Runs steps that look at each row alone, until `limit` rows have come out.
    pub(crate) fn run_by_row(
        &mut self,
        steps: &[Step],
        mut table: Table,
        limit: usize,
    ) -> Result<Table, QueryError> {
        let mut steps = steps;
        while let Some((step, rest)) = steps.split_first() {
            // A step that makes no row out of nothing new is run whole where rows are limited: its
            // rows are there already.
            let cut = if limit == usize::MAX {
                !rest.is_empty() && table.rows >= 2 * self.guard.morsel_rows()
            } else {
                table.rows > FIRST_PART && step.kind.may_multiply()
            };
            if cut {
                return self.run_in_parts(steps, table, limit);
            }
            let wanted = if rest.is_empty() { limit } else { usize::MAX };
            table = self.run_step(step, table, wanted)?;
            steps = rest;
        }
        Ok(table)
    }

    /// Runs the first of some steps on parts of the table, and the others on what each makes.
    fn run_in_parts(
        &mut self,
        steps: &[Step],
        table: Table,
        limit: usize,
    ) -> Result<Table, QueryError> {
        let most = self.guard.morsel_rows();
        let held = table.bytes();
        self.guard.hold(held)?;
        let mut all = Table::empty_like(&table);
        let mut part = if limit == usize::MAX {
            most
        } else {
            FIRST_PART.min(most)
        };
        let mut from = 0;
        while from < table.rows && all.rows < limit {
            let to = (from + part).min(table.rows);
            let start = table.part(from..to, self.workspace);
            let made = self.run_part(steps, start, limit.saturating_sub(all.rows))?;
            all.append(made, self.workspace);
            self.guard.fits(all.bytes())?;
            from = to;
            part = (part * 4).min(most);
        }
        self.guard.release(held);
        self.workspace.give(table);
        Ok(all)
    }

    fn run_part(
        &mut self,
        steps: &[Step],
        table: Table,
        limit: usize,
    ) -> Result<Table, QueryError> {
        let Some((step, rest)) = steps.split_first() else {
            return Ok(table);
        };
        let wanted = match (rest.is_empty(), limit) {
            (true, limit) => limit,
            (false, _) => usize::MAX,
        };
        let next = self.run_step(step, table, wanted)?;
        self.run_by_row(rest, next, limit)
    }
}
