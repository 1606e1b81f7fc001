//! The hash that places terms on virtual shards (S7). It is defined here bit by bit and never
//! changes: checkpoints, ids and the peers of a cluster rely on it. The golden values in the tests
//! pin it.
//!
//! Definition, over 64-bit words: `fold(a, b)` = low half xor high half of the 128-bit product;
//! the state starts at a constant of the kind of term and takes each part (a string) in turn: its
//! bytes in little-endian words of eight, the last one padded with zeros, then its length.
//! The virtual shard is the upper 12 bits; the dictionary's table uses the others.

use oxrdf::{BaseDirection, LiteralRef, NamedOrBlankNodeRef, TermRef};

const K0: u64 = 0x9e37_79b9_7f4a_7c15;
const K1: u64 = 0xd1b5_4a32_d192_ed03;
const K2: u64 = 0x8cb9_2ba7_2f3d_8dd7;

const fn fold(a: u64, b: u64) -> u64 {
    let product = (a as u128) * (b as u128);
    (product as u64) ^ ((product >> 64) as u64)
}

/// A fixed mix of 64 bits, for ids whose value is in the id.
pub(crate) const fn mix(value: u64) -> u64 {
    fold(fold(value ^ K0, K1) ^ K2, K0)
}

/// Lets all bits of a key decide on all bits of its hash, for tables in memory. Ids of one kind
/// differ in the virtual shard and in the last bits of the sequence alone, and a product, which is
/// all that quick hashers take, carries bits upwards only: without this most ids share few buckets.
#[inline]
pub const fn scattered(key: u64) -> u64 {
    fold(key, K0)
}

struct TermHasher(u64);

impl TermHasher {
    fn part(&mut self, text: &str) {
        let mut chunks = text.as_bytes().chunks_exact(8);
        for chunk in &mut chunks {
            let mut word = [0; 8];
            word.copy_from_slice(chunk);
            self.word(u64::from_le_bytes(word));
        }
        let rest = chunks.remainder();
        if !rest.is_empty() {
            let mut word = [0; 8];
            word[..rest.len()].copy_from_slice(rest);
            self.word(u64::from_le_bytes(word));
        }
        self.word(text.len() as u64);
    }

    fn word(&mut self, word: u64) {
        self.0 = fold(self.0 ^ word ^ K1, K0).wrapping_add(K2);
    }
}

/// The fixed 64-bit hash of a term. Its upper 12 bits are the term's virtual shard.
pub fn term_hash(term: TermRef<'_>) -> u64 {
    match term {
        TermRef::NamedNode(node) => {
            let mut hasher = TermHasher(K0.wrapping_mul(1));
            hasher.part(node.as_str());
            mix(hasher.0)
        }
        TermRef::BlankNode(node) => {
            let mut hasher = TermHasher(K0.wrapping_mul(2));
            hasher.part(node.as_str());
            mix(hasher.0)
        }
        TermRef::Literal(literal) => literal_hash(literal),
        TermRef::Triple(triple) => {
            let subject = match triple.subject.as_ref() {
                NamedOrBlankNodeRef::NamedNode(node) => term_hash(node.into()),
                NamedOrBlankNodeRef::BlankNode(node) => term_hash(node.into()),
            };
            let mut hasher = TermHasher(K0.wrapping_mul(4));
            hasher.word(subject);
            hasher.word(term_hash(triple.predicate.as_ref().into()));
            hasher.word(term_hash(triple.object.as_ref()));
            mix(hasher.0)
        }
    }
}

fn literal_hash(literal: LiteralRef<'_>) -> u64 {
    let mut hasher = TermHasher(K0.wrapping_mul(3));
    hasher.part(literal.value());
    match (literal.language(), literal.direction()) {
        (Some(language), direction) => {
            hasher.part(language);
            hasher.word(match direction {
                None => 1,
                Some(BaseDirection::Ltr) => 2,
                Some(BaseDirection::Rtl) => 3,
            });
        }
        (None, _) => {
            hasher.part(literal.datatype().as_str());
            hasher.word(0);
        }
    }
    mix(hasher.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Tag, TermId, VirtualShard};
    use oxrdf::{BlankNodeRef, Literal, NamedNode, NamedNodeRef, Triple};
    use rustc_hash::FxBuildHasher;
    use std::collections::HashSet;
    use std::hash::BuildHasher;

    fn iri(text: &str) -> NamedNodeRef<'_> {
        NamedNodeRef::new_unchecked(text)
    }

    #[test]
    fn the_hash_is_pinned() {
        let golden = [
            term_hash(iri("http://example.com/a").into()),
            term_hash(BlankNodeRef::new_unchecked("a").into()),
            term_hash(LiteralRef::new_simple_literal("a long enough string").into()),
            mix(5 << 60),
        ];
        assert_eq!(golden, GOLDEN, "S7: the hash of a term never changes");
    }

    const GOLDEN: [u64; 4] = [
        6_649_637_038_693_599_052,
        1_686_942_382_078_799_763,
        5_350_235_285_635_768_577,
        14_204_169_669_518_058_457,
    ];

    #[test]
    fn ids_of_neighbours_share_no_buckets() {
        // The low bits choose a bucket, the upper seven are compared in it.
        let buckets = |hash: &dyn Fn(TermId) -> u64| {
            let shards = (0..4_096).map(VirtualShard::truncated);
            let ids = shards.map(|shard| TermId::in_dictionary(Tag::NamedNode, shard, 1));
            let hashes: HashSet<u64> = ids.map(|id| hash(id) & 0xFFF).collect();
            hashes.len()
        };
        let one_at_random = 4_096.0 * (1.0 - 1.0 / std::f64::consts::E);
        let of_ids = buckets(&|id| FxBuildHasher.hash_one(id));
        assert!(of_ids as f64 > 0.9 * one_at_random, "{of_ids} buckets");
        let of_bits = buckets(&|id| FxBuildHasher.hash_one(id.raw()));
        assert!(of_bits < 10, "the hasher has got better: {of_bits} buckets");
    }

    #[test]
    fn different_terms_that_spell_alike_hash_apart() {
        let x = Literal::new_simple_literal("x");
        let tagged = Literal::new_language_tagged_literal_unchecked("x", "en");
        let typed = Literal::new_typed_literal("x", NamedNode::new_unchecked("en"));
        let triple = Triple::new(iri("x"), iri("x"), iri("x"));
        let mut hashes = vec![
            term_hash(iri("x").into()),
            term_hash(BlankNodeRef::new_unchecked("x").into()),
            term_hash(x.as_ref().into()),
            term_hash(tagged.as_ref().into()),
            term_hash(typed.as_ref().into()),
            term_hash((&triple).into()),
        ];
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(hashes.len(), 6);
    }

    #[test]
    fn virtual_shards_are_filled_evenly() {
        let mut filled = vec![0u32; 4096];
        for n in 0..200_000 {
            let text = format!("http://example.com/user/{n}");
            filled[(term_hash(iri(&text).into()) >> 52) as usize] += 1;
        }
        // 49 expected on each; twelve standard deviations are never reached by a good hash.
        assert!(filled.iter().all(|&n| n > 5 && n < 130));
    }
}
