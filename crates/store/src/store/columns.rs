//! Reads of whole columns of vertices, for heavy queries. A predicate is found once, then vertices
//! are taken a block at a time and each step is done for all of a block before the next. So the
//! machine waits for the memory of many vertices at once, not of one after the other.
#![allow(unsafe_code)]

use crate::image::{Edges, Instances};
use crate::lists::Key;
use crate::pace::Pace;
use crate::shard::Generation;
use crate::store::snapshot::{Ends, Snapshot};
use crate::store::walk::Walk;
use somersault_dictionary::prefetch;
use somersault_dictionary::rdf_type;
use somersault_model::{Direction, Placement, QuadIds, ShardId, TermId};
use std::cell::Cell;

/// The number of vertices that are looked up together; a bit of a word stands for each.
pub(crate) const BLOCK: usize = 64;
/// Sources of up to this many shards are kept without an allocation.
const INLINE: usize = 4;
/// A list of up to this many ids is searched rather than looked up from each vertex of the column.
const SHORT: usize = 64;

/// A longer scratch list is not kept.
const KEPT_SCRATCH: usize = 1 << 16;

thread_local! {
    /// The thread's buffer for lists that cannot be borrowed; kept, so that reading a few
    /// neighbours allocates nothing.
    static SCRATCH: Cell<Vec<TermId>> = const { Cell::new(Vec::new()) };
}

/// One predicate of one shard, at one SN.
#[derive(Clone, Copy)]
pub(crate) struct ShardColumn<'a> {
    generation: &'a Generation,
    edges: Option<&'a Edges>,
    /// Whether vertices may have cells, which are asked first.
    cells: bool,
}

/// One predicate of all shards.
pub(crate) struct Sources<'a> {
    placement: Placement,
    sn: u64,
    graph: TermId,
    predicate: TermId,
    direction: Direction,
    few: [Option<ShardColumn<'a>>; INLINE],
    many: Vec<ShardColumn<'a>>,
}

/// Lists of up to this many ids are copied one by one.
const FEW: usize = 8;

/// The lists found for the vertices of a block.
pub(crate) struct BlockLists<'a> {
    /// The lists that an image has.
    pub(crate) lists: [&'a [TermId]; BLOCK],
    /// By bit: the vertices that have a cell, whose lists are to be read from it.
    pub(crate) in_cells: u64,
}

impl<'a> BlockLists<'a> {
    pub(crate) fn new() -> BlockLists<'a> {
        BlockLists {
            lists: [&[]; BLOCK],
            in_cells: 0,
        }
    }
}

