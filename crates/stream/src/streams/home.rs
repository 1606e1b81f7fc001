//! The home of streams: their data. Sources, gates, sequence numbers, open and closed batches,
//! changes of the stored graphs that wait for a cut, and what is held against BUDGET.
//!
//! Before changing anything here: the home knows streams, batches and terms, and no query. The
//! planner knows queries, closes and cuts, and no term: it reads times and counts here, and says
//! which cut takes what.

mod saved;

use super::Streams;
use super::adaptor::Interner;
use super::ahead::StreamLimits;
use super::amendments::Amendments;
use super::clock::StreamClock;
use super::closed::ClosedBatches;
use super::messages::{Consumers, KeptMessage};
use super::stream::{NewStream, PushEffects, Stream};
use crate::protocol::declaration::{Resolve, ResolveError};
use crate::protocol::firing::BatchSpan;
use crate::protocol::inject::Inject;
use crate::protocol::input::Applied;
use crate::protocol::statements::PushStatements;
use crate::protocol::transactions::RecordedTransactions;
use oxrdf::GraphName;
use somersault_log::{
    AdvanceRecord, DerivedRecord, LoadRecord, MessagesRecord, PushRecord, TxnMessage, UpdateRecord,
};
use somersault_model::{
    BatchNumber, EventTime, Intern, Mutation, Place, QuadIds, StreamUid, TermId,
};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

/// The streams that exist, and what waits for a cut.
#[derive(Debug, Default)]
pub(crate) struct StreamHome {
    limits: StreamLimits,
    streams: Streams,
    /// Closed batches that wait for their cut.
    closed: ClosedBatches,
    /// Effects that each need an SN of their own, in log order (S15).
    effects: VecDeque<Effects>,
    /// Changes of batches that were cut already; the next cut shows them.
    amendments: Amendments,
    /// Streams whose time has passed the end of a batch that no cut has shown yet.
    moved: BTreeSet<StreamUid>,
}

/// Changes of the stored graphs that take an SN of their own.
#[derive(Clone, Debug)]
enum Effects {
    Mutations(Vec<Mutation>),
    /// Of transactions.
    Transactions(Vec<Mutation>),
    /// Graphs to empty, then mutations.
    Clearing(Arc<[TermId]>, Vec<Mutation>),
    /// Graphs to empty, then statements to insert.
    Load(Arc<[TermId]>, Arc<[QuadIds]>),
}

/// What became of a push, or of messages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TakenIn {
    /// The stream.
    pub(crate) stream: StreamUid,
    /// What became of the statements.
    pub(crate) applied: Applied,
    /// Whether the stream's time moved.
    pub(crate) is_moved: bool,
}

/// The part of a derived firing's record that the planner knows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DerivedAt {
    /// The stream that takes the statements.
    pub(crate) stream: StreamUid,
    /// The close after the firing's.
    pub(crate) next: EventTime,
}

fn graphs(names: &[GraphName], interner: &Interner<'_>) -> Arc<[TermId]> {
    let names = names.iter();
    names.map(|name| interner.graph(name.as_ref())).collect()
}

impl StreamHome {
    pub(crate) fn set_limits(&mut self, limits: StreamLimits) {
        self.limits = limits;
        for stream in self.streams.values() {
            stream.clock().set_default_ahead(limits.ahead);
        }
    }

    pub(crate) fn limits(&self) -> &StreamLimits {
        &self.limits
    }

    pub(crate) fn streams(&self) -> &Streams {
        &self.streams
    }

    pub(crate) fn streams_mut(&mut self) -> &mut Streams {
        &mut self.streams
    }

    fn logged_stream(&self, iri: &str) -> StreamUid {
        self.streams
            .uid_of(iri)
            .expect("S2: the log names only streams that it created before")
    }
}

/// Records that streams take.
impl StreamHome {
    /// Takes a push.
    pub(crate) fn push(
        &mut self,
        push: &PushRecord<PushStatements>,
        intern: &dyn Intern,
    ) -> TakenIn {
        let stream = self.logged_stream(&push.stream);
        let taken = self.streams.get_mut(stream);
        let effects = taken.map(|taken| taken.push(push, intern));
        self.taken(stream, push.statements.len(), effects.unwrap_or_default())
    }

    /// Takes messages.
    pub(crate) fn messages(
        &mut self,
        record: &MessagesRecord<PushStatements>,
        intern: &dyn Intern,
    ) -> TakenIn {
        let stream = self.logged_stream(&record.stream);
        let taken = self.streams.get_mut(stream);
        let effects = taken.map(|taken| taken.messages(record, intern));
        self.taken(stream, record.statements.len(), effects.unwrap_or_default())
    }

