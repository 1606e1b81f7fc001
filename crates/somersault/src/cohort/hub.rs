//! Where the results of a cohort end up: in close order (WI-2), kept once for all members, and cut into the answers
//! of those that have subscribers.
//!
//! The one thing to know before changing it: a result says which places fired, and `until` which of them had been
//! paused by then. What a member has counted is what its cell has, less what that had when it joined; a place is
//! covered from the first result on that it fires in, and only then is that difference fixed.

use super::outcome::Outcome;
use crate::continuous::Summary;
use crate::metrics::{QueryMetrics, Recorder};
use crate::subscription::{
    FiringId, FiringResult, Gone, Mailbox, SubscribeOptions, Subscription, SubscriptionEvent,
};
use rustc_hash::FxHashMap;
use somersault_model::{EventTime, QueryUid};
use somersault_store::Dictionary;
use somersault_stream::{Firing, FiringKey};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Fewer gaps than this are not worth closing.
const GAPS: usize = 64;

/// A member as it joins.
#[derive(Clone, Copy)]
pub(crate) struct Standby {
    pub(crate) place: u32,
    pub(crate) cell: u32,
}

/// A place of a member.
#[derive(Clone, Copy)]
struct Slot {
    place: u32,
    cell: u32,
    /// Rows: what is to be added to the cell's; of a place that is not covered yet, 0.
    rows: i64,
}

/// What is counted of a cell.
#[derive(Clone, Copy, Default)]
struct CellCounts {
    rows: u64,
    /// Places that are covered and fire.
    firing: u32,
}

const NOBODY: u32 = u32::MAX;

/// Members that joined at one time.
struct Join {
    first: u32,
    base: EventTime,
    /// The firings of the cohort before the first of theirs.
    before: Option<u64>,
}

/// What a paused member has seen, once no firing of before is under way.
#[derive(Clone, Copy, Default)]
struct Seen {
    firings: u64,
    rows: u64,
    last_close: Option<i64>,
}

/// A member that was paused at its place.
struct Until {
    next: Option<EventTime>,
    seen: Option<Seen>,
}

/// A result of the cohort.
pub(crate) struct CohortResult {
    pub(crate) firing: Firing,
    pub(crate) outcome: Outcome,
    pub(crate) execution: Duration,
    pub(crate) delay: Duration,
    pub(crate) waiting: Duration,
}

impl CohortResult {
    fn id(&self) -> FiringId {
        FiringId {
            close_ms: self.firing.close.0,
            ordinal: self.firing.ordinal,
            revision: self.firing.revision,
            sn: Some(self.firing.sn.0),
        }
    }
}

/// A member that somebody has subscribed to.
struct Listener {
    uid: QueryUid,
    name: String,
    cell: u32,
    subscribers: Vec<Weak<Mailbox>>,
}

/// See the module.
pub(crate) struct CohortHub {
    capacity: usize,
    next_ticket: u64,
    next_published: u64,
    early: BTreeMap<u64, CohortResult>,
    kept: VecDeque<Arc<CohortResult>>,
    gone: Gone,
    /// Ascending by place.
    slots: Vec<Slot>,
    gaps: usize,
    joins: Vec<Join>,
    /// Places below this have fired.
    covered: u32,
    /// By the number of the cell.
    cells: Vec<CellCounts>,
    /// Covered places that fire.
    firing: u64,
    /// Paused places, those of members that were resumed since among them.
    until: FxHashMap<u32, Until>,
    /// Those of them of which it is not fixed yet what they have seen.
    pausing: Vec<u32>,
    /// Of a member that was resumed: the place that it had before.
    earlier: FxHashMap<u32, u32>,
    /// The other way round.
    later: FxHashMap<u32, u32>,
    /// By place.
    listeners: FxHashMap<u32, Listener>,
    ended: bool,
    stats: Stats,
}

struct Stats {
    firings: u64,
    /// Firings of members.
    executions: u64,
    /// Those of them that had rows.
    nonempty: u64,
    failed: u64,
    rows: u64,
    passed_in_bulk: u64,
    last_close: Option<i64>,
    last_error: Option<String>,
    execution: Recorder,
    delay: Recorder,
    waiting: Recorder,
}

