//! An image: the bulk of a shard's statements as they were at one SN, compact and immutable. Later
//! changes are in the cells of the image's generation, which are read first; the image only
//! records, by predicate, whether there are any.

mod assembly;
mod build;
mod edges;
mod frozen;
mod sets;
mod vertices;

pub(crate) use assembly::{Assembly, Label, LabelEdges};
pub(crate) use build::{Build, room_for};
pub(crate) use edges::{Edges, EdgesBuilder, Instances};
pub(crate) use frozen::Frozen;
pub(crate) use vertices::{Numbering, Vertices};

use crate::lists::{Key, ListKind};
use rustc_hash::FxHashMap;
use sets::Sets;
use somersault_dictionary::rdf_type;
use somersault_model::{Direction, TermId};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Statements by graph, direction and predicate.
#[derive(Default)]
pub(crate) struct Image {
    graphs: FxHashMap<TermId, Sides>,
    /// The named graphs with a statement whose subject is the shard's, ascending.
    named: Box<[TermId]>,
    /// The number of sequences per virtual shard, for numbering the vertices.
    room: u64,
    /// Whether classes have their instances on several shards.
    spread: bool,
}

/// One graph: out and in.
struct Sides([DirectionIndex; 2]);

/// One direction of a graph.
pub(crate) struct DirectionIndex {
    edges: FxHashMap<TermId, PredicateEdges>,
    /// The number of edges of all predicates.
    length: u64,
    predicates: Box<[TermId]>,
    sets: Arc<Sets>,
}

/// One predicate.
pub(crate) struct PredicateEdges {
    /// Generations share the edges that have not changed between them.
    pub(crate) edges: Arc<Edges>,
    /// Whether some cell of this generation is about this graph, predicate and direction.
    changed: AtomicBool,
}

impl PredicateEdges {
    fn new(edges: Arc<Edges>) -> PredicateEdges {
        PredicateEdges {
            edges,
            changed: AtomicBool::new(false),
        }
    }

    /// Whether cells have to be read before the edges. Set before the first such cell can be found,
    /// and so before its SN can be stable: every reader that the cell concerns sees it.
    #[inline]
    pub(crate) fn is_changed(&self) -> bool {
        self.changed.load(Ordering::Acquire)
    }
}

impl Image {
    #[inline]
    pub(crate) fn side(&self, graph: TermId, direction: Direction) -> Option<&DirectionIndex> {
        Some(&self.graphs.get(&graph)?.0[direction as usize])
    }

    /// The edges of a predicate.
    #[inline]
    pub(crate) fn held(
        &self,
        graph: TermId,
        predicate: TermId,
        direction: Direction,
    ) -> Option<&PredicateEdges> {
        self.side(graph, direction)?.edges.get(&predicate)
    }

    /// Records that a cell of this key is about to become reachable.
    pub(crate) fn note(&self, key: Key) {
        if let Some(held) = self.held(key.graph, key.predicate, key.direction) {
            held.changed.store(true, Ordering::Release);
        }
    }

    /// The members of a list, in `scratch` (which is empty) if they cannot be borrowed. For all
    /// keys except index vertices and counts.
    pub(crate) fn list<'a>(&'a self, key: Key, scratch: &'a mut Vec<TermId>) -> &'a [TermId] {
        match key.kind() {
            ListKind::Adjacency => {
                let held = self.held(key.graph, key.predicate, key.direction);
                held.map_or(&[], |held| held.edges.of(key.vertex))
            }
            ListKind::PredicatesOf => self.predicates_of(key, scratch),
            ListKind::Predicates => {
                let side = self.side(key.graph, key.direction);
                side.map_or(&[], |side| &side.predicates)
            }
            ListKind::Graphs => &self.named,
            ListKind::Index | ListKind::Removed | ListKind::Count => &[],
        }
    }

    /// Prefetches the memory that finding the predicates of a vertex reads first.
    #[inline]
    pub(crate) fn prefetch_predicates_of(&self, key: Key) {
        if let Some(side) = self.side(key.graph, key.direction) {
            side.sets.vertices().prefetch(key.vertex);
        }
    }

