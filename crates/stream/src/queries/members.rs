//! The members of a cohort: continuous queries of one shape, which fire together. A member is a few
//! words in a list; the cohort holds what the members share (windows, closes, counts).
//!
//! Before changing anything here: slots are numbered in the order of joining and never reused in a
//! cohort, and the times after which members fire ascend with them (streams' times never go back).
//! So the members that fire for a close are those in the first *n* slots: a firing carries *n*, and
//! no code walks over the members at a close.

mod saved;

use super::shared_list::SharedList;
use somersault_lang::lift::Shape;
use somersault_model::{EventTime, QueryUid};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The separator of a member's words; no word of a shape contains it.
const BETWEEN: char = '\u{1}';
/// Fewer gaps than this are not worth closing.
const GAPS: usize = 64;

/// One member.
#[derive(Clone, Debug)]
struct Member {
    slot: u32,
    /// Index into [`Members::forms`]: the spacing of its text.
    form: u32,
    name_bytes: u32,
    uid: QueryUid,
    /// Its name, then the words of its text. Empty if it has left.
    words: Box<str>,
}

impl Member {
    fn name(&self) -> &str {
        &self.words[..self.name_bytes as usize]
    }

    fn words(&self) -> impl Iterator<Item = &str> {
        self.words[self.name_bytes as usize..]
            .split(BETWEEN)
            .skip(1)
    }

    fn has_left(&self) -> bool {
        self.uid.0 == 0
    }
}

/// Members that joined together, to fire after one time.
#[derive(Clone, Debug)]
struct JoinWave {
    first: u32,
    /// The time after which they fire.
    base: EventTime,
    /// The cohort's counts when their first close came.
    before: Option<Counts>,
}

/// Counts of a cohort's closes, or of a member's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) firings: u64,
    pub(crate) amended: u64,
    pub(crate) skipped_empty: u64,
}

impl Counts {
    /// The counts accumulated since `before`.
    fn since(self, before: Counts) -> Counts {
        Counts {
            firings: self.firings - before.firings,
            amended: self.amended - before.amended,
            skipped_empty: self.skipped_empty - before.skipped_empty,
        }
    }

    fn plus(self, other: Counts) -> Counts {
        Counts {
            firings: self.firings + other.firings,
            amended: self.amended + other.amended,
            skipped_empty: self.skipped_empty + other.skipped_empty,
        }
    }
}

/// A member's history in the slots that it had before its pauses.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PauseHistory {
    /// While it is paused: the close that it would have fired for next, if its closes had begun.
    pub(crate) paused: Option<Option<EventTime>>,
    pub(crate) counts: Counts,
    pub(crate) passed_while_paused: u64,
    pub(crate) last_close: Option<EventTime>,
}

/// A member as it is found by its name.
pub(crate) struct MemberView<'m> {
    pub(crate) uid: QueryUid,
    pub(crate) name: &'m str,
    pub(crate) base: EventTime,
    pub(crate) history: PauseHistory,
}

/// The members of one cohort.
#[derive(Clone, Debug)]
pub(crate) struct Members {
    /// Texts of this shape that differ in spaces or comments.
    forms: Vec<Arc<Shape>>,
    /// Ascending by slot.
    list: SharedList<Member>,
    gaps: usize,
    next: u32,
    running: usize,
    /// No running member has an earlier slot.
    eldest: u32,
    waves: Vec<JoinWave>,
    histories: BTreeMap<u32, PauseHistory>,
}

impl Members {
    pub(super) fn new() -> Members {
        Members {
            forms: Vec::new(),
            list: SharedList::new(),
            gaps: 0,
            next: 0,
            running: 0,
            eldest: 0,
            waves: Vec::new(),
            histories: BTreeMap::new(),
        }
    }

    /// The number of members, including paused ones.
    pub(crate) fn len(&self) -> usize {
        self.list.len() - self.gaps
    }

    /// Whether a member that fires after this time may join.
    pub(super) fn takes(&self, base: EventTime) -> bool {
        self.waves.last().is_none_or(|last| last.base <= base)
    }

    /// The index of the form with the same pieces, which is added if it is new.
    pub(super) fn form(&mut self, shape: &Arc<Shape>) -> u32 {
        let same = |form: &Arc<Shape>| form.pieces() == shape.pieces();
        let at = self.forms.iter().rposition(same).unwrap_or_else(|| {
            self.forms.push(Arc::clone(shape));
            self.forms.len() - 1
        });
        at as u32
    }

