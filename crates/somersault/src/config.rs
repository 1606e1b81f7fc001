//! What an engine is opened with. Every default is safe for a laptop: in memory, two shards,
//! no remote access, limits on.

use std::path::PathBuf;
use std::time::Duration;

/// How an [`Engine`](crate::Engine) is set up.
///
/// ```
/// use somersault::{EngineConfig, FabricKind};
/// let config = EngineConfig { workers: 4, fabric: FabricKind::Timely, ..EngineConfig::default() };
/// assert!(config.data.is_none());
/// ```
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// The folder that keeps the log; `None` keeps everything in memory only.
    pub data: Option<PathBuf>,
    /// How many shards the store has, each with one injector.
    pub workers: u16,
    /// How many threads execute queries.
    pub query_threads: usize,
    /// What carries batches to the shards.
    pub fabric: FabricKind,
    /// What a query, a push or an answer may cost.
    pub limits: Limits,
    /// The IRI prefix that bare names of the paper's dialect are resolved against.
    pub default_namespace: Option<String>,
    /// Whether SERVICE and LOAD may reach other machines.
    pub allow_remote: bool,
    /// How many firings of each query are kept for subscribers that reconnect.
    pub kept_firings: usize,
    /// Where the time of arrival and of idle streams comes from.
    pub clock: Clock,
    /// A snapshot is cut at least this often while something waits to become visible.
    pub freshness: Duration,
    /// Refuse what the native engine does not cover instead of handing it to `spareval`.
    pub no_fallback: bool,
}

impl Default for EngineConfig {
    fn default() -> Self {
        EngineConfig {
            data: None,
            workers: 2,
            query_threads: 2,
            fabric: FabricKind::Timely,
            limits: Limits::default(),
            default_namespace: None,
            allow_remote: false,
            kept_firings: 64,
            clock: Clock::System,
            freshness: Duration::from_millis(100),
            no_fallback: false,
        }
    }
}

/// Which implementation of the fabric carries records to the shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FabricKind {
    /// Timely dataflow workers on threads of this process.
    Timely,
    /// The single-threaded simulator, which interleaves the shards at random from this seed.
    Simulated {
        /// What the interleaving is drawn from; the same seed gives the same run.
        seed: u64,
    },
}

/// Whether the engine may look at the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Clock {
    /// The machine's clock drives IDLE and ARRIVAL TIME streams.
    System,
    /// Time moves by pushes and advances only: replays and tests.
    Manual,
}

/// What a query, a push or an answer may cost; hitting one is a clear error.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Limits {
    /// How long one query may execute.
    pub query_time: Duration,
    /// How many rows one answer may have.
    pub result_rows: u64,
    /// How much memory the intermediate results of one query may take.
    pub query_memory_bytes: u64,
    /// How large a request body may be.
    pub body_bytes: u64,
    /// How many statements one push may have.
    pub push_statements: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            query_time: Duration::from_secs(30),
            result_rows: 10_000_000,
            query_memory_bytes: 2 << 30,
            body_bytes: 64 << 20,
            push_statements: 1_000_000,
        }
    }
}
