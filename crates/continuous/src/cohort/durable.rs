//! Durable subscriptions to members of a cohort, and their readers.
//!
//! The one thing to know before changing it: the driver's thread only notes the changes, in their
//! order among those of the members. A reader holds no answers but those of its last portion: all
//! others stay in the hub until it asks.

use super::{Cohort, MembershipChange};
use crate::delivery::hub::{DurableChange, Handed};
use crate::delivery::outbox::{Bell, DurableState};
use crate::subscriptions::{FiringId, FiringResult};
use somersault_dictionary::Dictionary;
use somersault_log::{AnswerPosition, SubscriptionLimit};
use somersault_model::QueryUid;
use somersault_runtime::LimitReport;
use somersault_stream::{MemberId, QueryChange};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// The number of answers that a reader takes at once.
const PORTION: usize = 16;

impl Cohort {
    /// Notes the change, if it is one of a durable subscription.
    pub(crate) fn durable_changed(&self, change: QueryChange) {
        match change {
            QueryChange::Subscribed { slot, subscription } => {
                if subscription.terms.deadline_ms.is_some() {
                    self.has_deadlines.store(true, Ordering::Relaxed);
                }
                self.note_durable(slot, DurableChange::Subscribed(subscription));
            }
            QueryChange::Acknowledged {
                slot,
                subscription,
                through,
            } => {
                let acknowledged = DurableChange::Acknowledged {
                    subscription,
                    through,
                };
                self.note_durable(slot, acknowledged);
            }
            QueryChange::LetGo { slot, subscription } => {
                self.note_durable(slot, DurableChange::LetGo(subscription));
            }
            QueryChange::Unsubscribed { slot, subscription } => {
                self.note_durable(slot, DurableChange::Unsubscribed(subscription));
            }
            // There are no other changes yet.
            _ => {}
        }
    }

    /// Notes a change of a durable subscription to the member in a slot.
    fn note_durable(&self, slot: u32, change: DurableChange) {
        let changes = &mut self.pending.lock().changes;
        if let DurableChange::Acknowledged { subscription, .. } = &change
            && let Some(MembershipChange::Durable(of, last)) = changes.last_mut()
            && *of == slot
            && matches!(last, DurableChange::Acknowledged { subscription: of, .. } if of == subscription)
        {
            *last = change;
            return;
        }
        changes.push(MembershipChange::Durable(slot, change));
    }

    /// The durable subscriptions to the member in a slot.
    pub(crate) fn durable(&self, slot: u32) -> Vec<DurableState> {
        self.settled_hub().durable(slot, self.resources.now())
    }

    /// Whether it ever had a durable subscription with a deadline.
    pub(crate) fn has_deadlines(&self) -> bool {
        self.has_deadlines.load(Ordering::Relaxed)
    }

    /// How the durable subscriptions stand to their limits. The driver's thread must not call it.
    pub(crate) fn limits(&self) -> LimitReport {
        self.settled_hub().limits(self.resources.now())
    }

    /// The position of a kept answer of the member in a slot.
    pub(crate) fn position_of(&self, slot: u32, id: &FiringId) -> Option<AnswerPosition> {
        self.settled_hub().position_of(slot, id)
    }

    fn hand(
        &self,
        reader: (u32, QueryUid, &str),
        after: AnswerPosition,
        most: usize,
    ) -> Option<Handed> {
        self.settled_hub().hand(reader, after, most)
    }
}

/// The events of a durable subscription.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum DurableEvent {
    /// The next answer. It comes again to the next reader unless it is acknowledged.
    Firing(Arc<FiringResult>),
    /// Answers that were let go since the last acknowledgement, because a limit of the subscription
    /// was reached.
    Missed {
        /// Their number.
        answers: u64,
    },
    /// The subscription has ended: nothing is kept for it any more.
    Ended {
        /// The reason and the remedy, as a sentence.
        message: String,
    },
}

