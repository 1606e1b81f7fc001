//! Which SNs are retained (S9): {pinned, stable, next}. Pins keep two things: the SN (its state can
//! still be told apart; a deadline ends that) and memory (nothing that a pin may be looking at is
//! freed; only dropping the pin ends that). So memory safety never depends on a deadline.
//!
//! Taking and dropping a pin locks a mutex for a few instructions; reading through one takes none.

use crate::list::Retained;
use parking_lot::Mutex;
use somersault_model::Sn;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Why a snapshot cannot be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// SN-2: nobody reads below the floor.
    #[error(
        "snapshot {sn} is no longer kept, the oldest that is kept is {floor}: ask for the stable one"
    )]
    BelowFloor {
        /// What was asked for.
        sn: Sn,
        /// The retained floor.
        floor: Sn,
    },
    /// Between pinned snapshots and the stable one the states may have been joined.
    #[error(
        "snapshot {sn} is not kept, only the pinned ones and those from {stable} on are: ask for the stable one"
    )]
    NotRetained {
        /// What was asked for.
        sn: Sn,
        /// The stable SN.
        stable: Sn,
    },
}

/// The registry of pins and the stable SN.
pub struct Snapshots {
    stable: AtomicU64,
    pins: Mutex<Pins>,
}

#[derive(Default)]
struct Pins {
    /// The number of the next pin. Pins taken later have higher numbers.
    next: u64,
    live: BTreeMap<u64, Pinned>,
    /// How many pins that are not expired hold each SN.
    retained: BTreeMap<u64, usize>,
    /// The highest floor by which a writer may have folded.
    folded: u64,
}

struct Pinned {
    sn: u64,
    deadline_ms: Option<i64>,
    expired: Arc<AtomicBool>,
}

/// What the registry knows about one pin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PinStatus {
    /// The pinned SN.
    pub sn: Sn,
    /// When it expires, if ever.
    pub deadline_ms: Option<i64>,
    /// Whether it has expired; what remains is memory.
    pub expired: bool,
}

/// One pin, as the snapshot holds it.
pub(crate) struct Pin {
    pub(crate) sn: u64,
    pub(crate) number: u64,
    pub(crate) expired: Arc<AtomicBool>,
}

/// What a writer goes by: read once per SN.
pub(crate) struct Horizon {
    pub(crate) retained: Retained,
    /// Pins from this number on are taken after whatever happened before reading the horizon.
    pub(crate) next_pin: u64,
    /// The lowest number of a pin that is alive, or `next_pin`.
    pub(crate) oldest_pin: u64,
}

impl Snapshots {
    pub(crate) fn new() -> Snapshots {
        Snapshots {
            stable: AtomicU64::new(0),
            pins: Mutex::new(Pins::default()),
        }
    }

    /// The stable SN: applied by every shard and durable.
    #[inline]
    pub fn stable(&self) -> Sn {
        Sn(self.stable.load(Ordering::Acquire))
    }

    /// Makes `sn` the stable one. Every shard must have applied it before.
    ///
    /// # Panics
    /// Where that would go back (VT-1).
    pub fn publish_stable(&self, sn: Sn) {
        let before = self.stable.fetch_max(sn.0, Ordering::AcqRel);
        assert!(
            before <= sn.0,
            "VT-1: the stable SN went back from {before} to {sn}"
        );
    }

    /// The lowest SN that is retained: no pin that has not expired is below it.
    pub fn floor(&self) -> Sn {
        let pins = self.pins.lock();
        Sn(pins.floor(self.stable.load(Ordering::Acquire)))
    }

    /// Gives up the pins whose deadline is at or before `now_ms` (of whatever clock the deadlines
    /// were made with); how many. Their snapshots turn invalid.
    pub fn expire(&self, now_ms: i64) -> usize {
        let mut pins = self.pins.lock();
        let Pins { live, retained, .. } = &mut *pins;
        let mut count = 0;
        for pin in live.values() {
            let over = pin.deadline_ms.is_some_and(|deadline| deadline <= now_ms);
            if over && !pin.expired.load(Ordering::Relaxed) {
                // Before any writer can see a floor above this pin: the lock orders it.
                pin.expired.store(true, Ordering::Release);
                release(retained, pin.sn);
                count += 1;
            }
        }
        count
    }

    /// All pins that are alive, in the order in which they were taken.
    pub fn pins(&self) -> Vec<PinStatus> {
        let pins = self.pins.lock();
        let status = |pin: &Pinned| PinStatus {
            sn: Sn(pin.sn),
            deadline_ms: pin.deadline_ms,
            expired: pin.expired.load(Ordering::Relaxed),
        };
        pins.live.values().map(status).collect()
    }

    /// How many pins are alive.
    pub fn pinned(&self) -> usize {
        self.pins.lock().live.len()
    }

