//! The bytes of terms: the layout of a term in memory, and the memory of a stripe, in pieces that
//! never move.
//!
//! A term is: its place (its virtual shard within the stripe: 4 bits, its sequence: 28), its kind,
//! for most kinds the number of a shared text, the length of its own text, and that text. Lengths
//! and numbers take as many bytes as they need. A triple term is its place, its kind and three ids.
//!
//! Before changing it: an offset is published only after the bytes that it leads to, and a byte
//! that is written never changes.
#![allow(unsafe_code)]

use crate::memory::Growing;
use somersault_model::{Tag, TermId};
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Pieces start small, double up to 32 KiB, and stay so.
const SMALLEST_BITS: u32 = 10;
const PIECE_BITS: u32 = 15;
const PIECE: u64 = 1 << PIECE_BITS;
/// The place, the kind, and two numbers of at most five bytes each.
const LONGEST_HEADER: usize = 4 + 1 + 5 + 5;
const SEQUENCE_BITS: u32 = 28;

/// The kind of a stored term. Files of checkpoints show these numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// An IRI, whole.
    Iri = 0,
    /// An IRI whose beginning is a shared text.
    SharedIri,
    BlankNode,
    /// An `xsd:string`.
    String,
    /// A literal whose datatype is a shared text.
    Typed,
    /// A literal whose language tag is a shared text.
    Language,
    LeftToRight,
    RightToLeft,
    /// Three ids and no text.
    Triple,
}

impl Kind {
    const ALL: [Kind; 9] = [
        Kind::Iri,
        Kind::SharedIri,
        Kind::BlankNode,
        Kind::String,
        Kind::Typed,
        Kind::Language,
        Kind::LeftToRight,
        Kind::RightToLeft,
        Kind::Triple,
    ];

    pub(crate) fn of_number(number: u8) -> Option<Kind> {
        Kind::ALL.get(usize::from(number)).copied()
    }

    pub(crate) fn tag(self) -> Tag {
        match self {
            Kind::Iri | Kind::SharedIri => Tag::NamedNode,
            Kind::BlankNode => Tag::BlankNode,
            Kind::Triple => Tag::TripleTerm,
            _ => Tag::Literal,
        }
    }

    /// Whether a shared text belongs to terms of this kind.
    pub(crate) fn is_numbered(self) -> bool {
        !matches!(
            self,
            Kind::Iri | Kind::BlankNode | Kind::String | Kind::Triple
        )
    }
}

/// A term's number within its stripe: its virtual shard within the stripe, and the sequence there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place(u32);

impl Place {
    /// The place of a term that lies in no arena.
    pub(crate) const NOWHERE: Place = Place(u32::MAX);

    /// Panics if a virtual shard holds 2^28 terms: a thousand times as many as fit into memory.
    pub(crate) fn new(shard: usize, sequence: u64) -> Place {
        Place::checked(shard, sequence).expect("a full shard")
    }

    /// As [`Place::new`]; `None` where it panics.
    pub(crate) fn checked(shard: usize, sequence: u64) -> Option<Place> {
        let is_valid = shard < 16 && sequence < 1 << SEQUENCE_BITS;
        is_valid.then_some(Place(((shard as u32) << SEQUENCE_BITS) | sequence as u32))
    }

    pub(crate) fn shard(self) -> usize {
        (self.0 >> SEQUENCE_BITS) as usize
    }

    pub(crate) fn sequence(self) -> u64 {
        u64::from(self.0 & ((1 << SEQUENCE_BITS) - 1))
    }
}

/// A term as it is stored.
#[derive(Clone, Copy)]
pub(crate) struct Stored<'a> {
    pub(crate) place: Place,
    pub(crate) kind: Kind,
    /// The number of the shared text; 0 for kinds without.
    pub(crate) number: u32,
    /// The term's own text; empty for triple terms.
    pub(crate) text: &'a str,
    /// The ids of a triple term.
    pub(crate) parts: [TermId; 3],
}

/// The readers' view of the memory of one stripe.
#[derive(Default)]
pub(crate) struct Arena {
    pieces: Growing<AtomicPtr<u8>, 3, 15>,
}

/// The writer's end of the memory of one stripe, where terms are added; it owns the pieces.
#[derive(Default)]
pub(crate) struct ArenaEnd {
    owned: Vec<*mut [MaybeUninit<u8>]>,
    /// The offset of the next term, if it fits before `end`.
    next: u64,
    /// The end of the newest piece.
    end: u64,
    bytes: usize,
}

