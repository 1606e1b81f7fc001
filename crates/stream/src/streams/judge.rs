//! The verdict on a push: late statements (LATENESS), times too far ahead (AHEAD), repeats and
//! BUDGET. One implementation serves admission and every thread that holds a [`StreamClock`].
//!
//! Before changing anything here: only the verdict in the push's turn counts. A thread that judges
//! before only keeps refused pushes from interning terms. What the clock does not know (which
//! numbers below the highest one are free, how many closes a push would make due, the exact room
//! while BUDGET is less than half used) it leaves to the sequencer, so it never refuses what
//! admission would accept in the same state.

use super::adaptor::{FARTHEST_MS, TimeGate, TooLate};
use super::ahead::{AheadGate, TooFarAhead};
use super::clock::StreamClock;
use crate::protocol::input::PushHead;
use crate::protocol::refusal::{Refusal, WHOLE_MESSAGE};
use somersault_lang::{LatePolicy, StreamSource};
use somersault_model::EventTime;
use std::num::NonZeroI64;

/// The times of a push that passed.
pub(crate) struct PassedTimes {
    /// On an ARRIVAL TIME stream: the time that all its statements get.
    pub(crate) by_clock: Option<EventTime>,
    /// The time that its source would have after it.
    pub(crate) source: Option<EventTime>,
}

impl StreamClock {
    /// Whether a push with these event times would be refused now, as far as the clock knows.
    /// Admission judges again when the push has its turn.
    ///
    /// # Errors
    /// Why it would be refused. A [`Refusal::Late`] does not know the statement's terms yet: see
    /// [`Refusal::about`].
    pub fn judge(
        &self,
        head: &PushHead,
        received_ms: i64,
        times: impl ExactSizeIterator<Item = Option<EventTime>>,
    ) -> Result<(), Refusal> {
        self.check_source("push to the streams that it windows")?;
        let count = times.len();
        if count == 0 {
            return Ok(());
        }
        let verdict = self
            .judge_times(head, received_ms, times)
            .and_then(|_| self.judge_budget(count));
        // Looked at last: a source's number is stored before the time of its push.
        let source = self.source(&head.source);
        let may_be_repeat = source
            .zip(head.seq)
            .is_some_and(|(source, seq)| source.may_have_used(seq));
        match verdict {
            Err(_) if may_be_repeat => Ok(()),
            verdict => verdict,
        }
    }

    /// Whether messages and pushes may be sent to the stream.
    ///
    /// # Errors
    /// The stream is derived or interior.
    pub fn takes_messages(&self) -> Result<(), Refusal> {
        self.check_source("push to the streams that it windows")
    }

    /// Derived and interior streams take nothing from outside.
    pub(crate) fn check_source(&self, remedy: &str) -> Result<(), Refusal> {
        if self.declaration().source == StreamSource::Interior {
            return Err(Refusal::Interior {
                stream: self.iri().to_owned(),
            });
        }
        self.check_derived(remedy)
    }

    /// A derived stream ends with its query.
    pub(crate) fn check_derived(&self, remedy: &str) -> Result<(), Refusal> {
        let Some(query) = self.derived_by() else {
            return Ok(());
        };
        Err(Refusal::Derived {
            stream: self.iri().to_owned(),
            query: query.to_owned(),
            remedy: remedy.to_owned(),
        })
    }

    pub(super) fn gate(&self, source: &str) -> TimeGate {
        let source = self.source(source).and_then(|source| source.time());
        TimeGate::new(source, self.watermark(), self.lateness())
    }

    /// Checks the times of a push.
    pub(crate) fn judge_times(
        &self,
        head: &PushHead,
        received_ms: i64,
        times: impl Iterator<Item = Option<EventTime>>,
    ) -> Result<PassedTimes, Refusal> {
        let mut judge = TimeJudge::new(self, &head.source, received_ms);
        for (at_index, at) in times.enumerate() {
            judge.pass(head, at_index + 1, at)?;
        }
        Ok(judge.passed())
    }

