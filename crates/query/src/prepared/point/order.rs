//! The order in which a point query reads its patterns and evaluates its expressions.
//!
//! The one thing to know before changing it: an expression must not see less than it would at its
//! place in the text, nor more. So it waits until nothing that comes later may give one of its
//! variables a value, as in a plan.

use super::{NestedSteps, PointQuery, PointStep};
use crate::algebra::expression::{ConstantId, Expr};
use crate::algebra::logical::{GraphPosition, Group, Node, Operator, Position, QuadPattern, Tail};
use crate::algebra::varset::VarSet;
use crate::prepared::{Prepared, has_blank_node};
use oxrdf::Term;
use somersault_lang::{KeptGraph, QueryForm, VarId};
use somersault_model::Direction;
use std::sync::Arc;

impl PointQuery {
    /// The query as a point query; `None` if it is none.
    pub(crate) fn of(prepared: &Prepared) -> Option<PointQuery> {
        let inner = prepared.inner();
        let has_form = match &inner.query.form {
            QueryForm::Ask | QueryForm::Select { .. } => true,
            QueryForm::Construct { template } => {
                !template.iter().any(|quad| has_blank_node(&quad.triple))
            }
            QueryForm::Describe { .. } => false,
        };
        if !has_form || inner.query.dataset.present {
            return None;
        }
        let root = &inner.compiled.root;
        let group = only_group(root)?;
        let constants = &inner.compiled.constants.terms;
        let mut order = PointOrder::new(constants, VarSet::new(), VarSet::new());
        order.group(group)?;
        Some(PointQuery {
            steps: order.steps,
            reads_subjects: order.reads_subjects,
            takes_rows: takes_rows(root),
        })
    }
}

/// Whether the operators over the group leave any rows as they are.
fn takes_rows(node: &Node) -> bool {
    match &node.operator {
        Operator::Group(_) => true,
        Operator::Project(inner) => takes_rows(inner),
        _ => false,
    }
}

/// The group of a query whose other operators leave one row as it is.
fn only_group(node: &Node) -> Option<&Group> {
    match &node.operator {
        Operator::Group(group) => Some(group),
        Operator::Project(inner) | Operator::Distinct(inner) => only_group(inner),
        Operator::OrderBy { inner, keys } => {
            let is_volatile = keys.iter().any(|(key, _)| !is_plain(key));
            (!is_volatile).then(|| only_group(inner)).flatten()
        }
        Operator::Slice {
            inner,
            offset: 0,
            limit,
        } if *limit != Some(0) => only_group(inner),
        _ => None,
    }
}

/// Whether an expression has the same value wherever it is evaluated. An EXISTS is not looked into.
fn is_plain(expr: &Expr) -> bool {
    !expr.is_volatile() && !matches!(expr, Expr::IsFresh(_)) && expr.children().all(is_plain)
}

/// An expression that waits for its turn.
enum Waiting<'g> {
    Bind(VarId, &'g Arc<Expr>),
    Filter(&'g Arc<Expr>),
}

impl Waiting<'_> {
    fn expr(&self) -> &Expr {
        match self {
            Waiting::Bind(_, expr) | Waiting::Filter(expr) => expr,
        }
    }

    fn variable(&self) -> Option<VarId> {
        match self {
            Waiting::Bind(variable, _) => Some(*variable),
            Waiting::Filter(_) => None,
        }
    }
}

/// The steps so far.
struct PointOrder<'q> {
    constants: &'q [Term],
    steps: Vec<PointStep>,
    /// Variables that have a value in every row.
    certain: VarSet,
    /// Variables that may have one.
    possible: VarSet,
    reads_subjects: bool,
}

impl<'q> PointOrder<'q> {
    fn new(constants: &'q [Term], certain: VarSet, possible: VarSet) -> PointOrder<'q> {
        PointOrder {
            constants,
            steps: Vec::new(),
            certain,
            possible,
            reads_subjects: false,
        }
    }

    /// Adds the steps of a group; `None` if it cannot be read so.
    fn group(&mut self, group: &Group) -> Option<()> {
        let is_flat = group.paths.is_empty() && group.graphs.is_empty() && group.blocks.is_empty();
        let binds = group.binds.iter().map(|(v, e)| Waiting::Bind(*v, e));
        let mut waiting: Vec<Waiting<'_>> = binds.collect();
        waiting.extend(group.filters.iter().map(Waiting::Filter));
        if !is_flat || !waiting.iter().all(|it| is_plain(it.expr())) {
            return None;
        }
        // A bind of a variable that gets a value elsewhere, too, is a join.
        let mut values = group.core_certain();
        for tail in &group.tails {
            values.extend(&tail.node().possible);
        }
        for variable in waiting.iter().filter_map(Waiting::variable) {
            if values.contains(variable) || self.possible.contains(variable) {
                return None;
            }
            values.insert(variable);
        }
        let mut patterns = group.patterns.clone();
        let mut tails = &group.tails[..];
        loop {
            self.ready(&mut waiting, &patterns, tails)?;
            if !patterns.is_empty() {
                let at = self.best(&patterns)?;
                self.pattern(patterns.swap_remove(at))?;
            } else if let Some((tail, rest)) = tails.split_first() {
                let binds = waiting.iter().filter_map(Waiting::variable);
                if !tail.mentioned().is_disjoint(&VarSet::of(binds)) {
                    return None;
                }
                self.tail(tail)?;
                tails = rest;
            } else {
                return waiting.is_empty().then_some(());
            }
        }
    }

    /// Adds the expressions of which nothing that comes later changes what they see.
    fn ready(
        &mut self,
        waiting: &mut Vec<Waiting<'_>>,
        patterns: &[QuadPattern],
        tails: &[Tail],
    ) -> Option<()> {
        let mut later = VarSet::new();
        patterns.iter().for_each(|it| later.extend(&it.variables()));
        for tail in tails {
            later.extend(&tail.node().possible);
        }
        loop {
            let binds = VarSet::of(waiting.iter().filter_map(Waiting::variable));
            let is_ready = |it: &Waiting<'_>| {
                let unknown = it.expr().variables().difference(&self.certain);
                unknown.is_disjoint(&later) && unknown.is_disjoint(&binds)
            };
            let Some(at) = waiting.iter().position(is_ready) else {
                return Some(());
            };
            let next = waiting.remove(at);
            self.find_exists(next.expr())?;
            self.steps.push(match next {
                Waiting::Bind(variable, expr) => {
                    self.possible.insert(variable);
                    PointStep::Bind(variable, Arc::clone(expr))
                }
                Waiting::Filter(expr) => PointStep::Filter(Arc::clone(expr)),
            });
        }
    }

