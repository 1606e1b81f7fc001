//! Ids with a value each, ascending: a few of them in place, many in a tree.
//!
//! The one thing to know before changing it: most of a layer's lists have one entry or two, and an
//! operation may give a list a million, one by one and in any order. Neither may cost the other.

use smallvec::SmallVec;
use somersault_model::TermId;
use std::collections::BTreeMap;

/// From this many entries on a tree holds them.
const FEW: usize = 32;

/// Ids with a value each.
#[derive(Debug)]
pub(crate) enum IdEntries<V> {
    Few(SmallVec<[(TermId, V); 2]>),
    Many(BTreeMap<TermId, V>),
}

impl<V> Default for IdEntries<V> {
    fn default() -> IdEntries<V> {
        IdEntries::Few(SmallVec::new())
    }
}

impl<V: Copy> IdEntries<V> {
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            IdEntries::Few(list) => list.len(),
            IdEntries::Many(map) => map.len(),
        }
    }

    /// The value of an id.
    pub(crate) fn get(&self, id: TermId) -> Option<V> {
        match self {
            IdEntries::Few(list) => {
                let at = list.binary_search_by_key(&id, |(id, _)| *id).ok()?;
                Some(list[at].1)
            }
            IdEntries::Many(map) => map.get(&id).copied(),
        }
    }

    /// Gives an id a value, or takes it away; returns the value before.
    pub(crate) fn set(&mut self, id: TermId, value: Option<V>) -> Option<V> {
        let list = match self {
            IdEntries::Few(list) => list,
            IdEntries::Many(map) => {
                return match value {
                    Some(value) => map.insert(id, value),
                    None => map.remove(&id),
                };
            }
        };
        match (list.binary_search_by_key(&id, |(id, _)| *id), value) {
            (Ok(at), Some(value)) => Some(std::mem::replace(&mut list[at].1, value)),
            (Ok(at), None) => Some(list.remove(at).1),
            (Err(_), None) => None,
            (Err(at), Some(value)) => {
                list.insert(at, (id, value));
                if list.len() > FEW {
                    *self = IdEntries::Many(std::mem::take(list).into_iter().collect());
                }
                None
            }
        }
    }

    /// The ids with their values, ascending.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (TermId, V)> + '_ {
        let (few, many) = match self {
            IdEntries::Few(list) => (Some(list.iter()), None),
            IdEntries::Many(map) => (None, Some(map.iter())),
        };
        let few = few.into_iter().flatten().map(|(id, value)| (*id, *value));
        let many = many.into_iter().flatten().map(|(id, value)| (*id, *value));
        few.chain(many)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn entries_are_those_of_a_map(
            steps in prop::collection::vec((0_u64..50, prop::option::of(0_u8..3)), 0..200),
        ) {
            let (mut entries, mut map) = (IdEntries::default(), BTreeMap::new());
            for (id, value) in steps {
                let id = TermId::from_raw(id);
                let before = match value {
                    Some(value) => map.insert(id, value),
                    None => map.remove(&id),
                };
                prop_assert_eq!(entries.set(id, value), before);
                prop_assert_eq!(entries.get(id), value);
                prop_assert_eq!(entries.len(), map.len());
                prop_assert_eq!(entries.is_empty(), map.is_empty());
            }
            prop_assert_eq!(entries.iter().collect::<Vec<_>>(), map.into_iter().collect::<Vec<_>>());
        }
    }
}
