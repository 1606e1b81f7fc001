//! The edges of predicates that steps read as a whole, kept from one step to the next. A board over
//! fifty counters reads fifty lists, each of which transactions have changed, and then one column
//! until the next snapshot.
//!
//! The one thing to know before changing it: a column holds what the snapshot and the layers come
//! to. So it is told of each statement that begins or ceases to hold, and a new snapshot or a
//! cleared graph empties it.

use parking_lot::RwLock;
use somersault_model::{Direction, QuadIds, TermId};
use somersault_store::Pace;

/// The number of columns that are kept.
const MOST_COLUMNS: usize = 8;
/// The edges of the longest column that is kept: a change moves half of them.
const MOST_EDGES: usize = 1 << 10;

/// A predicate of a graph in one direction.
pub(crate) type ColumnKey = (TermId, TermId, Direction);

/// Columns of edges.
#[derive(Default)]
pub(crate) struct KeptEdges {
    columns: RwLock<Vec<KeptColumn>>,
}

struct KeptColumn {
    key: ColumnKey,
    /// Vertex and other end; ascending.
    edges: Vec<[TermId; 2]>,
}

impl KeptEdges {
    /// Appends the edges of a column until the pace says to stop; false if it is not kept.
    pub(crate) fn read(
        &self,
        key: ColumnKey,
        pace: &mut Pace<'_>,
        vertices: &mut Vec<TermId>,
        neighbours: &mut Vec<TermId>,
    ) -> bool {
        let columns = self.columns.read();
        let Some(column) = columns.iter().find(|column| column.key == key) else {
            return false;
        };
        for of_vertex in column.edges.chunk_by(|a, b| a[0] == b[0]) {
            if pace.ends(neighbours.len()) {
                break;
            }
            for [vertex, other] in of_vertex {
                vertices.push(*vertex);
                neighbours.push(*other);
            }
        }
        true
    }

    /// Keeps a whole column, unless it is long or there are many.
    pub(crate) fn keep(&self, key: ColumnKey, vertices: &[TermId], neighbours: &[TermId]) {
        if vertices.len() > MOST_EDGES {
            return;
        }
        let mut columns = self.columns.write();
        if columns.len() == MOST_COLUMNS || columns.iter().any(|column| column.key == key) {
            return;
        }
        let edges = vertices.iter().zip(neighbours);
        columns.push(KeptColumn {
            key,
            edges: edges.map(|(vertex, other)| [*vertex, *other]).collect(),
        });
    }

    /// A statement has begun or ceased to hold.
    #[inline]
    pub(crate) fn change(&mut self, quad: QuadIds, holds: bool) {
        let columns = self.columns.get_mut();
        if !columns.is_empty() {
            change(columns, quad, holds);
        }
    }

    /// Forgets all columns.
    pub(crate) fn clear(&mut self) {
        self.columns.get_mut().clear();
    }
}

fn change(columns: &mut Vec<KeptColumn>, quad: QuadIds, holds: bool) {
    columns.retain_mut(|column| {
        let (graph, predicate, direction) = column.key;
        if (graph, predicate) != (quad.graph, quad.predicate) {
            return true;
        }
        let edge = match direction {
            Direction::Out => [quad.subject, quad.object],
            Direction::In => [quad.object, quad.subject],
        };
        match (column.edges.binary_search(&edge), holds) {
            (Err(at), true) => column.edges.insert(at, edge),
            (Ok(at), false) => _ = column.edges.remove(at),
            (Ok(_), true) | (Err(_), false) => {}
        }
        column.edges.len() <= MOST_EDGES
    });
}
