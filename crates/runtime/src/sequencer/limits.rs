//! The limits of durable subscriptions: the host reports answers that are beyond one, and the log
//! says that they are let go before they are.
//!
//! The one thing to know before changing it: the host counts answers and knows when each was ready,
//! and the sequencer's timer says when it has to look at them again. So an engine that does nothing
//! else keeps deadlines too. What is let go follows from the records alone.

use super::{Phase, Sequencer};
use crate::host::{Exceeded, LimitReport};
use somersault_stream::{Input, QueryChange, SubscriptionAsk, SubscriptionRequest};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The time after which answers that should have been let go are reported again, in case the log
/// did not take the record.
const AGAIN: Duration = Duration::from_secs(1);

impl Sequencer {
    /// Takes the host's report of the limits.
    pub(super) fn on_limits(&mut self, limits: LimitReport) {
        if matches!(self.phase, Phase::Recovering(_)) {
            // Acknowledgements are still to come, and the host is asked when the replay has ended.
            return;
        }
        if !limits.exceeded.is_empty() {
            self.look_at_deadlines_at(self.now.at + AGAIN);
        }
        self.exceeded.extend(limits.exceeded);
        if let Some(next) = limits.next_deadline {
            self.look_at_deadlines_at(next);
        }
    }

    /// A durable subscription with a deadline may have answers that wait already.
    pub(super) fn note_deadline(&mut self, change: &QueryChange) {
        if let QueryChange::Subscribed { subscription, .. } = change
            && subscription.terms.deadline_ms.is_some()
        {
            self.look_at_deadlines_at(self.now.at);
        }
    }

    fn look_at_deadlines_at(&mut self, at: Instant) {
        let next = self.next_deadline.get_or_insert(at);
        *next = at.min(*next);
    }

    /// The time of the next look at the deadlines, if inputs are taken.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        // If nothing can be logged any more, a look would lead to nothing.
        (self.next_deadline).filter(|_| self.refuse_if_failed().is_ok())
    }

    /// Asks the host which answers have reached their deadline, if it is time.
    pub(super) fn look_at_deadlines(&mut self) {
        if (self.next_deadline()).is_some_and(|next| next <= self.now.at) {
            self.next_deadline = None;
            Arc::clone(&self.shared.host).look_at_deadlines();
        }
    }

    /// Logs which answers durable subscriptions lose. If that fails, the host keeps them, and
    /// reports them again.
    pub(super) fn take_exceeded(&mut self) {
        while !self.has_turn()
            && let Some(exceeded) = self.exceeded.pop_front()
        {
            let Exceeded {
                query,
                subscription,
                after,
                through,
                answers,
                why,
            } = exceeded;
            let taken = self.take(Input::Subscription(SubscriptionRequest {
                received_ms: self.now.ms,
                query,
                name: subscription,
                ask: SubscriptionAsk::LetGo {
                    after,
                    through,
                    answers,
                    why,
                },
            }));
            if let Err(error) = taken {
                tracing::warn!(
                    "answers beyond the limit of a durable subscription are still kept: {error}"
                );
            }
        }
    }
}
