//! Checkpoints, on the sequencer's side.
//!
//! 1. Between two steps the coordinator is frozen, at the end of the log, and its newest SN pinned.
//!    The host notes that position. The lane is told to freeze what is declared; until it has, no
//!    transaction is accepted, so its core is that of the same position.
//! 2. The checkpoint waits until the lane has answered, that SN is stable, the firings that became
//!    due by then are done, and the log is durable up to there, the statements of those firings
//!    included. Then it waits for the shards to set the marker up to which it looks for changes.
//! 3. A lane of its own writes the files. Inputs, firings and reads go on all the time.
//!
//! Before changing anything here: from 1 to 3 no slice is retired. A later close may retire one
//! that the replay of its own record needs.

use super::requests::{CheckpointReply, Event};
use super::triggers::Triggers;
use super::{Phase, Sequencer, Shared};
use crate::checkpoints::{
    Beside, CheckpointMarkers, CheckpointWriter, CheckpointedNumbers, DeclarationRecord,
    FrozenState, RewrittenFiles, StopFlag,
};
use crate::error::RuntimeError;
use crate::host::Host;
use crossbeam_channel::Sender;
use parking_lot::Mutex;
use somersault_checkpoint::{CheckpointTimes, Manifest};
use somersault_log::Position;
use somersault_model::Sn;
use somersault_store::{Marker, Snapshot};
use somersault_stream::{FiringKey, FrozenCore};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

/// The checkpoint that is under way, if there is one.
pub(crate) struct Checkpoints {
    /// `None` where nothing is written to disk.
    writer: Option<Arc<Mutex<CheckpointWriter>>>,
    /// Ends what is being written.
    stop: StopFlag,
    /// Files that were damaged.
    rewritten: RewrittenFiles,
    /// The lane that writes.
    jobs: Sender<CheckpointJob>,
    stage: CheckpointStage,
    /// Callers that wait for the checkpoint that another one has asked for.
    followers: Vec<CheckpointReply>,
    pub(super) triggers: Triggers,
}

/// How far a checkpoint is.
#[derive(Default)]
enum CheckpointStage {
    #[default]
    None,
    /// Effects of an update or a load wait for their SN, which is cut at once, or a replaced query
    /// has firings under way.
    Asked(CheckpointReply),
    Frozen(Box<Frozen>),
    Written(CheckpointReply, CheckpointedNumbers),
}

/// A frozen state that waits for what belongs to it.
struct Frozen {
    core: FrozenCore,
    position: Position,
    times: CheckpointTimes,
    /// Keeps the SN.
    pin: Snapshot,
    /// The marker behind which the next checkpoint looks for changes.
    since: Marker,
    /// The marker up to which this one does, asked for once all else is there.
    until: Option<AskedMarker>,
    /// Firings that were not done at some time since; the last one has not been looked at.
    firings: Vec<FiringKey>,
    /// The end of the log once all firings are done: their statements are in it.
    done: Option<Position>,
    /// The sequence numbers of sources that the state covers.
    numbers: CheckpointedNumbers,
    /// Procedures, dataflows and their core; `None` while the lane freezes them.
    transactions: Option<Vec<DeclarationRecord>>,
    reply: CheckpointReply,
}

/// A marker that shards are asked for.
struct AskedMarker {
    marker: Marker,
    /// The SN that was stable when they were asked last. A shard that has applied a later one does
    /// not set its marker, so they are asked again when a later one is stable.
    asked_at: Sn,
}

/// A checkpoint to be written.
pub(crate) struct CheckpointJob {
    writer: Arc<Mutex<CheckpointWriter>>,
    state: FrozenState,
    shared: Arc<Shared>,
    events: Sender<Event>,
}

impl CheckpointJob {
    /// Writes the checkpoint and tells the sequencer. In a process without threads, `others` gives
    /// the rest of it a turn, now and then.
    pub(crate) fn run(self, others: Option<&dyn Fn()>) {
        let CheckpointJob {
            writer,
            state,
            shared,
            events,
        } = self;
        let is_busy = || shared.is_busy();
        let beside = match others {
            None => Beside::Threads(&is_busy),
            Some(others) => Beside::Turns(others),
        };
        let host = &*shared.host;
        let written = catch_unwind(AssertUnwindSafe(|| {
            writer.lock().write(state, host, beside)
        }));
        let written = written.unwrap_or_else(|_| {
            let what = "the writing of a checkpoint panicked".to_owned();
            Err(RuntimeError::Internal(what))
        });
        host.thaw();
        // The sequencer may have ended.
        let _ = events.send(Event::CheckpointWritten(written));
    }
}

