//! The way of an input on the sequencer: it is admitted, logged and applied, and the coordinator's
//! outputs are carried out. Only records in the log are applied; a logged record that cannot be
//! applied ends the engine.

use super::requests::Outcome;
use super::{Phase, Sequencer};
use crate::error::RuntimeError;
use crate::fabric::DueWindows;
use somersault_log::{Command, CommandRecord, Position};
use somersault_stream::{
    Admission, Applied, Input, MessageOutcome, Output, QueryChange, QueryEvent, Record,
};

impl Sequencer {
    /// Takes an input from outside.
    pub(super) fn take_input(&mut self, input: Input) -> Result<(Outcome, Position), RuntimeError> {
        self.inputs += 1;
        self.input = self.inputs;
        self.take(input)
    }

    /// Admits, logs and applies an input, and makes the cuts that it calls for.
    pub(super) fn take(&mut self, input: Input) -> Result<(Outcome, Position), RuntimeError> {
        let record = match self.coordinator.admit(input)? {
            Admission::Record(record) => record,
            Admission::Several(Some(record), outcomes) => {
                let (position, _) = self.log_and_apply(&record)?;
                self.cut_due()?;
                return Ok((Outcome::Several(outcomes), position));
            }
            Admission::Several(None, outcomes) => {
                return Ok((Outcome::Several(outcomes), self.log_end));
            }
            Admission::Messages(record, outcomes) => return self.take_messages(record, outcomes),
            Admission::Repeat(repeat) => return Ok((Outcome::Repeat(repeat), self.log_end)),
            Admission::Nothing => return Ok((Outcome::Nothing, self.log_end)),
        };
        let (position, applied) = self.log_and_apply(&record)?;
        let outcome = match &record {
            Record::Command(command) => match command.record() {
                CommandRecord {
                    command: Command::ResetStream { .. },
                    ..
                } => Outcome::Reset {
                    dropped: applied.dropped,
                },
                record => Outcome::Command(record.resolved.clone()),
            },
            _ => Outcome::Taken {
                statements: applied.accepted,
                late: applied.late,
            },
        };
        self.cut_due()?;
        Ok((outcome, position))
    }

    /// Logs and applies the messages that were taken, and makes the cuts that they call for.
    fn take_messages(
        &mut self,
        record: Option<Record>,
        outcomes: Vec<MessageOutcome>,
    ) -> Result<(Outcome, Position), RuntimeError> {
        let mut applied = Applied::default();
        let mut position = self.log_end;
        if let Some(record) = record {
            (position, applied) = self.log_and_apply(&record)?;
            self.cut_due()?;
        }
        let outcome = Outcome::Messages {
            outcomes,
            statements: applied.accepted,
            late: applied.late,
        };
        Ok((outcome, position))
    }

    fn log_and_apply(&mut self, record: &Record) -> Result<(Position, Applied), RuntimeError> {
        let position = self.append(record)?;
        if matches!(record, Record::Command(_)) {
            // Lists that show its effect wait until it is durable.
            self.shared.figures.set_newest_command(position);
        }
        let applied = self.apply(record, position)?;
        Ok((position, applied))
    }

    /// Takes inputs whose callers are answered when their cut is stable: the log makes records and
    /// cut durable by one sync. The first cut, or the end, lets the group go.
    pub(super) fn in_one_group<T>(&mut self, take: impl FnOnce(&mut Sequencer) -> T) -> T {
        self.group = Some(self.shared.log.hold_group());
        let taken = take(self);
        self.group = None;
        taken
    }

    /// Appends a record to the log.
    pub(super) fn append(&mut self, record: &Record) -> Result<Position, RuntimeError> {
        let log = &self.shared.log;
        self.log_end = log.append(record)?;
        if log.is_volatile() {
            // No other thread makes it durable and says so.
            self.stability.on_durable(self.log_end, self.now.at);
            self.moved = true;
        }
        Ok(self.log_end)
    }

