//! The coordinator: the one state transition from log records to snapshot numbers and firings.
//!
//! Before changing anything here: [`Coordinator::apply`] is used live and in recovery alike, and
//! must be a pure function of the records so far (S2, S6): no clock, no random source, no hash
//! order. Whatever else moves the coordinator (`on_stable`, `on_fired`) must not change what
//! `apply` does next, but for [`Output::Retire`], which follows the pace of firings.

pub(crate) mod status;

use crate::closes::amend::Amendments;
use crate::closes::groups::{Groups, PassedRun};
use crate::output::{Output, QueryChange};
use crate::protocol::declaration::{Resolve, ResolveError};
use crate::protocol::firing::{Firing, FiringKey};
use crate::protocol::input::{Applied, Input};
use crate::protocol::statements::Record;
use crate::queries::{MemberView, Queries, RetiringQuery};
use crate::streams::Streams;
use crate::streams::adaptor::{Interner, StreamTerms};
use crate::streams::ahead::StreamLimits;
use crate::streams::clock::StreamClock;
use crate::streams::stream::{Batch, Pushed, Stream};
use rustc_hash::FxHashMap;
use somersault_log::{Command, CommandRecord, DeliveredRecord, Resolved, UpdateRecord};
use somersault_model::{
    BatchNumber, EventTime, Mutation, QuadIds, QueryUid, Sn, StreamUid, TermId,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// Turns inputs into records, records into SNs, and complete streams into firings.
///
/// The driver's loop, for one input: [`Coordinator::admit`]; append the record to the log;
/// [`Coordinator::apply`]; then as long as [`Coordinator::next_due_cut`] returns a plan record:
/// append and apply it too. When all shards have applied an SN and the log has made it durable:
/// [`Coordinator::on_stable`]. Inputs are taken one at a time: `admit` judges by the state that the
/// records applied so far have made.
#[derive(Debug)]
pub struct Coordinator {
    /// The limits that admission enforces.
    pub(crate) limits: StreamLimits,
    pub(crate) streams: Streams,
    pub(crate) queries: Queries,
    pub(crate) groups: Groups,

    /// Closed batches that wait for their cut, by end.
    pub(crate) closed: BTreeMap<(EventTime, StreamUid, BatchNumber), Batch>,
    /// Effects that each need an SN of their own, in log order (S15).
    pub(crate) effects: VecDeque<Effects>,
    /// Changes of batches that were cut already; the next cut shows them.
    pub(crate) amendments: Amendments,
    /// Streams whose time has passed the end of a batch that no cut has shown yet.
    pub(crate) moved: BTreeSet<StreamUid>,
    pub(crate) last_cut: Sn,
    pub(crate) stable: Sn,
    /// The cuts that are not stable yet, in order.
    pub(crate) cuts: VecDeque<Cut>,

    /// For each SN with unfinished firings: their number, and the batches that they hold.
    pub(crate) lagging: BTreeMap<Sn, Lagging>,
    /// The SN of each unfinished firing; looked up only.
    pub(crate) unfinished: FxHashMap<FiringKey, Sn>,
    /// Replaced queries with unfinished firings, by the uid of their cohort.
    pub(crate) retiring: FxHashMap<QueryUid, Vec<RetiringQuery>>,
    /// For each name whose query replaced another: the last close that a predecessor fired for.
    pub(crate) answered_before: BTreeMap<String, EventTime>,
    /// How far each query's answers have been delivered; looked up only.
    pub(crate) delivered: FxHashMap<QueryUid, DeliveredRecord>,
}

/// Changes of the stored graphs that take an SN of their own.
#[derive(Clone, Debug)]
pub(crate) enum Effects {
    Mutations(Vec<Mutation>),
    /// Graphs to empty, then mutations.
    Clearing(Arc<[TermId]>, Vec<Mutation>),
    Load(Arc<[QuadIds]>),
}

/// A cut that is not stable yet.
#[derive(Clone, Debug)]
pub(crate) struct Cut {
    pub(crate) sn: Sn,
    pub(crate) stream_times: Vec<(StreamUid, EventTime)>,
    pub(crate) firings: Vec<Firing>,
}

/// The unfinished firings of one SN.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lagging {
    pub(crate) firings: usize,
    pub(crate) holds: BTreeMap<StreamUid, BatchNumber>,
}

