//! One direction of a run: edges in columns, by predicate, vertex and neighbour. Two sides are
//! merged column by column in one pass over both; the edges of many small ones are sorted.

use somersault_model::{BatchNumber, TermId};
use std::cmp::{Ordering, Reverse};
use std::ops::Range;
use std::sync::OnceLock;

/// More sides than this, with no more edges each than that on average, are sorted: merging two has
/// a price even if they have no edge.
const FEW_SIDES: usize = 8;
const FEW_EDGES: usize = 64;

/// For the i-th predicate its vertices are `vertices[vertex_starts[i]..]`, for the j-th of all
/// vertices its neighbours are `neighbours[neighbour_starts[j]..]`, each up to the next start.
#[derive(Debug, Clone)]
pub(crate) struct EdgeColumns {
    pub(crate) predicates: Vec<TermId>,
    vertex_starts: Vec<u32>,
    vertices: Vec<TermId>,
    neighbour_starts: Starts,
    pub(crate) neighbours: Vec<TermId>,
    /// The newest batch of each edge; empty for a side of a single batch.
    newest: Vec<BatchNumber>,
    /// No edge's newest batch is before this one. For a side of one batch, that batch.
    oldest: BatchNumber,
    /// Made on the first request for the predicates of a vertex, which few queries make; a side
    /// merged from one that has it has it from the start.
    by_vertex: OnceLock<ByVertex>,
    /// Set once a read of this very side has asked for the index by vertex.
    asked: OnceLock<()>,
}

/// The start of each stretch of a column, and the end of the last: in two bytes each if that
/// suffices, which it does for most slices.
#[derive(Debug, Clone)]
enum Starts {
    Short(Vec<u16>),
    Long(Vec<u32>),
}

impl Starts {
    /// Room for `stretches` stretches of a column that is no longer than `longest`; the first one
    /// begins at 0.
    fn with_capacity(stretches: usize, longest: usize) -> Starts {
        let mut starts = if u16::try_from(longest).is_ok() {
            Starts::Short(Vec::with_capacity(stretches + 1))
        } else {
            Starts::Long(Vec::with_capacity(stretches + 1))
        };
        starts.push(0);
        starts
    }

    /// Adds a start. The column is no longer than announced, and has fewer than 2^32 members.
    #[inline]
    fn push(&mut self, at: usize) {
        match self {
            Starts::Short(starts) => starts.push(at as u16),
            Starts::Long(starts) => starts.push(at as u32),
        }
    }

    #[inline]
    fn get(&self, at: usize) -> usize {
        match self {
            Starts::Short(starts) => usize::from(starts[at]),
            Starts::Long(starts) => starts[at] as usize,
        }
    }

    #[inline]
    fn len(&self) -> usize {
        match self {
            Starts::Short(starts) => starts.len(),
            Starts::Long(starts) => starts.len(),
        }
    }

    #[inline]
    fn last(&self) -> usize {
        self.get(self.len() - 1)
    }

    /// The number of stretches that begin at a place or before it.
    fn count_up_to(&self, at: usize) -> usize {
        match self {
            Starts::Short(starts) => starts.partition_point(|start| usize::from(*start) <= at),
            Starts::Long(starts) => starts.partition_point(|start| *start as usize <= at),
        }
    }

    fn shrink_to_fit(&mut self) {
        match self {
            Starts::Short(starts) => starts.shrink_to_fit(),
            Starts::Long(starts) => starts.shrink_to_fit(),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Starts::Short(starts) => size_of_val(&**starts),
            Starts::Long(starts) => size_of_val(&**starts),
        }
    }
}

/// The same edges by vertex alone: every vertex once, with its predicates.
#[derive(Debug, Clone)]
struct ByVertex {
    vertices: Box<[TermId]>,
    starts: Box<[u32]>,
    predicates: Box<[TermId]>,
}

impl Default for EdgeColumns {
    fn default() -> EdgeColumns {
        EdgeColumns::with_capacity(0, 0)
    }
}

impl EdgeColumns {
    /// A side without edges, with room for this many.
    pub(crate) fn with_capacity(vertices: usize, edges: usize) -> EdgeColumns {
        EdgeColumns {
            predicates: Vec::new(),
            vertex_starts: vec![0],
            vertices: Vec::with_capacity(vertices),
            neighbour_starts: Starts::with_capacity(vertices, edges),
            neighbours: Vec::with_capacity(edges),
            newest: Vec::new(),
            oldest: BatchNumber(i64::MAX),
            by_vertex: OnceLock::new(),
            asked: OnceLock::new(),
        }
    }

