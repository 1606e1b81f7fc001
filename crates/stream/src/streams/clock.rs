//! The part of a stream that every thread may read without a lock: [`StreamClock`], with the
//! watermark, the times of the sources, and the time to which the clock moves the stream (IDLE,
//! ARRIVAL TIME).
//!
//! Before changing anything here: the stream alone writes, while it applies a record, so a reader
//! may see one part of a record's effect before another. Times only go forward, and every number
//! that a source uses is stored before the time that its push brings. So a reader that refuses a
//! push for its times looks at the numbers afterwards: if the push may be a repeat, the sequencer
//! decides.

use super::adaptor::{FARTHEST_MS, StreamTerms};
use super::source_clocks::{SourceClock, SourceClocks, Time};
use super::stream::STATEMENT_BYTES;
use crate::protocol::refusal::Refusal;
use somersault_lang::{AheadLimit, CreateStream, TimeDomain};
use somersault_model::{EventTime, Millis, StreamUid};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The times of one life of a stream, and what an interner must know about it. A reset starts
/// another life, with a clock of its own.
#[derive(Debug)]
pub struct StreamClock {
    terms: StreamTerms,
    declaration: Arc<CreateStream>,
    /// The query whose answers are its statements.
    derived_by: Option<String>,
    /// The limit on times ahead, in milliseconds, where the declaration does not set it; negative
    /// for no limit.
    default_ahead: AtomicI64,
    watermark: Time,
    /// The newest of the sources' times.
    newest_of_sources: Time,
    /// The newest heartbeat: its time, and when it was received.
    heartbeat: (Time, AtomicI64),
    sources: SourceClocks,
    budget: BudgetUse,
}

/// The part of its BUDGET that a stream uses.
#[derive(Debug, Default)]
struct BudgetUse {
    /// The statements in open batches and in slices that are not retired.
    held: AtomicU64,
    /// No more than these of them does the stream have to keep.
    needed_at_most: AtomicU64,
    /// Those of them that the stream has to keep, once they cost more than half of BUDGET; 0
    /// before.
    needed: AtomicU64,
    is_full: AtomicBool,
    /// Whether a stream that this one feeds is full.
    is_full_below: AtomicBool,
    /// Read by pushes that are refused, and by no others.
    refusals: Mutex<BudgetRefusals>,
}

/// The refusals of pushes for lack of room.
#[derive(Debug, Default)]
struct BudgetRefusals {
    /// The holder of the stream's slices, and the remedy.
    reason: String,
    /// The refusal, if a stream that this one feeds is full.
    below: Option<Refusal>,
}

/// Two clocks are equal if they are of one life of a stream with one declaration.
impl PartialEq for StreamClock {
    fn eq(&self, other: &StreamClock) -> bool {
        self.uid() == other.uid() && self.declaration == other.declaration
    }
}

impl StreamClock {
    pub(super) fn new(
        terms: StreamTerms,
        declaration: Arc<CreateStream>,
        derived_by: Option<String>,
        default_ahead: Option<Millis>,
    ) -> StreamClock {
        let clock = StreamClock {
            terms,
            declaration,
            derived_by,
            default_ahead: AtomicI64::new(0),
            watermark: Time::default(),
            newest_of_sources: Time::default(),
            heartbeat: (Time::default(), AtomicI64::new(0)),
            sources: SourceClocks::default(),
            budget: BudgetUse::default(),
        };
        clock.set_default_ahead(default_ahead);
        clock
    }

    /// The uid of this life of the stream.
    pub fn uid(&self) -> StreamUid {
        self.terms.stream
    }

    /// The declaration; holds the IRI and the text.
    pub fn declaration(&self) -> &Arc<CreateStream> {
        &self.declaration
    }

    /// The terms of the stream for an interner.
    pub fn terms(&self) -> &StreamTerms {
        &self.terms
    }

    /// The name of the query whose answers are the stream's statements.
    pub fn derived_by(&self) -> Option<&str> {
        self.derived_by.as_deref()
    }

    /// The stream's watermark: every statement with an earlier event time has been seen. `None`
    /// before the first push or advance.
    pub fn watermark(&self) -> Option<EventTime> {
        self.watermark.get()
    }

