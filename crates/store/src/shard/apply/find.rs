//! Finds the lists that half edges belong to, before any of them is changed. The memory that the
//! search for one list needs is fetched while others are searched for.
//!
//! Before changing anything here: a list that exists nowhere may get its cell already when it is
//! found. An empty cell says what no cell says, so readers see no difference.
#![allow(unsafe_code)]

use crate::half_edges::HalfEdge;
use crate::image::Edges;
use crate::lists::{Cell, Key, Segments};
use crate::shard::generation::Generation;
use crate::shard::writer::WriterState;
use rustc_hash::FxHashMap;
use somersault_dictionary::prefetch;
use somersault_model::{Direction, TermId};
use std::ptr::NonNull;

/// The numbers of lists ahead of its use at which the search fetches a key's slot, its cell, and
/// then, if there is none, the image's entry of the vertex, the place of the list, and the list.
const SLOT_AHEAD: usize = 24;
const CELL_AHEAD: usize = 18;
const VERTEX_AHEAD: usize = 13;
const PLACE_AHEAD: usize = 8;
const LIST_AHEAD: usize = 4;

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
    const NOWHERE: InImage<'a> = InImage::Found(&[]);

    /// Finds the place.
    #[inline]
    fn find(&mut self, vertex: TermId) {
        if let InImage::Among(edges) = *self {
            *self = match edges.vertices().place(vertex) {
                Some(place) => {
                    edges.prefetch_range(place);
                    InImage::At(edges, place)
                }
                None => InImage::NOWHERE,
            };
        }
    }

    /// Finds the list, which may be empty.
    #[inline]
    fn find_list(&mut self, vertex: TermId) -> &'a [TermId] {
        self.find(vertex);
        if let InImage::At(edges, place) = *self {
            let list = edges.list(place);
            prefetch(list.as_ptr());
            *self = InImage::Found(list);
        }
        match self {
            InImage::Found(list) => list,
            InImage::Among(_) | InImage::At(..) => &[],
        }
    }

    /// Whether there is no such list, as far as has been found.
    fn is_nowhere(self) -> bool {
        matches!(self, InImage::Found([]))
    }
}

/// A list that is about to be changed: the neighbours of a vertex along a predicate, or, behind
/// those of each vertex, its predicates.
pub(crate) struct Upcoming<'a> {
    key: Key,
    hash: u64,
    in_image: InImage<'a>,
    cell: Sought,
}

/// The cell of a list, once it has been looked up.
#[derive(Clone, Copy)]
enum Sought {
    NotYet,
    /// The change leaves the list as it is, so far as is known.
    NotNeeded,
    Found(Option<NonNull<Cell>>),
}

impl<'a> Upcoming<'a> {
    fn new(key: Key, in_image: InImage<'a>, cell: Sought) -> Upcoming<'a> {
        let hash = key.hash();
        Upcoming {
            key,
            hash,
            in_image,
            cell,
        }
    }

    /// The key.
    pub(super) fn key(&self) -> Key {
        self.key
    }

    /// The cell and, if there is none, the members in the image; `None` if that was not looked up.
    pub(super) fn found(&self) -> Option<(Option<NonNull<Cell>>, &'a [TermId])> {
        match (self.cell, self.in_image) {
            (Sought::Found(cell), InImage::Found(list)) => Some((cell, list)),
            (Sought::Found(Some(cell)), _) => Some((Some(cell), &[])),
            _ => None,
        }
    }

    /// The cell, if it was found.
    pub(super) fn cell(&self) -> Option<NonNull<Cell>> {
        match self.cell {
            Sought::Found(cell) => cell,
            Sought::NotYet | Sought::NotNeeded => None,
        }
    }

    fn is_of_predicates(&self) -> bool {
        self.key.predicate.is_unbound()
    }

    fn is_sought(&self) -> bool {
        matches!(self.cell, Sought::NotYet)
    }

    /// Looks the cell up, once.
    ///
    /// # Safety
    /// As for [`Segments::find`].
    #[inline]
    unsafe fn find_cell(&mut self, segments: &Segments) -> Option<NonNull<Cell>> {
        if let Sought::Found(cell) = self.cell {
            return cell;
        }
        // SAFETY: passed on.
        let cell = unsafe { segments.find_by(self.key, self.hash) }.map(NonNull::from);
        self.cell = Sought::Found(cell);
        cell
    }
}

/// The list that is looked up this number of lists after the one that a step finishes.
#[inline]
fn list_ahead<'l, 'a>(
    lists: &'l mut [Upcoming<'a>],
    step: usize,
    ahead: usize,
) -> Option<&'l mut Upcoming<'a>> {
    lists.get_mut((step + ahead).checked_sub(SLOT_AHEAD)?)
}

/// The edges of the image by predicate, each looked up once.
struct KnownEdges<'a> {
    generation: &'a Generation,
    label: (TermId, Direction),
    known: FxHashMap<TermId, InImage<'a>>,
}

impl<'a> KnownEdges<'a> {
    /// Where a list of this predicate would be.
    fn of(&mut self, predicate: TermId) -> InImage<'a> {
        let (generation, (graph, direction)) = (self.generation, self.label);
        *self.known.entry(predicate).or_insert_with(|| {
            let held = generation.image.held(graph, predicate, direction);
            held.map_or(InImage::NOWHERE, |held| InImage::Among(&held.edges))
        })
    }
}

