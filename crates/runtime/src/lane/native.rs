//! Native procedures: the bodies that a program has registered, and what waits for the others.
//!
//! 1. A native procedure is declared like any other; log and checkpoints hold its declaration.
//! 2. Its body is a closure, which they cannot hold. After a start it is absent until the program
//!    registers it: rounds that lead to it do not begin, and its calls wait here.
//! 3. A call that has waited for the time of a call is refused; nothing of it has happened.
//!
//! Before changing anything here: no closure runs while the log is replayed. So RECOVERY WEAK is
//! refused for native procedures (ADR 61).

use super::answer::CallAnswer;
use super::call::CallRequest;
use super::{Declared, Lane, LaneRequest, RunnableProcedure};
use crate::error::RuntimeError;
use somersault_lang::{CreateDataflow, CreateProcedure, Recovery};
use somersault_model::ProcedureUid;
use somersault_query::{Abort, Executed, NativeRun, Procedure, ProcedureInput, Txn};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// The body of a native procedure with this declaration. It runs again if its transaction is
/// overtaken.
pub type NativeBody = Arc<
    dyn Fn(&Arc<CreateProcedure>, NativeRun<'_, '_>) -> Result<CallAnswer, Abort> + Send + Sync,
>;

/// A program gives the body of a procedure.
pub(crate) struct Registration {
    pub(crate) procedure: String,
    pub(crate) body: NativeBody,
    pub(crate) reply: Box<dyn FnOnce(Result<(), RuntimeError>) + Send>,
}

/// Calls that wait for a body, in their order.
#[derive(Default)]
pub(super) struct WaitingCalls(VecDeque<WaitingCall>);

struct WaitingCall {
    call: CallRequest,
    procedure: ProcedureUid,
    since: Instant,
}

impl WaitingCall {
    fn patience(&self) -> Duration {
        self.call.execution.limits.query_time
    }
}

impl WaitingCalls {
    pub(super) fn push(&mut self, procedure: ProcedureUid, call: CallRequest) {
        let since = Instant::now();
        self.0.push_back(WaitingCall {
            call,
            procedure,
            since,
        });
    }

    /// The time until the first of them has waited long enough; `None` if none waits.
    pub(super) fn patience(&self) -> Option<Duration> {
        let left = |it: &WaitingCall| it.patience().saturating_sub(it.since.elapsed());
        self.0.iter().map(left).min()
    }

    /// Takes those that need not wait any longer.
    fn take(&mut self, is_over: impl Fn(&WaitingCall) -> bool) -> Vec<CallRequest> {
        let (over, others): (VecDeque<_>, _) = self.0.drain(..).partition(is_over);
        self.0 = others;
        over.into_iter().map(|it| it.call).collect()
    }

    pub(super) fn take_all(&mut self) -> Vec<CallRequest> {
        self.take(|_| true)
    }
}

impl RunnableProcedure {
    /// Runs its steps or its body.
    pub(super) fn execute(
        &self,
        txn: &mut Txn<'_>,
        steps: &Procedure,
        input: &ProcedureInput<'_>,
    ) -> Result<Executed<CallAnswer>, Abort> {
        if self.text.native.is_none() {
            let executed = txn.execute(steps, input)?;
            return Ok(Executed {
                emissions: executed.emissions,
                answer: CallAnswer::of(executed.answer, txn.dictionary()),
            });
        }
        let Some(body) = &self.body else {
            let name = &self.text.name;
            return Err(Abort::stated(format!(
                "the program has not registered the body of procedure {name}"
            )));
        };
        txn.execute_native(steps, input, |run| body(&self.text, run))
    }
}

impl Lane {
    /// Takes the body of a native procedure, and the calls that wait for it.
    pub(super) fn register(&mut self, registration: Registration) {
        let Registration {
            procedure: name,
            body,
            reply,
        } = registration;
        let uid = self.declared.uid(&name);
        let known = uid.and_then(|uid| Some((uid, self.procedures.get_mut(&uid)?)));
        let Some((uid, procedure)) = known else {
            let refusal = somersault_txn::Refusal::NotFound {
                kind: "procedure",
                name,
            };
            return reply(Err(refusal.into()));
        };
        if procedure.text.native.is_none() {
            return reply(Err(RuntimeError::Invalid(format!(
                "the steps of procedure {name} stand in its declaration; to give it a body in Rust, declare it with AS NATIVE"
            ))));
        }
        procedure.body = Some(body);
        self.declared.body_is_there(uid);
        self.parts.counters.note_absent(&self.declared);
        self.release_waiting();
        // Rounds that waited for it are due now, of which the sequencer has not heard.
        let told = self.told.wrapping_sub(1);
        self.parts.idle.store(told, Relaxed);
        reply(Ok(()));
    }

    /// Lets calls go on whose procedure is absent no more. They stand before those that came later.
    pub(super) fn release_waiting(&mut self) {
        let absent = self.declared.absent();
        let released = self.waiting.take(|it| !absent.contains(&it.procedure));
        for call in released.into_iter().rev() {
            self.requests.push_front(LaneRequest::Call(call));
        }
    }

    /// Answers calls that have waited for a body for the time of a call, or that were called off.
    pub(super) fn give_up_waiting(&mut self) {
        let over = self
            .waiting
            .take(|it| it.call.is_called_off() || it.since.elapsed() >= it.patience());
        for call in over {
            let error = match call.is_called_off() {
                true => RuntimeError::CalledOff,
                false => RuntimeError::NoBody {
                    procedure: call.procedure.clone(),
                    waited_ms: call.execution.limits.query_time.as_millis(),
                },
            };
            self.parts.counters.count_refusal();
            call.answer(Err(error));
        }
    }
}

impl Declared {
    /// Whether a native procedure may be declared with the recovery of its dataflow.
    pub(super) fn check_recovery(
        &self,
        procedure: Option<&CreateProcedure>,
        dataflow: Option<&CreateDataflow>,
    ) -> Result<(), RuntimeError> {
        let is_weak = |it: &&CreateDataflow| it.recovery == Recovery::Weak;
        let names = |flow: &CreateDataflow, name: &str| {
            let mut parts = flow.parts.iter().flat_map(|part| part.procedures());
            parts.any(|it| it == name)
        };
        let found = match (procedure, dataflow.filter(is_weak)) {
            (Some(procedure), _) if procedure.native.is_some() => {
                let mut flows = self.dataflow_texts().filter(is_weak);
                let flow = flows.find(|flow| names(flow, &procedure.name));
                flow.map(|flow| (&procedure.name, &flow.name))
            }
            (_, Some(flow)) => {
                let mut natives = self.procedures().values().filter(|it| it.native.is_some());
                let native = natives.find(|it| names(flow, &it.name));
                native.map(|native| (&native.name, &flow.name))
            }
            _ => None,
        };
        match found {
            None => Ok(()),
            Some((procedure, dataflow)) => Err(RuntimeError::Invalid(format!(
                "dataflow {dataflow} has RECOVERY WEAK, which runs procedures again at the start, and the body of native procedure {procedure} is not there then; declare the dataflow with RECOVERY STRONG"
            ))),
        }
    }
}
