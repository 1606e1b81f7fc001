//! One SN's changes to one shard: from half edges to lists, index vertices and counts.
//!
//! Every list of the shard goes through [`ApplyPass::change`]. It keeps the two rules of the store:
//! only effective changes leave a trace (RDF is a set), and what a reader at an earlier SN sees
//! stays (a list born in this very SN may be rewritten, any other gets dates or a tail).
#![allow(unsafe_code)]

mod counts;
mod effective;
mod publish;

use self::effective::{keep_effective, length};
use crate::half_edges::{Group, HalfEdge};
use crate::image::{Edges, Vertices};
use crate::lists::Changes;
use crate::lists::Dated;
use crate::lists::{self, Folded, Retained};
use crate::lists::{Base, FLAT_LIMIT, FreshBase};
use crate::lists::{Cell, Content, Key, ListKind, Segments};
use crate::shard::applied::Applied;
use crate::shard::generation::Generation;
use crate::shard::writer::WriterState;
use rustc_hash::FxHashMap;
use somersault_dictionary::prefetch;
use somersault_model::{Direction, Operation, TermId};
use std::ptr::NonNull;

/// The numbers of lists ahead of its use at which the writer prefetches a key's slot, its cell, the
/// head of its content, and its members.
const SLOT_AHEAD: usize = 24;
const CELL_AHEAD: usize = 16;
const CONTENT_AHEAD: usize = 8;
const MEMBERS_AHEAD: usize = 4;

/// The writer at work on one SN.
pub(crate) struct ApplyPass<'a> {
    generation: &'a Generation,
    state: &'a mut WriterState,
    retained: &'a Retained,
    sn: u64,
    applied: Applied,
    /// The number of lists that were changed.
    touched: usize,
    /// The named graphs that appear or go with this SN, each with the operation that did it. Their
    /// list is changed once, by [`ApplyPass::finish`]: changed graph by graph, an SN with many new
    /// graphs would copy a growing list for each.
    graphs: FxHashMap<TermId, Operation>,
}

/// The known location of a list in the image.
#[derive(Clone, Copy)]
enum InImage<'a> {
    /// Among these edges, if it exists.
    Among(&'a Edges),
    /// At this place.
    At(&'a Edges, usize),
    /// The list itself.
    Found(&'a [TermId]),
}

impl<'a> InImage<'a> {
    /// Finds the place.
    #[inline]
    fn find(&mut self, vertex: TermId) {
        if let InImage::Among(edges) = *self {
            *self = match edges.vertices().place(vertex) {
                Some(place) => {
                    edges.prefetch_range(place);
                    InImage::At(edges, place)
                }
                None => InImage::Found(&[]),
            };
        }
    }

    /// Finds the list.
    #[inline]
    fn find_list(&mut self, vertex: TermId) {
        self.find(vertex);
        if let InImage::At(edges, place) = *self {
            let list = edges.list(place);
            prefetch(list.as_ptr());
            *self = InImage::Found(list);
        }
    }

    /// The list, which may be empty.
    #[inline]
    fn list(mut self, vertex: TermId) -> &'a [TermId] {
        self.find_list(vertex);
        match self {
            InImage::Found(list) => list,
            InImage::Among(_) | InImage::At(..) => &[],
        }
    }
}

/// A list that is changed soon, and where it is as far as that is known.
struct Upcoming<'a> {
    key: Key,
    hash: u64,
    in_image: InImage<'a>,
    cell: Sought,
}

/// The cell of a list, once it has been looked up.
#[derive(Clone, Copy)]
enum Sought {
    NotYet,
    Found(Option<NonNull<Cell>>),
}

impl Upcoming<'_> {
    /// Looks the cell up, once.
    ///
    /// # Safety
    /// As for [`Segments::find`].
    #[inline]
    unsafe fn cell(&mut self, segments: &Segments) -> Option<NonNull<Cell>> {
        if let Sought::Found(cell) = self.cell {
            return cell;
        }
        // SAFETY: passed on.
        let cell = unsafe { segments.find_by(self.key, self.hash) }.map(NonNull::from);
        self.cell = Sought::Found(cell);
        cell
    }
}

/// The effect of a change on a list.
#[derive(Clone, Copy, Default)]
struct ListChange {
    /// The number of members that were added or removed.
    effective: usize,
    /// Whether the list went from empty to not empty, or back.
    flipped: bool,
}

impl ListChange {
    /// The effect of effective changes on a list that had `before` members.
    fn by(effective: &Changes, before: usize) -> ListChange {
        let after = before.saturating_add_signed(effective.net());
        ListChange {
            effective: effective.len(),
            flipped: !effective.is_empty() && (before == 0) != (after == 0),
        }
    }
}

