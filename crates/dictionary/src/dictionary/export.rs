//! The content of a dictionary in plain values, for files: all of it, or the part that became known
//! after a mark. [`DictionaryRestore`](super::DictionaryRestore) makes a dictionary of it again,
//! with the same ids.
//!
//! An export takes its parts in this order:
//! 1. The transient terms, stripe by stripe. Terms that slices or batches need stay meanwhile,
//!    since their leases do.
//! 2. The epochs that have leases, and the number of the next.
//! 3. The mark up to which permanent terms belong to the export.
//!
//! Before changing it: what an exported term refers to is in the same export or in an earlier one.
//! So the mark is taken under all stripes' locks at once: a term is stored after its shared text is
//! known, and a shared text after its datatype. A term that became permanent between 1 and 3 is in
//! both parts. One that becomes permanent after 3 and before it is written is permanent in 1 alone,
//! and belongs to the next export too: its mark is behind this one's, also in a restored dictionary
//! ([`DictionaryRestore::mark`](super::DictionaryRestore::mark)).
#![allow(unsafe_code)]

use super::{Dictionary, SHARDS_PER_STRIPE, STRIPES};
use crate::arena::{Kind, Stored};
use crate::transient::TransientTerm;
use somersault_model::TermId;
use std::sync::Arc;

pub use crate::epochs::SavedEpochs;

/// A point in the growth of one dictionary's permanent terms. The default is before the first.
#[derive(Clone, Debug, Default)]
pub struct DictionaryMark {
    /// The number of the dictionary; 0 for the default.
    dictionary: u64,
    terms: u64,
    shared: u32,
    stripes: Vec<StripeMark>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct StripeMark {
    /// The offset behind the last term.
    end: u64,
    promoted: usize,
}

impl DictionaryMark {
    /// The number of permanent terms before it, for choosing what to export.
    #[must_use]
    pub fn terms(&self) -> u64 {
        self.terms
    }

    fn stripe(&self, stripe: usize) -> StripeMark {
        self.stripes.get(stripe).copied().unwrap_or_default()
    }
}

/// How a term is written after its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SavedForm {
    /// Its text.
    Text,
    /// The number of its shared text, then its own text.
    NumberedText,
    /// The ids of a triple term.
    Parts,
}

impl SavedForm {
    /// The form of terms of a kind; `None` for numbers that are no kind.
    #[must_use]
    pub fn of_kind(kind: u8) -> Option<SavedForm> {
        Some(match Kind::of_number(kind)? {
            Kind::Triple => SavedForm::Parts,
            kind if kind.is_numbered() => SavedForm::NumberedText,
            _ => SavedForm::Text,
        })
    }
}

/// A term in plain values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SavedTerm<'a> {
    /// The number of its kind. docs/format.md lists the kinds.
    pub kind: u8,
    /// The number of the shared text that belongs to it; 0 for kinds without.
    pub number: u32,
    /// Its own text; empty for triple terms.
    pub text: &'a str,
    /// The ids of a triple term; unbound for others.
    pub parts: [TermId; 3],
}

impl<'a> SavedTerm<'a> {
    fn of(stored: &Stored<'a>) -> SavedTerm<'a> {
        SavedTerm {
            kind: stored.kind as u8,
            number: stored.number,
            text: stored.text,
            parts: stored.parts,
        }
    }
}

/// A permanent term. Its id follows from its virtual shard and from its place among that shard's
/// rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SavedRow<'a> {
    /// The virtual shard within the stripe, below 16.
    pub shard: u8,
    /// Bits 20 to 51 of the term's hash.
    pub short_hash: u32,
    /// The term.
    pub term: SavedTerm<'a>,
}

/// A term that came with a timing statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SavedTransient<'a> {
    /// Its id.
    pub id: TermId,
    /// Its hash.
    pub hash: u64,
    /// The timing statements that have mentioned it: their stream's number modulo 2^20 - 1 in the
    /// upper 20 bits (all set if there are several streams), and the last one's epoch in the
    /// others. All bits are set once the term is permanent.
    pub mention: u64,
    /// The term.
    pub term: SavedTerm<'a>,
}

