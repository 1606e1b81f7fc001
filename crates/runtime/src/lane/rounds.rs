//! Rounds: transactions that messages lead to.
//!
//! Before changing anything here: a round runs as the core walks it, execution by execution. What
//! it emits is seen inside it at once, and outside when it is accepted.

use super::call::{Logged, Ran, changes};
use super::entries::{self, InLog};
use super::messages::{Message, Messages};
use super::{Accepted, Declared, Lane, RunnableProcedure};
use crate::error::RuntimeError;
use somersault_dictionary::TermPin;
use somersault_log::TxnItem;
use somersault_model::{Place, ProcedureUid, QuadIds, StreamUid};
use somersault_query::{
    Abort, Emission, Execution as Limits, ExecutionKey, ProcedureInput, Txn, WindowSlide,
};
use somersault_txn::{Event, Execution, Recovery, Round, Run, Transaction};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The messages that a transaction has emitted, in their order.
#[derive(Default)]
pub(super) struct EmittedMessages(Vec<(StreamUid, Place, Message)>);

impl EmittedMessages {
    /// The core gives the messages of an execution their places.
    pub(super) fn add(&mut self, emissions: Vec<Emission>, run: &mut Run<'_>, uids: &[StreamUid]) {
        for emission in emissions {
            let emitted = run.emit(uids[emission.stream]);
            let message = Message::emitted(emission.statements, emission.terms);
            self.0.push((emitted.stream, emitted.place, message));
        }
    }

    fn get(&self, stream: StreamUid, place: Place) -> Option<&[QuadIds]> {
        let mut all = self.0.iter();
        let found = all.find(|(of, at, _)| (*of, *at) == (stream, place));
        found.map(|(.., message)| &message.statements[..])
    }

    /// Keeps the messages. Returns their streams.
    pub(super) fn keep_in(self, declared: &mut Declared) -> BTreeSet<StreamUid> {
        let mut streams = BTreeSet::new();
        for (stream, place, message) in self.0 {
            declared.keep(stream, place, message);
            streams.insert(stream);
        }
        streams
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The statements of each message.
    pub(super) fn statements(&self) -> impl Iterator<Item = &[QuadIds]> {
        self.0.iter().map(|(.., message)| &message.statements[..])
    }

    /// The statements of each message, as the log takes them.
    pub(super) fn logged(&self) -> Vec<Vec<QuadIds>> {
        self.statements().map(<[QuadIds]>::to_vec).collect()
    }

    /// What keeps their terms.
    pub(super) fn terms(&self) -> Vec<Arc<TermPin>> {
        let terms = self.0.iter().map(|(.., message)| message.terms.clone());
        terms.flatten().collect()
    }
}

/// Where an execution finds messages.
struct Source<'m> {
    kept: &'m Messages,
    emitted: &'m EmittedMessages,
}

impl<'m> Source<'m> {
    fn get(&self, stream: StreamUid, place: Place) -> &'m [QuadIds] {
        let kept = self.kept.get(stream, place);
        kept.or_else(|| self.emitted.get(stream, place))
            .expect("the lane keeps what the core says is needed")
    }
}

/// Runs one procedure on its batches.
fn execute(
    txn: &mut Txn<'_>,
    procedure: &RunnableProcedure,
    execution: &Execution,
    round: Round,
    source: &Source<'_>,
) -> Result<Vec<Emission>, Abort> {
    let steps = (procedure.steps.as_ref()).map_err(|reason| Abort::stated(reason.clone()))?;
    let batches: Vec<Vec<&[QuadIds]>> = (execution.batches.iter())
        .map(|(stream, batch)| {
            let places = batch.iter().flat_map(|batch| batch.places.iter());
            places.map(|place| source.get(*stream, place)).collect()
        })
        .collect();
    let slides: Vec<WindowSlide<'_>> = (execution.slides.iter())
        .map(|slide| {
            let stream = procedure.windows[slide.window];
            let all = |places: &[Place]| {
                let places = places.iter();
                places.map(|place| source.get(stream, *place)).collect()
            };
            WindowSlide {
                window: slide.window,
                leave: all(&slide.leave),
                enter: all(&slide.enter),
                sets_off: slide.sets_off,
            }
        })
        .collect();
    let (is_call, number) = match round {
        Round::Batch(number) => (false, number),
        Round::Call(number) => (true, number),
    };
    let input = ProcedureInput {
        key: ExecutionKey {
            procedure: execution.procedure.0,
            is_call,
            round: number,
        },
        now: execution.now,
        arguments: &[],
        batches: &batches,
        slides: &slides,
    };
    let executed = procedure.execute(txn, steps, &input)?;
    Ok(executed.emissions)
}

/// Runs the executions of a transaction, one after the other.
pub(super) fn walk(
    (txn, run): (&mut Txn<'_>, &mut Run<'_>),
    (procedures, kept): (&BTreeMap<ProcedureUid, RunnableProcedure>, &Messages),
    round: Round,
    emitted: &mut EmittedMessages,
) -> Result<(), Abort> {
    while let Some(execution) = run.step() {
        let procedure = &procedures[&execution.procedure];
        let source = Source { kept, emitted };
        let emissions = execute(txn, procedure, &execution, round, &source)?;
        emitted.add(emissions, run, &procedure.emits);
    }
    Ok(())
}

