//! The delivery ledger: every firing from due to acknowledged (S9, S12).
//!
//! A firing key is in exactly one state:
//!
//! ```text
//! Due ──▶ Released ──▶ HandedOut ──▶ Answered ──▶ gone
//!  │          │             └──────────────────▶ gone     its query derives no stream
//!  │          └──▶ Unpinned ──▶ Answered or gone          its SN could not be pinned
//!  └──▶ gone                                              cancelled
//! ```
//!
//! *Answered* firings wait until their statements are in the stream that their query derives.
//! The coordinator of crate `stream` decides which firings become due, and keeps the slices that an
//! unfinished firing reads. This ledger owns the rest: pins, turns, how many firings are under way,
//! and the `Delivered` marks by which recovery knows what need not be executed again.
//!
//! Before changing anything here: one record may make a million firings due, all with one SN
//! (windows of a number of statements, amendments). So no code may walk over the firings of an SN
//! for each of them. The SN is pinned once, and its firings are handed out in portions.

mod answered;
mod turns;

#[cfg(test)]
mod tests;

use crate::fabric::DueWindows;
use answered::AnsweredFirings;
use rustc_hash::{FxHashMap, FxHashSet};
use somersault_log::DeliveredRecord;
use somersault_model::{QueryUid, Sn};
use somersault_store::{Snapshot, Store};
use somersault_stream::{Firing, FiringKey};
use std::collections::btree_map::Entry;
use std::collections::hash_map::Entry as Entries;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;
use turns::{Released, Turns};

/// This many firings, and `UNDER_WAY_PER_QUERY` more per query, may be under way before inputs of
/// their streams have to wait. No more are handed out at once.
const UNDER_WAY: usize = 32;
const UNDER_WAY_PER_QUERY: usize = 4;

/// If one record makes many firings due, inputs of their streams wait while more than this many
/// firings are under way.
const MOST_UNDER_WAY: usize = 65_536;
/// They also wait when the firings became due with more than this many SNs, each of which is
/// pinned.
const SNS_UNDER_WAY: usize = 4;
/// A live query with this many firings under way is held back: each pins an SN, and its subscribers
/// want the newest answer. What changes meanwhile joins one later firing.
const LIVE_UNDER_WAY: usize = 8;
/// An empty ledger keeps room for this many firings.
const KEPT_PLACES: usize = 4_096;
/// Late statements wait for the next amendment while more amended firings than this are under way.
const AMENDED_UNDER_WAY: usize = 64;

/// The ledger of all firings that are not yet acknowledged.
pub(crate) struct Delivery {
    /// The number of answered firings of each query that a restart executes again.
    kept: usize,
    /// Looked up only; only the check walks over them.
    firings: FxHashMap<FiringKey, Entered>,
    /// The SNs of firings that are due and not handed out.
    due: BTreeMap<Sn, DueSn>,
    released: Turns,
    counts: Counts,
    /// Firings that are under way, for each query.
    under_way: FxHashMap<QueryUid, UnderWay>,
    /// The live queries that cannot keep up.
    held_live: BTreeSet<QueryUid>,
    /// Unpinned firings that the sequencer has not given up yet.
    unpinned: Vec<FiringKey>,
    /// Which queries derive streams.
    deriving: FxHashSet<QueryUid>,
    /// For each input: the number of deriving firings that are under way for it.
    waited_for: BTreeMap<u64, usize>,
    /// Per query: the answered firings that are kept, or were since the last mark; `None` while
    /// there was none.
    answered: FxHashMap<QueryUid, Option<Box<AnsweredFirings>>>,
    /// For cohorts whose durable subscriptions need answers: the SN of the oldest one.
    needed: FxHashMap<QueryUid, Sn>,
}

/// A firing in the ledger.
#[derive(Clone, Copy, Debug)]
struct Entered {
    state: State,
    /// The SN that it became due with.
    sn: Sn,
    /// For a firing whose query derives a stream: the input for which it is under way.
    input: Option<u64>,
}

