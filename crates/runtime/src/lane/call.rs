//! Calls: a transaction that runs a procedure once, with arguments.
//!
//! Before changing anything here: a call stays the first of its queue until it is answered or
//! handed over, so that calls run in their order however often one has to run again.

use super::answer::{AnswerRoom, CallAnswer, CallOutcome, UnreadOutcome};
use super::entries::{self, InLog};
use super::rounds::EmittedMessages;
use super::update::{UpdateOutcome, UpdateReply};
use super::{Lane, LaneRequest, RunnableProcedure, WaitingPlace};
use crate::error::RuntimeError;
use crate::slot::Answering;
use oxrdf::Term;
use somersault_dictionary::TermPin;
use somersault_lang::Argument;
use somersault_log::{TxnChange, TxnItem, TxnOrigin};
use somersault_model::{EventTime, Place, QuadIds, Sn, StreamUid, TermId};
use somersault_query::{
    Abort, Effects, Executed, Execution, ExecutionKey, NetEffects, Procedure, ProcedureInput, Txn,
};
use somersault_txn::{Answer, CallAdmission, Event, Key, Recovery, Round, Run, Transaction};
use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Under which a call is remembered: the number of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallKey {
    /// The source.
    pub source: String,
    /// Its number for the call.
    pub number: u64,
}

/// The arguments of a call.
#[derive(Clone, Debug, PartialEq)]
pub enum CallArguments {
    /// In the order of the parameters.
    InOrder(Vec<Term>),
    /// By the names of the parameters.
    ByName(Vec<(String, Argument)>),
}

/// The way of a call's answer.
pub(crate) type CallReply = Answering<Result<UnreadOutcome, RuntimeError>>;

/// A call that waits.
pub(crate) struct CallRequest {
    pub(crate) procedure: String,
    pub(crate) arguments: CallArguments,
    pub(crate) key: Option<CallKey>,
    /// Its limits.
    pub(crate) execution: Execution,
    pub(crate) reply: CallReply,
    /// When it was received: NOW() of its steps.
    pub(crate) received: EventTime,
    /// Where its answer waits to be read, if that is limited.
    pub(crate) room: Option<Arc<AnswerRoom>>,
    /// How often it had to run again.
    pub(crate) repeats: u32,
    /// Its memory while it waits.
    pub(crate) _place: WaitingPlace,
}

impl CallRequest {
    /// Whether the caller has called it off.
    pub(super) fn is_called_off(&self) -> bool {
        let abandoned = self.execution.abandoned.as_ref();
        abandoned.is_some_and(|flag| flag.load(Relaxed))
    }

    /// Answers a call of which nothing is in the log.
    pub(super) fn answer(&self, answer: Result<UnreadOutcome, RuntimeError>) {
        self.reply.send(answer);
    }

    /// The call as the handover takes it, with what is logged of it.
    fn handed_over(
        &self,
        outcome: UnreadOutcome,
        logged: Logged,
        terms: Vec<Arc<TermPin>>,
    ) -> Accepted {
        Accepted {
            logged,
            answered: Some(Answered::Call {
                outcome,
                reply: self.reply.clone(),
            }),
            released: Vec::new(),
            terms,
        }
    }
}

/// What is logged of a transaction.
pub(crate) enum Logged {
    /// Nothing: it changed nothing.
    Nothing,
    /// An item of a record that it shares with others. It is applied whole, whatever the log holds
    /// of it.
    Item(TxnItem<QuadIds>, InLog),
    /// A record of its own, which becomes a foreign cut.
    Alone(Box<Effects>),
}

/// A transaction that the handover has accepted.
pub(crate) struct Accepted {
    pub(crate) logged: Logged,
    /// The caller to answer when it is stable, with all before it.
    pub(crate) answered: Option<Answered>,
    /// For streams whose messages were let go before it: the first place that is still needed.
    pub(crate) released: Vec<(StreamUid, Place)>,
    /// What keeps the terms of its messages until they are logged.
    pub(crate) terms: Vec<Arc<TermPin>>,
}

/// An answer that waits for its SN.
pub(crate) enum Answered {
    Call {
        outcome: UnreadOutcome,
        reply: CallReply,
    },
    Update {
        outcome: UpdateOutcome,
        reply: UpdateReply,
    },
}

impl Answered {
    /// The effects are visible from this SN on.
    pub(crate) fn shown_at(&mut self, sn: Sn) {
        if let Answered::Update {
            outcome: UpdateOutcome::Done(result),
            ..
        } = self
        {
            result.sn = sn;
        }
    }

    /// Answers.
    pub(crate) fn send(self) {
        match self {
            Answered::Call { outcome, reply } => reply.send(Ok(outcome)),
            Answered::Update { outcome, reply } => reply.send(Ok(outcome)),
        }
    }

    /// Tells that the transaction may be lost.
    pub(crate) fn refuse(self, error: RuntimeError) {
        match self {
            Answered::Call { reply, .. } => reply.send(Err(error)),
            Answered::Update { reply, .. } => reply.send(Err(error)),
        }
    }
}

