//! The coordinator: the one state transition from log records to snapshot numbers and firings. It
//! only dispatches; the state is in machines, and handlers borrow those that they need.
//!
//! Before changing anything here: [`Coordinator::apply`] is used live and in recovery alike, and
//! must be a pure function of the records so far (S2, S6): no clock, no random source, no hash
//! order. Whatever else moves the coordinator (`on_stable`, `on_fired`) must not change what
//! `apply` does next, but for [`Output::Retire`], which follows the pace of firings.

mod cutter;
mod messages;
mod releaser;
mod saved;
mod status;

pub use saved::FrozenCore;

use crate::admission::Admitter;
use crate::closes::close_groups::CloseGroups;
use crate::closes::cuts::Cuts;
use crate::closes::unfinished::UnfinishedFirings;
use crate::live::LiveQueries;
use crate::output::Output;
use crate::protocol::command::ParsedCommand;
use crate::protocol::declaration::{Resolve, ResolveError};
use crate::protocol::firing::FiringKey;
use crate::protocol::inject::OpenBatch;
use crate::protocol::input::{Admission, Applied, Input};
use crate::protocol::refusal::Refusal;
use crate::protocol::statements::{Record, received_ms};
use crate::queries::{PlannedNeeds, Queries, Registrar, Replacements, Subscriptions};
use crate::streams::ahead::StreamLimits;
use crate::streams::clock::StreamClock;
use crate::streams::home::{StreamHome, TakenIn};
use crate::streams::stream::{NewStream, Stream};
pub use cutter::CutPace;
use cutter::{Cutter, NextCut};
use releaser::Releaser;
use somersault_log::{Command, CommandRecord, DeliveredRecord, PlanRecord, Position, Resolved};
use somersault_model::{EventTime, QueryUid, Sn, StreamUid};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Turns inputs into records, records into SNs, and complete streams into firings.
///
/// The driver's loop, for one input: [`Coordinator::admit`]; append the record to the log;
/// [`Coordinator::apply`]; then as long as [`Coordinator::next_due_cut`] returns a plan record:
/// append and apply it too. When all shards have applied an SN and the log has made it durable:
/// [`Coordinator::on_stable`]. Inputs are taken one at a time: `admit` judges by the state that the
/// records applied so far have made.
#[derive(Debug, Default)]
pub struct Coordinator {
    home: StreamHome,
    planner: Planner,
}

/// The planner decides when queries fire, and over which batches: times and counts, and no term.
#[derive(Debug, Default)]
struct Planner {
    queries: Queries,
    groups: CloseGroups,
    live: LiveQueries,
    cuts: Cuts,
    unfinished: UnfinishedFirings,
    replacements: Replacements,
    subscriptions: Subscriptions,
}

impl Coordinator {
    /// Creates a coordinator before the first record.
    pub fn new() -> Coordinator {
        Coordinator::default()
    }

    /// Sets limits for what admission accepts. They do not affect records that are in the log.
    #[must_use]
    pub fn with_limits(mut self, limits: StreamLimits) -> Coordinator {
        self.home.set_limits(limits);
        self
    }

    fn admitter(&self) -> Admitter<'_> {
        Admitter {
            home: &self.home,
            groups: &self.planner.groups,
            queries: &self.planner.queries,
            cuts: &self.planner.cuts,
            unfinished: &self.planner.unfinished,
            subscriptions: &self.planner.subscriptions,
        }
    }

    fn registrar(&mut self) -> Registrar<'_> {
        Registrar {
            home: &mut self.home,
            groups: &mut self.planner.groups,
            live: &mut self.planner.live,
            queries: &mut self.planner.queries,
            replacements: &mut self.planner.replacements,
            cuts: &self.planner.cuts,
            unfinished: &self.planner.unfinished,
        }
    }

    fn next_cut(&self) -> NextCut<'_> {
        NextCut {
            home: &self.home,
            groups: &self.planner.groups,
            live: &self.planner.live,
            cuts: &self.planner.cuts,
        }
    }

    fn releaser<'c>(&'c mut self, out: &'c mut Vec<Output>) -> Releaser<'c> {
        Releaser {
            home: &mut self.home,
            queries: &self.planner.queries,
            cuts: &mut self.planner.cuts,
            unfinished: &mut self.planner.unfinished,
            replacements: &mut self.planner.replacements,
            out,
        }
    }

    /// Shows on the clocks of streams what they hold.
    fn publish_clocks(&mut self) {
        let Planner {
            queries,
            groups,
            unfinished,
            ..
        } = &mut self.planner;
        let mut changed = groups.take_changed();
        changed.append(&mut unfinished.take_changed());
        let needs = PlannedNeeds::new(groups, queries, unfinished);
        self.home.streams_mut().publish(changed, &needs);
    }
}

