//! Arrays of plain values that are filled once and then only read: the material of images. Large
//! ones are mapped from the system on their own, on huge pages if it has them, and return to it
//! whole when they are dropped: a load must not leave its working space in the allocator.
#![allow(unsafe_code)]

use somersault_model::TermId;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// From this many bytes on an array has pages of its own.
const MAPPED_FROM: usize = 256 << 10;

/// Values for which any bits, all zero too, are a value.
///
/// # Safety
/// That must be so.
pub(crate) unsafe trait Plain: Copy + Send + Sync + 'static {}

// SAFETY: integers, and ids, which take any bits.
unsafe impl Plain for u8 {}
// SAFETY: as above.
unsafe impl Plain for u16 {}
// SAFETY: as above.
unsafe impl Plain for u32 {}
// SAFETY: as above.
unsafe impl Plain for u64 {}
// SAFETY: as above.
unsafe impl Plain for u128 {}
// SAFETY: as above.
unsafe impl Plain for TermId {}

/// A slice with room at its end until it is finished.
pub(crate) struct Array<T: Plain> {
    start: NonNull<T>,
    length: usize,
    /// In values for the allocator's memory, in bytes where `mapped`.
    room: usize,
    mapped: bool,
    owned: PhantomData<T>,
}

// SAFETY: it owns its plain values, which are Send and Sync.
unsafe impl<T: Plain> Send for Array<T> {}
// SAFETY: as above.
unsafe impl<T: Plain> Sync for Array<T> {}

impl<T: Plain> Array<T> {
    /// An empty array without room.
    pub(crate) fn new() -> Array<T> {
        Array::with_capacity(0)
    }

    /// An empty array with room for `capacity` values.
    pub(crate) fn with_capacity(capacity: usize) -> Array<T> {
        if let Some(bytes) = capacity.checked_mul(size_of::<T>())
            && bytes >= MAPPED_FROM
            && let Some((start, room)) = pages::map(bytes)
        {
            return Array {
                start: start.cast(),
                length: 0,
                room,
                mapped: true,
                owned: PhantomData,
            };
        }
        Array::of_vec(Vec::with_capacity(capacity))
    }

    /// An array of `length` values, all bits zero.
    pub(crate) fn zeroed(length: usize) -> Array<T> {
        let mut array = Array::with_capacity(length);
        if !array.mapped {
            // SAFETY: there is room for them.
            unsafe { array.start.write_bytes(0, length) };
        }
        // Fresh pages are zero.
        array.length = length;
        array
    }

    fn of_vec(vec: Vec<T>) -> Array<T> {
        let mut vec = ManuallyDrop::new(vec);
        Array {
            // SAFETY: the pointer of a Vec is never null.
            start: unsafe { NonNull::new_unchecked(vec.as_mut_ptr()) },
            length: vec.len(),
            room: vec.capacity(),
            mapped: false,
            owned: PhantomData,
        }
    }

    fn capacity(&self) -> usize {
        if self.mapped {
            self.room / size_of::<T>()
        } else {
            self.room
        }
    }

    /// Makes room for `more` values, as much as there was before at least if there is too little.
    #[inline]
    pub(crate) fn reserve(&mut self, more: usize) {
        self.reserve_of(more, 0);
    }

    /// As [`Array::reserve`]; an array with pages of its own gets room for `most` values at once.
    #[inline]
    pub(crate) fn reserve_of(&mut self, more: usize, most: usize) {
        if more > self.capacity() - self.length {
            self.grow(more, most);
        }
    }

    #[cold]
    fn grow(&mut self, more: usize, most: usize) {
        let needed = self.length.saturating_add(more);
        let mut room = needed.max(2 * self.capacity()).max(8);
        if needed <= most && room.saturating_mul(size_of::<T>()) >= MAPPED_FROM {
            room = most;
        }
        let mut larger = Array::with_capacity(room);
        larger.extend(self);
        *self = larger;
    }

    /// Appends a value.
    #[inline]
    pub(crate) fn push(&mut self, value: T) {
        assert!(self.length < self.capacity(), "arrays are sized before");
        // SAFETY: there is room.
        unsafe { self.start.add(self.length).write(value) };
        self.length += 1;
    }

    /// Appends values.
    #[inline]
    pub(crate) fn extend(&mut self, values: &[T]) {
        assert!(
            values.len() <= self.capacity() - self.length,
            "arrays are sized before"
        );
        // SAFETY: there is room, and it is not part of `values`.
        unsafe {
            self.start
                .add(self.length)
                .copy_from_nonoverlapping(NonNull::from(values).cast(), values.len());
        }
        self.length += values.len();
    }

    /// Gives back the unused room.
    pub(crate) fn finish(mut self) -> Array<T> {
        self.give_back(0);
        self
    }

    /// Gives back the unused room, except that for this many values.
    pub(crate) fn give_back(&mut self, except: usize) {
        let kept = self.capacity().min(self.length + except);
        if self.mapped {
            let used = kept * size_of::<T>();
            // SAFETY: the mapping is this array's own, and nothing behind `used` is in use.
            self.room = unsafe { pages::shrink(self.start.cast(), self.room, used) };
            return;
        }
        let this = ManuallyDrop::new(std::mem::replace(self, Array::new()));
        // SAFETY: these are the parts of the Vec of `of_vec`, of which `length` values were
        // written.
        let mut vec = unsafe { Vec::from_raw_parts(this.start.as_ptr(), this.length, this.room) };
        vec.shrink_to(kept);
        *self = Array::of_vec(vec);
    }

