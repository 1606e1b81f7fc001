//! The hash table of a generation: 256 segments, each an open-addressing table of pointers to cells
//! that grows on its own by publishing a table twice as large, so that no single growth is long.
//! One thread inserts; any number look up meanwhile without a lock.
//!
//! The pointers are valid because the cells belong to the same generation, which frees them after
//! its segments (`Generation::free`). A thread that may read the segments, because a pin keeps the
//! generation or as the writer, may read the cells. A table that a larger one has replaced is freed
//! earlier, once no pin is left that may have seen it.
#![allow(unsafe_code)]

use crate::lists::cell::{Cell, Key};
use somersault_dictionary::prefetch;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

const SEGMENT_BITS: u32 = 8;
pub(crate) const SEGMENTS: usize = 1 << SEGMENT_BITS;
const FIRST_SLOTS: usize = 16;
/// The number of cells ahead of its use at which a growing table prefetches one.
const AHEAD: usize = 16;
/// Pointers use 48 bits; the rest of a slot holds bits of the hash, so that a lookup goes to
/// another key's cell once in 65,536 times.
const POINTER_BITS: u32 = 48;
const POINTER_MASK: usize = (1 << POINTER_BITS) - 1;

/// The slots of one segment: null, or a cell that lives as long as the segments.
pub(crate) struct Table {
    slots: Box<[AtomicPtr<Cell>]>,
    /// For the writer alone.
    used: AtomicUsize,
}

impl Table {
    fn new(slots: usize) -> Table {
        Table {
            slots: std::iter::repeat_with(AtomicPtr::default)
                .take(slots)
                .collect(),
            used: AtomicUsize::new(0),
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        size_of::<Table>() + size_of_val(&*self.slots)
    }

    /// # Safety
    /// The cells that were put into the table have not been freed.
    unsafe fn find(&self, key: Key, hash: u64) -> Option<NonNull<Cell>> {
        let mask = self.slots.len() - 1;
        let mut at = (hash as usize) & mask;
        loop {
            let slot = self.slots[at].load(Ordering::Acquire);
            if slot.is_null() {
                return None;
            }
            if slot.addr() >> POINTER_BITS == mark(hash) {
                let cell = NonNull::new(slot.map_addr(|a| a & POINTER_MASK))?;
                // SAFETY: a slot points to a cell that was given its key before it was published
                // with Release, and that is not freed, as the caller promises.
                if unsafe { cell.as_ref() }.has(key) {
                    return Some(cell);
                }
            }
            at = (at + 1) & mask;
        }
    }

    /// Puts a cell into a free slot, of which there is one; for one thread at a time. This does not
    /// read the cell: callers that do must guarantee that it is alive.
    fn put(&self, cell: NonNull<Cell>, hash: u64) {
        let cell = cell.as_ptr();
        assert!(
            cell.addr() & !POINTER_MASK == 0,
            "user memory has 48-bit addresses"
        );
        let marked = cell.map_addr(|a| a | mark(hash) << POINTER_BITS);
        let mask = self.slots.len() - 1;
        let mut at = (hash as usize) & mask;
        while !self.slots[at].load(Ordering::Relaxed).is_null() {
            at = (at + 1) & mask;
        }
        self.slots[at].store(marked, Ordering::Release);
        self.used.fetch_add(1, Ordering::Relaxed);
    }

    fn is_full(&self) -> bool {
        (self.used.load(Ordering::Relaxed) + 1) * 4 > self.slots.len() * 3
    }

    /// A table twice as large with the same cells.
    ///
    /// # Safety
    /// As for [`Table::find`].
    unsafe fn grown(&self) -> Table {
        let larger = Table::new(self.slots.len() * 2);
        let cell_of = |slot: &AtomicPtr<Cell>| {
            let slot = slot.load(Ordering::Relaxed);
            NonNull::new(slot.map_addr(|a| a & POINTER_MASK))
        };
        for (at, slot) in self.slots.iter().enumerate() {
            if let Some(ahead) = self.slots.get(at + AHEAD).and_then(cell_of) {
                Cell::prefetch(ahead.as_ptr());
            }
            if let Some(cell) = cell_of(slot) {
                // SAFETY: as in `find`.
                larger.put(cell, unsafe { cell.as_ref() }.key().hash());
            }
        }
        larger
    }
}

/// Sixteen bits of the hash that neither the segment nor, in tables of a usual size, the slot uses.
fn mark(hash: u64) -> usize {
    (hash >> 40) as usize & 0xffff
}

/// The tables of a generation.
pub(crate) struct Segments(Box<[AtomicPtr<Table>]>);

impl Segments {
    pub(crate) fn new() -> Segments {
        Segments(
            std::iter::repeat_with(AtomicPtr::default)
                .take(SEGMENTS)
                .collect(),
        )
    }

