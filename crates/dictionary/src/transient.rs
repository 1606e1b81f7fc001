//! Terms that came with timing statements of streams, as long as nothing else has mentioned them:
//! each has its own allocation, so that it can be freed alone.
//!
//! The one thing to know before changing it: a thread that finds a term in a table, to mention it,
//! to hold it or to make it permanent, holds the stripe's lock for reading meanwhile, and a thread
//! that reclaims a term holds it for writing. So a term is never removed between being found and
//! being mentioned.

use crate::arena::{Kind, Place, Stored};
use hashbrown::HashTable;
use rustc_hash::FxHashMap;
use somersault_model::{Epoch, Lease, StreamUid, TermId};
use std::collections::hash_map::Entry;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A term that may be reclaimed.
pub(crate) struct TransientTerm {
    pub(crate) id: TermId,
    hash: u64,
    pub(crate) last_mention: LastMention,
    number: u32,
    kind: Kind,
    text: Box<str>,
    parts: Option<Box<TripleParts>>,
}

/// The parts of a triple term.
pub(crate) struct TripleParts {
    pub(crate) ids: [TermId; 3],
    /// Those of the parts that may be reclaimed: they stay as long as the triple term.
    pub(crate) held: Vec<Arc<TransientTerm>>,
}

impl TransientTerm {
    /// `kind`, `number` and `text` are as in [`Stored`].
    pub(crate) fn new(
        (id, hash): (TermId, u64),
        last_mention: LastMention,
        (kind, number, text): (Kind, u32, &str),
        parts: Option<TripleParts>,
    ) -> TransientTerm {
        TransientTerm {
            id,
            hash,
            last_mention,
            number,
            kind,
            text: text.into(),
            parts: parts.map(Box::new),
        }
    }

    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }

    /// The term in the form of those that lie in an arena.
    pub(crate) fn stored(&self) -> Stored<'_> {
        let none = [TermId::UNBOUND; 3];
        Stored {
            place: Place::NOWHERE,
            kind: self.kind,
            number: self.number,
            text: &self.text,
            parts: self.parts.as_ref().map_or(none, |parts| parts.ids),
        }
    }

    #[inline]
    pub(crate) fn has_hash(&self, hash: u64) -> bool {
        self.hash == hash
    }

    /// The parts of a triple term that stay with it; empty for other terms.
    pub(crate) fn held_parts(&self) -> &[Arc<TransientTerm>] {
        self.parts.as_ref().map_or(&[], |parts| &parts.held)
    }

    fn bytes(&self) -> usize {
        let parts = self.parts.as_ref().map_or(0, |parts| {
            size_of::<TripleParts>() + parts.held.capacity() * size_of::<Arc<TransientTerm>>()
        });
        // With the two counts of the Arc.
        size_of::<TransientTerm>() + 2 * size_of::<usize>() + self.text.len() + parts
    }
}

impl fmt::Debug for TransientTerm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {:?}", self.id, self.text)
    }
}

/// A record of the timing statements that have mentioned a term: their stream, and the epoch of the
/// last of them.
pub(crate) struct LastMention(AtomicU64);

/// The meaning of a [`LastMention`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mentioned {
    /// Mentioned by more than timing statements: the term stays.
    ForGood,
    /// Mentioned by statements of one stream, last in this epoch.
    ByOne(u64),
    /// Mentioned by statements of several streams, last in this epoch.
    BySeveral(u64),
}

const EPOCH_BITS: u32 = 44;
/// Numbers of epochs that are read back are below this, so that many more can follow.
pub(crate) const MOST_EPOCHS: u64 = 1 << (EPOCH_BITS - 1);
const EPOCH_MASK: u64 = (1 << EPOCH_BITS) - 1;
/// The value in place of a stream's slot that stands for several streams.
const SEVERAL: u64 = (1 << (64 - EPOCH_BITS)) - 1;
const FOR_GOOD: u64 = u64::MAX;

/// The number that stands for a stream in marks. Two streams with the same slot, of a million
/// possible ones, count as one.
pub(crate) fn slot_of(stream: StreamUid) -> u64 {
    u64::from(stream.0) % SEVERAL
}

