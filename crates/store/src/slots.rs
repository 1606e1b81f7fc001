//! The table that leads from a term's hash to its bytes: eight bytes a slot, open addressing.
//!
//! Before changing it: a slot keeps 32 bits of the hash, and its home is a monotone function of
//! them, so that the table grows without looking at a single term.

/// Where terms of one stripe are, by hash. Offset 0 is never a term's.
#[derive(Default)]
pub(crate) struct Slots {
    /// Hash in the upper half, offset in the lower; 0 is free.
    slots: Box<[u64]>,
    held: usize,
}

const SMALLEST: usize = 16;
/// From this size on it grows by a quarter instead of twofold: memory counts more than moving.
const LARGE: usize = 512;

impl Slots {
    /// How many terms are in the table.
    pub(crate) fn len(&self) -> usize {
        self.held
    }

    /// Memory held besides the table itself, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.slots)
    }

    /// The first offset with this hash that `accept` takes.
    #[inline]
    pub(crate) fn find<R>(&self, hash: u32, mut accept: impl FnMut(u32) -> Option<R>) -> Option<R> {
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

    /// Where the search for this hash begins.
    #[inline]
    pub(crate) fn first(&self, hash: u32) -> Option<*const u64> {
        let slot = self.slots.get(home(hash, self.slots.len()))?;
        Some(&raw const *slot)
    }

    /// Adds a term that is not in the table. Its offset is not 0.
    pub(crate) fn insert(&mut self, hash: u32, offset: u32) {
        assert_ne!(offset, 0, "offset 0 marks a free slot");
        if (self.held + 1) * 5 > self.slots.len() * 4 {
            self.grow();
        }
        place(&mut self.slots, (u64::from(hash) << 32) | u64::from(offset));
        self.held += 1;
    }

    fn grow(&mut self) {
        let now = self.slots.len();
        let larger = if now < LARGE { now * 2 } else { now + now / 4 };
        let mut fresh = vec![0; larger.max(SMALLEST)].into_boxed_slice();
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

    proptest! {
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
