//! WEAK recovery: while the log is replayed, transactions run again whose effects it does not hold.
//!
//! 1. The sequencer waits until all that was cut before a record is stable. The stored graphs are
//!    then those on which the first transaction of the record ran: what a foreign cut has changed
//!    is in the log before it, and what committed before it, too (`handover`).
//! 2. The transactions of the record run or are laid over the snapshot, one after the other, and
//!    the core gets their entries. Of transactions that others led to the log holds the number
//!    alone, where the entries before them say which they are.
//! 3. The sequencer applies the record with all effects, as if the log had held them.
//!
//! Before changing anything here: what runs again must depend on the log and the stored graphs
//! alone. NOW, RAND, UUID and BNODE follow from the entry's procedure, round and times.

use super::call::{CallArguments, changes, execute_call};
use super::messages::Message;
use super::rounds::{EmittedMessages, fill_windows, walk};
use super::{Declared, RunnableProcedure, entries};
use crate::error::RuntimeError;
use somersault_log::{TxnCall, TxnChange, TxnEntry, TxnItem, TxnOrigin, TxnOutcome, TxnRecord};
use somersault_model::{ProcedureUid, QuadIds};
use somersault_query::{Abort, CompiledProcedure, Execution, TransactionState, decode};
use somersault_store::Store;
use somersault_txn::{Event, Transaction};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// What has committed once may take as long as it needs.
const PATIENCE: Duration = Duration::from_secs(365 * 24 * 3600);

/// Runs transactions again while the log is replayed.
pub(crate) struct Rerunner {
    store: Arc<Store>,
    limits: Execution,
    /// `None` until something runs again.
    state: Option<TransactionState>,
    /// Those whose windows are in the state, as the core knows them.
    procedures: BTreeMap<ProcedureUid, RunnableProcedure>,
}

/// Whether transactions of a record have to run again.
pub(crate) fn has_reruns(record: &TxnRecord) -> bool {
    record.items.iter().any(|item| match item {
        TxnItem::Entry(entry) => entry.outcome == TxnOutcome::Rerun,
        TxnItem::Triggered(_) => true,
        TxnItem::Advance(_) => false,
    })
}

impl Rerunner {
    pub(crate) fn new(store: Arc<Store>, limits: Execution) -> Rerunner {
        let mut limits = limits;
        limits.limits.query_time = PATIENCE;
        (limits.started, limits.deadline) = (None, None);
        Rerunner {
            store,
            limits,
            state: None,
            procedures: BTreeMap::new(),
        }
    }

    /// Forgets steps and windows: something else is declared now.
    pub(crate) fn forget(&mut self) {
        self.state = None;
        self.procedures.clear();
    }

    /// Replays a record of transactions. Returns it with all effects; `None` if the log holds them
    /// all. Where something runs again, all that was cut before the record is stable.
    ///
    /// # Errors
    /// The log contradicts itself, or what committed does not commit now.
    pub(crate) fn replay(
        &mut self,
        declared: &mut Declared,
        record: &TxnRecord,
    ) -> Result<Option<TxnRecord>, RuntimeError> {
        if !has_reruns(record) {
            for item in &record.items {
                self.forget_windows(item);
            }
            declared.replay(record)?;
            return Ok(None);
        }
        let base = self.store.pin_stable();
        match &mut self.state {
            None => self.state = Some(TransactionState::new(base)),
            Some(state) => {
                // The snapshot has all that ran so far.
                state.seal();
                state.advance(base);
            }
        }
        let mut items = Vec::with_capacity(record.items.len());
        for item in &record.items {
            match item {
                TxnItem::Entry(TxnEntry {
                    origin,
                    outcome: TxnOutcome::Rerun,
                }) => items.push(self.run_logged(declared, origin)?),
                TxnItem::Triggered(count) => {
                    for _ in 0..*count {
                        items.push(self.run_triggered(declared)?);
                    }
                }
                item => {
                    self.lay_over(declared, item)?;
                    items.push(item.clone());
                }
            }
        }
        Ok(Some(TxnRecord {
            received_ms: record.received_ms,
            items,
            released: record.released.clone(),
        }))
    }

