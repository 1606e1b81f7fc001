//! The dictionary ("string server"): terms to ids and back. Decoding takes no lock: an id leads
//! through its virtual shard and sequence to bytes that never move while the dictionary lives.
//! Interning and looking up lock one of 256 stripes.
//!
//! Before changing it: sequences count per virtual shard and are never reused (S7), and the bytes
//! of a term are written completely before its id can be known to anyone.
#![allow(unsafe_code)]

use crate::arena::Arena;
use crate::term_view::{TermKind, TermView, inline_view};
use hashbrown::HashTable;
use oxrdf::vocab::rdf;
use oxrdf::{
    BaseDirection, BlankNode, Literal, LiteralRef, NamedNode, NamedNodeRef, NamedOrBlankNode,
    NamedOrBlankNodeRef, Term, TermRef, Triple,
};
use parking_lot::RwLock;
use somersault_model::{Intern, Tag, TermId, VIRTUAL_SHARDS, VirtualShard, inline, term_hash};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

const STRIPES: usize = 256;
const SHARDS_PER_STRIPE: usize = VIRTUAL_SHARDS as usize / STRIPES;
/// The first chunk of a virtual shard holds 2^4 terms, each further one twice as many.
const FIRST_CHUNK_BITS: u32 = 4;
const CHUNKS: usize = 28;

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
    entries: Box<[Entries]>,
    stripes: Box<[RwLock<Stripe>]>,
    terms: AtomicUsize,
    bytes: AtomicUsize,
}

/// Where the terms of one virtual shard are, by sequence.
struct Entries {
    chunks: [AtomicPtr<AtomicPtr<u64>>; CHUNKS],
}

struct Stripe {
    table: HashTable<Slot>,
    next: [u64; SHARDS_PER_STRIPE],
    arena: Arena,
}

#[derive(Clone, Copy)]
struct Slot {
    hash: u64,
    id: TermId,
}

/// How a term lies in memory: a header word, then whole words, then text.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Kind {
    /// An IRI, a label, or an `xsd:string`: text.
    Text = 0,
    /// One word (the datatype's id), then the lexical form.
    Typed = 1,
    /// The lexical form, then the language tag.
    Language = 2,
    LeftToRight = 3,
    RightToLeft = 4,
    /// Three words: subject, predicate, object.
    Triple = 5,
}

impl Kind {
    fn words(self) -> usize {
        match self {
            Kind::Typed => 1,
            Kind::Triple => 3,
            _ => 0,
        }
    }
}

/// A term taken apart for comparing and storing.
struct Parts<'a> {
    tag: Tag,
    kind: Kind,
    hash: u64,
    words: [TermId; 3],
    text: &'a str,
    language: &'a str,
}

/// A stored term.
#[derive(Clone, Copy)]
struct Stored<'a> {
    kind: Kind,
    words: &'a [u64],
    text: &'a str,
    language: &'a str,
}

impl Dictionary {
    /// An empty dictionary; it knows `rdf:type` and nothing else.
    pub fn new() -> Dictionary {
        let entries = std::iter::repeat_with(|| Entries {
            chunks: [const { AtomicPtr::new(std::ptr::null_mut()) }; CHUNKS],
        });
        let stripes = std::iter::repeat_with(|| {
            RwLock::new(Stripe {
                table: HashTable::new(),
                next: [0; SHARDS_PER_STRIPE],
                arena: Arena::default(),
            })
        });
        let dictionary = Dictionary {
            entries: entries.take(VIRTUAL_SHARDS.into()).collect(),
            stripes: stripes.take(STRIPES).collect(),
            terms: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
        };
        let first = dictionary.intern(rdf::TYPE.into());
        assert_eq!(first, rdf_type(), "rdf:type is the first term");
        dictionary
    }

