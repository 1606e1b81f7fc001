//! Errors that end a run before its answers can be judged. A wrong answer is never one of these; it
//! is a line of the report.

use std::path::{Path, PathBuf};

/// Why a suite cannot be run to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SuiteError {
    /// A file of the suite cannot be read.
    #[error("{path}: cannot be read: {source}", path = path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// A file was read, but its content is not what the format requires.
    #[error("{path}: {reason}", path = path.display())]
    Broken {
        /// The file.
        path: PathBuf,
        /// The error and its position.
        reason: String,
    },
    /// The engine under test failed, or refused what every suite needs.
    #[error("the engine under test could not {action}: {reason}")]
    Engine {
        /// The action that was requested.
        action: String,
        /// Its answer.
        reason: String,
    },
}

impl SuiteError {
    /// A file whose content is not what the format requires.
    pub fn broken(path: &Path, reason: impl ToString) -> SuiteError {
        SuiteError::Broken {
            path: path.to_owned(),
            reason: reason.to_string(),
        }
    }

    /// A failure of the engine under test.
    pub fn engine(action: impl Into<String>, reason: impl ToString) -> SuiteError {
        SuiteError::Engine {
            action: action.into(),
            reason: reason.to_string(),
        }
    }
}
