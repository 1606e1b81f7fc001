//! The engine: a cheap handle, to be cloned and shared between threads. Calls that change something
//! return when their effect is durable (push) or stable (all others).

mod analyse;
mod backup;
mod batch;
mod checkpoints;
mod contexts;
mod counted_disk;
mod data;
mod dataflows;
mod dataset;
mod dead_letters;
mod documents;
mod dump;
mod durable;
mod execute;
mod explain_transactions;
mod feeds;
mod graphs;
mod load;
mod messages;
mod native;
mod numbered;
mod observe;
mod options;
mod permits;
mod prepared;
mod procedures;
mod query;
mod registered;
mod request;
mod streams;
mod striped_counters;
mod update;

pub use backup::Backup;
pub use batch::{NewQuery, Registered, Replacement};
#[doc(hidden)]
pub use checkpoints::PendingCheckpoint;
pub use dump::Dump;
pub use durable::{DurableInfo, DurableOptions, DurableStart, WhenFull};
pub use execute::DeferredQuery;
pub use native::Txn;
pub use options::{CancelToken, QueryOptions, UpdateOptions};
pub use prepared::PreparedQuery;
pub use procedures::{CallRequest, PendingCall};
pub use registered::QueryPage;
pub use request::{FastPath, QueryRequest, UpdateRequest};
pub use update::{BegunUpdate, DeferredUpdate, PendingUpdate};

use crate::access::{Access, RightKind};
use crate::config::{BeforeApply, Clock, EngineConfig, FabricKind};
use crate::contexts::ContextStore;
use crate::error::EngineError;
use crate::process::SimulatedProcess;
use checkpoints::Beginning;
use documents::Mappings;
use parking_lot::MutexGuard;
use permits::Permits;
use somersault_continuous::{Registry, Settings, Stopwatch};
use somersault_disk::{Disk, RealDisk};
use somersault_lang::Parser;
use somersault_log::{CommitMode, Log, LogOptions, OpenProgress, Recovered};
use somersault_model::{EventTime, Millis, QueryUid, ShardId, Sn};
use somersault_pool::QueryPool;
use somersault_query::{Environment, PlanCache};
use somersault_results::Answer;
use somersault_runtime::{
    AheadWork, Apply, CheckpointWriter, Driver, DriverConfig, DriverParts, Fabric, Host, Injectors,
    ManualClock, OnApplied, Process, RuntimeError, ShardWork, SimFabric, SystemClock, TimelyFabric,
};
use somersault_store::Store;
use somersault_stream::StreamLimits;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use striped_counters::{Stripe, StripedCounters};

/// Number of one-shot queries that are kept prepared.
const PREPARED_QUERIES: usize = 1024;
/// Number of inputs that may wait for the sequencer.
const INBOX: usize = 1024;
/// The time for which a push waits for room (`inflight_bytes`) before it is refused.
const INFLIGHT_PATIENCE: Duration = Duration::from_secs(30);
/// The time for which a stop waits for due firings.
const STOP_DEADLINE: Duration = Duration::from_secs(30);

/// The engine. Clones are handles to the same engine; its threads end when the last one is dropped.
///
/// ```
/// use somersault::{Engine, EngineConfig};
/// # fn main() -> Result<(), somersault::EngineError> {
/// let engine = Engine::open(EngineConfig::default())?;
/// engine.update("INSERT DATA { <urn:a> <urn:knows> <urn:b> }").run()?;
/// let found = engine.query("SELECT ?x { <urn:a> <urn:knows> ?x }").run()?;
/// assert_eq!(found.answer.len(), 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Engine {
    inner: Arc<Inner>,
    access: Access,
}

struct Inner {
    config: EngineConfig,
    store: Arc<Store>,
    log: Arc<Log>,
    driver: Arc<Driver>,
    injectors: Arc<Injectors>,
    environment: Arc<Environment>,
    continuous: Arc<Registry>,
    pool: Arc<QueryPool>,
    plans: PlanCache,
    counters: Counters,
    /// Records in the log when it was opened; with the number of documents taken since, the scope
    /// of their blank nodes.
    epoch: u64,
    documents: AtomicU64,
    mappings: Mappings,
    contexts: ContextStore,
    /// The one-shot queries that run or wait.
    permits: Permits,
    stopping: AtomicBool,
}

/// The counters that the engine itself keeps.
struct Counters {
    pushes: AtomicU64,
    tuples: AtomicU64,
    repeats: AtomicU64,
    refused: AtomicU64,
    updates: AtomicU64,
    one_shot: StripedCounters,
}

