//! A short or long immutable run of ids behind one thin pointer, counted. Most lists of the store
//! are one of these and nothing else; 16 bytes of head, then the ids.
//!
//! Ids that arrived at different SNs which readers can still tell apart have dates behind them: so
//! a short list that grows stays one block, and nothing has to be folded later. A date that every
//! reader has passed has no meaning any more, and is dropped when the list next changes.
#![allow(unsafe_code)]

use somersault_dictionary::prefetch;
use somersault_model::TermId;
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering, fence};

#[repr(C)]
struct Head {
    references: AtomicU32,
    length: u32,
    /// The SN from which on all ids are visible; in the bits from [`SN_BITS`] on, how many dates
    /// there are behind the ids.
    born: u64,
}

const HEAD_BYTES: usize = size_of::<Head>();

/// Bits of an SN in a block.
const SN_BITS: u32 = 53;

/// Bits of a date that name its id. The rest of the word is for the SN; in the head's word the rest
/// is for the number of dates.
const PLACE_BITS: u32 = 10;

/// The greatest number of ids that may have dates.
pub(crate) const LONGEST_DATED: usize = 1 << PLACE_BITS;

/// The SN from which on the id at a place of a block is visible. Dates ascend by place; an id
/// without one is visible to all current readers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Date(u64);

impl Date {
    pub(crate) fn new(sn: u64, place: usize) -> Date {
        debug_assert!(place < LONGEST_DATED && sn < 1 << SN_BITS);
        Date(sn << PLACE_BITS | place as u64)
    }

    #[inline]
    pub(crate) fn sn(self) -> u64 {
        self.0 >> PLACE_BITS
    }

    #[inline]
    pub(crate) fn place(self) -> usize {
        (self.0 % (1 << PLACE_BITS)) as usize
    }
}

/// The bytes that come from memory together.
const CACHE_LINE: usize = 64;

/// The number of bytes of a block that are prefetched.
const PREFETCHED: usize = 8 * CACHE_LINE;

/// The content of a block.
#[derive(Clone, Copy)]
pub(crate) struct Dated<'a> {
    /// The SN from which on all ids are visible.
    pub(crate) born: u64,
    pub(crate) ids: &'a [TermId],
    /// The dates; if there are none, no id is visible before `born`.
    pub(crate) dates: &'a [Date],
}

/// Ascending ids. Cloning counts a reference.
pub(crate) struct Block(NonNull<Head>);

// SAFETY: the content is immutable and the count is atomic, as in `Arc<[TermId]>`.
unsafe impl Send for Block {}
// SAFETY: as above.
unsafe impl Sync for Block {}

impl Block {
    /// A copy of these ids, born at SN `born`.
    pub(crate) fn new(born: u64, ids: &[TermId]) -> Block {
        Block::dated(born, ids, &[])
    }

    /// A copy of these ids, of which `born` is the newest date.
    ///
    /// # Panics
    /// If there are more than [`LONGEST_DATED`] dates, or an SN takes more than 53 bits.
    pub(crate) fn dated(born: u64, ids: &[TermId], dates: &[Date]) -> Block {
        // More dates, or a larger SN, would corrupt the head.
        assert!(dates.len() <= LONGEST_DATED && born < 1 << SN_BITS);
        let length = u32::try_from(ids.len()).expect("a list has fewer than 2^32 members");
        let layout = layout(ids.len(), dates.len());
        // SAFETY: the layout is never of size zero. The head, all ids and all dates are written
        // before the block is made, and the memory holds exactly them.
        unsafe {
            let Some(head) = NonNull::new(alloc(layout).cast::<Head>()) else {
                handle_alloc_error(layout)
            };
            head.write(Head {
                references: AtomicU32::new(1),
                length,
                born: born | (dates.len() as u64) << SN_BITS,
            });
            let start = head.add(1).cast::<TermId>();
            start.copy_from_nonoverlapping(NonNull::from(ids).cast(), ids.len());
            let start = start.add(ids.len()).cast::<Date>();
            start.copy_from_nonoverlapping(NonNull::from(dates).cast(), dates.len());
            Block(head)
        }
    }

    /// Converts the reference to a pointer (aligned to eight).
    pub(crate) fn into_raw(self) -> *mut u8 {
        let pointer = self.0.as_ptr().cast();
        std::mem::forget(self);
        pointer
    }

