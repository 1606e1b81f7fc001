//! One direction of a run: edges in columns, by predicate, vertex and neighbour. Two sides are
//! merged column by column in one pass over both; nothing is sorted.

use somersault_model::{BatchNumber, TermId};
use std::cmp::Ordering;
use std::ops::Range;
use std::sync::OnceLock;

/// For the i-th predicate its vertices are `vertices[vertex_starts[i]..]`, for the j-th of all
/// vertices its neighbours are `neighbours[neighbour_starts[j]..]`, each up to the next start.
#[derive(Debug, Clone)]
pub(crate) struct Side {
    pub(crate) predicates: Vec<TermId>,
    vertex_starts: Vec<u32>,
    vertices: Vec<TermId>,
    neighbour_starts: Vec<u32>,
    pub(crate) neighbours: Vec<TermId>,
    /// Per edge its newest batch.
    pub(crate) newest: Vec<BatchNumber>,
    /// No edge's newest batch is before this one.
    oldest: BatchNumber,
    /// Made when somebody asks for the predicates of a vertex, which few queries do.
    by_vertex: OnceLock<ByVertex>,
}

/// The same edges by vertex alone: every vertex once, and its predicates.
#[derive(Debug, Clone)]
struct ByVertex {
    vertices: Box<[TermId]>,
    starts: Box<[u32]>,
    predicates: Box<[TermId]>,
}

impl Default for Side {
    fn default() -> Side {
        Side::with_capacity(0, 0)
    }
}

impl Side {
    /// A side without an edge that has room for so many.
    pub(crate) fn with_capacity(vertices: usize, edges: usize) -> Side {
        let mut neighbour_starts = Vec::with_capacity(vertices + 1);
        neighbour_starts.push(0);
        Side {
            predicates: Vec::new(),
            vertex_starts: vec![0],
            vertices: Vec::with_capacity(vertices),
            neighbour_starts,
            neighbours: Vec::with_capacity(edges),
            newest: Vec::with_capacity(edges),
            oldest: BatchNumber(i64::MAX),
            by_vertex: OnceLock::new(),
        }
    }

    /// Adds an edge; edges come in order and without repeats.
    pub(crate) fn push(
        &mut self,
        predicate: TermId,
        vertex: TermId,
        neighbour: TermId,
        newest: BatchNumber,
    ) {
        let same_predicate = self.predicates.last() == Some(&predicate);
        if !same_predicate || self.vertices.last() != Some(&vertex) {
            self.end_vertex();
            if !same_predicate {
                self.end_predicate();
                self.predicates.push(predicate);
            }
            self.vertices.push(vertex);
        }
        self.neighbours.push(neighbour);
        self.newest.push(newest);
        self.oldest = self.oldest.min(newest);
    }

    /// To be called after the last edge.
    pub(crate) fn finish(mut self) -> Side {
        self.end_vertex();
        self.end_predicate();
        assert!(
            u32::try_from(self.neighbours.len()).is_ok(),
            "a run has fewer than 2^32 triples"
        );
        self.vertices.shrink_to_fit();
        self.neighbour_starts.shrink_to_fit();
        self.neighbours.shrink_to_fit();
        self.newest.shrink_to_fit();
        self
    }

    fn end_vertex(&mut self) {
        if self.neighbour_starts.len() == self.vertices.len() {
            self.neighbour_starts.push(self.neighbours.len() as u32);
        }
    }

    fn end_predicate(&mut self) {
        if self.vertex_starts.len() == self.predicates.len() {
            self.vertex_starts.push(self.vertices.len() as u32);
        }
    }
}