    /// The id of a term that is known. Inline literals always have one; for others `None` means
    /// that no statement has held the term so far. A plan must keep the term, not the `None`.
    pub fn lookup(&self, term: TermRef<'_>) -> Option<TermId> {
        let parts = match term {
            TermRef::Literal(literal) => match inline::encode(literal) {
                Some(id) => return Some(id),
                None => literal_parts(literal, |datatype| self.lookup(datatype.into()))?,
            },
            TermRef::Triple(triple) => triple_parts(term, triple, |part| self.lookup(part))?,
            _ => name_parts(term),
        };
        let stripe = self.stripe(parts.hash).read();
        self.find(&stripe, &parts)
    }

    /// The id of a term, which becomes known if it was not.
    pub fn intern(&self, term: TermRef<'_>) -> TermId {
        let certain = "interning always gives an id";
        let parts = match term {
            TermRef::Literal(literal) => match inline::encode(literal) {
                Some(id) => return id,
                None => literal_parts(literal, |datatype| Some(self.intern(datatype.into())))
                    .expect(certain),
            },
            TermRef::Triple(triple) => {
                triple_parts(term, triple, |part| Some(self.intern(part))).expect(certain)
            }
            _ => name_parts(term),
        };
        let lock = self.stripe(parts.hash);
        if let Some(id) = self.find(&lock.read(), &parts) {
            return id;
        }
        let mut stripe = lock.write();
        match self.find(&stripe, &parts) {
            Some(id) => id,
            None => self.add(&mut stripe, &parts),
        }
    }

    /// The term of an id, inline ones too; `None` for special and query-local ids and for those
    /// that this dictionary never handed out.
    pub fn decode(&self, id: TermId) -> Option<Term> {
        if id.is_inline() {
            return inline::decode(id).map(Term::Literal);
        }
        let stored = self.stored(id)?;
        Some(match (id.tag(), stored.kind) {
            (Tag::NamedNode, _) => NamedNode::new_unchecked(stored.text).into(),
            (Tag::BlankNode, _) => BlankNode::new_unchecked(stored.text).into(),
            (_, Kind::Text) => Literal::new_simple_literal(stored.text).into(),
            (_, Kind::Typed) => {
                let datatype = NamedNode::new_unchecked(self.stored(raw(stored.words, 0))?.text);
                Literal::new_typed_literal(stored.text, datatype).into()
            }
            (_, Kind::Language) => {
                Literal::new_language_tagged_literal_unchecked(stored.text, stored.language).into()
            }
            (_, Kind::LeftToRight) => directional(stored, BaseDirection::Ltr),
            (_, Kind::RightToLeft) => directional(stored, BaseDirection::Rtl),
            (_, Kind::Triple) => {
                let subject = match self.decode(raw(stored.words, 0))? {
                    Term::NamedNode(node) => NamedOrBlankNode::NamedNode(node),
                    Term::BlankNode(node) => NamedOrBlankNode::BlankNode(node),
                    _ => return None,
                };
                let Term::NamedNode(predicate) = self.decode(raw(stored.words, 1))? else {
                    return None;
                };
                let object = self.decode(raw(stored.words, 2))?;
                Term::Triple(Box::new(Triple::new(subject, predicate, object)))
            }
        })
    }

