//! The hub of one continuous query: keeps the newest of its answers for subscribers that reconnect, and hands them to the
//! live ones. They come here in the order of their closes (WI-2).

use crate::subscription::{FiringId, FiringResult, Gone, Mailbox, SubscribeOptions, Subscription};
use somersault_model::QueryUid;
use std::collections::VecDeque;
use std::sync::{Arc, Weak};

/// See the module. Behind a mutex of its owner.
pub(crate) struct Hub {
    capacity: usize,
    kept: VecDeque<Arc<FiringResult>>,
    gone: Gone,
    subscribers: Vec<Weak<Mailbox>>,
    ended: bool,
}

impl Hub {
    pub(crate) fn new(capacity: usize) -> Hub {
        Hub {
            capacity,
            kept: VecDeque::new(),
            gone: Gone::default(),
            subscribers: Vec::new(),
            ended: false,
        }
    }

    /// An answer was given to everybody before a restart, and is not kept: who has not seen it has missed it.
    pub(crate) fn note_gone(&mut self, id: FiringId) {
        self.gone.note(id);
    }

    /// Gives subscribers an answer.
    pub(crate) fn deliver(&mut self, result: &Arc<FiringResult>) {
        self.kept.push_back(Arc::clone(result));
        while self.kept.len() > self.capacity {
            if let Some(gone) = self.kept.pop_front() {
                self.gone.note(gone.id());
            }
        }
        self.subscribers.retain(|subscriber| {
            let mailbox = subscriber.upgrade();
            if let Some(mailbox) = &mailbox {
                mailbox.deliver(result);
            }
            mailbox.is_some()
        });
    }

    /// What the answers take that are kept.
    pub(crate) fn kept_bytes(&self) -> usize {
        let answers = self
            .kept
            .iter()
            .filter_map(|kept| kept.answer.as_ref().ok());
        answers.map(|answer| answer.inner().memory_bytes()).sum()
    }

    /// A reader of the answers of the query, whose uid this is.
    pub(crate) fn subscribe(&mut self, uid: QueryUid, options: &SubscribeOptions) -> Subscription {
        let newest = self.kept.back().map(|result| result.id());
        let options = options.at(newest.or(self.gone.newest()));
        let capacity = options.capacity.max(self.kept.len()).max(1);
        let mailbox = Arc::new(Mailbox::new(&options, capacity, self.gone));
        for result in &self.kept {
            mailbox.deliver(result);
        }
        if self.ended {
            mailbox.end();
        } else {
            self.subscribers.push(Arc::downgrade(&mailbox));
        }
        Subscription::new(uid, mailbox)
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
