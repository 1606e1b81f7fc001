//! The parts of a group that are not placed yet, and how the search for an order sees them. Parts
//! are sorted by size and then by text, so that no plan depends on the order in which a query was
//! written.

use crate::algebra::expression::Expr;
use crate::algebra::logical::{
    GraphPosition, Group, Node, Operator, PathPattern, Position, QuadPattern, Tail,
};
use crate::algebra::varset::VarSet;
use crate::plan::estimate::{Cardinality, State};
use crate::plan::join_graph::{
    Binding, Block, Condition, JoinGraph, Part, PartKind, Pattern, PatternEnd, SearchState,
    VariableState,
};
use crate::plan::planner::Planner;
use somersault_lang::VarId;
use somersault_model::TermId;
use std::rc::Rc;
use std::sync::Arc;

/// A part that may come in any order.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Orderable<'q> {
    Pattern(QuadPattern, Cardinality),
    Path(&'q Arc<PathPattern>),
    /// `GRAPH name {}`.
    Graph(Position),
    Block(&'q Node),
}

impl Orderable<'_> {
    /// The variables that it may bind.
    pub(crate) fn variables(&self) -> VarSet {
        match self {
            Orderable::Pattern(pattern, _) => pattern.variables(),
            Orderable::Path(path) => path.variables(),
            Orderable::Graph(name) => VarSet::of(name.variable()),
            Orderable::Block(node) => node.possible.clone(),
        }
    }

    /// The variables that it may bind or has to know.
    pub(crate) fn mentioned(&self) -> VarSet {
        match self {
            Orderable::Block(node) => node.mentioned(),
            _ => self.variables(),
        }
    }

    /// The variables that it binds in every row.
    pub(crate) fn certain(&self) -> VarSet {
        match self {
            Orderable::Block(node) => node.certain.clone(),
            _ => self.variables(),
        }
    }
}

/// The parts of a group that are not placed yet.
pub(crate) struct Unplaced<'q> {
    /// `None` where it is placed.
    pub(crate) core: Vec<Option<Orderable<'q>>>,
    /// The variables of parts that come after those, one set for each.
    pub(crate) later: Vec<VarSet>,
    pub(crate) binds: Vec<(VarId, &'q Arc<Expr>)>,
    pub(crate) filters: Vec<&'q Arc<Expr>>,
    pub(crate) tails: Vec<&'q Tail>,
}

impl Unplaced<'_> {
    fn has_core(&self) -> bool {
        !self.later.is_empty() || self.core.iter().any(Option::is_some)
    }

    /// Whether an unplaced part may bind the variable; `but` names a bind that does not count.
    pub(crate) fn may_bind(&self, variable: VarId, but: Option<usize>) -> bool {
        (self.core.iter().flatten()).any(|part| part.variables().contains(variable))
            || self.later.iter().any(|set| set.contains(variable))
            || (self.binds.iter().enumerate()).any(|(at, (v, _))| *v == variable && but != Some(at))
            || self.tails.iter().any(|tail| match tail {
                Tail::Optional { node, .. } => node.possible.contains(variable),
                Tail::Minus(_) => false,
            })
    }

    /// Whether an expression can be evaluated now: nothing that comes later would change what it
    /// sees.
    pub(crate) fn is_ready(&self, expr: &Expr, state: &State, but: Option<usize>) -> bool {
        if expr.is_volatile() && (self.has_core() || !self.tails.is_empty()) {
            return false;
        }
        expr.variables()
            .iter()
            .all(|v| state.certain.contains(v) || !self.may_bind(v, but))
    }
}

/// The numbers of a group's variables.
#[derive(Default)]
struct Numbers {
    /// By the query's number.
    of: Vec<Option<usize>>,
    variables: Vec<VarId>,
}

impl Numbers {
    fn of(&mut self, variable: VarId) -> usize {
        let at = variable.index();
        if self.of.len() <= at {
            self.of.resize(at + 1, None);
        }
        *self.of[at].get_or_insert_with(|| {
            self.variables.push(variable);
            self.variables.len() - 1
        })
    }

    fn known(&self, variable: VarId) -> Option<usize> {
        self.of.get(variable.index()).copied().flatten()
    }

    fn end(&mut self, position: Position) -> PatternEnd {
        match position {
            Position::Constant(_) => PatternEnd::Constant,
            Position::Variable(v) => PatternEnd::Variable(self.of(v)),
        }
    }
}

