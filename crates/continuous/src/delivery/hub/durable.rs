//! Durable subscriptions to the members of a cohort: the outbox says which results they need, and
//! the hub keeps those and cuts the answers.

use super::{CohortHub, Member};
use crate::delivery::outbox::{Bell, DurableState, NeededAnswer};
use crate::evaluation::outcome::CohortResult;
use crate::subscriptions::{FiringId, FiringResult};
use somersault_dictionary::Dictionary;
use somersault_log::AnswerPosition;
use somersault_model::QueryUid;
use somersault_runtime::{LimitReport, OutboxReport};
use somersault_stream::SubscriptionStatus;
use std::sync::Arc;
use std::time::Instant;

/// A change of a durable subscription.
pub(crate) enum DurableChange {
    Subscribed(SubscriptionStatus),
    Acknowledged {
        subscription: String,
        through: AnswerPosition,
    },
    LetGo(SubscriptionStatus),
    Unsubscribed(String),
}

/// Results for a reader of a durable subscription.
pub(crate) struct Handed {
    pub(crate) status: SubscriptionStatus,
    member: Member,
    results: Vec<Arc<CohortResult>>,
}

impl Handed {
    /// Cuts the answers out of the results; call it without the lock of the hub.
    pub(crate) fn answers<'h>(
        &'h self,
        dictionary: &'h Arc<Dictionary>,
    ) -> impl Iterator<Item = (AnswerPosition, Arc<FiringResult>)> + 'h {
        let results = self.results.iter();
        results.map(|result| {
            let own = self.member.cut(result, dictionary);
            (result.position(), Arc::new(own))
        })
    }
}

impl CohortHub {
    /// Puts a change in place.
    pub(crate) fn put_durable(&mut self, slot: u32, change: DurableChange, now: Instant) {
        let slot = self.ledger.newest(slot);
        match change {
            DurableChange::Subscribed(status) => {
                let cell = self.ledger.cell(slot);
                let empties = status.terms.empties;
                let is_received = |result: &&Arc<CohortResult>| {
                    let is_empty = cell.is_none_or(|cell| result.outcome.is_empty(cell));
                    self.ledger.fires(slot, &result.firing) && (empties || !is_empty)
                };
                let kept: Vec<NeededAnswer> = (self.kept.iter())
                    .filter(is_received)
                    .map(|result| NeededAnswer {
                        position: result.position(),
                        bytes: result.outcome.memory_bytes() as u64,
                        since: now,
                    })
                    .collect();
                self.outbox.subscribe(slot, status, kept.into_iter());
                // Nothing is let go: after a restart, the next one may need what this one does not.
                return;
            }
            DurableChange::Acknowledged {
                subscription,
                through,
            } => (self.outbox).acknowledge((slot, &subscription), through, now),
            DurableChange::LetGo(status) => self.outbox.let_go(slot, status),
            DurableChange::Unsubscribed(name) => self.outbox.unsubscribe(slot, &name),
        }
        #[cfg(debug_assertions)]
        debug_assert_eq!(self.outbox.check(), Ok(()));
        self.evict();
    }

    /// A result is kept: durable subscriptions of members that fire in it need it.
    pub(super) fn put_into_outbox(&mut self, result: &CohortResult, bytes: usize, now: Instant) {
        if self.outbox.is_empty() {
            return;
        }
        let answer = NeededAnswer {
            position: result.position(),
            bytes: bytes as u64,
            since: now,
        };
        let ledger = &self.ledger;
        self.outbox.answered(answer, |slot| {
            let cell = ledger.cell(slot)?;
            let fires = ledger.fires(slot, &result.firing);
            fires.then(|| result.outcome.is_empty(cell))
        });
    }

    /// What the driver needs to know of the outbox; `None` if there is no durable subscription.
    pub(crate) fn outbox_report(&self, now: Instant) -> Option<Box<OutboxReport>> {
        if self.outbox.is_empty() {
            return None;
        }
        Some(Box::new(OutboxReport {
            needed_from: self.outbox.oldest_needed().map(|oldest| oldest.sn),
            limits: self.limits(now),
        }))
    }

    /// How the durable subscriptions stand to their limits.
    pub(crate) fn limits(&self, now: Instant) -> LimitReport {
        LimitReport {
            exceeded: self.outbox.exceeded(now),
            next_deadline: self.outbox.next_deadline(now),
        }
    }

    /// Gives the reader of a subscription up to `most` results after this position; `None` if the
    /// subscription or its query has been dropped.
    pub(crate) fn hand(
        &mut self,
        (slot, uid, name): (u32, QueryUid, &str),
        after: AnswerPosition,
        most: usize,
    ) -> Option<Handed> {
        if self.ended {
            return None;
        }
        let slot = self.ledger.newest(slot);
        let cell = self.ledger.cell(slot)?;
        let (status, positions) = self.outbox.hand((slot, name), after, most)?;
        let results = positions.into_iter().filter_map(|position| {
            let at = (self.kept).binary_search_by_key(&position, |result| result.position());
            debug_assert!(at.is_ok(), "DL-2: a needed answer is kept");
            self.kept.get(at.ok()?).cloned()
        });
        Some(Handed {
            member: Member {
                uid,
                name: status.query.clone(),
                cell,
            },
            results: results.collect(),
            status,
        })
    }

    /// Adds the bell of a reader.
    pub(crate) fn listen(&mut self, (slot, name): (u32, &str), bell: &Arc<Bell>) {
        let slot = self.ledger.newest(slot);
        self.outbox.listen(slot, name, bell);
    }

    /// The durable subscriptions to the member in a slot.
    pub(crate) fn durable(&self, slot: u32, now: Instant) -> Vec<DurableState> {
        (self.outbox).states(self.ledger.newest(slot), now)
    }

    /// The position of a kept answer of the member in a slot.
    pub(crate) fn position_of(&self, slot: u32, id: &FiringId) -> Option<AnswerPosition> {
        let slot = self.ledger.newest(slot);
        let mut newest_first = self.kept.iter().rev();
        let found = newest_first
            .find(|result| id.is_of(result.position()) && self.ledger.fires(slot, &result.firing));
        found.map(|result| result.position())
    }
}
