//! Continuous queries grouped by when they fire: a group is all queries over the same streams with
//! the same closes.
//!
//! Before changing anything here: no code may walk over all queries or all groups when nothing is
//! due. A group waits at *one* stream that has not reached its next close. When that stream gets
//! there, the group moves on to another laggard, or is due. So a record costs what it makes due,
//! however many queries are registered.
//!
//! **Skipping empty closes (WI-2).** Every close that is due fires, empty or not. The exception is
//! a jump in time: where more than [`LONGEST_EMPTY_RUN`] consecutive closes are due at once and the
//! windows of none of them hold a statement, they are skipped without a firing and counted, all but
//! the last of the run, which fires as usual. So the newest due close always fires, and a
//! subscriber never keeps an answer that is no longer true. A query that also reads the stored
//! graph alone might have had rows at the closes that are skipped; that is the profile's choice
//! (language.md), and `QueryDeclaration::explain` says it.

mod saved;

pub(crate) use saved::RestoredMember;

use super::close_group::{CloseGroup, GroupKey, QueueState, just_before};
use super::schedule::WindowShape;
use crate::streams::Streams;
use crate::streams::stream::Stream;
use somersault_model::{EventTime, QueryUid, StreamUid};
use std::collections::{BTreeMap, BTreeSet};

/// The longest run of empty closes, due at once, that all fire.
pub(crate) const LONGEST_EMPTY_RUN: u64 = 64;

/// The identity of a group; never reused. Groups that are due at one close fire in its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct GroupId(u64);

/// A run of closes that a group passed without firing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SkippedCloses {
    pub(crate) group: GroupId,
    pub(crate) first: EventTime,
    pub(crate) last: EventTime,
}

/// All groups, and which of them are due.
#[derive(Clone, Debug, Default)]
pub(crate) struct CloseGroups {
    groups: BTreeMap<GroupId, CloseGroup>,
    by_key: BTreeMap<GroupKey, GroupId>,
    due: BTreeSet<(EventTime, GroupId)>,
    /// For each stream: the groups that wait for it, by the close that they wait for.
    waiting: StreamIndex,
    /// For each stream: the groups that window it, by the time from which their next close needs
    /// it.
    needs: StreamIndex,
    /// Each group's entries in `needs`.
    needs_of: BTreeMap<GroupId, Vec<(StreamUid, EventTime)>>,
    /// The streams whose needs have changed since they were published.
    changed: BTreeSet<StreamUid>,
    created: u64,
}

/// Groups by stream and time.
#[derive(Clone, Debug, Default)]
struct StreamIndex(BTreeMap<StreamUid, BTreeSet<(EventTime, GroupId)>>);

impl StreamIndex {
    fn insert(&mut self, uid: StreamUid, time: EventTime, id: GroupId) {
        self.0.entry(uid).or_default().insert((time, id));
    }

    fn remove(&mut self, uid: StreamUid, time: EventTime, id: GroupId) {
        if let Some(groups) = self.0.get_mut(&uid) {
            groups.remove(&(time, id));
            if groups.is_empty() {
                self.0.remove(&uid);
            }
        }
    }

    /// The groups of a stream, by time.
    fn of(&self, uid: StreamUid) -> impl Iterator<Item = (EventTime, GroupId)> + '_ {
        self.0.get(&uid).into_iter().flatten().copied()
    }
}

impl CloseGroups {
    pub(crate) fn get(&self, id: GroupId) -> &CloseGroup {
        &self.groups[&id]
    }

    /// The earliest close that is due.
    pub(crate) fn next_due(&self) -> Option<EventTime> {
        self.due.first().map(|(close, _)| *close)
    }

    /// Whether a group over this stream has a close that waits for its cut.
    pub(crate) fn is_due_over(&self, uid: StreamUid) -> bool {
        let mut due = self.due.iter().map(|(_, id)| self.get(*id));
        due.any(|group| group.streams().contains(&uid))
    }

    /// The queries whose close is due next.
    pub(crate) fn queries_due_next(&self) -> Vec<QueryUid> {
        let Some(close) = self.next_due() else {
            return Vec::new();
        };
        let groups = self.due_at(close).into_iter().map(|id| self.get(id));
        groups.flat_map(|group| group.members_at(close)).collect()
    }

    /// The number of closes that wait for their cut, including empty ones that will be skipped.
    pub(crate) fn closes_due(&self, streams: &Streams) -> u64 {
        let due = self.due.iter().map(|(close, id)| {
            let group = self.get(*id);
            group.schedule().count(*close, group.ready(streams)).max(1)
        });
        due.fold(0, u64::saturating_add)
    }

