//! What one execution is given: limits, the time that it takes for now, what random functions are
//! keyed by. The clock is read for deadlines and for EXPLAIN's timings alone; no answer depends on it (S6).

use crate::algebra::error::QueryError;
use crate::context::table::Table;
use oxrdf::{Quad, Term};
use somersault_model::{EventTime, Limits, QueryUid};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What leaves the machine for SERVICE and LOAD. Given only where remote access is allowed.
pub trait Remote: Send + Sync {
    /// Evaluates a SELECT query at a SPARQL endpoint: the variables' names, and the rows.
    ///
    /// # Errors
    /// A sentence that says what failed.
    fn select(&self, endpoint: &str, query: &str) -> Result<RemoteSolutions, String>;

    /// Reads a document for LOAD. Its blank nodes must be new.
    ///
    /// # Errors
    /// A sentence that says what failed.
    fn document(&self, iri: &str) -> Result<Vec<Quad>, String>;
}

/// The answer of a remote endpoint.
#[derive(Debug, Clone, Default)]
pub struct RemoteSolutions {
    /// The columns, without `?`.
    pub variables: Vec<String>,
    /// The rows, as wide as `variables`.
    pub rows: Vec<Vec<Option<Term>>>,
}

/// Threads that take shares of a heavy query. The pool of the runtime is one; without any, a query
/// runs on its caller's thread alone.
pub trait Crew: Send + Sync {
    /// How many threads may work on one query, the caller's among them; at least 1.
    fn hands(&self) -> usize;

    /// Says that there may be something to share soon, so that whoever is free is awake by then.
    fn ready(&self) {}

    /// Whether somebody waits for a thread that could be helping. Looked at between the parts of a
    /// share, which then ends.
    fn is_awaited(&self) -> bool {
        false
    }

    /// Calls `work` once with each number below `shares`, on the calling thread and on those that
    /// are free, and returns when all calls have. A panic of a share is passed on.
    fn share(&self, shares: usize, work: &(dyn Fn(usize) + Sync));
}

/// What one execution is given.
#[derive(Clone)]
pub struct Execution {
    /// Time, rows and memory that it may take.
    pub limits: Limits,
    /// When it has to be done; `None` = when [`Limits::query_time`] has passed since its start.
    pub deadline: Option<Instant>,
    /// When it started, if its caller has looked at the clock; `None` = at its beginning.
    pub started: Option<Instant>,
    /// Set by whoever wants it to stop.
    pub cancel: Option<Arc<AtomicBool>>,
    /// Set by whoever asked, when the answer is not wanted any more; stops it as well.
    pub abandoned: Option<Arc<AtomicBool>>,
    /// NOW(): the close, or for a one-shot query the time of its SN.
    pub now: EventTime,
    /// With [`Execution::close`]: what RAND, UUID, STRUUID and BNODE are keyed by.
    pub query: QueryUid,
    /// The close that it is for; for a one-shot query something that no other execution has.
    pub close: EventTime,
    /// SERVICE and LOAD, where they are allowed.
    pub remote: Option<Arc<dyn Remote>>,
    /// Give up with [`QueryError::OverBudget`] when this much time has passed, or when the plan
    /// expects to need more: for trying a query where a long one must not run.
    pub budget: Option<Duration>,
    /// Who may take shares of it; `None` = nobody but the caller's thread.
    pub crew: Option<Arc<dyn Crew>>,
    /// What the planner must do, for tests: every choice gives the same answer.
    #[doc(hidden)]
    pub plan_choices: PlanChoices,
    /// Rows of a morsel; tests make it small, so that small data has many.
    #[doc(hidden)]
    pub morsel_rows: usize,
}

/// Choices taken from the planner.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PlanChoices {
    /// Orders are found greedily, however few parts there are.
    pub greedy: bool,
    /// No intersections.
    pub no_intersect: bool,
    /// Blocks and optional parts that may do either run by themselves and are joined by hash
    /// (`true`), or run from the rows so far (`false`).
    pub hash: Option<bool>,
    /// Rows are reduced wherever they can be.
    pub reduce: bool,
    /// Samples are taken and orders tried out however little the query may cost.
    pub try_out: bool,
}

/// Rows of a morsel: their columns fit into the caches.
const MORSEL_ROWS: usize = 1 << 11;

impl Execution {
    /// An execution with these limits at this time; nothing remote, falling back allowed.
    pub fn new(limits: Limits, now: EventTime) -> Execution {
        Execution {
            limits,
            deadline: None,
            started: None,
            cancel: None,
            abandoned: None,
            now,
            query: QueryUid(0),
            close: now,
            remote: None,
            budget: None,
            crew: None,
            plan_choices: PlanChoices::default(),
            morsel_rows: MORSEL_ROWS,
        }
    }
}

/// A plan that expects to make fewer rows will hardly have something to share.
const WORTH_READY: u64 = 2 * MORSEL_ROWS as u64;

/// Whether a plan that expects to make so many rows may have something to share.
pub(crate) fn worth_ready(rows: u64) -> bool {
    rows >= WORTH_READY
}

/// How often the clock is looked at: once in so many checks.
const CHECKS_PER_LOOK: u32 = 256;
/// A step that has made fewer rows is no reason to look at it.
const ROWS_PER_LOOK: usize = 1 << 10;

