//! The registered queries as a checkpoint holds them.
//!
//! Before changing anything here: freezing copies a pointer for each cohort and no member. Which
//! cohort of a shape further queries join is saved, because it is not always the newest that is
//! left: once that one has ended, the next query of the shape forms another.

use super::Queries;
use super::cohort::{Cohort, FrozenCohort};
use crate::closes::close_group::GroupKey;
use crate::closes::close_groups::RestoredMember;
use crate::live::LiveQueries;
use crate::output::Output;
use crate::protocol::command::ReadTexts;
use crate::protocol::status::MemberId;
use crate::saved::queries::{QueryRecord, SavedCohort, SavedMark};
use crate::saved::{RestoreError, contradiction, portions};
use crate::streams::Streams;
use somersault_log::DeliveredRecord;
use somersault_model::{QueryUid, Sn, StreamUid};
use std::collections::BTreeSet;

/// The queries at one position of the log, shared with the machine that goes on.
#[derive(Debug)]
pub(crate) struct FrozenQueries {
    cohorts: Vec<FrozenCohort>,
    /// The cohorts that further queries of their shapes may join.
    taking: Vec<QueryUid>,
    delivered: Vec<SavedMark>,
}

impl FrozenQueries {
    /// The records, cohort by cohort.
    pub(crate) fn records(mut self) -> impl Iterator<Item = QueryRecord> {
        self.cohorts.sort_unstable_by_key(FrozenCohort::uid);
        self.delivered.sort_unstable_by_key(|mark| mark.query);
        let taking: BTreeSet<QueryUid> = self.taking.into_iter().collect();
        let cohorts = self.cohorts.into_iter().flat_map(move |cohort| {
            let takes_members = taking.contains(&cohort.uid());
            cohort.records(takes_members)
        });
        cohorts.chain(portions(self.delivered).map(QueryRecord::Delivered))
    }
}

impl Queries {
    /// The queries as they are now.
    pub(crate) fn freeze(&self) -> FrozenQueries {
        let delivered = self.delivered.values().map(|mark| SavedMark {
            query: mark.query,
            close: mark.close,
            sn: mark.sn,
        });
        FrozenQueries {
            cohorts: self.cohorts.values().map(FrozenCohort::new).collect(),
            taking: self.by_shape.iter().copied().collect(),
            delivered: delivered.collect(),
        }
    }

    /// The events that make another driver know all cohorts.
    pub(crate) fn announce(&self, newest: Sn, out: &mut Vec<Output>) {
        for uid in self.cohort_uids() {
            if let Some(cohort) = self.get(uid) {
                cohort.announce(newest, out);
            }
        }
    }

    /// The uids of queries go on with this one.
    pub(crate) fn set_next_uid(&mut self, next_uid: u64) {
        self.next_uid = next_uid;
    }

    /// Takes a saved record, after those that came before it.
    pub(crate) fn restore(
        &mut self,
        record: QueryRecord,
        texts: &mut dyn ReadTexts,
        streams: &Streams,
    ) -> Result<(), RestoreError> {
        match record {
            QueryRecord::Cohort(saved) => self.restore_cohort(*saved, texts, streams)?,
            QueryRecord::Waves(uid, waves) => self.saved_cohort(uid)?.members.add_waves(waves),
            QueryRecord::Histories(uid, histories) => {
                self.saved_cohort(uid)?.members.add_histories(histories);
            }
            QueryRecord::Members(uid, members) => {
                self.saved_cohort(uid)?.members.add_saved(members)?;
            }
            QueryRecord::Delivered(marks) => {
                self.delivered.extend(marks.into_iter().map(|mark| {
                    let SavedMark { query, close, sn } = mark;
                    (query, DeliveredRecord { query, close, sn })
                }));
            }
        }
        Ok(())
    }

    fn restore_cohort(
        &mut self,
        mut saved: SavedCohort,
        texts: &mut dyn ReadTexts,
        streams: &Streams,
    ) -> Result<(), RestoreError> {
        let (uid, takes_members) = (saved.uid, saved.takes_members);
        let namespace = saved.namespace.clone();
        let mut queries = Vec::with_capacity(saved.texts.len());
        for text in std::mem::take(&mut saved.texts) {
            queries.push(texts.query(&text, namespace.as_deref())?);
        }
        let cohort = Cohort::restore(saved, &queries, streams)?;
        if self.get(uid).is_some() {
            return contradiction(format!("cohort {} is there twice", uid.0));
        }
        let is_shared = cohort.is_shared();
        self.insert(cohort);
        if is_shared && takes_members {
            self.enter_shape(uid);
        }
        Ok(())
    }

    /// The common key of cohorts of one saved group, and each of them as its member.
    pub(crate) fn restored_group(
        &self,
        group: u64,
        uids: &[QueryUid],
    ) -> Result<(GroupKey, Vec<RestoredMember>), RestoreError> {
        let cohorts: Vec<&Cohort> = uids.iter().filter_map(|uid| self.get(*uid)).collect();
        let mut keys = cohorts.iter().map(|cohort| cohort.group_key());
        let Some(key) = keys.next() else {
            return contradiction(format!("group {group} has no cohort"));
        };
        if keys.any(|other| other != key) {
            return contradiction(format!("the cohorts of group {group} have other closes"));
        }
        let member = |cohort: &&Cohort| ((cohort.base, cohort.uid), cohort.window_shapes());
        Ok((key, cohorts.iter().map(member).collect()))
    }

    /// Each derived stream with the streams that it is derived from.
    pub(crate) fn derivations(&self) -> Vec<(StreamUid, BTreeSet<StreamUid>)> {
        let uids = self.cohort_uids();
        let cohorts = uids.iter().filter_map(|uid| self.get(*uid));
        let derived = cohorts.filter_map(|cohort| Some((cohort.derived()?, cohort.streams())));
        derived.collect()
    }

    /// After the last record: finds the members that run, and enters the names.
    pub(crate) fn finish_restoring(&mut self, live: &LiveQueries) -> Result<(), RestoreError> {
        let mut ids = Vec::new();
        for uid in self.cohort_uids() {
            let Some(cohort) = self.get_mut(uid) else {
                continue;
            };
            let fits = cohort.members.find_running();
            let runs = match cohort.live() {
                Some(_) => live.runs(uid),
                None => Some(cohort.group.is_some()),
            };
            if !fits || runs != Some(cohort.members.base().is_some()) {
                return contradiction(format!("the members of cohort {} do not fit it", uid.0));
            }
            cohort.publish();
            let slots = cohort.members.names_from(0).map(|(slot, _)| slot);
            ids.extend(slots.map(|slot| MemberId { cohort: uid, slot }));
        }
        // The table is empty: no entry needs its hash again.
        self.by_name.reserve(ids.len(), |_| 0);
        for id in ids {
            self.enter_name(id);
        }
        Ok(())
    }

    fn saved_cohort(&mut self, uid: QueryUid) -> Result<&mut Cohort, RestoreError> {
        match self.get_mut(uid) {
            Some(cohort) => Ok(cohort),
            None => contradiction(format!("there is no cohort with the uid {}", uid.0)),
        }
    }
}
