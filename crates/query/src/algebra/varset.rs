//! Sets of variables, as bits.

use somersault_lang::VarId;

/// A set of variables of one query.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct VarSet(Vec<u64>);

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
        self.0
            .get(at / 64)
            .is_some_and(|word| word >> (at % 64) & 1 == 1)
    }

    pub(crate) fn insert(&mut self, variable: VarId) {
        let at = variable.index();
        if self.0.len() <= at / 64 {
            self.0.resize(at / 64 + 1, 0);
        }
        self.0[at / 64] |= 1 << (at % 64);
    }

    pub(crate) fn extend(&mut self, other: &VarSet) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (word, more) in self.0.iter_mut().zip(&other.0) {
            *word |= more;
        }
    }

    pub(crate) fn union(&self, other: &VarSet) -> VarSet {
        let mut set = self.clone();
        set.extend(other);
        set
    }

    pub(crate) fn intersection(&self, other: &VarSet) -> VarSet {
        VarSet(
            self.0
                .iter()
                .zip(&other.0)
                .map(|(word, more)| word & more)
                .collect(),
        )
    }

    pub(crate) fn difference(&self, other: &VarSet) -> VarSet {
        let mut set = self.clone();
        for (word, less) in set.0.iter_mut().zip(&other.0) {
            *word &= !less;
        }
        set
    }

    pub(crate) fn is_disjoint(&self, other: &VarSet) -> bool {
        self.0.iter().zip(&other.0).all(|(a, b)| a & b == 0)
    }

    pub(crate) fn is_subset(&self, other: &VarSet) -> bool {
        self.iter().all(|variable| other.contains(variable))
    }

    pub(crate) fn includes(&self, other: &VarSet) -> bool {
        other.is_subset(self)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = VarId> + '_ {
        self.0.iter().enumerate().flat_map(|(at, word)| {
            let mut rest = *word;
            std::iter::from_fn(move || {
                (rest != 0).then(|| {
                    let bit = rest.trailing_zeros();
                    rest &= rest - 1;
                    VarId(at as u32 * 64 + bit)
                })
            })
        })
    }
}
