//! An array that grows at its end while others read it: chunks of doubling size that never move.
//! Reading takes no lock.
#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Items that are made by `T::default()` when a writer first asks for them, and stay in place until
/// the array is dropped. The first chunk holds 2^`FIRST_BITS` items, each further one twice as many
/// as the one before; there are at most `CHUNKS`.
pub(crate) struct Growing<T, const FIRST_BITS: u32, const CHUNKS: usize> {
    chunks: [AtomicPtr<T>; CHUNKS],
    items: PhantomData<Box<T>>,
}

impl<T, const FIRST_BITS: u32, const CHUNKS: usize> Default for Growing<T, FIRST_BITS, CHUNKS> {
    fn default() -> Self {
        Growing {
            chunks: [const { AtomicPtr::new(std::ptr::null_mut()) }; CHUNKS],
            items: PhantomData,
        }
    }
}

impl<T, const FIRST_BITS: u32, const CHUNKS: usize> Growing<T, FIRST_BITS, CHUNKS> {
    /// The item at `index`; `None` if no writer has been there yet.
    #[inline]
    pub(crate) fn get(&self, index: u64) -> Option<&T> {
        let start = self.address(index)?;
        // SAFETY: `address` points into a chunk of initialised items that lives as long as `self`.
        Some(unsafe { &*start })
    }

    /// The address of the item, for prefetching; `None` as for [`Growing::get`].
    #[inline]
    pub(crate) fn address(&self, index: u64) -> Option<*const T> {
        let (chunk, at) = Self::place(index);
        let start = self.chunks.get(chunk)?.load(Ordering::Acquire);
        // The chunk is long enough for `at`: `place` stays below its length.
        (!start.is_null()).then(|| start.wrapping_add(at).cast_const())
    }

    /// Memory held besides the array itself, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        (self.chunks.iter().enumerate())
            .filter(|(_, chunk)| !chunk.load(Ordering::Relaxed).is_null())
            .map(|(chunk, _)| Self::length(chunk) * size_of::<T>())
            .sum()
    }

    #[inline]
    fn place(index: u64) -> (usize, usize) {
        let shifted = index + (1 << FIRST_BITS);
        let bits = shifted.ilog2();
        (
            (bits - FIRST_BITS) as usize,
            (shifted - (1 << bits)) as usize,
        )
    }

    fn length(chunk: usize) -> usize {
        1 << (chunk + FIRST_BITS as usize)
    }
}

impl<T: Default, const FIRST_BITS: u32, const CHUNKS: usize> Growing<T, FIRST_BITS, CHUNKS> {
    /// The item at `index`, which is made if needed. Panics if `CHUNKS` chunks are too few.
    pub(crate) fn make(&self, index: u64) -> &T {
        if let Some(item) = self.get(index) {
            return item;
        }
        let (chunk, _) = Self::place(index);
        let fresh: Box<[T]> = (std::iter::repeat_with(T::default))
            .take(Self::length(chunk))
            .collect();
        let fresh = Box::into_raw(fresh);
        let null = std::ptr::null_mut();
        let swapped = self.chunks[chunk].compare_exchange(
            null,
            fresh.cast(),
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        if swapped.is_err() {
            // SAFETY: made by Box::into_raw above, and not published.
            drop(unsafe { Box::from_raw(fresh) });
        }
        self.get(index).expect("its chunk is there now")
    }
}

impl<T, const FIRST_BITS: u32, const CHUNKS: usize> Drop for Growing<T, FIRST_BITS, CHUNKS> {
    fn drop(&mut self) {
        for (chunk, start) in self.chunks.iter_mut().enumerate() {
            let start = *start.get_mut();
            if !start.is_null() {
                let slice = std::ptr::slice_from_raw_parts_mut(start, Self::length(chunk));
                // SAFETY: made by Box::into_raw of a slice of this length in `make`, and `&mut
                // self` means that no reader is left.
                drop(unsafe { Box::from_raw(slice) });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;

    type Numbers = Growing<AtomicU32, 1, 8>;

    #[test]
    fn items_stay_and_gaps_are_none() {
        let numbers = Numbers::default();
        for index in [0, 1, 2, 5, 6, 13, 100] {
            numbers
                .make(index)
                .store(index as u32 + 1, Ordering::Relaxed);
        }
        let held = |index| numbers.get(index).map(|n| n.load(Ordering::Relaxed));
        assert_eq!(held(0), Some(1));
        assert_eq!(held(5), Some(6));
        assert_eq!(held(100), Some(101));
        assert_eq!(held(3), Some(0), "in a chunk that is there");
        assert_eq!(held(20), None, "in a chunk that is not");
        assert_eq!(held(1 << 40), None, "beyond the last chunk");
        assert_eq!(numbers.bytes(), (2 + 4 + 8 + 64) * 4);
    }

    #[test]
    fn threads_share_the_entries_that_each_makes() {
        let numbers = Numbers::default();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for index in 0..200 {
                        numbers.make(index).fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
        assert!((0..200).all(|index| numbers.make(index).load(Ordering::Relaxed) == 4));
    }
}
