//! The groups as a checkpoint holds them.
//!
//! Before changing anything here: which stream a group waits for, and from when on it needs its
//! streams, were reckoned when its next close changed. Streams have moved since, and reckoning
//! again would give later times: the windows of queries that are registered next would see less
//! than in a run without the restart. So both are saved.

use super::{CloseGroup, CloseGroups, GroupId, GroupKey, QueueState};
use crate::closes::schedule::WindowShape;
use crate::saved::queries::SavedGroup;
use crate::saved::{CoreRecord, RestoreError, contradiction};
use crate::streams::Streams;
use somersault_model::{EventTime, QueryUid, StreamUid};

/// A member of a saved group: the time after which it fires, its uid, and its windows.
pub(crate) type RestoredMember = ((EventTime, QueryUid), Vec<(StreamUid, WindowShape)>);

impl GroupId {
    /// The id as a checkpoint holds it.
    pub(crate) fn saved(self) -> u64 {
        self.0
    }

    /// The id that a checkpoint holds.
    pub(crate) fn restore(id: u64) -> GroupId {
        GroupId(id)
    }
}

impl CloseGroups {
    /// The number of groups that were ever created.
    pub(crate) fn created(&self) -> u64 {
        self.created
    }

    /// The ids of groups go on after this many.
    pub(crate) fn set_created(&mut self, created: u64) {
        self.created = created;
    }

    /// All groups as a checkpoint holds them.
    pub(crate) fn save(&self, out: &mut Vec<CoreRecord>) {
        for (id, group) in &self.groups {
            let needs = self.needs_of.get(id).map_or(&[][..], Vec::as_slice);
            out.push(CoreRecord::Group(group.save(id.0, needs)));
        }
    }

    /// Takes a saved group, with its members.
    pub(crate) fn restore(
        &mut self,
        streams: &Streams,
        saved: &SavedGroup,
        key: GroupKey,
        members: Vec<RestoredMember>,
    ) -> Result<(), RestoreError> {
        let id = GroupId(saved.id);
        let needed = saved.needs.iter().chain(&saved.waits_for);
        let kept = saved.kept_from.iter().map(|(uid, _)| *uid);
        let mut named = needed.map(|(uid, _)| *uid).chain(kept);
        if named.any(|uid| streams.get(uid).is_none()) {
            return contradiction(format!("group {} names a stream that is not there", id.0));
        }
        let queue = match (saved.waits_for, saved.next) {
            (Some((stream, until)), _) => QueueState::Waiting(stream, until),
            (None, Some(next)) => QueueState::Due(next),
            (None, None) => return contradiction(format!("group {} waits for nothing", id.0)),
        };
        if self.groups.contains_key(&id) || self.by_key.insert(key.clone(), id).is_some() {
            return contradiction(format!("group {} is there twice", id.0));
        }
        let mut group = CloseGroup::restore(key, saved, queue);
        for (member, windows) in members {
            group.add(member, &windows);
        }
        self.groups.insert(id, group);
        match queue {
            QueueState::Waiting(stream, until) => self.waiting.insert(stream, until, id),
            QueueState::Due(close) => _ = self.due.insert((close, id)),
            QueueState::None => {}
        }
        for (uid, from) in &saved.needs {
            self.needs.insert(*uid, *from, id);
            self.changed.insert(*uid);
        }
        self.needs_of.insert(id, saved.needs.clone());
        Ok(())
    }
}
