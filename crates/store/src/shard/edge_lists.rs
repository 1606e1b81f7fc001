//! The lists of edges of one generation at one SN, label by label and vertex by vertex, for readers
//! that walk a shard in portions while its writer goes on. A list comes from its cell, if it has
//! one, and from the image otherwise. A cell that a walk has missed was made after its SN, so the
//! image has the same.
#![allow(unsafe_code)]

use crate::half_edges::ListKey;
use crate::image::{Edges, Image, Label};
use crate::lists::{Cell, Key, ListKind, SEGMENTS};
use crate::shard::pinned::PinnedGeneration;
use somersault_model::{Direction, TermId};
use std::collections::{BTreeMap, BTreeSet};
use std::ptr::NonNull;
use std::sync::Arc;

/// The numbers of lists ahead of its use at which a walk prefetches a cell and its content.
const CELL_AHEAD: usize = 16;
const CONTENT_AHEAD: usize = 8;

/// A cell with the neighbours of a vertex.
#[derive(Clone, Copy)]
pub(crate) struct EdgeCell {
    vertex: TermId,
    cell: NonNull<Cell>,
}

// SAFETY: a pointer to a cell, which threads share; reading it needs the pinned generation.
unsafe impl Send for EdgeCell {}

impl EdgeCell {
    /// The vertex whose neighbours it holds.
    pub(crate) fn vertex(self) -> TermId {
        self.vertex
    }

    /// Whether all these cells hold fewer than `limit` edges.
    ///
    /// # Safety
    /// They are of this generation: see [`PinnedGeneration::content`].
    pub(crate) unsafe fn are_fewer_edges(
        cells: &[EdgeCell],
        at: &PinnedGeneration,
        limit: usize,
    ) -> bool {
        // SAFETY: passed on.
        let length = |cell: &EdgeCell| unsafe { at.content(cell.cell) }.len(at.sn());
        // Most hold an edge at least, so the sum reaches the limit soon.
        let mut sum = 0;
        cells.iter().all(|cell| {
            sum += length(cell);
            sum < limit
        })
    }
}

/// The cells of one direction, by label.
pub(crate) struct EdgeCells {
    direction: Direction,
    next_segment: usize,
    by_label: BTreeMap<Label, Vec<EdgeCell>>,
}

impl EdgeCells {
    /// No cells yet: those of all segments are to be collected.
    pub(crate) fn new(direction: Direction) -> EdgeCells {
        EdgeCells {
            direction,
            next_segment: 0,
            by_label: BTreeMap::new(),
        }
    }

    /// The direction of the edges.
    pub(crate) fn direction(&self) -> Direction {
        self.direction
    }

    /// Collects the cells of some more segments, about `most` cells. Calls `other` with the keys
    /// of cells that are no lists of edges of this direction. Returns whether there are more.
    pub(crate) fn collect(
        &mut self,
        at: &PinnedGeneration,
        most: usize,
        mut other: impl FnMut(Key),
    ) -> bool {
        let EdgeCells {
            direction,
            next_segment,
            by_label,
        } = self;
        let mut seen = 0;
        while *next_segment < SEGMENTS && seen < most {
            let visit = |cell: &Cell| {
                seen += 1;
                let key = cell.key();
                if key.kind() != ListKind::Adjacency || key.direction != *direction {
                    other(key);
                    return;
                }
                let of_label = by_label.entry((key.graph, key.predicate)).or_default();
                of_label.push(EdgeCell {
                    vertex: key.vertex,
                    cell: NonNull::from(cell),
                });
            };
            // SAFETY: the generation is pinned.
            unsafe { at.get().segments.for_each_of(*next_segment, visit) };
            *next_segment += 1;
        }
        *next_segment < SEGMENTS
    }

    /// The labels of these cells and of the image.
    pub(crate) fn labels(&self, image: &Image) -> BTreeSet<Label> {
        let mut labels: BTreeSet<Label> = image.labels(self.direction).collect();
        labels.extend(self.by_label.keys());
        labels
    }

    /// The vertices of these cells.
    pub(crate) fn vertices(&self) -> impl Iterator<Item = TermId> {
        self.by_label.values().flatten().map(|cell| cell.vertex)
    }

    /// Takes the cells of one label out, ascending by vertex.
    pub(crate) fn take(&mut self, label: Label) -> Vec<EdgeCell> {
        let mut cells = self.by_label.remove(&label).unwrap_or_default();
        cells.sort_unstable_by_key(|cell| cell.vertex);
        cells
    }
}

/// The lists of one label in one direction, in the order of their vertices.
pub(crate) struct LabelWalk {
    image: Option<Arc<Edges>>,
    cells: Vec<EdgeCell>,
    /// The next vertex of the image, and the next cell.
    next_place: usize,
    next_cell: usize,
}

impl LabelWalk {
    /// A walk over a label's edges in the image and these cells, which ascend by vertex; from the
    /// first vertex above `after` on.
    pub(crate) fn new(
        image: Option<Arc<Edges>>,
        cells: Vec<EdgeCell>,
        after: Option<TermId>,
    ) -> LabelWalk {
        let (mut next_place, mut next_cell) = (0, 0);
        if let Some(after) = after {
            next_place = image
                .as_ref()
                .map_or(0, |edges| edges.vertices().place_above(after));
            next_cell = cells.partition_point(|cell| cell.vertex <= after);
        }
        LabelWalk {
            image,
            cells,
            next_place,
            next_cell,
        }
    }

