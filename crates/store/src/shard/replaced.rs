//! The bytes of replaced memory that a shard keeps for readers, by what still holds it: for the
//! answer to which reader costs how much. The writer updates it once per SN.

use parking_lot::Mutex;
use std::collections::BTreeMap;

/// The reason why replaced memory is kept. The first is less than the second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ReplacedHold {
    /// Pins with numbers below this one may see it.
    PinsBefore(u64),
    /// Readers of SNs below this one read it.
    SnsBelow(u64),
}

/// Bytes of replaced memory.
#[derive(Default)]
pub(crate) struct ReplacedBytes(Mutex<BTreeMap<ReplacedHold, usize>>);

impl ReplacedBytes {
    /// Adds what was replaced.
    pub(crate) fn add(&self, hold: ReplacedHold, bytes: usize) {
        if bytes > 0 {
            *self.0.lock().entry(hold).or_default() += bytes;
        }
    }

    /// Subtracts what was freed, or is held by another reason now.
    pub(crate) fn subtract(&self, hold: ReplacedHold, bytes: usize) {
        let mut held = self.0.lock();
        if let Some(left) = held.get_mut(&hold) {
            *left = left.saturating_sub(bytes);
            if *left == 0 {
                held.remove(&hold);
            }
        }
    }

    /// All of it.
    pub(crate) fn all(&self) -> Vec<(ReplacedHold, usize)> {
        self.0
            .lock()
            .iter()
            .map(|(hold, bytes)| (*hold, *bytes))
            .collect()
    }
}
