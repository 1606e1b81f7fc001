//! The closes that wait for their cut, and the limit on those that one input may make due.
//!
//! Before changing anything here: only admission judges the limit, by the state and the times of
//! the input. It counts closes that fire; empty closes that are skipped cost nothing and are not
//! counted.

use super::Admitter;
use crate::closes::close_group::{CloseGroup, just_before};
use crate::closes::close_groups::LONGEST_EMPTY_RUN;
use crate::closes::schedule::WindowShape;
use crate::protocol::input::{Input, ReadPush};
use crate::protocol::refusal::Refusal;
use crate::streams::Streams;
use crate::streams::stream::Stream;
use somersault_model::{BatchNumber, EventTime, QueryUid, StreamUid};
use std::collections::BTreeSet;

/// The effect of an input on one stream.
pub(crate) struct Reach<'s, T> {
    stream: &'s Stream,
    /// The time that the stream would have after it.
    to: Option<EventTime>,
    /// The event times of the statements that it brings.
    times: T,
}

impl<'s> Reach<'s, std::iter::Empty<EventTime>> {
    pub(crate) fn of_advance(stream: &'s Stream, to: EventTime) -> Self {
        Reach {
            stream,
            to: Some(to),
            times: std::iter::empty(),
        }
    }
}

impl<'s, T> Reach<'s, T> {
    /// A push after which its source is at `time`.
    pub(crate) fn of_push(
        stream: &'s Stream,
        source: &str,
        time: Option<EventTime>,
        times: T,
    ) -> Self {
        Reach {
            stream,
            to: stream.watermark_with(source, time),
            times,
        }
    }
}

impl<T: Iterator<Item = EventTime> + Clone> Reach<'_, T> {
    fn uid(&self) -> StreamUid {
        self.stream.uid()
    }

    /// The stream's first time, if it has not begun before.
    fn begin(&self) -> Option<EventTime> {
        let first = self.times.clone().next();
        let first = first.map(|first| first.minus(self.stream.lateness()));
        self.stream.begin().or(first).or(self.to)
    }

    fn batches(&self) -> BTreeSet<BatchNumber> {
        let times = self.times.clone();
        times.map(|time| self.stream.batch_of(time)).collect()
    }
}

