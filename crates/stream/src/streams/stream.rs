//! One declared stream: a clock, sources, open batches, and the part of its past that is still
//! needed.
//!
//! Before changing anything here: the watermark never goes back (VT-1), and a batch is closed once
//! the watermark has passed the batch's end. The content of windows follows from the log alone, so
//! it moves only when a plan record is applied.

mod saved;

use super::adaptor::{Classifier, Interner, StreamTerms, TooLate};
use super::batches::{Batch, GrowingBatch, LateStatement, OpenBatches};
use super::clock::StreamClock;
use super::messages::{Consumers, KeptMessage, Messages};
use super::retention::{Needs, Retention};
use super::sources::Sources;
use super::statement_count::StatementCount;
use crate::protocol::inject::OpenBatch;
use crate::protocol::input::PushHead;
use crate::protocol::refusal::Refusal;
use crate::protocol::statements::{PushStatements, PushedQuad};
use crate::protocol::status::SourceNumbers;
use somersault_lang::{
    AheadLimit, CreateStream, DerivedStream, LatePolicy, StreamSource, TimeDomain,
};
use somersault_log::{MessagesRecord, PushRecord};
use somersault_model::{
    BatchNumber, EventTime, Intern, Lease, Millis, Mutation, Place, QuadIds, QueryUid, StreamUid,
    TimedTriple, TripleIds,
};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The assumed cost in bytes of a statement in a slice, for BUDGET: ids in both directions, batch,
/// arrival order and time.
pub(crate) const STATEMENT_BYTES: u64 = 80;

/// The effects of a push or of messages besides the statements that went into open batches.
#[derive(Debug, Default)]
pub(super) struct PushEffects {
    /// Late statements that were dropped.
    pub(super) dropped: u64,
    /// Whether the stream's time moved.
    pub(super) is_moved: bool,
    /// Late statements of closed batches, to be amended.
    pub(super) late: Vec<LateStatement>,
    /// Facts from late statements whose batches are no longer kept.
    pub(super) facts: Vec<Mutation>,
}

/// The part of a push or of a message that was taken, for the stream's consumers.
#[derive(Debug)]
struct TakenMessage {
    is_consumed: bool,
    /// The greatest event time; `None` while no statement was taken.
    at: Option<EventTime>,
    /// Empty where no consumer wants them.
    statements: Vec<TripleIds>,
}

impl TakenMessage {
    fn new(is_consumed: bool) -> TakenMessage {
        TakenMessage {
            is_consumed,
            at: None,
            statements: Vec::new(),
        }
    }

    fn add(&mut self, at: EventTime, quad: QuadIds) {
        self.at = self.at.max(Some(at));
        if self.is_consumed {
            self.statements.push(quad.triple());
        }
    }
}

/// The progress of a stream, besides its watermark.
#[derive(Debug, Default)]
struct Progress {
    /// Its first time: that of its first statement or advance. No statement before it has been
    /// seen.
    begin: Option<EventTime>,
    /// When its watermark last moved, by the clock in the records.
    moved_ms: Option<i64>,
    /// The batches that end at or before this are in an SN that was cut.
    planned: Option<EventTime>,
    /// The batches that end at or before this are in the stable SN.
    stable: Option<EventTime>,
    /// The start of the earliest batch that waits for an amendment: closes after it still need the
    /// content of their windows.
    amended_from: Option<EventTime>,
}

/// The counts of a stream, over all its lives.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StreamTotals {
    /// Statements that were taken.
    pub(crate) statements: u64,
    /// Late statements that were dropped.
    pub(crate) late: u64,
    /// Late statements that were accepted (LATE AMEND).
    pub(crate) amended: u64,
    /// Non-empty batches that were closed.
    pub(crate) batches: u64,
}

/// The parts from which a stream is created.
pub(crate) struct NewStream<'n> {
    pub(crate) uid: StreamUid,
    pub(crate) declaration: Arc<CreateStream>,
    pub(crate) namespace: Option<String>,
    /// For a derived stream.
    pub(crate) derived: Option<NewDerived<'n>>,
}

