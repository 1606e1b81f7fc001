//! One SN's changes to one shard: from half edges to lists, index vertices and counts.
//!
//! Every list of the shard goes through [`ApplyPass::change`]. It keeps the two rules of the store:
//! only effective changes leave a trace (RDF is a set), and what a reader at an earlier SN sees
//! stays (a list born in this very SN may be rewritten, any other gets dates or a tail).
#![allow(unsafe_code)]

mod counts;
mod effective;
mod find;
mod publish;

use self::effective::{keep_effective, length};
use self::find::{ListFinder, Upcoming};
use crate::half_edges::{Group, HalfEdge};
use crate::image::Vertices;
use crate::lists::Changes;
use crate::lists::Dated;
use crate::lists::{self, Folded, Retained};
use crate::lists::{Base, FLAT_LIMIT, FreshBase};
use crate::lists::{Cell, Content, Key, ListKind};
use crate::shard::applied::Applied;
use crate::shard::generation::Generation;
use crate::shard::writer::WriterState;
use crate::spread::append_sorted;
use rustc_hash::FxHashMap;
use somersault_model::{Direction, Operation, TermId};
use std::ptr::NonNull;

/// The numbers of lists ahead of its use at which the writer prefetches a cell, the head of its
/// content, and its members.
const CELL_AHEAD: usize = 16;
const CONTENT_AHEAD: usize = 8;
const MEMBERS_AHEAD: usize = 4;
/// The number of ids ahead at which their places in the image are prefetched.
const PLACE_AHEAD: usize = 16;
/// The number of half edges whose lists are found before the first of them is changed: what was
/// found stays in the nearest caches.
const PORTION: usize = 1024;

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

/// The number of the first half edges that are changed together: all of each vertex.
fn whole_vertices(sorted: &[HalfEdge]) -> usize {
    let Some(last) = sorted.get(PORTION - 1) else {
        return sorted.len();
    };
    let behind = |edge: &HalfEdge| edge.vertex <= last.vertex;
    PORTION + sorted[PORTION..].partition_point(behind)
}

/// Prefetches the lists that are changed soon; the next one is the first.
#[inline]
fn look_ahead(lists: &[Upcoming<'_>]) {
    let cell = |ahead: usize| lists.get(ahead).and_then(Upcoming::cell);
    if let Some(cell) = cell(CELL_AHEAD) {
        Cell::prefetch(cell.as_ptr());
    }
    // SAFETY: this is for the writer: no cell and no content is freed while it works.
    unsafe {
        if let Some(cell) = cell(CONTENT_AHEAD) {
            cell.as_ref().prefetch_content();
        }
        if let Some(cell) = cell(MEMBERS_AHEAD) {
            cell.as_ref().prefetch_members();
        }
    }
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
        append_sorted(&group.edges, &mut edges);
        let label = (group.graph, group.direction);
        let mut summary = Summary::default();
        let (mut lists, mut rest) = (Vec::new(), &edges[..]);
        while !rest.is_empty() {
            let portion = whole_vertices(rest);
            let (of_portion, others) = rest.split_at(portion);
            // SAFETY: this is the writer, as for this pass.
            let mut finder = unsafe {
                ListFinder::new(self.generation, self.state, operation == Operation::Insert)
            };
            finder.lists(label, of_portion, &mut lists);
            self.change_portion(of_portion, &lists, operation, &mut summary);
            rest = others;
        }
        self.state.edges = edges;
        self.state.edges.shrink_to(1 << 16);
        self.summarise(label.0, label.1, &summary, operation);
    }

    /// As [`ApplyPass::group`], for sorted half edges of some vertices whose lists have been found.
    fn change_portion(
        &mut self,
        edges: &[HalfEdge],
        lists: &[Upcoming<'a>],
        operation: Operation,
        summary: &mut Summary,
    ) {
        let mut at = 0;
        let (mut members, mut predicates) = (Vec::new(), Vec::new());
        for of_vertex in edges.chunk_by(|a, b| a.vertex == b.vertex) {
            let vertex = of_vertex[0].vertex;
            predicates.clear();
            for of_list in of_vertex.chunk_by(|a, b| a.predicate == b.predicate) {
                let predicate = of_list[0].predicate;
                look_ahead(&lists[at..]);
                let list = &lists[at];
                at += 1;
                members.clear();
                members.extend(of_list.iter().map(|edge| edge.neighbour));
                members.dedup();
                let touched = self.change_list(list, &members, operation);
                if touched.flipped {
                    predicates.push(predicate);
                    summary.vertices.entry(predicate).or_default().push(vertex);
                }
                if touched.effective > 0 && list.key().direction == Direction::Out {
                    *summary.statements.entry(predicate).or_default() += touched.effective as u64;
                }
            }
            look_ahead(&lists[at..]);
            let list = &lists[at];
            at += 1;
            if !predicates.is_empty() {
                let (key, certainty) = (list.key(), Certainty::KnownEffective);
                match list.cell() {
                    Some(cell) => self.change_found(
                        (key, Some(cell)),
                        None,
                        &predicates,
                        operation,
                        certainty,
                    ),
                    None => self.change(key, &predicates, operation, certainty),
                };
            }
        }
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

    /// As [`ApplyPass::change`], for a list that has been found.
    fn change_list(
        &mut self,
        list: &Upcoming<'_>,
        ids: &[TermId],
        operation: Operation,
    ) -> ListChange {
        let (key, certainty) = (list.key(), Certainty::Unknown);
        match list.found() {
            Some((cell, in_image)) if key.is_adjacency() => {
                self.change_found((key, cell), Some(in_image), ids, operation, certainty)
            }
            _ => self.change(key, ids, operation, certainty),
        }
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
            self.insert_cell(cell, key);
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
            self.insert_cell(cell, key);
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
        let (mut in_image, mut others) = (Vec::new(), Vec::new());
        for (at, id) in ids.iter().enumerate() {
            if let Some(ahead) = ids.get(at + PLACE_AHEAD) {
                vertices.prefetch(*ahead);
            }
            match vertices.place(*id) {
                Some(_) => in_image.push(*id),
                None => others.push(*id),
            }
        }
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
        self.insert_cell(cell, key);
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
    fn insert_cell(&mut self, cell: NonNull<Cell>, key: Key) {
        // SAFETY: this is the writer, and the cell is one of this generation.
        unsafe { self.state.insert_cell(self.generation, cell, key) };
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
