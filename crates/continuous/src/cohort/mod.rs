//! A cohort: queries of one shape that are evaluated together, or one query that has no shape. It
//! is parsed and compiled once, by the first thread that needs it. A firing evaluates it for all
//! distinct constants (the cells). The result is kept once and cut into the answers of the members
//! that have subscribers; a member without subscribers costs a firing nothing.
//!
//! The one thing to know before changing it: members join and leave on the driver's thread, which
//! must not wait for a firing, nor for its result to be published, and parses nothing. So that
//! thread only notes them, and the next thread that needs them puts them in place
//! ([`Cohort::settle`]), in that order. No thread holds a lock while it evaluates, or while it cuts
//! answers for all subscribers: a firing is evaluated for the cells that existed when it began. A
//! new subscriber cuts its own part of the kept results under the hub's lock.

mod compile;
mod durable;
mod saved;

use crate::delivery::JoiningSlot;
use crate::delivery::hub::{CohortHub, DurableChange, FreezePoint, MemberSummary};
use crate::evaluation::evaluator::{Evaluator, OwnQueries, own};
use crate::evaluation::firing::{self, Due};
use crate::evaluation::incremental::GroupTarget;
use crate::evaluation::outcome::{CohortResult, Outcome};
use crate::metrics::QueryMetrics;
use crate::order::firing_slots::FiringSlots;
use crate::order::resequencer::Resequencer;
use crate::resources::Resources;
use crate::stages::Turn;
use crate::subscriptions::{Evicted, FiringId, SubscribeOptions, Subscription};
pub(crate) use compile::Source;
use compile::{CompiledText, compile};
pub use durable::{DurableEvent, DurableReader, ended_by};
use parking_lot::{Mutex, MutexGuard, RwLock};
use rustc_hash::FxHashMap;
use saved::Restored;
pub(crate) use saved::{Freeze, RestoredCohort};
use somersault_dictionary::Dictionary;
use somersault_lang::Overload;
use somersault_lang::lift::Shape;
use somersault_model::{EventTime, QueryUid, Sn, TermId};
use somersault_query::{Cells, Execution, QueryError, SnapshotView};
use somersault_runtime::{Fired, FiringAcks};
use somersault_store::Store;
use somersault_stream::{CohortView, JoiningMember, Pause};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// A cohort and its members.
pub(crate) struct Cohort {
    shape: Arc<Shape>,
    /// Its size and the name of a member, which the coordinator keeps up to date.
    view: Arc<CohortView>,
    resources: Arc<Resources>,
    /// The text of the first member, until it is compiled.
    source: Mutex<Option<Source>>,
    compiled: OnceLock<CompiledText>,
    slots: FiringSlots<Due>,
    /// Set once its last member is dropped; a firing under way then stops.
    dropped: Arc<AtomicBool>,
    /// Members that have joined or left and are not in place yet.
    pending: Mutex<Pending>,
    /// The constants, each distinct combination once. Locked before the hub where both are locked.
    cells: RwLock<Arc<Cells>>,
    /// The order in which results are published.
    order: Resequencer<Turn>,
    hub: Mutex<CohortHub>,
    /// Whether it ever had a durable subscription with a deadline.
    has_deadlines: AtomicBool,
    /// Set for a cohort that a checkpoint had.
    restored: Option<Restored>,
}

/// A change of the members, or an event whose order among those changes matters.
enum MembershipChange {
    Joined {
        base: EventTime,
        members: Vec<(u32, Vec<TermId>)>,
        /// The words of each member, for a shape that has no parameters, or may have none.
        words: Vec<Vec<String>>,
        resumed: Option<u32>,
    },
    Paused {
        slot: u32,
        pause: Pause,
    },
    Left {
        slot: u32,
    },
    /// Closes up to this one were passed.
    Passed(EventTime),
    /// Firings that were answered before a restart.
    Evicted(Evicted),
    /// For restored members: the words of their cells, where cells have their own queries.
    Texts(Vec<(u32, Vec<String>)>),
    /// The position of a checkpoint.
    Frozen(FreezePoint),
    /// A durable subscription to the member in a slot.
    Durable(u32, DurableChange),
}

