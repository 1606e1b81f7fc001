//! One group of queries that fire together: those over the same streams with the same closes.
//!
//! Before changing anything here: all that a group knows of its streams are times and numbers, and
//! it walks over batches that hold statements, never over closes one by one.

use super::schedule::{Schedule, WindowShape};
use crate::protocol::firing::BatchSpan;
use crate::saved::queries::SavedGroup;
use crate::streams::Streams;
use somersault_model::{BatchNumber, EventTime, QueryUid, StreamUid};
use std::collections::{BTreeMap, BTreeSet};

/// The common declaration of the queries of a group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct GroupKey {
    /// Ascending, distinct.
    streams: Vec<StreamUid>,
    /// The closes by time.
    schedule: Schedule,
    /// The closes by number: a stream, and the STEP of a window of a number of statements.
    /// Ascending, distinct.
    counts: Vec<(StreamUid, u64)>,
}

impl GroupKey {
    /// `counts`: the streams and STEPs of windows of a number of statements, where those say when
    /// the query fires.
    pub(crate) fn new(
        streams: BTreeSet<StreamUid>,
        schedule: Schedule,
        counts: BTreeSet<(StreamUid, u64)>,
    ) -> GroupKey {
        GroupKey {
            streams: streams.into_iter().collect(),
            schedule,
            counts: counts.into_iter().collect(),
        }
    }
}

/// Which queue a group is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QueueState {
    None,
    /// In `waiting` of this stream, under this time.
    Waiting(StreamUid, EventTime),
    /// In `due`, under this close.
    Due(EventTime),
}

/// The queries over the same streams with the same closes.
#[derive(Clone, Debug)]
pub(crate) struct CloseGroup {
    pub(super) key: GroupKey,
    /// The next close; `None` until each stream has had its first push or advance (S5). For a
    /// waiting group with `counts`, the next time at which there may be a close.
    pub(super) next: Option<EventTime>,
    pub(super) queue: QueueState,
    /// Each query with the time after which it fires.
    pub(super) members: BTreeSet<(EventTime, QueryUid)>,
    /// The distinct windows of all members, with the number of members' windows of that shape.
    windows: BTreeMap<(StreamUid, WindowShape), usize>,
    /// The first batch that each stream retained when the group's closes began.
    kept_from: BTreeMap<StreamUid, BatchNumber>,
    /// The group's first close.
    pub(super) first: Option<EventTime>,
    /// The number of times that late statements have amended each close that may still be amended.
    revisions: BTreeMap<EventTime, u32>,
}

impl CloseGroup {
    /// A group without members.
    pub(super) fn new(key: GroupKey) -> CloseGroup {
        CloseGroup {
            key,
            next: None,
            queue: QueueState::None,
            members: BTreeSet::new(),
            windows: BTreeMap::new(),
            kept_from: BTreeMap::new(),
            first: None,
            revisions: BTreeMap::new(),
        }
    }

    /// A saved group without members.
    pub(super) fn restore(key: GroupKey, saved: &SavedGroup, queue: QueueState) -> CloseGroup {
        CloseGroup {
            next: saved.next,
            queue,
            kept_from: saved.kept_from.iter().copied().collect(),
            first: saved.first,
            revisions: saved.revisions.iter().copied().collect(),
            ..CloseGroup::new(key)
        }
    }

    /// The group as a checkpoint holds it; its members are those of its cohorts.
    pub(super) fn save(&self, id: u64, needs: &[(StreamUid, EventTime)]) -> SavedGroup {
        SavedGroup {
            id,
            next: self.next,
            first: self.first,
            waits_for: match self.queue {
                QueueState::Waiting(stream, until) => Some((stream, until)),
                QueueState::None | QueueState::Due(_) => None,
            },
            kept_from: self
                .kept_from
                .iter()
                .map(|(uid, from)| (*uid, *from))
                .collect(),
            revisions: (self.revisions.iter())
                .map(|(close, count)| (*close, *count))
                .collect(),
            needs: needs.to_vec(),
        }
    }

    /// Adds a member and its windows.
    pub(super) fn add(
        &mut self,
        member: (EventTime, QueryUid),
        windows: &[(StreamUid, WindowShape)],
    ) {
        self.members.insert(member);
        for window in windows {
            *self.windows.entry(*window).or_default() += 1;
        }
    }

    /// Removes a member and its windows.
    pub(super) fn remove(
        &mut self,
        member: (EventTime, QueryUid),
        windows: &[(StreamUid, WindowShape)],
    ) {
        self.members.remove(&member);
        for window in windows {
            if let Some(count) = self.windows.get_mut(window) {
                *count -= 1;
                if *count == 0 {
                    self.windows.remove(window);
                }
            }
        }
    }

