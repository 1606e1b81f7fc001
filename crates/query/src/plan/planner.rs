//! From algebra to steps. The parts of a group come in the cheapest order (`order.rs`), filters and
//! binds as soon as their variables have their values, OPTIONAL and MINUS after them
//! (`optional_minus.rs`). Estimates choose between plans that are all correct: an estimate for one
//! constant may be wrong for another, and the plan still gives the right answer.

use crate::algebra::expression::{Constants, Expr};
use crate::algebra::logical::{Group, Node, Operator, RetainedScan, Service, Values};
use crate::algebra::varset::VarSet;
use crate::context::execution::PlanChoices;
use crate::context::limiter::Limiter;
use crate::context::table::Table;
use crate::exec::explain::Explainer;
use crate::exec::names::Names;
use crate::exec::operators::{
    Bind, CallService, Distinct, EachGraph, FilterRows, InTermOrder, Join, JoinCells, JoinRetained,
    JoinValues, StepKind, Union,
};
use crate::exec::step::{Plan, Step};
use crate::plan::cost;
use crate::plan::estimate::State;
use crate::plan::selectivity;
use crate::plan::unplaced::Unplaced;
use crate::view::sources::Graphs;
use rustc_hash::FxHashMap;
use somersault_lang::VarId;
use somersault_model::TermId;
use std::rc::Rc;
use std::sync::Arc;

/// The assumed answer of another endpoint: its rows and its cost.
const SERVICE_ROWS: f64 = 100.0;
const SERVICE_COST: f64 = 1e7;

/// The estimate of a node before it is placed.
#[derive(Debug)]
pub(crate) struct Estimate {
    /// Planned alone.
    pub(crate) rows: f64,
    pub(crate) cost: f64,
    /// Its variables: how many values they have, and whether in every row.
    pub(crate) binds: Vec<(VarId, f64, bool)>,
    /// Its cost from one row, where it may run from rows.
    pub(crate) along: Option<f64>,
    /// The number of rows that it makes of that one row.
    pub(crate) matched: f64,
}

/// The inputs of a plan in addition to the view.
#[derive(Clone, Copy, Default)]
pub(crate) struct PlanInputs<'b> {
    /// The number of cells, where queries are evaluated together.
    pub(crate) cells: usize,
    /// The rows that are kept from one execution to the next.
    pub(crate) maintained: &'b [Table],
}

/// Makes plans for one execution.
pub(crate) struct Planner<'a> {
    pub(crate) graphs: &'a Graphs<'a>,
    pub(crate) constants: &'a [TermId],
    pub(crate) terms: &'a Constants,
    pub(crate) variables: &'a [String],
    pub(crate) steps: usize,
    pub(crate) choices: PlanChoices,
    limiter: &'a Limiter<'a>,
    /// The number of the next variable of the planner's own.
    pub(crate) fresh: u32,
    pub(crate) beside: PlanInputs<'a>,
    /// Inside EXISTS: the variables from outside, which stand for their values.
    pub(crate) outside: VarSet,
    /// By the addresses of nodes, which stay where they are while planning.
    estimates: FxHashMap<u64, Rc<Estimate>>,
    texts: FxHashMap<u64, Rc<str>>,
}