/// Changes that are not in place yet.
#[derive(Default)]
struct Pending {
    changes: Vec<MembershipChange>,
    /// For members that one of the changes resumes: the slot that they had before.
    resumed: FxHashMap<u32, u32>,
    /// The number of the newest checkpoint whose position is among the changes, or was.
    freezes: u64,
}

impl Pending {
    /// Takes the changes out. Which checkpoints are known stays.
    fn take(&mut self) -> Vec<MembershipChange> {
        self.resumed = FxHashMap::default();
        std::mem::take(&mut self.changes)
    }
}

/// The size of a cohort, for EXPLAIN and `QueryInfo`.
#[derive(Clone, Copy, Debug, Default)]
pub struct CohortSize {
    /// Distinct combinations of constants.
    pub cells: usize,
    /// Whether they are evaluated together.
    pub together: bool,
}

impl Cohort {
    /// Returns a cohort without members; `source` is the text of the first. A checkpoint has its
    /// answers if it was `restored`. It is formed after the position of the checkpoint of number
    /// `freezes`.
    pub(crate) fn new(
        shape: Arc<Shape>,
        (source, overload): (Source, Overload),
        view: Arc<CohortView>,
        resources: Arc<Resources>,
        (restored, freezes): (Option<RestoredCohort>, u64),
    ) -> Cohort {
        let (is_shared, width) = (shape.is_shared(), shape.width());
        let kept_firings = resources.settings().kept_firings;
        let (hub, restored) = match restored {
            Some(RestoredCohort { mut hub, stages }) => {
                hub.resize(kept_firings, is_shared);
                (hub, Some(Restored::new(stages)))
            }
            None => (CohortHub::new(kept_firings, is_shared), None),
        };
        Cohort {
            shape,
            view,
            resources,
            source: Mutex::new(Some(source)),
            compiled: OnceLock::new(),
            slots: FiringSlots::new(overload == Overload::Skip),
            dropped: Arc::default(),
            pending: Mutex::new(Pending {
                freezes,
                ..Pending::default()
            }),
            cells: RwLock::new(Arc::new(Cells::new(width))),
            order: Resequencer::new(),
            hub: Mutex::new(hub),
            has_deadlines: AtomicBool::new(false),
            restored,
        }
    }

    /// Returns the compiled text, which the first caller compiles. The driver's thread must not
    /// call it.
    fn compiled(&self) -> &CompiledText {
        self.compiled.get_or_init(|| {
            let source = self.source.lock().take();
            let compiled = source.map(|source| compile(&self.shape, &source, &self.resources));
            match compiled {
                Some(Ok(compiled)) => {
                    if let Some(stages) = self.restored.as_ref().and_then(Restored::take_stages) {
                        compiled.stages.restore(stages);
                    }
                    compiled
                }
                Some(Err(error)) => CompiledText::broken(error.to_string()),
                // A panic came before.
                None => {
                    CompiledText::broken("internal fault: the query was not compiled".to_owned())
                }
            }
        })
    }

    /// Returns the threads that its firings may use.
    pub(crate) fn slots(&self) -> &FiringSlots<Due> {
        &self.slots
    }