    /// Carries out what follows from statements that a stream has taken.
    fn taken(&mut self, uid: StreamUid, statements: usize, effects: PushEffects) -> TakenIn {
        let is_moved = effects.is_moved;
        let applied = Applied {
            accepted: statements as u64 - effects.dropped,
            late: effects.dropped,
            dropped: 0,
        };
        for late in effects.late {
            let Some(stream) = self.streams.get_mut(uid) else {
                break;
            };
            let end = late.batch.end(stream.interval());
            if stream.has_cut(end) {
                stream.await_amendment(late.batch);
                self.amendments.add(uid, late);
                continue;
            }
            // A batch that no cut has shown yet simply grows.
            let (batch, was_empty) = self.closed.entry((end, uid, late.batch));
            if was_empty {
                stream.count_batch();
            }
            batch.statements.push(late.statement);
            batch.absorbed.extend(late.absorbed);
            batch.keep(late.lease);
        }
        self.amendments.absorb(uid, effects.facts);
        TakenIn {
            stream: uid,
            applied,
            is_moved,
        }
    }

    /// Takes an advance. Returns the streams whose time moved.
    pub(crate) fn advance(&mut self, advance: &AdvanceRecord) -> Vec<StreamUid> {
        let mut moved = Vec::with_capacity(advance.to.len());
        for (iri, to) in &advance.to {
            let uid = self.logged_stream(iri);
            if let Some(stream) = self.streams.get_mut(uid)
                && stream.advance(*to, advance.received_ms)
            {
                moved.push(uid);
            }
        }
        moved
    }

    /// Takes the statements of a firing into the stream that its query derives. Returns whether the
    /// stream's time moved.
    pub(crate) fn derive(
        &mut self,
        record: &DerivedRecord,
        at: DerivedAt,
        intern: &dyn Intern,
    ) -> bool {
        let Some(stream) = self.streams.get_mut(at.stream) else {
            return false;
        };
        let interner = Interner::derived(intern, stream.terms());
        let statements = record.statements.iter();
        let quads: Vec<QuadIds> = statements
            .map(|quad| interner.quad(quad.as_ref()))
            .collect();
        let lease = interner.lease();
        if record.revision == 0 {
            let batch = stream.batch_at(record.close, &quads, lease);
            return stream.derive((record.close, at.next), batch, record.received_ms);
        }
        // The statements take the place of those that the firing gave before. Facts that were
        // absorbed stay.
        let number = stream.batch_of(record.close);
        let is_kept = number >= stream.retained_from();
        if is_kept && quads.is_empty() && stream.first_held(number) != Some(number) {
            return false;
        }
        if !stream.replace_count(number, quads.len() as u64) {
            return false;
        }
        let batch = stream.batch_at(record.close, &quads, lease);
        let end = number.end(stream.interval());
        if stream.has_cut(end) {
            stream.await_amendment(number);
            self.amendments.replace(at.stream, number, batch);
        } else if quads.is_empty() {
            self.closed.remove((end, at.stream, number));
        } else {
            self.closed.insert((end, at.stream, number), batch);
        }
        false
    }

