//! The places of a cohort's members: which of them fire in a result, and what each has been counted.
//!
//! The one thing to know before changing it: a result says which places fired, and `until` which of them had been
//! paused by then. What a member has counted is what its cell has, less what that had when it joined; a place is
//! covered from the first result on that it fires in, and only then is that difference fixed. So a result costs what
//! its rows cost, however many members there are.

use rustc_hash::FxHashMap;
use somersault_model::{EventTime, Sn};
use somersault_stream::{Firing, Pause};

/// Fewer gaps than this are not worth closing.
const GAPS: usize = 64;

/// A member as it joins.
#[derive(Clone, Copy)]
pub(crate) struct Standby {
    pub(crate) place: u32,
    pub(crate) cell: u32,
}

/// A place of a member.
#[derive(Clone, Copy)]
struct Slot {
    place: u32,
    cell: u32,
    /// Rows: what is to be added to the cell's; of a place that is not covered yet, 0.
    rows: i64,
}

/// What is counted of a cell.
#[derive(Clone, Copy, Default)]
struct CellCounts {
    rows: u64,
    /// MemberLedger that are covered and fire.
    firing: u32,
}

const NOBODY: u32 = u32::MAX;

/// Members that joined at one time.
struct Join {
    first: u32,
    base: EventTime,
    /// The firings of the cohort before the first of theirs.
    before: Option<u64>,
}

/// What a member has seen.
#[derive(Clone, Copy, Default)]
pub(crate) struct Seen {
    pub(crate) firings: u64,
    pub(crate) rows: u64,
    pub(crate) last_close_ms: Option<i64>,
}

/// A member that was paused at its place.
struct Until {
    pause: Pause,
    /// The last close before its pause that was passed. Firings of earlier closes may still be under way by then.
    passed_ms: Option<i64>,
    /// Once no firing of before is under way.
    seen: Option<Seen>,
}

/// What a result came to for all members together.
#[derive(Clone, Copy, Default)]
pub(crate) struct Counted {
    /// Members that fired.
    pub(crate) executions: u64,
    /// Those of them that had rows.
    pub(crate) nonempty: u64,
    /// Their rows.
    pub(crate) rows: u64,
}

/// See the module.
#[derive(Default)]
pub(crate) struct MemberLedger {
    /// Ascending by place.
    slots: Vec<Slot>,
    gaps: usize,
    joins: Vec<Join>,
    /// MemberLedger below this have fired.
    covered: u32,
    /// By the number of the cell.
    cells: Vec<CellCounts>,
    /// Covered places that fire.
    firing: u64,
    /// Paused places, those of members that were resumed since among them.
    until: FxHashMap<u32, Until>,
    /// Those of them of which it is not fixed yet what they have seen.
    pausing: Vec<u32>,
    /// Of a member that was resumed: the place that it had before.
    earlier: FxHashMap<u32, u32>,
    /// The other way round.
    later: FxHashMap<u32, u32>,
    /// Results of the cohort.
    firings: u64,
    /// The last close with a result.
    answered_ms: Option<i64>,
    /// The last one that was passed without.
    passed_ms: Option<i64>,
}

impl MemberLedger {
    /// So many members are about to join, after this time.
    pub(crate) fn begin(&mut self, members: usize, base: EventTime) {
        if self.slots.capacity() - self.slots.len() < members {
            // Doubling would leave up to half of the list unused.
            self.slots.reserve_exact(members.max(self.slots.len() / 8));
        }
        let first = self.slots.last().map_or(0, |slot| slot.place + 1);
        let goes_on = |last: &Join| last.base == base && last.before.is_none();
        if !self.joins.last().is_some_and(goes_on) {
            self.joins.push(Join {
                first,
                base,
                before: None,
            });
        }
    }

    /// A member joins; if it was resumed, it had another place before.
    pub(crate) fn join(&mut self, member: Standby, resumed: Option<u32>) {
        let Standby { place, cell } = member;
        self.slots.push(Slot {
            place,
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
            self.earlier.insert(place, before);
            self.later.insert(before, place);
        }
    }

    pub(crate) fn pause(&mut self, place: u32, pause: Pause) {
        let until = Until {
            pause,
            passed_ms: self.passed_ms,
            seen: None,
        };
        self.until.insert(place, until);
        self.pausing.push(place);
    }

    /// The places of a member, from this one back to its first.
    pub(crate) fn stays(&self, place: u32) -> impl Iterator<Item = u32> + '_ {
        std::iter::successors(Some(place), |place| self.earlier.get(place).copied())
    }

