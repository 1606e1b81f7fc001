//! The log itself (first signatures; bodies follow).

use crate::disk::Disk;
use crate::error::LogError;
use crate::record::{LoadSegment, Position, Record};
use oxrdf::{Quad, QuadRef};
use std::sync::Arc;

/// How a log is kept.
#[derive(Clone, Debug)]
pub struct LogOptions {
    /// A new segment file is begun when the newest has reached this length.
    pub segment_bytes: u64,
    /// `append` waits once so many bytes have not been written yet.
    pub pending_bytes: usize,
}

impl Default for LogOptions {
    fn default() -> LogOptions {
        LogOptions { segment_bytes: 64 << 20, pending_bytes: 64 << 20 }
    }
}

/// An incomplete end that a crash left and opening cut off. None of it had been acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TornTail {
    /// The segment file.
    pub file: String,
    /// Where it was cut.
    pub offset: u64,
    /// How many bytes were cut off.
    pub bytes: u64,
}

/// The records of an opened log, in order. Reads segment by segment.
pub struct Recovered {}

impl Recovered {
    /// The incomplete end that was cut off, if there was one.
    pub fn torn_tail(&self) -> Option<&TornTail> {
        unimplemented!()
    }
    /// Whether the log was closed in order the last time.
    pub fn was_closed(&self) -> bool {
        unimplemented!()
    }
    /// How many records there are.
    pub fn len(&self) -> u64 {
        unimplemented!()
    }
    /// Whether the log is new.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Iterator for Recovered {
    type Item = Result<(Position, Record), LogError>;
    fn next(&mut self) -> Option<Self::Item> {
        unimplemented!()
    }
}

/// One process's log.
pub struct Log {}

impl Log {
    /// Opens the log in a folder, or begins one in an empty folder.
    ///
    /// # Errors
    /// See [`LogError`]: another process has the folder, another version, damage, a missing file, IO.
    pub fn open(_disk: Arc<dyn Disk>, _options: LogOptions) -> Result<(Log, Recovered), LogError> {
        unimplemented!()
    }
    /// A log without a disk: everything is durable at once, nothing survives the process.
    pub fn volatile() -> Log {
        unimplemented!()
    }
    /// Whether this log has no disk.
    pub fn is_volatile(&self) -> bool {
        unimplemented!()
    }
    /// Puts a record at the end and returns its position; positions are in call order. Not durable yet.
    ///
    /// # Errors
    /// The record is not in the log then: it is too large or cannot be written (the log goes on), or the log has
    /// failed or was closed.
    pub fn append(&self, _record: &Record) -> Result<Position, LogError> {
        unimplemented!()
    }
    /// The newest position appended.
    pub fn end(&self) -> Position {
        unimplemented!()
    }
    /// All records up to here survive a crash.
    pub fn durable(&self) -> Position {
        unimplemented!()
    }
    /// Waits until the position is durable.
    ///
    /// # Errors
    /// The failure that stopped the log.
    pub fn wait_durable(&self, _position: Position) -> Result<(), LogError> {
        unimplemented!()
    }
    /// Calls this after every group that became durable, and once when the log fails; from the log's own thread.
    pub fn on_durable(&self, _call: Box<dyn Fn(Position) + Send + Sync>) {
        unimplemented!()
    }
    /// Why nothing more is acknowledged, if that is so.
    pub fn failed(&self) -> Option<LogError> {
        unimplemented!()
    }
    /// Begins a load segment. It counts only once a `Load` record names it.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn load_segment(&self) -> Result<LoadSegmentWriter, LogError> {
        unimplemented!()
    }
    /// Reads a load segment; the hash is verified at its end, before the last statement is handed out.
    ///
    /// # Errors
    /// A missing or damaged segment.
    pub fn read_load_segment(
        &self,
        _segment: &LoadSegment,
    ) -> Result<Box<dyn Iterator<Item = Result<Quad, LogError>> + Send>, LogError> {
        unimplemented!()
    }
    /// Makes everything durable, marks the log as closed in order and frees the folder.
    ///
    /// # Errors
    /// The failure that stopped the log.
    pub fn close(&self) -> Result<(), LogError> {
        unimplemented!()
    }
}

/// Writes a load segment.
pub struct LoadSegmentWriter {}

impl LoadSegmentWriter {
    /// Adds a statement.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn write(&mut self, _quad: QuadRef<'_>) -> Result<(), LogError> {
        unimplemented!()
    }
    /// Makes the segment durable. Dropping the writer instead takes the file away.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn finish(self) -> Result<LoadSegment, LogError> {
        unimplemented!()
    }
}