/// The additional parts of a derived stream.
pub(crate) struct NewDerived<'n> {
    /// The query whose answers are its statements, with its name.
    pub(crate) by: (QueryUid, &'n str),
    /// The span by which its closed batches may still be amended; `None` if they may not.
    pub(crate) within: Option<Millis>,
}

/// The declaration of a stream that a query derives, with the query's text.
pub(crate) fn derived_declaration(
    derived: &DerivedStream,
    batch: Millis,
    text: &str,
) -> CreateStream {
    CreateStream {
        iri: derived.iri.clone(),
        source: StreamSource::Outside,
        classification: derived.classification.clone(),
        into: derived.into.clone(),
        batch,
        time: TimeDomain::Event,
        timestamp: None,
        context: None,
        mapping: None,
        dead_letters: None,
        lateness: Millis(0),
        late_policy: LatePolicy::Reject,
        ahead: AheadLimit::Any,
        idle: None,
        keep: derived.keep,
        budget_bytes: derived.budget_bytes,
        text: text.to_owned(),
    }
}

/// One life of a stream: a reset starts another under a new uid.
#[derive(Debug)]
pub(crate) struct Stream {
    clock: Arc<StreamClock>,
    namespace: Option<String>,
    /// The span by which closed batches may still be amended; `None` if they may not.
    within: Option<Millis>,
    /// The query whose answers are its statements.
    derived_by: Option<QueryUid>,
    /// The streams that queries derive from it.
    feeds: BTreeSet<StreamUid>,
    classifier: Classifier,
    sources: Sources,
    progress: Progress,
    open: OpenBatches,
    /// The closed batches from the first retained one on.
    numbered: StatementCount,
    retention: Retention,
    totals: StreamTotals,
    messages: Messages,
}

impl Stream {
    /// `ahead`: how far ahead a time may lie where the declaration does not say it.
    pub(super) fn new(new: NewStream<'_>, ahead: Option<Millis>, intern: &dyn Intern) -> Stream {
        let NewStream {
            uid,
            declaration,
            namespace,
            derived,
        } = new;
        let into = declaration.into.as_ref();
        let into = into.map(|graph| intern.intern(graph.as_ref().into()));
        let classifier = Classifier::new(&declaration.classification, into, intern);
        let terms = StreamTerms {
            stream: uid,
            timing: classifier.timing().clone(),
        };
        let within = match (&derived, declaration.late_policy) {
            (Some(derived), _) => derived.within,
            (None, LatePolicy::Amend { within }) => Some(within),
            (None, LatePolicy::Reject | LatePolicy::Drop) => None,
        };
        let derived_by = derived.map(|derived| derived.by);
        let name = derived_by.map(|(_, name)| name.to_owned());
        Stream {
            clock: Arc::new(StreamClock::new(terms, declaration, name, ahead)),
            namespace,
            within,
            derived_by: derived_by.map(|(query, _)| query),
            feeds: BTreeSet::new(),
            classifier,
            sources: Sources::default(),
            progress: Progress::default(),
            open: OpenBatches::default(),
            numbered: StatementCount::default(),
            retention: Retention::default(),
            totals: StreamTotals::default(),
            messages: Messages::default(),
        }
    }

    /// The stream under another uid, without its time, its batches and their counts.
    pub(super) fn begin_again(
        self,
        uid: StreamUid,
        ahead: Option<Millis>,
        intern: &dyn Intern,
    ) -> Stream {
        let new = NewStream {
            uid,
            declaration: Arc::clone(self.declaration()),
            namespace: self.namespace,
            derived: None,
        };
        let fresh = Stream::new(new, ahead, intern);
        Stream {
            sources: self.sources.begin_again(&self.clock, &fresh.clock),
            totals: self.totals,
            ..fresh
        }
    }
}

/// Its identity and its progress.
impl Stream {
    /// The clock of the stream, which every thread may read.
    pub(crate) fn clock(&self) -> &Arc<StreamClock> {
        &self.clock
    }

    pub(crate) fn uid(&self) -> StreamUid {
        self.clock.uid()
    }

    pub(crate) fn declaration(&self) -> &Arc<CreateStream> {
        self.clock.declaration()
    }

