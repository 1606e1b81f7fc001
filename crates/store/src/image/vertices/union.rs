//! The vertices of several lists as one, and the places that the vertices of each have there.
//!
//! Before changing anything here: the bits of two lists mean the same vertices only if both lists
//! have the same numbering. An older image's edges may have another one.

use super::{NO_SECTION, Numbering, Section, SectionIds, Vertices, Word, rank};
use crate::memory::Array;
use somersault_model::TermId;

/// The number of ids that are taken from a list at a time.
const STRETCH: usize = 1 << 12;

/// The vertices of one tag in one of the lists.
#[derive(Clone, Copy)]
struct Part<'a> {
    list: &'a Vertices,
    section: &'a Section,
}

impl Vertices {
    /// All vertices of these lists; bitmaps are used only if the shard owns them all.
    pub(crate) fn union(lists: &[&Vertices], numbering: Numbering, owned: bool) -> Vertices {
        let mut by_tag = [NO_SECTION; 16];
        let mut sections = Vec::new();
        let mut first = 0;
        for (tag, place) in (0..).zip(&mut by_tag) {
            let parts: Vec<Part<'_>> = lists.iter().filter_map(|it| it.part(tag)).collect();
            if parts.is_empty() {
                continue;
            }
            *place = sections.len() as u8;
            let section = Section::union(&parts, first, numbering, owned);
            first += section.length;
            sections.push(section);
        }
        assert!(
            u32::try_from(first).is_ok(),
            "a shard has fewer than 2^32 vertices with predicates"
        );
        Vertices {
            numbering,
            by_tag,
            sections: sections.into(),
            length: first,
        }
    }

    /// Calls `visit` with the place of each vertex of another list, all of which are among these.
    pub(crate) fn places_of(&self, list: &Vertices, mut visit: impl FnMut(usize)) {
        for section in &list.sections {
            let own = self.by_tag[section.tag as usize];
            let own = self.sections.get(usize::from(own)).map(|own| &own.kind);
            match (own, &section.kind) {
                (Some(SectionIds::Bits(all)), SectionIds::Bits(some))
                    if self.numbering == list.numbering =>
                {
                    for (all, some) in all.iter().zip(some.iter()) {
                        places_in_word(*all, some.bits, &mut visit);
                    }
                }
                _ => Part { list, section }.for_each(|id| {
                    visit(self.place(id).expect("the vertex is among these"));
                }),
            }
        }
    }

    /// The vertices of a tag, if there are any.
    fn part(&self, tag: u64) -> Option<Part<'_>> {
        let section = self.by_tag[tag as usize];
        let section = self.sections.get(usize::from(section))?;
        Some(Part {
            list: self,
            section,
        })
    }
}

/// Calls `visit` with the places of some of a word's numbers.
#[inline]
fn places_in_word(all: Word, some: u64, visit: &mut impl FnMut(usize)) {
    let rank = all.rank as usize;
    if some == all.bits {
        // The common case: all have the predicate.
        (rank..rank + some.count_ones() as usize).for_each(visit);
        return;
    }
    let mut bits = some;
    while bits != 0 {
        let lower = (bits & bits.wrapping_neg()) - 1;
        visit(rank + (all.bits & lower).count_ones() as usize);
        bits &= bits - 1;
    }
}

impl<'a> Part<'a> {
    fn for_each(self, mut visit: impl FnMut(TermId)) {
        let Section { first, length, .. } = *self.section;
        let mut stretch = Vec::with_capacity(STRETCH.min(length));
        for from in (first..first + length).step_by(STRETCH) {
            stretch.clear();
            let to = (first + length).min(from + STRETCH);
            self.list.write(from, to, &mut stretch);
            stretch.iter().copied().for_each(&mut visit);
        }
    }

    /// The bits of its numbers, if they mean the same as those of this numbering.
    fn bits(self, numbering: Numbering) -> Option<&'a [Word]> {
        match &self.section.kind {
            SectionIds::Bits(words) if self.list.numbering == numbering => Some(words),
            _ => None,
        }
    }
}