    /// The address of the block's head.
    pub(crate) fn as_ptr_of_head(&self) -> *const u8 {
        self.0.as_ptr().cast_const().cast()
    }

    /// Takes back the reference of `into_raw`.
    ///
    /// # Safety
    /// `pointer` comes from `into_raw`, and its reference is not taken back a second time.
    pub(crate) unsafe fn from_raw(pointer: *mut u8) -> Block {
        // SAFETY: `into_raw` gives no null pointers.
        Block(unsafe { NonNull::new_unchecked(pointer.cast()) })
    }

    /// Looks at the block behind a pointer without counting.
    ///
    /// # Safety
    /// `pointer` comes from `into_raw`, and its reference is not taken back and dropped in `'a`.
    #[inline]
    pub(crate) unsafe fn look<'a>(pointer: *mut u8) -> Dated<'a> {
        let head = pointer.cast::<Head>();
        // SAFETY: the head, its ids and, behind them, as many dates as it says are alive and
        // immutable for 'a, as the caller promises.
        unsafe {
            let ids = head.add(1).cast::<TermId>();
            let length = (*head).length as usize;
            let dates = ids.add(length).cast::<Date>();
            Dated {
                born: (*head).born % (1 << SN_BITS),
                ids: std::slice::from_raw_parts(ids, length),
                dates: std::slice::from_raw_parts(dates, ((*head).born >> SN_BITS) as usize),
            }
        }
    }

    fn look_here(&self) -> Dated<'_> {
        // SAFETY: this reference keeps the block alive for as long as the borrow.
        unsafe { Block::look(self.0.as_ptr().cast()) }
    }

    /// Drops this reference. Returns the number of bytes freed.
    pub(crate) fn release(self) -> usize {
        self.own_bytes()
    }

    /// Size in memory if there is no other reference, else 0.
    pub(crate) fn own_bytes(&self) -> usize {
        // SAFETY: the head lives as long as this reference.
        let last = unsafe { self.0.as_ref() }
            .references
            .load(Ordering::Acquire)
            == 1;
        if last { self.bytes() } else { 0 }
    }

    /// Size in memory.
    pub(crate) fn bytes(&self) -> usize {
        let block = self.look_here();
        Block::bytes_of(block.ids.len()) + size_of_val(block.dates)
    }

    /// Size in memory of a block of `length` ids without dates.
    pub(crate) fn bytes_of(length: usize) -> usize {
        HEAD_BYTES + length * size_of::<TermId>()
    }
}

/// The layout of a block; ids and dates are of one size.
fn layout(length: usize, dates: usize) -> Layout {
    Layout::array::<u64>(length + dates)
        .and_then(|words| Layout::new::<Head>().extend(words))
        .expect("a block is smaller than the address space")
        .0
}

impl<'a> Dated<'a> {
    /// Prefetches the ids and dates behind the first cache line.
    #[inline]
    pub(crate) fn prefetch(self) {
        let start = self.ids.as_ptr().cast::<u8>();
        let end = (size_of_val(self.ids) + size_of_val(self.dates)).min(PREFETCHED);
        for at in (CACHE_LINE - HEAD_BYTES..end).step_by(CACHE_LINE) {
            prefetch(start.wrapping_add(at));
        }
    }

    /// The members at `sn`, ascending: borrowed if they are all ids, else in `scratch`, which is
    /// empty.
    #[inline]
    pub(crate) fn read<'b>(self, sn: u64, scratch: &'b mut Vec<TermId>) -> &'b [TermId]
    where
        'a: 'b,
    {
        if self.born <= sn {
            return self.ids;
        }
        self.read_earlier(sn, scratch);
        scratch
    }

    #[cold]
    fn read_earlier(self, sn: u64, scratch: &mut Vec<TermId>) {
        if self.dates.is_empty() {
            return;
        }
        let mut from = 0;
        for date in self.dates.iter().filter(|date| date.sn() > sn) {
            scratch.extend_from_slice(&self.ids[from..date.place()]);
            from = date.place() + 1;
        }
        scratch.extend_from_slice(&self.ids[from..]);
    }

    /// The number of members at `sn`.
    #[inline]
    pub(crate) fn len(self, sn: u64) -> usize {
        if self.born <= sn {
            self.ids.len()
        } else if self.dates.is_empty() {
            0
        } else {
            let later = self.dates.iter().filter(|date| date.sn() > sn);
            self.ids.len() - later.count()
        }
    }

    /// Whether `id` is a member at `sn`.
    #[inline]
    pub(crate) fn contains(self, sn: u64, id: TermId) -> bool {
        if self.born > sn && self.dates.is_empty() {
            return false;
        }
        let Ok(place) = self.ids.binary_search(&id) else {
            return false;
        };
        let is_later = |date: &Date| date.place() == place && date.sn() > sn;
        self.born <= sn || !self.dates.iter().any(is_later)
    }

    /// The dates of the ids that are not yet visible to all readers above `floor`.
    pub(crate) fn waited_for(self, floor: u64) -> impl Iterator<Item = Date> + 'a {
        let all = match self.dates {
            [] if self.born > floor => self.ids.len(),
            _ => 0,
        };
        let all = (0..all).map(move |place| Date::new(self.born, place));
        all.chain(
            self.dates
                .iter()
                .copied()
                .filter(move |date| date.sn() > floor),
        )
    }
}

