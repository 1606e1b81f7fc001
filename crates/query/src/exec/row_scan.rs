//! Exploration a row at a time: for every row the bound ends of the pattern decide how it is read.
//! It handles the shapes that the column-wise reads of `explore` do not cover: predicates and
//! graphs that are variables, cells without values, one variable at both ends.

use crate::algebra::error::QueryError;
use crate::algebra::logical::{GraphPosition, Position, QuadPattern};
use crate::algebra::varset::VarSet;
use crate::context::limiter::Limiter;
use crate::context::table::Table;
use crate::exec::explore::{End, Explorer, ROWS_PER_CHECK};
use crate::view::graph_view::Source;
use crate::view::sources::{self, Graphs, Scratch};
use rustc_hash::FxHashSet;
use somersault_lang::VarId;
use somersault_model::{Direction, TermId, TripleIds};

/// Why reading stops before its end.
enum Stop {
    /// The wanted number of rows was made.
    Enough,
    Error(QueryError),
}

impl From<QueryError> for Stop {
    fn from(error: QueryError) -> Stop {
        Stop::Error(error)
    }
}

/// The rows that a step makes: the row that each came from, and the new columns.
pub(crate) struct Output {
    pub(crate) parents: Vec<u32>,
    pub(crate) columns: Vec<(VarId, Vec<TermId>)>,
    next_check: usize,
}

impl Output {
    pub(crate) fn new() -> Output {
        Output {
            parents: Vec::new(),
            columns: Vec::new(),
            next_check: ROWS_PER_CHECK,
        }
    }

    /// The place of a variable among the new columns.
    pub(crate) fn place(&mut self, variable: VarId) -> usize {
        self.columns
            .iter()
            .position(|(other, _)| *other == variable)
            .unwrap_or_else(|| {
                self.columns.push((variable, Vec::new()));
                self.columns.len() - 1
            })
    }

