//! The hub of one continuous query: puts its answers in close order, keeps the newest of them for
//! subscribers that reconnect, and hands them to the live ones (WI-2).

use crate::changes::Changes;
use crate::reporting::{Reporting, Verdict};
use crate::subscription::{
    FiringId, FiringResult, Mailbox, SubscribeOptions, Subscription, SubscriptionEvent,
};
use somersault_stream::FiringKey;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Weak};

/// A firing whose turn has come.
pub(crate) struct Published {
    pub(crate) key: FiringKey,
    /// Its answer; `None` where subscribers had it before a restart, and where it was skipped.
    pub(crate) result: Option<Arc<FiringResult>>,
}

/// A firing that waits for those before it.
struct Early {
    key: FiringKey,
    /// Its answer, and whether it is the query's first firing; `None` if it was skipped.
    answered: Option<(FiringResult, bool)>,
}

/// See the module. Behind a mutex of its owner.
pub(crate) struct Hub {
    capacity: usize,
    next_ticket: u64,
    next_published: u64,
    /// Firings whose predecessors are still being computed.
    early: BTreeMap<u64, Early>,
    /// Of a query with ISTREAM or DSTREAM.
    changes: Option<Changes>,
    /// Of a query that does not report every firing.
    reporting: Option<Reporting>,
    kept: VecDeque<Arc<FiringResult>>,
    /// The newest firing that is kept no more.
    gone: Option<FiringId>,
    subscribers: Vec<Weak<Mailbox>>,
    ended: bool,
}

impl Hub {
    pub(crate) fn new(
        capacity: usize,
        changes: Option<Changes>,
        reporting: Option<Reporting>,
    ) -> Hub {
        Hub {
            capacity,
            next_ticket: 0,
            next_published: 0,
            early: BTreeMap::new(),
            changes,
            reporting,
            kept: VecDeque::new(),
            gone: None,
            subscribers: Vec::new(),
            ended: false,
        }
    }

    /// The place of the next firing in the order of answers.
    pub(crate) fn ticket(&mut self) -> u64 {
        self.next_ticket += 1;
        self.next_ticket - 1
    }

    /// Takes an answer; returns the firings whose turn has come by it, in order.
    pub(crate) fn publish(
        &mut self,
        ticket: u64,
        result: FiringResult,
        is_first: bool,
    ) -> Vec<Published> {
        let early = Early {
            key: result.key(),
            answered: Some((result, is_first)),
        };
        self.early.insert(ticket, early);
        self.publish_ready()
    }

    /// A firing is not executed; returns the firings whose turn has come by it.
    pub(crate) fn skip(&mut self, ticket: u64, key: FiringKey) -> Vec<Published> {
        let answered = None;
        self.early.insert(ticket, Early { key, answered });
        self.publish_ready()
    }

    fn publish_ready(&mut self) -> Vec<Published> {
        let mut published = Vec::new();
        while let Some(Early { key, answered }) = self.early.remove(&self.next_published) {
            self.next_published += 1;
            let result = answered.and_then(|(result, is_first)| self.report(result, is_first));
            published.push(Published { key, result });
        }
        published
    }

    /// Gives subscribers what they are to have of an answer.
    fn report(&mut self, result: FiringResult, is_first: bool) -> Option<Arc<FiringResult>> {
        let result = match &mut self.changes {
            Some(changes) => changes.of(result, is_first)?,
            None => result,
        };
        let verdict = match &mut self.reporting {
            Some(reporting) => reporting.judge(&result, is_first),
            None => Verdict::Reported,
        };
        if verdict == Verdict::Repeated {
            return None;
        }
        let result = Arc::new(result);
        if verdict == Verdict::Reported {
            self.deliver(&result);
        }
        Some(result)
    }

    fn deliver(&mut self, result: &Arc<FiringResult>) {
        self.kept.push_back(Arc::clone(result));
        while self.kept.len() > self.capacity {
            let gone = self.kept.pop_front();
            self.gone = gone.map(|result| result.id()).or(self.gone);
        }
        self.subscribers.retain(|subscriber| {
            let mailbox = subscriber.upgrade();
            if let Some(mailbox) = &mailbox {
                mailbox.deliver(result);
            }
            mailbox.is_some()
        });
    }

    pub(crate) fn subscribe(&mut self, options: &SubscribeOptions) -> Subscription {
        let capacity = options.capacity.max(self.kept.len()).max(1);
        let mailbox = Arc::new(Mailbox::new(options, capacity, self.gone));
        if self.gone.is_some_and(|gone| options.has_not_seen(gone)) {
            mailbox.put(SubscriptionEvent::Lagged { missed: None });
        }
        for result in &self.kept {
            mailbox.deliver(result);
        }
        if self.ended {
            mailbox.end();
        } else {
            self.subscribers.push(Arc::downgrade(&mailbox));
        }
        Subscription::new(mailbox)
    }

    pub(crate) fn subscribers(&mut self) -> usize {
        self.subscribers
            .retain(|subscriber| subscriber.strong_count() > 0);
        self.subscribers.len()
    }

    /// No answers will come any more.
    pub(crate) fn end(&mut self) {
        self.ended = true;
        for subscriber in self.subscribers.drain(..) {
            if let Some(mailbox) = subscriber.upgrade() {
                mailbox.end();
            }
        }
    }
}