impl Checkpoints {
    /// Without a checkpoint under way. `jobs` leads to the lane that writes.
    pub(crate) fn new(
        writer: Option<CheckpointWriter>,
        jobs: Sender<CheckpointJob>,
        triggers: Triggers,
    ) -> Checkpoints {
        let stop = writer.as_ref().map(|writer| writer.stop_flag().clone());
        let rewritten = writer.as_ref().map(|writer| writer.rewritten().clone());
        Checkpoints {
            stop: stop.unwrap_or_default(),
            rewritten: rewritten.unwrap_or_default(),
            writer: writer.map(|writer| Arc::new(Mutex::new(writer))),
            jobs,
            stage: CheckpointStage::None,
            followers: Vec::new(),
            triggers,
        }
    }

    /// Abandons a checkpoint that is being written.
    pub(super) fn end(&self) {
        self.stop.set();
    }

    /// The number of damaged files whose content was written again.
    pub(super) fn rewritten_files(&self) -> u64 {
        self.rewritten.count()
    }

    /// Takes what the lane has frozen, unless the checkpoint was given up meanwhile.
    pub(super) fn take_transactions(&mut self, records: Vec<DeclarationRecord>) {
        if let CheckpointStage::Frozen(frozen) = &mut self.stage {
            frozen.transactions = Some(records);
        }
    }

    /// Whether checkpoints can be written.
    pub(super) fn has_writer(&self) -> bool {
        self.writer.is_some()
    }

    /// When the policy is asked next, where checkpoints can be written.
    pub(super) fn next_look(&self) -> Option<Instant> {
        self.has_writer().then(|| self.triggers.next_look())
    }

    /// Whether a checkpoint needs the slices of its SN.
    pub(super) fn keeps_slices(&self) -> bool {
        matches!(
            self.stage,
            CheckpointStage::Frozen(_) | CheckpointStage::Written(..)
        )
    }

    /// Refuses a checkpoint that waits for something that does not happen any more.
    pub(super) fn give_up(&mut self, host: &dyn Host, error: &RuntimeError) {
        match std::mem::take(&mut self.stage) {
            CheckpointStage::Asked(reply) => reply.send(Err(error.clone())),
            CheckpointStage::Frozen(frozen) => {
                host.thaw();
                // A caller that no longer waits is no error.
                frozen.reply.send(Err(error.clone()));
            }
            stage => self.stage = stage,
        }
        for follower in self.followers.drain(..) {
            follower.send(Err(error.clone()));
        }
        self.triggers.give_up();
    }
}

impl Sequencer {
    /// Begins a checkpoint, if none is under way.
    pub(super) fn begin_checkpoint(&mut self, reply: CheckpointReply) {
        let ready = self.refuse_if_failed().and_then(|()| {
            let why = match &self.checkpoints {
                Checkpoints { writer: None, .. } => "nothing is written to a folder",
                Checkpoints {
                    stage: CheckpointStage::None,
                    ..
                } => return Ok(()),
                _ => return Err(RuntimeError::CheckpointUnderWay),
            };
            Err(RuntimeError::NoCheckpoint(why))
        });
        match ready {
            Ok(()) => self.checkpoints.stage = CheckpointStage::Asked(reply),
            Err(error) => reply.send(Err(error)),
        }
    }

    /// Takes the checkpoint of a clean shutdown: none, if the next start is quick without it, and
    /// the one that is under way, if there is one.
    pub(super) fn begin_last_checkpoint(&mut self, reply: CheckpointReply) {
        if !matches!(self.checkpoints.stage, CheckpointStage::None) {
            self.checkpoints.followers.push(reply);
        } else if self.checkpoints.triggers.is_due_at_end() {
            self.begin_checkpoint(reply);
        } else {
            let why = "the next start is quick without it";
            reply.send(Err(RuntimeError::NoCheckpoint(why)));
        }
    }

    /// Freezes the state for a checkpoint that was asked for, or has a frozen one written once what
    /// belongs to it has happened.
    pub(super) fn go_on_with_checkpoint(&mut self) {
        if let CheckpointStage::Asked(_) = &self.checkpoints.stage
            && let CheckpointStage::Asked(reply) = std::mem::take(&mut self.checkpoints.stage)
        {
            self.checkpoints.stage = self.freeze(reply);
        }
        if self.is_frozen_whole()
            && let CheckpointStage::Frozen(frozen) = std::mem::take(&mut self.checkpoints.stage)
        {
            self.checkpoints.stage = self.write(frozen);
        }
    }