    /// The default namespace that its declaration was parsed with.
    pub(crate) fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    pub(crate) fn iri(&self) -> &str {
        self.clock.iri()
    }

    /// The span by which closed batches may still be amended; `None` if they may not.
    pub(crate) fn within(&self) -> Option<Millis> {
        self.within
    }

    /// The query whose answers are its statements.
    pub(crate) fn derived_by(&self) -> Option<QueryUid> {
        self.derived_by
    }

    /// The streams that queries derive from it.
    pub(super) fn feeds(&self) -> &BTreeSet<StreamUid> {
        &self.feeds
    }

    pub(super) fn feeds_mut(&mut self) -> &mut BTreeSet<StreamUid> {
        &mut self.feeds
    }

    /// Every statement with an earlier event time has been seen; `None` before the first push or
    /// advance.
    pub(crate) fn watermark(&self) -> Option<EventTime> {
        self.clock.watermark()
    }

    /// Its first time; `None` before the first push or advance.
    pub(crate) fn begin(&self) -> Option<EventTime> {
        self.progress.begin
    }

    /// When the watermark last moved, by the clock in the records.
    pub(crate) fn moved_ms(&self) -> Option<i64> {
        self.progress.moved_ms
    }

    /// The end of the closed batches that are in the stable SN.
    pub(crate) fn stable(&self) -> Option<EventTime> {
        self.progress.stable
    }

    /// The highest sequence number of each source that has used one.
    pub(crate) fn source_numbers(&self) -> SourceNumbers {
        self.sources.numbers()
    }

    pub(crate) fn totals(&self) -> StreamTotals {
        self.totals
    }

