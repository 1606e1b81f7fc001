//! The MQTT source: one session with a fixed client id, QoS 1, acknowledged when durable.
//!
//! The one thing to know before changing it: MQTT has no positions, so they are given here,
//! counting on from the highest that the stream has taken. Before a portion is brought, the
//! positions of its messages are noted beside their packet numbers. The broker sends a message that
//! it has no acknowledgement for again, with its packet number and the mark DUP, also after a crash
//! of either side: it then has its old position, and the engine drops the repeat. A broker that has
//! forgotten the session begins with its numbers again, so what was noted is forgotten too.

use super::MqttOptions;
use super::link::{Link, LinkEvent};
use crate::error::SourceError;
use crate::source::{
    LOOK, Ledger, MessageBody, PORTION_BYTES, PORTION_MESSAGES, Portion, Source, SourceClass,
    SourceMessage,
};
use crate::worker::StopSignal;
use rumqttc::{Publish, QoS};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::time::Duration;

/// The acknowledged messages whose positions are noted: their acknowledgements may be lost.
const NOTED: usize = 256;

/// Brings the messages of topics.
pub struct MqttSource {
    options: MqttOptions,
    partition: String,
    link: Option<Link>,
    /// Messages that were brought and are not acknowledged.
    brought: VecDeque<Publish>,
    given: GivenPositions,
}

/// A message as the broker sends it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Delivery {
    number: u16,
    length: u64,
    checksum: u32,
}

impl Delivery {
    fn of(message: &Publish) -> Delivery {
        let checksum = crc32c::crc32c(message.topic.as_bytes());
        Delivery {
            number: message.pkid,
            length: message.payload.len() as u64,
            checksum: crc32c::crc32c_append(checksum, &message.payload),
        }
    }
}

/// The positions of the newest messages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct GivenPositions {
    /// The filter that the session subscribes to.
    filter: String,
    newest: VecDeque<(Delivery, u64)>,
    next: u64,
}

impl GivenPositions {
    /// The position of a message, and whether it is a new one.
    fn give(&mut self, message: &Publish) -> (u64, bool) {
        let delivery = Delivery::of(message);
        if message.dup && message.qos != QoS::AtMostOnce {
            let mut before = self.newest.iter().rev();
            if let Some((_, position)) = before.find(|(known, _)| *known == delivery) {
                return (*position, false);
            }
        }
        let position = self.next;
        self.next += 1;
        self.newest.push_back((delivery, position));
        (position, true)
    }

    /// Forgets the oldest, beyond those that are not acknowledged.
    fn trim(&mut self, unacknowledged: usize) {
        while self.newest.len() > unacknowledged + NOTED {
            self.newest.pop_front();
        }
    }

    fn to_json(&self) -> Value {
        let newest = self.newest.iter();
        let newest = newest.map(|(it, at)| json!([it.number, it.length, it.checksum, at]));
        json!({ "filter": self.filter, "newest": newest.collect::<Vec<_>>() })
    }

    /// What was noted; positions go on behind `taken`.
    fn of_json(note: Option<&Value>, taken: Option<u64>) -> GivenPositions {
        let read = |entry: &Value| {
            let delivery = Delivery {
                number: u16::try_from(entry[0].as_u64()?).ok()?,
                length: entry[1].as_u64()?,
                checksum: u32::try_from(entry[2].as_u64()?).ok()?,
            };
            Some((delivery, entry[3].as_u64()?))
        };
        let entries = note.and_then(|note| note["newest"].as_array());
        let newest: VecDeque<_> = entries.into_iter().flatten().filter_map(read).collect();
        let noted = newest.iter().map(|(_, position)| *position).max();
        let filter = note.and_then(|note| note["filter"].as_str());
        GivenPositions {
            filter: filter.unwrap_or_default().to_owned(),
            next: noted.max(taken).map_or(1, |highest| highest + 1),
            newest,
        }
    }
}

impl MqttSource {
    /// Returns a source of the name `source` for the topics of a broker.
    pub fn new(source: &str, options: MqttOptions) -> MqttSource {
        MqttSource {
            options,
            partition: source.to_owned(),
            link: None,
            brought: VecDeque::new(),
            given: GivenPositions::default(),
        }
    }

    fn failed(&self, cause: impl Into<String>) -> SourceError {
        SourceError::Broker {
            broker: self.options.broker(),
            cause: cause.into(),
        }
    }

    /// Subscribes, unless the session does already: a broker sends retained messages again with
    /// each subscription.
    fn subscribe(&mut self, link: &mut Link, ledger: &dyn Ledger) -> Result<(), SourceError> {
        let filter = self.options.topic.clone();
        if !link.knows_session {
            self.given.newest.clear();
        } else if self.given.filter == filter {
            return Ok(());
        } else if !self.given.filter.is_empty() {
            let ended = link.unsubscribe(&self.given.filter);
            ended.map_err(|cause| self.failed(cause))?;
        }
        link.subscribe(&filter)
            .map_err(|cause| self.failed(cause))?;
        self.given.filter = filter;
        ledger.keep(self.given.to_json())
    }

