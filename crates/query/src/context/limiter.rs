//! The limits of one running execution: time, rows, memory and cancellation, checked inside its
//! loops. The clock is read for deadlines alone; no answer depends on it (S6).

use crate::algebra::error::QueryError;
use crate::context::execution::{Execution, MORSEL_ROWS, PlanChoices, Remote};
use crate::context::table::Table;
use crate::view::graph_view::GraphView;
use somersault_pool::Workers;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// A plan that expects fewer rows has hardly any work to share.
const WORTH_READY: u64 = 2 * MORSEL_ROWS as u64;

/// Whether a plan that expects this many rows may have work to share.
pub(crate) fn worth_ready(rows: u64) -> bool {
    rows >= WORTH_READY
}

/// The number of checks between two looks at the clock.
const CHECKS_PER_LOOK: u32 = 256;
/// A step that has made fewer rows does not look at the clock on its own account.
const ROWS_PER_LOOK: usize = 1 << 10;

/// The limits of one running execution, checked inside its loops.
pub(crate) struct Limiter<'a> {
    execution: &'a Execution,
    deadline: Instant,
    /// When the budget ends, if that is before the deadline.
    budget_end: Option<Instant>,
    checks: u32,
    memory: u64,
    /// Rows that all steps have made so far.
    rows: u64,
    /// For a helper thread: the bytes that all threads together have made.
    beside: Option<&'a AtomicU64>,
    /// The view whose pin may end.
    view: Option<&'a dyn GraphView>,
}

