//! The effects of one SN on one list: every insertion was absent before, every deletion present. So
//! a change *toggles* membership, and changes of several SNs add up by cancelling.

use somersault_model::TermId;
use std::cmp::Ordering;

/// Ascending, disjoint insertions and deletions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    pub(crate) inserts: Vec<TermId>,
    pub(crate) deletes: Vec<TermId>,
}

impl Changes {
    pub(crate) fn is_empty(&self) -> bool {
        self.inserts.is_empty() && self.deletes.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.inserts.clear();
        self.deletes.clear();
    }

    pub(crate) fn len(&self) -> usize {
        self.inserts.len() + self.deletes.len()
    }

    /// The increase in the number of members.
    pub(crate) fn net(&self) -> isize {
        self.inserts.len() as isize - self.deletes.len() as isize
    }

    /// These changes followed by `newer` ones.
    pub(crate) fn then(&self, newer: &Changes) -> Changes {
        Changes {
            inserts: union_of_differences(
                (&self.inserts, &newer.deletes),
                (&newer.inserts, &self.deletes),
            ),
            deletes: union_of_differences(
                (&self.deletes, &newer.inserts),
                (&newer.deletes, &self.inserts),
            ),
        }
    }
}

/// (a without b) ∪ (c without d), all ascending.
fn union_of_differences(
    (a, b): (&[TermId], &[TermId]),
    (c, d): (&[TermId], &[TermId]),
) -> Vec<TermId> {
    let mut out = Vec::with_capacity(a.len() + c.len());
    let mut left = without(a, b).peekable();
    let mut right = without(c, d).peekable();
    while let (Some(x), Some(y)) = (left.peek(), right.peek()) {
        out.extend(if x < y { left.next() } else { right.next() });
    }
    out.extend(left);
    out.extend(right);
    out
}

fn without<'a>(all: &'a [TermId], mut gone: &'a [TermId]) -> impl Iterator<Item = TermId> + 'a {
    all.iter().copied().filter(move |id| {
        while let Some((first, rest)) = gone.split_first() {
            match first.cmp(id) {
                Ordering::Less => gone = rest,
                Ordering::Equal => return false,
                Ordering::Greater => return true,
            }
        }
        true
    })
}

/// Appends `base` with `inserts` added and `deletes` removed to `out`. All three are ascending;
/// insertions are not in `base`, deletions are.
pub(crate) fn merge_into(
    mut base: &[TermId],
    inserts: &[TermId],
    deletes: &[TermId],
    out: &mut Vec<TermId>,
) {
    out.reserve(base.len() + inserts.len() - deletes.len().min(base.len()));
    let (mut inserts, mut deletes) = (inserts, deletes);
    loop {
        // Copy up to the next change in one go: changes are few where lists are long.
        let next = match (inserts.first(), deletes.first()) {
            (Some(i), Some(d)) => *i.min(d),
            (Some(i), None) => *i,
            (None, Some(d)) => *d,
            (None, None) => break,
        };
        let upto = gallop(base, next);
        out.extend_from_slice(&base[..upto]);
        base = &base[upto..];
        if inserts.first() == Some(&next) {
            out.push(next);
            inserts = &inserts[1..];
        } else {
            deletes = &deletes[1..];
        }
        if base.first() == Some(&next) {
            base = &base[1..];
        }
    }
    out.extend_from_slice(base);
}

/// The number of members of the ascending `list` that are below `id`; cheap if they are few.
pub(crate) fn gallop(list: &[TermId], id: TermId) -> usize {
    let mut bound = 1;
    while bound <= list.len() && list[bound - 1] < id {
        bound *= 2;
    }
    let from = bound / 2;
    let to = bound.min(list.len());
    from + list[from..to].partition_point(|member| *member < id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn ids(numbers: &BTreeSet<u64>) -> Vec<TermId> {
        numbers.iter().copied().map(TermId::from_raw).collect()
    }

    /// The effective changes that lead from one set to another.
    fn between(from: &BTreeSet<u64>, to: &BTreeSet<u64>) -> Changes {
        Changes {
            inserts: ids(&(to - from)),
            deletes: ids(&(from - to)),
        }
    }

    proptest! {
        #[test]
        fn changes_add_up(
            a in prop::collection::btree_set(0u64..60, 0..40),
            b in prop::collection::btree_set(0u64..60, 0..40),
            c in prop::collection::btree_set(0u64..60, 0..40),
        ) {
            let sum = between(&a, &b).then(&between(&b, &c));
            prop_assert_eq!(&sum, &between(&a, &c));
            let mut out = Vec::new();
            merge_into(&ids(&a), &sum.inserts, &sum.deletes, &mut out);
            prop_assert_eq!(out, ids(&c));
        }
    }
}
