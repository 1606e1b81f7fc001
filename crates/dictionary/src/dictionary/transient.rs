//! Transient terms: those that only timing statements of streams have mentioned so far. They are
//! reclaimed when the last such statement is gone, so the dictionary is bounded by what is stored
//! plus what windows cover.
//!
//! The places that may have the id of such a term, and what keeps the term for each:
//!
//! - a statement on its way, in an open batch or in a slice: the [`Lease`] that goes with it
//!   ([`Dictionary::lease`]);
//! - a window version, and an execution over it: the slices that it has;
//! - an execution that has looked a term up: its [`TermPin`] ([`Dictionary::lookup_held`]);
//! - an answer: its [`TermPin`] ([`Dictionary::hold`]), made while the windows still exist;
//! - what is stored, registered, or logged for good: it keeps nothing, since any other mention
//!   makes a term permanent, and the id stays the same.
//!
//! An id that is kept beyond that is a number that is never given to another term: it equals no
//! later id, and has no term. Languages and datatypes are permanent; so is an IRI that serves as
//! one. The parts of a triple term stay as long as it does.
//!
//! Before changing it: see `src/transient.rs` for the locks, `epochs.rs` for when a term is
//! past.

use super::{Dictionary, Parts, Writer, take_apart};
use crate::epochs::Portion;
use crate::term_view::TermView;
use crate::transient::{LastMention, ReclaimOutcome, TransientTerm, TripleParts};
use oxrdf::TermRef;
use somersault_model::{Lease, StreamUid, TermId, VirtualShard};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// One thread's handle for mentioning terms in timing statements. The terms that it adds are listed
/// when it is dropped.
pub struct Mentions<'d> {
    dictionary: &'d Dictionary,
    lease: Lease,
    born: Vec<TermId>,
    /// By the lower bits of the hash, the terms mentioned lately under the lease: their last
    /// mention is recorded already, so they need not be found again.
    recent: Box<[Option<Arc<TransientTerm>>]>,
}

/// The number of remembered terms: statements about one thing come one after the other.
const RECENT: usize = 256;

impl Mentions<'_> {
    /// For many mentions: terms mentioned lately are recognised without a lock.
    pub fn remembering(mut self) -> Self {
        self.recent = vec![None; RECENT].into_boxed_slice();
        self
    }

    #[inline]
    fn recent(&self, hash: u64) -> Option<&TransientTerm> {
        let place = hash as usize & (RECENT - 1);
        let term = self.recent.get(place)?.as_deref()?;
        term.has_hash(hash).then_some(term)
    }

    fn remember(&mut self, hash: u64, term: &Arc<TransientTerm>) {
        if let Some(place) = self.recent.get_mut(hash as usize & (RECENT - 1)) {
            *place = Some(Arc::clone(term));
        }
    }

    /// The number of the terms that were new.
    pub fn born(&self) -> usize {
        self.born.len()
    }
}

impl Drop for Mentions<'_> {
    fn drop(&mut self) {
        if !self.born.is_empty() {
            self.dictionary.epochs.list(&self.lease, &mut self.born);
        }
    }
}

/// Terms that came with timing statements and stay as long as this value lives.
#[derive(Clone, Debug, Default)]
pub struct TermPin(Vec<Arc<TransientTerm>>);

impl TermPin {
    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Also holds the terms of another one.
    pub fn extend(&mut self, other: &TermPin) {
        self.0.extend(other.0.iter().cloned());
    }

    /// Memory held beside the dictionary's, in bytes.
    pub fn bytes(&self) -> usize {
        self.0.capacity() * size_of::<Arc<TransientTerm>>()
    }

    fn add(&mut self, term: &Arc<TransientTerm>) {
        self.0.push(Arc::clone(term));
        term.held_parts().iter().for_each(|part| self.add(part));
    }
}

/// The number of terms in a dictionary, by kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DictionaryCounts {
    /// Terms, inline ones not counted.
    pub terms: usize,
    /// Those of them that may be reclaimed, or that were transient and have been made permanent
    /// since.
    pub transient: usize,
    /// The number of terms reclaimed so far.
    pub reclaimed: u64,
}

impl Dictionary {
    /// A lease for timing statements of a stream, whose terms are to be mentioned under it. Keep it
    /// as long as the statements.
    pub fn lease(&self, stream: StreamUid) -> Lease {
        self.epochs.lease(stream)
    }

    /// Ends the stream's epoch. Call it when statements of the stream have gone: later ones then
    /// have another epoch than those that stay.
    pub fn end_epoch(&self, stream: StreamUid) {
        self.epochs.end_epoch(stream);
    }