// SAFETY: the end owns its pieces; the pointers that it hands out are read-only for others.
unsafe impl Send for ArenaEnd {}
// SAFETY: a shared reference allows reading `bytes` only.
unsafe impl Sync for ArenaEnd {}

impl Arena {
    /// The term at an offset that [`ArenaEnd::store`] returned for this arena; `None` for offsets
    /// whose piece does not exist.
    ///
    /// # Safety
    /// `offset` was returned by `store` on the end of this arena, which is not dropped while the
    /// result is in use, and was published to this thread by a lock or by Release and Acquire.
    #[inline]
    pub(crate) unsafe fn read(&self, offset: u32) -> Option<Stored<'_>> {
        let start = self.start(offset)?;
        // SAFETY: by this function's contract a whole term was written there and never changes.
        Some(unsafe { read(start) })
    }

    /// The address of the term's bytes, for prefetching.
    #[inline]
    pub(crate) fn start(&self, offset: u32) -> Option<*const u8> {
        let (piece, at) = piece_of(offset);
        let start = self.pieces.get(piece)?.load(Ordering::Acquire);
        (!start.is_null()).then(|| start.wrapping_add(at).cast_const())
    }

    /// The memory that is held for finding the pieces, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.pieces.bytes()
    }
}

impl ArenaEnd {
    /// Stores a term and returns its offset, which is never 0. `arena` is the readers' side of this
    /// end.
    pub(crate) fn store(&mut self, arena: &Arena, term: &Stored<'_>) -> u32 {
        let mut header = [0; LONGEST_HEADER];
        header[..4].copy_from_slice(&term.place.0.to_le_bytes());
        header[4] = term.kind as u8;
        let mut length = 5;
        if term.kind.is_numbered() {
            length = write_number(&mut header, length, term.number);
        }
        let ids = term.parts.map(|id| id.raw().to_le_bytes());
        let body = if term.kind == Kind::Triple {
            ids.as_flattened()
        } else {
            let text = u32::try_from(term.text.len()).expect("a term is shorter than 4 GiB");
            length = write_number(&mut header, length, text);
            term.text.as_bytes()
        };
        let (offset, start) = self.reserve(arena, length + body.len());
        // SAFETY: `reserve` gave this many bytes, to which no other reference exists.
        unsafe {
            start.copy_from_nonoverlapping(header.as_ptr(), length);
            (start.add(length)).copy_from_nonoverlapping(body.as_ptr(), body.len());
        }
        offset
    }

    /// Terms stored so far have lower offsets; later ones do not.
    pub(crate) fn offset(&self) -> u64 {
        self.next
    }

    /// Memory held, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes + self.owned.capacity() * size_of::<*mut [u8]>()
    }

    fn reserve(&mut self, arena: &Arena, length: usize) -> (u32, *mut u8) {
        let needed = length as u64;
        while self.next + needed > self.end {
            let start = self.end;
            let room = piece_length(start);
            // Offset 0 stays free.
            let first = start.max(1);
            if first - start + needed <= room {
                self.open(arena, start, room);
                (self.next, self.end) = (first, start + room);
            } else if start < PIECE {
                // The term is too long for a small piece, whose remaining offsets stay unused.
                (self.next, self.end) = (start + room, start + room);
            } else {
                // A term longer than any piece takes the offsets of several, and memory of just its
                // length.
                let offset = u32::try_from(start).expect(FULL);
                let memory = self.open(arena, start, needed);
                let end = start + needed.next_multiple_of(PIECE);
                (self.next, self.end) = (end, end);
                return (offset, memory);
            }
        }
        let offset = u32::try_from(self.next).expect(FULL);
        self.next += needed;
        let start = arena
            .start(offset)
            .expect("the newest piece is there")
            .cast_mut();
        (offset, start)
    }

    fn open(&mut self, arena: &Arena, start: u64, length: u64) -> *mut u8 {
        let (piece, _) = piece_of(u32::try_from(start).expect(FULL));
        let memory = Box::into_raw(Box::<[u8]>::new_uninit_slice(length as usize));
        self.owned.push(memory);
        self.bytes += length as usize;
        let memory = memory.cast::<u8>();
        (arena.pieces.make(piece)).store(memory, Ordering::Release);
        memory
    }
}

const FULL: &str = "a stripe holds at most 4 GiB of terms, 1 TiB in all";

impl Drop for ArenaEnd {
    fn drop(&mut self) {
        for piece in self.owned.drain(..) {
            // SAFETY: made by Box::into_raw in `open`; no read follows the dictionary's end.
            drop(unsafe { Box::from_raw(piece) });
        }
    }
}

