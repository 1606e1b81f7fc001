//! Pushes, from outside and from firings: may their statements be taken?
//!
//! Before changing anything here: a push is judged twice, before its terms are interned and again
//! in its turn, so the judgement depends on the state and the times alone.

use crate::admission::due::Reach;
use crate::closes::groups::Groups;
use crate::coordinator::Coordinator;
use crate::protocol::firing::FiringKey;
use crate::protocol::input::{Admission, Push, PushHead, PushVerdict, ReadPush, Repeat};
use crate::protocol::refusal::Refusal;
use crate::protocol::statements::PushStatements;
use crate::queries::Queries;
use crate::streams::Streams;
use crate::streams::stream::Stream;
use oxrdf::Quad;
use somersault_log::{DerivedRecord, PushRecord, Record, StreamStatement};
use somersault_model::EventTime;

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
        if passed.by_clock.is_none() {
            let times = times.flatten();
            let reach = Reach::of_push(stream, &head.source, passed.source, times);
            self.check_closes(&[reach])?;
        }
        self.judge_budget(stream, head, count)?;
        Ok(PushVerdict::Taken(passed.by_clock))
    }

    /// Checks that a stream, and those derived from it, have room for this many statements.
    fn judge_budget(&self, stream: &Stream, head: &PushHead, count: usize) -> Result<(), Refusal> {
        if let Some(held_bytes) = stream.over_budget(count) {
            return Err(Refusal::OverBudget {
                stream: head.stream.clone(),
                held_bytes,
                budget_bytes: stream.declaration.budget_bytes,
                reason: self.holders().holder_of(&self.streams, stream),
            });
        }
        match self.holders().refusal_below(&self.streams, stream) {
            Some(refusal) => Err(refusal),
            None => Ok(()),
        }
    }

    fn holders(&self) -> Holders<'_> {
        Holders {
            groups: &self.groups,
            queries: &self.queries,
        }
    }

    /// Shows on the clocks of streams what they hold.
    pub(crate) fn publish_clocks(&mut self) {
        let holders = Holders {
            groups: &self.groups,
            queries: &self.queries,
        };
        self.streams.publish(
            |streams, stream| holders.holder_of(streams, stream),
            |streams, stream| holders.refusal_below(streams, stream),
        );
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
}

/// Finds what holds the slices of streams.
struct Holders<'c> {
    groups: &'c Groups,
    queries: &'c Queries,
}

impl Holders<'_> {
    /// The refusal of pushes to a stream, if one that it feeds is full.
    fn refusal_below(&self, streams: &Streams, stream: &Stream) -> Option<Refusal> {
        let (below, held_bytes) = streams.full_below(stream)?;
        Some(Refusal::OverBudget {
            stream: below.iri().to_owned(),
            held_bytes,
            budget_bytes: below.declaration.budget_bytes,
            reason: format!(
                "what is pushed to <{}> feeds it, and {}",
                stream.iri(),
                self.holder_of(streams, below)
            ),
        })
    }

    /// Says what holds a stream's slices, and what helps.
    fn holder_of(&self, streams: &Streams, stream: &Stream) -> String {
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
        match waits_for.and_then(|uid| streams.get(&uid)) {
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
