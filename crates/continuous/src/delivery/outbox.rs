//! The outbox of a cohort: the answers that durable subscriptions to its members still need.
//!
//! For each subscription, an answer that it receives is in exactly one state:
//!
//! ```text
//! Waiting ──▶ Handed ──▶ Acknowledged
//!    │           │
//!    └───────────┴─────▶ LetGo          a limit of the subscription was reached
//! ```
//!
//! The one thing to know before changing it: answers come in the order of their positions, and a
//! subscription's answers leave in it, so a position separates the states. An answer is let go only
//! after the log has said so: the outbox asks for that ([`Outbox::exceeded`]), and keeps the answer
//! until it is told. So a restart finds every answer that was neither acknowledged nor let go.

mod bell;

#[cfg(test)]
mod tests;

pub(crate) use bell::Bell;

use somersault_log::{AnswerPosition, SubscriptionLimit};
use somersault_runtime::Exceeded;
use somersault_stream::SubscriptionStatus;
use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// The durable subscriptions to the members of a cohort.
#[derive(Default)]
pub(crate) struct Outbox {
    subscriptions: Vec<Durable>,
}

/// A durable subscription.
struct Durable {
    /// The slot of its member.
    slot: u32,
    /// Its name and terms; `after` is the newest answer that was acknowledged or let go.
    status: SubscriptionStatus,
    /// The answers that it needs, in their order.
    needed: VecDeque<NeededAnswer>,
    /// Their memory.
    bytes: u64,
    /// The newest answer that a reader was given.
    handed: Option<AnswerPosition>,
    figures: Figures,
    /// The bells of its readers.
    bells: Vec<Weak<Bell>>,
}

/// The counts of a durable subscription since the start of the engine.
#[derive(Clone, Copy, Debug, Default)]
struct Figures {
    /// Answers that were acknowledged.
    acknowledged: u64,
    /// The time of the newest acknowledgement.
    acknowledged_at: Option<Instant>,
    /// Answers that a reader was given again.
    repeats: u64,
}

/// An answer that a durable subscription needs.
#[derive(Clone, Copy)]
pub(crate) struct NeededAnswer {
    pub(crate) position: AnswerPosition,
    pub(crate) bytes: u64,
    /// When it was ready.
    pub(crate) since: Instant,
}

/// The state of a durable subscription.
#[derive(Clone, Debug)]
pub struct DurableState {
    /// Its query, name and terms.
    pub status: SubscriptionStatus,
    /// The number of answers that are neither acknowledged nor let go.
    pub needed: u64,
    /// Their memory, in bytes.
    pub bytes: u64,
    /// The number of those among them that a reader was given.
    pub handed: u64,
    /// The oldest of them.
    pub oldest: Option<AnswerPosition>,
    /// The newest of them.
    pub newest: Option<AnswerPosition>,
    /// How long the oldest has been ready.
    pub oldest_age: Option<Duration>,
    /// The number of answers that were acknowledged since the start of the engine.
    pub acknowledged: u64,
    /// The time since the newest of these acknowledgements.
    pub acknowledged_age: Option<Duration>,
    /// How often an answer was given to a reader again since the start of the engine.
    pub repeats: u64,
    /// Those that are more than its terms allow, until they are let go.
    pub exceeded: Option<Exceeded>,
}

impl Outbox {
    /// Whether there is no durable subscription.
    pub(crate) fn is_empty(&self) -> bool {
        self.subscriptions.is_empty()
    }

    /// The same subscriptions and states without readers, for a checkpoint.
    pub(crate) fn frozen(&self) -> Outbox {
        let subscriptions = self.subscriptions.iter().map(|it| Durable {
            slot: it.slot,
            status: it.status.clone(),
            needed: it.needed.clone(),
            bytes: it.bytes,
            handed: it.handed,
            figures: it.figures,
            bells: Vec::new(),
        });
        Outbox {
            subscriptions: subscriptions.collect(),
        }
    }

    fn find(&mut self, slot: u32, name: &str) -> Option<&mut Durable> {
        let mut all = self.subscriptions.iter_mut();
        all.find(|it| it.slot == slot && it.status.name == name)
    }

    /// Adds a subscription to the member in a slot. `kept` are the answers for it that are kept, in
    /// their order.
    pub(crate) fn subscribe(
        &mut self,
        slot: u32,
        status: SubscriptionStatus,
        kept: impl Iterator<Item = NeededAnswer>,
    ) {
        self.unsubscribe(slot, &status.name);
        let mut durable = Durable {
            slot,
            status,
            needed: VecDeque::new(),
            bytes: 0,
            handed: None,
            figures: Figures::default(),
            bells: Vec::new(),
        };
        kept.for_each(|answer| durable.add(answer));
        self.subscriptions.push(durable);
    }

