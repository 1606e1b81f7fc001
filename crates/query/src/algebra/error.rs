//! The errors of a query, worded for its author. Every limit names itself and says how to raise it.

use somersault_model::Limits;
use somersault_store::PinEnd;
use std::time::Duration;

/// The reason why a query or an update has no answer.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum QueryError {
    /// The query ran longer than the limit.
    #[error(
        "The query was stopped after {} ms, the limit on query time. Make it more selective, or raise the limit (query_time)",
        .limit.as_millis()
    )]
    Time {
        /// The limit that was reached.
        limit: Duration,
    },
    /// The answer has more rows than the limit.
    #[error(
        "The answer has more than {limit} rows, the limit on result rows. Add a LIMIT, or raise the limit (result_rows)"
    )]
    Rows {
        /// The limit that was reached.
        limit: u64,
    },
    /// A step makes more rows than row numbers can address.
    #[error(
        "A step of the query makes more than {} rows, the most that an intermediate result may have. Make it more selective",
        u32::MAX - 1
    )]
    TableRows,
    /// Intermediate results need more memory than the limit.
    #[error(
        "The intermediate results of the query need more than {limit} bytes, the limit on query memory. Make it more selective, or raise the limit (query_memory_bytes; total_query_memory_bytes is shared out among all that may run at once)"
    )]
    Memory {
        /// The limit that was reached.
        limit: u64,
    },
    /// A query that is not light was tried where only a light one may run. Nothing is wrong with
    /// it.
    #[error("The query is not light enough to be answered at once; execute it without a budget")]
    OverBudget,
    /// The values given do not fit the query's parameters.
    #[error("{message}")]
    Parameters {
        /// The mismatch, and the values that would fit.
        message: String,
    },
    /// The query was cancelled.
    #[error("The query was cancelled")]
    Cancelled,
    /// The query held its snapshot for longer than a pin may last.
    #[error(
        "The query held its snapshot for longer than a pin may last. Make it more selective, or raise the limit (pin_time)"
    )]
    PinExpired,
    /// The SN of the query kept more replaced data in memory than may be kept.
    #[error(
        "The query was stopped because its snapshot had become too old: of the data that was replaced since it began, more than {limit} bytes were kept, the limit on superseded bytes. Ask again, make it more selective, or raise the limit (superseded_bytes)"
    )]
    SnapshotTooOld {
        /// The limit that was reached.
        limit: u64,
    },
    /// The query needs the network, and that is not allowed.
    #[error(
        "{what} needs the network, which is switched off. Start with --allow-remote to allow it"
    )]
    RemoteNotAllowed {
        /// SERVICE or LOAD, with its IRI.
        what: String,
    },
    /// The execution lacks a right.
    #[error("The right {right} is missing. Ask an administrator for a token that has it")]
    Forbidden {
        /// The right, as a token has it: `write:` and the graph's name.
        right: String,
    },
    /// A remote service or document failed.
    #[error("{what} failed: {message}")]
    Remote {
        /// SERVICE or LOAD, with its IRI.
        what: String,
        /// The error message of the other side.
        message: String,
    },
    /// The update cannot be applied to the current data.
    #[error("{message}")]
    Refused {
        /// The refused change and the reason.
        message: String,
    },
    /// The evaluator reported something that no query should cause.
    #[error("The query could not be evaluated: {message}")]
    Evaluation {
        /// The evaluator's message.
        message: String,
    },
}

impl QueryError {
    /// The error of a query whose pin has ended.
    /// Whether it says nothing of the query: the engine ended it, or its snapshot is gone.
    pub fn is_interruption(&self) -> bool {
        matches!(
            self,
            QueryError::Cancelled
                | QueryError::PinExpired
                | QueryError::SnapshotTooOld { .. }
                | QueryError::OverBudget
        )
    }

    pub(crate) fn of_pin(end: PinEnd, limits: &Limits) -> QueryError {
        match end {
            PinEnd::Expired => QueryError::PinExpired,
            PinEnd::Revoked => QueryError::SnapshotTooOld {
                limit: limits.superseded_bytes,
            },
        }
    }
}