impl Planner<'_> {
    /// The parts of a group, in an order of their own.
    pub(crate) fn remaining<'q>(&mut self, group: &'q Group, state: &State) -> Unplaced<'q> {
        let mut core: Vec<(f64, Orderable<'q>)> = Vec::new();
        for pattern in &group.patterns {
            let cardinality = Cardinality::of(self.graphs, self.constants, pattern);
            core.push((
                cardinality.triples,
                Orderable::Pattern(*pattern, cardinality),
            ));
        }
        core.extend(
            group
                .paths
                .iter()
                .map(|path| (f64::MAX, Orderable::Path(path))),
        );
        core.extend(
            group
                .graphs
                .iter()
                .map(|name| (1.0, Orderable::Graph(*name))),
        );
        let others = state.possible.union(&group.core_possible());
        for block in &group.blocks {
            let rows = self.estimate(block, &others).rows;
            core.push((rows, Orderable::Block(block)));
        }
        core.sort_by(|(a, one), (b, other)| {
            a.total_cmp(b)
                .then_with(|| self.text(one).cmp(&self.text(other)))
        });
        Unplaced {
            core: core.into_iter().map(|(_, part)| Some(part)).collect(),
            later: Vec::new(),
            binds: group.binds.iter().map(|(v, e)| (*v, e)).collect(),
            filters: group.filters.iter().collect(),
            tails: group.tails.iter().collect(),
        }
    }

    /// The unplaced parts of a group as the search sees them, and the state that it starts from.
    pub(crate) fn parts<'q>(
        &mut self,
        left: &Unplaced<'q>,
        group: &Group,
        state: &State,
    ) -> (JoinGraph<'q>, SearchState) {
        let mut numbers = Numbers::default();
        let others = state.possible.union(&group.core_possible());
        let mut list = Vec::with_capacity(left.core.len());
        for part in left.core.iter().flatten() {
            let kind = self.kind(part, &others, &mut numbers);
            let variables = part.variables().iter().map(|v| numbers.of(v)).collect();
            list.push(Part { kind, variables });
        }
        let known =
            |set: &VarSet| -> Option<Vec<usize>> { set.iter().map(|v| numbers.known(v)).collect() };
        let mut bindings = Vec::new();
        for (variable, expr) in &left.binds {
            if let (Some(variable), Some(inputs)) =
                (numbers.known(*variable), known(&expr.variables()))
            {
                bindings.push(Binding {
                    inputs,
                    variable,
                    constant: matches!(***expr, Expr::Constant(_)),
                });
            }
        }
        let mut conditions = Vec::new();
        for expr in &left.filters {
            if let Some(variables) = known(&expr.variables()) {
                conditions.push(Condition { expr, variables });
            }
        }
        let bound = numbers.variables.iter().map(|v| {
            if state.possible.contains(*v) {
                VariableState {
                    values: state.distinct(*v),
                    certain: state.certain.contains(*v),
                }
            } else {
                VariableState::default()
            }
        });
        let frame = SearchState {
            rows: state.rows,
            cost: 0.0,
            bound: bound.collect(),
            placed: vec![false; list.len()],
            left: list.len(),
            unit: state.unit,
            reduced: Vec::new(),
        };
        let parts = JoinGraph {
            list,
            conditions,
            bindings,
            variables: numbers.variables,
            samples: Vec::new(),
            seen: Vec::new(),
            seen_reductions: Vec::new(),
            no_intersect: self.choices.no_intersect,
        };
        (parts, frame)
    }

    fn kind(&mut self, part: &Orderable<'_>, others: &VarSet, numbers: &mut Numbers) -> PartKind {
        match part {
            Orderable::Pattern(pattern, cardinality) => PartKind::Pattern(Pattern {
                subject: numbers.end(pattern.subject),
                predicate: numbers.end(pattern.predicate),
                object: numbers.end(pattern.object),
                graph: match pattern.graph {
                    GraphPosition::Named(name) => numbers.end(name),
                    GraphPosition::Default
                    | GraphPosition::Current
                    | GraphPosition::FreshDefault
                    | GraphPosition::FreshNamed(_) => PatternEnd::Constant,
                },
                cardinality: *cardinality,
            }),
            Orderable::Path(path) => {
                let sources = self.graphs.sources_of(path.graph, |_| TermId::UNBOUND);
                let statements = sources
                    .iter()
                    .map(|s| self.graphs.view().statement_count(*s));
                PartKind::Path {
                    subject: numbers.end(path.subject),
                    object: numbers.end(path.object),
                    statements: statements.sum::<u64>() as f64,
                }
            }
            Orderable::Graph(name) => PartKind::Graph {
                name: numbers.end(*name),
                count: self.graphs.named().len() as f64,
            },
            Orderable::Block(node) => {
                let estimate = self.estimate(node, others);
                PartKind::Block(Block {
                    rows: estimate.rows,
                    cost: estimate.cost,
                    binds: (estimate.binds.iter())
                        .map(|(v, values, certain)| (numbers.of(*v), *values, *certain))
                        .collect(),
                    along: estimate.along,
                    needs: match &node.operator {
                        Operator::Service(service) => {
                            service.name.variable().map(|v| numbers.of(v))
                        }
                        _ => None,
                    },
                })
            }
        }
    }

    /// A text for breaking ties: it depends on the part, not on its place in the query.
    fn text(&mut self, part: &Orderable<'_>) -> Rc<str> {
        let position = |position| self.names().position(position);
        match part {
            Orderable::Pattern(pattern, _) => self.names().pattern(pattern).into(),
            Orderable::Path(path) => {
                let (s, o) = (position(path.subject), position(path.object));
                format!("{s} {} {o}", self.names().path(&path.path)).into()
            }
            Orderable::Graph(name) => position(*name).into(),
            Orderable::Block(node) => self.block_text(node),
        }
    }
}