    /// Adds queries that join, or one that is resumed. Their constants are interned, since data may
    /// mention them later.
    pub(crate) fn joined(
        &self,
        base: EventTime,
        members: &[JoiningMember],
        resumed: Option<u32>,
        store: &Store,
    ) {
        let dictionary = store.dictionary();
        let ids = members.iter().map(|member| {
            let constants = self.shape.constants(&member.words).unwrap_or_default();
            let terms = constants.iter();
            let ids = terms.map(|term| dictionary.intern(term.as_ref()));
            (member.slot, ids.collect::<Vec<TermId>>())
        });
        let words = match self.compiled.get().map(|compiled| &compiled.evaluator) {
            Some(Evaluator::Shared { .. } | Evaluator::Broken(_)) => Vec::new(),
            Some(Evaluator::Each { .. }) | None => {
                members.iter().map(|member| member.words.clone()).collect()
            }
        };
        let mut joining: Vec<(u32, Vec<TermId>)> = ids.collect();
        let mut words = words;
        if let Some(restored) = &self.restored
            && resumed.is_none()
        {
            self.join_again(restored, &mut joining, &mut words);
            if joining.is_empty() {
                return;
            }
        }
        let mut pending = self.pending.lock();
        if let Some(before) = resumed {
            (pending.resumed).extend(joining.iter().map(|(slot, _)| (*slot, before)));
        }
        pending.changes.push(MembershipChange::Joined {
            base,
            members: joining,
            words,
            resumed,
        });
    }

    pub(crate) fn paused(&self, slot: u32, pause: Pause) {
        let paused = MembershipChange::Paused { slot, pause };
        self.pending.lock().changes.push(paused);
        let compiled = self.compiled.get();
        if let Some(Evaluator::Shared { delta, .. }) = compiled.map(|it| &it.evaluator) {
            // It may have been the last running member, and the rows would be of no use by the time
            // it is resumed.
            delta.forget();
        }
    }

    /// Notes a firing that subscribers were given before a restart, or are not to be given.
    pub(crate) fn record_evicted(&self, id: FiringId) {
        let mut hub = self.hub.lock();
        let changes = &mut self.pending.lock().changes;
        if let Some(MembershipChange::Evicted(gone)) = changes.last_mut() {
            gone.note(id);
            return;
        }
        let mut gone = Evicted::default();
        gone.note(id);
        match changes.is_empty() {
            true => hub.record_evicted(gone),
            false => changes.push(MembershipChange::Evicted(gone)),
        }
    }

    /// Notes that a member replaced another query, which answered closes up to this one.
    pub(crate) fn answered_before(&self, slot: u32, id: FiringId) {
        self.hub.lock().answered_before(slot, id);
    }

    /// Ends the subscriptions of a member that was dropped.
    pub(crate) fn left(&self, slot: u32) {
        let mut hub = self.hub.lock();
        let mut pending = self.pending.lock();
        pending.changes.push(MembershipChange::Left { slot });
        // Its subscribers are at the slot that it had when it was last put in place.
        let mut at = Some(slot);
        while let Some(slot) = at {
            hub.end_member(slot);
            at = pending.resumed.get(&slot).copied();
        }
    }

    /// Puts in place all members that have joined or left.
    pub(crate) fn settle(&self) {
        if self.pending.lock().changes.is_empty() {
            return;
        }
        // Before the locks, which the driver's thread takes too.
        self.compiled();
        let mut cells = self.cells.write();
        // Taken once the hub is held: a thread that finds no changes and then locks the hub sees
        // them in place.
        let mut hub = self.hub.lock();
        let changes = self.pending.lock().take();
        for change in changes {
            self.put(change, &mut cells, &mut hub);
        }
    }