/// Does for the lists behind the one that a step finishes what their search needs first. A list
/// that has a cell is not looked up in the image: the cell holds everything about it.
///
/// # Safety
/// The caller is the writer of this generation, the newest one, and frees nothing meanwhile.
#[inline]
unsafe fn look_ahead(
    lists: &mut [Upcoming<'_>],
    step: usize,
    generation: &Generation,
    has_empty: &mut bool,
) {
    let segments = &generation.segments;
    let of_edge = |list: &&mut Upcoming<'_>| !list.is_of_predicates();
    // SAFETY: passed on.
    unsafe {
        if let Some(list) = list_ahead(lists, step, SLOT_AHEAD).filter(of_edge) {
            segments.prefetch_slot(list.hash);
        }
        if let Some(list) = list_ahead(lists, step, CELL_AHEAD).filter(of_edge) {
            segments.prefetch_cell(list.hash);
        }
        if let Some(list) = list_ahead(lists, step, VERTEX_AHEAD).filter(of_edge)
            && list.find_cell(segments).is_none()
            && let InImage::Among(edges) = list.in_image
        {
            edges.vertices().prefetch(list.key.vertex);
        }
        if let Some(list) = list_ahead(lists, step, PLACE_AHEAD) {
            if list.is_of_predicates() {
                if *has_empty && matches!(list.cell, Sought::NotNeeded) {
                    list.cell = Sought::NotYet;
                    segments.prefetch_slot(list.hash);
                    generation.image.prefetch_predicates_of(list.key);
                }
                *has_empty = false;
            } else {
                *has_empty |= match list.find_cell(segments) {
                    Some(cell) => cell.as_ref().is_empty(),
                    None => {
                        list.in_image.find(list.key.vertex);
                        list.in_image.is_nowhere()
                    }
                };
            }
        }
        if let Some(list) = list_ahead(lists, step, LIST_AHEAD) {
            if list.is_of_predicates() {
                if list.is_sought() {
                    segments.prefetch_cell(list.hash);
                }
            } else if list.find_cell(segments).is_none() {
                list.in_image.find_list(list.key.vertex);
            }
        }
    }
}

/// The search in the newest generation of a shard, by its writer.
pub(crate) struct ListFinder<'a, 's> {
    generation: &'a Generation,
    state: &'s mut WriterState,
    /// Whether lists that exist nowhere get cells.
    makes_cells: bool,
}

impl<'a, 's> ListFinder<'a, 's> {
    /// # Safety
    /// As for [`ApplyPass::new`](super::ApplyPass::new).
    pub(crate) unsafe fn new(
        generation: &'a Generation,
        state: &'s mut WriterState,
        makes_cells: bool,
    ) -> ListFinder<'a, 's> {
        ListFinder {
            generation,
            state,
            makes_cells,
        }
    }

    /// Finds the lists of these half edges of a graph, which are sorted.
    pub(super) fn lists(
        &mut self,
        label: (TermId, Direction),
        sorted: &[HalfEdge],
        lists: &mut Vec<Upcoming<'a>>,
    ) {
        lists.clear();
        let mut edges = KnownEdges {
            generation: self.generation,
            label,
            known: FxHashMap::default(),
        };
        for of_vertex in sorted.chunk_by(|a, b| a.vertex == b.vertex) {
            let vertex = of_vertex[0].vertex;
            for of_list in of_vertex.chunk_by(|a, b| a.predicate == b.predicate) {
                let predicate = of_list[0].predicate;
                let key = Key::adjacency(label.0, vertex, predicate, label.1);
                lists.push(Upcoming::new(key, edges.of(predicate), Sought::NotYet));
            }
            let key = Key::predicates_of(label.0, vertex, label.1);
            lists.push(Upcoming::new(key, InImage::NOWHERE, Sought::NotNeeded));
        }
        self.find(lists);
    }

    /// Looks up what is not known. The predicates of a vertex are looked up if one of its lists is
    /// empty.
    fn find(&mut self, lists: &mut [Upcoming<'a>]) {
        let generation: &'a Generation = self.generation;
        let mut has_empty = false;
        for step in 0..lists.len() + SLOT_AHEAD {
            // SAFETY: this is the writer: no table and no cell is freed while it works.
            unsafe { look_ahead(lists, step, generation, &mut has_empty) };
            if let Some(list) = list_ahead(lists, step, 0) {
                self.finish(list);
            }
        }
    }

    /// Finds what is left of a list, and makes its cell if that is asked for.
    fn finish(&mut self, list: &mut Upcoming<'a>) {
        if matches!(list.cell, Sought::NotNeeded) {
            return;
        }
        let generation: &'a Generation = self.generation;
        // SAFETY: this is the writer: no table and no cell is freed while it works.
        if unsafe { list.find_cell(&generation.segments) }.is_some() || !self.makes_cells {
            return;
        }
        let is_empty = if list.is_of_predicates() {
            let mut scratch = Vec::new();
            generation.image.list(list.key, &mut scratch).is_empty()
        } else {
            list.in_image.find_list(list.key.vertex).is_empty()
        };
        if is_empty {
            let cell = self.state.new_cell(list.key);
            // SAFETY: this is the writer, and the cell is one of this generation.
            unsafe { self.state.insert_cell(generation, cell, list.key) };
            list.cell = Sought::Found(Some(cell));
        }
    }
}
