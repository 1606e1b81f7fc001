//! Firings between due and answered: their pins, how many are under way, and the `Delivered` marks
//! by which recovery knows what need not be executed again (S9, S12).
//!
//! Before changing anything here: one record may make a million firings due, all with one SN (windows of a number of
//! statements, amendments). So nothing may walk over the firings of an SN for each of them, the SN is pinned once, and they
//! are handed out in portions.

mod answered;

use super::Shared;
use super::sequencer::Sequencer;
use crate::due_windows::DueWindows;
use crate::host::{Derives, DueSnapshot, Fired, FiringJob};
use answered::AnsweredFirings;
use somersault_log::{DeliveredRecord, Record};
use somersault_model::{QueryUid, Sn};
use somersault_store::Snapshot;
use somersault_stream::{Firing, FiringKey, Input};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Instant;

/// So many firings may be under way, and so many more per query, before inputs have to wait. No more are handed out at once.
const UNDER_WAY: usize = 32;
const UNDER_WAY_PER_QUERY: usize = 4;

/// A firing whose answer is on its way into a derived stream.
pub(super) struct Derived {
    key: FiringKey,
    /// The SN that it became due with.
    sn: Option<Sn>,
    derives: Derives,
}

/// What an SN's firings have in common, as long as one of them is not handed out.
struct DueSn {
    /// It keeps the SN, however long they wait.
    snapshot: Snapshot,
    windows: Option<Arc<DueWindows>>,
    /// So many are not handed out.
    firings: usize,
}

/// A firing whose SN is stable, and which waits for its turn.
struct Released {
    firing: Firing,
    acknowledged: Option<Instant>,
    at: Instant,
}

pub(crate) struct Firings {
    kept: usize,
    /// The SNs of firings that are due and not handed out.
    due: BTreeMap<Sn, DueSn>,
    /// Firings that are to be handed out, in order.
    released: VecDeque<Released>,
    /// Firings that the host has and has not answered.
    handed_out: usize,
    /// Firings that are due and not yet answered, cancelled ones excepted.
    outstanding: usize,
    /// Which queries derive streams.
    deriving: HashSet<QueryUid>,
    /// Of firings whose statements are not in their stream yet: for which input they are under way.
    underived: HashMap<FiringKey, u64>,
    /// How many of them there are for each input.
    waited_for: BTreeMap<u64, usize>,
    /// Per query: firings that have been answered and are kept or were since the last mark.
    answered: HashMap<QueryUid, AnsweredFirings>,
}

impl Firings {
    pub(crate) fn new(kept: usize) -> Firings {
        Firings {
            kept,
            due: BTreeMap::new(),
            released: VecDeque::new(),
            handed_out: 0,
            outstanding: 0,
            deriving: HashSet::new(),
            underived: HashMap::new(),
            waited_for: BTreeMap::new(),
            answered: HashMap::new(),
        }
    }

    pub(crate) fn outstanding(&self) -> usize {
        self.outstanding
    }

    /// How many firings may be under way.
    fn limit(&self) -> usize {
        UNDER_WAY + UNDER_WAY_PER_QUERY * self.answered.len()
    }

    /// Whether so many firings are under way that inputs have to wait.
    pub(crate) fn backlogged(&self) -> bool {
        self.outstanding > self.limit()
    }

    /// The oldest input that some derived stream has not caught up with.
    pub(crate) fn oldest_underived(&self) -> Option<u64> {
        self.waited_for.keys().next().copied()
    }

    /// The statements of a firing are in their stream, or never will be. The input that it was under way for.
    pub(crate) fn derived(&mut self, key: &FiringKey) -> Option<u64> {
        let input = self.underived.remove(key)?;
        if let Some(count) = self.waited_for.get_mut(&input) {
            *count -= 1;
            if *count == 0 {
                self.waited_for.remove(&input);
            }
        }
        Some(input)
    }

