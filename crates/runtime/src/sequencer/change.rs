//! Changes: computed at SN n, their effects are SN n+1, with nothing between (S15). Documents are
//! written so, and updates that call other machines; all other updates run on the lane of
//! transactions.
//!
//! 1. Everything that can be made visible is cut, and the change waits until that SN is stable.
//! 2. Its job runs on a thread of its own, over the pinned SN.
//! 3. Its effects are logged, applied and cut, and its caller is answered when that SN is stable.
//!
//! Before changing anything here: from 1 to 3 no input is taken and nothing is cut.
//! Acknowledgements, firings and reads go on.

use super::requests::{Change, ChangeJob, Event, Reply};
use super::stability::Waiter;
use super::{Phase, Sequencer};
use crate::error::RuntimeError;
use crate::lane::UpdateResult;
use crossbeam_channel::Sender;
use somersault_model::Sn;
use somersault_store::Snapshot;
use somersault_stream::Input;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The way of an answer to a change.
pub(super) type ChangeReply = Reply<UpdateResult>;

/// A change that waits until the snapshot that it reads is stable.
pub(super) struct AwaitedSnapshot {
    job: ChangeJob,
    reply: ChangeReply,
    evaluated_at: Sn,
}

/// A change whose job runs.
pub(super) struct UnderEvaluation {
    reply: ChangeReply,
    evaluated_at: Sn,
}

/// The evaluation of a change, for a thread to run.
pub(crate) struct Evaluation {
    job: ChangeJob,
    snapshot: Snapshot,
    events: Sender<Event>,
}

impl Evaluation {
    /// Evaluates the change and sends the result to the sequencer.
    pub(crate) fn run(self) {
        let Evaluation {
            job,
            snapshot,
            events,
        } = self;
        let result = catch_unwind(AssertUnwindSafe(|| job(snapshot)));
        let result = result
            .map_err(|_| RuntimeError::Internal("the evaluation of a change panicked".to_owned()));
        // The sequencer may have ended.
        let _ = events.send(Event::ChangeEvaluated(result));
    }
}

impl Sequencer {
    /// Cuts, so that the change reads everything that was taken before it.
    pub(super) fn begin_change(&mut self, job: ChangeJob, reply: ChangeReply) {
        let ready = self.refuse_if_failed();
        // Until its effects are cut, no transaction commits.
        let ready = ready.and_then(|()| self.close_handover());
        let ready = ready.and_then(|()| self.cut_all());
        let ready = ready.map_err(RuntimeError::not_taken);
        match ready {
            Ok(()) => {
                self.phase = Phase::AwaitingSnapshot(AwaitedSnapshot {
                    job,
                    reply,
                    evaluated_at: self.coordinator.last_cut(),
                });
            }
            Err(error) => reply.send(Err(error)),
        }
    }

    /// Has the change evaluated that waits for its snapshot, if the snapshot is stable.
    pub(super) fn evaluate_awaited(&mut self) {
        let Phase::AwaitingSnapshot(change) = &self.phase else {
            return;
        };
        let is_stable = self.shared.store.snapshots().stable() >= change.evaluated_at;
        if !is_stable && self.failure.is_none() {
            return;
        }
        let Phase::AwaitingSnapshot(change) = std::mem::replace(&mut self.phase, Phase::Open)
        else {
            return;
        };
        let AwaitedSnapshot {
            job,
            reply,
            evaluated_at,
        } = change;
        if !is_stable {
            let error = self.failure.clone().unwrap_or(RuntimeError::Stopped);
            reply.send(Err(error.not_taken()));
            return;
        }
        let snapshot = self.shared.store.pin_stable();
        if snapshot.sn() != evaluated_at {
            reply.send(Err(RuntimeError::Internal(format!(
                "a change was to be evaluated at {evaluated_at}, but {} is stable",
                snapshot.sn()
            ))));
            return;
        }
        let evaluation = Evaluation {
            job,
            snapshot,
            events: self.events.clone(),
        };
        match self.evaluations.send(evaluation) {
            Ok(()) => {
                self.phase = Phase::EvaluatingChange(UnderEvaluation {
                    reply,
                    evaluated_at,
                });
            }
            Err(_) => reply.send(Err(RuntimeError::Stopped)),
        }
    }

    /// Takes the effects of the change that has been evaluated.
    pub(super) fn on_evaluated(&mut self, change: Result<Option<Change>, RuntimeError>) {
        let mut update = match std::mem::replace(&mut self.phase, Phase::Open) {
            Phase::EvaluatingChange(update) => update,
            other => {
                debug_assert!(false, "one change is evaluated at a time");
                self.phase = other;
                return;
            }
        };
        let before = self.log_end;
        let result = change
            .and_then(|change| self.take_change(change, update.evaluated_at))
            .map_err(|error| self.for_request(error, before));
        self.publish_credit();
        update.reply.release_credit();
        match result {
            Ok(result) => self.wait_stable(Waiter::Change {
                result,
                reply: update.reply,
            }),
            Err(error) => update.reply.send(Err(error)),
        }
    }

    /// Logs the effects of a change on the snapshot that it was evaluated at, and cuts.
    fn take_change(
        &mut self,
        change: Option<Change>,
        evaluated_at: Sn,
    ) -> Result<UpdateResult, RuntimeError> {
        let mut result = UpdateResult {
            evaluated_at,
            sn: evaluated_at,
            inserted: 0,
            deleted: 0,
            called_off: false,
        };
        let received_ms = self.now.ms;
        match change {
            None => {
                result.called_off = true;
                return Ok(result);
            }
            Some(Change::Effects(effects)) if effects.is_empty() => return Ok(result),
            Some(Change::Effects(effects)) => {
                result.inserted = effects.inserted();
                result.deleted = effects.deleted();
                self.take(Input::Update {
                    received_ms,
                    evaluated_at: Some(evaluated_at),
                    clears: effects.clears,
                    deletes: effects.deletes,
                    inserts: effects.inserts,
                })?;
            }
            Some(Change::Load {
                clears,
                segment,
                statements,
                inserted,
                deleted,
            }) => {
                (result.inserted, result.deleted) = (inserted, deleted);
                self.shared.resolver.hand_over(&segment, statements);
                let taken = self.take(Input::Load {
                    received_ms,
                    segment: segment.clone(),
                    clears,
                });
                self.shared.resolver.forget(&segment);
                taken?;
            }
        }
        self.cut_all()?;
        result.sn = self.coordinator.last_cut();
        Ok(result)
    }
}