/// The state of a firing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Its SN is not yet stable.
    Due,
    /// It waits for its turn.
    Released,
    /// The host has it.
    HandedOut,
    /// Its statements are on their way into the derived stream.
    Answered,
    /// Its SN could not be pinned; the host never gets it.
    Unpinned,
}

impl State {
    /// Whether a firing in this state is under way: due and not yet answered.
    fn is_under_way(self) -> bool {
        matches!(self, State::Due | State::Released | State::HandedOut)
    }
}

/// Data that an SN's firings share, as long as one of them is not handed out.
struct DueSn {
    /// Keeps the SN pinned, however long they wait.
    snapshot: Snapshot,
    /// The SN before, for live queries that are told what has changed since.
    before: Option<Snapshot>,
    windows: Option<Arc<DueWindows>>,
    /// The number of firings that are not handed out.
    firings: usize,
}

/// The number of firings that are in a state, or in several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    handed_out: usize,
    /// Due, released or handed out.
    under_way: usize,
    /// Those among them that amend a close.
    amended: usize,
    answered: usize,
}

/// Firings of one query that are under way.
#[derive(Debug, Default, PartialEq, Eq)]
struct UnderWay {
    firings: usize,
    sns: BTreeMap<Sn, usize>,
}

/// A firing with what the host needs to execute it.
pub(crate) struct HandOver {
    pub(crate) firing: Firing,
    pub(crate) snapshot: Snapshot,
    /// The SN before, for a live query that is told what has changed since.
    pub(crate) before: Option<Snapshot>,
    pub(crate) windows: Option<Arc<DueWindows>>,
    pub(crate) acknowledged: Option<Instant>,
    pub(crate) released: Instant,
}

impl Delivery {
    pub(crate) fn new(kept: usize) -> Delivery {
        Delivery {
            kept,
            firings: FxHashMap::default(),
            due: BTreeMap::new(),
            released: Turns::default(),
            counts: Counts::default(),
            under_way: FxHashMap::default(),
            held_live: BTreeSet::new(),
            unpinned: Vec::new(),
            deriving: FxHashSet::default(),
            waited_for: BTreeMap::new(),
            answered: FxHashMap::default(),
            needed: FxHashMap::default(),
        }
    }

    /// Notes the SN of the oldest answer that durable subscriptions to a cohort need: no mark
    /// covers it, so a restart executes its firing again.
    pub(crate) fn set_needed(&mut self, query: QueryUid, from: Option<Sn>) {
        match from {
            Some(sn) => _ = self.needed.insert(query, sn),
            None => _ = self.needed.remove(&query),
        }
    }

    /// The number of firings that are under way: due and not yet answered.
    pub(crate) fn under_way(&self) -> usize {
        self.counts.under_way
    }

    /// The number of firings that may be under way.
    fn limit(&self) -> usize {
        UNDER_WAY + UNDER_WAY_PER_QUERY * self.answered.len()
    }

