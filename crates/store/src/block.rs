//! A short or long immutable run of ids behind one thin pointer, counted. Most lists of the store
//! are one of these and nothing else; 16 bytes of head, then the ids.
#![allow(unsafe_code)]

use somersault_model::TermId;
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering, fence};

#[repr(C)]
struct Head {
    references: AtomicU32,
    length: u32,
    born: u64,
}

const HEAD_BYTES: usize = size_of::<Head>();

/// Ascending ids that came to be at one SN. Cloning counts a reference.
pub(crate) struct Block(NonNull<Head>);

// SAFETY: the content is immutable and the count is atomic, as in `Arc<[TermId]>`.
unsafe impl Send for Block {}
// SAFETY: as above.
unsafe impl Sync for Block {}

impl Block {
    /// A copy of these ids, born at SN `born`.
    pub(crate) fn new(born: u64, ids: &[TermId]) -> Block {
        let length = u32::try_from(ids.len()).expect("a list has fewer than 2^32 members");
        let layout = layout(ids.len());
        // SAFETY: the layout is never of size zero. The head and all ids are written before the
        // block is made, and the memory holds exactly them.
        unsafe {
            let Some(head) = NonNull::new(alloc(layout).cast::<Head>()) else {
                handle_alloc_error(layout)
            };
            head.write(Head {
                references: AtomicU32::new(1),
                length,
                born,
            });
            let start = head.add(1).cast::<TermId>();
            start.copy_from_nonoverlapping(NonNull::from(ids).cast(), ids.len());
            Block(head)
        }
    }

    /// Gives the reference away as a pointer (aligned to eight).
    pub(crate) fn into_raw(self) -> *mut u8 {
        let pointer = self.0.as_ptr().cast();
        std::mem::forget(self);
        pointer
    }

    /// Where the block begins.
    pub(crate) fn as_ptr_of_head(&self) -> *const u8 {
        self.0.as_ptr().cast_const().cast()
    }

    /// Takes back the reference of `into_raw`.
    ///
    /// # Safety
    /// `pointer` comes from `into_raw`, and nobody else takes the same reference back.
    pub(crate) unsafe fn from_raw(pointer: *mut u8) -> Block {
        // SAFETY: `into_raw` gives no null pointers.
        Block(unsafe { NonNull::new_unchecked(pointer.cast()) })
    }

    /// Looks at the block behind a pointer without counting: its SN and its ids.
    ///
    /// # Safety
    /// `pointer` comes from `into_raw`, and its reference is not taken back and dropped in `'a`.
    pub(crate) unsafe fn look<'a>(pointer: *mut u8) -> (u64, &'a [TermId]) {
        let head = pointer.cast::<Head>();
        // SAFETY: the head and its ids are alive and immutable for 'a, as the caller promises.
        unsafe {
            let ids = head.add(1).cast::<TermId>();
            let length = (*head).length as usize;
            ((*head).born, std::slice::from_raw_parts(ids, length))
        }
    }

    /// Drops this reference; the bytes that became free.
    pub(crate) fn release(self) -> usize {
        // SAFETY: the head lives as long as this reference.
        let last = unsafe { self.0.as_ref() }
            .references
            .load(Ordering::Acquire)
            == 1;
        if last { self.bytes() } else { 0 }
    }

    /// Size in memory.
    pub(crate) fn bytes(&self) -> usize {
        Block::bytes_of(self.len())
    }

    /// Size in memory of a block of so many ids.
    pub(crate) fn bytes_of(length: usize) -> usize {
        HEAD_BYTES + length * size_of::<TermId>()
    }
}

fn layout(length: usize) -> Layout {
    Layout::array::<TermId>(length)
        .and_then(|ids| Layout::new::<Head>().extend(ids))
        .expect("a block is smaller than the address space")
        .0
}

impl Deref for Block {
    type Target = [TermId];

    fn deref(&self) -> &[TermId] {
        // SAFETY: this reference keeps the block alive for as long as the borrow.
        unsafe { Block::look(self.0.as_ptr().cast()).1 }
    }
}

impl Clone for Block {
    fn clone(&self) -> Block {
        // SAFETY: the head lives as long as this reference.
        unsafe { self.0.as_ref() }
            .references
            .fetch_add(1, Ordering::Relaxed);
        Block(self.0)
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: this is one counted reference; whoever takes the count to zero is the last that
        // can reach the memory, and the fence orders all earlier use before the deallocation.
        unsafe {
            if self.0.as_ref().references.fetch_sub(1, Ordering::Release) == 1 {
                fence(Ordering::Acquire);
                let layout = layout(self.0.as_ref().length as usize);
                dealloc(self.0.as_ptr().cast(), layout);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_what_was_put_in_until_the_last_reference_goes() {
        let ids: Vec<_> = (1..100).map(TermId::from_raw).collect();
        let block = Block::new(7, &ids);
        let other = block.clone();
        assert_eq!(block.release(), 0);
        assert_eq!(&*other, &ids[..]);
        let pointer = other.into_raw();
        // SAFETY: the reference is not taken back yet.
        assert_eq!(unsafe { Block::look(pointer) }, (7, &ids[..]));
        // SAFETY: the pointer is that of `into_raw`, and taken back once.
        let back = unsafe { Block::from_raw(pointer) };
        assert_eq!(back.release(), 16 + 99 * 8);
        assert!(Block::new(0, &[]).is_empty());
    }
}
