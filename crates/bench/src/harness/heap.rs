//! The allocator of the bench: mimalloc, as in the `somersault` command (ADR 18), with an optional
//! count of live bytes, for objects too small to be seen in resident memory, which changes by
//! pages. Blocks are counted as they are handed out, including their rounding.
//!
//! The one thing to know before changing it: no other measurement may notice it. While no count is
//! active, a call costs one relaxed load more, of a word that no thread writes.
#![allow(unsafe_code)]

use mimalloc::MiMalloc;
use std::alloc::{GlobalAlloc, Layout};
use std::ffi::c_void;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

unsafe extern "C" {
    /// The number of bytes that a block has space for, including those that were not asked for.
    /// mimalloc always has this function; its crate names it among its extended features alone.
    fn mi_usable_size(block: *const c_void) -> usize;
}

/// The counting allocator. It has its cache lines to itself, since the values beside it may be
/// written all the time.
#[repr(align(128))]
pub(crate) struct Heap {
    /// The number of active counts.
    counting: AtomicUsize,
    /// Bytes allocated while a count was active, less those freed: negative if older blocks were
    /// freed.
    live: AtomicI64,
}

/// Counts until it is dropped.
pub(crate) struct Count<'h> {
    heap: &'h Heap,
    /// The live bytes when the count began.
    before: i64,
}

impl Heap {
    /// A heap without an active count.
    pub(crate) const fn new() -> Heap {
        Heap {
            counting: AtomicUsize::new(0),
            live: AtomicI64::new(0),
        }
    }

    /// Begins to count what all threads allocate and free.
    pub(crate) fn count(&self) -> Count<'_> {
        let before = self.live.load(Ordering::Relaxed);
        self.counting.fetch_add(1, Ordering::Relaxed);
        Count { heap: self, before }
    }

    #[inline]
    fn is_counted(&self) -> bool {
        self.counting.load(Ordering::Relaxed) > 0
    }

    #[cold]
    fn add(&self, bytes: i64) {
        self.live.fetch_add(bytes, Ordering::Relaxed);
    }
}

impl Count<'_> {
    /// Bytes allocated since the count began, less those freed, by any thread; exact for everything
    /// before this call. Blocks older than the count are subtracted when they are freed: take
    /// differences of live bytes, with nothing older freed between.
    pub(crate) fn live_bytes(&self) -> i64 {
        self.heap.live.load(Ordering::Relaxed) - self.before
    }
}

impl Drop for Count<'_> {
    fn drop(&mut self) {
        self.heap.counting.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The size of a block; 0 if the allocation failed.
///
/// # Safety
/// It is null, or a block of mimalloc's that has not been freed.
unsafe fn taken(block: *const u8) -> i64 {
    if block.is_null() {
        return 0;
    }
    // SAFETY: the caller's promise is passed on.
    unsafe { mi_usable_size(block.cast()) as i64 }
}

// SAFETY: every call is passed to mimalloc unchanged; counting touches no block.
unsafe impl GlobalAlloc for Heap {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise is passed on.
        let block = unsafe { MiMalloc.alloc(layout) };
        if self.is_counted() {
            // SAFETY: it has just been allocated.
            self.add(unsafe { taken(block) });
        }
        block
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise is passed on.
        let block = unsafe { MiMalloc.alloc_zeroed(layout) };
        if self.is_counted() {
            // SAFETY: it has just been allocated.
            self.add(unsafe { taken(block) });
        }
        block
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if self.is_counted() {
            // SAFETY: it is freed below.
            self.add(-unsafe { taken(block) });
        }
        // SAFETY: the caller's promise is passed on.
        unsafe { MiMalloc.dealloc(block, layout) }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if !self.is_counted() {
            // SAFETY: the caller's promise is passed on.
            return unsafe { MiMalloc.realloc(block, layout, size) };
        }
        // SAFETY: the caller's block has not been freed before it is moved.
        let before = unsafe { taken(block) };
        // SAFETY: the caller's promise is passed on.
        let moved = unsafe { MiMalloc.realloc(block, layout, size) };
        if !moved.is_null() {
            // SAFETY: it has just been allocated.
            self.add(unsafe { taken(moved) } - before);
        }
        moved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks of this size.
    const LAYOUT: Layout = Layout::new::<[u64; 100]>();

    /// The address of a block, to be handed from thread to thread.
    fn block(heap: &Heap) -> usize {
        // SAFETY: the layout has a size.
        let block = unsafe { heap.alloc(LAYOUT) };
        assert!(!block.is_null());
        block as usize
    }

    fn free(heap: &Heap, block: usize) {
        // SAFETY: it is one of `block`, each of which is freed once.
        unsafe { heap.dealloc(block as *mut u8, LAYOUT) };
    }

    #[test]
    fn memory_freed_by_another_thread_is_subtracted() {
        let heap = Heap::new();
        let count = heap.count();
        let blocks = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| scope.spawn(|| (0..500).map(|_| block(&heap)).collect::<Vec<_>>()))
                .collect();
            let blocks = threads.into_iter().map(|thread| thread.join().unwrap());
            blocks.collect::<Vec<_>>()
        });
        // SAFETY: the block has not been freed.
        let each = unsafe { taken(blocks[0][0] as *const u8) };
        assert!((800..900).contains(&each), "{each}");
        assert_eq!(count.live_bytes(), 2000 * each);
        std::thread::scope(|scope| {
            for blocks in &blocks {
                scope.spawn(|| (blocks[1..].iter()).for_each(|block| free(&heap, *block)));
            }
        });
        assert_eq!(count.live_bytes(), 4 * each);
        blocks.iter().for_each(|blocks| free(&heap, blocks[0]));
        assert_eq!(count.live_bytes(), 0);
    }

    #[test]
    fn blocks_grow_and_begin_as_zeros() {
        let heap = Heap::new();
        let count = heap.count();
        // SAFETY: the layout has a size, and the block is freed with the size that it has grown to.
        unsafe {
            let small = heap.alloc_zeroed(LAYOUT);
            assert!(
                std::slice::from_raw_parts(small, 800)
                    .iter()
                    .all(|b| *b == 0)
            );
            assert_eq!(count.live_bytes(), taken(small));
            let large = heap.realloc(small, LAYOUT, 80_000);
            assert_eq!(count.live_bytes(), taken(large));
            assert!(count.live_bytes() >= 80_000);
            heap.dealloc(large, Layout::new::<[u64; 10_000]>());
        }
        assert_eq!(count.live_bytes(), 0);
    }

    #[test]
    fn a_count_sees_only_allocations_while_it_is_active() {
        let heap = Heap::new();
        let old = block(&heap);
        let first = heap.count();
        assert_eq!(first.live_bytes(), 0);
        let new = block(&heap);
        let each = first.live_bytes();
        let second = heap.count();
        free(&heap, old);
        free(&heap, new);
        assert_eq!(
            (first.live_bytes(), second.live_bytes()),
            (-each, -2 * each)
        );
        drop(first);
        let last = block(&heap);
        assert_eq!(second.live_bytes(), -each, "one still counts");
        drop(second);
        free(&heap, last);
        let third = heap.count();
        assert_eq!(
            (third.live_bytes(), third.before),
            (0, 0),
            "no count was active"
        );
    }

    #[test]
    fn the_process_allocates_from_it() {
        const BYTES: usize = 1 << 30;
        let count = crate::ALLOCATOR.count();
        // None of its pages is touched. The allocations of other tests are small beside it.
        let held = std::hint::black_box(vec![0_u8; BYTES]);
        let live = count.live_bytes();
        drop(held);
        assert!(live > BYTES as i64 / 2, "{live}");
    }
}
