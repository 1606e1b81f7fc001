//! The dictionary ("string server"): terms to ids and back. Decoding takes no lock: an id leads
//! through its virtual shard and sequence to bytes that never move while the dictionary lives.
//! Interning and looking up lock one of 256 stripes; an [`Interner`](crate::Interner) needs no lock
//! for terms that it saw lately.
//!
//! Terms that only timing statements mention are kept apart, and reclaimed
//! (`dictionary/transient.rs`). All others are permanent; what this file says about bytes applies
//! to those.
//!
//! Before changing it: sequences count per virtual shard and are never reused (S7), and the bytes
//! of a term are written completely before its id can be known to anyone.
#![allow(unsafe_code)]

mod check;
mod export;
mod parts;
mod restore;
mod transient;

pub use export::{
    DictionaryExport, DictionaryMark, ExportedRows, SavedEpochs, SavedForm, SavedRow, SavedTerm,
    SavedText, SavedTransient,
};
pub use restore::{DictionaryRestore, RestoreError, RestoredLeases, StripeRestore};

pub(crate) use parts::{Parts, take_apart};
use parts::{short_hash, take_apart_known};
pub use transient::{DictionaryCounts, Mentions, TermPin};

use crate::arena::{Arena, ArenaEnd, Kind, Place, Stored};
use crate::epochs::Epochs;
use crate::memory::Growing;
use crate::memory::Slots;
use crate::memory::prefetch;
use crate::shared_text::SharedTexts;
use crate::term_view::{TermKind, TermView, inline_view};
use crate::transient::{TransientTerm, TransientTerms};
use oxrdf::vocab::rdf;
use oxrdf::{
    BaseDirection, BlankNode, Literal, NamedNode, NamedNodeRef, NamedOrBlankNode, Term, TermRef,
    Triple,
};
use parking_lot::{Mutex, RwLock};
use somersault_model::{
    Intern, STRIPE, Tag, TermId, VIRTUAL_SHARDS, VirtualShard, inline, term_hash,
};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

const SHARDS_PER_STRIPE: usize = STRIPE as usize;
const STRIPES: usize = VIRTUAL_SHARDS as usize / SHARDS_PER_STRIPE;
/// The distance at which decoding a column prefetches: first the entries of the terms, then their
/// bytes.
const ENTRIES_AHEAD: usize = 16;
const BYTES_AHEAD: usize = 8;

/// The number of the next dictionary.
static NEXT_NUMBER: AtomicU64 = AtomicU64::new(1);

static RDF_TYPE: LazyLock<TermId> = LazyLock::new(|| {
    let shard = VirtualShard::of_hash(term_hash(rdf::TYPE.into()));
    TermId::in_dictionary(Tag::NamedNode, shard, 0)
});

/// The id of `rdf:type`: the same in every dictionary, since each interns it first.
#[inline]
pub fn rdf_type() -> TermId {
    *RDF_TYPE
}

/// Terms and their ids. Shared by all shards; ids are never reused.
pub struct Dictionary {
    number: u64,
    /// By virtual shard and sequence: the term's offset in its stripe's arena; 0 if there is no
    /// such term.
    entries: Box<[Entries]>,
    stripes: Box<[Stripe]>,
    shared: SharedTexts,
    epochs: Epochs,
    /// Whether a timing statement has ever added a term of its own.
    knows_transient: AtomicBool,
    reclaimed: AtomicU64,
}

type Entries = Growing<AtomicU32, 4, 24>;

struct Stripe {
    arena: Arena,
    writer: RwLock<Writer>,
    /// Transient terms that have become permanent, in that order.
    promoted: Mutex<Vec<Arc<TransientTerm>>>,
}

#[derive(Default)]
struct Writer {
    slots: Slots,
    next: [u64; SHARDS_PER_STRIPE],
    end: ArenaEnd,
    transient: TransientTerms,
}

