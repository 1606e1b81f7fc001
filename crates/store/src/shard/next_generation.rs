//! A generation in the making: an image that shows its shard at one SN, and the cells of the keys
//! that changed since. It has no reader before the shard's writer publishes it, so what is
//! replaced in it is freed at once, and its lists need no history.
//!
//! Keys are copied from the generation that is being replaced. Index vertices are not copied: their
//! additions and removals are relative to the image, and follow from the lists that came and went.
#![allow(unsafe_code)]

use crate::image::Image;
use crate::lists::ListKind;
use crate::lists::{Base, Cell, Changes, Content, Counter, FLAT_LIMIT, FreshBase, Key, List};
use crate::shard::generation::{CellChunks, Generation};
use rustc_hash::FxHashMap;
use somersault_model::{Direction, TermId};
use std::collections::BTreeMap;
use std::ptr::NonNull;

/// The SNs that a copy is about.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CopySpan {
    /// The SN that the new generation shows before the copy, for keys that it holds from earlier;
    /// `None` where it holds none.
    pub(crate) since: Option<u64>,
    /// The SN that it shows afterwards.
    pub(crate) sn: u64,
}

/// The generation, until it is published or given up.
pub(crate) struct NextGeneration {
    /// `None` after it was published.
    generation: Option<Box<Generation>>,
    cells: CellChunks,
    /// Bytes of cells, their tables and contents.
    bytes: isize,
    /// The number of half edges that were copied into cells.
    in_cells: usize,
    /// Per graph, predicate and direction: the vertices whose list came (`true`) or went since the
    /// index vertices were last changed.
    flipped: BTreeMap<(TermId, TermId, Direction), FxHashMap<TermId, bool>>,
}

/// The parts of a generation that is published.
pub(crate) struct NextParts {
    pub(crate) generation: Box<Generation>,
    pub(crate) cells: CellChunks,
    pub(crate) bytes: isize,
    pub(crate) in_cells: usize,
}

impl NextGeneration {
    /// A generation without cells.
    pub(crate) fn new(image: Image) -> NextGeneration {
        NextGeneration {
            generation: Some(Box::new(Generation::new(0, image, std::ptr::null_mut()))),
            cells: CellChunks::default(),
            bytes: 0,
            in_cells: 0,
            flipped: BTreeMap::new(),
        }
    }

    /// Copies a key as it is in the generation to be replaced. A key is copied at most once for a
    /// span with `since`: the changes of a long list are effective once.
    ///
    /// # Safety
    /// Pins keep the contents of `from` at both SNs of the span; or the caller is the writer, which
    /// may read beyond all SNs, and a pin keeps the first.
    pub(crate) unsafe fn copy(&mut self, from: &Generation, key: Key, span: CopySpan) {
        let mut scratch = Vec::new();
        // SAFETY: passed on, here and below.
        match key.kind() {
            ListKind::Index | ListKind::Removed => {}
            ListKind::Count => {
                if let Some(Content::Counter(counter)) = unsafe { from.content(key) } {
                    let (sn, value) = (counter.changed(span.sn), counter.at(span.sn));
                    self.set_count(
                        key,
                        Counter {
                            sn,
                            value,
                            older: None,
                        },
                    );
                }
            }
            ListKind::Adjacency => {
                let was = self.holds(key);
                let changes = match (unsafe { from.content(key) }, span.since) {
                    (Some(Content::List(list)), Some(since)) if list.base.len() > FLAT_LIMIT => {
                        list.changes_between(since, span.sn)
                    }
                    _ => None,
                };
                if let Some(changes) = changes {
                    self.change(key, &changes);
                } else {
                    let ids = unsafe { from.read(span.sn, key, &mut scratch) };
                    self.set(key, ids);
                }
                self.note_flip(key, was);
            }
            ListKind::PredicatesOf | ListKind::Predicates | ListKind::Graphs => {
                let ids = unsafe { from.read(span.sn, key, &mut scratch) };
                self.set(key, ids);
            }
        }
    }

    /// Brings the index vertices to what the lists copied since the last call say.
    pub(crate) fn settle(&mut self) {
        for ((graph, predicate, direction), flipped) in std::mem::take(&mut self.flipped) {
            let (mut came, mut went) = (Changes::default(), Changes::default());
            let held = self.generation().image.held(graph, predicate, direction);
            for (vertex, is) in flipped {
                let in_image =
                    held.is_some_and(|held| held.edges.vertices().place(vertex).is_some());
                let changed = match (in_image, is) {
                    (false, true) => &mut came.inserts,
                    (false, false) => &mut came.deletes,
                    (true, true) => &mut went.deletes,
                    (true, false) => &mut went.inserts,
                };
                changed.push(vertex);
            }
            // The order of a hash map must not reach the store (S6).
            for ids in [
                &mut came.inserts,
                &mut came.deletes,
                &mut went.inserts,
                &mut went.deletes,
            ] {
                ids.sort_unstable();
            }
            self.change(Key::index(graph, predicate, direction), &came);
            self.change(Key::removed(graph, predicate, direction), &went);
        }
    }

