//! Trial runs: the order that looks cheapest is tried on a few rows before it is taken. The trial
//! records how many rows each step makes from rows that passed the steps before it. Then the search
//! runs again, until it finds an order that was already tried. Samples of pairs of patterns cannot
//! tell how three patterns go together (vertices with both edges may be quite unlike vertices with
//! one of them). A trial run can, and it looks only at orders that matter.

use crate::plan::join_graph::{JoinGraph, JoinStep, SearchState};
use crate::plan::order::Order;
use crate::plan::planner::Planner;
use crate::plan::reduction::Reduction;
use crate::plan::sample::SampledPattern;
use crate::view::sources::{self, Lists};
use somersault_model::{Direction, TermId, TripleIds};

/// The number of rows that are followed. Of more rows, an even selection is taken.
const ROWS: usize = 64;
/// The same for the first part. It is larger, since the next parts may drop most rows.
const FIRST_ROWS: usize = 512;
/// Fewer rows tell nothing, unless they are all that there are.
const FEWEST: usize = 8;
/// Up to this many parts the search for an order takes no longer than a trial run.
const FEW_PARTS: usize = 7;
/// The number of orders that are tried at most.
const ROUNDS: usize = 8;
const ROUNDS_OF_MANY: usize = 3;

/// The observations of a part in trial runs: the number of rows that it makes of one row, after
/// some other parts.
#[derive(Debug, Clone)]
pub(crate) struct Observation {
    /// The parts before, a bit for each.
    placed: u32,
    /// The reductions of the rows before the pattern itself was placed.
    pending: Vec<Reduction>,
    /// Which variables of the part had values, a bit for each of all variables.
    known: u64,
    /// Edges per row.
    pub(crate) fanout: f64,
}

/// The observations of a reduction in trial runs.
#[derive(Debug, Clone)]
pub(crate) struct ObservedReduction {
    /// The parts before, a bit for each; the one whose rows are reduced is the last of them.
    placed: u32,
    reduction: Reduction,
    /// The share of the rows that it keeps.
    pub(crate) kept: f64,
}

impl SearchState {
    /// The parts that are placed, a bit for each.
    pub(crate) fn placed_bits(&self) -> u32 {
        let placed = self.placed.iter().rev();
        placed.fold(0, |bits, placed| bits << 1 | u32::from(*placed))
    }

    fn pending(&self) -> impl Iterator<Item = &Reduction> {
        (self.reduced.iter()).filter(|reduction| !self.placed[reduction.by])
    }
}

impl JoinGraph<'_> {
    fn known_bits(&self, frame: &SearchState, part: usize) -> u64 {
        let variables = self.list[part].variables.iter();
        let known = variables.filter(|v| frame.bound[**v].values > 0.0);
        // With very many variables two may share a bit. That can only spoil an estimate.
        known.fold(0, |bits, v| bits | 1 << (*v % 64))
    }

    /// The observations of a part in this state: after all placed parts, or else after most of
    /// them.
    pub(crate) fn seen(&self, frame: &SearchState, part: usize) -> Option<&Observation> {
        let all = self.seen.get(part).filter(|all| !all.is_empty())?;
        let (placed, known) = (frame.placed_bits(), self.known_bits(frame, part));
        let fits = |seen: &&Observation| {
            seen.placed & !placed == 0
                // After one other part only, samples of pairs tell as much.
                && (seen.placed == placed || seen.placed.count_ones() > 1)
                && seen.known == known
                && frame.pending().count() == seen.pending.len()
                && frame.pending().all(|reduction| seen.pending.contains(reduction))
        };
        let fitting = all.iter().filter(fits);
        fitting.max_by_key(|seen| seen.placed.count_ones())
    }

    /// Records how many rows a part made of rows like those of the state.
    fn see(&mut self, frame: &SearchState, part: usize, fanout: f64) {
        let seen = Observation {
            placed: frame.placed_bits(),
            pending: frame.pending().copied().collect(),
            known: self.known_bits(frame, part),
            fanout,
        };
        self.seen.resize_with(self.list.len(), Vec::new);
        let all = &mut self.seen[part];
        all.retain(|other| {
            (other.placed, other.known) != (seen.placed, seen.known)
                || other.pending != seen.pending
        });
        all.push(seen);
    }

    /// The observations of a reduction of rows that passed all of some parts, or else most of them.
    pub(crate) fn seen_reduction(
        &self,
        placed: u32,
        reduction: Reduction,
    ) -> Option<&ObservedReduction> {
        let fits = |seen: &&ObservedReduction| {
            seen.reduction == reduction
                && seen.placed & !placed == 0
                && (seen.placed == placed || seen.placed.count_ones() > 1)
        };
        let fitting = self.seen_reductions.iter().filter(fits);
        fitting.max_by_key(|seen| seen.placed.count_ones())
    }

    fn see_reduction(&mut self, placed: u32, reduction: Reduction, kept: f64) {
        let all = &mut self.seen_reductions;
        all.retain(|seen| seen.placed != placed || seen.reduction != reduction);
        all.push(ObservedReduction {
            placed,
            reduction,
            kept,
        });
    }

    /// An order with its current estimates.
    fn follow(&self, start: &SearchState, moves: Vec<JoinStep>) -> Order {
        let (mut frame, mut next) = (start.clone(), SearchState::default());
        for step in &moves {
            self.apply(&frame, step, &mut next);
            std::mem::swap(&mut frame, &mut next);
        }
        Order { moves, end: frame }
    }
}

