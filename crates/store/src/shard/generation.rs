//! A generation of a shard: an image, born at one SN, and the cells of all keys that changed since.
//! Most shards have one; a large load makes a new one with everything that there is, and the old
//! one stays, untouched, for readers of earlier SNs.
//!
//! A cell, once it exists, holds everything about its key, and the image's list is the base of its
//! content. Only index vertices have two lists: the vertices added, and the vertices removed.
#![allow(unsafe_code)]

use crate::image::{Image, PredicateEdges, Vertices};
use crate::lists::Freed;
use crate::lists::Segments;
use crate::lists::merge_into;
use crate::lists::{Cell, Content, Key, ListKind};
use somersault_model::TermId;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// The number of the next generation.
static NEXT_NUMBER: AtomicU64 = AtomicU64::new(1);

/// A method with an `sn` is for holders of a pin at that SN, throughout the call and as long as the
/// borrowed result is used; or for the writer, at any SN.
pub(crate) struct Generation {
    /// Differs from the numbers of all other generations of the process, freed ones too.
    pub(crate) number: u64,
    /// Readers below this SN read the older generation.
    pub(crate) born: u64,
    /// The last SN that changed a count of which there is no cell, at the latest.
    loaded: u64,
    pub(crate) image: Image,
    pub(crate) segments: Segments,
    /// Null if there is none, or if no reader may ask for it any more.
    pub(crate) older: AtomicPtr<Generation>,
}

/// Cells are made in chunks of this many.
const CELL_CHUNK: usize = 512;

/// The chunks in which the cells of a generation lie. The writer keeps them beside the generation,
/// and gives both to [`Generation::free`] together.
#[derive(Default)]
pub(crate) struct CellChunks {
    chunks: Vec<NonNull<[Cell]>>,
    /// The number of cells of the last chunk that have a key.
    used: usize,
}

// SAFETY: the cells are all atomics, and this value is their owner; it is tied to no thread.
unsafe impl Send for CellChunks {}

impl CellChunks {
    /// A new cell with this key, which is not in the table yet, and the number of bytes that were
    /// allocated for it.
    pub(crate) fn new_cell(&mut self, key: Key) -> (NonNull<Cell>, usize) {
        let mut allocated = 0;
        if self.used == CELL_CHUNK || self.chunks.is_empty() {
            let chunk: Box<[Cell]> = std::iter::repeat_with(Cell::default)
                .take(CELL_CHUNK)
                .collect();
            allocated = size_of_val(&*chunk);
            let chunk = NonNull::new(Box::into_raw(chunk)).expect("boxes are not null");
            self.chunks.push(chunk);
            self.used = 0;
        }
        let chunk = self.chunks[self.chunks.len() - 1];
        // SAFETY: the index is below the chunk's length.
        let cell = unsafe { chunk.cast::<Cell>().add(self.used) };
        self.used += 1;
        // SAFETY: the chunk is freed with this value's generation; cells are shared only (all
        // atomics).
        unsafe { cell.as_ref() }.set_key(key);
        (cell, allocated)
    }

    /// Whether there are no cells.
    pub(crate) fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// Calls `visit` with every cell, those without a key too.
    pub(crate) fn for_each(&self, mut visit: impl FnMut(NonNull<Cell>)) {
        for chunk in &self.chunks {
            for at in 0..chunk.len() {
                // SAFETY: the index is below the chunk's length.
                visit(unsafe { chunk.cast::<Cell>().add(at) });
            }
        }
    }

    /// Size in memory of the cells.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        self.chunks
            .iter()
            .map(|chunk| chunk.len() * size_of::<Cell>())
            .sum()
    }
}

/// The vertices of a predicate: those of the image, and the changes to them.
pub(crate) struct IndexParts<'a, 'b> {
    pub(crate) image: Option<&'a Vertices>,
    pub(crate) came: &'b [TermId],
    pub(crate) went: &'b [TermId],
}

impl Generation {
    /// A generation that holds everything in its image, born at an SN that may have changed
    /// anything.
    pub(crate) fn new(born: u64, image: Image, older: *mut Generation) -> Generation {
        Generation {
            number: NEXT_NUMBER.fetch_add(1, Ordering::Relaxed),
            born,
            loaded: born,
            image,
            segments: Segments::new(),
            older: AtomicPtr::new(older),
        }
    }