impl Deref for Block {
    type Target = [TermId];

    fn deref(&self) -> &[TermId] {
        self.look_here().ids
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
        // SAFETY: this is one counted reference; the one that takes the count to zero is the last
        // that can reach the memory, and the fence orders all earlier use before the deallocation.
        unsafe {
            if self.0.as_ref().references.fetch_sub(1, Ordering::Release) == 1 {
                fence(Ordering::Acquire);
                let block = self.look_here();
                let layout = layout(block.ids.len(), block.dates.len());
                dealloc(self.0.as_ptr().cast(), layout);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_keeps_its_content_until_the_last_reference_is_dropped() {
        let ids: Vec<_> = (1..100).map(TermId::from_raw).collect();
        let block = Block::new(7, &ids);
        let other = block.clone();
        assert_eq!(block.release(), 0);
        assert_eq!(&*other, &ids[..]);
        let pointer = other.into_raw();
        // SAFETY: the reference is not taken back yet.
        let seen = unsafe { Block::look(pointer) };
        assert_eq!((seen.born, seen.ids, seen.dates), (7, &ids[..], &[][..]));
        // SAFETY: the pointer is that of `into_raw`, and taken back once.
        let back = unsafe { Block::from_raw(pointer) };
        assert_eq!(back.release(), 16 + 99 * 8);
        assert!(Block::new(0, &[]).is_empty());
    }

    #[test]
    fn ids_are_seen_from_their_dates_on() {
        let id = TermId::from_raw;
        let ids = [id(10), id(20), id(30), id(40)];
        let dates = [Date::new(5, 0), Date::new(3, 2), Date::new(5, 3)];
        let block = Block::dated(5, &ids, &dates);
        assert_eq!((&*block, block.bytes()), (&ids[..], 16 + 4 * 8 + 3 * 8));
        let dated = block.look_here();
        for (sn, members) in [
            (2, &[id(20)][..]),
            (3, &[id(20), id(30)]),
            (4, &[id(20), id(30)]),
            (5, &ids),
            (9, &ids),
        ] {
            assert_eq!(dated.read(sn, &mut Vec::new()), members);
            assert_eq!(dated.len(sn), members.len());
            for id in ids {
                assert_eq!(
                    dated.contains(sn, id),
                    members.contains(&id),
                    "{id:?} at {sn}"
                );
            }
        }
        // The greatest number of dates, and the greatest SN.
        let newest = (1 << SN_BITS) - 1;
        let many: Vec<_> = (1..=LONGEST_DATED as u64).map(TermId::from_raw).collect();
        let all: Vec<_> = (0..many.len())
            .map(|place| Date::new(newest, place))
            .collect();
        let block_of_many = Block::dated(newest, &many, &all);
        let seen = block_of_many.look_here();
        assert_eq!(
            (seen.born, seen.ids, seen.dates),
            (newest, &many[..], &all[..])
        );
        let waiting: Vec<Date> = dated.waited_for(3).collect();
        assert_eq!(waiting, [dates[0], dates[2]]);
        let plain = Block::new(5, &ids[..2]);
        let waiting: Vec<Date> = plain.look_here().waited_for(4).collect();
        assert_eq!(waiting, [Date::new(5, 0), Date::new(5, 1)]);
        assert_eq!(plain.look_here().waited_for(5).count(), 0);
    }
}
