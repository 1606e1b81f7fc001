//! The retained SNs (S9): {pinned, stable, next}. Pins keep two things: the SN (its state can still
//! be told apart; a deadline ends that) and memory (nothing that a pin may be looking at is freed;
//! only dropping the pin ends that). So memory safety never depends on a deadline.
//!
//! Taking and dropping a pin locks a mutex for a few instructions; reading through one takes none.
//!
//! Short queries share pins. Each lane (some threads) keeps one pin of the stable SN, which its
//! readers hold together; the registry counts one pin. A reader may join a pin later than it was
//! taken. This harms neither of the two things that the pin keeps. The SN is the stable one
//! whenever a reader joins, so it is retained in any case. And memory that was freed by the rule
//! "unlinked before this pin was taken" was unlinked for the joining reader too, since it got the
//! pin through the lane's lock from the reader that took it. A kept pin holds up freeing, so
//! publishing the next stable SN takes it out of the lanes.

use crate::lists::Retained;
use parking_lot::Mutex;
use somersault_model::Sn;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};

/// The number of pins of the stable SN that are kept for short queries.
const LANES: usize = 8;
/// The deadline of a pin that never expires.
const NEVER: i64 = i64::MAX;
/// The deadline value of an expired pin.
const EXPIRED: i64 = i64::MIN;
/// The deadline value of a pin that was revoked because its SN kept too much memory.
const REVOKED: i64 = i64::MIN + 1;

/// The lane of the next thread.
static NEXT_LANE: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static LANE: Cell<usize> = Cell::new(NEXT_LANE.fetch_add(1, Ordering::Relaxed) % LANES);
}

/// The reason why a snapshot is not available.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// SN-2: no reader is below the floor.
    #[error(
        "snapshot {sn} is no longer kept, the oldest that is kept is {floor}: ask for the stable one"
    )]
    BelowFloor {
        /// The requested SN.
        sn: Sn,
        /// The retained floor.
        floor: Sn,
    },
    /// Between pinned snapshots and the stable one the states may have been joined.
    #[error(
        "snapshot {sn} is not kept, only the pinned ones and those from {stable} on are: ask for the stable one"
    )]
    NotRetained {
        /// The requested SN.
        sn: Sn,
        /// The stable SN.
        stable: Sn,
    },
}

/// The reason why a pin no longer keeps its SN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PinEnd {
    /// Its deadline has passed.
    Expired,
    /// Its SN kept too much memory: see [`Snapshots::revoke_oldest`].
    Revoked,
}

/// The registry of pins and the stable SN.
pub struct Snapshots {
    stable: AtomicU64,
    pins: Arc<Mutex<Pins>>,
    lanes: Box<[Lane]>,
}

/// The pin of the stable SN that some threads share. A cache line of its own, and the next.
#[derive(Default)]
#[repr(align(128))]
struct Lane(Mutex<Option<Arc<Pin>>>);

#[derive(Default)]
struct Pins {
    /// The number of the next pin. Pins taken later have higher numbers.
    next: u64,
    live: BTreeMap<u64, Pinned>,
    /// The number of unexpired pins that hold each SN.
    retained: BTreeMap<u64, usize>,
    /// The highest floor by which a writer may have folded.
    folded: u64,
}

struct Pinned {
    sn: u64,
    deadline: Arc<Deadline>,
    keeps: Keeps,
    /// Whether its SN may be given up where it keeps too much memory.
    is_revocable: bool,
}

/// What a pin keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Keeps {
    /// Its SN, and the memory that it may be looking at.
    SnAndMemory,
    /// Its SN alone: nothing is read through it.
    Sn,
    /// Memory alone: another pin keeps the SN for it.
    Memory,
}

/// The time at which a pin expires, or the fact that it has: one word, so that an expired pin
/// cannot be prolonged.
struct Deadline(AtomicI64);

impl Deadline {
    fn new(deadline_ms: Option<i64>) -> Arc<Deadline> {
        Arc::new(Deadline(AtomicI64::new(deadline_ms.unwrap_or(NEVER))))
    }

    fn is_over(&self) -> bool {
        self.0.load(Ordering::Acquire) <= REVOKED
    }

