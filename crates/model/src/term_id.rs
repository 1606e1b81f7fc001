//! The 64-bit id of a term (S7). The layout is part of every checkpoint and wire message:
//! tag 4 bits | virtual shard 12 | sequence 48 for dictionary terms, tag 4 | value 60 for inline
//! ones. Never renumber a tag.

use crate::hash::scattered;
use crate::virtual_shard::VirtualShard;
use serde::{Deserialize, Serialize};
use std::hash::{Hash, Hasher};

/// The kind of term that an id stands for: the upper four bits of the id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Tag {
    /// [`TermId::UNBOUND`], [`TermId::DEFAULT_GRAPH`] and [`TermId::kept_graph`]: no terms at all.
    Special = 0,
    /// An IRI in the dictionary.
    NamedNode = 1,
    /// A blank node in the dictionary.
    BlankNode = 2,
    /// A literal in the dictionary.
    Literal = 3,
    /// A triple term (RDF 1.2) in the dictionary.
    TripleTerm = 4,
    /// An inline `xsd:integer`.
    Integer = 5,
    /// An inline `xsd:decimal`.
    Decimal = 6,
    /// An inline `xsd:double`.
    Double = 7,
    /// An inline `xsd:boolean`.
    Boolean = 8,
    /// An inline `xsd:dateTime`.
    DateTime = 9,
    /// An inline `xsd:date`.
    Date = 10,
    /// An inline `xsd:string` of at most seven bytes.
    ShortString = 11,
    /// An inline value of a type derived from `xsd:integer` (`xsd:int`, `xsd:long`…).
    DerivedInteger = 12,
    /// An inline `xsd:float`.
    Float = 13,
    /// Not used; never written.
    Reserved = 14,
    /// A term that one query computed; the number is an index into that query's own terms.
    Local = 15,
}

impl Tag {
    const ALL: [Tag; 16] = [
        Tag::Special,
        Tag::NamedNode,
        Tag::BlankNode,
        Tag::Literal,
        Tag::TripleTerm,
        Tag::Integer,
        Tag::Decimal,
        Tag::Double,
        Tag::Boolean,
        Tag::DateTime,
        Tag::Date,
        Tag::ShortString,
        Tag::DerivedInteger,
        Tag::Float,
        Tag::Reserved,
        Tag::Local,
    ];
}

/// The id of a term, or one of two special marks. Equality of ids is `sameTerm`: each spelling of
/// a literal has its own id. The order of ids is fixed but means nothing across tags.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[repr(transparent)]
#[serde(transparent)]
pub struct TermId(u64);

impl Hash for TermId {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(scattered(self.0));
    }
}

const TAG_SHIFT: u32 = 60;
const SHARD_SHIFT: u32 = 48;
const SEQUENCE_MASK: u64 = (1 << SHARD_SHIFT) - 1;
const PAYLOAD_MASK: u64 = (1 << TAG_SHIFT) - 1;
/// Set in the special ids that stand for kept graphs.
const KEPT_GRAPH: u64 = 1 << (SHARD_SHIFT - 1);
/// Set in the sequences of terms that came with timing statements.
const TRANSIENT: u64 = 1 << (SHARD_SHIFT - 1);

impl TermId {
    /// No value: an unbound variable in a binding table.
    pub const UNBOUND: TermId = TermId(0);
    /// The default graph, where an id of a graph is asked for.
    pub const DEFAULT_GRAPH: TermId = TermId(1);

    /// The bits of this id.
    #[inline]
    pub const fn raw(self) -> u64 {
        self.0
    }

    /// The id with these bits. Any bits are accepted; bits that no part of the engine handed out
    /// name a term that no dictionary knows.
    #[inline]
    pub const fn from_raw(raw: u64) -> TermId {
        TermId(raw)
    }

    /// The kind of term.
    #[inline]
    pub const fn tag(self) -> Tag {
        Tag::ALL[(self.0 >> TAG_SHIFT) as usize]
    }

    /// The lower 60 bits.
    #[inline]
    pub const fn payload(self) -> u64 {
        self.0 & PAYLOAD_MASK
    }

    /// The sequence number (48 bits) of a dictionary term within its tag and virtual shard.
    #[inline]
    pub const fn sequence(self) -> u64 {
        self.0 & SEQUENCE_MASK
    }

    /// An id from its tag and 60 bits of payload; higher bits of the payload are cut off.
    #[inline]
    pub const fn from_payload(tag: Tag, payload: u64) -> TermId {
        TermId(((tag as u64) << TAG_SHIFT) | (payload & PAYLOAD_MASK))
    }

