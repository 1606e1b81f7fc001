//! A generation as a reader beside the writer holds it for long: through a pin that it renews.
//!
//! A pin keeps all memory that was replaced since it was taken. A reader that walks a shard for
//! seconds would keep every version of those seconds. So between two portions of its walk, where
//! it borrows no list, it pins its SN again and drops the earlier pin. Cells live as long as their
//! generation, so it may keep pointers to them, but only while its SN is still read from the same
//! generation: a renewal may have published another one in which the SN looks the same.
#![allow(unsafe_code)]

use crate::lists::{Cell, Content};
use crate::shard::Shard;
use crate::shard::generation::Generation;
use crate::snapshots::{Pin, Snapshots};
use somersault_model::Sn;
use std::ptr::NonNull;
use std::sync::Arc;

/// The generation of one shard that an SN is read from, and a pin of that SN without a deadline.
pub(crate) struct PinnedGeneration {
    shard: Arc<Shard>,
    snapshots: Arc<Snapshots>,
    pin: Arc<Pin>,
    generation: NonNull<Generation>,
}

// SAFETY: the generation is shared between threads in any case, and the pin keeps it on each.
unsafe impl Send for PinnedGeneration {}

impl PinnedGeneration {
    /// The generation that the pin's SN, which is stable, is read from. The pin has no deadline.
    pub(crate) fn new(
        shard: &Arc<Shard>,
        snapshots: &Arc<Snapshots>,
        pin: Arc<Pin>,
    ) -> PinnedGeneration {
        // SAFETY: the pin is held as long as this value, or until `renew` finds the generation
        // through a newer one.
        let generation = NonNull::from(unsafe { shard.at(pin.sn) });
        PinnedGeneration {
            shard: Arc::clone(shard),
            snapshots: Arc::clone(snapshots),
            pin,
            generation,
        }
    }

    /// The SN that is read.
    pub(crate) fn sn(&self) -> u64 {
        self.pin.sn
    }

    /// The generation.
    pub(crate) fn get(&self) -> &Generation {
        // SAFETY: the pin was held when the generation was found, and is held now.
        unsafe { self.generation.as_ref() }
    }

    /// Whether no newer generation of the shard has been published.
    pub(crate) fn is_newest(&self) -> bool {
        // SAFETY: what is the newest generation under a pin is kept by that pin.
        let newest = unsafe { self.shard.at(u64::MAX) };
        newest.number == self.get().number
    }

    /// Pins the SN again and drops the earlier pin, so that memory replaced between the two can be
    /// freed. Returns whether the generation is the same; if not, pointers to cells are invalid.
    pub(crate) fn renew(&mut self) -> bool {
        let again = self.snapshots.pin(Some(Sn(self.pin.sn)), None);
        let again = again.expect("an SN that is pinned without a deadline can be pinned again");
        // SAFETY: the new pin is held from here on. If the writer unlinks this generation now, it
        // reads the number of the next pin afterwards, which is above that of the new pin.
        let found = NonNull::from(unsafe { self.shard.at(again.sn) });
        self.pin = again;
        let before = std::mem::replace(&mut self.generation, found);
        before == found
    }

    /// The content of a cell of the generation.
    ///
    /// # Safety
    /// The cell is one of this generation: it was found after the last `renew` that told of
    /// another one.
    pub(crate) unsafe fn content(&self, cell: NonNull<Cell>) -> Content<'_> {
        // SAFETY: cells live as long as their generation; what their words lead to is kept by the
        // pin for as long as this value is borrowed.
        unsafe { cell.as_ref().content() }
    }
}
