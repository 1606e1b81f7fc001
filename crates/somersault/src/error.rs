//! Everything that can go wrong, as the user of the engine sees it. Each message is a sentence
//! that says what was wrong, where, and what to do; the server maps the variants to status codes.

use std::path::PathBuf;

/// Why the engine refused or failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// A query, update or declaration does not parse.
    #[error("line {line}, column {column}: {message}")]
    Parse {
        /// The line in the text, from 1.
        line: u64,
        /// The column in the line, in characters, from 1.
        column: u64,
        /// What was found and what was expected.
        message: String,
    },
    /// RDF data does not parse; nothing of it was taken.
    #[error("line {line}, column {column} of the data: {message}")]
    Data {
        /// The line in the data, from 1 (0 where the syntax has no lines).
        line: u64,
        /// The column in the line, from 1.
        column: u64,
        /// What was found and what was expected.
        message: String,
    },
    /// Understood, but not part of this version.
    #[error("{0}")]
    NotSupported(String),
    /// There is no such stream, query or graph.
    #[error("{0}")]
    NotFound(String),
    /// It exists already and is something else, or the state does not allow it.
    #[error("{0}")]
    Conflict(String),
    /// It is well formed but cannot be accepted: BATCH that does not divide STEP, event time that goes back …
    #[error("{0}")]
    Invalid(String),
    /// A limit was hit.
    #[error("{message}")]
    Limit {
        /// Which one.
        which: LimitKind,
        /// What was exceeded, by how much where that is known, and how to raise it.
        message: String,
    },
    /// A query that read well failed while it was evaluated (SERVICE, LOAD …).
    #[error("{0}")]
    Evaluation(String),
    /// The data folder is damaged or of another version.
    #[error("{message}")]
    Damaged {
        /// The file that was not understood.
        file: PathBuf,
        /// Where in it.
        offset: u64,
        /// What was found, and what to do.
        message: String,
    },
    /// The disk is full or failing: nothing more is acknowledged, queries go on.
    #[error("{0}")]
    DiskFull(String),
    /// Reading or writing failed.
    #[error("{context}: {source}")]
    Io {
        /// What was being done, and with which file.
        context: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The engine is stopping or stopped.
    #[error("the engine has been stopped; open it again to go on")]
    Stopped,
    /// A fault of the engine itself.
    #[error("internal fault: {0}; please report it with the log")]
    Internal(String),
}

/// Which limit of [`Limits`](crate::Limits) was hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LimitKind {
    /// `query_time`
    QueryTime,
    /// `result_rows`
    ResultRows,
    /// `query_memory_bytes`
    QueryMemory,
    /// `body_bytes`
    Body,
    /// `push_statements`
    PushStatements,
    /// The memory budget of a stream.
    StreamBudget,
}
