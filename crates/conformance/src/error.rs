//! Errors that stop a run before a test can be judged: unreadable files and broken suites. A
//! failing test is never one of these; it is a line of the report.

use std::path::{Path, PathBuf};

/// Why a suite cannot be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConformanceError {
    /// A file of the suite cannot be read.
    #[error("{path}: cannot be read: {source}; check the folder given on the command line", path = path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// A file of the suite was read, but its content is not what the format requires.
    #[error("{path}: {reason}", path = path.display())]
    Broken {
        /// The file.
        path: PathBuf,
        /// The error and its position.
        reason: String,
    },
    /// The engine under test refused something that every suite needs, such as opening.
    #[error("the engine under test refused to {action}: {reason}")]
    Engine {
        /// The action that was requested.
        action: String,
        /// Its answer.
        reason: String,
    },
    /// The child process of a kill run misbehaved.
    #[error("the engine's process {0}")]
    Child(String),
    /// A suite of transactions could not be run to its end.
    #[error(transparent)]
    Transactions(somersault_suites::SuiteError),
}

impl ConformanceError {
    /// A file whose content is not what the format requires.
    pub fn broken(path: &Path, reason: impl Into<String>) -> Self {
        Self::Broken {
            path: path.to_owned(),
            reason: reason.into(),
        }
    }

    /// A refusal by the engine under test.
    pub fn engine(action: impl Into<String>, reason: impl ToString) -> Self {
        Self::Engine {
            action: action.into(),
            reason: reason.to_string(),
        }
    }
}
