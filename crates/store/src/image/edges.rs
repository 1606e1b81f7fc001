//! All edges of one predicate in one direction: vertices in order, and the neighbours of each one
//! after another. If every vertex has one neighbour (a functional predicate) there are no offsets:
//! a vertex's place is that of its neighbour.

use super::vertices::{Members, Numbering, Vertices};
use crate::lists::gallop;
use crate::memory::Array;
use somersault_dictionary::rdf_type;
use somersault_model::{Direction, Placement, TermId};
use std::collections::VecDeque;
use std::ops::Range;

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

/// Pieces whose vertices ascend from one to the next; those that were taken are freed.
struct PiecesInOrder {
    pieces: VecDeque<EdgesBuilder>,
    /// The place in the first piece of the next vertex.
    at: usize,
}

impl PiecesInOrder {
    /// Appends the lists of the vertices below this one, or all, to `all`, and passes over its own.
    fn copy_below(&mut self, vertex: Option<TermId>, all: &mut EdgesBuilder) {
        while let Some(piece) = self.pieces.front() {
            let vertices = &piece.vertices[self.at..];
            let below = vertex.map_or(vertices.len(), |vertex| gallop(vertices, vertex));
            all.copy(piece, self.at..self.at + below);
            self.at += below;
            if let Some(next) = piece.vertices.get(self.at) {
                self.at += usize::from(Some(*next) == vertex);
                return;
            }
            self.pieces.pop_front();
            self.at = 0;
        }
    }
}

/// Takes ascending vertices with their ascending neighbours, and grows as needed.
pub(crate) struct EdgesBuilder {
    vertices: Array<TermId>,
    starts: Array<u32>,
    neighbours: Array<TermId>,
    /// The most edges that may come. Large arrays grow to this room at once, since only what is
    /// used of it takes memory.
    most: usize,
}

impl EdgesBuilder {
    /// A builder with room for this many edges.
    pub(crate) fn with_capacity(edges: usize) -> EdgesBuilder {
        EdgesBuilder {
            vertices: Array::with_capacity(edges),
            starts: Array::with_capacity(edges + 1),
            neighbours: Array::with_capacity(edges),
            most: 0,
        }
    }

    /// A builder without room, to which at most this many edges come.
    pub(crate) fn with_most(edges: usize) -> EdgesBuilder {
        EdgesBuilder {
            most: edges,
            ..EdgesBuilder::with_capacity(0)
        }
    }

    /// Gives back the room for further edges.
    pub(crate) fn settle(&mut self) {
        self.vertices.give_back(0);
        self.starts.give_back(1);
        self.neighbours.give_back(0);
    }

    /// Joins edges whose vertices ascend from one builder to the next.
    pub(crate) fn concatenated(mut pieces: Vec<EdgesBuilder>) -> EdgesBuilder {
        if pieces.len() == 1
            && let Some(only) = pieces.pop()
        {
            return only;
        }
        let edges = pieces.iter().map(EdgesBuilder::len).sum();
        let mut all = EdgesBuilder::with_capacity(edges);
        for piece in pieces {
            all.copy(&piece, 0..piece.vertices.len());
        }
        all
    }

    /// The lists of these pieces, whose vertices ascend from one to the next, except where later
    /// changes have the same vertex: of all lists of a vertex the last counts, and an empty one
    /// means that there is none.
    pub(crate) fn changed(pieces: Vec<EdgesBuilder>, changes: &[EdgesBuilder]) -> EdgesBuilder {
        if changes.is_empty() {
            return EdgesBuilder::concatenated(pieces);
        }
        let edges: usize = pieces.iter().chain(changes).map(EdgesBuilder::len).sum();
        let mut all = EdgesBuilder::with_capacity(edges);
        let mut pieces = PiecesInOrder {
            pieces: pieces.into(),
            at: 0,
        };
        let mut heads = vec![0; changes.len()];
        loop {
            let vertices = changes.iter().zip(&heads);
            let vertices = vertices.filter_map(|(edges, head)| edges.vertices.get(*head).copied());
            let lowest = vertices.min();
            pieces.copy_below(lowest, &mut all);
            let Some(lowest) = lowest else {
                return all;
            };
            let mut list: &[TermId] = &[];
            for (edges, head) in changes.iter().zip(&mut heads) {
                if edges.vertices.get(*head) == Some(&lowest) {
                    list = edges.list_at(*head);
                    *head += 1;
                }
            }
            if !list.is_empty() {
                all.list(lowest, list);
            }
        }
    }

