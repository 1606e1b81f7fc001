//! A dictionary made of exported content ([`DictionaryExport`](super::DictionaryExport)), with the
//! same ids, and the same next ids.
//!
//! The steps:
//! 1. All shared texts, in order.
//! 2. The rows of each stripe, in the order of the exports. Threads may share the stripes.
//! 3. The transient terms.
//! 4. [`DictionaryRestore::finish`] checks what refers to other terms.
//!
//! Before changing it: files may be damaged in ways that their checksums do not show. Content that
//! does not fit together is refused with a sentence. Memory is safe whatever the content is,
//! because terms are stored here as interning stores them.

use super::{
    Dictionary, DictionaryMark, SHARDS_PER_STRIPE, SavedEpochs, SavedRow, SavedText,
    SavedTransient, Stripe, Writer, rdf_type,
};
use crate::arena::{Kind, Place, Stored};
use crate::transient::{LastMention, MOST_EPOCHS, Mentioned, TransientTerm, TripleParts};
use oxrdf::vocab::rdf;
use parking_lot::{Mutex, RwLockWriteGuard};
use somersault_model::{Lease, StreamUid, Tag, TermId, VirtualShard};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The check of triple terms refuses deeper nesting. The log does from half of it on.
const DEEPEST: usize = 128;

/// The most rows for which room is made before they come.
const MOST_EXPECTED: u64 = 1 << 16;

/// Content that does not fit together, in a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoreError(String);

impl fmt::Display for RestoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for RestoreError {}

fn refuse<T>(what: impl Into<String>) -> Result<T, RestoreError> {
    Err(RestoreError(what.into()))
}

/// A dictionary that is being restored.
pub struct DictionaryRestore {
    dictionary: Dictionary,
    /// The triple terms, whose parts are checked at the end.
    triples: Mutex<Vec<TermId>>,
}

/// The rows of one stripe, under its lock.
pub struct StripeRestore<'r> {
    restore: &'r DictionaryRestore,
    number: usize,
    stripe: &'r Stripe,
    writer: RwLockWriteGuard<'r, Writer>,
}

/// The leases of all epochs that had any, in the order of their numbers. A term that no lease
/// covers is reclaimed, so keep this until slices and open batches are restored with clones.
#[derive(Debug)]
pub struct RestoredLeases(Vec<Lease>);

impl RestoredLeases {
    /// The lease of an epoch, for statements that had it.
    #[must_use]
    pub fn of_epoch(&self, stream: StreamUid, number: u64) -> Option<&Lease> {
        self.of_stream(stream)
            .find(|lease| lease.epoch().number() == number)
    }

    /// The oldest lease of a stream, which covers all its statements. It serves where the epoch of
    /// statements is not known.
    #[must_use]
    pub fn oldest(&self, stream: StreamUid) -> Option<&Lease> {
        self.of_stream(stream).next()
    }

    fn of_stream(&self, stream: StreamUid) -> impl Iterator<Item = &Lease> {
        self.0
            .iter()
            .filter(move |lease| lease.epoch().stream() == stream)
    }
}

impl Default for DictionaryRestore {
    fn default() -> DictionaryRestore {
        DictionaryRestore::new()
    }
}

impl DictionaryRestore {
    /// Without any term.
    #[must_use]
    pub fn new() -> DictionaryRestore {
        DictionaryRestore {
            dictionary: Dictionary::without_terms(),
            triples: Mutex::default(),
        }
    }

    /// Adds the shared text with this number; they come in order.
    ///
    /// # Errors
    /// The number is not the next one, or the text is there already.
    pub fn add_text(&mut self, number: u32, text: &SavedText<'_>) -> Result<(), RestoreError> {
        let shared = &self.dictionary.shared;
        if number != shared.len() {
            return refuse(format!(
                "shared text {number} comes after {} texts",
                shared.len()
            ));
        }
        match shared.restore(text.text, text.datatype) {
            true => Ok(()),
            false => refuse(format!("shared text {number} has two numbers")),
        }
    }