/// Whether each member of a change is known beforehand to be effective.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Certainty {
    Unknown,
    /// It is known: the members are the keys of lists that have just appeared or gone (ST-1).
    /// Looking them up in an index vertex with millions would be most of the cost of an SN.
    KnownEffective,
}

/// The effect of a group's edges on its graph as a whole.
#[derive(Default)]
struct Summary {
    /// By predicate: the vertices whose list flipped, ascending.
    vertices: FxHashMap<TermId, Vec<TermId>>,
    /// By predicate: the number of statements that were inserted or deleted.
    statements: FxHashMap<TermId, u64>,
}

impl<'a> ApplyPass<'a> {
    /// # Safety
    /// The state is that of the shard's one writer, and the generation is the shard's newest: the
    /// cells that the state makes, and those that wait to be folded, go with it. Nothing of it is
    /// freed in `'a`.
    pub(crate) unsafe fn new(
        generation: &'a Generation,
        state: &'a mut WriterState,
        retained: &'a Retained,
        sn: u64,
    ) -> ApplyPass<'a> {
        ApplyPass {
            generation,
            state,
            retained,
            sn,
            applied: Applied::default(),
            touched: 0,
            graphs: FxHashMap::default(),
        }
    }

    /// Applies the half edges of one graph and direction.
    pub(crate) fn group(&mut self, group: &Group, operation: Operation) {
        if group.edges.is_empty() {
            return;
        }
        let mut edges = std::mem::take(&mut self.state.edges);
        edges.clear();
        edges.extend_from_slice(&group.edges);
        // What was prepared is in ascending stretches, which the stable sort merges.
        edges.sort();
        let mut lists = self.lists_of(group, &edges);
        let mut at = 0;
        let mut summary = Summary::default();
        let (mut members, mut predicates) = (Vec::new(), Vec::new());
        for of_vertex in edges.chunk_by(|a, b| a.vertex == b.vertex) {
            let vertex = of_vertex[0].vertex;
            predicates.clear();
            for of_list in of_vertex.chunk_by(|a, b| a.predicate == b.predicate) {
                let predicate = of_list[0].predicate;
                self.look_ahead(&mut lists[at..]);
                let list = &mut lists[at];
                at += 1;
                members.clear();
                members.extend(of_list.iter().map(|edge: &HalfEdge| edge.neighbour));
                members.dedup();
                let touched = self.change_list(list, &members, operation);
                if touched.flipped {
                    predicates.push(predicate);
                    summary.vertices.entry(predicate).or_default().push(vertex);
                }
                if touched.effective > 0 && group.direction == Direction::Out {
                    *summary.statements.entry(predicate).or_default() += touched.effective as u64;
                }
            }
            if !predicates.is_empty() {
                let key = Key::predicates_of(group.graph, vertex, group.direction);
                self.change(key, &predicates, operation, Certainty::KnownEffective);
            }
        }
        self.state.edges = edges;
        self.state.edges.shrink_to(1 << 16);
        self.summarise(group.graph, group.direction, &summary, operation);
    }

    /// Deletes all statements of a graph, in both directions.
    pub(crate) fn clear(&mut self, graph: TermId) {
        for direction in [Direction::Out, Direction::In] {
            let edges = self.edges_of(graph, direction);
            let group = Group {
                graph,
                direction,
                edges,
            };
            self.group(&group, Operation::Delete);
        }
    }

    /// The half edges of one direction of a graph that the shard has now.
    fn edges_of(&self, graph: TermId, direction: Direction) -> Vec<HalfEdge> {
        let generation: &'a Generation = self.generation;
        let read = |key: Key| {
            let mut scratch = Vec::new();
            // SAFETY: this is the writer: nothing is freed while it works.
            unsafe { generation.read(u64::MAX, key, &mut scratch) }.to_vec()
        };
        let mut edges = Vec::new();
        for predicate in read(Key::predicates(graph, direction)) {
            for vertex in read(Key::index(graph, predicate, direction)) {
                let key = Key::adjacency(graph, vertex, predicate, direction);
                edges.extend(read(key).into_iter().map(|neighbour| HalfEdge {
                    vertex,
                    predicate,
                    neighbour,
                }));
            }
        }
        edges
    }

    /// The lists that these half edges of a group, which are sorted, belong to.
    fn lists_of(&self, group: &Group, sorted: &[HalfEdge]) -> Vec<Upcoming<'a>> {
        let generation: &'a Generation = self.generation;
        let mut known: FxHashMap<TermId, Option<&'a Edges>> = FxHashMap::default();
        let lists = sorted.chunk_by(|a, b| (a.vertex, a.predicate) == (b.vertex, b.predicate));
        let of = |list: &[HalfEdge]| {
            let HalfEdge {
                vertex, predicate, ..
            } = list[0];
            let key = Key::adjacency(group.graph, vertex, predicate, group.direction);
            let edges = *known.entry(predicate).or_insert_with(|| {
                let held = (generation.image).held(key.graph, predicate, key.direction);
                held.map(|held| &*held.edges)
            });
            Upcoming {
                key,
                hash: key.hash(),
                in_image: edges.map_or(InImage::Found(&[]), InImage::Among),
                cell: Sought::NotYet,
            }
        };
        lists.map(of).collect()
    }

    /// Prefetches the lists that are changed soon; the next one is the first.
    #[inline]
    fn look_ahead(&self, lists: &mut [Upcoming<'a>]) {
        let segments = &self.generation.segments;
        // SAFETY: this is the writer: no table and no content is freed while it works.
        unsafe {
            if let Some(list) = lists.get(SLOT_AHEAD) {
                segments.prefetch_slot(list.hash);
                if let InImage::Among(edges) = list.in_image {
                    edges.vertices().prefetch(list.key.vertex);
                }
            }
            if let Some(list) = lists.get_mut(CELL_AHEAD) {
                segments.prefetch_cell(list.hash);
                list.in_image.find(list.key.vertex);
            }
            if let Some(list) = lists.get_mut(CONTENT_AHEAD) {
                list.in_image.find_list(list.key.vertex);
                if let Some(cell) = list.cell(segments) {
                    cell.as_ref().prefetch_content();
                }
            }
            if let Some(list) = lists.get_mut(MEMBERS_AHEAD)
                && let Some(cell) = list.cell(segments)
            {
                cell.as_ref().prefetch_members();
            }
        }
    }

    /// Updates the index vertices and counts of a graph.
    fn summarise(
        &mut self,
        graph: TermId,
        direction: Direction,
        summary: &Summary,
        operation: Operation,
    ) {
        let mut flipped: Vec<TermId> = summary.vertices.keys().copied().collect();
        // The order of a hash map must not reach the store (S6).
        flipped.sort_unstable();
        flipped.retain(|predicate| {
            let key = Key::index(graph, *predicate, direction);
            let vertices = &summary.vertices[predicate];
            self.change(key, vertices, operation, Certainty::KnownEffective)
                .flipped
        });
        if !flipped.is_empty() {
            let key = Key::predicates(graph, direction);
            let whole = self
                .change(key, &flipped, operation, Certainty::KnownEffective)
                .flipped;
            if whole && direction == Direction::Out && graph != TermId::DEFAULT_GRAPH {
                self.note_graph(graph, operation);
            }
        }
        let mut total = 0;
        let mut counts: Vec<_> = summary.statements.iter().collect();
        counts.sort_unstable();
        for (predicate, statements) in counts {
            self.count(Key::count(graph, *predicate), *statements, operation);
            total += *statements;
        }
        if total > 0 {
            self.count(Key::count(graph, TermId::UNBOUND), total, operation);
            match operation {
                Operation::Insert => self.applied.inserted += total,
                Operation::Delete => self.applied.deleted += total,
            }
        }
    }

    /// Notes that a named graph has appeared or gone. A graph that goes and comes back in one SN,
    /// or the other way round, has not changed.
    fn note_graph(&mut self, graph: TermId, operation: Operation) {
        if self.graphs.remove(&graph).is_none() {
            self.graphs.insert(graph, operation);
        }
    }

    /// Changes the list of named graphs. Returns the effect of the whole pass and the number of
    /// lists that it changed.
    pub(crate) fn finish(mut self) -> (Applied, usize) {
        let graphs = std::mem::take(&mut self.graphs);
        for operation in [Operation::Delete, Operation::Insert] {
            let of_operation = graphs.iter().filter(|(_, noted)| **noted == operation);
            let mut ids: Vec<TermId> = of_operation.map(|(graph, _)| *graph).collect();
            if !ids.is_empty() {
                // The order of a hash map must not reach the store (S6).
                ids.sort_unstable();
                self.change(Key::graphs(), &ids, operation, Certainty::KnownEffective);
            }
        }
        (self.applied, self.touched)
    }

    /// Inserts into or deletes from one list; `ids` ascend without repeats.
    fn change(
        &mut self,
        key: Key,
        ids: &[TermId],
        operation: Operation,
        certainty: Certainty,
    ) -> ListChange {
        if key.kind() == ListKind::Index && self.image_index(key).is_some() {
            return self.change_index(key, ids, operation);
        }
        self.change_cell(key, None, ids, operation, certainty)
    }

    /// As [`ApplyPass::change`], for the neighbours of a vertex.
    fn change_list(
        &mut self,
        list: &mut Upcoming<'_>,
        ids: &[TermId],
        operation: Operation,
    ) -> ListChange {
        let key = list.key;
        if !key.is_adjacency() {
            return self.change(key, ids, operation, Certainty::Unknown);
        }
        // SAFETY: this is the writer: nothing is freed while it works.
        let cell = unsafe { list.cell(&self.generation.segments) };
        let in_image = Some(list.in_image.list(key.vertex));
        self.change_found((key, cell), in_image, ids, operation, Certainty::Unknown)
    }

    /// As [`ApplyPass::change`], for a key whose cell, once it exists, holds everything about it.
    fn change_cell(
        &mut self,
        key: Key,
        in_image: Option<&[TermId]>,
        ids: &[TermId],
        operation: Operation,
        certainty: Certainty,
    ) -> ListChange {
        // SAFETY: this is the writer: nothing is freed while it works.
        let cell = unsafe { self.generation.segments.find(key) }.map(NonNull::from);
        self.change_found((key, cell), in_image, ids, operation, certainty)
    }

    /// As [`ApplyPass::change_cell`], for a key whose cell has been looked up.
    fn change_found(
        &mut self,
        (key, cell): (Key, Option<NonNull<Cell>>),
        in_image: Option<&[TermId]>,
        ids: &[TermId],
        operation: Operation,
        certainty: Certainty,
    ) -> ListChange {
        let whole = ListChange {
            effective: ids.len(),
            flipped: true,
        };
        let Some(cell) = cell else {
            let mut scratch = Vec::new();
            let generation: &'a Generation = self.generation;
            let in_image = in_image.unwrap_or_else(|| generation.image.list(key, &mut scratch));
            if !in_image.is_empty() {
                return self.change_image(key, in_image, ids, operation, certainty);
            }
            if operation == Operation::Delete {
                return ListChange::default();
            }
            self.publish_new(key, ids);
            return whole;
        };
        // SAFETY: a cell of the newest generation, which is not freed in 'a; this is the writer, so
        // nothing of its content is freed while it works.
        let (cell, content) = unsafe { (cell.as_ref(), cell.as_ref().content()) };
        if matches!(content, Content::Nothing) {
            if operation == Operation::Delete {
                return ListChange::default();
            }
            self.note_change(NonNull::from(cell));
            self.publish_ids(cell, self.sn, ids);
            return whole;
        }
        let mut effective = std::mem::take(&mut self.state.effective);
        keep_effective(&content, ids, operation, certainty, &mut effective);
        let before = length(&content);
        let touched = ListChange::by(&effective, before);
        if touched.effective > 0 {
            self.touched += 1;
            self.note_change(NonNull::from(cell));
            let after = before.saturating_add_signed(effective.net());
            self.publish_changed(cell, &content, after, &effective);
        }
        self.state.effective = effective;
        touched
    }

    /// The first change of a list of the image: makes its cell.
    fn change_image(
        &mut self,
        key: Key,
        in_image: &[TermId],
        ids: &[TermId],
        operation: Operation,
        certainty: Certainty,
    ) -> ListChange {
        let block = Dated {
            born: 0,
            ids: in_image,
            dates: &[],
        };
        let content = Content::Block(block);
        let mut effective = std::mem::take(&mut self.state.effective);
        keep_effective(&content, ids, operation, certainty, &mut effective);
        let touched = ListChange::by(&effective, in_image.len());
        if touched.effective > 0 && self.is_dated(&content, &effective) {
            self.touched += 1;
            let cell = self.new_cell(key);
            // SAFETY: a cell of the newest generation, which is not freed in 'a.
            self.publish_dated(unsafe { cell.as_ref() }, block, &effective.inserts);
            self.insert(cell, key);
        } else if touched.effective > 0 {
            self.touched += 1;
            let base = if in_image.len() <= FLAT_LIMIT || key.kind() != ListKind::Adjacency {
                FreshBase::of(in_image)
            } else {
                // SAFETY: the neighbours of a vertex are borrowed from the image, and the list is
                // reached only through a cell of the image's generation, which is freed first.
                FreshBase::shared(unsafe { Base::of_image(in_image) })
            };
            self.state.live_bytes += base.bytes as isize;
            let cell = self.new_cell(key);
            // SAFETY: a cell of the newest generation, which is not freed in 'a.
            self.publish_tail(unsafe { cell.as_ref() }, 0, base.base, None, &effective);
            self.insert(cell, key);
        }
        self.state.effective = effective;
        touched
    }

    fn image_index(&self, key: Key) -> Option<&'a Vertices> {
        let generation: &'a Generation = self.generation;
        let image = &generation.image;
        let held = image.held(key.graph, key.predicate, key.direction)?;
        Some(held.edges.vertices())
    }

    /// Changes an index vertex of which the image has a part: the additions and removals are kept
    /// in lists of their own.
    fn change_index(&mut self, key: Key, ids: &[TermId], operation: Operation) -> ListChange {
        let Some(vertices) = self.image_index(key) else {
            return ListChange::default();
        };
        // SAFETY: this is the writer: nothing is freed while it works.
        let length = |this: &Self| unsafe { this.generation.len(u64::MAX, key) };
        let before = length(self);
        let (in_image, others): (Vec<TermId>, Vec<TermId>) =
            (ids.iter()).partition(|id| vertices.place(**id).is_some());
        let removed = Key::removed(key.graph, key.predicate, key.direction);
        let reverse = match operation {
            Operation::Insert => Operation::Delete,
            Operation::Delete => Operation::Insert,
        };
        if !others.is_empty() {
            self.change_cell(
                key,
                Some(&[]),
                &others,
                operation,
                Certainty::KnownEffective,
            );
        }
        if !in_image.is_empty() {
            self.change_cell(
                removed,
                Some(&[]),
                &in_image,
                reverse,
                Certainty::KnownEffective,
            );
        }
        ListChange {
            effective: ids.len(),
            flipped: (before == 0) != (length(self) == 0),
        }
    }

    fn publish_new(&mut self, key: Key, ids: &[TermId]) {
        let cell = self.new_cell(key);
        // SAFETY: a cell of the newest generation, which is not freed in 'a.
        self.publish_ids(unsafe { cell.as_ref() }, self.sn, ids);
        self.insert(cell, key);
        self.touched += 1;
    }

    /// A cell for a key that changes now and has none.
    fn new_cell(&mut self, key: Key) -> NonNull<Cell> {
        let cell = self.state.new_cell(key);
        self.note_change(cell);
        cell
    }

    /// Records that a cell of the newest generation is changed.
    #[inline]
    fn note_change(&mut self, cell: NonNull<Cell>) {
        // SAFETY: cells of the newest generation are alive, and this is the writer.
        unsafe { self.state.changes.add(cell) };
    }

    /// Lets readers find a cell that [`ApplyPass::new_cell`] has made.
    fn insert(&mut self, cell: NonNull<Cell>, key: Key) {
        self.generation.image.note(key);
        // SAFETY: this is the writer, which frees nothing while it works. The cell and all others
        // lie in the chunks of this generation, which are freed after its segments.
        let inserted = unsafe { self.generation.segments.insert(cell, key.hash()) };
        self.state.live_bytes += inserted.allocated as isize;
        if let Some(table) = inserted.replaced {
            self.state.retire_table(table);
        }
    }

    /// Folds up to `lists` waiting lists whose tails are all at or below the floor.
    pub(crate) fn fold_waiting(&mut self, lists: usize) {
        for _ in 0..lists {
            let Some((sn, cell)) = self.state.waiting.front().copied() else {
                return;
            };
            if sn > self.retained.floor {
                return;
            }
            self.state.waiting.pop_front();
            if let Some((_, ahead)) = self.state.waiting.get(CELL_AHEAD) {
                Cell::prefetch(ahead.as_ptr());
            }
            if let Some((_, ahead)) = self.state.waiting.get(CONTENT_AHEAD) {
                // SAFETY: what waits are cells of the newest generation: a new one begins with
                // none.
                unsafe { ahead.as_ref() }.prefetch_content();
            }
            // SAFETY: as above; the writer frees nothing while it works.
            let (cell, content) = unsafe { (cell.as_ref(), cell.as_ref().content()) };
            if let Content::List(list) = content
                && let Some(folded) = lists::fold(list, self.retained)
            {
                self.account_fold(&folded);
                self.publish_parts(cell, folded.born, folded.base.base, folded.tail);
            }
        }
    }

    /// Counts the allocations of a fold. The memory that it replaces is subtracted when it is
    /// freed.
    fn account_fold(&mut self, folded: &Folded) {
        let tails = (folded.tail.as_ref()).map_or(0, |tail| tail.chain_bytes());
        self.state.tail_bytes += tails;
        self.state.live_bytes += (folded.base.bytes + tails) as isize;
    }
}
