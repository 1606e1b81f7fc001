//! Reading by column: many vertices at a time, from one source or several; a statement in two
//! sources counts once. Results are ascending by row, and by id within a row.

use crate::context::workspace::Workspace;
use crate::view::graph_view::{Columns, GraphView, Source};
use somersault_model::{Direction, TermId, TripleIds};
use somersault_store::{Ends, Pace};
use std::ops::ControlFlow;

/// For each vertex in order, appends its neighbours to `ids` and, for each of them, the sum of
/// `first_row` and the vertex's index to `rows`. Stops after the vertex with which `ids` reaches
/// `wanted`; returns the number of vertices done.
#[allow(clippy::too_many_arguments, reason = "the parts of one hot loop")]
pub(crate) fn expand(
    view: &dyn GraphView,
    sources: &[Source],
    (predicate, direction): (TermId, Direction),
    vertices: &[TermId],
    first_row: u32,
    wanted: usize,
    (rows, ids): (&mut Vec<u32>, &mut Vec<TermId>),
    workspace: &mut Workspace,
) -> usize {
    if let [source] = sources {
        let key = (*source, predicate, direction);
        return expand_one(view, key, vertices, first_row, wanted, (rows, ids));
    }
    // There may be fewer ids than rows: dead ends are dropped.
    let (first_made, start) = (rows.len(), ids.len());
    let wanted = wanted.saturating_sub(start);
    let (mut done, mut parts) = (vertices.len(), 0);
    for source in sources {
        let before = ids.len();
        let key = (*source, predicate, direction);
        let wanted = before.saturating_add(wanted);
        let read = expand_one(view, key, &vertices[..done], first_row, wanted, (rows, ids));
        parts += usize::from(ids.len() > before);
        done = done.min(read);
    }
    if parts > 1 {
        // If one source was read further than another, its surplus waits for the next call.
        let end = first_row + done as u32;
        let pairs = workspace.pairs();
        let found = rows[first_made..].iter().zip(&ids[start..]);
        pairs.extend(
            found
                .map(|(row, id)| (*row, *id))
                .filter(|(row, _)| *row < end),
        );
        pairs.sort_unstable();
        pairs.dedup();
        rows.truncate(first_made);
        ids.truncate(start);
        rows.extend(pairs.iter().map(|(row, _)| *row));
        ids.extend(pairs.iter().map(|(_, id)| *id));
    } else if done < vertices.len() {
        let end = first_row + done as u32;
        let kept = rows[first_made..].partition_point(|row| *row < end);
        rows.truncate(first_made + kept);
        ids.truncate(start + kept);
    }
    done
}

/// [`expand`] in one source.
fn expand_one(
    view: &dyn GraphView,
    (source, predicate, direction): (Source, TermId, Direction),
    vertices: &[TermId],
    first_row: u32,
    wanted: usize,
    (rows, ids): (&mut Vec<u32>, &mut Vec<TermId>),
) -> usize {
    let window = match view.columns(source, predicate) {
        Some(Columns::Stored(snapshot, graph)) => {
            return snapshot.expand(
                graph, predicate, direction, vertices, first_row, wanted, rows, ids,
            );
        }
        Some(Columns::Window(window)) => Some(window),
        None => None,
    };
    let mut scratch = Vec::new();
    for (at, vertex) in vertices.iter().enumerate() {
        let found = match window {
            Some(window) => window.neighbours(*vertex, predicate, direction, &mut scratch),
            None => view.neighbours(source, *vertex, predicate, direction, &mut scratch),
        };
        ids.extend_from_slice(found);
        rows.resize(rows.len() + found.len(), first_row + at as u32);
        if ids.len() >= wanted {
            return at + 1;
        }
    }
    vertices.len()
}

