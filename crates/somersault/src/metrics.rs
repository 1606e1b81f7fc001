//! The engine's counters as plain values; the server renders them for Prometheus.

use somersault_continuous::{Latency, QueryMetrics};
use somersault_model::EventTime;
use somersault_runtime::{CheckpointStatus, TransactionCounts};

/// All counters at one moment.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct MetricsSnapshot {
    /// The snapshot number that one-shot queries see.
    pub stable_sn: u64,
    /// Snapshot numbers that are retained: the pinned ones, the stable one, and those that are cut
    /// but not stable yet.
    pub retained_sns: u64,
    /// Pins held by firings and one-shot queries.
    pub pins: u64,
    /// Memory of pushes, loads and updates that are on their way to the shards, in bytes.
    pub inflight_bytes: u64,
    /// The limit of `inflight_bytes`; one larger input passes alone.
    pub inflight_limit_bytes: u64,
    /// Inputs that have had to wait until there was room for them.
    pub inflight_waits: u64,
    /// Statements taken by all streams.
    pub tuples: u64,
    /// Pushes acknowledged.
    pub pushes: u64,
    /// Pushes that were repeats.
    pub repeats: u64,
    /// Pushes refused.
    pub refused: u64,
    /// Updates carried out.
    pub updates: u64,
    /// One-shot queries answered.
    pub one_shot: u64,
    /// One-shot queries that failed.
    pub one_shot_failed: u64,
    /// Statements stored, over all graphs.
    pub stored_statements: u64,
    /// Terms in the dictionary.
    pub terms: u64,
    /// Terms that came with timing statements. They are reclaimed when no window can show them any
    /// more, unless something else has mentioned them since.
    pub transient_terms: u64,
    /// Terms that have been reclaimed.
    pub reclaimed_terms: u64,
    /// Execution times of one-shot queries.
    pub one_shot_execution: Latency,
    /// Memory by part.
    pub memory: MemoryUse,
    /// The checkpoints; `None` without a data folder that is written to.
    pub checkpoints: Option<CheckpointStatus>,
    /// Counters of transactions.
    pub transactions: TransactionCounts,
    /// One per stream.
    pub streams: Vec<StreamMetrics>,
    /// One per continuous query.
    pub queries: Vec<QueryMetrics>,
    /// One per shard.
    pub shards: Vec<ShardMetrics>,
}

/// Memory by part.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct MemoryUse {
    /// Terms and ids, in bytes.
    pub dictionary_bytes: u64,
    /// The persistent store, in bytes.
    pub store_bytes: u64,
    /// The approximate part of it, in bytes, that serves snapshots only: changes since the
    /// retained snapshots that are kept apart, and replaced data that may still be seen.
    pub snapshots_bytes: u64,
    /// The approximate bytes of replaced data, older images among it, that readers keep.
    pub held_bytes: u64,
    /// The part of them that is kept for the readers of one snapshot: the largest of these parts.
    pub held_by_one_bytes: u64,
    /// Slices and window versions, in bytes.
    pub slices_bytes: u64,
    /// Rows that continuous queries retain between closes, in bytes.
    pub kept_rows_bytes: u64,
    /// Bytes in the log on disk.
    pub log_bytes: u64,
}

/// Counters of a stream.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct StreamMetrics {
    /// Its IRI.
    pub iri: String,
    /// Statements taken.
    pub tuples: u64,
    /// Late statements dropped.
    pub late: u64,
    /// Late statements taken so far (LATE AMEND).
    pub amended: u64,
    /// Batches closed that held something.
    pub batches: u64,
    /// Its watermark.
    pub watermark: Option<EventTime>,
    /// Event time up to which it is visible.
    pub stable_time: Option<EventTime>,
    /// Difference of the two, in milliseconds.
    pub lag_ms: Option<i64>,
    /// Memory of its slices, in bytes.
    pub memory_bytes: u64,
}

/// Counters of a shard.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ShardMetrics {
    /// Its number.
    pub shard: u16,
    /// Half edges written to it: inserts and deletes.
    pub injected: u64,
    /// The newest snapshot number that it has applied.
    pub applied_sn: u64,
}