impl Stripe {
    /// Makes a transient term permanent. The caller holds the stripe's lock.
    fn promote(&self, term: &Arc<TransientTerm>) {
        if term.last_mention.is_permanent() {
            return;
        }
        // Under this lock, so that a mark ([`DictionaryMark`]) has every term that is permanent.
        let mut promoted = self.promoted.lock();
        if term.last_mention.make_permanent() {
            promoted.push(Arc::clone(term));
        }
    }
}

impl Dictionary {
    /// An empty dictionary; it knows `rdf:type` and nothing else.
    pub fn new() -> Dictionary {
        let dictionary = Dictionary::without_terms();
        let first = dictionary.intern(rdf::TYPE.into());
        assert_eq!(first, rdf_type(), "rdf:type is the first term");
        dictionary
    }

    fn without_terms() -> Dictionary {
        let stripes = std::iter::repeat_with(|| Stripe {
            arena: Arena::default(),
            writer: RwLock::default(),
            promoted: Mutex::default(),
        });
        Dictionary {
            entries: (std::iter::repeat_with(Entries::default))
                .take(VIRTUAL_SHARDS.into())
                .collect(),
            number: NEXT_NUMBER.fetch_add(1, Ordering::Relaxed),
            stripes: stripes.take(STRIPES).collect(),
            shared: SharedTexts::new(),
            epochs: Epochs::default(),
            knows_transient: AtomicBool::new(false),
            reclaimed: AtomicU64::new(0),
        }
    }

    /// A number, not 0, that no other dictionary of this process has. It tells apart ids that are
    /// kept outside.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The id of a term that is permanently known. Inline literals always have one; for others
    /// `None` means that no statement has held the term so far, except timing ones: for terms of
    /// windows see [`Dictionary::lookup_held`]. A plan must keep the term, not the `None`.
    pub fn lookup(&self, term: TermRef<'_>) -> Option<TermId> {
        self.lookup_if(term, &mut |transient| transient.last_mention.is_permanent())
    }

    /// The id of a term that is permanent, or transient and accepted by `takes`, which is called
    /// under the lock of the term's stripe. The same applies to the parts of a triple term.
    fn lookup_if(
        &self,
        term: TermRef<'_>,
        takes: &mut dyn FnMut(&Arc<TransientTerm>) -> bool,
    ) -> Option<TermId> {
        let parts = match take_apart_known(term, |part| self.lookup_if(part, takes))? {
            Ok(id) => return Some(id),
            Err(parts) => parts,
        };
        let stripe = self.stripe(parts.hash);
        let writer = stripe.writer.read();
        if let Some((id, _)) = self.find(stripe, &writer, &parts) {
            return Some(id);
        }
        let transient = self.find_transient(&writer, &parts)?;
        takes(transient).then_some(transient.id)
    }

    /// The id of a term, which becomes permanent if it was not.
    pub fn intern(&self, term: TermRef<'_>) -> TermId {
        match take_apart(term, |part| self.intern(part)) {
            Ok(id) => id,
            Err(parts) => self.intern_parts(&parts).0,
        }
    }

    /// As [`Dictionary::intern`]; also returns the offset of the term in its stripe's arena, or 0
    /// if the term does not lie there.
    pub(crate) fn intern_parts(&self, parts: &Parts<'_>) -> (TermId, u32) {
        let stripe = self.stripe(parts.hash);
        let before = {
            let writer = stripe.writer.read();
            if let Some(found) = self.find(stripe, &writer, parts) {
                return found;
            }
            if let Some(transient) = self.find_transient(&writer, parts) {
                stripe.promote(transient);
                return (transient.id, 0);
            }
            writer.slots.len()
        };
        // Shared texts are found before the stripe is locked, since a new datatype is itself
        // interned.
        let (kind, number, text) = self.shorten(parts);
        let mut writer = stripe.writer.write();
        if writer.slots.len() != before
            && let Some(found) = self.find(stripe, &writer, parts)
        {
            return found;
        }
        if let Some(transient) = self.find_transient(&writer, parts) {
            stripe.promote(transient);
            return (transient.id, 0);
        }
        let shard = VirtualShard::of_hash(parts.hash);
        let within = usize::from(shard.number()) % SHARDS_PER_STRIPE;
        let sequence = writer.next[within];
        let stored = Stored {
            place: Place::new(within, sequence),
            kind,
            number,
            text,
            parts: parts.ids,
        };
        writer.next[within] += 1;
        let offset = writer.end.store(&stripe.arena, &stored);
        (self.entries[usize::from(shard.number())].make(sequence)).store(offset, Ordering::Release);
        writer.slots.insert(short_hash(parts.hash), offset);
        (TermId::in_dictionary(kind.tag(), shard, sequence), offset)
    }