impl<'a> Planner<'a> {
    pub(crate) fn new(
        graphs: &'a Graphs<'a>,
        constants: &'a [TermId],
        terms: &'a Constants,
        variables: &'a [String],
        fresh: u32,
        limiter: &'a Limiter<'a>,
    ) -> Planner<'a> {
        Planner {
            graphs,
            constants,
            terms,
            variables,
            steps: 0,
            choices: limiter.plan_choices(),
            limiter,
            fresh,
            beside: PlanInputs::default(),
            outside: VarSet::new(),
            estimates: FxHashMap::default(),
            texts: FxHashMap::default(),
        }
    }

    /// Whether the execution has run out of time. The caller turns that into an error.
    pub(crate) fn is_over_time(&self) -> bool {
        self.limiter.check_interrupt().is_err()
    }

    /// The plan of a whole query; `needed` are the columns of its answer, and with `once` it does
    /// not count its rows.
    pub(crate) fn plan(&mut self, root: &Node, needed: &VarSet, once: bool) -> Plan {
        let mut plan = Plan::default();
        self.node(root, &mut State::unit(), &mut plan);
        plan.prune(needed, once);
        plan
    }

    /// The names of the numbers in its plans.
    pub(crate) fn names(&self) -> Names<'a> {
        Names {
            terms: self.terms,
            variables: self.variables,
        }
    }

    /// The number of steps that were numbered.
    pub(crate) fn steps(&self) -> usize {
        self.steps
    }

    pub(crate) fn push(&mut self, plan: &mut Plan, kind: impl Into<StepKind>, estimate: f64) {
        self.push_with_exists(plan, kind, estimate, Vec::new());
    }

    pub(crate) fn push_with_exists(
        &mut self,
        plan: &mut Plan,
        kind: impl Into<StepKind>,
        estimate: f64,
        exists: Vec<(usize, Plan)>,
    ) {
        let kind = kind.into();
        if kind.operator().is_volatile() && !plan.ends_in_term_order() {
            self.push(plan, InTermOrder, estimate);
        }
        plan.steps.push(Step {
            number: self.steps,
            kind,
            estimate,
            keep: VarSet::new(),
            exists,
            by_part: false,
            once: false,
        });
        self.steps += 1;
    }

    /// The plans of the EXISTS in an expression.
    pub(crate) fn exists_in(&mut self, expr: &Expr, state: &State) -> Vec<(usize, Plan)> {
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
            Operator::Values(values) => self.values(values, &node.certain, state, plan),
            Operator::Cells(variables) => self.cells(variables, state, plan),
            Operator::Retained(rows) => self.maintained(rows, &node.certain, state, plan),
            Operator::Service(service) => self.service(service, state, plan),
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
                self.aggregate(inner, keys, aggregates, state, plan);
                state.certain = node.certain.clone();
                state.possible = node.possible.clone();
            }
            Operator::OrderBy { inner, keys } => self.order_by(inner, keys, state, plan),
            Operator::Distinct(inner) => {
                self.node(inner, state, plan);
                state.cost += cost::group(state.rows);
                self.push(plan, Distinct(node.possible.clone()), state.rows);
            }
            Operator::EachGraph { variable, inner } => {
                self.each_graph(*variable, inner, node.possible.clone(), state, plan);
            }
            Operator::Slice {
                inner,
                offset,
                limit,
            } => self.slice(inner, (*offset, *limit), state, plan),
        }
    }

    fn values(
        &mut self,
        values: &Arc<Values>,
        certain: &VarSet,
        state: &mut State,
        plan: &mut Plan,
    ) {
        let rows = (&values.variables[..], values.rows.len());
        Self::given(rows, certain, state);
        self.push(plan, JoinValues(Arc::clone(values)), state.rows);
    }

    /// A join with a given number of rows of these variables, which exist already.
    fn given((variables, rows): (&[VarId], usize), certain: &VarSet, state: &mut State) {
        let count = rows as f64;
        let mut fanout = count;
        for variable in variables {
            if state.possible.contains(*variable) {
                fanout /= state.distinct(*variable).max(count).max(1.0);
            }
            state.bind(*variable, count);
        }
        state.certain.extend(certain);
        let flow = state.flow(state.rows * fanout);
        state.cost += cost::hash(flow, count);
        state.advance(flow.made);
    }

    /// Cells are found by their constants, without building a hash table first.
    fn cells(&mut self, variables: &Arc<[VarId]>, state: &mut State, plan: &mut Plan) {
        let count = self.beside.cells as f64;
        let each = count.powf(1.0 / variables.len().max(1) as f64);
        let mut share = count;
        for variable in variables.iter() {
            if state.possible.contains(*variable) {
                share /= state.distinct(*variable).max(each).max(1.0);
            }
        }
        let is_known = variables.iter().all(|v| state.certain.contains(*v));
        let share = if is_known { share.min(1.0) } else { share };
        let flow = state.flow(state.rows * share);
        state.cost += match is_known {
            true => cost::probe(flow),
            false => cost::hash(flow, count),
        };
        for variable in variables.iter() {
            state.bind(*variable, each);
            state.certain.insert(*variable);
        }
        state.advance(flow.made);
        self.push(plan, JoinCells(Arc::clone(variables)), state.rows);
    }

    fn maintained(
        &mut self,
        rows: &RetainedScan,
        certain: &VarSet,
        state: &mut State,
        plan: &mut Plan,
    ) {
        let table = self.beside.maintained.get(rows.number);
        let count = table.map_or(0, |table| table.rows);
        Self::given((&rows.variables, count), certain, state);
        self.push(plan, JoinRetained(rows.clone()), state.rows);
    }

    fn service(&mut self, service: &Arc<Service>, state: &mut State, plan: &mut Plan) {
        for (variable, _) in &service.variables {
            state.bind(*variable, SERVICE_ROWS);
        }
        state.cost += SERVICE_COST + cost::hash(state.flow(state.rows), SERVICE_ROWS);
        state.advance(state.rows.max(SERVICE_ROWS));
        self.push(plan, CallService(Arc::clone(service)), state.rows);
    }

    fn each_graph(
        &mut self,
        variable: VarId,
        inner: &Node,
        yields: VarSet,
        state: &mut State,
        plan: &mut Plan,
    ) {
        let mut own_plan = Plan::default();
        self.node(inner, state, &mut own_plan);
        let count = self.graphs.named().len() as f64;
        state.bind(variable, count);
        state.certain.insert(variable);
        state.advance(state.rows.max(count));
        let each = EachGraph {
            variable,
            plan: own_plan,
            yields,
        };
        self.push(plan, each, state.rows);
    }

    fn union(&mut self, branches: &[Node], state: &mut State, plan: &mut Plan) {
        let (mut rows, mut cost) = (0.0, 0.0);
        let mut certain: Option<VarSet> = None;
        let mut possible = state.possible.clone();
        let mut plans = Vec::with_capacity(branches.len());
        for branch in branches {
            let mut own = state.clone();
            own.cost = 0.0;
            // Each branch starts from the same rows.
            let mut branch_plan = Plan::default();
            self.node(branch, &mut own, &mut branch_plan);
            rows += own.rows;
            cost += own.cost + own.rows;
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
        state.cost += cost;
        state.advance(rows);
        self.push(plan, Union(plans), rows);
    }

    /// A node that is evaluated alone and joined with the rows so far.
    pub(crate) fn join_with(&mut self, node: &Node, state: &mut State, plan: &mut Plan) {
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
        state.cost += own.cost + cost::hash(state.flow(rows), own.rows);
        state.advance(rows);
        let join = Join {
            plan: own_plan,
            shared,
            yields: node.possible.clone(),
        };
        self.push(plan, join, rows);
    }

    fn group(&mut self, group: &Group, state: &mut State, plan: &mut Plan) {
        let mut left = self.remaining(group, state);
        self.place_ready(&mut left, state, plan);
        let apart = self.apart(&mut left, state);
        self.place_core(group, &mut left, state, plan);
        for apart in apart {
            self.place_ready(&mut left, state, plan);
            self.join_apart(group, apart, &mut left, state, plan);
        }
        loop {
            self.place_ready(&mut left, state, plan);
            if self.place_tail(&mut left, state, plan) {
                // Parts that waited for it may be ready.
            } else if !left.binds.is_empty() {
                // Binds that wait for each other's variables see them unbound, in the text's order.
                let (variable, expr) = left.binds.remove(0);
                self.place_bind(variable, expr, state, plan);
            } else {
                debug_assert!(
                    (left.filters.is_empty() && left.tails.is_empty()) || self.is_over_time()
                );
                break;
            }
        }
    }

    /// The estimate of a node before it is placed: planned alone, and, where it may run from rows
    /// with values for `others`, from one such row. It is made once for each node: planning every
    /// block again inside every other would take time exponential in the nesting.
    pub(crate) fn estimate(&mut self, node: &Node, others: &VarSet) -> Rc<Estimate> {
        let key = node.id.number();
        if let Some(known) = self.estimates.get(&key) {
            return Rc::clone(known);
        }
        let numbered = self.steps;
        let outside = std::mem::take(&mut self.outside);
        let mut alone = State::unit();
        self.node(node, &mut alone, &mut Plan::default());
        self.outside = outside;
        let shared = node.mentioned().intersection(others);
        let along = node.takes_input(others, &self.outside).then(|| {
            let mut one = State::unit();
            for variable in shared.iter() {
                one.bind(variable, 1.0);
                one.certain.insert(variable);
            }
            one.advance(1.0);
            self.node(node, &mut one, &mut Plan::default());
            one
        });
        self.steps = numbered;
        let binds = node.possible.iter().map(|v| {
            let certain = node.certain.contains(v);
            (v, alone.distinct(v), certain)
        });
        let estimate = Rc::new(Estimate {
            rows: alone.rows,
            cost: alone.cost,
            binds: binds.collect(),
            along: along.as_ref().map(|one| one.cost),
            matched: along.map_or(alone.rows, |one| one.rows),
        });
        self.estimates.insert(key, Rc::clone(&estimate));
        estimate
    }

    /// The steps of a block as text.
    pub(crate) fn block_text(&mut self, node: &Node) -> Rc<str> {
        let key = node.id.number();
        if let Some(known) = self.texts.get(&key) {
            return Rc::clone(known);
        }
        let numbered = self.steps;
        let mut plan = Plan::default();
        self.node(node, &mut State::unit(), &mut plan);
        self.steps = numbered;
        let explainer = Explainer {
            names: self.names(),
            actual: &[],
        };
        let text: Rc<str> = explainer.plan(&plan).to_string().into();
        self.texts.insert(key, Rc::clone(&text));
        text
    }

    /// Whether a node that could run from the rows so far may also run alone. Inside EXISTS it may
    /// not, since it would miss the values from outside.
    pub(crate) fn may_join(&self, node: &Node, state: &State) -> bool {
        !state.unit
            && self.outside.is_empty()
            && !matches!(
                node.operator,
                Operator::Values(_)
                    | Operator::Cells(_)
                    | Operator::Retained(_)
                    | Operator::Service(_)
            )
    }

    /// Places every filter and bind that is ready.
    pub(crate) fn place_ready(
        &mut self,
        left: &mut Unplaced<'_>,
        state: &mut State,
        plan: &mut Plan,
    ) {
        loop {
            if let Some(at) = left
                .filters
                .iter()
                .position(|f| left.is_ready(f, state, None))
            {
                let filter = left.filters.remove(at);
                let exists = self.exists_in(filter, state);
                self.leave(filter, state);
                let filter = FilterRows(Arc::clone(filter));
                self.push_with_exists(plan, filter, state.rows, exists);
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

    /// The state after a condition.
    pub(crate) fn leave(&self, condition: &Expr, state: &mut State) {
        let left = state.rows * selectivity::share(condition, &|v| state.distinct(v));
        state.cost += state.rows * selectivity::nanos(condition);
        state.advance(left);
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
        let values = match **expr {
            Expr::Constant(_) => 1.0,
            Expr::Variable(other) => state.distinct(other),
            _ => rows.max(1.0),
        };
        state.bind(variable, values);
        let always = match **expr {
            Expr::Constant(_) => true,
            Expr::Variable(other) => state.certain.contains(other),
            _ => false,
        };
        if always {
            state.certain.insert(variable);
        }
        state.advance(rows);
        let expr = Arc::clone(expr);
        self.push_with_exists(plan, Bind { variable, expr }, rows, exists);
    }
}