    /// Removes a subscription, and wakes its readers.
    pub(crate) fn unsubscribe(&mut self, slot: u32, name: &str) {
        self.subscriptions.retain(|it| {
            let is_it = it.slot == slot && it.status.name == name;
            if is_it {
                it.ring();
            }
            !is_it
        });
    }

    /// A member was resumed in another slot.
    pub(crate) fn moved(&mut self, before: u32, slot: u32) {
        let of_member = self.subscriptions.iter_mut();
        (of_member.filter(|it| it.slot == before)).for_each(|it| it.slot = slot);
    }

    /// The reader of a subscription has all answers up to one.
    pub(crate) fn acknowledge(
        &mut self,
        (slot, name): (u32, &str),
        through: AnswerPosition,
        now: Instant,
    ) {
        if let Some(durable) = self.find(slot, name) {
            let before = durable.needed.len();
            durable.status.missed = 0;
            durable.advance(through);
            let figures = &mut durable.figures;
            figures.acknowledged += (before - durable.needed.len()) as u64;
            figures.acknowledged_at = Some(now);
        }
    }

    /// Answers of a subscription were let go, or it has ended; `status` is its state now.
    pub(crate) fn let_go(&mut self, slot: u32, status: SubscriptionStatus) {
        if let Some(durable) = self.find(slot, &status.name) {
            let through = status.terms.after;
            let is_ended = status.ended.is_some();
            durable.status = status;
            durable.advance(through);
            if is_ended {
                durable.needed.clear();
                durable.bytes = 0;
            }
            durable.ring();
        }
    }

    /// An answer is ready. `receives` says whether the member in a slot receives it, and whether it
    /// is empty for that member.
    pub(crate) fn answered(
        &mut self,
        answer: NeededAnswer,
        receives: impl Fn(u32) -> Option<IsEmpty>,
    ) {
        for durable in &mut self.subscriptions {
            if durable.wants(receives(durable.slot)) {
                durable.add(answer);
                durable.ring();
            }
        }
    }

    /// The position of the oldest answer that a subscription needs.
    pub(crate) fn oldest_needed(&self) -> Option<AnswerPosition> {
        let oldest = self.subscriptions.iter().filter_map(|it| it.needed.front());
        oldest.map(|answer| answer.position).min()
    }

    /// Answers that are more than the terms of their subscriptions allow.
    pub(crate) fn exceeded(&self, now: Instant) -> Vec<Exceeded> {
        let exceeded = |it: &Durable| it.exceeded(now);
        self.subscriptions.iter().filter_map(exceeded).collect()
    }

    /// When the next answer that waits reaches its deadline.
    pub(crate) fn next_deadline(&self, now: Instant) -> Option<Instant> {
        let deadlines = self
            .subscriptions
            .iter()
            .filter_map(|it| it.next_deadline(now));
        deadlines.min()
    }

    /// Gives a reader the positions of up to `most` answers after this one, and the subscription's
    /// status; `None` if the subscription does not exist any more.
    pub(crate) fn hand(
        &mut self,
        (slot, name): (u32, &str),
        after: AnswerPosition,
        most: usize,
    ) -> Option<(SubscriptionStatus, Vec<AnswerPosition>)> {
        let durable = self.find(slot, name)?;
        let from = (durable.needed).partition_point(|answer| answer.position <= after);
        let handed = durable.needed.range(from..).take(most);
        let handed: Vec<AnswerPosition> = handed.map(|answer| answer.position).collect();
        let again = handed.partition_point(|position| Some(*position) <= durable.handed);
        durable.figures.repeats += again as u64;
        durable.handed = durable.handed.max(handed.last().copied());
        Some((durable.status.clone(), handed))
    }

    /// Adds a bell that rings when a subscription has an answer, or changes.
    pub(crate) fn listen(&mut self, slot: u32, name: &str, bell: &Arc<Bell>) {
        if let Some(durable) = self.find(slot, name) {
            durable.bells.retain(|bell| bell.strong_count() > 0);
            durable.bells.push(Arc::downgrade(bell));
        }
    }

    /// Rings for all readers: the cohort has ended.
    pub(crate) fn end(&self) {
        self.subscriptions.iter().for_each(Durable::ring);
    }

    /// The states of the subscriptions to the member in a slot.
    pub(crate) fn states(&self, slot: u32, now: Instant) -> Vec<DurableState> {
        let of_slot = self.subscriptions.iter().filter(|it| it.slot == slot);
        of_slot.map(|it| it.state(now)).collect()
    }