    /// The streams that its queries window, ascending.
    pub(crate) fn streams(&self) -> &[StreamUid] {
        &self.key.streams
    }

    /// Its closes by time.
    pub(crate) fn schedule(&self) -> &Schedule {
        &self.key.schedule
    }

    /// The next close; `None` until each stream has a time.
    pub(crate) fn next(&self) -> Option<EventTime> {
        self.next
    }

    /// The distinct windows of its members.
    pub(crate) fn windows(&self) -> impl Iterator<Item = &(StreamUid, WindowShape)> {
        self.windows.keys()
    }

    /// The first batch that a stream retained when the group's closes began.
    pub(crate) fn kept_from(&self, uid: StreamUid) -> Option<BatchNumber> {
        self.kept_from.get(&uid).copied()
    }

    /// Counts an amendment of a close that the group has fired for. Returns the revision.
    pub(super) fn amend(&mut self, close: EventTime) -> u32 {
        let revision = self.revisions.entry(close).or_default();
        *revision += 1;
        *revision
    }

    /// Forgets the revisions of closes that can no longer be amended.
    pub(super) fn forget_revisions(&mut self, streams: &Streams) {
        if let Some(close) = self.earliest_needed(streams) {
            self.revisions = self.revisions.split_off(&close);
        }
    }

    /// From when on the group needs each of its streams, for its next close or for the earliest one
    /// that may yet be amended; ascending by stream.
    pub(super) fn needs(&self, streams: &Streams) -> Vec<(StreamUid, EventTime)> {
        let Some(close) = self.earliest_needed(streams) else {
            return Vec::new();
        };
        let mut needs: Vec<(StreamUid, EventTime)> = Vec::new();
        for (uid, shape) in self.windows.keys() {
            let stream = &streams[uid];
            let from = match shape {
                WindowShape::Span(span) => span.span_at(close).0,
                WindowShape::Statements { count, step } => (stream.numbered())
                    .needed_from(stream.batch_of(close), (*count, *step))
                    .map_or(EventTime::MIN, |batch| batch.start(stream.interval())),
            };
            match needs.last_mut() {
                // Windows ascend by stream, so those of one stream are neighbours.
                Some((last, needed)) if last == uid => *needed = from.min(*needed),
                _ => needs.push((*uid, from)),
            }
        }
        needs
    }