    /// How far the time of an ARRIVAL TIME stream is ahead of the clock: it was set back then.
    pub fn ahead_of_clock(&self, now_ms: i64) -> Option<Millis> {
        let watermark = self.watermark().filter(|_| self.is_arrival_time())?;
        let ahead = Millis(watermark.minus(Millis(now_ms)).0);
        (ahead > Millis(0)).then_some(ahead)
    }

    /// The number of statements in open batches and in slices that are not retired.
    pub fn held_statements(&self) -> u64 {
        self.budget.held.load(Ordering::Acquire)
    }

    /// Whether a push of this many statements is surely within BUDGET, and the streams that this
    /// one feeds have not used up theirs. `false` also where it only may be, for pushes of more
    /// than half of BUDGET.
    pub fn has_room(&self, statements: usize) -> bool {
        let needed = self.budget.needed_at_most.load(Ordering::Acquire);
        (needed + statements as u64) * STATEMENT_BYTES <= self.declaration.budget_bytes
            && !self.budget.is_full_below.load(Ordering::Acquire)
    }

    /// The newest time that the stream has heard of, without LATENESS subtracted.
    pub(crate) fn newest(&self) -> Option<EventTime> {
        let newest = self.newest_of_sources.get();
        let newest = newest.map(|time| time.plus(self.lateness()));
        newest.max(self.watermark())
    }

    /// The limit on times that lie ahead.
    pub(crate) fn ahead_limit(&self) -> Option<Millis> {
        match self.declaration.ahead {
            AheadLimit::Default => {
                let limit = self.default_ahead.load(Ordering::Acquire);
                (limit >= 0).then_some(Millis(limit))
            }
            AheadLimit::Within(limit) => Some(limit),
            AheadLimit::Any => None,
        }
    }

    pub(crate) fn iri(&self) -> &str {
        self.declaration.iri.as_str()
    }

    pub(crate) fn is_arrival_time(&self) -> bool {
        self.declaration.time == TimeDomain::Arrival
    }

    /// The span by which statements may go back. 0 for an ARRIVAL TIME stream: its times are the
    /// clock's, made to go forward.
    pub(crate) fn lateness(&self) -> Millis {
        if self.is_arrival_time() {
            Millis(0)
        } else {
            self.declaration.lateness
        }
    }

    pub(crate) fn source(&self, name: &str) -> Option<&SourceClock> {
        self.sources.find(name)
    }

    /// The number of sources that have pushed so far.
    pub(crate) fn source_count(&self) -> usize {
        self.sources.len()
    }

    pub(super) fn sources(&self) -> impl Iterator<Item = &SourceClock> {
        self.sources.iter()
    }

    /// The sources in the order of their numbers.
    pub(super) fn sources_by_number(&self) -> Vec<&SourceClock> {
        let mut sources: Vec<&SourceClock> = self.sources().collect();
        sources.sort_unstable_by_key(|source| source.number());
        sources
    }

    /// Whether `source` is the only one that has pushed, or would be.
    pub(super) fn has_only(&self, source: &str) -> bool {
        match self.source_count() {
            0 => true,
            1 => self.source(source).is_some(),
            _ => false,
        }
    }

    /// The time that the clock moves an IDLE stream to; `None` where it moves nothing.
    pub(crate) fn time_by_clock(&self, now_ms: i64) -> Option<EventTime> {
        let time = self.clock_time(now_ms);
        time.filter(|time| Some(*time) > self.watermark())
    }

    /// The time of an IDLE stream by the clock: each source that has been silent for IDLE advances
    /// from its own time at the clock's pace, the others keep their time. `None` where the clock
    /// moves nothing. Never beyond the range of event times: an advance of several streams is
    /// refused whole.
    fn clock_time(&self, now_ms: i64) -> Option<EventTime> {
        let idle = self.declaration.idle?;
        if self.is_arrival_time() {
            return None;
        }
        let by_clock = |(time, heard_ms): (EventTime, i64)| {
            let silent_ms = now_ms.saturating_sub(heard_ms);
            time.plus(Millis(silent_ms.saturating_sub(idle.0).max(0)))
        };
        let sources = self.sources.iter();
        let sources = sources.filter_map(|source| Some((source.time()?, source.heard_ms())));
        let least = match sources.map(by_clock).min() {
            None => self.heartbeat().map(by_clock),
            least => least,
        };
        least.map(|time| time.min(EventTime(FARTHEST_MS)))
    }