    /// Size in memory of all tables.
    ///
    /// # Safety
    /// As for [`Segments::find`].
    pub(crate) unsafe fn bytes(&self) -> usize {
        let table = |segment: &AtomicPtr<Table>| {
            // SAFETY: published with Release by `insert`, alive as the caller promises, or null.
            unsafe { segment.load(Ordering::Acquire).as_ref() }.map_or(0, Table::bytes)
        };
        self.0.iter().map(table).sum()
    }

    fn segment(&self, hash: u64) -> &AtomicPtr<Table> {
        &self.0[(hash >> (64 - SEGMENT_BITS)) as usize]
    }

    /// Prefetches the slot where the search for a key of this hash begins.
    ///
    /// # Safety
    /// As for [`Segments::find`].
    #[inline]
    pub(crate) unsafe fn prefetch_slot(&self, hash: u64) {
        // SAFETY: passed on.
        if let Some(slot) = unsafe { self.first_slot(hash) } {
            prefetch(slot);
        }
    }

    /// Prefetches the cell that the first slot of this hash leads to: most often the right one.
    ///
    /// # Safety
    /// As for [`Segments::find`].
    #[inline]
    pub(crate) unsafe fn prefetch_cell(&self, hash: u64) {
        // SAFETY: passed on.
        if let Some(slot) = unsafe { self.first_slot(hash) } {
            let cell = slot.load(Ordering::Relaxed);
            Cell::prefetch(cell.map_addr(|a| a & POINTER_MASK).cast_const());
        }
    }

    /// # Safety
    /// As for [`Segments::find`].
    #[inline]
    unsafe fn first_slot(&self, hash: u64) -> Option<&AtomicPtr<Cell>> {
        let table = self.segment(hash).load(Ordering::Acquire);
        // SAFETY: published with Release by `insert`, alive as the caller promises, or null.
        let table = unsafe { table.as_ref() }?;
        table.slots.get(hash as usize & (table.slots.len() - 1))
    }

    /// The cell of a key.
    ///
    /// # Safety
    /// Neither a table nor a cell of these segments is freed as long as `self` is borrowed: the
    /// caller holds a pin by which it came to this generation, or is the writer, or has the
    /// generation to itself.
    #[inline]
    pub(crate) unsafe fn find(&self, key: Key) -> Option<&Cell> {
        // SAFETY: passed on.
        unsafe { self.find_by(key, key.hash()) }
    }

    /// As [`Segments::find`], for a key whose hash is known.
    ///
    /// # Safety
    /// As for [`Segments::find`].
    #[inline]
    pub(crate) unsafe fn find_by(&self, key: Key, hash: u64) -> Option<&Cell> {
        let table = self.segment(hash).load(Ordering::Acquire);
        if table.is_null() {
            return None;
        }
        // SAFETY: published with Release by `insert`; it and the cells are alive as the caller
        // promises.
        unsafe { (*table).find(key, hash).map(|cell| cell.as_ref()) }
    }

