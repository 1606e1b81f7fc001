//! The number of rows that a pattern makes of the rows so far: estimated from the view's
//! statistics, and for constants from the lengths of their own lists. The formula is the
//! textbook's: two inputs that share a variable give |A| · |B| / max(distinct values in A, distinct
//! values in B).

use crate::algebra::logical::{GraphPosition, Position, QuadPattern};
use crate::algebra::varset::VarSet;
use crate::plan::cost::Flow;
use crate::view::graph_view::{GraphView, Source};
use crate::view::sources::Graphs;
use rustc_hash::FxHashMap;
use somersault_lang::VarId;
use somersault_model::{Direction, TermId, TripleIds};

/// The statistics of the rows at one point of a plan.
#[derive(Debug, Clone)]
pub(crate) struct State {
    /// Bound in every row.
    pub(crate) certain: VarSet,
    /// Bound in some row, perhaps.
    pub(crate) possible: VarSet,
    pub(crate) rows: f64,
    /// The cost of the steps so far (`cost.rs`).
    pub(crate) cost: f64,
    /// Whether this is still the one empty solution that a plan starts from.
    pub(crate) unit: bool,
    distinct: FxHashMap<VarId, f64>,
}

impl State {
    pub(crate) fn unit() -> State {
        State {
            certain: VarSet::new(),
            possible: VarSet::new(),
            rows: 1.0,
            cost: 0.0,
            unit: true,
            distinct: FxHashMap::default(),
        }
    }

    pub(crate) fn distinct(&self, variable: VarId) -> f64 {
        self.distinct
            .get(&variable)
            .copied()
            .unwrap_or(self.rows)
            .max(1.0)
    }

    /// Records that a variable has about this many values, whatever was known before.
    pub(crate) fn learn(&mut self, variable: VarId, values: f64) {
        self.distinct.insert(variable, values);
    }

    /// Records that a variable has about this many values.
    pub(crate) fn bind(&mut self, variable: VarId, values: f64) {
        let known = self.distinct.entry(variable).or_insert(values);
        *known = known.min(values);
        self.possible.insert(variable);
    }

    /// The rows so far as the input of a step that makes `made` rows.
    pub(crate) fn flow(&self, made: f64) -> Flow {
        Flow {
            rows: self.rows,
            made,
            columns: self.possible.iter().count(),
        }
    }

    /// After a step that leaves `rows`.
    pub(crate) fn advance(&mut self, rows: f64) {
        self.rows = rows;
        self.unit = false;
        for values in self.distinct.values_mut() {
            *values = values.min(rows.max(1.0));
        }
    }
}

/// The view's statistics of one pattern, independent of the rows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cardinality {
    /// Triples that match the constants.
    pub(crate) triples: f64,
    pub(crate) subjects: f64,
    pub(crate) objects: f64,
    pub(crate) predicates: f64,
    pub(crate) graphs: f64,
    /// The number of sources that are read.
    pub(crate) sources: f64,
}

impl Cardinality {
    pub(crate) fn of(
        graphs: &Graphs<'_>,
        constants: &[TermId],
        pattern: &QuadPattern,
    ) -> Cardinality {
        let view = graphs.view();
        let id = |position: Position| match position {
            Position::Constant(c) => Some(constants[c.index()]),
            Position::Variable(_) => None,
        };
        let sources = graphs.sources_of(pattern.graph, |c| constants[c.index()]);
        let mut sum = Cardinality {
            triples: 0.0,
            subjects: 0.0,
            objects: 0.0,
            predicates: 1.0,
            sources: 0.0,
            graphs: match pattern.graph {
                GraphPosition::Named(Position::Variable(_)) => sources.len().max(1) as f64,
                _ => 1.0,
            },
        };
        let ends = [pattern.subject, pattern.predicate, pattern.object].map(id);
        for source in sources {
            let [triples, subjects, objects, predicates] =
                Cardinality::in_source(view, source, ends);
            sum.triples += triples;
            sum.subjects += subjects;
            sum.objects += objects;
            sum.predicates = sum.predicates.max(predicates);
            sum.sources += f64::from(u8::from(triples > 0.0));
        }
        sum.sources = sum.sources.max(1.0);
        sum
    }

    /// The triples of a source with these constants, and their different subjects, objects and
    /// predicates.
    fn in_source(view: &dyn GraphView, source: Source, ends: [Option<TermId>; 3]) -> [f64; 4] {
        let edges = |vertex, predicate, direction| {
            view.neighbour_estimate(source, vertex, predicate, direction) as f64
        };
        match ends {
            [Some(s), Some(p), Some(o)] => {
                let held = view.contains(source, TripleIds::new(s, p, o));
                [f64::from(u8::from(held)), 1.0, 1.0, 1.0]
            }
            [Some(s), Some(p), None] => {
                let n = edges(s, p, Direction::Out);
                [n, 1.0, n, 1.0]
            }
            [None, Some(p), Some(o)] => {
                let n = edges(o, p, Direction::In);
                [n, n, 1.0, 1.0]
            }
            [None, Some(p), None] => {
                let known = view.predicate_statistics(source, p);
                [known.statements, known.subjects, known.objects, 1].map(|count| count as f64)
            }
            [Some(vertex), None, other] | [other @ None, None, Some(vertex)] => {
                let direction = match ends[0] {
                    Some(_) => Direction::Out,
                    None => Direction::In,
                };
                let mut list = Vec::new();
                let predicates = view.predicates_of(source, vertex, direction, &mut list);
                let n: f64 = predicates
                    .iter()
                    .map(|p| edges(vertex, *p, direction))
                    .sum();
                let predicates = predicates.len() as f64;
                match (direction, other) {
                    (_, Some(_)) => [predicates.min(n), 1.0, 1.0, predicates],
                    (Direction::Out, None) => [n, 1.0, n, predicates],
                    (Direction::In, None) => [n, n, 1.0, predicates],
                }
            }
            [None, None, None] => {
                let n = view.statement_count(source) as f64;
                let predicates = view.predicates(source).len() as f64;
                // Nothing counts the vertices of a graph; a handful of edges each is usual.
                [n, (n / 5.0).ceil(), (n / 2.0).ceil(), predicates]
            }
        }
    }

    /// Records what the pattern binds.
    pub(crate) fn bind(&self, pattern: &QuadPattern, state: &mut State) {
        let ends = [
            (pattern.subject.variable(), self.subjects),
            (pattern.predicate.variable(), self.predicates),
            (pattern.object.variable(), self.objects),
            (pattern.graph.variable(), self.graphs),
        ];
        for (variable, here) in ends {
            if let Some(variable) = variable {
                state.bind(variable, here);
                state.certain.insert(variable);
            }
        }
    }
}