/// A text that many terms share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SavedText<'a> {
    /// The text.
    pub text: &'a str,
    /// The id of the datatype that it is the IRI of; unbound for other texts.
    pub datatype: TermId,
}

/// A dictionary's content at one moment. Reading it takes no lock for longer than one stripe's
/// table takes to scan.
pub struct DictionaryExport<'d> {
    dictionary: &'d Dictionary,
    since: DictionaryMark,
    through: DictionaryMark,
    transient: Vec<Arc<TransientTerm>>,
    next_numbers: Vec<u64>,
    epochs: SavedEpochs,
}

/// The permanent terms of one stripe, in the order in which they became known.
pub struct ExportedRows<'d> {
    dictionary: &'d Dictionary,
    stripe: usize,
    /// Offset and short hash.
    rows: Vec<(u32, u32)>,
}

impl Dictionary {
    /// The number of stripes that permanent terms lie in; a stripe is 16 virtual shards.
    pub const STRIPES: usize = STRIPES;

    /// The content of the dictionary: permanent terms that became known after `since`, and all
    /// transient terms. Keep the leases of the statements that belong to it until this returns.
    ///
    /// # Panics
    /// If the mark is of another dictionary.
    #[must_use]
    pub fn export(&self, since: &DictionaryMark) -> DictionaryExport<'_> {
        let is_own = since.dictionary == 0 || since.dictionary == self.number;
        assert!(is_own, "a mark belongs to the dictionary that gave it");
        let (mut transient, mut next_numbers) = (Vec::new(), Vec::with_capacity(STRIPES));
        for stripe in &self.stripes {
            let writer = stripe.writer.read();
            let passing = writer.transient.iter();
            let passing = passing.filter(|term| !term.last_mention.is_permanent());
            transient.extend(passing.cloned());
            next_numbers.push(writer.transient.next());
        }
        DictionaryExport {
            dictionary: self,
            since: since.clone(),
            transient,
            next_numbers,
            epochs: self.epochs.export(),
            through: self.mark(),
        }
    }

    /// The mark behind all permanent terms that are known now.
    #[must_use]
    pub fn mark(&self) -> DictionaryMark {
        let writers: Vec<_> = self.stripes.iter().map(|it| it.writer.read()).collect();
        let stripes: Vec<StripeMark> = (self.stripes.iter().zip(&writers))
            .map(|(stripe, writer)| StripeMark {
                end: writer.end.offset(),
                promoted: stripe.promoted.lock().len(),
            })
            .collect();
        let permanent = writers.iter().map(|writer| writer.slots.len());
        let promoted = stripes.iter().map(|stripe| stripe.promoted);
        DictionaryMark {
            dictionary: self.number,
            terms: permanent.chain(promoted).sum::<usize>() as u64,
            shared: self.shared.len(),
            stripes,
        }
    }
}

impl<'d> DictionaryExport<'d> {
    /// The mark from which the next export goes on, once this one is stored.
    #[must_use]
    pub fn through(&self) -> &DictionaryMark {
        &self.through
    }

    /// Whether no permanent term became known.
    #[must_use]
    pub fn has_no_permanent(&self) -> bool {
        let mut stripes = 0..STRIPES;
        stripes.all(|stripe| self.since.stripe(stripe) == self.through.stripe(stripe))
            && self.since.shared == self.through.shared
    }

    /// The number of the first shared text.
    #[must_use]
    pub fn first_text(&self) -> u32 {
        self.since.shared
    }

