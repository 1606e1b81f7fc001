//! Runs a plan: step by step, each making the next table of the last. The one thing to know before
//! changing it: a sub-plan that starts from the rows of its parent carries the number of each row
//! ([`Table::origin`]), by which OPTIONAL, EXISTS and MINUS find back which rows had a match.

use crate::QueryError;
use crate::aggregate::Accumulator;
use crate::evaluate::{Evaluation, Row};
use crate::execution::Guard;
use crate::explore;
use crate::expression::Expr;
use crate::intersect;
use crate::join;
use crate::logical::{Aggregate, Values};
use crate::path;
use crate::plan::{Plan, Step, StepKind};
use crate::rows::{Key, RowIndex};
use crate::sources::Graphs;
use crate::table::Table;
use crate::value::Value;
use crate::varset::VarSet;
use somersault_lang::VarId;
use somersault_model::TermId;
use std::cmp::Ordering;
use std::time::{Duration, Instant};

/// How many rows are tried first where only some of the answer is wanted.
const FIRST_PART: usize = 64;

/// What a step did, over all its runs.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Actual {
    pub(crate) runs: u64,
    pub(crate) rows: u64,
    pub(crate) time: Duration,
}

/// Everything that running a plan needs.
pub(crate) struct Runner<'r, 'a> {
    pub(crate) graphs: &'r Graphs<'a>,
    pub(crate) evaluation: &'r mut Evaluation<'a>,
    pub(crate) guard: &'r mut Guard<'a>,
    /// Per step number; empty unless EXPLAIN wants it.
    pub(crate) actual: Vec<Actual>,
}

impl Runner<'_, '_> {
    /// Runs a plan on a table.
    pub(crate) fn run(&mut self, plan: &Plan, table: Table) -> Result<Table, QueryError> {
        self.run_steps(&plan.steps, table, None)
    }

    /// Runs a plan until it has made so many rows.
    pub(crate) fn run_until(&mut self, plan: &Plan, rows: usize) -> Result<Table, QueryError> {
        self.run_steps(&plan.steps, Table::unit(), Some(rows))
    }

    /// Runs steps on a table; with `wanted`, more rows than that need not come out.
    fn run_steps(
        &mut self,
        steps: &[Step],
        mut table: Table,
        wanted: Option<usize>,
    ) -> Result<Table, QueryError> {
        let mut steps = steps;
        loop {
            // Up to the next LIMIT nothing but row by row: then only so many rows are made.
            let by_row = steps.iter().take_while(|s| s.kind.is_by_row()).count();
            let limit = match steps.get(by_row).map(|s| &s.kind) {
                Some(StepKind::Slice { offset, limit }) => limit.map(|n| n.saturating_add(*offset)),
                Some(_) => None,
                None => wanted,
            };
            let Some(limit) = limit else {
                let Some((step, rest)) = steps.split_first() else {
                    return Ok(table);
                };
                table = self.run_step(step, table, usize::MAX)?;
                steps = rest;
                continue;
            };
            let (first, rest) = steps.split_at(by_row);
            table = self.run_by_row(first, table, limit)?;
            let Some((slice, rest)) = rest.split_first() else {
                return Ok(table);
            };
            table = self.run_step(slice, table, usize::MAX)?;
            steps = rest;
        }
    }

    /// Runs steps that look at each row alone, on ever larger parts of the table, until enough rows
    /// have come out.
    fn run_by_row(
        &mut self,
        steps: &[Step],
        table: Table,
        limit: usize,
    ) -> Result<Table, QueryError> {
        let Some((step, rest)) = steps.split_first() else {
            return Ok(table);
        };
        // A step that makes no row out of nothing new is run whole: its rows are there already.
        if table.rows <= FIRST_PART || !step.kind.may_multiply() {
            let next = self.run_step(step, table, wanted_of(rest, limit))?;
            return self.run_by_row(rest, next, limit);
        }
        let held = table.bytes();
        self.guard.hold(held)?;
        let (mut from, mut part) = (0, FIRST_PART);
        let mut all: Option<Table> = None;
        while from < table.rows {
            let have = all.as_ref().map_or(0, |all: &Table| all.rows);
            if have >= limit {
                break;
            }
            let to = (from + part).min(table.rows);
            let rows: Vec<u32> = (from as u32..to as u32).collect();
            let wanted = wanted_of(rest, limit - have);
            let next = self.run_step(step, table.select(&rows), wanted)?;
            let made = self.run_by_row(rest, next, limit - have)?;
            match &mut all {
                Some(all) => all.append(made),
                None => all = Some(made),
            }
            from = to;
            part *= 4;
        }
        self.guard.release(held);
        Ok(all.unwrap_or_else(|| Table::empty_like(&table)))
    }