    /// Why it is over, if it is.
    fn end(&self) -> Option<PinEnd> {
        match self.0.load(Ordering::Acquire) {
            EXPIRED => Some(PinEnd::Expired),
            REVOKED => Some(PinEnd::Revoked),
            _ => None,
        }
    }

    /// Ends it now, if it is not over. Returns whether it did.
    fn revoke(&self) -> bool {
        let end = |due: i64| (due > REVOKED).then_some(REVOKED);
        (self.0)
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, end)
            .is_ok()
    }

    /// Whether the deadline is at or before `now_ms`, or over.
    fn is_due(&self, now_ms: i64) -> bool {
        self.0.load(Ordering::Acquire) <= now_ms
    }

    /// Sets the deadline if there is none.
    fn limit(&self, deadline_ms: i64) {
        // An existing deadline stays, and so does an expiry.
        let _ = (self.0).compare_exchange(NEVER, deadline_ms, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Extends the deadline to at least `deadline_ms`; returns `false` if it is over.
    fn prolong(&self, deadline_ms: i64) -> bool {
        let later = |now: i64| (now > REVOKED).then(|| now.max(deadline_ms));
        let now = self.0.load(Ordering::Acquire);
        now > REVOKED && now >= deadline_ms
            || (self.0)
                .fetch_update(Ordering::AcqRel, Ordering::Acquire, later)
                .is_ok()
    }

    /// Expires the deadline if it was due at or before `now_ms`. Returns whether it did.
    fn expire(&self, now_ms: i64) -> bool {
        let end = |due: i64| (due > REVOKED && due <= now_ms).then_some(EXPIRED);
        (self.0)
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, end)
            .is_ok()
    }
}

/// The registry's record of one pin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PinStatus {
    /// The pinned SN.
    pub sn: Sn,
    /// The time at which it expires, if ever.
    pub deadline_ms: Option<i64>,
    /// Whether it has expired; then it keeps only memory.
    pub expired: bool,
}

/// One pin, as held by the snapshots that share it. Dropping the last of them unpins.
pub(crate) struct Pin {
    pub(crate) sn: u64,
    pub(crate) number: u64,
    deadline: Arc<Deadline>,
    pins: Arc<Mutex<Pins>>,
    /// The pin that keeps the SN, where this one keeps memory alone.
    _sn_kept_by: Option<Arc<Pin>>,
}

impl Pin {
    /// Whether its SN is no longer kept for it.
    #[inline]
    pub(crate) fn is_expired(&self) -> bool {
        self.deadline.is_over()
    }

    /// Why its SN is no longer kept for it, if it is not.
    pub(crate) fn end(&self) -> Option<PinEnd> {
        self.deadline.end()
    }

    /// Sets a deadline if the pin has none.
    pub(crate) fn limit(&self, deadline_ms: i64) {
        self.deadline.limit(deadline_ms);
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        let mut pins = self.pins.lock();
        if let Some(gone) = pins.live.remove(&self.number)
            && gone.keeps != Keeps::Memory
            && !gone.deadline.is_over()
        {
            release(&mut pins.retained, gone.sn);
        }
    }
}

/// The bounds that a writer works by, read once per SN.
pub(crate) struct Horizon {
    pub(crate) retained: Retained,
    /// Pins from this number on are taken after everything that happened before the horizon was
    /// read.
    pub(crate) next_pin: u64,
    /// The lowest number of a live pin, or `next_pin`.
    pub(crate) oldest_pin: u64,
}