    /// Calls `read` with the IRI, the blank node's label or the lexical form, without copying it
    /// where it is in the dictionary. `None` for triple terms and for ids without a term.
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
        let stored = self.stored(id)?;
        (stored.kind != Kind::Triple).then(|| read(stored.text))
    }

    /// A term of the dictionary as borrowed text. `None` for ids that are not in it: inline ones (see
    /// [`inline_view`](crate::inline_view)), special and query-local ones.
    pub fn view(&self, id: TermId) -> Option<TermView<'_>> {
        let stored = self.stored(id)?;
        let kind = match (id.tag(), stored.kind) {
            (_, Kind::Triple) => TermKind::Triple,
            (Tag::NamedNode, _) => TermKind::NamedNode,
            (Tag::BlankNode, _) => TermKind::BlankNode,
            _ => TermKind::Literal,
        };
        let mut view = TermView::of_text(kind, "", stored.text);
        match stored.kind {
            Kind::Text | Kind::Triple => {}
            Kind::Typed => view.datatype = Some(self.stored(raw(stored.words, 0))?.text),
            Kind::Language => view.language = Some(stored.language),
            Kind::LeftToRight | Kind::RightToLeft => {
                view.language = Some(stored.language);
                view.direction = Some(match stored.kind {
                    Kind::LeftToRight => BaseDirection::Ltr,
                    _ => BaseDirection::Rtl,
                });
            }
        }
        Some(view)
    }

    /// Shows the terms of a column one after the other, inline ones too, with their places; `None`
    /// for unbound and query-local ids and for those that this dictionary never handed out.
    pub fn decode_column(&self, ids: &[TermId], mut each: impl FnMut(usize, Option<TermView<'_>>)) {
        let mut buffer = String::with_capacity(32);
        for (at, id) in ids.iter().enumerate() {
            if id.is_inline() {
                each(at, inline_view(*id, &mut buffer));
            } else {
                each(at, self.view(*id));
            }
        }
    }

    /// The ids of a triple term's subject, predicate and object.
    pub fn triple_term(&self, id: TermId) -> Option<[TermId; 3]> {
        let stored = self.stored(id)?;
        (stored.kind == Kind::Triple).then(|| [0, 1, 2].map(|at| raw(stored.words, at)))
    }

    /// The id of the datatype of a literal in the dictionary that has one besides `xsd:string` and
    /// the language-tagged ones.
    pub fn datatype(&self, id: TermId) -> Option<TermId> {
        let stored = self.stored(id)?;
        (stored.kind == Kind::Typed).then(|| raw(stored.words, 0))
    }

    /// How many terms are known, inline ones not counted.
    pub fn len(&self) -> usize {
        self.terms.load(Ordering::Relaxed)
    }

    /// Never: `rdf:type` is known from the start.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Memory held: text, entries and tables, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let tables: usize = (self.stripes.iter())
            .map(|stripe| {
                let stripe = stripe.read();
                stripe.table.allocation_size() + stripe.arena.bytes()
            })
            .sum();
        size_of_val(&*self.entries) + self.bytes.load(Ordering::Relaxed) + tables
    }

    fn stripe(&self, hash: u64) -> &RwLock<Stripe> {
        &self.stripes[usize::from(VirtualShard::of_hash(hash).number()) / SHARDS_PER_STRIPE]
    }

    fn find(&self, stripe: &Stripe, parts: &Parts<'_>) -> Option<TermId> {
        let same = |slot: &Slot| {
            slot.hash == parts.hash
                && slot.id.tag() == parts.tag
                && self.stored(slot.id).is_some_and(|stored| {
                    stored.kind == parts.kind
                        && stored.text == parts.text
                        && stored.language == parts.language
                        && (stored.words.iter().zip(&parts.words)).all(|(a, b)| *a == b.raw())
                })
        };
        stripe
            .table
            .find(spread(parts.hash), same)
            .map(|slot| slot.id)
    }

    fn add(&self, stripe: &mut Stripe, parts: &Parts<'_>) -> TermId {
        let shard = VirtualShard::of_hash(parts.hash);
        let next = &mut stripe.next[usize::from(shard.number()) % SHARDS_PER_STRIPE];
        let id = TermId::in_dictionary(parts.tag, shard, *next);
        let (chunk, at) = place(*next);
        *next += 1;
        let header = parts.text.len() as u64
            | ((parts.kind as u64) << 32)
            | ((parts.language.len() as u64) << 36);
        let words = &parts.words[..parts.kind.words()];
        let stored = stripe
            .arena
            .store(header, words, parts.text, parts.language);

        let chunks = &self.entries[usize::from(shard.number())].chunks;
        let mut entries = chunks[chunk].load(Ordering::Relaxed);
        if entries.is_null() {
            let fresh: Box<[AtomicPtr<u64>]> = std::iter::repeat_with(AtomicPtr::default)
                .take(chunk_length(chunk))
                .collect();
            self.bytes
                .fetch_add(size_of_val(&*fresh), Ordering::Relaxed);
            entries = Box::into_raw(fresh).cast();
            chunks[chunk].store(entries, Ordering::Release);
        }
        // SAFETY: `entries` is the start of a chunk of `chunk_length(chunk)` entries, which lives
        // as long as the dictionary, and `place` gives an index within it.
        unsafe { &*entries.add(at) }.store(stored, Ordering::Release);
        let slot = Slot {
            hash: parts.hash,
            id,
        };
        (stripe.table).insert_unique(spread(parts.hash), slot, |slot| spread(slot.hash));
        self.terms.fetch_add(1, Ordering::Relaxed);
        id
    }

    fn stored(&self, id: TermId) -> Option<Stored<'_>> {
        if !id.is_in_dictionary() {
            return None;
        }
        let (chunk, at) = place(id.sequence());
        let chunks = &self.entries[usize::from(id.virtual_shard().number())].chunks;
        let entries = chunks.get(chunk)?.load(Ordering::Acquire);
        if entries.is_null() {
            return None;
        }
        // SAFETY: as in `add`; the Acquire load above sees the chunk's initialised entries.
        let start = unsafe { &*entries.add(at) }.load(Ordering::Acquire);
        if start.is_null() {
            return None;
        }
        // SAFETY: `start` was made by `Arena::store` with exactly this layout, was published with
        // Release after all its words were written, never changes, and lives as long as `self`.
        unsafe {
            let header = *start;
            let text_length = (header & 0xffff_ffff) as usize;
            let kind = match header >> 32 & 0xf {
                0 => Kind::Text,
                1 => Kind::Typed,
                2 => Kind::Language,
                3 => Kind::LeftToRight,
                4 => Kind::RightToLeft,
                _ => Kind::Triple,
            };
            let words = std::slice::from_raw_parts(start.add(1), kind.words());
            let text = start.add(1 + kind.words()).cast::<u8>();
            let language = text.add(text_length);
            let language_length = (header >> 36) as usize;
            let str =
                |at, length| std::str::from_utf8_unchecked(std::slice::from_raw_parts(at, length));
            Some(Stored {
                kind,
                words,
                text: str(text, text_length),
                language: str(language, language_length),
            })
        }
    }
}