    /// Which of several messages, with their numbers and times, would be refused now for their
    /// times, as far as the clock knows. Admission judges again when the messages have their turn.
    ///
    /// # Errors
    /// No message may be sent to the stream.
    pub fn judge_messages(
        &self,
        (stream, source): (&str, &str),
        received_ms: i64,
        messages: impl Iterator<Item = (Option<u64>, Option<EventTime>)>,
    ) -> Result<Vec<Result<(), Refusal>>, Refusal> {
        self.check_source("push to the streams that it windows")?;
        let mut judge = TimeJudge::new(self, source, received_ms);
        let mut head = PushHead {
            stream: stream.to_owned(),
            source: source.to_owned(),
            seq: None,
        };
        let verdicts = messages.map(|(seq, at)| {
            head.seq = seq;
            judge.pass(&head, WHOLE_MESSAGE, at).map(drop)
        });
        Ok(verdicts.collect())
    }

    fn late_refusal(
        &self,
        source: &str,
        (index, at): (usize, EventTime),
        late: TooLate,
        received_ms: i64,
    ) -> Refusal {
        let source_phrase = match source {
            _ if !late.of_source || self.has_only(source) => "the stream is".to_owned(),
            "" => "its source without a name is".to_owned(),
            name => format!("its source {name:?} is"),
        };
        let by_clock = !late.of_source && self.was_moved_by_clock(received_ms);
        let idle = self.declaration().idle.filter(|_| by_clock);
        Refusal::Late {
            stream: self.iri().to_owned(),
            index,
            statement: String::new(),
            at,
            watermark: late.accepted_from,
            source_phrase,
            needed_ms: late.accepted_from.0 - at.0 + self.lateness().0,
            idle_ms: idle.and_then(|idle| NonZeroI64::new(idle.0)),
        }
    }
}

/// Judges the times of one source's statements, or of its messages, one after the other. It does
/// not matter how a source groups them.
#[derive(Debug)]
pub(crate) struct TimeJudge<'c> {
    clock: &'c StreamClock,
    received_ms: i64,
    gate: TimeGate,
    ahead: AheadGate,
    /// On an ARRIVAL TIME stream: the time that all of them get.
    by_clock: Option<EventTime>,
    rejects: bool,
}

impl<'c> TimeJudge<'c> {
    pub(crate) fn new(clock: &'c StreamClock, source: &str, received_ms: i64) -> TimeJudge<'c> {
        let gate = clock.gate(source);
        let by_clock = clock.is_arrival_time().then(|| {
            let now = EventTime(received_ms);
            // A clock that was set back must not make statements late.
            now.max(gate.stream.unwrap_or(now))
                .max(gate.source.unwrap_or(now))
        });
        TimeJudge {
            clock,
            received_ms,
            gate,
            ahead: AheadGate::new(clock, received_ms),
            by_clock,
            rejects: clock.declaration().late_policy == LatePolicy::Reject,
        }
    }

    /// Lets a statement or a message pass, or refuses it; after that the judge is as before.
    /// Returns its event time. `index`: which statement of the push it is, from 1, or
    /// [`WHOLE_MESSAGE`].
    pub(crate) fn pass(
        &mut self,
        head: &PushHead,
        index: usize,
        at: Option<EventTime>,
    ) -> Result<EventTime, Refusal> {
        let Some(at) = self.by_clock.or(at) else {
            return Err(Refusal::NoEventTime {
                stream: head.stream.clone(),
                index,
            });
        };
        check_range(&head.stream, at)?;
        // A late time is not ahead, and moves neither gate.
        if self.by_clock.is_none() {
            let far = |far| far_refusal(head, index, (at, self.received_ms), far);
            self.ahead.pass(at).map_err(far)?;
        }
        if let Err(late) = self.gate.pass(at)
            && self.rejects
        {
            let place = (index, at);
            return Err((self.clock).late_refusal(&head.source, place, late, self.received_ms));
        }
        Ok(at)
    }

    /// The times so far.
    pub(crate) fn passed(&self) -> PassedTimes {
        PassedTimes {
            by_clock: self.by_clock,
            source: self.gate.source,
        }
    }
}

/// Refuses a time that is further out than any plausible one.
pub(crate) fn check_range(stream: &str, at: EventTime) -> Result<(), Refusal> {
    if (-FARTHEST_MS..=FARTHEST_MS).contains(&at.0) {
        return Ok(());
    }
    Err(Refusal::TimeOutOfRange {
        stream: stream.to_owned(),
        at,
    })
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
