//! The state below a load, as the builder of an image reads it: an image and the cells beside it,
//! which the shard's writer leaves unchanged meanwhile.
#![allow(unsafe_code)]

use super::Image;
use crate::lists::{Cell, Key, Segments};
use somersault_model::TermId;
use std::ptr::NonNull;

/// An image and its cells, which nothing changes or frees while this exists.
#[derive(Clone, Copy)]
pub(crate) struct Frozen<'a> {
    image: &'a Image,
    segments: &'a Segments,
}

/// A cell of a frozen state.
#[derive(Clone, Copy)]
pub(crate) struct FrozenCell<'a>(&'a Cell);

impl<'a> Frozen<'a> {
    /// # Safety
    /// The caller is the writer, and neither changes nor frees anything in `'a`.
    pub(crate) unsafe fn new(image: &'a Image, segments: &'a Segments) -> Frozen<'a> {
        Frozen { image, segments }
    }

    pub(crate) fn image(self) -> &'a Image {
        self.image
    }

    /// Calls `visit` with every cell and its key.
    pub(crate) fn for_each_cell(self, mut visit: impl FnMut(Key, FrozenCell<'a>)) {
        // SAFETY: no table is freed meanwhile, and cells live as long as their generation.
        unsafe {
            self.segments.for_each(|cell| {
                visit(cell.key(), FrozenCell(NonNull::from(cell).as_ref()));
            });
        }
    }
}

impl FrozenCell<'_> {
    /// The current members of the list.
    pub(crate) fn ids<'b>(&'b self, scratch: &'b mut Vec<TermId>) -> &'b [TermId] {
        // SAFETY: nothing is freed in the lifetime of the frozen state.
        unsafe { self.0.content() }.read(u64::MAX, scratch)
    }

    /// The current number of members.
    pub(crate) fn len(&self) -> usize {
        // SAFETY: as above.
        unsafe { self.0.content() }.len(u64::MAX)
    }
}