    /// The windows of procedures slide in the core alone where effects are logged.
    fn forget_windows(&mut self, item: &TxnItem) {
        if let TxnItem::Entry(TxnEntry {
            origin: TxnOrigin::Round { consumed, .. },
            outcome: TxnOutcome::Committed { .. },
        }) = item
            && let Some(state) = &mut self.state
        {
            for of in consumed {
                let procedure = self.procedures.remove(&of.procedure);
                if let Some(Ok(steps)) = procedure.map(|procedure| procedure.steps) {
                    state.remove(steps);
                }
            }
        }
    }

    /// Lays what the log holds over the snapshot, for those that run again behind it.
    fn lay_over(&mut self, declared: &mut Declared, item: &TxnItem) -> Result<(), RuntimeError> {
        self.forget_windows(item);
        let state = self.state.as_mut().expect("it was made for the record");
        let lease = super::base::lease(&self.store);
        let mut txn = state.begin(self.limits.clone(), lease);
        if let TxnItem::Entry(TxnEntry {
            outcome: TxnOutcome::Committed {
                changes, emitted, ..
            },
            ..
        }) = item
        {
            let graph = |quad: &oxrdf::Quad| match &quad.graph_name {
                oxrdf::GraphName::DefaultGraph => somersault_model::TermId::DEFAULT_GRAPH,
                oxrdf::GraphName::NamedNode(name) => txn.id(&name.clone().into()),
                oxrdf::GraphName::BlankNode(node) => txn.id(&node.clone().into()),
            };
            let ids = |quad: &oxrdf::Quad| QuadIds {
                graph: graph(quad),
                subject: txn.id(&quad.subject.clone().into()),
                predicate: txn.id(&quad.predicate.clone().into()),
                object: txn.id(&quad.object),
            };
            for message in emitted {
                let statements: Vec<QuadIds> = message.statements.iter().map(ids).collect();
                let all = statements.iter();
                let ends = all.flat_map(|it| [it.subject, it.predicate, it.object]);
                let ends: Vec<_> = ends.collect();
                let terms = txn.dictionary().hold(ends.iter());
                let kept = Message::emitted(statements, terms);
                declared.keep(message.stream, message.place, kept);
            }
            let changes: Vec<(QuadIds, bool)> = (changes.iter())
                .map(|change| (ids(&change.quad), change.inserts))
                .collect();
            for (quad, inserts) in changes {
                match inserts {
                    true => txn.insert(quad),
                    false => txn.delete(quad),
                }
            }
        }
        txn.keep();
        declared.replay_item(item)
    }

    /// Runs a transaction of a logged origin again.
    fn run_logged(
        &mut self,
        declared: &mut Declared,
        logged: &TxnOrigin,
    ) -> Result<TxnItem, RuntimeError> {
        let Some(origin) = entries::origin(logged) else {
            let what = "the log asks for an update to run again; restore a checkpoint or a backup";
            return Err(RuntimeError::Internal(what.to_owned()));
        };
        let transaction = declared.core().again(&origin)?;
        let call = match logged {
            TxnOrigin::Call(call) => Some(call),
            _ => None,
        };
        self.run_again(declared, &transaction, call)
    }

    /// Runs the transaction again that is next because of those before it.
    fn run_triggered(&mut self, declared: &mut Declared) -> Result<TxnItem, RuntimeError> {
        let core = declared.core();
        let next = core.next().filter(|next| core.follows_from_entries(next));
        let Some(transaction) = next else {
            let what = "the log asks for a transaction to run again that no other has led to; restore a checkpoint or a backup";
            return Err(RuntimeError::Internal(what.to_owned()));
        };
        self.run_again(declared, &transaction, None)
    }