impl Default for Coordinator {
    fn default() -> Self {
        Coordinator::new()
    }
}

impl Coordinator {
    /// Creates a coordinator before the first record.
    pub fn new() -> Coordinator {
        Coordinator {
            limits: StreamLimits::default(),
            streams: Streams::default(),
            queries: Queries::default(),
            groups: Groups::default(),
            closed: BTreeMap::new(),
            effects: VecDeque::new(),
            amendments: Amendments::default(),
            moved: BTreeSet::new(),
            last_cut: Sn::ZERO,
            stable: Sn::ZERO,
            cuts: VecDeque::new(),
            lagging: BTreeMap::new(),
            unfinished: FxHashMap::default(),
            retiring: FxHashMap::default(),
            answered_before: BTreeMap::new(),
            delivered: FxHashMap::default(),
        }
    }

    /// Sets limits for what admission accepts. They do not affect records that are in the log.
    #[must_use]
    pub fn with_limits(self, limits: StreamLimits) -> Coordinator {
        Coordinator { limits, ..self }
    }

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
        let mut applied = Applied::default();
        match record {
            Record::Push(push) => {
                let uid = self.logged_stream(&push.stream);
                let stream = self.streams.get_mut(&uid);
                let pushed = stream.map_or_else(Pushed::default, |it| it.push(push, resolve));
                applied = Applied {
                    accepted: push.statements.len() as u64 - pushed.dropped,
                    late: pushed.dropped,
                    dropped: 0,
                };
                self.take_late(uid, pushed.late);
                self.amendments.absorb(uid, pushed.facts);
                if pushed.moved {
                    self.on_streams_moved(&[uid], out);
                }
            }
            Record::Advance(advance) => {
                let mut moved = Vec::with_capacity(advance.to.len());
                for (iri, to) in &advance.to {
                    let uid = self.logged_stream(iri);
                    if let Some(stream) = self.streams.get_mut(&uid)
                        && stream.advance(*to, advance.received_ms)
                    {
                        moved.push(uid);
                    }
                }
                self.on_streams_moved(&moved, out);
            }
            Record::Command(command) => applied = self.command(command, resolve, out)?,
            Record::Load(load) => {
                let statements = resolve.load_segment(&load.segment)?;
                self.effects.push_back(Effects::Load(statements));
            }
            Record::Update(update) => self.update(update, resolve),
            Record::Plan(plan) => self.cut(plan, out),
            // The last firings of a replaced query are delivered after it has left.
            Record::Delivered(delivered) if self.queries.get(delivered.query).is_some() => {
                self.expect_delivered(delivered);
            }
            Record::Delivered(_) => {}
            Record::Derived(derived) => self.derive(derived, resolve, out),
        }
        Ok(applied)
    }

    /// Before replaying a log: the answers of this query up to this mark have been delivered, so
    /// that its firings up to there are counted but neither [`Output::Due`] nor [`Output::Fire`]
    /// (S12).
    pub fn expect_delivered(&mut self, mark: &DeliveredRecord) {
        let newest = self.delivered.entry(mark.query).or_insert(*mark);
        if (newest.sn, newest.close) < (mark.sn, mark.close) {
            *newest = *mark;
        }
    }

    /// Returns the advances of IDLE and ARRIVAL TIME streams that are worth a record at this time:
    /// those that close a batch or let a query go on. Admit, log and apply them like any input.
    pub fn on_tick(&self, now_ms: i64) -> Vec<Input> {
        let mut to = Vec::new();
        let mut inputs = Vec::new();
        for stream in self.streams.values() {
            // Where closes are behind, the clock waits for them.
            let time = match stream.is_arrival_time() {
                _ if self.groups.is_due_over(stream.uid) => None,
                true => Some(EventTime(now_ms)),
                false => stream.time_by_clock(now_ms),
            };
            let Some(time) = time.filter(|time| stream.moves_to(*time)) else {
                continue;
            };
            // After the machine has slept, time advances in steps, each received when the clock
            // reached it.
            let step = self.within_closes(stream, time);
            let received_ms = now_ms.saturating_sub(time.0.saturating_sub(step.0));
            match step < time && stream.moves_to(step) {
                true => inputs.push(Input::Advance {
                    received_ms,
                    to: vec![(stream.iri().to_owned(), step)],
                }),
                false => to.push((stream.iri().to_owned(), time)),
            }
        }
        if !to.is_empty() {
            inputs.push(Input::Advance {
                received_ms: now_ms,
                to,
            });
        }
        inputs
    }

    /// What an interner must know about a stream; `None` for an unknown stream.
    pub fn terms_of(&self, iri: &str) -> Option<StreamTerms> {
        Some(self.streams.find(iri)?.terms())
    }

    /// What every thread may know of a stream; `None` for an unknown stream.
    pub fn clock_of(&self, iri: &str) -> Option<Arc<StreamClock>> {
        Some(Arc::clone(self.streams.find(iri)?.clock()))
    }

    fn logged_stream(&self, iri: &str) -> StreamUid {
        self.streams
            .uid_of(iri)
            .expect("S2: the log names only streams that it created before")
    }

    /// Closes the batches that the streams have passed and lets waiting groups go on.
    pub(crate) fn on_streams_moved(&mut self, moved: &[StreamUid], out: &mut Vec<Output>) {
        for uid in moved {
            let Some(stream) = self.streams.get_mut(uid) else {
                continue;
            };
            let interval = stream.interval();
            while let Some((number, batch)) = stream.take_closed() {
                self.closed
                    .insert((number.end(interval), *uid, number), batch);
            }
            let over = stream.watermark().map(|time| stream.batch_end_before(time));
            if over > stream.planned {
                self.moved.insert(*uid);
            }
        }
        // All streams of one record have moved before any group looks at them (S4).
        let mut passed = Vec::new();
        for uid in moved {
            self.groups
                .on_stream_moved(&mut self.streams, *uid, &mut passed);
        }
        self.report_passed(&passed, out);
    }

    /// Counts closes that were passed in bulk, for each query.
    pub(crate) fn report_passed(&mut self, passed: &[PassedRun], out: &mut Vec<Output>) {
        for run in passed {
            let group = self.groups.get(run.group);
            for uid in group.members_at(run.last) {
                let Some(cohort) = self.queries.get_mut(uid) else {
                    continue;
                };
                let (first, count) = cohort.on_passed(run, &group.key.schedule);
                let last = run.last;
                let passed = QueryChange::Passed { first, last, count };
                out.push(Output::query(uid, passed));
            }
        }
    }

    fn update(&mut self, update: &UpdateRecord, resolve: &dyn Resolve) {
        let interner = Interner::stored(resolve);
        let deletes = update
            .deletes
            .iter()
            .map(|quad| Mutation::delete(interner.quad(quad.as_ref())));
        let inserts = update
            .inserts
            .iter()
            .map(|quad| Mutation::insert(interner.quad(quad.as_ref())));
        let mutations = deletes.chain(inserts).collect();
        let clears = update.clears.iter();
        let clears: Arc<[TermId]> = clears.map(|name| interner.graph(name.as_ref())).collect();
        self.effects.push_back(match clears.is_empty() {
            true => Effects::Mutations(mutations),
            false => Effects::Clearing(clears, mutations),
        });
    }

    fn command(
        &mut self,
        record: &CommandRecord,
        resolve: &dyn Resolve,
        out: &mut Vec<Output>,
    ) -> Result<Applied, ResolveError> {
        let mut applied = Applied::default();
        let resolved = &record.resolved;
        match &record.command {
            Command::CreateStream {
                text, namespace, ..
            } => {
                let declaration = resolve.stream_declaration(text, namespace.as_deref())?;
                let uid = resolved
                    .stream
                    .expect("S5: CREATE STREAM is logged with the stream's uid");
                let declared = (Arc::new(declaration), namespace.clone());
                let stream = Stream::new((uid, None), declared, self.limits.ahead, resolve);
                self.add_stream(stream, out);
            }
            Command::DropStream { iri } => {
                let dropped = self.drop_stream(iri, out);
                applied.dropped = dropped.map_or(0, |stream| stream.held_statements);
            }
            Command::ResetStream { iri } => {
                applied.dropped = self.reset_stream(iri, resolved, resolve, out);
            }
            Command::RegisterQuery {
                name,
                text,
                namespace,
            } => {
                let named = (name.as_str(), text.as_str(), namespace.as_deref());
                self.register(named, resolved, resolve, out)?;
            }
            Command::RegisterQueries {
                pieces,
                namespace,
                members,
            } => {
                let members = (namespace.as_deref(), &members[..]);
                self.register_many(pieces, members, resolved, resolve, out)?;
            }
            Command::ReplaceQuery {
                name,
                text,
                namespace,
            } => {
                let named = (name.as_str(), text.as_str(), namespace.as_deref());
                self.replace_query(named, resolved, resolve, out)?;
            }
            Command::DropQuery { name } => {
                self.answered_before.remove(name);
                self.drop_query(name, out);
            }
            Command::PauseQuery { name } => self.pause(name, out),
            Command::ResumeQuery { name } => self.resume(name, resolved, out),
        }
        Ok(applied)
    }

    pub(crate) fn logged_query(&self, name: &str) -> MemberView<'_> {
        self.queries
            .find(name)
            .expect("S2: the log names only queries that it registered before")
    }

    /// Drops a stream. Its acknowledged facts are absorbed, also from batches that are still open.
    pub(crate) fn drop_stream(&mut self, iri: &str, out: &mut Vec<Output>) -> Option<Stream> {
        let uid = self.logged_stream(iri);
        self.moved.remove(&uid);
        let mut absorbed = Vec::new();
        self.closed.retain(|(_, stream, _), batch| {
            if *stream == uid {
                absorbed.append(&mut batch.absorbed);
            }
            *stream != uid
        });
        absorbed.extend(self.amendments.drop_stream(uid));
        let mut dropped = self.streams.remove(uid);
        if let Some(stream) = &mut dropped {
            absorbed.extend(stream.take_open().flat_map(|batch| batch.absorbed));
        }
        if !absorbed.is_empty() {
            self.effects.push_back(Effects::Mutations(absorbed));
        }
        self.note_dropped(uid, out);
        out.push(Output::StreamDropped {
            uid,
            iri: iri.to_owned(),
        });
        dropped
    }

    /// Starts a stream again under a new uid: with no time and no batches, but with the sequence
    /// numbers of its sources, so that repeats are still recognised. Returns how many statements it
    /// held.
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
        let Some(old) = self.drop_stream(iri, out) else {
            return 0;
        };
        let held = old.held_statements;
        let begun = old.begin_again(uid, self.limits.ahead, resolve);
        self.add_stream(begun, out);
        held
    }

    /// Adds a stream, and hands its clock out.
    pub(crate) fn add_stream(&mut self, stream: Stream, out: &mut Vec<Output>) {
        out.push(Output::StreamCreated {
            clock: Arc::clone(stream.clock()),
        });
        self.streams.insert(stream);
    }
}
