//! From algebra to steps. Greedy: of everything that could come next, what is estimated to leave
//! the fewest rows; ties are broken by the patterns' texts, so that no plan depends on the order in
//! which a query was written. Filters and binds come as soon as their variables have their values.

use crate::choose::{Choice, Remaining};
use crate::estimate::{Cardinality, State, path_fanout};
use crate::execution::Guard;
use crate::expression::{Constants, Expr};
use crate::logical::{GraphPosition, Group, Node, Operator, Position, QuadPattern, Tail};
use crate::plan::{Plan, Step, StepKind};
use crate::sources::Graphs;
use crate::varset::VarSet;
use somersault_lang::VarId;
use somersault_model::TermId;
use std::sync::Arc;

/// What share of the rows a filter is expected to leave.
const FILTER_SHARE: f64 = 0.5;

/// Makes plans for one execution.
pub(crate) struct Planner<'a> {
    pub(crate) graphs: &'a Graphs<'a>,
    constants: &'a [TermId],
    pub(crate) terms: &'a Constants,
    pub(crate) variables: &'a [String],
    pub(crate) steps: usize,
    /// While a block is planned only to see what it would make of the rows.
    pub(crate) trying: bool,
    guard: &'a Guard<'a>,
    /// Inside EXISTS: the variables from outside, which stand for their values.
    outside: VarSet,
}