impl CohortHub {
    pub(crate) fn new(capacity: usize) -> CohortHub {
        CohortHub {
            capacity,
            next_ticket: 0,
            next_published: 0,
            early: BTreeMap::new(),
            kept: VecDeque::new(),
            gone: Gone::default(),
            slots: Vec::new(),
            gaps: 0,
            joins: Vec::new(),
            covered: 0,
            cells: Vec::new(),
            firing: 0,
            until: FxHashMap::default(),
            pausing: Vec::new(),
            earlier: FxHashMap::default(),
            later: FxHashMap::default(),
            listeners: FxHashMap::default(),
            ended: false,
            stats: Stats {
                firings: 0,
                executions: 0,
                nonempty: 0,
                failed: 0,
                rows: 0,
                passed_in_bulk: 0,
                last_close: None,
                last_error: None,
                execution: Recorder::new(),
                delay: Recorder::new(),
                waiting: Recorder::new(),
            },
        }
    }

    pub(crate) fn ticket(&mut self) -> u64 {
        self.next_ticket += 1;
        self.next_ticket - 1
    }

    /// So many members are about to join, after this time.
    pub(crate) fn begin(&mut self, members: usize, base: EventTime) {
        if self.slots.capacity() - self.slots.len() < members {
            // Doubling would leave up to half of the list unused.
            self.slots.reserve_exact(members.max(self.slots.len() / 8));
        }
        let first = self.slots.last().map_or(0, |slot| slot.place + 1);
        let goes_on = |last: &Join| last.base == base && last.before.is_none();
        if !self.joins.last().is_some_and(goes_on) {
            self.joins.push(Join {
                first,
                base,
                before: None,
            });
        }
    }

    pub(crate) fn join(&mut self, member: Standby, resumed: Option<u32>) {
        let Standby { place, cell } = member;
        if let Some(join) = self.joins.last_mut()
            && join.first > place
        {
            join.first = place;
        }
        self.slots.push(Slot {
            place,
            cell,
            rows: 0,
        });
        if self.cells.len() <= cell as usize {
            let more = cell as usize + 1 - self.cells.len();
            if self.cells.capacity() <= cell as usize {
                self.cells.reserve_exact(more.max(self.cells.len() / 8));
            }
            self.cells.resize(cell as usize + 1, CellCounts::default());
        }
        if let Some(before) = resumed {
            self.earlier.insert(place, before);
            self.later.insert(before, place);
            if let Some(listener) = self.listeners.remove(&before) {
                self.listeners.insert(place, listener);
            }
        }
    }

    pub(crate) fn pause(&mut self, place: u32, next: Option<EventTime>) {
        self.until.insert(place, Until { next, seen: None });
        self.pausing.push(place);
    }

    /// A member is gone for good; returns its cell, once for every time that it has entered it.
    pub(crate) fn leave(&mut self, place: u32) -> Vec<u32> {
        let mut cells = Vec::new();
        let mut next = Some(place);
        while let Some(place) = next {
            if let Some(at) = self.at(place) {
                let cell = self.slots[at].cell;
                let is_fixed = |until: &Until| until.seen.is_some();
                if place < self.covered && !self.until.get(&place).is_some_and(is_fixed) {
                    self.cells[cell as usize].firing -= 1;
                    self.firing -= 1;
                }
                cells.push(cell);
                self.slots[at].cell = NOBODY;
                self.gaps += 1;
            }
            self.until.remove(&place);
            self.later.remove(&place);
            next = self.earlier.remove(&place);
        }
        if self.gaps > GAPS && self.gaps > self.slots.len() / 2 {
            // The last stays: the next place is the one after it.
            let last = self.slots.last().map(|slot| slot.place);
            self.slots
                .retain(|slot| slot.cell != NOBODY || Some(slot.place) == last);
            self.slots.shrink_to_fit();
            self.gaps = 0;
        }
        cells
    }