    fn run_step(&mut self, step: &Step, table: Table, wanted: usize) -> Result<Table, QueryError> {
        let started = (!self.actual.is_empty()).then(Instant::now);
        self.find_exists(step, &table)?;
        let mut table = self.step(&step.kind, table, wanted)?;
        table.keep(&step.keep);
        self.guard.made(table.rows);
        self.guard.fits(table.bytes())?;
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

    /// Runs a plan from the rows of a table, numbered.
    fn correlated(&mut self, plan: &Plan, table: &Table) -> Result<Table, QueryError> {
        let mut start = table.clone();
        start.origin = Some((0..table.rows as u32).collect());
        let held = start.bytes();
        self.guard.hold(held)?;
        let result = self.run(plan, start);
        self.guard.release(held);
        result
    }

    /// For every row, whether the plan makes anything of it.
    fn matched(&mut self, plan: &Plan, table: &Table) -> Result<Vec<bool>, QueryError> {
        let mut found = vec![false; table.rows];
        for row in self.correlated(plan, table)?.origin.unwrap_or_default() {
            found[row as usize] = true;
        }
        Ok(found)
    }

    /// Runs a plan that starts by itself, beside a table that stays in memory.
    fn alone(&mut self, plan: &Plan, beside: &Table) -> Result<Table, QueryError> {
        let held = beside.bytes();
        self.guard.hold(held)?;
        let result = self.run(plan, Table::unit());
        self.guard.release(held);
        result
    }

    fn step(&mut self, kind: &StepKind, table: Table, wanted: usize) -> Result<Table, QueryError> {
        let constants = &self.evaluation.constants;
        match kind {
            StepKind::Scan(pattern) => {
                explore::scan(self.graphs, constants, self.guard, pattern, wanted, table)
            }
            StepKind::Intersect { variable, patterns } => intersect::intersect(
                self.graphs,
                constants,
                self.guard,
                *variable,
                patterns,
                table,
            ),
            StepKind::Path(pattern) => {
                path::follow(self.graphs, constants, self.guard, pattern, table)
            }
            StepKind::GraphName(name) => {
                explore::graph_name(self.graphs, constants, self.guard, *name, table)
            }
            StepKind::Filter(condition) => self.filter(condition, table),
            StepKind::Bind(variable, expr) => self.bind(*variable, expr, table),
            StepKind::Union(branches) => self.union(branches, table),
            StepKind::Join { plan, shared, .. } => {
                if table.rows == 0 {
                    return Ok(Table::empty_like(&table));
                }
                let right = self.alone(plan, &table)?;
                join::join(table, &right, shared, self.guard)
            }
            StepKind::Values(values) => self.values(values, table),
            StepKind::Optional { plan } => {
                let matched = self.correlated(plan, &table)?;
                Ok(join::with_unmatched(table, matched))
            }
            StepKind::OptionalJoin {
                plan,
                shared,
                filters,
                ..
            } => {
                let right = self.alone(plan, &table)?;
                let mut numbered = table.clone();
                numbered.origin = Some((0..table.rows as u32).collect());
                let joined = join::join(numbered, &right, shared, self.guard)?;
                let matched = self.run(filters, joined)?;
                Ok(join::with_unmatched(table, matched))
            }
            StepKind::EachGraph { variable, plan, .. } => self.each_graph(*variable, plan),
            StepKind::AntiSemi { plan } => {
                let found = self.matched(plan, &table)?;
                let kept: Vec<u32> = (0..table.rows as u32)
                    .filter(|row| !found[*row as usize])
                    .collect();
                Ok(table.gather(&kept))
            }
            StepKind::Minus { plan, shared } => {
                let right = self.alone(plan, &table)?;
                join::minus(table, &right, shared, self.guard)
            }
            StepKind::Aggregate { keys, aggregates } => self.aggregate(keys, aggregates, &table),
            StepKind::OrderBy { keys, .. } => self.order_by(keys, table),
            StepKind::Distinct(columns) => self.distinct(columns, table),
            StepKind::Slice { offset, limit } => {
                let mut table = table;
                table.slice(*offset, *limit);
                Ok(table)
            }
        }
    }

    fn each_graph(&mut self, variable: VarId, plan: &Plan) -> Result<Table, QueryError> {
        let graphs = self.graphs;
        let mut all: Option<Table> = None;
        for (name, [source]) in graphs.named() {
            let before = graphs.set_current(Some(*source));
            let result = self.run(plan, Table::unit());
            graphs.set_current(before);
            let mut table = result?;
            // Where the pattern binds the variable itself, it has to be this graph's name.
            if let Some(column) = table.take(variable) {
                let kept: Vec<u32> = (0..table.rows as u32)
                    .filter(|row| {
                        let id = column[*row as usize];
                        id.is_unbound() || id == *name
                    })
                    .collect();
                table = table.gather(&kept);
            }
            table.set(variable, vec![*name; table.rows]);
            match &mut all {
                Some(all) => all.append(table),
                None => all = Some(table),
            }
            self.guard.fits(all.as_ref().map_or(0, Table::bytes))?;
        }
        Ok(all.unwrap_or_else(|| Table::of([], 0)))
    }

    fn filter(&mut self, condition: &Expr, table: Table) -> Result<Table, QueryError> {
        let mut kept = Vec::with_capacity(table.rows);
        for at in 0..table.rows {
            self.guard.tick()?;
            let row = Row { table: &table, at };
            if self.evaluation.holds(condition, row) {
                kept.push(at as u32);
            }
            self.guard.fits(self.evaluation.held_bytes())?;
        }
        Ok(table.gather(&kept))
    }

    fn bind(
        &mut self,
        variable: VarId,
        expr: &Expr,
        mut table: Table,
    ) -> Result<Table, QueryError> {
        let mut column = Vec::with_capacity(table.rows);
        for at in 0..table.rows {
            self.guard.tick()?;
            let row = Row { table: &table, at };
            let evaluated = self.evaluation.evaluate(expr, row);
            column.push(evaluated.map_or(TermId::UNBOUND, |e| self.evaluation.id(e)));
            self.guard.fits(self.evaluation.held_bytes())?;
        }
        let Some(before) = table.take(variable) else {
            table.set(variable, column);
            return Ok(table);
        };
        // The variable has values already: a join with what the expression says.
        let mut kept = Vec::with_capacity(table.rows);
        for (at, (id, before)) in column.iter_mut().zip(before).enumerate() {
            if id.is_unbound() || before.is_unbound() || *id == before {
                kept.push(at as u32);
            }
            if id.is_unbound() {
                *id = before;
            }
        }
        table.set(variable, column);
        Ok(table.gather(&kept))
    }

    fn union(&mut self, branches: &[Plan], table: Table) -> Result<Table, QueryError> {
        let mut all: Option<Table> = None;
        let held = table.bytes();
        self.guard.hold(held)?;
        for plan in branches {
            let one = self.run(plan, table.clone())?;
            match &mut all {
                Some(all) => all.append(one),
                None => all = Some(one),
            }
        }
        self.guard.release(held);
        Ok(all.unwrap_or_else(|| Table::empty_like(&table)))
    }

    fn values(&mut self, values: &Values, table: Table) -> Result<Table, QueryError> {
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
        join::join(table, &right, &shared, self.guard)
    }

    fn aggregate(
        &mut self,
        keys: &[VarId],
        aggregates: &[(VarId, Aggregate)],
        table: &Table,
    ) -> Result<Table, QueryError> {
        let key = Key::of(table, keys);
        let mut index = RowIndex::default();
        // The first row of each group.
        let mut firsts: Vec<u32> = Vec::new();
        let mut accumulators: Vec<Accumulator<'_>> = aggregates
            .iter()
            .map(|(_, a)| Accumulator::new(a))
            .collect();
        if keys.is_empty() {
            accumulators.iter_mut().for_each(Accumulator::add_group);
        }
        for at in 0..table.rows {
            self.guard.tick()?;
            let group = if keys.is_empty() {
                0
            } else {
                let hash = key.hash(at);
                let known = index
                    .under(hash)
                    .find(|group| key.equals(at, &key, firsts[*group as usize] as usize));
                known.unwrap_or_else(|| {
                    firsts.push(at as u32);
                    accumulators.iter_mut().for_each(Accumulator::add_group);
                    index.add(hash)
                })
            };
            let row = Row { table, at };
            for accumulator in &mut accumulators {
                accumulator.add(group, row, self.evaluation);
            }
            if at % 4096 == 0 {
                let held: usize = accumulators.iter().map(Accumulator::bytes).sum();
                self.guard.fits(table.bytes() + index.bytes() + held)?;
            }
        }
        let groups = if keys.is_empty() { 1 } else { firsts.len() };
        let mut result = Table::of([], groups);
        for variable in keys {
            let column = firsts
                .iter()
                .map(|row| table.get(*variable, *row as usize))
                .collect();
            result.set(*variable, column);
        }
        for ((variable, _), accumulator) in aggregates.iter().zip(&mut accumulators) {
            let column = (0..groups)
                .map(|group| match accumulator.finish(group) {
                    Some(evaluated) => self.evaluation.id(evaluated),
                    None => TermId::UNBOUND,
                })
                .collect();
            result.set(*variable, column);
        }
        Ok(result)
    }

    fn order_by(&mut self, keys: &[(Expr, bool)], table: Table) -> Result<Table, QueryError> {
        let mut values: Vec<Vec<Option<Value>>> = Vec::with_capacity(table.rows);
        for at in 0..table.rows {
            self.guard.tick()?;
            let row = Row { table: &table, at };
            let key = keys
                .iter()
                .map(|(key, _)| self.evaluation.evaluate_value(key, row))
                .collect();
            values.push(key);
            self.guard.fits(self.evaluation.held_bytes())?;
        }
        self.guard
            .fits(table.bytes() + values.len() * keys.len() * 64)?;
        let mut order: Vec<u32> = (0..table.rows as u32).collect();
        merge_sort(&mut order, &mut |a, b| {
            let (a, b) = (&values[a as usize], &values[b as usize]);
            for ((a, b), (_, descending)) in a.iter().zip(b).zip(keys) {
                let order = match (a, b) {
                    (Some(a), Some(b)) => a.order(b),
                    (a, b) => a.is_some().cmp(&b.is_some()),
                };
                let order = if *descending { order.reverse() } else { order };
                if order != Ordering::Equal {
                    return order;
                }
            }
            Ordering::Equal
        });
        Ok(table.gather(&order))
    }

    fn distinct(&mut self, columns: &VarSet, table: Table) -> Result<Table, QueryError> {
        let variables: Vec<VarId> = columns.iter().collect();
        let key = Key::of(&table, &variables);
        let mut index = RowIndex::default();
        let mut kept: Vec<u32> = Vec::new();
        for at in 0..table.rows {
            self.guard.tick()?;
            let hash = key.hash(at);
            let seen = index
                .under(hash)
                .any(|entry| key.equals(at, &key, kept[entry as usize] as usize));
            if !seen {
                index.add(hash);
                kept.push(at as u32);
            }
        }
        self.guard.fits(table.bytes() + index.bytes())?;
        Ok(table.gather(&kept))
    }
}

/// How many rows a step need make, if so many are wanted after the steps that follow it.
fn wanted_of(rest: &[Step], limit: usize) -> usize {
    if rest.is_empty() { limit } else { usize::MAX }
}

/// A stable sort that copes with an order that is none: SPARQL's is not total where literals of
/// unlike types meet, and the standard library's sort may panic then.
fn merge_sort(rows: &mut Vec<u32>, order: &mut impl FnMut(u32, u32) -> Ordering) {
    let mut from = std::mem::take(rows);
    let mut to = Vec::with_capacity(from.len());
    let mut width = 1;
    while width < from.len() {
        to.clear();
        for pair in from.chunks(2 * width) {
            let (left, right) = pair.split_at(width.min(pair.len()));
            let (mut l, mut r) = (0, 0);
            while l < left.len() && r < right.len() {
                if order(right[r], left[l]) == Ordering::Less {
                    to.push(right[r]);
                    r += 1;
                } else {
                    to.push(left[l]);
                    l += 1;
                }
            }
            to.extend_from_slice(&left[l..]);
            to.extend_from_slice(&right[r..]);
        }
        std::mem::swap(&mut from, &mut to);
        width *= 2;
    }
    *rows = from;
}
