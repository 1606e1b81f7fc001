//! The failures of subcommands, and their exit codes.

use std::process::ExitCode;

/// A failure, as a sentence for a person.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    /// The command line asks for something that cannot be: exit code 2.
    #[error("{0}")]
    Usage(String),
    /// Something went wrong while doing it: exit code 1.
    #[error("{0}")]
    Failed(String),
    /// The server refused: exit code 1.
    #[error("{0}")]
    Refused(Refusal),
    /// A procedure aborted: exit code 3.
    #[error("{0}")]
    Aborted(String),
    /// A call was refused, and nothing was changed: exit code 4.
    #[error("{0}")]
    CallRefused(String),
    /// No answer came from the server: exit code 1.
    #[error("{0}")]
    Unreachable(String),
    /// The server was reached, and closed the connection before it answered: exit code 1.
    #[error("{0}")]
    CutOff(String),
    /// The reader of standard output has closed it (`… | head`): no failure, and nothing to say.
    #[error("standard output was closed")]
    ReaderGone,
}

/// The server's reason for a refusal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{sentence} ({status})")]
pub(crate) struct Refusal {
    /// The HTTP status, with its words.
    pub(crate) status: String,
    /// The word for its kind, which does not change.
    pub(crate) code: String,
    /// The sentence.
    pub(crate) sentence: String,
    /// Line and column in the text that was sent.
    pub(crate) place: Option<(u32, u32)>,
    /// Whether the same request may succeed later.
    pub(crate) is_passing: bool,
}

impl CliError {
    /// A failure with what was being done in front of its cause.
    pub(crate) fn failed(doing: impl std::fmt::Display, cause: impl std::fmt::Display) -> Self {
        Self::Failed(format!("{doing}: {cause}"))
    }

    /// 1 for a failure, 2 for wrong usage, 3 for an abort of a procedure, 4 for a refused call.
    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Self::Usage(_) => ExitCode::from(2),
            Self::Aborted(_) => ExitCode::from(3),
            Self::CallRefused(_) => ExitCode::from(4),
            Self::Failed(_) | Self::Refused(_) | Self::Unreachable(_) | Self::CutOff(_) => {
                ExitCode::FAILURE
            }
            Self::ReaderGone => ExitCode::SUCCESS,
        }
    }
}

impl From<std::io::Error> for CliError {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::BrokenPipe => Self::ReaderGone,
            _ => Self::Failed(error.to_string()),
        }
    }
}

impl From<somersault::AnswerError> for CliError {
    fn from(error: somersault::AnswerError) -> Self {
        somersault::EngineError::from(error).into()
    }
}

impl From<somersault::EngineError> for CliError {
    fn from(error: somersault::EngineError) -> Self {
        match &error {
            somersault::EngineError::Io { source, .. }
                if source.kind() == std::io::ErrorKind::BrokenPipe =>
            {
                Self::ReaderGone
            }
            _ => Self::Failed(error.to_string()),
        }
    }
}
