//! Half edges: a statement as seen from one of its two vertices, and the key of those that share
//! all but the neighbour.

use crate::spread::Spread;
use somersault_model::{Direction, TermId};

/// The neighbours of one vertex along one predicate in one graph, named by its plain parts: the
/// form in which a list leaves the store. Keys ascend by direction, graph, predicate and vertex.
///
/// These lists are the whole content of the stored graphs. Index vertices, the predicates of
/// vertices and graphs, and the counts follow from them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ListKey {
    /// `Out`: the vertex is the subject and the members are objects. `In`: the other way round.
    pub direction: Direction,
    /// The graph.
    pub graph: TermId,
    /// The predicate.
    pub predicate: TermId,
    /// The vertex.
    pub vertex: TermId,
}

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

impl Spread for HalfEdge {
    /// All are of one group: the order begins with the vertex.
    #[inline]
    fn lead(&self) -> (TermId, TermId) {
        (TermId::UNBOUND, self.vertex)
    }
}