fn bits(slot: u64, epoch: u64) -> u64 {
    assert!(epoch < EPOCH_MASK, "fewer than 2^44 epochs");
    slot << EPOCH_BITS | epoch
}

impl LastMention {
    pub(crate) fn new(lease: &Lease) -> LastMention {
        let epoch = lease.epoch();
        LastMention(AtomicU64::new(bits(
            slot_of(epoch.stream()),
            epoch.number(),
        )))
    }

    /// The record with these bits, as they were exported.
    pub(crate) fn of_bits(bits: u64) -> LastMention {
        LastMention(AtomicU64::new(bits))
    }

    /// Records that a statement which the lease covers mentions the term.
    // Relaxed throughout: a thread that reads it to decide holds the stripe's lock for writing,
    // and all threads that write it hold the lock for reading.
    pub(crate) fn mention(&self, epoch: &Epoch) {
        let slot = slot_of(epoch.stream());
        let mentioned = |before: u64| {
            if before == FOR_GOOD {
                return None;
            }
            let of = match before >> EPOCH_BITS {
                same if same == slot => slot,
                _ => SEVERAL,
            };
            let after = bits(of, epoch.number().max(before & EPOCH_MASK));
            (after != before).then_some(after)
        };
        // An error means that nothing has changed.
        let _ = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, mentioned);
    }

    /// Returns whether the term was not permanent before.
    pub(crate) fn make_permanent(&self) -> bool {
        self.0.swap(FOR_GOOD, Ordering::Relaxed) != FOR_GOOD
    }

    pub(crate) fn is_permanent(&self) -> bool {
        self.0.load(Ordering::Relaxed) == FOR_GOOD
    }

    /// The slot of the stream in the upper 20 bits, the epoch in the others; all bits are set for a
    /// permanent term.
    fn bits(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// These bits as files keep them that know the epochs before `next`. A later mention, which
    /// those files do not have, counts as one in the last of these epochs: the term stays with the
    /// files at least as long as what it was mentioned by before.
    pub(crate) fn bits_before(&self, next: u64) -> u64 {
        match self.bits() {
            FOR_GOOD => FOR_GOOD,
            mark => mark & !EPOCH_MASK | (mark & EPOCH_MASK).min(next.saturating_sub(1)),
        }
    }

    /// The slot of the stream that has mentioned the term, if only one has.
    pub(crate) fn slot(&self) -> u64 {
        self.bits() >> EPOCH_BITS
    }

    pub(crate) fn mentioned(&self) -> Mentioned {
        let mark = self.bits();
        match mark >> EPOCH_BITS {
            _ if mark == FOR_GOOD => Mentioned::ForGood,
            SEVERAL => Mentioned::BySeveral(mark & EPOCH_MASK),
            _ => Mentioned::ByOne(mark & EPOCH_MASK),
        }
    }
}

/// The transient terms of one stripe. Behind its lock.
#[derive(Default)]
pub(crate) struct TransientTerms {
    by_hash: HashTable<Arc<TransientTerm>>,
    by_number: FxHashMap<u64, Arc<TransientTerm>>,
    next: u64,
    term_bytes: usize,
}

/// The outcome of examining a term.
pub(crate) enum ReclaimOutcome {
    /// There is no such term.
    Unknown,
    /// It is not past.
    Alive(Mentioned),
    /// It is past, but still held.
    Held,
    /// It was removed.
    Gone(Arc<TransientTerm>),
}

/// A table gives memory back when it is this many times too large, and not below this size.
const MUCH_TOO_LARGE: usize = 8;
const SMALL: usize = 64;
/// The number of references that the two tables hold.
const IN_TABLES: usize = 2;

impl TransientTerms {
    pub(crate) fn is_empty(&self) -> bool {
        self.by_number.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.by_number.len()
    }

    /// The number of the next term; none is given twice.
    pub(crate) fn next_number(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    /// The number that the next term will get.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Gives no number below this one from now on.
    pub(crate) fn skip_to(&mut self, next: u64) {
        self.next = self.next.max(next);
    }

    /// All terms, in no particular order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<TransientTerm>> {
        self.by_number.values()
    }

