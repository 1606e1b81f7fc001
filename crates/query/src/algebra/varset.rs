//! Sets of variables, as bits. Few queries have more than 64 variables, and many queries are kept:
//! a set of the first 64 takes no memory beside itself.

use somersault_lang::VarId;

/// A set of variables of one query.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct VarSet {
    /// The first 64 variables.
    first: u64,
    /// The others, 64 in each word.
    rest: Box<[u64]>,
}

impl VarSet {
    pub(crate) fn new() -> VarSet {
        VarSet::default()
    }

    pub(crate) fn of(variables: impl IntoIterator<Item = VarId>) -> VarSet {
        let mut set = VarSet::new();
        for variable in variables {
            set.insert(variable);
        }
        set
    }

    #[inline]
    pub(crate) fn contains(&self, variable: VarId) -> bool {
        let at = variable.index();
        let word = match at / 64 {
            0 => Some(&self.first),
            word => self.rest.get(word - 1),
        };
        word.is_some_and(|word| word >> (at % 64) & 1 == 1)
    }

    pub(crate) fn insert(&mut self, variable: VarId) {
        let at = variable.index();
        let word = match at / 64 {
            0 => &mut self.first,
            word => {
                self.make_room(word);
                &mut self.rest[word - 1]
            }
        };
        *word |= 1 << (at % 64);
    }

    /// Makes room for this many words beside the first.
    fn make_room(&mut self, words: usize) {
        if self.rest.len() < words {
            let mut rest = std::mem::take(&mut self.rest).into_vec();
            rest.resize(words, 0);
            self.rest = rest.into_boxed_slice();
        }
    }

    fn words(&self) -> impl Iterator<Item = u64> + '_ {
        [self.first].into_iter().chain(self.rest.iter().copied())
    }

    fn words_mut(&mut self) -> impl Iterator<Item = &mut u64> {
        [&mut self.first].into_iter().chain(&mut self.rest)
    }

    pub(crate) fn extend(&mut self, other: &VarSet) {
        self.make_room(other.rest.len());
        for (word, more) in self.words_mut().zip(other.words()) {
            *word |= more;
        }
    }

    pub(crate) fn union(&self, other: &VarSet) -> VarSet {
        let mut set = self.clone();
        set.extend(other);
        set
    }

    pub(crate) fn intersection(&self, other: &VarSet) -> VarSet {
        let rest = self.rest.iter().zip(&other.rest);
        VarSet {
            first: self.first & other.first,
            rest: rest.map(|(word, more)| word & more).collect(),
        }
    }

    pub(crate) fn difference(&self, other: &VarSet) -> VarSet {
        let mut set = self.clone();
        for (word, less) in set.words_mut().zip(other.words()) {
            *word &= !less;
        }
        set
    }

    pub(crate) fn is_disjoint(&self, other: &VarSet) -> bool {
        self.words().zip(other.words()).all(|(a, b)| a & b == 0)
    }

    pub(crate) fn is_subset(&self, other: &VarSet) -> bool {
        self.iter().all(|variable| other.contains(variable))
    }

    pub(crate) fn includes(&self, other: &VarSet) -> bool {
        other.is_subset(self)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.words().all(|word| word == 0)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = VarId> + '_ {
        (0..).zip(self.words()).flat_map(|(at, word): (u32, u64)| {
            let mut rest = word;
            std::iter::from_fn(move || {
                (rest != 0).then(|| {
                    let bit = rest.trailing_zeros();
                    rest &= rest - 1;
                    VarId(at * 64 + bit)
                })
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn set() -> impl Strategy<Value = BTreeSet<u32>> {
        prop::collection::btree_set(prop_oneof![0..8u32, 60..70u32, 120..200u32], 0..12)
    }

    fn listed(set: &VarSet) -> BTreeSet<u32> {
        set.iter().map(|variable| variable.0).collect()
    }

    proptest! {
        /// Against sets of numbers.
        #[test]
        fn operations_are_those_of_sets(a in set(), b in set()) {
            let of = |set: &BTreeSet<u32>| VarSet::of(set.iter().copied().map(VarId));
            let (one, other) = (of(&a), of(&b));
            prop_assert_eq!(&listed(&one), &a);
            prop_assert_eq!(one.is_empty(), a.is_empty());
            prop_assert!((0..256).all(|v| one.contains(VarId(v)) == a.contains(&v)));
            prop_assert_eq!(listed(&one.union(&other)), &a | &b);
            prop_assert_eq!(listed(&one.intersection(&other)), &a & &b);
            prop_assert_eq!(listed(&one.difference(&other)), &a - &b);
            prop_assert_eq!(one.is_disjoint(&other), a.is_disjoint(&b));
            prop_assert_eq!(one.is_subset(&other), a.is_subset(&b));
        }
    }
}
