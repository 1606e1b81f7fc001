//! A cohort in a checkpoint.
//!
//! The one thing to know before changing it: the position of a checkpoint is noted among the
//! changes of members, by the first thread that needs it there. Before that, nothing of the cohort
//! has changed since.

use super::{Cohort, MembershipChange};
use crate::delivery::hub::{CohortHub, FreezePoint};
use crate::saved::{AnswersError, contradiction};
use crate::stages::SavedStages;
use parking_lot::Mutex;
use somersault_model::{Sn, TermId};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A checkpoint that is being made, as the driver's thread gives it out.
#[derive(Clone, Copy, Default)]
pub(crate) struct Freeze {
    /// Counts the checkpoints since the start from 1; 0 before the first.
    pub(crate) number: u64,
    /// The newest SN that was cut.
    pub(crate) sn: Sn,
}

/// The answers of a cohort, as read from a checkpoint.
pub(crate) struct RestoredCohort {
    pub(crate) hub: CohortHub,
    pub(crate) stages: SavedStages,
}

/// What a restored cohort needs until its members are announced and its text is compiled.
pub(super) struct Restored {
    stages: Mutex<Option<SavedStages>>,
    /// Set if a member that was announced is another than the checkpoint's answers know.
    is_contradicted: AtomicBool,
}

impl Restored {
    pub(super) fn new(stages: SavedStages) -> Restored {
        Restored {
            stages: Mutex::new(Some(stages)),
            is_contradicted: AtomicBool::new(false),
        }
    }

    pub(super) fn take_stages(&self) -> Option<SavedStages> {
        self.stages.lock().take()
    }
}

impl Cohort {
    /// Notes the position of a checkpoint, unless it is known. Call before any later change.
    pub(crate) fn note_freeze(&self, freeze: Freeze) {
        if freeze.number == 0 {
            return;
        }
        let hub = self.hub.lock();
        let mut pending = self.pending.lock();
        if pending.freezes >= freeze.number {
            return;
        }
        pending.freezes = freeze.number;
        let (skipped_empty, skipped) = hub.passed_counts();
        pending.changes.push(MembershipChange::Frozen(FreezePoint {
            number: freeze.number,
            sn: freeze.sn,
            skipped_empty,
            skipped,
        }));
    }

    /// Returns the state that a checkpoint holds; `None` if the cohort was formed after it. All
    /// firings at or before the SN must have been answered.
    pub(crate) fn take_frozen(&self, freeze: Freeze) -> Option<(CohortHub, SavedStages)> {
        self.note_freeze(freeze);
        let stages = &self.compiled().stages;
        let mut hub = self.settled_hub();
        hub.take_frozen(freeze.number, || stages.save())
    }

    /// Enters the cells of members that the checkpoint had, and leaves those that are new.
    pub(super) fn join_again(
        &self,
        restored: &Restored,
        joining: &mut Vec<(u32, Vec<TermId>)>,
        words: &mut Vec<Vec<String>>,
    ) {
        let mut cells = self.cells.write();
        let hub = self.hub.lock();
        let cells = Arc::make_mut(&mut cells);
        let (mut texts, mut new, mut new_words) = (Vec::new(), Vec::new(), Vec::new());
        let mut all_words = std::mem::take(words).into_iter();
        for (slot, ids) in joining.drain(..) {
            let words = all_words.next();
            let Some(cell) = hub.ledger.cell(slot) else {
                if hub.ledger.has_had(slot) {
                    restored.is_contradicted.store(true, Ordering::Relaxed);
                }
                new.push((slot, ids));
                new_words.extend(words);
                continue;
            };
            for earlier in hub.ledger.stays(slot) {
                let is_same = hub.ledger.cell(earlier) == Some(cell);
                if !is_same || !cells.enter_again(cell, &ids) {
                    restored.is_contradicted.store(true, Ordering::Relaxed);
                }
            }
            texts.extend(words.map(|words| (cell, words)));
        }
        (*joining, *words) = (new, new_words);
        if !texts.is_empty() {
            let texts = MembershipChange::Texts(texts);
            self.pending.lock().changes.push(texts);
        }
    }

    /// After all members were announced: checks that they are those of the checkpoint's answers.
    pub(crate) fn check_restored(&self) -> Result<(), AnswersError> {
        let Some(restored) = &self.restored else {
            return contradiction(format!(
                "the cohort of \"{}\" has no answers",
                self.view.name()
            ));
        };
        let cells = Arc::clone(&self.cells.read());
        let entered = cells.numbers().map(|cell| cells.members(cell) as usize);
        let is_whole = entered.sum::<usize>() == self.hub.lock().ledger.taken_slots();
        match is_whole && !restored.is_contradicted.load(Ordering::Relaxed) {
            true => Ok(()),
            false => contradiction(format!(
                "the members of the cohort of \"{}\" are not those of the core",
                self.view.name()
            )),
        }
    }
}