    /// The columns of the variables that some row has no value for yet, by their positions.
    fn places(
        &mut self,
        positions: [Option<Position>; 4],
        ends: [Option<End<'_>>; 4],
    ) -> [Option<usize>; 4] {
        let mut places = [None; 4];
        for ((place, end), position) in places.iter_mut().zip(ends).zip(positions) {
            if let (Some(end), Some(Position::Variable(variable))) = (end, position)
                && end.is_open()
            {
                *place = Some(self.place(variable));
            }
        }
        places
    }

    #[inline]
    pub(crate) fn check(&mut self, limiter: &Limiter<'_>, table: &Table) -> Result<(), QueryError> {
        if self.parents.len() >= self.next_check {
            self.next_check = self.parents.len() + ROWS_PER_CHECK;
            let width = table.present().count() + self.columns.len();
            limiter.check_memory(self.parents.len() * (8 * width + 4) + table.bytes())?;
            limiter.check_interrupt()?;
        }
        Ok(())
    }
}

/// Reads a pattern for every row, until the wanted number of rows has been made.
pub(crate) fn scan(
    explorer: &mut Explorer<'_, '_>,
    pattern: &QuadPattern,
    table: Table,
) -> Result<Table, QueryError> {
    let (graphs, constants) = (explorer.graphs, explorer.constants);
    let triple = [pattern.subject, pattern.predicate, pattern.object];
    let ends = triple.map(|position| End::of(position, &table, constants));
    let name = match pattern.graph {
        GraphPosition::Named(name) => Some(name),
        _ => None,
    };
    let graph = name.map(|name| End::of(name, &table, constants));
    let fixed_graph = match name {
        Some(Position::Variable(_)) => None,
        _ => Some(graphs.sources_of(pattern.graph, |c| constants[c.index()])),
    };
    let positions = with_graph(triple, name);
    let mut output = Output::new();
    let mut places = output.places(positions, with_graph(ends, graph));
    let dead = dead_ends(explorer, &positions, &mut places);
    let mut seen = seen_predicates(explorer, &table, pattern, dead);
    let alike = seen.is_some();
    let mut scratch = Scratch::default();
    let limiter = &mut *explorer.limiter;
    for row in 0..table.rows {
        limiter.tick()?;
        let known = ends.map(|end| end.at(row));
        let mut emit = |triple: [TermId; 3], name: TermId| -> Result<(), Stop> {
            limiter.tick()?;
            if seen.as_ref().is_some_and(|seen| seen.contains(&triple[1])) {
                return Ok(());
            }
            let found = [triple[0], triple[1], triple[2], name];
            if output.take(row, &places, found) {
                if let Some(seen) = &mut seen {
                    seen.insert(triple[1]);
                }
                output.check(limiter, &table)?;
                if output.parents.len() >= explorer.wanted {
                    return Err(Stop::Enough);
                }
            }
            Ok(())
        };
        let mut read = |sources: &[Source], name: TermId| {
            matches(
                graphs,
                sources,
                known,
                dead,
                alike,
                &mut scratch,
                &mut |t| emit(t, name),
            )
        };
        let done = match &fixed_graph {
            Some(sources) => read(sources, TermId::UNBOUND),
            None => graphs.each_named(graph.map_or(TermId::UNBOUND, |g| g.at(row)), read),
        };
        match done {
            Ok(()) => {}
            Err(Stop::Enough) => break,
            Err(Stop::Error(error)) => return Err(error),
        }
    }
    Ok(explorer.extended(table, output.parents, output.columns))
}

/// What there is for subject, predicate, object, and the name of the graph.
fn with_graph<T>([subject, predicate, object]: [T; 3], graph: Option<T>) -> [Option<T>; 4] {
    [Some(subject), Some(predicate), Some(object), graph]
}

/// Which of subject, predicate and object are not needed: they are free, occur nowhere else in the
/// pattern, and are not kept. They get no column.
fn dead_ends(
    explorer: &Explorer<'_, '_>,
    positions: &[Option<Position>; 4],
    places: &mut [Option<usize>; 4],
) -> [bool; 3] {
    let mut dead = [false; 3];
    for at in 0..3 {
        let alone = positions
            .iter()
            .filter(|other| **other == positions[at])
            .count()
            == 1;
        if let (Some(Position::Variable(variable)), Some(_), true) =
            (positions[at], places[at], alone)
            && explorer.is_dead(variable)
        {
            dead[at] = true;
        }
    }
    for at in 0..3 {
        if dead[at] {
            places[at] = None;
        }
    }
    dead
}

/// A set for the predicates that were made, where nothing but the predicate is kept: all rows
/// together make each predicate once then.
fn seen_predicates(
    explorer: &Explorer<'_, '_>,
    table: &Table,
    pattern: &QuadPattern,
    dead: [bool; 3],
) -> Option<FxHashSet<TermId>> {
    let own = pattern
        .predicate
        .variable()
        .filter(|_| dead[0] || dead[2])?;
    let others = table.variables().union(&pattern.variables());
    let others = others.difference(&VarSet::of([own]));
    let is_new = table.column(own).is_none();
    let is_kept_alone = is_new && table.origin.is_none() && explorer.keep.is_disjoint(&others);
    is_kept_alone.then(FxHashSet::default)
}

impl Output {
    /// Takes a match of a row if all places of one variable agree. Returns whether it did.
    #[inline]
    fn take(&mut self, row: usize, places: &[Option<usize>; 4], found: [TermId; 4]) -> bool {
        let length = self.parents.len();
        for (place, id) in places.iter().zip(found) {
            let Some(place) = place else { continue };
            let column = &mut self.columns[*place].1;
            if column.len() == length {
                column.push(id);
            } else if column[length] != id {
                for (_, column) in &mut self.columns {
                    column.truncate(length);
                }
                return false;
            }
        }
        self.parents.push(row as u32);
        true
    }
}

/// Calls `emit` with every triple that matches the known ends. The value of a `dead` end is not
/// needed, so triples that differ only there may be emitted once. With `alike` that holds for all
/// calls together, for triples with the same predicate.
#[allow(clippy::too_many_arguments, reason = "the parts of one hot loop")]
fn matches(
    graphs: &Graphs<'_>,
    sources: &[Source],
    known: [TermId; 3],
    dead: [bool; 3],
    alike: bool,
    scratch: &mut Scratch,
    emit: &mut impl FnMut([TermId; 3]) -> Result<(), Stop>,
) -> Result<(), Stop> {
    let view = graphs.view();
    let [s, p, o] = known;
    match (!s.is_unbound(), !p.is_unbound(), !o.is_unbound()) {
        (true, true, true) => {
            if sources::contains(view, sources, TripleIds::new(s, p, o)) {
                emit(known)?;
            }
        }
        (true, true, false) => {
            let lists = &mut scratch.lists;
            let found = sources::neighbours(view, sources, s, p, Direction::Out, lists);
            for o in &found[..shown(found.len(), dead[2])] {
                emit([s, p, *o])?;
            }
        }
        (false, true, true) => {
            let lists = &mut scratch.lists;
            let found = sources::neighbours(view, sources, o, p, Direction::In, lists);
            for s in &found[..shown(found.len(), dead[0])] {
                emit([*s, p, o])?;
            }
        }
        (true, false, true) => {
            let predicates = &mut scratch.vertices.one;
            sources::predicates_of(view, sources, s, Direction::Out, predicates);
            for p in predicates.iter() {
                if sources::contains(view, sources, TripleIds::new(s, *p, o)) {
                    emit([s, *p, o])?;
                    if dead[1] {
                        break;
                    }
                }
            }
        }
        (is_subject, false, is_object) if is_subject != is_object => {
            let end = match is_subject {
                true => (s, Direction::Out, dead[2]),
                false => (o, Direction::In, dead[0]),
            };
            let any = (dead[1], alike);
            of_vertex(view, sources, end, any, scratch, &mut |p, other| {
                emit(match is_subject {
                    true => [s, p, other],
                    false => [other, p, o],
                })
            })?;
        }
        (false, true, false) => edges(graphs, sources, p, dead, scratch, emit)?,
        (_, false, _) => {
            let mut predicates = Vec::new();
            sources::predicates(view, sources, &mut predicates);
            for p in predicates {
                edges(graphs, sources, p, dead, scratch, emit)?;
            }
        }
    }
    Ok(())
}

/// The number of `count` matches that are emitted.
fn shown(count: usize, is_dead: bool) -> usize {
    if is_dead { count.min(1) } else { count }
}

/// Calls `emit` with the predicates and other ends of a vertex's edges. With `any_vertex`, a vertex
/// with the same predicates as the one before is skipped.
fn of_vertex(
    view: &dyn crate::view::graph_view::GraphView,
    sources: &[Source],
    (vertex, direction, is_dead): (TermId, Direction, bool),
    (any_predicate, any_vertex): (bool, bool),
    scratch: &mut Scratch,
    emit: &mut impl FnMut(TermId, TermId) -> Result<(), Stop>,
) -> Result<(), Stop> {
    let Scratch {
        lists,
        vertices,
        before,
    } = scratch;
    let predicates = &mut vertices.one;
    sources::predicates_of(view, sources, vertex, direction, predicates);
    if is_dead {
        if any_vertex && predicates == before {
            return Ok(());
        }
        before.clone_from(predicates);
        // A predicate of a vertex leads somewhere.
        let shown = shown(predicates.len(), any_predicate);
        return (predicates[..shown].iter()).try_for_each(|p| emit(*p, TermId::UNBOUND));
    }
    for p in predicates.iter() {
        let found = sources::neighbours(view, sources, vertex, *p, direction, lists);
        for other in found {
            emit(*p, *other)?;
        }
    }
    Ok(())
}

/// Every edge with a predicate, from its index vertex.
fn edges(
    graphs: &Graphs<'_>,
    sources: &[Source],
    p: TermId,
    dead: [bool; 3],
    scratch: &mut Scratch,
    emit: &mut impl FnMut([TermId; 3]) -> Result<(), Stop>,
) -> Result<(), Stop> {
    let view = graphs.view();
    let Scratch {
        lists, vertices, ..
    } = scratch;
    if dead[0] || dead[2] {
        let direction = if dead[2] {
            Direction::Out
        } else {
            Direction::In
        };
        let vertices = sources::vertices_with(view, sources, p, direction, vertices);
        for vertex in &vertices[..shown(vertices.len(), dead[0] && dead[2])] {
            emit(match direction {
                Direction::Out => [*vertex, p, TermId::UNBOUND],
                Direction::In => [TermId::UNBOUND, p, *vertex],
            })?;
        }
        return Ok(());
    }
    let at_most = |direction| sources::vertices_at_most(view, sources, p, direction);
    // From the side with fewer vertices there are fewer lists to fetch.
    let direction = if at_most(Direction::In) < at_most(Direction::Out) {
        Direction::In
    } else {
        Direction::Out
    };
    for start in sources::vertices_with(view, sources, p, direction, vertices) {
        for end in sources::neighbours(view, sources, *start, p, direction, lists) {
            emit(match direction {
                Direction::Out => [*start, p, *end],
                Direction::In => [*end, p, *start],
            })?;
        }
    }
    Ok(())
}

/// Binds or checks the name of a named graph.
pub(crate) fn graph_name(
    explorer: &mut Explorer<'_, '_>,
    name: Position,
    table: Table,
) -> Result<Table, QueryError> {
    let Explorer {
        graphs,
        constants,
        limiter,
        ..
    } = explorer;
    let end = End::of(name, &table, constants);
    let mut output = Output::new();
    let place = match name {
        Position::Variable(variable) if end.is_open() => Some(output.place(variable)),
        _ => None,
    };
    for row in 0..table.rows {
        limiter.tick()?;
        let id = end.at(row);
        let mut emit = |id: TermId| {
            output.parents.push(row as u32);
            if let Some(place) = place {
                output.columns[place].1.push(id);
            }
        };
        if !id.is_unbound() {
            if graphs.has(id) {
                emit(id);
            }
        } else {
            graphs.named().iter().for_each(|(name, _)| emit(*name));
        }
        output.check(limiter, &table)?;
    }
    Ok(explorer.extended(table, output.parents, output.columns))
}
