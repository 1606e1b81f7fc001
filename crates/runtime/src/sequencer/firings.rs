//! Firings between due and answered: their pins, how many are under way, and the `Delivered` marks
//! by which recovery knows what need not be executed again (S9, S12).
//!
//! Before changing anything here: one record may make a million firings due, all with one SN
//! (windows of a number of statements, amendments). So no code may walk over the firings of an SN
//! for each of them. The SN is pinned once, and its firings are handed out in portions.

mod answered;

use super::{Sequencer, Shared};
use crate::error::RuntimeError;
use crate::fabric::DueWindows;
use crate::host::{Derives, DueSnapshot, Fired, FiringJob};
use answered::AnsweredFirings;
use somersault_log::DeliveredRecord;
use somersault_model::{QueryUid, Sn};
use somersault_store::{Snapshot, Store};
use somersault_stream::{Firing, FiringKey, Input, Record};
use std::collections::btree_map::Entry;
use std::collections::hash_map::Entry as Entries;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Instant;

/// This many firings, and `UNDER_WAY_PER_QUERY` more per query, may be under way before inputs of
/// their streams have to wait. No more are handed out at once.
const UNDER_WAY: usize = 32;
const UNDER_WAY_PER_QUERY: usize = 4;

/// Where one record makes many firings due, inputs of their streams wait when more than this many
/// firings are under way.
const MOST_UNDER_WAY: usize = 65_536;
/// They also wait when the firings became due with more than this many SNs, each of which is
/// pinned.
const SNS_UNDER_WAY: usize = 4;
/// Late statements wait for the next amendment while more amended firings than this are under way.
const AMENDED_UNDER_WAY: usize = 64;

/// A firing whose answer is on its way into a derived stream.
pub(super) struct Derived {
    key: FiringKey,
    /// The SN that it became due with.
    sn: Option<Sn>,
    derives: Derives,
}

/// Data that an SN's firings share, as long as one of them is not handed out.
struct DueSn {
    /// Keeps the SN pinned, however long they wait.
    snapshot: Snapshot,
    windows: Option<Arc<DueWindows>>,
    /// The number of firings that are not handed out.
    firings: usize,
}

/// A firing whose SN is stable, and which waits for its turn.
struct Released {
    firing: Firing,
    acknowledged: Option<Instant>,
    at: Instant,
}

/// Firings of one query that are due and not yet answered.
#[derive(Default)]
struct UnderWay {
    firings: usize,
    sns: BTreeMap<Sn, usize>,
}

/// Firings that wait to be handed out: those of one query in order, the queries in turn. So a query
/// with thousands of them delays each other query by one firing at a time.
#[derive(Default)]
struct Turns {
    of: HashMap<QueryUid, VecDeque<Released>>,
    /// The queries that have waiting firings, the next one first.
    turn: VecDeque<QueryUid>,
}

impl Turns {
    fn push(&mut self, released: Released) {
        let query = released.firing.query;
        let of_query = self.of.entry(query).or_default();
        if of_query.is_empty() {
            self.turn.push_back(query);
        }
        of_query.push_back(released);
    }

    fn pop(&mut self) -> Option<Released> {
        let query = self.turn.pop_front()?;
        let of_query = self.of.get_mut(&query)?;
        let released = of_query.pop_front();
        match of_query.is_empty() {
            true => drop(self.of.remove(&query)),
            false => self.turn.push_back(query),
        }
        released
    }

    #[cfg(test)]
    fn is_empty(&self) -> bool {
        self.turn.is_empty()
    }
}

pub(crate) struct Firings {
    kept: usize,
    /// The SNs of firings that are due and not handed out.
    due: BTreeMap<Sn, DueSn>,
    /// Firings that are ready to be handed out.
    released: Turns,
    /// The number of firings that the host has and has not answered.
    handed_out: usize,
    /// The number of firings that are due and not yet answered, cancelled ones excluded.
    outstanding: usize,
    /// The same for each query.
    under_way: HashMap<QueryUid, UnderWay>,
    /// The number of firings among them that amend a close.
    amended: usize,
    /// Firings that could not be pinned; the host never answers them.
    unpinned: Vec<FiringKey>,
    /// Which queries derive streams.
    deriving: HashSet<QueryUid>,
    /// For firings whose statements are not in their stream yet: the input for which they are under
    /// way.
    underived: HashMap<FiringKey, u64>,
    /// The number of such firings for each input.
    waited_for: BTreeMap<u64, usize>,
    /// Per query: the answered firings that are kept, or were since the last mark.
    answered: HashMap<QueryUid, AnsweredFirings>,
}

