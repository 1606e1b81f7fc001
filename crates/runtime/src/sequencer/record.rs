//! The way of an input on the sequencer: it is admitted, logged and applied, and the coordinator's
//! outputs are carried out. Only records in the log are applied; a logged record that cannot be
//! applied ends the engine.

use super::Sequencer;
use super::requests::Outcome;
use crate::error::RuntimeError;
use crate::fabric::DueWindows;
use somersault_log::{Command, CommandRecord, Position};
use somersault_model::Sn;
use somersault_stream::{Admission, Applied, Input, Output, QueryChange, QueryEvent, Record};
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Sequencer {
    /// Takes an input from outside.
    pub(super) fn take_input(&mut self, input: Input) -> Result<(Outcome, Position), RuntimeError> {
        self.inputs += 1;
        self.input = self.inputs;
        self.take(input)
    }

    /// Admits, logs and applies an input, and makes the cuts that it calls for.
    pub(super) fn take(&mut self, input: Input) -> Result<(Outcome, Position), RuntimeError> {
        let admission = self.shared.coordinator.lock().admit(input)?;
        let record = match admission {
            Admission::Record(record) => record,
            Admission::Several(record, outcomes) => {
                let position = match record {
                    Some(record) => {
                        let position = self.shared.log.append(&record)?;
                        self.note_command(&record, position);
                        self.apply(&record, position)?;
                        self.cut_due()?;
                        position
                    }
                    None => self.shared.log.end(),
                };
                return Ok((Outcome::Several(outcomes), position));
            }
            Admission::Repeat(repeat) => {
                return Ok((Outcome::Repeat(repeat), self.shared.log.end()));
            }
            Admission::Nothing => return Ok((Outcome::Nothing, self.shared.log.end())),
        };
        let position = self.shared.log.append(&record)?;
        self.note_command(&record, position);
        let applied = self.apply(&record, position)?;
        let outcome = match &record {
            Record::Command(CommandRecord {
                command: Command::ResetStream { .. },
                ..
            }) => Outcome::Reset {
                dropped: applied.dropped,
            },
            Record::Command(command) => Outcome::Command(command.resolved.clone()),
            _ => Outcome::Taken {
                statements: applied.accepted,
                late: applied.late,
            },
        };
        self.cut_due()?;
        Ok((outcome, position))
    }

    /// Notes a command, so that lists that show its effect wait until it is durable.
    fn note_command(&self, record: &Record, position: Position) {
        if matches!(record, Record::Command(_)) {
            let newest = &self.shared.newest_command;
            newest.store(position.0, Ordering::Release);
        }
    }

    /// Applies a record that is in the log, and carries out the outputs.
    pub(super) fn apply(
        &mut self,
        record: &Record,
        position: Position,
    ) -> Result<Applied, RuntimeError> {
        let mut outputs = Vec::new();
        let applied = {
            let shared = Arc::clone(&self.shared);
            let mut coordinator = shared.coordinator.lock();
            let applied = coordinator.apply(record, &shared.resolver, &mut outputs);
            // Done while the registry is locked: the host knows every name that is found in it.
            let is_of_queries = |output: &mut Output| matches!(output, Output::Query(_));
            for output in outputs.extract_if(.., is_of_queries) {
                if let Output::Query(event) = output {
                    self.tell_host(event);
                }
            }
            applied
        };
        let applied = match applied {
            Ok(applied) => applied,
            Err(error) => {
                // The log holds a record that the state does not: nothing may become visible after
                // it.
                let error = RuntimeError::from(error);
                self.fail(error.clone());
                return Err(error);
            }
        };
        self.stability.on_record(record, position);
        self.carry_out(outputs, position)?;
        Ok(applied)
    }

    pub(super) fn last_cut(&self) -> Sn {
        self.shared.coordinator.lock().last_cut()
    }

    /// Carries out the coordinator's outputs, in order.
    pub(super) fn carry_out(
        &mut self,
        outputs: Vec<Output>,
        position: Position,
    ) -> Result<(), RuntimeError> {
        let windows = DueWindows::of(&outputs, self.fabric.shards());
        for output in outputs {
            match output {
                Output::Inject(inject) => {
                    let sn = inject.sn;
                    let fabric = self.fabric.as_mut();
                    if let Err(error) = self.injection.inject(inject, windows.as_ref(), fabric) {
                        self.fail(RuntimeError::Fabric(error.clone()));
                        return Err(error.into());
                    }
                    self.stability.cut(sn, position);
                }
                Output::Due(firing) => {
                    let windows = windows.clone();
                    let store = &self.shared.store;
                    self.firings.due(store, firing, windows, self.input);
                }
                Output::Fire(firing) => {
                    let acknowledged = self.stability.acknowledged(firing.sn);
                    self.firings.fire(&self.shared, firing, acknowledged);
                }
                Output::Cancelled(firing) => self.firings.cancel(&firing),
                Output::Retire { stream, below } => {
                    self.stability.retire(self.last_cut(), stream, below);
                }
                Output::StreamCreated { clock } => {
                    let batch = clock.declaration().batch;
                    self.injection.stream_created(clock.uid(), batch);
                }
                Output::StreamDropped { uid, .. } => {
                    self.injection.stream_dropped(uid);
                    self.stability.drop_stream(self.last_cut(), uid);
                }
                Output::Query(event) => self.tell_host(event),
                // Other outputs do not exist yet.
                _ => {}
            }
        }
        let outstanding = self.firings.outstanding() as u64;
        self.shared
            .outstanding
            .store(outstanding, Ordering::Relaxed);
        Ok(())
    }

    /// Tells the host and the firings about changes of registered queries.
    fn tell_host(&mut self, event: QueryEvent) {
        match &event.change {
            QueryChange::Formed { derives, .. } => {
                self.firings.registered(event.cohort, derives.is_some());
            }
            QueryChange::Ended => self.firings.dropped(event.cohort),
            _ => {}
        }
        self.shared.host.on_query(event);
    }
}
