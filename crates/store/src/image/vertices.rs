//! The vertices of an index vertex, in order of their ids, and the place of each. If a predicate is
//! dense, they are a bitmap over numbered dictionary terms with the rank at each word; otherwise
//! the ids themselves, in buckets by virtual shard. Ids ascend by tag first, so each tag is a
//! section.

mod union;

use crate::memory::{Array, Plain};
use somersault_model::{Placement, ShardId, Tag, TermId, VIRTUAL_SHARDS};
use std::ops::Range;

const SEQUENCE_BITS: u32 = 48;
const TAG_SHIFT: u32 = 60;
/// A bitmap may take this many times the memory of a list of ids: a lookup in it is one access.
const GENEROSITY: u64 = 2;
/// The approximate number of ids of a list in one bucket.
const BUCKET: usize = 8;
/// The same for a list that is searched often; its buckets take a quarter of its memory.
const SMALL_BUCKET: usize = 2;
const MOST_BUCKET_BITS: u32 = VIRTUAL_SHARDS.ilog2();
const NO_SECTION: u8 = u8::MAX;

/// Numbers the dictionary terms that a shard owns, except transient ones: each virtual shard has
/// room for as many as the fullest has. They differ little, since terms are hashed. Within a tag
/// numbers ascend as ids do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Numbering {
    /// The first virtual shard of the shard's range.
    first: u64,
    /// The number of the shard's virtual shards.
    slots: u64,
    /// Sequences from here on were assigned after the image.
    room: u64,
}

impl Numbering {
    pub(crate) fn new(shard: ShardId, placement: Placement, room: u64) -> Numbering {
        let range = placement.range_of(shard);
        Numbering {
            first: range.start.into(),
            slots: range.len() as u64,
            room: room.min(1 << SEQUENCE_BITS),
        }
    }

    /// The count of all numbers.
    fn count(&self) -> u64 {
        self.slots * self.room
    }

    /// The number of a dictionary term, if it has one.
    #[inline]
    fn number(&self, id: TermId) -> Option<u64> {
        let virtual_shard = (id.raw() >> SEQUENCE_BITS) & u64::from(VIRTUAL_SHARDS - 1);
        let sequence = id.sequence();
        if sequence >= self.room {
            return None;
        }
        // A virtual shard before the range wraps round to a number beyond it.
        let slot = virtual_shard.wrapping_sub(self.first);
        if slot >= self.slots {
            return None;
        }
        Some(slot * self.room + sequence)
    }
}

/// Sixty-four numbers: a bit for each present one, and the place of the first of them.
#[derive(Debug, Clone, Copy)]
#[repr(C, packed(4))]
pub(crate) struct Word {
    bits: u64,
    rank: u32,
}

// SAFETY: two integers without a gap, thanks to the packing.
#[allow(unsafe_code)]
unsafe impl Plain for Word {}

/// Vertices and their places, counted from 0 in ascending order of ids.
pub(crate) struct Vertices {
    numbering: Numbering,
    by_tag: [u8; 16],
    sections: Box<[Section]>,
    length: usize,
}

/// The vertices of one tag.
struct Section {
    tag: u64,
    /// The place of the first.
    first: usize,
    length: usize,
    kind: SectionIds,
}

enum SectionIds {
    Bits(Array<Word>),
    Listed {
        ids: Array<TermId>,
        buckets: Buckets,
    },
}

/// Finds ids of one tag in their ascending list by the stretch of virtual shards that they lie in.
struct Buckets {
    /// The start of each stretch's bucket, and the end of the last one.
    starts: Box<[u32]>,
    shift: u32,
}

