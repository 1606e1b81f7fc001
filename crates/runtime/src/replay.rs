//! The log that an engine is opened with, read ahead of its replay: the driver takes portions of
//! its records and hands them to the sequencer as events. The texts of commands are parsed here. A
//! long log is read on a thread of its own, behind the threads that decode it; a simulated process
//! has no threads, and reads when the sequencer asks.
//!
//! The thread also turns the terms of pushes into ids, as the threads that pushed them did: what is
//! applied decides again which of them are kept for good. A push whose stream is not known yet, and
//! every other record, gets its ids when it is applied; so does all of a log that is read when the
//! sequencer asks.
//!
//! Before changing anything here: a portion is held in memory as terms until it is applied, so it
//! is bounded in statements too, and so is the number of portions.

use crate::error::RuntimeError;
use crossbeam_channel::{Receiver, bounded};
use somersault_lang::procedure::{CreateDataflow, CreateProcedure};
use somersault_log::{Position, Recovered, StreamStatement};
use somersault_stream::{LoggedTexts, PushStatements, ReadTexts, Record, RecordedTransactions};
use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

/// At most this many records are in a portion.
const RECORDS: usize = 256;
/// The record with which a portion holds this many statements is its last.
const STATEMENTS: usize = 8192;
/// The number of portions that are read ahead.
const PORTIONS: usize = 4;

/// Turns the terms of a push to the stream of this IRI into ids, if it knows the stream.
pub(crate) type NumberPushes = Box<dyn FnMut(&str, Vec<StreamStatement>) -> PushStatements + Send>;

/// A log that is read for its replay.
pub(crate) enum LogReplay {
    /// Read by the caller.
    Here(Box<PortionReader>),
    /// Read ahead by a thread.
    Ahead(PortionsAhead),
}

/// Consecutive records of a log.
#[derive(Default)]
pub(crate) struct Portion {
    /// The records, with their positions.
    pub(crate) records: VecDeque<(Position, Record)>,
    /// Whether the log ends with them.
    pub(crate) is_last: bool,
}

/// Reads portions of a log, one after the other.
pub(crate) struct PortionReader {
    recovered: Recovered,
    texts: LoggedTexts,
    number: Option<NumberPushes>,
}

/// Portions that a thread reads ahead.
pub(crate) struct PortionsAhead {
    /// Taken when the thread is to end.
    portions: Option<Receiver<Result<Portion, RuntimeError>>>,
    thread: Option<JoinHandle<()>>,
}

impl LogReplay {
    /// The replay of these records, read when they are asked for.
    pub(crate) fn here(recovered: Recovered) -> LogReplay {
        LogReplay::Here(Box::new(PortionReader {
            recovered,
            texts: LoggedTexts::new(),
            number: None,
        }))
    }

    /// The replay of these records; a thread reads a long log ahead.
    ///
    /// # Errors
    /// The system has no thread for it.
    pub(crate) fn ahead(
        recovered: Recovered,
        number: NumberPushes,
    ) -> Result<LogReplay, RuntimeError> {
        if recovered.len() <= RECORDS as u64 {
            return Ok(LogReplay::here(recovered));
        }
        let reader = PortionReader {
            recovered,
            texts: LoggedTexts::new(),
            number: Some(number),
        };
        PortionsAhead::start(reader).map(LogReplay::Ahead)
    }

    /// The next records.
    ///
    /// # Errors
    /// The log does not read back, or holds a text that this version does not understand.
    pub(crate) fn read(&mut self) -> Result<Portion, RuntimeError> {
        match self {
            LogReplay::Here(reader) => reader.read(),
            LogReplay::Ahead(ahead) => ahead.next(),
        }
    }
}

impl PortionsAhead {
    fn start(mut reader: PortionReader) -> Result<PortionsAhead, RuntimeError> {
        let (ready, portions) = bounded(PORTIONS);
        let read = move || {
            loop {
                let portion = reader.read();
                let goes_on = portion.as_ref().is_ok_and(|portion| !portion.is_last);
                if ready.send(portion).is_err() || !goes_on {
                    return;
                }
            }
        };
        let thread = Builder::new().name("replay".to_owned()).spawn(read);
        let thread = thread.map_err(|error| {
            RuntimeError::Internal(format!(
                "the thread that reads the log cannot be started: {error}"
            ))
        })?;
        Ok(PortionsAhead {
            portions: Some(portions),
            thread: Some(thread),
        })
    }

    fn next(&self) -> Result<Portion, RuntimeError> {
        let portion = self.portions.as_ref().and_then(|it| it.recv().ok());
        portion.unwrap_or_else(|| {
            Err(RuntimeError::Internal(
                "the thread that reads the log panicked".to_owned(),
            ))
        })
    }
}

impl Drop for PortionsAhead {
    fn drop(&mut self) {
        // The thread ends when its next portion is not wanted.
        self.portions = None;
        if let Some(thread) = self.thread.take() {
            // A panic was reported in place of its portion.
            let _ = thread.join();
        }
    }
}

impl PortionReader {
    fn read(&mut self) -> Result<Portion, RuntimeError> {
        let mut portion = Portion::default();
        let mut statements = 0;
        while portion.records.len() < RECORDS && statements < STATEMENTS {
            let Some(next) = self.recovered.next() else {
                portion.is_last = true;
                break;
            };
            let (position, record) = next?;
            let record = self.parsed(record)?;
            statements += statements_of(&record);
            portion.records.push_back((position, record));
        }
        Ok(portion)
    }

    /// A record with its texts parsed, and with ids where they can be given already.
    fn parsed(&mut self, record: somersault_log::Record) -> Result<Record, RuntimeError> {
        let mut number = self.number.as_mut();
        let stream = match &record {
            somersault_log::Record::Push(push) => Some(push.stream.clone()),
            somersault_log::Record::Messages(record) => Some(record.stream.clone()),
            _ => None,
        };
        let statements = |statements| match (&mut number, stream) {
            (Some(number), Some(stream)) => number(&stream, statements),
            _ => PushStatements::from(statements),
        };
        let command = |command| self.texts.read(command);
        Ok(record.with_forms(statements, command, RecordedTransactions::from)?)
    }
}

/// Reads the texts that a checkpoint holds.
pub(crate) fn logged_texts() -> impl ReadTexts {
    LoggedTexts::new()
}

/// The procedure that a text declares.
///
/// # Errors
/// This version does not understand the text.
pub(crate) fn logged_procedure(
    text: &str,
    namespace: Option<&str>,
) -> Result<Arc<CreateProcedure>, RuntimeError> {
    Ok(LoggedTexts::procedure(text, namespace)?)
}

/// The dataflow that a text declares.
///
/// # Errors
/// This version does not understand the text.
pub(crate) fn logged_dataflow(
    text: &str,
    namespace: Option<&str>,
) -> Result<Arc<CreateDataflow>, RuntimeError> {
    Ok(LoggedTexts::dataflow(text, namespace)?)
}

/// The statements that a record holds in memory.
pub(crate) fn statements_of(record: &Record) -> usize {
    match record {
        Record::Push(push) => push.statements.len(),
        Record::Messages(record) => record.statements.len(),
        Record::Update(update) => update.deletes.len() + update.inserts.len(),
        Record::Derived(derived) => derived.statements.len(),
        Record::Txn(record) => record.statements(),
        _ => 0,
    }
}
