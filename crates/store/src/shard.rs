//! One partition of the store as readers see it: keys, lists and counts at an SN, without a lock.
#![allow(unsafe_code)]

use crate::cell::{Cell, Content, Key};
use crate::table::Segments;
use crate::writer::WriterState;
use parking_lot::Mutex;
use somersault_model::{ShardId, TermId};
use std::sync::atomic::{AtomicU64, AtomicUsize};

/// One shard. Every method with an `sn` is for holders of a pin at that SN.
pub(crate) struct Shard {
    pub(crate) id: ShardId,
    pub(crate) segments: Segments,
    /// The last SN that the writer has applied.
    pub(crate) applied: AtomicU64,
    pub(crate) stored_bytes: AtomicUsize,
    pub(crate) retired_bytes: AtomicUsize,
    /// What the writer keeps from one generation to the next; taken while there is a writer.
    pub(crate) writer: Mutex<Option<Box<WriterState>>>,
}

impl Shard {
    pub(crate) fn new(id: ShardId) -> Shard {
        Shard {
            id,
            segments: Segments::new(),
            applied: AtomicU64::new(0),
            stored_bytes: AtomicUsize::new(0),
            retired_bytes: AtomicUsize::new(0),
            writer: Mutex::new(Some(Box::default())),
        }
    }

    /// # Safety
    /// The caller holds a pin, is the writer, or has the shard to itself, throughout `'a`.
    #[inline]
    unsafe fn content<'a>(&'a self, key: Key) -> Content<'a> {
        // SAFETY: the caller's promise is that of `find` and of `content`.
        unsafe {
            match self.segments.find(key) {
                Some(cell) => cell.content(),
                None => Content::Nothing,
            }
        }
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
        // SAFETY: passed on.
        match unsafe { self.content(key) } {
            Content::One { born, id } if born <= sn => {
                scratch.push(id);
                scratch
            }
            Content::Block { born, ids } if born <= sn => ids,
            Content::List(list) => list.read(sn, scratch),
            _ => &[],
        }
    }

    /// Appends the members of a list at `sn` to `out`.
    ///
    /// # Safety
    /// The caller holds a pin.
    pub(crate) unsafe fn append(&self, sn: u64, key: Key, out: &mut Vec<TermId>) {
        // SAFETY: passed on.
        match unsafe { self.content(key) } {
            Content::One { born, id } if born <= sn => out.push(id),
            Content::Block { born, ids } if born <= sn => out.extend_from_slice(ids),
            Content::List(list) => {
                let mut scratch = Vec::new();
                let ids = list.read(sn, &mut scratch);
                out.extend_from_slice(ids);
            }
            _ => {}
        }
    }

    /// How many members a list has at `sn`.
    ///
    /// # Safety
    /// The caller holds a pin.
    #[inline]
    pub(crate) unsafe fn len(&self, sn: u64, key: Key) -> usize {
        // SAFETY: passed on.
        match unsafe { self.content(key) } {
            Content::One { born, .. } if born <= sn => 1,
            Content::Block { born, ids } if born <= sn => ids.len(),
            Content::List(list) => list.len(sn),
            _ => 0,
        }
    }

    /// Whether a list has this member at `sn`.
    ///
    /// # Safety
    /// The caller holds a pin.
    #[inline]
    pub(crate) unsafe fn contains(&self, sn: u64, key: Key, id: TermId) -> bool {
        // SAFETY: passed on.
        match unsafe { self.content(key) } {
            Content::One { born, id: one } => born <= sn && one == id,
            Content::Block { born, ids } => born <= sn && ids.binary_search(&id).is_ok(),
            Content::List(list) => list.contains(sn, id),
            _ => false,
        }
    }

    /// A count at `sn`.
    ///
    /// # Safety
    /// The caller holds a pin.
    pub(crate) unsafe fn count(&self, sn: u64, key: Key) -> u64 {
        // SAFETY: passed on.
        match unsafe { self.content(key) } {
            Content::Counter(counter) => counter.at(sn),
            _ => 0,
        }
    }

    /// All keys that exist, in no order; their lists may be empty.
    ///
    /// # Safety
    /// The caller holds a pin.
    pub(crate) unsafe fn keys(&self) -> Vec<Key> {
        let mut keys = Vec::new();
        // SAFETY: passed on.
        unsafe { self.segments.for_each(|cell: &Cell| keys.push(cell.key())) };
        keys
    }
}

impl Drop for Shard {
    fn drop(&mut self) {
        // A writer that was lost in a panic has left its memory behind on purpose: it is leaked.
        let Some(mut writer) = self.writer.get_mut().take() else {
            return;
        };
        // SAFETY: snapshots and writers keep the store alive, so neither is left; the cells are
        // freed with the writer's state, after their words.
        unsafe {
            self.segments.for_each(|cell| {
                cell.publish_nothing().release();
            });
            writer.free_everything();
        }
    }
}