impl Vertices {
    /// Vertices from ascending ids without repeats; bitmaps are used only if the shard owns them
    /// all.
    pub(crate) fn new(ids: &[TermId], numbering: Numbering, owned: bool) -> Vertices {
        let mut by_tag = [NO_SECTION; 16];
        let mut sections = Vec::new();
        let mut first = 0;
        for ids in ids.chunk_by(|a, b| a.raw() >> TAG_SHIFT == b.raw() >> TAG_SHIFT) {
            let tag = ids[0].raw() >> TAG_SHIFT;
            by_tag[tag as usize] = sections.len() as u8;
            sections.push(Section {
                tag,
                first,
                length: ids.len(),
                kind: SectionIds::of(ids, first, &numbering, owned),
            });
            first += ids.len();
        }
        assert!(
            u32::try_from(first).is_ok(),
            "a shard has fewer than 2^32 vertices with one predicate"
        );
        Vertices {
            numbering,
            by_tag,
            sections: sections.into(),
            length: first,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.length
    }

    /// The place of a vertex.
    // Inlined into its callers, some of which are compiled for machines that count bits in one
    // instruction.
    #[inline(always)]
    pub(crate) fn place(&self, id: TermId) -> Option<usize> {
        let section = self.by_tag[(id.raw() >> TAG_SHIFT) as usize];
        let section = self.sections.get(usize::from(section))?;
        match &section.kind {
            SectionIds::Bits(words) => {
                let number = self.numbering.number(id)?;
                let word = words[(number / 64) as usize];
                let bit = 1u64 << (number % 64);
                (word.bits & bit != 0)
                    .then(|| word.rank as usize + (word.bits & (bit - 1)).count_ones() as usize)
            }
            SectionIds::Listed { ids, buckets } => {
                let range = buckets.range(id);
                let at = ids[range.clone()].binary_search(&id).ok()?;
                Some(section.first + range.start + at)
            }
        }
    }

    /// The place of the first vertex above `id`.
    pub(crate) fn place_above(&self, id: TermId) -> usize {
        let mut one = Vec::with_capacity(1);
        let (mut from, mut to) = (0, self.length);
        while from < to {
            let middle = from + (to - from) / 2;
            one.clear();
            self.write(middle, middle + 1, &mut one);
            match one.first() {
                Some(found) if *found <= id => from = middle + 1,
                _ => to = middle,
            }
        }
        from
    }

    /// Prefetches the memory that [`Vertices::place`] reads first.
    #[inline]
    pub(crate) fn prefetch(&self, id: TermId) {
        let section = self.by_tag[(id.raw() >> TAG_SHIFT) as usize];
        match self.sections.get(usize::from(section)).map(|it| &it.kind) {
            Some(SectionIds::Bits(words)) => {
                if let Some(number) = self.numbering.number(id) {
                    somersault_dictionary::prefetch(&raw const words[(number / 64) as usize]);
                }
            }
            Some(SectionIds::Listed { buckets, .. }) => buckets.prefetch(id),
            None => {}
        }
    }

    /// All vertices as a slice, if they lie in memory as ids.
    pub(crate) fn as_slice(&self) -> Option<&[TermId]> {
        match &*self.sections {
            [] => Some(&[]),
            [section] => match &section.kind {
                SectionIds::Listed { ids, .. } => Some(ids),
                SectionIds::Bits(_) => None,
            },
            _ => None,
        }
    }

    /// Appends the vertices at these places to `out`.
    pub(crate) fn write(&self, from: usize, to: usize, out: &mut Vec<TermId>) {
        out.reserve(to.min(self.length).saturating_sub(from));
        for section in &self.sections {
            let from = from.max(section.first) - section.first;
            let to = to.clamp(section.first, section.first + section.length) - section.first;
            if from >= to {
                continue;
            }
            match &section.kind {
                SectionIds::Bits(words) => self.write_bits(section, words, from, to, out),
                SectionIds::Listed { ids, .. } => out.extend_from_slice(&ids[from..to]),
            }
        }
    }

    fn write_bits(
        &self,
        section: &Section,
        words: &[Word],
        from: usize,
        to: usize,
        out: &mut Vec<TermId>,
    ) {
        let first = section.first + from;
        let mut left = to - from;
        let start = words
            .partition_point(|word| word.rank as usize <= first)
            .saturating_sub(1);
        let mut skip = first - words[start].rank as usize;
        let numbering = &self.numbering;
        let mut slot = start as u64 * 64 / numbering.room;
        let mut end = (slot + 1) * numbering.room;
        let base = |slot: u64| section.tag << TAG_SHIFT | (numbering.first + slot) << SEQUENCE_BITS;
        let mut head = base(slot);
        for (at, word) in words.iter().enumerate().skip(start) {
            let mut bits = word.bits;
            while bits != 0 {
                let number = at as u64 * 64 + u64::from(bits.trailing_zeros());
                bits &= bits - 1;
                while number >= end {
                    slot += 1;
                    end += numbering.room;
                    head = base(slot);
                }
                if skip > 0 {
                    skip -= 1;
                    continue;
                }
                out.push(TermId::from_raw(head | (number + numbering.room - end)));
                left -= 1;
                if left == 0 {
                    return;
                }
            }
        }
    }

    /// Size in memory besides this value itself.
    pub(crate) fn bytes(&self) -> usize {
        let of = |section: &Section| match &section.kind {
            SectionIds::Bits(words) => words.bytes(),
            SectionIds::Listed { ids, buckets } => ids.bytes() + buckets.bytes(),
        };
        size_of_val(&*self.sections) + self.sections.iter().map(of).sum::<usize>()
    }
}

impl SectionIds {
    /// A section from ascending ids of one tag, the first of which has the place `first`.
    fn of(ids: &[TermId], first: usize, numbering: &Numbering, owned: bool) -> SectionIds {
        let words = numbering.count().div_ceil(64);
        let affordable = size_of_val(ids) as u64 * GENEROSITY;
        let dense = owned && ids[0].is_in_dictionary() && words > 0;
        let affordable = words.saturating_mul(size_of::<Word>() as u64) <= affordable;
        // If one id has no number, a list serves them all.
        if dense && affordable && !ids.iter().any(|id| id.is_transient()) {
            SectionIds::Bits(bitmap(ids, first, numbering, words as usize))
        } else {
            SectionIds::listed(ids)
        }
    }