impl Section {
    /// The vertices of all parts, which have the same tag.
    fn union(parts: &[Part<'_>], first: usize, numbering: Numbering, owned: bool) -> Section {
        let tag = parts[0].section.tag;
        let bitmap = owned.then(|| union_of_bits(parts, numbering)).flatten();
        let (length, kind) = match bitmap {
            Some(mut words) => (rank(&mut words, first) - first, SectionIds::Bits(words)),
            None => {
                let ids = union_of_ids(parts);
                let kind = SectionIds::of(&ids, first, &numbering, owned);
                (ids.len(), kind)
            }
        };
        Section {
            tag,
            first,
            length,
            kind,
        }
    }
}

/// A bitmap of all parts, not ranked yet. There is one if a part has one, and each vertex has a
/// number.
fn union_of_bits(parts: &[Part<'_>], numbering: Numbering) -> Option<Array<Word>> {
    let length = parts.iter().find_map(|it| it.bits(numbering))?.len();
    let mut all = Array::<Word>::zeroed(length);
    let mut have_numbers = true;
    for part in parts {
        if let Some(words) = part.bits(numbering) {
            for (all, word) in all.iter_mut().zip(words) {
                all.bits |= word.bits;
            }
            continue;
        }
        part.for_each(|id| match numbering.number(id) {
            Some(number) if !id.is_transient() => {
                all[(number / 64) as usize].bits |= 1 << (number % 64);
            }
            _ => have_numbers = false,
        });
    }
    have_numbers.then_some(all)
}

/// The ids of all parts, ascending, without repeats.
fn union_of_ids(parts: &[Part<'_>]) -> Array<TermId> {
    // The longest has most of the vertices of the others: only what it lacks is sorted.
    let longest = (0..parts.len()).max_by_key(|part| parts[*part].section.length);
    let Some(longest) = longest else {
        return Array::new();
    };
    let mut lacking = Array::<TermId>::new();
    for (number, part) in parts.iter().enumerate() {
        if number != longest {
            part.for_each(|id| {
                if parts[longest].list.place(id).is_none() {
                    lacking.reserve(1);
                    lacking.push(id);
                }
            });
        }
    }
    // A sequence of ascending stretches: the stable sort finds and merges them.
    lacking.sort();
    let longest = parts[longest];
    let mut all = Array::<TermId>::with_capacity(longest.section.length + lacking.len());
    let mut lacking = lacking.iter().copied().peekable();
    let mut add = |id| {
        if all.last() != Some(&id) {
            all.push(id);
        }
    };
    longest.for_each(|id| {
        while let Some(lower) = lacking.next_if(|other| *other < id) {
            add(lower);
        }
        add(id);
    });
    lacking.for_each(add);
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use somersault_model::{Placement, ShardId, Tag, VirtualShard, inline};
    use std::collections::BTreeSet;

    /// Ids of three kinds: dense ones in the dictionary, scattered ones, and inline ones.
    fn id(kind: u8, n: u64) -> TermId {
        let virtual_shard = VirtualShard::truncated((n % 4096) as u16);
        match kind % 3 {
            0 => TermId::in_dictionary(Tag::NamedNode, virtual_shard, n / 4096),
            1 => TermId::in_dictionary(Tag::Literal, virtual_shard, (n / 4096) * 5),
            _ => inline::integer(n as i64).expect("fits"),
        }
    }

    proptest! {
        #[test]
        #[cfg_attr(miri, ignore = "minutes under miri")]
        fn a_union_is_the_list_of_all_ids(
            lists in prop::collection::vec(
                (prop::collection::vec((0u8..3, 0u64..8_192), 0..700), any::<bool>(), any::<bool>()),
                0..4,
            ),
            owned in any::<bool>(),
        ) {
            let numbering = |room| Numbering::new(ShardId(0), Placement::new(1), room);
            let lists: Vec<(Vec<TermId>, u64)> = lists
                .into_iter()
                .map(|(ids, all, other)| {
                    let mut ids: BTreeSet<TermId> =
                        ids.into_iter().map(|(kind, n)| id(kind, n)).collect();
                    if all {
                        ids.extend((0..1_500).map(|n| id(0, n)));
                    }
                    (ids.into_iter().collect(), if other { 6 } else { 10 })
                })
                .collect();
            let parts: Vec<Vertices> = lists
                .iter()
                .map(|(ids, room)| Vertices::new(ids, numbering(*room), owned))
                .collect();
            let all: BTreeSet<TermId> = lists.iter().flat_map(|(ids, _)| ids).copied().collect();
            let all: Vec<TermId> = all.into_iter().collect();
            let expected = Vertices::new(&all, numbering(10), owned);
            let union = Vertices::union(&parts.iter().collect::<Vec<_>>(), numbering(10), owned);
            prop_assert_eq!(union.len(), all.len());
            prop_assert_eq!(union.bytes(), expected.bytes(), "they are of the same kinds");
            let mut written = Vec::new();
            union.write(0, all.len(), &mut written);
            prop_assert_eq!(&written, &all);
            for id in &all {
                prop_assert_eq!(union.place(*id), expected.place(*id));
            }
            for ((ids, _), part) in lists.iter().zip(&parts) {
                let mut places = Vec::new();
                union.places_of(part, |place| places.push(place));
                let expected: Vec<usize> =
                    ids.iter().map(|id| all.binary_search(id).unwrap()).collect();
                prop_assert_eq!(places, expected);
            }
        }
    }
}
