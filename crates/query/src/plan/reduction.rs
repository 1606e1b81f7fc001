//! Reductions in the search for an order: a part is placed, and of its rows only those are kept
//! whose value of a variable has an edge in another pattern, the other end of which is still open.
//! The pattern itself follows later, so a reduction never changes an answer; it pays where few of
//! the values have such an edge and much would be made of the others.

use crate::algebra::logical::{GraphPosition, Position, QuadPattern};
use crate::exec::operators::Reduce;
use crate::exec::step::Plan;
use crate::plan::cost;
use crate::plan::estimate::State;
use crate::plan::join_graph::{
    JoinGraph, JoinStep, PartKind, PatternEnd, Sample, SearchState, VariableState,
};
use crate::plan::planner::Planner;
use crate::plan::unplaced::Orderable;
use somersault_lang::VarId;

/// A reduction that keeps a larger share of the rows is not considered.
const MOST_KEPT: f64 = 0.5;

/// Keep the rows whose value of `variable` has an edge in the part `by`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reduction {
    pub(crate) by: usize,
    pub(crate) variable: usize,
}

impl JoinGraph<'_> {
    /// Adds the moves that place this part and reduce its rows at once. Only sampled pairs are
    /// offered: statistics of the predicates alone do not tell which vertices have both edges.
    pub(crate) fn reductions(&self, frame: &SearchState, part: usize, into: &mut Vec<JoinStep>) {
        if self.samples.is_empty() || !matches!(self.list[part].kind, PartKind::Pattern(_)) {
            return;
        }
        let placed = frame.placed_bits() | 1 << part;
        for (by, samples) in self.samples.iter().enumerate() {
            let PartKind::Pattern(pattern) = &self.list[by].kind else {
                continue;
            };
            if by == part || frame.placed[by] {
                continue;
            }
            for sample in samples.iter().filter(|s| s.from == part) {
                let variable = sample.variable;
                let open = |end: PatternEnd| match end {
                    PatternEnd::Constant => false,
                    PatternEnd::Variable(v) => {
                        frame.bound[v].values == 0.0 && !self.list[part].variables.contains(&v)
                    }
                };
                let far = if pattern.subject == PatternEnd::Variable(variable) {
                    pattern.object
                } else {
                    pattern.subject
                };
                let is_new = frame.bound[variable] == VariableState::default();
                let reduction = Reduction { by, variable };
                if is_new && open(far) && self.kept(placed, part, reduction) <= MOST_KEPT {
                    into.push(JoinStep::Reduced(part, reduction));
                }
            }
        }
    }

    /// The share of the rows that a reduction keeps after some parts, `part` being the last.
    pub(crate) fn kept(&self, placed: u32, part: usize, reduction: Reduction) -> f64 {
        if let Some(seen) = self.seen_reduction(placed, reduction) {
            return seen.kept;
        }
        let Reduction { by, variable } = reduction;
        let seen = |from: usize, of: usize| {
            let mut samples = self.samples.get(of).into_iter().flatten();
            samples.find(|s| s.from == from && s.variable == variable)
        };
        let Some(own) = seen(part, by) else {
            return 1.0;
        };
        // If the sample saw no vertex of this part there, the opposite sample says more if it is of
        // fewer vertices: a rare hit seldom falls into a small sample.
        match seen(by, part) {
            Some(theirs) if theirs.vertices < own.vertices && own.hit == 0.0 => {
                share(theirs) * theirs.vertices / own.vertices
            }
            _ => share(own),
        }
    }

    /// The search state after a reduction of the rows of `part`, which is placed.
    pub(crate) fn reduce(&self, part: usize, reduction: Reduction, frame: &mut SearchState) {
        let kept = self.kept(frame.placed_bits(), part, reduction);
        let rows = frame.rows * kept;
        frame.cost += cost::reduce(frame.flow(rows));
        let values = &mut frame.bound[reduction.variable].values;
        *values = (*values * kept).max(1.0);
        frame.advance(rows);
        frame.reduced.push(reduction);
    }
}

/// Nothing seen in a sample does not mean that there is nothing; its fanout says how much there may
/// be.
fn share(sample: &Sample) -> f64 {
    if sample.hit > 0.0 {
        sample.hit
    } else {
        sample.fanout.min(1.0)
    }
}

impl Planner<'_> {
    /// Places a reduction by a pattern.
    pub(crate) fn place_reduction(
        &mut self,
        pattern: QuadPattern,
        variable: VarId,
        rows: f64,
        state: &mut State,
        plan: &mut Plan,
    ) {
        state.advance(rows);
        self.push(plan, Reduce { variable, pattern }, rows);
    }

    /// For forced plans: every reduction that the rows allow.
    pub(crate) fn place_all_reductions(
        &mut self,
        core: &[Option<Orderable<'_>>],
        state: &mut State,
        plan: &mut Plan,
    ) {
        for part in core.iter().flatten() {
            let Orderable::Pattern(pattern, _) = part else {
                continue;
            };
            let variable_graph =
                matches!(pattern.graph, GraphPosition::Named(Position::Variable(_)));
            if variable_graph || pattern.predicate.variable().is_some() {
                continue;
            }
            let known = |position: Position| {
                let variable = position.variable();
                variable.filter(|v| state.certain.contains(*v))
            };
            let open = |position: Position| {
                let variable = position.variable();
                variable.is_some_and(|v| !state.possible.contains(v))
            };
            let by_subject = known(pattern.subject).filter(|_| open(pattern.object));
            let by_object = known(pattern.object).filter(|_| open(pattern.subject));
            if let Some(variable) = by_subject.or(by_object) {
                self.place_reduction(*pattern, variable, state.rows, state, plan);
            }
        }
    }
}
