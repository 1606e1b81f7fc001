//! Texts that many terms share: beginnings of IRIs, datatypes, language tags. Each is kept once and
//! has a small number; reading one by its number takes no lock.
//!
//! A beginning is kept only when it saves memory: from the fourth new IRI that has it, and of up to
//! three candidates the longest. Which beginnings are kept depends on the order in which terms
//! came; no id and no answer depends on it.

use crate::memory::Growing;
use hashbrown::HashTable;
use parking_lot::RwLock;
use rustc_hash::FxHasher;
use somersault_model::TermId;
use std::hash::Hasher;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// The number of times that a beginning is met before it is kept.
const PAYS_FROM: u32 = 4;
/// A shorter beginning saves less than it costs to find it.
const SHORTEST: usize = 10;
/// The number of cuts of an IRI that are tried.
const CUTS: usize = 3;
/// The number of beginnings that are remembered without being kept (yet); later ones push out
/// earlier ones.
const SIGHTINGS: usize = 4096;

/// Shared texts and their numbers.
pub(crate) struct SharedTexts {
    texts: Growing<OnceLock<SharedText>, 6, 24>,
    known: RwLock<Known>,
    /// The upper 24 bits are from the beginning's hash, the lower 8 count the times that it was
    /// met.
    sightings: Box<[AtomicU32]>,
}

#[derive(Default)]
struct Known {
    numbers: HashTable<u32>,
    text_bytes: usize,
}

struct SharedText {
    text: Box<str>,
    /// The term id of a datatype; unbound for other texts.
    datatype: TermId,
}

impl SharedTexts {
    pub(crate) fn new() -> SharedTexts {
        SharedTexts {
            texts: Growing::default(),
            known: RwLock::default(),
            sightings: std::iter::repeat_with(AtomicU32::default)
                .take(SIGHTINGS)
                .collect(),
        }
    }

    /// The text with this number; empty for numbers that were never handed out.
    #[inline]
    pub(crate) fn text(&self, number: u32) -> &str {
        self.get(number).map_or("", |shared| &shared.text)
    }

    /// The number of texts.
    pub(crate) fn len(&self) -> u32 {
        self.known.read().numbers.len() as u32
    }

    /// Adds the next text as another dictionary numbered it; `false` if it is here already. The
    /// datatype is unbound for other texts.
    pub(crate) fn restore(&self, text: &str, datatype: TermId) -> bool {
        let next = self.len();
        self.keep(hash_of(text.as_bytes()), text, datatype) == next
    }

    /// The id of the datatype with this number; unbound for other texts.
    pub(crate) fn datatype_id(&self, number: u32) -> Option<TermId> {
        self.get(number).map(|shared| shared.datatype)
    }

    /// The number of a language tag.
    pub(crate) fn language(&self, tag: &str) -> u32 {
        let hash = hash_of(tag.as_bytes());
        (self.find(hash, tag, false)).unwrap_or_else(|| self.keep(hash, tag, TermId::UNBOUND))
    }

    /// The number of a datatype; `id` is called if it is new.
    pub(crate) fn datatype(&self, iri: &str, id: impl FnOnce() -> TermId) -> u32 {
        let hash = hash_of(iri.as_bytes());
        (self.find(hash, iri, true)).unwrap_or_else(|| self.keep(hash, iri, id()))
    }

    /// The number and length of the shared beginning to use for a new IRI, if there is one.
    pub(crate) fn beginning(&self, iri: &str) -> Option<(u32, usize)> {
        let bytes = iri.as_bytes();
        let cuts = (SHORTEST..=bytes.len())
            .rev()
            .filter(|cut| matches!(bytes[cut - 1], b'/' | b'#' | b':'));
        for cut in cuts.take(CUTS) {
            let text = &iri[..cut];
            let hash = hash_of(text.as_bytes());
            if let Some(number) = self.find(hash, text, false) {
                return Some((number, cut));
            }
            if self.sighted(hash) >= PAYS_FROM {
                return Some((self.keep(hash, text, TermId::UNBOUND), cut));
            }
        }
        None
    }