    /// The id of the term at this offset, if it equals the one that `parts` describes.
    ///
    /// # Safety
    /// [`Dictionary::intern_parts`] gave the offset, on this dictionary, for parts with the same
    /// hash.
    #[inline]
    pub(crate) unsafe fn recognise(&self, parts: &Parts<'_>, offset: u32) -> Option<TermId> {
        let stripe = self.stripe(parts.hash);
        // SAFETY: by the contract the offset is of this stripe, since equal hashes have one stripe.
        let stored = unsafe { stripe.arena.read(offset) }?;
        (self.same(&stored, parts)).then(|| self.id_of(parts.hash, &stored))
    }

    /// The term of an id, inline ones included; `None` for special and query-local ids and for
    /// those that this dictionary never handed out.
    pub fn decode(&self, id: TermId) -> Option<Term> {
        if id.is_inline() {
            return inline::decode(id).map(Term::Literal);
        }
        self.read(id, |stored| self.term_of(stored))?
    }

    fn term_of(&self, stored: &Stored<'_>) -> Option<Term> {
        if stored.kind == Kind::Triple {
            return self.decode_triple(stored.parts);
        }
        let view = self.view_of(stored);
        let mut text = String::new();
        view.write_text(&mut text);
        Some(match (view.kind, view.language, view.direction) {
            (TermKind::NamedNode, ..) => NamedNode::new_unchecked(text).into(),
            (TermKind::BlankNode, ..) => BlankNode::new_unchecked(text).into(),
            (_, Some(language), None) => {
                Literal::new_language_tagged_literal_unchecked(text, language).into()
            }
            (_, Some(language), Some(direction)) => {
                Literal::new_directional_language_tagged_literal_unchecked(
                    text, language, direction,
                )
                .into()
            }
            (..) => match view.datatype {
                Some(datatype) => {
                    Literal::new_typed_literal(text, NamedNode::new_unchecked(datatype)).into()
                }
                None => Literal::new_simple_literal(text).into(),
            },
        })
    }

    fn decode_triple(&self, [subject, predicate, object]: [TermId; 3]) -> Option<Term> {
        let subject = match self.decode(subject)? {
            Term::NamedNode(node) => NamedOrBlankNode::NamedNode(node),
            Term::BlankNode(node) => NamedOrBlankNode::BlankNode(node),
            _ => return None,
        };
        let Term::NamedNode(predicate) = self.decode(predicate)? else {
            return None;
        };
        let object = self.decode(object)?;
        Some(Triple::new(subject, predicate, object).into())
    }

    /// Calls `read` with the IRI, the blank node's label or the lexical form, without a copy if it
    /// lies in one piece. Returns `None` for triple terms and for ids without a term.
    pub fn with_str<R>(&self, id: TermId, read: impl FnOnce(&str) -> R) -> Option<R> {
        if id.tag() == Tag::ShortString {
            let mut buffer = [0; 7];
            return inline::short_str(id, &mut buffer).map(read);
        }
        if id.is_inline() {
            let mut text = String::with_capacity(32);
            inline::write_lexical(id, &mut text)?;
            return Some(read(&text));
        }
        self.with_view(id, |view| {
            if view.kind == TermKind::Triple {
                return None;
            }
            if view.head.is_empty() {
                return Some(read(view.tail));
            }
            let mut text = String::with_capacity(view.head.len() + view.tail.len());
            view.write_text(&mut text);
            Some(read(&text))
        })?
    }

