//! The slots of a cohort's members as a checkpoint holds them.
//!
//! Before changing anything here: numbers of slots and cells stay what they were, because kept
//! results name them. How many slots of each cell fire follows from the other fields.

use super::{CellCounts, Entry, JoinWave, MemberCounts, MemberLedger, PausedSlot, VACANT};
use crate::saved::{
    AnswerRecord, AnswersError, Out, SavedCohort, SavedMember, SavedPause, SavedWave,
    contradiction, in_portions,
};
use somersault_stream::Pause;

impl MemberLedger {
    /// Writes its part of the cohort's own record.
    pub(crate) fn save_counts(&self, cohort: &mut SavedCohort) {
        cohort.covered = self.covered;
        cohort.results = self.firings;
        cohort.answered_through = self.answered_through;
        cohort.passed_through = self.passed_through;
    }

    /// Writes the records of the members.
    pub(crate) fn save(&self, out: &mut Out<'_>) {
        let waves = self.joins.iter().map(|join| SavedWave {
            first: join.first,
            base: join.base,
            before: join.before,
        });
        in_portions(waves, out, AnswerRecord::Waves);
        let members = self.entries.iter().map(|entry| SavedMember {
            slot: entry.slot,
            cell: (entry.cell != VACANT).then_some(entry.cell),
            rows: entry.rows,
        });
        in_portions(members, out, AnswerRecord::Members);
        let cells = self.cells.iter().map(|counts| counts.rows);
        in_portions(cells, out, AnswerRecord::Cells);
        let mut pauses: Vec<SavedPause> = (self.until.iter())
            .map(|(slot, until)| SavedPause {
                slot: *slot,
                through: until.pause.through,
                next: until.pause.next,
                passed_through: until.passed_through,
                seen: (until.seen).map(|seen| (seen.firings, seen.rows, seen.last_close)),
            })
            .collect();
        pauses.sort_unstable_by_key(|pause| pause.slot);
        in_portions(pauses, out, AnswerRecord::Pauses);
        let earlier = self.earlier.iter();
        let mut resumed: Vec<(u32, u32)> = earlier.map(|(slot, before)| (*slot, *before)).collect();
        resumed.sort_unstable();
        in_portions(resumed, out, AnswerRecord::Resumed);
    }

    /// Returns the ledger that [`MemberLedger::save_counts`] saved, without members.
    pub(crate) fn restore(cohort: &SavedCohort) -> MemberLedger {
        MemberLedger {
            covered: cohort.covered,
            firings: cohort.results,
            answered_through: cohort.answered_through,
            passed_through: cohort.passed_through,
            ..MemberLedger::default()
        }
    }

    /// Adds saved waves, after earlier ones.
    pub(crate) fn add_waves(&mut self, waves: Vec<SavedWave>) {
        self.joins.reserve_exact(waves.len());
        self.joins.extend(waves.into_iter().map(|wave| JoinWave {
            first: wave.first,
            base: wave.base,
            before: wave.before,
        }));
    }

    /// Adds saved slots, after earlier ones.
    pub(crate) fn add_members(&mut self, members: Vec<SavedMember>) {
        self.entries.reserve_exact(members.len());
        self.entries.extend(members.into_iter().map(|member| Entry {
            slot: member.slot,
            cell: member.cell.unwrap_or(VACANT),
            rows: member.rows,
        }));
    }

    /// Adds saved cells, after earlier ones.
    pub(crate) fn add_cells(&mut self, rows: Vec<u64>) {
        self.cells.reserve_exact(rows.len());
        let cells = rows.into_iter().map(|rows| CellCounts { rows, firing: 0 });
        self.cells.extend(cells);
    }

    /// Adds saved pauses.
    pub(crate) fn add_pauses(&mut self, pauses: Vec<SavedPause>) {
        for saved in pauses {
            let seen = saved.seen.map(|(firings, rows, last_close)| MemberCounts {
                firings,
                rows,
                last_close,
            });
            if seen.is_none() {
                self.pausing.push(saved.slot);
            }
            let (through, next) = (saved.through, saved.next);
            let paused = PausedSlot {
                pause: Pause { through, next },
                passed_through: saved.passed_through,
                seen,
            };
            self.until.insert(saved.slot, paused);
        }
    }

    /// Adds the earlier slots of resumed members.
    pub(crate) fn add_resumed(&mut self, resumed: Vec<(u32, u32)>) {
        for (slot, before) in resumed {
            self.earlier.insert(slot, before);
            self.later.insert(before, slot);
        }
    }

    /// After the last record: counts the slots that fire.
    pub(crate) fn finish_restoring(&mut self) -> Result<(), AnswersError> {
        let is_ascending = self.entries.is_sorted_by(|a, b| a.slot < b.slot);
        if !is_ascending || !self.joins.is_sorted_by(|a, b| a.first <= b.first) {
            return contradiction("the members of a cohort are not in the order of their slots");
        }
        if (self.joins.iter()).any(|join| join.before.is_some_and(|it| it > self.firings)) {
            return contradiction("members of a cohort joined after its last result");
        }
        let is_known = |slot: &u32| self.at(*slot).is_some();
        let pauses = self.until.keys();
        let resumed = self.earlier.iter();
        let fits = pauses.chain(self.earlier.keys()).all(is_known)
            && resumed
                .clone()
                .all(|(slot, before)| before < slot && is_known(before))
            && self.later.len() == self.earlier.len();
        if !fits {
            return contradiction("a paused or resumed member of a cohort is missing");
        }
        let cells = self.cells.len();
        for entry in &self.entries {
            if entry.cell == VACANT {
                self.gaps += 1;
                continue;
            }
            let Some(counts) = self.cells.get_mut(entry.cell as usize) else {
                return contradiction(format!(
                    "a member is in cell {}, and its cohort has {cells} cells",
                    entry.cell
                ));
            };
            let until = self.until.get(&entry.slot);
            if entry.slot < self.covered && until.is_none_or(|until| until.seen.is_none()) {
                counts.firing += 1;
                self.firing += 1;
            }
        }
        Ok(())
    }

    /// Returns the number of slots that members are in, or were in before they were resumed.
    pub(crate) fn taken_slots(&self) -> usize {
        self.entries.len() - self.gaps
    }

    /// Whether there was a member in a slot.
    pub(crate) fn has_had(&self, slot: u32) -> bool {
        self.entries.last().is_some_and(|last| slot <= last.slot)
    }
}