    /// The shared texts, in the order of their numbers.
    pub fn texts(&self) -> impl ExactSizeIterator<Item = SavedText<'d>> {
        let shared = &self.dictionary.shared;
        let count = self.through.shared - self.since.shared;
        let first = self.since.shared;
        (0..count as usize).map(move |at| {
            let number = first + at as u32;
            SavedText {
                text: shared.text(number),
                datatype: shared.datatype_id(number).unwrap_or_default(),
            }
        })
    }

    /// The permanent terms of a stripe.
    #[must_use]
    pub fn rows(&self, stripe: usize) -> ExportedRows<'d> {
        let (since, through) = (
            self.since.stripe(stripe).end,
            self.through.stripe(stripe).end,
        );
        let mut rows: Vec<(u32, u32)> = Vec::new();
        if since < through {
            let writer = self.dictionary.stripes[stripe].writer.read();
            let entries = writer.slots.entries();
            let entries = entries.map(|(hash, offset)| (offset, hash));
            rows.extend(entries.filter(|row| (since..through).contains(&row.0.into())));
        }
        rows.sort_unstable();
        ExportedRows {
            dictionary: self.dictionary,
            stripe,
            rows,
        }
    }

    /// Calls `each` with the transient terms of a stripe that became permanent, each after its
    /// parts. Parts come as permanent terms too, and may come more than once.
    ///
    /// # Errors
    /// The first error of `each`.
    pub fn try_each_promoted<E>(
        &self,
        stripe: usize,
        mut each: impl FnMut(SavedTransient<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let (since, through) = (self.since.stripe(stripe), self.through.stripe(stripe));
        let promoted = {
            let promoted = self.dictionary.stripes[stripe].promoted.lock();
            promoted[since.promoted..through.promoted].to_vec()
        };
        promoted.iter().try_for_each(|term| {
            with_parts(term, &mut |term| {
                each(SavedTransient {
                    mention: u64::MAX,
                    ..saved(term, self.epochs.next)
                })
            })
        })
    }

    /// Calls `each` with the transient terms that are not permanent, each after its parts, which
    /// may come more than once.
    ///
    /// # Errors
    /// The first error of `each`.
    pub fn try_each_transient<E>(
        &self,
        mut each: impl FnMut(SavedTransient<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut each = |term: &TransientTerm| each(saved(term, self.epochs.next));
        (self.transient.iter()).try_for_each(|term| with_parts(term, &mut each))
    }

    /// By stripe, the number that its next transient term will get.
    #[must_use]
    pub fn next_numbers(&self) -> &[u64] {
        &self.next_numbers
    }

    /// The epochs that have leases.
    #[must_use]
    pub fn epochs(&self) -> &SavedEpochs {
        &self.epochs
    }
}

/// A term as it is now, with what mentioned it in epochs before `next`: it may have been mentioned
/// again since the export was begun.
fn saved(term: &TransientTerm, next: u64) -> SavedTransient<'_> {
    SavedTransient {
        id: term.id,
        hash: term.hash(),
        mention: term.last_mention.bits_before(next),
        term: SavedTerm::of(&term.stored()),
    }
}

/// A term after the parts that stay with it.
fn with_parts<E>(
    term: &TransientTerm,
    each: &mut dyn FnMut(&TransientTerm) -> Result<(), E>,
) -> Result<(), E> {
    for part in term.held_parts() {
        with_parts(part, each)?;
    }
    each(term)
}

impl<'d> ExportedRows<'d> {
    /// The number of terms.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The terms in order.
    pub fn iter(&self) -> impl Iterator<Item = SavedRow<'d>> {
        let stripe = &self.dictionary.stripes[self.stripe];
        self.rows.iter().map(|(offset, short_hash)| {
            // SAFETY: the offset was in the stripe's table, read under its lock.
            let stored = unsafe { stripe.arena.read(*offset) };
            let stored = stored.expect("an offset in a table leads to a term");
            debug_assert!(stored.place.shard() < SHARDS_PER_STRIPE);
            SavedRow {
                shard: stored.place.shard() as u8,
                short_hash: *short_hash,
                term: SavedTerm::of(&stored),
            }
        })
    }
}