    pub(crate) fn registered(&mut self, query: QueryUid, derives: bool) {
        if derives {
            self.deriving.insert(query);
        }
        self.answered.insert(query, AnsweredFirings::default());
    }

    pub(crate) fn dropped(&mut self, query: QueryUid) {
        self.answered.remove(&query);
        self.deriving.remove(&query);
    }

    /// Pins the firing's SN. It became due by this input.
    pub(crate) fn due(
        &mut self,
        shared: &Shared,
        firing: Firing,
        windows: Option<Arc<DueWindows>>,
        input: u64,
    ) {
        let due = match self.due.entry(firing.sn) {
            Entry::Occupied(due) => due.into_mut(),
            Entry::Vacant(free) => match shared.store.pin(firing.sn) {
                Ok(snapshot) => free.insert(DueSn {
                    snapshot,
                    windows,
                    firings: 0,
                }),
                Err(error) => {
                    // A due SN is above the stable one, and the floor never is (SN-2).
                    tracing::error!("a due firing could not be pinned: {error}");
                    return;
                }
            },
        };
        due.firings += 1;
        self.outstanding += 1;
        if self.deriving.contains(&firing.query) {
            self.underived.insert(firing.key(), input);
            *self.waited_for.entry(input).or_default() += 1;
        }
    }

    /// A firing's SN is stable: hands it to the host, or has it wait until others are answered.
    pub(crate) fn fire(&mut self, shared: &Shared, firing: Firing, acknowledged: Option<Instant>) {
        self.released.push_back(Released {
            firing,
            acknowledged,
            at: Instant::now(),
        });
        self.hand_out(shared);
    }

    /// Hands out what has its turn.
    fn hand_out(&mut self, shared: &Shared) {
        while let Some(released) = self.next_in_turn() {
            let Released {
                firing,
                acknowledged,
                at,
            } = released;
            let Some(due) = self.due.get(&firing.sn) else {
                tracing::error!("a firing was released that had not become due");
                self.handed_out -= 1;
                continue;
            };
            let made = due.windows.clone();
            // Its SN is pinned already, so that this does not fail.
            let pinned = shared.store.pin(due.snapshot.sn());
            self.leave_due(firing.sn);
            let snapshot = match pinned {
                Ok(snapshot) => snapshot,
                Err(error) => {
                    tracing::error!("a firing's snapshot could not be pinned: {error}");
                    self.answered();
                    self.derived(&firing.key());
                    continue;
                }
            };
            Arc::clone(&shared.host).fire(FiringJob {
                firing,
                snapshot: DueSnapshot::new(snapshot, shared.pin_clock),
                made,
                acknowledged,
                released: at,
            });
        }
    }

    /// The next firing to be handed out, unless as many are as may be.
    fn next_in_turn(&mut self) -> Option<Released> {
        if self.handed_out >= self.limit() {
            return None;
        }
        let released = self.released.pop_front()?;
        self.handed_out += 1;
        Some(released)
    }

    /// One firing of an SN less is to be handed out.
    fn leave_due(&mut self, sn: Sn) -> bool {
        let Entry::Occupied(mut due) = self.due.entry(sn) else {
            return false;
        };
        due.get_mut().firings -= 1;
        if due.get().firings == 0 {
            due.remove();
        }
        true
    }

    pub(crate) fn cancel(&mut self, firing: &Firing) {
        if self.leave_due(firing.sn) {
            self.outstanding -= 1;
            self.derived(&firing.key());
        }
    }

    /// The host has answered a firing.
    fn answered(&mut self) {
        self.outstanding = self.outstanding.saturating_sub(1);
        self.handed_out = self.handed_out.saturating_sub(1);
    }

    /// Takes note of an answer that has gone wherever it was to go; the mark that should be logged, if it is time.
    fn on_delivered(&mut self, key: FiringKey, sn: Option<Sn>) -> Option<DeliveredRecord> {
        let answered = self.answered.get_mut(&key.query)?;
        let (close, sn) = answered.add(key.close, sn?, self.kept)?;
        Some(DeliveredRecord {
            query: key.query,
            close,
            sn: Some(sn),
        })
    }
}

