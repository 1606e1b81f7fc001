//! The next step of a group: greedy by estimated rows; ties are broken by the texts of what is
//! chosen from, so that no plan depends on the order in which a query was written.

use crate::estimate::{Cardinality, State, path_fanout};
use crate::expression::Expr;
use crate::logical::{Node, PathPattern, Position, QuadPattern, Tail};
use crate::plan::Plan;
use crate::planner::Planner;
use crate::varset::VarSet;
use somersault_lang::VarId;
use std::sync::Arc;

/// What a step that is not connected to the rows so far must be better by.
const CARTESIAN_PENALTY: f64 = 100.0;
/// What a block is taken to make of one row where it is not worth finding out.
const GUESSED_FANOUT: f64 = 10.0;

/// The parts of a group that are still to be placed.
pub(crate) struct Remaining<'q> {
    pub(crate) patterns: Vec<(QuadPattern, Cardinality)>,
    pub(crate) paths: Vec<&'q Arc<PathPattern>>,
    pub(crate) graphs: Vec<Position>,
    pub(crate) blocks: Vec<&'q Node>,
    pub(crate) binds: Vec<(VarId, &'q Arc<Expr>)>,
    pub(crate) filters: Vec<&'q Arc<Expr>>,
    pub(crate) tails: Vec<&'q Tail>,
}

impl Remaining<'_> {
    pub(crate) fn has_core(&self) -> bool {
        !(self.patterns.is_empty()
            && self.paths.is_empty()
            && self.graphs.is_empty()
            && self.blocks.is_empty())
    }

    /// Whether there is more than one part to choose from.
    fn has_choice(&self) -> bool {
        self.patterns.len() + self.paths.len() + self.graphs.len() + self.blocks.len() > 1
    }

    /// Any choice, without comparing.
    fn first(&self) -> Choice {
        if !self.patterns.is_empty() {
            Choice::Pattern(0)
        } else if !self.paths.is_empty() {
            Choice::Path(0)
        } else if !self.graphs.is_empty() {
            Choice::Graph(0)
        } else {
            Choice::Block(0)
        }
    }

    /// Whether something that is still to come may bind the variable; `but` names a bind that
    /// does not count.
    fn may_bind(&self, variable: VarId, but: Option<usize>) -> bool {
        self.patterns
            .iter()
            .any(|(p, _)| p.variables().contains(variable))
            || self.paths.iter().any(|p| p.variables().contains(variable))
            || self.graphs.iter().any(|g| g.variable() == Some(variable))
            || self.blocks.iter().any(|b| b.possible.contains(variable))
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

/// What could come next.
#[derive(Clone, Copy)]
pub(crate) enum Choice {
    Pattern(usize),
    Path(usize),
    Graph(usize),
    Block(usize),
}

impl Planner<'_> {
    pub(crate) fn graph_fanout(&self, name: Position, state: &State) -> f64 {
        match name {
            Position::Constant(_) => 1.0,
            Position::Variable(v) if state.possible.contains(v) => 1.0,
            Position::Variable(_) => self.graphs.named().len() as f64,
        }
    }

    /// Of everything that could come next, what leaves the fewest rows.
    pub(crate) fn choose(&mut self, left: &Remaining<'_>, state: &State) -> Choice {
        if self.is_over_time() {
            return left.first();
        }
        let numbered = self.steps;
        let mut offers: Vec<(f64, VarSet, Choice)> = Vec::new();
        for (at, block) in left.blocks.iter().enumerate() {
            // Trying every order inside of every try would take time exponential in the nesting.
            let fanout = if self.trying || !left.has_choice() {
                GUESSED_FANOUT
            } else {
                let mut trial = state.clone();
                self.trying = true;
                self.node(block, &mut trial, &mut Plan::default());
                self.trying = false;
                trial.rows / state.rows.max(f64::MIN_POSITIVE)
            };
            offers.push((fanout, block.possible.clone(), Choice::Block(at)));
        }
        self.steps = numbered;
        for (at, (pattern, cardinality)) in left.patterns.iter().enumerate() {
            let fanout = cardinality.fanout(pattern, state);
            offers.push((fanout, pattern.variables(), Choice::Pattern(at)));
        }
        for (at, path) in left.paths.iter().enumerate() {
            let fanout = path_fanout(self.graphs, path, state);
            offers.push((fanout, path.variables(), Choice::Path(at)));
        }
        for (at, name) in left.graphs.iter().enumerate() {
            let fanout = self.graph_fanout(*name, state);
            offers.push((fanout, VarSet::of(name.variable()), Choice::Graph(at)));
        }
        let score = |fanout: f64, variables: &VarSet| {
            let connected = state.possible.is_empty()
                || variables.is_empty()
                || !variables.is_disjoint(&state.possible);
            if connected || fanout <= 1.0 {
                fanout
            } else {
                fanout * CARTESIAN_PENALTY
            }
        };
        offers
            .iter()
            .map(|(fanout, variables, choice)| (score(*fanout, variables), *choice))
            .min_by(|(a, one), (b, other)| {
                a.total_cmp(b)
                    .then_with(|| self.text(left, *one).cmp(&self.text(left, *other)))
            })
            .map_or(Choice::Pattern(0), |(_, choice)| choice)
    }

    /// A text for breaking ties: of what is chosen, not of where it stood in the query.
    fn text(&self, left: &Remaining<'_>, choice: Choice) -> String {
        match choice {
            Choice::Pattern(at) => self.pattern_text(&left.patterns[at].0),
            Choice::Path(at) => {
                let path = left.paths[at];
                let (s, o) = (
                    self.position_text(path.subject),
                    self.position_text(path.object),
                );
                format!("{s} {:?} {o}", path.text)
            }
            Choice::Graph(at) => self.position_text(left.graphs[at]),
            Choice::Block(at) => {
                let names: Vec<&str> = left.blocks[at]
                    .possible
                    .iter()
                    .map(|v| self.variables[v.index()].as_str())
                    .collect();
                format!("{{ {} }}", names.join(" "))
            }
        }
    }

    fn pattern_text(&self, pattern: &QuadPattern) -> String {
        crate::explain::pattern_text(pattern, self.terms, self.variables)
    }

    fn position_text(&self, position: Position) -> String {
        crate::explain::position_text(position, self.terms, self.variables)
    }
}