    /// Calls `visit` with the next vertices that have neighbours, and these; passes at most `most`
    /// vertices. Returns whether there are more.
    ///
    /// # Safety
    /// The cells are of this generation: see [`PinnedGeneration::content`].
    pub(crate) unsafe fn portion(
        &mut self,
        at: &PinnedGeneration,
        most: usize,
        mut visit: impl FnMut(TermId, &[TermId]),
    ) -> bool {
        let mut vertices = Vec::new();
        if let Some(edges) = &self.image {
            let end = self.next_place + most;
            edges.vertices().write(self.next_place, end, &mut vertices);
        }
        let mut scratch = Vec::new();
        let mut stretch = vertices.iter().peekable();
        for _ in 0..most {
            let of_image = stretch.peek().map(|vertex| **vertex);
            let cell = self.cells.get(self.next_cell).copied();
            let cell = cell.filter(|cell| of_image.is_none_or(|vertex| cell.vertex <= vertex));
            if of_image.is_some() && cell.is_none_or(|cell| Some(cell.vertex) == of_image) {
                stretch.next();
                self.next_place += 1;
            }
            match (cell, of_image, &self.image) {
                (Some(cell), ..) => {
                    self.look_ahead();
                    self.next_cell += 1;
                    scratch.clear();
                    // SAFETY: passed on.
                    let content = unsafe { at.content(cell.cell) };
                    let ids = content.read(at.sn(), &mut scratch);
                    if !ids.is_empty() {
                        visit(cell.vertex, ids);
                    }
                }
                (None, Some(vertex), Some(edges)) => {
                    visit(vertex, edges.list(self.next_place - 1));
                }
                _ => return false,
            }
        }
        true
    }

    /// Prefetches cells and contents that are read soon.
    fn look_ahead(&self) {
        if let Some(ahead) = self.cells.get(self.next_cell + CELL_AHEAD) {
            Cell::prefetch(ahead.cell.as_ptr());
        }
        if let Some(ahead) = self.cells.get(self.next_cell + CONTENT_AHEAD) {
            // SAFETY: cells live as long as their generation, which the walk's user has pinned.
            unsafe { ahead.cell.as_ref() }.prefetch_content();
        }
    }
}

/// All lists of edges of a shard at one SN, in the order of their keys, a portion at a time. It
/// goes on where it was if another generation has come to show the SN.
pub(crate) struct EdgeWalk {
    last: Option<ListKey>,
    cells: EdgeCells,
    /// The labels to come; `None` while cells are collected.
    labels: Option<BTreeSet<Label>>,
    walk: Option<(Label, LabelWalk)>,
}

impl EdgeWalk {
    /// A walk from the first list on.
    pub(crate) fn new() -> EdgeWalk {
        EdgeWalk::after(None)
    }

    fn after(last: Option<ListKey>) -> EdgeWalk {
        let direction = last.map_or(Direction::Out, |last| last.direction);
        EdgeWalk {
            last,
            cells: EdgeCells::new(direction),
            labels: None,
            walk: None,
        }
    }

    /// Calls `visit` with the next lists, at most `most` vertices of one label. Renews the pin.
    /// Returns whether there may be more.
    pub(crate) fn portion(
        &mut self,
        at: &mut PinnedGeneration,
        most: usize,
        visit: &mut dyn FnMut(ListKey, &[TermId]),
    ) -> bool {
        let more = self.step(at, most, visit);
        if more && !at.renew() {
            *self = EdgeWalk::after(self.last);
        }
        more
    }

    fn step(
        &mut self,
        at: &PinnedGeneration,
        most: usize,
        visit: &mut dyn FnMut(ListKey, &[TermId]),
    ) -> bool {
        let direction = self.cells.direction();
        let last = self.last.filter(|last| last.direction == direction);
        let Some(labels) = &mut self.labels else {
            if !self.cells.collect(at, most, |_| {}) {
                let mut labels = self.cells.labels(&at.get().image);
                if let Some(last) = last {
                    labels = labels.split_off(&(last.graph, last.predicate));
                }
                self.labels = Some(labels);
            }
            return true;
        };
        if self.walk.is_none() {
            let Some((graph, predicate)) = labels.pop_first() else {
                if direction == Direction::In {
                    return false;
                }
                self.cells = EdgeCells::new(Direction::In);
                self.labels = None;
                return true;
            };
            let same = last.filter(|last| (last.graph, last.predicate) == (graph, predicate));
            let held = at.get().image.held(graph, predicate, direction);
            let image = held.map(|held| Arc::clone(&held.edges));
            let cells = self.cells.take((graph, predicate));
            let walk = LabelWalk::new(image, cells, same.map(|last| last.vertex));
            self.walk = Some(((graph, predicate), walk));
        }
        let Some(((graph, predicate), walk)) = &mut self.walk else {
            return true;
        };
        let last = &mut self.last;
        let visit = |vertex, ids: &[TermId]| {
            let key = ListKey {
                direction,
                graph: *graph,
                predicate: *predicate,
                vertex,
            };
            *last = Some(key);
            visit(key, ids);
        };
        // SAFETY: the cells were collected in this generation: in another one the walk begins
        // again.
        if !unsafe { walk.portion(at, most, visit) } {
            self.walk = None;
        }
        true
    }
}