    /// Checks that each needed answer is in one state (DL-2).
    ///
    /// # Errors
    /// A sentence that says what is violated.
    #[cfg(any(test, debug_assertions))]
    pub(crate) fn check(&self) -> Result<(), String> {
        for Durable {
            status,
            needed,
            bytes,
            ..
        } in &self.subscriptions
        {
            let name = &status.name;
            let violated = |what: &str| Err(format!("DL-2: subscription {name} {what}"));
            if !needed.iter().is_sorted_by(|a, b| a.position < b.position) {
                return violated("has answers that are not in their order");
            }
            if (needed.front()).is_some_and(|oldest| oldest.position <= status.terms.after) {
                return violated("keeps an answer that was acknowledged or let go");
            }
            if needed.iter().map(|answer| answer.bytes).sum::<u64>() != *bytes {
                return violated("counts other bytes than those of its answers");
            }
            if status.ended.is_some() && !needed.is_empty() {
                return violated("has ended and keeps answers");
            }
        }
        Ok(())
    }
}

/// Whether an answer has no rows.
pub(crate) type IsEmpty = bool;

impl Durable {
    fn wants(&self, is_empty: Option<IsEmpty>) -> bool {
        is_empty.is_some_and(|is_empty| self.status.terms.empties || !is_empty)
    }

    fn add(&mut self, answer: NeededAnswer) {
        if answer.position > self.status.terms.after && self.status.ended.is_none() {
            self.bytes += answer.bytes;
            self.needed.push_back(answer);
        }
    }

    /// It no longer needs the answers up to this one.
    fn advance(&mut self, through: AnswerPosition) {
        let after = &mut self.status.terms.after;
        *after = through.max(*after);
        while let Some(oldest) = self.needed.front()
            && oldest.position <= *after
        {
            self.bytes -= oldest.bytes;
            self.needed.pop_front();
        }
    }

    /// The oldest answers that its terms do not allow; the newest is kept however large it is.
    fn exceeded(&self, now: Instant) -> Option<Exceeded> {
        let terms = &self.status.terms;
        let count = self.needed.len();
        let too_many = (count as u64).saturating_sub(terms.answers.max(1));
        let is_late = |answer: &&NeededAnswer| self.is_late(answer, now);
        let late = self.needed.iter().take_while(is_late).count() as u64;
        let (mut bytes, mut too_large) = (self.bytes, 0);
        for answer in self.needed.iter().take(count.saturating_sub(1)) {
            if bytes <= terms.bytes {
                break;
            }
            bytes -= answer.bytes;
            too_large += 1;
        }
        let (answers, why) = [
            (too_many, SubscriptionLimit::Answers),
            (too_large, SubscriptionLimit::Bytes),
            (late, SubscriptionLimit::Deadline),
        ]
        .into_iter()
        .rev()
        .max_by_key(|(answers, _)| *answers)?;
        let newest = usize::try_from(answers.checked_sub(1)?).ok()?;
        Some(Exceeded {
            query: self.status.query.clone(),
            subscription: self.status.name.clone(),
            after: terms.after,
            through: self.needed.get(newest)?.position,
            answers,
            why,
        })
    }

    fn deadline(&self) -> Option<Duration> {
        self.status.terms.deadline_ms.map(Duration::from_millis)
    }

    /// Whether an answer should have been acknowledged by now.
    fn is_late(&self, answer: &NeededAnswer, now: Instant) -> bool {
        let age = now.saturating_duration_since(answer.since);
        self.deadline().is_some_and(|deadline| age >= deadline)
    }

    /// When the next answer that is not late becomes so.
    fn next_deadline(&self, now: Instant) -> Option<Instant> {
        let next = self
            .needed
            .iter()
            .find(|answer| !self.is_late(answer, now))?;
        next.since.checked_add(self.deadline()?)
    }

    fn state(&self, now: Instant) -> DurableState {
        let handed = (self.needed).partition_point(|it| Some(it.position) <= self.handed);
        let oldest = self.needed.front();
        DurableState {
            status: self.status.clone(),
            needed: self.needed.len() as u64,
            bytes: self.bytes,
            handed: handed as u64,
            oldest: oldest.map(|answer| answer.position),
            newest: self.needed.back().map(|answer| answer.position),
            oldest_age: oldest.map(|answer| now.saturating_duration_since(answer.since)),
            acknowledged: self.figures.acknowledged,
            acknowledged_age: (self.figures.acknowledged_at)
                .map(|at| now.saturating_duration_since(at)),
            repeats: self.figures.repeats,
            exceeded: self.exceeded(now),
        }
    }

    fn ring(&self) {
        for bell in self.bells.iter().filter_map(Weak::upgrade) {
            bell.ring();
        }
    }
}