impl Firings {
    pub(crate) fn new(kept: usize) -> Firings {
        Firings {
            kept,
            due: BTreeMap::new(),
            released: Turns::default(),
            handed_out: 0,
            outstanding: 0,
            under_way: HashMap::new(),
            amended: 0,
            unpinned: Vec::new(),
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

    /// Whether too many firings are under way. The inputs of their queries' streams then wait.
    pub(crate) fn backlogged(&self) -> bool {
        self.outstanding > self.limit()
    }

    /// Whether too many firings of these queries are under way for another close of theirs.
    pub(crate) fn are_behind(&self, queries: &[QueryUid]) -> bool {
        let firings: usize = self.of(queries).map(|it| it.firings).sum();
        firings > UNDER_WAY + UNDER_WAY_PER_QUERY * queries.len()
    }

    /// Whether too many firings of these queries are under way for another input of their streams.
    pub(crate) fn fill_up(&self, queries: &[QueryUid]) -> bool {
        let firings: usize = self.of(queries).map(|it| it.firings).sum();
        let sns = self.of(queries).map(|it| it.sns.len()).max();
        self.are_behind(queries) && (firings > MOST_UNDER_WAY || sns > Some(SNS_UNDER_WAY))
    }

    fn of<'f>(&'f self, queries: &'f [QueryUid]) -> impl Iterator<Item = &'f UnderWay> {
        queries.iter().filter_map(|query| self.under_way.get(query))
    }

    /// Whether so many amended firings are under way that later amendments are joined.
    pub(crate) fn joins_amendments(&self) -> bool {
        self.amended > AMENDED_UNDER_WAY
    }

    /// Counts a firing that became due.
    fn comes_under_way(&mut self, key: FiringKey, sn: Sn) {
        self.outstanding += 1;
        self.amended += usize::from(key.revision > 0);
        let of_query = self.under_way.entry(key.query).or_default();
        of_query.firings += 1;
        *of_query.sns.entry(sn).or_default() += 1;
    }

    /// Counts a firing that was answered or cancelled.
    fn leaves(&mut self, key: FiringKey, sn: Option<Sn>) {
        self.outstanding = self.outstanding.saturating_sub(1);
        self.amended -= usize::from(key.revision > 0).min(self.amended);
        let Entries::Occupied(mut of_query) = self.under_way.entry(key.query) else {
            return;
        };
        let under_way = of_query.get_mut();
        if let Some(sn) = sn
            && let Entry::Occupied(mut of_sn) = under_way.sns.entry(sn)
        {
            under_way.firings -= 1;
            *of_sn.get_mut() -= 1;
            if *of_sn.get() == 0 {
                of_sn.remove();
            }
        }
        if under_way.firings == 0 {
            of_query.remove();
        }
    }

    /// The oldest input that some derived stream has not caught up with.
    pub(crate) fn oldest_underived(&self) -> Option<u64> {
        self.waited_for.keys().next().copied()
    }

    /// The statements of a firing are in their stream, or never will be. Returns the input that it
    /// was under way for.
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

    /// Pins the SN of a firing that became due by this input.
    pub(crate) fn due(
        &mut self,
        store: &Arc<Store>,
        firing: Firing,
        windows: Option<Arc<DueWindows>>,
        input: u64,
    ) {
        let due = match self.due.entry(firing.sn) {
            Entry::Occupied(due) => due.into_mut(),
            Entry::Vacant(free) => match store.pin(firing.sn) {
                Ok(snapshot) => free.insert(DueSn {
                    snapshot,
                    windows,
                    firings: 0,
                }),
                Err(error) => {
                    // A due SN is above the stable one, and the floor never is (SN-2).
                    tracing::error!("a due firing could not be pinned: {error}");
                    self.unpinned.push(firing.key());
                    return;
                }
            },
        };
        due.firings += 1;
        self.comes_under_way(firing.key(), firing.sn);
        if self.deriving.contains(&firing.query) {
            self.underived.insert(firing.key(), input);
            *self.waited_for.entry(input).or_default() += 1;
        }
    }

    /// Hands a firing whose SN is stable to the host, or queues it until others are answered.
    pub(crate) fn fire(&mut self, shared: &Shared, firing: Firing, acknowledged: Option<Instant>) {
        self.released.push(Released {
            firing,
            acknowledged,
            at: Instant::now(),
        });
        self.hand_out(shared);
    }

    /// Hands out the firings whose turn it is.
    fn hand_out(&mut self, shared: &Shared) {
        while let Some(released) = self.next_in_turn() {
            let Released {
                firing,
                acknowledged,
                at,
            } = released;
            let Some(due) = self.due.get(&firing.sn) else {
                // The firing could not be pinned when it became due.
                self.handed_out -= 1;
                continue;
            };
            let made = due.windows.clone();
            // The SN is pinned already, so this does not fail.
            let pinned = shared.store.pin(due.snapshot.sn());
            self.leave_due(firing.sn);
            let snapshot = match pinned {
                Ok(snapshot) => snapshot,
                Err(error) => {
                    tracing::error!("a firing's snapshot could not be pinned: {error}");
                    self.handed_out -= 1;
                    self.leaves(firing.key(), Some(firing.sn));
                    self.unpinned.push(firing.key());
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

    /// The next firing to hand out, unless the limit is reached.
    fn next_in_turn(&mut self) -> Option<Released> {
        if self.handed_out >= self.limit() {
            return None;
        }
        let released = self.released.pop()?;
        self.handed_out += 1;
        Some(released)
    }

    /// Counts one firing of an SN as handed out or cancelled. Returns whether the SN had any left.
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
            self.leaves(firing.key(), Some(firing.sn));
            self.derived(&firing.key());
        }
    }

    /// Counts a firing that the host has answered.
    fn answered(&mut self, key: FiringKey, sn: Option<Sn>) {
        self.leaves(key, sn);
        self.handed_out = self.handed_out.saturating_sub(1);
    }

    /// Counts a firing whose answer has been delivered. Returns the mark to log, if it is time for
    /// one.
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
        self.firings.answered(key, sn);
        self.firings.hand_out(&shared);
        match derived {
            // The firing's statements come first: a mark says that they are in the log.
            Some(derives) => self.derived.push_back(Derived { key, sn, derives }),
            None => self.on_delivered(key, sn),
        }
        // The outputs hold only retired slices and counts; nothing is injected.
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

    /// Takes the statements of firings that derive streams, each as an input like any other. Call
    /// it neither while an input is being taken nor while the log is being replayed, which holds
    /// most of them already.
    pub(super) fn take_derived(&mut self) {
        while let Some(derived) = self.derived.pop_front() {
            let Derived { key, sn, derives } = derived;
            let Derives::Statements(statements) = derives else {
                // Not sooner: by now the earlier firings have their statements in the log.
                self.on_delivered(key, sn);
                continue;
            };
            // Firings that this makes due belong to the same input as this firing.
            let input = self.firings.underived.get(&key).copied();
            self.input = input.unwrap_or(self.inputs);
            let taken = self.take(Input::Derived {
                received_ms: self.shared.clock.now_ms(),
                key,
                statements,
            });
            match taken {
                Ok(_) => self.on_delivered(key, sn),
                Err(error) => self.on_unwritten(key, sn, &error),
            }
        }
        self.input = self.inputs;
    }

    /// Handles a firing whose statements could not be logged. While the log takes records, the
    /// stream goes on without them, as after a firing that failed; else the firing is executed
    /// again after a restart.
    fn on_unwritten(&mut self, key: FiringKey, sn: Option<Sn>, error: &RuntimeError) {
        tracing::error!(
            "the statements of a firing of {} for the close {} were not logged, and its stream goes on without them: {error}",
            key.query.0,
            key.close.to_iso()
        );
        let empty = Input::Derived {
            received_ms: self.shared.clock.now_ms(),
            key,
            statements: Vec::new(),
        };
        // An amended firing that fails leaves the statements of its close as they are.
        let goes_on = self.shared.failure().is_none() && key.revision == 0;
        if goes_on && self.take(empty).is_ok() {
            self.on_delivered(key, sn);
        } else {
            self.firings.derived(&key);
        }
    }

    /// Gives up firings that could not be pinned: they count as failed, and hold no slices.
    pub(super) fn give_up_unpinned(&mut self) {
        for key in std::mem::take(&mut self.firings.unpinned) {
            let mut outputs = Vec::new();
            let sn = self.shared.coordinator.lock().on_fired(key, &mut outputs);
            if self.firings.deriving.contains(&key.query) && key.revision == 0 {
                let derives = Derives::Statements(Vec::new());
                self.derived.push_back(Derived { key, sn, derives });
            } else {
                self.firings.derived(&key);
            }
            // The outputs hold only retired slices and counts; nothing is injected.
            let carried_out = self.carry_out(outputs, self.shared.log.end());
            debug_assert!(carried_out.is_ok());
        }
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
            firings.comes_under_way(firing(ordinal).key(), Sn(1));
            firings.released.push(Released {
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
        firings.answered(firing(0).key(), Some(Sn(1)));
        firings.answered(firing(1).key(), Some(Sn(1)));
        assert_eq!(take(&mut firings), 2);
        while !firings.released.is_empty() {
            firings.answered(firing(0).key(), Some(Sn(1)));
            take(&mut firings);
        }
        assert!(ordinals.into_iter().eq(0..1_000), "in order, and each once");
    }

    #[test]
    fn a_firing_that_cannot_be_pinned_is_given_up_and_holds_nothing() {
        let store = Store::new(1);
        store.snapshots().publish_stable(Sn(5));
        let mut firings = Firings::new(8);
        firings.registered(QueryUid(1), true);
        firings.due(&store, firing(0), None, 3);
        assert_eq!(firings.unpinned, [firing(0).key()]);
        assert_eq!(firings.outstanding(), 0);
        assert_eq!(firings.oldest_underived(), None);
    }

    #[test]
    fn queries_take_turns() {
        let mut turns = Turns::default();
        let mut push = |query, ordinal| {
            turns.push(Released {
                firing: Firing {
                    query: QueryUid(query),
                    ..firing(ordinal)
                },
                acknowledged: None,
                at: Instant::now(),
            });
        };
        (0..3).for_each(|ordinal| push(1, ordinal));
        push(2, 0);
        push(3, 0);
        let order: Vec<(u64, u32)> = std::iter::from_fn(|| turns.pop())
            .map(|released| (released.firing.query.0, released.firing.ordinal))
            .collect();
        assert_eq!(order, [(1, 0), (2, 0), (3, 0), (1, 1), (1, 2)]);
    }
}
