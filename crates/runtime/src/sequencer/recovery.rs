//! Recovery: the log is applied from its beginning, through the same code as live inputs, so that
//! state and answers equal those of a run without the crash (RC-1). Of the firings, only those that
//! subscribers may still ask for are executed again (S12).
//!
//! The records come as events, a portion at a time (`replay.rs`). Each step applies as many of them
//! as shards and firings have room for.

use super::{Phase, Sequencer};
use crate::error::RuntimeError;
use crate::lane::has_reruns;
use crate::replay::Portion;
use crate::slot::Answering;
use somersault_stream::{Record, RecordedTransactions};
use std::time::Instant;

/// A log that is being replayed.
pub(super) struct Recovery {
    stage: Stage,
    since: Instant,
    /// Told once: the engine may begin, or it cannot.
    ready: Answering<Result<(), RuntimeError>>,
}

enum Stage {
    /// Applies the records that have been read.
    Records(Portion),
    /// Makes the cuts that the crash left undone.
    Cuts,
    /// Waits until derived streams and shards have caught up.
    Settling,
    Done,
}

impl Recovery {
    /// A replay, unless there is nothing to replay. `ready` is told when the engine can begin.
    pub(super) fn new(
        replays: bool,
        now: Instant,
        ready: Answering<Result<(), RuntimeError>>,
    ) -> Recovery {
        let stage = match replays {
            true => Stage::Records(Portion::default()),
            false => Stage::Done,
        };
        Recovery {
            stage,
            since: now,
            ready,
        }
    }

    /// Whether it has applied what was read, and the log goes on.
    pub(super) fn needs_records(&self) -> bool {
        match &self.stage {
            Stage::Records(portion) => portion.records.is_empty() && !portion.is_last,
            _ => false,
        }
    }

    /// Ends the replay: the engine cannot begin.
    fn fail(self, error: RuntimeError) {
        self.ready.send(Err(error));
    }
}

impl Sequencer {
    /// Takes the next records of the log.
    pub(super) fn on_replayed(&mut self, read: Result<Portion, RuntimeError>) {
        let Phase::Recovering(mut recovery) = std::mem::replace(&mut self.phase, Phase::Ended)
        else {
            unreachable!("records are read for a replay alone");
        };
        match read {
            Ok(portion) => {
                debug_assert!(recovery.needs_records(), "no record is overwritten");
                recovery.stage = Stage::Records(portion);
                self.phase = Phase::Recovering(recovery);
            }
            Err(error) => recovery.fail(error),
        }
    }

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
                self.transactions.begin(self.coordinator.last_cut());
                let took = self.now.at.saturating_duration_since(recovery.since);
                self.checkpoints.triggers.on_replayed(took);
                recovery.ready.send(Ok(()));
                true
            }
            Ok(has_more) => {
                self.phase = Phase::Recovering(recovery);
                has_more
            }
            Err(error) => {
                recovery.fail(error);
                false
            }
        }
    }

    fn replay(&mut self, stage: &mut Stage) -> Result<bool, RuntimeError> {
        match stage {
            Stage::Records(portion) => {
                self.replay_records(portion)?;
                let is_applied = portion.records.is_empty() && portion.is_last;
                if is_applied {
                    // The remaining closes are cut in slices while the engine answers.
                    self.cut_due()?;
                    *stage = Stage::Cuts;
                }
                Ok(is_applied)
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

    /// Applies records, until there is no more room.
    fn replay_records(&mut self, portion: &mut Portion) -> Result<(), RuntimeError> {
        while let Some((_, next)) = portion.records.front() {
            // Shards and firings may lag as far behind as with live inputs. The statements of one
            // load are held at a time, as when they were loaded.
            let is_load = matches!(next, Record::Load(_));
            // What runs again reads the stored graphs as they were there.
            let is_rerun = matches!(
                next,
                Record::Txn(RecordedTransactions::Terms(record)) if has_reruns(record)
            );
            if self.is_backlogged() || ((is_load || is_rerun) && self.stability.unstable() > 0) {
                break;
            }
            if let Some((position, record)) = portion.records.pop_front() {
                let record = self.replay_transactions(record)?;
                self.apply(&record, position)?;
            }
        }
        Ok(())
    }
}