impl Planner<'_> {
    /// Tries orders until the cheapest is one that was tried.
    pub(crate) fn try_out(
        &self,
        sampled: &[SampledPattern],
        parts: &mut JoinGraph<'_>,
        start: &SearchState,
        mut order: Order,
    ) -> Order {
        // A variable that is bound from outside offers no rows to choose from.
        let from_nothing = start.unit && start.bound.iter().all(|b| b.values == 0.0);
        if !from_nothing || parts.list.len() < 3 {
            return order;
        }
        let rounds = if parts.list.len() <= FEW_PARTS {
            ROUNDS
        } else {
            ROUNDS_OF_MANY
        };
        let mut tried: Vec<Vec<JoinStep>> = Vec::new();
        while tried.len() < rounds && !self.is_over_time() {
            self.pilot(sampled, parts, start, &order.moves);
            tried.push(order.moves);
            order = self.search(parts, start);
            if tried.contains(&order.moves) {
                return order;
            }
        }
        // The last order was not tried, so a tried one is better.
        let followed = tried.into_iter().map(|moves| parts.follow(start, moves));
        followed
            .min_by(|a, b| a.end.cost.total_cmp(&b.end.cost))
            .unwrap_or(order)
    }

    /// Follows an order with a few rows, as far as there are any and its parts are patterns.
    fn pilot(
        &self,
        sampled: &[SampledPattern],
        parts: &mut JoinGraph<'_>,
        start: &SearchState,
        moves: &[JoinStep],
    ) {
        let mut rows = TrialRows::one(parts.variables.len());
        let (mut frame, mut next) = (start.clone(), SearchState::default());
        let pattern_of = |part: usize| sampled.iter().find(|pattern| pattern.part == part);
        for (at, step) in moves.iter().enumerate() {
            let list = match step {
                JoinStep::One(part) | JoinStep::Reduced(part, _) => std::slice::from_ref(part),
                JoinStep::Intersect(list) => list,
            };
            for part in &list[1..] {
                // The length of each arm's list, before any of them has closed.
                if let Some(pattern) = pattern_of(*part)
                    && let Some(degrees) = self.degrees(&rows, pattern, parts)
                {
                    let sum: usize = degrees.of_rows.iter().sum();
                    parts.see(&frame, *part, rows.per_row(sum));
                }
            }
            for part in list {
                let Some(pattern) = pattern_of(*part) else {
                    return;
                };
                let most = if at == 0 { FIRST_ROWS } else { ROWS };
                if !rows.tell_enough() {
                    return;
                }
                let Some((made, extended)) = self.extend(&rows, pattern, parts, most) else {
                    return;
                };
                if at > 0 {
                    parts.see(&frame, *part, rows.per_row(made));
                }
                rows = extended;
                parts.extend(&frame, &JoinStep::One(*part), &mut next);
                std::mem::swap(&mut frame, &mut next);
            }
            if let JoinStep::Reduced(part, reduction) = step {
                let Some(by) = pattern_of(reduction.by) else {
                    return;
                };
                if !rows.tell_enough() {
                    return;
                }
                let kept = self.reduced(&rows, by, reduction.variable, parts);
                let share = rows.per_row(kept.count());
                parts.see_reduction(frame.placed_bits(), *reduction, share);
                rows = kept;
                parts.reduce(*part, *reduction, &mut frame);
            }
        }
    }

    /// The rows whose value has an edge of a pattern.
    fn reduced(
        &self,
        rows: &TrialRows,
        by: &SampledPattern,
        variable: usize,
        parts: &JoinGraph<'_>,
    ) -> TrialRows {
        let view = self.graphs.view();
        let mut kept = TrialRows::none_of(rows);
        let Some(away) = by.away_from(parts.variables[variable]) else {
            return kept;
        };
        for row in rows.iter() {
            let vertex = row[variable];
            if sources::neighbour_estimate(view, &by.sources, vertex, by.predicate, away) > 0 {
                kept.cells.extend_from_slice(row);
            }
        }
        kept
    }

    /// The number of edges that each row has of a pattern with one known end.
    fn degrees(
        &self,
        rows: &TrialRows,
        pattern: &SampledPattern,
        parts: &JoinGraph<'_>,
    ) -> Option<FanoutCount> {
        let (subject, object) = (
            rows.end(&pattern.subject, parts),
            rows.end(&pattern.object, parts),
        );
        let (near, away, far) = match (subject, object) {
            (near, RowEnd::Open(far)) if !matches!(near, RowEnd::Open(_)) => {
                (near, Direction::Out, far)
            }
            (RowEnd::Open(far), near) if !matches!(near, RowEnd::Open(_)) => {
                (near, Direction::In, far)
            }
            _ => return None,
        };
        let view = self.graphs.view();
        let degree = |row: &[TermId]| {
            let vertex = near.of(row);
            sources::neighbour_estimate(view, &pattern.sources, vertex, pattern.predicate, away)
        };
        Some(FanoutCount {
            near,
            away,
            far,
            of_rows: rows.iter().map(degree).collect(),
        })
    }

    /// The number of rows that a pattern makes of some rows, and about `most` of those; `None`
    /// where the whole pattern would have to be read for each row.
    fn extend(
        &self,
        rows: &TrialRows,
        pattern: &SampledPattern,
        parts: &JoinGraph<'_>,
        most: usize,
    ) -> Option<(usize, TrialRows)> {
        let (subject, object) = (
            rows.end(&pattern.subject, parts),
            rows.end(&pattern.object, parts),
        );
        match (subject, object) {
            (RowEnd::Open(a), RowEnd::Open(b)) => {
                let started = self.vertices(rows, pattern, (a, b), most)?;
                let (made, extended) = self.extend(&started, pattern, parts, most)?;
                Some((made, extended))
            }
            (RowEnd::Open(_), _) | (_, RowEnd::Open(_)) => {
                let degrees = self.degrees(rows, pattern, parts)?;
                Some(self.choose(rows, pattern, &degrees, most))
            }
            (subject, object) => {
                let mut kept = TrialRows::none_of(rows);
                for row in rows.iter() {
                    let triple = TripleIds::new(subject.of(row), pattern.predicate, object.of(row));
                    if sources::contains(self.graphs.view(), &pattern.sources, triple) {
                        kept.cells.extend_from_slice(row);
                    }
                }
                Some((kept.count(), kept))
            }
        }
    }

    /// Some vertices of a pattern with two open ends, from the end with fewer; only for the first
    /// pattern of an order.
    fn vertices(
        &self,
        rows: &TrialRows,
        pattern: &SampledPattern,
        (subject, object): (usize, usize),
        most: usize,
    ) -> Option<TrialRows> {
        if subject == object || !rows.is_unit() {
            return None;
        }
        let (variable, away) = if pattern.subjects <= pattern.objects {
            (subject, Direction::Out)
        } else {
            (object, Direction::In)
        };
        let (view, predicate) = (self.graphs.view(), pattern.predicate);
        let mut lists = Lists::default();
        let reads = &pattern.sources;
        let all = sources::vertices_with(view, reads, predicate, away, &mut lists);
        let mut chosen = TrialRows::none_of(rows);
        chosen.complete = all.len() <= most;
        for place in evenly(all.len(), most) {
            chosen.push(&rows.cells, variable, all[place]);
        }
        Some(chosen)
    }

    /// Chooses about `most` of all edges of the rows.
    fn choose(
        &self,
        rows: &TrialRows,
        pattern: &SampledPattern,
        degrees: &FanoutCount,
        most: usize,
    ) -> (usize, TrialRows) {
        let made: usize = degrees.of_rows.iter().sum();
        let mut chosen = TrialRows::none_of(rows);
        chosen.complete = rows.complete && made <= most;
        let mut lists = Lists::default();
        let mut places = evenly(made, most).peekable();
        let mut before = 0;
        for (row, degree) in rows.iter().zip(&degrees.of_rows) {
            let end = before + degree;
            if places.peek().is_some_and(|place| *place < end) {
                let found = sources::neighbours(
                    self.graphs.view(),
                    &pattern.sources,
                    degrees.near.of(row),
                    pattern.predicate,
                    degrees.away,
                    &mut lists,
                );
                while let Some(place) = places.next_if(|place| *place < end) {
                    // The degree is an upper bound.
                    if let Some(id) = found.get(place - before) {
                        chosen.push(row, degrees.far, *id);
                    }
                }
            }
            before = end;
        }
        (made, chosen)
    }
}