    /// The groups that a stream lets go on when it reaches this time, if no other stream holds them
    /// up.
    pub(crate) fn waiting_at(
        &self,
        uid: StreamUid,
        time: EventTime,
    ) -> impl Iterator<Item = &CloseGroup> + '_ {
        let reached = self.waiting.of(uid);
        let reached = reached.take_while(move |(close, _)| *close <= time);
        reached.map(|(_, id)| self.get(id))
    }

    /// Whether a stream that reaches this time lets a group go on.
    pub(crate) fn waits_at(&self, uid: StreamUid, time: EventTime) -> bool {
        self.waiting_at(uid, time).next().is_some()
    }

    /// The time from which the next close of some group needs a stream, and that group.
    pub(crate) fn first_need(&self, uid: StreamUid) -> Option<(EventTime, GroupId)> {
        self.needs.of(uid).next()
    }

    /// Returns the streams whose needs have changed since the last time.
    pub(crate) fn take_changed(&mut self) -> BTreeSet<StreamUid> {
        std::mem::take(&mut self.changed)
    }

    /// Puts a query into its group.
    pub(crate) fn join(
        &mut self,
        streams: &Streams,
        key: GroupKey,
        member: (EventTime, QueryUid),
        windows: &[(StreamUid, WindowShape)],
        skipped: &mut Vec<SkippedCloses>,
    ) -> GroupId {
        let id = match self.by_key.get(&key) {
            Some(id) => *id,
            None => {
                let id = GroupId(self.created);
                self.created += 1;
                self.by_key.insert(key.clone(), id);
                self.groups.insert(id, CloseGroup::new(key));
                id
            }
        };
        let group = self.group_mut(id);
        group.add(member, windows);
        let first = group.first_to_come(streams, member.0);
        match group.next {
            // A replacement may start before queries that joined while one stream held up all of
            // them.
            Some(next) if first < next => {
                group.next = Some(first);
                group.first = group.first.min(Some(first));
                self.settle(streams, id, skipped);
            }
            Some(_) => self.need(streams, id),
            None => self.settle(streams, id, skipped),
        }
        id
    }

    /// Takes a query out of its group.
    pub(crate) fn leave(
        &mut self,
        streams: &Streams,
        id: GroupId,
        member: (EventTime, QueryUid),
        windows: &[(StreamUid, WindowShape)],
        skipped: &mut Vec<SkippedCloses>,
    ) {
        let group = self.group_mut(id);
        group.remove(member, windows);
        let Some((base, _)) = group.members.first().copied() else {
            self.leave_queue(id);
            self.forget_needs(id);
            if let Some(group) = self.groups.remove(&id) {
                self.by_key.remove(&group.key);
            }
            return;
        };
        // Closes that only the query that left would have fired for need no cut.
        let group = self.get(id);
        let next = group.next_of(streams, base);
        if next > group.next {
            self.group_mut(id).next = next;
            self.settle(streams, id, skipped);
        } else if group.next.is_some() {
            self.need(streams, id);
        }
    }

    /// Moves on the groups that waited for a stream and whose time it has reached.
    pub(crate) fn on_stream_moved(
        &mut self,
        streams: &Streams,
        uid: StreamUid,
        skipped: &mut Vec<SkippedCloses>,
    ) {
        loop {
            let Some(watermark) = streams.get(uid).and_then(Stream::watermark) else {
                return;
            };
            let reached = self.waiting.of(uid).next();
            let Some((_, id)) = reached.filter(|(close, _)| *close <= watermark) else {
                return;
            };
            self.settle(streams, id, skipped);
        }
    }

    /// The groups that fire at this close, which is the earliest due one; each then needs
    /// [`CloseGroups::fired`].
    pub(crate) fn due_at(&self, close: EventTime) -> Vec<GroupId> {
        self.due
            .range((close, GroupId(0))..=(close, GroupId(u64::MAX)))
            .map(|(_, id)| *id)
            .collect()
    }

    /// Moves a group that has fired on to its next close.
    pub(crate) fn fired(
        &mut self,
        streams: &Streams,
        id: GroupId,
        close: EventTime,
        skipped: &mut Vec<SkippedCloses>,
    ) {
        let group = self.group_mut(id);
        assert!(
            group.next == Some(close),
            "WI-2: a group fires at its next close and no other"
        );
        group.next = Some(group.candidate_after(streams, close));
        self.settle(streams, id, skipped);
    }

    /// The groups that read a stream and have begun.
    pub(crate) fn readers_of(&self, uid: StreamUid) -> BTreeSet<GroupId> {
        self.needs.of(uid).map(|(_, id)| id).collect()
    }

    /// Counts an amendment of a close that the group has fired for. Returns the revision.
    pub(crate) fn amend(&mut self, id: GroupId, close: EventTime) -> u32 {
        self.group_mut(id).amend(close)
    }

    /// After a cut that amended closes of the group: forgets the revisions of closes that can no
    /// longer be amended. Not sooner: the record that made the amendment may have moved the streams
    /// on.
    pub(crate) fn forget_revisions(&mut self, streams: &Streams, id: GroupId) {
        self.group_mut(id).forget_revisions(streams);
    }

    /// The stream that the group waits for.
    pub(crate) fn waits_for(&self, id: GroupId) -> Option<StreamUid> {
        match self.get(id).queue {
            QueueState::Waiting(stream, _) => Some(stream),
            QueueState::None | QueueState::Due(_) => None,
        }
    }

    /// Puts the group into its queue: at a stream that has no time, at the one that is furthest
    /// behind, or among the due.
    fn settle(&mut self, streams: &Streams, id: GroupId, skipped: &mut Vec<SkippedCloses>) {
        self.leave_queue(id);
        let group = self.group_mut(id);
        let furthest_behind = group
            .streams()
            .iter()
            .map(|uid| (streams[uid].watermark(), *uid))
            .min()
            .expect("a group has a stream: admission refuses queries without windows");
        let (Some(ready), laggard) = furthest_behind else {
            self.wait(id, furthest_behind.1, EventTime::MIN);
            return;
        };
        let next = match group.next {
            Some(next) => next,
            None => group.begin(streams),
        };
        group.first = group.first.or(Some(next));
        group.next = Some(next);
        let by_number = group.first_by_number(streams, next);
        let by_time = group.schedule().first_at_or_after(next);
        let close = by_number.map_or(by_time, |by_number| by_number.min(by_time));
        if ready < close {
            // The next close lies after all that is known now.
            let next = match ready < next {
                true => next,
                false => group.candidate_after(streams, ready),
            };
            group.next = Some(next);
            self.wait(id, laggard, next);
        } else {
            group.next = Some(close);
            let until = by_number.map_or(ready, |by_number| just_before(by_number).min(ready));
            if let Some(run) = self.skip_empty(streams, id, close, until) {
                skipped.push(run);
            }
            let group = self.group_mut(id);
            let close = group.next.unwrap_or(close);
            group.queue = QueueState::Due(close);
            self.due.insert((close, id));
        }
        self.need(streams, id);
    }

    /// Skips a long run of empty closes from `next` on, all but its last.
    fn skip_empty(
        &mut self,
        streams: &Streams,
        id: GroupId,
        next: EventTime,
        ready: EventTime,
    ) -> Option<SkippedCloses> {
        let group = self.group_mut(id);
        let schedule = group.schedule();
        if schedule.count(next, ready) <= LONGEST_EMPTY_RUN {
            return None;
        }
        let content = group.first_close_with_content(streams, next, ready);
        let end = content.map_or(ready, just_before);
        if schedule.count(next, end) <= LONGEST_EMPTY_RUN {
            return None;
        }
        let fires = schedule.last_at_or_before(end);
        let last = schedule.last_at_or_before(just_before(fires));
        group.next = Some(fires);
        Some(SkippedCloses {
            group: id,
            first: next,
            last,
        })
    }

    fn wait(&mut self, id: GroupId, uid: StreamUid, until: EventTime) {
        self.group_mut(id).queue = QueueState::Waiting(uid, until);
        self.waiting.insert(uid, until, id);
    }

    fn leave_queue(&mut self, id: GroupId) {
        let group = self.group_mut(id);
        match std::mem::replace(&mut group.queue, QueueState::None) {
            QueueState::None => {}
            QueueState::Waiting(uid, until) => self.waiting.remove(uid, until, id),
            QueueState::Due(close) => {
                self.due.remove(&(close, id));
            }
        }
    }

    /// Notes from when on the group needs its streams.
    fn need(&mut self, streams: &Streams, id: GroupId) {
        self.forget_needs(id);
        let needs = self.get(id).needs(streams);
        for (uid, from) in &needs {
            self.needs.insert(*uid, *from, id);
            self.changed.insert(*uid);
        }
        self.needs_of.insert(id, needs);
    }

    fn forget_needs(&mut self, id: GroupId) {
        for (uid, from) in self.needs_of.remove(&id).unwrap_or_default() {
            self.needs.remove(uid, from, id);
            self.changed.insert(uid);
        }
    }

    fn group_mut(&mut self, id: GroupId) -> &mut CloseGroup {
        self.groups
            .get_mut(&id)
            .expect("a group lives as long as it has members, and only they and its queue name it")
    }
}
