//! The parts of a group that can come in any order, as the search for an order sees them. Variables
//! are numbers from 0. A [`SearchState`] holds the estimates for the parts placed so far, and
//! placing a part changes it.

use crate::algebra::expression::Expr;
use crate::plan::cost::{self, Flow};
use crate::plan::estimate::Cardinality;
use crate::plan::reduction::Reduction;
use crate::plan::selectivity;
use crate::plan::trial_run::{Observation, ObservedReduction};
use somersault_lang::VarId;
use std::sync::Arc;

/// An end of a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PatternEnd {
    Constant,
    Variable(usize),
}

/// A triple pattern.
#[derive(Debug)]
pub(crate) struct Pattern {
    pub(crate) subject: PatternEnd,
    pub(crate) predicate: PatternEnd,
    pub(crate) object: PatternEnd,
    /// [`PatternEnd::Constant`] also for the default graph.
    pub(crate) graph: PatternEnd,
    pub(crate) cardinality: Cardinality,
}

/// A block, planned independently.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) rows: f64,
    pub(crate) cost: f64,
    /// Its variables, how many values they have, and whether in every row.
    pub(crate) binds: Vec<(usize, f64, bool)>,
    /// The cost of running it from one row, where that is possible.
    pub(crate) along: Option<f64>,
    /// A variable that must be bound before it, and that it does not bind.
    pub(crate) needs: Option<usize>,
}

/// The kinds of parts.
#[derive(Debug)]
pub(crate) enum PartKind {
    Pattern(Pattern),
    Path {
        subject: PatternEnd,
        object: PatternEnd,
        statements: f64,
    },
    Graph {
        name: PatternEnd,
        count: f64,
    },
    Block(Block),
}

/// A part with its variables, each once.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) kind: PartKind,
    pub(crate) variables: Vec<usize>,
}

/// The statistics of a variable; `values` is 0 while it is unbound.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct VariableState {
    pub(crate) values: f64,
    pub(crate) certain: bool,
}

/// The expected rows after some of the parts.
#[derive(Debug, Default)]
pub(crate) struct SearchState {
    pub(crate) rows: f64,
    pub(crate) cost: f64,
    pub(crate) bound: Vec<VariableState>,
    pub(crate) placed: Vec<bool>,
    /// The number of parts that are not placed.
    pub(crate) left: usize,
    /// Whether the rows are still the one empty solution.
    pub(crate) unit: bool,
    /// The reductions of the rows so far.
    pub(crate) reduced: Vec<Reduction>,
}

/// The result of sampling another part's vertices for a part (`sample.rs`).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample {
    /// The part whose vertices were sampled.
    pub(crate) from: usize,
    /// The shared variable.
    pub(crate) variable: usize,
    /// Edges per row of the other part.
    pub(crate) fanout: f64,
    /// The share of the rows that have such an edge.
    pub(crate) hit: f64,
    /// The number of vertices that the other part has.
    pub(crate) vertices: f64,
}

/// The next step of an order.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum JoinStep {
    One(usize),
    /// A pattern whose rows are reduced at once.
    Reduced(usize, Reduction),
    /// These patterns close on one variable together.
    Intersect(Vec<usize>),
}

/// A condition, with its variables among those of the parts.
#[derive(Debug)]
pub(crate) struct Condition<'q> {
    pub(crate) expr: &'q Arc<Expr>,
    pub(crate) variables: Vec<usize>,
}

/// A bind of a variable that parts may use.
#[derive(Debug)]
pub(crate) struct Binding {
    pub(crate) inputs: Vec<usize>,
    pub(crate) variable: usize,
    pub(crate) constant: bool,
}

/// All parts of a group, with the conditions and binds between them.
#[derive(Debug, Default)]
pub(crate) struct JoinGraph<'q> {
    pub(crate) list: Vec<Part>,
    pub(crate) conditions: Vec<Condition<'q>>,
    pub(crate) bindings: Vec<Binding>,
    /// The query's variable of each number.
    pub(crate) variables: Vec<VarId>,
    /// Per part.
    pub(crate) samples: Vec<Vec<Sample>>,
    /// Per part.
    pub(crate) seen: Vec<Vec<Observation>>,
    pub(crate) seen_reductions: Vec<ObservedReduction>,
    /// Intersections are not considered.
    pub(crate) no_intersect: bool,
}

impl Clone for SearchState {
    fn clone(&self) -> SearchState {
        let mut frame = SearchState::default();
        frame.clone_from(self);
        frame
    }

    /// Reuses the memory, since the search copies states all the time.
    fn clone_from(&mut self, other: &SearchState) {
        let SearchState {
            rows,
            cost,
            bound,
            placed,
            left,
            unit,
            reduced,
        } = other;
        (self.rows, self.cost, self.left, self.unit) = (*rows, *cost, *left, *unit);
        self.bound.clone_from(bound);
        self.placed.clone_from(placed);
        self.reduced.clone_from(reduced);
    }
}

