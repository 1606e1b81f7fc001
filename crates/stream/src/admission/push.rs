//! Pushes, from outside and from firings: may their statements be taken?
//!
//! Before changing anything here: a push is judged twice, before its terms are interned and again
//! in its turn, so the judgement depends on the state and the times alone.

use super::check_range;
use crate::admission::due::Reach;
use crate::coordinator::Coordinator;
use crate::output::FiringKey;
use crate::protocol::input::{Admission, Push, PushHead, PushVerdict, ReadPush, Repeat};
use crate::protocol::refusal::Refusal;
use crate::streams::adaptor::TooLate;
use crate::streams::ahead::{AheadGate, TooFarAhead};
use crate::streams::stream::Stream;
use crate::streams::taken::Sequence;
use oxrdf::Quad;
use somersault_lang::LatePolicy;
use somersault_log::{DerivedRecord, PushRecord, PushStatements, Record, StreamStatement};
use somersault_model::EventTime;
use std::num::NonZeroI64;

impl Coordinator {
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

    /// Whether a push with these event times would be taken now. Admission checks again when the
    /// push has its turn.
    ///
    /// # Errors
    /// Why it would be refused. A [`Refusal::Late`] does not know the statement's terms yet: see
    /// [`Refusal::about`].
    pub fn judge_push(
        &self,
        head: &PushHead,
        received_ms: i64,
        times: impl ExactSizeIterator<Item = Option<EventTime>> + Clone,
    ) -> Result<PushVerdict, Refusal> {
        let stream = self.known_stream(&head.stream)?;
        self.check_source(stream, "push to the streams that it windows")?;
        if is_repeat(stream, head)? {
            return Ok(PushVerdict::Repeat);
        }
        let count = times.len();
        if count == 0 {
            return Ok(PushVerdict::Nothing);
        }
        let by_clock = self.judge_times(stream, head, received_ms, times)?;
        self.judge_budget(stream, head, count)?;
        Ok(PushVerdict::Taken(by_clock))
    }

    /// Checks the times of a push. On an ARRIVAL TIME stream, returns the time that all its
    /// statements get.
    fn judge_times(
        &self,
        stream: &Stream,
        head: &PushHead,
        received_ms: i64,
        times: impl Iterator<Item = Option<EventTime>> + Clone,
    ) -> Result<Option<EventTime>, Refusal> {
        let mut gate = stream.gate(&head.source);
        let by_clock = stream.is_arrival_time().then(|| {
            let now = EventTime(received_ms);
            // A clock that was set back must not make statements late.
            now.max(stream.complete_through.unwrap_or(now))
                .max(gate.source.unwrap_or(now))
        });
        let times_of_push = times.clone().flatten();
        let mut ahead = AheadGate::new(stream, self.limits.ahead, received_ms);
        let rejects = stream.declaration.late_policy == LatePolicy::Reject;
        for (at_index, at) in times.enumerate() {
            let index = at_index + 1;
            let Some(at) = by_clock.or(at) else {
                return Err(Refusal::NoEventTime {
                    stream: head.stream.clone(),
                    index,
                });
            };
            check_range(&head.stream, at)?;
            if by_clock.is_none() {
                ahead
                    .pass(at)
                    .map_err(|far| far_refusal(head, index, (at, received_ms), far))?;
            }
            if let Err(late) = gate.pass(at)
                && rejects
            {
                return Err(late_refusal(
                    stream,
                    &head.source,
                    (index, at),
                    late,
                    received_ms,
                ));
            }
        }
        if by_clock.is_none() {
            let reach = Reach::of_push(stream, &head.source, gate.source, times_of_push);
            self.check_closes(&[reach])?;
        }
        Ok(by_clock)
    }

