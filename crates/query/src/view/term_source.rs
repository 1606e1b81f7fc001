//! Where an execution finds the ids of terms and the terms of ids. The one thing to know before
//! changing it: cells are decoded through it row by row, so each method is one match that is
//! inlined, and no call through a table. A dictionary of another process becomes a variant.

use oxrdf::{Term, TermRef};
use somersault_dictionary::{Dictionary, TermPin, TermView};
use somersault_model::TermId;
use std::sync::Arc;

/// The dictionary of a view, wherever it is.
#[derive(Clone, Copy)]
pub enum TermSource<'d> {
    /// In this process.
    Here(&'d Dictionary),
}

impl<'d> From<&'d Dictionary> for TermSource<'d> {
    fn from(dictionary: &'d Dictionary) -> TermSource<'d> {
        TermSource::Here(dictionary)
    }
}

impl<'d> From<&'d Arc<Dictionary>> for TermSource<'d> {
    fn from(dictionary: &'d Arc<Dictionary>) -> TermSource<'d> {
        TermSource::Here(dictionary)
    }
}

impl TermSource<'_> {
    /// Tells dictionaries apart: ids of one mean nothing in another.
    #[inline]
    pub fn number(self) -> u64 {
        match self {
            TermSource::Here(dictionary) => dictionary.number(),
        }
    }

    /// The id of a term that is known for good; see [`Dictionary::lookup`].
    #[inline]
    pub fn lookup(self, term: TermRef<'_>) -> Option<TermId> {
        match self {
            TermSource::Here(dictionary) => dictionary.lookup(term),
        }
    }

    /// The id of a known term, which stays as long as `held`; see [`Dictionary::lookup_held`].
    #[inline]
    pub fn lookup_held(self, term: TermRef<'_>, held: &mut TermPin) -> Option<TermId> {
        match self {
            TermSource::Here(dictionary) => dictionary.lookup_held(term, held),
        }
    }

    /// The id of a term, which is known for good from now on.
    pub fn intern(self, term: TermRef<'_>) -> TermId {
        match self {
            TermSource::Here(dictionary) => dictionary.intern(term),
        }
    }

    /// Whether the term of an id is known for good.
    pub fn is_permanent(self, id: TermId) -> bool {
        match self {
            TermSource::Here(dictionary) => dictionary.is_permanent(id),
        }
    }

    /// Keeps the terms of these ids; `None` if all are known for good.
    pub fn hold<'i>(self, ids: impl Iterator<Item = &'i TermId>) -> Option<Arc<TermPin>> {
        match self {
            TermSource::Here(dictionary) => dictionary.hold(ids),
        }
    }

    /// The term of an id; `None` if it has none.
    #[inline]
    pub fn decode(self, id: TermId) -> Option<Term> {
        match self {
            TermSource::Here(dictionary) => dictionary.decode(id),
        }
    }

    /// Reads the text of a term; see [`Dictionary::with_str`].
    #[inline]
    pub fn with_str<R>(self, id: TermId, read: impl FnOnce(&str) -> R) -> Option<R> {
        match self {
            TermSource::Here(dictionary) => dictionary.with_str(id, read),
        }
    }

    /// Reads the parts of a term that is not inline; see [`Dictionary::with_view`].
    #[inline]
    pub fn with_view<R>(self, id: TermId, read: impl FnOnce(TermView<'_>) -> R) -> Option<R> {
        match self {
            TermSource::Here(dictionary) => dictionary.with_view(id, read),
        }
    }

    /// Reads the parts of many terms; see [`Dictionary::decode_column`].
    #[inline]
    pub fn decode_column(self, ids: &[TermId], each: impl FnMut(usize, Option<TermView<'_>>)) {
        match self {
            TermSource::Here(dictionary) => dictionary.decode_column(ids, each),
        }
    }
}