    /// The parts, to be published for readers from `born` on. `loaded` is the last SN that changed
    /// a count of which there is no cell.
    pub(crate) fn into_parts(mut self, born: u64, loaded: u64) -> NextParts {
        let generation = self.generation.take().expect("it is published once");
        NextParts {
            generation: generation.born_at(born, loaded),
            cells: std::mem::take(&mut self.cells),
            bytes: self.bytes,
            in_cells: self.in_cells,
        }
    }

    fn generation(&self) -> &Generation {
        self.generation.as_deref().expect("it is not published yet")
    }

    fn find(&self, key: Key) -> Option<NonNull<Cell>> {
        // SAFETY: no other thread knows this generation, and what is replaced in it is freed only
        // where it is no longer borrowed.
        unsafe { self.generation().segments.find(key) }.map(NonNull::from)
    }

    /// Whether a list has members.
    fn holds(&self, key: Key) -> bool {
        // SAFETY: as in `find`.
        unsafe { self.generation().len(u64::MAX, key) > 0 }
    }

    /// Notes whether a list came or went by a copy.
    fn note_flip(&mut self, key: Key, was: bool) {
        let is = self.holds(key);
        if was == is {
            return;
        }
        let of_label = (self.flipped)
            .entry((key.graph, key.predicate, key.direction))
            .or_default();
        if of_label.remove(&key.vertex).is_none() {
            of_label.insert(key.vertex, is);
        }
    }

    /// Makes a list have these members.
    fn set(&mut self, key: Key, ids: &[TermId]) {
        if self.find(key).is_none() {
            let mut scratch = Vec::new();
            if self.generation().image.list(key, &mut scratch) == ids {
                return;
            }
        }
        if key.is_adjacency() {
            self.in_cells += ids.len();
        }
        self.put(key, FreshBase::of(ids));
    }

    /// Changes the members of a list; the changes are effective.
    fn change(&mut self, key: Key, changes: &Changes) {
        if changes.is_empty() {
            return;
        }
        if key.is_adjacency() {
            self.in_cells += changes.len();
        }
        let folded = self.base(key).fold(changes);
        self.put(key, folded.unwrap_or_else(|| FreshBase::of(&[])));
    }

    /// The members of a list.
    fn base(&self, key: Key) -> Base {
        let Some(cell) = self.find(key) else {
            let mut scratch = Vec::new();
            let ids = self.generation().image.list(key, &mut scratch);
            if key.is_adjacency() && ids.len() > FLAT_LIMIT {
                // SAFETY: the neighbours of a vertex are borrowed from the image, and the list is
                // reached only through a cell of the image's generation, which is freed first.
                return unsafe { Base::of_image(ids) };
            }
            return Base::of(ids);
        };
        // SAFETY: as in `find`.
        unsafe {
            match cell.as_ref().content() {
                Content::One { id, .. } => Base::One([id]),
                Content::Block(_) => Base::Flat(cell.as_ref().block()),
                Content::List(list) => list.base.clone(),
                Content::Nothing | Content::Counter(_) => Base::of(&[]),
            }
        }
    }

    fn put(&mut self, key: Key, fresh: FreshBase) {
        self.bytes += fresh.bytes as isize;
        let cell = self.cell(key);
        // SAFETY: the cell lives as long as the generation, and no other thread knows it.
        let cell = unsafe { cell.as_ref() };
        // SAFETY: as above, for all publishing, and for freeing what it replaces.
        let freed = unsafe {
            let old = match fresh.base {
                Base::Flat(block) if block.is_empty() => {
                    self.bytes -= block.release() as isize;
                    cell.publish_nothing()
                }
                Base::Flat(block) => cell.publish_block(block),
                Base::One(one) => cell.publish_ids(0, &one),
                base => {
                    self.bytes += size_of::<List>() as isize;
                    let (born, tail) = (0, None);
                    cell.publish_list(List { born, base, tail })
                }
            };
            old.release()
        };
        self.bytes -= freed.bytes as isize;
    }

    fn set_count(&mut self, key: Key, counter: Counter) {
        self.bytes += counter.bytes() as isize;
        let cell = self.cell(key);
        // SAFETY: as in `put`.
        let freed = unsafe { cell.as_ref().publish_counter(counter).release() };
        self.bytes -= freed.bytes as isize;
    }

    /// The cell of a key; a new one leads to nothing.
    fn cell(&mut self, key: Key) -> NonNull<Cell> {
        if let Some(cell) = self.find(key) {
            return cell;
        }
        let (cell, allocated) = self.cells.new_cell(key);
        self.bytes += allocated as isize;
        let generation = self.generation();
        generation.image.note(key);
        // SAFETY: no other thread writes; the cells are freed with the generation, after its
        // segments.
        let inserted = unsafe { generation.segments.insert(cell, key.hash()) };
        self.bytes += inserted.allocated as isize;
        if let Some(replaced) = inserted.replaced {
            // SAFETY: made by Box::into_raw in `insert`, replaced once, and it has no reader.
            let table = unsafe { Box::from_raw(replaced.as_ptr()) };
            self.bytes -= table.bytes() as isize;
        }
        cell
    }
}

impl Drop for NextGeneration {
    fn drop(&mut self) {
        if let Some(generation) = self.generation.take() {
            let generation = NonNull::from(Box::leak(generation));
            // SAFETY: it comes from a box, its cells are these, and it has no reader.
            unsafe { Generation::free(generation, std::mem::take(&mut self.cells)) };
        }
    }
}