/// What running a transaction has come to.
pub(super) enum Ran {
    /// It is accepted.
    Accepted,
    /// It has to run again.
    Again,
    /// It was refused, and nothing has happened.
    Refused(RuntimeError),
}

impl RunnableProcedure {
    /// The steps, and the arguments in the order of the parameters.
    pub(super) fn for_call<'a>(
        &self,
        arguments: &'a CallArguments,
    ) -> Result<(&Procedure, Cow<'a, [Term]>), String> {
        let arguments = match arguments {
            CallArguments::InOrder(arguments) => {
                self.text.check_arguments(arguments)?;
                Cow::Borrowed(&arguments[..])
            }
            CallArguments::ByName(given) => self.text.named_arguments(given.clone())?.into(),
        };
        let steps = self.steps.as_ref().map_err(Clone::clone)?;
        Ok((steps, arguments))
    }
}

impl Lane {
    /// Runs the request that is next, if one waits. Whether one did.
    pub(super) fn run_next_request(&mut self) -> bool {
        match self.requests.pop_front() {
            None => return false,
            Some(LaneRequest::Call(call)) => self.run_request_of_call(call),
            Some(LaneRequest::Update(update)) => self.run_update(update),
            Some(LaneRequest::Analyse(request)) => self.run_analysis(request),
        }
        true
    }

    fn run_request_of_call(&mut self, mut call: CallRequest) {
        let ran = match self.admit(&call) {
            _ if call.is_called_off() => Ran::Refused(RuntimeError::CalledOff),
            Ok(CallAdmission::Run(transaction)) => {
                let uid = transaction.procedures()[0];
                let can_wait = || self.procedures[&uid].for_call(&call.arguments).is_ok();
                if self.declared.absent().contains(&uid) && can_wait() {
                    return self.waiting.push(uid, call);
                }
                self.run_call(&call, &transaction)
            }
            Ok(CallAdmission::Answered(answer)) => self.repeat(&call, answer),
            Err(error) => Ran::Refused(error),
        };
        match ran {
            Ran::Accepted => {}
            Ran::Refused(error) => {
                self.parts.counters.count_refusal();
                self.give_up_turn();
                call.answer(Err(error));
            }
            Ran::Again => {
                call.repeats += 1;
                self.run_again(call.repeats, LaneRequest::Call(call));
            }
        }
    }

    /// A transaction that had a turn needs it no more.
    pub(super) fn give_up_turn(&mut self) {
        self.parts.handover.set_wants_turn(false);
        (self.parts.wake)();
    }

    /// Puts a request that was overtaken first again. After the second time the sequencer waits for
    /// it.
    pub(super) fn run_again(&mut self, repeats: u32, request: LaneRequest) {
        if repeats >= 2 {
            self.parts.handover.set_wants_turn(true);
            (self.parts.wake)();
        }
        self.requests.push_front(request);
        self.wait_for_base();
    }

    fn admit(&self, call: &CallRequest) -> Result<CallAdmission, RuntimeError> {
        let key = call.key.clone().map(|key| Key {
            source: key.source,
            number: key.number,
        });
        let core = self.declared.core();
        Ok(core.call(&call.procedure, key, call.received)?)
    }

    /// Answers a call that was answered before, when that answer is stable.
    fn repeat(&mut self, call: &CallRequest, answer: Answer) -> Ran {
        let outcome = match answer {
            Answer::Aborted(reason) => CallOutcome::Aborted { reason },
            Answer::TooLong => CallOutcome::Answered(CallAnswer::NotKept),
            Answer::Done(bytes) => match CallAnswer::from_bytes(&bytes) {
                Some(answer) => CallOutcome::Answered(answer),
                None => {
                    let what = "a kept answer cannot be read; restore a backup".to_owned();
                    return Ran::Refused(RuntimeError::Internal(what));
                }
            },
        };
        self.parts.counters.count_repeat();
        self.follow(call, outcome.into());
        Ran::Accepted
    }

    /// Answers a call that changes nothing when all before it is stable.
    fn follow(&mut self, call: &CallRequest, outcome: UnreadOutcome) {
        self.hand_over_nothing(call.handed_over(outcome, Logged::Nothing, Vec::new()));
    }

    pub(super) fn hand_over_nothing(&mut self, accepted: Accepted) {
        self.base.accepted();
        let is_first = self.parts.handover.follow(accepted);
        self.announce(is_first);
    }