/// Admission.
impl Coordinator {
    /// Checks an input against the state and says what to log. Changes nothing.
    ///
    /// # Errors
    /// Why it is refused, in a sentence with the place and the remedy.
    pub fn admit(&self, input: Input) -> Result<Admission, Refusal> {
        self.admitter().admit(input)
    }

    /// The clock of a stream, which every thread may read; `None` for an unknown stream.
    pub fn clock_of(&self, iri: &str) -> Option<Arc<StreamClock>> {
        Some(Arc::clone(self.home.streams().find(iri)?.clock()))
    }

    /// The batches of a stream that still take statements, newest first; none for an unknown
    /// stream, and none for a derived one. What they hold may be prepared before they close.
    pub fn open_batches(&self, stream: StreamUid) -> impl Iterator<Item = OpenBatch<'_>> {
        let stream = self.home.streams().get(stream);
        stream.into_iter().flat_map(Stream::open_batches)
    }

    /// Returns the advances of IDLE and ARRIVAL TIME streams that are worth a record at this time:
    /// those that close a batch or let a query go on. Admit, log and apply them like any input.
    pub fn on_tick(&self, now_ms: i64) -> Vec<Input> {
        let mut inputs = self.admitter().advances_by_clock(now_ms);
        let rests_until = self.planner.live.rests_until();
        if inputs.is_empty() && rests_until.is_some_and(|until| until.0 <= now_ms) {
            let received_ms = now_ms;
            inputs.push(Input::Tick { received_ms });
        }
        inputs
    }

    /// Whether an input has to wait until closes that are due are cut: it would make more closes of
    /// the same streams due, or it replaces a query that has yet to answer them.
    pub fn waits_for_closes(&self, input: &Input) -> bool {
        self.admitter().waits_for_closes(input)
    }

    /// The cohorts that window the streams of a push or an advance.
    pub fn fed_by(&self, input: &Input) -> impl Iterator<Item = QueryUid> + use<> {
        let cohorts: Vec<QueryUid> = self.admitter().fed_by(input).collect();
        cohorts.into_iter()
    }

    /// The cohorts whose close is due next.
    pub fn queries_due_next(&self) -> Vec<QueryUid> {
        self.planner.groups.queries_due_next()
    }

    /// The number of closes that wait for their cut, including empty ones that will be skipped.
    pub fn closes_due(&self) -> u64 {
        self.planner.groups.closes_due(self.home.streams())
    }
}

/// Records.
impl Coordinator {
    /// Applies one logged record, live and in recovery alike, and says what the driver has to do.
    ///
    /// # Errors
    /// If the record refers to something that cannot be read any more; the state is then unchanged.
    ///
    /// # Panics
    /// If the record cannot follow the ones before it (a stream that does not exist, an SN out of
    /// order): no log that admission and the cuts have written holds such a record.
    pub fn apply(
        &mut self,
        record: &Record,
        resolve: &dyn Resolve,
        out: &mut Vec<Output>,
    ) -> Result<Applied, ResolveError> {
        if let Some(received_ms) = received_ms(record) {
            self.planner.live.reach(EventTime(received_ms));
        }
        let applied = self.apply_record(record, resolve, out);
        self.publish_clocks();
        applied
    }