    /// Whether too many firings are under way. The inputs of their queries' streams then wait.
    pub(crate) fn is_backlogged(&self) -> bool {
        self.counts.under_way > self.limit()
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

    /// Whether amended firings under way have reached the number at which later amendments are
    /// joined.
    pub(crate) fn joins_amendments(&self) -> bool {
        self.counts.amended > AMENDED_UNDER_WAY
    }

    /// The live queries that the next cut holds back, because too many of their firings are under
    /// way.
    pub(crate) fn held_live(&self) -> &BTreeSet<QueryUid> {
        &self.held_live
    }

    /// The oldest input that some derived stream has not caught up with.
    pub(crate) fn oldest_underived(&self) -> Option<u64> {
        self.waited_for.keys().next().copied()
    }

    /// All firings that are not acknowledged yet, in no order.
    pub(crate) fn unacknowledged(&self) -> Vec<FiringKey> {
        self.firings.keys().copied().collect()
    }

    /// Whether a firing is not acknowledged yet.
    pub(crate) fn is_unacknowledged(&self, key: &FiringKey) -> bool {
        self.firings.contains_key(key)
    }

    /// The input that a deriving firing is under way for.
    pub(crate) fn input_of(&self, key: &FiringKey) -> Option<u64> {
        self.firings.get(key)?.input
    }

    pub(crate) fn is_deriving(&self, query: QueryUid) -> bool {
        self.deriving.contains(&query)
    }

    /// A cohort of queries was formed.
    pub(crate) fn registered(&mut self, query: QueryUid, derives: bool) {
        if derives {
            self.deriving.insert(query);
        }
        self.answered.insert(query, None);
    }

    /// A cohort has ended. Its last firings may still be under way.
    pub(crate) fn dropped(&mut self, query: QueryUid) {
        self.answered.remove(&query);
        self.deriving.remove(&query);
        self.needed.remove(&query);
    }

    /// A firing became due by this input: pins its SN.
    pub(crate) fn due(
        &mut self,
        store: &Arc<Store>,
        firing: &Firing,
        windows: Option<Arc<DueWindows>>,
        input: u64,
    ) {
        let (key, sn) = (firing.key(), firing.sn);
        let due = match self.due.entry(sn) {
            Entry::Occupied(due) => due.into_mut(),
            Entry::Vacant(free) => match store.pin(sn) {
                Ok(snapshot) => free.insert(DueSn {
                    snapshot,
                    before: None,
                    windows,
                    firings: 0,
                }),
                Err(error) => {
                    // A due SN is above the stable one, and the floor never is (SN-2).
                    tracing::error!("a due firing could not be pinned: {error}");
                    self.enter_unpinned(key, sn);
                    return;
                }
            },
        };
        due.firings += 1;
        if firing.changed.is_some() && due.before.is_none() {
            // The floor may have passed it. The firing is then evaluated as a whole.
            due.before = store.pin(Sn(sn.0.saturating_sub(1))).ok();
        }
        let input = self.deriving.contains(&key.query).then_some(input);
        if let Some(input) = input {
            *self.waited_for.entry(input).or_default() += 1;
        }
        let state = State::Due;
        self.firings.insert(key, Entered { state, sn, input });
        self.counts.under_way += 1;
        self.counts.amended += usize::from(key.revision > 0);
        let of_query = self.under_way.entry(key.query).or_default();
        of_query.firings += 1;
        *of_query.sns.entry(sn).or_default() += 1;
        // Only live queries have no windows.
        if firing.windows.is_empty() && of_query.firings >= LIVE_UNDER_WAY {
            self.held_live.insert(key.query);
        }
        self.check_counts();
    }

    /// The SN of a due firing is stable.
    pub(crate) fn release(&mut self, firing: Firing, acknowledged: Option<Instant>, at: Instant) {
        // One that could not be pinned has been given up.
        let Some(entered) = self.in_state(&firing.key(), State::Due) else {
            return;
        };
        entered.state = State::Released;
        self.released.push(Released {
            firing,
            acknowledged,
            at,
        });
    }

    /// Hands out the firing whose turn it is, unless as many as may be are handed out.
    pub(crate) fn hand_out(&mut self, store: &Arc<Store>) -> Option<HandOver> {
        while self.counts.handed_out < self.limit() {
            let Released {
                firing,
                acknowledged,
                at,
            } = self.released.pop()?;
            let (key, sn) = (firing.key(), firing.sn);
            // The SN is pinned already, so this does not fail.
            let due = self.due.get(&sn);
            let due = due.map(|due| {
                let wanted = due.before.as_ref().filter(|_| firing.changed.is_some());
                let before = wanted.and_then(|before| store.pin(before.sn()).ok());
                (store.pin(due.snapshot.sn()), before, due.windows.clone())
            });
            self.leave_due(sn);
            let (snapshot, before, windows) = match due {
                Some((Ok(snapshot), before, windows)) => (snapshot, before, windows),
                unpinned => {
                    if let Some((Err(error), ..)) = unpinned {
                        tracing::error!("a firing's snapshot could not be pinned: {error}");
                    }
                    self.leave_under_way(key, sn);
                    self.forget(&key);
                    self.enter_unpinned(key, sn);
                    continue;
                }
            };
            if let Some(entered) = self.in_state(&key, State::Released) {
                entered.state = State::HandedOut;
                self.counts.handed_out += 1;
            }
            return Some(HandOver {
                firing,
                snapshot,
                before,
                windows,
                acknowledged,
                released: at,
            });
        }
        None
    }

    /// The host has answered a firing. If `derives`, its statements come next, and
    /// [`Delivery::acknowledge`] or [`Delivery::abandon`] after them.
    pub(crate) fn answer(&mut self, key: FiringKey, derives: bool) -> Option<DeliveredRecord> {
        let entered = self.in_state(&key, State::HandedOut)?;
        entered.state = State::Answered;
        let sn = entered.sn;
        self.counts.handed_out -= 1;
        self.counts.answered += 1;
        self.leave_under_way(key, sn);
        match derives {
            true => None,
            false => self.acknowledge(&key),
        }
    }

    /// The statements of an answered firing are in their stream, if it has any. Returns the mark to
    /// log, if it is time for one.
    pub(crate) fn acknowledge(&mut self, key: &FiringKey) -> Option<DeliveredRecord> {
        let sn = self.leave_answered(key)?;
        let answered = self.answered.get_mut(&key.query)?;
        let answered = answered.get_or_insert_default();
        let needed = self.needed.get(&key.query).copied();
        let (close, sn) = answered.add((key.close, sn), self.kept, needed)?;
        Some(DeliveredRecord {
            query: key.query,
            close,
            sn: Some(sn),
        })
    }

    /// The statements of an answered firing will not be in their stream before a restart.
    pub(crate) fn abandon(&mut self, key: &FiringKey) {
        self.leave_answered(key);
    }

    /// The query of a due firing was dropped.
    pub(crate) fn cancel(&mut self, firing: &Firing) {
        let (key, sn) = (firing.key(), firing.sn);
        if self.in_state(&key, State::Due).is_none() {
            return;
        }
        self.leave_due(sn);
        self.leave_under_way(key, sn);
        self.forget(&key);
        self.check_counts();
    }

    /// Takes out the unpinned firings. Those of queries that derive streams, amendments excepted,
    /// are answered with nothing and wait for their acknowledgement: for them it says `true`.
    pub(crate) fn give_up_unpinned(&mut self) -> Vec<(FiringKey, bool)> {
        let unpinned = std::mem::take(&mut self.unpinned);
        let given_up = unpinned.into_iter().map(|key| {
            let derives = self.is_deriving(key.query) && key.revision == 0;
            if derives && let Some(entered) = self.firings.get_mut(&key) {
                entered.state = State::Answered;
                self.counts.answered += 1;
            } else {
                self.firings.remove(&key);
            }
            (key, derives)
        });
        given_up.collect()
    }

    fn in_state(&mut self, key: &FiringKey, state: State) -> Option<&mut Entered> {
        let entered = self.firings.get_mut(key);
        entered.filter(|entered| entered.state == state)
    }

    fn enter_unpinned(&mut self, key: FiringKey, sn: Sn) {
        let (state, input) = (State::Unpinned, None);
        self.firings.insert(key, Entered { state, sn, input });
        self.unpinned.push(key);
        self.check_counts();
    }

    /// Counts one firing of an SN as handed out or cancelled.
    fn leave_due(&mut self, sn: Sn) {
        if let Entry::Occupied(mut due) = self.due.entry(sn) {
            due.get_mut().firings -= 1;
            if due.get().firings == 0 {
                due.remove();
            }
        }
    }

    /// Counts a firing as no longer under way.
    fn leave_under_way(&mut self, key: FiringKey, sn: Sn) {
        self.counts.under_way -= 1;
        self.counts.amended -= usize::from(key.revision > 0);
        let Entries::Occupied(mut of_query) = self.under_way.entry(key.query) else {
            return;
        };
        let under_way = of_query.get_mut();
        under_way.firings -= 1;
        if under_way.firings < LIVE_UNDER_WAY {
            self.held_live.remove(&key.query);
        }
        if let Entry::Occupied(mut of_sn) = under_way.sns.entry(sn) {
            *of_sn.get_mut() -= 1;
            if *of_sn.get() == 0 {
                of_sn.remove();
            }
        }
        if under_way.firings == 0 {
            of_query.remove();
        }
    }

    /// Removes an answered firing. Returns its SN.
    fn leave_answered(&mut self, key: &FiringKey) -> Option<Sn> {
        self.in_state(key, State::Answered)?;
        self.counts.answered -= 1;
        let sn = self.forget(key);
        self.check_counts();
        sn
    }

    /// Removes a firing, and lets its input no longer wait for it. Returns its SN.
    fn forget(&mut self, key: &FiringKey) -> Option<Sn> {
        let entered = self.firings.remove(key)?;
        if let Some(input) = entered.input
            && let Entry::Occupied(mut count) = self.waited_for.entry(input)
        {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
        if self.firings.is_empty() {
            self.firings.shrink_to(KEPT_PLACES);
        }
        Some(entered.sn)
    }

    /// Every firing is in one state: as many as the counters say.
    fn check_counts(&self) {
        let counts = &self.counts;
        debug_assert_eq!(
            self.firings.len(),
            counts.under_way + counts.answered + self.unpinned.len(),
            "DL-1: each firing in the ledger is in exactly one state"
        );
    }

    /// Checks that everything that the ledger counts follows from the states of its firings (DL-1).
    /// Looks at all of them.
    ///
    /// # Errors
    /// A sentence that says what is violated.
    pub(crate) fn check(&self) -> Result<(), String> {
        let mut expected = Counts::default();
        let mut under_way: FxHashMap<QueryUid, UnderWay> = FxHashMap::default();
        let mut due: BTreeMap<Sn, usize> = BTreeMap::new();
        let mut waited_for: BTreeMap<u64, usize> = BTreeMap::new();
        let (mut unpinned, mut released) = (0, 0);
        for (key, entered) in &self.firings {
            if entered.state.is_under_way() {
                expected.under_way += 1;
                expected.amended += usize::from(key.revision > 0);
                let of_query = under_way.entry(key.query).or_default();
                of_query.firings += 1;
                *of_query.sns.entry(entered.sn).or_default() += 1;
            }
            match entered.state {
                State::Due => *due.entry(entered.sn).or_default() += 1,
                State::Released => {
                    released += 1;
                    *due.entry(entered.sn).or_default() += 1;
                }
                State::HandedOut => expected.handed_out += 1,
                State::Answered => expected.answered += 1,
                State::Unpinned => unpinned += 1,
            }
            if let Some(input) = entered.input {
                *waited_for.entry(input).or_default() += 1;
            }
        }
        let violated = |what: &str| Err(format!("DL-1: {what}"));
        let is_behind = |query: &QueryUid| {
            let of_query = under_way.get(query);
            of_query.is_some_and(|it| it.firings >= LIVE_UNDER_WAY)
        };
        if !self.held_live.iter().all(is_behind) {
            return violated("a live query is held back, and keeps up");
        }
        if expected != self.counts {
            return violated(&format!(
                "the firings are {expected:?} by their states, but counted as {:?}",
                self.counts
            ));
        }
        if under_way != self.under_way {
            return violated("a query's firings under way are not those that its states say");
        }
        if !due
            .iter()
            .map(|(sn, firings)| (*sn, *firings))
            .eq(self.due_counts())
        {
            return violated("an SN is pinned for other firings than those that wait with it");
        }
        let is_released = |key: FiringKey| {
            let entered = self.firings.get(&key);
            entered.is_some_and(|entered| entered.state == State::Released)
        };
        let in_turns: FxHashSet<FiringKey> = self.released.firings().map(Firing::key).collect();
        if in_turns.len() != released || !in_turns.into_iter().all(is_released) {
            return violated("the queues of turns hold other firings than the released ones");
        }
        if waited_for != self.waited_for {
            return violated("an input waits for other derived statements than those to come");
        }
        if unpinned != self.unpinned.len() {
            return violated("an unpinned firing is not among those to give up");
        }
        Ok(())
    }

    /// For each pinned SN: the number of firings that it is pinned for.
    fn due_counts(&self) -> impl Iterator<Item = (Sn, usize)> {
        self.due.iter().map(|(sn, due)| (*sn, due.firings))
    }
}