    /// The id of the `sequence`-th dictionary term of this kind on this virtual shard. Only the
    /// dictionary calls this.
    #[inline]
    pub const fn in_dictionary(tag: Tag, shard: VirtualShard, sequence: u64) -> TermId {
        TermId(
            ((tag as u64) << TAG_SHIFT)
                | ((shard.number() as u64) << SHARD_SHIFT)
                | (sequence & SEQUENCE_MASK),
        )
    }

    /// The id of a term that came with a timing statement. Only the dictionary calls this.
    #[inline]
    pub const fn transient(tag: Tag, shard: VirtualShard, number: u64) -> TermId {
        TermId::in_dictionary(tag, shard, TRANSIENT | number)
    }

    /// Whether the term came with a timing statement, so that the dictionary may reclaim it unless
    /// something else has mentioned it since. Such ids are never given to another term either.
    #[inline]
    pub const fn is_transient(self) -> bool {
        self.0 & TRANSIENT != 0 && self.is_in_dictionary()
    }

    /// The `index`-th term that a query computed for itself.
    #[inline]
    pub const fn local(index: u64) -> TermId {
        TermId::from_payload(Tag::Local, index)
    }

    /// Whether the value is in the id itself.
    #[inline]
    pub const fn is_inline(self) -> bool {
        let tag = (self.0 >> TAG_SHIFT) as u8;
        tag >= Tag::Integer as u8 && tag <= Tag::Float as u8
    }

    /// Whether the term is in the dictionary.
    #[inline]
    pub const fn is_in_dictionary(self) -> bool {
        let tag = (self.0 >> TAG_SHIFT) as u8;
        tag >= Tag::NamedNode as u8 && tag <= Tag::TripleTerm as u8
    }

    /// The `number`-th graph that a lane keeps for a procedure: a batch or an owned window. It has
    /// no name, so no value of a query is equal to it.
    #[inline]
    pub const fn kept_graph(number: u32) -> TermId {
        TermId::from_payload(Tag::Special, KEPT_GRAPH | number as u64)
    }

    /// Whether this stands for a graph that a lane keeps for a procedure.
    #[inline]
    pub const fn is_kept_graph(self) -> bool {
        self.0 >> 32 == KEPT_GRAPH >> 32
    }

    /// Whether this is [`TermId::UNBOUND`].
    #[inline]
    pub const fn is_unbound(self) -> bool {
        self.0 == 0
    }

    /// Whether the term is a literal, inline or not. False for [`Tag::Local`]: ask the query.
    #[inline]
    pub const fn is_literal(self) -> bool {
        self.is_inline() || (self.0 >> TAG_SHIFT) as u8 == Tag::Literal as u8
    }

    /// The virtual shard that owns this vertex: in the id for dictionary terms, a fixed hash of
    /// the bits for inline ones (which are a pure function of the term), 0 for the rest.
    #[inline]
    pub const fn virtual_shard(self) -> VirtualShard {
        if self.is_in_dictionary() {
            VirtualShard::truncated((self.0 >> SHARD_SHIFT) as u16)
        } else if self.is_inline() {
            VirtualShard::truncated((crate::hash::mix(self.0) >> 52) as u16)
        } else {
            VirtualShard::truncated(0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_of_dictionary_ids_is_fixed() {
        let id = TermId::in_dictionary(Tag::Literal, VirtualShard::truncated(0xabc), 7);
        assert_eq!(id.raw(), 0x3abc_0000_0000_0007);
        assert_eq!(id.tag(), Tag::Literal);
        assert_eq!(id.virtual_shard().number(), 0xabc);
        assert_eq!(id.sequence(), 7);
        assert!(id.is_in_dictionary() && !id.is_inline() && id.is_literal());
    }

    #[test]
    fn marks_are_neither_inline_nor_in_the_dictionary() {
        let kept = TermId::kept_graph(u32::MAX);
        for id in [
            TermId::UNBOUND,
            TermId::DEFAULT_GRAPH,
            TermId::local(3),
            kept,
        ] {
            assert!(!id.is_inline() && !id.is_in_dictionary() && !id.is_literal());
        }
        assert_eq!(TermId::local(3).tag(), Tag::Local);
        assert_eq!(kept.tag(), Tag::Special);
        assert!(kept.is_kept_graph() && TermId::kept_graph(0).is_kept_graph());
        assert!(!TermId::DEFAULT_GRAPH.is_kept_graph() && !TermId::local(3).is_kept_graph());
    }
}
