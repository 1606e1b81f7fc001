//! Errors of the running engine, as callers see them.

use crate::fabric::FabricError;
use somersault_checkpoint::CheckpointError;
use somersault_log::LogError;
use somersault_query::QueryError;
use somersault_stream::{Refusal, ResolveError, RestoreError};

/// Why the driver refused or failed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum RuntimeError {
    /// The input was refused; nothing has changed.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The log failed; nothing more is acknowledged.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The shards failed; nothing more becomes visible.
    #[error(transparent)]
    Fabric(#[from] FabricError),
    /// An update could not be evaluated; nothing has changed.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// The log or a shard has failed, and nothing of this request has come into the log.
    #[error("{0}. Nothing of this request was applied")]
    NotTaken(Box<RuntimeError>),
    /// The log or a shard failed before this request was durable and visible.
    #[error(
        "{0}. Whether this request was applied is not known: it may be there after the restart"
    )]
    Unproven(Box<RuntimeError>),
    /// Too much is on its way to the shards, and there was no room for an input in time.
    #[error(
        "{level_bytes} bytes of earlier inputs are on their way to the shards, and at most {budget_bytes} may be (inflight_bytes), so there was no room for the {bytes} bytes of this one. Nothing of it was taken; send it again"
    )]
    NoRoom {
        /// The memory of the input.
        bytes: u64,
        /// The memory that is on its way.
        level_bytes: u64,
        /// The memory that may be on its way.
        budget_bytes: u64,
    },
    /// The caller has called the request off; nothing has changed.
    #[error("it was called off before it was carried out")]
    CalledOff,
    /// A caller reads the answers of its calls too slowly.
    #[error(
        "the answer has {bytes} bytes, {held} bytes of earlier answers to the same caller are not read yet, and at most {most} may wait. The call was not carried out; read the answers, and send it again"
    )]
    UnreadAnswers {
        /// The memory of the answer.
        bytes: u64,
        /// The memory of those that wait.
        held: u64,
        /// The memory of those that may wait.
        most: u64,
    },
    /// A logged record refers to something that cannot be read.
    #[error("{message}")]
    Unreadable {
        /// The load segment, if it is one.
        file: String,
        /// The fault, in a sentence.
        message: String,
    },
    /// A checkpoint could not be written or read.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// No checkpoint can be made now.
    #[error("no checkpoint was made: {0}")]
    NoCheckpoint(&'static str),
    /// Another checkpoint is being written.
    #[error("no checkpoint was made: another one is being written; ask again when it is done")]
    CheckpointUnderWay,
    /// The engine was opened to read only.
    #[error(
        "the data folder was opened to read only; nothing was changed. Open it without `read_only` to change it"
    )]
    ReadOnly,
    /// The driver has stopped.
    #[error("the engine has been stopped")]
    Stopped,
    /// It did not happen in time.
    #[error(
        "{what} did not happen within {waited_ms} ms; wait longer, or look at the list of queries for what is slow"
    )]
    Timeout {
        /// The event that was waited for.
        what: &'static str,
        /// The time that was waited, in milliseconds.
        waited_ms: u128,
    },
    /// The checkpoint of a shutdown was not finished in time.
    #[error(
        "the checkpoint of the shutdown was not finished within {waited_ms} ms; the next start replays the log instead. Raise `CheckpointConfig::at_shutdown` to wait longer"
    )]
    LateCheckpoint {
        /// The time that was waited, in milliseconds.
        waited_ms: u128,
    },
    /// A declaration or a call does not fit what is declared; nothing has changed.
    #[error(transparent)]
    Transactions(#[from] somersault_txn::Refusal),
    /// A declaration or a call is not right; nothing has changed.
    #[error("{0}")]
    Invalid(String),
    /// Calls are handed in faster than they run.
    #[error(
        "calls with {held} bytes were handed in and have not run, and at most {most} bytes may wait. This call was not carried out; wait for their answers, and send it again"
    )]
    TooManyCalls {
        /// The memory of those that wait.
        held: u64,
        /// The memory that may wait.
        most: u64,
    },
    /// A call has waited for the body of a native procedure; nothing has changed.
    #[error(
        "the program that runs this engine has not registered the body of procedure {procedure}, and the call waited {waited_ms} ms for it. The call was not carried out; register the body with Engine::procedure, and send the call again"
    )]
    NoBody {
        /// The procedure.
        procedure: String,
        /// The time that was waited, in milliseconds.
        waited_ms: u128,
    },
    /// An invariant does not hold.
    #[error("internal fault: {0}")]
    Internal(String),
}

impl RuntimeError {
    /// Converts the error for a request of which nothing is in the log.
    pub(crate) fn not_taken(self) -> RuntimeError {
        match self.is_lasting() {
            true => RuntimeError::NotTaken(Box::new(self)),
            false => self,
        }
    }

    /// Converts the error for a request whose record is in the log, durable or not.
    pub(crate) fn unproven(self) -> RuntimeError {
        match self.is_lasting() {
            true => RuntimeError::Unproven(Box::new(self)),
            false => self,
        }
    }

    /// Whether the engine takes nothing more after it.
    fn is_lasting(&self) -> bool {
        match self {
            RuntimeError::Log(error) => error.stops_the_log(),
            RuntimeError::Fabric(error) => *error != FabricError::Stopped,
            _ => false,
        }
    }
}

impl From<ResolveError> for RuntimeError {
    fn from(error: ResolveError) -> Self {
        let message = error.to_string();
        let file = match error {
            ResolveError::Segment { name, .. } => name,
            _ => "log".to_owned(),
        };
        RuntimeError::Unreadable { file, message }
    }
}

impl From<somersault_txn::Contradiction> for RuntimeError {
    fn from(error: somersault_txn::Contradiction) -> Self {
        RuntimeError::Unreadable {
            file: "log".to_owned(),
            message: error.to_string(),
        }
    }
}

impl From<somersault_txn::RestoreError> for RuntimeError {
    fn from(error: somersault_txn::RestoreError) -> Self {
        RuntimeError::Unreadable {
            file: "checkpoint".to_owned(),
            message: error.to_string(),
        }
    }
}

impl From<RestoreError> for RuntimeError {
    fn from(error: RestoreError) -> Self {
        RuntimeError::Unreadable {
            file: "checkpoint".to_owned(),
            message: error.to_string(),
        }
    }
}
