//! Runs a plan: step by step, each making the next table of the last; steps that look at each row
//! alone go by parts of the table (`morsels`). The one thing to know before changing it: a sub-plan
//! that starts from the rows of its parent carries the number of each row ([`Table::origin`]), by
//! which OPTIONAL, EXISTS and MINUS find back which rows had a match.

use crate::algebra::error::QueryError;
use crate::algebra::expression::Expr;
use crate::algebra::logical::{RetainedScan, Values};
use crate::algebra::varset::VarSet;
use crate::context::limiter::Limiter;
use crate::context::table::Table;
use crate::context::workspace::Workspace;
use crate::eval::evaluate::{Evaluation, Row};
use crate::eval::filter::Filter;
use crate::exec::distinct_rows::distinct_rows;
use crate::exec::explore::{self, Explorer, ROWS_PER_CHECK};
use crate::exec::group;
use crate::exec::intersect;
use crate::exec::join;
use crate::exec::path;
use crate::exec::reduce;
use crate::exec::row_scan;
use crate::exec::sort;
use crate::exec::step::{Plan, Step, StepKind};
use crate::exec::term_order::in_order;
use crate::value::term_value::Value;
use crate::view::sources::Graphs;
use somersault_lang::VarId;
use somersault_model::TermId;
use std::time::{Duration, Instant};

/// From so many rows on a sub-plan runs once for each combination of what it reads.
const WORTH_DISTINCT: usize = 32;

/// What a step did, over all its runs.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Actual {
    pub(crate) runs: u64,
    pub(crate) rows: u64,
    pub(crate) time: Duration,
}

impl std::ops::AddAssign for Actual {
    fn add_assign(&mut self, other: Actual) {
        self.runs += other.runs;
        self.rows += other.rows;
        self.time += other.time;
    }
}

/// Everything that running a plan needs.
pub(crate) struct Runner<'r, 'a> {
    pub(crate) graphs: &'r Graphs<'a>,
    pub(crate) evaluation: &'r mut Evaluation<'a>,
    pub(crate) limiter: &'r mut Limiter<'a>,
    pub(crate) workspace: &'r mut Workspace,
    /// Per step number; empty unless EXPLAIN wants it.
    pub(crate) actual: Vec<Actual>,
}

