//! The configuration of an engine. Every default is safe for a laptop: in memory, two shards, no
//! remote access, limits on.

use crate::process::SimulatedProcess;
use somersault_continuous::DeltaMode;
use somersault_model::Limits;
use somersault_query::Remote;
use somersault_runtime::CheckpointConfig;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Limits on time never hold in a simulated process.
const NEVER: Duration = Duration::from_secs(86_400);

/// The number of statements that a shard is woken for before their batch closes.
const PORTION: usize = 4096;

/// The configuration of an [`Engine`](crate::Engine).
///
/// ```
/// use somersault::{EngineConfig, FabricKind};
/// let config = EngineConfig { workers: 4, fabric: FabricKind::Timely, ..EngineConfig::default() };
/// assert!(config.data.is_none());
/// ```
#[derive(Clone)]
pub struct EngineConfig {
    /// The folder that keeps the log; `None` keeps everything in memory only.
    pub data: Option<PathBuf>,
    /// Whether the data folder is only read: opening it changes no file, and inputs are refused.
    /// Several engines may read a folder at the same time, if none writes to it.
    pub read_only: bool,
    /// Number of shards of the store, each with one injector.
    pub workers: u16,
    /// Number of threads that execute queries.
    pub query_threads: usize,
    /// The time that a one-shot query may take on its caller's thread before it starts again on one
    /// of the query threads. It should exceed the cost of switching there and back, and not exceed
    /// the time that a caller that must not wait can afford.
    pub in_place_time: Duration,
    /// The fabric that carries batches to the shards.
    pub fabric: FabricKind,
    /// Limits on the cost of a query, a push or an answer.
    pub limits: Limits,
    /// The IRI prefix that bare names of the paper's dialect are resolved against.
    pub default_namespace: Option<String>,
    /// Whether SERVICE and LOAD may reach other machines.
    pub allow_remote: bool,
    /// The client that reaches them; the engine itself has no HTTP client.
    pub remote: Option<Arc<dyn Remote>>,
    /// Number of firings of each query that are kept for subscribers that reconnect.
    pub kept_firings: usize,
    /// The source of the time of arrival and of idle streams.
    pub clock: Clock,
    /// A snapshot is cut at least this often while something waits to become visible.
    pub freshness: Duration,
    /// Whether continuous queries keep rows from one close to the next.
    pub delta: DeltaMode,
    /// When checkpoints are taken, if there is a data folder.
    pub checkpoints: CheckpointConfig,
    /// For tests and measurements: the number of statements of an open batch that the shards
    /// prepare together for its close. With `usize::MAX`, nothing is prepared. No answer depends
    /// on it.
    #[doc(hidden)]
    pub portion: usize,
    /// For simulations: the process without threads that the engine runs in. It decides which
    /// fabric there is, and no limit on time holds in it.
    #[doc(hidden)]
    pub process: Option<SimulatedProcess>,
    /// For tests: called on a shard's thread, with the shard, before the shard applies an SN. It
    /// may wait, and it may panic.
    #[doc(hidden)]
    pub before_apply: Option<BeforeApply>,
}

/// The hook of [`EngineConfig::before_apply`].
#[doc(hidden)]
pub(crate) type BeforeApply = Arc<dyn Fn(u16) + Send + Sync>;

impl EngineConfig {
    /// Takes out the limits that hold by the machine's time.
    pub(crate) fn untimed(self) -> EngineConfig {
        let mut limits = self.limits.clone();
        limits.query_time = NEVER;
        limits.firing_time = NEVER;
        let in_place_time = match self.in_place_time.is_zero() {
            true => Duration::ZERO,
            false => NEVER,
        };
        EngineConfig {
            limits,
            in_place_time,
            ..self
        }
    }
}

impl Default for EngineConfig {
    fn default() -> Self {
        EngineConfig {
            data: None,
            read_only: false,
            workers: 2,
            query_threads: 2,
            in_place_time: Duration::from_micros(200),
            fabric: FabricKind::Timely,
            limits: Limits::default(),
            default_namespace: None,
            allow_remote: false,
            remote: None,
            kept_firings: 64,
            clock: Clock::System,
            freshness: Duration::from_millis(100),
            delta: DeltaMode::Auto,
            checkpoints: CheckpointConfig::default(),
            portion: PORTION,
            process: None,
            before_apply: None,
        }
    }
}

impl fmt::Debug for EngineConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EngineConfig")
            .field("data", &self.data)
            .field("read_only", &self.read_only)
            .field("workers", &self.workers)
            .field("query_threads", &self.query_threads)
            .field("in_place_time", &self.in_place_time)
            .field("fabric", &self.fabric)
            .field("limits", &self.limits)
            .field("default_namespace", &self.default_namespace)
            .field("allow_remote", &self.allow_remote)
            .field("kept_firings", &self.kept_firings)
            .field("clock", &self.clock)
            .field("freshness", &self.freshness)
            .field("delta", &self.delta)
            .field("checkpoints", &self.checkpoints)
            .finish_non_exhaustive()
    }
}

/// The implementation of the fabric that carries records to the shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FabricKind {
    /// Timely dataflow workers on threads of this process.
    Timely,
    /// The single-threaded simulator, which interleaves the shards at random from this seed.
    Simulated {
        /// The seed of the interleaving; the same seed gives the same run.
        seed: u64,
    },
}

/// Whether the engine may read the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Clock {
    /// The machine's clock drives IDLE and ARRIVAL TIME streams.
    System,
    /// Only pushes and advances move time: replays and tests.
    Manual,
}
