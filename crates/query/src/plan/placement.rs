//! Placement of the parts of a group that may come in any order: an order is searched for and tried
//! out, and its moves become steps, with each filter and bind placed as soon as its variables are
//! bound.

use crate::algebra::logical::{GraphPosition, Group, Position, QuadPattern};
use crate::exec::operators::{FollowPath, GraphName, Intersect, Scan, StepKind};
use crate::exec::step::Plan;
use crate::plan::estimate::State;
use crate::plan::join_graph::{JoinGraph, JoinStep, SearchState};
use crate::plan::order::Order;
use crate::plan::planner::Planner;
use crate::plan::unplaced::{Orderable, Unplaced};
use somersault_lang::VarId;
use std::sync::Arc;

impl Planner<'_> {
    /// Places the patterns, paths and blocks of a group in the best order; filters and binds
    /// between them as soon as they are ready.
    pub(crate) fn place_core(
        &mut self,
        group: &Group,
        left: &mut Unplaced<'_>,
        state: &mut State,
        plan: &mut Plan,
    ) {
        if left.core.is_empty() {
            return;
        }
        let (mut parts, mut frame) = self.parts(left, group, state);
        let mut order = self.search(&parts, &frame);
        let looks = parts.looks(order.end.cost, self.choices.try_out);
        if looks > 0 {
            let sampled = self.sampled(left, &parts);
            if self.sample(&sampled, &mut parts, &frame, looks) {
                order = self.search(&parts, &frame);
                order = self.try_out(&sampled, &mut parts, &frame, order);
            }
        }
        let mut next = SearchState::default();
        for step in &order.moves {
            // A plan that is not finished never runs: the caller of the planner looks at the time.
            if self.is_over_time() {
                return;
            }
            parts.extend(&frame, step, &mut next);
            let grown = next.rows / frame.rows.max(f64::MIN_POSITIVE);
            let cost = next.cost - frame.cost;
            match step {
                JoinStep::One(at) => {
                    let hash = parts.joins_by_hash(&frame, *at);
                    let hash = self.choices.hash.unwrap_or(hash);
                    let Some(part) = left.core[*at].take() else {
                        continue;
                    };
                    self.place(part, hash, state.rows * grown, state, plan);
                }
                JoinStep::Reduced(at, reduction) => {
                    let kept = parts.kept(next.placed_bits(), *at, *reduction);
                    let rows = state.rows * grown;
                    if let Some(part) = left.core[*at].take() {
                        self.place(part, false, rows / kept, state, plan);
                    }
                    if let Some(Orderable::Pattern(pattern, _)) = left.core[reduction.by] {
                        let variable = parts.variables[reduction.variable];
                        self.place_reduction(pattern, variable, rows, state, plan);
                    }
                }
                JoinStep::Intersect(list) => {
                    let patterns = list.iter().filter_map(|at| left.core[*at].take());
                    let patterns: Vec<_> = patterns.collect();
                    self.place_together(&patterns, state.rows * grown, state, plan);
                }
            }
            for (variable, bound) in parts.variables.iter().zip(&next.bound) {
                if state.possible.contains(*variable) && bound.values > 0.0 {
                    state.learn(*variable, bound.values);
                }
            }
            state.cost += cost;
            if self.choices.reduce {
                self.place_all_reductions(&left.core, state, plan);
            }
            parts.apply(&frame, step, &mut next);
            std::mem::swap(&mut frame, &mut next);
            self.place_ready(left, state, plan);
        }
    }

    /// The order that looks cheapest from a frame on.
    pub(crate) fn search(&self, parts: &JoinGraph<'_>, start: &SearchState) -> Order {
        parts.order(start, self.choices.greedy, &|| self.is_over_time())
    }

    /// Places one part; `rows` are expected after it. `hash`: a block runs by itself.
    fn place(
        &mut self,
        part: Orderable<'_>,
        hash: bool,
        rows: f64,
        state: &mut State,
        plan: &mut Plan,
    ) {
        let kind: StepKind = match part {
            Orderable::Block(block) => {
                // The order's own estimate of the cost stands for the block's.
                let cost = state.cost;
                if hash && self.may_join(block, state) {
                    self.join_with(block, state, plan);
                } else {
                    self.node(block, state, plan);
                }
                state.cost = cost;
                return;
            }
            Orderable::Pattern(pattern, cardinality) => {
                cardinality.bind(&pattern, state);
                Scan(pattern).into()
            }
            Orderable::Path(path) => {
                for variable in path.variables().iter() {
                    state.bind(variable, rows.max(1.0));
                    state.certain.insert(variable);
                }
                FollowPath(Arc::clone(path)).into()
            }
            Orderable::Graph(name) => {
                if let Some(variable) = name.variable() {
                    state.bind(variable, self.graphs.named().len() as f64);
                    state.certain.insert(variable);
                }
                GraphName(name).into()
            }
        };
        state.advance(rows);
        self.push(plan, kind, rows);
    }

    /// Places patterns that close on one variable together.
    fn place_together(
        &mut self,
        parts: &[Orderable<'_>],
        rows: f64,
        state: &mut State,
        plan: &mut Plan,
    ) {
        let before = state.clone();
        let mut patterns = Vec::with_capacity(parts.len());
        let mut closed = Vec::with_capacity(parts.len());
        for part in parts {
            if let Orderable::Pattern(pattern, cardinality) = part {
                closed.push(self.one_new(pattern, &before));
                cardinality.bind(pattern, state);
                patterns.push(*pattern);
            }
        }
        state.advance(rows);
        match closed.first() {
            Some(Some(variable)) if closed.iter().all(|c| *c == Some(*variable)) => {
                let variable = *variable;
                self.push(plan, Intersect { variable, patterns }, rows);
            }
            // A variable that the search took for bound in every row is not: placing one after the
            // other is right.
            _ => patterns
                .into_iter()
                .for_each(|pattern| self.push(plan, Scan(pattern), rows)),
        }
    }

    /// The one new variable that a pattern would bind, where an intersection can do that: the other
    /// end is known in every row, and predicate and graph are constant.
    fn one_new(&self, pattern: &QuadPattern, state: &State) -> Option<VarId> {
        let constant_graph = !matches!(pattern.graph, GraphPosition::Named(Position::Variable(_)));
        if !constant_graph || pattern.predicate.variable().is_some() {
            return None;
        }
        let known = |position: Position| match position {
            Position::Constant(_) => true,
            Position::Variable(v) => state.certain.contains(v),
        };
        let new = |position: Position| match position {
            Position::Variable(v) if !state.possible.contains(v) => Some(v),
            _ => None,
        };
        match (new(pattern.subject), new(pattern.object)) {
            (Some(v), None) if known(pattern.object) => Some(v),
            (None, Some(v)) if known(pattern.subject) => Some(v),
            _ => None,
        }
    }
}