impl Sequencer {
    pub(super) fn on_fired(&mut self, fired: Fired) {
        let shared = Arc::clone(&self.shared);
        let Fired { key, derived } = fired;
        let mut outputs = Vec::new();
        let sn = shared.coordinator.lock().on_fired(key, &mut outputs);
        self.firings.answered();
        self.firings.hand_out(&shared);
        match derived {
            // Its statements come first: a mark says that they are in the log.
            Some(derives) => self.derived.push_back(Derived { key, sn, derives }),
            None => self.on_delivered(key, sn),
        }
        // Retired slices and counts only; nothing is injected.
        let carried_out = self.carry_out(outputs, shared.log.end());
        debug_assert!(carried_out.is_ok());
    }

    fn on_delivered(&mut self, key: FiringKey, sn: Option<Sn>) {
        self.firings.derived(&key);
        if let Some(mark) = self.firings.on_delivered(key, sn)
            && !self.shared.log.is_volatile()
        {
            self.mark_delivered(mark);
        }
    }

    /// Takes the statements of firings that derive streams: each is an input like any other. Not while an input is being
    /// taken, nor while the log is being replayed, which holds most of them already.
    pub(super) fn take_derived(&mut self) {
        while let Some(derived) = self.derived.pop_front() {
            let Derived { key, sn, derives } = derived;
            let Derives::Statements(statements) = derives else {
                // Not sooner: those before it have their statements in the log by now.
                self.on_delivered(key, sn);
                continue;
            };
            // What this makes due is due for the same input as the firing was.
            let input = self.firings.underived.get(&key).copied();
            self.input = input.unwrap_or(self.inputs);
            let taken = self.take(Input::Derived {
                received_ms: self.shared.clock.now_ms(),
                key,
                statements,
            });
            match taken {
                Ok(_) => self.on_delivered(key, sn),
                // The firing is executed again after a restart.
                Err(error) => {
                    self.firings.derived(&key);
                    tracing::warn!("the statements of a firing were not logged: {error}");
                }
            }
        }
        self.input = self.inputs;
    }

    fn mark_delivered(&mut self, mark: DeliveredRecord) {
        let record = Record::Delivered(mark);
        // A mark that is not written only costs recovery some work.
        match self.shared.log.append(&record) {
            Ok(position) => {
                if let Err(error) = self.apply(&record, position) {
                    tracing::warn!("a mark could not be applied: {error}");
                }
            }
            Err(error) => tracing::warn!("a mark could not be logged: {error}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use somersault_model::EventTime;

    fn firing(ordinal: u32) -> Firing {
        Firing {
            query: QueryUid(1),
            members: 0,
            close: EventTime(7),
            ordinal,
            revision: 0,
            repeated: false,
            sn: Sn(1),
            windows: [].into(),
            complete_from: None,
        }
    }

    #[test]
    fn the_firings_of_one_close_are_handed_out_in_portions() {
        let mut firings = Firings::new(8);
        firings.registered(QueryUid(1), false);
        for ordinal in 0..1_000 {
            firings.released.push_back(Released {
                firing: firing(ordinal),
                acknowledged: None,
                at: Instant::now(),
            });
        }
        let mut ordinals = Vec::new();
        let mut take = |firings: &mut Firings| {
            let before = ordinals.len();
            while let Some(released) = firings.next_in_turn() {
                ordinals.push(released.firing.ordinal);
            }
            ordinals.len() - before
        };
        assert_eq!(take(&mut firings), UNDER_WAY + UNDER_WAY_PER_QUERY);
        assert_eq!(take(&mut firings), 0, "none is answered");
        firings.answered();
        firings.answered();
        assert_eq!(take(&mut firings), 2);
        while !firings.released.is_empty() {
            firings.answered();
            take(&mut firings);
        }
        assert!(ordinals.into_iter().eq(0..1_000), "in order, and each once");
    }
}
