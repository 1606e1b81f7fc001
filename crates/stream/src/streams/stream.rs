//! One declared stream: its sources, its time, its open batches, and which of its past is still
//! needed.
//!
//! Before changing anything here: the watermark never goes back (VT-1), a batch is closed once the
//! watermark has passed the batch's end, and `retained_from` moves only when a plan record
//! is applied, because what a window may see must follow from the log alone. What is physically
//! still there (`retired_below`) also depends on how fast firings are.

use super::adaptor::{Classifier, Interner, StreamTerms, TooLate};
use super::clock::StreamClock;
use super::numbered::StatementCount;
use super::sources::Sources;
use crate::closes::groups::GroupId;
use crate::protocol::input::PushHead;
use crate::protocol::refusal::Refusal;
use crate::protocol::statements::PushStatements;
use somersault_lang::{CreateStream, LatePolicy};
use somersault_log::PushRecord;
use somersault_model::{
    BatchNumber, EventTime, Intern, Lease, Millis, Mutation, QuadIds, QueryUid, Sn, StreamUid,
    TimedTriple,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The assumed cost in bytes of a statement in a slice, for BUDGET: ids in both directions, batch,
/// arrival order and time.
pub(crate) const STATEMENT_BYTES: u64 = 80;

/// A batch that still takes statements, or that is closed and waits for its cut.
#[derive(Clone, Debug, Default)]
pub(crate) struct Batch {
    /// All statements in order of arrival.
    pub(crate) statements: Vec<TimedTriple>,
    /// The facts of the batch, to be absorbed.
    pub(crate) absorbed: Vec<Mutation>,
    /// The lease on the terms of its timing statements.
    pub(crate) lease: Option<Lease>,
}

impl Batch {
    /// Adds the lease of further statements.
    pub(crate) fn keep(&mut self, lease: Option<Lease>) {
        self.lease = Lease::older(self.lease.take(), lease);
    }
}

/// The effects of a push besides the statements that went into open batches.
#[derive(Debug, Default)]
pub(crate) struct Pushed {
    /// Late statements that were dropped.
    pub(crate) dropped: u64,
    /// Whether the stream's time moved.
    pub(crate) moved: bool,
    /// Late statements of closed batches, to be amended.
    pub(crate) late: Vec<LateStatement>,
    /// Facts from late statements whose batches are no longer kept.
    pub(crate) facts: Vec<Mutation>,
}

/// A late statement of a closed batch (LATE AMEND).
#[derive(Debug)]
pub(crate) struct LateStatement {
    pub(crate) batch: BatchNumber,
    pub(crate) statement: TimedTriple,
    pub(crate) absorbed: Option<Mutation>,
    pub(crate) lease: Option<Lease>,
}

/// One life of a stream: a reset starts another under a new uid.
#[derive(Debug)]
pub(crate) struct Stream {
    clock: Arc<StreamClock>,
    pub(crate) uid: StreamUid,
    pub(crate) declaration: Arc<CreateStream>,
    pub(crate) namespace: Option<String>,
    /// How far back closed batches may still be amended; None if they may not.
    pub(crate) within: Option<Millis>,
    /// The start of the earliest batch that waits for an amendment: closes after it still need the
    /// content of their windows.
    pub(crate) amended_from: Option<EventTime>,
    /// The query whose answers are its statements.
    pub(crate) derived_by: Option<QueryUid>,
    /// The streams that queries derive from it.
    pub(crate) feeds: BTreeSet<StreamUid>,
    classifier: Classifier,
    sources: Sources,

    /// Its first time: that of its first statement or advance. No statement before it has been
    /// seen.
    pub(crate) begin: Option<EventTime>,
    /// When its watermark last moved, by the clock in the records.
    pub(crate) moved_ms: Option<i64>,

    open: BTreeMap<BatchNumber, Batch>,
    /// The closed batches from `retained_from` on.
    pub(crate) numbered: StatementCount,
    /// How many statements each batch that is open, or whose slice is not retired, holds; empty
    /// ones are not listed.
    held: BTreeMap<BatchNumber, u64>,
    /// The sum of `held`.
    pub(crate) held_statements: u64,
    /// The sum of `held` from `retained_from` on.
    retained_statements: u64,
    /// The first batch that a newly registered window may see.
    pub(crate) retained_from: BatchNumber,
    /// The bound below which the driver was last told to retire.
    retired_below: BatchNumber,
    /// The batches that end at or before this are in an SN that was cut.
    pub(crate) planned: Option<EventTime>,
    /// The batches that end at or before this are in the stable SN.
    pub(crate) stable: Option<EventTime>,

    /// For each group that windows the stream: the time from which its next close needs it.
    pub(crate) needs: BTreeSet<(EventTime, GroupId)>,
    /// For each SN with unfinished firings: the first batch that they read.
    pub(crate) lagging: BTreeSet<(BatchNumber, Sn)>,
    /// The groups that wait for this stream, by the close that they wait for.
    pub(crate) waiting: BTreeSet<(EventTime, GroupId)>,
    /// Windows on this stream, counted per cohort.
    pub(crate) windowed_by: BTreeMap<QueryUid, usize>,

    pub(crate) statements: u64,
    /// Late statements that were dropped.
    pub(crate) late: u64,
    /// Late statements that were accepted (LATE AMEND).
    pub(crate) amended: u64,
    pub(crate) batches: u64,
}

impl Stream {
    /// `derived_by`: the query whose answers are the statements, with its name. `ahead`: how far
    /// ahead a time may lie where the declaration does not say it.
    pub(crate) fn new(
        (uid, derived_by): (StreamUid, Option<(QueryUid, &str)>),
        (declaration, namespace): (Arc<CreateStream>, Option<String>),
        ahead: Option<Millis>,
        intern: &dyn Intern,
    ) -> Stream {
        let into = declaration
            .into
            .as_ref()
            .map(|graph| intern.intern(graph.as_ref().into()));
        let classifier = Classifier::new(&declaration.classification, into, intern);
        let terms = StreamTerms {
            stream: uid,
            timing: classifier.timing().clone(),
        };
        let name = derived_by.map(|(_, name)| name.to_owned());
        let clock = StreamClock::new(terms, Arc::clone(&declaration), name, ahead);
        let within = match declaration.late_policy {
            LatePolicy::Amend { within } => Some(within),
            LatePolicy::Reject | LatePolicy::Drop => None,
        };
        Stream {
            clock: Arc::new(clock),
            uid,
            within,
            amended_from: None,
            derived_by: derived_by.map(|(query, _)| query),
            feeds: BTreeSet::new(),
            declaration,
            namespace,
            classifier,
            sources: Sources::default(),
            begin: None,
            moved_ms: None,
            open: BTreeMap::new(),
            numbered: StatementCount::default(),
            held: BTreeMap::new(),
            held_statements: 0,
            retained_statements: 0,
            retained_from: BatchNumber(i64::MIN),
            retired_below: BatchNumber(i64::MIN),
            planned: None,
            stable: None,
            needs: BTreeSet::new(),
            lagging: BTreeSet::new(),
            waiting: BTreeSet::new(),
            windowed_by: BTreeMap::new(),
            statements: 0,
            late: 0,
            amended: 0,
            batches: 0,
        }
    }

    /// What every thread may know of the stream.
    pub(crate) fn clock(&self) -> &Arc<StreamClock> {
        &self.clock
    }

    /// Every statement with an earlier event time has been seen; `None` before the first push or
    /// advance.
    pub(crate) fn watermark(&self) -> Option<EventTime> {
        self.clock.watermark()
    }

    pub(crate) fn interval(&self) -> Millis {
        self.declaration.batch
    }

    pub(crate) fn iri(&self) -> &str {
        self.declaration.iri.as_str()
    }

    /// The batch that `time` falls into.
    pub(crate) fn batch_of(&self, time: EventTime) -> BatchNumber {
        BatchNumber::of(time, self.interval())
    }

    /// The end of the last batch that is over at `time`.
    pub(crate) fn batch_end_before(&self, time: EventTime) -> EventTime {
        self.batch_of(time).start(self.interval())
    }

    pub(crate) fn is_arrival_time(&self) -> bool {
        self.clock.is_arrival_time()
    }

    pub(crate) fn lateness(&self) -> Millis {
        self.clock.lateness()
    }

    /// Whether a push with this (stream, source, seq) was taken before.
    pub(crate) fn is_repeat(&self, head: &PushHead) -> Result<bool, Refusal> {
        self.sources.is_repeat(head)
    }

    /// The watermark that the stream would have if this source were at `time`.
    pub(crate) fn watermark_with(
        &self,
        source: &str,
        time: Option<EventTime>,
    ) -> Option<EventTime> {
        let least = self.sources.least_with(&self.clock, source, time);
        least.max(self.watermark())
    }

    /// Puts a push into batches. Late statements are dropped and counted (where LATE is REJECT,
    /// admission has refused them). With AMEND they go into their batch while it is open, and are
    /// returned otherwise.
    pub(crate) fn push(
        &mut self,
        push: &PushRecord<PushStatements>,
        intern: &dyn Intern,
    ) -> Pushed {
        let mut pushed = Pushed::default();
        let late_before = self.late;
        let mut gate = self.clock.gate(&push.source);
        let scope = self.sources.note(&self.clock, push);
        let interner = Interner::of_push(intern, scope, &push.statements, self.terms());

        // One batch is taken out of the map at a time; a push seldom spans more than one or two.
        let mut current: Option<(BatchNumber, Batch)> = None;
        let mut first = None;
        for (at, quad) in push.statements.iter() {
            let number = BatchNumber::of(at, self.declaration.batch);
            match gate.pass(at) {
                Ok(()) => first = first.or(Some(at)),
                Err(late) if !self.amends(at, first, late) => {
                    self.late += 1;
                    continue;
                }
                // Only BUDGET drops a batch within WITHIN. No window can show the statement, but a
                // fact does not depend on windows.
                Err(_) if number < self.retained_from => {
                    let fact = interner.absorbed(&self.classifier, interner.pushed(quad));
                    match fact.is_some() {
                        true => self.amended += 1,
                        false => self.late += 1,
                    }
                    pushed.facts.extend(fact.map(Mutation::insert));
                    continue;
                }
                Err(_) => {
                    self.amended += 1;
                    if Some(number.end(self.interval())) <= self.watermark() {
                        let quad = interner.pushed(quad);
                        let late = self.late_statement(number, at, quad, &interner);
                        pushed.late.push(late);
                        continue;
                    }
                }
            }
            let (_, batch) = match &mut current {
                Some(entry) if entry.0 == number => entry,
                other => {
                    if let Some((before, batch)) = other.take() {
                        self.put_back(before, batch);
                    }
                    let mut batch = self.take_out(number);
                    batch.keep(interner.lease());
                    other.insert((number, batch))
                }
            };
            let quad = interner.pushed(quad);
            batch.statements.push(TimedTriple {
                at,
                triple: quad.triple(),
            });
            if let Some(absorbed) = interner.absorbed(&self.classifier, quad) {
                batch.absorbed.push(Mutation::insert(absorbed));
            }
        }
        if let Some((number, batch)) = current {
            self.put_back(number, batch);
        }

        pushed.dropped = self.late - late_before;
        let Some(first) = first else { return pushed };
        if let Some(time) = gate.source {
            self.sources.set_time(&self.clock, &push.source, time);
        }
        if self.begin.is_none() {
            self.begin = Some(first.minus(self.lateness()));
        }
        pushed.moved = self.reach(self.sources.least(), push.received_ms);
        pushed
    }

    /// Whether a late statement is accepted: it is not older than WITHIN, and not before the
    /// stream's beginning (that of this push, where it is the first).
    fn amends(&self, at: EventTime, first: Option<EventTime>, late: TooLate) -> bool {
        let begin = self
            .begin
            .or_else(|| first.map(|first| first.minus(self.lateness())));
        self.within
            .is_some_and(|within| at >= late.accepted_from.minus(within))
            && Some(at) >= begin
    }

    /// Counts a late statement that goes into a closed batch, and returns it.
    fn late_statement(
        &mut self,
        batch: BatchNumber,
        at: EventTime,
        quad: QuadIds,
        interner: &Interner<'_>,
    ) -> LateStatement {
        self.hold_more(batch, 1);
        let triple = quad.triple();
        let absorbed = interner.absorbed(&self.classifier, quad);
        LateStatement {
            batch,
            statement: TimedTriple { at, triple },
            absorbed: absorbed.map(Mutation::insert),
            lease: interner.lease(),
        }
    }

    /// Counts statements that were added to a closed batch.
    fn hold_more(&mut self, batch: BatchNumber, count: u64) {
        if count > 0 {
            *self.held.entry(batch).or_default() += count;
        }
        self.held_statements += count;
        self.retained_statements += count;
        self.statements += count;
    }

    /// Notes that a batch which a cut has shown will change with a later cut.
    pub(crate) fn await_amendment(&mut self, batch: BatchNumber) {
        let start = batch.start(self.interval());
        self.amended_from = Some(self.amended_from.map_or(start, |from| from.min(start)));
    }

    /// Returns the time after which closes may still be amended.
    pub(crate) fn amendable_after(&self) -> Option<EventTime> {
        let after = self.watermark()?.minus(self.within?);
        Some(self.amended_from.map_or(after, |from| from.min(after)))
    }

    /// Sets the number of statements in a closed batch to `count`.
    pub(crate) fn hold_instead(&mut self, batch: BatchNumber, count: u64) {
        let before = self.held.remove(&batch).unwrap_or_default();
        self.held_statements -= before;
        self.retained_statements -= before;
        self.statements -= before;
        self.hold_more(batch, count);
    }

    /// What an interner must know about the stream.
    pub(crate) fn terms(&self) -> StreamTerms {
        self.clock.terms().clone()
    }

    /// The fact to absorb from a statement, if it is timeless.
    pub(crate) fn absorbed(&self, quad: QuadIds) -> Option<QuadIds> {
        self.classifier.absorbed(quad)
    }

    /// Takes a batch out of the held counts, to add statements to it.
    pub(crate) fn take_out(&mut self, number: BatchNumber) -> Batch {
        let batch = self.open.remove(&number).unwrap_or_default();
        let count = batch.statements.len() as u64;
        self.held_statements -= count;
        self.retained_statements -= count;
        self.statements -= count;
        batch
    }

    pub(crate) fn put_back(&mut self, number: BatchNumber, batch: Batch) {
        let count = batch.statements.len() as u64;
        self.held.insert(number, count);
        self.held_statements += count;
        self.retained_statements += count;
        self.statements += count;
        self.open.insert(number, batch);
    }

    /// Takes a heartbeat or an advance by the clock. Returns whether the stream's time moved.
    pub(crate) fn advance(&mut self, to: EventTime, received_ms: i64) -> bool {
        // An advance to exactly the clock's time counts as one by the clock and is no sign of life
        // of any source. It is recognised by its value, because the record has no other mark and
        // every replay computes the same value.
        if self.time_by_clock(received_ms) != Some(to) {
            self.sources.advance(&self.clock, to, received_ms);
            if self.clock.heartbeat().is_none_or(|(time, _)| time <= to) {
                self.clock.set_heartbeat(to, received_ms);
            }
        }
        if self.begin.is_none() {
            self.begin = Some(to);
        }
        self.reach(Some(to), received_ms)
    }

    /// Moves the watermark, never back (VT-1).
    pub(crate) fn reach(&mut self, time: Option<EventTime>, received_ms: i64) -> bool {
        let Some(time) = time.filter(|time| Some(*time) > self.watermark()) else {
            return false;
        };
        self.clock.set_watermark(time);
        self.moved_ms = Some(received_ms);
        true
    }

    /// The time that the clock moves an IDLE stream to; `None` where it moves nothing.
    pub(crate) fn time_by_clock(&self, now_ms: i64) -> Option<EventTime> {
        self.clock.time_by_clock(now_ms)
    }

    /// Whether reaching `time` would close a batch or let a group go on.
    pub(crate) fn is_wanted_at(&self, time: EventTime) -> bool {
        let closes_batch = self
            .open
            .first_key_value()
            .is_some_and(|(batch, _)| batch.end(self.interval()) <= time);
        let moves_group = self
            .waiting
            .first()
            .is_some_and(|(close, _)| *close <= time);
        closes_batch || moves_group
    }

    /// Whether an advance to `time` is worth a record.
    pub(crate) fn moves_to(&self, time: EventTime) -> bool {
        Some(time) > self.watermark() && self.is_wanted_at(time)
    }

    /// Removes and returns the next batch whose end has passed.
    pub(crate) fn take_closed(&mut self) -> Option<(BatchNumber, Batch)> {
        let watermark = self.watermark()?;
        let interval = self.interval();
        let entry = self.open.first_entry()?;
        if entry.key().end(interval) > watermark {
            return None;
        }
        self.batches += 1;
        let (number, batch) = entry.remove_entry();
        self.numbered.close(number, batch.statements.len());
        Some((number, batch))
    }

    /// Removes and returns the batches that are still open, when the stream is dropped.
    pub(crate) fn take_open(&mut self) -> impl Iterator<Item = Batch> {
        std::mem::take(&mut self.open).into_values()
    }

    /// The stream under another uid, without its time, its batches and their counts.
    pub(crate) fn begin_again(
        self,
        uid: StreamUid,
        ahead: Option<Millis>,
        intern: &dyn Intern,
    ) -> Stream {
        let declared = (self.declaration, self.namespace);
        let fresh = Stream::new((uid, None), declared, ahead, intern);
        Stream {
            sources: self.sources.begin_again(&self.clock, &fresh.clock),
            statements: self.statements,
            late: self.late,
            amended: self.amended,
            batches: self.batches,
            ..fresh
        }
    }

    /// The first batch from `from` on that holds a statement, among those that a window may see.
    pub(crate) fn first_held(&self, from: BatchNumber) -> Option<BatchNumber> {
        let from = from.max(self.retained_from);
        self.held.range(from..).next().map(|(batch, _)| *batch)
    }

    /// The last batch before `to` that holds a statement, among those that a window may see.
    pub(crate) fn last_held(&self, to: BatchNumber) -> Option<BatchNumber> {
        let from = self.retained_from.min(to);
        self.held
            .range(from..to)
            .next_back()
            .map(|(batch, _)| *batch)
    }

    /// The first batch that any window's next close or lagging firing needs.
    fn needed_from(&self) -> BatchNumber {
        let by_windows = self.needs.first().map(|(from, _)| self.batch_of(*from));
        let by_firings = self.lagging.first().map(|(batch, _)| *batch);
        let windows_or_end = by_windows.unwrap_or(BatchNumber(i64::MAX));
        windows_or_end.min(by_firings.unwrap_or(BatchNumber(i64::MAX)))
    }

    /// After a cut: drops what neither a window's next close nor KEEP needs. KEEP yields to BUDGET,
    /// windows do not.
    pub(crate) fn let_go(&mut self) {
        let (Some(watermark), Some(planned)) = (self.watermark(), self.planned) else {
            return;
        };
        let cut = self.batch_of(planned);
        let by_windows = self
            .needs
            .first()
            .map_or(cut, |(from, _)| self.batch_of(*from).min(cut));
        let keep = self.declaration.keep.max(self.within.unwrap_or_default());
        let by_keep = self.batch_of(watermark.minus(keep));
        let mut from = self.retained_from.max(by_windows.min(by_keep));
        let mut statements = self.retained_statements;
        for (batch, count) in self.held.range(self.retained_from..) {
            let over_budget = statements * STATEMENT_BYTES > self.declaration.budget_bytes;
            if *batch >= from {
                if !over_budget || *batch >= by_windows {
                    break;
                }
                from = batch.next();
            }
            statements -= count;
        }
        self.retained_from = from;
        self.numbered.let_go(from);
        self.retained_statements = statements;
    }

    /// The number below which the driver may retire batches now, if it is higher than the one last
    /// told: below the logical bound and below what running firings read.
    pub(crate) fn retire(&mut self) -> Option<BatchNumber> {
        let lagging = self.lagging.first().map(|(batch, _)| *batch);
        let below = self
            .retained_from
            .min(lagging.unwrap_or(self.retained_from));
        if below <= self.retired_below {
            return None;
        }
        self.retired_below = below;
        let kept = self.held.split_off(&below);
        let retired = std::mem::replace(&mut self.held, kept);
        self.held_statements -= retired.values().sum::<u64>();
        (!retired.is_empty()).then_some(below)
    }

    /// The estimated bytes that the stream has to keep, if those and `more` statements are over its
    /// BUDGET.
    pub(crate) fn over_budget(&self, more: usize) -> Option<u64> {
        let budget = self.declaration.budget_bytes;
        let more = more as u64;
        if (self.held_statements + more) * STATEMENT_BYTES <= budget {
            return None;
        }
        let needed = self.needed_statements();
        ((needed + more) * STATEMENT_BYTES > budget).then_some(needed * STATEMENT_BYTES)
    }

    /// The number of statements that the stream has to keep.
    fn needed_statements(&self) -> u64 {
        // KEEP alone never causes a refusal: the next cut drops what only KEEP holds.
        let uncut = self
            .planned
            .map_or(BatchNumber(i64::MIN), |planned| self.batch_of(planned));
        let needed = self.held.range(self.needed_from().min(uncut)..);
        needed.map(|(_, count)| count).sum()
    }

    /// Shows on the clock what the stream holds; `holder` says what holds it, for refusals. Returns
    /// whether pushes to the streams that feed this one may have been, or may be, refused for that.
    pub(super) fn publish(&self, holder: impl FnOnce() -> String) -> bool {
        let budget = self.declaration.budget_bytes;
        self.clock.set_held(self.held_statements);
        let is_near = |statements: &u64| statements * STATEMENT_BYTES > budget / 2;
        let held = Some(self.held_statements).filter(is_near);
        let needed = held.map(|_| self.needed_statements()).filter(is_near);
        self.clock
            .set_needed(needed.map(|needed| (needed, holder())));
        let is_full = needed.is_some_and(|needed| needed * STATEMENT_BYTES > budget);
        let was_full = self.clock.set_full(is_full);
        self.derived_by.is_some() && (is_full || was_full)
    }
}
