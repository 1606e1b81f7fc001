//! The results of a cohort, kept once for all members, and cut into the answers of those that have
//! subscribers.
//!
//! The one thing to know before changing it: results come in close order (WI-2), from one thread at
//! a time, and that thread does the slow work without the lock of the hub: it asks which
//! subscribers receive a result ([`CohortHub::take`]) and then cuts the answers. A new subscriber
//! finds that result among those that are kept.

mod durable;
mod saved;

use super::ledger::MemberLedger;
use super::outbox::Outbox;
use crate::evaluation::outcome::CohortResult;
use crate::metrics::{QueryMetrics, Tally};
use crate::subscriptions::{
    Evicted, FiringId, FiringResult, Mailbox, SubscribeOptions, Subscription,
};
pub(crate) use durable::{DurableChange, Handed};
use rustc_hash::FxHashMap;
pub(crate) use saved::FreezePoint;
use saved::FrozenHub;
use somersault_dictionary::Dictionary;
use somersault_model::{EventTime, QueryUid, Sn};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// The counts and times of a registered query.
#[derive(Clone, Debug)]
pub struct MemberSummary {
    /// Its firings.
    pub firings: u64,
    /// The rows in all of them.
    pub rows: u64,
    /// Firings that were not executed because a newer one was due.
    pub skipped: u64,
    /// The newest close that was answered or passed.
    pub last_close: Option<EventTime>,
    /// The newest firing's error, if it failed.
    pub last_error: Option<String>,
    /// Start of execution → answer ready: median and 99th percentile.
    pub execution: [Duration; 2],
    /// Last needed statement acknowledged → answer ready: median and 99th percentile.
    pub delay: [Duration; 2],
    /// The part of the delay spent waiting behind other queries: median and 99th percentile.
    pub waiting: [Duration; 2],
    /// Live subscribers.
    pub subscribers: usize,
}

/// A member with subscribers.
struct Listener {
    member: Arc<Member>,
    subscribers: Vec<Weak<Mailbox>>,
}

struct Member {
    uid: QueryUid,
    name: String,
    cell: u32,
}

/// The subscribers of a member that receive a result.
pub(crate) struct Delivery {
    member: Arc<Member>,
    mailboxes: Vec<Arc<Mailbox>>,
}

/// The history of a paused member, kept once others have received more.
#[derive(Clone)]
struct PausedHistory {
    /// All its firings, as if none were kept.
    given: Evicted,
    /// The error of its last firing.
    error: Option<String>,
}

/// The results and subscribers of a cohort.
pub(crate) struct CohortHub {
    capacity: usize,
    /// Whether the cohort may have several members.
    is_shared: bool,
    kept: VecDeque<Arc<CohortResult>>,
    /// Their memory, in bytes.
    kept_bytes: usize,
    gone: Evicted,
    /// The last firing of the query that a member replaced, by the member's first slot.
    before: FxHashMap<u32, FiringId>,
    /// By slot.
    last: FxHashMap<u32, PausedHistory>,
    pub(crate) ledger: MemberLedger,
    /// By slot.
    listeners: FxHashMap<u32, Listener>,
    /// Results that durable subscriptions need are kept, however many there are.
    outbox: Outbox,
    ended: bool,
    tally: Tally,
    /// While a checkpoint is made: the state that it holds.
    frozen: Option<FrozenHub>,
}

impl CohortHub {
    pub(crate) fn new(capacity: usize, is_shared: bool) -> CohortHub {
        CohortHub {
            capacity,
            is_shared,
            kept: VecDeque::new(),
            kept_bytes: 0,
            gone: Evicted::default(),
            before: FxHashMap::default(),
            last: FxHashMap::default(),
            ledger: MemberLedger::default(),
            listeners: FxHashMap::default(),
            outbox: Outbox::default(),
            ended: false,
            tally: Tally::default(),
            frozen: None,
        }
    }

    /// Moves the subscribers of a resumed member to its new slot.
    pub(crate) fn resumed(&mut self, before: u32, slot: u32) {
        if let Some(listener) = self.listeners.remove(&before) {
            self.listeners.insert(slot, listener);
        }
        self.outbox.moved(before, slot);
    }

