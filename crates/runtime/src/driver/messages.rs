//! The part of messages that runs on their caller's thread: event times are looked for in the data,
//! and statements become ids and the bytes that the log keeps.
//!
//! Before changing anything here: terms of a message are interned only after the stream's clock has
//! said that its time would be taken. Admission judges again, and its verdict counts; a message
//! that cannot be taken goes there too, without statements, because its number may be a repeat.

use super::Driver;
use crate::error::RuntimeError;
use crate::sequencer::{InputReceipt, Outcome};
use oxrdf::Quad;
use somersault_lines::TimestampPath;
use somersault_model::{EventTime, Sn};
use somersault_stream::{
    Input, MessageOutcome, MessagesInput, OfferedMessage, PushStatements, Refusal, Repeat,
    StreamClock,
};
use std::borrow::Borrow;

/// A message on its way in.
#[derive(Clone, Copy, Debug)]
pub struct MessageOffer<'m> {
    /// The source's number for it.
    pub seq: Option<u64>,
    /// Its event time, where the request gives one.
    pub at: Option<EventTime>,
    /// Its statements; `None` if it could not be read.
    pub statements: Option<&'m [Quad]>,
}

/// What became of messages that were offered together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MessageReceipt {
    /// The outcomes, in order. There are fewer than messages only where the last one
    /// [ends them](Refusal::ends_messages).
    pub outcomes: Vec<MessageOutcome>,
    /// The statements that were taken.
    pub statements: u64,
    /// The statements that were late and dropped (LATE DROP).
    pub late: u64,
    /// The newest SN that was cut when the last of them was looked at.
    pub sn: Sn,
}

/// A message whose time is known, or why it cannot be taken.
struct TimedMessage<'m> {
    offer: MessageOffer<'m>,
    time: Result<Option<EventTime>, Refusal>,
}

