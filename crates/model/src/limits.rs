//! The limits that keep one request from taking the server down. Reaching one is an error that
//! names the limit; the defaults suit a machine with a few gigabytes of memory.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Limits on one request, and on all requests together.
///
/// ```
/// use somersault_model::Limits;
/// use std::time::Duration;
/// let limits = Limits { query_time: Duration::from_secs(10), ..Limits::default() };
/// assert_eq!(limits.push_statements, 1_000_000);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// The time that one execution may take; a minute by default.
    pub query_time: Duration,
    /// The time that one firing of a continuous query may take: its execution, and the comparison
    /// with the answer before where the query reports changes. A cohort has one firing for all its
    /// members.
    pub firing_time: Duration,
    /// The number of solutions or triples that one answer may have; ten million by default.
    pub result_rows: u64,
    /// Memory of the intermediate results of one execution, in bytes; 1 GiB by default.
    pub query_memory_bytes: u64,
    /// The same of all executions together, in bytes; 4 GiB by default.
    pub total_query_memory_bytes: u64,
    /// Length of a request's body, in bytes; 256 MiB by default.
    pub body_bytes: u64,
    /// Statements in one push; a million by default.
    pub push_statements: u64,
    /// Memory, in bytes, of the pushes, loads and effects of updates that are on their way: from
    /// their caller's call until every shard has applied them. Statements in a stream's open batch
    /// do not count, since BUDGET limits them. An input waits until there is room for it, and a
    /// larger one until nothing else is on its way.
    pub inflight_bytes: u64,
    /// Length of a query's or update's text, in bytes; 1 MiB by default.
    pub query_text_bytes: u64,
    /// One-shot queries that run or wait at the same time.
    pub concurrent_queries: u64,
    /// Continuous queries that are registered at the same time.
    pub registered_queries: u64,
    /// The time for which a snapshot may stay pinned before the pin is given up (S9).
    pub pin_time: Duration,
    /// Memory of replaced data that is kept for readers of earlier snapshots, in bytes; 4 GiB by
    /// default. Beyond it, the one-shot queries with the oldest snapshot end with an error.
    /// Firings, updates and checkpoints do not.
    pub superseded_bytes: u64,
    /// The distance by which an event time may lie ahead of both the stream's newest time and the
    /// clock, where the stream's declaration does not set one (AHEAD). Without a clock (the
    /// engine's `Clock::Manual`) there is no such limit.
    pub time_ahead: Duration,
    /// The number of closes of one continuous query that a push or an advance may make due.
    pub closes_at_once: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            query_time: Duration::from_secs(60),
            firing_time: Duration::from_secs(60),
            result_rows: 10_000_000,
            query_memory_bytes: 1 << 30,
            total_query_memory_bytes: 4 << 30,
            body_bytes: 256 << 20,
            push_statements: 1_000_000,
            inflight_bytes: 1 << 30,
            query_text_bytes: 1 << 20,
            concurrent_queries: 256,
            registered_queries: 4_000_000,
            pin_time: Duration::from_secs(120),
            superseded_bytes: 4 << 30,
            time_ahead: Duration::from_secs(86_400),
            closes_at_once: 100_000,
        }
    }
}