impl<'a> Runner<'_, 'a> {
    /// Runs a plan on a table.
    pub(crate) fn run(&mut self, plan: &Plan, table: Table) -> Result<Table, QueryError> {
        self.run_steps(&plan.steps, table, None)
    }

    /// Runs a plan until it has made so many rows.
    pub(crate) fn run_until(&mut self, plan: &Plan, rows: usize) -> Result<Table, QueryError> {
        self.run_steps(&plan.steps, Table::unit(), Some(rows))
    }

    fn explorer(&mut self, once: bool) -> Explorer<'_, 'a> {
        Explorer {
            once,
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
                table = self.run_step(step, table, usize::MAX)?;
                steps = rest;
                continue;
            }
            // Up to the next LIMIT nothing but part by part: then only so many rows are made.
            let limit = match steps.get(by_part).map(|s| &s.kind) {
                Some(StepKind::Slice { offset, limit }) => limit.map(|n| n.saturating_add(*offset)),
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
        self.find_exists(step, &table)?;
        let mut table = self.step(step, table, wanted)?;
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

    /// Finds for every row what the EXISTS of a step come to.
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
    fn inputs(
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

    /// Extends the rows by what the plan makes of them. Rows in which all is the same that the plan
    /// reads are looked at once.
    fn optional(&mut self, plan: &Plan, keep: &VarSet, table: Table) -> Result<Table, QueryError> {
        let (mut inputs, groups) = self.inputs(&table, &plan.mentioned)?;
        let count = inputs.rows;
        inputs.number(self.workspace);
        let held = table.bytes() + groups.as_ref().map_or(0, |groups| groups.len() * 4);
        self.limiter.reserve(held)?;
        let matched = self.run(plan, inputs);
        self.limiter.release(held);
        join::extended(
            table,
            matched?,
            groups.as_deref(),
            count,
            keep,
            self.limiter,
            self.workspace,
        )
    }

    /// For every row, whether the plan makes anything of it. Rows in which all is the same that the
    /// plan reads are looked at once.
    fn matched(&mut self, plan: &Plan, table: &Table) -> Result<Vec<bool>, QueryError> {
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

    /// Runs a plan that starts by itself, beside a table that stays in memory.
    fn alone(&mut self, plan: &Plan, beside: &Table) -> Result<Table, QueryError> {
        let held = beside.bytes();
        self.limiter.reserve(held)?;
        let result = self.run(plan, Table::unit());
        self.limiter.release(held);
        result
    }

    fn step(&mut self, step: &Step, table: Table, wanted: usize) -> Result<Table, QueryError> {
        let Step {
            kind, keep, once, ..
        } = step;
        match kind {
            StepKind::Scan(pattern) => {
                explore::scan(&mut self.explorer(*once), pattern, keep, wanted, table)
            }
            StepKind::Intersect { variable, patterns } => {
                let explorer = &mut self.explorer(*once);
                intersect::intersect(explorer, *variable, patterns, keep, wanted, table)
            }
            StepKind::Reduce { variable, pattern } => {
                let explorer = &mut self.explorer(*once);
                reduce::reduce(explorer, *variable, pattern, keep, wanted, table)
            }
            StepKind::Path(pattern) => {
                path::follow(&mut self.explorer(*once), pattern, keep, table)
            }
            StepKind::GraphName(name) => {
                row_scan::graph_name(&mut self.explorer(*once), *name, keep, table)
            }
            StepKind::Filter(condition) => self.filter(condition, keep, table),
            StepKind::Bind(variable, expr) => self.bind(*variable, expr, keep, table),
            StepKind::Union(branches) => self.union(branches, table),
            StepKind::Join { plan, shared, .. } => {
                if table.rows == 0 {
                    return Ok(Table::empty_like(&table));
                }
                let right = self.alone(plan, &table)?;
                join::join(table, right, shared, keep, self.limiter, self.workspace)
            }
            StepKind::Values(values) => self.values(values, keep, table),
            StepKind::Cells(variables) => self.cells(variables, keep, table),
            StepKind::Retained(rows) => self.maintained(rows, keep, table),
            StepKind::Service(service) => self.service(service, keep, table),
            StepKind::Optional { plan } => self.optional(plan, keep, table),
            StepKind::OptionalJoin {
                plan,
                shared,
                filters,
                ..
            } => {
                let right = self.alone(plan, &table)?;
                let mut numbered = table.copy(self.workspace);
                numbered.number(self.workspace);
                let needed = filters.input.union(keep);
                let joined = join::join(
                    numbered,
                    right,
                    shared,
                    &needed,
                    self.limiter,
                    self.workspace,
                )?;
                let held = table.bytes();
                self.limiter.reserve(held)?;
                let matched = self.run(filters, joined)?;
                self.limiter.release(held);
                let count = table.rows;
                join::extended(
                    table,
                    matched,
                    None,
                    count,
                    keep,
                    self.limiter,
                    self.workspace,
                )
            }
            StepKind::EachGraph { variable, plan, .. } => self.each_graph(*variable, plan),
            StepKind::AntiSemi { plan } => {
                let found = self.matched(plan, &table)?;
                Ok(self.select(table, keep, |row| !found[row]))
            }
            StepKind::Minus { plan, shared } => {
                let right = self.alone(plan, &table)?;
                let taken = join::taken(&table, &right, shared, self.limiter)?;
                Ok(self.select(table, keep, |row| !taken[row]))
            }
            StepKind::Aggregate { keys, aggregates } => {
                group::aggregate(self.evaluation, self.limiter, keys, aggregates, &table)
            }
            StepKind::Degrees(degrees) => {
                debug_assert!(table.origin.is_none() && table.rows == 1);
                let (vertices, counts) = degrees.count(&mut self.explorer(*once))?;
                let mut table = Table::of([(degrees.key, vertices)], counts.len());
                for variable in &degrees.counts {
                    let number = |count: &usize| Value::Integer((*count as i64).into());
                    let ids = counts
                        .iter()
                        .map(|count| self.evaluation.id(number(count).into()));
                    table.set(*variable, ids.collect());
                }
                Ok(table)
            }
            StepKind::OrderBy { keys, limit } => {
                let order = sort::order(self.evaluation, self.limiter, keys, *limit, &table)?;
                Ok(table.gather(&order, keep, self.workspace))
            }
            StepKind::Distinct(columns) => {
                let variables: Vec<VarId> = columns.iter().collect();
                let (_, firsts) = distinct_rows(&table, &variables, self.limiter)?;
                Ok(table.gather(&firsts, keep, self.workspace))
            }
            StepKind::InTermOrder => in_order(self.evaluation, self.limiter, table, self.workspace),
            StepKind::Slice { offset, limit } => {
                let mut table = table;
                table.slice(*offset, *limit);
                Ok(table)
            }
        }
    }

    /// The rows that a condition on their number keeps.
    fn select(&mut self, table: Table, keep: &VarSet, wanted: impl Fn(usize) -> bool) -> Table {
        let mut kept = self.workspace.rows();
        kept.extend((0..table.rows as u32).filter(|row| wanted(*row as usize)));
        let table = table.gather(&kept, keep, self.workspace);
        self.workspace.give_rows(kept);
        table
    }

    fn each_graph(&mut self, variable: VarId, plan: &Plan) -> Result<Table, QueryError> {
        let graphs = self.graphs;
        let mut all: Option<Table> = None;
        let mut held = 0;
        for (name, [source]) in graphs.named() {
            let before = graphs.set_current(Some(*source));
            let result = self.run(plan, Table::unit());
            graphs.set_current(before);
            let mut table = result?;
            // Where the pattern binds the variable itself, it has to be this graph's name.
            if let Some(column) = table.take(variable) {
                let all = table.variables();
                table = self.select(table, &all, |row| {
                    column[row].is_unbound() || column[row] == *name
                });
            }
            table.set(variable, vec![*name; table.rows]);
            let bytes = table.bytes();
            match &mut all {
                Some(all) => all.append(table, self.workspace),
                None => all = Some(table),
            }
            self.limiter.reserve(bytes)?;
            held += bytes;
        }
        self.limiter.release(held);
        Ok(all.unwrap_or_else(|| Table::of([], 0)))
    }

    fn filter(
        &mut self,
        condition: &Expr,
        keep: &VarSet,
        table: Table,
    ) -> Result<Table, QueryError> {
        let mut kept = self.workspace.rows();
        let mut filter = Filter {
            evaluation: self.evaluation,
            limiter: self.limiter,
            workspace: self.workspace,
            table: &table,
        };
        filter.rows_that_hold(condition, &mut kept)?;
        let table = table.gather(&kept, keep, self.workspace);
        self.workspace.give_rows(kept);
        Ok(table)
    }

    fn bind(
        &mut self,
        variable: VarId,
        expr: &Expr,
        keep: &VarSet,
        mut table: Table,
    ) -> Result<Table, QueryError> {
        if !keep.contains(variable) && table.column(variable).is_none() {
            return Ok(table);
        }
        let mut column = self.workspace.ids();
        if let Expr::Variable(other) = expr
            && let Some(same) = table.column(*other)
        {
            column.extend_from_slice(same);
        }
        for at in column.len()..table.rows {
            self.limiter.tick()?;
            let row = Row { table: &table, at };
            let evaluated = self.evaluation.evaluate(expr, row);
            column.push(evaluated.map_or(TermId::UNBOUND, |e| self.evaluation.id(e)));
            self.limiter.check_memory(self.evaluation.held_bytes())?;
        }
        let Some(before) = table.take(variable) else {
            table.set_kept(variable, column, keep, self.workspace);
            return Ok(table);
        };
        // The variable has values already: a join with what the expression says.
        let mut kept = self.workspace.rows();
        for (at, (id, before)) in column.iter_mut().zip(before).enumerate() {
            if id.is_unbound() || before.is_unbound() || *id == before {
                kept.push(at as u32);
            }
            if id.is_unbound() {
                *id = before;
            }
        }
        table.set_kept(variable, column, keep, self.workspace);
        let table = table.gather(&kept, keep, self.workspace);
        self.workspace.give_rows(kept);
        Ok(table)
    }

    fn union(&mut self, branches: &[Plan], table: Table) -> Result<Table, QueryError> {
        let mut all: Option<Table> = None;
        let mut held = table.bytes();
        self.limiter.reserve(held)?;
        for plan in branches {
            let start = table.copy(self.workspace);
            let one = self.run(plan, start)?;
            let bytes = one.bytes();
            match &mut all {
                Some(all) => all.append(one, self.workspace),
                None => all = Some(one),
            }
            // What there is so far stays while the next branch runs.
            self.limiter.reserve(bytes)?;
            held += bytes;
        }
        self.limiter.release(held);
        Ok(all.unwrap_or_else(|| Table::empty_like(&table)))
    }

    /// Joins with the cells of the queries that are evaluated together.
    fn cells(
        &mut self,
        variables: &[VarId],
        keep: &VarSet,
        table: Table,
    ) -> Result<Table, QueryError> {
        let Some(cells) = self.evaluation.cells else {
            return Ok(Table::empty_like(&table));
        };
        let columns: Option<Vec<&[TermId]>> = variables.iter().map(|v| table.column(*v)).collect();
        let has_all = |columns: &Vec<&[TermId]>| {
            // A branch of a UNION may have left some without a value.
            (columns.iter()).all(|ids| !ids.contains(&TermId::UNBOUND))
        };
        if let Some(columns) = columns.filter(has_all) {
            let mut kept = self.workspace.rows();
            for first in (0..table.rows).step_by(ROWS_PER_CHECK) {
                self.limiter.check_interrupt()?;
                let rows = first..(first + ROWS_PER_CHECK).min(table.rows);
                cells.look_up(&columns, rows, |row, cell| {
                    kept.extend(cell.map(|_| row as u32));
                });
            }
            let table = table.gather(&kept, keep, self.workspace);
            self.workspace.give_rows(kept);
            return Ok(table);
        }
        self.limiter
            .check_memory(cells.len() * variables.len() * size_of::<TermId>())?;
        let columns = variables.iter().enumerate().map(|(at, variable)| {
            let mut ids = Vec::with_capacity(cells.len());
            cells.column(at, &mut ids);
            (*variable, ids)
        });
        let all = Table::of(columns, cells.len());
        if table.rows == 1 && !table.is_numbered_or_wide() {
            return Ok(all);
        }
        let shared = VarSet::of(variables.iter().copied());
        join::join(table, all, &shared, keep, self.limiter, self.workspace)
    }

    /// Joins with rows that are kept from one execution to the next.
    fn maintained(
        &mut self,
        rows: &RetainedScan,
        keep: &VarSet,
        table: Table,
    ) -> Result<Table, QueryError> {
        let held = &self.evaluation.maintained[rows.number];
        if table.rows == 1 && !table.is_numbered_or_wide() {
            let wanted: Vec<VarId> = (rows.variables.iter().copied())
                .filter(|variable| keep.contains(*variable))
                .collect();
            self.limiter
                .check_memory(held.rows * (8 * wanted.len() + 4))?;
            return Ok(held.of_columns(&wanted, self.workspace));
        }
        self.limiter.check_memory(held.bytes() + table.bytes())?;
        let right = held.of_columns(&rows.variables, self.workspace);
        let shared = VarSet::of(rows.variables.iter().copied());
        join::join(table, right, &shared, keep, self.limiter, self.workspace)
    }

    fn values(
        &mut self,
        values: &Values,
        keep: &VarSet,
        table: Table,
    ) -> Result<Table, QueryError> {
        let Values { variables, rows } = values;
        let constants = &self.evaluation.constants;
        let columns = variables.iter().enumerate().map(|(at, variable)| {
            let column = rows
                .iter()
                .map(|row| row[at].map_or(TermId::UNBOUND, |c| constants[c.index()]))
                .collect();
            (*variable, column)
        });
        let right = Table::of(columns, rows.len());
        let shared = VarSet::of(variables.iter().copied());
        join::join(table, right, &shared, keep, self.limiter, self.workspace)
    }
}