    /// Interns what transactions emit into an interior stream, whose blank nodes are those of the
    /// store.
    pub(crate) fn interner<'i>(
        &self,
        uid: StreamUid,
        intern: &'i dyn Intern,
    ) -> Option<Interner<'i>> {
        let stream = self.streams.get(uid)?;
        Some(Interner::derived(intern, stream.terms()))
    }

    /// Takes a message that a transaction has emitted into an interior stream.
    pub(crate) fn emit<Q>(
        &mut self,
        message: &TxnMessage<Q>,
        interner: &Interner<'_>,
        ids: impl Fn(&Interner<'_>, &Q) -> QuadIds,
    ) {
        let Some(stream) = self.streams.get_mut(message.stream) else {
            return;
        };
        let quads = message.statements.iter();
        let quads: Vec<QuadIds> = quads.map(|quad| ids(interner, quad)).collect();
        stream.emit(message.at, &quads, interner.lease());
        assert_eq!(
            stream.newest_message(),
            message.place,
            "S2: a message of <{}> has the next place",
            stream.iri()
        );
    }

    /// Lets go of the messages of a stream below a place.
    pub(crate) fn release(&mut self, uid: StreamUid, below: Place) {
        if let Some(stream) = self.streams.get_mut(uid)
            && let Some(consumers) = stream.consumers()
        {
            let holder = consumers.holder.clone();
            stream.set_consumers(Some(Consumers {
                floor: below,
                holder,
            }));
        }
    }

    /// An interior stream is complete through a time. Returns whether its time moved.
    pub(crate) fn complete(
        &mut self,
        uid: StreamUid,
        through: EventTime,
        received_ms: i64,
    ) -> bool {
        let stream = self.streams.get_mut(uid);
        stream.is_some_and(|stream| stream.complete(through, received_ms))
    }

    /// Sets the consumers of a stream's messages.
    pub(crate) fn set_consumers(&mut self, uid: StreamUid, consumers: Option<Consumers>) {
        if let Some(stream) = self.streams.get_mut(uid) {
            stream.set_consumers(consumers);
        }
    }

    /// The messages for consumers of a stream that came since the last call.
    pub(crate) fn take_untold(&mut self, uid: StreamUid) -> Vec<KeptMessage> {
        let stream = self.streams.get_mut(uid);
        stream.map_or_else(Vec::new, Stream::take_untold)
    }

    /// Closes the batches that these streams have passed.
    pub(crate) fn close_batches(&mut self, moved: &[StreamUid]) {
        for uid in moved {
            let Some(stream) = self.streams.get_mut(*uid) else {
                continue;
            };
            let interval = stream.interval();
            while let Some((number, batch)) = stream.take_closed() {
                let key = (number.end(interval), *uid, number);
                self.closed.insert(key, batch);
            }
            if stream.uncut_end(None).is_some() {
                self.moved.insert(*uid);
            }
        }
    }

    /// Takes a load.
    pub(crate) fn load(
        &mut self,
        load: &LoadRecord,
        resolve: &dyn Resolve,
    ) -> Result<(), ResolveError> {
        let statements = resolve.load_segment(&load.segment)?;
        let clears = graphs(&load.clears, &Interner::stored(resolve));
        self.effects.push_back(Effects::Load(clears, statements));
        Ok(())
    }

    /// Takes the effects of an update.
    pub(crate) fn update(&mut self, update: &UpdateRecord, resolve: &dyn Resolve) {
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
        let clears = graphs(&update.clears, &interner);
        self.effects.push_back(match clears.is_empty() {
            true => Effects::Mutations(mutations),
            false => Effects::Clearing(clears, mutations),
        });
    }

    /// Takes the effects of transactions, which are one SN. A statement that several of them change
    /// is as the last one has left it.
    pub(crate) fn transactions(
        &mut self,
        transactions: &RecordedTransactions,
        resolve: &dyn Resolve,
    ) {
        let mutation = |quad, inserts| match inserts {
            true => Mutation::insert(quad),
            false => Mutation::delete(quad),
        };
        let mutations: Vec<Mutation> = match transactions {
            RecordedTransactions::Terms(record) => {
                let interner = Interner::stored(resolve);
                let changes = record.changes();
                changes
                    .map(|it| mutation(interner.quad(it.quad.as_ref()), it.inserts))
                    .collect()
            }
            RecordedTransactions::Numbered(numbered) => {
                let changes = numbered.record.changes();
                changes.map(|it| mutation(it.quad, it.inserts)).collect()
            }
        };
        if !mutations.is_empty() {
            self.effects.push_back(Effects::Transactions(mutations));
        }
    }
}

/// The life of streams.
impl StreamHome {
    /// Adds a stream. Returns its clock.
    pub(crate) fn create(&mut self, new: NewStream<'_>, intern: &dyn Intern) -> Arc<StreamClock> {
        let stream = Stream::new(new, self.limits.ahead, intern);
        let clock = Arc::clone(stream.clock());
        self.streams.insert(stream);
        clock
    }

    /// Drops a stream. Its acknowledged facts are absorbed, also from batches that are still open.
    pub(crate) fn drop_stream(&mut self, iri: &str) -> Option<Stream> {
        let uid = self.logged_stream(iri);
        self.moved.remove(&uid);
        let mut absorbed = self.closed.drop_stream(uid);
        absorbed.extend(self.amendments.drop_stream(uid));
        let mut dropped = self.streams.remove(uid);
        if let Some(stream) = &mut dropped {
            absorbed.extend(stream.take_open().flat_map(|batch| batch.absorbed));
        }
        if !absorbed.is_empty() {
            self.effects.push_back(Effects::Mutations(absorbed));
        }
        dropped
    }

    /// Starts a dropped stream again under a new uid: with no time and no batches, but with the
    /// sequence numbers of its sources, so that repeats are still recognised. Returns its clock.
    pub(crate) fn begin_again(
        &mut self,
        dropped: Stream,
        uid: StreamUid,
        intern: &dyn Intern,
    ) -> Arc<StreamClock> {
        let stream = dropped.begin_again(uid, self.limits.ahead, intern);
        let clock = Arc::clone(stream.clock());
        self.streams.insert(stream);
        clock
    }
}