impl SearchState {
    fn is_reduced(&self, part: usize, variable: usize) -> bool {
        self.reduced.contains(&Reduction { by: part, variable })
    }

    fn is_known(&self, end: PatternEnd) -> bool {
        match end {
            PatternEnd::Constant => true,
            PatternEnd::Variable(v) => self.bound[v].values > 0.0,
        }
    }

    fn is_certain(&self, end: PatternEnd) -> bool {
        match end {
            PatternEnd::Constant => true,
            PatternEnd::Variable(v) => self.bound[v].certain,
        }
    }

    fn bind(&mut self, variable: usize, values: f64, certain: bool) {
        let bound = &mut self.bound[variable];
        let values = values.max(1.0);
        if bound.values == 0.0 || values < bound.values {
            bound.values = values;
        }
        bound.certain |= certain;
    }

    fn columns(&self) -> usize {
        self.bound.iter().filter(|b| b.values > 0.0).count()
    }

    pub(crate) fn flow(&self, made: f64) -> Flow {
        Flow {
            rows: self.rows,
            made,
            columns: self.columns(),
        }
    }

    pub(crate) fn advance(&mut self, rows: f64) {
        self.rows = rows;
        self.unit = false;
        for bound in &mut self.bound {
            if bound.values > 0.0 {
                bound.values = bound.values.min(rows.max(1.0));
            }
        }
    }
}

impl Pattern {
    fn ends(&self) -> [(PatternEnd, f64); 4] {
        let c = &self.cardinality;
        [
            (self.subject, c.subjects),
            (self.predicate, c.predicates),
            (self.object, c.objects),
            (self.graph, c.graphs),
        ]
    }

    /// The number of values that a variable has at one of its ends.
    fn values_of(&self, variable: usize) -> f64 {
        let mut ends = self.ends().into_iter();
        ends.find(|(end, _)| *end == PatternEnd::Variable(variable))
            .map_or(1.0, |(_, values)| values)
    }

    /// The one new variable that it would bind, where an intersection can do that: the other end is
    /// known in every row, and predicate and graph are constant.
    fn one_new(&self, frame: &SearchState) -> Option<usize> {
        if self.predicate != PatternEnd::Constant || self.graph != PatternEnd::Constant {
            return None;
        }
        let new = |end: PatternEnd| match end {
            PatternEnd::Variable(v) if frame.bound[v].values == 0.0 => Some(v),
            _ => None,
        };
        match (new(self.subject), new(self.object)) {
            (Some(v), None) if frame.is_certain(self.object) => Some(v),
            (None, Some(v)) if frame.is_certain(self.subject) => Some(v),
            _ => None,
        }
    }

    /// The number of rows that it makes of one, on average; `part` is its number.
    fn fanout(&self, part: usize, frame: &SearchState, samples: &[Sample]) -> f64 {
        let sample = best_sample(frame, samples);
        let mut fanout = sample.map_or(self.cardinality.triples, |s| {
            if !frame.is_reduced(part, s.variable) {
                s.fanout
            } else if s.hit > 0.0 {
                s.fanout / s.hit
            } else {
                self.cardinality.triples / self.values_of(s.variable).max(1.0)
            }
        });
        for (end, here) in self.ends() {
            if let PatternEnd::Variable(v) = end
                && sample.is_none_or(|s| s.variable != v)
            {
                let there = frame.bound[v].values;
                if there > 0.0 {
                    fanout /= there.max(here).max(1.0);
                }
            }
        }
        if self.subject == self.object && self.subject != PatternEnd::Constant {
            fanout /= self
                .cardinality
                .subjects
                .max(self.cardinality.objects)
                .max(1.0);
        }
        fanout
    }

    fn cost(&self, frame: &SearchState, made: f64) -> f64 {
        let flow = frame.flow(made);
        let c = &self.cardinality;
        let cost = match (
            frame.is_known(self.subject),
            frame.is_known(self.predicate),
            frame.is_known(self.object),
        ) {
            (true, true, true) => cost::check(flow, self.has_constant_end()),
            (false, true, false) => cost::scan(flow, c.subjects.min(c.objects), c.triples),
            (_, true, _) => cost::expand(flow, self.has_constant_end()),
            (false, false, false) => cost::scan(flow, c.subjects, c.triples),
            (_, false, _) => {
                let lists = Flow {
                    rows: frame.rows * c.predicates.max(2.0),
                    ..flow
                };
                cost::expand(lists, false)
            }
        };
        cost * c.sources
    }

