//! Recovery: the log is applied from its beginning, through the same code as live inputs, so that
//! state and answers equal those of a run without the crash (RC-1). Of the firings, only those that
//! subscribers may still ask for are executed again (S12).
//!
//! Each step applies as many records as shards and firings have room for.

use super::{Phase, Sequencer};
use crate::error::RuntimeError;
use crossbeam_channel::Sender;
use somersault_log::{Position, Recovered};
use somersault_stream::{PushStatements, Record};

/// At most this many records are applied in one step.
const RECORDS_IN_A_STEP: usize = 256;

/// A log that is being replayed.
pub(super) struct Recovery {
    stage: Stage,
    /// Told once: the engine may begin, or it cannot.
    ready: Sender<Result<(), RuntimeError>>,
}

enum Stage {
    /// Applies records.
    Records(Box<Records>),
    /// Makes the cuts that the crash left undone.
    Cuts,
    /// Waits until derived streams and shards have caught up.
    Settling,
    Done,
}

/// The records of a log that are not applied yet.
struct Records {
    recovered: Recovered,
    /// A record that waits until the shards have caught up.
    waiting: Option<(Position, Record)>,
}

impl Recovery {
    /// The replay of these records. `ready` is told when the engine can begin.
    pub(super) fn new(
        recovered: Option<Recovered>,
        ready: Sender<Result<(), RuntimeError>>,
    ) -> Recovery {
        let stage = recovered.map_or(Stage::Done, |recovered| {
            let waiting = None;
            Stage::Records(Box::new(Records { recovered, waiting }))
        });
        Recovery { stage, ready }
    }
}

impl Sequencer {
    /// Goes on with the replay, as far as shards and firings have room. Whether more can be done at
    /// once.
    pub(super) fn recover(&mut self) -> bool {
        let Phase::Recovering(mut recovery) = std::mem::replace(&mut self.phase, Phase::Ended)
        else {
            return false;
        };
        let result = match self.failure.clone() {
            Some(error) => Err(error),
            None => self.replay(&mut recovery.stage),
        };
        match result {
            Ok(_) if matches!(recovery.stage, Stage::Done) => {
                self.phase = Phase::Open;
                let _ = recovery.ready.send(Ok(()));
                true
            }
            Ok(has_more) => {
                self.phase = Phase::Recovering(recovery);
                has_more
            }
            Err(error) => {
                let _ = recovery.ready.send(Err(error));
                false
            }
        }
    }

    fn replay(&mut self, stage: &mut Stage) -> Result<bool, RuntimeError> {
        match stage {
            Stage::Records(records) => {
                let has_more = self.replay_records(records)?;
                if has_more.is_none() {
                    // The remaining closes are cut in slices while the engine answers.
                    self.cut_due()?;
                    *stage = Stage::Cuts;
                }
                Ok(has_more.unwrap_or(true))
            }
            Stage::Cuts => {
                let has_more = self.cut_slice();
                if self.has_turn() {
                    return Ok(has_more);
                }
                self.cut_all()?;
                *stage = Stage::Settling;
                Ok(true)
            }
            Stage::Settling => {
                // Statements of derived streams that the log does not hold may make further closes
                // due.
                if !self.derived.is_empty() {
                    self.take_derived();
                    *stage = Stage::Cuts;
                    return Ok(true);
                }
                // The first reader sees all that was acknowledged; firings may still be under way.
                if self.delivery.oldest_underived().is_none() && self.stability.unstable() == 0 {
                    *stage = Stage::Done;
                }
                Ok(false)
            }
            Stage::Done => Ok(false),
        }
    }

    /// Applies records; `None` if there are no more, else whether more can be applied at once.
    fn replay_records(&mut self, records: &mut Records) -> Result<Option<bool>, RuntimeError> {
        for _ in 0..RECORDS_IN_A_STEP {
            // Shards and firings may lag as far behind as with live inputs.
            if self.is_backlogged() {
                return Ok(Some(false));
            }
            let next = match records.waiting.take() {
                Some(next) => Some(next),
                None => {
                    let next = records.recovered.next().transpose()?;
                    next.map(|(position, record)| {
                        (position, record.map_statements(PushStatements::from))
                    })
                }
            };
            let Some((position, record)) = next else {
                return Ok(None);
            };
            // The statements of one load are held at a time, as when they were loaded.
            if matches!(record, Record::Load(_)) && self.stability.unstable() > 0 {
                records.waiting = Some((position, record));
                return Ok(Some(false));
            }
            self.apply(&record, position)?;
        }
        Ok(Some(true))
    }
}