    /// Adds what an expression has to know of the EXISTS in it.
    fn find_exists(&mut self, expr: &Expr) -> Option<()> {
        for exists in expr.exists() {
            let Operator::Group(group) = &exists.node.operator else {
                return None;
            };
            let inner = self.inner(group, &[])?;
            self.steps.push(PointStep::Exists(exists.at, inner));
        }
        Some(())
    }

    /// The pattern to read next: one with two known ends, else one from its subject; of those that
    /// have no known end one of a batch.
    fn best(&self, patterns: &[QuadPattern]) -> Option<usize> {
        let known = |position| self.is_known(position);
        let cost = |pattern: &QuadPattern| match (known(pattern.subject), known(pattern.object)) {
            (true, true) => Some(0),
            (true, false) => Some(1),
            (false, true) => Some(2),
            (false, false) => self.batch(pattern.graph).map(|_| 3),
        };
        let costs = patterns.iter().enumerate();
        let costs = costs.filter_map(|(at, pattern)| Some((cost(pattern)?, at)));
        costs.min().map(|(_, at)| at)
    }

    /// The graph of a pattern, if it is a batch.
    fn batch(&self, graph: GraphPosition) -> Option<ConstantId> {
        let GraphPosition::Named(Position::Constant(constant)) = graph else {
            return None;
        };
        match &self.constants[constant.index()] {
            Term::NamedNode(name) => match KeptGraph::of(name)? {
                KeptGraph::Batch(_) => Some(constant),
                KeptGraph::Window(_) => None,
            },
            _ => None,
        }
    }

    fn is_known(&self, position: Position) -> bool {
        position.variable().is_none_or(|v| self.certain.contains(v))
    }

    /// Adds a pattern of which an end is known, or one of a batch.
    fn pattern(&mut self, pattern: QuadPattern) -> Option<()> {
        let predicate = constant(pattern.predicate)?;
        match pattern.graph {
            GraphPosition::Default | GraphPosition::Named(Position::Constant(_)) => {}
            _ => return None,
        }
        let known = |position| self.is_known(position);
        let step = match (pattern.subject, pattern.object) {
            (subject, object) if known(subject) && known(object) => {
                PointStep::Check(pattern, predicate)
            }
            (from, Position::Variable(to)) if known(from) => {
                self.gains(to)?;
                PointStep::Follow {
                    graph: pattern.graph,
                    from,
                    predicate,
                    direction: Direction::Out,
                    to,
                }
            }
            (Position::Variable(to), from) if known(from) => {
                self.gains(to)?;
                self.reads_subjects = true;
                PointStep::Follow {
                    graph: pattern.graph,
                    from,
                    predicate,
                    direction: Direction::In,
                    to,
                }
            }
            (Position::Variable(subject), Position::Variable(object)) => {
                let batch = self.batch(pattern.graph)?;
                self.gains(subject)?;
                self.gains(object)?;
                PointStep::Read {
                    batch,
                    predicate,
                    subject,
                    object,
                }
            }
            _ => return None,
        };
        self.steps.push(step);
        Some(())
    }

    /// A pattern gives a variable its value; `None` if it may have one already, with which the
    /// pattern is joined.
    fn gains(&mut self, variable: VarId) -> Option<()> {
        if self.possible.contains(variable) {
            return None;
        }
        self.certain.insert(variable);
        self.possible.insert(variable);
        Some(())
    }

    fn tail(&mut self, tail: &Tail) -> Option<()> {
        let Tail::Optional { node, filters } = tail else {
            return None;
        };
        let Operator::Group(group) = &node.operator else {
            return None;
        };
        // The filters of the group itself would see less than those of the OPTIONAL.
        if !group.filters.is_empty() || !group.binds.is_empty() {
            return None;
        }
        let inner = self.inner(group, filters)?;
        self.possible.extend(&node.possible);
        self.steps.push(PointStep::Optional(inner));
        Some(())
    }

    /// The steps of a group inside, with further conditions.
    fn inner(&mut self, group: &Group, filters: &[Arc<Expr>]) -> Option<NestedSteps> {
        let (certain, possible) = (self.certain.clone(), self.possible.clone());
        let mut order = PointOrder::new(self.constants, certain, possible);
        if !group.tails.is_empty() || !group.binds.is_empty() {
            return None;
        }
        let mut all = group.clone();
        all.filters.extend(filters.iter().cloned());
        order.group(&all)?;
        self.reads_subjects |= order.reads_subjects;
        Some(NestedSteps {
            variables: order.certain.difference(&self.certain).iter().collect(),
            steps: order.steps,
        })
    }
}

fn constant(position: Position) -> Option<ConstantId> {
    match position {
        Position::Constant(constant) => Some(constant),
        Position::Variable(_) => None,
    }
}