/// A reader of a durable subscription, from the first answer on that is not acknowledged.
pub struct DurableReader {
    cohort: Arc<Cohort>,
    decoder: Arc<Dictionary>,
    member: MemberId,
    uid: QueryUid,
    name: String,
    /// The newest answer that it has taken.
    after: AnswerPosition,
    portion: VecDeque<Arc<FiringResult>>,
    /// The number of answers that it may still take.
    left: u64,
    /// The number of missed answers that it was told.
    told: u64,
    is_over: bool,
    bell: Arc<Bell>,
}

impl DurableReader {
    pub(crate) fn new(
        cohort: Arc<Cohort>,
        decoder: Arc<Dictionary>,
        (member, uid): (MemberId, QueryUid),
        name: &str,
    ) -> DurableReader {
        let bell = Arc::new(Bell::default());
        let mut hub = cohort.settled_hub();
        hub.listen((member.slot, name), &bell);
        drop(hub);
        DurableReader {
            cohort,
            decoder,
            member,
            uid,
            name: name.to_owned(),
            after: AnswerPosition::START,
            portion: VecDeque::new(),
            left: u64::MAX,
            told: 0,
            is_over: false,
            bell,
        }
    }

    /// Returns the uid of the query that it reads.
    pub fn uid(&self) -> u64 {
        self.uid.0
    }

    /// Lets it take this number of answers, and none after them.
    pub fn limit(&mut self, answers: u64) {
        self.left = answers;
    }

    /// Returns the next event if there is one. After [`DurableEvent::Ended`] there is none.
    pub fn try_recv(&mut self) -> Option<DurableEvent> {
        if let Some(firing) = self.portion.pop_front() {
            return Some(DurableEvent::Firing(firing));
        }
        let most = usize::try_from(self.left).map_or(PORTION, |left| left.min(PORTION));
        if self.is_over || most == 0 {
            return None;
        }
        self.bell.silence();
        let reader = (self.member.slot, self.uid, self.name.as_str());
        let Some(handed) = self.cohort.hand(reader, self.after, most) else {
            let message = "the subscription was deleted, or the engine stops".to_owned();
            return Some(self.end(message));
        };
        let missed = handed.status.missed;
        if missed > self.told {
            let answers = missed - self.told;
            self.told = missed;
            return Some(DurableEvent::Missed { answers });
        }
        self.told = missed;
        if let Some(limit) = handed.status.ended {
            return Some(self.end(ended_by(limit)));
        }
        for (position, firing) in handed.answers(&self.decoder) {
            self.after = position;
            self.left -= 1;
            self.portion.push_back(firing);
        }
        self.portion.pop_front().map(DurableEvent::Firing)
    }

    fn end(&mut self, message: String) -> DurableEvent {
        self.is_over = true;
        DurableEvent::Ended { message }
    }

    /// Waits for the next event until `timeout` has passed; `None` if there is none by then.
    pub fn recv_timeout(&mut self, timeout: Duration) -> Option<DurableEvent> {
        let until = Instant::now() + timeout;
        loop {
            if let Some(event) = self.try_recv() {
                return Some(event);
            }
            if self.is_over || !self.bell.wait_until(until) {
                return None;
            }
        }
    }

    /// As [`DurableReader::recv_timeout`] for asynchronous callers, without a timeout; `None` after
    /// [`DurableEvent::Ended`].
    pub fn poll_recv(&mut self, context: &Context<'_>) -> Poll<Option<DurableEvent>> {
        loop {
            if let Some(event) = self.try_recv() {
                return Poll::Ready(Some(event));
            }
            if self.is_over {
                return Poll::Ready(None);
            }
            if self.bell.poll(context).is_pending() {
                return Poll::Pending;
            }
        }
    }
}

impl std::fmt::Debug for DurableReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DurableReader")
            .field("query", &self.uid.0)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// The sentence about a durable subscription that has ended at a limit.
pub fn ended_by(limit: SubscriptionLimit) -> String {
    let limit = match limit {
        SubscriptionLimit::Answers => "more answers waited for its reader than it may keep",
        SubscriptionLimit::Bytes => {
            "the answers that waited for its reader took more memory than they may"
        }
        SubscriptionLimit::Deadline => "an answer was not acknowledged within its deadline",
    };
    format!(
        "the subscription has ended, because {limit}; delete it and create it again, with a larger limit or one that skips the oldest"
    )
}
