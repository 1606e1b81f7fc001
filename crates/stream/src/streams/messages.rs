//! The messages of a stream: their places, and those that consumers still need.
//!
//! Before changing anything here: places follow from the log alone. Each push or message of which a
//! statement was taken, and each message that was emitted, has the next one; on a derived stream,
//! each firing that gives statements while it has a consumer. A stream without a consumer keeps no
//! message; with one it keeps them from the consumers' floor on, and they count
//! towards its BUDGET.

use crate::saved::streams::{SavedMessage, SavedMessages, StreamRecord};
use crate::saved::{CoreRecord, PORTION};
use somersault_model::{EventTime, Lease, Place, StreamUid, TripleIds};
use std::collections::VecDeque;
use std::sync::Arc;

/// The consumers of a stream, as far as the stream knows them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Consumers {
    /// The first place that one of them still needs.
    pub floor: Place,
    /// The name of that one.
    pub holder: String,
}

/// A message that a consumer has yet to read, or still shows in a window.
#[derive(Clone, Debug, PartialEq)]
pub struct KeptMessage {
    /// Its place among the messages of its stream.
    pub place: Place,
    /// Its event time.
    pub at: EventTime,
    /// Its statements, in order of arrival, without their graphs.
    pub statements: Arc<[TripleIds]>,
    /// The lease on the terms of its timing statements.
    pub lease: Option<Lease>,
}

impl KeptMessage {
    /// Its cost in statements, for BUDGET.
    fn cost(&self) -> u64 {
        self.statements.len() as u64 + 1
    }
}

/// The messages of one life of a stream.
#[derive(Debug, Default)]
pub(super) struct Messages {
    /// The place of the newest; their number.
    newest: u64,
    consumers: Option<Consumers>,
    /// Those that consumers need, ascending.
    kept: VecDeque<KeptMessage>,
    /// The sum of their costs.
    cost: u64,
    /// Those of `kept` that the driver has not been told of.
    untold: usize,
}

impl Messages {
    /// The messages of a stream that has had this many pushes, for a saved one.
    pub(super) fn restore(pushes: u64) -> Messages {
        Messages {
            newest: pushes,
            ..Messages::default()
        }
    }

    /// The messages as a checkpoint holds them, if more is to be said than the number of pushes.
    pub(super) fn save(&self, stream: StreamUid, pushes: u64, out: &mut Vec<CoreRecord>) {
        if self.newest == pushes && self.consumers.is_none() {
            return;
        }
        let consumers = self.consumers.as_ref();
        let saved = SavedMessages {
            newest: self.newest(),
            consumers: consumers.map(|it| (it.floor, it.holder.clone())),
        };
        let mut add = |record| out.push(CoreRecord::Stream(record));
        add(StreamRecord::Messages(stream, saved));
        let mut portion = Vec::new();
        let mut statements = 0;
        for message in &self.kept {
            statements += message.statements.len();
            portion.push(SavedMessage {
                place: message.place,
                at: message.at,
                epoch: message.lease.as_ref().map(|lease| lease.epoch().number()),
                statements: message.statements.to_vec(),
            });
            if statements >= PORTION || portion.len() == PORTION {
                add(StreamRecord::Kept(stream, std::mem::take(&mut portion)));
                statements = 0;
            }
        }
        if !portion.is_empty() {
            add(StreamRecord::Kept(stream, portion));
        }
    }

    /// Takes what a checkpoint says of the messages, before those that are kept.
    pub(super) fn take_saved(&mut self, saved: SavedMessages) {
        self.newest = saved.newest.0;
        self.consumers = saved
            .consumers
            .map(|(floor, holder)| Consumers { floor, holder });
    }

    /// Whether a saved message may stand behind those that are kept.
    pub(super) fn may_follow(&self, place: Place) -> bool {
        let before = self.kept.back().map(|message| message.place);
        let floor = self.consumers.as_ref().map(|consumers| consumers.floor);
        place <= self.newest() && Some(place) > before && floor.is_some_and(|floor| place >= floor)
    }

    /// The place of the newest message; their number.
    pub(super) fn newest(&self) -> Place {
        Place(self.newest)
    }

    pub(super) fn consumers(&self) -> Option<&Consumers> {
        self.consumers.as_ref()
    }

    /// The cost of the kept messages, in statements.
    pub(super) fn cost(&self) -> u64 {
        self.cost
    }

    /// The kept messages, ascending.
    pub(super) fn kept(&self) -> impl Iterator<Item = &KeptMessage> {
        self.kept.iter()
    }

    /// Gives a message the next place, and keeps it if the stream has a consumer.
    pub(super) fn add(&mut self, at: EventTime, statements: &[TripleIds], lease: Option<Lease>) {
        self.newest += 1;
        if self.consumers.is_none() {
            return;
        }
        let statements = Arc::from(statements);
        let place = Place(self.newest);
        self.keep(KeptMessage {
            place,
            at,
            statements,
            lease,
        });
        self.untold += 1;
    }

    /// Keeps a message behind all others.
    pub(super) fn keep(&mut self, message: KeptMessage) {
        self.cost += message.cost();
        self.kept.push_back(message);
    }

    /// The kept messages that came since the last call.
    pub(super) fn take_untold(&mut self) -> Vec<KeptMessage> {
        let told = self.kept.len() - std::mem::take(&mut self.untold);
        self.kept.range(told..).cloned().collect()
    }

    /// Sets who consumes the stream, and lets go of the messages that no consumer needs. The first
    /// consumer begins with the next message.
    pub(super) fn set_consumers(&mut self, consumers: Option<Consumers>) {
        let floor = consumers.as_ref().map(|consumers| consumers.floor);
        while let Some(first) = self.kept.front()
            && floor.is_none_or(|floor| first.place < floor)
        {
            self.cost -= first.cost();
            self.kept.pop_front();
        }
        self.untold = self.untold.min(self.kept.len());
        self.consumers = consumers;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use somersault_model::{Tag, TermId, VirtualShard};

    fn statements(count: u64) -> Vec<TripleIds> {
        let shard = VirtualShard::new(0).expect("there is a first one");
        let id = |number| TermId::in_dictionary(Tag::NamedNode, shard, number);
        let triple = |number| TripleIds {
            subject: id(number),
            predicate: id(0),
            object: id(1),
        };
        (0..count).map(triple).collect()
    }

    fn from(floor: u64) -> Option<Consumers> {
        Some(Consumers {
            floor: Place(floor),
            holder: "p".to_owned(),
        })
    }

    #[test]
    fn messages_are_kept_from_the_floor_on_while_there_is_a_consumer() {
        let mut messages = Messages::default();
        let add = |messages: &mut Messages, count| {
            messages.add(EventTime(5), &statements(count), None);
        };
        add(&mut messages, 1);
        assert_eq!((messages.newest(), messages.cost()), (Place(1), 0));
        messages.set_consumers(from(2));
        add(&mut messages, 3);
        add(&mut messages, 1);
        let places = |messages: &[KeptMessage]| -> Vec<u64> {
            messages.iter().map(|message| message.place.0).collect()
        };
        assert_eq!(places(&messages.take_untold()), [2, 3]);
        assert_eq!((messages.take_untold().len(), messages.cost()), (0, 6));
        add(&mut messages, 2);
        messages.set_consumers(from(3));
        assert_eq!(messages.cost(), 5);
        assert_eq!(places(&messages.take_untold()), [4]);
        messages.set_consumers(None);
        add(&mut messages, 2);
        assert_eq!((messages.newest(), messages.cost()), (Place(5), 0));
        assert_eq!(messages.kept().count(), 0);
    }
}
