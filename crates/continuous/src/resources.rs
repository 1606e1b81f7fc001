//! The resources that the cohorts of an engine share: the store, the environment of executions, the
//! settings.

use somersault_dictionary::Dictionary;
use somersault_query::Environment;
use somersault_runtime::Clock;
use somersault_store::Store;
use std::sync::Arc;
use std::time::Instant;

/// When a continuous query keeps the rows of its joins from one close to the next and updates them
/// from arrived and expired statements, instead of evaluating the whole. Its answers are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum DeltaMode {
    /// If its windows overlap and keeping rows was measured to take less time.
    #[default]
    Auto,
    /// Wherever that is possible.
    Always,
    /// Never.
    Never,
}

/// The clock by which executions are timed. Their times decide how a query is evaluated, and are
/// written to checkpoints.
#[derive(Clone)]
pub enum Stopwatch {
    /// The machine's.
    Machine,
    /// That of a simulated process, which no execution is stopped by.
    Process(Arc<dyn Clock>),
}

impl Stopwatch {
    pub(crate) fn now(&self) -> Instant {
        match self {
            Stopwatch::Machine => Instant::now(),
            Stopwatch::Process(clock) => clock.instant(),
        }
    }

    /// Whether an execution may be stopped when it takes longer than others did.
    pub(crate) fn stops_executions(&self) -> bool {
        matches!(self, Stopwatch::Machine)
    }
}

/// The settings of continuous queries.
#[derive(Clone)]
pub struct Settings {
    /// Number of firings of each query that are kept for subscribers that reconnect.
    pub kept_firings: usize,
    /// Whether rows are kept from one close to the next.
    pub delta: DeltaMode,
    /// Number of threads that execute queries.
    pub threads: usize,
    /// How executions are timed.
    pub stopwatch: Stopwatch,
}

/// The resources that the cohorts of an engine share.
pub(crate) struct Resources {
    environment: Arc<Environment>,
    store: Arc<Store>,
    settings: Settings,
}

impl Resources {
    pub(crate) fn new(
        environment: Arc<Environment>,
        store: Arc<Store>,
        settings: Settings,
    ) -> Resources {
        Resources {
            environment,
            store,
            settings,
        }
    }

    pub(crate) fn environment(&self) -> &Environment {
        &self.environment
    }

    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    /// The time by which answers become late.
    pub(crate) fn now(&self) -> Instant {
        self.settings.stopwatch.now()
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns the dictionary that decodes answers.
    pub(crate) fn decoder(&self) -> &Arc<Dictionary> {
        self.store.dictionary_arc()
    }
}