/// The effects of an update.
///
/// ```
/// use somersault::{Engine, EngineConfig};
/// # fn main() -> Result<(), somersault::EngineError> {
/// # let engine = Engine::open(EngineConfig::default())?;
/// let done = engine.update("INSERT DATA { <urn:a> <urn:p> 1 }").run()?;
/// assert_eq!(engine.query("ASK { <urn:a> <urn:p> 1 }").run()?.sn, done.sn);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpdateSummary {
    /// The snapshot number in which the effects are visible.
    pub sn: Sn,
    /// Statements that are new.
    pub inserted: u64,
    /// Statements that no longer exist.
    pub deleted: u64,
}

/// The answer of a one-shot query, with its snapshot number and time.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct QueryResults {
    /// The answer.
    pub answer: Answer,
    /// The snapshot number that it was evaluated at.
    pub sn: Sn,
    /// Start of execution → answer ready.
    pub execution: Duration,
}

/// # Open
///
/// An engine is opened once for a data folder, cloned and shared between threads, and shut down.
impl Engine {
    /// Opens an engine; with a data directory, everything acknowledged earlier is restored.
    ///
    /// ```
    /// use somersault::{Engine, EngineConfig};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// let engine = Engine::open(EngineConfig::default())?;
    /// assert_eq!(engine.health().stored_statements, 0);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`EngineError::Damaged`] if the folder is not understood, [`EngineError::Io`] if it cannot
    /// be read.
    pub fn open(config: EngineConfig) -> Result<Engine, EngineError> {
        Engine::open_reporting(config, &Arc::default())
    }

    /// Opens an engine, and reports to `progress` meanwhile how far that is.
    ///
    /// ```
    /// use somersault::{Engine, EngineConfig, OpenProgress};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// let progress = std::sync::Arc::new(OpenProgress::default());
    /// // Another thread may read `progress` meanwhile.
    /// let engine = Engine::open_reporting(EngineConfig::default(), &progress)?;
    /// # drop(engine);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Engine::open`].
    pub fn open_reporting(
        config: EngineConfig,
        progress: &Arc<OpenProgress>,
    ) -> Result<Engine, EngineError> {
        match &config.data {
            None => Engine::start(config, Log::volatile(), None, Beginning::default()),
            Some(folder) => {
                let disk = if config.read_only {
                    RealDisk::existing(folder)
                } else {
                    RealDisk::new(folder)
                };
                let disk = disk.map_err(|source| EngineError::Io {
                    context: format!("the data folder {} cannot be used", folder.display()),
                    source,
                })?;
                Engine::open_disk(config, Arc::new(disk), progress)
            }
        }
    }

    /// Opens an engine whose log is on `disk`, whatever `config.data` says.
    ///
    /// ```
    /// use somersault::disk::{Disk, SimDisk};
    /// use somersault::{Engine, EngineConfig};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// let disk: std::sync::Arc<dyn Disk> = std::sync::Arc::new(SimDisk::new());
    /// let engine = Engine::open_on(EngineConfig::default(), std::sync::Arc::clone(&disk))?;
    /// engine.update("INSERT DATA { <urn:a> <urn:p> 1 }").run()?;
    /// engine.shutdown()?;
    /// drop(engine);
    /// let again = Engine::open_on(EngineConfig::default(), disk)?;
    /// assert_eq!(again.health().stored_statements, 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Engine::open`].
    pub fn open_on(config: EngineConfig, disk: Arc<dyn Disk>) -> Result<Engine, EngineError> {
        Engine::open_disk(config, disk, &Arc::default())
    }

    fn open_disk(
        config: EngineConfig,
        disk: Arc<dyn Disk>,
        progress: &Arc<OpenProgress>,
    ) -> Result<Engine, EngineError> {
        let progress = Arc::clone(progress);
        let beginning = Beginning::of(&config, &disk, &progress)?;
        let after = beginning.after;
        let opened = if config.read_only {
            Log::read_after(Arc::clone(&disk), progress, after)
        } else {
            let options = LogOptions {
                progress,
                commits: match config.process {
                    None => CommitMode::Thread,
                    Some(_) => CommitMode::Callers,
                },
                segment_bytes: segment_bytes(&config),
                ..LogOptions::default()
            };
            Log::open_after(Arc::clone(&disk), options, after)
        };
        let (log, recovered) = opened.map_err(|error| beginning.refusal(error))?;
        if let Some(torn) = recovered.torn_tail() {
            tracing::warn!("{torn}");
        }
        for file in recovered.lost_loads() {
            tracing::warn!(
                "{file} is missing or empty. The checkpoint covers it, so nothing is lost; an older checkpoint and a backup may need it. Restore it from a copy if there is one"
            );
        }
        Engine::start(config, log, Some((disk, recovered)), beginning)
    }