/// The parts that wait for a cut.
impl StreamHome {
    /// Whether effects wait that need an SN of their own.
    pub(crate) fn has_effects(&self) -> bool {
        !self.effects.is_empty()
    }

    /// Whether the next effects are those of transactions; `None` if there are none.
    pub(crate) fn has_transactions_next(&self) -> Option<bool> {
        let next = self.effects.front()?;
        Some(matches!(next, Effects::Transactions(_)))
    }

    /// Whether a cut of batches through this close would absorb facts.
    pub(crate) fn has_facts(&self, through: Option<EventTime>) -> bool {
        self.closed.has_facts(through)
    }

    /// Whether a cut of amendments would absorb facts.
    pub(crate) fn amends_facts(&self) -> bool {
        self.amendments.has_facts()
    }

    /// Whether late statements wait for the cut that shows them.
    pub(crate) fn has_amendments(&self) -> bool {
        !self.amendments.is_empty()
    }

    /// Whether closed batches, or an advance of a stream's time, wait for a cut.
    pub(crate) fn has_batches(&self) -> bool {
        !(self.closed.is_empty() && self.moved.is_empty())
    }

    /// For each stream that has moved: the end of the last batch that a cut through this close
    /// takes.
    pub(crate) fn stream_times(&self, through: Option<EventTime>) -> Vec<(StreamUid, EventTime)> {
        let moved = self.moved.iter();
        moved
            .filter_map(|uid| Some((*uid, self.streams[uid].uncut_end(through)?)))
            .collect()
    }

    /// Moves the next effects into the SN. Returns whether there were any.
    pub(crate) fn take_effects(&mut self, inject: &mut Inject) -> bool {
        match self.effects.pop_front() {
            None => return false,
            Some(Effects::Mutations(mutations) | Effects::Transactions(mutations)) => {
                inject.mutations = mutations;
            }
            Some(Effects::Clearing(clears, mutations)) => {
                (inject.clears, inject.mutations) = (clears, mutations);
            }
            Some(Effects::Load(clears, statements)) => {
                inject.clears = clears;
                inject.loads.push(statements);
            }
        }
        true
    }

    /// Moves the batches that end at or before `through` (or all) into the SN.
    pub(crate) fn take_closed(&mut self, through: Option<EventTime>, inject: &mut Inject) {
        self.closed.take_through(through, inject);
    }

    /// Moves all amendments into the SN. Returns the batches that they change.
    pub(crate) fn take_amendments(&mut self, inject: &mut Inject) -> Vec<BatchSpan> {
        (inject.mutations, inject.amended) = self.amendments.take();
        let mut changed = Vec::with_capacity(inject.amended.len());
        for amended in &inject.amended {
            let Some(stream) = self.streams.get_mut(amended.stream) else {
                continue;
            };
            stream.show_amendments();
            changed.push(BatchSpan {
                stream: amended.stream,
                number: amended.batch,
                start: amended.batch.start(stream.interval()),
                end: amended.batch.end(stream.interval()),
            });
        }
        changed
    }

    /// Records through which time each stream's batches are cut.
    pub(crate) fn plan_through(&mut self, stream_times: &[(StreamUid, EventTime)]) {
        for (uid, time) in stream_times {
            let Some(stream) = self.streams.get_mut(*uid) else {
                continue;
            };
            stream.plan_through(*time);
            if stream.uncut_end(None).is_none() {
                self.moved.remove(uid);
            }
        }
    }

    /// Records through which time each stream's batches are stable.
    pub(crate) fn set_stable(&mut self, stream_times: &[(StreamUid, EventTime)]) {
        for (uid, time) in stream_times {
            if let Some(stream) = self.streams.get_mut(*uid) {
                stream.set_stable(*time);
            }
        }
    }

    /// After a cut: drops of a stream what is no longer needed. Windows need it from `needed_from`
    /// on.
    pub(crate) fn release_unneeded(&mut self, uid: StreamUid, needed_from: Option<EventTime>) {
        if let Some(stream) = self.streams.get_mut(uid) {
            stream.release_unneeded(needed_from);
        }
    }

    /// The number below which the driver may retire a stream's batches, if it is higher than the
    /// one last told; firings read from `first_read` on.
    pub(crate) fn retire(
        &mut self,
        uid: StreamUid,
        first_read: Option<BatchNumber>,
    ) -> Option<BatchNumber> {
        self.streams.get_mut(uid)?.retire(first_read)
    }
}