    /// Returns the locked hub, with all members that have joined or left by now in place.
    fn settled_hub(&self) -> MutexGuard<'_, CohortHub> {
        loop {
            self.settle();
            let hub = self.hub.lock();
            if self.pending.lock().changes.is_empty() {
                return hub;
            }
        }
    }

    fn put(&self, change: MembershipChange, cells: &mut Arc<Cells>, hub: &mut CohortHub) {
        match change {
            MembershipChange::Joined {
                base,
                members,
                words,
                resumed,
            } => {
                let mut words = words.into_iter();
                let cells = Arc::make_mut(cells);
                hub.ledger.begin(members.len(), base);
                for (slot, ids) in members {
                    let cell = cells.enter(&ids);
                    if let Some(words) = words.next() {
                        self.prepare(cell, &words);
                    }
                    hub.ledger.join(JoiningSlot { slot, cell }, resumed);
                    if let Some(before) = resumed {
                        hub.resumed(before, slot);
                    }
                }
            }
            MembershipChange::Paused { slot, pause } => hub.ledger.pause(slot, pause),
            MembershipChange::Left { slot } => {
                let cells = Arc::make_mut(cells);
                for cell in hub.leave(slot) {
                    cells.leave(cell);
                    if let Evaluator::Each { prepared, .. } = &self.compiled().evaluator
                        && cells.members(cell) == 0
                    {
                        Arc::make_mut(&mut prepared.write()).remove(&cell);
                    }
                }
            }
            MembershipChange::Passed(last) => hub.ledger.passed(last),
            MembershipChange::Evicted(gone) => hub.record_evicted(gone),
            MembershipChange::Texts(words) => {
                for (cell, words) in words {
                    self.prepare(cell, &words);
                }
            }
            MembershipChange::Frozen(point) => hub.freeze(point),
            MembershipChange::Durable(slot, change) => {
                hub.put_durable(slot, change, self.resources.now());
            }
        }
    }

    /// Prepares the query of a cell, where cells have their own.
    fn prepare(&self, cell: u32, words: &[String]) {
        if let Evaluator::Each { parser, prepared } = &self.compiled().evaluator {
            let text = self.shape.text_with(words);
            let mut prepared = prepared.write();
            let prepared = Arc::make_mut(&mut prepared);
            prepared.entry(cell).or_insert_with(|| own(parser, &text));
        }
    }

    /// Returns the position of the next firing in the order of answers.
    pub(crate) fn ticket(&self) -> u64 {
        self.order.ticket()
    }

    /// Notes closes that were passed without a firing.
    pub(crate) fn passed(&self, last: EventTime, count: u64) {
        let mut hub = self.hub.lock();
        hub.count_passed(count);
        let changes = &mut self.pending.lock().changes;
        match changes.is_empty() {
            true => hub.ledger.passed(last),
            // Members that were paused earlier have not passed these closes.
            false => changes.push(MembershipChange::Passed(last)),
        }
    }

    /// Ends the cohort once all members have left for good: results under way are not wanted.
    pub(crate) fn dropped(&self) {
        self.dropped.store(true, Ordering::Relaxed);
        self.end();
    }

    /// Ends all subscriptions: no more answers come.
    pub(crate) fn end(&self) {
        self.hub.lock().end();
    }

    /// Returns a reader of a member's answers; `None` if the member has left, or has not joined
    /// yet.
    pub(crate) fn subscribe(
        &self,
        (slot, uid, name): (u32, QueryUid, &str),
        options: &SubscribeOptions,
        decoder: &Arc<Dictionary>,
    ) -> Option<Subscription> {
        let mut hub = self.settled_hub();
        hub.subscribe((slot, uid, name), options, decoder)
    }

    pub(crate) fn summary(&self, slot: u32) -> MemberSummary {
        self.settled_hub().summary(slot)
    }

    pub(crate) fn size(&self) -> CohortSize {
        self.settle();
        CohortSize {
            cells: self.cells.read().len(),
            together: match &self.compiled().evaluator {
                Evaluator::Shared { together, .. } => together.is_possible(),
                Evaluator::Each { .. } | Evaluator::Broken(_) => false,
            },
        }
    }

    /// Returns its counters; `None` if its last member has been dropped.
    pub(crate) fn metrics(&self) -> Option<QueryMetrics> {
        let members = Some(self.view.members()).filter(|members| *members > 0)?;
        let name = self.view.name().to_string();
        Some(self.hub.lock().metrics(name, members as u64))
    }

    /// Returns the memory of the rows that it keeps from one close to the next, in bytes.
    pub(crate) fn kept_bytes(&self) -> u64 {
        match self.compiled.get().map(|compiled| &compiled.evaluator) {
            Some(Evaluator::Shared { delta, .. }) => delta.kept_bytes(),
            Some(Evaluator::Each { .. } | Evaluator::Broken(_)) | None => 0,
        }
    }

    /// Describes in sentences how the members are evaluated over these windows.
    pub(crate) fn explain(
        &self,
        members: usize,
        view: &SnapshotView,
        execution: &Execution,
    ) -> Result<String, QueryError> {
        let size = self.size();
        let cells = Arc::clone(&self.cells.read());
        let mut text = match members {
            0 | 1 => "the only query of its shape; ".to_owned(),
            _ => format!(
                "member of a query group of {members} queries of this shape, with {} combinations of constants; ",
                size.cells
            ),
        };
        if size.cells < 2 {
            text.push_str("evaluated once at each close\n");
            return Ok(text);
        }
        let together = match &self.compiled().evaluator {
            Evaluator::Shared {
                single,
                together,
                delta,
            } => together.query(single).zip(Some(delta)),
            Evaluator::Each { .. } | Evaluator::Broken(_) => None,
        };
        let Some((grouped, delta)) = together else {
            text.push_str(
                "each combination is evaluated by itself, because constants of this shape cannot become variables\n",
            );
            return Ok(text);
        };
        text.push_str("all are evaluated together at each close:\n");
        text.push_str(&grouped.explain(&cells, view, execution)?.to_string());
        text.push_str(&delta.explain(&GroupTarget(grouped, &cells), view));
        Ok(text)
    }

    /// Executes a firing. Returns whether the caller must call [`Cohort::publish`].
    #[must_use]
    pub(crate) fn execute(&self, resources: &Resources, Due { job, ticket }: Due) -> bool {
        let (firing, outcome, took) = firing::execute(resources, job, |mut work| {
            self.settle();
            let CompiledText {
                dataset,
                evaluator,
                live,
                stages,
            } = self.compiled();
            let delta = live.as_ref().filter(|_| stages.takes_differences());
            let changed = delta.and_then(|delta| Some((delta, work.changed(dataset)?)));
            let (mut view, execution) = work.over(dataset, &self.dropped);
            if let (Some((delta, (changed, before))), Evaluator::Shared { single, .. }) =
                (changed, evaluator)
            {
                let views = (&before, &view);
                let found = delta.difference(single, &changed.statements, views, &execution);
                if let Some(difference) = found {
                    let most_rows = resources.environment().limits().result_rows;
                    let difference = (changed.since, difference);
                    return Ok(Outcome::of_difference(difference, most_rows));
                }
            }
            let (cells, own) = self.evaluated();
            Ok(evaluator.evaluate((&cells, &own), &mut view, &execution, resources))
        });
        let key = firing.key();
        let result = Some(CohortResult {
            firing,
            outcome: outcome.unwrap_or_else(Outcome::failed),
            took,
        });
        self.order.leave(ticket, Turn { key, result })
    }

    /// Gives up the turn of a firing that is not executed. Returns whether the caller must call
    /// [`Cohort::publish`].
    #[must_use]
    pub(crate) fn leave_unanswered(&self, due: &Due) -> bool {
        let key = due.job.firing.key();
        self.order.leave(due.ticket, Turn { key, result: None })
    }

    /// Counts a firing at `sn` that is not executed because a newer one is due.
    pub(crate) fn count_skipped(&self, sn: Sn) {
        let mut hub = self.hub.lock();
        hub.count_skipped(sn);
        for change in &mut self.pending.lock().changes {
            if let MembershipChange::Frozen(point) = change
                && sn <= point.sn
            {
                point.skipped += 1;
            }
        }
    }

    /// Publishes the results whose turn it is, one after the other, so the driver learns of the
    /// closes in order.
    pub(crate) fn publish(&self, decoder: &Arc<Dictionary>, answered: Option<&FiringAcks>) {
        while let Some(Turn { key, result }) = self.order.next() {
            let result = result.and_then(|result| self.publish_result(result, decoder));
            let Some(answered) = answered else { continue };
            let stages = &self.compiled().stages;
            let derived = stages.derive(key, result.as_deref(), decoder);
            let outbox = self.hub.lock().outbox_report(self.resources.now());
            answered.send(Fired {
                key,
                derived,
                outbox,
            });
        }
    }

    /// Counts, keeps and delivers a result; returns it, or `None` if it was delivered before a
    /// restart.
    fn publish_result(
        &self,
        result: CohortResult,
        decoder: &Arc<Dictionary>,
    ) -> Option<Arc<CohortResult>> {
        let stages = &self.compiled().stages;
        if stages.compares() {
            let sn = result.firing.sn;
            self.hub.lock().note_compared(sn, || stages.save());
        }
        let (result, is_reported) = match stages.compare(result, decoder) {
            Ok(compared) => compared,
            Err(id) => {
                self.record_evicted(id);
                return None;
            }
        };
        let result = Arc::new(result);
        // A durable subscription that was created meanwhile may need it.
        self.settle();
        let now = self.resources.now();
        let deliveries = self.hub.lock().take(&result, is_reported, now);
        for delivery in deliveries {
            delivery.deliver(&result, decoder);
        }
        Some(result)
    }

    /// Returns the cells of a firing, and the queries of those cells that have their own.
    fn evaluated(&self) -> (Arc<Cells>, Arc<OwnQueries>) {
        let cells = self.cells.read();
        let own = match &self.compiled().evaluator {
            Evaluator::Each { prepared, .. } => Arc::clone(&prepared.read()),
            Evaluator::Shared { .. } | Evaluator::Broken(_) => Arc::default(),
        };
        (Arc::clone(&cells), own)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resources::{DeltaMode, Settings, Stopwatch};
    use somersault_model::Limits;
    use somersault_pool::QueryPool;
    use somersault_query::Environment;

    const TEXT: &str = "SELECT ?s FROM STREAM <urn:s> [RANGE 1s TUMBLING] WHERE { ?s ?p 5 }";

    fn cohort(pool: &QueryPool) -> Cohort {
        let store = Store::new(1);
        let environment = Environment::new(Limits::default(), 1, Arc::clone(pool.workers()), None);
        let settings = Settings {
            kept_firings: 2,
            delta: DeltaMode::Auto,
            threads: 1,
            stopwatch: Stopwatch::Machine,
        };
        let (shape, _) = Shape::of(TEXT).expect("the text has a shape");
        let source = Source {
            text: TEXT.to_owned(),
            namespace: None,
        };
        Cohort::new(
            Arc::new(shape),
            (source, Overload::default()),
            Arc::new(CohortView::new("q", 1)),
            Arc::new(Resources::new(Arc::new(environment), store, settings)),
            (None, 0),
        )
    }

    #[test]
    fn changes_of_members_compile_nothing() {
        let pool = QueryPool::start(1).expect("a thread starts");
        let cohort = cohort(&pool);
        let member = |slot| JoiningMember {
            uid: QueryUid(u64::from(slot) + 1),
            slot,
            words: vec!["5".to_owned()],
        };
        let pause = Pause {
            through: Sn(1),
            next: None,
        };
        let store = Arc::clone(&cohort.resources);
        let store = store.store();
        cohort.joined(EventTime(0), &[member(0), member(1)], None, store);
        cohort.paused(0, pause);
        cohort.joined(EventTime(5), &[member(2)], Some(0), store);
        cohort.passed(EventTime(7), 3);
        cohort.answered_before(1, FiringId::at(EventTime(4)));
        cohort.left(1);
        assert!(cohort.metrics().is_some());
        assert_eq!(cohort.kept_bytes(), 0);
        assert!(cohort.compiled.get().is_none(), "nothing was compiled");
        assert_eq!(cohort.size().cells, 1);
        assert!(cohort.compiled.get().is_some());
        pool.stop();
    }
}
