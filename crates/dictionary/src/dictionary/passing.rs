//! Passing terms: those that only timing statements of streams have mentioned so far. They are
//! reclaimed when the last statement that did is gone, so that the dictionary is bounded by what is
//! stored plus what windows cover.
//!
//! Who may have the id of such a term, and what keeps the term for him:
//!
//! - a statement on its way, in an open batch or in a slice: the [`Lease`] that goes with it
//!   ([`Dictionary::lease`]);
//! - a window version, and an execution over it: the slices that it has;
//! - an execution that has looked a term up: its [`Held`] ([`Dictionary::lookup_held`]);
//! - an answer: its [`Held`] ([`Dictionary::hold`]), made while the windows are still there;
//! - what is stored, registered, or logged for good: nobody has to keep it, since whatever else
//!   mentions a term makes it permanent, and its id stays what it was.
//!
//! Whoever has an id beyond that has a number that is never given to another term: it equals no id
//! that comes later, and has no term. Languages and datatypes are permanent; so is an IRI that
//! serves as one. The parts of a triple term stay as long as it does.
//!
//! Before changing it: see the file `passing.rs` for who locks what, `epochs.rs` for when a term is
//! past.

use super::{Dictionary, Parts, Writer, take_apart};
use crate::epochs::Portion;
use crate::passing::{Fate, PassingTerm, TripleParts};
use crate::term_view::TermView;
use oxrdf::TermRef;
use somersault_model::{Lease, StreamUid, TermId, VirtualShard};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// One thread's way to mention terms in timing statements. Terms that it brings are listed when it
/// is dropped.
pub struct Mentions<'d> {
    dictionary: &'d Dictionary,
    lease: Lease,
    born: Vec<TermId>,
    /// By the lower bits of the hash, what was mentioned lately under the lease: it has its mark,
    /// and need not be found again.
    recent: Box<[Option<Arc<PassingTerm>>]>,
}

/// So many terms are remembered: statements about one thing come one after the other.
const RECENT: usize = 256;

impl Mentions<'_> {
    /// For many mentions: what was mentioned lately is recognised without a lock.
    pub fn remembering(mut self) -> Self {
        self.recent = vec![None; RECENT].into_boxed_slice();
        self
    }

    #[inline]
    fn recent(&self, hash: u64) -> Option<&PassingTerm> {
        let place = hash as usize & (RECENT - 1);
        let term = self.recent.get(place)?.as_deref()?;
        term.has_hash(hash).then_some(term)
    }

    fn remember(&mut self, hash: u64, term: &Arc<PassingTerm>) {
        if let Some(place) = self.recent.get_mut(hash as usize & (RECENT - 1)) {
            *place = Some(Arc::clone(term));
        }
    }

    /// How many of the terms were new.
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

/// Terms that came with timing statements and stay as long as this is there.
#[derive(Clone, Debug, Default)]
pub struct Held(Vec<Arc<PassingTerm>>);

impl Held {
    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Holds what another one does too.
    pub fn extend(&mut self, other: &Held) {
        self.0.extend(other.0.iter().cloned());
    }

    /// Memory held beside the dictionary's, in bytes.
    pub fn bytes(&self) -> usize {
        self.0.capacity() * size_of::<Arc<PassingTerm>>()
    }

    fn add(&mut self, term: &Arc<PassingTerm>) {
        self.0.push(Arc::clone(term));
        term.held_parts().iter().for_each(|part| self.add(part));
    }
}

/// What a dictionary holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DictionaryCounts {
    /// Terms, inline ones not counted.
    pub terms: usize,
    /// Those of them that may be reclaimed, or came so and were made permanent since.
    pub passing: usize,
    /// How many have been reclaimed so far.
    pub reclaimed: u64,
}

impl Dictionary {
    /// A lease for timing statements of a stream, whose terms are to be mentioned under it. It is
    /// to be kept as long as the statements are.
    pub fn lease(&self, stream: StreamUid) -> Lease {
        self.epochs.lease(stream)
    }

    /// Statements of this stream have gone: those that come have another epoch than those that
    /// stay.
    pub fn end_epoch(&self, stream: StreamUid) {
        self.epochs.end_epoch(stream);
    }

    /// For mentioning terms in statements that a lease goes with.
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

