//! OPTIONAL and MINUS: what follows the join of a group, in the order of the text. Each runs from
//! the rows so far, or by itself with a join by hash, whichever is estimated to cost less.

use crate::algebra::expression::Expr;
use crate::algebra::logical::{Node, Tail};
use crate::algebra::varset::VarSet;
use crate::exec::operators::{AntiSemi, FilterRows, Minus, Optional, OptionalJoin, StepKind};
use crate::exec::step::Plan;
use crate::plan::cost;
use crate::plan::estimate::State;
use crate::plan::planner::Planner;
use crate::plan::unplaced::Unplaced;
use std::sync::Arc;

impl Planner<'_> {
    /// Places the next tail, if there is one.
    pub(crate) fn place_tail(
        &mut self,
        left: &mut Unplaced<'_>,
        state: &mut State,
        plan: &mut Plan,
    ) -> bool {
        if left.tails.is_empty() {
            return false;
        }
        // Whatever stood before it in the text reads nothing that it binds, and was ready.
        match left.tails.remove(0) {
            Tail::Optional { node, filters } => {
                if let Some(at) = self.absence_asked(node, left, state) {
                    left.filters.remove(at);
                    self.absent(node, filters, state, plan);
                } else {
                    self.optional(node, filters, state, plan);
                }
            }
            Tail::Minus(node) => self.minus(node, state, plan),
        }
        true
    }

    /// Whether a node is better run from the rows so far than by itself. It may only where SPARQL's
    /// bottom-up scoping allows it.
    fn runs_along(&mut self, node: &Node, state: &State) -> bool {
        if !node.takes_input(&state.possible, &self.outside) {
            return false;
        }
        if state.unit || !self.outside.is_empty() {
            return true;
        }
        if let Some(hash) = self.choices.hash {
            return !hash;
        }
        let estimate = self.estimate(node, &state.possible);
        let matched = state.rows * estimate.matched;
        let alone = estimate.cost + cost::hash(state.flow(matched), estimate.rows);
        estimate
            .along
            .is_none_or(|along| state.rows * along <= alone)
    }

    /// The filter that makes of an OPTIONAL the question whether it has no solution:
    /// `FILTER(!BOUND(?v))`, where nothing but the OPTIONAL binds `?v`.
    fn absence_asked(&self, node: &Node, left: &Unplaced<'_>, state: &State) -> Option<usize> {
        if !node.takes_input(&state.possible, &self.outside) {
            return None;
        }
        left.filters.iter().position(|filter| match &***filter {
            Expr::Not(inner) => matches!(**inner, Expr::Bound(v)
                if node.certain.contains(v)
                    && !state.possible.contains(v)
                    && !left.may_bind(v, None)),
            _ => false,
        })
    }

    /// Keeps the rows for which an OPTIONAL has no solution; it binds nothing then.
    fn absent(&mut self, node: &Node, filters: &[Arc<Expr>], state: &mut State, plan: &mut Plan) {
        let mut inner = state.clone();
        (inner.unit, inner.cost) = (false, 0.0);
        let mut inner_plan = Plan::default();
        self.node(node, &mut inner, &mut inner_plan);
        self.filters(filters, &mut inner, &mut inner_plan);
        self.without(&inner, state);
        self.push(plan, AntiSemi { plan: inner_plan }, state.rows);
    }

    /// The state after rows that something was found for are dropped.
    fn without(&self, found: &State, state: &mut State) {
        let had = state.rows.max(1.0);
        // Rows that have a match have about as many as all on average, or one at least.
        let matched = (found.rows / had).min(0.9);
        state.cost += found.cost + state.rows;
        state.advance(state.rows * (1.0 - matched));
    }

    fn filters(&mut self, filters: &[Arc<Expr>], state: &mut State, plan: &mut Plan) {
        for filter in filters {
            let exists = self.exists_in(filter, state);
            self.leave(filter, state);
            let filter = FilterRows(Arc::clone(filter));
            self.push_with_exists(plan, filter, state.rows, exists);
        }
    }

    fn optional(&mut self, node: &Node, filters: &[Arc<Expr>], state: &mut State, plan: &mut Plan) {
        let along = self.runs_along(node, state);
        let mut inner = if along {
            let mut inner = state.clone();
            (inner.unit, inner.cost) = (false, 0.0);
            inner
        } else {
            State::unit()
        };
        let mut inner_plan = Plan::default();
        self.node(node, &mut inner, &mut inner_plan);
        let shared = state.possible.intersection(&node.possible);
        let mut matched = inner.clone();
        if !along {
            matched.rows *= state.rows;
            for variable in shared.iter() {
                matched.rows /= state.distinct(variable).max(inner.distinct(variable));
            }
            matched.certain.extend(&state.certain);
            matched.possible.extend(&state.possible);
            matched.cost += cost::hash(state.flow(matched.rows), inner.rows);
        }
        let mut filter_plan = Plan::default();
        let into = if along {
            &mut inner_plan
        } else {
            &mut filter_plan
        };
        self.filters(filters, &mut matched, into);
        let rows = state.rows.max(matched.rows);
        for variable in node.possible.iter() {
            state.bind(variable, matched.distinct(variable));
        }
        state.cost += matched.cost + cost::each(state.flow(rows), 5.0);
        state.advance(rows);
        let kind: StepKind = if along {
            Optional { plan: inner_plan }.into()
        } else {
            let join = OptionalJoin {
                plan: inner_plan,
                shared,
                yields: node.possible.clone(),
                filters: filter_plan,
            };
            join.into()
        };
        self.push(plan, kind, rows);
    }

    fn minus(&mut self, node: &Node, state: &mut State, plan: &mut Plan) {
        let shared = state.possible.intersection(&node.possible);
        // Without a common variable MINUS takes nothing away.
        if shared.is_empty() {
            return;
        }
        let certain = shared.is_subset(&state.certain) && shared.is_subset(&node.certain);
        // Inside EXISTS, what is outside stands for values, and MINUS must not see those.
        let sees_input = node.takes_input(&state.possible, &VarSet::new());
        let along = certain && sees_input && self.runs_along(node, state);
        let mut inner_plan = Plan::default();
        let mut inner = if along {
            let mut inner = state.clone();
            (inner.unit, inner.cost) = (false, 0.0);
            inner
        } else {
            State::unit()
        };
        self.node(node, &mut inner, &mut inner_plan);
        let kind: StepKind = if along {
            self.without(&inner, state);
            AntiSemi { plan: inner_plan }.into()
        } else {
            let mut found = state.rows * inner.rows;
            for variable in shared.iter() {
                found /= state.distinct(variable).max(inner.distinct(variable));
            }
            inner.cost += cost::hash(state.flow(found), inner.rows);
            inner.rows = found;
            self.without(&inner, state);
            let plan = inner_plan;
            Minus { plan, shared }.into()
        };
        self.push(plan, kind, state.rows);
    }
}