/// Appends `first_row` + index to `rows` for every index at which an edge leads from the subject to
/// the object. At least one end is a column; columns have the same length.
pub(crate) fn connected(
    view: &dyn GraphView,
    sources: &[Source],
    predicate: TermId,
    subjects: Ends<'_>,
    objects: Ends<'_>,
    first_row: u32,
    rows: &mut Vec<u32>,
) {
    let start = rows.len();
    let mut parts = 0;
    for source in sources {
        let before = rows.len();
        if let Some(Columns::Stored(snapshot, graph)) = view.columns(*source, predicate) {
            snapshot.connected(graph, predicate, subjects, objects, first_row, rows);
        } else {
            for at in 0..subjects.len().max(objects.len()) {
                let triple = TripleIds::new(subjects.at(at), predicate, objects.at(at));
                if view.contains(*source, triple) {
                    rows.push(first_row + at as u32);
                }
            }
        }
        parts += usize::from(rows.len() > before);
    }
    if parts > 1 {
        rows[start..].sort_unstable();
        let mut kept = start;
        for at in start..rows.len() {
            if kept == start || rows[kept - 1] != rows[at] {
                rows[kept] = rows[at];
                kept += 1;
            }
        }
        rows.truncate(kept);
    }
}

/// The direction in which the edges of a predicate are read: the side with fewer vertices has fewer
/// lists to fetch.
fn shorter_side(view: &dyn GraphView, source: Source, predicate: TermId) -> Direction {
    let statistics = view.predicate_statistics(source, predicate);
    if statistics.objects < statistics.subjects {
        Direction::In
    } else {
        Direction::Out
    }
}

/// Appends the edges of a predicate to a column of subjects and one of objects, until there are
/// `wanted` of them; calls `check` now and then to ask whether to continue.
pub(crate) fn edges<E>(
    view: &dyn GraphView,
    sources: &[Source],
    predicate: TermId,
    wanted: usize,
    (subjects, objects): (&mut Vec<TermId>, &mut Vec<TermId>),
    mut check: impl FnMut(usize) -> Result<(), E>,
) -> Result<(), E> {
    let start = subjects.len();
    let mut parts = 0;
    for source in sources {
        let direction = shorter_side(view, *source, predicate);
        let before = subjects.len();
        // With several sources any edge may be a repeat.
        let most = if sources.len() == 1 {
            wanted
        } else {
            usize::MAX
        };
        let (vertices, neighbours) = match direction {
            Direction::Out => (&mut *subjects, &mut *objects),
            Direction::In => (&mut *objects, &mut *subjects),
        };
        let mut outcome = Ok(());
        let mut look = |edges| match check(edges) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                outcome = Err(error);
                ControlFlow::Break(())
            }
        };
        let mut pace = Pace::new(before, most, &mut look);
        let key = (*source, predicate, direction);
        edges_of_one(view, key, &mut pace, vertices, neighbours);
        outcome?;
        check(subjects.len())?;
        parts += usize::from(subjects.len() > before);
    }
    if parts > 1 {
        let found = subjects.drain(start..).zip(objects.drain(start..));
        let mut pairs: Vec<(TermId, TermId)> = found.collect();
        pairs.sort_unstable();
        pairs.dedup();
        subjects.extend(pairs.iter().map(|(subject, _)| *subject));
        objects.extend(pairs.iter().map(|(_, object)| *object));
    }
    Ok(())
}

/// Appends the edges of a predicate in one source, vertices ascending, until the pace says to stop.
/// Both columns have the same length.
fn edges_of_one(
    view: &dyn GraphView,
    (source, predicate, direction): (Source, TermId, Direction),
    pace: &mut Pace<'_>,
    vertices: &mut Vec<TermId>,
    neighbours: &mut Vec<TermId>,
) {
    match view.columns(source, predicate) {
        Some(Columns::Stored(snapshot, graph)) => {
            snapshot.edges(graph, predicate, direction, pace, vertices, neighbours);
        }
        Some(Columns::Window(window)) => {
            window.edges(predicate, direction, pace, vertices, neighbours);
        }
        None => view.edges(source, predicate, direction, pace, vertices, neighbours),
    }
}