    /// As [`Dictionary::mention`]; gives the offset of a term that lies in an arena too, else 0.
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
            let passing = self.find_passing(writer, parts)?;
            passing.mark.mention(mentions.lease.epoch());
            mentions.remember(parts.hash, passing);
            Some((passing.id, 0))
        };
        if let Some(found) = known(&stripe.writer.read(), mentions) {
            return found;
        }
        // No beginning of an IRI: what is shared stays, and a stream may bring ever new ones.
        let (kind, number, text) = self.shorten_extra(parts);
        // The lease keeps the parts until the triple term does.
        let triple = parts.ids.iter().any(|part| !part.is_unbound());
        let triple = triple.then(|| TripleParts {
            ids: parts.ids,
            held: parts
                .ids
                .iter()
                .filter_map(|part| self.passing_term(*part))
                .collect(),
        });
        let mut writer = stripe.writer.write();
        if let Some(found) = known(&writer, mentions) {
            return found;
        }
        let shard = VirtualShard::of_hash(parts.hash);
        let id = TermId::passing(kind.tag(), shard, writer.passing.next_number());
        let term = PassingTerm::new(
            (id, parts.hash),
            &mentions.lease,
            (kind, number, text),
            triple,
        );
        let term = Arc::new(term);
        mentions.remember(parts.hash, &term);
        writer.passing.insert(term);
        drop(writer);
        self.knows_passing.store(true, Ordering::Relaxed);
        mentions.born.push(id);
        (id, 0)
    }

    /// Makes the term of an id stay, if it is still there; whether it is.
    pub fn make_permanent(&self, id: TermId) -> bool {
        if !id.is_passing() {
            return self.stored(id).is_some();
        }
        let writer = self.stripe_of(id.virtual_shard()).writer.read();
        let Some(term) = writer.passing.get(id).cloned() else {
            return false;
        };
        term.mark.make_permanent();
        drop(writer);
        // They stay with the triple term; but statements of their own may be looked for by them.
        let parts = term.held_parts().iter();
        parts.for_each(|part| _ = self.make_permanent(part.id));
        true
    }

    /// Whether the term of an id is known, and stays so.
    pub fn is_permanent(&self, id: TermId) -> bool {
        if !id.is_passing() {
            return id.is_inline() || self.stored(id).is_some();
        }
        let writer = self.stripe_of(id.virtual_shard()).writer.read();
        (writer.passing.get(id)).is_some_and(|term| term.mark.is_permanent())
    }

    /// Whether the term of an id is known.
    pub fn is_known(&self, id: TermId) -> bool {
        id.is_inline() || self.read(id, |_| ()).is_some()
    }

    /// The id of a term that is known, be it permanent or passing; a passing one stays as long as
    /// `held` does.
    pub fn lookup_held(&self, term: TermRef<'_>, held: &mut Held) -> Option<TermId> {
        let mut hold = |passing: &Arc<PassingTerm>| {
            held.add(passing);
            true
        };
        self.lookup_if(term, &mut hold)
    }

    /// Holds the passing terms among these ids; `None` where there are none.
    pub fn hold<'i>(&self, ids: impl Iterator<Item = &'i TermId>) -> Option<Arc<Held>> {
        if !self.knows_passing.load(Ordering::Relaxed) {
            return None;
        }
        let mut passing: Vec<TermId> = ids.filter(|id| id.is_passing()).copied().collect();
        passing.sort_unstable();
        passing.dedup();
        let mut held = Held::default();
        for id in passing {
            if let Some(term) = self.passing_term(id) {
                held.add(&term);
            }
        }
        held.0.sort_unstable_by_key(|term| term.id);
        (!held.is_empty()).then(|| Arc::new(held))
    }

    /// A term of the dictionary as borrowed text, be it permanent or among those that
    /// [`Dictionary::hold`] held.
    #[inline]
    pub fn view_held<'a>(&'a self, held: Option<&'a Held>, id: TermId) -> Option<TermView<'a>> {
        if !id.is_passing() {
            return self.view(id);
        }
        let held = &held?.0;
        let at = held.binary_search_by_key(&id, |term| term.id).ok()?;
        Some(self.view_of(&held[at].stored()))
    }

    /// Looks at up to so many terms whose streams have gone on since they were mentioned, and
    /// reclaims those that nobody has any more; returns how many those are. Who mentions new terms
    /// is to call this, so that streams pay for what they leave behind.
    pub fn reclaim(&self, most: usize) -> usize {
        let (mut left, mut reclaimed) = (most, 0);
        while left > 0
            && let Some(portion) = self.epochs.take(left)
        {
            left = left.saturating_sub(portion.terms.len().max(1));
            reclaimed += self.reclaim_of(portion);
        }
        // What somebody held is looked at again for what is left; each once, not over and over.
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
            let fate = (writer.passing).take(id, |mentioned| portion.is_past(mentioned));
            match fate {
                Fate::Unknown => {}
                Fate::Alive(mentioned) => portion.leave(id, mentioned),
                Fate::Held => portion.leave_held(id),
                // Freed when the lock is let go of.
                Fate::Gone(term) => gone.push(term),
            }
        }
        self.epochs.put_back(portion);
        gone.len()
    }

    /// Looks for streams that have gone on, or ended, and reclaims as [`Dictionary::reclaim`] does:
    /// to be called now and then, since streams that have ended mention nothing.
    pub fn tidy(&self, most: usize) -> usize {
        self.epochs.settle();
        self.reclaim(most)
    }

    /// How many terms there are, and of what kind.
    pub fn counts(&self) -> DictionaryCounts {
        let passing = self.stripes.iter();
        DictionaryCounts {
            terms: self.len(),
            passing: passing.map(|s| s.writer.read().passing.len()).sum(),
            reclaimed: self.reclaimed.load(Ordering::Relaxed),
        }
    }

    #[inline]
    pub(super) fn find_passing<'w>(
        &self,
        writer: &'w Writer,
        parts: &Parts<'_>,
    ) -> Option<&'w Arc<PassingTerm>> {
        if writer.passing.is_empty() {
            return None;
        }
        let is_it = |term: &PassingTerm| self.same(&term.stored(), parts);
        writer.passing.find(parts.hash, is_it)
    }

    /// A passing term, which stays as long as the result does.
    #[cold]
    pub(super) fn passing_term(&self, id: TermId) -> Option<Arc<PassingTerm>> {
        if !id.is_passing() {
            return None;
        }
        let writer = self.stripe_of(id.virtual_shard()).writer.read();
        writer.passing.get(id).cloned()
    }
}