    /// Applies a record that is in the log, and carries out the outputs.
    pub(super) fn apply(
        &mut self,
        record: &Record,
        position: Position,
    ) -> Result<Applied, RuntimeError> {
        let mut outputs = Vec::new();
        let resolver = &self.shared.resolver;
        let applied = match self.coordinator.apply(record, resolver, &mut outputs) {
            Ok(applied) => applied,
            Err(error) => {
                // The log holds a record that the state does not: nothing may become visible after
                // it.
                let error = RuntimeError::from(error);
                self.fail(error.clone());
                return Err(error);
            }
        };
        if matches!(record, Record::Command(_)) {
            let queries = self.coordinator.query_count();
            self.shared.figures.set_queries(queries);
        }
        if let Err(error) = self.note_transactions(record) {
            self.fail(error.clone());
            return Err(error);
        }
        self.checkpoints.triggers.on_applied(record);
        self.note_grown(record);
        self.stability.on_record(record, position);
        self.carry_out(outputs, position)?;
        if matches!(self.phase, Phase::Open) {
            // Before the command is acknowledged: a push that follows is judged by what it made.
            self.directory.publish(&self.shared.directory);
        }
        Ok(applied)
    }

    /// Notes the stream of a push or of messages. While the log is replayed, nothing waits for
    /// closes, and nothing is prepared.
    fn note_grown(&mut self, record: &Record) {
        let stream = match record {
            Record::Push(push) => &push.stream,
            Record::Messages(record) => &record.stream,
            _ => return,
        };
        if matches!(self.phase, Phase::Open)
            && let Some(clock) = self.coordinator.clock_of(stream)
            && self.grown.last() != Some(&clock.uid())
        {
            self.grown.push(clock.uid());
        }
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
                    self.moved = true;
                }
                Output::Due(firing) => {
                    let windows = windows.clone();
                    let store = &self.shared.store;
                    self.delivery.due(store, &firing, windows, self.input);
                }
                Output::Fire(firing) => {
                    let acknowledged = self.stability.acknowledged(firing.sn);
                    self.delivery.release(firing, acknowledged, self.now.at);
                    self.hand_out();
                }
                Output::Cancelled(firing) => self.delivery.cancel(&firing),
                Output::Retire { stream, below } => {
                    self.stability
                        .retire(self.coordinator.last_cut(), stream, below);
                    self.moved = true;
                }
                Output::StreamCreated { clock } => {
                    let batch = clock.declaration().batch;
                    self.injection.stream_created(clock.uid(), batch);
                    self.directory.stream_created(clock);
                }
                Output::StreamDropped { uid, iri } => {
                    let fabric = self.fabric.as_mut();
                    if let Err(error) = self.injection.stream_dropped(uid, fabric) {
                        self.fail(RuntimeError::Fabric(error.clone()));
                        return Err(error.into());
                    }
                    self.directory.stream_dropped(&iri, uid);
                    self.stability.drop_stream(self.coordinator.last_cut(), uid);
                    self.moved = true;
                }
                Output::Query(event) => self.tell_host(event),
                Output::Messages { stream, messages } => {
                    self.transactions.take_messages(stream, messages)?;
                }
                Output::Emitted { stream, messages } => {
                    self.transactions.take_emitted(stream, messages)?;
                }
                Output::Reached { stream, through } => {
                    self.transactions.reach(stream, through)?;
                }
                // Other outputs do not exist yet.
                _ => {}
            }
        }
        self.shared
            .figures
            .set_outstanding(self.delivery.under_way());
        Ok(())
    }

    /// Tells the host and the ledger about changes of registered queries. No read comes between the
    /// change and this, so the host knows every name that is found.
    fn tell_host(&mut self, event: QueryEvent) {
        match &event.change {
            QueryChange::Formed { derives, .. } => {
                self.delivery.registered(event.cohort, derives.is_some());
            }
            QueryChange::Ended => self.delivery.dropped(event.cohort),
            change => self.note_deadline(change),
        }
        self.shared.host.on_query(event);
    }
}
