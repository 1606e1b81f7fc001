//! The MQTT sink: each answer is published to a topic, as one line of JSON.
//!
//! The one thing to know before changing it: an answer counts as delivered once the broker has
//! acknowledged it (QoS 1). After a fault those without an acknowledgement are published again, and
//! receivers drop repeats by the member `id`.

use super::MqttOptions;
use super::link::{Link, LinkEvent};
use crate::error::SinkError;
use crate::line::{AnswerKey, line};
use crate::sink::{Sink, SinkClass};
use crate::worker::StopSignal;
use somersault::FiringResult;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The time within which the broker has to acknowledge an answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// The interval at which it looks whether it is to stop.
const LOOK: Duration = Duration::from_millis(20);

/// Publishes answers to a topic. It is *idempotent*: receivers drop repeats by their key.
pub struct MqttSink {
    options: MqttOptions,
    link: Option<Link>,
}

impl MqttSink {
    /// Returns a sink for a topic of a broker.
    pub fn new(options: MqttOptions) -> MqttSink {
        MqttSink {
            options,
            link: None,
        }
    }

    fn failed(&self, cause: impl Into<String>) -> SinkError {
        SinkError::Broker {
            broker: self.options.broker(),
            cause: cause.into(),
        }
    }

    /// Publishes answers, and counts those that are acknowledged without a gap.
    fn publish(
        &self,
        link: &mut Link,
        answers: &[Arc<FiringResult>],
        stop: &StopSignal,
    ) -> Result<(), (usize, SinkError)> {
        for answer in answers {
            let text = line(answer).map_err(|error| (0, error))?;
            let sent = link.publish(&self.options.topic, text);
            sent.map_err(|cause| (0, self.failed(cause)))?;
        }
        let mut numbers: Vec<u16> = Vec::new();
        let mut are_there = vec![false; answers.len()];
        let mut heard = Instant::now();
        loop {
            let first_missing = are_there.iter().position(|is_there| !is_there);
            let Some(done) = first_missing else {
                return Ok(());
            };
            let event = link.next(LOOK);
            match event.map_err(|cause| (done, self.failed(cause)))? {
                Some(LinkEvent::Sent(number)) => numbers.push(number),
                Some(LinkEvent::Acknowledged(number)) => {
                    heard = Instant::now();
                    let is_it = |at: &usize| numbers[*at] == number && !are_there[*at];
                    if let Some(at) = (0..numbers.len()).find(is_it) {
                        are_there[at] = true;
                    }
                }
                Some(_) => {}
                None if stop.is_set() => return Err((done, SinkError::Stopped)),
                None if heard.elapsed() > PATIENCE => {
                    let cause = format!("it has acknowledged nothing for {} s", PATIENCE.as_secs());
                    return Err((done, self.failed(cause)));
                }
                None => {}
            }
        }
    }
}

impl Sink for MqttSink {
    fn class(&self) -> SinkClass {
        SinkClass::Idempotent
    }

    fn open(&mut self, _acknowledged: Option<AnswerKey>) -> Result<(), SinkError> {
        self.link = None;
        let link = Link::open(&self.options, false);
        self.link = Some(link.map_err(|cause| self.failed(cause))?);
        Ok(())
    }

    fn deliver(
        &mut self,
        answers: &[Arc<FiringResult>],
        stop: &StopSignal,
    ) -> Result<(), (usize, SinkError)> {
        let Some(mut link) = self.link.take() else {
            return Err((0, self.failed("it is not open")));
        };
        self.publish(&mut link, answers, stop)?;
        self.link = Some(link);
        Ok(())
    }
}
