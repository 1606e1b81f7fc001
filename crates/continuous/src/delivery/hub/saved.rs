//! The results of a cohort at one SN, for a checkpoint.
//!
//! The one thing to know before changing it: members join and leave after the checkpoint's position
//! in the log, while firings that became due before are still under way. So the hub divides there:
//! the frozen one keeps the members of that position, and still takes the results at or before the
//! SN.

use super::{CohortHub, PausedHistory};
use crate::delivery::MemberLedger;
use crate::evaluation::outcome::CohortResult;
use crate::metrics::Tally;
use crate::saved::{
    AnswerRecord, AnswersError, Out, SavedCohort, SavedHistory, SavedId, contradiction, in_portions,
};
use crate::stages::SavedStages;
use crate::subscriptions::{Evicted, FiringId};
use rustc_hash::FxHashMap;
use somersault_model::{QueryUid, Sn};
use std::sync::Arc;

/// The position in the log at which a cohort is frozen, with what must be counted there.
#[derive(Clone, Copy)]
pub(crate) struct FreezePoint {
    /// The number of the checkpoint since the start.
    pub(crate) number: u64,
    /// The checkpoint has the results at or before this SN.
    pub(crate) sn: Sn,
    /// The closes that were passed by then.
    pub(crate) skipped_empty: u64,
    /// Firings at or before the SN that were not executed because a newer one was due.
    pub(crate) skipped: u64,
}

/// The part of a hub that a checkpoint holds.
pub(crate) struct FrozenHub {
    point: FreezePoint,
    hub: Box<CohortHub>,
    /// What the first later answer was compared with; `None` before that.
    stages: Option<SavedStages>,
}

impl CohortHub {
    /// Returns the counts of passed closes and of skipped firings.
    pub(crate) fn passed_counts(&self) -> (u64, u64) {
        (self.tally.skipped_empty, self.tally.skipped)
    }

    /// Keeps the state of now until it is taken; results at or before the SN still come into it.
    pub(crate) fn freeze(&mut self, point: FreezePoint) {
        let mut counts = self.tally.save();
        counts.skipped_empty = point.skipped_empty;
        counts.skipped = point.skipped;
        let hub = CohortHub {
            capacity: self.capacity,
            is_shared: self.is_shared,
            kept: self.kept.clone(),
            kept_bytes: self.kept_bytes,
            gone: self.gone,
            before: self.before.clone(),
            last: self.last.clone(),
            ledger: self.ledger.clone(),
            listeners: FxHashMap::default(),
            outbox: self.outbox.frozen(),
            ended: false,
            tally: Tally::restore(counts, self.tally.last_error.clone()),
            frozen: None,
        };
        self.frozen = Some(FrozenHub {
            point,
            hub: Box::new(hub),
            stages: None,
        });
    }

    /// Returns the frozen part if it takes a result at this SN.
    pub(super) fn frozen_at(&mut self, sn: Sn) -> Option<&mut CohortHub> {
        let frozen = self.frozen.as_mut()?;
        (sn <= frozen.point.sn).then_some(&mut *frozen.hub)
    }

    /// Call before the answer of a firing at `sn` is compared with the one before.
    pub(crate) fn note_compared(&mut self, sn: Sn, stages: impl FnOnce() -> SavedStages) {
        if let Some(frozen) = &mut self.frozen
            && sn > frozen.point.sn
            && frozen.stages.is_none()
        {
            frozen.stages = Some(stages());
        }
    }

    /// Takes out what was frozen for the checkpoint of this number. All firings at or before its
    /// SN must have been answered.
    pub(crate) fn take_frozen(
        &mut self,
        number: u64,
        stages: impl FnOnce() -> SavedStages,
    ) -> Option<(CohortHub, SavedStages)> {
        let frozen = self
            .frozen
            .take_if(|frozen| frozen.point.number == number)?;
        let stages = frozen.stages.unwrap_or_else(stages);
        Some((*frozen.hub, stages))
    }

    /// Writes the records of the cohort with this uid.
    pub(crate) fn save(&self, uid: QueryUid, out: &mut Out<'_>) {
        let mut cohort = SavedCohort {
            uid,
            counts: self.tally.save(),
            last_error: self.tally.last_error.clone(),
            gone: self.gone.save(),
            covered: 0,
            results: 0,
            answered_through: None,
            passed_through: None,
        };
        self.ledger.save_counts(&mut cohort);
        out(AnswerRecord::Cohort(Box::new(cohort)));
        self.ledger.save(out);
        let mut histories: Vec<SavedHistory> = (self.last.iter())
            .map(|(slot, last)| SavedHistory {
                slot: *slot,
                given: last.given.save(),
                error: last.error.clone(),
            })
            .collect();
        histories.sort_unstable_by_key(|history| history.slot);
        in_portions(histories, out, AnswerRecord::Histories);
        let before = self.before.iter();
        let mut before: Vec<(u32, SavedId)> = before.map(|(slot, id)| (*slot, id.save())).collect();
        before.sort_unstable_by_key(|(slot, _)| *slot);
        in_portions(before, out, AnswerRecord::Before);
        for result in &self.kept {
            result.save(out);
        }
    }

    /// Returns the hub of a saved cohort, whose further records follow.
    pub(crate) fn restore(saved: &SavedCohort) -> CohortHub {
        CohortHub {
            gone: Evicted::restore(saved.gone),
            ledger: MemberLedger::restore(saved),
            tally: Tally::restore(saved.counts, saved.last_error.clone()),
            ..CohortHub::new(usize::MAX, false)
        }
    }

    /// Adds saved histories.
    pub(crate) fn add_histories(&mut self, histories: Vec<SavedHistory>) {
        self.last.extend(histories.into_iter().map(|saved| {
            let history = PausedHistory {
                given: Evicted::restore(saved.given),
                error: saved.error,
            };
            (saved.slot, history)
        }));
    }

    /// Adds the last firings of queries that members replaced.
    pub(crate) fn add_before(&mut self, before: Vec<(u32, SavedId)>) {
        let before = before.into_iter();
        (self.before).extend(before.map(|(slot, id)| (slot, FiringId::restore(id))));
    }

    /// Adds a kept result, after earlier ones.
    pub(crate) fn add_result(&mut self, result: CohortResult) {
        self.kept_bytes += result.outcome.memory_bytes();
        self.kept.push_back(Arc::new(result));
    }

    /// After the last record: checks what was read.
    pub(crate) fn finish_restoring(&mut self) -> Result<(), AnswersError> {
        self.ledger.finish_restoring()?;
        let is_sorted = self.kept.iter().is_sorted_by_key(|result| result.firing.sn);
        match is_sorted {
            true => Ok(()),
            false => contradiction("the results of a cohort are not in their order"),
        }
    }

    /// Sets how many results are kept, and whether there may be several members. Results beyond
    /// that number go later, because durable subscriptions, which may need them, are announced
    /// afterwards.
    pub(crate) fn resize(&mut self, capacity: usize, is_shared: bool) {
        self.capacity = capacity;
        self.is_shared = is_shared;
    }
}
