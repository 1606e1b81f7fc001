//! What is declared: the core of transactions, with the texts of procedures, the streams that they
//! may name, and the messages that they need. The sequencer holds it while the log is replayed, and
//! the lane from then on.
//!
//! Before changing anything here: the core is told of a stream when the first procedure names it,
//! so that streams of engines without procedures cost nothing.

use super::entries;
use super::messages::{Message, Messages};
use crate::checkpoints::{DeclarationRecord, RestoredTransactions, read_saved};
use crate::error::RuntimeError;
use somersault_lang::procedure::{CreateDataflow, CreateProcedure};
use somersault_lang::{CreateStream, StreamSource};
use somersault_log::{Command, ConsumerBegin, TxnItem, TxnRecord};
use somersault_model::{EventTime, Place, ProcedureUid, StreamUid};
use somersault_stream::{Coordinator, KeptMessage, ParsedCommand};
use somersault_txn::{
    Beginning, Command as CoreCommand, Core, DataflowShape, Event, Output, ProcedureShape, Refusal,
    StreamShape, Transaction,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Procedures and dataflows, and what their transactions have come to.
#[derive(Default)]
pub(crate) struct Declared {
    core: Core,
    procedures: BTreeMap<ProcedureUid, Arc<CreateProcedure>>,
    dataflows: BTreeMap<String, Arc<CreateDataflow>>,
    streams: BTreeMap<String, (StreamUid, Arc<CreateStream>)>,
    /// The streams that the core knows.
    in_core: BTreeSet<StreamUid>,
    messages: Messages,
    /// Native procedures whose body no program has registered since the start.
    absent: BTreeSet<ProcedureUid>,
}

impl Declared {
    /// What a checkpoint says, whose streams and their messages are with the coordinator.
    pub(crate) fn restored(restored: RestoredTransactions, coordinator: &Coordinator) -> Declared {
        let streams = coordinator.streams().into_iter();
        let pushed = streams.filter(|stream| stream.derived_by.is_none());
        let streams = pushed.map(|stream| {
            let iri = stream.declaration.iri.as_str().to_owned();
            (iri, (stream.uid, stream.declaration))
        });
        let RestoredTransactions {
            core,
            procedures,
            dataflows,
        } = restored;
        let natives = procedures.iter().filter(|(_, text)| text.native.is_some());
        let mut declared = Declared {
            absent: natives.map(|(uid, _)| *uid).collect(),
            streams: streams.collect(),
            in_core: core.streams().map(|stream| stream.uid).collect(),
            core,
            procedures,
            dataflows,
            messages: Messages::default(),
        };
        for stream in declared.in_core.clone() {
            for message in coordinator.kept_messages(stream) {
                let (place, message) = (message.place, Message::of(message.clone()));
                declared.messages.insert(stream, place, message);
            }
            declared.let_go(stream);
        }
        declared
    }

    /// What is declared, for a checkpoint: nothing if nothing ever was.
    pub(crate) fn freeze(&self) -> Vec<DeclarationRecord> {
        if self.core.is_unused() {
            return Vec::new();
        }
        let procedures = self.procedures.iter().map(|(uid, procedure)| {
            let (text, namespace) = (procedure.text.clone(), procedure.namespace.clone());
            DeclarationRecord::Procedure {
                uid: *uid,
                text,
                namespace,
            }
        });
        let dataflows = self.dataflows.values().map(|dataflow| {
            let (text, namespace) = (dataflow.text.clone(), dataflow.namespace.clone());
            DeclarationRecord::Dataflow { text, namespace }
        });
        let core = self.core.freeze().into_iter().map(DeclarationRecord::Core);
        procedures.chain(dataflows).chain(core).collect()
    }

    pub(crate) fn core(&self) -> &Core {
        &self.core
    }

    /// Whether a procedure or a dataflow was ever declared.
    pub(crate) fn is_used(&self) -> bool {
        !self.core.is_unused()
    }

    /// The procedures, in the order of their declaration.
    pub(crate) fn procedures(&self) -> &BTreeMap<ProcedureUid, Arc<CreateProcedure>> {
        &self.procedures
    }

    /// The transaction that runs next, if batches wait for one that can run.
    pub(super) fn next(&self) -> Option<Transaction> {
        self.core.next_without(&self.absent)
    }

    /// Native procedures whose body no program has registered since the start.
    pub(super) fn absent(&self) -> &BTreeSet<ProcedureUid> {
        &self.absent
    }

    /// A program has registered the body of a native procedure.
    pub(super) fn body_is_there(&mut self, procedure: ProcedureUid) {
        self.absent.remove(&procedure);
    }

    pub(super) fn dataflow_texts(&self) -> impl Iterator<Item = &CreateDataflow> {
        self.dataflows.values().map(|text| &**text)
    }

    /// The declaration of a dataflow.
    pub(super) fn dataflow_text(&self, name: &str) -> Option<&Arc<CreateDataflow>> {
        self.dataflows.get(name)
    }

    /// The uid of a procedure.
    pub(crate) fn uid(&self, name: &str) -> Option<ProcedureUid> {
        let mut procedures = self.core.procedures();
        let found = procedures.find(|(_, shape)| shape.name == name);
        found.map(|(uid, _)| uid)
    }

    /// The uid of a stream.
    pub(super) fn stream(&self, iri: &str) -> Option<StreamUid> {
        self.streams.get(iri).map(|(uid, _)| *uid)
    }

    pub(super) fn messages(&self) -> &Messages {
        &self.messages
    }

    /// Whether a command may be logged.
    ///
    /// # Errors
    /// Why not.
    pub(crate) fn judge(&mut self, command: &ParsedCommand) -> Result<(), RuntimeError> {
        let (procedure, dataflow) = (command.procedure(), command.dataflow());
        self.check_recovery(procedure.map(|it| &**it), dataflow.map(|it| &**it))?;
        self.tell_streams(command)?;
        for command in self.core_commands(command)? {
            self.core.admit(&command)?;
        }
        Ok(())
    }

    /// Applies a logged command.
    ///
    /// # Errors
    /// The log contradicts itself.
    pub(crate) fn apply(&mut self, command: &ParsedCommand) -> Result<(), RuntimeError> {
        self.tell_streams(command)?;
        for command in self.core_commands(command)? {
            let gone = match &command {
                CoreCommand::DropProcedure { name, .. } => self.uid(name),
                _ => None,
            };
            self.apply_event(&Event::Command(command))?;
            if let Some(uid) = gone {
                self.procedures.remove(&uid);
                self.absent.remove(&uid);
            }
        }
        if let Some(procedure) = command.procedure()
            && let Some(uid) = self.uid(&procedure.name)
        {
            let before = self.procedures.insert(uid, Arc::clone(procedure));
            let was_native = before.is_some_and(|before| before.native.is_some());
            match (was_native, procedure.native.is_some()) {
                (false, true) => _ = self.absent.insert(uid),
                (true, false) => _ = self.absent.remove(&uid),
                _ => {}
            }
        }
        if let Some(dataflow) = command.dataflow() {
            let name = dataflow.name.clone();
            self.dataflows.insert(name, Arc::clone(dataflow));
        }
        if let Command::DropDataflow { name } = &command.record().command {
            self.dataflows.remove(name);
        }
        self.note_streams(command);
        Ok(())
    }

    /// Notes which streams exist.
    fn note_streams(&mut self, command: &ParsedCommand) {
        let record = command.record();
        match (&record.command, record.resolved.stream) {
            (Command::CreateStream { iri, .. }, Some(uid)) => {
                if let Some(declaration) = command.stream_declaration() {
                    let declaration = Arc::clone(declaration);
                    self.streams.insert(iri.clone(), (uid, declaration));
                }
            }
            (Command::ResetStream { iri }, Some(uid)) => {
                if let Some((known, _)) = self.streams.get_mut(iri) {
                    self.in_core.remove(known);
                    *known = uid;
                }
            }
            (Command::DropStream { iri }, _) => {
                if let Some((uid, _)) = self.streams.remove(iri) {
                    self.in_core.remove(&uid);
                }
            }
            _ => {}
        }
    }

    /// Tells the core of the streams that a procedure names.
    fn tell_streams(&mut self, command: &ParsedCommand) -> Result<(), RuntimeError> {
        let Some(procedure) = command.procedure() else {
            return Ok(());
        };
        let consumed = procedure.consumes.iter().map(|it| &it.stream);
        let named: Vec<_> = consumed.chain(procedure.emits()).collect();
        for stream in named {
            let Some((uid, declaration)) = self.streams.get(stream.as_str()) else {
                continue;
            };
            if self.in_core.insert(*uid) {
                let shape = StreamShape::of(declaration, *uid);
                let create = CoreCommand::CreateStream(shape);
                self.core.apply(&Event::Command(create))?;
            }
        }
        Ok(())
    }

    /// What a command means to the core.
    fn core_commands(&self, command: &ParsedCommand) -> Result<Vec<CoreCommand>, Refusal> {
        let record = command.record();
        if let Some(procedure) = command.procedure() {
            return Ok(vec![CoreCommand::CreateProcedure {
                shape: ProcedureShape::of(procedure, |iri| self.stream(iri.as_str()))?,
                or_replace: procedure.or_replace,
                begins: record.resolved.begins.iter().map(beginning).collect(),
            }]);
        }
        if let Some(dataflow) = command.dataflow() {
            return Ok(vec![CoreCommand::CreateDataflow {
                shape: DataflowShape::of(dataflow),
                or_replace: dataflow.or_replace,
            }]);
        }
        let command = match &record.command {
            Command::DropProcedure { name, discard } => Some(CoreCommand::DropProcedure {
                name: name.clone(),
                discard: *discard,
            }),
            Command::DropDataflow { name } => {
                Some(CoreCommand::DropDataflow { name: name.clone() })
            }
            Command::PauseDataflow { name } => {
                Some(CoreCommand::PauseDataflow { name: name.clone() })
            }
            Command::ResumeDataflow { name } => {
                Some(CoreCommand::ResumeDataflow { name: name.clone() })
            }
            Command::DropStream { iri } | Command::ResetStream { iri } => {
                let uid = self.stream(iri).filter(|uid| self.in_core.contains(uid));
                uid.map(CoreCommand::DropStream)
            }
            _ => None,
        };
        Ok(command.into_iter().collect())
    }

    /// Takes messages for consumers: of a pushed stream; in a replay also of an interior one, which
    /// the core knows by the entries that emitted them.
    ///
    /// # Errors
    /// The log contradicts itself.
    pub(crate) fn take_messages(
        &mut self,
        stream: StreamUid,
        messages: Vec<KeptMessage>,
    ) -> Result<(), RuntimeError> {
        let is_interior = self.is_interior(stream);
        for message in messages {
            let (place, at) = (message.place, message.at);
            self.messages.insert(stream, place, Message::of(message));
            if !is_interior {
                let event = Event::Message { stream, place, at };
                self.apply_event(&event)?;
            }
        }
        self.let_go(stream);
        Ok(())
    }

    /// A stream that procedures consume is complete through a time.
    ///
    /// # Errors
    /// The log contradicts itself.
    pub(crate) fn reach(
        &mut self,
        stream: StreamUid,
        through: EventTime,
    ) -> Result<(), RuntimeError> {
        match self.is_interior(stream) {
            true => Ok(()),
            false => self
                .apply_event(&Event::Complete { stream, through })
                .map(|_| ()),
        }
    }

    fn is_interior(&self, stream: StreamUid) -> bool {
        let mut streams = self.streams.values();
        let found = streams.find(|(uid, _)| *uid == stream);
        found.is_some_and(|(_, declaration)| declaration.source == StreamSource::Interior)
    }

    /// Keeps a message that a transaction has emitted.
    pub(super) fn keep(&mut self, stream: StreamUid, place: Place, message: Message) {
        self.messages.insert(stream, place, message);
    }

    /// Lets go of the messages of a stream that nothing needs.
    pub(super) fn let_go(&mut self, stream: StreamUid) {
        if let Some((below, _)) = self.core.holder(stream) {
            self.messages.release(stream, below);
        }
    }

    /// Applies what has come into the log, or will come there next. Returns the messages that are
    /// not needed any more.
    ///
    /// # Errors
    /// The log contradicts itself.
    pub(crate) fn apply_event(
        &mut self,
        event: &Event,
    ) -> Result<Vec<(StreamUid, Place)>, RuntimeError> {
        let mut released = Vec::new();
        for output in self.core.apply(event)? {
            match output {
                Output::Release { stream, below } => {
                    self.messages.release(stream, below);
                    released.push((stream, below));
                }
                Output::Stopped { dataflow } => {
                    tracing::warn!("dataflow {dataflow} has stopped: a transaction aborted");
                }
            }
        }
        Ok(released)
    }

    /// Applies logged transactions.
    ///
    /// # Errors
    /// The log contradicts itself, or recovery has to run one of them again.
    pub(crate) fn replay(&mut self, record: &TxnRecord) -> Result<(), RuntimeError> {
        let mut items = record.items.iter();
        items.try_for_each(|item| self.replay_item(item))
    }

    /// Applies one logged item.
    ///
    /// # Errors
    /// The log contradicts itself, or recovery has to run the item again.
    pub(super) fn replay_item(&mut self, item: &TxnItem) -> Result<(), RuntimeError> {
        let event = entries::event(item).map_err(|what| RuntimeError::Internal(what.to_owned()))?;
        if let Some(event) = event {
            self.apply_event(&event)?;
        }
        Ok(())
    }
}

/// What is declared, as records that each follow their length in two bytes.
fn saved(declared: &Declared) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    for record in declared.freeze() {
        let record = postcard::to_stdvec(&record).map_err(|error| error.to_string())?;
        let length = u16::try_from(record.len()).map_err(|_| "a record is too long")?;
        bytes.extend(length.to_le_bytes());
        bytes.extend(record);
    }
    Ok(bytes)
}

