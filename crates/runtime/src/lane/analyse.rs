//! Calls that are analysed: each runs like a call, in a transaction that is undone.
//!
//! Before changing anything here: nothing of it may stay, in the log, in the core or in the
//! dictionary. So its effects are looked at, and not asked for as those of a commit.

use super::answer::CallOutcome;
use super::call::{CallArguments, execute_call};
use super::{Lane, LaneRequest};
use crate::error::RuntimeError;
use crate::slot::Answering;
use oxrdf::{NamedNode, Quad};
use somersault_lang::CreateProcedure;
use somersault_model::{EventTime, QuadIds, Sn};
use somersault_query::{Emission, Execution, StepTrace, Txn, decode};
use somersault_txn::CallAdmission;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The statements and messages of a call that are shown.
const SHOWN: usize = 100;

/// What a call would have done.
#[derive(Debug)]
pub struct CallAnalysis {
    /// The declaration of the procedure.
    pub declaration: Arc<CreateProcedure>,
    /// The snapshot below all that it read.
    pub base: Sn,
    /// How it would have ended.
    pub outcome: CallOutcome,
    /// The time that it took, with that of the plans that are shown.
    pub time: Duration,
    /// Its steps, each before those inside of it.
    pub steps: Vec<StepTrace>,
    /// What it would have changed.
    pub effects: AnalysedEffects,
}

/// What a call would have left.
#[derive(Debug, Default)]
pub struct AnalysedEffects {
    /// The number of statements that it would have deleted.
    pub deleted: u64,
    /// The number of statements that it would have inserted.
    pub inserted: u64,
    /// The number of messages that it would have emitted.
    pub emitted: u64,
    /// The first of the deleted statements.
    pub deletes: Vec<Quad>,
    /// The first of the inserted statements.
    pub inserts: Vec<Quad>,
    /// The first of the messages, with their streams.
    pub messages: Vec<(NamedNode, Vec<Quad>)>,
}

/// A call that is to be analysed.
pub(crate) struct AnalyseRequest {
    pub(crate) procedure: String,
    pub(crate) arguments: CallArguments,
    /// Its limits.
    pub(crate) execution: Execution,
    pub(crate) reply: Answering<Result<CallAnalysis, RuntimeError>>,
    /// When it was received: NOW() of its steps.
    pub(crate) received: EventTime,
    /// How often it had to run again.
    pub(crate) repeats: u32,
}

impl AnalysedEffects {
    fn of(txn: &Txn<'_>, emissions: &[Emission], streams: &[&NamedNode]) -> AnalysedEffects {
        let (net, dictionary) = (txn.effects_so_far(), txn.dictionary());
        let shown = |ids: &[QuadIds]| -> Vec<Quad> {
            let first = ids.iter().take(SHOWN);
            first.map(|quad| decode(*quad, dictionary)).collect()
        };
        let message = |it: &Emission| {
            let stream = streams[it.stream].clone();
            (stream, shown(&it.statements))
        };
        AnalysedEffects {
            deleted: net.deletes.len() as u64,
            inserted: net.inserts.len() as u64,
            emitted: emissions.len() as u64,
            deletes: shown(&net.deletes),
            inserts: shown(&net.inserts),
            messages: emissions.iter().take(SHOWN).map(message).collect(),
        }
    }
}

impl AnalyseRequest {
    pub(super) fn answer(&self, answer: Result<CallAnalysis, RuntimeError>) {
        // A caller that no longer waits is no error.
        self.reply.send(answer);
    }
}

/// An analysis is given up after this many interruptions.
const MOST_REPEATS: u32 = 8;

impl Lane {
    /// Runs a call that is analysed, which is answered or first again.
    pub(super) fn run_analysis(&mut self, mut request: AnalyseRequest) {
        match self.analyse(&request) {
            Ok(Some(analysis)) => request.answer(Ok(analysis)),
            Ok(None) if request.repeats < MOST_REPEATS => {
                request.repeats += 1;
                self.requests.push_front(LaneRequest::Analyse(request));
                self.wait_for_base();
            }
            Ok(None) => {
                let what = "other transactions overtook the call each time; ask again";
                request.answer(Err(RuntimeError::Invalid(what.to_owned())));
            }
            Err(error) => request.answer(Err(error)),
        }
    }

    /// What a call would do now; `None` if it has to run again.
    fn analyse(&mut self, request: &AnalyseRequest) -> Result<Option<CallAnalysis>, RuntimeError> {
        let core = self.declared.core();
        let CallAdmission::Run(transaction) =
            core.call(&request.procedure, None, request.received)?
        else {
            let what = "a call without a key was answered before";
            return Err(RuntimeError::Internal(what.to_owned()));
        };
        let uid = transaction.procedures()[0];
        let procedure = &self.procedures[&uid];
        let ready = procedure.for_call(&request.arguments);
        let (steps, arguments) = ready.map_err(RuntimeError::Invalid)?;
        let base = self.base.state().base().sn();
        if !self.parts.handover.admits(base) {
            return Ok(None);
        }
        let execution = Execution {
            now: request.received,
            ..request.execution.clone()
        };
        let begun = Instant::now();
        let mut txn = self.base.begin(execution);
        txn.begin_trace();
        let runnable = (procedure, steps);
        let executed = execute_call(
            &mut txn,
            runnable,
            &transaction,
            request.received,
            &arguments,
        );
        let time = begun.elapsed();
        let mut effects = AnalysedEffects::default();
        let outcome = match executed {
            Err(abort) if abort.is_interruption() => return Ok(None),
            Err(abort) => CallOutcome::Aborted {
                reason: abort.reason,
            },
            Ok(executed) => {
                let streams = procedure.text.emits();
                effects = AnalysedEffects::of(&txn, &executed.emissions, &streams);
                CallOutcome::Answered(executed.answer)
            }
        };
        let steps = txn.take_trace();
        // Undoes all.
        drop(txn);
        Ok(Some(CallAnalysis {
            declaration: Arc::clone(&procedure.text),
            base,
            outcome,
            time,
            steps,
            effects,
        }))
    }
}