    fn at(&self, place: u32) -> Option<usize> {
        let at = self.slots.binary_search_by_key(&place, |slot| slot.place);
        at.ok().filter(|at| self.slots[*at].cell != NOBODY)
    }

    fn join_of(&self, place: u32) -> Option<&Join> {
        let after = self.joins.partition_point(|join| join.first <= place);
        self.joins.get(after.checked_sub(1)?)
    }

    /// Whether the member at a place, or where it was before, fires in a result.
    fn fires(&self, place: u32, firing: &Firing) -> bool {
        if firing.revision > 0 {
            // Late statements amend what those have seen that run now, since they run.
            return place < firing.members && !self.until.contains_key(&place);
        }
        let mut next = Some(place);
        while let Some(place) = next {
            let runs = self
                .until
                .get(&place)
                .is_none_or(|until| until.next.is_some_and(|next| firing.close < next));
            if place < firing.members && runs {
                return true;
            }
            next = self.earlier.get(&place).copied();
        }
        false
    }

    /// Takes a result; returns the keys of those that are published by it, in order.
    pub(crate) fn publish(
        &mut self,
        ticket: u64,
        result: CohortResult,
        dictionary: &Arc<Dictionary>,
    ) -> Vec<FiringKey> {
        self.early.insert(ticket, result);
        let mut published = Vec::new();
        while let Some(result) = self.early.remove(&self.next_published) {
            self.next_published += 1;
            published.push(result.firing.key());
            self.count(&result);
            self.deliver(Arc::new(result), dictionary);
        }
        published
    }

    fn count(&mut self, result: &CohortResult) {
        let close = result.firing.close;
        self.cover(result.firing.members);
        self.note_paused(close);
        if result.firing.members < self.covered {
            self.pass_over_younger(result);
        }
        let stats = &mut self.stats;
        stats.firings += 1;
        stats.executions += self.firing;
        stats.last_close = stats.last_close.max(Some(close.0));
        for (cell, rows) in result.outcome.rows() {
            if let Some(counts) = self.cells.get_mut(cell as usize) {
                counts.rows += rows;
                let firing = u64::from(counts.firing);
                stats.rows += rows * firing;
                stats.nonempty += firing;
            }
        }
        stats.last_error = result.outcome.a_failure().cloned();
        if stats.last_error.is_some() {
            stats.failed += 1;
        }
        stats.execution.record(result.execution);
        stats.delay.record(result.delay);
        stats.waiting.record(result.waiting);
    }

    /// An amended firing is of an earlier close, for which those do not fire that joined since: what their cells count
    /// now is not theirs.
    fn pass_over_younger(&mut self, result: &CohortResult) {
        let members = result.firing.members;
        let rows: FxHashMap<u32, u64> = result.outcome.rows().collect();
        let from = self.slots.partition_point(|slot| slot.place < members);
        for slot in &mut self.slots[from..] {
            if slot.place < self.covered
                && let Some(rows) = rows.get(&slot.cell)
            {
                slot.rows -= *rows as i64;
            }
        }
        for join in &mut self.joins {
            if let Some(before) = &mut join.before
                && join.first >= members
            {
                *before += 1;
            }
        }
    }

    /// Notes what there was before the first firing of each place below this.
    fn cover(&mut self, members: u32) {
        if members <= self.covered {
            return;
        }
        let from = self.slots.partition_point(|slot| slot.place < self.covered);
        for slot in &mut self.slots[from..] {
            if slot.place >= members {
                break;
            }
            if slot.cell != NOBODY {
                let counts = &mut self.cells[slot.cell as usize];
                slot.rows -= counts.rows as i64;
                counts.firing += 1;
                self.firing += 1;
            }
        }
        for join in self.joins.iter_mut().rev() {
            if join.before.is_some() {
                break;
            }
            if join.first < members {
                join.before = Some(self.stats.firings);
            }
        }
        self.covered = members;
    }