    fn predicates_of<'a>(&'a self, key: Key, scratch: &'a mut Vec<TermId>) -> &'a [TermId] {
        let Some(side) = self.side(key.graph, key.direction) else {
            return &[];
        };
        let set = side.sets.of(key.vertex);
        // A class is not this shard's own vertex, so the sets leave out that it has instances here.
        let kind = rdf_type();
        if self.spread
            && key.direction == Direction::In
            && let Some(held) = side.edges.get(&kind)
            && held.edges.vertices().place(key.vertex).is_some()
        {
            let at = set.partition_point(|predicate| *predicate < kind);
            scratch.extend_from_slice(&set[..at]);
            scratch.push(kind);
            scratch.extend_from_slice(&set[at..]);
            return scratch;
        }
        set
    }

    /// The number of statements of a predicate, or of all ([`TermId::UNBOUND`]).
    pub(crate) fn count(&self, graph: TermId, predicate: TermId) -> u64 {
        let Some(side) = self.side(graph, Direction::Out) else {
            return 0;
        };
        if predicate.is_unbound() {
            return side.length;
        }
        let held = side.edges.get(&predicate);
        held.map_or(0, |held| held.edges.len() as u64)
    }

    /// The number of all statements.
    pub(crate) fn statements(&self) -> u64 {
        let graphs = self.graphs.keys();
        graphs
            .map(|graph| self.count(*graph, TermId::UNBOUND))
            .sum()
    }

    /// The graphs and predicates with edges in a direction, in no order.
    pub(crate) fn labels(&self, direction: Direction) -> impl Iterator<Item = Label> {
        self.graphs.iter().flat_map(move |(graph, sides)| {
            let predicates = sides.0[direction as usize].predicates.iter();
            predicates.map(move |predicate| (*graph, *predicate))
        })
    }

    /// The number of sequences per virtual shard for which vertices are numbered.
    pub(crate) fn room(&self) -> u64 {
        self.room
    }

    /// The number of half edges.
    pub(crate) fn half_edges(&self) -> usize {
        let sides = self.graphs.values().flat_map(|sides| &sides.0);
        let held = sides.flat_map(|side| side.edges.values());
        held.map(|held| held.edges.len()).sum()
    }

    /// The sets of predicates that the vertices of one direction of a graph have, and the number of
    /// vertices with each.
    pub(crate) fn predicate_sets(
        &self,
        graph: TermId,
        direction: Direction,
    ) -> Option<impl ExactSizeIterator<Item = (&[TermId], u64)>> {
        Some(self.side(graph, direction)?.sets.counts())
    }

    /// Calls `visit` with the keys of all lists and index vertices; counts are not among them.
    pub(crate) fn for_each_key(&self, mut visit: impl FnMut(Key)) {
        let mut vertices = Vec::new();
        if !self.named.is_empty() {
            visit(Key::graphs());
        }
        for (graph, sides) in &self.graphs {
            for direction in [Direction::Out, Direction::In] {
                let side = &sides.0[direction as usize];
                if !side.predicates.is_empty() {
                    visit(Key::predicates(*graph, direction));
                }
                let mut with_predicates = Vec::new();
                let of_sets = side.sets.vertices();
                of_sets.write(0, of_sets.len(), &mut with_predicates);
                for (predicate, held) in &side.edges {
                    visit(Key::index(*graph, *predicate, direction));
                    vertices.clear();
                    let all = held.edges.vertices();
                    all.write(0, all.len(), &mut vertices);
                    for vertex in &vertices {
                        visit(Key::adjacency(*graph, *vertex, *predicate, direction));
                    }
                    if self.spread && direction == Direction::In && *predicate == rdf_type() {
                        with_predicates.extend_from_slice(&vertices);
                    }
                }
                with_predicates.sort_unstable();
                with_predicates.dedup();
                for vertex in with_predicates {
                    visit(Key::predicates_of(*graph, vertex, direction));
                }
            }
        }
    }

    /// Size in memory in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let side = |side: &DirectionIndex| {
            let held = side.edges.values().map(|held| held.edges.bytes());
            held.sum::<usize>()
                + side.edges.capacity() * size_of::<(TermId, PredicateEdges)>()
                + side.sets.bytes()
                + size_of_val(&*side.predicates)
        };
        let sides = self.graphs.values().flat_map(|sides| &sides.0);
        self.graphs.capacity() * size_of::<(TermId, Sides)>()
            + size_of_val(&*self.named)
            + sides.map(side).sum::<usize>()
    }
}
