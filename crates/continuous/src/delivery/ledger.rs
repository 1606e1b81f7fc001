//! The slots of a cohort's members: which of them fire in a result, and the counts of each.
//!
//! The one thing to know before changing it: a result says which slots fired, and `until` says
//! which of them had been paused by then. The count of a member is the count of its cell, less the
//! cell's count when the member joined. A slot is covered from the first result in which it fires,
//! and only then is that difference fixed. So a result costs what its rows cost, however many
//! members there are.

mod saved;

use rustc_hash::FxHashMap;
use somersault_model::{EventTime, Sn};
use somersault_stream::{Firing, Pause};

/// Fewer gaps than this are not worth closing.
const GAPS: usize = 64;

/// A member as it joins.
#[derive(Clone, Copy)]
pub(crate) struct JoiningSlot {
    pub(crate) slot: u32,
    pub(crate) cell: u32,
}

/// The slot of a member, with its counts.
#[derive(Clone, Copy)]
struct Entry {
    slot: u32,
    cell: u32,
    /// The number of rows to add to the cell's; 0 if the slot is not covered yet.
    rows: i64,
}

/// The counts of a cell.
#[derive(Clone, Copy, Default)]
struct CellCounts {
    rows: u64,
    /// Slots that are covered and fire.
    firing: u32,
}

const VACANT: u32 = u32::MAX;

/// Members that joined at the same time.
#[derive(Clone)]
struct JoinWave {
    first: u32,
    base: EventTime,
    /// The number of the cohort's firings before the first of these members.
    before: Option<u64>,
}

/// The firings and rows that a member has seen.
#[derive(Clone, Copy, Default)]
pub(crate) struct MemberCounts {
    pub(crate) firings: u64,
    pub(crate) rows: u64,
    pub(crate) last_close: Option<EventTime>,
}

/// The pause of the member in a slot.
#[derive(Clone)]
struct PausedSlot {
    pause: Pause,
    /// The last close before its pause that was passed. Firings of earlier closes may still be
    /// under way by then.
    passed_through: Option<EventTime>,
    /// Set once no firing from before the pause is under way.
    seen: Option<MemberCounts>,
}

/// The counts of one result, for all members together.
#[derive(Clone, Copy, Default)]
pub(crate) struct ResultCounts {
    /// Members that fired.
    pub(crate) executions: u64,
    /// Members that fired and had rows.
    pub(crate) nonempty: u64,
    /// Rows of all members.
    pub(crate) rows: u64,
}

/// The slots and counts of a cohort's members.
#[derive(Clone, Default)]
pub(crate) struct MemberLedger {
    /// Ascending by slot.
    entries: Vec<Entry>,
    gaps: usize,
    joins: Vec<JoinWave>,
    /// Slots below this have fired.
    covered: u32,
    /// By the number of the cell.
    cells: Vec<CellCounts>,
    /// Covered slots that fire.
    firing: u64,
    /// Paused slots, including those of members that have been resumed since.
    until: FxHashMap<u32, PausedSlot>,
    /// Paused slots whose `seen` is not fixed yet.
    pausing: Vec<u32>,
    /// The previous slot of a resumed member, by its slot.
    earlier: FxHashMap<u32, u32>,
    /// The next slot of a resumed member, by its previous slot.
    later: FxHashMap<u32, u32>,
    /// The number of the cohort's results.
    firings: u64,
    /// The last close with a result.
    answered_through: Option<EventTime>,
    /// The last close that was passed without a result.
    passed_through: Option<EventTime>,
}

impl MemberLedger {
    /// Prepares for `members` members that join and fire after `base`.
    pub(crate) fn begin(&mut self, members: usize, base: EventTime) {
        if self.entries.capacity() - self.entries.len() < members {
            // Doubling would leave up to half of the list unused.
            self.entries
                .reserve_exact(members.max(self.entries.len() / 8));
        }
        let first = self.entries.last().map_or(0, |entry| entry.slot + 1);
        let goes_on = |last: &JoinWave| last.base == base && last.before.is_none();
        if !self.joins.last().is_some_and(goes_on) {
            if self.joins.is_empty() {
                // Most cohorts of one query never have a second.
                self.joins.reserve_exact(1);
            }
            self.joins.push(JoinWave {
                first,
                base,
                before: None,
            });
        }
    }