    /// Adds an edge; edges come in order and without repeats. The batch is either that of all
    /// edges, or is stored per edge.
    pub(crate) fn push(&mut self, predicate: TermId, vertex: TermId, neighbour: TermId) {
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
    }

    /// Completes a side of one batch. Call it after the last edge.
    pub(crate) fn finish_batch(mut self, batch: BatchNumber) -> EdgeColumns {
        self.oldest = batch;
        self.finish()
    }

    fn finish(mut self) -> EdgeColumns {
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

    /// The newest batch of the edge at a place.
    #[inline]
    pub(crate) fn newest(&self, at: usize) -> BatchNumber {
        self.newest.get(at).copied().unwrap_or(self.oldest)
    }

    fn end_vertex(&mut self) {
        if self.neighbour_starts.len() == self.vertices.len() {
            self.neighbour_starts.push(self.neighbours.len());
        }
    }

    fn end_predicate(&mut self) {
        if self.vertex_starts.len() == self.predicates.len() {
            self.vertex_starts.push(self.vertices.len() as u32);
        }
    }

    /// The edges of all these sides, without those whose newest batch is before `from`. An edge of
    /// several sides gets the newest batch of all.
    pub(crate) fn merge(sides: &[&EdgeColumns], from: BatchNumber) -> EdgeColumns {
        match sides {
            [] => EdgeColumns::default(),
            [one] => EdgeColumns::merge_two(one, &EdgeColumns::default(), from),
            [left, right] => EdgeColumns::merge_two(left, right, from),
            [long, rest @ ..] => {
                // A window that slides has one long side and some short ones, which are joined
                // first.
                let edges: usize = rest.iter().map(|side| side.neighbours.len()).sum();
                let all = long.neighbours.len() + edges;
                let (left, right) = if long.neighbours.len() >= edges {
                    (&sides[..1], rest)
                } else if sides.len() > FEW_SIDES && all <= FEW_EDGES * sides.len() {
                    return EdgeColumns::sorted(sides, all, from);
                } else {
                    sides.split_at(sides.len() / 2)
                };
                let right = EdgeColumns::merge(right, from);
                match left {
                    [one] => EdgeColumns::merge_two(one, &right, from),
                    _ => EdgeColumns::merge_two(&EdgeColumns::merge(left, from), &right, from),
                }
            }
        }
    }

    /// As [`EdgeColumns::merge`], for sides that have `edges` edges together.
    fn sorted(sides: &[&EdgeColumns], edges: usize, from: BatchNumber) -> EdgeColumns {
        let mut all = Vec::with_capacity(edges);
        for side in sides {
            let edges = side.edges_in_order().zip(0..);
            let edges = edges.map(|(edge, at)| (edge, Reverse(side.newest(at))));
            all.extend(edges.filter(|(_, Reverse(newest))| *newest >= from));
        }
        // Ascending stretches, which the stable sort merges; of equal edges the newest comes first.
        all.sort();
        all.dedup_by_key(|(edge, _)| *edge);
        let mut out = EdgeColumns::with_capacity(all.len(), all.len());
        for ((predicate, vertex, neighbour), Reverse(newest)) in all {
            out.push(predicate, vertex, neighbour);
            out.newest.push(newest);
        }
        let oldest = sides.iter().map(|side| side.oldest).min();
        out.oldest = oldest.unwrap_or(from).max(from);
        let out = out.finish();
        sides.iter().for_each(|side| out.prepare_as(side));
        out
    }

    fn merge_two(left: &EdgeColumns, right: &EdgeColumns, from: BatchNumber) -> EdgeColumns {
        let mut out = EdgeColumns::with_capacity(
            left.vertices.len() + right.vertices.len(),
            left.neighbours.len() + right.neighbours.len(),
        );
        out.newest.reserve(out.neighbours.capacity());
        out.oldest = left.oldest.min(right.oldest).max(from);
        let (mut i, mut j) = (0, 0);
        loop {
            let (next_left, next_right) = (left.predicates.get(i), right.predicates.get(j));
            let Some(predicate) = next_left.into_iter().chain(next_right).min().copied() else {
                break;
            };
            let (mut these, mut those) = (0..0, 0..0);
            if next_left == Some(&predicate) {
                these = left.vertex_range(i);
                i += 1;
            }
            if next_right == Some(&predicate) {
                those = right.vertex_range(j);
                j += 1;
            }
            let before = out.vertices.len();
            out.merge_vertices((left, these), (right, those), from);
            if out.vertices.len() > before {
                out.predicates.push(predicate);
                out.vertex_starts.push(out.vertices.len() as u32);
            }
        }
        let out = out.finish();
        out.prepare_as(left);
        out.prepare_as(right);
        out
    }

    /// Makes the indexes that reads of another side have asked for: readers of a window have asked
    /// the one before, and no firing has to wait for it. A side that has an index only because of
    /// this call, without a read of its own, hands nothing on.
    pub(crate) fn prepare_as(&self, before: &EdgeColumns) {
        if before.asked.get().is_some() {
            self.by_vertex();
        }
    }

    /// Appends the edges of one predicate: those of a range of vertices of each side.
    fn merge_vertices(
        &mut self,
        (left, mut these): (&EdgeColumns, Range<usize>),
        (right, mut those): (&EdgeColumns, Range<usize>),
        from: BatchNumber,
    ) {
        while !these.is_empty() && !those.is_empty() {
            let (i, j) = (these.start, those.start);
            let order = left.vertices[i].cmp(&right.vertices[j]);
            if order.is_le() {
                these.start += 1;
            }
            if order.is_ge() {
                those.start += 1;
            }
            match order {
                Ordering::Less => self.take_vertex(left, i, from),
                Ordering::Greater => self.take_vertex(right, j, from),
                Ordering::Equal => {
                    self.merge_edges((left, left.edges(i)), (right, right.edges(j)), from);
                    self.add_vertex(left.vertices[i]);
                }
            }
        }
        these.for_each(|at| self.take_vertex(left, at, from));
        those.for_each(|at| self.take_vertex(right, at, from));
    }

    /// Appends a vertex with its edges.
    fn take_vertex(&mut self, side: &EdgeColumns, at: usize, from: BatchNumber) {
        self.take_edges(side, side.edges(at), from);
        self.add_vertex(side.vertices[at]);
    }

    /// Adds the vertex whose edges have just been appended, if there are any.
    fn add_vertex(&mut self, vertex: TermId) {
        let end = self.neighbours.len();
        if self.neighbour_starts.last() != end {
            self.vertices.push(vertex);
            self.neighbour_starts.push(end);
        }
    }

    /// Appends the edges of one vertex: those of a range of each side.
    fn merge_edges(
        &mut self,
        (left, mut these): (&EdgeColumns, Range<usize>),
        (right, mut those): (&EdgeColumns, Range<usize>),
        from: BatchNumber,
    ) {
        while !these.is_empty() && !those.is_empty() {
            let (i, j) = (these.start, those.start);
            let (a, b) = (left.neighbours[i], right.neighbours[j]);
            let mut newest = BatchNumber(i64::MIN);
            if a <= b {
                newest = left.newest(i);
                these.start += 1;
            }
            if b <= a {
                newest = newest.max(right.newest(j));
                those.start += 1;
            }
            if newest >= from {
                self.neighbours.push(a.min(b));
                self.newest.push(newest);
            }
        }
        self.take_edges(left, these, from);
        self.take_edges(right, those, from);
    }

    fn take_edges(&mut self, side: &EdgeColumns, edges: Range<usize>, from: BatchNumber) {
        let neighbours = &side.neighbours[edges.clone()];
        if side.newest.is_empty() {
            if side.oldest >= from {
                self.neighbours.extend_from_slice(neighbours);
                self.newest.resize(self.neighbours.len(), side.oldest);
            }
            return;
        }
        let newest = &side.newest[edges];
        if side.oldest >= from {
            self.neighbours.extend_from_slice(neighbours);
            self.newest.extend_from_slice(newest);
            return;
        }
        for (neighbour, newest) in neighbours.iter().zip(newest) {
            if *newest >= from {
                self.neighbours.push(*neighbour);
                self.newest.push(*newest);
            }
        }
    }

    /// The places of the vertices of a predicate, given by its place.
    pub(crate) fn vertex_range(&self, at: usize) -> Range<usize> {
        range(&self.vertex_starts, at)
    }

    /// The number of edges of these vertices.
    pub(crate) fn edge_count(&self, vertices: &Range<usize>) -> usize {
        self.neighbour_starts.get(vertices.end) - self.neighbour_starts.get(vertices.start)
    }

    fn edges(&self, vertex_at: usize) -> Range<usize> {
        self.neighbour_starts.get(vertex_at)..self.neighbour_starts.get(vertex_at + 1)
    }

    /// The places of a vertex's edges.
    #[inline]
    pub(crate) fn find(&self, vertex: TermId, predicate: TermId) -> Option<Range<usize>> {
        let at = self.predicates.binary_search(&predicate).ok()?;
        let vertices = self.vertex_range(at);
        let start = vertices.start;
        let at = self.vertices[vertices].binary_search(&vertex).ok()?;
        Some(self.edges(start + at))
    }

    /// The neighbours of a vertex, ascending.
    #[inline]
    pub(crate) fn neighbours(&self, vertex: TermId, predicate: TermId) -> &[TermId] {
        match self.find(vertex, predicate) {
            Some(range) => &self.neighbours[range],
            None => &[],
        }
    }

    /// The vertices that have an edge of this predicate, ascending.
    pub(crate) fn vertices_with(&self, predicate: TermId) -> &[TermId] {
        match self.predicates.binary_search(&predicate) {
            Ok(at) => &self.vertices[self.vertex_range(at)],
            Err(_) => &[],
        }
    }

    /// The vertices that have an edge of this predicate, ascending, each with its neighbours.
    pub(crate) fn lists_of(
        &self,
        predicate: TermId,
    ) -> impl Iterator<Item = (TermId, &[TermId])> + Clone {
        let at = self.predicates.binary_search(&predicate);
        let vertices = at.map_or(0..0, |at| self.vertex_range(at));
        vertices.map(|at| (self.vertices[at], &self.neighbours[self.edges(at)]))
    }

    /// The predicates of the edges of a vertex, ascending.
    pub(crate) fn predicates_of(&self, vertex: TermId) -> &[TermId] {
        let _ = self.asked.set(());
        let index = self.by_vertex();
        match index.vertices.binary_search(&vertex) {
            Ok(at) => &index.predicates[range(&index.starts, at)],
            Err(_) => &[],
        }
    }

    fn by_vertex(&self) -> &ByVertex {
        self.by_vertex.get_or_init(|| ByVertex::of(self))
    }

    /// All edges in order: predicate, vertex, neighbour.
    pub(crate) fn edges_in_order(&self) -> impl Iterator<Item = (TermId, TermId, TermId)> + '_ {
        (self.predicates.iter().enumerate()).flat_map(move |(at, predicate)| {
            self.vertex_range(at).flat_map(move |vertex_at| {
                let neighbours = self.neighbours[self.edges(vertex_at)].iter();
                neighbours.map(move |id| (*predicate, self.vertices[vertex_at], *id))
            })
        })
    }