impl<'a> Planner<'a> {
    pub(crate) fn new(
        graphs: &'a Graphs<'a>,
        constants: &'a [TermId],
        terms: &'a Constants,
        variables: &'a [String],
        guard: &'a Guard<'a>,
    ) -> Planner<'a> {
        Planner {
            graphs,
            constants,
            terms,
            variables,
            steps: 0,
            trying: false,
            guard,
            outside: VarSet::new(),
        }
    }

    /// Whether the execution has run out of time; it is the caller who makes an error of it.
    pub(crate) fn is_over_time(&self) -> bool {
        self.guard.look().is_err()
    }

    /// The plan of a whole query; `needed` are the columns of its answer.
    pub(crate) fn plan(&mut self, root: &Node, needed: &VarSet) -> Plan {
        let mut plan = Plan::default();
        self.node(root, &mut State::unit(), &mut plan);
        plan.prune(needed);
        plan
    }

    /// How many steps were numbered.
    pub(crate) fn steps(&self) -> usize {
        self.steps
    }

    fn push(&mut self, plan: &mut Plan, kind: StepKind, estimate: f64) {
        self.push_with_exists(plan, kind, estimate, Vec::new());
    }

    fn push_with_exists(
        &mut self,
        plan: &mut Plan,
        kind: StepKind,
        estimate: f64,
        exists: Vec<(usize, Plan)>,
    ) {
        plan.steps.push(Step {
            number: self.steps,
            kind,
            estimate,
            keep: VarSet::new(),
            exists,
        });
        self.steps += 1;
    }

    /// The plans of the EXISTS in an expression.
    fn exists_in(&mut self, expr: &Expr, state: &State) -> Vec<(usize, Plan)> {
        let outer = std::mem::replace(&mut self.outside, state.possible.clone());
        let plans = expr
            .exists()
            .into_iter()
            .map(|exists| {
                let mut plan = Plan::default();
                let mut inner = state.clone();
                inner.unit = false;
                self.node(&exists.node, &mut inner, &mut plan);
                (exists.at, plan)
            })
            .collect();
        self.outside = outer;
        plans
    }

    /// Adds the steps of a node to a plan; the rows so far are its input.
    pub(crate) fn node(&mut self, node: &Node, state: &mut State, plan: &mut Plan) {
        if !state.unit && !node.takes_input(&state.possible, &self.outside) {
            return self.join_with(node, state, plan);
        }
        match &node.operator {
            Operator::Group(group) => self.group(group, state, plan),
            Operator::Union(branches) => self.union(branches, state, plan),
            Operator::Values(values) => {
                let count = values.rows.len() as f64;
                let mut fanout = count;
                for variable in &values.variables {
                    if state.possible.contains(*variable) {
                        fanout /= state.distinct(*variable).max(count).max(1.0);
                    }
                    state.bind(*variable, count);
                }
                state.certain.extend(&node.certain);
                state.advance(state.rows * fanout);
                self.push(plan, StepKind::Values(Arc::clone(values)), state.rows);
            }
            Operator::Project(inner) => {
                let before = (state.certain.clone(), state.possible.clone());
                self.node(inner, state, plan);
                state.certain = before.0.union(&node.certain);
                state.possible = before.1.union(&node.possible);
            }
            Operator::Aggregate {
                inner,
                keys,
                aggregates,
            } => {
                self.node(inner, state, plan);
                let groups = keys
                    .iter()
                    .map(|key| state.distinct(*key))
                    .product::<f64>()
                    .min(state.rows.max(1.0));
                let exists = aggregates
                    .iter()
                    .flat_map(|(_, aggregate)| match aggregate {
                        crate::logical::Aggregate::Of { expression, .. } => {
                            self.exists_in(expression, state)
                        }
                        _ => Vec::new(),
                    })
                    .collect();
                *state = State::unit();
                state.certain = node.certain.clone();
                state.possible = node.possible.clone();
                state.advance(if keys.is_empty() { 1.0 } else { groups });
                let kind = StepKind::Aggregate {
                    keys: Arc::clone(keys),
                    aggregates: Arc::clone(aggregates),
                };
                self.push_with_exists(plan, kind, state.rows, exists);
            }
            Operator::OrderBy { inner, keys } => {
                self.node(inner, state, plan);
                let exists = keys
                    .iter()
                    .flat_map(|(key, _)| self.exists_in(key, state))
                    .collect();
                let kind = StepKind::OrderBy {
                    keys: Arc::clone(keys),
                    limit: None,
                };
                self.push_with_exists(plan, kind, state.rows, exists);
            }
            Operator::Distinct(inner) => {
                self.node(inner, state, plan);
                let kind = StepKind::Distinct(node.possible.clone());
                self.push(plan, kind, state.rows);
            }
            Operator::EachGraph { variable, inner } => {
                let mut own_plan = Plan::default();
                self.node(inner, state, &mut own_plan);
                let count = self.graphs.named().len() as f64;
                state.bind(*variable, count);
                state.certain.insert(*variable);
                state.advance(state.rows.max(count));
                let kind = StepKind::EachGraph {
                    variable: *variable,
                    plan: own_plan,
                    yields: node.possible.clone(),
                };
                self.push(plan, kind, state.rows);
            }
            Operator::Slice {
                inner,
                offset,
                limit,
            } => {
                let before = plan.steps.len();
                self.node(inner, state, plan);
                if let Some(step) = plan.steps[before..].last_mut()
                    && let StepKind::OrderBy { limit: first, .. } = &mut step.kind
                {
                    *first = limit.map(|limit| limit.saturating_add(*offset));
                }
                let rows = (state.rows - *offset as f64).max(0.0);
                state.advance(limit.map_or(rows, |limit| rows.min(limit as f64)));
                let kind = StepKind::Slice {
                    offset: *offset,
                    limit: *limit,
                };
                self.push(plan, kind, state.rows);
            }
        }
    }

    fn union(&mut self, branches: &[Node], state: &mut State, plan: &mut Plan) {
        let mut rows = 0.0;
        let mut certain: Option<VarSet> = None;
        let mut possible = state.possible.clone();
        let mut plans = Vec::with_capacity(branches.len());
        for branch in branches {
            let mut own = state.clone();
            // Each branch starts from the same rows; only the unit may be started from anew.
            let mut branch_plan = Plan::default();
            self.node(branch, &mut own, &mut branch_plan);
            rows += own.rows;
            certain = Some(match certain {
                Some(set) => set.intersection(&own.certain),
                None => own.certain,
            });
            possible.extend(&own.possible);
            plans.push(branch_plan);
        }
        let sum = rows;
        for variable in possible.iter() {
            state.bind(variable, sum.max(1.0));
        }
        state.certain = certain.unwrap_or_default();
        state.advance(rows);
        self.push(plan, StepKind::Union(plans), rows);
    }

    /// A node that is evaluated by itself and joined with the rows so far.
    fn join_with(&mut self, node: &Node, state: &mut State, plan: &mut Plan) {
        let mut own = State::unit();
        let mut own_plan = Plan::default();
        // It starts by itself, so it sees nothing from outside.
        let outside = std::mem::take(&mut self.outside);
        self.node(node, &mut own, &mut own_plan);
        self.outside = outside;
        let shared = state.possible.intersection(&node.possible);
        let mut rows = state.rows * own.rows;
        for variable in shared.iter() {
            rows /= state.distinct(variable).max(own.distinct(variable));
        }
        for variable in node.possible.iter() {
            state.bind(variable, own.distinct(variable));
        }
        state.certain.extend(&node.certain);
        state.advance(rows);
        let kind = StepKind::Join {
            plan: own_plan,
            shared,
            yields: node.possible.clone(),
        };
        self.push(plan, kind, rows);
    }

    fn group(&mut self, group: &Group, state: &mut State, plan: &mut Plan) {
        let mut left = Remaining {
            patterns: group
                .patterns
                .iter()
                .map(|p| (*p, Cardinality::of(self.graphs, self.constants, p)))
                .collect(),
            paths: group.paths.iter().collect(),
            graphs: group.graphs.clone(),
            blocks: group.blocks.iter().collect(),
            binds: group.binds.iter().map(|(v, e)| (*v, e)).collect(),
            filters: group.filters.iter().collect(),
            tails: group.tails.iter().collect(),
        };
        loop {
            self.place_ready(&mut left, state, plan);
            if left.has_core() {
                match self.choose(&left, state) {
                    Choice::Pattern(at) => self.place_pattern(&mut left, at, state, plan),
                    Choice::Path(at) => {
                        let path = left.paths.remove(at);
                        let rows = state.rows * path_fanout(self.graphs, path, state);
                        for variable in path.variables().iter() {
                            state.bind(variable, rows.max(1.0));
                            state.certain.insert(variable);
                        }
                        state.advance(rows);
                        self.push(plan, StepKind::Path(Arc::clone(path)), rows);
                    }
                    Choice::Graph(at) => {
                        let name = left.graphs.remove(at);
                        let count = self.graphs.named().len() as f64;
                        let rows = state.rows * self.graph_fanout(name, state);
                        if let Some(variable) = name.variable() {
                            state.bind(variable, count);
                            state.certain.insert(variable);
                        }
                        state.advance(rows);
                        self.push(plan, StepKind::GraphName(name), rows);
                    }
                    Choice::Block(at) => {
                        let block = left.blocks.remove(at);
                        self.node(block, state, plan);
                    }
                }
            } else if self.place_tail(&mut left, state, plan) {
                // One tail was placed; what waited for it may be ready.
            } else if !left.binds.is_empty() {
                // Binds that wait for each other's variables see them unbound, in the text's order.
                let (variable, expr) = left.binds.remove(0);
                self.place_bind(variable, expr, state, plan);
            } else {
                debug_assert!(left.filters.is_empty() && left.tails.is_empty());
                break;
            }
        }
    }

    /// Places every filter and bind that is ready.
    fn place_ready(&mut self, left: &mut Remaining<'_>, state: &mut State, plan: &mut Plan) {
        loop {
            if let Some(at) = left
                .filters
                .iter()
                .position(|f| left.is_ready(f, state, None))
            {
                let filter = left.filters.remove(at);
                let exists = self.exists_in(filter, state);
                state.advance(state.rows * FILTER_SHARE);
                self.push_with_exists(
                    plan,
                    StepKind::Filter(Arc::clone(filter)),
                    state.rows,
                    exists,
                );
                continue;
            }
            let bind = left.binds.iter().enumerate().position(|(at, (v, e))| {
                // Another bind, or pattern, of the same variable does not matter: this one checks.
                left.is_ready(e, state, Some(at)) && !e.variables().contains(*v)
            });
            let Some(at) = bind else { break };
            let (variable, expr) = left.binds.remove(at);
            self.place_bind(variable, expr, state, plan);
        }
    }

    fn place_bind(
        &mut self,
        variable: VarId,
        expr: &Arc<Expr>,
        state: &mut State,
        plan: &mut Plan,
    ) {
        let exists = self.exists_in(expr, state);
        let rows = state.rows;
        state.bind(variable, rows.max(1.0));
        if matches!(**expr, Expr::Constant(_)) {
            state.certain.insert(variable);
        }
        state.advance(rows);
        self.push_with_exists(
            plan,
            StepKind::Bind(variable, Arc::clone(expr)),
            rows,
            exists,
        );
    }

    fn place_pattern(
        &mut self,
        left: &mut Remaining<'_>,
        at: usize,
        state: &mut State,
        plan: &mut Plan,
    ) {
        let (pattern, cardinality) = left.patterns.remove(at);
        let Some(variable) = self.one_new(&pattern, state) else {
            cardinality.apply(&pattern, state);
            return self.push(plan, StepKind::Scan(pattern), state.rows);
        };
        let mut patterns = vec![pattern];
        let before = state.clone();
        cardinality.apply(&pattern, state);
        let mut others = 0;
        while others < left.patterns.len() {
            let (other, cardinality) = left.patterns[others];
            if self.one_new(&other, &before) == Some(variable) {
                cardinality.apply(&other, state);
                patterns.push(other);
                left.patterns.remove(others);
            } else {
                others += 1;
            }
        }
        let kind = match patterns.as_slice() {
            [pattern] => StepKind::Scan(*pattern),
            _ => StepKind::Intersect { variable, patterns },
        };
        self.push(plan, kind, state.rows);
    }

    /// The one variable that a pattern would bind anew, where an intersection can do that: the other
    /// end is known in every row, predicate and graph are constant.
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

    /// Places the next tail, if there is one.
    fn place_tail(&mut self, left: &mut Remaining<'_>, state: &mut State, plan: &mut Plan) -> bool {
        if left.tails.is_empty() {
            return false;
        }
        // Whatever stood before it in the text reads nothing that it binds, and was ready.
        match left.tails.remove(0) {
            Tail::Optional { node, filters } => self.optional(node, filters, state, plan),
            Tail::Minus(node) => self.minus(node, state, plan),
        }
        true
    }

    fn optional(&mut self, node: &Node, filters: &[Arc<Expr>], state: &mut State, plan: &mut Plan) {
        let correlated = node.takes_input(&state.possible, &self.outside);
        let mut inner = if correlated {
            let mut inner = state.clone();
            inner.unit = false;
            inner
        } else {
            State::unit()
        };
        let mut inner_plan = Plan::default();
        self.node(node, &mut inner, &mut inner_plan);
        let shared = state.possible.intersection(&node.possible);
        let mut matched = inner.clone();
        if !correlated {
            matched.rows *= state.rows;
            for variable in shared.iter() {
                matched.rows /= state.distinct(variable).max(inner.distinct(variable));
            }
            matched.certain.extend(&state.certain);
            matched.possible.extend(&state.possible);
        }
        let mut filter_plan = Plan::default();
        let into = if correlated {
            &mut inner_plan
        } else {
            &mut filter_plan
        };
        for filter in filters {
            let exists = self.exists_in(filter, &matched);
            matched.rows *= FILTER_SHARE;
            self.push_with_exists(
                into,
                StepKind::Filter(Arc::clone(filter)),
                matched.rows,
                exists,
            );
        }
        let rows = state.rows.max(matched.rows);
        for variable in node.possible.iter() {
            state.bind(variable, matched.distinct(variable));
        }
        state.advance(rows);
        let yields = node.possible.clone();
        let kind = if correlated {
            StepKind::Optional { plan: inner_plan }
        } else {
            StepKind::OptionalJoin {
                plan: inner_plan,
                shared,
                yields,
                filters: filter_plan,
            }
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
        let mut inner_plan = Plan::default();
        let correlated = certain && node.takes_input(&state.possible, &VarSet::new());
        let mut inner = if correlated {
            let mut inner = state.clone();
            inner.unit = false;
            inner
        } else {
            State::unit()
        };
        self.node(node, &mut inner, &mut inner_plan);
        state.advance(state.rows * FILTER_SHARE);
        let kind = if correlated {
            StepKind::AntiSemi { plan: inner_plan }
        } else {
            StepKind::Minus {
                plan: inner_plan,
                shared,
            }
        };
        self.push(plan, kind, state.rows);
    }
}