/// At most `most` places of a list, evenly spread.
fn evenly(length: usize, most: usize) -> impl Iterator<Item = usize> {
    let count = length.min(most);
    (0..count).map(move |at| (2 * at + 1) * length / (2 * count))
}

/// An end of a pattern, for some rows.
#[derive(Debug, Clone, Copy)]
enum RowEnd {
    Constant(TermId),
    /// A variable that has a value in each row.
    Value(usize),
    /// A variable that has none.
    Open(usize),
}

impl RowEnd {
    fn of(self, row: &[TermId]) -> TermId {
        match self {
            RowEnd::Constant(id) => id,
            RowEnd::Value(at) | RowEnd::Open(at) => row[at],
        }
    }
}

struct FanoutCount {
    near: RowEnd,
    away: Direction,
    far: usize,
    of_rows: Vec<usize>,
}

/// Some rows, with a cell for each variable.
struct TrialRows {
    width: usize,
    cells: Vec<TermId>,
    /// Whether these are all that there are.
    complete: bool,
}

impl TrialRows {
    /// One row without values.
    fn one(width: usize) -> TrialRows {
        TrialRows {
            width,
            cells: vec![TermId::UNBOUND; width],
            complete: true,
        }
    }

    fn none_of(other: &TrialRows) -> TrialRows {
        TrialRows {
            width: other.width,
            cells: Vec::new(),
            complete: other.complete,
        }
    }