    /// Makes room for this many more members.
    pub(super) fn reserve(&mut self, more: usize) {
        self.list.reserve(more);
    }

    /// Adds a member that fires after this time.
    pub(super) fn join<W: AsRef<str>>(
        &mut self,
        (uid, name): (QueryUid, &str),
        (form, words): (u32, &[W]),
        base: EventTime,
    ) -> u32 {
        let mut text = String::with_capacity(
            name.len() + words.iter().map(|w| w.as_ref().len() + 1).sum::<usize>(),
        );
        text.push_str(name);
        for word in words {
            text.push(BETWEEN);
            text.push_str(word.as_ref());
        }
        let member = Member {
            slot: self.next,
            form,
            name_bytes: name.len() as u32,
            uid,
            words: text.into_boxed_str(),
        };
        self.append(member, base)
    }

    fn append(&mut self, mut member: Member, base: EventTime) -> u32 {
        let slot = self.next;
        member.slot = slot;
        self.next += 1;
        let last = self.waves.last();
        assert!(
            self.takes(base),
            "VT-1: the times of streams go on, and with them those at which queries join"
        );
        if last.is_none_or(|last| last.base != base || last.before.is_some()) {
            // Most queries have a cohort of their own: one entry, not the four that a list begins
            // with.
            self.waves.reserve_exact(usize::from(self.waves.is_empty()));
            self.waves.push(JoinWave {
                first: slot,
                base,
                before: None,
            });
        }
        if self.running == 0 {
            self.eldest = slot;
        }
        self.running += 1;
        self.list.push(member);
        slot
    }

    fn at(&self, slot: u32) -> Option<usize> {
        let at = self.list.partition_point(|member| member.slot < slot);
        let found = self.list.iter_from(at).next();
        found.filter(|member| member.slot == slot).map(|_| at)
    }

    fn wave_of(&self, slot: u32) -> &JoinWave {
        let after = self.waves.partition_point(|wave| wave.first <= slot);
        &self.waves[after - 1]
    }

