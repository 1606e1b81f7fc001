//! A transaction: writes into the newer layer, windows that slide, messages that are emitted, and a
//! journal by which all of it can be undone.
//!
//! The one thing to know before changing it: the journal has one entry for each real change, in
//! order. So a statement changed on the whole if it has an odd number of entries, and effects are
//! net without a comparison of states.

use crate::context::execution::Execution;
use crate::procedure::state::{Procedure, TransactionState};
use crate::procedure::template::Terms;
use crate::procedure::trace::Trace;
use crate::view::layered_view::ClearedGraph;
use oxrdf::Term;
use smallvec::SmallVec;
use somersault_dictionary::{Dictionary, TermPin};
use somersault_model::{EventTime, Lease, QuadIds, QueryUid, Sn, TermId};
use std::sync::Arc;
use std::time::Instant;

/// What the random functions of an execution are keyed by, with the number of the step and the row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ExecutionKey {
    /// The uid of the procedure.
    pub procedure: u32,
    /// Whether it is called; otherwise it runs on a batch.
    pub is_call: bool,
    /// The number of its round or call.
    pub round: u64,
}

impl ExecutionKey {
    fn uid(self) -> QueryUid {
        // The upper bits keep procedures apart from queries and updates.
        let kind = 0b11 << 62 | u64::from(self.is_call) << 61;
        QueryUid(kind | (self.round << 24) ^ u64::from(self.procedure))
    }
}

/// What the random functions of an update are keyed by. No two updates that leave something may
/// have one key: their blank nodes would be the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct UpdateKey {
    /// The snapshot that it is evaluated on.
    pub base: Sn,
    /// Its number among those on that snapshot.
    pub number: u64,
}

/// The bits of an update's number.
const NUMBER_BITS: u32 = 24;

impl UpdateKey {
    fn uid(self) -> QueryUid {
        // The upper bits keep updates apart from queries and procedures.
        let low = self.base.0 << NUMBER_BITS ^ self.number;
        QueryUid(1 << 63 | low & ((1 << 62) - 1))
    }
}

/// A message that a transaction emitted.
#[derive(Debug, Clone)]
pub struct Emission {
    /// The stream, by its number in
    /// [`CompiledProcedure::emits`](crate::CompiledProcedure::emits).
    pub stream: usize,
    /// The statements, each once, in the order in which they were made.
    pub statements: Vec<QuadIds>,
    /// Holds those of its terms that are not known for good. Keep it as long as the statements.
    pub terms: Option<Arc<TermPin>>,
}

/// The changes of the stored graphs by a transaction: first whole graphs are cleared, then
/// statements are deleted, then others inserted. Apart from cleared graphs they are net: each
/// deleted statement held before it, and no inserted one did. Ascending; all terms are known for
/// good.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NetEffects {
    /// The graphs of which all statements go.
    pub clears: Vec<TermId>,
    /// The statements that go.
    pub deletes: Vec<QuadIds>,
    /// The statements that come.
    pub inserts: Vec<QuadIds>,
}

impl NetEffects {
    /// Whether nothing changes.
    pub fn is_empty(&self) -> bool {
        self.clears.is_empty() && self.deletes.is_empty() && self.inserts.is_empty()
    }
}

/// A change that a transaction made, with what undoes it.
#[derive(Debug)]
pub(crate) enum Change {
    /// A stored statement began or ceased to hold; `said` is what the layer said before.
    Statement {
        quad: QuadIds,
        holds: bool,
        said: Option<bool>,
    },
    /// A graph was cleared.
    Clear {
        graph: TermId,
        cleared: ClearedGraph,
    },
    /// A message that holds the statement entered a window.
    Enter(QuadIds),
    /// A message that holds the statement left a window.
    Leave(QuadIds),
}

/// A point of a transaction to which it can be rolled back.
#[derive(Debug, Clone, Copy)]
pub struct Savepoint {
    changes: usize,
    emissions: usize,
}