    /// Notes firings that were answered before a restart and are not kept: a subscriber that has
    /// not seen them has missed them.
    pub(crate) fn record_evicted(&mut self, gone: Evicted) {
        if let Some(sn) = gone.newest().and_then(|newest| newest.sn) {
            if let Some(frozen) = self.frozen_at(sn) {
                frozen.record_evicted(gone);
            }
            self.fix_paused_histories(sn);
        }
        self.gone.add(gone);
    }

    /// Call before a firing at `sn` is counted: members paused earlier receive nothing more, so
    /// their history is fixed.
    fn fix_paused_histories(&mut self, sn: Sn) {
        let stopped = self.ledger.stopped_by(sn);
        let stopped: Vec<u32> = stopped.filter(|it| !self.last.contains_key(it)).collect();
        if stopped.is_empty() {
            return;
        }
        let mut given = self.gone;
        (self.kept.iter()).for_each(|result| given.note(result.id()));
        for slot in stopped {
            let error = self.last_error(slot);
            self.last.insert(slot, PausedHistory { given, error });
        }
    }

    /// Returns the firings of the member in a slot that are no longer kept.
    fn gone_of(&self, slot: u32) -> Evicted {
        let of_slots = self.ledger.stays(slot).map(|slot| {
            let newest = self.gone.newest().and_then(|newest| newest.sn);
            let through = self.ledger.paused_at(slot);
            // Firings leave in their order.
            let is_all_gone = through.is_some_and(|through| newest > Some(through));
            let last = self.last.get(&slot).filter(|_| is_all_gone);
            let gone = last.map_or(self.gone, |last| last.given);
            gone.after(self.ledger.base(slot))
        });
        let mut some = of_slots.filter(|gone| gone.newest().is_some());
        // But a query that the member replaced may have had some.
        let before = self.before.get(&self.ledger.first(slot)).copied();
        some.next().unwrap_or_default().or(before)
    }

    /// Returns the newest kept firing of the member in a slot.
    fn newest_of(&self, slot: u32) -> Option<&CohortResult> {
        let mut kept = self.kept.iter().rev();
        let newest = kept.find(|result| self.ledger.fires(slot, &result.firing));
        newest.map(|result| &**result)
    }

    fn last_error(&self, slot: u32) -> Option<String> {
        if !self.is_shared {
            // Its newest firing may be one that was not reported, and so is not kept.
            return self.tally.last_error.clone();
        }
        let newest = self.newest_of(slot).zip(self.ledger.cell(slot));
        match newest {
            Some((newest, cell)) => {
                let of_all = newest.outcome.failure().cloned();
                of_all.or_else(|| newest.outcome.error_of(cell))
            }
            None => {
                let mut stays = self.ledger.stays(slot);
                stays.find_map(|slot| self.last.get(&slot))?.error.clone()
            }
        }
    }

    /// Notes that the query that a member replaced was answered up to here: a subscriber that has
    /// not seen that firing has missed it.
    pub(crate) fn answered_before(&mut self, slot: u32, id: FiringId) {
        // A restored member may have been resumed since its first slot.
        self.before.insert(self.ledger.first(slot), id);
    }

    /// Counts a result that is ready `now`, and keeps it if it is reported; returns the subscribers
    /// that receive it.
    pub(crate) fn take(
        &mut self,
        result: &Arc<CohortResult>,
        is_reported: bool,
        now: Instant,
    ) -> Vec<Delivery> {
        if let Some(frozen) = self.frozen_at(result.firing.sn) {
            let none = frozen.take(result, is_reported, now);
            debug_assert!(none.is_empty(), "a frozen hub has no subscribers");
        }
        self.fix_paused_histories(result.firing.sn);
        let counted = self.ledger.count(&result.firing, result.outcome.rows());
        let tally = &mut self.tally;
        let error = result.outcome.a_failure().cloned();
        tally.fired(result.took, error);
        tally.executions += counted.executions;
        tally.nonempty += counted.nonempty;
        tally.rows += counted.rows;
        if !is_reported {
            return Vec::new();
        }
        let bytes = result.outcome.memory_bytes();
        self.kept_bytes += bytes;
        self.kept.push_back(Arc::clone(result));
        self.put_into_outbox(result, bytes, now);
        self.evict();
        let mut deliveries = Vec::new();
        let ledger = &self.ledger;
        self.listeners.retain(|slot, listener| {
            let mailboxes = listener.mailboxes();
            if mailboxes.is_empty() {
                return false;
            }
            if ledger.fires(*slot, &result.firing) {
                deliveries.push(Delivery {
                    member: Arc::clone(&listener.member),
                    mailboxes,
                });
            }
            true
        });
        deliveries
    }

