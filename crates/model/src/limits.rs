//! The limits that keep one request from taking the server down. Reaching one is an error that
//! names the limit; the defaults suit a machine with a few gigabytes of memory.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What one request may cost, and what all may cost together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// How long one execution may take.
    pub query_time: Duration,
    /// How long one firing of a continuous query may take: its execution, and the comparison with
    /// the firing before where it says what has changed. What a group of queries fires is one
    /// firing.
    pub firing_time: Duration,
    /// How many solutions or triples one answer may have.
    pub result_rows: u64,
    /// Memory of the intermediate results of one execution.
    pub query_memory_bytes: u64,
    /// Memory of the intermediate results of all executions together.
    pub total_query_memory_bytes: u64,
    /// Length of a request's body.
    pub body_bytes: u64,
    /// Statements in one push.
    pub push_statements: u64,
    /// Length of a query's or update's text.
    pub query_text_bytes: u64,
    /// One-shot queries that run or wait at the same time.
    pub concurrent_queries: u64,
    /// Continuous queries that are registered at the same time.
    pub registered_queries: u64,
    /// How long a snapshot may stay pinned before it is given up (S9).
    pub pin_time: Duration,
    /// How far ahead of both a stream's newest time and the clock an event time may lie, where the
    /// stream's declaration does not say it (AHEAD). Without a clock (the engine's `Clock::Manual`)
    /// there is no such limit.
    pub time_ahead: Duration,
    /// How many closes of one continuous query a push or an advance may make due.
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
            query_text_bytes: 1 << 20,
            concurrent_queries: 256,
            registered_queries: 4_000_000,
            pin_time: Duration::from_secs(120),
            time_ahead: Duration::from_secs(86_400),
            closes_at_once: 100_000,
        }
    }
}
