//! Acknowledgements: answers that wait for a log position to be durable. The log's own thread sends
//! them as soon as a group is durable, so that an update being evaluated delays no push.

use crate::error::RuntimeError;
use crossbeam_channel::Sender;
use parking_lot::Mutex;
use somersault_log::{LogError, Position};
use std::collections::VecDeque;

/// An answer to send once a position is durable.
pub(crate) struct Ack<T> {
    pub(crate) position: Position,
    pub(crate) answer: T,
    pub(crate) reply: Sender<Result<T, RuntimeError>>,
}

/// Waiting acknowledgements, in order of position.
pub(crate) struct Acks<T> {
    waiting: Mutex<VecDeque<Ack<T>>>,
}

impl<T> Acks<T> {
    pub(crate) fn new() -> Acks<T> {
        Acks {
            waiting: Mutex::new(VecDeque::new()),
        }
    }

    /// Adds an acknowledgement. One thread adds all of them, in ascending order of position.
    pub(crate) fn add(&self, ack: Ack<T>) {
        self.waiting.lock().push_back(ack);
    }

    /// Answers those whose position is durable and, if the log has failed, all others with the
    /// failure.
    pub(crate) fn settle(&self, durable: Position, failed: Option<LogError>) {
        loop {
            let ack = {
                let mut waiting = self.waiting.lock();
                match waiting.front() {
                    Some(ack) if ack.position <= durable || failed.is_some() => waiting.pop_front(),
                    _ => None,
                }
            };
            let Some(ack) = ack else { return };
            let result = if ack.position <= durable {
                Ok(ack.answer)
            } else {
                Err(failed.clone().map_or(RuntimeError::Stopped, |error| {
                    RuntimeError::Log(error).unproven()
                }))
            };
            // A caller that no longer waits is no error.
            let _ = ack.reply.send(result);
        }
    }
}