impl Admitter<'_> {
    /// Refuses an input that would make too many closes of one query due.
    pub(crate) fn check_closes<T: Iterator<Item = EventTime> + Clone>(
        &self,
        reaches: &[Reach<'_, T>],
    ) -> Result<(), Refusal> {
        let most = self.home.limits().closes_at_once;
        for reach in reaches {
            let Some(to) = reach.to.filter(|_| reach.to > reach.stream.watermark()) else {
                continue;
            };
            for group in self.groups.waiting_at(reach.uid(), to) {
                let Some((first, ready)) = self.closes_between(group, reaches) else {
                    continue;
                };
                let schedule = group.schedule();
                let closes = schedule.count(first, ready);
                if closes <= most {
                    continue;
                }
                let content = Content::new(self.streams(), reaches);
                if group.firings_between(&content, first, ready, most) <= most {
                    continue;
                }
                let name = group.first_member().map(|uid| self.queries.shown_name(uid));
                return Err(Refusal::TooManyCloses {
                    stream: reach.stream.iri().to_owned(),
                    to,
                    query: name.unwrap_or_default().to_owned(),
                    closes,
                    most,
                    step: schedule.after_closes(first, most).min(to),
                });
            }
        }
        Ok(())
    }

    /// The first close of a group, and the time that its streams will have reached.
    fn closes_between<T: Iterator<Item = EventTime> + Clone>(
        &self,
        group: &CloseGroup,
        reaches: &[Reach<'_, T>],
    ) -> Option<(EventTime, EventTime)> {
        let reach_of = |uid: StreamUid| reaches.iter().find(|reach| reach.uid() == uid);
        let streams = || group.streams().iter().map(|uid| &self.streams()[uid]);
        let times = streams().map(|stream| {
            let reached = reach_of(stream.uid()).and_then(|reach| reach.to);
            reached.max(stream.watermark())
        });
        let ready = times.min()??;
        let first = match group.next() {
            Some(next) => next,
            None => {
                let began = streams().filter_map(|stream| {
                    reach_of(stream.uid()).map_or(stream.begin(), |reach| reach.begin())
                });
                group
                    .schedule()
                    .first_after(began.chain(group.first_base()).max()?)
            }
        };
        (first <= ready).then_some((first, ready))
    }

    /// The time to which the clock may move a stream at once. It moves the stream further when the
    /// closes until then are cut.
    fn within_closes(&self, stream: &Stream, time: EventTime) -> EventTime {
        match self.check_closes(&[Reach::of_advance(stream, time)]) {
            Err(Refusal::TooManyCloses { step, .. }) => step,
            _ => time,
        }
    }

    /// The advances of IDLE and ARRIVAL TIME streams that are worth a record at this time: those
    /// that close a batch or let a query go on.
    pub(crate) fn advances_by_clock(&self, now_ms: i64) -> Vec<Input> {
        let mut to = Vec::new();
        let mut inputs = Vec::new();
        for stream in self.streams().values() {
            // If closes are behind, the clock waits for them.
            let time = match stream.is_arrival_time() {
                _ if self.groups.is_due_over(stream.uid()) => None,
                true => Some(EventTime(now_ms)),
                false => stream.clock().time_by_clock(now_ms),
            };
            let Some(time) = time.filter(|time| self.is_worth_a_record(stream, *time)) else {
                continue;
            };
            // After the machine has slept, time advances in steps, each received when the clock
            // reached it.
            let step = self.within_closes(stream, time);
            let received_ms = now_ms.saturating_sub(time.0.saturating_sub(step.0));
            match step < time && self.is_worth_a_record(stream, step) {
                true => inputs.push(Input::Advance {
                    received_ms,
                    to: vec![(stream.iri().to_owned(), step)],
                }),
                false => to.push((stream.iri().to_owned(), time)),
            }
        }
        if !to.is_empty() {
            inputs.push(Input::Advance {
                received_ms: now_ms,
                to,
            });
        }
        inputs
    }

    /// Whether an advance to `time` would close a batch or let a group go on.
    fn is_worth_a_record(&self, stream: &Stream, time: EventTime) -> bool {
        let is_wanted = || stream.closes_batch_at(time) || self.groups.waits_at(stream.uid(), time);
        Some(time) > stream.watermark() && is_wanted()
    }

    /// Whether an input has to wait until closes that are due are cut: it would make more closes of
    /// the same streams due, or it replaces a query that has yet to answer them.
    pub(crate) fn waits_for_closes(&self, input: &Input) -> bool {
        if self.groups.next_due().is_none() {
            return false;
        }
        let is_due = |uid: StreamUid| self.groups.is_due_over(uid);
        match input {
            Input::RegisterQuery {
                name,
                replaces: true,
                ..
            } => self
                .known_query(name)
                .is_ok_and(|known| known.cohort.streams().into_iter().any(is_due)),
            input => self.streams_of(input).any(is_due),
        }
    }

    /// The queries and cohorts that window the streams of a push or an advance.
    pub(crate) fn fed_by(&self, input: &Input) -> impl Iterator<Item = QueryUid> + '_ {
        let uids: Vec<StreamUid> = self.streams_of(input).collect();
        uids.into_iter().flat_map(|uid| self.queries.windowing(uid))
    }

    /// The streams that a push or an advance moves.
    fn streams_of(&self, input: &Input) -> impl Iterator<Item = StreamUid> + '_ {
        let named: Vec<&str> = match input {
            Input::Push(push) => vec![&push.stream],
            Input::ReadPush(ReadPush { head, .. }) => vec![&head.stream],
            Input::Messages(messages) => vec![&messages.stream],
            Input::Advance { to, .. } => to.iter().map(|(iri, _)| iri.as_str()).collect(),
            _ => Vec::new(),
        };
        let uids: Vec<StreamUid> = (named.into_iter())
            .filter_map(|iri| self.streams().uid_of(iri))
            .collect();
        uids.into_iter()
    }
}

