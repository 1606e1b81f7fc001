//! Why a sink does not take answers.

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