impl Drop for Dictionary {
    fn drop(&mut self) {
        for entries in &mut self.entries {
            for (chunk, pointer) in entries.chunks.iter_mut().enumerate() {
                let pointer = *pointer.get_mut();
                if !pointer.is_null() {
                    let slice = std::ptr::slice_from_raw_parts_mut(pointer, chunk_length(chunk));
                    // SAFETY: made by Box::into_raw of a slice of this length in `add`, and
                    // `&mut self` means that nobody reads any more.
                    drop(unsafe { Box::from_raw(slice) });
                }
            }
        }
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

/// The table wants entropy in its upper seven bits too; ours hold the virtual shard.
fn spread(hash: u64) -> u64 {
    hash.rotate_left(24)
}

fn place(sequence: u64) -> (usize, usize) {
    let shifted = sequence + (1 << FIRST_CHUNK_BITS);
    let bits = shifted.ilog2();
    (
        (bits - FIRST_CHUNK_BITS) as usize,
        (shifted - (1 << bits)) as usize,
    )
}

fn chunk_length(chunk: usize) -> usize {
    1 << (chunk + FIRST_CHUNK_BITS as usize)
}

fn raw(words: &[u64], at: usize) -> TermId {
    TermId::from_raw(words[at])
}

fn directional(stored: Stored<'_>, direction: BaseDirection) -> Term {
    Literal::new_directional_language_tagged_literal_unchecked(
        stored.text,
        stored.language,
        direction,
    )
    .into()
}

fn name_parts(term: TermRef<'_>) -> Parts<'_> {
    let (tag, text) = match term {
        TermRef::NamedNode(node) => (Tag::NamedNode, node.as_str()),
        TermRef::BlankNode(node) => (Tag::BlankNode, node.as_str()),
        _ => unreachable!("literals and triple terms are taken apart elsewhere"),
    };
    Parts {
        tag,
        kind: Kind::Text,
        hash: term_hash(term),
        words: [TermId::UNBOUND; 3],
        text,
        language: "",
    }
}

fn literal_parts<'a>(
    literal: LiteralRef<'a>,
    id_of: impl FnOnce(NamedNodeRef<'a>) -> Option<TermId>,
) -> Option<Parts<'a>> {
    let mut words = [TermId::UNBOUND; 3];
    let kind = match (literal.language(), literal.direction()) {
        (Some(_), None) => Kind::Language,
        (Some(_), Some(BaseDirection::Ltr)) => Kind::LeftToRight,
        (Some(_), Some(BaseDirection::Rtl)) => Kind::RightToLeft,
        (None, _) if literal.datatype() == oxrdf::vocab::xsd::STRING => Kind::Text,
        (None, _) => {
            words[0] = id_of(literal.datatype())?;
            Kind::Typed
        }
    };
    Some(Parts {
        tag: Tag::Literal,
        kind,
        hash: term_hash(literal.into()),
        words,
        text: literal.value(),
        language: literal.language().unwrap_or(""),
    })
}

fn triple_parts<'a>(
    term: TermRef<'a>,
    triple: &'a Triple,
    mut id_of: impl FnMut(TermRef<'a>) -> Option<TermId>,
) -> Option<Parts<'a>> {
    let subject = match triple.subject.as_ref() {
        NamedOrBlankNodeRef::NamedNode(node) => node.into(),
        NamedOrBlankNodeRef::BlankNode(node) => node.into(),
    };
    Some(Parts {
        tag: Tag::TripleTerm,
        kind: Kind::Triple,
        hash: term_hash(term),
        words: [
            id_of(subject)?,
            id_of(triple.predicate.as_ref().into())?,
            id_of(triple.object.as_ref())?,
        ],
        text: "",
        language: "",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms() -> Vec<Term> {
        let a = NamedNode::new_unchecked("http://example.com/a");
        let inner = Triple::new(
            a.clone(),
            a.clone(),
            Literal::new_simple_literal("long enough"),
        );
        let outer = Triple::new(BlankNode::new_unchecked("b"), a.clone(), inner.clone());
        let tagged = Literal::new_language_tagged_literal_unchecked("été à la mer", "fr");
        let directed = Literal::new_directional_language_tagged_literal_unchecked(
            "long enough",
            "ar",
            BaseDirection::Rtl,
        );
        vec![
            a.clone().into(),
            BlankNode::new_unchecked("http://example.com/a").into(),
            BlankNode::default().into(),
            Literal::new_simple_literal("http://example.com/a").into(),
            Literal::new_simple_literal("").into(),
            Literal::new_typed_literal("http://example.com/a", a).into(),
            Literal::new_typed_literal("01", oxrdf::vocab::xsd::INTEGER).into(),
            Literal::new_typed_literal("1", oxrdf::vocab::xsd::INTEGER).into(),
            tagged.into(),
            directed.into(),
            inner.into(),
            outer.into(),
        ]
    }

    #[test]
    fn every_kind_of_term_comes_back() {
        let (dictionary, terms) = (Dictionary::new(), terms());
        let ids: Vec<_> = terms
            .iter()
            .map(|t| dictionary.intern(t.as_ref()))
            .collect();
        for (term, id) in terms.iter().zip(&ids) {
            assert_eq!(dictionary.decode(*id).as_ref(), Some(term));
            assert_eq!(dictionary.lookup(term.as_ref()), Some(*id));
            assert_eq!(dictionary.intern(term.as_ref()), *id);
        }
        let mut distinct = ids.clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), ids.len());
        assert_eq!(
            dictionary.with_str(ids[8], str::len),
            Some("été à la mer".len())
        );
        assert_eq!(dictionary.with_str(ids[11], str::len), None);
    }

    /// What a view says, as a term.
    fn seen(view: TermView<'_>) -> Option<Term> {
        let mut text = String::new();
        view.write_text(&mut text);
        Some(match (view.kind, view.language, view.direction) {
            (TermKind::NamedNode, ..) => NamedNode::new_unchecked(text).into(),
            (TermKind::BlankNode, ..) => BlankNode::new_unchecked(text).into(),
            (TermKind::Triple, ..) => return None,
            (_, Some(language), None) => {
                Literal::new_language_tagged_literal_unchecked(text, language).into()
            }
            (_, Some(language), Some(direction)) => {
                Literal::new_directional_language_tagged_literal_unchecked(
                    text, language, direction,
                )
                .into()
            }
            _ => match view.datatype {
                Some(datatype) => {
                    Literal::new_typed_literal(text, NamedNode::new_unchecked(datatype)).into()
                }
                None => Literal::new_simple_literal(text).into(),
            },
        })
    }

    #[test]
    fn a_column_shows_what_decoding_gives() {
        let (dictionary, terms) = (Dictionary::new(), terms());
        let mut ids: Vec<_> = (terms.iter())
            .map(|term| dictionary.intern(term.as_ref()))
            .collect();
        ids.extend([TermId::UNBOUND, TermId::local(0)]);
        let mut next = 0;
        dictionary.decode_column(&ids, |at, view| {
            assert_eq!(at, next);
            next += 1;
            match terms.get(at) {
                None => assert_eq!(view, None),
                Some(Term::Triple(_)) => {
                    assert_eq!(view.map(|view| view.kind), Some(TermKind::Triple));
                }
                Some(term) => assert_eq!(view.and_then(seen).as_ref(), Some(term)),
            }
        });
        assert_eq!(next, ids.len());
    }

    #[test]
    fn unknown_terms_and_ids_are_none() {
        let dictionary = Dictionary::new();
        for term in terms() {
            let known = matches!(&term, Term::Literal(l) if inline::encode(l.as_ref()).is_some());
            assert_eq!(dictionary.lookup(term.as_ref()).is_some(), known, "{term}");
        }
        let never = TermId::in_dictionary(Tag::NamedNode, VirtualShard::truncated(1), 1 << 40);
        for id in [
            TermId::UNBOUND,
            TermId::DEFAULT_GRAPH,
            TermId::local(1),
            never,
        ] {
            assert_eq!(dictionary.decode(id), None);
        }
        assert_eq!(dictionary.len(), 1);
    }

    #[test]
    fn ids_hold_their_owner() {
        let dictionary = Dictionary::new();
        for n in 0..300 {
            let node = NamedNode::new_unchecked(format!("http://example.com/{n}"));
            let id = dictionary.intern(node.as_ref().into());
            let hash = term_hash(node.as_ref().into());
            assert_eq!(id.virtual_shard(), VirtualShard::of_hash(hash));
        }
        assert_eq!(dictionary.len(), 301);
    }

    #[test]
    fn threads_agree_on_ids() {
        let dictionary = Dictionary::new();
        let rounds = if cfg!(miri) { 20 } else { 2_000 };
        let work = || -> Vec<TermId> {
            (0..rounds)
                .map(|n| {
                    let node = NamedNode::new_unchecked(format!("http://example.com/{n}"));
                    let id = dictionary.intern(node.as_ref().into());
                    assert_eq!(dictionary.decode(id), Some(node.into()));
                    id
                })
                .collect()
        };
        let all: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(work)).collect();
            threads
                .into_iter()
                .map(|t| t.join().expect("no panic"))
                .collect()
        });
        assert!(all.iter().all(|ids| *ids == all[0]));
    }
}
