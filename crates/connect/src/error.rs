//! Why a sink does not take answers, why a source brings nothing, and why a declaration is
//! refused.

use std::path::PathBuf;

/// Why a sink does not take answers. It is tried again until it does.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SinkError {
    /// The file cannot be opened, read or written.
    #[error("the file {} cannot be used: {source}", .file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The file holds something else than answers.
    #[error(
        "the file {} does not hold answers: line {line} is not one; give the sink a file of its own",
        .file.display()
    )]
    NotAnswers {
        /// The file.
        file: PathBuf,
        /// The line's number among those that were read.
        line: usize,
    },
    /// The file holds later answers and not this one.
    #[error(
        "the file {} has answers that come after {key}, and does not have {key}: it is of another data folder or query, or lines of it were removed; move it away, or give the sink a file of its own",
        .file.display()
    )]
    OtherAnswers {
        /// The file.
        file: PathBuf,
        /// The answer.
        key: String,
    },
    /// The receiver could not be reached, or broke off.
    #[error("no answer from {url}: {cause}")]
    Unreachable {
        /// The receiver.
        url: String,
        /// The cause.
        cause: String,
    },
    /// The receiver answered with another status than 2xx.
    #[error("{url} answered with status {status}, and an answer counts as taken at 2xx alone")]
    Refused {
        /// The receiver.
        url: String,
        /// The status.
        status: u16,
    },
    /// The broker could not be reached, or broke off.
    #[error("{broker}: {cause}")]
    Broker {
        /// The broker.
        broker: String,
        /// The cause.
        cause: String,
    },
    /// It was stopped before the receiver had answered.
    #[error("it was stopped before the receiver had answered")]
    Stopped,
    /// The answer cannot be written as text.
    #[error("the answer {key} cannot be written: {cause}")]
    Unwritable {
        /// The answer.
        key: String,
        /// The cause.
        cause: String,
    },
}

/// Why a source brings nothing. It is tried again until it does.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// The file cannot be opened or read.
    #[error("the file {} cannot be used: {source}", .file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The broker cannot be reached, or broke off.
    #[error("{broker}: {cause}")]
    Broker {
        /// The broker.
        broker: String,
        /// The cause.
        cause: String,
    },
    /// The note for the next start cannot be written.
    #[error("the position of the source cannot be noted: {0}")]
    Note(std::io::Error),
    /// The engine does not say how far the source is.
    #[error("{0}")]
    Engine(#[from] somersault::EngineError),
    /// It was stopped.
    #[error("it was stopped")]
    Stopped,
}

/// Why a source or a sink is not declared, dropped, paused or resumed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The declaration cannot be.
    #[error("{0}")]
    Invalid(String),
    /// There is no such source or sink.
    #[error("{0}")]
    NotFound(String),
    /// The name belongs to another declaration.
    #[error("{0}")]
    Conflict(String),
    /// The engine refuses.
    #[error("{0}")]
    Engine(#[from] somersault::EngineError),
    /// A thread cannot be started.
    #[error("the thread of {name} cannot be started: {source}")]
    Thread {
        /// The source or sink.
        name: String,
        /// The cause.
        source: std::io::Error,
    },
    /// The file of declarations cannot be read or written.
    #[error("the file of connectors {} cannot be {what}: {source}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What was tried.
        what: &'static str,
        /// The cause.
        source: std::io::Error,
    },
    /// The file of declarations is not understood.
    #[error("the file of connectors {} is not understood: {message}. Restore it, or delete it and declare the sources and sinks again", .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        message: String,
    },
}
