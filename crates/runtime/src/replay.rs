//! The log that an engine is opened with, read ahead of its replay: the driver takes portions of
//! its records and hands them to the sequencer as events. The texts of commands are parsed here.
//!
//! Before changing anything here: a portion is held in memory as terms until it is applied, so it
//! is bounded in statements too.

use crate::error::RuntimeError;
use somersault_log::{Position, Recovered};
use somersault_stream::{LoggedTexts, PushStatements, ReadTexts, Record};
use std::collections::VecDeque;

/// At most this many records are in a portion.
const RECORDS: usize = 256;
/// The record with which a portion holds this many statements is its last.
const STATEMENTS: usize = 8192;

/// A log that is read for its replay.
pub(crate) struct LogReplay {
    recovered: Recovered,
    texts: LoggedTexts,
}

/// Consecutive records of a log.
#[derive(Default)]
pub(crate) struct Portion {
    /// The records, with their positions.
    pub(crate) records: VecDeque<(Position, Record)>,
    /// Whether the log ends with them.
    pub(crate) is_last: bool,
}

impl LogReplay {
    /// The replay of these records.
    pub(crate) fn new(recovered: Recovered) -> LogReplay {
        LogReplay {
            recovered,
            texts: LoggedTexts::new(),
        }
    }

    /// Reads the next records.
    ///
    /// # Errors
    /// The log does not read back, or holds a text that this version does not understand.
    pub(crate) fn read(&mut self) -> Result<Portion, RuntimeError> {
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
fn statements_of(record: &Record) -> usize {
    match record {
        Record::Push(push) => push.statements.len(),
        Record::Update(update) => update.deletes.len() + update.inserts.len(),
        Record::Derived(derived) => derived.statements.len(),
        _ => 0,
    }
}