    fn start(
        config: EngineConfig,
        log: Log,
        recovered: Option<(Arc<dyn Disk>, Recovered)>,
        beginning: Beginning,
    ) -> Result<Engine, EngineError> {
        let config = match config.process {
            None => config,
            Some(_) => config.untimed(),
        };
        let log = Arc::new(log);
        let epoch = log.end().0;
        let (store, restored, runs) = beginning.into_parts(&config);
        let stable = store.snapshots().stable();
        let (disk, recovered) = recovered.unzip();
        let contexts = ContextStore::open(disk.clone(), config.read_only)?;
        let checkpoints = disk.and_then(|disk| CheckpointWriter::new(disk, &log, runs));
        let injectors = Injectors::new(&store)
            .map(Arc::new)
            .map_err(|error| EngineError::Internal(error.to_string()))?;
        let pool = attached_pool(&config, &log)?;
        let environment = Arc::new(environment(&config, &pool));
        let continuous = Arc::new(Registry::new(
            Arc::clone(&environment),
            Arc::clone(&store),
            Arc::clone(&pool),
            settings(&config),
        ));
        let parts = DriverParts {
            config: driver_config(&config),
            store: Arc::clone(&store),
            log: Arc::clone(&log),
            recovered,
            restored,
            checkpoints,
            host: Arc::clone(&continuous) as Arc<dyn Host>,
            clock: clock(&config),
            execution: environment.execution(EventTime::MIN, QueryUid(u64::MAX)),
            process: config
                .process
                .clone()
                .map(|process| Arc::new(process) as Arc<dyn Process>),
        };
        let apply = Arc::clone(&injectors);
        let fabric = |on_applied| fabric(&config, stable, apply, on_applied);
        let driver = Driver::start(parts, fabric)?;
        if let Some(process) = &config.process {
            process.attach_driver(&driver);
        }
        Ok(Engine::of(Inner {
            permits: Permits::new(config.limits.concurrent_queries),
            counters: Counters::new(&store, config.process.as_ref().map(SimulatedProcess::seed)),
            config,
            store,
            log,
            driver,
            injectors,
            environment,
            continuous,
            pool,
            plans: PlanCache::new(PREPARED_QUERIES),
            epoch,
            documents: AtomicU64::new(0),
            mappings: Mappings::default(),
            contexts,
            stopping: AtomicBool::new(false),
        }))
    }

    /// The handle with all rights.
    fn of(inner: Inner) -> Engine {
        Engine {
            inner: Arc::new(inner),
            access: Access::full(),
        }
    }

