//! Acknowledgements: answers that wait for a log position to be durable. The log's own thread sends
//! them as soon as a group is durable, so they wait for nothing that the sequencer does.

use super::requests::Reply;
use crate::error::RuntimeError;
use crossbeam_channel::{Receiver, Sender, unbounded};
use parking_lot::Mutex;
use somersault_log::{LogError, Position};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering, fence};

/// An answer to send once a position is durable.
pub(crate) struct Ack<T> {
    pub(crate) position: Position,
    pub(crate) answer: T,
    pub(crate) reply: Reply<T>,
}

impl<T> Ack<T> {
    fn confirm(self) {
        self.reply.send(Ok(self.answer));
    }

    fn refuse(self, error: &LogError) {
        let error = RuntimeError::Log(error.clone()).unproven();
        self.reply.send(Err(error));
    }
}

/// Waiting acknowledgements. The sequencer adds them without a lock; the thread that settles takes
/// one for all that are ready.
pub(crate) struct Acks<T> {
    added: Sender<Ack<T>>,
    queue: Mutex<AckQueue<T>>,
    /// Whether the log makes nothing more durable.
    has_failed: AtomicBool,
}

struct AckQueue<T> {
    added: Receiver<Ack<T>>,
    /// In order of position.
    waiting: VecDeque<Ack<T>>,
    failure: Option<LogError>,
}

impl<T> Acks<T> {
    pub(crate) fn new() -> Acks<T> {
        let (sender, added) = unbounded();
        Acks {
            added: sender,
            queue: Mutex::new(AckQueue {
                added,
                waiting: VecDeque::new(),
                failure: None,
            }),
            has_failed: AtomicBool::new(false),
        }
    }

    /// Sends this answer as soon as its position is durable. One thread calls it, in ascending
    /// order of position. `durable` reads how far the log is.
    pub(crate) fn answer(&self, ack: Ack<T>, durable: impl Fn() -> Position) {
        let position = ack.position;
        if position <= durable() {
            ack.confirm();
            return;
        }
        // The queue holds the other end.
        let _ = self.added.send(ack);
        // The group may have become durable before the acknowledgement was added. The fence is the
        // one of `settle`: one of the two threads sees what the other has done.
        fence(Ordering::SeqCst);
        if position <= durable() || self.has_failed.load(Ordering::SeqCst) {
            self.settle(durable(), None);
        }
    }

    /// Answers those whose position is durable and, if the log has failed, all others with the
    /// failure.
    pub(crate) fn settle(&self, durable: Position, failure: Option<LogError>) {
        let mut queue = self.queue.lock();
        if failure.is_some() {
            queue.failure = queue.failure.take().or(failure);
            self.has_failed.store(true, Ordering::SeqCst);
        }
        fence(Ordering::SeqCst);
        let AckQueue {
            added,
            waiting,
            failure,
        } = &mut *queue;
        waiting.extend(added.try_iter());
        let ready = waiting.partition_point(|ack| ack.position <= durable);
        waiting.drain(..ready).for_each(Ack::confirm);
        if let Some(error) = failure {
            waiting.drain(..).for_each(|ack| ack.refuse(error));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slot::{Awaited, Found, slot};
    use std::cell::Cell;

    type Answer = Awaited<Result<u64, RuntimeError>>;

    fn ack(position: u64) -> (Ack<u64>, Answer) {
        let (reply, answer) = slot();
        let ack = Ack {
            position: Position(position),
            answer: position,
            reply: Reply::new(reply, None),
        };
        (ack, answer)
    }

    fn is_answered(answer: &Answer) -> bool {
        matches!(answer.look(), Found::Answer(Ok(_)))
    }

    #[test]
    fn an_answer_waits_for_its_position_and_no_longer() {
        let acks = Acks::new();
        let answers = [1, 2, 3].map(|position| {
            let (ack, answer) = ack(position);
            acks.answer(ack, || Position(1));
            answer
        });
        let [first, second, third] = answers;
        assert!(is_answered(&first) && !is_answered(&second));
        acks.settle(Position(2), None);
        assert!(is_answered(&second) && !is_answered(&third));
    }

    #[test]
    fn a_group_that_becomes_durable_meanwhile_is_noticed() {
        let acks = Acks::new();
        let (ack, answer) = ack(4);
        // The second reading finds what the first one missed.
        let durable = Cell::new(3);
        acks.answer(ack, || Position(durable.replace(4)));
        assert!(is_answered(&answer));
    }

    #[test]
    fn after_a_failure_nothing_waits() {
        let acks = Acks::new();
        let (before, answer) = ack(5);
        acks.answer(before, || Position(1));
        let failure = LogError::Closed {
            position: Position(5),
        };
        acks.settle(Position(4), Some(failure));
        assert!(matches!(answer.look(), Found::Answer(Err(_))));
        let (after, answer) = ack(6);
        acks.answer(after, || Position(4));
        assert!(matches!(answer.look(), Found::Answer(Err(_))));
    }
}
