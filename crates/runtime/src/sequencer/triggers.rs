//! The checkpoints that the sequencer takes without being asked, and what it shows of all of them.
//!
//! Before changing anything here: the policy decides (`checkpoints/policy.rs`). The sequencer asks
//! it at intervals, and tells it how each checkpoint ends.

use super::{Phase, Sequencer};
use crate::checkpoints::{CheckpointPolicy, CheckpointStatus, NewestCheckpoint};
use crate::error::RuntimeError;
use crate::replay::statements_of;
use crate::slot::slot;
use somersault_checkpoint::Manifest;
use somersault_stream::Record;
use std::time::{Duration, Instant};

/// When the policy is asked, and what is known.
pub(crate) struct Triggers {
    policy: CheckpointPolicy,
    next_look: Instant,
    /// The wall clock when the checkpoint under way was frozen.
    frozen_ms: Option<i64>,
    newest: Option<NewestCheckpoint>,
    taken: u64,
    failures: u64,
    failure: Option<String>,
}

impl Triggers {
    pub(crate) fn new(
        policy: CheckpointPolicy,
        newest: Option<NewestCheckpoint>,
        now: Instant,
    ) -> Triggers {
        Triggers {
            policy,
            next_look: now,
            frozen_ms: None,
            newest,
            taken: 0,
            failures: 0,
            failure: None,
        }
    }

    /// When the policy is asked next.
    pub(super) fn next_look(&self) -> Instant {
        self.next_look
    }

    /// Whether a clean shutdown takes a checkpoint.
    pub(super) fn is_due_at_end(&self) -> bool {
        self.policy.is_due_at_end()
    }

    /// A record was applied.
    pub(super) fn on_applied(&mut self, record: &Record) {
        let statements = match record {
            Record::Load(load) => load.segment.statements,
            other => statements_of(other) as u64,
        };
        self.policy.on_applied(statements);
    }

    /// The log has been replayed in this time.
    pub(super) fn on_replayed(&mut self, took: Duration) {
        self.policy.on_replayed(took);
    }

    /// The checkpoint under way is given up, and no other will be taken.
    pub(super) fn give_up(&mut self) {
        self.policy.on_given_up();
    }

    fn status(&self, appended: u64, rewritten_files: u64) -> CheckpointStatus {
        CheckpointStatus {
            newest: self.newest.clone(),
            age: None,
            is_under_way: self.policy.is_under_way(),
            log_bytes: self.policy.log_bytes(appended),
            restart: self.policy.estimate(),
            is_due_at_end: self.policy.is_due_at_end(),
            taken: self.taken,
            failures: self.failures,
            failure: self.failure.clone(),
            rewritten_files,
        }
    }
}

impl Sequencer {
    /// Begins a checkpoint if one is due, and shows what is known of them.
    pub(super) fn look_at_checkpoints(&mut self) {
        let is_time = self.now.at >= self.checkpoints.triggers.next_look;
        if !self.checkpoints.has_writer() || !is_time {
            return;
        }
        let log = &self.shared.log;
        let triggers = &mut self.checkpoints.triggers;
        triggers.next_look = self.now.at + triggers.policy.interval();
        let due = triggers.policy.due(self.now.at, log.written_bytes());
        if let Some(reason) = due
            && matches!(self.phase, Phase::Open)
            && self.refuse_if_failed().is_ok()
        {
            tracing::debug!("a checkpoint is taken: {reason:?}");
            // Nothing waits for the answer.
            self.begin_checkpoint(slot().0);
        }
        self.show_checkpoints();
    }

    /// Shows what is known of checkpoints, where there can be any.
    pub(super) fn show_checkpoints(&self) {
        if self.checkpoints.has_writer() {
            let appended = self.shared.log.written_bytes();
            let rewritten = self.checkpoints.rewritten_files();
            let status = self.checkpoints.triggers.status(appended, rewritten);
            self.shared.show_checkpoints(status);
        }
    }

    /// The state has been frozen for a checkpoint.
    pub(super) fn note_frozen(&mut self) {
        let appended = self.shared.log.written_bytes();
        let triggers = &mut self.checkpoints.triggers;
        triggers.policy.on_frozen(self.now.at, appended);
        triggers.frozen_ms = self.shared.clock.ticks().then_some(self.now.ms);
        self.show_checkpoints();
    }

    /// The checkpoint is there, or could not be written.
    pub(super) fn note_written(&mut self, written: &Result<Manifest, RuntimeError>) {
        let triggers = &mut self.checkpoints.triggers;
        match written {
            Ok(manifest) => {
                let took = triggers.policy.on_written(self.now.at, manifest.bytes());
                triggers.newest = Some(NewestCheckpoint {
                    took: Some(took),
                    taken_ms: triggers.frozen_ms,
                    ..NewestCheckpoint::of(manifest)
                });
                triggers.taken += 1;
                triggers.failure = None;
            }
            Err(error) => {
                let pause = triggers.policy.on_failed(self.now.at).as_secs();
                triggers.failures += 1;
                triggers.failure = Some(error.to_string());
                tracing::warn!("{error}. Another checkpoint is tried in {pause} s");
            }
        }
        self.show_checkpoints();
    }
}