    /// Returns the configuration that it was opened with.
    ///
    /// ```
    /// use somersault::{Engine, EngineConfig};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// assert!(engine.config().data.is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub fn config(&self) -> &EngineConfig {
        &self.inner.config
    }

    /// Returns a handle to the same engine that has no other rights than these. Each call on it
    /// that reads or changes data or declarations is refused unless they allow it, and graphs that
    /// they do not let it read are as if they were empty. Calls that show the engine as a whole
    /// ([`Engine::health`], [`Engine::metrics`], [`Engine::config`]) are not limited.
    ///
    /// ```
    /// use somersault::{Access, Engine, EngineConfig, EngineError};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// let stranger = engine.with_access(Access::of(&[]));
    /// assert_eq!(stranger.query("ASK { ?s ?p ?o }").run()?.answer.boolean(), Some(false));
    /// let refused = stranger.update("INSERT DATA { <urn:a> <urn:p> 1 }").run();
    /// assert!(matches!(refused, Err(EngineError::Forbidden { .. })));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn with_access(&self, access: Access) -> Engine {
        Engine {
            inner: Arc::clone(&self.inner),
            access,
        }
    }

    /// Returns the rights of this handle.
    ///
    /// ```
    /// use somersault::{Engine, EngineConfig};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// assert!(engine.access().is_full());
    /// # Ok(())
    /// # }
    /// ```
    pub fn access(&self) -> &Access {
        &self.access
    }

    /// Stops the engine: it takes no more input, writes a checkpoint if the next start is
    /// noticeably quicker with it (`at_shutdown` in
    /// [`CheckpointConfig`](crate::CheckpointConfig)), finishes what is due and flushes the log.
    /// Other handles get [`EngineError::Stopped`].
    ///
    /// ```
    /// use somersault::{Engine, EngineConfig, EngineError};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// engine.shutdown()?;
    /// let refused = engine.query("ASK {}").run();
    /// assert!(matches!(refused, Err(EngineError::Stopped)));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The log cannot be flushed.
    pub fn shutdown(&self) -> Result<(), EngineError> {
        if self.inner.stopping.swap(true, Ordering::SeqCst) {
            return Ok(());
        }
        self.write_last_checkpoint();
        self.inner.driver.stop(STOP_DEADLINE);
        // No subscriber is answered from here on: firings dropped now are answered after a restart.
        self.inner.continuous.end();
        self.inner.environment.cancel();
        self.inner.pool.stop();
        self.inner.log.close().map_err(EngineError::from)
    }

    /// Writes a checkpoint if the next start is quicker with it. If that fails, nothing is lost.
    fn write_last_checkpoint(&self) {
        let patience = self.inner.config.checkpoints.at_shutdown;
        if patience.is_zero() {
            return;
        }
        match self.inner.driver.last_checkpoint(patience) {
            Ok(Some(manifest)) => tracing::info!("{} is written", manifest.name()),
            Ok(None) | Err(RuntimeError::Stopped) => {}
            Err(late @ RuntimeError::LateCheckpoint { .. }) => tracing::warn!("{late}"),
            Err(error) => tracing::warn!(
                "no checkpoint was written at the shutdown, so the next start replays more of the log: {error}"
            ),
        }
    }

    fn parser(&self, base: Option<&str>) -> Parser {
        let mut parser = Parser::new();
        if let Some(namespace) = &self.inner.config.default_namespace {
            parser = parser.with_default_namespace(namespace.as_str());
        }
        if let Some(base) = base {
            parser = parser.with_base(base);
        }
        parser
    }

    /// Refuses a call that the rights of this handle do not allow, or that comes after the end.
    /// Checked before anything else, so that a refusal tells nothing about what exists.
    fn admit(&self, kind: RightKind, name: Option<&str>) -> Result<(), EngineError> {
        self.access.require(kind, name)?;
        self.check_running()
    }

    fn check_running(&self) -> Result<(), EngineError> {
        if self.inner.stopping.load(Ordering::SeqCst) {
            return Err(EngineError::Stopped);
        }
        Ok(())
    }
}

/// The time for which an input may cut the closes that it makes due before other inputs come first.
const CLOSES_PATIENCE: Duration = Duration::from_millis(100);

/// Starts the pool, and lets a simulated process give the log and the pool their turns.
fn attached_pool(config: &EngineConfig, log: &Arc<Log>) -> Result<Arc<QueryPool>, EngineError> {
    let pool = pool(config)?;
    match &config.process {
        Some(process) if !process.attach(log, &pool) => {
            let message = "a simulated process is for one engine, and this one has had one";
            Err(EngineError::Internal(message.to_owned()))
        }
        _ => Ok(pool),
    }
}

/// The length at which a segment of the log ends. A simulated process writes little, so in two of
/// three of them segments are short, and checkpoints make some needless.
fn segment_bytes(config: &EngineConfig) -> u64 {
    match &config.process {
        Some(process) if process.seed() % 3 > 0 => 4 << 10,
        _ => LogOptions::default().segment_bytes,
    }
}

/// Returns the limits of inputs to streams. A clock that stands still cannot tell how far ahead a
/// time lies.
fn stream_limits(config: &EngineConfig) -> StreamLimits {
    let ahead_ms = i64::try_from(config.limits.time_ahead.as_millis()).unwrap_or(i64::MAX);
    StreamLimits {
        ahead: match config.clock {
            Clock::System => Some(Millis(ahead_ms)),
            Clock::Manual => None,
        },
        closes_at_once: config.limits.closes_at_once,
    }
}

fn settings(config: &EngineConfig) -> Settings {
    Settings {
        kept_firings: config.kept_firings,
        delta: config.delta,
        threads: config.query_threads,
        stopwatch: match &config.process {
            None => Stopwatch::Machine,
            Some(process) => Stopwatch::Process(process.clock(config.clock == Clock::System)),
        },
    }
}

fn driver_config(config: &EngineConfig) -> DriverConfig {
    DriverConfig {
        read_only: config.read_only,
        freshness: config.freshness,
        kept_firings: config.kept_firings,
        pin_time: config.limits.pin_time,
        superseded_bytes: config.limits.superseded_bytes,
        inbox: INBOX,
        inflight_bytes: config.limits.inflight_bytes,
        inflight_patience: INFLIGHT_PATIENCE,
        limits: stream_limits(config),
        portion: config.portion,
        closes_patience: match simulated_seed(config) {
            None => CLOSES_PATIENCE,
            // One seed is one run: no clock decides which input comes first.
            Some(_) => Duration::from_secs(86_400),
        },
        checkpoints: config.checkpoints.clone(),
    }
}