impl Driver {
    /// Takes messages of one source, each by itself, and returns when the records of those taken
    /// are durable.
    ///
    /// # Errors
    /// Nothing is taken: there is no such stream, or no message may be sent to it. After the log
    /// has failed, whether some of them were taken is not known.
    pub fn push_messages(
        &self,
        stream: &str,
        source: &str,
        messages: &[MessageOffer<'_>],
    ) -> Result<MessageReceipt, RuntimeError> {
        let clock = self.known_clock(stream)?;
        clock.takes_messages()?;
        let messages = timed(&clock, messages)?;
        let mut receipt = MessageReceipt::default();
        while receipt.outcomes.len() < messages.len() {
            let rest = &messages[receipt.outcomes.len()..];
            let known = self.offer(&clock, source, rest, &mut receipt)?;
            let ends = |outcome: &MessageOutcome| matches!(outcome, MessageOutcome::Refused(refusal) if refusal.ends_messages());
            if !known || receipt.outcomes.last().is_some_and(ends) {
                break;
            }
        }
        Ok(receipt)
    }

    /// Offers messages once. Returns whether any of them was looked at.
    fn offer(
        &self,
        clock: &StreamClock,
        source: &str,
        messages: &[TimedMessage<'_>],
        receipt: &mut MessageReceipt,
    ) -> Result<bool, RuntimeError> {
        let received_ms = self.now_ms();
        let faults = faults(clock, source, received_ms, messages)?;
        let readable = messages.iter().zip(&faults).filter_map(|(message, fault)| {
            let statements = message.offer.statements.filter(|_| fault.is_none())?;
            Some((message, statements))
        });
        let offered = messages.iter().zip(&faults).map(|(message, fault)| {
            let statements = message.offer.statements.filter(|_| fault.is_none());
            OfferedMessage {
                seq: message.offer.seq,
                at: message.time.clone().ok().flatten(),
                statements: statements.map(|it| u32::try_from(it.len()).unwrap_or(u32::MAX)),
            }
        });
        let count = readable
            .clone()
            .map(|(_, statements)| statements.len())
            .sum();
        let timed = readable.flat_map(|(message, statements)| {
            let at = message.time.clone().ok().flatten().unwrap_or(EventTime(0));
            statements.iter().map(move |quad| (at, quad.as_ref()))
        });
        let (statements, born) = self.number(clock, count, timed)?;
        let done = self.log_input(Input::Messages(MessagesInput {
            stream: clock.declaration().iri.as_str().to_owned(),
            source: source.to_owned(),
            received_ms,
            messages: offered.collect(),
            statements: PushStatements::Numbered(statements),
        }));
        self.reclaim(born);
        let InputReceipt { outcome, sn } = done?;
        receipt.sn = sn;
        let Outcome::Messages {
            outcomes,
            statements,
            late,
        } = outcome
        else {
            return Ok(false);
        };
        receipt.statements += statements;
        receipt.late += late;
        let is_known = !outcomes.is_empty();
        let outcomes = outcomes.into_iter().zip(faults);
        receipt
            .outcomes
            .extend(outcomes.map(|outcome| match outcome {
                (MessageOutcome::Unreadable, Some(refusal)) => MessageOutcome::Refused(refusal),
                (outcome, _) => outcome,
            }));
        Ok(is_known)
    }

    /// Takes a push to a stream that finds event times in the data: one message.
    pub(super) fn push_with_timestamp<'q>(
        &self,
        stream: &str,
        (source, seq): (&str, Option<u64>),
        is_timed: bool,
        statements: impl Iterator<Item = oxrdf::QuadRef<'q>>,
    ) -> Result<InputReceipt, RuntimeError> {
        if is_timed {
            let stream = stream.to_owned();
            return Err(Refusal::TimeGiven { stream }.into());
        }
        let quads: Vec<Quad> = statements.map(oxrdf::QuadRef::into_owned).collect();
        let offer = MessageOffer {
            seq,
            at: None,
            statements: Some(&quads),
        };
        let offers = &[offer][..usize::from(!quads.is_empty())];
        let receipt = self.push_messages(stream, source, offers)?;
        let sn = receipt.sn;
        let outcome = match receipt.outcomes.into_iter().next() {
            Some(MessageOutcome::Refused(refusal)) => return Err(refusal.into()),
            Some(MessageOutcome::Repeated) => Outcome::Repeat(Repeat::Push),
            Some(MessageOutcome::Taken) => Outcome::Taken {
                statements: receipt.statements,
                late: receipt.late,
            },
            Some(MessageOutcome::Unreadable) | None => Outcome::Nothing,
        };
        Ok(InputReceipt { outcome, sn })
    }
}

/// The messages with their event times: those of the request, or of the data where the stream says
/// so.
fn timed<'m>(
    clock: &StreamClock,
    messages: &[impl Borrow<MessageOffer<'m>>],
) -> Result<Vec<TimedMessage<'m>>, RuntimeError> {
    let declaration = clock.declaration();
    let path = declaration.timestamp.clone().and_then(TimestampPath::new);
    let timed = messages.iter().map(|message| {
        let offer = *message.borrow();
        let time = match (&path, offer.statements) {
            (Some(_), _) if offer.at.is_some() => {
                let stream = declaration.iri.as_str().to_owned();
                return Err(Refusal::TimeGiven { stream }.into());
            }
            (Some(path), Some(statements)) => path
                .event_time(statements)
                .map(Some)
                .map_err(|reason| Refusal::NoTimestamp { reason }),
            _ => Ok(offer.at),
        };
        Ok(TimedMessage { offer, time })
    });
    timed.collect()
}

/// For each message: why it would be refused, as far as that is known here.
fn faults(
    clock: &StreamClock,
    source: &str,
    received_ms: i64,
    messages: &[TimedMessage<'_>],
) -> Result<Vec<Option<Refusal>>, Refusal> {
    let judged = messages.iter().filter_map(|message| {
        let time = message.time.as_ref().ok()?;
        (message.offer.statements.is_some()).then_some((message.offer.seq, *time))
    });
    let stream = clock.declaration().iri.as_str();
    let verdicts = clock.judge_messages((stream, source), received_ms, judged)?;
    let mut verdicts = verdicts.into_iter();
    let faults = messages.iter().map(|message| match &message.time {
        Err(refusal) => Some(refusal.clone()),
        Ok(_) if message.offer.statements.is_none() => None,
        Ok(_) => verdicts.next().and_then(Result::err),
    });
    Ok(faults.collect())
}
