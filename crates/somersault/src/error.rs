//! All errors, as the user of the engine sees them. Each message is a sentence that says what was
//! wrong, where, and what to do; the server maps the variants to status codes.

use oxrdfio::RdfParseError;
use somersault_checkpoint::CheckpointError;
use somersault_lang::ParseError;
use somersault_log::LogError;
use somersault_query::QueryError;
use somersault_results::AnswerError;
use somersault_runtime::RuntimeError;
use somersault_stream::{Refusal, RefusalKind};
use std::path::PathBuf;

/// The reason why the engine refused or failed.
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
        /// The text found and the text expected.
        message: String,
    },
    /// RDF data does not parse; nothing of it was taken.
    #[error("line {line}, column {column} of the data: {message}")]
    Data {
        /// The line in the data, from 1 (0 if the syntax has no lines).
        line: u64,
        /// The column in the line, from 1.
        column: u64,
        /// The text found and the text expected.
        message: String,
    },
    /// The request is understood, but not part of this version.
    #[error("{0}")]
    NotSupported(String),
    /// There is no such stream, query or graph.
    #[error("{0}")]
    NotFound(String),
    /// It exists already with another content, or the state does not allow the request.
    #[error("{0}")]
    Conflict(String),
    /// The same work is under way already.
    #[error("{0}")]
    UnderWay(String),
    /// The request is well formed but cannot be accepted: BATCH that does not divide STEP, event
    /// time that goes back …
    #[error("{0}")]
    Invalid(String),
    /// A push has a statement that is later than LATENESS allows; nothing of it was taken.
    #[error("{0}")]
    Late(String),
    /// The holder of the handle lacks a right; see [`Access`](crate::Access).
    #[error("{message}")]
    Forbidden {
        /// The right, as [`Right`](crate::Right) has it.
        right: String,
        /// A sentence that names the right.
        message: String,
    },
    /// A limit was hit.
    #[error("{message}")]
    Limit {
        /// The limit that was hit.
        which: LimitKind,
        /// A sentence that says which limit was exceeded, by how much if known, and how to raise
        /// it.
        message: String,
    },
    /// A query that parses failed while it was evaluated (SERVICE, LOAD …).
    #[error("{0}")]
    Evaluation(String),
    /// The data folder is damaged or of another version.
    #[error("{message}")]
    Damaged {
        /// The file that was not understood.
        file: PathBuf,
        /// The offset in the file.
        offset: u64,
        /// A sentence that says what was found, and what to do.
        message: String,
    },
    /// The disk is full: nothing more is acknowledged, queries still work.
    #[error("{0}")]
    DiskFull(String),
    /// The disk failed a request, or the data folder is gone: nothing more is acknowledged, queries
    /// still work.
    #[error("{0}")]
    DiskFailed(String),
    /// Reading or writing failed.
    #[error("{context}: {source}")]
    Io {
        /// The action, and the file.
        context: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// The engine is stopping or stopped.
    #[error("the engine has been stopped; open it again to go on")]
    Stopped,
    /// The caller cancelled the query; see [`QueryOptions::cancel`](crate::QueryOptions::cancel).
    #[error("the query was given up by its caller")]
    Cancelled,
    /// A shard has failed: nothing more is taken, queries still work.
    #[error("{0}. Please report it with the log")]
    Failed(String),
    /// A fault of the engine itself.
    #[error("internal fault: {0}; please report it with the log")]
    Internal(String),
}

impl EngineError {
    /// The sentence without the place in the data, for those who have the place.
    pub(crate) fn sentence(&self) -> String {
        match self {
            EngineError::Data { message, .. } => message.clone(),
            error => error.to_string(),
        }
    }

    /// The refusal of what a right would allow.
    pub(crate) fn forbidden(right: String) -> EngineError {
        let message = format!("this needs the right {right}, which is not granted");
        EngineError::Forbidden { right, message }
    }
}

impl From<ParseError> for EngineError {
    fn from(error: ParseError) -> Self {
        EngineError::Parse {
            line: u64::from(error.line),
            column: u64::from(error.column),
            message: error.message,
        }
    }
}

