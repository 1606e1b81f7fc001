//! Updates: evaluated at SN n, their effects are SN n+1, with nothing between (S15). So the
//! sequencer takes no input while an update is evaluated; acknowledgements and firings go on
//! meanwhile.

use super::Sequencer;
use super::requests::{Change, UpdateJob, UpdateResult};
use super::stability::Waiter;
use crate::error::RuntimeError;
use crossbeam_channel::Sender;
use somersault_model::Sn;
use somersault_stream::Input;

impl Sequencer {
    /// Evaluates an update and takes its effects.
    pub(super) fn begin_update(&mut self, job: UpdateJob) -> Result<UpdateResult, RuntimeError> {
        self.cut_all().map_err(RuntimeError::not_taken)?;
        let evaluated_at = self.last_cut();
        self.wait_until(|sequencer| sequencer.shared.store.snapshots().stable() >= evaluated_at)
            .map_err(RuntimeError::not_taken)?;
        let snapshot = self.shared.store.pin_stable();
        if snapshot.sn() != evaluated_at {
            return Err(RuntimeError::Internal(format!(
                "an update was to be evaluated at {evaluated_at}, but {} is stable",
                snapshot.sn()
            )));
        }
        let before = self.shared.log.end();
        self.take_change(job(snapshot), evaluated_at)
            .map_err(|error| self.for_request(error, before))
    }

    /// Logs the effects of an update on the snapshot that it was evaluated at, and cuts.
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
        let received_ms = self.shared.clock.now_ms();
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
                segment,
                statements,
                inserted,
            }) => {
                result.inserted = inserted;
                self.shared.resolver.hand_over(&segment, statements);
                let taken = self.take(Input::Load {
                    received_ms,
                    segment: segment.clone(),
                });
                self.shared.resolver.forget(&segment);
                taken?;
            }
        }
        self.cut_all()?;
        result.sn = self.last_cut();
        Ok(result)
    }

    /// Answers when the effects are stable.
    pub(super) fn answer_update(
        &mut self,
        result: UpdateResult,
        reply: Sender<Result<UpdateResult, RuntimeError>>,
    ) {
        self.stability.wait(Waiter::Update { result, reply });
    }
}