    /// Appends the lists at these places of another builder, whose vertices are higher.
    fn copy(&mut self, from: &EdgesBuilder, places: Range<usize>) {
        let start = |place: usize| match from.starts.get(place) {
            Some(start) => *start as usize,
            None => from.neighbours.len(),
        };
        let (first, end) = (start(places.start), start(places.end));
        let before = self.neighbours.len();
        self.vertices.reserve(places.len());
        self.vertices.extend(&from.vertices[places.clone()]);
        // Room for the end of the last, too.
        self.starts.reserve(places.len() + 1);
        for start in &from.starts[places] {
            self.starts.push((before + *start as usize - first) as u32);
        }
        self.neighbours.reserve(end - first);
        self.neighbours.extend(&from.neighbours[first..end]);
    }

    /// Merges edges whose vertices are in any order from one builder to the next; the lists of the
    /// same vertex become one. `None` if two builders have the same edge.
    pub(crate) fn merged(mut builders: Vec<EdgesBuilder>) -> Option<EdgesBuilder> {
        if builders.len() <= 1 {
            return Some(
                builders
                    .pop()
                    .unwrap_or_else(|| EdgesBuilder::with_capacity(0)),
            );
        }
        let edges = builders.iter().map(EdgesBuilder::len).sum();
        let mut all = EdgesBuilder::with_capacity(edges);
        let mut heads = vec![0; builders.len()];
        let mut list = Vec::new();
        loop {
            let at = builders.iter().zip(&heads);
            let vertices = at.filter_map(|(builder, head)| builder.vertices.get(*head).copied());
            let Some(lowest) = vertices.min() else {
                return Some(all);
            };
            list.clear();
            for (builder, head) in builders.iter().zip(&mut heads) {
                if builder.vertices.get(*head) == Some(&lowest) {
                    list.extend_from_slice(builder.list_at(*head));
                    *head += 1;
                }
            }
            list.sort_unstable();
            if list.windows(2).any(|pair| pair[0] == pair[1]) {
                return None;
            }
            all.list(lowest, &list);
        }
    }

    /// The neighbours of the vertex at a place.
    fn list_at(&self, place: usize) -> &[TermId] {
        let end = self
            .starts
            .get(place + 1)
            .map_or(self.neighbours.len(), |end| *end as usize);
        &self.neighbours[self.starts[place] as usize..end]
    }

    /// Adds a vertex, whose neighbours follow.
    #[inline]
    pub(crate) fn vertex(&mut self, vertex: TermId) {
        self.vertices.reserve_of(1, self.most);
        self.starts.reserve_of(2, self.most + 1);
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
    #[inline]
    pub(crate) fn list(&mut self, vertex: TermId, neighbours: &[TermId]) {
        self.vertex(vertex);
        self.neighbours.reserve_of(neighbours.len(), self.most);
        self.neighbours.extend(neighbours);
    }

    /// The number of edges so far.
    pub(crate) fn len(&self) -> usize {
        self.neighbours.len()
    }

    /// Calls `visit` with each vertex and its neighbours.
    pub(crate) fn for_each(&self, mut visit: impl FnMut(TermId, &[TermId])) {
        for (place, vertex) in self.vertices.iter().enumerate() {
            visit(*vertex, self.list_at(place));
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
