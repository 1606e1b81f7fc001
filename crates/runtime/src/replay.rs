//! The log that an engine is opened with, read ahead of its replay: the driver takes portions of
//! its records and hands them to the sequencer as events. The texts of commands are parsed here. A
//! long log is read on a thread of its own, behind the threads that decode it; a simulated process
//! has no threads, and reads when the sequencer asks.
//!
//! Terms get their ids when a record is applied, and not here: whether a term of a push is kept for
//! good follows from the records before it.
//!
//! Before changing anything here: a portion is held in memory as terms until it is applied, so it
//! is bounded in statements too, and so is the number of portions.

use crate::error::RuntimeError;
use crossbeam_channel::{Receiver, bounded};
use somersault_log::{Position, Recovered};
use somersault_stream::{LoggedTexts, PushStatements, ReadTexts, Record};
use std::collections::VecDeque;
use std::thread::{Builder, JoinHandle};

/// At most this many records are in a portion.
const RECORDS: usize = 256;
/// The record with which a portion holds this many statements is its last.
const STATEMENTS: usize = 8192;
/// The number of portions that are read ahead.
const PORTIONS: usize = 4;

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
}

/// Portions that a thread reads ahead.
pub(crate) struct PortionsAhead {
    /// Taken when the thread is to end.
    portions: Option<Receiver<Result<Portion, RuntimeError>>>,
    thread: Option<JoinHandle<()>>,
}

impl LogReplay {
    /// The replay of these records; where there may be threads, one reads a long log ahead.
    ///
    /// # Errors
    /// The system has no thread for it.
    pub(crate) fn new(recovered: Recovered, has_threads: bool) -> Result<LogReplay, RuntimeError> {
        let is_long = recovered.len() > RECORDS as u64;
        let reader = PortionReader {
            recovered,
            texts: LoggedTexts::new(),
        };
        match has_threads && is_long {
            true => PortionsAhead::start(reader).map(LogReplay::Ahead),
            false => Ok(LogReplay::Here(Box::new(reader))),
        }
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
            let record =
                record.with_forms(PushStatements::from, |command| self.texts.read(command))?;
            statements += statements_of(&record);
            portion.records.push_back((position, record));
        }
        Ok(portion)
    }
}

/// Reads the texts that a checkpoint holds.
pub(crate) fn logged_texts() -> impl ReadTexts {
    LoggedTexts::new()
}

/// The statements that a record holds in memory.
pub(crate) fn statements_of(record: &Record) -> usize {
    match record {
        Record::Push(push) => push.statements.len(),
        Record::Update(update) => update.deletes.len() + update.inserts.len(),
        Record::Derived(derived) => derived.statements.len(),
        _ => 0,
    }
}
