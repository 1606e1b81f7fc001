//! The hub of one continuous query: keeps the newest of its answers for subscribers that reconnect, and hands them to the
//! live ones. They come here in the order of their closes (WI-2).

use crate::subscription::{
    FiringId, FiringResult, Mailbox, SubscribeOptions, Subscription, SubscriptionEvent,
};
use std::collections::VecDeque;
use std::sync::{Arc, Weak};

/// See the module. Behind a mutex of its owner.
pub(crate) struct Hub {
    capacity: usize,
    kept: VecDeque<Arc<FiringResult>>,
    /// The newest firing that is kept no more.
    gone: Option<FiringId>,
    subscribers: Vec<Weak<Mailbox>>,
    ended: bool,
}

impl Hub {
    pub(crate) fn new(capacity: usize) -> Hub {
        Hub {
            capacity,
            kept: VecDeque::new(),
            gone: None,
            subscribers: Vec::new(),
            ended: false,
        }
    }

    /// Gives subscribers an answer.
    pub(crate) fn deliver(&mut self, result: &Arc<FiringResult>) {
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