    fn listed(ids: &[TermId]) -> SectionIds {
        SectionIds::Listed {
            ids: ids.iter().copied().collect(),
            buckets: Buckets::of(ids, BUCKET),
        }
    }
}

impl Buckets {
    /// Buckets of ascending ids (not none) of one tag, about `size` ids in each.
    fn of(ids: &[TermId], size: usize) -> Buckets {
        // Only the virtual shards of dictionary terms are spread evenly.
        let wanted = if ids[0].tag() <= Tag::TripleTerm {
            (ids.len() / size).max(1).ilog2().min(MOST_BUCKET_BITS)
        } else {
            0
        };
        let shift = SEQUENCE_BITS + MOST_BUCKET_BITS - wanted;
        let mut starts = vec![0u32; (1 << wanted) + 1];
        for id in ids {
            starts[bucket_of(*id, shift) + 1] += 1;
        }
        for at in 1..starts.len() {
            starts[at] += starts[at - 1];
        }
        Buckets {
            starts: starts.into(),
            shift,
        }
    }

    /// The bucket in which an id of their tag would be.
    #[inline]
    fn range(&self, id: TermId) -> Range<usize> {
        let bucket = bucket_of(id, self.shift);
        self.starts[bucket] as usize..self.starts[bucket + 1] as usize
    }

    /// Prefetches the memory that [`Buckets::range`] reads.
    #[inline]
    fn prefetch(&self, id: TermId) {
        somersault_dictionary::prefetch(&raw const self.starts[bucket_of(id, self.shift)]);
    }

    fn bytes(&self) -> usize {
        size_of_val(&*self.starts)
    }
}

#[inline]
fn bucket_of(id: TermId, shift: u32) -> usize {
    (id.payload() >> shift) as usize
}

fn bitmap(ids: &[TermId], first: usize, numbering: &Numbering, words: usize) -> Array<Word> {
    let mut bitmap = Array::<Word>::zeroed(words);
    for id in ids {
        let number = numbering
            .number(*id)
            .expect("the numbering was made for all vertices that are owned");
        bitmap[(number / 64) as usize].bits |= 1 << (number % 64);
    }
    rank(&mut bitmap, first);
    bitmap
}

/// Ranks words, the first of which has the place `first`. Returns the place behind the last.
fn rank(words: &mut [Word], first: usize) -> usize {
    let mut rank = first;
    for word in words {
        word.rank = rank as u32;
        rank += word.bits.count_ones() as usize;
    }
    rank
}

/// A membership test for a long list of one tag: by a bit if the list is dense, otherwise by
/// examining a few of its ids.
pub(crate) struct Members {
    tag: u64,
    test: Test,
}

enum Test {
    Bits {
        numbering: Numbering,
        bits: Array<u64>,
    },
    Buckets(Buckets),
}

impl Members {
    /// The test for ascending ids, if they are of one kind in the dictionary. Bits may take at most
    /// twice the memory of the list.
    pub(crate) fn of(ids: &[TermId], numbering: Numbering) -> Option<Members> {
        let (first, last) = (ids.first()?, ids.last()?);
        let tag = first.raw() >> TAG_SHIFT;
        if !first.is_in_dictionary() || last.raw() >> TAG_SHIFT != tag {
            return None;
        }
        let words = numbering.count().div_ceil(64);
        let affordable = words <= (ids.len() as u64).saturating_mul(GENEROSITY);
        let bits = affordable.then(|| bits(ids, &numbering, words as usize));
        let test = match bits.flatten() {
            Some(bits) => Test::Bits { numbering, bits },
            None => Test::Buckets(Buckets::of(ids, SMALL_BUCKET)),
        };
        Some(Members { tag, test })
    }