    /// Appends the IRI, the blank node's label or the lexical form to `out`. Returns `None`, and
    /// appends nothing, for triple terms and for ids without a term.
    pub fn write_text(&self, id: TermId, out: &mut String) -> Option<()> {
        if id.is_inline() {
            return inline::write_lexical(id, out);
        }
        self.with_view(id, |view| {
            (view.kind != TermKind::Triple).then(|| view.write_text(out))
        })?
    }

    /// Calls `read` with a term of the dictionary as borrowed text. Returns `None` for ids that are
    /// not in it: inline ones (see [`inline_view`](crate::inline_view)), special and query-local
    /// ones.
    #[inline]
    pub fn with_view<R>(&self, id: TermId, read: impl FnOnce(TermView<'_>) -> R) -> Option<R> {
        self.read(id, |stored| read(self.view_of(stored)))
    }

    /// As [`Dictionary::with_view`], borrowed for as long as the dictionary: only for permanent
    /// terms, and of those only for the ones that were never transient.
    #[inline]
    pub(crate) fn view(&self, id: TermId) -> Option<TermView<'_>> {
        Some(self.view_of(&self.stored(id)?))
    }

    /// Calls `read` with a term where it lies.
    #[inline]
    fn read<R>(&self, id: TermId, read: impl FnOnce(&Stored<'_>) -> R) -> Option<R> {
        if let Some(stored) = self.stored(id) {
            return Some(read(&stored));
        }
        // Called without the lock, since `read` may ask for other terms.
        let transient = self.transient_term(id)?;
        Some(read(&transient.stored()))
    }

    /// Calls `each` with the terms of a column one after the other, inline ones included, and their
    /// places; with `None` for unbound and query-local ids and for those that this dictionary never
    /// handed out.
    pub fn decode_column(&self, ids: &[TermId], mut each: impl FnMut(usize, Option<TermView<'_>>)) {
        let mut buffer = String::with_capacity(32);
        for id in ids.iter().take(ENTRIES_AHEAD) {
            self.prefetch_entry(*id);
        }
        for id in ids.iter().take(BYTES_AHEAD) {
            self.prefetch_bytes(*id);
        }
        for (at, id) in ids.iter().enumerate() {
            if let Some(ahead) = ids.get(at + ENTRIES_AHEAD) {
                self.prefetch_entry(*ahead);
            }
            if let Some(ahead) = ids.get(at + BYTES_AHEAD) {
                self.prefetch_bytes(*ahead);
            }
            if id.is_inline() {
                each(at, inline_view(*id, &mut buffer));
            } else if id.is_transient() {
                let transient = self.transient_term(*id);
                let stored = transient.as_ref().map(|term| term.stored());
                each(at, stored.map(|stored| self.view_of(&stored)));
            } else {
                each(at, self.view(*id));
            }
        }
    }

    /// The ids of a triple term's subject, predicate and object.
    pub fn triple_term(&self, id: TermId) -> Option<[TermId; 3]> {
        self.read(id, |stored| {
            (stored.kind == Kind::Triple).then_some(stored.parts)
        })?
    }

    /// The id of the datatype of a literal in the dictionary. `None` for all other terms,
    /// `xsd:string` and language-tagged literals included.
    pub fn datatype(&self, id: TermId) -> Option<TermId> {
        self.read(id, |stored| {
            (stored.kind == Kind::Typed)
                .then(|| self.shared.datatype_id(stored.number))
                .flatten()
        })?
    }

    /// The number of known terms, inline ones not counted.
    pub fn len(&self) -> usize {
        let of_stripe = |stripe: &Stripe| {
            let writer = stripe.writer.read();
            writer.slots.len() + writer.transient.len()
        };
        self.stripes.iter().map(of_stripe).sum()
    }

    /// Always false: `rdf:type` is known from the start.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The memory held: text, entries and tables, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let stripes: usize = (self.stripes.iter())
            .map(|stripe| {
                let writer = stripe.writer.read();
                let permanent = writer.slots.bytes() + writer.end.bytes() + stripe.arena.bytes();
                let promoted = stripe.promoted.lock().capacity() * size_of::<Arc<TransientTerm>>();
                permanent + promoted + writer.transient.bytes()
            })
            .sum();
        let entries: usize = self.entries.iter().map(Entries::bytes).sum();
        size_of_val(&*self.entries)
            + size_of_val(&*self.stripes)
            + entries
            + stripes
            + self.shared.bytes()
            + self.epochs.bytes()
    }

    fn stripe(&self, hash: u64) -> &Stripe {
        self.stripe_of(VirtualShard::of_hash(hash))
    }

    #[inline]
    fn stripe_of(&self, shard: VirtualShard) -> &Stripe {
        &self.stripes[usize::from(shard.number()) / SHARDS_PER_STRIPE]
    }

    fn find(&self, stripe: &Stripe, writer: &Writer, parts: &Parts<'_>) -> Option<(TermId, u32)> {
        writer.slots.find(short_hash(parts.hash), |offset| {
            // SAFETY: offsets in the table are of this stripe's arena, and were put there under its
            // lock.
            let stored = unsafe { stripe.arena.read(offset) }?;
            (self.same(&stored, parts)).then(|| (self.id_of(parts.hash, &stored), offset))
        })
    }

    /// Prefetches the bytes of the term at an offset in the stripe of this hash.
    #[inline]
    pub(crate) fn prefetch_term(&self, hash: u64, offset: u32) {
        if let Some(start) = self.stripe(hash).arena.start(offset) {
            prefetch(start);
        }
    }

    /// Prefetches the slot where the search for a term with this hash begins.
    #[inline]
    pub(crate) fn prefetch_slot(&self, hash: u64) {
        (self.stripe(hash).writer.read().slots).prefetch(short_hash(hash));
    }

    /// Prefetches the bytes of the term that a search for this hash examines first; to be called
    /// once the slot has arrived.
    #[inline]
    pub(crate) fn prefetch_first(&self, hash: u64) {
        let found = (self.stripe(hash).writer.read().slots).find(short_hash(hash), Some);
        if let Some(offset) = found {
            self.prefetch_term(hash, offset);
        }
    }

    /// The id of a stored term whose hash is known.
    fn id_of(&self, hash: u64, stored: &Stored<'_>) -> TermId {
        let first = usize::from(VirtualShard::of_hash(hash).number()) & !(SHARDS_PER_STRIPE - 1);
        let shard = VirtualShard::truncated((first + stored.place.shard()) as u16);
        TermId::in_dictionary(stored.kind.tag(), shard, stored.place.sequence())
    }

    fn same(&self, stored: &Stored<'_>, parts: &Parts<'_>) -> bool {
        if stored.kind == Kind::SharedIri {
            let head = self.shared.text(stored.number);
            return parts.kind == Kind::Iri
                && parts.text.len() == head.len() + stored.text.len()
                && parts.text.ends_with(stored.text)
                && parts.text.starts_with(head);
        }
        stored.kind == parts.kind
            && stored.text == parts.text
            && stored.parts == parts.ids
            && (!parts.kind.is_numbered() || self.shared.text(stored.number) == parts.extra)
    }

    /// The form in which to store a new term: its kind, the number of its shared text, and its own
    /// text.
    fn shorten<'a>(&self, parts: &Parts<'a>) -> (Kind, u32, &'a str) {
        if parts.kind == Kind::Iri
            && let Some((number, cut)) = self.shared.beginning(parts.text)
        {
            return (Kind::SharedIri, number, &parts.text[cut..]);
        }
        self.shorten_extra(parts)
    }

