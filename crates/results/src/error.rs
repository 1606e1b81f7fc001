//! Errors of writing an answer.

/// The reason why an answer cannot be written in a format.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AnswerError {
    /// The format cannot hold the answer, the name of a column, or a value.
    #[error("{0}")]
    CannotHold(String),
    /// There is no writer of the format.
    #[error("{0}")]
    NotSupported(String),
    /// The writer that takes the text failed.
    #[error("the answer could not be written: {0}")]
    Io(#[source] std::io::Error),
}