    fn freeze(&mut self, reply: CheckpointReply) -> CheckpointStage {
        // A transaction that has its turn commits first.
        if self.coordinator.has_retiring_queries() || matches!(self.phase, Phase::Yielding) {
            return CheckpointStage::Asked(reply);
        }
        if let Err(error) = self.close_handover() {
            self.conclude(reply, Err(error));
            return CheckpointStage::None;
        }
        let Some(core) = self.coordinator.freeze() else {
            return CheckpointStage::Asked(reply);
        };
        match self.shared.store.pin(core.sn()) {
            Ok(pin) => {
                self.note_frozen();
                self.shared.host.freeze_at(core.sn());
                let has_transactions = self.freeze_transactions();
                CheckpointStage::Frozen(Box::new(Frozen {
                    core,
                    position: self.log_end,
                    times: self.stability.times(),
                    pin,
                    since: self.shared.store.mark(),
                    until: None,
                    // All of them became due by now.
                    firings: self.delivery.unacknowledged(),
                    done: None,
                    numbers: Arc::new(self.coordinator.all_source_numbers()),
                    transactions: (!has_transactions).then(Vec::new),
                    reply,
                }))
            }
            Err(error) => {
                let error = RuntimeError::Internal(error.to_string());
                self.conclude(reply, Err(error));
                CheckpointStage::None
            }
        }
    }

    /// Whether all that belongs to a frozen state has happened, and is durable.
    fn is_frozen_whole(&mut self) -> bool {
        let CheckpointStage::Frozen(frozen) = &mut self.checkpoints.stage else {
            return false;
        };
        let delivery = &self.delivery;
        let is_done = |key: &mut FiringKey| !delivery.is_unacknowledged(key);
        while frozen.firings.pop_if(is_done).is_some() {}
        if !frozen.firings.is_empty() || frozen.transactions.is_none() {
            return false;
        }
        let done = *frozen.done.get_or_insert(self.log_end);
        let stable = self.shared.store.snapshots().stable();
        if frozen.pin.sn() > stable || done > self.shared.log.durable() {
            return false;
        }
        match &mut frozen.until {
            Some(until) if until.marker.after().is_some() => return true,
            Some(until) if until.asked_at == stable => return false,
            Some(until) => until.asked_at = stable,
            unasked => {
                *unasked = Some(AskedMarker {
                    marker: self.shared.store.mark(),
                    asked_at: stable,
                });
            }
        }
        // Shards without work set it too.
        if let Err(error) = self.fabric.tidy() {
            self.fail(RuntimeError::Fabric(error));
        }
        self.moved = true;
        false
    }

    fn write(&mut self, frozen: Box<Frozen>) -> CheckpointStage {
        let Frozen {
            core,
            position,
            times,
            pin,
            since,
            until,
            reply,
            numbers,
            transactions,
            ..
        } = *frozen;
        let writer = self.checkpoints.writer.clone();
        let (Some(writer), Some(until), Some(transactions)) = (writer, until, transactions) else {
            let what = "a checkpoint that is not frozen whole was to be written";
            self.shared.host.thaw();
            self.conclude(reply, Err(RuntimeError::Internal(what.to_owned())));
            return CheckpointStage::None;
        };
        let until = until.marker;
        let state = FrozenState {
            core,
            position,
            times,
            pin,
            markers: CheckpointMarkers { since, until },
            transactions,
        };
        let job = CheckpointJob {
            writer,
            state,
            shared: Arc::clone(&self.shared),
            events: self.events.clone(),
        };
        match self.checkpoints.jobs.send(job) {
            Ok(()) => CheckpointStage::Written(reply, numbers),
            Err(_) => {
                self.shared.host.thaw();
                self.conclude(reply, Err(RuntimeError::Stopped));
                CheckpointStage::None
            }
        }
    }

    /// The checkpoint is there, or its files could not be written. Nothing else depends on it.
    pub(super) fn on_checkpoint_written(&mut self, written: Result<Manifest, RuntimeError>) {
        if let CheckpointStage::Written(reply, numbers) =
            std::mem::take(&mut self.checkpoints.stage)
        {
            if written.is_ok() {
                self.shared.show_checkpointed(numbers);
            }
            self.conclude(reply, written);
        }
        // Slices that waited for it are retired.
        self.moved = true;
    }

    /// Tells the policy and all who wait for it how a checkpoint has ended.
    fn conclude(&mut self, reply: CheckpointReply, written: Result<Manifest, RuntimeError>) {
        self.note_written(&written);
        for follower in self.checkpoints.followers.drain(..) {
            // A caller that no longer waits is no error.
            follower.send(written.clone());
        }
        reply.send(written);
    }
}