    /// A stripe, to add its rows; `None` if there is none with this number. Different threads may
    /// have different stripes.
    #[must_use]
    pub fn stripe(&self, number: usize) -> Option<StripeRestore<'_>> {
        let stripe = self.dictionary.stripes.get(number)?;
        Some(StripeRestore {
            restore: self,
            number,
            stripe,
            writer: stripe.writer.write(),
        })
    }

    /// Adds a transient term, whose transient parts are there already. Nothing changes if the term
    /// is there too, unless it became permanent since.
    ///
    /// # Errors
    /// The term is of an unknown kind, lacks what it refers to, or has another one's id.
    pub fn add_transient(&self, saved: &SavedTransient<'_>) -> Result<(), RestoreError> {
        let (id, term) = (saved.id, &saved.term);
        let kind = self.checked_kind(term.kind, term.number)?;
        let is_id = id.is_transient() && id.tag() == kind.tag();
        if !is_id || id.virtual_shard() != VirtualShard::of_hash(saved.hash) {
            return refuse(format!(
                "{id:?} is not the id of a transient term of its kind"
            ));
        }
        let held = self.held_parts(kind, term.parts)?;
        let stripe = self.dictionary.stripe_of(id.virtual_shard());
        let mut writer = stripe.writer.write();
        if let Some(known) = writer.transient.get(id) {
            let stored = known.stored();
            if (stored.kind, stored.text, stored.parts) != (kind, term.text, term.parts) {
                return refuse(format!("{id:?} is the id of two terms"));
            }
            if saved.mention == u64::MAX {
                stripe.promote(known);
            }
            return Ok(());
        }
        let number =
            id.sequence() ^ TermId::transient(kind.tag(), id.virtual_shard(), 0).sequence();
        writer.transient.skip_to(number + 1);
        let parts = (kind == Kind::Triple).then_some(TripleParts {
            ids: term.parts,
            held,
        });
        let text = (kind, term.number, term.text);
        let mention = LastMention::of_bits(saved.mention);
        let restored = TransientTerm::new((id, saved.hash), mention, text, parts);
        let restored = Arc::new(restored);
        if restored.last_mention.is_permanent() {
            stripe.promoted.lock().push(Arc::clone(&restored));
        }
        writer.transient.insert(restored);
        self.dictionary
            .knows_transient
            .store(true, Ordering::Relaxed);
        if kind == Kind::Triple {
            self.triples.lock().push(id);
        }
        Ok(())
    }

    /// Gives no transient term of a stripe a number below this one from now on.
    ///
    /// # Errors
    /// There is no such stripe, or the number cannot be in an id.
    pub fn skip_numbers(&self, stripe: usize, next: u64) -> Result<(), RestoreError> {
        let first = TermId::transient(Tag::Literal, VirtualShard::truncated(0), 0).sequence();
        match self.dictionary.stripes.get(stripe) {
            Some(stripe) if next < first => {
                stripe.writer.write().transient.skip_to(next);
                Ok(())
            }
            _ => refuse(format!("stripe {stripe} does not go on with number {next}")),
        }
    }

    /// The mark behind the permanent terms so far.
    #[must_use]
    pub fn mark(&self) -> DictionaryMark {
        self.dictionary.mark()
    }

    /// The dictionary, and the leases of its epochs.
    ///
    /// # Errors
    /// Terms lack what they refer to.
    pub fn finish(
        self,
        epochs: &SavedEpochs,
    ) -> Result<(Dictionary, RestoredLeases), RestoreError> {
        self.check_texts()?;
        for id in self.triples.lock().iter() {
            if !self.is_sound_triple(*id, DEEPEST) {
                return refuse(format!(
                    "the triple term {id:?} lacks parts, or contains itself"
                ));
            }
        }
        let mut dictionary = self.dictionary;
        if dictionary.lookup(rdf::TYPE.into()) != Some(rdf_type()) {
            return refuse("rdf:type is not the first term of its virtual shard");
        }
        let numbers = epochs.leased.iter().map(|(_, number)| *number);
        if epochs.next > MOST_EPOCHS || numbers.max().is_some_and(|most| most >= epochs.next) {
            return refuse("the number of the next epoch is not above those before");
        }
        let leases = dictionary.epochs.restore(epochs);
        for stripe in &dictionary.stripes {
            for term in stripe.writer.read().transient.iter() {
                let mentioned = term.last_mention.mentioned();
                let (Mentioned::ByOne(epoch) | Mentioned::BySeveral(epoch)) = mentioned else {
                    continue;
                };
                if epoch >= epochs.next {
                    return refuse(format!("{:?} was mentioned after the last epoch", term.id));
                }
                let slot = term.last_mention.slot();
                dictionary.epochs.list_restored(term.id, mentioned, slot);
            }
        }
        Ok((dictionary, RestoredLeases(leases)))
    }

    /// The kind with this number, of a term with this shared text.
    fn checked_kind(&self, kind: u8, number: u32) -> Result<Kind, RestoreError> {
        let Some(known) = Kind::of_number(kind) else {
            return refuse(format!("there is no kind of term with number {kind}"));
        };
        if !known.is_numbered() {
            return Ok(known);
        }
        match self.dictionary.shared.datatype_id(number) {
            None => refuse(format!(
                "a term needs shared text {number}, which is not there"
            )),
            Some(id) if id.is_unbound() == (known == Kind::Typed) => refuse(format!(
                "shared text {number} is not of the kind that a term needs"
            )),
            Some(_) => Ok(known),
        }
    }

    /// The transient parts of a triple term.
    fn held_parts(
        &self,
        kind: Kind,
        parts: [TermId; 3],
    ) -> Result<Vec<Arc<TransientTerm>>, RestoreError> {
        if kind != Kind::Triple {
            return Ok(Vec::new());
        }
        let transient = parts.into_iter().filter(|part| part.is_transient());
        let held = transient.map(|part| match self.dictionary.transient_term(part) {
            Some(term) => Ok(term),
            None => refuse(format!("{part:?}, a part of a triple term, is not there")),
        });
        held.collect()
    }

    /// Each datatype is an IRI with that text.
    fn check_texts(&self) -> Result<(), RestoreError> {
        let shared = &self.dictionary.shared;
        for number in 0..shared.len() {
            let id = shared.datatype_id(number).unwrap_or_default();
            let is_same = |text: &str| text == shared.text(number);
            let is_iri = id.tag() == Tag::NamedNode;
            let is_right = is_iri && self.dictionary.with_str(id, is_same) == Some(true);
            if !id.is_unbound() && !is_right {
                return refuse(format!(
                    "shared text {number} is not the IRI of its datatype"
                ));
            }
        }
        Ok(())
    }

    fn is_sound_triple(&self, id: TermId, levels: usize) -> bool {
        let Some([subject, predicate, object]) = self.dictionary.triple_term(id) else {
            return false;
        };
        let is_node = matches!(subject.tag(), Tag::NamedNode | Tag::BlankNode);
        let is_named = predicate.tag() == Tag::NamedNode;
        let are_known = [subject, predicate, object].map(|part| self.dictionary.is_known(part));
        let nested = object.tag() == Tag::TripleTerm;
        let is_sound = || levels > 1 && self.is_sound_triple(object, levels - 1);
        is_node && is_named && are_known == [true; 3] && (!nested || is_sound())
    }
}