    /// The newest SN by the pause of the member at a place.
    pub(crate) fn paused_at(&self, place: u32) -> Option<Sn> {
        self.until.get(&place).map(|until| until.pause.through)
    }

    /// Paused places that have had all their firings, once one comes that became due with this SN.
    pub(crate) fn stopped_by(&self, sn: Sn) -> impl Iterator<Item = u32> + '_ {
        let places = self.pausing.iter().copied();
        places.filter(move |place| self.paused_at(*place).is_some_and(|through| through < sn))
    }

    /// A member is gone for good; returns its cell, once for every time that it has entered it.
    pub(crate) fn leave(&mut self, place: u32) -> Vec<u32> {
        let mut cells = Vec::new();
        let mut next = Some(place);
        while let Some(place) = next {
            if let Some(at) = self.at(place) {
                let cell = self.slots[at].cell;
                let is_fixed = |until: &Until| until.seen.is_some();
                if place < self.covered && !self.until.get(&place).is_some_and(is_fixed) {
                    self.cells[cell as usize].firing -= 1;
                    self.firing -= 1;
                }
                cells.push(cell);
                self.slots[at].cell = NOBODY;
                self.gaps += 1;
            }
            self.until.remove(&place);
            self.later.remove(&place);
            next = self.earlier.remove(&place);
        }
        self.close_gaps();
        cells
    }

    fn close_gaps(&mut self) {
        if self.gaps <= GAPS || self.gaps <= self.slots.len() / 2 {
            return;
        }
        // The last stays: the next place is the one after it.
        let last = self.slots.last().map(|slot| slot.place);
        self.slots
            .retain(|slot| slot.cell != NOBODY || Some(slot.place) == last);
        self.slots.shrink_to_fit();
        self.gaps = 0;
        // Joins of which no member is left, but for the newest, which more may follow.
        let slots = &self.slots;
        let mut ends: Vec<u32> = self.joins.iter().skip(1).map(|join| join.first).collect();
        ends.push(u32::MAX);
        let mut ends = ends.into_iter();
        self.joins.retain(|join| {
            let end = ends.next().unwrap_or(u32::MAX);
            let from = slots.partition_point(|slot| slot.place < join.first);
            end == u32::MAX || slots.get(from).is_some_and(|slot| slot.place < end)
        });
    }

    fn at(&self, place: u32) -> Option<usize> {
        let at = self.slots.binary_search_by_key(&place, |slot| slot.place);
        at.ok().filter(|at| self.slots[*at].cell != NOBODY)
    }

    /// The cell of the member at a place.
    pub(crate) fn cell(&self, place: u32) -> Option<u32> {
        self.at(place).map(|at| self.slots[at].cell)
    }

    /// Where the member is now that was at a place: it may have been resumed since.
    pub(crate) fn newest(&self, mut place: u32) -> u32 {
        while let Some(later) = self.later.get(&place) {
            place = *later;
        }
        place
    }

    fn join_of(&self, place: u32) -> Option<&Join> {
        let after = self.joins.partition_point(|join| join.first <= place);
        self.joins.get(after.checked_sub(1)?)
    }

    /// The time after which the member at a place fires there.
    pub(crate) fn base_ms(&self, place: u32) -> i64 {
        self.join_of(place).map_or(i64::MIN, |join| join.base.0)
    }

    /// Where the member was first that is at a place: it may have been resumed since.
    pub(crate) fn first(&self, place: u32) -> u32 {
        self.stays(place).last().unwrap_or(place)
    }

    /// Whether the member at a place, or where it was before, fires in a result.
    pub(crate) fn fires(&self, place: u32, firing: &Firing) -> bool {
        self.stays(place).any(|place| {
            // Of an amended close its time says nothing: late statements amend what those have seen that run then.
            let runs = (self.paused_at(place)).is_none_or(|through| firing.sn <= through);
            place < firing.members && runs
        })
    }

    /// Counts a result, given the cells that have rows with how many; results come in the order of their closes.
    pub(crate) fn count(
        &mut self,
        firing: &Firing,
        rows: impl Iterator<Item = (u32, u64)> + Clone,
    ) -> Counted {
        self.cover(firing.members);
        self.note_paused(firing);
        let younger = match firing.members < self.covered {
            true => self.pass_over_younger(firing.members, rows.clone()),
            false => Counted::default(),
        };
        self.firings += 1;
        self.answered_ms = self.answered_ms.max(Some(firing.close.0));
        let mut counted = Counted {
            executions: self.firing,
            ..Counted::default()
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

    /// Closes up to this were passed without a result. This is known at once, also while firings of earlier closes are under way.
    pub(crate) fn passed(&mut self, last: EventTime) {
        for place in &self.pausing {
            if let Some(until) = self.until.get_mut(place)
                && until.pause.next.is_some_and(|next| last < next)
            {
                until.passed_ms = until.passed_ms.max(Some(last.0));
            }
        }
        self.passed_ms = self.passed_ms.max(Some(last.0));
    }

    /// An amended firing is of an earlier close, for which those do not fire that joined since: what their cells count
    /// now is not theirs. Returns what it would come to for them.
    fn pass_over_younger(
        &mut self,
        members: u32,
        rows: impl Iterator<Item = (u32, u64)>,
    ) -> Counted {
        let rows: FxHashMap<u32, u64> = rows.collect();
        let mut younger = Counted::default();
        let from = self.slots.partition_point(|slot| slot.place < members);
        for slot in &mut self.slots[from..] {
            if slot.place >= self.covered || slot.cell == NOBODY {
                continue;
            }
            let rows = rows.get(&slot.cell).copied().unwrap_or(0);
            slot.rows -= rows as i64;
            let until = self.until.get(&slot.place);
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

    /// Notes what there was before the first firing of each place below this.
    fn cover(&mut self, members: u32) {
        if members <= self.covered {
            return;
        }
        let from = self.slots.partition_point(|slot| slot.place < self.covered);
        for slot in &mut self.slots[from..] {
            if slot.place >= members {
                break;
            }
            if slot.cell != NOBODY {
                let counts = &mut self.cells[slot.cell as usize];
                slot.rows -= counts.rows as i64;
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

    /// Fixes what those have seen that were paused before a firing became due.
    fn note_paused(&mut self, firing: &Firing) {
        let mut pausing = std::mem::take(&mut self.pausing);
        pausing.retain(|place| {
            let Some(until) = self.until.get(place) else {
                return false;
            };
            if firing.sn <= until.pause.through {
                return true;
            }
            self.fix(*place);
            false
        });
        self.pausing = pausing;
    }

    /// The paused member at a place has seen what it will see there.
    fn fix(&mut self, place: u32) {
        let seen = self.seen_at(place);
        if place < self.covered
            && let Some(at) = self.at(place)
        {
            self.cells[self.slots[at].cell as usize].firing -= 1;
            self.firing -= 1;
        }
        if let Some(until) = self.until.get_mut(&place) {
            until.seen = Some(seen);
        }
    }

    /// What a member has seen, at its place and at those that it had before.
    pub(crate) fn seen(&self, place: u32) -> Seen {
        let mut seen = Seen::default();
        for place in self.stays(place) {
            let there = self.seen_at(place);
            seen.firings += there.firings;
            seen.rows += there.rows;
            seen.last_close_ms = seen.last_close_ms.max(there.last_close_ms);
        }
        seen
    }

    /// What the member at a place has seen there.
    fn seen_at(&self, place: u32) -> Seen {
        let until = self.until.get(&place);
        if let Some(seen) = until.and_then(|until| until.seen) {
            return seen;
        }
        let (Some(at), Some(join)) = (self.at(place), self.join_of(place)) else {
            return Seen::default();
        };
        let is_own = |close: &i64| *close > join.base.0;
        let passed_ms = until.map_or(self.passed_ms, |until| until.passed_ms);
        if place >= self.covered {
            return Seen {
                last_close_ms: passed_ms.filter(is_own),
                ..Seen::default()
            };
        }
        let slot = &self.slots[at];
        let rows = self.cells[slot.cell as usize].rows as i64 + slot.rows;
        Seen {
            firings: join.before.map_or(0, |before| self.firings - before),
            rows: u64::try_from(rows).unwrap_or(0),
            last_close_ms: self.answered_ms.max(passed_ms).filter(is_own),
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
            complete_from: None,
        }
    }

    #[test]
    fn a_paused_member_has_the_firings_that_became_due_before_whenever_they_are_answered() {
        let mut ledger = MemberLedger::default();
        ledger.begin(2, EventTime(0));
        for place in 0..2 {
            ledger.join(Standby { place, cell: 0 }, None);
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
        let counted = |place| (ledger.seen(place).firings, ledger.seen(place).rows);
        assert_eq!([counted(0), counted(1)], [(2, 7), (3, 11)]);
    }

    #[test]
    fn members_that_come_and_go_leave_nothing_behind() {
        let mut ledger = MemberLedger::default();
        ledger.begin(1, EventTime(0));
        ledger.join(Standby { place: 0, cell: 0 }, None);
        for place in 1..10_000 {
            let time = i64::from(place) * 10;
            ledger.begin(1, EventTime(time));
            ledger.join(Standby { place, cell: 0 }, None);
            let due = Firing {
                members: place + 1,
                ..firing(time + 1, 0, u64::from(place))
            };
            ledger.count(&due, std::iter::once((0, 1)));
            assert_eq!(ledger.seen(place).firings, 1);
            assert_eq!(ledger.base_ms(place), time);
            assert_eq!(ledger.leave(place), [0]);
        }
        let (slots, joins) = (ledger.slots.len(), ledger.joins.len());
        assert!(slots < 200 && joins < 200, "{slots} {joins}");
        assert_eq!((ledger.seen(0).firings, ledger.base_ms(0)), (9_999, 0));
    }

    #[test]
    fn closes_that_were_passed_before_the_first_firing_are_told_at_once() {
        let mut ledger = MemberLedger::default();
        for (place, base) in [(0, 0), (1, 4000), (2, 9000)] {
            ledger.begin(1, EventTime(base));
            ledger.join(Standby { place, cell: 0 }, None);
        }
        ledger.passed(EventTime(5000));
        let last = |place| ledger.seen(place).last_close_ms;
        assert_eq!([0, 1, 2].map(last), [Some(5000), Some(5000), None]);
        assert_eq!(ledger.seen(0).firings, 0);
    }

    #[test]
    fn what_is_passed_meanwhile_takes_no_firing_from_a_paused_member_that_is_still_under_way() {
        let mut ledger = MemberLedger::default();
        ledger.begin(2, EventTime(0));
        for place in 0..2 {
            ledger.join(Standby { place, cell: 0 }, None);
        }
        ledger.count(&firing(1000, 0, 4), std::iter::once((0, 3)));
        let next = Some(EventTime(3000));
        let through = Sn(5);
        ledger.pause(0, Pause { through, next });
        // The close of 2000 is being executed while later ones are passed: some for both, some for the other alone.
        let last = |ledger: &MemberLedger| [0, 1].map(|place| ledger.seen(place).last_close_ms);
        ledger.passed(EventTime(2500));
        assert_eq!(last(&ledger), [Some(2500); 2]);
        ledger.passed(EventTime(9000));
        assert_eq!(last(&ledger), [Some(2500), Some(9000)]);
        ledger.count(&firing(2000, 0, 5), std::iter::once((0, 4)));
        let counted = |place| (ledger.seen(place).firings, ledger.seen(place).rows);
        assert_eq!([counted(0), counted(1)], [(2, 7); 2]);
        ledger.count(&firing(10_000, 0, 6), std::iter::once((0, 1)));
        let counted = |place| (ledger.seen(place).firings, ledger.seen(place).rows);
        assert_eq!([counted(0), counted(1)], [(2, 7), (3, 8)]);
        assert_eq!(last(&ledger), [Some(2500), Some(10_000)]);
    }
}