    fn apply_record(
        &mut self,
        record: &Record,
        resolve: &dyn Resolve,
        out: &mut Vec<Output>,
    ) -> Result<Applied, ResolveError> {
        match record {
            Record::Push(push) => {
                let taken = self.home.push(push, resolve);
                return Ok(self.on_taken(taken, out));
            }
            Record::Messages(record) => {
                let taken = self.home.messages(record, resolve);
                return Ok(self.on_taken(taken, out));
            }
            Record::Advance(advance) => {
                let moved = self.home.advance(advance);
                self.on_streams_moved(&moved, out);
            }
            Record::Command(command) => return Ok(self.command(command, resolve, out)),
            Record::Load(load) => self.home.load(load, resolve)?,
            Record::Update(update) => self.home.update(update, resolve),
            Record::Txn(transactions) => {
                self.home.transactions(transactions, resolve);
                self.take_emitted(transactions, resolve, out);
            }
            Record::Plan(plan) => self.cut(plan, out),
            // The last firings of a replaced query are delivered after it has left.
            Record::Delivered(delivered) => {
                if self.planner.queries.get(delivered.query).is_some() {
                    self.expect_delivered(delivered);
                }
            }
            Record::Derived(derived) => {
                let streams = self.home.streams();
                let taken = self.planner.queries.take_derived(derived, streams);
                if let Some(at) = taken {
                    let is_moved = self.home.derive(derived, at, resolve);
                    self.tell_consumers(at.stream, out);
                    if is_moved {
                        self.on_streams_moved(&[at.stream], out);
                    }
                }
            }
            Record::Subscription(record) => {
                let member = self.planner.queries.logged(&record.query).id;
                if let Some(change) = self.planner.subscriptions.apply(record, member.slot) {
                    out.push(Output::query(member.cohort, change));
                }
            }
        }
        Ok(Applied::default())
    }

    /// Tells consumers what a stream has taken, and goes on if its time moved.
    fn on_taken(&mut self, taken: TakenIn, out: &mut Vec<Output>) -> Applied {
        self.tell_consumers(taken.stream, out);
        if taken.is_moved {
            self.on_streams_moved(&[taken.stream], out);
        }
        taken.applied
    }

    fn tell_consumers(&mut self, stream: StreamUid, out: &mut Vec<Output>) {
        let messages = self.home.take_untold(stream);
        if !messages.is_empty() {
            out.push(Output::Messages { stream, messages });
        }
    }

    /// Closes the batches that the streams have passed and lets waiting groups go on.
    fn on_streams_moved(&mut self, moved: &[StreamUid], out: &mut Vec<Output>) {
        for uid in moved {
            let stream = &self.home.streams()[uid];
            if stream.consumers().is_some()
                && let Some(through) = stream.watermark()
            {
                let stream = *uid;
                out.push(Output::Reached { stream, through });
            }
        }
        self.home.close_batches(moved);
        // All streams of one record have moved before any group looks at them (S4).
        let mut skipped = Vec::new();
        let Planner {
            queries, groups, ..
        } = &mut self.planner;
        for uid in moved {
            groups.on_stream_moved(self.home.streams(), *uid, &mut skipped);
        }
        queries.report_skipped(groups, &skipped, out);
    }

    fn command(
        &mut self,
        command: &ParsedCommand,
        resolve: &dyn Resolve,
        out: &mut Vec<Output>,
    ) -> Applied {
        let CommandRecord {
            command: given,
            resolved,
            ..
        } = command.record();
        let mut dropped = 0;
        match given {
            Command::CreateStream { namespace, .. } => {
                let new = NewStream {
                    uid: resolved
                        .stream
                        .expect("S5: CREATE STREAM is logged with the stream's uid"),
                    declaration: Arc::clone(command.stream()),
                    namespace: namespace.clone(),
                    derived: None,
                };
                let clock = self.home.create(new, resolve);
                out.push(Output::StreamCreated { clock });
            }
            Command::DropStream { iri } => {
                let stream = self.registrar().drop_stream(iri, out);
                dropped = stream.map_or(0, |stream| stream.held_statements());
            }
            Command::ResetStream { iri } => {
                dropped = self.reset_stream(iri, resolved, resolve, out);
            }
            Command::RegisterQuery {
                name, namespace, ..
            } => {
                let named = (name.as_str(), namespace.as_deref());
                (self.registrar()).register(named, command.query(), resolved, resolve, out);
            }
            Command::RegisterQueries {
                namespace, members, ..
            } => {
                let members = (namespace.as_deref(), &members[..]);
                let mut registrar = self.registrar();
                registrar.register_many(command.queries(), members, resolved, resolve, out);
            }
            Command::ReplaceQuery {
                name, namespace, ..
            } => {
                let named = (name.as_str(), namespace.as_deref());
                (self.registrar()).replace_query(named, command.query(), resolved, resolve, out);
            }
            Command::DropQuery { name } => self.registrar().drop_named(name, out),
            Command::PauseQuery { name } => self.registrar().pause(name, out),
            Command::ResumeQuery { name } => {
                self.registrar().resume(name, resolved, resolve, out);
            }
            // The lane of transactions knows procedures and dataflows.
            Command::CreateProcedure { .. }
            | Command::DropProcedure { .. }
            | Command::CreateDataflow { .. }
            | Command::DropDataflow { .. }
            | Command::PauseDataflow { .. }
            | Command::ResumeDataflow { .. } => {}
        }
        Applied {
            dropped,
            ..Applied::default()
        }
    }