    /// Puts a cell that has its key into the table, only where `find` found nothing.
    ///
    /// # Safety
    /// The caller is the one writer of these segments and frees no table meanwhile; all cells that
    /// were put in are there, and this one will be as long as anybody looks at the segments.
    pub(crate) unsafe fn insert(&self, cell: NonNull<Cell>, hash: u64) -> Inserted {
        let segment = self.segment(hash);
        let mut outcome = Inserted::default();
        let mut current = segment.load(Ordering::Relaxed);
        // SAFETY: a table is freed by the writer only, which is the caller, after it was replaced.
        let full = current.is_null() || unsafe { &*current }.is_full();
        if full {
            let larger = if current.is_null() {
                Table::new(FIRST_SLOTS)
            } else {
                // SAFETY: as above; the cells are there, as the caller promises.
                unsafe { (*current).grown() }
            };
            outcome.allocated = larger.bytes();
            outcome.replaced = NonNull::new(current);
            current = Box::into_raw(Box::new(larger));
            segment.store(current, Ordering::Release);
        }
        // SAFETY: as above, or just made.
        unsafe { (*current).put(cell, hash) };
        outcome
    }

    /// Calls `visit` with every cell.
    ///
    /// # Safety
    /// As for `find`.
    pub(crate) unsafe fn for_each(&self, mut visit: impl FnMut(&Cell)) {
        for segment in 0..SEGMENTS {
            // SAFETY: passed on.
            unsafe { self.for_each_of(segment, &mut visit) };
        }
    }

    /// Calls `visit` with every cell of the segment with this number, below [`SEGMENTS`].
    ///
    /// # Safety
    /// As for `find`.
    pub(crate) unsafe fn for_each_of(&self, segment: usize, mut visit: impl FnMut(&Cell)) {
        let table = self.0[segment].load(Ordering::Acquire);
        if table.is_null() {
            return;
        }
        // SAFETY: as in `find`.
        for slot in unsafe { &(*table).slots } {
            let slot = slot.load(Ordering::Acquire);
            if !slot.is_null() {
                // SAFETY: as in `find`.
                visit(unsafe { &*slot.map_addr(|a| a & POINTER_MASK) });
            }
        }
    }
}

impl Drop for Segments {
    fn drop(&mut self) {
        for segment in &mut self.0 {
            let table = *segment.get_mut();
            if !table.is_null() {
                // SAFETY: made by Box::into_raw in `insert`; `&mut self` means no reader is left.
                drop(unsafe { Box::from_raw(table) });
            }
        }
    }
}

/// The cost of an insertion.
#[derive(Default)]
pub(crate) struct Inserted {
    /// Bytes of a new table.
    pub(crate) allocated: usize,
    /// The table that the new one replaced: to be freed (`Box::from_raw`) once no reader is in it.
    pub(crate) replaced: Option<NonNull<Table>>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use somersault_model::{Direction, TermId};

    #[test]
    fn every_key_is_found_while_segments_grow() {
        let segments = Segments::new();
        let key = |n: u64| {
            let id = TermId::from_raw(n << 50 | n);
            Key::adjacency(
                TermId::DEFAULT_GRAPH,
                id,
                TermId::from_raw(9),
                Direction::In,
            )
        };
        let count = if cfg!(miri) { 8_000 } else { 50_000 };
        let cells: Vec<Cell> = (0..count)
            .map(|n| {
                let cell = Cell::default();
                cell.set_key(key(n));
                cell
            })
            .collect();
        let mut replaced = Vec::new();
        for cell in &cells {
            // SAFETY: this thread alone inserts, and the cells outlive all looks at the segments.
            let inserted = unsafe { segments.insert(NonNull::from(cell), cell.key().hash()) };
            replaced.extend(inserted.replaced);
        }
        for n in 0..count {
            // SAFETY: no table or cell has been freed yet.
            let found = unsafe { segments.find(key(n)) };
            assert!(found.is_some_and(|cell| std::ptr::eq(cell, &cells[n as usize])));
        }
        // SAFETY: as above.
        assert!(unsafe { segments.find(key(count)) }.is_none());
        let mut seen = 0;
        // SAFETY: as above.
        unsafe { segments.for_each(|_| seen += 1) };
        assert_eq!(seen, count);
        assert!(!replaced.is_empty());
        for table in replaced {
            // SAFETY: from Box::into_raw, replaced once, and no reader is left.
            drop(unsafe { Box::from_raw(table.as_ptr()) });
        }
    }
}
