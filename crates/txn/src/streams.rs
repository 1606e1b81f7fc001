//! Streams as procedures see them: the messages that some consumer or owned window still needs.
//!
//! Before changing anything here: a message is a place, a time and what led to it. Its statements
//! are held elsewhere, until its place is released.

use crate::event::Round;
use crate::shape::StreamSource;
use serde::{Deserialize, Serialize};
use somersault_model::EventTime;
use std::collections::VecDeque;

/// A message that is still needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    pub(crate) at: EventTime,
    pub(crate) arrival: Arrival,
}

/// How a message came into its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Arrival {
    /// By a client.
    Pushed {
        /// The number of inputs before it, of all streams.
        stamp: u64,
    },
    /// By a transaction.
    Emitted {
        /// Its round.
        round: Round,
        /// The number of the entry that began the round.
        root: u64,
    },
}

/// A stream.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    source: StreamSource,
    /// The place of the next message.
    next: u64,
    /// The messages before it that are needed, without a gap.
    kept: VecDeque<Kept>,
    /// No message before this time is missing.
    through: EventTime,
    /// The number of kept messages that are older than the one before them.
    descents: u64,
}

impl Stream {
    pub(crate) fn new(source: StreamSource) -> Stream {
        Stream {
            source,
            next: 1,
            kept: VecDeque::new(),
            through: EventTime::MIN,
            descents: 0,
        }
    }

    pub(crate) fn restore(source: StreamSource, next: u64, through: EventTime) -> Stream {
        Stream {
            next,
            through,
            ..Stream::new(source)
        }
    }

    pub(crate) fn is_pushed(&self) -> bool {
        self.source == StreamSource::Pushed
    }

    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// The first place that is kept.
    pub(crate) fn first(&self) -> u64 {
        self.next - self.kept.len() as u64
    }

    pub(crate) fn through(&self) -> EventTime {
        self.through
    }

    pub(crate) fn kept(&self) -> impl Iterator<Item = &Kept> {
        self.kept.iter()
    }

    pub(crate) fn find(&self, place: u64) -> Option<&Kept> {
        let at = place.checked_sub(self.first())?;
        self.kept.get(usize::try_from(at).ok()?)
    }

    /// A message that a consumer or window needs.
    pub(crate) fn get(&self, place: u64) -> &Kept {
        self.find(place).expect("a message that is needed is kept")
    }

    /// Appends a message. Without a consumer it only counts.
    pub(crate) fn append(&mut self, message: Kept, is_needed: bool) {
        self.next += 1;
        if !is_needed {
            debug_assert!(self.kept.is_empty(), "without a consumer nothing is kept");
            return;
        }
        if self.kept.back().is_some_and(|last| last.at > message.at) {
            self.descents += 1;
        }
        self.kept.push_back(message);
    }

    /// The stream stands here, and no consumer needs what lies before.
    pub(crate) fn begin(&mut self, next: u64, through: EventTime) {
        self.next = next;
        self.complete(through);
    }

    /// No message before this time is missing. Says whether that is new.
    pub(crate) fn complete(&mut self, through: EventTime) -> bool {
        let is_later = through > self.through;
        self.through = self.through.max(through);
        is_later
    }

    /// Lets go of the messages below a place. Says whether there were any.
    pub(crate) fn release(&mut self, below: u64) -> bool {
        let before = self.kept.len();
        while self.first() < below
            && let Some(gone) = self.kept.pop_front()
        {
            if self.kept.front().is_some_and(|next| next.at < gone.at) {
                self.descents -= 1;
            }
        }
        self.kept.len() < before
    }

    /// Whether the kept messages are in the order of their times.
    pub(crate) fn is_in_time_order(&self) -> bool {
        self.descents == 0
    }
}