/// A transaction. Dropping it undoes all that it did.
pub struct Txn<'s> {
    pub(crate) state: &'s mut TransactionState,
    journal: Vec<Change>,
    /// The length of the journal when its effects were asked for.
    settled: Option<usize>,
    pub(crate) emissions: Vec<Emission>,
    /// The limits, and the times and keys of the step that runs.
    pub(crate) execution: Execution,
    lease: Lease,
    /// Terms that its values have and that its lease does not cover.
    pub(crate) held: TermPin,
    /// The number of steps so far.
    steps: u64,
    /// The memory limit of the whole transaction.
    memory_limit: u64,
    memory_before: usize,
    /// The bytes of rows that FOR EACH goes through.
    pub(crate) rows_bytes: usize,
    deadline: Instant,
    /// What its steps did, if that is asked for.
    pub(crate) trace: Option<Box<Trace>>,
}

/// The number of steps between two looks at the clock.
const STEPS_PER_LOOK: u64 = 16;
/// A journal for more changes than this is not kept for the next transaction.
const LONGEST_KEPT_JOURNAL: usize = 1 << 12;
/// The number of writes between two looks at the clock.
const WRITES_PER_LOOK: usize = 256;

impl TransactionState {
    /// Begins a transaction. Its limits and its deadline are those of `execution`; new terms are
    /// mentioned under `lease` until it commits.
    pub fn begin(&mut self, execution: Execution, lease: Lease) -> Txn<'_> {
        let started = execution.started.unwrap_or_else(Instant::now);
        let deadline = execution.deadline;
        let deadline = deadline.unwrap_or_else(|| started + execution.limits.query_time);
        Txn {
            memory_before: self.layers.bytes(),
            journal: std::mem::take(&mut self.journal),
            state: self,
            settled: None,
            emissions: Vec::new(),
            memory_limit: execution.limits.query_memory_bytes,
            execution: Execution {
                deadline: Some(deadline),
                ..execution
            },
            lease,
            held: TermPin::default(),
            steps: 0,
            rows_bytes: 0,
            deadline,
            trace: None,
        }
    }
}