    /// The messages that are there, and come within a moment.
    fn receive(&self, link: &mut Link, stop: &StopSignal) -> Result<Vec<Publish>, SourceError> {
        let mut messages: Vec<Publish> = Vec::new();
        let mut bytes = 0;
        while messages.len() < PORTION_MESSAGES && bytes < PORTION_BYTES && !stop.is_set() {
            let time = match messages.is_empty() {
                true => LOOK,
                false => Duration::ZERO,
            };
            match link.next(time).map_err(|cause| self.failed(cause))? {
                Some(LinkEvent::Message(message)) => {
                    bytes += message.payload.len();
                    messages.push(message);
                }
                Some(_) => {}
                None => break,
            }
        }
        Ok(messages)
    }
}

impl Source for MqttSource {
    fn class(&self) -> SourceClass {
        SourceClass::OncePerSession
    }

    fn open(&mut self, ledger: &dyn Ledger, _stop: &StopSignal) -> Result<(), SourceError> {
        self.link = None;
        self.brought.clear();
        let taken = ledger.position(&self.partition)?;
        self.given = GivenPositions::of_json(ledger.note().as_ref(), taken);
        let link = Link::open(&self.options, true);
        let mut link = link.map_err(|cause| self.failed(cause))?;
        self.subscribe(&mut link, ledger)?;
        self.link = Some(link);
        Ok(())
    }

    fn next(
        &mut self,
        ledger: &dyn Ledger,
        stop: &StopSignal,
    ) -> Result<Option<Portion>, SourceError> {
        let Some(mut link) = self.link.take() else {
            return Err(self.failed("it is not open"));
        };
        let received = self.receive(&mut link, stop)?;
        self.link = Some(link);
        if received.is_empty() {
            return Ok(None);
        }
        let mut messages = Vec::with_capacity(received.len());
        let mut has_new = false;
        for mut message in received {
            let (position, is_new) = self.given.give(&message);
            has_new |= is_new;
            let payload = std::mem::take(&mut message.payload);
            messages.push(SourceMessage {
                position,
                at: None,
                body: MessageBody::new(payload.into()),
            });
            self.brought.push_back(message);
        }
        if has_new {
            self.given.trim(self.brought.len());
            ledger.keep(self.given.to_json())?;
        }
        Ok(Some(Portion {
            partition: self.partition.clone(),
            messages,
        }))
    }

    fn acknowledge(&mut self, messages: usize) -> Result<(), SourceError> {
        for _ in 0..messages {
            if let (Some(message), Some(link)) = (self.brought.pop_front(), &self.link) {
                let sent = link.acknowledge(&message);
                sent.map_err(|cause| self.failed(cause))?;
            }
        }
        Ok(())
    }

    /// A connection that keeps no session ends the one that the broker knows.
    fn forget(&mut self) -> Result<(), SourceError> {
        self.link = None;
        let ended = Link::open(&self.options, false);
        ended.map(drop).map_err(|cause| self.failed(cause))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(number: u16, payload: &str, dup: bool) -> Publish {
        let mut message = Publish::new("t", QoS::AtLeastOnce, payload);
        message.pkid = number;
        message.dup = dup;
        message
    }

    /// A message that is sent again has its position, also after a restart; an equal one has its
    /// own.
    #[test]
    fn a_message_that_is_sent_again_has_its_position() {
        let mut given = GivenPositions::of_json(None, Some(6));
        assert_eq!(given.give(&message(1, "a", false)), (7, true));
        assert_eq!(given.give(&message(2, "a", false)), (8, true));
        assert_eq!(given.give(&message(1, "a", true)), (7, false));
        assert_eq!(
            given.give(&message(1, "a", false)),
            (9, true),
            "it is not sent again"
        );
        assert_eq!(
            given.give(&message(2, "b", true)),
            (10, true),
            "it is another one"
        );
        let mut restored = GivenPositions::of_json(Some(&given.to_json()), Some(8));
        assert_eq!(restored, given);
        assert_eq!(restored.give(&message(2, "a", true)), (8, false));
        assert_eq!(restored.give(&message(3, "c", false)), (11, true));
    }

    #[test]
    fn a_message_without_acknowledgement_is_always_new() {
        let mut given = GivenPositions::of_json(None, None);
        let mut once = message(0, "a", false);
        once.qos = QoS::AtMostOnce;
        assert_eq!(given.give(&once), (1, true));
        assert_eq!(given.give(&once), (2, true));
    }
}