    /// Starts a stream again under a new uid. Returns how many statements it held.
    fn reset_stream(
        &mut self,
        iri: &str,
        resolved: &Resolved,
        resolve: &dyn Resolve,
        out: &mut Vec<Output>,
    ) -> u64 {
        let uid = resolved
            .stream
            .expect("S5: a reset is logged with the stream's new uid");
        let Some(dropped) = self.registrar().drop_stream(iri, out) else {
            return 0;
        };
        let held = dropped.held_statements();
        let clock = self.home.begin_again(dropped, uid, resolve);
        out.push(Output::StreamCreated { clock });
        held
    }

    /// Before replaying a log: the answers of this query up to this mark have been delivered, so
    /// that its firings up to there are counted but neither [`Output::Due`] nor [`Output::Fire`]
    /// (S12).
    pub fn expect_delivered(&mut self, mark: &DeliveredRecord) {
        self.planner.queries.expect_delivered(mark);
    }
}

/// Cuts and firings.
impl Coordinator {
    /// The cut that must come next: append it to the log, apply it, and call again, until the
    /// result is `None`. `log_end` is the position of the newest record in the log.
    ///
    /// `pace` leaves for a later cut what cannot keep up.
    pub fn next_due_cut(&self, log_end: Position, pace: &CutPace) -> Option<PlanRecord> {
        self.next_cut().due(log_end, pace)
    }

    /// The cut that makes everything closed or pending visible; a due cut comes first. `None` if
    /// nothing has changed since the last cut. `pace` as for [`Coordinator::next_due_cut`].
    pub fn freshness_cut(&self, log_end: Position, pace: &CutPace) -> Option<PlanRecord> {
        self.next_cut().fresh(log_end, pace)
    }

    /// Whether a cut is due for live queries other than those that are held back.
    pub fn has_live_due(&self, held: &BTreeSet<QueryUid>) -> bool {
        self.planner.live.is_due(held)
    }

    /// Whether a cut that comes next changes the stored graphs by anything but transactions: facts
    /// of streams, loads, updates.
    pub fn is_foreign(&self, plan: &PlanRecord) -> bool {
        self.next_cut().is_foreign(plan)
    }

    /// Whether anything waits for a cut: closed batches, effects, or only an advance of a stream's
    /// time.
    pub fn has_pending(&self) -> bool {
        let home = &self.home;
        home.has_effects() || home.has_amendments() || home.has_batches()
    }

    /// Whether late statements wait for the cut that shows them.
    pub fn has_amendments(&self) -> bool {
        self.home.has_amendments()
    }

    /// The newest SN that was cut.
    pub fn last_cut(&self) -> Sn {
        self.planner.cuts.last()
    }

    fn cut(&mut self, plan: &PlanRecord, out: &mut Vec<Output>) {
        let mut cutter = Cutter {
            home: &mut self.home,
            groups: &mut self.planner.groups,
            live: &mut self.planner.live,
            queries: &mut self.planner.queries,
            cuts: &mut self.planner.cuts,
            unfinished: &mut self.planner.unfinished,
            out,
        };
        cutter.cut(plan);
    }

    /// Every shard has applied all SNs up to this one, and they are durable: releases their firings
    /// in the order in which they became due, hence in close order per query (S5).
    ///
    /// # Panics
    /// If the SN goes back or was never cut (VT-1).
    pub fn on_stable(&mut self, sn: Sn, out: &mut Vec<Output>) {
        self.releaser(out).release_through(sn);
        self.publish_clocks();
    }

    /// A firing has been executed (or has failed) and no longer needs its slices. Returns the SN
    /// that it became due with; a second call changes nothing and returns `None`.
    pub fn on_fired(&mut self, key: FiringKey, out: &mut Vec<Output>) -> Option<Sn> {
        let sn = self.releaser(out).finish(key);
        self.publish_clocks();
        sn
    }
}
