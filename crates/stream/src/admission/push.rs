//! Pushes, from outside and from firings: may their statements be taken?
//!
//! Before changing anything here: a push is judged twice, before its terms are interned and again
//! in its turn, so the judgement depends on the state and the times alone.

use super::Admitter;
use super::due::Reach;
use crate::protocol::firing::FiringKey;
use crate::protocol::input::{Admission, Push, PushHead, ReadPush, Repeat};
use crate::protocol::refusal::Refusal;
use crate::protocol::statements::{PushStatements, Record};
use oxrdf::Quad;
use somersault_log::{DerivedRecord, PushRecord, StreamStatement};
use somersault_model::EventTime;

/// The verdict on a push.
enum PushVerdict {
    /// It would be taken; on an ARRIVAL TIME stream, all its statements at this time.
    Taken(Option<EventTime>),
    /// Its (stream, source, seq) was taken before.
    Repeat,
    /// It has no statements.
    Nothing,
}

impl Admitter<'_> {
    pub(super) fn admit_push(&self, push: Push) -> Result<Admission, Refusal> {
        let head = PushHead {
            stream: push.stream,
            source: push.source,
            seq: push.seq,
        };
        let statements = push.statements;
        let times = statements.iter().map(|statement| statement.at);
        let verdict = self
            .judge_push(&head, push.received_ms, times)
            .map_err(|refusal| refusal.about(|index| statements[index].quad.to_string()))?;
        let by_clock = match verdict {
            PushVerdict::Taken(by_clock) => by_clock,
            other => return Ok(not_taken(other)),
        };
        let timed = statements.into_iter().filter_map(|statement| {
            let at = by_clock.or(statement.at)?;
            let quad = statement.quad;
            Some(StreamStatement { at, quad })
        });
        let statements = timed.collect::<Vec<_>>().into();
        Ok(push_record(head, push.received_ms, statements))
    }

    pub(super) fn admit_read_push(&self, push: ReadPush) -> Result<Admission, Refusal> {
        let mut statements = push.statements;
        let times = statements.statements().iter().enumerate();
        let untimed = push.untimed.unwrap_or(usize::MAX);
        let times = times.map(|(index, statement)| (index != untimed).then_some(statement.at));
        match self.judge_push(&push.head, push.received_ms, times)? {
            PushVerdict::Taken(None) => {}
            PushVerdict::Taken(Some(by_clock)) => statements.set_time(by_clock),
            other => return Ok(not_taken(other)),
        }
        let statements = PushStatements::Numbered(statements);
        Ok(push_record(push.head, push.received_ms, statements))
    }

    /// Judges a push by the state, its head and its event times.
    fn judge_push(
        &self,
        head: &PushHead,
        received_ms: i64,
        times: impl ExactSizeIterator<Item = Option<EventTime>> + Clone,
    ) -> Result<PushVerdict, Refusal> {
        let stream = self.known_stream(&head.stream)?;
        let clock = stream.clock();
        clock.check_source("push to the streams that it windows")?;
        if stream.is_repeat(head)? {
            return Ok(PushVerdict::Repeat);
        }
        let count = times.len();
        if count == 0 {
            return Ok(PushVerdict::Nothing);
        }
        let passed = clock.judge_times(head, received_ms, times.clone())?;
        if let Some(consumers) = stream.consumers()
            && passed.by_clock.is_none()
        {
            let first = times.clone().next().flatten();
            if let Some(other) = times.clone().position(|at| at != first) {
                return Err(Refusal::SeveralTimes {
                    stream: head.stream.clone(),
                    index: other + 1,
                    procedure: consumers.holder.clone(),
                });
            }
        }
        if passed.by_clock.is_none() {
            let times = times.flatten();
            let reach = Reach::of_push(stream, &head.source, passed.source, times);
            self.check_closes(&[reach])?;
        }
        self.streams().judge_budget(stream, count, &self.needs())?;
        Ok(PushVerdict::Taken(passed.by_clock))
    }

    pub(super) fn admit_derived(
        &self,
        received_ms: i64,
        key: FiringKey,
        statements: Vec<Quad>,
    ) -> Admission {
        if self.queries.has_derived(&key) {
            return Admission::Repeat(Repeat::Derived);
        }
        Admission::Record(Record::Derived(DerivedRecord {
            query: key.query,
            close: key.close,
            ordinal: key.ordinal,
            revision: key.revision,
            received_ms,
            statements,
        }))
    }
}

fn not_taken(verdict: PushVerdict) -> Admission {
    match verdict {
        PushVerdict::Repeat => Admission::Repeat(Repeat::Push),
        PushVerdict::Nothing | PushVerdict::Taken(_) => Admission::Nothing,
    }
}

fn push_record(head: PushHead, received_ms: i64, statements: PushStatements) -> Admission {
    Admission::Record(Record::Push(PushRecord {
        stream: head.stream,
        source: head.source,
        seq: head.seq,
        received_ms,
        statements,
    }))
}