impl From<LogError> for EngineError {
    fn from(error: LogError) -> Self {
        let message = error.to_string();
        match error {
            LogError::DiskFull { .. } | LogError::Full { .. } => EngineError::DiskFull(message),
            LogError::Damaged { file, offset, .. } | LogError::Newer { file, offset, .. } => {
                EngineError::Damaged {
                    file: file.into(),
                    offset,
                    message,
                }
            }
            LogError::Version { file, .. }
            | LogError::Missing { file, .. }
            | LogError::DamagedProof { file }
            | LogError::Foreign { file, .. }
            | LogError::Short { file, .. }
            | LogError::Segment { file, .. } => EngineError::Damaged {
                file: file.into(),
                offset: 0,
                message,
            },
            LogError::Ended { folder, .. } | LogError::Trimmed { folder, .. } => {
                EngineError::Damaged {
                    file: folder.into(),
                    offset: 0,
                    message,
                }
            }
            LogError::Locked { .. } | LogError::Copy { .. } => EngineError::Conflict(message),
            LogError::Unwritable { .. } => EngineError::Invalid(message),
            LogError::Closed { .. } => EngineError::Stopped,
            _ => EngineError::DiskFailed(message),
        }
    }
}

/// Returns the error for a failure of the log, with this message for the request.
fn of_log(error: &LogError, message: String) -> EngineError {
    match error {
        LogError::DiskFull { .. } | LogError::Full { .. } => EngineError::DiskFull(message),
        _ => EngineError::DiskFailed(message),
    }
}

impl From<QueryError> for EngineError {
    fn from(error: QueryError) -> Self {
        let message = error.to_string();
        let which = match error {
            QueryError::Time { .. } | QueryError::PinExpired => LimitKind::QueryTime,
            QueryError::SnapshotTooOld { .. } => LimitKind::SupersededBytes,
            QueryError::Rows { .. } => LimitKind::ResultRows,
            QueryError::Memory { .. } | QueryError::TableRows => LimitKind::QueryMemory,
            QueryError::Cancelled => return EngineError::Stopped,
            QueryError::Forbidden { right } => return EngineError::forbidden(right),
            QueryError::RemoteNotAllowed { .. }
            | QueryError::Refused { .. }
            | QueryError::Parameters { .. } => {
                return EngineError::Invalid(message);
            }
            _ => return EngineError::Evaluation(message),
        };
        EngineError::Limit { which, message }
    }
}

impl From<AnswerError> for EngineError {
    fn from(error: AnswerError) -> Self {
        match error {
            AnswerError::CannotHold(message) => EngineError::Invalid(message),
            AnswerError::NotSupported(message) => EngineError::NotSupported(message),
            AnswerError::Io(source) => EngineError::Io {
                context: "the answer could not be written".to_owned(),
                source,
            },
            other => EngineError::Internal(other.to_string()),
        }
    }
}

fn of_transactions(refusal: &somersault_txn::Refusal) -> EngineError {
    use somersault_txn::Refusal;
    let message = refusal.to_string();
    match refusal {
        Refusal::NotFound { .. } | Refusal::NoStream { .. } => EngineError::NotFound(message),
        Refusal::NameTaken { .. }
        | Refusal::StreamExists { .. }
        | Refusal::StreamInUse { .. }
        | Refusal::WindowOwned { .. }
        | Refusal::InDataflow { .. }
        | Refusal::MessagesWait { .. }
        | Refusal::KeyForgotten { .. } => EngineError::Conflict(message),
        _ => EngineError::Invalid(message),
    }
}

impl From<CheckpointError> for EngineError {
    fn from(error: CheckpointError) -> Self {
        let message = error.to_string();
        match error {
            CheckpointError::DiskFull { .. } => EngineError::DiskFull(message),
            CheckpointError::Damaged { file, offset, .. } => EngineError::Damaged {
                file: file.into(),
                offset,
                message,
            },
            CheckpointError::Missing { file, .. }
            | CheckpointError::Foreign { file, .. }
            | CheckpointError::Newer { file, .. } => EngineError::Damaged {
                file: file.into(),
                offset: 0,
                message,
            },
            CheckpointError::Unwritable { .. } => EngineError::Invalid(message),
            _ => EngineError::DiskFailed(message),
        }
    }
}

