//! Reads of whole columns against the same reads one at a time.

use somersault_model::{Direction, QuadIds, TermId};
use somersault_store::{Ends, Pace, Snapshot};
use std::ops::ControlFlow;

/// A column with all vertices, some of them twice, in no order, and an id that no vertex has.
fn column(vertices: &[TermId], seed: usize) -> Vec<TermId> {
    let count = vertices.len() + vertices.len() / 3;
    let mut column: Vec<TermId> = (0..count)
        .map(|n| vertices[(n * 7 + seed) % vertices.len()])
        .collect();
    column.insert(seed % count, TermId::UNBOUND);
    column.insert(seed * 3 % count, TermId::local(5));
    column
}

/// Compares all that can be read of one predicate.
pub(crate) fn compare(snapshot: &Snapshot, graph: TermId, predicate: TermId, vertices: &[TermId]) {
    for direction in [Direction::Out, Direction::In] {
        expansions(snapshot, graph, predicate, direction, vertices);
        walks(snapshot, graph, predicate, direction);
    }
    checks(snapshot, graph, predicate, vertices);
}

fn expansions(
    snapshot: &Snapshot,
    graph: TermId,
    predicate: TermId,
    direction: Direction,
    vertices: &[TermId],
) {
    let column = column(vertices, 5);
    let (mut rows, mut ids) = (Vec::new(), Vec::new());
    let mut scratch = Vec::new();
    for (row, vertex) in (100u32..).zip(&column) {
        let list = snapshot.neighbours(graph, *vertex, predicate, direction, &mut scratch);
        ids.extend_from_slice(list);
        rows.resize(ids.len(), row);
    }
    for wanted in [1, 20, usize::MAX] {
        // In parts, each until `wanted` more rows are there.
        let (mut found_rows, mut found_ids) = (Vec::new(), Vec::new());
        let mut done = 0;
        while done < column.len() {
            let before = found_ids.len();
            let step = snapshot.expand(
                graph,
                predicate,
                direction,
                &column[done..],
                100 + done as u32,
                before.saturating_add(wanted),
                &mut found_rows,
                &mut found_ids,
            );
            assert!(step > 0);
            done += step;
            let enough = found_ids.len() - before >= wanted;
            assert!(
                enough || done == column.len(),
                "it stops when there is enough"
            );
        }
        assert_eq!(
            (&found_rows, &found_ids),
            (&rows, &ids),
            "{direction:?} of {predicate:?}"
        );
    }
}

fn walks(snapshot: &Snapshot, graph: TermId, predicate: TermId, direction: Direction) {
    let (mut index, mut list) = (Vec::new(), Vec::new());
    let (mut vertices, mut neighbours) = (Vec::new(), Vec::new());
    let starts = snapshot.vertices_with(graph, predicate, direction, &mut index);
    for start in starts {
        let found = snapshot.neighbours(graph, *start, predicate, direction, &mut list);
        neighbours.extend_from_slice(found);
        vertices.resize(neighbours.len(), *start);
    }
    let mut lengths = vec![0];
    lengths.extend((1..=vertices.len()).filter(|at| vertices.get(*at) != vertices.get(at - 1)));
    for wanted in [0, 1, 17, vertices.len(), usize::MAX] {
        let (mut found_vertices, mut found) = (vec![TermId::UNBOUND], vec![TermId::UNBOUND]);
        let mut look = |_| ControlFlow::Continue(());
        snapshot.edges(
            graph,
            predicate,
            direction,
            &mut Pace::new(1, wanted, &mut look),
            &mut found_vertices,
            &mut found,
        );
        // It ends with the vertex whose edges are enough.
        let end = lengths.iter().find(|length| **length >= wanted);
        let end = end.copied().unwrap_or(vertices.len());
        assert_eq!(
            (&found_vertices[1..], &found[1..]),
            (&vertices[..end], &neighbours[..end]),
            "{direction:?}, {wanted} wanted"
        );
    }
}

fn checks(snapshot: &Snapshot, graph: TermId, predicate: TermId, vertices: &[TermId]) {
    let (subjects, objects) = (column(vertices, 3), column(vertices, 11));
    let mut scratch = Vec::new();
    let used = snapshot.vertices_with(graph, predicate, Direction::In, &mut scratch);
    let mut ends = vec![vertices[1], vertices[vertices.len() / 2]];
    ends.extend(used.iter().take(4));
    let mut cases = vec![(Ends::Column(&subjects), Ends::Column(&objects))];
    for end in ends {
        cases.push((Ends::Column(&subjects), Ends::One(end)));
        cases.push((Ends::One(end), Ends::Column(&objects)));
    }
    for (subjects, objects) in cases {
        let expected: Vec<u32> = (0..subjects.len().max(objects.len()))
            .filter(|at| {
                snapshot.contains(QuadIds {
                    graph,
                    subject: subjects.at(*at),
                    predicate,
                    object: objects.at(*at),
                })
            })
            .map(|at| 7 + at as u32)
            .collect();
        let mut rows = Vec::new();
        snapshot.connected(graph, predicate, subjects, objects, 7, &mut rows);
        assert_eq!(rows, expected, "{subjects:?} {predicate:?} {objects:?}");
    }
}
