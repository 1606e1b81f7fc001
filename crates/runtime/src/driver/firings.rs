//! Firings between due and answered: their pins, how many are under way, and the `Delivered` marks
//! by which recovery knows what need not be executed again (S9, S12).

use super::Shared;
use super::sequencer::Sequencer;
use crate::due_windows::DueWindows;
use crate::host::{Derives, Fired, FiringJob};
use somersault_log::{DeliveredRecord, Record};
use somersault_model::{EventTime, QueryUid, Sn};
use somersault_store::Snapshot;
use somersault_stream::{Firing, FiringKey, Input};
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Instant;

/// A mark is logged when so many firings have left the kept ones since the last mark.
const FIRINGS_PER_MARK: usize = 16;
/// So many firings may be under way, and so many more per query, before inputs have to wait.
const UNDER_WAY: usize = 32;
const UNDER_WAY_PER_QUERY: usize = 4;

/// A firing whose answer is on its way into a derived stream.
pub(super) struct Derived {
    key: FiringKey,
    /// The SN that it became due with.
    sn: Option<Sn>,
    derives: Derives,
}

pub(crate) struct Firings {
    kept: usize,
    /// Pins and windows of firings that are due and not yet released.
    pins: HashMap<FiringKey, (Snapshot, Option<Arc<DueWindows>>)>,
    /// Firings that are due and not yet answered, cancelled ones excepted.
    outstanding: usize,
    /// Which queries derive streams.
    deriving: HashSet<QueryUid>,
    /// Of firings whose statements are not in their stream yet: for which input they are under way.
    underived: HashMap<FiringKey, u64>,
    /// How many of them there are for each input.
    waited_for: BTreeMap<u64, usize>,
    /// Per query: the closes and SNs of firings that have been answered and are kept or were since the last mark.
    answered: HashMap<QueryUid, VecDeque<(EventTime, Sn)>>,
}

impl Firings {
    pub(crate) fn new(kept: usize) -> Firings {
        Firings {
            kept,
            pins: HashMap::new(),
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

    /// Whether so many firings are under way that inputs have to wait.
    pub(crate) fn backlogged(&self) -> bool {
        self.outstanding > UNDER_WAY + UNDER_WAY_PER_QUERY * self.answered.len()
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
        self.answered.insert(query, VecDeque::new());
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
        let deadline_ms = shared.uptime_ms() + shared.config.pin_time.as_millis() as i64;
        match shared.store.pin_until(firing.sn, deadline_ms) {
            Ok(snapshot) => {
                self.outstanding += 1;
                if self.deriving.contains(&firing.query) {
                    self.underived.insert(firing.key(), input);
                    *self.waited_for.entry(input).or_default() += 1;
                }
                self.pins.insert(firing.key(), (snapshot, windows));
            }
            // A due SN is above the stable one, and the floor never is (SN-2).
            Err(error) => tracing::error!("a due firing could not be pinned: {error}"),
        }
    }

    /// Hands a firing whose SN is stable to the host.
    pub(crate) fn fire(&mut self, shared: &Shared, firing: Firing, acknowledged: Option<Instant>) {
        let Some((snapshot, windows)) = self.pins.remove(&firing.key()) else {
            tracing::error!("a firing was released that had not become due");
            return;
        };
        Arc::clone(&shared.host).fire(FiringJob {
            firing,
            snapshot,
            windows,
            acknowledged,
            released: Instant::now(),
        });
    }

    pub(crate) fn cancel(&mut self, firing: &Firing) {
        if self.pins.remove(&firing.key()).is_some() {
            self.outstanding -= 1;
            self.derived(&firing.key());
        }
    }

    /// Takes note of an answer that has gone wherever it was to go; the mark that should be logged, if it is time.
    fn on_delivered(&mut self, key: FiringKey, sn: Option<Sn>) -> Option<DeliveredRecord> {
        let answered = self.answered.get_mut(&key.query)?;
        answered.push_back((key.close, sn?));
        if answered.len() < self.kept + FIRINGS_PER_MARK {
            return None;
        }
        // A mark says of whole SNs that they are done, and the newest one may have more firings to come.
        let mut gone = (answered.len() - self.kept).min(answered.len() - 1);
        while gone > 0 && answered[gone - 1].1 == answered[gone].1 {
            gone -= 1;
        }
        let (close, sn) = answered.drain(..gone).next_back()?;
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
        self.firings.outstanding = self.firings.outstanding.saturating_sub(1);
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