/// The limits of one running execution, checked inside its loops.
pub(crate) struct Guard<'a> {
    execution: &'a Execution,
    deadline: Instant,
    /// When the budget is used up, which is before the deadline.
    budget_end: Option<Instant>,
    checks: u32,
    memory: u64,
    /// Rows that all steps have made so far.
    rows: u64,
    /// Of a hand of a crew: what all hands together have made.
    beside: Option<&'a AtomicU64>,
}

impl<'a> Guard<'a> {
    pub(crate) fn start(execution: &'a Execution) -> Guard<'a> {
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
        Guard {
            execution,
            deadline,
            budget_end: budget_end.filter(|end| *end < deadline),
            checks: 0,
            memory: 0,
            rows: 0,
            beside: None,
        }
    }

    /// The limits for one hand of a crew; what all hands have made is counted in `beside`.
    pub(crate) fn of_hand<'h>(&'h self, beside: &'h AtomicU64) -> Guard<'h> {
        Guard {
            execution: self.execution,
            deadline: self.deadline,
            budget_end: self.budget_end,
            checks: 0,
            memory: self.memory,
            rows: 0,
            beside: Some(beside),
        }
    }

    /// Who may take shares of a heavy table. A hand shares nothing further, and a query that has to
    /// be light is not worth it.
    pub(crate) fn crew(&self) -> Option<&'a dyn Crew> {
        let crew = self.execution.crew.as_deref()?;
        let alone = self.beside.is_some() || self.budget_end.is_some() || crew.hands() < 2;
        (!alone).then_some(crew)
    }

    /// Called when it is known how many rows the plan expects to make: a crew that will be asked gets
    /// ready meanwhile.
    pub(crate) fn expect_help(&self, rows: u64) {
        if worth_ready(rows)
            && let Some(crew) = self.crew()
        {
            crew.ready();
        }
    }

    /// Ends an execution that may only do what is light.
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

    /// What the planner must do.
    pub(crate) fn plan_choices(&self) -> PlanChoices {
        self.execution.plan_choices
    }

    /// Called when it is known how many rows the plan expects to make: where only a light query may
    /// run, a heavy one ends here.
    pub(crate) fn expect(&self, rows: u64, light: u64) -> Result<(), QueryError> {
        if self.execution.budget.is_some() && rows > light {
            return Err(QueryError::OverBudget);
        }
        Ok(())
    }

    /// From here on the deadline alone counts.
    pub(crate) fn end_budget(&mut self) {
        self.budget_end = None;
    }

    /// Counts the rows that a step has made.
    #[inline]
    pub(crate) fn made(&mut self, rows: usize) {
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
            self.look()?;
        }
        Ok(())
    }

    /// Called when a step has made so many rows of a table, with `new` columns more.
    #[inline]
    pub(crate) fn making(
        &mut self,
        table: &Table,
        rows: usize,
        new: usize,
    ) -> Result<(), QueryError> {
        if rows < ROWS_PER_LOOK {
            return self.tick();
        }
        self.numbers(rows)?;
        let width = table.present().count() + new;
        self.fits(rows * (8 * width + 4) + table.bytes())?;
        self.look()
    }

    /// Whether so many rows can be numbered: the numbers have 32 bits, and the last one means none.
    #[inline]
    pub(crate) fn numbers(&self, rows: usize) -> Result<(), QueryError> {
        if rows >= u32::MAX as usize {
            return Err(QueryError::TableRows);
        }
        Ok(())
    }

    /// Looks at the clock and the cancel flag.
    pub(crate) fn look(&self) -> Result<(), QueryError> {
        let flags = [&self.execution.cancel, &self.execution.abandoned];
        if (flags.into_iter().flatten()).any(|flag| flag.load(Ordering::Relaxed)) {
            return Err(QueryError::Cancelled);
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

    /// Whether tables of this size are still within the limit, beside what is held already.
    #[inline]
    pub(crate) fn fits(&self, bytes: usize) -> Result<(), QueryError> {
        let beside = self.beside.map_or(0, |made| made.load(Ordering::Relaxed));
        if self.memory + beside + bytes as u64 > self.execution.limits.query_memory_bytes {
            return Err(QueryError::Memory {
                limit: self.execution.limits.query_memory_bytes,
            });
        }
        Ok(())
    }

    /// Counts memory that stays in use until [`Guard::release`].
    pub(crate) fn hold(&mut self, bytes: usize) -> Result<(), QueryError> {
        self.fits(bytes)?;
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

    /// Whether an answer may have so many rows.
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

    #[test]
    fn rows_beyond_32_bits_are_a_limit() {
        let limits = Limits {
            query_memory_bytes: u64::MAX / 2,
            ..Limits::default()
        };
        let execution = Execution::new(limits, EventTime(0));
        let mut guard = Guard::start(&execution);
        let table = Table::unit();
        let most = u32::MAX as usize - 1;
        assert!(guard.making(&table, most, 0).is_ok());
        let error = guard.making(&table, most + 1, 0);
        assert!(matches!(error, Err(QueryError::TableRows)), "{error:?}");
    }
}