    /// Checks that a stream, and those derived from it, have room for this many statements.
    fn judge_budget(&self, stream: &Stream, head: &PushHead, count: usize) -> Result<(), Refusal> {
        if let Some(held_bytes) = stream.over_budget(count) {
            return Err(Refusal::OverBudget {
                stream: head.stream.clone(),
                held_bytes,
                budget_bytes: stream.declaration.budget_bytes,
                reason: self.budget_holder(stream),
            });
        }
        if let Some((below, held_bytes)) = self.full_below(stream) {
            return Err(Refusal::OverBudget {
                stream: below.iri().to_owned(),
                held_bytes,
                budget_bytes: below.declaration.budget_bytes,
                reason: format!(
                    "what is pushed to <{}> feeds it, and {}",
                    head.stream,
                    self.budget_holder(below)
                ),
            });
        }
        Ok(())
    }

    pub(super) fn admit_derived(
        &self,
        received_ms: i64,
        key: FiringKey,
        statements: Vec<Quad>,
    ) -> Admission {
        if self.has_derived(&key) {
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

    /// Says what holds a stream's slices, and what helps.
    fn budget_holder(&self, stream: &Stream) -> String {
        let window = stream.needs.first();
        let first_window = window.map(|(from, _)| stream.batch_of(*from));
        let first_firing = stream.lagging.first().map(|(batch, _)| *batch);
        if first_firing.is_some_and(|firing| first_window.is_none_or(|window| firing < window)) {
            return "firings that are still running read them; they go when those are done"
                .to_owned();
        }
        let Some((_, group)) = window else {
            return "the push and the batches that are still open are larger than that; push less at a time, or declare the stream with a larger BUDGET".to_owned();
        };
        let query = self.groups.get(*group).first_member();
        let name = query.map_or("a query", |uid| self.queries.shown_name(uid));
        let waits_for = self
            .groups
            .waits_for(*group)
            .filter(|uid| *uid != stream.uid);
        match waits_for.and_then(|uid| self.streams.get(&uid)) {
            Some(other) => format!(
                "query {name} holds them while it waits for stream <{}>; push to or advance that stream, PAUSE QUERY {name}, or declare the stream with a larger BUDGET",
                other.iri()
            ),
            None => format!(
                "the windows of query {name} need them; use a shorter RANGE, or declare the stream with a larger BUDGET"
            ),
        }
    }
}

/// Whether a push with this (stream, source, seq) was taken before.
fn is_repeat(stream: &Stream, head: &PushHead) -> Result<bool, Refusal> {
    let source = stream.sources.get(&head.source);
    let Some((source, seq)) = source.zip(head.seq) else {
        return Ok(false);
    };
    match source.taken.find(seq) {
        Sequence::Free => Ok(false),
        Sequence::Taken => Ok(true),
        Sequence::Forgotten => Err(Refusal::SequenceForgotten {
            stream: head.stream.clone(),
            source_name: head.source.clone(),
            seq,
            floor: source.taken.floor(),
        }),
    }
}

fn far_refusal(
    head: &PushHead,
    index: usize,
    (at, received_ms): (EventTime, i64),
    far: TooFarAhead,
) -> Refusal {
    Refusal::TooFarAhead {
        stream: head.stream.clone(),
        index,
        statement: String::new(),
        at,
        bound: far.to_string(),
        received: EventTime(received_ms),
    }
}

fn late_refusal(
    stream: &Stream,
    source: &str,
    (index, at): (usize, EventTime),
    late: TooLate,
    received_ms: i64,
) -> Refusal {
    let alone = stream.sources.is_empty()
        || (stream.sources.len() == 1 && stream.sources.contains_key(source));
    let source_phrase = match source {
        _ if alone || !late.of_source => "the stream is".to_owned(),
        "" => "its source without a name is".to_owned(),
        name => format!("its source {name:?} is"),
    };
    let by_clock = !late.of_source && stream.was_moved_by_clock(received_ms);
    let idle = stream.declaration.idle.filter(|_| by_clock);
    Refusal::Late {
        stream: stream.iri().to_owned(),
        index,
        statement: String::new(),
        at,
        complete_through: late.complete_through,
        source_phrase,
        needed_ms: late.complete_through.0 - at.0 + stream.lateness().0,
        idle_ms: idle.and_then(|idle| NonZeroI64::new(idle.0)),
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
