//! The hub of one continuous query: puts its answers in close order, keeps the newest of them for
//! subscribers that reconnect, and hands them to the live ones (WI-2).

use crate::changes::Changes;
use crate::subscription::{
    FiringId, FiringResult, Mailbox, SubscribeOptions, Subscription, SubscriptionEvent,
};
use somersault_stream::FiringKey;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Weak};

/// A firing whose turn has come.
pub(crate) struct Published {
    pub(crate) key: FiringKey,
    /// What subscribers were given; `None` where they had it before a restart.
    pub(crate) result: Option<Arc<FiringResult>>,
}

/// See the module. Behind a mutex of its owner.
pub(crate) struct Hub {
    capacity: usize,
    next_ticket: u64,
    next_published: u64,
    /// Answers whose predecessors are still being computed, and whether they are of the query's first firing.
    early: BTreeMap<u64, (FiringResult, bool)>,
    /// Of a query with ISTREAM or DSTREAM.
    changes: Option<Changes>,
    kept: VecDeque<Arc<FiringResult>>,
    /// The newest firing that is kept no more.
    gone: Option<FiringId>,
    subscribers: Vec<Weak<Mailbox>>,
    ended: bool,
}

impl Hub {
    pub(crate) fn new(capacity: usize, changes: Option<Changes>) -> Hub {
        Hub {
            capacity,
            next_ticket: 0,
            next_published: 0,
            early: BTreeMap::new(),
            changes,
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
        self.early.insert(ticket, (result, is_first));
        let mut published = Vec::new();
        while let Some((result, is_first)) = self.early.remove(&self.next_published) {
            self.next_published += 1;
            let key = result.key();
            let result = match &mut self.changes {
                Some(changes) => changes.of(result, is_first),
                None => Some(result),
            };
            let result = result.map(Arc::new);
            if let Some(result) = &result {
                self.deliver(result);
            }
            published.push(Published { key, result });
        }
        published
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