impl<'a> Sources<'a> {
    pub(crate) fn new(
        snapshot: &'a Snapshot,
        graph: TermId,
        predicate: TermId,
        direction: Direction,
    ) -> Sources<'a> {
        let mut sources = Sources {
            placement: snapshot.store().placement(),
            sn: snapshot.sn().0,
            graph,
            predicate,
            direction,
            few: [None; INLINE],
            many: Vec::new(),
        };
        let all = snapshot.sources().map(|source| {
            let (edges, cells) = source.edges(graph, predicate, direction);
            ShardColumn {
                generation: source.generation(),
                edges,
                cells,
            }
        });
        if usize::from(sources.placement.shards()) <= INLINE {
            for (place, source) in sources.few.iter_mut().zip(all) {
                *place = Some(source);
            }
        } else {
            sources.many.extend(all);
        }
        sources
    }

    #[inline]
    fn of(&self, shard: ShardId) -> Option<&ShardColumn<'a>> {
        if self.many.is_empty() {
            self.few[usize::from(shard.0) % INLINE].as_ref()
        } else {
            self.many.get(usize::from(shard.0))
        }
    }

    fn all(&self) -> impl Iterator<Item = &ShardColumn<'a>> {
        self.few.iter().flatten().chain(&self.many)
    }

    #[inline]
    fn owner(&self, vertex: TermId) -> Option<&ShardColumn<'a>> {
        self.of(self.placement.owner(vertex))
    }

    #[inline]
    fn key(&self, vertex: TermId) -> Key {
        Key::adjacency(self.graph, vertex, self.predicate, self.direction)
    }

    /// Looks up to [`BLOCK`] vertices up.
    #[inline]
    fn look_up(&self, vertices: &[TermId], found: &mut BlockLists<'a>) {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        if std::arch::is_x86_feature_detected!("popcnt") {
            // SAFETY: the machine has what the function was compiled for.
            unsafe { self.look_up_counting(vertices, found) };
            return;
        }
        self.look_up_anyhow(vertices, found);
    }

    /// As below, for machines that count bits in one instruction.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    #[target_feature(enable = "popcnt")]
    fn look_up_counting(&self, vertices: &[TermId], found: &mut BlockLists<'a>) {
        self.look_up_anyhow(vertices, found);
    }

    #[inline(always)]
    fn look_up_anyhow(&self, vertices: &[TermId], found: &mut BlockLists<'a>) {
        match self.few[0] {
            // With one shard the source of each vertex is known.
            Some(only) if self.placement.shards() == 1 => {
                self.look_up_in(|_| Some(only), vertices, found);
            }
            _ => self.look_up_in(|vertex| self.owner(vertex).copied(), vertices, found),
        }
    }

    #[inline(always)]
    fn look_up_in(
        &self,
        owner: impl Fn(TermId) -> Option<ShardColumn<'a>>,
        vertices: &[TermId],
        found: &mut BlockLists<'a>,
    ) {
        const NOWHERE: u32 = u32::MAX;
        assert!(vertices.len() <= BLOCK, "a block is looked up at a time");
        let mut places = [NOWHERE; BLOCK];
        found.in_cells = 0;
        for vertex in vertices {
            let Some(source) = owner(*vertex) else {
                continue;
            };
            if let Some(edges) = source.edges {
                edges.vertices().prefetch(*vertex);
            }
            if source.cells {
                // SAFETY: the snapshot that this is made from is a pin.
                unsafe {
                    (source.generation.segments).prefetch_slot(self.key(*vertex).hash());
                }
            }
        }
        for (at, (vertex, place)) in vertices.iter().zip(&mut places).enumerate() {
            let Some(source) = owner(*vertex) else {
                continue;
            };
            if source.cells {
                let key = self.key(*vertex);
                // SAFETY: as above.
                if key.is_adjacency()
                    && let Some(cell) = unsafe { source.generation.segments.find(key) }
                {
                    cell.prefetch_content();
                    found.in_cells |= 1 << at;
                    continue;
                }
            }
            if let Some(edges) = source.edges
                && let Some(of_vertex) = edges.vertices().place(*vertex)
            {
                edges.prefetch_range(of_vertex);
                // There are fewer than 2^32 vertices.
                *place = of_vertex as u32;
            }
        }
        for ((list, vertex), place) in found.lists.iter_mut().zip(vertices).zip(&places) {
            *list = &[];
            if *place != NOWHERE
                && let Some(edges) = owner(*vertex).and_then(|source| source.edges)
            {
                *list = edges.list(*place as usize);
                prefetch(list.as_ptr());
            }
        }
    }

    /// The list of a vertex that has a cell.
    fn of_cell<'b>(&'b self, vertex: TermId, scratch: &'b mut Vec<TermId>) -> &'b [TermId] {
        scratch.clear();
        match self.owner(vertex) {
            // SAFETY: the snapshot that this is made from is a pin.
            Some(source) => unsafe { source.generation.read(self.sn, self.key(vertex), scratch) },
            None => &[],
        }
    }
}

/// Appends a list, most often a short one.
#[inline]
fn append(ids: &mut Vec<TermId>, rows: &mut Vec<u32>, list: &[TermId], row: u32) {
    match list {
        [] => {}
        [one] => {
            ids.push(*one);
            rows.push(row);
        }
        list if list.len() <= FEW => {
            // A call of the copy routine would take longer.
            for id in list {
                ids.push(*id);
                rows.push(row);
            }
        }
        list => {
            ids.extend_from_slice(list);
            rows.resize(rows.len() + list.len(), row);
        }
    }
}

impl Snapshot {
    /// For each vertex in order: appends its neighbours to `ids` and, as often, `first_row` + the
    /// vertex's place to `rows`. Stops after the vertex with which `ids` has reached `wanted`.
    /// Returns the number of vertices done.
    #[allow(clippy::too_many_arguments, reason = "the parts of one hot loop")]
    pub fn expand(
        &self,
        graph: TermId,
        predicate: TermId,
        direction: Direction,
        vertices: &[TermId],
        first_row: u32,
        wanted: usize,
        rows: &mut Vec<u32>,
        ids: &mut Vec<TermId>,
    ) -> usize {
        let key = (graph, predicate, direction);
        let mut scratch = SCRATCH.take();
        let made = (rows, ids);
        let done = self.expand_with(key, vertices, first_row, wanted, made, &mut scratch);
        if scratch.capacity() <= KEPT_SCRATCH {
            SCRATCH.set(scratch);
        }
        done
    }