    /// Lets the oldest results go, down to its capacity, as far as no durable subscription needs
    /// them.
    pub(crate) fn evict(&mut self) {
        if self.kept.len() <= self.capacity {
            return;
        }
        let needed = self.outbox.oldest_needed();
        while self.kept.len() > self.capacity
            && let Some(oldest) = self.kept.front()
            && needed.is_none_or(|needed| oldest.position() < needed)
            && let Some(gone) = self.kept.pop_front()
        {
            self.kept_bytes -= gone.outcome.memory_bytes();
            self.gone.note(gone.id());
        }
    }

    /// Returns a subscription to the member in a slot; `None` if the slot has no member, or not
    /// yet.
    pub(crate) fn subscribe(
        &mut self,
        (slot, uid, name): (u32, QueryUid, &str),
        options: &SubscribeOptions,
        dictionary: &Arc<Dictionary>,
    ) -> Option<Subscription> {
        // The member may have been resumed since its slot was looked up.
        let slot = self.ledger.newest(slot);
        let cell = self.ledger.cell(slot)?;
        // A subscriber without a place begins with the results that it could count on, also while
        // more are kept for a durable subscription.
        let hidden = match options.after {
            None => self.kept.len().saturating_sub(self.capacity),
            Some(_) => 0,
        };
        let mut gone = self.gone_of(slot);
        for result in self.kept.iter().take(hidden) {
            if self.ledger.fires(slot, &result.firing) {
                gone.note(result.id());
            }
        }
        let newest = self.newest_of(slot).map(CohortResult::id);
        // Only a query that replaced another continues with that one's firings.
        let took_place = self.before.contains_key(&self.ledger.first(slot));
        let is_another = options.follows_another(uid) && !took_place;
        let options = match is_another {
            true => options.having_seen_nothing(),
            false => options.at(newest.or(gone.newest())),
        };
        let capacity = options.capacity.max(self.kept.len() - hidden).max(1);
        let mailbox = Mailbox::new(&options, capacity, gone);
        let mailbox = Arc::new(match is_another {
            true => mailbox.with_gap(),
            false => mailbox,
        });
        let member = Arc::new(Member {
            uid,
            name: name.to_owned(),
            cell,
        });
        let own = Delivery {
            member: Arc::clone(&member),
            mailboxes: vec![Arc::clone(&mailbox)],
        };
        for result in self.kept.iter().skip(hidden) {
            if self.ledger.fires(slot, &result.firing) {
                own.deliver(result, dictionary);
            }
        }
        if self.ended {
            mailbox.end();
        } else {
            let new = || Listener {
                member,
                subscribers: Vec::new(),
            };
            let listener = self.listeners.entry(slot).or_insert_with(new);
            listener.subscribers.push(Arc::downgrade(&mailbox));
        }
        Some(Subscription::new(uid, mailbox))
    }

    /// Removes a member for good; returns its cell, once for every time that it entered it.
    pub(crate) fn leave(&mut self, slot: u32) -> Vec<u32> {
        self.before.remove(&self.ledger.first(slot));
        for slot in self.ledger.stays(slot) {
            self.last.remove(&slot);
        }
        self.ledger.leave(slot)
    }

    /// Ends the subscriptions of a member that was dropped.
    pub(crate) fn end_member(&mut self, slot: u32) {
        if let Some(listener) = self.listeners.remove(&slot) {
            listener.end();
        }
    }

    pub(crate) fn end(&mut self) {
        self.ended = true;
        self.outbox.end();
        for (_, listener) in self.listeners.drain() {
            listener.end();
        }
    }

