//! The failures of a log, in sentences that name the file, the offset and the remedy.
//!
//! Damage is kept apart from IO failures: damage means that the folder must not be used as it is,
//! an IO failure that the disk did not carry out an operation.

use crate::record::Position;

/// A refusal or failure of the log.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// The folder belongs to a running process.
    #[error(
        "the data folder {folder} is in use by another process: stop that process, or give this one another folder with --data"
    )]
    Locked {
        /// The data folder.
        folder: String,
    },
    /// The folder is a backup, or a copy that was not finished.
    #[error(
        "{folder} is a backup, or a copy that was not finished, and nothing writes it: make a data folder of it with somersault restore {folder} DIR. If its copying broke off, remove it and copy again"
    )]
    Copy {
        /// The folder.
        folder: String,
    },
    /// A segment of a format that this build does not read.
    #[error(
        "{file} has log format version {found}, this build reads versions up to {expected}: open it with the release that wrote it, or start with an empty data folder"
    )]
    Version {
        /// The segment file.
        file: String,
        /// The version in the file.
        found: u32,
        /// The newest version that this build reads.
        expected: u32,
    },
    /// A record of a kind that came with a newer version.
    #[error(
        "{file} was written by a newer version of Somersault: at byte {offset}, {what}; nothing was changed. Open the data folder with the version that wrote it, or a later one, or start with an empty folder"
    )]
    Newer {
        /// The segment file.
        file: String,
        /// The byte offset in that file.
        offset: u64,
        /// The part that this version does not know.
        what: String,
    },
    /// Bytes do not read back although they were written completely.
    #[error(
        "{file} is damaged at byte {offset}: {what}; nothing was changed. Restore the file from a copy, or move the data folder away to start empty"
    )]
    Damaged {
        /// The file.
        file: String,
        /// The byte offset in that file.
        offset: u64,
        /// The finding.
        what: String,
    },
    /// The proof file does not read back. The log opens without it.
    #[error(
        "{file} does not read back: it is empty, cut or changed; nothing was changed. Restore it from a copy. To go on without it, delete or rename it: the segments are verified all the same; what is not checked then is whether the log was durable further than it now reads"
    )]
    DamagedProof {
        /// The proof file.
        file: String,
    },
    /// A file that the log needs is not there.
    #[error(
        "{file} is missing: {what}; nothing was changed. Restore the file from a copy, or move the data folder away to start empty"
    )]
    Missing {
        /// The file.
        file: String,
        /// Why it must be there.
        what: String,
    },
    /// A segment of another log, of another time, or one that is there twice.
    #[error(
        "{file} does not belong to this log: {what}; nothing was changed. Move that file out of the data folder; if the log then misses a segment, restore it from a copy of the same folder"
    )]
    Foreign {
        /// The segment file.
        file: String,
        /// The finding.
        what: String,
    },
    /// The log was trimmed further than its records are wanted.
    #[error(
        "the log in {folder} begins with record {first}, but its records from {needed} on are needed: those before {first} were removed, because a checkpoint covered them, and no checkpoint that reads back covers them now; nothing was changed. Restore the folder from a backup, or move it away to start empty"
    )]
    Trimmed {
        /// The data folder.
        folder: String,
        /// The oldest record that is there.
        first: Position,
        /// The oldest record that is wanted.
        needed: Position,
    },
    /// The log ends before the position after which its records are wanted.
    #[error(
        "the log in {folder} ends with record {end}, but its records after {after} are needed: the records between are lost; nothing was changed. Restore the folder from a copy"
    )]
    Ended {
        /// The data folder.
        folder: String,
        /// The last record that reads back.
        end: Position,
        /// The position after which records are wanted.
        after: Position,
    },
    /// The log reads back fewer records than it once held.
    #[error(
        "{file} holds less than it did: the log reads back through record {found}, but {proof} says that it was {} record {durable}; nothing was changed. Restore the file from a copy. To go on without the {} missing records, move {proof} away",
        if *closed { "closed in order with" } else { "durable through" },
        durable.0.saturating_sub(found.0)
    )]
    Short {
        /// The segment file that ends too early.
        file: String,
        /// The file that says how much there was.
        proof: String,
        /// The last record that reads back.
        found: Position,
        /// The last record that was durable when the proof was written.
        durable: Position,
        /// Whether the log was closed in order then.
        closed: bool,
    },
    /// The disk has no room for inputs. They are taken again once it has, without a restart.
    #[error(
        "the disk of {folder} is full: this was not applied. Free some space: inputs are taken again once there is room, without a restart; queries go on meanwhile"
    )]
    Full {
        /// The data folder.
        folder: String,
    },
    /// A write found the disk full. The log acknowledges nothing more until it is opened again.
    #[error(
        "the disk is full, writing {file}: free some space and restart; queries go on, nothing more is accepted meanwhile"
    )]
    DiskFull {
        /// The file that was being written.
        file: String,
    },
    /// The disk refused an operation. The log acknowledges nothing more until it is opened again.
    #[error("could not {action} {file}: {message}; check the disk and restart")]
    Io {
        /// The operation: "write", "sync", "open" …
        action: &'static str,
        /// The file or folder.
        file: String,
        /// The operating system's words.
        message: String,
    },
    /// The newest segment is not in the data folder any more. The log acknowledges nothing more
    /// until it is opened again.
    #[error(
        "{file} is not there any more, or another file has its name: the data folder was deleted, moved or replaced while it was in use, and what was written since may be lost. Stop the server, put the folder back, and start again"
    )]
    Gone {
        /// The segment file.
        file: String,
    },
    /// A statement in a load segment, or given to one, that cannot be written or read.
    #[error(
        "load segment {file}: {message}; restore the file from a copy, or move the data folder away to start empty"
    )]
    Segment {
        /// The load segment.
        file: String,
        /// The fault.
        message: String,
    },
    /// A record that the format cannot hold; the log continues without it.
    #[error("this cannot be logged: {what}")]
    Unwritable {
        /// The fault and the remedy.
        what: String,
    },
    /// The log was closed before this position became durable.
    #[error(
        "the log was closed before record {position} was durable; it may or may not be there after a restart"
    )]
    Closed {
        /// The position waited for.
        position: Position,
    },
}

impl LogError {
    /// Wraps an IO error; a full disk has its own variant.
    pub(crate) fn io(action: &'static str, file: &str, error: &std::io::Error) -> LogError {
        if error.kind() == std::io::ErrorKind::StorageFull
            || error.kind() == std::io::ErrorKind::QuotaExceeded
        {
            LogError::DiskFull {
                file: file.to_owned(),
            }
        } else {
            LogError::Io {
                action,
                file: file.to_owned(),
                message: error.to_string(),
            }
        }
    }

    /// Whether this is a failure after which the log acknowledges nothing more.
    #[must_use]
    pub fn stops_the_log(&self) -> bool {
        matches!(
            self,
            LogError::DiskFull { .. } | LogError::Io { .. } | LogError::Gone { .. }
        )
    }
}