    /// Memory held besides the struct itself, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let known = self.known.read();
        self.texts.bytes()
            + known.numbers.allocation_size()
            + known.text_bytes
            + size_of_val(&*self.sightings)
    }

    #[inline]
    fn get(&self, number: u32) -> Option<&SharedText> {
        self.texts.get(number.into())?.get()
    }

    fn find(&self, hash: u64, text: &str, is_datatype: bool) -> Option<u32> {
        (self.known.read().numbers)
            .find(hash, |number| self.is(*number, text, is_datatype))
            .copied()
    }

    fn is(&self, number: u32, text: &str, is_datatype: bool) -> bool {
        self.get(number)
            .is_some_and(|held| &*held.text == text && held.datatype.is_unbound() != is_datatype)
    }

    fn keep(&self, hash: u64, text: &str, datatype: TermId) -> u32 {
        let mut known = self.known.write();
        let is_datatype = !datatype.is_unbound();
        let same = |number: &u32| self.is(*number, text, is_datatype);
        if let Some(number) = known.numbers.find(hash, same) {
            return *number;
        }
        let number = u32::try_from(known.numbers.len()).expect("fewer than 2^32 shared texts");
        let shared = SharedText {
            text: text.into(),
            datatype,
        };
        known.text_bytes += text.len();
        let fresh = self.texts.make(number.into()).set(shared).is_ok();
        assert!(fresh, "numbers are handed out once, under the lock");
        let hash_of_number = |number: &u32| hash_of(self.text(*number).as_bytes());
        (known.numbers).insert_unique(hash, number, hash_of_number);
        number
    }

    /// Records that a beginning was met. Returns how often lately, this time included.
    fn sighted(&self, hash: u64) -> u32 {
        let slot = &self.sightings[hash as usize % SIGHTINGS];
        let mark = (hash >> 40) as u32;
        // Two threads may lose a count between them: the beginning is then kept a little later.
        let held = slot.load(Ordering::Relaxed);
        let met = if held >> 8 == mark { held & 0xff } else { 0 } + 1;
        slot.store(mark << 8 | met.min(0xff), Ordering::Relaxed);
        met
    }
}

fn hash_of(text: &[u8]) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write(text);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_beginning_is_kept_when_it_pays() {
        let shared = SharedTexts::new();
        let begun = |iri: &str| {
            let (number, cut) = shared.beginning(iri)?;
            assert_eq!(shared.text(number), &iri[..cut]);
            Some(cut)
        };
        for n in 0..3 {
            assert_eq!(begun(&format!("http://example.com/a/{n}")), None);
        }
        let whole = "http://example.com/a/".len();
        assert_eq!(begun("http://example.com/a/4"), Some(whole));
        assert_eq!(begun("http://example.com/a/"), Some(whole));
        // A longer beginning is not known; a known shorter one is used meanwhile.
        assert_eq!(begun("http://example.com/a/b#1"), Some(whole));
        for n in 2..5 {
            begun(&format!("http://example.com/a/b#{n}"));
        }
        assert_eq!(begun("http://example.com/a/b#5"), Some(whole + 2));
        assert_eq!(begun("urn:x:1"), None, "too short to pay");
    }

    #[test]
    fn datatypes_are_apart_from_other_texts() {
        let shared = SharedTexts::new();
        let id = TermId::from_raw(1 << 60);
        let language = shared.language("en");
        let datatype = shared.datatype("en", || id);
        assert_ne!(language, datatype);
        assert_eq!(shared.language("en"), language);
        assert_eq!(
            shared.datatype("en", || unreachable!("it is known")),
            datatype
        );
        assert_eq!(shared.datatype_id(datatype), Some(id));
        assert_eq!(shared.text(1 << 20), "");
    }
}