    fn has_constant_end(&self) -> bool {
        self.subject == PatternEnd::Constant || self.object == PatternEnd::Constant
    }
}

/// The most telling sample: that of the part with the fewest vertices left, unless another sample
/// found no edge.
fn best_sample(frame: &SearchState, samples: &[Sample]) -> Option<Sample> {
    let told = samples
        .iter()
        .filter(|s| frame.placed[s.from] && frame.bound[s.variable].values > 0.0);
    told.copied().min_by(|a, b| {
        (a.hit > 0.0)
            .cmp(&(b.hit > 0.0))
            .then(a.vertices.total_cmp(&b.vertices))
    })
}

impl JoinGraph<'_> {
    /// Rows of a part for one row so far, on average.
    pub(crate) fn fanout(&self, frame: &SearchState, part: usize) -> f64 {
        if let Some(seen) = self.seen(frame, part) {
            return seen.fanout;
        }
        match &self.list[part].kind {
            PartKind::Pattern(pattern) => pattern.fanout(part, frame, self.samples_of(part)),
            PartKind::Path {
                subject,
                object,
                statements,
            } => match (frame.is_known(*subject), frame.is_known(*object)) {
                (true, true) => 0.5,
                (true, false) | (false, true) => 10.0,
                (false, false) => 10.0 * (statements + 1.0),
            },
            PartKind::Graph { name, count } => {
                if frame.is_known(*name) {
                    1.0
                } else {
                    *count
                }
            }
            PartKind::Block(block) => {
                let mut fanout = block.rows;
                for (v, here, _) in &block.binds {
                    let there = frame.bound[*v].values;
                    if there > 0.0 {
                        fanout /= there.max(*here).max(1.0);
                    }
                }
                fanout
            }
        }
    }

    fn samples_of(&self, part: usize) -> &[Sample] {
        self.samples.get(part).map_or(&[], Vec::as_slice)
    }

    /// Whether running a block alone and joining by hash is better than running it from the rows so
    /// far.
    pub(crate) fn joins_by_hash(&self, frame: &SearchState, part: usize) -> bool {
        let PartKind::Block(block) = &self.list[part].kind else {
            return false;
        };
        let made = frame.rows * self.fanout(frame, part);
        let (alone, along) = block_costs(block, frame, made);
        !frame.unit && along.is_none_or(|along| alone < along)
    }

    /// Whether a part has a variable in common with the rows so far, or needs none.
    fn is_connected(&self, frame: &SearchState, part: usize) -> bool {
        let variables = &self.list[part].variables;
        variables.is_empty() || variables.iter().any(|v| frame.bound[*v].values > 0.0)
    }

    /// All possible next steps. A part that shares no variable with the rows so far is among them
    /// only where nothing else is left, or where the product is small.
    pub(crate) fn moves(&self, frame: &SearchState, into: &mut Vec<JoinStep>) {
        into.clear();
        let nothing_bound = frame.bound.iter().all(|b| b.values == 0.0);
        let open = |part: &usize| !frame.placed[*part] && !self.waits(frame, *part);
        let connected = |part: &usize| nothing_bound || self.is_connected(frame, *part);
        let all = 0..self.list.len();
        let any_connected = all.clone().filter(open).any(|part| connected(&part));
        let mut closing: Vec<(usize, usize)> = Vec::new();
        for part in all.filter(open) {
            let small = || frame.rows * self.fanout(frame, part) <= SMALL_PRODUCT;
            if any_connected && !connected(&part) && !small() {
                continue;
            }
            into.push(JoinStep::One(part));
            self.reductions(frame, part, into);
            if let PartKind::Pattern(pattern) = &self.list[part].kind
                && !self.no_intersect
                && let Some(variable) = pattern.one_new(frame)
            {
                closing.push((variable, part));
            }
        }
        closing.sort_unstable();
        for group in closing.chunk_by(|a, b| a.0 == b.0) {
            let parts: Vec<usize> = group.iter().map(|(_, part)| *part).collect();
            if parts.len() < 2 {
                continue;
            }
            if parts.len() > 2 && parts.len() <= MOST_PAIRED {
                for (at, a) in parts.iter().enumerate() {
                    let pairs = parts[at + 1..].iter();
                    into.extend(pairs.map(|b| JoinStep::Intersect(vec![*a, *b])));
                }
            }
            into.push(JoinStep::Intersect(parts));
        }
    }

    /// Whether a part waits for a variable that another one will bind.
    fn waits(&self, frame: &SearchState, part: usize) -> bool {
        let PartKind::Block(Block { needs: Some(v), .. }) = self.list[part].kind else {
            return false;
        };
        let may_come = |(at, other): (usize, &Part)| {
            at != part && !frame.placed[at] && other.variables.contains(&v)
        };
        frame.bound[v].values == 0.0 && self.list.iter().enumerate().any(may_come)
    }

    /// The state after a step, and after the conditions that it makes ready.
    pub(crate) fn apply(&self, frame: &SearchState, step: &JoinStep, into: &mut SearchState) {
        self.extend(frame, step, into);
        self.settle(Some(frame), into);
    }

    /// State after a step, before newly ready filters.
    pub(crate) fn extend(&self, frame: &SearchState, step: &JoinStep, into: &mut SearchState) {
        into.clone_from(frame);
        match step {
            JoinStep::One(part) => {
                let made = frame.rows * self.fanout(frame, *part);
                into.cost += self.cost(frame, *part, made);
                self.bind(*part, into);
                into.advance(made);
                into.placed[*part] = true;
                into.left -= 1;
            }
            JoinStep::Reduced(part, reduction) => {
                self.extend(frame, &JoinStep::One(*part), into);
                self.reduce(*part, *reduction, into);
            }
            JoinStep::Intersect(parts) => {
                let mut lengths = Vec::with_capacity(parts.len());
                for part in parts {
                    lengths.push(self.fanout(frame, *part));
                    let made = into.rows * self.fanout(into, *part);
                    self.bind(*part, into);
                    into.advance(made);
                    into.placed[*part] = true;
                    into.left -= 1;
                }
                into.cost += cost::intersect(frame.flow(into.rows), &lengths);
            }
        }
    }

    fn cost(&self, frame: &SearchState, part: usize, made: f64) -> f64 {
        match &self.list[part].kind {
            PartKind::Pattern(pattern) => pattern.cost(frame, made),
            PartKind::Path { .. } => cost::walk(frame.flow(made)),
            PartKind::Graph { .. } => cost::each(frame.flow(made), 20.0),
            PartKind::Block(block) => {
                let (alone, along) = block_costs(block, frame, made);
                along.map_or(alone, |along| along.min(alone))
            }
        }
    }

    fn bind(&self, part: usize, frame: &mut SearchState) {
        match &self.list[part].kind {
            PartKind::Pattern(pattern) => {
                let sample = best_sample(frame, self.samples_of(part));
                if let Some(sample) = sample
                    && !frame.is_reduced(part, sample.variable)
                {
                    let values = &mut frame.bound[sample.variable].values;
                    *values = (*values * sample.hit).max(1.0);
                }
                for (end, here) in pattern.ends() {
                    if let PatternEnd::Variable(v) = end {
                        frame.bind(v, here, true);
                    }
                }
            }
            PartKind::Path {
                subject, object, ..
            } => {
                for end in [subject, object] {
                    if let PatternEnd::Variable(v) = end {
                        frame.bind(*v, f64::MAX, true);
                    }
                }
            }
            PartKind::Graph { name, count } => {
                if let PatternEnd::Variable(v) = name {
                    frame.bind(*v, *count, true);
                }
            }
            PartKind::Block(block) => {
                for (v, values, certain) in &block.binds {
                    frame.bind(*v, *values, *certain);
                }
            }
        }
    }

    /// Binds and conditions that became ready between two states; `None` = those ready at the
    /// start.
    pub(crate) fn settle(&self, before: Option<&SearchState>, frame: &mut SearchState) {
        for binding in &self.bindings {
            let ready = binding.inputs.iter().all(|v| frame.bound[*v].values > 0.0);
            if ready && frame.bound[binding.variable].values == 0.0 {
                let values = if binding.constant { 1.0 } else { frame.rows };
                frame.bind(binding.variable, values, binding.constant);
            }
        }
        for condition in &self.conditions {
            let all_in = |frame: &SearchState| {
                let mut variables = condition.variables.iter();
                variables.all(|v| frame.bound[*v].values > 0.0)
            };
            if all_in(frame) && !before.is_some_and(all_in) {
                let share = selectivity::share(condition.expr, &|v| {
                    let local = self.variables.iter().position(|other| *other == v);
                    local.map_or(1.0, |at| frame.bound[at].values.max(1.0))
                });
                let left = frame.rows * share;
                frame.cost += cost::each(frame.flow(left), selectivity::nanos(condition.expr));
                frame.advance(left);
            }
        }
    }
}

/// A product of at most this many rows does no harm.
const SMALL_PRODUCT: f64 = 64.0;
/// Where more patterns than this close on one variable, not every pair is tried.
const MOST_PAIRED: usize = 6;

/// The cost of a block run alone, and run from the rows so far.
fn block_costs(block: &Block, frame: &SearchState, made: f64) -> (f64, Option<f64>) {
    if frame.unit {
        return (block.cost, None);
    }
    let flow = frame.flow(made);
    let along = block.along.map(|one| frame.rows * one + flow.made);
    (block.cost + cost::hash(flow, block.rows), along)
}