impl Lane {
    /// Runs a transaction that messages lead to. Whether it is accepted.
    pub(super) fn run_round(&mut self, transaction: &Transaction) -> Ran {
        let base = self.base.state().base().sn();
        if !self.parts.handover.admits(base) {
            return Ran::Again;
        }
        let (core, kept) = (self.declared.core(), self.declared.messages());
        let mut run = core.run(transaction);
        let mut emitted = EmittedMessages::default();
        let limits = Limits {
            started: None,
            deadline: None,
            ..self.parts.execution.clone()
        };
        let mut txn = self.base.begin(limits);
        let aborted = walk(
            (&mut txn, &mut run),
            (&self.procedures, kept),
            transaction.round(),
            &mut emitted,
        );
        let aborted = aborted.err();
        let cause = aborted.as_ref().map(|abort| abort.cause);
        let (entry, logged) = match aborted {
            Some(abort) if abort.is_interruption() => return Ran::Again,
            Some(abort) => {
                drop(std::mem::take(&mut emitted));
                let entry = run.abort(abort.reason);
                let logged = entries::logged(&entry, Vec::new(), Vec::new());
                (entry, logged)
            }
            None => {
                let entry = run.commit(Vec::new());
                let changes = changes(&txn.effects());
                let logged = entries::logged(&entry, changes, emitted.logged());
                (entry, logged)
            }
        };
        let in_log = in_log(&self.declared, transaction, cause.is_some());
        let accepted = Accepted {
            logged: Logged::Item(TxnItem::Entry(logged), in_log),
            answered: None,
            released: std::mem::take(&mut self.released),
            terms: emitted.terms(),
        };
        match self.parts.handover.commit(base, accepted) {
            Err(accepted) => {
                self.released = accepted.released;
                Ran::Again
            }
            Ok(is_first) => {
                match cause {
                    None => txn.keep(),
                    Some(_) => drop(txn),
                }
                self.parts.counters.count_round(cause);
                self.enter(&Event::Entry(entry), emitted, is_first);
                if cause.is_some() {
                    self.parts.counters.note_stopped(&self.declared);
                }
                Ran::Accepted
            }
        }
    }

    /// Applies a transaction that the handover has accepted, and keeps its messages.
    pub(super) fn enter(&mut self, event: &Event, emitted: EmittedMessages, is_first: bool) {
        self.base.accepted();
        let streams = emitted.keep_in(&mut self.declared);
        match self.declared.apply_event(event) {
            Ok(released) => self.released.extend(released),
            Err(error) => self.fail(error),
        }
        for stream in streams {
            self.declared.let_go(stream);
        }
        self.announce(is_first);
    }

    /// Hands over the times that interior streams are complete through, if they have changed.
    pub(super) fn hand_over_advances(&mut self) -> bool {
        let advances = self.declared.core().advances();
        if advances.is_empty() {
            return false;
        }
        let base = self.base.state().base().sn();
        let accepted = Accepted {
            logged: Logged::Item(TxnItem::Advance(advances.clone()), InLog::Whole),
            answered: None,
            released: std::mem::take(&mut self.released),
            terms: Vec::new(),
        };
        match self.parts.handover.commit(base, accepted) {
            Err(accepted) => {
                self.released = accepted.released;
                self.wait_for_base();
                false
            }
            Ok(is_first) => {
                self.enter(
                    &Event::Advance(advances),
                    EmittedMessages::default(),
                    is_first,
                );
                true
            }
        }
    }

    /// Fills the owned windows of a procedure after a restart.
    pub(super) fn fill_windows(&mut self, uid: ProcedureUid) -> Result<(), RuntimeError> {
        let Some(procedure) = self.procedures.get(&uid) else {
            return Ok(());
        };
        let mut txn = self.base.begin(self.parts.execution.clone());
        fill_windows(&mut txn, procedure, &self.declared, uid)?;
        txn.keep();
        Ok(())
    }
}

/// Fills the owned windows of a procedure, which are empty, with what the core says.
pub(super) fn fill_windows(
    txn: &mut Txn<'_>,
    procedure: &RunnableProcedure,
    declared: &Declared,
    uid: ProcedureUid,
) -> Result<(), RuntimeError> {
    let Ok(steps) = &procedure.steps else {
        return Ok(());
    };
    let (core, kept) = (declared.core(), declared.messages());
    for (number, stream) in procedure.windows.iter().enumerate() {
        let shown = core.window(uid, number).map(|place| {
            kept.get(*stream, place).ok_or_else(|| {
                let what = format!("message {} of a window is not kept", place.0);
                RuntimeError::Internal(what)
            })
        });
        let shown: Vec<&[QuadIds]> = shown.collect::<Result<_, _>>()?;
        txn.slide(steps, number, [], shown);
    }
    Ok(())
}

/// What the log has of a transaction that messages led to.
fn in_log(declared: &Declared, transaction: &Transaction, has_aborted: bool) -> InLog {
    let core = declared.core();
    match core.recovery(transaction.procedures()[0]) {
        Recovery::Strong => InLog::Whole,
        Recovery::Weak if has_aborted => InLog::Whole,
        // While a procedure is absent, others are not next by the entries alone.
        Recovery::Weak
            if core.follows_from_entries(transaction) && declared.absent().is_empty() =>
        {
            InLog::Count
        }
        Recovery::Weak => InLog::Origin,
    }
}
