//! Continuous queries grouped by when they fire: a group is all queries over the same streams with
//! the same closes.
//!
//! Before changing anything here: no code may walk over all queries or all groups when nothing is
//! due. A group waits at *one* stream that has not reached its next close. When that stream gets
//! there, the group moves on to another laggard, or is due. So a record costs what it makes due,
//! however many queries are registered.
//!
//! **Passing in bulk (WI-2).** Every close that is due fires, empty or not. The exception is a jump
//! in time: where more than [`BULK_RUN`] consecutive closes are due at once and the windows of none
//! of them hold a statement, they are passed without a firing and counted, all but the last of the
//! run, which fires as usual. So the newest due close always fires, and a subscriber never keeps an
//! answer that is no longer true. A query that also reads the stored graph alone might have had
//! rows at the closes that are passed; that is the profile's choice (language.md), and
//! `QueryDeclaration::explain` says it.

use crate::closes::amend::Amended;
use crate::closes::schedule::{Schedule, WindowShape};
use crate::streams::Streams;
use crate::streams::stream::Stream;
use somersault_model::{BatchNumber, EventTime, QueryUid, StreamUid};
use std::collections::{BTreeMap, BTreeSet};

/// The longest run of empty closes, due at once, that all fire.
pub(crate) const BULK_RUN: u64 = 64;

/// The identity of a group; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct GroupId(u64);

/// What the queries of a group have in common.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct GroupKey {
    /// Ascending, distinct.
    pub(crate) streams: Vec<StreamUid>,
    /// The closes by time.
    pub(crate) schedule: Schedule,
    /// The closes by number: a stream, and the STEP of a window of a number of statements.
    /// Ascending, distinct.
    pub(crate) counts: Vec<(StreamUid, u64)>,
}

/// Which queue a group is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Nowhere,
    /// In `waiting` of this stream, under this time.
    Waiting(StreamUid, EventTime),
    /// In `due`, under this close.
    Due(EventTime),
}

#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) key: GroupKey,
    /// The next close; None until each stream has had its first push or advance (S5). For a waiting
    /// group with `counts`, the next time at which there may be a close.
    pub(crate) next: Option<EventTime>,
    place: Place,
    /// Each query with the time after which it fires.
    members: BTreeSet<(EventTime, QueryUid)>,
    /// The distinct windows of all members, with the number of members' windows of that shape.
    pub(crate) windows: BTreeMap<(StreamUid, WindowShape), usize>,
    /// The first batch that each stream retained when the group's closes began.
    pub(crate) kept_from: BTreeMap<StreamUid, BatchNumber>,
    /// The group's entries in `needs` of each stream.
    needs: Vec<(StreamUid, EventTime)>,
    /// The group's first close.
    first: Option<EventTime>,
    /// How often late statements have amended each close that may still be amended.
    revisions: BTreeMap<EventTime, u32>,
}

impl Group {
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
    fn ready(&self, streams: &Streams) -> EventTime {
        let times = self.key.streams.iter().map(|uid| streams[uid].watermark());
        times.min().flatten().unwrap_or(EventTime::MIN)
    }

    /// The closes so far at which a window over its stream holds an amended batch.
    pub(crate) fn closes_with(&self, batch: &Amended) -> impl Iterator<Item = EventTime> + '_ {
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
        closes.filter(move |close| shapes().any(|shape| batch.is_in(shape, *close)))
    }

    /// The first close of a member that was registered at this base.
    pub(crate) fn next_of(&self, streams: &Streams, base: EventTime) -> Option<EventTime> {
        let next = self.next?;
        Some(next.max(self.candidate_after(streams, base)))
    }

    /// The first time after `time` at which there is a close or, with the batch that ends then, may
    /// be one.
    fn candidate_after(&self, streams: &Streams, time: EventTime) -> EventTime {
        let batch_ends = self.key.counts.iter().map(|(uid, _)| {
            let stream = &streams[uid];
            stream.batch_of(time).end(stream.interval())
        });
        let by_time = self.key.schedule.first_after(time);
        batch_ends.chain([by_time]).min().unwrap_or(by_time)
    }

    /// The first close by number at or after `time`, of the batches that have closed.
    fn first_by_number(&self, streams: &Streams, time: EventTime) -> Option<EventTime> {
        let closes = self.key.counts.iter().filter_map(|(uid, step)| {
            let stream = &streams[uid];
            // The batch that ends at or after `time`.
            let from = stream.batch_of(EventTime(time.0.saturating_sub(1)));
            let batch = stream.numbered.next_close(from, *step)?;
            Some(batch.end(stream.interval()))
        });
        closes.min()
    }

    /// How often the members fire at a close: once, or as often as a window of a number of
    /// statements closes then.
    pub(crate) fn firings_at(&self, streams: &Streams, close: EventTime) -> u32 {
        let closes = self.key.counts.iter().map(|(uid, step)| {
            let stream = &streams[uid];
            let end = stream.batch_of(close);
            match end.start(stream.interval()) == close {
                true => stream.numbered.closes_at(BatchNumber(end.0 - 1), *step),
                false => 0,
            }
        });
        u32::try_from(closes.max().unwrap_or(0).max(1)).unwrap_or(u32::MAX)
    }

    /// The first close in `first ..= last` at which some window holds a statement. Jumps from batch
    /// to batch, not from close to close.
    fn first_close_with_content(
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
                    let Some(batch) = stream.numbered.first() else {
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
}

/// A run of closes that a group passed without firing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PassedRun {
    pub(crate) group: GroupId,
    pub(crate) first: EventTime,
    pub(crate) last: EventTime,
}

