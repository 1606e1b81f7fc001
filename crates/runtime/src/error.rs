//! What can go wrong while the engine runs, as its caller is told.

use crate::fabric::FabricError;
use somersault_log::LogError;
use somersault_query::QueryError;
use somersault_stream::{Refusal, ResolveError};

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
    /// A logged record refers to something that is not there.
    #[error("{0}")]
    Resolve(String),
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
        /// What was waited for.
        what: &'static str,
        /// How long.
        waited_ms: u128,
    },
    /// An invariant does not hold.
    #[error("internal fault: {0}")]
    Internal(String),
}

impl From<ResolveError> for RuntimeError {
    fn from(error: ResolveError) -> Self {
        RuntimeError::Resolve(error.to_string())
    }
}