    /// A handle for mentioning the terms of statements that a lease covers.
    pub fn mentions(&self, lease: &Lease) -> Mentions<'_> {
        Mentions {
            dictionary: self,
            lease: lease.clone(),
            born: Vec::new(),
            recent: Box::default(),
        }
    }

    /// The id of a term that a timing statement mentions, which becomes known if it was not.
    pub fn mention(&self, term: TermRef<'_>, mentions: &mut Mentions<'_>) -> TermId {
        match take_apart(term, |part| self.mention(part, mentions)) {
            Ok(id) => id,
            Err(parts) => self.mention_parts(&parts, mentions).0,
        }
    }

    /// As [`Dictionary::mention`]; also returns the offset of a term that lies in an arena, else 0.
    pub(crate) fn mention_parts(
        &self,
        parts: &Parts<'_>,
        mentions: &mut Mentions<'_>,
    ) -> (TermId, u32) {
        if let Some(term) = mentions.recent(parts.hash)
            && self.same(&term.stored(), parts)
        {
            return (term.id, 0);
        }
        let stripe = self.stripe(parts.hash);
        let known = |writer: &Writer, mentions: &mut Mentions<'_>| {
            if let Some(found) = self.find(stripe, writer, parts) {
                return Some(found);
            }
            let transient = self.find_transient(writer, parts)?;
            transient.last_mention.mention(mentions.lease.epoch());
            mentions.remember(parts.hash, transient);
            Some((transient.id, 0))
        };
        if let Some(found) = known(&stripe.writer.read(), mentions) {
            return found;
        }
        // No shared beginning: shared texts stay for good, and a stream may always bring new ones.
        let (kind, number, text) = self.shorten_extra(parts);
        // The lease keeps the parts until the triple term does.
        let triple = parts.ids.iter().any(|part| !part.is_unbound());
        let triple = triple.then(|| TripleParts {
            ids: parts.ids,
            held: parts
                .ids
                .iter()
                .filter_map(|part| self.transient_term(*part))
                .collect(),
        });
        let mut writer = stripe.writer.write();
        if let Some(found) = known(&writer, mentions) {
            return found;
        }
        let shard = VirtualShard::of_hash(parts.hash);
        let id = TermId::transient(kind.tag(), shard, writer.transient.next_number());
        let term = TransientTerm::new(
            (id, parts.hash),
            LastMention::new(&mentions.lease),
            (kind, number, text),
            triple,
        );
        let term = Arc::new(term);
        mentions.remember(parts.hash, &term);
        writer.transient.insert(term);
        drop(writer);
        self.knows_transient.store(true, Ordering::Relaxed);
        mentions.born.push(id);
        (id, 0)
    }

    /// A timing statement mentions the term of an id, as by [`Dictionary::mention`], if the term
    /// still exists. Returns whether it does.
    pub fn mention_id(&self, id: TermId, lease: &Lease) -> bool {
        if !id.is_transient() {
            return self.stored(id).is_some();
        }
        let writer = self.stripe_of(id.virtual_shard()).writer.read();
        let Some(term) = writer.transient.get(id) else {
            return false;
        };
        term.last_mention.mention(lease.epoch());
        true
    }

    /// Makes the term of an id permanent, if it still exists. Returns whether it does.
    pub fn make_permanent(&self, id: TermId) -> bool {
        if !id.is_transient() {
            return self.stored(id).is_some();
        }
        let stripe = self.stripe_of(id.virtual_shard());
        let writer = stripe.writer.read();
        let Some(term) = writer.transient.get(id).cloned() else {
            return false;
        };
        stripe.promote(&term);
        drop(writer);
        // The parts stay with the triple term; but statements of their own may look them up.
        let parts = term.held_parts().iter();
        parts.for_each(|part| _ = self.make_permanent(part.id));
        true
    }

    /// Whether the term of an id is known for good.
    pub fn is_permanent(&self, id: TermId) -> bool {
        if !id.is_transient() {
            return id.is_inline() || self.stored(id).is_some();
        }
        let writer = self.stripe_of(id.virtual_shard()).writer.read();
        (writer.transient.get(id)).is_some_and(|term| term.last_mention.is_permanent())
    }

    /// Whether the term of an id is known.
    pub fn is_known(&self, id: TermId) -> bool {
        id.is_inline() || self.read(id, |_| ()).is_some()
    }

    /// The id of a known term, permanent or transient. A transient one stays as long as `held`.
    pub fn lookup_held(&self, term: TermRef<'_>, held: &mut TermPin) -> Option<TermId> {
        let mut hold = |transient: &Arc<TransientTerm>| {
            held.add(transient);
            true
        };
        self.lookup_if(term, &mut hold)
    }

    /// Holds the transient terms among these ids; `None` if there are none.
    pub fn hold<'i>(&self, ids: impl Iterator<Item = &'i TermId>) -> Option<Arc<TermPin>> {
        if !self.knows_transient.load(Ordering::Relaxed) {
            return None;
        }
        let mut transient: Vec<TermId> = ids.filter(|id| id.is_transient()).copied().collect();
        transient.sort_unstable();
        transient.dedup();
        let mut held = TermPin::default();
        for id in transient {
            match self.transient_term(id) {
                Some(term) => held.add(&term),
                None => debug_assert!(false, "DI-1: {id:?} was reclaimed before it is held"),
            }
        }
        held.0.sort_unstable_by_key(|term| term.id);
        (!held.is_empty()).then(|| Arc::new(held))
    }

    /// A term of the dictionary as borrowed text, either permanent or among those that
    /// [`Dictionary::hold`] holds.
    #[inline]
    pub fn view_held<'a>(&'a self, held: Option<&'a TermPin>, id: TermId) -> Option<TermView<'a>> {
        if !id.is_transient() {
            return self.view(id);
        }
        let held = &held?.0;
        let at = held.binary_search_by_key(&id, |term| term.id).ok()?;
        Some(self.view_of(&held[at].stored()))
    }

    /// Examines at most `most` terms whose streams have moved on since they were mentioned, and
    /// reclaims those that nothing holds any more. Returns the number of reclaimed terms. Callers
    /// that mention new terms must call this, so that streams pay for what they leave behind.
    pub fn reclaim(&self, most: usize) -> usize {
        let (mut left, mut reclaimed) = (most, 0);
        while left > 0
            && let Some(portion) = self.epochs.take(left)
        {
            left = left.saturating_sub(portion.terms.len().max(1));
            reclaimed += self.reclaim_of(portion);
        }
        // Terms that were held are examined again, each once, with what is left of the budget.
        let mut again = left.min(self.epochs.held());
        while again > 0
            && let Some(portion) = self.epochs.take_held(again)
        {
            again -= portion.terms.len().min(again);
            reclaimed += self.reclaim_of(portion);
        }
        self.reclaimed
            .fetch_add(reclaimed as u64, Ordering::Relaxed);
        reclaimed
    }

    fn reclaim_of(&self, mut portion: Portion) -> usize {
        let mut gone = Vec::with_capacity(portion.terms.len());
        for id in std::mem::take(&mut portion.terms) {
            let stripe = self.stripe_of(id.virtual_shard());
            let mut writer = stripe.writer.write();
            let fate = (writer.transient).take(id, |mentioned| portion.is_past(mentioned));
            match fate {
                ReclaimOutcome::Unknown => {}
                ReclaimOutcome::Alive(mentioned) => portion.leave(id, mentioned),
                ReclaimOutcome::Held => portion.leave_held(id),
                // Freed after the lock is released.
                ReclaimOutcome::Gone(term) => gone.push(term),
            }
        }
        self.epochs.put_back(portion);
        gone.len()
    }

    /// Looks for streams that have moved on, or ended, and reclaims as [`Dictionary::reclaim`]
    /// does. Call it now and then, since streams that have ended mention nothing.
    pub fn tidy(&self, most: usize) -> usize {
        self.epochs.settle();
        self.reclaim(most)
    }

    /// The number of terms, by kind.
    pub fn counts(&self) -> DictionaryCounts {
        let transient = self.stripes.iter();
        DictionaryCounts {
            terms: self.len(),
            transient: transient.map(|s| s.writer.read().transient.len()).sum(),
            reclaimed: self.reclaimed.load(Ordering::Relaxed),
        }
    }

    #[inline]
    pub(super) fn find_transient<'w>(
        &self,
        writer: &'w Writer,
        parts: &Parts<'_>,
    ) -> Option<&'w Arc<TransientTerm>> {
        if writer.transient.is_empty() {
            return None;
        }
        let is_it = |term: &TransientTerm| self.same(&term.stored(), parts);
        writer.transient.find(parts.hash, is_it)
    }

    /// A transient term, which stays as long as the result does.
    #[cold]
    pub(super) fn transient_term(&self, id: TermId) -> Option<Arc<TransientTerm>> {
        if !id.is_transient() {
            return None;
        }
        let writer = self.stripe_of(id.virtual_shard()).writer.read();
        writer.transient.get(id).cloned()
    }
}