impl Snapshots {
    pub(crate) fn new() -> Snapshots {
        Snapshots {
            stable: AtomicU64::new(0),
            pins: Arc::default(),
            lanes: std::iter::repeat_with(Lane::default).take(LANES).collect(),
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
    /// Panics if that would go back (VT-1).
    pub fn publish_stable(&self, sn: Sn) {
        let before = self.stable.fetch_max(sn.0, Ordering::AcqRel);
        assert!(
            before <= sn.0,
            "VT-1: the stable SN went back from {before} to {sn}"
        );
        // A reader that enters a lane after this sees the new SN; one that entered before holds a
        // pin.
        for lane in &self.lanes {
            let kept = {
                let mut lane = lane.0.lock();
                lane.take_if(|pin| pin.sn < sn.0)
            };
            drop(kept);
        }
    }

    /// The lowest SN that is retained: no pin that has not expired is below it.
    pub fn floor(&self) -> Sn {
        let pins = self.pins.lock();
        Sn(pins.floor(self.stable.load(Ordering::Acquire)))
    }

    /// The number of retained SNs up to the stable one: the stable one, and the pinned ones before
    /// it.
    pub fn retained(&self) -> usize {
        let pins = self.pins.lock();
        let stable = self.stable.load(Ordering::Acquire);
        pins.retained.range(..stable).count() + 1
    }

    /// Gives up the pins whose deadline is at or before `now_ms`, on the clock of the deadlines.
    /// Returns how many of them had readers. Their snapshots become invalid.
    pub fn expire(&self, now_ms: i64) -> usize {
        self.drop_idle(now_ms);
        let mut pins = self.pins.lock();
        let Pins { live, retained, .. } = &mut *pins;
        let mut count = 0;
        for pin in live.values() {
            // Before any writer can see a floor above this pin: the lock orders it.
            if pin.keeps != Keeps::Memory && pin.deadline.expire(now_ms) {
                release(retained, pin.sn);
                count += 1;
            }
        }
        count
    }

    /// Gives up the oldest retained SN before the stable one, if only pins that were taken with a
    /// deadline keep it; they end. A pin that was taken without one (of a firing, an update, a
    /// checkpoint or a renewal) is never revoked, and while it keeps the oldest SN, nothing is
    /// gained from giving up later ones. Returns the SN.
    pub fn revoke_oldest(&self) -> Option<Sn> {
        let mut pins = self.pins.lock();
        let stable = self.stable.load(Ordering::Acquire);
        let Pins { live, retained, .. } = &mut *pins;
        let oldest = *retained.keys().next().filter(|sn| **sn < stable)?;
        let keeps_it = |pin: &&Pinned| {
            pin.keeps != Keeps::Memory && pin.sn == oldest && !pin.deadline.is_over()
        };
        let mut keepers = live.values().filter(keeps_it);
        if !keepers.all(|pin| pin.is_revocable) {
            return None;
        }
        for pin in live.values().filter(keeps_it) {
            if pin.deadline.revoke() {
                release(retained, oldest);
            }
        }
        Some(Sn(oldest))
    }

    /// Drops the pins that lanes keep past their deadline and that have no reader.
    fn drop_idle(&self, now_ms: i64) {
        for lane in &self.lanes {
            let mut lane = lane.0.lock();
            // Readers join through the lane's lock, so a pin with one reference has no reader.
            let idle =
                lane.take_if(|pin| Arc::strong_count(pin) == 1 && pin.deadline.is_due(now_ms));
            drop(lane);
            drop(idle);
        }
    }

    /// All pins that have a reader, in the order in which they were taken.
    pub fn pins(&self) -> Vec<PinStatus> {
        let idle = self.idle();
        let pins = self.pins.lock();
        let is_reader =
            |(number, pin): &(&u64, &Pinned)| pin.keeps != Keeps::Memory && !idle.contains(*number);
        let read = pins.live.iter().filter(is_reader);
        let status = |(_, pin): (&u64, &Pinned)| {
            let deadline = pin.deadline.0.load(Ordering::Acquire);
            PinStatus {
                sn: Sn(pin.sn),
                deadline_ms: (deadline != NEVER && deadline > REVOKED).then_some(deadline),
                expired: deadline <= REVOKED,
            }
        };
        read.map(status).collect()
    }

    /// The numbers of all live pins that keep memory, and their SNs, in the order in which they
    /// were taken. A pin that keeps its SN alone has a number that no later pin gets.
    pub(crate) fn live(&self) -> Vec<(u64, Sn)> {
        let pins = self.pins.lock();
        let number = |(number, pin): (&u64, &Pinned)| match pin.keeps {
            Keeps::Sn => (u64::MAX, Sn(pin.sn)),
            Keeps::SnAndMemory | Keeps::Memory => (*number, Sn(pin.sn)),
        };
        pins.live.iter().map(number).collect()
    }

    /// The number of pins that have a reader.
    pub fn pinned(&self) -> usize {
        self.pins().len()
    }

    /// The numbers of the pins that lanes keep and that have no reader.
    fn idle(&self) -> Vec<u64> {
        let kept = |lane: &Lane| {
            let lane = lane.0.lock();
            let pin = lane.as_ref()?;
            (Arc::strong_count(pin) == 1).then_some(pin.number)
        };
        self.lanes.iter().filter_map(kept).collect()
    }

    /// A pin of the stable SN that the short queries of this thread share. It lasts until the
    /// latest of their deadlines.
    pub(crate) fn pin_shared(&self, deadline_ms: i64) -> Arc<Pin> {
        // A thread that is ending has no lane of its own any more.
        let lane = &self.lanes[LANE.try_with(Cell::get).unwrap_or(0)];
        let mut kept = lane.0.lock();
        let stable = self.stable.load(Ordering::Acquire);
        if let Some(pin) = &*kept
            && pin.sn == stable
            && pin.deadline.prolong(deadline_ms)
        {
            return Arc::clone(pin);
        }
        let pin = self.pin_stable(Some(deadline_ms));
        let old = kept.replace(Arc::clone(&pin));
        drop(kept);
        drop(old);
        pin
    }

    /// Pins the stable SN.
    pub(crate) fn pin_stable(&self, deadline_ms: Option<i64>) -> Arc<Pin> {
        self.pin(None, deadline_ms)
            .expect("the stable SN is always retained")
    }

    /// Pins `sn`, or the stable SN.
    pub(crate) fn pin(
        &self,
        sn: Option<Sn>,
        deadline_ms: Option<i64>,
    ) -> Result<Arc<Pin>, SnapshotError> {
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
        Ok(pins.add(sn, deadline_ms, &self.pins))
    }

    /// Pins the stable SN without any memory, for a reader that takes a pin of its memory with
    /// [`Snapshots::pin_memory`] whenever it reads.
    pub(crate) fn hold_stable(&self, deadline_ms: Option<i64>) -> Arc<Pin> {
        let mut pins = self.pins.lock();
        let stable = self.stable.load(Ordering::Acquire);
        pins.add_kept(stable, deadline_ms, Keeps::Sn, &self.pins)
    }

    /// A pin of the memory at the SN that `held` keeps. Both are over at the same time.
    pub(crate) fn pin_memory(&self, held: &Arc<Pin>) -> Arc<Pin> {
        let mut pins = self.pins.lock();
        let number = pins.next;
        pins.next += 1;
        let pinned = Pinned {
            sn: held.sn,
            deadline: Arc::clone(&held.deadline),
            keeps: Keeps::Memory,
            is_revocable: false,
        };
        pins.live.insert(number, pinned);
        Arc::new(Pin {
            sn: held.sn,
            number,
            deadline: Arc::clone(&held.deadline),
            pins: Arc::clone(&self.pins),
            _sn_kept_by: Some(Arc::clone(held)),
        })
    }

    /// Pins `sn`, or the stable SN if that is later, without a deadline. Must not be read before it
    /// is stable.
    pub(crate) fn pin_from(&self, sn: u64) -> Arc<Pin> {
        let mut pins = self.pins.lock();
        let sn = sn.max(self.stable.load(Ordering::Acquire));
        pins.add(sn, None, &self.pins)
    }

    /// The current bounds for a writer's folding and freeing.
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
            oldest_pin: pins.oldest_with_memory().unwrap_or(pins.next),
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
    pub(crate) fn pin_without_checking(&self, sn: Sn) -> Arc<Pin> {
        self.pins.lock().add(sn.0, None, &self.pins)
    }
}

impl Pins {
    fn floor(&self, stable: u64) -> u64 {
        let lowest = self.retained.keys().next();
        lowest.map_or(stable, |lowest| stable.min(*lowest))
    }

    /// The lowest number of a pin that keeps memory.
    fn oldest_with_memory(&self) -> Option<u64> {
        let mut live = self.live.iter();
        let oldest = live.find(|(_, pin)| pin.keeps != Keeps::Sn);
        oldest.map(|(number, _)| *number)
    }

    fn add(&mut self, sn: u64, deadline_ms: Option<i64>, pins: &Arc<Mutex<Pins>>) -> Arc<Pin> {
        self.add_kept(sn, deadline_ms, Keeps::SnAndMemory, pins)
    }

    /// Adds a pin that keeps its SN.
    fn add_kept(
        &mut self,
        sn: u64,
        deadline_ms: Option<i64>,
        keeps: Keeps,
        pins: &Arc<Mutex<Pins>>,
    ) -> Arc<Pin> {
        let number = self.next;
        self.next += 1;
        *self.retained.entry(sn).or_default() += 1;
        let deadline = Deadline::new(deadline_ms);
        let pinned = Pinned {
            sn,
            deadline: Arc::clone(&deadline),
            keeps,
            is_revocable: deadline_ms.is_some(),
        };
        self.live.insert(number, pinned);
        Arc::new(Pin {
            sn,
            number,
            deadline,
            pins: Arc::clone(pins),
            _sn_kept_by: None,
        })
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
    fn the_floor_is_the_lowest_pin_and_pins_below_are_refused() {
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
        drop(five);
        assert_eq!(snapshots.floor(), Sn(5));
        drop(again);
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
        assert!(pin.is_expired());
        let horizon = snapshots.horizon();
        assert_eq!(horizon.retained.floor, 2);
        assert_eq!(horizon.oldest_pin, pin.number);
        drop(pin);
        assert_eq!(snapshots.horizon().oldest_pin, snapshots.horizon().next_pin);
        assert!(snapshots.check().is_ok());
    }

    /// A reader that holds an SN without memory, and reads through pins of memory that come and go.
    #[test]
    fn a_held_sn_keeps_memory_only_while_it_is_read() {
        let snapshots = Snapshots::new();
        snapshots.publish_stable(Sn(1));
        let held = snapshots.hold_stable(Some(100));
        snapshots.publish_stable(Sn(2));
        let horizon = snapshots.horizon();
        assert_eq!((horizon.retained.floor, snapshots.pinned()), (1, 1));
        assert_eq!(horizon.oldest_pin, horizon.next_pin, "it keeps no memory");
        let read = snapshots.pin_memory(&held);
        assert_eq!((read.sn, snapshots.horizon().oldest_pin), (1, read.number));
        assert_eq!(snapshots.pinned(), 1, "one reader");
        drop(held);
        assert_eq!(snapshots.floor(), Sn(1), "what reads at the SN keeps it");
        assert_eq!((snapshots.expire(99), snapshots.expire(100)), (0, 1));
        assert_eq!(read.end(), Some(PinEnd::Expired));
        assert_eq!(snapshots.floor(), Sn(2));
        assert_eq!(
            snapshots.horizon().oldest_pin,
            read.number,
            "its memory stays"
        );
        drop(read);
        assert_eq!(snapshots.horizon().oldest_pin, snapshots.horizon().next_pin);
        assert!(snapshots.check().is_ok());
    }

    #[test]
    fn the_oldest_sn_with_a_deadline_is_revoked_and_no_other() {
        let snapshots = Snapshots::new();
        snapshots.publish_stable(Sn(1));
        let firing = snapshots.pin(None, None).expect("stable");
        snapshots.publish_stable(Sn(2));
        let held = snapshots.hold_stable(Some(100));
        let read = snapshots.pin_memory(&held);
        snapshots.publish_stable(Sn(3));
        let later = snapshots.pin(None, Some(100)).expect("stable");
        assert_eq!(snapshots.revoke_oldest(), None, "a firing keeps the oldest");
        drop(firing);
        assert_eq!(snapshots.revoke_oldest(), Some(Sn(2)));
        assert_eq!([held.end(), read.end()], [Some(PinEnd::Revoked); 2]);
        assert_eq!((later.end(), snapshots.floor()), (None, Sn(3)));
        assert_eq!(snapshots.revoke_oldest(), None, "the stable SN stays");
        assert_eq!(snapshots.expire(100), 1, "the revoked one is over already");
        drop((held, read, later));
        assert_eq!((snapshots.floor(), snapshots.pinned()), (Sn(3), 0));
        assert!(snapshots.check().is_ok());
    }

    #[test]
    fn a_deadline_is_set_once() {
        let snapshots = Snapshots::new();
        snapshots.publish_stable(Sn(1));
        let pin = snapshots.pin(None, None).expect("stable");
        assert_eq!(snapshots.expire(i64::MAX - 1), 0);
        pin.limit(100);
        pin.limit(200);
        assert_eq!((snapshots.expire(99), snapshots.expire(100)), (0, 1));
        pin.limit(300);
        assert!(pin.is_expired());
    }

    #[test]
    fn a_shared_pin_lasts_until_its_last_holder_drops_it() {
        let snapshots = Snapshots::new();
        snapshots.publish_stable(Sn(1));
        let first = snapshots.pin_shared(100);
        let second = snapshots.pin_shared(200);
        assert_eq!(first.number, second.number);
        assert_eq!(snapshots.pinned(), 1);
        assert_eq!(snapshots.expire(150), 0);
        drop(second);
        assert_eq!(snapshots.expire(200), 1);
        assert!(first.is_expired());
        // An expired one is shared no more.
        let third = snapshots.pin_shared(300);
        assert_ne!(first.number, third.number);
        assert!(!third.is_expired());
        drop(first);
        snapshots.publish_stable(Sn(2));
        assert_eq!(snapshots.floor(), Sn(1));
        drop(third);
        assert_eq!((snapshots.floor(), snapshots.pinned()), (Sn(2), 0));
        assert_eq!(snapshots.horizon().oldest_pin, snapshots.horizon().next_pin);
    }

    #[test]
    fn a_kept_pin_has_no_reader_and_is_dropped_with_its_sn() {
        let snapshots = Snapshots::new();
        snapshots.publish_stable(Sn(1));
        drop(snapshots.pin_shared(100));
        assert_eq!((snapshots.pinned(), snapshots.pins().len()), (0, 0));
        assert_eq!(snapshots.pin_shared(100).number, 0);
        snapshots.publish_stable(Sn(2));
        assert_eq!(snapshots.horizon().oldest_pin, snapshots.horizon().next_pin);
        assert_eq!(snapshots.pin_shared(100).sn, 2);
    }

    /// A lane keeps the pin of a short query that is over. Its deadline passes, but nothing was
    /// read for too long: `expire` counts only pins with readers, as `pinned` does.
    #[test]
    fn a_kept_pin_without_readers_is_dropped_at_its_deadline_and_not_counted() {
        let snapshots = Snapshots::new();
        snapshots.publish_stable(Sn(1));
        drop(snapshots.pin_shared(100));
        assert_eq!((snapshots.pinned(), snapshots.expire(99)), (0, 0));
        assert_eq!(
            snapshots.pin_shared(100).number,
            0,
            "kept until its deadline"
        );
        assert_eq!((snapshots.pinned(), snapshots.expire(100)), (0, 0));
        let horizon = snapshots.horizon();
        assert_eq!(
            horizon.oldest_pin, horizon.next_pin,
            "it holds up no freeing"
        );
        let read = snapshots.pin_shared(200);
        assert_eq!((snapshots.pinned(), snapshots.expire(200)), (1, 1));
        assert!(read.is_expired());
    }

    /// SN-2 and S5 while pins are shared: what a reader got is stable when it gets it, stays above
    /// the floor until it expires or goes, and nothing is left over.
    #[test]
    fn readers_share_while_the_stable_sn_moves_on() {
        let snapshots = Snapshots::new();
        snapshots.publish_stable(Sn(1));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for round in 0..2_000 {
                        let before = snapshots.stable();
                        let pin = snapshots.pin_shared(round + 10);
                        assert!(before.0 <= pin.sn && pin.sn <= snapshots.stable().0);
                        let floor = snapshots.horizon().retained.floor;
                        assert!(floor <= pin.sn || pin.is_expired());
                        assert!(snapshots.check().is_ok());
                    }
                });
            }
            scope.spawn(|| {
                for sn in 2..1_000 {
                    snapshots.publish_stable(Sn(sn));
                    snapshots.expire(sn as i64);
                }
            });
        });
        snapshots.publish_stable(Sn(1_000));
        assert_eq!((snapshots.pinned(), snapshots.floor()), (0, Sn(1_000)));
        assert_eq!(snapshots.horizon().oldest_pin, snapshots.horizon().next_pin);
    }

    #[test]
    #[should_panic(expected = "VT-1")]
    fn the_stable_sn_never_goes_back() {
        let snapshots = Snapshots::new();
        snapshots.publish_stable(Sn(2));
        snapshots.publish_stable(Sn(1));
    }
}