    /// The edge at a place of [`EdgeColumns::edges_in_order`].
    pub(crate) fn edge(&self, at: usize) -> (TermId, TermId, TermId) {
        let vertex_at = self.neighbour_starts.count_up_to(at) - 1;
        let starts = &self.vertex_starts;
        let predicate_at = starts.partition_point(|start| *start as usize <= vertex_at) - 1;
        (
            self.predicates[predicate_at],
            self.vertices[vertex_at],
            self.neighbours[at],
        )
    }

    /// Size in memory in bytes. It grows when the index by vertex is made.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.predicates)
            + size_of_val(&*self.vertex_starts)
            + size_of_val(&*self.vertices)
            + self.neighbour_starts.bytes()
            + size_of_val(&*self.neighbours)
            + size_of_val(&*self.newest)
            + self.by_vertex.get().map_or(0, ByVertex::bytes)
    }
}

impl ByVertex {
    fn bytes(&self) -> usize {
        size_of_val(&*self.vertices) + size_of_val(&*self.starts) + size_of_val(&*self.predicates)
    }

    fn of(side: &EdgeColumns) -> ByVertex {
        let mut pairs: Vec<(TermId, TermId)> = Vec::with_capacity(side.vertices.len());
        for (at, predicate) in side.predicates.iter().enumerate() {
            let vertices = side.vertices[side.vertex_range(at)].iter();
            pairs.extend(vertices.map(|vertex| (*vertex, *predicate)));
        }
        // One ascending stretch per predicate: the stable sort merges them.
        pairs.sort();
        let (mut vertices, mut starts) = (Vec::new(), Vec::new());
        let mut start = 0;
        for of_vertex in pairs.chunk_by(|a, b| a.0 == b.0) {
            vertices.push(of_vertex[0].0);
            starts.push(start);
            start += of_vertex.len() as u32;
        }
        starts.push(start);
        ByVertex {
            vertices: vertices.into(),
            starts: starts.into(),
            predicates: pairs.iter().map(|pair| pair.1).collect(),
        }
    }
}

fn range(starts: &[u32], at: usize) -> Range<usize> {
    starts[at] as usize..starts[at + 1] as usize
}