    fn expand_with(
        &self,
        (graph, predicate, direction): (TermId, TermId, Direction),
        vertices: &[TermId],
        first_row: u32,
        wanted: usize,
        (rows, ids): (&mut Vec<u32>, &mut Vec<TermId>),
        scratch: &mut Vec<TermId>,
    ) -> usize {
        if self.is_spread(predicate, direction) {
            for (at, vertex) in vertices.iter().enumerate() {
                let list = self.neighbours(graph, *vertex, predicate, direction, scratch);
                append(ids, rows, list, first_row + at as u32);
                if ids.len() >= wanted {
                    return at + 1;
                }
            }
            return vertices.len();
        }
        let sources = Sources::new(self, graph, predicate, direction);
        let mut found = BlockLists::new();
        let mut done = 0;
        for block in vertices.chunks(BLOCK) {
            sources.look_up(block, &mut found);
            for (at, vertex) in block.iter().enumerate() {
                let row = first_row + done as u32;
                done += 1;
                if found.in_cells >> at & 1 == 0 {
                    append(ids, rows, found.lists[at], row);
                } else {
                    append(ids, rows, sources.of_cell(*vertex, scratch), row);
                }
                if ids.len() >= wanted {
                    return done;
                }
            }
        }
        done
    }

    /// Appends `first_row` + place to `rows` for every place at which an edge leads from the
    /// subject to the object. At least one end is a column; columns have the same length.
    pub fn connected(
        &self,
        graph: TermId,
        predicate: TermId,
        subjects: Ends<'_>,
        objects: Ends<'_>,
        first_row: u32,
        rows: &mut Vec<u32>,
    ) {
        match (subjects, objects) {
            (Ends::Column(subjects), Ends::One(object)) => {
                let label = (graph, predicate, Direction::Out);
                self.connected_to(label, subjects, object, first_row, rows);
            }
            (Ends::One(subject), Ends::Column(objects)) => {
                let label = (graph, predicate, Direction::In);
                self.connected_to(label, objects, subject, first_row, rows);
            }
            (Ends::Column(subjects), Ends::Column(objects)) => {
                assert_eq!(subjects.len(), objects.len(), "columns are of one length");
                let label = (graph, predicate, Direction::Out);
                self.check(label, subjects, |at| objects[at], first_row, rows);
            }
            (Ends::One(subject), Ends::One(object)) => {
                let quad = QuadIds {
                    graph,
                    subject,
                    predicate,
                    object,
                };
                if self.contains(quad) {
                    rows.push(first_row);
                }
            }
        }
    }

    /// The vertices of a column that have an edge of this label to `other`.
    fn connected_to(
        &self,
        (graph, predicate, direction): (TermId, TermId, Direction),
        vertices: &[TermId],
        other: TermId,
        first_row: u32,
        rows: &mut Vec<u32>,
    ) {
        let reverse = direction.reverse();
        let length = self.neighbour_estimate(graph, other, predicate, reverse);
        if length == 0 {
            return;
        }
        if length <= SHORT {
            let mut scratch = Vec::new();
            let list = self.neighbours(graph, other, predicate, reverse, &mut scratch);
            let places = (first_row..).zip(vertices);
            let held = places.filter(|(_, vertex)| list.binary_search(vertex).is_ok());
            rows.extend(held.map(|(row, _)| row));
            return;
        }
        if predicate == rdf_type()
            && direction == Direction::Out
            && self.instances(graph, vertices, other, first_row, rows)
        {
            return;
        }
        if self.is_spread(predicate, direction) {
            let mut scratch = Vec::new();
            let list = self.neighbours(graph, other, predicate, reverse, &mut scratch);
            let places = (first_row..).zip(vertices);
            let held = places.filter(|(_, vertex)| list.binary_search(vertex).is_ok());
            rows.extend(held.map(|(row, _)| row));
            return;
        }
        let label = (graph, predicate, direction);
        self.check(label, vertices, |_| other, first_row, rows);
    }