    /// Fixes what those have seen that were paused before this close.
    fn note_paused(&mut self, close: EventTime) {
        let mut pausing = std::mem::take(&mut self.pausing);
        pausing.retain(|place| {
            let Some(until) = self.until.get(place) else {
                return false;
            };
            if until.next.is_some_and(|next| next > close) {
                return true;
            }
            self.fix(*place);
            false
        });
        self.pausing = pausing;
    }

    /// The paused member at a place has seen what it will see there.
    fn fix(&mut self, place: u32) {
        let seen = self.seen_at(place);
        if place < self.covered
            && let Some(at) = self.at(place)
        {
            self.cells[self.slots[at].cell as usize].firing -= 1;
            self.firing -= 1;
        }
        if let Some(until) = self.until.get_mut(&place) {
            until.seen = Some(seen);
        }
    }

    /// What the member at a place has seen there.
    fn seen_at(&self, place: u32) -> Seen {
        if let Some(seen) = self.until.get(&place).and_then(|until| until.seen) {
            return seen;
        }
        let (Some(at), Some(join)) = (self.at(place), self.join_of(place)) else {
            return Seen::default();
        };
        let slot = &self.slots[at];
        if place >= self.covered {
            return Seen::default();
        }
        let rows = self.cells[slot.cell as usize].rows as i64 + slot.rows;
        Seen {
            firings: join.before.map_or(0, |before| self.stats.firings - before),
            rows: u64::try_from(rows).unwrap_or(0),
            last_close: self.stats.last_close.filter(|close| *close > join.base.0),
        }
    }

    fn deliver(&mut self, result: Arc<CohortResult>, dictionary: &Arc<Dictionary>) {
        let mut deaf = Vec::new();
        let places: Vec<u32> = self.listeners.keys().copied().collect();
        for place in places {
            let fires = self.fires(place, &result.firing);
            let Some(listener) = self.listeners.get_mut(&place) else {
                continue;
            };
            listener
                .subscribers
                .retain(|mailbox| mailbox.strong_count() > 0);
            if listener.subscribers.is_empty() {
                deaf.push(place);
            } else if fires {
                listener.hear(&result, dictionary);
            }
        }
        deaf.iter()
            .for_each(|place| _ = self.listeners.remove(place));
        self.kept.push_back(result);
        while self.kept.len() > self.capacity {
            if let Some(gone) = self.kept.pop_front() {
                self.gone.note(gone.id());
            }
        }
    }

    pub(crate) fn subscribe(
        &mut self,
        (mut place, uid, name): (u32, QueryUid, &str),
        options: &SubscribeOptions,
        dictionary: &Arc<Dictionary>,
    ) -> Subscription {
        // It may have been resumed since its place was asked for.
        while let Some(later) = self.later.get(&place) {
            place = *later;
        }
        let newest = self.kept.back().map(|result| result.id());
        let options = &options.at(newest.or(self.gone.newest()));
        let capacity = options.capacity.max(self.kept.len()).max(1);
        let base = self.first_base(place);
        // What went before the member came it never had.
        let gone = self.gone.after(base);
        let mailbox = Arc::new(Mailbox::new(options, capacity, gone));
        let Some(cell) = self.at(place).map(|at| self.slots[at].cell) else {
            mailbox.end();
            return Subscription::new(mailbox);
        };
        let mut own = Listener {
            uid,
            name: name.to_owned(),
            cell,
            subscribers: vec![Arc::downgrade(&mailbox)],
        };
        for result in &self.kept {
            if self.fires(place, &result.firing) {
                own.hear(result, dictionary);
            }
        }
        if self.ended {
            mailbox.end();
        } else {
            match self.listeners.get_mut(&place) {
                Some(listener) => listener.subscribers.append(&mut own.subscribers),
                None => _ = self.listeners.insert(place, own),
            }
        }
        Subscription::new(mailbox)
    }

    /// The time after which a member fired for the first time.
    fn first_base(&self, place: u32) -> i64 {
        let mut first = place;
        while let Some(before) = self.earlier.get(&first) {
            first = *before;
        }
        self.join_of(first).map_or(i64::MIN, |join| join.base.0)
    }