    /// Adds a member; `resumed` is its previous slot if it was resumed.
    pub(crate) fn join(&mut self, member: JoiningSlot, resumed: Option<u32>) {
        let JoiningSlot { slot, cell } = member;
        self.entries.push(Entry {
            slot,
            cell,
            rows: 0,
        });
        if self.cells.len() <= cell as usize {
            let more = cell as usize + 1 - self.cells.len();
            if self.cells.capacity() <= cell as usize {
                self.cells.reserve_exact(more.max(self.cells.len() / 8));
            }
            self.cells.resize(cell as usize + 1, CellCounts::default());
        }
        if let Some(before) = resumed {
            self.earlier.insert(slot, before);
            self.later.insert(before, slot);
        }
    }

    pub(crate) fn pause(&mut self, slot: u32, pause: Pause) {
        if self.until.contains_key(&slot) {
            // Restored: a slot is paused once.
            return;
        }
        let until = PausedSlot {
            pause,
            passed_through: self.passed_through,
            seen: None,
        };
        self.until.insert(slot, until);
        self.pausing.push(slot);
    }

    /// Returns the slots that a member has had, from this one back to its first.
    pub(crate) fn stays(&self, slot: u32) -> impl Iterator<Item = u32> + '_ {
        std::iter::successors(Some(slot), |slot| self.earlier.get(slot).copied())
    }

    /// Returns the newest SN at the pause of the member in a slot.
    pub(crate) fn paused_at(&self, slot: u32) -> Option<Sn> {
        self.until.get(&slot).map(|until| until.pause.through)
    }

    /// Returns the paused slots that have had all their firings, given that a firing is due at
    /// `sn`.
    pub(crate) fn stopped_by(&self, sn: Sn) -> impl Iterator<Item = u32> + '_ {
        let slots = self.pausing.iter().copied();
        slots.filter(move |slot| self.paused_at(*slot).is_some_and(|through| through < sn))
    }

    /// Removes a member for good; returns its cell, once for every time that it entered it.
    pub(crate) fn leave(&mut self, slot: u32) -> Vec<u32> {
        let mut cells = Vec::new();
        let mut next = Some(slot);
        while let Some(slot) = next {
            if let Some(at) = self.at(slot) {
                let cell = self.entries[at].cell;
                let is_fixed = |until: &PausedSlot| until.seen.is_some();
                if slot < self.covered && !self.until.get(&slot).is_some_and(is_fixed) {
                    self.cells[cell as usize].firing -= 1;
                    self.firing -= 1;
                }
                cells.push(cell);
                self.entries[at].cell = VACANT;
                self.gaps += 1;
            }
            self.until.remove(&slot);
            self.later.remove(&slot);
            next = self.earlier.remove(&slot);
        }
        self.close_gaps();
        cells
    }

    fn close_gaps(&mut self) {
        if self.gaps <= GAPS || self.gaps <= self.entries.len() / 2 {
            return;
        }
        // The last entry stays: the next slot is the one after it.
        let last = self.entries.last().map(|entry| entry.slot);
        self.entries
            .retain(|entry| entry.cell != VACANT || Some(entry.slot) == last);
        self.entries.shrink_to_fit();
        self.gaps = 0;
        // Removes joins with no member left, except the newest, which others may still extend.
        let entries = &self.entries;
        let mut ends: Vec<u32> = self.joins.iter().skip(1).map(|join| join.first).collect();
        ends.push(u32::MAX);
        let mut ends = ends.into_iter();
        self.joins.retain(|join| {
            let end = ends.next().unwrap_or(u32::MAX);
            let from = entries.partition_point(|entry| entry.slot < join.first);
            end == u32::MAX || entries.get(from).is_some_and(|entry| entry.slot < end)
        });
    }

    fn at(&self, slot: u32) -> Option<usize> {
        let at = self.entries.binary_search_by_key(&slot, |entry| entry.slot);
        at.ok().filter(|at| self.entries[*at].cell != VACANT)
    }

    /// Returns the cell of the member in a slot.
    pub(crate) fn cell(&self, slot: u32) -> Option<u32> {
        self.at(slot).map(|at| self.entries[at].cell)
    }

    /// Returns the present slot of the member that was in a slot: it may have been resumed since.
    pub(crate) fn newest(&self, mut slot: u32) -> u32 {
        while let Some(later) = self.later.get(&slot) {
            slot = *later;
        }
        slot
    }

    fn join_of(&self, slot: u32) -> Option<&JoinWave> {
        let after = self.joins.partition_point(|join| join.first <= slot);
        self.joins.get(after.checked_sub(1)?)
    }

    /// Returns the time after which the member in a slot fires there.
    pub(crate) fn base(&self, slot: u32) -> EventTime {
        self.join_of(slot).map_or(EventTime::MIN, |join| join.base)
    }

    /// Returns the first slot of the member in a slot: it may have been resumed since.
    pub(crate) fn first(&self, slot: u32) -> u32 {
        self.stays(slot).last().unwrap_or(slot)
    }

    /// Whether the member in a slot fires in a result, there or in an earlier slot.
    pub(crate) fn fires(&self, slot: u32, firing: &Firing) -> bool {
        self.stays(slot).any(|slot| {
            // The time of an amended close says nothing: late statements amend what the members
            // running at that moment have seen.
            let runs = (self.paused_at(slot)).is_none_or(|through| firing.sn <= through);
            slot < firing.members && runs
        })
    }

    /// Counts a result, given the cells that have rows and their numbers of rows. Results come in
    /// the order of their closes.
    pub(crate) fn count(
        &mut self,
        firing: &Firing,
        rows: impl Iterator<Item = (u32, u64)> + Clone,
    ) -> ResultCounts {
        self.cover(firing.members);
        self.note_paused(firing);
        let younger = match firing.members < self.covered {
            true => self.pass_over_younger(firing.members, rows.clone()),
            false => ResultCounts::default(),
        };
        self.firings += 1;
        self.answered_through = self.answered_through.max(Some(firing.close));
        let mut counted = ResultCounts {
            executions: self.firing,
            ..ResultCounts::default()
        };
        for (cell, rows) in rows {
            if let Some(counts) = self.cells.get_mut(cell as usize) {
                counts.rows += rows;
                let firing = u64::from(counts.firing);
                counted.rows += rows * firing;
                counted.nonempty += firing;
            }
        }
        counted.executions -= younger.executions;
        counted.nonempty -= younger.nonempty;
        counted.rows -= younger.rows;
        counted
    }

    /// Notes that closes up to this one were passed without a result. This is known at once, also
    /// while firings of earlier closes are under way.
    pub(crate) fn passed(&mut self, last: EventTime) {
        for slot in &self.pausing {
            if let Some(until) = self.until.get_mut(slot)
                && until.pause.next.is_some_and(|next| last < next)
            {
                until.passed_through = until.passed_through.max(Some(last));
            }
        }
        self.passed_through = self.passed_through.max(Some(last));
    }

    /// An amended firing is of an earlier close, at which members that joined later do not fire:
    /// what their cells count now is not theirs. Returns what the counts would be for them.
    fn pass_over_younger(
        &mut self,
        members: u32,
        rows: impl Iterator<Item = (u32, u64)>,
    ) -> ResultCounts {
        let rows: FxHashMap<u32, u64> = rows.collect();
        let mut younger = ResultCounts::default();
        let from = self.entries.partition_point(|entry| entry.slot < members);
        for entry in &mut self.entries[from..] {
            if entry.slot >= self.covered || entry.cell == VACANT {
                continue;
            }
            let rows = rows.get(&entry.cell).copied().unwrap_or(0);
            entry.rows -= rows as i64;
            let until = self.until.get(&entry.slot);
            if until.is_none_or(|until| until.seen.is_none()) {
                younger.executions += 1;
                younger.nonempty += u64::from(rows > 0);
                younger.rows += rows;
            }
        }
        for join in &mut self.joins {
            if let Some(before) = &mut join.before
                && join.first >= members
            {
                *before += 1;
            }
        }
        younger
    }

    /// Fixes the counts before the first firing of each slot below this one.
    fn cover(&mut self, members: u32) {
        if members <= self.covered {
            return;
        }
        let from = self
            .entries
            .partition_point(|entry| entry.slot < self.covered);
        for entry in &mut self.entries[from..] {
            if entry.slot >= members {
                break;
            }
            if entry.cell != VACANT {
                let counts = &mut self.cells[entry.cell as usize];
                entry.rows -= counts.rows as i64;
                counts.firing += 1;
                self.firing += 1;
            }
        }
        for join in self.joins.iter_mut().rev() {
            if join.before.is_some() {
                break;
            }
            if join.first < members {
                join.before = Some(self.firings);
            }
        }
        self.covered = members;
    }

    /// Fixes the counts of members that were paused before a firing became due.
    fn note_paused(&mut self, firing: &Firing) {
        let mut pausing = std::mem::take(&mut self.pausing);
        pausing.retain(|slot| {
            let Some(until) = self.until.get(slot) else {
                return false;
            };
            if firing.sn <= until.pause.through {
                return true;
            }
            self.fix(*slot);
            false
        });
        self.pausing = pausing;
    }

    /// Fixes the counts of the paused member in a slot: it sees nothing more there.
    fn fix(&mut self, slot: u32) {
        let seen = self.seen_at(slot);
        if slot < self.covered
            && let Some(at) = self.at(slot)
        {
            self.cells[self.entries[at].cell as usize].firing -= 1;
            self.firing -= 1;
        }
        if let Some(until) = self.until.get_mut(&slot) {
            until.seen = Some(seen);
        }
    }

    /// Returns the counts of a member, over its slot and its earlier ones.
    pub(crate) fn seen(&self, slot: u32) -> MemberCounts {
        let mut seen = MemberCounts::default();
        for slot in self.stays(slot) {
            let there = self.seen_at(slot);
            seen.firings += there.firings;
            seen.rows += there.rows;
            seen.last_close = seen.last_close.max(there.last_close);
        }
        seen
    }

    /// Returns the counts of the member in a slot, there alone.
    fn seen_at(&self, slot: u32) -> MemberCounts {
        let until = self.until.get(&slot);
        if let Some(seen) = until.and_then(|until| until.seen) {
            return seen;
        }
        let (Some(at), Some(join)) = (self.at(slot), self.join_of(slot)) else {
            return MemberCounts::default();
        };
        let is_own = |close: &EventTime| *close > join.base;
        let passed_through = until.map_or(self.passed_through, |until| until.passed_through);
        if slot >= self.covered {
            return MemberCounts {
                last_close: passed_through.filter(is_own),
                ..MemberCounts::default()
            };
        }
        let entry = &self.entries[at];
        let rows = self.cells[entry.cell as usize].rows as i64 + entry.rows;
        MemberCounts {
            firings: join.before.map_or(0, |before| self.firings - before),
            rows: u64::try_from(rows).unwrap_or(0),
            last_close: self.answered_through.max(passed_through).filter(is_own),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use somersault_model::QueryUid;

    fn firing(close: i64, revision: u32, sn: u64) -> Firing {
        Firing {
            query: QueryUid(1),
            members: 2,
            close: EventTime(close),
            ordinal: 0,
            revision,
            repeated: false,
            sn: Sn(sn),
            windows: [].into(),
            changed: None,
            complete_from: None,
        }
    }

    #[test]
    fn a_paused_member_has_the_firings_that_became_due_before_whenever_they_are_answered() {
        let mut ledger = MemberLedger::default();
        ledger.begin(2, EventTime(0));
        for slot in 0..2 {
            ledger.join(JoiningSlot { slot, cell: 0 }, None);
        }
        ledger.count(&firing(1000, 0, 4), std::iter::once((0, 3)));
        let next = Some(EventTime(2000));
        let through = Sn(5);
        ledger.pause(0, Pause { through, next });
        // Its amendment was due when it was paused, the second one came later.
        for (due, at_0) in [(firing(1000, 1, 5), true), (firing(1000, 2, 6), false)] {
            assert_eq!(ledger.fires(0, &due), at_0);
            assert!(ledger.fires(1, &due));
            ledger.count(&due, std::iter::once((0, 4)));
        }
        let counted = |slot| (ledger.seen(slot).firings, ledger.seen(slot).rows);
        assert_eq!([counted(0), counted(1)], [(2, 7), (3, 11)]);
    }

    #[test]
    fn members_that_come_and_go_leave_nothing_behind() {
        let mut ledger = MemberLedger::default();
        ledger.begin(1, EventTime(0));
        ledger.join(JoiningSlot { slot: 0, cell: 0 }, None);
        for slot in 1..10_000 {
            let time = i64::from(slot) * 10;
            ledger.begin(1, EventTime(time));
            ledger.join(JoiningSlot { slot, cell: 0 }, None);
            let due = Firing {
                members: slot + 1,
                ..firing(time + 1, 0, u64::from(slot))
            };
            ledger.count(&due, std::iter::once((0, 1)));
            assert_eq!(ledger.seen(slot).firings, 1);
            assert_eq!(ledger.base(slot), EventTime(time));
            assert_eq!(ledger.leave(slot), [0]);
        }
        let (slots, joins) = (ledger.entries.len(), ledger.joins.len());
        assert!(slots < 200 && joins < 200, "{slots} {joins}");
        assert_eq!(
            (ledger.seen(0).firings, ledger.base(0)),
            (9_999, EventTime(0))
        );
    }

    #[test]
    fn closes_skipped_before_the_first_firing_are_reported_at_once() {
        let mut ledger = MemberLedger::default();
        for (slot, base) in [(0, 0), (1, 4000), (2, 9000)] {
            ledger.begin(1, EventTime(base));
            ledger.join(JoiningSlot { slot, cell: 0 }, None);
        }
        ledger.passed(EventTime(5000));
        let last = |slot| ledger.seen(slot).last_close;
        let passed = Some(EventTime(5000));
        assert_eq!([0, 1, 2].map(last), [passed, passed, None]);
        assert_eq!(ledger.seen(0).firings, 0);
    }

    #[test]
    fn skipping_closes_keeps_the_running_firings_of_a_paused_member() {
        let mut ledger = MemberLedger::default();
        ledger.begin(2, EventTime(0));
        for slot in 0..2 {
            ledger.join(JoiningSlot { slot, cell: 0 }, None);
        }
        ledger.count(&firing(1000, 0, 4), std::iter::once((0, 3)));
        let next = Some(EventTime(3000));
        let through = Sn(5);
        ledger.pause(0, Pause { through, next });
        // The close of 2000 is being executed while later ones are passed: some for both, some for
        // the other alone.
        let last = |ledger: &MemberLedger| {
            [0, 1].map(|slot| ledger.seen(slot).last_close.map(|close| close.0))
        };
        ledger.passed(EventTime(2500));
        assert_eq!(last(&ledger), [Some(2500); 2]);
        ledger.passed(EventTime(9000));
        assert_eq!(last(&ledger), [Some(2500), Some(9000)]);
        ledger.count(&firing(2000, 0, 5), std::iter::once((0, 4)));
        let counted = |slot| (ledger.seen(slot).firings, ledger.seen(slot).rows);
        assert_eq!([counted(0), counted(1)], [(2, 7); 2]);
        ledger.count(&firing(10_000, 0, 6), std::iter::once((0, 1)));
        let counted = |slot| (ledger.seen(slot).firings, ledger.seen(slot).rows);
        assert_eq!([counted(0), counted(1)], [(2, 7), (3, 8)]);
        assert_eq!(last(&ledger), [Some(2500), Some(10_000)]);
    }
}