impl<'a> Limiter<'a> {
    pub(crate) fn start(execution: &'a Execution) -> Limiter<'a> {
        let started = match (execution.started, execution.deadline, execution.budget) {
            (Some(started), _, _) => started,
            // The clock costs as much as a few rows do.
            (None, Some(deadline), None) => deadline,
            _ => Instant::now(),
        };
        let deadline = execution
            .deadline
            .unwrap_or_else(|| started + execution.limits.query_time);
        let budget_end = execution.budget.map(|budget| started + budget);
        Limiter {
            execution,
            deadline,
            budget_end: budget_end.filter(|end| *end < deadline),
            checks: 0,
            memory: 0,
            rows: 0,
            beside: None,
            view: None,
        }
    }

    /// The same, for an execution that ends with the pin of its view.
    pub(crate) fn watching(self, view: &'a dyn GraphView) -> Limiter<'a> {
        let view = Some(view);
        Limiter { view, ..self }
    }

    /// The limits for one helper thread. `beside` counts the bytes that all threads have made.
    pub(crate) fn of_hand<'h>(&'h self, beside: &'h AtomicU64) -> Limiter<'h> {
        Limiter {
            execution: self.execution,
            deadline: self.deadline,
            budget_end: self.budget_end,
            checks: 0,
            memory: self.memory,
            rows: 0,
            beside: Some(beside),
            view: self.view,
        }
    }

    /// The threads that may take shares of a heavy table. A helper shares no further, and sharing
    /// is not worthwhile for a query that has to be light.
    pub(crate) fn workers(&self) -> Option<&'a dyn Workers> {
        let workers = self.execution.workers.as_deref()?;
        let alone = self.beside.is_some() || self.budget_end.is_some() || workers.limit() < 2;
        (!alone).then_some(workers)
    }

    /// Called when the plan's expected rows are known: threads that may be needed wake up
    /// meanwhile.
    pub(crate) fn expect_help(&self, rows: u64) {
        if worth_ready(rows)
            && let Some(workers) = self.workers()
        {
            workers.wake();
        }
    }

    /// Ends an execution that has to be light.
    pub(crate) fn refuse_light(&self) -> Result<(), QueryError> {
        if self.execution.budget.is_some() {
            return Err(QueryError::OverBudget);
        }
        Ok(())
    }

    /// SERVICE, where it is allowed.
    pub(crate) fn remote(&self) -> Option<Arc<dyn Remote>> {
        self.execution.remote.clone()
    }

    /// The forced choices of the planner.
    pub(crate) fn plan_choices(&self) -> PlanChoices {
        self.execution.plan_choices
    }

    /// Called when the plan's expected rows are known: where only a light query may run, a heavy
    /// one ends here.
    pub(crate) fn expect(&self, rows: u64, light: u64) -> Result<(), QueryError> {
        if self.execution.budget.is_some() && rows > light {
            return Err(QueryError::OverBudget);
        }
        Ok(())
    }

    /// Drops the budget: from here on only the deadline counts.
    pub(crate) fn end_budget(&mut self) {
        self.budget_end = None;
    }

    /// Counts the rows that a step has made.
    #[inline]
    pub(crate) fn count_rows(&mut self, rows: usize) {
        self.rows += rows as u64;
    }

    /// Rows that all steps have made so far.
    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    /// Called once per row or so; looks at the clock and the cancel flag now and then.
    #[inline]
    pub(crate) fn tick(&mut self) -> Result<(), QueryError> {
        self.checks += 1;
        if self.checks >= CHECKS_PER_LOOK {
            self.checks = 0;
            self.check_interrupt()?;
        }
        Ok(())
    }

    /// Called when a step has made `rows` rows of a table, with `new` more columns.
    #[inline]
    pub(crate) fn check_growth(
        &mut self,
        table: &Table,
        rows: usize,
        new: usize,
    ) -> Result<(), QueryError> {
        if rows < ROWS_PER_LOOK {
            return self.tick();
        }
        self.check_row_ids(rows)?;
        let width = table.present().count() + new;
        self.check_memory(rows * (8 * width + 4) + table.bytes())?;
        self.check_interrupt()
    }

    /// Whether this many rows can be numbered: row numbers have 32 bits, and the last one means
    /// none.
    #[inline]
    pub(crate) fn check_row_ids(&self, rows: usize) -> Result<(), QueryError> {
        if rows >= u32::MAX as usize {
            return Err(QueryError::TableRows);
        }
        Ok(())
    }

    /// Looks at the clock and the cancel flag.
    pub(crate) fn check_interrupt(&self) -> Result<(), QueryError> {
        let flags = [&self.execution.cancel, &self.execution.abandoned];
        if (flags.into_iter().flatten()).any(|flag| flag.load(Ordering::Relaxed)) {
            return Err(QueryError::Cancelled);
        }
        if let Some(end) = self.view.and_then(GraphView::end) {
            return Err(QueryError::of_pin(end, &self.execution.limits));
        }
        let now = Instant::now();
        if self.budget_end.is_some_and(|end| now >= end) {
            return Err(QueryError::OverBudget);
        }
        if now >= self.deadline {
            return Err(QueryError::Time {
                limit: self.execution.limits.query_time,
            });
        }
        Ok(())
    }

    /// Whether tables of this size are within the limit, in addition to the memory reserved
    /// already.
    #[inline]
    pub(crate) fn check_memory(&self, bytes: usize) -> Result<(), QueryError> {
        let beside = self.beside.map_or(0, |made| made.load(Ordering::Relaxed));
        if self.memory + beside + bytes as u64 > self.execution.limits.query_memory_bytes {
            return Err(QueryError::Memory {
                limit: self.execution.limits.query_memory_bytes,
            });
        }
        Ok(())
    }

    /// Counts memory that stays in use until [`Limiter::release`].
    pub(crate) fn reserve(&mut self, bytes: usize) -> Result<(), QueryError> {
        self.check_memory(bytes)?;
        self.memory += bytes as u64;
        Ok(())
    }

    /// Gives memory back.
    pub(crate) fn release(&mut self, bytes: usize) {
        self.memory = self.memory.saturating_sub(bytes as u64);
    }

    /// Rows of a morsel.
    pub(crate) fn morsel_rows(&self) -> usize {
        self.execution.morsel_rows.max(1)
    }

    /// Whether an answer may have this many rows.
    pub(crate) fn answer_rows(&self, rows: usize) -> Result<(), QueryError> {
        if rows as u64 > self.execution.limits.result_rows {
            return Err(QueryError::Rows {
                limit: self.execution.limits.result_rows,
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use somersault_model::{EventTime, Limits};

    #[test]
    fn rows_beyond_32_bits_are_a_limit() {
        let limits = Limits {
            query_memory_bytes: u64::MAX / 2,
            ..Limits::default()
        };
        let execution = Execution::new(limits, EventTime(0));
        let mut limiter = Limiter::start(&execution);
        let table = Table::unit();
        let most = u32::MAX as usize - 1;
        assert!(limiter.check_growth(&table, most, 0).is_ok());
        let error = limiter.check_growth(&table, most + 1, 0);
        assert!(matches!(error, Err(QueryError::TableRows)), "{error:?}");
    }
}