/// All groups, and which of them are due.
#[derive(Clone, Debug, Default)]
pub(crate) struct Groups {
    groups: BTreeMap<GroupId, Group>,
    by_key: BTreeMap<GroupKey, GroupId>,
    due: BTreeSet<(EventTime, GroupId)>,
    created: u64,
}

impl Groups {
    pub(crate) fn get(&self, id: GroupId) -> &Group {
        &self.groups[&id]
    }

    /// The earliest close that is due.
    pub(crate) fn next_due(&self) -> Option<EventTime> {
        self.due.first().map(|(close, _)| *close)
    }

    /// Whether a group over this stream has a close that waits for its cut.
    pub(crate) fn is_due_over(&self, uid: StreamUid) -> bool {
        let mut due = self.due.iter().map(|(_, id)| self.get(*id));
        due.any(|group| group.key.streams.contains(&uid))
    }

    /// How many closes wait for their cut, including those that will be passed in bulk.
    pub(crate) fn closes_due(&self, streams: &Streams) -> u64 {
        let due = self.due.iter().map(|(close, id)| {
            let group = self.get(*id);
            group
                .key
                .schedule
                .count(*close, group.ready(streams))
                .max(1)
        });
        due.fold(0, u64::saturating_add)
    }

    /// The groups that a stream lets go on when it reaches this time, if no other stream holds them
    /// up.
    pub(crate) fn waiting_at<'a>(
        &'a self,
        stream: &'a Stream,
        time: EventTime,
    ) -> impl Iterator<Item = &'a Group> + 'a {
        let reached = stream
            .waiting
            .iter()
            .take_while(move |(close, _)| *close <= time);
        reached.map(|(_, id)| self.get(*id))
    }

    /// Puts a query into its group.
    pub(crate) fn join(
        &mut self,
        streams: &mut Streams,
        key: GroupKey,
        member: (EventTime, QueryUid),
        windows: &[(StreamUid, WindowShape)],
        passed: &mut Vec<PassedRun>,
    ) -> GroupId {
        let id = match self.by_key.get(&key) {
            Some(id) => *id,
            None => {
                let id = GroupId(self.created);
                self.created += 1;
                self.by_key.insert(key.clone(), id);
                self.groups.insert(
                    id,
                    Group {
                        key,
                        next: None,
                        place: Place::Nowhere,
                        members: BTreeSet::new(),
                        windows: BTreeMap::new(),
                        kept_from: BTreeMap::new(),
                        needs: Vec::new(),
                        first: None,
                        revisions: BTreeMap::new(),
                    },
                );
                id
            }
        };
        let group = self.group_mut(id);
        group.members.insert(member);
        for window in windows {
            *group.windows.entry(*window).or_default() += 1;
        }
        let first = group.first_to_come(streams, member.0);
        match group.next {
            // A replacement may start before queries that joined while one stream held up all of
            // them.
            Some(next) if first < next => {
                group.next = Some(first);
                group.first = group.first.min(Some(first));
                self.settle(streams, id, passed);
            }
            Some(_) => self.need(streams, id),
            None => self.settle(streams, id, passed),
        }
        id
    }

    /// Takes a query out of its group.
    pub(crate) fn leave(
        &mut self,
        streams: &mut Streams,
        id: GroupId,
        member: (EventTime, QueryUid),
        windows: &[(StreamUid, WindowShape)],
        passed: &mut Vec<PassedRun>,
    ) {
        let group = self.group_mut(id);
        group.members.remove(&member);
        for window in windows {
            if let Some(count) = group.windows.get_mut(window) {
                *count -= 1;
                if *count == 0 {
                    group.windows.remove(window);
                }
            }
        }
        let Some((base, _)) = group.members.first().copied() else {
            self.remove_from_place(streams, id);
            let group = self.group_mut(id);
            group.windows.clear();
            let key = group.key.clone();
            self.forget_needs(streams, id);
            self.by_key.remove(&key);
            self.groups.remove(&id);
            return;
        };
        // Closes that only the query that left would have fired for need no cut.
        let group = self.get(id);
        let next = group.next_of(streams, base);
        if next > group.next {
            self.group_mut(id).next = next;
            self.settle(streams, id, passed);
        } else if group.next.is_some() {
            self.need(streams, id);
        }
    }

    /// Moves on the groups that waited for a stream and whose time it has reached.
    pub(crate) fn on_stream_moved(
        &mut self,
        streams: &mut Streams,
        uid: StreamUid,
        passed: &mut Vec<PassedRun>,
    ) {
        loop {
            let Some(stream) = streams.get_mut(&uid) else {
                return;
            };
            let reached = stream
                .waiting
                .first()
                .filter(|(close, _)| Some(*close) <= stream.watermark());
            let Some((_, id)) = reached.copied() else {
                return;
            };
            self.settle(streams, id, passed);
        }
    }

    /// The groups that fire at this close, which is the earliest due one; each then needs
    /// [`Groups::fired`].
    pub(crate) fn due_at(&self, close: EventTime) -> Vec<GroupId> {
        self.due
            .range((close, GroupId(0))..=(close, GroupId(u64::MAX)))
            .map(|(_, id)| *id)
            .collect()
    }

    /// Moves a group that has fired on to its next close.
    pub(crate) fn fired(
        &mut self,
        streams: &mut Streams,
        id: GroupId,
        close: EventTime,
        passed: &mut Vec<PassedRun>,
    ) {
        let group = self.group_mut(id);
        assert!(
            group.next == Some(close),
            "WI-2: a group fires at its next close and no other"
        );
        group.next = Some(group.candidate_after(streams, close));
        self.settle(streams, id, passed);
    }

    /// The groups that read a stream and have begun, found by their entries in the stream's
    /// `needs`.
    pub(crate) fn readers_of(stream: &Stream) -> BTreeSet<GroupId> {
        stream.needs.iter().map(|(_, id)| *id).collect()
    }

    /// Counts an amendment of a close that the group has fired for. Returns the revision.
    pub(crate) fn amend(&mut self, id: GroupId, close: EventTime) -> u32 {
        let revision = self.group_mut(id).revisions.entry(close).or_default();
        *revision += 1;
        *revision
    }

    /// After a cut that amended closes of the group: forgets the revisions of closes that can no
    /// longer be amended. Not sooner: the record that made the amendment may have moved the streams
    /// on.
    pub(crate) fn forget_revisions(&mut self, streams: &Streams, id: GroupId) {
        let group = self.group_mut(id);
        if let Some(close) = group.earliest_needed(streams) {
            group.revisions = group.revisions.split_off(&close);
        }
    }

    /// The stream that the group waits for.
    pub(crate) fn waits_for(&self, id: GroupId) -> Option<StreamUid> {
        match self.get(id).place {
            Place::Waiting(stream, _) => Some(stream),
            Place::Nowhere | Place::Due(_) => None,
        }
    }

    /// Puts the group into its queue: at a stream that has no time, at the one that is furthest
    /// behind, or among the due.
    fn settle(&mut self, streams: &mut Streams, id: GroupId, passed: &mut Vec<PassedRun>) {
        self.remove_from_place(streams, id);
        let group = self.group_mut(id);
        let furthest_behind = group
            .key
            .streams
            .iter()
            .map(|uid| (streams[uid].watermark(), *uid))
            .min()
            .expect("a group has a stream: admission refuses queries without windows");
        let (Some(ready), laggard) = furthest_behind else {
            self.wait(streams, id, furthest_behind.1, EventTime::MIN);
            return;
        };
        let next = match group.next {
            Some(next) => next,
            None => group.begin(streams),
        };
        group.first = group.first.or(Some(next));
        group.next = Some(next);
        let by_number = group.first_by_number(streams, next);
        let by_time = group.key.schedule.first_at_or_after(next);
        let close = by_number.map_or(by_time, |by_number| by_number.min(by_time));
        if ready < close {
            // The next close lies after all that is known now.
            let next = match ready < next {
                true => next,
                false => group.candidate_after(streams, ready),
            };
            group.next = Some(next);
            self.wait(streams, id, laggard, next);
        } else {
            group.next = Some(close);
            let until = by_number.map_or(ready, |by_number| just_before(by_number).min(ready));
            if let Some(run) = self.pass_in_bulk(streams, id, close, until) {
                passed.push(run);
            }
            let group = self.group_mut(id);
            let close = group.next.unwrap_or(close);
            group.place = Place::Due(close);
            self.due.insert((close, id));
        }
        self.need(streams, id);
    }

    /// Skips a long run of empty closes from `next` on, all but its last.
    fn pass_in_bulk(
        &mut self,
        streams: &Streams,
        id: GroupId,
        next: EventTime,
        ready: EventTime,
    ) -> Option<PassedRun> {
        let group = self.group_mut(id);
        let schedule = &group.key.schedule;
        if schedule.count(next, ready) <= BULK_RUN {
            return None;
        }
        let content = group.first_close_with_content(streams, next, ready);
        let end = content.map_or(ready, just_before);
        if schedule.count(next, end) <= BULK_RUN {
            return None;
        }
        let fires = schedule.last_at_or_before(end);
        let last = schedule.last_at_or_before(just_before(fires));
        group.next = Some(fires);
        Some(PassedRun {
            group: id,
            first: next,
            last,
        })
    }

    fn wait(&mut self, streams: &mut Streams, id: GroupId, uid: StreamUid, until: EventTime) {
        self.group_mut(id).place = Place::Waiting(uid, until);
        if let Some(stream) = streams.get_mut(&uid) {
            stream.waiting.insert((until, id));
        }
    }

    fn remove_from_place(&mut self, streams: &mut Streams, id: GroupId) {
        let group = self.group_mut(id);
        match std::mem::replace(&mut group.place, Place::Nowhere) {
            Place::Nowhere => {}
            Place::Waiting(uid, until) => {
                if let Some(stream) = streams.get_mut(&uid) {
                    stream.waiting.remove(&(until, id));
                }
            }
            Place::Due(close) => {
                self.due.remove(&(close, id));
            }
        }
    }

    /// Tells each stream from when on the group needs it, for its next close or for the earliest
    /// one that may yet be amended.
    fn need(&mut self, streams: &mut Streams, id: GroupId) {
        self.forget_needs(streams, id);
        let group = self.group_mut(id);
        let Some(close) = group.earliest_needed(streams) else {
            return;
        };
        for (uid, shape) in group.windows.keys() {
            let stream = &streams[uid];
            let from = match shape {
                WindowShape::Span(span) => span.span_at(close).0,
                WindowShape::Statements { count, step } => (stream.numbered)
                    .needed_from(stream.batch_of(close), (*count, *step))
                    .map_or(EventTime::MIN, |batch| batch.start(stream.interval())),
            };
            match group.needs.last_mut() {
                // Windows ascend by stream, so those of one stream are neighbours.
                Some((last, needed)) if last == uid => *needed = from.min(*needed),
                _ => group.needs.push((*uid, from)),
            }
        }
        for (uid, from) in &group.needs {
            if let Some(stream) = streams.get_mut(uid) {
                stream.needs.insert((*from, id));
            }
        }
    }

    fn forget_needs(&mut self, streams: &mut Streams, id: GroupId) {
        for (uid, from) in self.group_mut(id).needs.drain(..) {
            if let Some(stream) = streams.get_mut(&uid) {
                stream.needs.remove(&(from, id));
            }
        }
    }

    fn group_mut(&mut self, id: GroupId) -> &mut Group {
        self.groups
            .get_mut(&id)
            .expect("a group lives as long as it has members, and only they and its place name it")
    }
}

impl Group {
    /// The group's first close, once every stream has a time: the first one after its first
    /// member's base and after the beginning of each stream. (A stream that had a time at
    /// registration began before the member's base.)
    fn begin(&mut self, streams: &Streams) -> EventTime {
        let began = self.key.streams.iter().filter_map(|uid| streams[uid].begin);
        let base = self.members.first().map(|(base, _)| *base);
        let after = began.chain(base).max().unwrap_or(EventTime::MIN);
        self.kept_from = self
            .key
            .streams
            .iter()
            .map(|uid| (*uid, streams[uid].retained_from))
            .collect();
        self.candidate_after(streams, after)
    }
}

impl Group {
    /// The first close after a base that the group has not passed.
    fn first_to_come(&self, streams: &Streams, base: EventTime) -> EventTime {
        let of_group = self.key.streams.iter().map(|uid| &streams[uid]);
        let ready = of_group.clone().map(|it| it.watermark()).min();
        let began = of_group.filter_map(|stream| stream.begin);
        let passed = began.chain(ready.flatten()).max();
        self.candidate_after(streams, passed.map_or(base, |passed| passed.max(base)))
    }
}

pub(crate) fn just_before(time: EventTime) -> EventTime {
    EventTime(time.0.saturating_sub(1))
}