    /// Runs a transaction again. Returns its entry with its effects.
    fn run_again(
        &mut self,
        declared: &mut Declared,
        transaction: &Transaction,
        call: Option<&TxnCall>,
    ) -> Result<TxnItem, RuntimeError> {
        for uid in transaction.procedures() {
            self.install(declared, *uid)?;
        }
        let (entry, emitted, logged) = self
            .run(declared, transaction, call)
            .map_err(|abort| aborted(declared, transaction, &abort))?;
        let streams = emitted.keep_in(declared);
        declared.apply_event(&Event::Entry(entry))?;
        for stream in streams {
            declared.let_go(stream);
        }
        Ok(TxnItem::Entry(logged))
    }

    fn run(
        &mut self,
        declared: &Declared,
        transaction: &Transaction,
        call: Option<&TxnCall>,
    ) -> Result<(somersault_txn::Entry, EmittedMessages, TxnEntry), Abort> {
        let mut run = declared.core().run(transaction);
        let mut emitted = EmittedMessages::default();
        let state = self.state.as_mut().expect("it was made for the record");
        let lease = super::base::lease(&self.store);
        let mut answer = Vec::new();
        let mut txn = match call {
            Some(call) => {
                let now = run.step().map_or(call.received, |execution| execution.now);
                let limits = Execution {
                    now,
                    ..self.limits.clone()
                };
                let mut txn = state.begin(limits, lease);
                let procedure = &self.procedures[&transaction.procedures()[0]];
                let given = CallArguments::InOrder(call.arguments.clone());
                let (steps, arguments) = procedure.for_call(&given).map_err(Abort::stated)?;
                let runnable = (procedure, steps);
                let executed = execute_call(&mut txn, runnable, transaction, now, &arguments)?;
                if call.key.is_some() {
                    answer = executed.answer.to_bytes();
                }
                emitted.add(executed.emissions, &mut run, &procedure.emits);
                txn
            }
            None => {
                let mut txn = state.begin(self.limits.clone(), lease);
                let known = (&self.procedures, declared.messages());
                walk(
                    (&mut txn, &mut run),
                    known,
                    transaction.round(),
                    &mut emitted,
                )?;
                txn
            }
        };
        let entry = run.commit(answer);
        let changes = changes(&txn.effects()).into_iter().map(|it| TxnChange {
            quad: decode(it.quad, txn.dictionary()),
            inserts: it.inserts,
        });
        let changes = changes.collect();
        let messages = emitted.statements().map(|statements| {
            let statements = statements.iter();
            statements.map(|it| decode(*it, txn.dictionary())).collect()
        });
        let logged = entries::logged(&entry, changes, messages.collect());
        txn.keep();
        Ok((entry, emitted, logged))
    }

    /// Compiles the steps of a procedure, and fills its windows with what the core says.
    fn install(&mut self, declared: &Declared, uid: ProcedureUid) -> Result<(), RuntimeError> {
        if self.procedures.contains_key(&uid) {
            return Ok(());
        }
        let Some(text) = declared.procedures().get(&uid) else {
            let what = format!("procedure {} runs again and is not declared", uid.0);
            return Err(RuntimeError::Internal(what));
        };
        let state = self.state.as_mut().expect("it was made for the record");
        let compiled = CompiledProcedure::new(text).map_err(RuntimeError::Invalid)?;
        let steps = Ok(state.install(Arc::new(compiled)));
        let procedure = RunnableProcedure::new(text, steps, declared);
        let mut txn = state.begin(self.limits.clone(), super::base::lease(&self.store));
        fill_windows(&mut txn, &procedure, declared, uid)?;
        txn.keep();
        self.procedures.insert(uid, procedure);
        Ok(())
    }
}

/// The error of a transaction that committed before the restart.
fn aborted(declared: &Declared, transaction: &Transaction, abort: &Abort) -> RuntimeError {
    let names = transaction.procedures().iter();
    let names: Vec<String> = names.map(|uid| declared.core().name(*uid)).collect();
    RuntimeError::Invalid(format!(
        "{} of {} committed before the restart, and aborts when recovery runs it again: {}. Open the data folder with the version and the limits that wrote it, \
         or restore a checkpoint or a backup",
        transaction.round(),
        names.join(", "),
        abort.reason
    ))
}
