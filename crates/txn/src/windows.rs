//! Owned windows: which consumed messages each one shows, and when it slides.
//!
//! 1. A message of a batch is staged: in the window, not visible.
//! 2. LAST n SLIDE m slides when n messages are staged for the first time, then at each m.
//!    RANGE r SLIDE s closes at whole multiples of s, and shows [close − r, close).
//! 3. A slide lets messages leave and others enter. A slide that holds nothing is passed: it sets
//!    no trigger off.
//!
//! A [`WindowRun`] slides beside the window while a transaction runs. Its change is folded into the
//! window when the transaction commits, and dropped when it aborts.
//!
//! Before changing anything here: a slide costs what leaves and enters, never the whole window.

use crate::shape::{Extent, Place};
use serde::{Deserialize, Serialize};
use somersault_model::{EventTime, Millis};
use std::collections::{BTreeSet, VecDeque};

/// A message in a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Member {
    pub(crate) at: EventTime,
    pub(crate) place: Place,
}

/// One slide of an owned window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slide {
    /// The window's number among those of its procedure, from 0.
    pub window: usize,
    /// The messages that leave.
    pub leave: Vec<Place>,
    /// The messages that enter.
    pub enter: Vec<Place>,
    /// Whether the window holds something afterwards. Triggers run only then.
    pub sets_off: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    extent: Extent,
    /// First those that it shows, then the staged ones. By time in windows by time, otherwise as
    /// they were consumed.
    held: VecDeque<Member>,
    /// The number of members that it shows.
    active: usize,
    /// Staged members of windows by time that are older than the newest close.
    late: Vec<Member>,
    /// Whether the held members are also in the order of their places.
    is_in_order: bool,
    progress: Progress,
}

/// How far a window has slid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// A window by number was full.
    pub(crate) was_full: bool,
    /// The next close of a window by time, once a message was staged.
    pub(crate) next: Option<EventTime>,
    /// The newest close that has passed.
    pub(crate) closed: Option<EventTime>,
}

impl Window {
    pub(crate) fn new(extent: Extent) -> Window {
        Window {
            extent,
            held: VecDeque::new(),
            active: 0,
            late: Vec::new(),
            is_in_order: true,
            progress: Progress::default(),
        }
    }

    /// The window with these members; `None` if no window has them.
    pub(crate) fn restore(
        extent: Extent,
        progress: Progress,
        active: usize,
        members: (Vec<Member>, Vec<Member>),
    ) -> Option<Window> {
        let (held, late) = members;
        let holds = match extent {
            Extent::Last { messages, .. } => {
                let shows = if progress.was_full { messages } else { 0 };
                active as u64 == shows && late.is_empty() && progress.next.is_none()
            }
            Extent::Range { .. } => {
                let is_closed = |member: &Member| Some(member.at) < progress.closed;
                let is_staged = held.iter().skip(active).all(|member| !is_closed(member));
                let has_next = held.is_empty() || progress.next.is_some();
                is_staged && held.iter().take(active).all(is_closed) && has_next
            }
        };
        let places: BTreeSet<Place> = held
            .iter()
            .chain(&late)
            .map(|member| member.place)
            .collect();
        let is_sorted = matches!(extent, Extent::Last { .. }) || held.is_sorted();
        let is_sorted = is_sorted && places.len() == held.len() + late.len();
        (holds && is_sorted && active <= held.len()).then(|| Window {
            is_in_order: held.is_sorted_by_key(|member| member.place),
            extent,
            held: held.into(),
            active,
            late,
            progress,
        })
    }

    pub(crate) fn progress(&self) -> Progress {
        self.progress
    }

    pub(crate) fn active(&self) -> usize {
        self.active
    }

    pub(crate) fn held(&self) -> impl Iterator<Item = &Member> {
        self.held.iter()
    }

    pub(crate) fn late(&self) -> &[Member] {
        &self.late
    }

    /// The least place in it.
    pub(crate) fn least(&self) -> Option<Place> {
        let held = if self.is_in_order { 1 } else { self.held.len() };
        let all = self.held.iter().take(held).chain(&self.late);
        all.map(|member| member.place).min()
    }