impl From<RuntimeError> for EngineError {
    fn from(error: RuntimeError) -> Self {
        match error {
            RuntimeError::Refused(refusal) => {
                let message = refusal.to_string();
                if matches!(refusal, Refusal::Late { .. }) {
                    return EngineError::Late(message);
                }
                match refusal.kind() {
                    RefusalKind::NotFound => EngineError::NotFound(message),
                    RefusalKind::Conflict => EngineError::Conflict(message),
                    RefusalKind::Retry => EngineError::Limit {
                        which: LimitKind::StreamBudget,
                        message,
                    },
                    RefusalKind::Invalid => EngineError::Invalid(message),
                }
            }
            RuntimeError::Log(error) => error.into(),
            RuntimeError::NotTaken(ref cause) | RuntimeError::Unproven(ref cause) => match &**cause
            {
                RuntimeError::Log(cause) => of_log(cause, error.to_string()),
                _ => EngineError::Failed(error.to_string()),
            },
            RuntimeError::Fabric(_) => EngineError::Failed(error.to_string()),
            RuntimeError::NoRoom { .. } => EngineError::Limit {
                which: LimitKind::InflightBytes,
                message: error.to_string(),
            },
            RuntimeError::UnreadAnswers { .. } => EngineError::Limit {
                which: LimitKind::UnreadAnswers,
                message: error.to_string(),
            },
            RuntimeError::Unreadable { file, message } => EngineError::Damaged {
                file: file.into(),
                offset: 0,
                message,
            },
            RuntimeError::Checkpoint(error) => error.into(),
            RuntimeError::CheckpointUnderWay => EngineError::UnderWay(error.to_string()),
            RuntimeError::NoCheckpoint(_) | RuntimeError::LateCheckpoint { .. } => {
                EngineError::Conflict(error.to_string())
            }
            RuntimeError::Query(error) => error.into(),
            RuntimeError::Stopped => EngineError::Stopped,
            RuntimeError::CalledOff => EngineError::Cancelled,
            RuntimeError::ReadOnly => EngineError::Conflict(error.to_string()),
            RuntimeError::TooManyCalls { .. } => EngineError::Limit {
                which: LimitKind::WaitingCalls,
                message: error.to_string(),
            },
            RuntimeError::NoBody { .. } => EngineError::Limit {
                which: LimitKind::NativeBody,
                message: error.to_string(),
            },
            RuntimeError::Timeout { .. } => EngineError::Limit {
                which: LimitKind::QueryTime,
                message: error.to_string(),
            },
            RuntimeError::Transactions(refusal) => of_transactions(&refusal),
            RuntimeError::Invalid(message) => EngineError::Invalid(message),
            other => EngineError::Internal(other.to_string()),
        }
    }
}

impl EngineError {
    /// Returns the error of an RDF parser about a document.
    pub(crate) fn from_document(error: RdfParseError) -> EngineError {
        match error {
            RdfParseError::Io(source) => EngineError::Io {
                context: "the document could not be read".to_owned(),
                source,
            },
            RdfParseError::Syntax(error) => {
                let start = error.location().map(|range| range.start);
                EngineError::Data {
                    line: start.as_ref().map_or(0, |place| place.line + 1),
                    column: start.as_ref().map_or(0, |place| place.column + 1),
                    message: without_place(&error.to_string()).to_owned(),
                }
            }
        }
    }

    /// Returns the error of a declaration that another caller dropped before its state was read,
    /// instead of one that says to declare it.
    pub(crate) fn if_dropped(self, what: &str) -> EngineError {
        match self {
            EngineError::NotFound(_) => EngineError::Conflict(format!(
                "{what} was declared, and another caller dropped it at once; declare it again if it is still wanted"
            )),
            other => other,
        }
    }

    /// Returns the error for a graph of this name that holds nothing.
    pub(crate) fn no_graph(graph: &oxrdf::GraphName) -> EngineError {
        EngineError::NotFound(format!(
            "there is no graph {graph} that holds anything; see the named graphs with SELECT DISTINCT ?g {{ GRAPH ?g {{ ?s ?p ?o }} }}"
        ))
    }
}

/// Returns a parser's message without the place, which is reported separately.
fn without_place(message: &str) -> &str {
    match message.split_once(": ") {
        Some((place, rest)) if place.starts_with("Parser error at line ") => rest,
        _ => message,
    }
}

/// The limit of [`Limits`](crate::Limits) that was hit.
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
    /// `inflight_bytes`
    InflightBytes,
    /// Answers to calls that their caller has not read; see `AnswerRoom`.
    UnreadAnswers,
    /// Calls that were handed in and have not run.
    WaitingCalls,
    /// The time that a call may wait for the body of a native procedure.
    NativeBody,
    /// `superseded_bytes`
    SupersededBytes,
    /// `query_text_bytes`
    QueryText,
    /// `concurrent_queries`
    ConcurrentQueries,
    /// `registered_queries`
    RegisteredQueries,
}