/// Restores what is declared from the records of a checkpoint, saves it, and does both again; gives
/// what was saved each time. For tests of the decoder.
///
/// # Errors
/// A sentence: the records do not belong together.
#[doc(hidden)]
pub fn saved_transactions_again(bytes: &[u8]) -> Result<(Vec<u8>, Vec<u8>), String> {
    let coordinator = Coordinator::default();
    let again = |bytes: &[u8]| {
        let restored = read_saved(bytes)?;
        saved(&Declared::restored(restored, &coordinator))
    };
    let first = again(bytes)?;
    let second = again(&first)?;
    Ok((first, second))
}

/// Whether a command is about procedures or dataflows.
pub(crate) fn is_declaration(command: &Command) -> bool {
    matches!(
        command,
        Command::CreateProcedure { .. }
            | Command::DropProcedure { .. }
            | Command::CreateDataflow { .. }
            | Command::DropDataflow { .. }
            | Command::PauseDataflow { .. }
            | Command::ResumeDataflow { .. }
    )
}

fn beginning(of: &ConsumerBegin) -> Beginning {
    Beginning {
        stream: of.stream,
        next: of.next,
        through: of.through,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use somersault_log::{CommandRecord, Resolved};

    fn declared() -> Declared {
        let mut declared = Declared::default();
        for text in [
            "CREATE PROCEDURE one(?n IRI) AS { INSERT { ?n <urn:p> 1 } WHERE { } }",
            "CREATE PROCEDURE two() AS NATIVE",
            "CREATE DATAFLOW flow { one, two } ON ABORT STOP",
        ] {
            let statement = somersault_lang::Parser::new()
                .parse_statement(text)
                .unwrap();
            let record = |command| CommandRecord {
                received_ms: 0,
                command,
                resolved: Resolved::default(),
            };
            let (name, text, namespace) = ("", text.to_owned(), None);
            let command = match statement {
                somersault_lang::Statement::CreateProcedure(procedure) => {
                    let command = Command::CreateProcedure {
                        name: name.to_owned(),
                        text,
                        namespace,
                    };
                    ParsedCommand::create_procedure(record(command), Arc::new(*procedure))
                }
                somersault_lang::Statement::CreateDataflow(dataflow) => {
                    let command = Command::CreateDataflow {
                        name: name.to_owned(),
                        text,
                        namespace,
                    };
                    ParsedCommand::create_dataflow(record(command), Arc::new(dataflow))
                }
                other => panic!("{other:?}"),
            };
            declared.judge(&command).unwrap();
            declared.apply(&command).unwrap();
        }
        declared
    }

    #[test]
    fn damaged_records_end_in_a_sentence_or_in_what_is_saved_as_the_same() {
        let whole = saved(&declared()).unwrap();
        let (first, second) = saved_transactions_again(&whole).unwrap();
        assert_eq!((&first, &second), (&whole, &whole));
        let mut refused = 0;
        for at in 0..whole.len() {
            for flipped in [1, 0x20, 0x80] {
                let mut damaged = whole.clone();
                damaged[at] ^= flipped;
                match saved_transactions_again(&damaged) {
                    Ok((first, second)) => assert_eq!(first, second, "byte {at}"),
                    Err(sentence) => {
                        assert!(!sentence.is_empty());
                        refused += 1;
                    }
                }
            }
            let cut = saved_transactions_again(&whole[..at]);
            assert!(cut.is_err(), "the first {at} bytes are not whole");
        }
        assert!(refused > whole.len(), "{refused} of {} bytes", whole.len());
    }

    #[test]
    fn a_native_procedure_is_absent_until_its_body_is_there() {
        let mut declared = declared();
        assert_eq!(declared.absent_names(), ["two"]);
        let restored = read_saved(&saved(&declared).unwrap()).unwrap();
        let restored = Declared::restored(restored, &Coordinator::default());
        assert_eq!(restored.absent_names(), ["two"]);
        declared.body_is_there(declared.uid("two").unwrap());
        assert_eq!(declared.absent_names(), [""; 0]);
    }
}