    pub(crate) fn interval(&self) -> Millis {
        self.declaration().batch
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

    /// The numbers of its statements, for windows of a number of statements.
    pub(crate) fn numbered(&self) -> &StatementCount {
        &self.numbered
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

    /// Returns the time after which closes may still be amended.
    pub(crate) fn amendable_after(&self) -> Option<EventTime> {
        let after = self.watermark()?.minus(self.within?);
        let from = self.progress.amended_from;
        Some(from.map_or(after, |from| from.min(after)))
    }
}

/// Statements come in.
impl Stream {
    /// Puts a push into batches. Late statements are dropped and counted (where LATE is REJECT,
    /// admission has refused them). With AMEND they go into their batch while it is open, and are
    /// returned otherwise.
    pub(super) fn push(
        &mut self,
        push: &PushRecord<PushStatements>,
        intern: &dyn Intern,
    ) -> PushEffects {
        let late_before = self.totals.late;
        let mut effects = PushEffects::default();
        let mut interner = Interner::of_push(intern, &push.statements, self.terms());
        let scope = (self.sources).note(&self.clock, (&push.source, push.received_ms), push.seq);
        interner.begin(scope);
        let statements = push.statements.iter();
        self.take(&push.source, statements, &mut interner, &mut effects);
        effects.dropped = self.totals.late - late_before;
        effects.is_moved = self.reach(self.sources.least(), push.received_ms);
        effects
    }

    /// Puts messages into batches, each as a push of its own. The stream's time moves after the
    /// last of them.
    pub(super) fn messages(
        &mut self,
        record: &MessagesRecord<PushStatements>,
        intern: &dyn Intern,
    ) -> PushEffects {
        let late_before = self.totals.late;
        let mut effects = PushEffects::default();
        let mut interner = Interner::of_push(intern, &record.statements, self.terms());
        let mut statements = record.statements.iter();
        let source = (record.source.as_str(), record.received_ms);
        for message in &record.messages {
            let scope = self.sources.note(&self.clock, source, message.seq);
            interner.begin(scope);
            let own = statements.by_ref().take(message.statements as usize);
            self.take(&record.source, own, &mut interner, &mut effects);
        }
        effects.dropped = self.totals.late - late_before;
        effects.is_moved = self.reach(self.sources.least(), record.received_ms);
        effects
    }

    /// Takes the statements of a push or of a message.
    fn take<'p>(
        &mut self,
        source: &str,
        statements: impl Iterator<Item = (EventTime, PushedQuad<'p>)>,
        interner: &mut Interner<'_>,
        effects: &mut PushEffects,
    ) {
        let mut gate = self.clock.gate(source);
        let mut growing: Option<GrowingBatch> = None;
        let mut message = TakenMessage::new(self.messages.consumers().is_some());
        let mut first = None;
        for (at, quad) in statements {
            let number = self.batch_of(at);
            match gate.pass(at) {
                Ok(()) => first = first.or(Some(at)),
                Err(late) => {
                    let is_accepted = self.amends(at, first, late);
                    let statement = (number, at, quad);
                    if !is_accepted || !self.take_late(statement, interner, effects) {
                        self.totals.late += u64::from(!is_accepted);
                        continue;
                    }
                }
            }
            if growing.as_ref().is_none_or(|it| it.number != number) {
                self.reinsert(growing.take());
            }
            let GrowingBatch { batch, .. } = growing.get_or_insert_with(|| {
                let mut growing = self.open.take_out(number);
                growing.batch.keep(interner.lease());
                growing
            });
            let quad = interner.pushed(quad);
            batch.add(at, quad, interner.absorbed(&self.classifier, quad));
            message.add(at, quad);
        }
        self.reinsert(growing);
        if let Some(at) = message.at {
            self.messages.add(at, &message.statements, interner.lease());
        }
        let Some(first) = first else { return };
        if let Some(time) = gate.source {
            self.sources.set_time(&self.clock, source, time);
        }
        let begin = first.minus(self.lateness());
        self.progress.begin.get_or_insert(begin);
    }

    /// Puts a batch back that was taken out to add statements, and counts them.
    fn reinsert(&mut self, grown: Option<GrowingBatch>) {
        let Some(grown) = grown else { return };
        self.totals.statements += grown.added();
        self.retention.hold_more(grown.number, grown.added());
        self.open.reinsert(grown);
    }

    /// Whether a late statement is accepted: it is not older than WITHIN, and not before the
    /// stream's beginning (that of this push, where it is the first).
    fn amends(&self, at: EventTime, first: Option<EventTime>, late: TooLate) -> bool {
        let of_push = || first.map(|first| first.minus(self.lateness()));
        let begin = self.progress.begin.or_else(of_push);
        let oldest = (self.within).map(|within| late.accepted_from.minus(within));
        oldest.is_some_and(|oldest| at >= oldest) && Some(at) >= begin
    }

    /// Takes a late statement that is accepted. Returns whether its batch is open.
    fn take_late(
        &mut self,
        (number, at, quad): (BatchNumber, EventTime, PushedQuad<'_>),
        interner: &mut Interner<'_>,
        effects: &mut PushEffects,
    ) -> bool {
        // Only BUDGET drops a batch within WITHIN. No window can show the statement, but a fact
        // does not depend on windows.
        if number < self.retained_from() {
            let quad = interner.pushed(quad);
            let fact = interner.absorbed(&self.classifier, quad);
            match fact.is_some() {
                true => self.totals.amended += 1,
                false => self.totals.late += 1,
            }
            effects.facts.extend(fact.map(Mutation::insert));
            return false;
        }
        self.totals.amended += 1;
        if Some(number.end(self.interval())) > self.watermark() {
            return true;
        }
        self.totals.statements += 1;
        self.retention.hold_more(number, 1);
        let quad = interner.pushed(quad);
        let absorbed = interner.absorbed(&self.classifier, quad);
        let triple = quad.triple();
        effects.late.push(LateStatement {
            batch: number,
            statement: TimedTriple { at, triple },
            absorbed: absorbed.map(Mutation::insert),
            lease: interner.lease(),
        });
        false
    }

    /// The terms of the stream for an interner.
    pub(crate) fn terms(&self) -> StreamTerms {
        self.clock.terms().clone()
    }

    /// Takes a heartbeat or an advance by the clock. Returns whether the stream's time moved.
    pub(super) fn advance(&mut self, to: EventTime, received_ms: i64) -> bool {
        // An advance to exactly the clock's time counts as one by the clock and is no sign of life
        // of any source. It is recognised by its value, because the record has no other mark and
        // every replay computes the same value.
        if self.clock.time_by_clock(received_ms) != Some(to) {
            self.sources.advance(&self.clock, to, received_ms);
            if self.clock.heartbeat().is_none_or(|(time, _)| time <= to) {
                self.clock.set_heartbeat(to, received_ms);
            }
        }
        self.progress.begin.get_or_insert(to);
        self.reach(Some(to), received_ms)
    }

    /// Moves the watermark, never back (VT-1).
    fn reach(&mut self, time: Option<EventTime>, received_ms: i64) -> bool {
        let Some(time) = time.filter(|time| Some(*time) > self.watermark()) else {
            return false;
        };
        self.clock.set_watermark(time);
        self.progress.moved_ms = Some(received_ms);
        true
    }

    /// Takes the statements of a firing for `close`, after which the stream is complete through the
    /// `next` close. Returns whether its time moved.
    pub(super) fn derive(
        &mut self,
        (close, next): (EventTime, EventTime),
        more: Batch,
        received_ms: i64,
    ) -> bool {
        if !more.statements.is_empty() {
            if self.consumers().is_some() {
                let triples: Vec<TripleIds> = more.statements.iter().map(|it| it.triple).collect();
                self.messages.add(close, &triples, more.lease.clone());
            }
            let mut growing = self.open.take_out(self.batch_of(close));
            growing.batch.statements.extend(more.statements);
            growing.batch.absorbed.extend(more.absorbed);
            growing.batch.keep(more.lease);
            self.reinsert(Some(growing));
        }
        self.progress.begin.get_or_insert(close);
        self.reach(Some(next), received_ms)
    }

    /// Takes a message that a transaction has emitted. An interior stream has no sources: its time
    /// moves by [`Stream::complete`] alone.
    pub(super) fn emit(&mut self, at: EventTime, quads: &[QuadIds], lease: Option<Lease>) {
        let at = self.watermark().map_or(at, |watermark| at.max(watermark));
        let triples: Vec<TripleIds> = quads.iter().map(|quad| quad.triple()).collect();
        self.messages.add(at, &triples, lease.clone());
        let more = self.batch_at(at, quads, lease);
        let mut growing = self.open.take_out(self.batch_of(at));
        growing.batch.statements.extend(more.statements);
        growing.batch.absorbed.extend(more.absorbed);
        growing.batch.keep(more.lease);
        self.reinsert(Some(growing));
        self.progress.begin.get_or_insert(at);
    }

    /// An interior stream is complete through a time. Returns whether its time moved.
    pub(super) fn complete(&mut self, through: EventTime, received_ms: i64) -> bool {
        self.progress.begin.get_or_insert(through);
        self.reach(Some(through), received_ms)
    }

    /// Returns statements of one time as a batch.
    pub(super) fn batch_at(&self, at: EventTime, quads: &[QuadIds], lease: Option<Lease>) -> Batch {
        let mut batch = Batch {
            lease,
            ..Batch::default()
        };
        for quad in quads {
            batch.add(at, *quad, self.classifier.absorbed(*quad));
        }
        batch
    }

    /// Counts statements that take the place of those of a batch. Returns `false`, and counts them
    /// as late, where the batch is no longer kept.
    pub(super) fn replace_count(&mut self, batch: BatchNumber, count: u64) -> bool {
        if batch < self.retained_from() {
            self.totals.late += count;
            return false;
        }
        self.totals.amended += count;
        self.totals.statements += count;
        self.totals.statements -= self.retention.replace_count(batch, count);
        true
    }

    /// Counts a batch that was empty when it closed and has a statement now.
    pub(super) fn count_batch(&mut self) {
        self.totals.batches += 1;
    }
}

/// Its messages.
impl Stream {
    /// The place of the newest message; their number.
    pub(crate) fn newest_message(&self) -> Place {
        self.messages.newest()
    }

    /// The consumers of its messages.
    pub(crate) fn consumers(&self) -> Option<&Consumers> {
        self.messages.consumers()
    }

    /// Sets the consumers of its messages, and lets go of those that none needs.
    pub(super) fn set_consumers(&mut self, consumers: Option<Consumers>) {
        self.messages.set_consumers(consumers);
    }

    /// The messages that its consumers need, ascending.
    pub(crate) fn kept_messages(&self) -> impl Iterator<Item = &KeptMessage> {
        self.messages.kept()
    }

    /// The kept messages that came since the last call.
    pub(super) fn take_untold(&mut self) -> Vec<KeptMessage> {
        self.messages.take_untold()
    }

    /// The consumers, if the messages that they need take more than half of BUDGET.
    pub(crate) fn full_of_messages(&self) -> Option<&Consumers> {
        let is_full = self.messages.cost() * STATEMENT_BYTES > self.declaration().budget_bytes / 2;
        self.consumers().filter(|_| is_full)
    }
}

/// Batches close, are cut and become stable.
impl Stream {
    /// Whether reaching `time` would close a batch.
    pub(crate) fn closes_batch_at(&self, time: EventTime) -> bool {
        let first = self.open.first();
        first.is_some_and(|batch| batch.end(self.interval()) <= time)
    }

    /// Removes and returns the next batch whose end has passed.
    pub(super) fn take_closed(&mut self) -> Option<(BatchNumber, Batch)> {
        if !self.closes_batch_at(self.watermark()?) {
            return None;
        }
        let (number, batch) = self.open.take_first()?;
        self.totals.batches += 1;
        self.numbered.close(number, batch.statements.len());
        Some((number, batch))
    }

    /// The batches that still take statements, newest first; none for a derived stream, whose
    /// batches may be replaced.
    pub(crate) fn open_batches(&self) -> impl Iterator<Item = OpenBatch<'_>> {
        let open = self.derived_by.is_none().then(|| self.open.newest_first());
        open.into_iter().flatten().map(|(batch, held)| OpenBatch {
            stream: self.uid(),
            batch,
            statements: &held.statements,
            facts: &held.absorbed,
        })
    }

    /// Removes and returns the batches that are still open, when the stream is dropped.
    pub(super) fn take_open(&mut self) -> impl Iterator<Item = Batch> + use<> {
        self.open.take_all()
    }

    /// Whether a cut has shown the batch that ends at this time.
    pub(super) fn has_cut(&self, end: EventTime) -> bool {
        Some(end) <= self.progress.planned
    }

    /// The end of the last batch that is over at the watermark and at `through`, if no cut has
    /// shown it.
    pub(crate) fn uncut_end(&self, through: Option<EventTime>) -> Option<EventTime> {
        let watermark = self.watermark()?;
        let through = through.map_or(watermark, |through| through.min(watermark));
        let end = self.batch_end_before(through);
        (!self.has_cut(end)).then_some(end)
    }

    /// Records that a cut shows the batches that end at or before this time.
    pub(super) fn plan_through(&mut self, time: EventTime) {
        assert!(
            self.progress.planned < Some(time) && Some(time) <= self.watermark(),
            "VT-1: the time of stream <{}> in a plan record goes on, and never past what was seen",
            self.iri()
        );
        self.progress.planned = Some(time);
    }

    /// Records that the batches that end at or before this time are in the stable SN.
    pub(super) fn set_stable(&mut self, time: EventTime) {
        assert!(
            self.progress.stable < Some(time),
            "VT-1: the stable time of stream <{}> never goes back",
            self.iri()
        );
        self.progress.stable = Some(time);
    }

    /// Notes that a batch which a cut has shown will change with a later cut.
    pub(super) fn await_amendment(&mut self, batch: BatchNumber) {
        let start = batch.start(self.interval());
        let from = self.progress.amended_from;
        self.progress.amended_from = Some(from.map_or(start, |from| from.min(start)));
    }

    /// Notes that a cut shows all amendments.
    pub(super) fn show_amendments(&mut self) {
        self.progress.amended_from = None;
    }
}

/// Its retained past.
impl Stream {
    /// The first batch that a newly registered window may see.
    pub(crate) fn retained_from(&self) -> BatchNumber {
        self.retention.from()
    }

    /// The number of statements in open batches and in slices that are not retired.
    pub(crate) fn held_statements(&self) -> u64 {
        self.retention.statements()
    }

    /// The first batch from `from` on that holds a statement, among those that a window may see.
    pub(crate) fn first_held(&self, from: BatchNumber) -> Option<BatchNumber> {
        self.retention.first_held(from)
    }

    /// The last batch before `to` that holds a statement, among those that a window may see.
    pub(crate) fn last_held(&self, to: BatchNumber) -> Option<BatchNumber> {
        self.retention.last_held(to)
    }

    /// After a cut: drops what neither a window's next close nor KEEP needs. KEEP yields to BUDGET,
    /// windows do not.
    pub(super) fn release_unneeded(&mut self, needed_from: Option<EventTime>) {
        let (Some(watermark), Some(planned)) = (self.watermark(), self.progress.planned) else {
            return;
        };
        let cut = self.batch_of(planned);
        let by_windows = needed_from.map(|from| self.batch_of(from).min(cut));
        let keep = self.declaration().keep.max(self.within.unwrap_or_default());
        let by_keep = self.batch_of(watermark.minus(keep));
        let budget = self.declaration().budget_bytes;
        let kept = self.messages.cost();
        let is_over_budget = |statements: u64| (statements + kept) * STATEMENT_BYTES > budget;
        let by_windows = by_windows.unwrap_or(cut);
        self.retention
            .release_unneeded(by_windows, by_keep, is_over_budget);
        self.numbered.release(self.retention.from());
    }

    /// The number below which the driver may retire batches now, if it is higher than the one last
    /// told.
    pub(super) fn retire(&mut self, first_read: Option<BatchNumber>) -> Option<BatchNumber> {
        self.retention.retire(first_read)
    }

    /// The number of statements that count towards BUDGET: those that it holds, and the cost of the
    /// messages that consumers need.
    pub(crate) fn counted_statements(&self) -> u64 {
        self.held_statements() + self.messages.cost()
    }

    /// The estimated bytes that the stream has to keep, if those and `more` statements are over its
    /// BUDGET.
    pub(crate) fn over_budget(&self, more: usize, needs: Needs) -> Option<u64> {
        let budget = self.declaration().budget_bytes;
        let more = more as u64;
        if (self.counted_statements() + more) * STATEMENT_BYTES <= budget {
            return None;
        }
        let needed = self.needed_statements(needs);
        ((needed + more) * STATEMENT_BYTES > budget).then_some(needed * STATEMENT_BYTES)
    }

    /// The number of statements that the stream has to keep.
    fn needed_statements(&self, needs: Needs) -> u64 {
        // KEEP alone never causes a refusal: the next cut drops what only KEEP holds.
        let planned = self.progress.planned.map(|planned| self.batch_of(planned));
        let by_windows = needs.windows().map(|from| self.batch_of(from));
        let uncut = planned.unwrap_or(BatchNumber(i64::MIN));
        let needed = [by_windows, needs.firings()].into_iter().flatten().min();
        let from = needed.map_or(uncut, |needed| needed.min(uncut));
        self.retention.statements_from(from) + self.messages.cost()
    }

    /// Shows on the clock what the stream holds; `holder` says what holds it, for refusals. Returns
    /// whether pushes to the streams that feed this one may have been, or may be, refused for that.
    pub(super) fn publish(&self, needs: Needs, holder: impl FnOnce() -> String) -> bool {
        let budget = self.declaration().budget_bytes;
        let counted = self.counted_statements();
        self.clock.set_held(self.held_statements());
        let is_near = |statements: &u64| statements * STATEMENT_BYTES > budget / 2;
        let held = Some(counted).filter(is_near);
        let needed = held.map(|_| self.needed_statements(needs));
        self.clock.set_needed_at_most(needed.unwrap_or(counted));
        let needed = needed.filter(is_near);
        self.clock
            .set_needed(needed.map(|needed| (needed, holder())));
        let is_full = needed.is_some_and(|needed| needed * STATEMENT_BYTES > budget);
        let was_full = self.clock.set_full(is_full);
        self.derived_by.is_some() && (is_full || was_full)
    }
}