impl Txn<'_> {
    /// The dictionary of all ids.
    pub fn dictionary(&self) -> &Dictionary {
        self.state.dictionary()
    }

    /// The id of a term for this transaction.
    pub fn id(&self, term: &Term) -> TermId {
        self.terms().mention(term)
    }

    /// Whether a statement holds, as the next step sees it.
    pub fn holds(&self, quad: QuadIds) -> bool {
        self.state.layers.holds(quad)
    }

    /// Makes a statement hold. Its ids are of this transaction, or known for good.
    pub fn insert(&mut self, quad: QuadIds) {
        self.write(quad, true);
    }

    /// Makes a statement not hold.
    pub fn delete(&mut self, quad: QuadIds) {
        self.write(quad, false);
    }

    fn write(&mut self, quad: QuadIds, holds: bool) {
        let layers = &mut self.state.layers;
        if layers.holds(quad) != holds {
            let said = layers.set(quad, holds);
            self.journal.push(Change::Statement { quad, holds, said });
        }
    }

    /// Clears a stored graph by its name, whatever the snapshot has of it. Such an effect cannot be
    /// told apart from facts that a later snapshot brings: after the commit no transaction may run
    /// before a snapshot has it.
    pub fn clear(&mut self, graph: TermId) {
        let cleared = self.state.layers.clear(graph);
        self.journal.push(Change::Clear { graph, cleared });
    }

    /// Lets messages leave and enter an owned window.
    pub fn slide<'m>(
        &mut self,
        procedure: &Procedure,
        window: usize,
        leave: impl IntoIterator<Item = &'m [QuadIds]>,
        enter: impl IntoIterator<Item = &'m [QuadIds]>,
    ) {
        let graph = procedure.window(window);
        let TransactionState { layers, counts, .. } = &mut *self.state;
        for quad in leave.into_iter().flatten() {
            let quad = quad.triple().in_graph(graph);
            counts.leave(&mut layers.kept, quad);
            self.journal.push(Change::Leave(quad));
        }
        for quad in enter.into_iter().flatten() {
            let quad = quad.triple().in_graph(graph);
            counts.enter(&mut layers.kept, quad);
            self.journal.push(Change::Enter(quad));
        }
    }

    /// A point to which the transaction can be rolled back.
    pub fn savepoint(&self) -> Savepoint {
        Savepoint {
            changes: self.journal.len(),
            emissions: self.emissions.len(),
        }
    }

    /// Undoes all that the transaction did since a point: writes, slides and messages.
    pub fn rollback(&mut self, to: Savepoint) {
        self.emissions.truncate(to.emissions);
        self.settled = None;
        let TransactionState { layers, counts, .. } = &mut *self.state;
        for change in self.journal.drain(to.changes..).rev() {
            match change {
                Change::Statement { quad, holds, said } => layers.undo(quad, !holds, said),
                Change::Clear { graph, cleared } => layers.undo_clear(graph, cleared),
                Change::Enter(quad) => counts.leave(&mut layers.kept, quad),
                Change::Leave(quad) => counts.enter(&mut layers.kept, quad),
            }
        }
    }

    /// The net effects so far, of a transaction that may be undone: no term of them is known for
    /// good by this.
    pub fn effects_so_far(&self) -> NetEffects {
        net_effects(&self.journal).0
    }

    /// The number of changes so far.
    pub(crate) fn changes(&self) -> usize {
        self.journal.len()
    }

    /// The numbers of statements that began and that ceased to hold since this many changes.
    pub(crate) fn changed_since(&self, changes: usize) -> (u64, u64) {
        let later = self.journal.get(changes..).unwrap_or_default();
        let (net, _) = net_effects(later);
        (net.inserts.len() as u64, net.deletes.len() as u64)
    }

    /// The number of steps so far.
    pub(crate) fn steps_so_far(&self) -> u64 {
        self.steps
    }

    /// The net effects so far. Their terms are known for good from now on.
    pub fn effects(&mut self) -> NetEffects {
        let (effects, unchanged) = net_effects(&self.journal);
        // A later snapshot may bring facts about them.
        for (quad, said) in unchanged {
            self.state.layers.say_as_before(quad, said);
        }
        self.settled = Some(self.journal.len());
        let dictionary = self.state.dictionary();
        for quad in &effects.inserts {
            for id in [quad.graph, quad.subject, quad.predicate, quad.object] {
                if id.is_transient() {
                    let is_there = dictionary.make_permanent(id);
                    debug_assert!(
                        is_there,
                        "DI-1: the transaction has kept the term of {id:?}"
                    );
                }
            }
        }
        effects
    }

    /// Ends the transaction: what it wrote is seen by those after it.
    pub fn keep(mut self) {
        if self.settled != Some(self.journal.len()) {
            self.effects();
        }
        self.journal.clear();
    }

    /// Ends the transaction: what it wrote is seen by those after it. Returns its net effects.
    pub fn commit(mut self) -> NetEffects {
        let effects = self.effects();
        self.keep();
        effects
    }

    /// Emits a message.
    pub(crate) fn push_emission(&mut self, stream: usize, statements: Vec<QuadIds>) {
        let ids = statements.iter();
        let ids = ids.flat_map(|quad| [&quad.graph, &quad.subject, &quad.predicate, &quad.object]);
        let terms = self.dictionary().hold(ids);
        self.emissions.push(Emission {
            stream,
            statements,
            terms,
        });
    }

    pub(crate) fn terms(&self) -> Terms<'_> {
        Terms {
            dictionary: self.state.dictionary(),
            lease: &self.lease,
        }
    }

    /// Begins an execution of a procedure.
    pub(crate) fn enter(&mut self, key: ExecutionKey, now: EventTime) {
        self.execution.query = key.uid();
        self.execution.now = now;
    }

    /// Begins an update; `now` is NOW() of its operations.
    pub fn enter_update(&mut self, key: UpdateKey, now: EventTime) {
        self.execution.query = key.uid();
        self.execution.now = now;
    }

    /// Begins a step: keys its random values, and looks at the limits.
    pub(crate) fn begin_step(&mut self) -> Result<(), crate::QueryError> {
        self.steps += 1;
        self.execution.close = EventTime(self.steps as i64);
        if self.steps.is_multiple_of(STEPS_PER_LOOK) {
            self.check_time()?;
        }
        self.execution.limits.query_memory_bytes = self.memory_left()?;
        Ok(())
    }

    /// Deletes statements, then inserts others, within the limits.
    pub(crate) fn write_all(
        &mut self,
        gone: Vec<QuadIds>,
        come: Vec<QuadIds>,
    ) -> Result<(), crate::QueryError> {
        for quad in gone {
            self.delete(quad);
            self.check_written()?;
        }
        for quad in come {
            self.insert(quad);
            self.check_written()?;
        }
        Ok(())
    }

    /// Looks at the limits after a write of a step that may write much.
    pub(crate) fn check_written(&self) -> Result<(), crate::QueryError> {
        if self.journal.len().is_multiple_of(WRITES_PER_LOOK) {
            self.check_time()?;
        }
        self.memory_left().map(|_| ())
    }

    /// The bytes that may be taken yet.
    fn memory_left(&self) -> Result<u64, crate::QueryError> {
        let written = self.state.layers.bytes().saturating_sub(self.memory_before);
        let taken = (written + self.rows_bytes) as u64;
        match self.memory_limit.saturating_sub(taken) {
            0 => Err(crate::QueryError::Memory {
                limit: self.memory_limit,
            }),
            left => Ok(left),
        }
    }

    pub(crate) fn check_time(&self) -> Result<(), crate::QueryError> {
        use std::sync::atomic::Ordering::Relaxed;
        let flags = [&self.execution.cancel, &self.execution.abandoned];
        if (flags.into_iter().flatten()).any(|flag| flag.load(Relaxed)) {
            return Err(crate::QueryError::Cancelled);
        }
        if Instant::now() >= self.deadline {
            return Err(crate::QueryError::Time {
                limit: self.execution.limits.query_time,
            });
        }
        Ok(())
    }

    /// The memory limit of the whole transaction.
    pub(crate) fn memory_limit(&self) -> u64 {
        self.memory_limit
    }
}