/// Returns the seed of the fabric, where that is the simulator.
fn simulated_seed(config: &EngineConfig) -> Option<u64> {
    match (&config.process, config.fabric) {
        (Some(process), _) => Some(process.seed()),
        (None, FabricKind::Simulated { seed }) => Some(seed),
        (None, FabricKind::Timely) => None,
    }
}

fn clock(config: &EngineConfig) -> Arc<dyn somersault_runtime::Clock> {
    match (&config.process, config.clock) {
        (Some(process), clock) => process.clock(clock == Clock::System),
        (None, Clock::System) => Arc::new(SystemClock),
        (None, Clock::Manual) => Arc::new(ManualClock),
    }
}

fn pool(config: &EngineConfig) -> Result<Arc<QueryPool>, EngineError> {
    let threads = config.query_threads;
    if let Some(process) = &config.process {
        return Ok(Arc::new(QueryPool::manual(threads, process.seed())));
    }
    let pool = QueryPool::start(threads).map(Arc::new);
    pool.map_err(|source| EngineError::Io {
        context: "the threads that execute queries cannot be started".to_owned(),
        source,
    })
}

/// Returns what all executions share.
fn environment(config: &EngineConfig, pool: &QueryPool) -> Environment {
    let remote = config.remote.clone().filter(|_| config.allow_remote);
    let at_once = QueryPool::jobs_at_once(config.query_threads);
    Environment::new(
        config.limits.clone(),
        at_once,
        Arc::clone(pool.workers()),
        remote,
    )
}

/// The injectors of an engine with [`EngineConfig::before_apply`].
struct ObservedApply {
    before: BeforeApply,
    injectors: Arc<Injectors>,
}

impl Apply for ObservedApply {
    fn apply(&self, shard: ShardId, sn: Sn, work: ShardWork) {
        (self.before)(shard.0);
        self.injectors.apply(shard, sn, work);
    }

    fn prepare(&self, shard: ShardId, work: AheadWork) {
        self.injectors.prepare(shard, work);
    }

    fn settle(&self, shard: ShardId, applied: Sn) {
        self.injectors.settle(shard, applied);
    }

    fn tidy(&self, shard: ShardId) {
        self.injectors.tidy(shard);
    }
}

/// Starts the shards, which have applied everything up to the stable SN.
fn fabric(
    config: &EngineConfig,
    stable: Sn,
    injectors: Arc<Injectors>,
    on_applied: OnApplied,
) -> Result<Box<dyn Fabric>, RuntimeError> {
    let apply: Arc<dyn Apply> = match config.before_apply.clone() {
        None => injectors,
        Some(before) => Arc::new(ObservedApply { before, injectors }),
    };
    let shards = config.workers.max(1);
    Ok(match simulated_seed(config) {
        None => Box::new(TimelyFabric::start(shards, stable, apply, on_applied)?),
        Some(seed) => Box::new(SimFabric::start(shards, stable, seed, apply, on_applied)),
    })
}

impl Counters {
    /// Returns the counters of this thread for one-shot queries.
    fn stripe(&self) -> MutexGuard<'_, Stripe> {
        self.one_shot.stripe()
    }

    fn new(store: &Arc<Store>, seed: Option<u64>) -> Counters {
        Counters {
            pushes: AtomicU64::new(0),
            tuples: AtomicU64::new(0),
            repeats: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            updates: AtomicU64::new(0),
            one_shot: StripedCounters::new(store, seed),
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // In this order: firings that are dropped reach no subscriber, and the log does not say
        // that they were answered.
        self.continuous.end();
        self.driver.abort();
        self.environment.cancel();
        self.pool.stop();
        // The log's own thread may be its last holder while it reports what is durable; the next
        // engine to open the folder must not find it taken.
        let _ = self.log.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_engine_releases_its_folder_even_if_its_log_is_held() {
        let folder = tempfile::tempdir().expect("there is a folder for files that pass");
        let settings = EngineConfig {
            data: Some(folder.path().to_owned()),
            ..EngineConfig::default()
        };
        let engine = Engine::open(settings.clone()).expect("opens");
        // The log's own thread may hold it like this while it reports what is durable.
        let _held = Arc::clone(&engine.inner.log);
        drop(engine);
        Engine::open(settings).expect("no process has the folder any more");
    }
}