    /// The members that fire at this close.
    pub(crate) fn members_at(&self, close: EventTime) -> impl Iterator<Item = QueryUid> + '_ {
        // A close is a member's first one after its base, or a later one, exactly if it is after
        // the base.
        self.members
            .range(..(close, QueryUid(0)))
            .map(|(_, query)| *query)
    }

    /// The time after which its first member fires.
    pub(crate) fn first_base(&self) -> Option<EventTime> {
        self.members.first().map(|(base, _)| *base)
    }

    pub(crate) fn first_member(&self) -> Option<QueryUid> {
        self.members.first().map(|(_, query)| *query)
    }

    /// The earliest close that needs its windows: the next one, or an earlier one that late
    /// statements may still amend. Streams only advance, so the result at one time holds at all
    /// later ones.
    fn earliest_needed(&self, streams: &Streams) -> Option<EventTime> {
        let next = self.next?;
        let amendable = (self.key.streams.iter()).filter_map(|uid| streams[uid].amendable_after());
        let Some(after) = amendable.min() else {
            return Some(next);
        };
        let earliest = self.key.schedule.first_after(after).max(self.first?);
        Some(earliest.min(next))
    }

    /// The time that all of its streams have reached.
    pub(super) fn ready(&self, streams: &Streams) -> EventTime {
        let times = self.key.streams.iter().map(|uid| streams[uid].watermark());
        times.min().flatten().unwrap_or(EventTime::MIN)
    }

    /// The closes so far at which a window over its stream holds an amended batch.
    pub(crate) fn closes_with(&self, batch: &BatchSpan) -> impl Iterator<Item = EventTime> + '_ {
        let batch = *batch;
        let shapes = move || {
            let windows = self.windows.keys();
            let over_it = windows.filter(move |(of, _)| *of == batch.stream);
            over_it.map(|(_, shape)| shape)
        };
        let spans = shapes().filter_map(|shape| shape.span());
        let shown_until = spans.map(|span| span.shown_until(batch.start)).max();
        // A window that ends before its close holds the batch only at a later close.
        let spans = shapes().filter_map(|shape| shape.span());
        let shown_from = spans.map(|span| span.first_close_over(batch.end)).min();
        let first = self.first.unwrap_or(EventTime::MAX);
        let from = shown_from
            .map_or(batch.end, |from| from.max(batch.end))
            .max(first);
        let mut close = self.key.schedule.first_at_or_after(from);
        let closes = std::iter::from_fn(move || {
            let this = close;
            close = self.key.schedule.first_after(this);
            (Some(this) < self.next && Some(this) < shown_until).then_some(this)
        });
        closes.filter(move |close| shapes().any(|shape| shape.holds(&batch, *close)))
    }

    /// The first close of a member that was registered at this base.
    pub(crate) fn next_of(&self, streams: &Streams, base: EventTime) -> Option<EventTime> {
        let next = self.next?;
        Some(next.max(self.candidate_after(streams, base)))
    }

    /// The first time after `time` at which there is a close or, with the batch that ends then, may
    /// be one.
    pub(super) fn candidate_after(&self, streams: &Streams, time: EventTime) -> EventTime {
        let batch_ends = self.key.counts.iter().map(|(uid, _)| {
            let stream = &streams[uid];
            stream.batch_of(time).end(stream.interval())
        });
        let by_time = self.key.schedule.first_after(time);
        batch_ends.chain([by_time]).min().unwrap_or(by_time)
    }

    /// The first close by number at or after `time`, of the batches that have closed.
    pub(super) fn first_by_number(&self, streams: &Streams, time: EventTime) -> Option<EventTime> {
        let closes = self.key.counts.iter().filter_map(|(uid, step)| {
            let stream = &streams[uid];
            // The batch that ends at or after `time`.
            let from = stream.batch_of(EventTime(time.0.saturating_sub(1)));
            let batch = stream.numbered().next_close(from, *step)?;
            Some(batch.end(stream.interval()))
        });
        closes.min()
    }

    /// The number of firings of each member at a close: one, or as many as a window of a number of
    /// statements closes then.
    pub(crate) fn firings_at(&self, streams: &Streams, close: EventTime) -> u32 {
        let closes = self.key.counts.iter().map(|(uid, step)| {
            let stream = &streams[uid];
            let end = stream.batch_of(close);
            match end.start(stream.interval()) == close {
                true => stream.numbered().closes_at(BatchNumber(end.0 - 1), *step),
                false => 0,
            }
        });
        u32::try_from(closes.max().unwrap_or(0).max(1)).unwrap_or(u32::MAX)
    }

    /// The first close in `first ..= last` at which some window holds a statement. Jumps from batch
    /// to batch, not from close to close.
    pub(super) fn first_close_with_content(
        &self,
        streams: &Streams,
        first: EventTime,
        last: EventTime,
    ) -> Option<EventTime> {
        let mut close = first;
        while close <= last {
            let mut later: Option<EventTime> = None;
            for (uid, shape) in self.windows.keys() {
                let stream = &streams[uid];
                let WindowShape::Span(shape) = shape else {
                    // From its first statement on, the window always holds some.
                    let Some(batch) = stream.numbered().first() else {
                        continue;
                    };
                    let end = batch.end(stream.interval());
                    if end <= close {
                        return Some(close);
                    }
                    later = Some(later.map_or(end, |later| later.min(end)));
                    continue;
                };
                let (from, to) = shape.span_at(close);
                let Some(batch) = stream.first_held(stream.batch_of(from)) else {
                    continue;
                };
                let end = batch.end(stream.interval());
                if end <= to {
                    return Some(close);
                }
                let shown_from = shape.first_close_over(end);
                later = Some(later.map_or(shown_from, |later| later.min(shown_from)));
            }
            close = self.key.schedule.first_at_or_after(later?);
        }
        None
    }

    /// The group's first close, once every stream has a time: the first one after its first
    /// member's base and after the beginning of each stream. (A stream that had a time at
    /// registration began before the member's base.)
    pub(super) fn begin(&mut self, streams: &Streams) -> EventTime {
        let began = self
            .key
            .streams
            .iter()
            .filter_map(|uid| streams[uid].begin());
        let base = self.members.first().map(|(base, _)| *base);
        let after = began.chain(base).max().unwrap_or(EventTime::MIN);
        self.kept_from = self
            .key
            .streams
            .iter()
            .map(|uid| (*uid, streams[uid].retained_from()))
            .collect();
        self.candidate_after(streams, after)
    }

    /// The first close after a base that the group has not passed.
    pub(super) fn first_to_come(&self, streams: &Streams, base: EventTime) -> EventTime {
        let of_group = self.key.streams.iter().map(|uid| &streams[uid]);
        let ready = of_group.clone().map(|it| it.watermark()).min();
        let began = of_group.filter_map(|stream| stream.begin());
        let passed = began.chain(ready.flatten()).max();
        self.candidate_after(streams, passed.map_or(base, |passed| passed.max(base)))
    }
}

pub(crate) fn just_before(time: EventTime) -> EventTime {
    EventTime(time.0.saturating_sub(1))
}