    /// As [`Dictionary::shorten`], without the beginnings of IRIs.
    fn shorten_extra<'a>(&self, parts: &Parts<'a>) -> (Kind, u32, &'a str) {
        match parts.kind {
            Kind::Typed => {
                let datatype = NamedNodeRef::new_unchecked(parts.extra);
                let id = || self.intern(datatype.into());
                (
                    Kind::Typed,
                    self.shared.datatype(parts.extra, id),
                    parts.text,
                )
            }
            kind @ (Kind::Language | Kind::LeftToRight | Kind::RightToLeft) => {
                (kind, self.shared.language(parts.extra), parts.text)
            }
            kind => (kind, 0, parts.text),
        }
    }

    #[inline]
    pub(crate) fn view_of<'a>(&'a self, stored: &Stored<'a>) -> TermView<'a> {
        let mut view = TermView::of_text(TermKind::Literal, "", stored.text);
        match stored.kind {
            Kind::Iri => view.kind = TermKind::NamedNode,
            Kind::SharedIri => {
                view.kind = TermKind::NamedNode;
                view.head = self.shared.text(stored.number);
            }
            Kind::BlankNode => view.kind = TermKind::BlankNode,
            Kind::String => {}
            Kind::Typed => view.datatype = Some(self.shared.text(stored.number)),
            Kind::Language | Kind::LeftToRight | Kind::RightToLeft => {
                view.language = Some(self.shared.text(stored.number));
                view.direction = match stored.kind {
                    Kind::LeftToRight => Some(BaseDirection::Ltr),
                    Kind::RightToLeft => Some(BaseDirection::Rtl),
                    _ => None,
                };
            }
            Kind::Triple => view.kind = TermKind::Triple,
        }
        view
    }

    #[inline]
    fn stored(&self, id: TermId) -> Option<Stored<'_>> {
        let offset = self.entry(id)?.load(Ordering::Acquire);
        if offset == 0 {
            return None;
        }
        // SAFETY: the entry was published with Release after the term, and is of this stripe.
        let stored = unsafe { self.stripe_of(id.virtual_shard()).arena.read(offset) }?;
        (stored.kind.tag() == id.tag()).then_some(stored)
    }

    #[inline]
    fn entry(&self, id: TermId) -> Option<&AtomicU32> {
        if !id.is_in_dictionary() {
            return None;
        }
        self.entries[usize::from(id.virtual_shard().number())].get(id.sequence())
    }

    #[inline]
    pub(crate) fn prefetch_entry(&self, id: TermId) {
        if id.is_in_dictionary() {
            let entries = &self.entries[usize::from(id.virtual_shard().number())];
            if let Some(address) = entries.address(id.sequence()) {
                prefetch(address);
            }
        }
    }

    #[inline]
    fn prefetch_bytes(&self, id: TermId) {
        if let Some(start) = self.start_of(id) {
            prefetch(start);
        }
    }

    /// The address of a term's bytes; `None` for ids that this dictionary never handed out.
    #[inline]
    pub(crate) fn start_of(&self, id: TermId) -> Option<*const u8> {
        // Acquire: readers of the bytes must see them as written before the entry was published.
        let offset = self.entry(id)?.load(Ordering::Acquire);
        (offset != 0)
            .then(|| self.stripe_of(id.virtual_shard()).arena.start(offset))
            .flatten()
    }
}

impl Default for Dictionary {
    fn default() -> Dictionary {
        Dictionary::new()
    }
}

impl Intern for Dictionary {
    fn intern(&self, term: TermRef<'_>) -> TermId {
        Dictionary::intern(self, term)
    }
}

#[cfg(test)]
mod tests;