    /// What a transaction did with it.
    pub(crate) fn fold(&mut self, change: WindowChange) {
        let WindowChange {
            dropped,
            entered,
            added,
            late,
            progress,
        } = change;
        self.progress = progress;
        self.late = late;
        match self.extent {
            Extent::Last { .. } => {
                for member in added.members {
                    self.note_order(member);
                    self.held.push_back(member);
                }
                self.held.drain(..dropped);
                self.is_in_order |= self.held.is_empty();
                self.active = entered - dropped;
            }
            Extent::Range { .. } => {
                self.held.drain(..dropped);
                self.is_in_order |= self.held.is_empty();
                self.active = (entered - dropped) + (added.entered - added.dropped);
                for member in added.members.into_iter().skip(added.dropped) {
                    let mut at = self.held.len();
                    while at > 0 && self.held[at - 1] > member {
                        at -= 1;
                    }
                    self.note_order(member);
                    self.is_in_order &= at == self.held.len();
                    self.held.insert(at, member);
                }
            }
        }
    }
}

impl Window {
    /// A member comes at the end of those held.
    fn note_order(&mut self, member: Member) {
        let last = self.held.back();
        self.is_in_order &= last.is_none_or(|last| last.place < member.place);
    }
}

/// The members that a transaction adds to a window.
#[derive(Clone, Debug, Default)]
struct Added {
    members: Vec<Member>,
    /// Of windows by time: the number of first ones that have left or were passed over.
    dropped: usize,
    /// Of windows by time: the number of first ones that have entered.
    entered: usize,
}

/// What a transaction did with a window.
#[derive(Debug)]
pub(crate) struct WindowChange {
    dropped: usize,
    entered: usize,
    added: Added,
    late: Vec<Member>,
    progress: Progress,
}

/// A window while a transaction runs.
#[derive(Debug)]
pub(crate) struct WindowRun<'a> {
    window: &'a Window,
    number: usize,
    change: WindowChange,
}

