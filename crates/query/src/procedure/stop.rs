//! Why a transaction did not end: an abort, which is kept with its reason, or something that has
//! nothing to do with it, after which it may run again.

use crate::algebra::error::QueryError;
use somersault_lang::token::Place;

/// Why a transaction ended before its last step. Nothing of it may stay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Abort {
    /// What led to it.
    pub cause: AbortCause,
    /// The reason as a sentence; of ABORT, the text of its expression.
    pub reason: String,
}

/// What led to an abort.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AbortCause {
    /// A step ABORT, or a procedure in Rust.
    Stated,
    /// A limit of time or memory.
    Limit,
    /// A step could not be carried out.
    Error,
    /// The engine ended it, or its snapshot is gone: it is no abort of the procedure, and the
    /// transaction has to run again.
    Interrupted,
}

impl Abort {
    /// An abort with a reason of the procedure's own.
    pub fn stated(reason: impl Into<String>) -> Abort {
        Abort {
            cause: AbortCause::Stated,
            reason: reason.into(),
        }
    }

    /// Whether the transaction has to run again, as if nothing of it had run.
    pub fn is_interruption(&self) -> bool {
        self.cause == AbortCause::Interrupted
    }

    pub(crate) fn error(reason: impl Into<String>, place: Place) -> Abort {
        Abort {
            cause: AbortCause::Error,
            reason: format!("{} (the step at {place})", reason.into()),
        }
    }

    pub(crate) fn of(error: &QueryError, place: Place) -> Abort {
        Abort {
            cause: AbortCause::of(error),
            reason: format!("{error} (the step at {place})"),
        }
    }

    /// The abort of a procedure in Rust that a limit ends.
    pub(crate) fn in_rust(error: &QueryError) -> Abort {
        Abort {
            cause: AbortCause::of(error),
            reason: error.to_string(),
        }
    }
}

/// A reason of the procedure's own.
impl From<&str> for Abort {
    fn from(reason: &str) -> Abort {
        Abort::stated(reason)
    }
}

/// A reason of the procedure's own.
impl From<String> for Abort {
    fn from(reason: String) -> Abort {
        Abort::stated(reason)
    }
}

impl AbortCause {
    fn of(error: &QueryError) -> AbortCause {
        match error {
            QueryError::Time { .. }
            | QueryError::Rows { .. }
            | QueryError::TableRows
            | QueryError::Memory { .. } => AbortCause::Limit,
            error if error.is_interruption() => AbortCause::Interrupted,
            _ => AbortCause::Error,
        }
    }
}