    fn iter(&self) -> impl Iterator<Item = &[TermId]> {
        self.cells.chunks_exact(self.width.max(1))
    }

    fn count(&self) -> usize {
        self.iter().count()
    }

    fn is_unit(&self) -> bool {
        self.cells.len() == self.width && self.cells.iter().all(|id| id.is_unbound())
    }

    fn push(&mut self, row: &[TermId], variable: usize, value: TermId) {
        let start = self.cells.len();
        self.cells.extend_from_slice(row);
        self.cells[start + variable] = value;
    }

    fn tell_enough(&self) -> bool {
        self.count() >= FEWEST || (self.complete && !self.cells.is_empty())
    }

    /// The number of edges as a share of the rows. Zero seen edges do not mean that there are none.
    fn per_row(&self, edges: usize) -> f64 {
        let rows = self.count().max(1) as f64;
        (edges as f64 / rows).max(0.5 / rows)
    }

    fn end(&self, end: &Result<TermId, somersault_lang::VarId>, parts: &JoinGraph<'_>) -> RowEnd {
        match end {
            Ok(id) => RowEnd::Constant(*id),
            Err(variable) => {
                let at = parts.variables.iter().position(|other| other == variable);
                let at = at.expect("the variables of a part are numbered");
                match self.cells.get(at) {
                    Some(cell) if !cell.is_unbound() => RowEnd::Value(at),
                    _ => RowEnd::Open(at),
                }
            }
        }
    }
}