    /// Size in memory besides this value itself.
    pub(crate) fn bytes(&self) -> usize {
        if self.mapped {
            self.room
        } else {
            self.room * size_of::<T>()
        }
    }
}

impl<T: Plain> Deref for Array<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: the first `length` values were written.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }
}

impl<T: Plain> DerefMut for Array<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above, and this is the only way to them.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.length) }
    }
}

impl<T: Plain> FromIterator<T> for Array<T> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Array<T> {
        let values: Vec<T> = values.into_iter().collect();
        let mut array = Array::with_capacity(values.len());
        array.extend(&values);
        array
    }
}

impl<T: Plain> Drop for Array<T> {
    fn drop(&mut self) {
        // SAFETY: the memory is this array's own; plain values need no drop.
        unsafe {
            if self.mapped {
                pages::unmap(self.start.cast(), self.room);
            } else {
                drop(Vec::from_raw_parts(self.start.as_ptr(), 0, self.room));
            }
        }
    }
}

#[cfg(all(unix, not(miri)))]
mod pages {
    use std::ptr::NonNull;

    const PAGE: usize = 4 << 10;
    const HUGE_PAGE: usize = 2 << 20;

    /// Maps fresh, zeroed pages for at least `bytes` bytes (not 0). Returns their start and length;
    /// `None` if the system has no more.
    pub(super) fn map(bytes: usize) -> Option<(NonNull<u8>, usize)> {
        let room = bytes.checked_next_multiple_of(PAGE)?;
        // A huge page must begin at a multiple of its size: map more, and give back the ends.
        let spare = if room >= HUGE_PAGE { HUGE_PAGE } else { 0 };
        // SAFETY: a new private mapping touches nothing that exists.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                room + spare,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return None;
        }
        let start = NonNull::new(start.cast::<u8>())?;
        if spare == 0 {
            return Some((start, room));
        }
        let ahead = start.as_ptr().align_offset(HUGE_PAGE);
        // SAFETY: all of it lies in the mapping just made, which is not shared yet.
        unsafe {
            let aligned = start.add(ahead);
            unmap(start, ahead);
            unmap(aligned.add(room), spare - ahead);
            #[cfg(target_os = "linux")]
            {
                // An advice: without it the array works the same on small pages.
                let _ = libc::madvise(aligned.as_ptr().cast(), room, libc::MADV_HUGEPAGE);
            }
            Some((aligned, room))
        }
    }

    /// Gives back the pages behind the first `used` bytes. Returns the number of bytes that are
    /// left.
    ///
    /// # Safety
    /// The mapping is the caller's, and nothing behind `used` is in use.
    pub(super) unsafe fn shrink(start: NonNull<u8>, room: usize, used: usize) -> usize {
        let kept = used.next_multiple_of(PAGE).clamp(PAGE, room);
        // SAFETY: passed on.
        unsafe { unmap(start.add(kept), room - kept) };
        kept
    }

    /// # Safety
    /// The mapping is the caller's, and no longer in use.
    pub(super) unsafe fn unmap(start: NonNull<u8>, bytes: usize) {
        if bytes > 0 {
            // SAFETY: passed on.
            let failed = unsafe { libc::munmap(start.as_ptr().cast(), bytes) };
            debug_assert_eq!(failed, 0, "a mapping of our own can be given back");
        }
    }
}

/// Without access to the system's pages everything comes from the allocator.
#[cfg(not(all(unix, not(miri))))]
mod pages {
    use std::ptr::NonNull;

    pub(super) fn map(_: usize) -> Option<(NonNull<u8>, usize)> {
        None
    }

    /// # Safety
    /// Never called: nothing is mapped.
    pub(super) unsafe fn shrink(_: NonNull<u8>, room: usize, _: usize) -> usize {
        room
    }

    /// # Safety
    /// Never called: nothing is mapped.
    pub(super) unsafe fn unmap(_: NonNull<u8>, _: usize) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_of_all_sizes_keep_their_contents() {
        for count in [0usize, 1, 1_000, 40_000, 700_001] {
            if cfg!(miri) && count > 1_000 {
                continue;
            }
            let mut array = Array::<u64>::with_capacity(count + 100_000);
            for n in 0..count / 2 {
                array.push(n as u64);
            }
            let rest: Vec<u64> = (count / 2..count).map(|n| n as u64).collect();
            array.extend(&rest);
            let array = array.finish();
            assert!(array.iter().copied().eq(0..count as u64));
            assert!(array.bytes() >= count * 8 && array.bytes() <= count * 8 + (4 << 10));
            let zeros = Array::<u32>::zeroed(count);
            assert!(zeros.len() == count && zeros.iter().all(|n| *n == 0));
        }
    }

    #[test]
    fn an_array_grows_where_it_is_asked_to() {
        let mut array = Array::<u64>::new();
        let count = if cfg!(miri) { 600 } else { 100_000 };
        for n in 0..count {
            array.reserve(1);
            array.push(n);
        }
        array.reserve(3);
        array.extend(&[1, 2, 3]);
        assert!(array.iter().copied().eq((0..count).chain([1, 2, 3])));
    }

    #[test]
    #[should_panic(expected = "sized before")]
    fn an_array_does_not_grow() {
        let mut array = Array::<u64>::with_capacity(100);
        for n in 0..1_000 {
            array.push(n);
        }
    }
}