impl<'a> WindowRun<'a> {
    pub(crate) fn new(window: &'a Window, number: usize) -> WindowRun<'a> {
        WindowRun {
            window,
            number,
            change: WindowChange {
                dropped: 0,
                entered: window.active,
                added: Added::default(),
                late: window.late.clone(),
                progress: window.progress,
            },
        }
    }

    pub(crate) fn finish(self) -> WindowChange {
        self.change
    }

    /// Stages the messages of a batch, in their order, and slides as often as is due.
    pub(crate) fn stage(
        &mut self,
        members: impl Iterator<Item = Member>,
        limit: EventTime,
        out: &mut Vec<Slide>,
    ) {
        match self.window.extent {
            Extent::Last { messages, slide } => {
                for member in members {
                    self.change.added.members.push(member);
                    self.slide_by_number(messages, slide, out);
                }
            }
            Extent::Range { range, slide } => {
                for member in members {
                    self.stage_by_time(member, range, slide);
                }
                self.slide_by_time(range, slide, limit, out);
            }
        }
    }

    /// A member by its number among those before the transaction and those added.
    fn member(&self, number: usize) -> Member {
        let before = self.window.held.len();
        match number.checked_sub(before) {
            Some(added) => self.change.added.members[added],
            None => self.window.held[number],
        }
    }

    fn slide_by_number(&mut self, messages: u64, slide: u64, out: &mut Vec<Slide>) {
        let total = self.window.held.len() + self.change.added.members.len();
        let (dropped, entered) = (self.change.dropped, self.change.entered);
        let was_full = self.change.progress.was_full;
        let due = if was_full { slide } else { messages };
        if ((total - entered) as u64) < due {
            return;
        }
        let start = total - usize::try_from(messages).map_or(total, |count| count.min(total));
        let place = |number| self.member(number).place;
        let leave = (dropped..entered.min(start)).map(place).collect();
        let enter = (entered.max(start)..total).map(place).collect();
        out.push(Slide {
            window: self.number,
            leave,
            enter,
            sets_off: true,
        });
        self.change.dropped = start;
        self.change.entered = total;
        self.change.progress.was_full = true;
    }

    fn stage_by_time(&mut self, member: Member, range: Millis, slide: Millis) {
        let progress = &mut self.change.progress;
        (progress.next).get_or_insert_with(|| first_close(member.at, range, slide));
        if Some(member.at) < progress.closed {
            self.change.late.push(member);
            return;
        }
        let members = &mut self.change.added.members;
        let at = members.partition_point(|other| *other < member);
        members.insert(at, member);
    }

    fn slide_by_time(
        &mut self,
        range: Millis,
        slide: Millis,
        limit: EventTime,
        out: &mut Vec<Slide>,
    ) {
        while let Some(close) = self.change.progress.next
            && close <= limit
            && close < EventTime::MAX
        {
            let passed = self.close(close, close.minus(range));
            self.change.progress.closed = Some(close);
            self.change.progress.next = Some(close.plus(slide));
            if passed.sets_off || !passed.leave.is_empty() {
                out.push(passed);
            }
            if !self.shows_something() {
                self.pass_empty(slide, limit);
            }
        }
    }

    /// Shows [low, close).
    fn close(&mut self, close: EventTime, low: EventTime) -> Slide {
        let (mut leave, mut enter) = (Vec::new(), Vec::new());
        let window = self.window;
        let base = |number: usize| window.held.get(number);
        let WindowChange {
            dropped,
            entered,
            added,
            late,
            ..
        } = &mut self.change;
        for member in std::mem::take(late) {
            if member.at >= low {
                let at = added.members.partition_point(|other| *other < member);
                added.members.insert(at, member);
                added.entered += 1;
                enter.push(member.place);
            }
        }
        while *dropped < *entered
            && let Some(member) = base(*dropped).filter(|member| member.at < low)
        {
            leave.push(member.place);
            *dropped += 1;
        }
        while let Some(member) = base(*entered).filter(|member| member.at < close) {
            *entered += 1;
            match member.at < low {
                true => *dropped = *entered,
                false => enter.push(member.place),
            }
        }
        let members = &added.members;
        while added.dropped < added.entered && members[added.dropped].at < low {
            leave.push(members[added.dropped].place);
            added.dropped += 1;
        }
        while let Some(member) = members
            .get(added.entered)
            .filter(|member| member.at < close)
        {
            added.entered += 1;
            match member.at < low {
                true => added.dropped = added.entered,
                false => enter.push(member.place),
            }
        }
        Slide {
            window: self.number,
            leave,
            enter,
            sets_off: self.shows_something(),
        }
    }

    fn shows_something(&self) -> bool {
        let WindowChange {
            dropped,
            entered,
            added,
            ..
        } = &self.change;
        dropped < entered || added.dropped < added.entered
    }

    /// Passes the closes before the next staged message, or up to the limit.
    fn pass_empty(&mut self, slide: Millis, limit: EventTime) {
        let WindowChange { entered, added, .. } = &self.change;
        let staged = [
            self.window.held.get(*entered),
            added.members.get(added.entered),
        ];
        let times = staged.into_iter().flatten().map(|member| member.at);
        let until = times.min().map_or(limit, |time| time.min(limit));
        let progress = &mut self.change.progress;
        let last = EventTime(until.0.div_euclid(slide.0).saturating_mul(slide.0));
        if Some(last) > progress.closed {
            progress.closed = Some(last);
            progress.next = Some(last.plus(slide));
        }
    }
}

/// The first close that a full range precedes, counted from the multiple of `slide` at or before
/// the first message.
fn first_close(first: EventTime, range: Millis, slide: Millis) -> EventTime {
    let (first, range, slide) = (
        i128::from(first.0),
        i128::from(range.0),
        i128::from(slide.0),
    );
    let full = first.div_euclid(slide) * slide + range;
    let close = (full + slide - 1).div_euclid(slide) * slide;
    EventTime(i64::try_from(close).unwrap_or(i64::MAX))
}
