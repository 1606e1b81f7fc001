//! Interning many terms from one thread: those met lately are recognised without a lock.
#![allow(unsafe_code)]

use crate::dictionary::{Dictionary, Parts, take_apart};
use oxrdf::TermRef;
use somersault_model::TermId;

/// A power of two: 16 bytes each, which stays within the first-level cache.
const RECENT: usize = 1024;

/// One thread's way into a [`Dictionary`]. Its ids are those of the dictionary.
pub struct Interner<'d> {
    dictionary: &'d Dictionary,
    /// By the lower bits of the hash: the hash, and the offset where that term was found.
    recent: Box<[(u64, u32)]>,
}

impl<'d> Interner<'d> {
    /// An interner that has seen nothing yet.
    pub fn new(dictionary: &'d Dictionary) -> Interner<'d> {
        Interner {
            dictionary,
            recent: vec![(0, 0); RECENT].into_boxed_slice(),
        }
    }

    /// The id of a term, which becomes known if it was not; the same as [`Dictionary::intern`] gives.
    pub fn intern(&mut self, term: TermRef<'_>) -> TermId {
        match take_apart(term, |part| self.dictionary.intern(part)) {
            Ok(id) => id,
            Err(parts) => self.intern_parts(&parts),
        }
    }

    fn intern_parts(&mut self, parts: &Parts<'_>) -> TermId {
        let recent = &mut self.recent[parts.hash as usize % RECENT];
        // Offset 0 is no term's: an empty place is told by it.
        if recent.0 == parts.hash && recent.1 != 0 {
            // SAFETY: the offset was given below, for parts with this hash.
            if let Some(id) = unsafe { self.dictionary.recognise(parts, recent.1) } {
                return id;
            }
        }
        let (id, offset) = self.dictionary.intern_parts(parts);
        *recent = (parts.hash, offset);
        id
    }
}