/// The batches that hold statements, including those of an input.
struct Content<'c> {
    streams: &'c Streams,
    brought: Vec<(StreamUid, BTreeSet<BatchNumber>)>,
}

impl<'c> Content<'c> {
    fn new<T: Iterator<Item = EventTime> + Clone>(
        streams: &'c Streams,
        reaches: &[Reach<'_, T>],
    ) -> Content<'c> {
        let brought = reaches.iter().map(|reach| (reach.uid(), reach.batches()));
        Content {
            streams,
            brought: brought.collect(),
        }
    }

    fn brought(&self, uid: StreamUid) -> Option<&BTreeSet<BatchNumber>> {
        let found = self.brought.iter().find(|(of, _)| *of == uid);
        found.map(|(_, batches)| batches)
    }

    /// The first batch from `from` on that holds a statement.
    fn first(&self, uid: StreamUid, from: BatchNumber) -> Option<BatchNumber> {
        let held = self.streams[&uid].first_held(from);
        let brought = self
            .brought(uid)
            .and_then(|it| it.range(from..).next().copied());
        held.into_iter().chain(brought).min()
    }

    /// The last batch before `to` that holds a statement.
    fn last(&self, uid: StreamUid, to: BatchNumber) -> Option<BatchNumber> {
        let held = self.streams[&uid].last_held(to);
        let brought = (self.brought(uid)).and_then(|it| it.range(..to).next_back().copied());
        held.max(brought)
    }
}

impl CloseGroup {
    /// The number of closes in `first ..= ready` that fire. Counting stops above `most`.
    fn firings_between(
        &self,
        content: &Content<'_>,
        first: EventTime,
        ready: EventTime,
        most: u64,
    ) -> u64 {
        let schedule = self.schedule();
        // Of a long run of empty closes the last one fires.
        let of_run = |closes: u64| {
            if closes > LONGEST_EMPTY_RUN {
                1
            } else {
                closes
            }
        };
        let mut fired = 0;
        let mut close = first;
        while close <= ready && fired <= most {
            let Some((from, until)) = self.next_content(content, close, ready) else {
                return fired + of_run(schedule.count(close, ready));
            };
            let last = just_before(until).min(ready);
            fired += of_run(schedule.count(close, just_before(from)));
            fired += schedule.count(from, last);
            close = schedule.first_after(last);
        }
        fired
    }

    /// The first close in `close ..= ready` at which some window holds a statement, and a time
    /// before which all closes from there on hold one.
    fn next_content(
        &self,
        content: &Content<'_>,
        mut close: EventTime,
        ready: EventTime,
    ) -> Option<(EventTime, EventTime)> {
        while close <= ready {
            let mut later: Option<EventTime> = None;
            for (uid, shape) in self.windows() {
                let stream = &content.streams[uid];
                let WindowShape::Span(span) = shape else {
                    // Once it holds something it always does.
                    let Some(batch) = content.first(*uid, BatchNumber(i64::MIN)) else {
                        continue;
                    };
                    let end = batch.end(stream.interval());
                    if end <= close {
                        return Some((close, EventTime::MAX));
                    }
                    later = Some(later.map_or(end, |later| later.min(end)));
                    continue;
                };
                let (from, to) = span.span_at(close);
                let Some(first) = content.first(*uid, stream.batch_of(from)) else {
                    continue;
                };
                if first.end(stream.interval()) <= to {
                    let newest = content.last(*uid, stream.batch_of(to)).unwrap_or(first);
                    let until = span.shown_until(newest.start(stream.interval()));
                    return Some((close, until.max(EventTime(close.0.saturating_add(1)))));
                }
                let shown_from = span.first_close_over(first.end(stream.interval()));
                later = Some(later.map_or(shown_from, |later| later.min(shown_from)));
            }
            close = self.schedule().first_at_or_after(later?);
        }
        None
    }
}
