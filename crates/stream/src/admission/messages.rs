//! Messages: each is taken or refused by itself, and those that are taken together make one record.
//!
//! Before changing anything here: the verdicts are those that the messages would have as pushes,
//! one after the other. So what is judged against the state alone (BUDGET, closes) is judged for
//! the messages before it in the record, too.

use super::Admitter;
use super::due::Reach;
use crate::protocol::input::{Admission, MessageOutcome, MessagesInput, OfferedMessage, PushHead};
use crate::protocol::refusal::{Refusal, WHOLE_MESSAGE};
use crate::protocol::statements::Record;
use crate::streams::judge::TimeJudge;
use crate::streams::stream::Stream;
use somersault_log::{LoggedMessage, MessagesRecord};
use somersault_model::EventTime;

/// The messages of a request that have been judged so far.
struct JudgedMessages<'s> {
    stream: &'s Stream,
    times: TimeJudge<'s>,
    /// Of the stream and the source; the number is that of the message at hand.
    head: PushHead,
    taken: Vec<LoggedMessage>,
    /// The event times of those that were taken.
    taken_at: Vec<EventTime>,
    /// The number of their statements.
    statements: usize,
}

impl Admitter<'_> {
    pub(super) fn admit_messages(&self, input: MessagesInput) -> Result<Admission, Refusal> {
        let stream = self.known_stream(&input.stream)?;
        let clock = stream.clock();
        clock.check_source("push to the streams that it windows")?;
        let mut judged = JudgedMessages {
            stream,
            times: TimeJudge::new(clock, &input.source, input.received_ms),
            head: PushHead {
                stream: input.stream,
                source: input.source,
                seq: None,
            },
            taken: Vec::new(),
            taken_at: Vec::new(),
            statements: 0,
        };
        let mut outcomes = Vec::with_capacity(input.messages.len());
        let mut keeps = Vec::with_capacity(input.statements.len());
        for message in &input.messages {
            let outcome = self.judge_message(&mut judged, *message);
            let ends = matches!(&outcome, MessageOutcome::Refused(why) if why.ends_messages());
            if ends && !judged.taken.is_empty() {
                // It may be taken once the effect of those before it is cut.
                break;
            }
            let is_taken = outcome == MessageOutcome::Taken;
            let statements = message.statements.unwrap_or_default() as usize;
            keeps.resize(keeps.len() + statements, is_taken);
            outcomes.push(outcome);
            if ends {
                break;
            }
        }
        keeps.resize(input.statements.len(), false);
        if judged.taken.is_empty() {
            return Ok(Admission::Messages(None, outcomes));
        }
        let mut statements = input.statements.only(&keeps);
        if let Some(by_clock) = judged.times.passed().by_clock {
            statements.set_time(by_clock);
        }
        let record = Record::Messages(MessagesRecord {
            stream: judged.head.stream,
            source: judged.head.source,
            received_ms: input.received_ms,
            messages: judged.taken,
            statements,
        });
        Ok(Admission::Messages(Some(record), outcomes))
    }

    fn judge_message(
        &self,
        judged: &mut JudgedMessages<'_>,
        message: OfferedMessage,
    ) -> MessageOutcome {
        judged.head.seq = message.seq;
        match judged.stream.is_repeat(&judged.head) {
            Ok(true) => return MessageOutcome::Repeated,
            Err(refusal) => return MessageOutcome::Refused(refusal),
            Ok(false) => {}
        }
        let Some(statements) = message.statements.filter(|count| *count > 0) else {
            return MessageOutcome::Unreadable;
        };
        match self.judge_readable(judged, message.at, statements as usize) {
            Ok(at) => {
                judged.taken.push(LoggedMessage {
                    seq: message.seq,
                    statements,
                });
                judged.taken_at.push(at);
                judged.statements += statements as usize;
                MessageOutcome::Taken
            }
            Err(refusal) => MessageOutcome::Refused(refusal),
        }
    }

    fn judge_readable(
        &self,
        judged: &mut JudgedMessages<'_>,
        at: Option<EventTime>,
        statements: usize,
    ) -> Result<EventTime, Refusal> {
        let at = judged.times.pass(&judged.head, WHOLE_MESSAGE, at)?;
        let (stream, passed) = (judged.stream, judged.times.passed());
        if passed.by_clock.is_none() {
            let times = judged.taken_at.iter().copied().chain([at]);
            let reach = Reach::of_push(stream, &judged.head.source, passed.source, times);
            self.check_closes(&[reach])?;
        }
        let together = judged.statements + statements;
        self.streams()
            .judge_budget(stream, together, &self.needs())?;
        Ok(at)
    }
}
