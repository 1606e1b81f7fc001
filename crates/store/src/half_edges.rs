//! Half edges: a statement as seen from one of its two vertices.

use somersault_model::{Direction, TermId};

/// Half edges of one graph in one direction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) graph: TermId,
    pub(crate) direction: Direction,
    pub(crate) edges: Vec<HalfEdge>,
}

/// An edge as seen from one end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct HalfEdge {
    pub(crate) vertex: TermId,
    pub(crate) predicate: TermId,
    pub(crate) neighbour: TermId,
}