    fn run_call(&mut self, call: &CallRequest, transaction: &Transaction) -> Ran {
        let uid = transaction.procedures()[0];
        let procedure = &self.procedures[&uid];
        let (steps, arguments) = match procedure.for_call(&call.arguments) {
            Ok(ready) => ready,
            Err(reason) => return Ran::Refused(RuntimeError::Invalid(reason)),
        };
        let base = self.base.state().base().sn();
        if !self.parts.handover.admits(base) {
            return Ran::Again;
        }
        let mut run = self.declared.core().run(transaction);
        let now = run.step().map_or(call.received, |execution| execution.now);
        let execution = Execution {
            now,
            ..call.execution.clone()
        };
        let mut txn = self.base.begin(execution);
        let runnable = (procedure, steps);
        let executed = match execute_call(&mut txn, runnable, transaction, now, &arguments) {
            Ok(executed) => executed,
            Err(abort) => {
                drop(txn);
                return self.abort(call, base, transaction, &abort);
            }
        };
        let answer = executed.answer;
        let kept = call.key.as_ref().map(|_| answer.to_bytes());
        let outcome = match UnreadOutcome::answered(answer, call.room.as_ref()) {
            Ok(outcome) => outcome,
            Err(error) => return Ran::Refused(error),
        };
        let changes = changes(&txn.effects());
        let mut emitted = EmittedMessages::default();
        emitted.add(executed.emissions, &mut run, &procedure.emits);
        if changes.is_empty() && emitted.is_empty() && call.key.is_none() {
            txn.keep();
            self.parts.counters.count_call(None);
            self.follow(call, outcome);
            return Ran::Accepted;
        }
        let entry = run.commit(kept.unwrap_or_default());
        let mut logged = entries::logged(&entry, changes, emitted.logged());
        let is_rerun = self.declared.core().recovery(uid) == Recovery::Weak;
        if let TxnOrigin::Call(logged) = &mut logged.origin
            && is_rerun
        {
            logged.arguments = arguments.into_owned();
        }
        let in_log = if is_rerun {
            InLog::Origin
        } else {
            InLog::Whole
        };
        let logged = Logged::Item(TxnItem::Entry(logged), in_log);
        let accepted = call.handed_over(outcome, logged, emitted.terms());
        match self.parts.handover.commit(base, accepted) {
            Err(_) => Ran::Again,
            Ok(is_first) => {
                txn.keep();
                self.parts.counters.count_call(None);
                self.enter(&Event::Entry(entry), emitted, is_first);
                Ran::Accepted
            }
        }
    }

    /// Ends a call that aborted. One with a key is logged: it is answered the same from now on.
    fn abort(
        &mut self,
        call: &CallRequest,
        base: Sn,
        transaction: &Transaction,
        abort: &Abort,
    ) -> Ran {
        if abort.is_interruption() {
            let is_stopped = call.execution.cancel.as_ref();
            return match is_stopped.is_some_and(|flag| flag.load(Relaxed)) {
                true => Ran::Refused(RuntimeError::Stopped),
                false => Ran::Again,
            };
        }
        let outcome = UnreadOutcome::from(CallOutcome::Aborted {
            reason: abort.reason.clone(),
        });
        if call.key.is_none() {
            self.parts.counters.count_call(Some(abort.cause));
            self.follow(call, outcome);
            return Ran::Accepted;
        }
        let mut run: Run<'_> = self.declared.core().run(transaction);
        run.step();
        let entry = run.abort(abort.reason.clone());
        let logged = entries::logged(&entry, Vec::new(), Vec::new());
        let logged = Logged::Item(TxnItem::Entry(logged), InLog::Whole);
        let accepted = call.handed_over(outcome, logged, Vec::new());
        match self.parts.handover.commit(base, accepted) {
            Err(_) => Ran::Again,
            Ok(is_first) => {
                self.parts.counters.count_call(Some(abort.cause));
                self.enter(&Event::Entry(entry), EmittedMessages::default(), is_first);
                Ran::Accepted
            }
        }
    }
}

/// Runs the steps of a called procedure.
pub(super) fn execute_call(
    txn: &mut Txn<'_>,
    (procedure, steps): (&RunnableProcedure, &Procedure),
    transaction: &Transaction,
    now: EventTime,
    arguments: &[Term],
) -> Result<Executed<CallAnswer>, Abort> {
    let arguments: Vec<TermId> = arguments.iter().map(|term| txn.id(term)).collect();
    let (Round::Call(round) | Round::Batch(round)) = transaction.round();
    let input = ProcedureInput {
        key: ExecutionKey {
            procedure: transaction.procedures()[0].0,
            is_call: true,
            round,
        },
        now,
        arguments: &arguments,
        batches: &[],
        slides: &[],
    };
    procedure.execute(txn, steps, &input)
}

/// The changes of a transaction, in an order in which neighbours share terms.
pub(super) fn changes(effects: &NetEffects) -> Vec<TxnChange<QuadIds>> {
    let change = |inserts| {
        move |quad: &QuadIds| TxnChange {
            quad: *quad,
            inserts,
        }
    };
    let deletes = effects.deletes.iter().map(change(false));
    let inserts = effects.inserts.iter().map(change(true));
    let mut all: Vec<TxnChange<QuadIds>> = deletes.chain(inserts).collect();
    all.sort_unstable_by_key(|change| {
        let quad = &change.quad;
        (
            quad.graph,
            quad.subject,
            quad.predicate,
            change.inserts,
            quad.object,
        )
    });
    all
}