    pub(super) fn find(&self, slot: u32) -> Option<MemberView<'_>> {
        let member = &self.list[self.at(slot)?];
        Some(MemberView {
            uid: member.uid,
            name: member.name(),
            base: self.wave_of(slot).base,
            history: self.histories.get(&slot).copied().unwrap_or_default(),
        })
    }

    /// The name of the member in a slot; empty where the slot is free.
    pub(super) fn name(&self, slot: u32) -> &str {
        self.at(slot).map_or("", |at| self.list[at].name())
    }

    /// The text of the member in a slot.
    pub(super) fn text(&self, slot: u32) -> String {
        let Some(at) = self.at(slot) else {
            return String::new();
        };
        let member = &self.list[at];
        let words: Vec<&str> = member.words().collect();
        self.forms[member.form as usize].text(&words)
    }

    /// The words for the constants of the member in a slot.
    pub(super) fn constant_words(&self, slot: u32) -> Vec<String> {
        let member = self.at(slot).map(|at| &self.list[at]);
        member.map_or_else(Vec::new, |member| {
            let words: Vec<&str> = member.words().collect();
            self.forms[member.form as usize].constant_words(&words)
        })
    }

    /// Whether the member in a slot has this very text.
    pub(super) fn has_text<W: AsRef<str>>(&self, slot: u32, shape: &Shape, words: &[W]) -> bool {
        let Some(at) = self.at(slot) else {
            return false;
        };
        let member = &self.list[at];
        let same = member.words().eq(words.iter().map(AsRef::as_ref));
        same && self.forms[member.form as usize].pieces() == shape.pieces()
    }

    /// The names of all members, in the order of their slots.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        let there = self.list.iter_from(0).filter(|member| !member.has_left());
        there.map(Member::name)
    }

    /// The names from a slot on, with their slots.
    pub(crate) fn names_from(&self, slot: u32) -> impl Iterator<Item = (u32, &str)> {
        let from = self.list.partition_point(|member| member.slot < slot);
        let there = (self.list.iter_from(from)).filter(|member| !member.has_left());
        there.map(|member| (member.slot, member.name()))
    }

    /// The number of slots that fire for a close: those of members that joined before it.
    pub(super) fn firing_at(&self, close: EventTime) -> u32 {
        let later = self.waves.partition_point(|wave| wave.base < close);
        self.waves.get(later).map_or(self.next, |wave| wave.first)
    }

    /// The time after which the eldest running member fires.
    pub(super) fn base(&self) -> Option<EventTime> {
        (self.running > 0).then(|| self.wave_of(self.eldest).base)
    }

    /// Removes a member for good.
    pub(super) fn leave(&mut self, slot: u32) {
        self.stop(slot);
        self.histories.remove(&slot);
        if let Some(at) = self.at(slot) {
            self.take_out(at);
            self.close_gaps();
        }
    }

    /// Replaces a member by a gap, and returns it.
    fn take_out(&mut self, at: usize) -> Member {
        let gap = Member {
            uid: QueryUid(0),
            words: Box::default(),
            name_bytes: 0,
            ..self.list[at]
        };
        self.gaps += 1;
        self.list.replace(at, gap)
    }

    /// Gives memory back where most slots are gaps.
    fn close_gaps(&mut self) {
        if self.gaps <= GAPS || self.gaps <= self.list.len() / 2 {
            return;
        }
        self.list.retain(|member| !member.has_left());
        self.gaps = 0;
        let list = &self.list;
        let last = self.waves.len().saturating_sub(1);
        let ends: Vec<u32> = (self.waves.iter().skip(1).map(|wave| wave.first))
            .chain([u32::MAX])
            .collect();
        let mut at = 0;
        self.waves.retain(|wave| {
            let from = list.partition_point(|member| member.slot < wave.first);
            let mut later = list.iter_from(from);
            let stays = at == last || later.next().is_some_and(|m| m.slot < ends[at]);
            at += 1;
            stays
        });
    }

    /// Stops a member from firing.
    fn stop(&mut self, slot: u32) {
        let is_paused = |slot: &u32| self.histories.get(slot).is_some_and(|e| e.paused.is_some());
        if is_paused(&slot) || self.at(slot).is_none() {
            return;
        }
        self.running -= 1;
        if slot == self.eldest {
            let from = self
                .list
                .partition_point(|member| member.slot <= self.eldest);
            let mut younger = self.list.iter_from(from);
            let next = younger.find(|member| !member.has_left() && !is_paused(&member.slot));
            self.eldest = next.map_or(self.next, |member| member.slot);
        }
    }

    /// Pauses a member, which would have fired for `next`.
    pub(super) fn pause(
        &mut self,
        slot: u32,
        next: Option<EventTime>,
        cohort: (Counts, Option<EventTime>),
    ) {
        let counts = self.counts(slot, cohort.0);
        let last_close = self.last_close(slot, cohort.1);
        self.stop(slot);
        let history = self.histories.entry(slot).or_default();
        history.paused = Some(next);
        history.counts = counts;
        history.last_close = last_close;
    }

    /// Lets a paused member fire again after `base`, at a slot of its own.
    pub(super) fn resume(&mut self, slot: u32, base: EventTime, passed: u64) -> Option<u32> {
        let at = self.at(slot)?;
        let mut history = self.histories.remove(&slot).unwrap_or_default();
        history.paused = None;
        history.passed_while_paused += passed;
        let member = self.take_out(at);
        let slot = self.append(member, base);
        self.histories.insert(slot, history);
        self.close_gaps();
        Some(slot)
    }

    /// Prepares for a close, before it is counted.
    pub(super) fn on_close(&mut self, close: EventTime, cohort: Counts) {
        let begins = |wave: &&mut JoinWave| wave.before.is_none();
        for wave in self.waves.iter_mut().rev().take_while(begins) {
            if wave.base < close {
                wave.before = Some(cohort);
            }
        }
    }

    /// Adjusts members after a run of closes was passed and counted: `count` returns how many of
    /// them come after a time.
    pub(super) fn on_skipped(
        &mut self,
        last: EventTime,
        cohort: Counts,
        count: impl Fn(EventTime) -> u64,
    ) {
        let begins = |wave: &&mut JoinWave| wave.before.is_none();
        for wave in self.waves.iter_mut().rev().take_while(begins) {
            if wave.base < last {
                wave.before = Some(Counts {
                    skipped_empty: cohort.skipped_empty - count(wave.base),
                    ..cohort
                });
            }
        }
    }

    /// Adjusts members after the cohort counted another firing for an amended close: members that
    /// have joined since do not count it.
    pub(super) fn on_amended(&mut self, close: EventTime) {
        let later = self.waves.partition_point(|wave| wave.base < close);
        for before in self.waves[later..]
            .iter_mut()
            .filter_map(|wave| wave.before.as_mut())
        {
            before.firings += 1;
            before.amended += 1;
        }
    }

    /// A member's share of its cohort's counts.
    pub(crate) fn counts(&self, slot: u32, cohort: Counts) -> Counts {
        let history = self.histories.get(&slot).copied().unwrap_or_default();
        let before = self.wave_of(slot).before;
        match before.filter(|_| history.paused.is_none()) {
            Some(before) => history.counts.plus(cohort.since(before)),
            None => history.counts,
        }
    }

    /// The newest close that a member fired for.
    pub(super) fn last_close(&self, slot: u32, cohort: Option<EventTime>) -> Option<EventTime> {
        let history = self.histories.get(&slot).copied().unwrap_or_default();
        let base = self.wave_of(slot).base;
        let own = cohort.filter(|close| *close > base && history.paused.is_none());
        own.or(history.last_close)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "SELECT ?s FROM STREAM <urn:s> [RANGE 1s TUMBLING] WHERE { ?s ?p 5 }";

    fn members(bases: &[i64]) -> Members {
        let (shape, words) = Shape::of(TEXT).unwrap();
        let mut members = Members::new();
        let form = members.form(&Arc::new(shape));
        for (at, base) in bases.iter().enumerate() {
            let uid = QueryUid(at as u64 + 1);
            members.join((uid, &format!("q{at}")), (form, &words), EventTime(*base));
        }
        members
    }

    #[test]
    fn those_that_joined_before_a_close_fire_for_it() {
        let members = members(&[0, 0, 10, 20]);
        let firing = |close| members.firing_at(EventTime(close));
        assert_eq!(
            [firing(0), firing(5), firing(10), firing(11), firing(21)],
            [0, 2, 2, 3, 4]
        );
        assert_eq!(members.text(3), TEXT);
        assert_eq!(members.name(3), "q3");
    }

    #[test]
    fn members_count_from_when_they_joined() {
        let mut members = members(&[0, 10]);
        let counts = |firings| Counts {
            firings,
            ..Counts::default()
        };
        members.on_close(EventTime(5), counts(0));
        members.on_close(EventTime(10), counts(1));
        members.on_close(EventTime(15), counts(2));
        assert_eq!(members.counts(0, counts(3)).firings, 3);
        assert_eq!(members.counts(1, counts(3)).firings, 1);
        members.pause(1, Some(EventTime(20)), (counts(3), Some(EventTime(15))));
        assert_eq!(members.base(), Some(EventTime(0)));
        assert_eq!(members.counts(1, counts(9)).firings, 1);
        let slot = members.resume(1, EventTime(40), 4).unwrap();
        members.on_close(EventTime(45), counts(9));
        assert_eq!(members.counts(slot, counts(10)).firings, 2);
        assert_eq!(members.find(slot).unwrap().history.passed_while_paused, 4);
    }

    #[test]
    fn a_member_that_is_paused_over_and_over_leaves_no_gaps_behind() {
        let mut members = members(&[0, 0]);
        let mut slot = 0;
        for time in 1..10_000 {
            members.pause(slot, None, Default::default());
            slot = members.resume(slot, EventTime(time), 0).unwrap();
        }
        assert!(members.list.len() < 200, "{}", members.list.len());
        assert_eq!((members.len(), members.running), (2, 2));
        assert_eq!((members.name(1), members.name(slot)), ("q1", "q0"));
        assert_eq!(members.base(), Some(EventTime(0)));
    }

    #[test]
    fn gaps_are_closed_and_places_stay() {
        let bases: Vec<i64> = (0..300).map(|at| at / 3).collect();
        let mut members = members(&bases);
        for slot in 0..290 {
            members.leave(slot);
        }
        assert!(members.list.len() < 100 && members.waves.len() < 50);
        assert_eq!((members.len(), members.running), (10, 10));
        assert_eq!(members.base(), Some(EventTime(96)));
        assert_eq!(members.name(295), "q295");
        assert_eq!(members.firing_at(EventTime(97)), 291);
        for slot in 290..300 {
            members.leave(slot);
        }
        assert_eq!((members.len(), members.base()), (0, None));
    }
}
