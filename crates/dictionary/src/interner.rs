//! Interning many terms from one thread: permanent ones that were met lately are recognised without
//! a lock. Transient ones are not remembered, so nothing here has to notice that one is reclaimed.
#![allow(unsafe_code)]

use crate::dictionary::{Dictionary, Mentions, Parts, take_apart};
use crate::memory::prefetch;
use oxrdf::TermRef;
use somersault_model::TermId;

/// For one document: 16 bytes each, which stays within the first-level cache.
const FEW: usize = 1024;
/// For a thread that interns many documents: its memory stays within the second-level cache.
const MANY: usize = 1 << 15;
/// The number of terms that are taken apart before the first of them is looked up.
const TOGETHER: usize = 64;

/// One thread's access to a [`Dictionary`]. Its ids are those of the dictionary.
pub struct Interner<'d> {
    dictionary: &'d Dictionary,
    recent: Recent,
}

/// The terms that an [`Interner`] has met lately, kept for the next one.
pub struct Recent {
    /// The number of the dictionary that the offsets belong to.
    dictionary: u64,
    /// By the lower bits of the hash: the hash, and the offset at which that term was found. The
    /// length is a power of two.
    places: Box<[(u64, u32)]>,
}

impl Default for Recent {
    fn default() -> Recent {
        Recent::with_places(MANY)
    }
}

impl Recent {
    fn with_places(places: usize) -> Recent {
        Recent {
            dictionary: 0,
            places: vec![(0, 0); places].into_boxed_slice(),
        }
    }

    #[inline]
    fn place(&self, hash: u64) -> usize {
        hash as usize & (self.places.len() - 1)
    }
}

impl<'d> Interner<'d> {
    /// An interner that remembers no term yet.
    pub fn new(dictionary: &'d Dictionary) -> Interner<'d> {
        Interner::with(dictionary, Recent::with_places(FEW))
    }

    /// An interner that remembers the terms of an earlier one, if that had the same dictionary.
    pub fn with(dictionary: &'d Dictionary, mut recent: Recent) -> Interner<'d> {
        if recent.dictionary != dictionary.number() {
            recent.places.fill((0, 0));
            recent.dictionary = dictionary.number();
        }
        Interner { dictionary, recent }
    }

    /// The terms that it has met lately.
    pub fn into_recent(self) -> Recent {
        self.recent
    }

    /// The id of a term, which becomes known if it was not; the same as [`Dictionary::intern`]
    /// returns.
    pub fn intern(&mut self, term: TermRef<'_>) -> TermId {
        match take_apart(term, |part| self.dictionary.intern(part)) {
            Ok(id) => id,
            Err(parts) => self.intern_parts(&parts, None),
        }
    }

    /// Appends the ids of these terms. If many differ from those met before, this is faster than
    /// one by one: it prefetches some while it compares others.
    pub fn intern_all(&mut self, terms: &[TermRef<'_>], ids: &mut Vec<TermId>) {
        self.all(terms, None, ids);
    }

    /// As [`Interner::intern_all`], of terms that timing statements mention: see
    /// [`Dictionary::mention`].
    pub fn mention_all(
        &mut self,
        terms: &[TermRef<'_>],
        mentions: &mut Mentions<'d>,
        ids: &mut Vec<TermId>,
    ) {
        self.all(terms, Some(mentions), ids);
    }

    fn all(
        &mut self,
        terms: &[TermRef<'_>],
        mut mentions: Option<&mut Mentions<'d>>,
        ids: &mut Vec<TermId>,
    ) {
        let dictionary = self.dictionary;
        let mut apart = Vec::with_capacity(TOGETHER.min(terms.len()));
        let mut others = Vec::with_capacity(apart.capacity());
        for together in terms.chunks(TOGETHER) {
            apart.clear();
            for term in together {
                let parts = take_apart(*term, |part| match &mut mentions {
                    None => dictionary.intern(part),
                    Some(mentions) => dictionary.mention(part, mentions),
                });
                if let Err(parts) = &parts {
                    prefetch(&raw const self.recent.places[self.recent.place(parts.hash)]);
                }
                apart.push(parts);
            }
            others.clear();
            for parts in apart.iter().filter_map(|parts| parts.as_ref().err()) {
                let (hash, offset) = self.recent.places[self.recent.place(parts.hash)];
                if hash == parts.hash && offset != 0 {
                    dictionary.prefetch_term(hash, offset);
                } else {
                    dictionary.prefetch_slot(parts.hash);
                    others.push(parts.hash);
                }
            }
            for hash in &others {
                dictionary.prefetch_first(*hash);
            }
            for parts in &apart {
                ids.push(match parts {
                    Ok(id) => *id,
                    Err(parts) => self.intern_parts(parts, mentions.as_deref_mut()),
                });
            }
        }
    }

    fn intern_parts(&mut self, parts: &Parts<'_>, mentions: Option<&mut Mentions<'d>>) -> TermId {
        let place = self.recent.place(parts.hash);
        let recent = &mut self.recent.places[place];
        // No term has offset 0: it marks an empty place.
        if recent.0 == parts.hash && recent.1 != 0 {
            // SAFETY: the offset was given below, for parts with this hash, on the dictionary whose
            // number `recent` has: what was of another one was forgotten in `with`.
            if let Some(id) = unsafe { self.dictionary.recognise(parts, recent.1) } {
                return id;
            }
        }
        let (id, offset) = match mentions {
            None => self.dictionary.intern_parts(parts),
            Some(mentions) => self.dictionary.mention_parts(parts, mentions),
        };
        if offset != 0 {
            *recent = (parts.hash, offset);
        }
        id
    }
}
