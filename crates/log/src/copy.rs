//! The part of a running log that a backup takes: whole segments, and of the newest one the bytes
//! that are durable.
//!
//! The one thing to know: the log goes on meanwhile. What was durable at one instant is fixed by
//! the lengths given here; the copy does not take the bytes behind them.

use crate::record::Position;

/// The file that marks a copy. Opening refuses a folder with it, until an opening with
/// [`crate::LogOptions::is_copy`] begins a branch and takes it away.
pub(crate) const COPY_FILE: &str = "log.copy";
/// Its content, for people who find it.
const COPY_TEXT: &[u8] =
    b"This folder is a backup. Make a data folder of it with: somersault restore THIS-FOLDER NEW-FOLDER\n";

/// The files of a log that hold its records behind a position, up to those that were durable at one
/// instant.
#[derive(Clone, Debug)]
pub struct LogCopy {
    /// The content of the copy's proof file.
    pub(crate) proof: Vec<u8>,
    /// The load segments and then the segments, the newest first, with the length that is copied.
    pub(crate) files: Vec<(String, u64)>,
    pub(crate) end: Position,
}

impl LogCopy {
    /// The name and the content of the file that marks a folder as a copy, which nothing may write
    /// before it has become a branch. It is written first.
    #[must_use]
    pub fn mark() -> (&'static str, &'static [u8]) {
        (COPY_FILE, COPY_TEXT)
    }

    /// The name and the content of the copy's proof file. It is written before all other files: it
    /// says what they must hold, so a copy that breaks off is refused by readers too.
    #[must_use]
    pub fn proof(&self) -> (&'static str, &[u8]) {
        (crate::proof::PROOF_FILE, &self.proof)
    }

    /// The other files, in the order in which they are to be written, and the number of bytes that
    /// count in each.
    #[must_use]
    pub fn files(&self) -> &[(String, u64)] {
        &self.files
    }

    /// The position of the last record.
    #[must_use]
    pub fn end(&self) -> Position {
        self.end
    }
}