impl StripeRestore<'_> {
    /// Makes room for this many rows, which a file claims to have.
    pub fn expect(&mut self, rows: u64) {
        self.writer.slots.reserve(rows.min(MOST_EXPECTED) as usize);
    }

    /// Adds the next permanent term.
    ///
    /// # Errors
    /// The term is of an unknown kind, lacks its shared text, or its virtual shard is full.
    pub fn add(&mut self, row: &SavedRow<'_>) -> Result<(), RestoreError> {
        let term = &row.term;
        let kind = self.restore.checked_kind(term.kind, term.number)?;
        let within = usize::from(row.shard);
        let sequence = self.writer.next.get(within).copied();
        let place = sequence.and_then(|sequence| Place::checked(within, sequence));
        let (Some(sequence), Some(place)) = (sequence, place) else {
            return refuse(format!(
                "there is no room in virtual shard {within} of its stripe"
            ));
        };
        let stored = Stored {
            place,
            kind,
            number: term.number,
            text: term.text,
            parts: term.parts,
        };
        let writer = &mut *self.writer;
        writer.next[within] += 1;
        let offset = writer.end.store(&self.stripe.arena, &stored);
        let shard = self.number * SHARDS_PER_STRIPE + within;
        let entry = self.restore.dictionary.entries[shard].make(sequence);
        entry.store(offset, Ordering::Release);
        writer.slots.insert(row.short_hash, offset);
        if kind == Kind::Triple {
            let shard = VirtualShard::truncated(shard as u16);
            let id = TermId::in_dictionary(kind.tag(), shard, sequence);
            self.restore.triples.lock().push(id);
        }
        Ok(())
    }
}