    /// Whether a term is in the list from which this was made.
    #[inline]
    pub(crate) fn has(&self, list: &[TermId], id: TermId) -> bool {
        if id.raw() >> TAG_SHIFT != self.tag {
            return false;
        }
        match &self.test {
            Test::Bits { numbering, bits } => numbering
                .number(id)
                .is_some_and(|number| bits[(number / 64) as usize] >> (number % 64) & 1 == 1),
            Test::Buckets(buckets) => list[buckets.range(id)].contains(&id),
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        let test = match &self.test {
            Test::Bits { bits, .. } => bits.bytes(),
            Test::Buckets(buckets) => buckets.bytes(),
        };
        size_of::<Members>() + test
    }
}

/// A bit for each number, set for these ids; `None` if one has no number.
fn bits(ids: &[TermId], numbering: &Numbering, words: usize) -> Option<Array<u64>> {
    let mut bits = Array::<u64>::zeroed(words);
    for id in ids {
        let number = numbering.number(*id)?;
        bits[(number / 64) as usize] |= 1 << (number % 64);
    }
    Some(bits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use somersault_model::{VirtualShard, inline};
    use std::collections::BTreeSet;

    /// A term whose virtual shard is the `n`-th of those of the shard, or one after them.
    fn id(tag: u64, first: u64, n: u64, sequence: u64) -> TermId {
        match tag % 4 {
            0 => inline::integer(n as i64 - 40).expect("fits"),
            1 => TermId::from_payload(Tag::ShortString, n * 77),
            tag => {
                let virtual_shard = VirtualShard::truncated(((first + n) % 4096) as u16);
                let tag = if tag == 2 {
                    Tag::NamedNode
                } else {
                    Tag::Literal
                };
                TermId::in_dictionary(tag, virtual_shard, sequence)
            }
        }
    }

    proptest! {
        #[test]
        #[cfg_attr(miri, ignore = "minutes under miri")]
        fn places_equal_those_of_a_sorted_set(
            shards in prop::sample::select(vec![1u16, 2, 3, 7]),
            raw in prop::collection::vec((0u64..4, 0u64..4096, 0u64..40), 0..9_000),
            dense in any::<bool>(),
            cuts in prop::collection::vec(0usize..9_000, 2..6),
        ) {
            let shard = ShardId(1 % shards);
            let placement = Placement::new(shards);
            let range = placement.range_of(shard);
            let first = u64::from(range.start);
            // With few virtual shards in use a bitmap would cost too much: both kinds are met.
            let spread = if dense { range.len() as u64 } else { 64 };
            let ids: BTreeSet<TermId> = raw.iter()
                .map(|(tag, n, s)| id(*tag, first, n % spread, *s))
                .filter(|id| id.is_inline() || range.contains(&id.virtual_shard().number()))
                .collect();
            let ids: Vec<TermId> = ids.into_iter().collect();
            let room = if dense { 6 } else { 40 };
            let ids: Vec<TermId> = ids.into_iter().filter(|id| id.is_inline() || id.sequence() < room).collect();
            let numbering = Numbering::new(shard, placement, room);
            let vertices = Vertices::new(&ids, numbering, true);
            prop_assert_eq!(vertices.len(), ids.len());
            for (tag, n, s) in &raw {
                for (n, s) in [(*n, *s), (n + 1, s + 50), (n % spread, s % 6)] {
                    let id = id(*tag, first, n, s);
                    prop_assert_eq!(vertices.place(id), ids.binary_search(&id).ok());
                    let foreign = TermId::from_raw(id.raw() + (1 << 48));
                    prop_assert_eq!(vertices.place(foreign), ids.binary_search(&foreign).ok());
                }
            }
            for pair in cuts.windows(2) {
                let (from, to) = (pair[0].min(ids.len()), pair[1].min(ids.len()));
                let mut out = Vec::new();
                vertices.write(from, to, &mut out);
                prop_assert_eq!(&out[..], ids.get(from..to).unwrap_or(&[]));
                if let Some(id) = ids.get(from) {
                    prop_assert_eq!(vertices.place_above(*id), from + 1);
                    let below = TermId::from_raw(id.raw() - 1);
                    prop_assert_eq!(vertices.place_above(below), ids.partition_point(|i| *i <= below));
                }
            }
            let members: Vec<TermId> = ids.iter().copied().filter(|id| id.tag() == Tag::Literal).collect();
            // A few numbers for each virtual shard make bits, many make buckets.
            for room in [room, room << 20] {
                let numbering = Numbering::new(shard, placement, room);
                let Some(test) = Members::of(&members, numbering) else {
                    prop_assert!(members.is_empty());
                    continue;
                };
                for id in &ids {
                    let foreign = TermId::from_raw(id.raw() + (1 << 48));
                    for id in [*id, foreign] {
                        prop_assert_eq!(test.has(&members, id), members.contains(&id));
                    }
                }
            }
        }
    }
}