impl Drop for Txn<'_> {
    fn drop(&mut self) {
        self.rollback(Savepoint {
            changes: 0,
            emissions: 0,
        });
        if self.journal.capacity() <= LONGEST_KEPT_JOURNAL {
            self.state.journal = std::mem::take(&mut self.journal);
        }
    }
}

/// Statements that are as they were before the transaction, with what the layer said of them then.
type Unchanged = SmallVec<[(QuadIds, Option<bool>); 4]>;

/// The changes that are left of all, and what is unchanged.
fn net_effects(journal: &[Change]) -> (NetEffects, Unchanged) {
    let mut clears: Vec<TermId> = Vec::new();
    let mut changed: SmallVec<[(QuadIds, bool, Option<bool>); 8]> = SmallVec::new();
    for change in journal {
        match change {
            Change::Statement { quad, holds, said } => changed.push((*quad, *holds, *said)),
            Change::Clear { graph, .. } => {
                changed.retain(|(quad, ..)| quad.graph != *graph);
                clears.push(*graph);
            }
            Change::Enter(_) | Change::Leave(_) => {}
        }
    }
    clears.sort_unstable();
    clears.dedup();
    // Changes of one statement stay in their order.
    changed.sort_by_key(|(quad, ..)| *quad);
    let mut effects = NetEffects {
        clears,
        ..NetEffects::default()
    };
    let mut unchanged = SmallVec::new();
    for same in changed.chunk_by(|a, b| a.0 == b.0) {
        let (quad, holds, said) = same[0];
        match (same.len() % 2 == 1, holds) {
            (true, true) => effects.inserts.push(quad),
            (true, false) => effects.deletes.push(quad),
            (false, _) => unchanged.push((quad, said)),
        }
    }
    (effects, unchanged)
}
