//! What can go wrong with a query, in words for the person who wrote it. Every limit names itself
//! and says how to raise it.

use std::time::Duration;

/// Why a query or an update has no answer.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum QueryError {
    /// It ran longer than it may.
    #[error(
        "The query was stopped after {} ms, the limit on query time. Make it more selective, or raise the limit (query_time)",
        .limit.as_millis()
    )]
    Time {
        /// The limit that was reached.
        limit: Duration,
    },
    /// Its answer has more rows than it may have.
    #[error(
        "The answer has more than {limit} rows, the limit on result rows. Add a LIMIT, or raise the limit (result_rows)"
    )]
    Rows {
        /// The limit that was reached.
        limit: u64,
    },
    /// A step of it makes more rows than rows have numbers.
    #[error(
        "A step of the query makes more than {} rows, the most that an intermediate result may have. Make it more selective",
        u32::MAX - 1
    )]
    TableRows,
    /// Its intermediate results need more memory than they may.
    #[error(
        "The intermediate results of the query need more than {limit} bytes, the limit on query memory. Make it more selective, or raise the limit (query_memory_bytes; total_query_memory_bytes is shared out among all that may run at once)"
    )]
    Memory {
        /// The limit that was reached.
        limit: u64,
    },
    /// It was tried where only a light query may run, and is none. Nothing is wrong with it.
    #[error("The query is not light enough to be answered at once; execute it without a budget")]
    OverBudget,
    /// The values given do not fit the query's parameters.
    #[error("{message}")]
    Parameters {
        /// What does not fit, and what would.
        message: String,
    },
    /// It was cancelled.
    #[error("The query was cancelled")]
    Cancelled,
    /// It held its snapshot for longer than a pin may last.
    #[error(
        "The query held its snapshot for longer than a pin may last. Make it more selective, or raise the limit (pin_time)"
    )]
    PinExpired,
    /// It asks for something remote, and that is not allowed.
    #[error(
        "{what} needs the network, which is switched off. Start with --allow-remote to allow it"
    )]
    RemoteNotAllowed {
        /// SERVICE or LOAD, with its IRI.
        what: String,
    },
    /// A remote service or document failed.
    #[error("{what} failed: {message}")]
    Remote {
        /// SERVICE or LOAD, with its IRI.
        what: String,
        /// What the other side said.
        message: String,
    },
    /// The update cannot be done to the data as they are.
    #[error("{message}")]
    Refused {
        /// What was refused and why.
        message: String,
    },
    /// The evaluator reported something that no query should cause.
    #[error("The query could not be evaluated: {message}")]
    Evaluation {
        /// What it reported.
        message: String,
    },
}
