//! The join order of a group's parts: for few parts the cheapest of all connected orders, by
//! dynamic programming over sets of parts (what is placed says which variables have values, since
//! every step extends one table); for more a greedy one that looks one move ahead. Both go through
//! the parts in the order that they are given in, which does not depend on the text of the query.

use crate::plan::join_graph::{JoinGraph, JoinStep, SearchState};

/// Up to this many parts all orders are compared.
const MOST_COMPARED: usize = 10;
/// Up to this many parts the greedy order looks ahead.
const MOST_AHEAD: usize = 32;
/// The assumed later cost of a row, where the rest of the order is unknown.
const LATER: f64 = 20.0;

/// An order: its steps, and the state that it ends with.
pub(crate) struct Order {
    pub(crate) moves: Vec<JoinStep>,
    pub(crate) end: SearchState,
}

impl JoinGraph<'_> {
    /// An order of all parts from a state on. `over` tells when no time is left: then the rest is
    /// left out, and the plan must not run.
    pub(crate) fn order(
        &self,
        start: &SearchState,
        greedy: bool,
        over: &dyn Fn() -> bool,
    ) -> Order {
        let order = self.greedy(start, over);
        let few = (2..=MOST_COMPARED).contains(&self.list.len());
        if greedy || !few || order.moves.len() < 2 {
            return order;
        }
        self.cheapest(start, order, over)
    }

    /// Takes the next step that is cheapest together with what could follow it, again and again.
    fn greedy(&self, start: &SearchState, over: &dyn Fn() -> bool) -> Order {
        let mut frame = start.clone();
        let (mut moves, mut next) = (Vec::new(), Vec::new());
        let mut order = Vec::with_capacity(self.list.len());
        let (mut tried, mut further) = (SearchState::default(), SearchState::default());
        while frame.left > 0 {
            self.moves(&frame, &mut moves);
            let ahead = self.list.len() <= MOST_AHEAD;
            let mut best: Option<(f64, usize)> = None;
            if over() {
                break;
            }
            for (at, step) in moves.iter().enumerate() {
                if moves.len() == 1 {
                    best = Some((0.0, 0));
                    break;
                }
                let score = if ahead {
                    self.apply(&frame, step, &mut tried);
                    self.look_ahead(&tried, &mut next, &mut further)
                } else {
                    self.rough(&frame, step)
                };
                if best.is_none_or(|(least, _)| score < least) {
                    best = Some((score, at));
                }
            }
            let Some((_, at)) = best else { break };
            let step = moves.swap_remove(at);
            self.apply(&frame, &step, &mut tried);
            std::mem::swap(&mut frame, &mut tried);
            order.push(step);
        }
        Order {
            moves: order,
            end: frame,
        }
    }

    /// The cost up to the best move after this frame.
    fn look_ahead(
        &self,
        frame: &SearchState,
        moves: &mut Vec<JoinStep>,
        tried: &mut SearchState,
    ) -> f64 {
        if frame.left == 0 {
            return frame.cost;
        }
        self.moves(frame, moves);
        let mut least = f64::INFINITY;
        for step in moves.iter() {
            self.apply(frame, step, tried);
            least = least.min(score(tried));
        }
        least
    }

    /// A score without looking closely: for groups of very many parts.
    fn rough(&self, frame: &SearchState, step: &JoinStep) -> f64 {
        match step {
            JoinStep::One(part) | JoinStep::Reduced(part, _) => self.fanout(frame, *part),
            JoinStep::Intersect(parts) => {
                parts.iter().map(|part| self.fanout(frame, *part)).product()
            }
        }
    }

    /// The cheapest of all orders; `known` is the order to beat.
    fn cheapest(&self, start: &SearchState, known: Order, over: &dyn Fn() -> bool) -> Order {
        let full = (1usize << self.list.len()) - 1;
        let mut best: Vec<Option<Reached>> = Vec::new();
        best.resize_with(slot(full, true) + 1, || None);
        let mut least = known.end.cost;
        // The cheapest order of all parts.
        let mut end = None;
        let (mut moves, mut tried) = (Vec::new(), SearchState::default());
        for from_slot in 0..slot(full, false) {
            let placed = from_slot / 2;
            let from = match &best[from_slot] {
                _ if from_slot == slot(0, false) => start.clone(),
                Some(reached) if reached.frame.cost < least => reached.frame.clone(),
                _ => continue,
            };
            if over() {
                return known;
            }
            self.moves(&from, &mut moves);
            for step in moves.drain(..) {
                self.apply(&from, &step, &mut tried);
                let placed = placed | bits(&step);
                let to = slot(placed, !tried.reduced.is_empty());
                let known = best[to].as_ref().map(|reached| score(&reached.frame));
                if tried.cost >= least || known.is_some_and(|known| score(&tried) >= known) {
                    continue;
                }
                if placed == full {
                    least = tried.cost;
                    end = Some(to);
                }
                best[to] = Some(Reached {
                    frame: tried.clone(),
                    before: from_slot,
                    by: step,
                });
            }
        }
        let reached = end.and_then(|at| Some((at, best[at].as_ref()?.frame.clone())));
        let Some((mut at, end)) = reached else {
            return known;
        };
        let mut moves = Vec::new();
        while let Some(reached) = best[at].take() {
            moves.push(reached.by);
            at = reached.before;
        }
        moves.reverse();
        Order { moves, end }
    }
}

/// The best way to a set of parts.
struct Reached {
    frame: SearchState,
    before: usize,
    by: JoinStep,
}

/// The cost of a state so far, and the assumed later cost of its rows.
fn score(frame: &SearchState) -> f64 {
    if frame.left == 0 {
        frame.cost
    } else {
        frame.cost + frame.rows * LATER
    }
}

/// The slot for the best way to a set of parts: rows that were reduced on the way have a slot of
/// their own, since they have cost more than others and may be worth it only later.
fn slot(placed: usize, reduced: bool) -> usize {
    2 * placed + usize::from(reduced)
}

fn bits(step: &JoinStep) -> usize {
    match step {
        JoinStep::One(part) | JoinStep::Reduced(part, _) => 1 << part,
        JoinStep::Intersect(parts) => parts.iter().fold(0, |set, part| set | 1 << part),
    }
}