#[inline]
fn piece_of(offset: u32) -> (u64, usize) {
    let small = PIECE_BITS - SMALLEST_BITS;
    if offset >> PIECE_BITS != 0 {
        let piece = (offset >> PIECE_BITS) + small;
        (piece.into(), (offset & (PIECE as u32 - 1)) as usize)
    } else if offset >> SMALLEST_BITS != 0 {
        let bits = offset.ilog2();
        let piece = bits - SMALLEST_BITS + 1;
        (piece.into(), (offset - (1 << bits)) as usize)
    } else {
        (0, offset as usize)
    }
}

/// The length of the piece that starts at this offset.
fn piece_length(start: u64) -> u64 {
    start.clamp(1 << SMALLEST_BITS, PIECE)
}

/// Seven bits a byte, the lowest first; the upper bit says that more follow.
fn write_number(to: &mut [u8], mut at: usize, mut number: u32) -> usize {
    while number >= 0x80 {
        to[at] = number as u8 | 0x80;
        number >>= 7;
        at += 1;
    }
    to[at] = number as u8;
    at + 1
}

/// # Safety
/// `at` points to a number that `write_number` wrote.
#[inline]
unsafe fn read_number(at: &mut *const u8) -> u32 {
    let (mut number, mut shift) = (0, 0);
    loop {
        // SAFETY: a number ends with a byte below 0x80, and up to there all bytes are written.
        let byte = unsafe { at.read() };
        *at = at.wrapping_add(1);
        number |= u32::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return number;
        }
        shift += 7;
    }
}

/// # Safety
/// `start` points to a term that `ArenaEnd::store` wrote, which lives and stays unchanged for `'a`.
#[inline]
pub(crate) unsafe fn read<'a>(start: *const u8) -> Stored<'a> {
    // SAFETY: the layout is that of `store`, and the text was a `str`.
    unsafe {
        let place = Place(u32::from_le(start.cast::<u32>().read_unaligned()));
        let kind = Kind::ALL[usize::from(start.add(4).read())];
        let mut at = start.add(5);
        let mut stored = Stored {
            place,
            kind,
            number: 0,
            text: "",
            parts: [TermId::UNBOUND; 3],
        };
        if kind == Kind::Triple {
            let ids = at.cast::<u64>();
            stored.parts = [0, 1, 2]
                .map(|part| TermId::from_raw(u64::from_le(ids.add(part).read_unaligned())));
            return stored;
        }
        if kind.is_numbered() {
            stored.number = read_number(&mut at);
        }
        let length = read_number(&mut at) as usize;
        stored.text = std::str::from_utf8_unchecked(std::slice::from_raw_parts(at, length));
        stored
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_and_pieces_agree() {
        let mut start = 0;
        for piece in 0..40 {
            let length = piece_length(start);
            assert_eq!(piece_of(start as u32), (piece, 0));
            let last = start + length - 1;
            assert_eq!(piece_of(last as u32), (piece, length as usize - 1));
            start += length;
        }
    }

    #[test]
    fn terms_of_every_length_come_back() {
        let (arena, mut end) = (Arena::default(), ArenaEnd::default());
        let long = "x".repeat(if cfg!(miri) { 1 << 16 } else { 1 << 20 });
        let step = if cfg!(miri) { 997 } else { 37 };
        let mut lengths: Vec<usize> = (0..3_000).step_by(step).collect();
        lengths.extend([
            1_010,
            1_023,
            1_024,
            40_000,
            3,
            PIECE as usize - 7,
            PIECE as usize,
        ]);
        lengths.extend([
            3 * PIECE as usize,
            5,
            long.len(),
            0,
            200,
            70_000.min(long.len()),
        ]);
        let place = |at: usize| Place::new(at % 16, at as u64 * 1_000);
        let offsets: Vec<u32> = (lengths.iter().enumerate())
            .map(|(at, length)| {
                let term = Stored {
                    place: place(at),
                    kind: if at % 2 == 0 { Kind::Typed } else { Kind::Iri },
                    number: (at as u32) << (at % 20),
                    text: &long[..*length],
                    parts: [TermId::UNBOUND; 3],
                };
                end.store(&arena, &term)
            })
            .collect();
        for (at, offset) in offsets.iter().enumerate() {
            assert_ne!(*offset, 0);
            // SAFETY: the offset is from `store` above, on this thread.
            let stored = unsafe { arena.read(*offset) }.unwrap();
            assert_eq!(stored.text, &long[..lengths[at]]);
            assert_eq!(stored.place, place(at));
            if stored.kind == Kind::Typed {
                assert_eq!(stored.number, (at as u32) << (at % 20));
            }
        }
        assert!(end.bytes() > lengths.iter().sum());
    }
}
