//! The failures of checkpoint files, in sentences that name the file and the remedy.
//!
//! Before changing it: damage is kept apart from IO failures. What a damaged file held is written
//! again; a failed read or write abandons the checkpoint that is being made. A start passes over a
//! checkpoint that is damaged or cannot be read for the one before it, which changes nothing.

use std::io;

/// A refusal or failure of a checkpoint's files.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// Bytes do not read back as they were written.
    #[error(
        "{file} is damaged at byte {offset}: {what}. Restore the file from a copy; without it an older checkpoint is used"
    )]
    Damaged {
        /// The file.
        file: String,
        /// The byte offset in that file.
        offset: u64,
        /// The finding.
        what: String,
    },
    /// A file that a manifest names is not there.
    #[error(
        "{file} is missing, which {manifest} names. Restore the file from a copy; without it an older checkpoint is used"
    )]
    Missing {
        /// The file.
        file: String,
        /// The manifest.
        manifest: String,
    },
    /// A file of another log or of another checkpoint.
    #[error(
        "{file} does not belong here: {what}. Put the right file in its place; without it an older checkpoint is used"
    )]
    Foreign {
        /// The file.
        file: String,
        /// What it is instead.
        what: String,
    },
    /// A file of a format that came with a newer version.
    #[error(
        "{file} was written by a newer version of Somersault: {what}; nothing was changed. Open the data folder with the version that wrote it, or a later one"
    )]
    Newer {
        /// The file.
        file: String,
        /// The part that this version does not know.
        what: String,
    },
    /// The disk has no room left for a checkpoint.
    #[error(
        "the disk is full, writing {file}: free some space; the checkpoint was abandoned, and the ones before it are kept"
    )]
    DiskFull {
        /// The file that was being written.
        file: String,
    },
    /// The disk refused an operation.
    #[error("could not {action} {file}: {message}; check the disk")]
    Io {
        /// The operation: "write", "sync", "open" …
        action: &'static str,
        /// The file or folder.
        file: String,
        /// The operating system's words.
        message: String,
    },
    /// A record that the format cannot hold.
    #[error("{file} cannot hold this: {what}; the checkpoint was abandoned")]
    Unwritable {
        /// The file.
        file: String,
        /// The fault.
        what: String,
    },
}

impl CheckpointError {
    /// Whether a checkpoint is not whole. An IO failure does not say so: the file may be whole.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        matches!(
            self,
            CheckpointError::Damaged { .. }
                | CheckpointError::Missing { .. }
                | CheckpointError::Foreign { .. }
        )
    }

    /// Wraps an IO error; a full disk has its own variant.
    pub(crate) fn io(action: &'static str, file: &str, error: &io::Error) -> CheckpointError {
        let file = file.to_owned();
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                CheckpointError::DiskFull { file }
            }
            _ => CheckpointError::Io {
                action,
                file,
                message: error.to_string(),
            },
        }
    }

    pub(crate) fn damaged(file: &str, offset: u64, what: impl Into<String>) -> CheckpointError {
        CheckpointError::Damaged {
            file: file.to_owned(),
            offset,
            what: what.into(),
        }
    }

    pub(crate) fn foreign(file: &str, what: impl Into<String>) -> CheckpointError {
        CheckpointError::Foreign {
            file: file.to_owned(),
            what: what.into(),
        }
    }
}