    /// Whether the clock has moved the stream to its present time: past its sources' times, and no
    /// further than an IDLE stream is by now.
    pub(super) fn was_moved_by_clock(&self, now_ms: i64) -> bool {
        let watermark = self.watermark();
        watermark > self.newest_of_sources.get() && self.clock_time(now_ms) >= watermark
    }

    /// Refuses a push that this clock knows to be over BUDGET.
    pub(super) fn judge_budget(&self, statements: usize) -> Result<(), Refusal> {
        let budget = &self.budget;
        let needed = budget.needed.load(Ordering::Acquire);
        let is_full_below = budget.is_full_below.load(Ordering::Acquire);
        let is_full = needed > 0
            && (needed + statements as u64) * STATEMENT_BYTES > self.declaration.budget_bytes;
        if !is_full && !is_full_below {
            return Ok(());
        }
        let refusals = budget.refusals.lock();
        let refusals = refusals.unwrap_or_else(PoisonError::into_inner);
        match &refusals.below {
            _ if is_full => Err(Refusal::OverBudget {
                stream: self.iri().to_owned(),
                held_bytes: needed * STATEMENT_BYTES,
                budget_bytes: self.declaration.budget_bytes,
                reason: refusals.reason.clone(),
            }),
            Some(refusal) => Err(refusal.clone()),
            None => Ok(()),
        }
    }
}

/// Written by the stream alone.
impl StreamClock {
    /// The clock of a source, which is added with the next number if it is new.
    pub(super) fn hear(&self, source: &str, heard_ms: i64) -> &SourceClock {
        let source = self.sources.add(source, heard_ms);
        source.set_heard(heard_ms);
        source
    }

    pub(super) fn set_source_time(&self, source: &SourceClock, time: EventTime) {
        source.set_time(time);
        if Some(time) > self.newest_of_sources.get() {
            self.newest_of_sources.set(time);
        }
    }

    pub(super) fn set_default_ahead(&self, limit: Option<Millis>) {
        let limit = limit.map_or(-1, |limit| limit.0.max(0));
        self.default_ahead.store(limit, Ordering::Release);
    }

    pub(super) fn set_watermark(&self, time: EventTime) {
        self.watermark.set(time);
    }

    pub(super) fn heartbeat(&self) -> Option<(EventTime, i64)> {
        let (time, heard_ms) = &self.heartbeat;
        Some((time.get()?, heard_ms.load(Ordering::Acquire)))
    }

    pub(super) fn set_heartbeat(&self, time: EventTime, received_ms: i64) {
        self.heartbeat.1.store(received_ms, Ordering::Release);
        self.heartbeat.0.set(time);
    }

    pub(super) fn set_held(&self, statements: u64) {
        self.budget.held.store(statements, Ordering::Release);
    }

    /// Publishes the greatest number of statements that the stream may have to keep.
    pub(super) fn set_needed_at_most(&self, statements: u64) {
        let needed = &self.budget.needed_at_most;
        needed.store(statements, Ordering::Release);
    }

    /// Publishes what the stream has to keep, and what holds it, where that costs more than half of
    /// BUDGET.
    pub(super) fn set_needed(&self, needed: Option<(u64, String)>) {
        if needed.is_none() && self.budget.needed.load(Ordering::Acquire) == 0 {
            return;
        }
        let (statements, reason) = needed.unwrap_or_default();
        let refusals = self.budget.refusals.lock();
        refusals.unwrap_or_else(PoisonError::into_inner).reason = reason;
        self.budget.needed.store(statements, Ordering::Release);
    }

    /// Publishes whether the stream has used up its BUDGET. Returns whether it had before.
    pub(super) fn set_full(&self, is_full: bool) -> bool {
        self.budget.is_full.swap(is_full, Ordering::AcqRel)
    }

    /// Publishes the refusal of pushes while a stream that this one feeds is full.
    pub(super) fn set_full_below(&self, refusal: Option<Refusal>) {
        let is_full = refusal.is_some();
        let refusals = self.budget.refusals.lock();
        refusals.unwrap_or_else(PoisonError::into_inner).below = refusal;
        self.budget.is_full_below.store(is_full, Ordering::Release);
    }
}
