//! All edges of one predicate in one direction: vertices in order, and the neighbours of each one
//! after another. If every vertex has one neighbour (a functional predicate) there are no offsets:
//! a vertex's place is that of its neighbour.

use super::vertices::{Members, Numbering, Vertices};
use crate::lists::gallop;
use crate::memory::Array;
use somersault_dictionary::rdf_type;
use somersault_model::{Direction, Placement, TermId};

/// Lists from this length on have a fast membership test, if it is asked for.
const MEMBERS_FROM: usize = 64;

pub(crate) struct Edges {
    vertices: Vertices,
    /// The start of each vertex's neighbours, and the end of the last; empty if each vertex has
    /// one.
    starts: Array<u32>,
    neighbours: Array<TermId>,
    /// By place, for the long lists: makes a type check a bit test, or nearly.
    members: Box<[(u32, Members)]>,
}

/// The instances of a class in one shard.
#[derive(Clone, Copy)]
pub(crate) struct Instances<'a> {
    list: &'a [TermId],
    members: Option<&'a Members>,
}

impl Instances<'_> {
    #[inline]
    pub(crate) fn has(&self, id: TermId) -> bool {
        match self.members {
            Some(members) => members.has(self.list, id),
            None => self.list.binary_search(&id).is_ok(),
        }
    }
}

impl Edges {
    pub(crate) fn vertices(&self) -> &Vertices {
        &self.vertices
    }

    /// The number of edges.
    pub(crate) fn len(&self) -> usize {
        self.neighbours.len()
    }

    /// The range of the neighbours of the vertex at a place.
    #[inline]
    pub(crate) fn range(&self, place: usize) -> (usize, usize) {
        if self.starts.is_empty() {
            (place, place + 1)
        } else {
            (self.starts[place] as usize, self.starts[place + 1] as usize)
        }
    }

    /// The neighbours of the vertex at a place.
    #[inline]
    pub(crate) fn list(&self, place: usize) -> &[TermId] {
        let (from, to) = self.range(place);
        &self.neighbours[from..to]
    }

    /// The neighbours of a vertex.
    #[inline]
    pub(crate) fn of(&self, vertex: TermId) -> &[TermId] {
        match self.vertices.place(vertex) {
            Some(place) => self.list(place),
            None => &[],
        }
    }

    /// Prefetches the memory that [`Edges::range`] reads.
    #[inline]
    pub(crate) fn prefetch_range(&self, place: usize) {
        if self.starts.is_empty() {
            somersault_dictionary::prefetch(&raw const self.neighbours[place]);
        } else {
            somersault_dictionary::prefetch(&raw const self.starts[place]);
        }
    }

    /// The list of a vertex, for testing many ids for membership.
    pub(crate) fn instances(&self, class: TermId) -> Instances<'_> {
        let Some(place) = self.vertices.place(class) else {
            return Instances {
                list: &[],
                members: None,
            };
        };
        let members = &self.members;
        let long = members.binary_search_by_key(&(place as u32), |(place, _)| *place);
        Instances {
            list: self.list(place),
            members: long.ok().map(|at| &members[at].1),
        }
    }

    /// Size in memory.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Edges>()
            + self.vertices.bytes()
            + self.starts.bytes()
            + self.neighbours.bytes()
            + (self.members.iter())
                .map(|(_, members)| size_of::<u32>() + members.bytes())
                .sum::<usize>()
    }
}

/// Takes ascending vertices with their ascending neighbours, and grows as needed.
pub(crate) struct EdgesBuilder {
    vertices: Array<TermId>,
    starts: Array<u32>,
    neighbours: Array<TermId>,
}

impl EdgesBuilder {
    /// A builder with room for this many edges.
    pub(crate) fn with_capacity(edges: usize) -> EdgesBuilder {
        EdgesBuilder {
            vertices: Array::with_capacity(edges),
            starts: Array::with_capacity(edges + 1),
            neighbours: Array::with_capacity(edges),
        }
    }

    /// Adds a vertex, whose neighbours follow.
    #[inline]
    pub(crate) fn vertex(&mut self, vertex: TermId) {
        self.vertices.reserve(1);
        self.starts.reserve(2);
        self.vertices.push(vertex);
        self.starts.push(self.neighbours.len() as u32);
    }

    /// Adds a neighbour of the last vertex.
    #[inline]
    pub(crate) fn neighbour(&mut self, neighbour: TermId) {
        self.neighbours.reserve(1);
        self.neighbours.push(neighbour);
    }

    /// Adds a vertex with its neighbours, at least one.
    pub(crate) fn list(&mut self, vertex: TermId, neighbours: &[TermId]) {
        self.vertex(vertex);
        self.neighbours.reserve(neighbours.len());
        self.neighbours.extend(neighbours);
    }

    /// The number of edges so far.
    pub(crate) fn len(&self) -> usize {
        self.neighbours.len()
    }

    /// Calls `visit` with each vertex and its neighbours.
    pub(crate) fn for_each(&self, mut visit: impl FnMut(TermId, &[TermId])) {
        let ends = self.starts.iter().skip(1).map(|start| *start as usize);
        let ends = ends.chain([self.neighbours.len()]);
        for ((vertex, start), end) in self.vertices.iter().zip(self.starts.iter()).zip(ends) {
            visit(*vertex, &self.neighbours[*start as usize..end]);
        }
    }

    /// Adds a vertex with the union of two lists.
    pub(crate) fn union(&mut self, vertex: TermId, mut left: &[TermId], right: &[TermId]) {
        self.vertex(vertex);
        self.neighbours.reserve(left.len() + right.len());
        for id in right {
            let (below, rest) = left.split_at(gallop(left, *id));
            self.neighbours.extend(below);
            self.neighbours.push(*id);
            left = if rest.first() == Some(id) {
                &rest[1..]
            } else {
                rest
            };
        }
        self.neighbours.extend(left);
    }

    /// The edges of a predicate in a direction; `None` if there are none. Classes may be other
    /// shards' vertices; their instances are this shard's, and long lists of them have a fast
    /// membership test.
    pub(crate) fn finish(
        mut self,
        numbering: Numbering,
        direction: Direction,
        predicate: TermId,
        placement: Placement,
    ) -> Option<Edges> {
        let classes = direction == Direction::In && predicate == rdf_type();
        let owned = !classes || placement.shards() == 1;
        if self.vertices.is_empty() {
            return None;
        }
        assert!(
            u32::try_from(self.neighbours.len()).is_ok(),
            "a shard has fewer than 2^32 edges of one predicate"
        );
        let functional = self.vertices.len() == self.neighbours.len();
        self.starts.push(self.neighbours.len() as u32);
        let mut members = Vec::new();
        if classes {
            for (place, ends) in self.starts.windows(2).enumerate() {
                let list = &self.neighbours[ends[0] as usize..ends[1] as usize];
                if list.len() >= MEMBERS_FROM
                    && let Some(test) = Members::of(list, numbering)
                {
                    members.push((place as u32, test));
                }
            }
        }
        Some(Edges {
            vertices: Vertices::new(&self.vertices, numbering, owned),
            starts: if functional {
                Array::new()
            } else {
                self.starts.finish()
            },
            neighbours: self.neighbours.finish(),
            members: members.into(),
        })
    }
}
