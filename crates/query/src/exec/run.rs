//! Runs a plan step by step; each step makes the next table from the last. Steps that look at each
//! row alone run on parts of the table (`morsels`). The one thing to know before changing it: a
//! sub-plan that starts from the rows of its parent carries the number of each row
//! ([`Table::origin`]), by which OPTIONAL, EXISTS and MINUS find back which rows had a match.

use crate::algebra::error::QueryError;
use crate::algebra::varset::VarSet;
use crate::context::limiter::Limiter;
use crate::context::table::Table;
use crate::context::workspace::Workspace;
use crate::eval::evaluate::Evaluation;
use crate::exec::distinct_rows::distinct_rows;
use crate::exec::explore::Explorer;
use crate::exec::join;
use crate::exec::operators::{Input, Slice, StepKind};
use crate::exec::step::{Plan, Step};
use crate::view::sources::Graphs;
use somersault_lang::VarId;
use std::time::{Duration, Instant};

/// From this many rows on, a sub-plan runs once for each combination of the values that it reads.
const WORTH_DISTINCT: usize = 32;

/// The figures of a step, over all its runs.
#[derive(Debug, Clone, Copy, Default)]
pub struct StepFigures {
    /// The number of runs.
    pub runs: u64,
    /// The number of rows that it left.
    pub rows: u64,
    /// The time that it took.
    pub time: Duration,
}

impl std::ops::AddAssign for StepFigures {
    fn add_assign(&mut self, other: StepFigures) {
        self.runs += other.runs;
        self.rows += other.rows;
        self.time += other.time;
    }
}

/// Everything that running a plan needs.
pub(crate) struct Runner<'r, 'a> {
    pub(crate) graphs: &'r mut Graphs<'a>,
    pub(crate) evaluation: &'r mut Evaluation<'a>,
    pub(crate) limiter: &'r mut Limiter<'a>,
    pub(crate) workspace: &'r mut Workspace,
    /// Per step number; empty unless EXPLAIN wants it.
    pub(crate) actual: Vec<StepFigures>,
}

