//! Solution modifiers, which need all rows of a pattern together: grouping, order and slices.

use crate::algebra::expression::Expr;
use crate::algebra::logical::{Aggregate, Node};
use crate::exec::operators::{Degrees, GroupBy, OrderBy, Scan, Slice, StepKind};
use crate::exec::step::{Plan, Step};
use crate::plan::cost;
use crate::plan::estimate::State;
use crate::plan::planner::Planner;
use somersault_lang::VarId;
use std::sync::Arc;

impl Planner<'_> {
    /// Groups the rows of a node. Where they are the edges of one pattern and only counted, they
    /// are not even made.
    pub(crate) fn aggregate(
        &mut self,
        inner: &Node,
        keys: &Arc<[VarId]>,
        aggregates: &Arc<[(VarId, Aggregate)]>,
        state: &mut State,
        plan: &mut Plan,
    ) {
        let before = plan.steps.len();
        self.node(inner, state, plan);
        let groups = match keys.is_empty() {
            true => 1.0,
            false => {
                let values: f64 = keys.iter().map(|key| state.distinct(*key)).product();
                values.min(state.rows.max(1.0))
            }
        };
        let degrees = match plan.steps.as_slice() {
            [
                Step {
                    kind: StepKind::Scan(Scan(pattern)),
                    ..
                },
            ] if before == 0 => Degrees::of(pattern, keys, aggregates),
            _ => None,
        };
        let (kind, exists): (StepKind, _) = match degrees {
            Some(degrees) => {
                self.steps -= plan.steps.len();
                plan.steps.clear();
                (degrees.into(), Vec::new())
            }
            None => {
                let read = aggregates.iter().filter_map(|(_, one)| match one {
                    Aggregate::Of { expression, .. } => Some(expression),
                    Aggregate::CountSolutions { .. } => None,
                });
                let exists = read.flat_map(|expression| self.exists_in(expression, state));
                let exists = exists.collect();
                let group = GroupBy {
                    keys: Arc::clone(keys),
                    aggregates: Arc::clone(aggregates),
                };
                (group.into(), exists)
            }
        };
        let spent = state.cost + cost::group(state.rows);
        *state = State::unit();
        state.cost = spent;
        state.advance(groups);
        self.push_with_exists(plan, kind, groups, exists);
    }

    /// Sorts the rows of a node.
    pub(crate) fn order_by(
        &mut self,
        inner: &Node,
        keys: &Arc<[(Expr, bool)]>,
        state: &mut State,
        plan: &mut Plan,
    ) {
        self.node(inner, state, plan);
        let exists = keys.iter().flat_map(|(key, _)| self.exists_in(key, state));
        let exists = exists.collect();
        state.cost += cost::sort(state.rows);
        let (keys, limit) = (Arc::clone(keys), None);
        self.push_with_exists(plan, OrderBy { keys, limit }, state.rows, exists);
    }

    /// Passes over the first rows of a node and keeps some; a sort before that need not go further.
    pub(crate) fn slice(
        &mut self,
        inner: &Node,
        (offset, limit): (usize, Option<usize>),
        state: &mut State,
        plan: &mut Plan,
    ) {
        let before = plan.steps.len();
        self.node(inner, state, plan);
        let (step, wanted) = match &mut plan.steps[before..] {
            // DISTINCT may turn any number of rows into one, so no limit is known; but equal rows
            // must still come in the order of their terms.
            [.., step, distinct] if matches!(distinct.kind, StepKind::Distinct(_)) => {
                (Some(step), usize::MAX)
            }
            steps => {
                let wanted = limit.map_or(usize::MAX, |limit| limit.saturating_add(offset));
                (steps.last_mut(), wanted)
            }
        };
        if let Some(step) = step
            && let StepKind::OrderBy(sort) = &mut step.kind
        {
            sort.limit = Some(wanted);
        }
        let rows = (state.rows - offset as f64).max(0.0);
        state.advance(limit.map_or(rows, |limit| rows.min(limit as f64)));
        self.push(plan, Slice { offset, limit }, state.rows);
    }
}