    /// The same generation, to be published for readers from `born` on, where `loaded` is the last
    /// SN that changed a count of which there is no cell.
    pub(crate) fn born_at(mut self: Box<Self>, born: u64, loaded: u64) -> Box<Generation> {
        self.born = born;
        self.loaded = loaded;
        self
    }

    /// The last SN that changed a count of which there is no cell, at the latest.
    pub(crate) fn loaded(&self) -> u64 {
        self.loaded
    }

    /// Size in memory without the cells and their tables, in bytes.
    pub(crate) fn own_bytes(&self) -> usize {
        size_of::<Generation>() + self.image.bytes()
    }

    /// The content of a key's cell, if it has one.
    ///
    /// # Safety
    /// As for [`Segments::find`].
    #[inline]
    pub(crate) unsafe fn content<'a>(&'a self, key: Key) -> Option<Content<'a>> {
        // SAFETY: the caller's promise is that of `find` and of `content`.
        unsafe { self.segments.find(key).map(|cell| cell.content()) }
    }

    #[inline]
    fn held(&self, key: Key) -> Option<&PredicateEdges> {
        self.image.held(key.graph, key.predicate, key.direction)
    }

    /// The members of a list at `sn`, ascending, borrowed where possible, else in `scratch`, which
    /// is empty.
    ///
    /// # Safety
    /// The caller holds a pin throughout `'a`.
    #[inline]
    pub(crate) unsafe fn read<'a>(
        &'a self,
        sn: u64,
        key: Key,
        scratch: &'a mut Vec<TermId>,
    ) -> &'a [TermId] {
        // SAFETY: passed on, here and below.
        unsafe {
            match key.kind() {
                ListKind::Adjacency => {
                    let held = self.held(key);
                    let unchanged = held.filter(|held| !held.is_changed());
                    if let Some(held) = unchanged {
                        return held.edges.of(key.vertex);
                    }
                    match self.content(key) {
                        Some(content) => content.read(sn, scratch),
                        None => held.map_or(&[], |held| held.edges.of(key.vertex)),
                    }
                }
                ListKind::Index => self.read_index(sn, key, scratch),
                _ => match self.content(key) {
                    Some(content) => content.read(sn, scratch),
                    None => self.image.list(key, scratch),
                },
            }
        }
    }

    /// # Safety
    /// As for [`Generation::read`].
    unsafe fn read_index<'a>(
        &'a self,
        sn: u64,
        key: Key,
        scratch: &'a mut Vec<TermId>,
    ) -> &'a [TermId] {
        let (mut came, mut went) = (Vec::new(), Vec::new());
        // SAFETY: passed on.
        let parts = unsafe { self.index_parts(sn, key, &mut came, &mut went) };
        let vertices = match parts.image {
            Some(vertices) => vertices,
            None => {
                // SAFETY: as above.
                let content = unsafe { self.content(key) };
                return content.map_or(&[], |content| content.read(sn, scratch));
            }
        };
        let whole = vertices.as_slice();
        if parts.came.is_empty() && parts.went.is_empty() {
            return match whole {
                Some(ids) => ids,
                None => {
                    vertices.write(0, vertices.len(), scratch);
                    scratch
                }
            };
        }
        let mut written = Vec::new();
        let base = whole.unwrap_or_else(|| {
            vertices.write(0, vertices.len(), &mut written);
            &written
        });
        merge_into(base, parts.came, parts.went, scratch);
        scratch
    }

    /// The parts of an index vertex. The lists of changes are borrowed or put into `came` and
    /// `went`, which are empty.
    ///
    /// # Safety
    /// As for [`Generation::read`].
    pub(crate) unsafe fn index_parts<'a: 'b, 'b>(
        &'a self,
        sn: u64,
        key: Key,
        came: &'b mut Vec<TermId>,
        went: &'b mut Vec<TermId>,
    ) -> IndexParts<'a, 'b> {
        let held = self.held(key);
        let image = held.map(|held| held.edges.vertices());
        if held.is_some_and(|held| !held.is_changed()) {
            return IndexParts {
                image,
                came: &[],
                went: &[],
            };
        }
        // SAFETY: passed on.
        let (added, removed) = unsafe {
            let removed = Key::removed(key.graph, key.predicate, key.direction);
            (self.content(key), self.content(removed))
        };
        IndexParts {
            image,
            came: added.map_or(&[], |content| content.read(sn, came)),
            went: removed.map_or(&[], |content| content.read(sn, went)),
        }
    }

    /// The number of members of a list at `sn`.
    ///
    /// # Safety
    /// As for [`Generation::read`].
    #[inline]
    pub(crate) unsafe fn len(&self, sn: u64, key: Key) -> usize {
        // SAFETY: passed on, here and below.
        let of_cell = |key| unsafe { self.content(key) }.map(|content| content.len(sn));
        match key.kind() {
            ListKind::Index => {
                let held = self.held(key);
                let image = held.map_or(0, |held| held.edges.vertices().len());
                if held.is_some_and(|held| !held.is_changed()) {
                    return image;
                }
                let removed = Key::removed(key.graph, key.predicate, key.direction);
                let (came, went) = (of_cell(key), of_cell(removed));
                // An expired pin may see numbers that do not match.
                (image + came.unwrap_or(0)).saturating_sub(went.unwrap_or(0))
            }
            ListKind::Adjacency => {
                let held = self.held(key);
                let unchanged = held.is_some_and(|held| !held.is_changed());
                match if unchanged { None } else { of_cell(key) } {
                    Some(length) => length,
                    None => held.map_or(0, |held| held.edges.of(key.vertex).len()),
                }
            }
            _ => match of_cell(key) {
                Some(length) => length,
                None => self.image.list(key, &mut Vec::new()).len(),
            },
        }
    }

    /// Whether the list of the neighbours of a vertex has this member at `sn`.
    ///
    /// # Safety
    /// As for [`Generation::read`].
    #[inline]
    pub(crate) unsafe fn contains(&self, sn: u64, key: Key, id: TermId) -> bool {
        let held = self.held(key);
        if held.is_none_or(PredicateEdges::is_changed) {
            // SAFETY: passed on.
            if let Some(content) = unsafe { self.content(key) } {
                return content.contains(sn, id);
            }
        }
        held.is_some_and(|held| match held.edges.of(key.vertex) {
            [one] => *one == id,
            ids => ids.binary_search(&id).is_ok(),
        })
    }

    /// A count at `sn`.
    ///
    /// # Safety
    /// As for [`Generation::read`].
    pub(crate) unsafe fn count(&self, sn: u64, key: Key) -> u64 {
        // SAFETY: passed on.
        match unsafe { self.content(key) } {
            Some(Content::Counter(counter)) => counter.at(sn),
            _ => self.image.count(key.graph, key.predicate),
        }
    }

    /// The last SN, at or below `sn`, that changed a count, as far as this generation knows; the SN
    /// of the last load if it knows none.
    ///
    /// # Safety
    /// As for [`Generation::read`].
    pub(crate) unsafe fn changed(&self, sn: u64, key: Key) -> u64 {
        // SAFETY: passed on.
        match unsafe { self.content(key) } {
            Some(Content::Counter(counter)) => self.loaded.max(counter.changed(sn)),
            _ => self.loaded,
        }
    }

    /// All keys of lists and index vertices that exist, in no order; their lists may be empty.
    ///
    /// # Safety
    /// As for [`Generation::read`].
    pub(crate) unsafe fn keys(&self) -> Vec<Key> {
        let mut keys = Vec::new();
        // SAFETY: passed on, here and below.
        self.image.for_each_key(|key| {
            if key.kind() == ListKind::Index || unsafe { self.segments.find(key) }.is_none() {
                keys.push(key);
            }
        });
        // SAFETY: as above.
        unsafe {
            self.segments.for_each(|cell: &Cell| {
                let key = cell.key();
                match key.kind() {
                    ListKind::Count | ListKind::Removed => {}
                    ListKind::Index if self.held(key).is_some() => {}
                    _ => keys.push(key),
                }
            });
        }
        keys
    }

    /// Frees a generation with all its cells. Returns the number of bytes freed.
    ///
    /// # Safety
    /// It comes from `Box::into_raw`, the chunks are its own, and no reader is left.
    pub(crate) unsafe fn free(generation: NonNull<Generation>, chunks: CellChunks) -> Freed {
        let mut freed = Freed::default();
        // SAFETY: the caller gives it up; words are taken out of their cells once, and cells are
        // freed after the last use of them.
        unsafe {
            let generation = Box::from_raw(generation.as_ptr());
            generation.segments.for_each(|cell| {
                freed += cell.publish_nothing().release();
            });
            freed.bytes += generation.segments.bytes() + generation.own_bytes();
            drop(generation);
            for chunk in chunks.chunks {
                let chunk = Box::from_raw(chunk.as_ptr());
                freed.bytes += size_of_val(&*chunk);
            }
        }
        freed
    }
}