    /// Pins `sn`, or the stable SN.
    pub(crate) fn pin(
        &self,
        sn: Option<Sn>,
        deadline_ms: Option<i64>,
    ) -> Result<Pin, SnapshotError> {
        let mut pins = self.pins.lock();
        let stable = self.stable.load(Ordering::Acquire);
        let sn = sn.map_or(stable, |sn| sn.0);
        let floor = pins.floor(stable);
        if sn < floor {
            return Err(SnapshotError::BelowFloor {
                sn: Sn(sn),
                floor: Sn(floor),
            });
        }
        if sn < stable && !pins.retained.contains_key(&sn) {
            return Err(SnapshotError::NotRetained {
                sn: Sn(sn),
                stable: Sn(stable),
            });
        }
        Ok(pins.add(sn, deadline_ms))
    }

    pub(crate) fn unpin(&self, pin: &Pin) {
        let mut pins = self.pins.lock();
        if let Some(gone) = pins.live.remove(&pin.number)
            && !gone.expired.load(Ordering::Relaxed)
        {
            release(&mut pins.retained, gone.sn);
        }
    }

    /// What a writer may fold and free, as of now.
    pub(crate) fn horizon(&self) -> Horizon {
        let mut pins = self.pins.lock();
        let stable = self.stable.load(Ordering::Acquire);
        let floor = pins.floor(stable);
        pins.folded = pins.folded.max(floor);
        Horizon {
            retained: Retained {
                floor,
                stable,
                pinned: pins.retained.keys().copied().collect(),
            },
            next_pin: pins.next,
            oldest_pin: pins.live.keys().next().copied().unwrap_or(pins.next),
        }
    }

    /// SN-2: no pin that counts is below a floor by which a writer may have folded.
    pub(crate) fn check(&self) -> Result<(), (Sn, Sn)> {
        let pins = self.pins.lock();
        match pins.retained.keys().next() {
            Some(lowest) if *lowest < pins.folded => Err((Sn(*lowest), Sn(pins.folded))),
            _ => Ok(()),
        }
    }

    #[cfg(test)]
    pub(crate) fn pin_without_checking(&self, sn: Sn) -> Pin {
        self.pins.lock().add(sn.0, None)
    }
}

impl Pins {
    fn floor(&self, stable: u64) -> u64 {
        let lowest = self.retained.keys().next();
        lowest.map_or(stable, |lowest| stable.min(*lowest))
    }

    fn add(&mut self, sn: u64, deadline_ms: Option<i64>) -> Pin {
        let number = self.next;
        self.next += 1;
        *self.retained.entry(sn).or_default() += 1;
        let expired = Arc::new(AtomicBool::new(false));
        let pinned = Pinned {
            sn,
            deadline_ms,
            expired: Arc::clone(&expired),
        };
        self.live.insert(number, pinned);
        Pin {
            sn,
            number,
            expired,
        }
    }
}

fn release(retained: &mut BTreeMap<u64, usize>, sn: u64) {
    if let Some(count) = retained.get_mut(&sn) {
        *count -= 1;
        if *count == 0 {
            retained.remove(&sn);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_floor_is_the_lowest_pin_and_nobody_pins_below() {
        let snapshots = Snapshots::new();
        snapshots.publish_stable(Sn(5));
        let five = snapshots.pin(None, None).expect("stable");
        snapshots.publish_stable(Sn(9));
        assert_eq!(snapshots.floor(), Sn(5));
        let again = snapshots
            .pin(Some(Sn(5)), None)
            .expect("pinned, so retained");
        let not_kept = SnapshotError::NotRetained {
            sn: Sn(7),
            stable: Sn(9),
        };
        assert_eq!(snapshots.pin(Some(Sn(7)), None).err(), Some(not_kept));
        snapshots.unpin(&five);
        assert_eq!(snapshots.floor(), Sn(5));
        snapshots.unpin(&again);
        assert_eq!(snapshots.floor(), Sn(9));
        assert!(matches!(
            snapshots.pin(Some(Sn(5)), None),
            Err(SnapshotError::BelowFloor { .. })
        ));
        assert!(
            snapshots.pin(Some(Sn(10)), None).is_ok(),
            "a due firing pins ahead"
        );
    }

    #[test]
    fn an_expired_pin_keeps_memory_but_not_its_sn() {
        let snapshots = Snapshots::new();
        snapshots.publish_stable(Sn(1));
        let pin = snapshots.pin(None, Some(100)).expect("stable");
        snapshots.publish_stable(Sn(2));
        assert_eq!(snapshots.expire(99), 0);
        assert_eq!((snapshots.expire(100), snapshots.expire(101)), (1, 0));
        assert!(pin.expired.load(Ordering::Acquire));
        let horizon = snapshots.horizon();
        assert_eq!(horizon.retained.floor, 2);
        assert_eq!(horizon.oldest_pin, pin.number);
        snapshots.unpin(&pin);
        assert_eq!(snapshots.horizon().oldest_pin, snapshots.horizon().next_pin);
        assert!(snapshots.check().is_ok());
    }

    #[test]
    #[should_panic(expected = "VT-1")]
    fn the_stable_sn_never_goes_back() {
        let snapshots = Snapshots::new();
        snapshots.publish_stable(Sn(2));
        snapshots.publish_stable(Sn(1));
    }
}