    /// Counts closes that were passed, for all members together.
    pub(crate) fn count_passed(&mut self, count: u64) {
        self.tally.passed(count);
    }

    /// Counts a firing at `sn` that was not executed.
    pub(crate) fn count_skipped(&mut self, sn: Sn) {
        if let Some(frozen) = self.frozen_at(sn) {
            frozen.count_skipped(sn);
        }
        self.tally.skipped += 1;
    }

    pub(crate) fn summary(&mut self, slot: u32) -> MemberSummary {
        // The member may have been resumed since its slot was looked up.
        let slot = self.ledger.newest(slot);
        let seen = self.ledger.seen(slot);
        let listener = self.listeners.get_mut(&slot);
        let subscribers = listener.map_or(0, |listener| listener.mailboxes().len());
        let last_error = self.last_error(slot);
        let [execution, delay, waiting] = self.tally.quantiles();
        MemberSummary {
            // A query with ON OVERLOAD is the only member of its cohort.
            skipped: self.tally.skipped,
            firings: seen.firings,
            rows: seen.rows,
            last_close: seen.last_close,
            last_error: last_error.or_else(|| self.last_unkept_error()),
            execution,
            delay,
            waiting,
            subscribers,
        }
    }

    /// Returns the newest firing's error, of whichever member, if no result is kept.
    fn last_unkept_error(&self) -> Option<String> {
        let error = self.tally.last_error.clone();
        error.filter(|_| self.kept.is_empty())
    }

    pub(crate) fn metrics(&self, name: String, members: u64) -> QueryMetrics {
        QueryMetrics {
            kept_bytes: self.kept_bytes as u64,
            ..self.tally.metrics(name, members)
        }
    }
}

impl Member {
    /// Returns its own part of a result. A panic becomes the error of its answer; others still have
    /// theirs.
    fn cut(&self, result: &CohortResult, dictionary: &Arc<Dictionary>) -> FiringResult {
        let cut = AssertUnwindSafe(|| result.outcome.answer(self.cell, dictionary));
        let answer = catch_unwind(cut)
            .unwrap_or_else(|_| Err("internal fault: cutting out the answer panicked".to_owned()));
        let query = (self.uid, self.name.as_str());
        FiringResult::new(&result.firing, result.took, query, answer)
    }
}

impl Listener {
    /// Returns the mailboxes of its subscribers that still exist.
    fn mailboxes(&mut self) -> Vec<Arc<Mailbox>> {
        self.subscribers
            .retain(|mailbox| mailbox.strong_count() > 0);
        self.subscribers.iter().filter_map(Weak::upgrade).collect()
    }

    fn end(self) {
        for mailbox in self.subscribers.iter().filter_map(Weak::upgrade) {
            mailbox.end();
        }
    }
}

impl Delivery {
    /// Gives a result to the subscribers that want it.
    pub(crate) fn deliver(&self, result: &CohortResult, dictionary: &Arc<Dictionary>) {
        let is_empty = result.outcome.is_empty(self.member.cell);
        let wants = |mailbox: &&Arc<Mailbox>| mailbox.wants(result.id(), is_empty);
        let wanted: Vec<&Arc<Mailbox>> = self.mailboxes.iter().filter(wants).collect();
        if wanted.is_empty() {
            return;
        }
        let own = Arc::new(self.member.cut(result, dictionary));
        for mailbox in wanted {
            mailbox.put(Arc::clone(&own));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::ledger::JoiningSlot;
    use super::*;
    use somersault_stream::Pause;

    #[test]
    fn a_member_resumed_meanwhile_is_reported_at_its_new_slot() {
        let mut hub = CohortHub::new(1, true);
        let member = |slot| JoiningSlot { slot, cell: 0 };
        hub.ledger.begin(1, EventTime(0));
        hub.ledger.join(member(0), None);
        hub.ledger.passed(EventTime(5));
        let next = Some(EventTime(6));
        let through = Sn(1);
        hub.ledger.pause(0, Pause { through, next });
        hub.ledger.begin(1, EventTime(7));
        hub.ledger.join(member(1), Some(0));
        hub.ledger.passed(EventTime(9));
        assert_eq!(hub.summary(0).last_close, Some(EventTime(9)));
    }
}