    /// A member was dropped: nothing more comes for its subscribers.
    pub(crate) fn end_member(&mut self, place: u32) {
        if let Some(listener) = self.listeners.remove(&place) {
            listener.end();
        }
    }

    pub(crate) fn end(&mut self) {
        self.ended = true;
        for (_, listener) in self.listeners.drain() {
            listener.end();
        }
    }

    pub(crate) fn passed(&mut self, last: EventTime, count: u64) {
        self.note_paused(last);
        self.stats.passed_in_bulk += count;
        self.stats.last_close = self.stats.last_close.max(Some(last.0));
    }

    pub(crate) fn summary(&mut self, place: u32) -> Summary {
        let mut seen = self.seen_at(place);
        let mut before = self.earlier.get(&place).copied();
        while let Some(place) = before {
            let there = self.seen_at(place);
            seen.firings += there.firings;
            seen.rows += there.rows;
            seen.last_close = seen.last_close.max(there.last_close);
            before = self.earlier.get(&place).copied();
        }
        let subscribers = self.listeners.get_mut(&place).map_or(0, |listener| {
            listener
                .subscribers
                .retain(|mailbox| mailbox.strong_count() > 0);
            listener.subscribers.len()
        });
        let cell = self.at(place).map(|at| self.slots[at].cell);
        let newest = self.kept.back();
        let last_error = cell.zip(newest).and_then(|(cell, newest)| {
            newest
                .outcome
                .failure()
                .cloned()
                .or_else(|| newest.outcome.error_of(cell))
        });
        let stats = &self.stats;
        let both = |recorder: &Recorder| [recorder.quantile(0.50), recorder.quantile(0.99)];
        Summary {
            // A query with ON OVERLOAD stands alone.
            skipped: 0,
            firings: seen.firings,
            rows: seen.rows,
            last_close_ms: seen.last_close,
            last_error: last_error.or_else(|| self.last_unkept_error()),
            execution: both(&stats.execution),
            delay: both(&stats.delay),
            waiting: both(&stats.waiting),
            subscribers,
        }
    }

    /// Where nothing is kept: the newest firing's error, whosever it is.
    fn last_unkept_error(&self) -> Option<String> {
        let error = self.stats.last_error.clone();
        error.filter(|_| self.kept.is_empty())
    }

    pub(crate) fn metrics(&self, name: String, members: u64) -> QueryMetrics {
        let stats = &self.stats;
        QueryMetrics {
            name,
            members,
            executions: stats.executions,
            nonempty: stats.nonempty,
            firings: stats.firings,
            passed_in_bulk: stats.passed_in_bulk,
            skipped: 0,
            failed: stats.failed,
            rows: stats.rows,
            execution: stats.execution.latency(),
            delay: stats.delay.latency(),
            waiting: stats.waiting.latency(),
        }
    }
}

impl Listener {
    /// Gives its subscribers a firing, if one of them wants it.
    fn hear(&mut self, result: &CohortResult, dictionary: &Arc<Dictionary>) {
        let firing = &result.firing;
        let is_empty = result.outcome.is_empty(self.cell);
        let mailboxes = self.subscribers.iter().filter_map(Weak::upgrade);
        let wanted: Vec<Arc<Mailbox>> = mailboxes
            .filter(|mailbox| mailbox.wants(result.id(), is_empty))
            .collect();
        if wanted.is_empty() {
            return;
        }
        let own = Arc::new(FiringResult {
            query: self.name.clone(),
            uid: self.uid.0,
            close_ms: firing.close.0,
            revision: firing.revision,
            ordinal: firing.ordinal,
            sn: firing.sn.0,
            complete_from_ms: firing.complete_from.map(|from| from.0),
            answer: result.outcome.answer(self.cell, dictionary),
            execution: result.execution,
            delay: result.delay,
            waiting: result.waiting,
        });
        for mailbox in wanted {
            mailbox.put(SubscriptionEvent::Firing(Arc::clone(&own)));
        }
    }

    fn end(self) {
        for mailbox in self.subscribers.iter().filter_map(Weak::upgrade) {
            mailbox.end();
        }
    }
}
