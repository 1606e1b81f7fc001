//! A list in chunks, which a copy of it shares until one of the two changes.
//!
//! Before changing anything here: a checkpoint copies the list between two records, so a copy must
//! cost a pointer for each chunk. The first change of a chunk afterwards copies that chunk, once.
//! All chunks but the last are full, so an index says where its entry is.

use std::ops::Index;
use std::sync::Arc;

/// The number of entries of a full chunk.
const CHUNK: usize = 1_024;

/// A list whose copies share its chunks.
#[derive(Clone, Debug)]
pub(super) struct SharedList<T> {
    /// All full but the last, none empty.
    chunks: Vec<Arc<Vec<T>>>,
}

impl<T> SharedList<T> {
    pub(super) fn new() -> SharedList<T> {
        SharedList { chunks: Vec::new() }
    }

    pub(super) fn len(&self) -> usize {
        let full = self.chunks.len().saturating_sub(1) * CHUNK;
        self.chunks.last().map_or(0, |last| full + last.len())
    }

    /// The chunks, in order.
    pub(super) fn chunks(&self) -> &[Arc<Vec<T>>] {
        &self.chunks
    }

    /// The entries from an index on.
    pub(super) fn iter_from(&self, at: usize) -> impl Iterator<Item = &T> + Clone {
        let mut chunks = self.chunks.iter().skip(at / CHUNK);
        let first = chunks.next().map_or(&[][..], |chunk| &chunk[..]);
        let first = first.get(at % CHUNK..).unwrap_or_default();
        first.iter().chain(chunks.flat_map(|chunk| chunk.iter()))
    }

    /// The index of the first entry for which this does not hold; it holds for all before, and for
    /// none after.
    pub(super) fn partition_point(&self, holds: impl Fn(&T) -> bool) -> usize {
        let begins = |chunk: &Arc<Vec<T>>| chunk.first().is_some_and(&holds);
        let after = self.chunks.partition_point(begins);
        let Some(chunk) = after.checked_sub(1) else {
            return 0;
        };
        chunk * CHUNK + self.chunks[chunk].partition_point(&holds)
    }
}

impl<T: Clone> SharedList<T> {
    /// Makes room for this many more entries, or for a part of them that is worth it.
    pub(super) fn reserve(&mut self, more: usize) {
        if self.chunks.last().is_none_or(|last| last.len() == CHUNK) {
            // Most lists have one entry: one chunk, not the four that a list begins with.
            self.chunks
                .reserve_exact(usize::from(self.chunks.is_empty()));
            self.chunks.push(Arc::new(Vec::new()));
        }
        if let Some(last) = self.chunks.last_mut() {
            let last = Arc::make_mut(last);
            if last.capacity() - last.len() < more.min(CHUNK - last.len()) {
                // Doubling would leave up to half of the chunk unused.
                let room = more.max(last.len() / 8);
                last.reserve_exact(room.min(CHUNK - last.len()));
            }
        }
    }

    pub(super) fn push(&mut self, entry: T) {
        self.reserve(1);
        if let Some(last) = self.chunks.last_mut() {
            Arc::make_mut(last).push(entry);
        }
    }

    /// Puts an entry in the place of another, and returns that one.
    pub(super) fn replace(&mut self, at: usize, entry: T) -> T {
        let chunk = Arc::make_mut(&mut self.chunks[at / CHUNK]);
        std::mem::replace(&mut chunk[at % CHUNK], entry)
    }

    /// Removes the entries for which this does not hold, and gives their memory back.
    pub(super) fn retain(&mut self, stays: impl Fn(&T) -> bool) {
        let all = std::mem::replace(self, SharedList::new());
        let kept = all.iter_from(0).filter(|entry| stays(entry));
        let count = kept.clone().count();
        for (at, entry) in kept.enumerate() {
            self.reserve(count - at);
            self.push(entry.clone());
        }
    }
}

impl<T> Index<usize> for SharedList<T> {
    type Output = T;

    fn index(&self, at: usize) -> &T {
        &self.chunks[at / CHUNK][at % CHUNK]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    enum Step {
        Push(usize),
        Replace(usize),
        /// Keeps the entries that are no multiples of this.
        Retain(u32),
        Copy,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (1..1_500usize).prop_map(Step::Push),
            3 => (0..5_000usize).prop_map(Step::Replace),
            1 => (2..9u32).prop_map(Step::Retain),
            2 => Just(Step::Copy),
        ]
    }

    fn check(list: &SharedList<u32>, plain: &[u32]) {
        assert_eq!(list.len(), plain.len());
        assert!(list.iter_from(0).eq(plain));
        let at = plain.len() / 3;
        assert!(list.iter_from(at).eq(&plain[at..]));
        assert_eq!(list.iter_from(plain.len()).count(), 0);
    }

    proptest! {
        /// Against a plain list; copies stay what they were.
        #[test]
        fn a_list_is_a_list(steps in prop::collection::vec(step(), 1..20)) {
            let (mut list, mut plain) = (SharedList::new(), Vec::new());
            let mut copies = Vec::new();
            let mut next = 0u32;
            for step in steps {
                match step {
                    Step::Push(count) => for _ in 0..count {
                        next += 3;
                        list.push(next);
                        plain.push(next);
                    },
                    Step::Replace(at) if at < plain.len() => {
                        // Between its neighbours, so that the entries ascend.
                        let entry = plain[at] / 3 * 3 + 1;
                        prop_assert_eq!(list.replace(at, entry), plain[at]);
                        plain[at] = entry;
                    }
                    Step::Replace(_) => {}
                    Step::Retain(divisor) => {
                        list.retain(|entry| entry % divisor != 0);
                        plain.retain(|entry| entry % divisor != 0);
                    }
                    Step::Copy => copies.push((list.clone(), plain.clone())),
                }
                check(&list, &plain);
                for bound in [0, next / 2, next, next + 1] {
                    let found = list.partition_point(|entry| *entry < bound);
                    prop_assert_eq!(found, plain.partition_point(|entry| *entry < bound));
                }
            }
            copies.iter().for_each(|(list, plain)| check(list, plain));
        }
    }

    #[test]
    fn one_entry_takes_the_memory_of_one() {
        let mut list = SharedList::new();
        list.push(7u64);
        assert_eq!((list.chunks.capacity(), list.chunks[0].capacity()), (1, 1));
    }
}