impl<'a> Runner<'_, 'a> {
    /// Runs a plan on a table.
    pub(crate) fn run(&mut self, plan: &Plan, table: Table) -> Result<Table, QueryError> {
        self.run_steps(&plan.steps, table, None)
    }

    /// Runs a plan until it has made this many rows.
    pub(crate) fn run_until(&mut self, plan: &Plan, rows: usize) -> Result<Table, QueryError> {
        self.run_steps(&plan.steps, Table::unit(), Some(rows))
    }

    /// The reader of the graphs for a step.
    pub(crate) fn explorer<'s>(&'s mut self, step: &'s Step, wanted: usize) -> Explorer<'s, 'a> {
        Explorer {
            keep: &step.keep,
            wanted,
            once: step.once,
            graphs: self.graphs,
            constants: &self.evaluation.constants,
            limiter: self.limiter,
            workspace: self.workspace,
        }
    }

    /// Runs steps on a table; with `wanted`, more rows than that need not come out.
    fn run_steps(
        &mut self,
        steps: &[Step],
        mut table: Table,
        wanted: Option<usize>,
    ) -> Result<Table, QueryError> {
        let mut steps = steps;
        while let Some((step, rest)) = steps.split_first() {
            let by_part = steps.iter().take_while(|s| s.by_part).count();
            if by_part == 0 {
                // Sorting and grouping read no list.
                self.graphs.release();
                table = self.run_step(step, table, usize::MAX)?;
                steps = rest;
                continue;
            }
            // If all steps up to the next LIMIT run part by part, only as many rows as it needs are
            // made.
            let limit = match steps.get(by_part).map(|s| &s.kind) {
                Some(StepKind::Slice(Slice { offset, limit })) => {
                    limit.map(|n| n.saturating_add(*offset))
                }
                Some(_) => None,
                None => wanted,
            };
            let (first, rest) = steps.split_at(by_part);
            table = self.run_by_part(first, table, limit.unwrap_or(usize::MAX))?;
            steps = rest;
        }
        Ok(table)
    }

    pub(crate) fn run_step(
        &mut self,
        step: &Step,
        table: Table,
        wanted: usize,
    ) -> Result<Table, QueryError> {
        let started = (!self.actual.is_empty()).then(Instant::now);
        self.graphs.release_now_and_then();
        self.find_exists(step, &table)?;
        let input = Input {
            table,
            step,
            wanted,
        };
        let mut table = step.kind.operator().run(input, self)?;
        table.keep(&step.keep, self.workspace);
        if step.once && step.keep.is_empty() {
            table.drop_repeats();
        }
        self.limiter.count_rows(table.rows);
        self.limiter.check_row_ids(table.rows)?;
        self.limiter.check_memory(table.bytes())?;
        if let Some(started) = started {
            let actual = &mut self.actual[step.number];
            actual.runs += 1;
            actual.rows += table.rows as u64;
            actual.time += started.elapsed();
        }
        Ok(table)
    }

    /// Evaluates the EXISTS of a step for every row.
    fn find_exists(&mut self, step: &Step, table: &Table) -> Result<(), QueryError> {
        for (at, plan) in &step.exists {
            let found = self.matched(plan, table)?;
            if self.evaluation.exists.len() <= *at {
                self.evaluation.exists.resize_with(at + 1, Vec::new);
            }
            self.evaluation.exists[*at] = found;
        }
        Ok(())
    }

    /// The columns of a table that matter to a plan, with each combination of their values once,
    /// and for each row the number of its combination. No numbers where that is not worth it.
    pub(crate) fn inputs(
        &mut self,
        table: &Table,
        read: &VarSet,
    ) -> Result<(Table, Option<Vec<u32>>), QueryError> {
        let read: Vec<VarId> = (read.iter())
            .filter(|variable| table.column(*variable).is_some())
            .collect();
        if table.rows >= WORTH_DISTINCT {
            let (groups, firsts) = distinct_rows(table, &read, self.limiter)?;
            if firsts.len() <= table.rows / 2 {
                let inputs = table.of_rows(&read, &firsts, self.workspace);
                return Ok((inputs, Some(groups)));
            }
        }
        Ok((table.of_columns(&read, self.workspace), None))
    }

    /// For every row, whether the plan finds a row for it. Rows with equal values for all that the
    /// plan reads are looked at once.
    pub(crate) fn matched(&mut self, plan: &Plan, table: &Table) -> Result<Vec<bool>, QueryError> {
        let (mut inputs, groups) = self.inputs(table, &plan.input)?;
        let mut found = vec![false; inputs.rows];
        inputs.number(self.workspace);
        let held = table.bytes() + groups.as_ref().map_or(0, |groups| groups.len() * 4);
        self.limiter.reserve(held)?;
        let result = self.run(plan, inputs);
        self.limiter.release(held);
        let mut result = result?;
        for row in result.origin.take().unwrap_or_default() {
            found[row as usize] = true;
        }
        self.workspace.give(result);
        Ok(match groups {
            Some(groups) => groups.iter().map(|group| found[*group as usize]).collect(),
            None => found,
        })
    }

    /// Runs a plan that starts from nothing, while a table stays in memory.
    pub(crate) fn alone(&mut self, plan: &Plan, beside: &Table) -> Result<Table, QueryError> {
        let held = beside.bytes();
        self.limiter.reserve(held)?;
        let result = self.run(plan, Table::unit());
        self.limiter.release(held);
        result
    }

    /// The rows that a condition on their number keeps.
    pub(crate) fn select(
        &mut self,
        table: Table,
        keep: &VarSet,
        wanted: impl Fn(usize) -> bool,
    ) -> Table {
        let mut kept = self.workspace.rows();
        kept.extend((0..table.rows as u32).filter(|row| wanted(*row as usize)));
        let table = table.gather(&kept, keep, self.workspace);
        self.workspace.give_rows(kept);
        table
    }

    /// Joins two tables by hash.
    pub(crate) fn join(
        &mut self,
        left: Table,
        right: Table,
        shared: &VarSet,
        keep: &VarSet,
    ) -> Result<Table, QueryError> {
        join::join(left, right, shared, keep, self.limiter, self.workspace)
    }
}