    pub(crate) fn get(&self, id: TermId) -> Option<&Arc<TransientTerm>> {
        let term = self.by_number.get(&number_of(id))?;
        (term.id == id).then_some(term)
    }

    /// The term with this hash that `is_it` accepts.
    pub(crate) fn find(
        &self,
        hash: u64,
        is_it: impl Fn(&TransientTerm) -> bool,
    ) -> Option<&Arc<TransientTerm>> {
        self.by_hash
            .find(mixed(hash), |term| term.hash == hash && is_it(term))
    }

    /// Adds a term that is not in the tables.
    pub(crate) fn insert(&mut self, term: Arc<TransientTerm>) {
        self.term_bytes += term.bytes();
        self.by_number.insert(number_of(term.id), Arc::clone(&term));
        self.by_hash
            .insert_unique(mixed(term.hash), term, |term| mixed(term.hash));
    }

    /// Removes a term that is past and that only the tables hold.
    pub(crate) fn take(
        &mut self,
        id: TermId,
        is_past: impl FnOnce(Mentioned) -> bool,
    ) -> ReclaimOutcome {
        let Entry::Occupied(entry) = self.by_number.entry(number_of(id)) else {
            return ReclaimOutcome::Unknown;
        };
        let term = entry.get();
        if term.id != id {
            return ReclaimOutcome::Unknown;
        }
        let mentioned = term.last_mention.mentioned();
        if !is_past(mentioned) {
            return ReclaimOutcome::Alive(mentioned);
        }
        // No new reference can appear: they are made from those in the tables, under the lock.
        if Arc::strong_count(term) > IN_TABLES {
            return ReclaimOutcome::Held;
        }
        let hash = mixed(term.hash);
        let Ok(by_hash) = self.by_hash.find_entry(hash, |other| other.id == id) else {
            unreachable!("a term is in both tables");
        };
        by_hash.remove();
        let term = entry.remove();
        self.term_bytes -= term.bytes();
        self.shrink();
        ReclaimOutcome::Gone(term)
    }

    fn shrink(&mut self) {
        let held = self.len().max(SMALL);
        if self.by_number.capacity() > held * MUCH_TOO_LARGE {
            self.by_number.shrink_to(2 * held);
            self.by_hash.shrink_to(2 * held, |term| mixed(term.hash));
        }
    }

    /// Memory held besides the struct itself, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let by_number = self.by_number.capacity() * (size_of::<(u64, Arc<TransientTerm>)>() + 1);
        self.term_bytes + self.by_hash.allocation_size() + by_number
    }
}

/// The number that [`TransientTerms::next_number`] gave for an id, with a bit that all of them
/// have.
fn number_of(id: TermId) -> u64 {
    id.sequence()
}

/// Mixes a hash: all hashes of a stripe begin alike, and the table uses both ends.
fn mixed(hash: u64) -> u64 {
    hash.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(stream: u32, number: u64) -> Lease {
        Lease::new(Arc::new(Epoch::new(StreamUid(stream), number)))
    }

    #[test]
    fn it_knows_the_last_mention_of_a_term() {
        let mark = LastMention::new(&lease(3, 7));
        assert_eq!(mark.mentioned(), Mentioned::ByOne(7));
        mark.mention(lease(3, 9).epoch());
        mark.mention(lease(3, 8).epoch());
        assert_eq!(mark.mentioned(), Mentioned::ByOne(9));
        mark.mention(lease(4, 5).epoch());
        assert_eq!(mark.mentioned(), Mentioned::BySeveral(9));
        mark.mention(lease(3, 12).epoch());
        assert_eq!(mark.mentioned(), Mentioned::BySeveral(12));
        assert!(mark.make_permanent() && !mark.make_permanent());
        mark.mention(lease(3, 20).epoch());
        assert!(mark.is_permanent());
        assert_eq!(mark.mentioned(), Mentioned::ForGood);
    }

    #[test]
    fn no_stream_stands_for_several() {
        for uid in [0, 1, SEVERAL as u32 - 1, SEVERAL as u32, u32::MAX] {
            let mark = LastMention::new(&lease(uid, 1));
            assert_eq!(mark.mentioned(), Mentioned::ByOne(1), "{uid}");
        }
    }
}