    /// The type check by the list of the class. Returns false, with nothing done, if the list has
    /// changed since its image.
    fn instances(
        &self,
        graph: TermId,
        vertices: &[TermId],
        class: TermId,
        first_row: u32,
        rows: &mut Vec<u32>,
    ) -> bool {
        let sources = Sources::new(self, graph, rdf_type(), Direction::In);
        let mut few: [Option<Instances<'_>>; INLINE] = [None; INLINE];
        let shards = usize::from(sources.placement.shards());
        if shards > INLINE {
            return false;
        }
        for (instances, source) in few.iter_mut().zip(sources.all()) {
            // SAFETY: this is a pin.
            let cell = || unsafe { source.generation.segments.find(sources.key(class)) };
            if source.cells && cell().is_some() {
                return false;
            }
            *instances = source.edges.map(|edges| edges.instances(class));
        }
        for (row, vertex) in (first_row..).zip(vertices) {
            let shard = usize::from(sources.placement.owner(*vertex).0);
            if few[shard % INLINE].is_some_and(|instances| instances.has(*vertex)) {
                rows.push(row);
            }
        }
        true
    }

    /// The vertices of a column that have an edge to the vertex that `other` returns for their
    /// place.
    fn check(
        &self,
        (graph, predicate, direction): (TermId, TermId, Direction),
        vertices: &[TermId],
        other: impl Fn(usize) -> TermId,
        first_row: u32,
        rows: &mut Vec<u32>,
    ) {
        let sources = Sources::new(self, graph, predicate, direction);
        let mut found = BlockLists::new();
        let mut done = 0;
        for block in vertices.chunks(BLOCK) {
            sources.look_up(block, &mut found);
            for (at, vertex) in block.iter().enumerate() {
                let id = other(done);
                let held = if found.in_cells >> at & 1 == 0 {
                    match found.lists[at] {
                        [] => false,
                        [one] => *one == id,
                        list => list.binary_search(&id).is_ok(),
                    }
                } else {
                    let owner = sources.owner(*vertex);
                    owner.is_some_and(|source| {
                        // SAFETY: this is a pin.
                        unsafe {
                            (source.generation).contains(sources.sn, sources.key(*vertex), id)
                        }
                    })
                };
                if held {
                    rows.push(first_row + done as u32);
                }
                done += 1;
            }
        }
    }

    /// Appends the edges of a predicate, vertices ascending as in [`Snapshot::vertices_with`], for
    /// as long as the pace allows. Both columns have the same length.
    pub fn edges(
        &self,
        graph: TermId,
        predicate: TermId,
        direction: Direction,
        pace: &mut Pace<'_>,
        vertices: &mut Vec<TermId>,
        neighbours: &mut Vec<TermId>,
    ) {
        if self.is_spread(predicate, direction) {
            // A class may be on several shards: only merging them tells its place.
            let (mut index, mut list) = (Vec::new(), Vec::new());
            let starts = self.vertices_with(graph, predicate, direction, &mut index);
            for start in starts {
                if pace.ends(neighbours.len()) {
                    return;
                }
                let found = self.neighbours(graph, *start, predicate, direction, &mut list);
                neighbours.extend_from_slice(found);
                vertices.resize(neighbours.len(), *start);
            }
            return;
        }
        let sources = Sources::new(self, graph, predicate, direction);
        Walk::new(&sources, &mut Vec::new()).edges(pace, vertices, neighbours);
    }
}

/// The parts of its sources that a walk along an index vertex needs.
impl<'a> Sources<'a> {
    pub(crate) fn parts(&self) -> impl Iterator<Item = &ShardColumn<'a>> {
        self.all()
    }

    pub(crate) fn index_key(&self) -> Key {
        Key::index(self.graph, self.predicate, self.direction)
    }

    pub(crate) fn sn(&self) -> u64 {
        self.sn
    }

    /// The list of a vertex of this source that is not at a known place of its image.
    pub(crate) fn read<'b>(
        &self,
        source: &ShardColumn<'b>,
        vertex: TermId,
        scratch: &'b mut Vec<TermId>,
    ) -> &'b [TermId] {
        scratch.clear();
        // SAFETY: the snapshot that this is made from is a pin.
        unsafe { (source.generation).read(self.sn, self.key(vertex), scratch) }
    }
}

impl<'a> ShardColumn<'a> {
    pub(crate) fn generation(&self) -> &'a Generation {
        self.generation
    }

    pub(crate) fn image(&self) -> Option<&'a Edges> {
        self.edges
    }

    pub(crate) fn has_cells(&self) -> bool {
        self.cells
    }
}
