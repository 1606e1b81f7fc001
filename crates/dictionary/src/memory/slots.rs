//! A table from a hash to a number, as from a term's hash to the offset of its bytes: eight bytes a
//! slot, open addressing. Unlike the tables of libraries it tells where a search begins, so that
//! many searches can wait for memory at once.
//!
//! Before changing it: a slot keeps 32 bits of the hash, and its home is a monotone function of
//! them, so that the table grows without reading what the numbers refer to.

use crate::memory::prefetch;

/// Numbers by hash; the upper bits of the hashes must be well mixed. No number is 0.
#[derive(Debug, Clone, Default)]
pub struct Slots {
    /// Hash in the upper half, number in the lower; 0 is free.
    slots: Box<[u64]>,
    held: usize,
}

/// There are thousands of tables with one entry.
const SMALLEST: usize = 2;
/// From this size on it grows by a quarter instead of twofold: memory counts more than moving.
const LARGE: usize = 512;

impl Slots {
    /// The number of entries in the table.
    pub fn len(&self) -> usize {
        self.held
    }

    /// Whether the table is empty.
    pub fn is_empty(&self) -> bool {
        self.held == 0
    }

    /// Memory held besides the table itself, in bytes.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.slots)
    }

    /// The result of `accept` for the first number with this hash for which it returns one.
    #[inline]
    pub fn find<R>(&self, hash: u32, mut accept: impl FnMut(u32) -> Option<R>) -> Option<R> {
        if self.slots.is_empty() {
            return None;
        }
        let mut at = home(hash, self.slots.len());
        loop {
            let slot = self.slots[at];
            if slot == 0 {
                return None;
            }
            if (slot >> 32) as u32 == hash
                && let Some(found) = accept(slot as u32)
            {
                return Some(found);
            }
            at += 1;
            if at == self.slots.len() {
                at = 0;
            }
        }
    }

    /// All entries: hash and number.
    pub fn entries(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        let held = self.slots.iter().filter(|slot| **slot != 0);
        held.map(|slot| ((slot >> 32) as u32, *slot as u32))
    }

    /// Prefetches the slot where the search for this hash begins.
    #[inline]
    pub fn prefetch(&self, hash: u32) {
        if let Some(slot) = self.slots.get(home(hash, self.slots.len())) {
            prefetch(slot);
        }
    }

    /// Adds a number, not 0, that is not in the table.
    ///
    /// # Panics
    /// If it is 0.
    pub fn insert(&mut self, hash: u32, number: u32) {
        assert_ne!(number, 0, "0 marks a free slot");
        if (self.held + 1) * 5 > self.slots.len() * 4 {
            self.grow();
        }
        place(&mut self.slots, (u64::from(hash) << 32) | u64::from(number));
        self.held += 1;
    }

    /// Removes a number with this hash, if it is there. The entries behind it move up, so that
    /// every search still ends at the first free slot.
    pub fn remove(&mut self, hash: u32, number: u32) {
        if number == 0 || self.slots.is_empty() {
            return;
        }
        let (wanted, length) = (u64::from(hash) << 32 | u64::from(number), self.slots.len());
        let mut free = home(hash, length);
        while self.slots[free] != wanted {
            if self.slots[free] == 0 {
                return;
            }
            free = (free + 1) % length;
        }
        let mut at = (free + 1) % length;
        while self.slots[at] != 0 {
            let from = |start: usize| (at + length - start) % length;
            if from(home((self.slots[at] >> 32) as u32, length)) >= from(free) {
                self.slots[free] = self.slots[at];
                free = at;
            }
            at = (at + 1) % length;
        }
        self.slots[free] = 0;
        self.held -= 1;
    }

    /// Makes room for this many more numbers at once.
    pub fn reserve(&mut self, more: usize) {
        let needed = ((self.held + more) * 5).div_ceil(4);
        if needed > self.slots.len() {
            self.resize(needed);
        }
    }

    fn grow(&mut self) {
        let now = self.slots.len();
        self.resize(if now < LARGE { now * 2 } else { now + now / 4 });
    }

    fn resize(&mut self, length: usize) {
        let mut fresh = vec![0; length.max(SMALLEST)].into_boxed_slice();
        for slot in self.slots.iter().filter(|slot| **slot != 0) {
            place(&mut fresh, *slot);
        }
        self.slots = fresh;
    }
}

#[inline]
fn home(hash: u32, slots: usize) -> usize {
    ((u64::from(hash) * slots as u64) >> 32) as usize
}

fn place(slots: &mut [u64], slot: u64) {
    let mut at = home((slot >> 32) as u32, slots.len());
    while slots[at] != 0 {
        at += 1;
        if at == slots.len() {
            at = 0;
        }
    }
    slots[at] = slot;
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn removed_slots_are_empty_and_all_others_are_found(
            steps in prop::collection::vec((prop_oneof![0..6u32, (u32::MAX - 3)..=u32::MAX, any::<u32>()], 1..12u32, any::<bool>()), 0..400),
        ) {
            let (mut table, mut twin) = (Slots::default(), BTreeSet::new());
            table.remove(0, 0);
            for (hash, number, comes) in steps {
                if !comes {
                    table.remove(hash, number);
                    twin.remove(&(hash, number));
                } else if twin.insert((hash, number)) {
                    table.insert(hash, number);
                }
                table.remove(hash, 0);
                if number == 11 {
                    table.reserve(hash as usize % 50);
                }
                prop_assert_eq!(table.len(), twin.len());
                for (hash, number) in &twin {
                    prop_assert_eq!(table.find(*hash, |n| (n == *number).then_some(())), Some(()));
                }
                let found = table.find(hash, |n| (n == number).then_some(()));
                prop_assert_eq!(found.is_some(), comes);
            }
        }

        #[test]
        fn everything_put_in_is_found(
            hashes in prop::collection::vec(prop_oneof![any::<u32>(), 0..4u32, (u32::MAX - 3)..=u32::MAX], 0..1500),
        ) {
            let mut table = Slots::default();
            for (at, hash) in hashes.iter().enumerate() {
                let offset = at as u32 + 1;
                prop_assert_eq!(table.find(*hash, |o| (o == offset).then_some(())), None);
                table.insert(*hash, offset);
            }
            prop_assert_eq!(table.len(), hashes.len());
            for (at, hash) in hashes.iter().enumerate() {
                let offset = at as u32 + 1;
                prop_assert_eq!(table.find(*hash, |o| (o == offset).then_some(o)), Some(offset));
            }
            prop_assert!(hashes.len() < 700 || table.bytes() <= hashes.len() * 13);
        }
    }
}
