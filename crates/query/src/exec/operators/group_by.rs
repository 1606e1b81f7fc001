//! Grouping: rows get the number of their group, then every aggregate goes over the rows by itself.

use crate::algebra::error::QueryError;
use crate::algebra::expression::Expr;
use crate::algebra::logical::Aggregate;
use crate::algebra::varset::VarSet;
use crate::context::limiter::Limiter;
use crate::context::table::Table;
use crate::eval::evaluate::Evaluation;
use crate::exec::aggregate::Accumulator;
use crate::exec::distinct_rows::distinct_rows;
use crate::exec::names::Names;
use crate::exec::operators::{Input, PhysicalOperator};
use crate::exec::run::Runner;
use somersault_lang::VarId;
use somersault_model::TermId;
use std::sync::Arc;

/// Rows that an aggregate takes between two looks at the limits.
const ROWS_PER_CHECK: usize = 1 << 12;
/// The same where it keeps texts.
const TEXTS_PER_CHECK: usize = 1 << 8;

/// One row per group.
#[derive(Debug)]
pub(crate) struct GroupBy {
    pub(crate) keys: Arc<[VarId]>,
    pub(crate) aggregates: Arc<[(VarId, Aggregate)]>,
}

impl PhysicalOperator for GroupBy {
    fn binds(&self, bound: &mut VarSet) {
        *bound = VarSet::of(self.keys.iter().copied());
        self.aggregates.iter().for_each(|(v, _)| bound.insert(*v));
    }

    fn mentioned(&self) -> VarSet {
        let mut needed = VarSet::of(self.keys.iter().copied());
        for (_, aggregate) in self.aggregates.iter() {
            match aggregate {
                Aggregate::CountSolutions {
                    distinct: true,
                    scope,
                } => scope.iter().for_each(|v| needed.insert(*v)),
                Aggregate::CountSolutions { .. } => {}
                Aggregate::Of { expression, .. } => needed.extend(&expression.variables()),
            }
        }
        needed
    }

    fn prune(&mut self, _needed: VarSet, _once: bool) -> VarSet {
        self.mentioned()
    }

    fn is_volatile(&self) -> bool {
        (self.aggregates.iter()).any(|(_, aggregate)| match aggregate {
            Aggregate::Of { expression, .. } => expression.is_volatile(),
            Aggregate::CountSolutions { .. } => false,
        })
    }

    fn may_drop_repeats(&self, _once: bool) -> bool {
        let mut aggregates = self.aggregates.iter();
        aggregates.all(|(_, aggregate)| aggregate.passes_over_repeats())
    }

    fn explain(&self, names: &Names<'_>, _bound: &VarSet) -> String {
        let aggregates = self.aggregates.iter();
        let aggregates: Vec<String> = aggregates
            .map(|(v, a)| format!("{} = {}", names.variable(*v), names.aggregate(a)))
            .collect();
        let keys = names.list(self.keys.iter().copied());
        format!("group by ({keys}) {}", aggregates.join(", "))
    }

    fn run(&self, input: Input<'_>, runner: &mut Runner<'_, '_>) -> Result<Table, QueryError> {
        let table = input.table;
        let GroupBy { keys, aggregates } = self;
        aggregate(runner.evaluation, runner.limiter, keys, aggregates, &table)
    }
}

/// One row per group, with the keys and what the aggregates came to.
fn aggregate(
    evaluation: &mut Evaluation<'_>,
    limiter: &mut Limiter<'_>,
    keys: &[VarId],
    aggregates: &[(VarId, Aggregate)],
    table: &Table,
) -> Result<Table, QueryError> {
    // Without keys there is one group, also of no rows.
    let (numbers, firsts) = if keys.is_empty() {
        (Vec::new(), Vec::new())
    } else {
        distinct_rows(table, keys, limiter)?
    };
    let groups = if keys.is_empty() { 1 } else { firsts.len() };
    let columns = keys.iter().map(|variable| {
        let values = firsts.iter().map(|row| table.get(*variable, *row as usize));
        (*variable, values.collect())
    });
    let mut result = Table::of(columns, groups);
    for (variable, aggregate) in aggregates {
        let mut accumulator = Accumulator::new(aggregate, groups);
        let mut held = table.bytes() + numbers.len() * 4;
        // The values that DISTINCT counts once are found by the column.
        let firsts = match distinct_columns(aggregate) {
            Some(variables) => {
                let own = variables.iter().filter(|variable| !keys.contains(variable));
                let all: Vec<VarId> = keys.iter().chain(own).copied().collect();
                Some(distinct_rows(table, &all, limiter)?.1)
            }
            None => None,
        };
        accumulator.repeats = firsts.is_none();
        held += firsts.as_ref().map_or(0, |firsts| firsts.len() * 4);
        let count = firsts.as_ref().map_or(table.rows, Vec::len);
        let part = match accumulator.holds_texts() {
            true => TEXTS_PER_CHECK,
            false => ROWS_PER_CHECK,
        };
        for from in (0..count).step_by(part) {
            let to = (from + part).min(count);
            match &firsts {
                Some(firsts) => {
                    let rows = firsts[from..to].iter().map(|row| *row as usize);
                    accumulator.add(table, rows, &numbers, evaluation);
                }
                None => accumulator.add(table, from..to, &numbers, evaluation),
            }
            let held = held + accumulator.bytes();
            limiter.check_memory(held.saturating_add(evaluation.held_bytes()))?;
            limiter.check_interrupt()?;
        }
        let held = held + accumulator.bytes();
        let mut column = Vec::with_capacity(groups);
        for group in 0..groups {
            column.push(match accumulator.finish(group) {
                Some(evaluated) => evaluation.id(evaluated),
                None => TermId::UNBOUND,
            });
            limiter.tick()?;
            limiter.check_memory(held.saturating_add(evaluation.held_bytes()))?;
        }
        result.set(*variable, column);
    }
    Ok(result)
}

/// The columns of whose values in a group an aggregate takes each once.
fn distinct_columns(aggregate: &Aggregate) -> Option<Vec<VarId>> {
    match aggregate {
        Aggregate::CountSolutions {
            distinct: true,
            scope,
        } => Some(scope.clone()),
        Aggregate::Of {
            distinct: true,
            expression: Expr::Variable(variable),
            ..
        } => Some(vec![*variable]),
        _ => None,
    }
}
