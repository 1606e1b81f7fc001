//! The engine's reports about itself: health, counters, invariants.

use super::Engine;
use crate::error::EngineError;
use crate::info::{AbortInfo, Health, HealthStatus, StoppedInfo};
use crate::metrics::{MemoryUse, MetricsSnapshot, ShardMetrics, StreamMetrics};
use somersault_model::Sn;
use somersault_runtime::{CheckpointStatus, RuntimeError};
use std::sync::atomic::{AtomicU64, Ordering};

/// # Observe
///
/// What the engine reports about itself.
impl Engine {
    /// Returns the stable snapshot number.
    ///
    /// ```
    /// use somersault::{Engine, EngineConfig};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// let done = engine.update("INSERT DATA { <urn:a> <urn:p> 1 }").run()?;
    /// assert_eq!(engine.stable(), done.sn);
    /// # Ok(())
    /// # }
    /// ```
    pub fn stable(&self) -> Sn {
        self.inner.store.snapshots().stable()
    }

    /// Returns the state of the engine.
    ///
    /// ```
    /// use somersault::{Engine, EngineConfig, HealthStatus};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// assert_eq!(engine.health().status, HealthStatus::Ok);
    /// # Ok(())
    /// # }
    /// ```
    pub fn health(&self) -> Health {
        let (status, message) = if self.inner.stopping.load(Ordering::SeqCst) {
            (HealthStatus::Stopping, "the engine is stopping".to_owned())
        } else {
            match self.inner.driver.failure() {
                None => match self.inner.log.no_room() {
                    None => (HealthStatus::Ok, self.all_well()),
                    Some(full) => (HealthStatus::ReadOnly, full.to_string()),
                },
                Some(RuntimeError::Log(error)) => (HealthStatus::ReadOnly, error.to_string()),
                Some(error) => (
                    HealthStatus::Failed,
                    format!(
                        "{error}. One-shot queries go on at the last stable snapshot; restart to go on"
                    ),
                ),
            }
        };
        Health {
            status,
            message,
            stable_sn: self.stable(),
            stored_statements: self.stored_statements(),
            inflight_bytes: self.inner.driver.status().inflight_bytes,
            inflight_limit_bytes: self.inner.config.limits.inflight_bytes,
            checkpoints: self.checkpoints(),
            stopped_dataflows: self.stopped_dataflows(),
            absent_procedures: self.inner.driver.absent_procedures(),
        }
    }

    fn stopped_dataflows(&self) -> Vec<StoppedInfo> {
        let stopped = self.inner.driver.stopped_dataflows().into_iter();
        let info = stopped.map(|stopped| StoppedInfo {
            abort: AbortInfo::of(&stopped.abort),
            dataflow: stopped.name,
        });
        info.collect()
    }

    /// Returns what is known of the engine's checkpoints, up to a second ago; `None` without a data
    /// folder that is written to.
    ///
    /// ```
    /// use somersault::{Engine, EngineConfig};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// assert_eq!(engine.checkpoints(), None, "it is in memory only");
    /// # Ok(())
    /// # }
    /// ```
    pub fn checkpoints(&self) -> Option<CheckpointStatus> {
        self.inner.driver.checkpoints()
    }

    /// Returns the health message of an engine in which nothing has failed.
    fn all_well(&self) -> String {
        match self.inner.driver.status().closes_due {
            0 => match self.inner.driver.ahead_of_clock().first() {
                None => match self.checkpoints().and_then(|it| it.failure) {
                    None => "everything works".to_owned(),
                    Some(failure) => format!(
                        "everything works, but the newest checkpoint could not be made, and is tried again: {failure}"
                    ),
                },
                Some((stream, ahead)) => format!(
                    "everything works, but the time of stream <{stream}> is {} s ahead of the clock, which was set back: until the clock \
                     gets there its statements have that time and no close comes due; let it begin again with \
                     POST /streams/{{name}}/reset-time",
                    ahead.0 / 1_000
                ),
            },
            due => format!(
                "everything works; {due} closes are due after a jump in time and are answered one after the other, and pushes to \
                 their streams wait for them; DROP or PAUSE their queries to go on at once"
            ),
        }
    }

    /// Returns all counters.
    ///
    /// ```
    /// use somersault::{Engine, EngineConfig};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// engine.query("ASK {}").run()?;
    /// assert_eq!(engine.metrics().one_shot, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn metrics(&self) -> MetricsSnapshot {
        let inner = &self.inner;
        let counters = &inner.counters;
        let (one_shot, one_shot_failed, one_shot_execution) = counters.one_shot.sum();
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let memory = inner.store.memory();
        let held = inner.store.held_bytes();
        let terms = inner.store.dictionary().counts();
        let driver = inner.driver.status();
        let pins = inner.store.snapshots().pinned() as u64;
        MetricsSnapshot {
            stable_sn: driver.stable.0,
            retained_sns: inner.store.snapshots().retained() as u64 + driver.unstable,
            pins,
            inflight_bytes: driver.inflight_bytes,
            inflight_limit_bytes: inner.config.limits.inflight_bytes,
            inflight_waits: driver.inflight_waits,
            tuples: read(&counters.tuples),
            pushes: read(&counters.pushes),
            repeats: read(&counters.repeats),
            refused: read(&counters.refused),
            updates: read(&counters.updates),
            one_shot,
            one_shot_failed,
            stored_statements: self.stored_statements(),
            terms: terms.terms as u64,
            transient_terms: terms.transient as u64,
            reclaimed_terms: terms.reclaimed,
            one_shot_execution,
            memory: MemoryUse {
                dictionary_bytes: memory.dictionary_bytes as u64,
                store_bytes: (memory.stored_bytes + memory.retired_bytes) as u64,
                snapshots_bytes: memory.snapshots_bytes as u64,
                held_bytes: held.values().sum::<usize>() as u64,
                held_by_one_bytes: held.values().max().copied().unwrap_or(0) as u64,
                slices_bytes: (memory.slices_bytes + memory.windows_bytes) as u64,
                kept_rows_bytes: inner.continuous.kept_rows_bytes(),
                log_bytes: inner.log.bytes(),
            },
            checkpoints: self.checkpoints(),
            transactions: inner.driver.transaction_counts(),
            streams: self
                .streams()
                .into_iter()
                .map(StreamMetrics::from)
                .collect(),
            queries: inner.continuous.metrics(),
            shards: self.shard_metrics(),
        }
    }

    fn shard_metrics(&self) -> Vec<ShardMetrics> {
        let counters = self.inner.injectors.counters();
        (0..)
            .zip(counters)
            .map(|(shard, counters)| ShardMetrics {
                shard,
                injected: counters.injected,
                applied_sn: counters.applied.0,
            })
            .collect()
    }

    /// Checks the invariants of the store, of the sequencer and of the firings under way (ST-1,
    /// ST-2, DI-1, SQ-1, DL-1);
    /// slow on large data.
    ///
    /// ```
    /// use somersault::{Engine, EngineConfig};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// engine.check()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`EngineError::Internal`] with the invariant that does not hold, and where.
    pub fn check(&self) -> Result<(), EngineError> {
        self.inner.driver.check()?;
        let checked = self.inner.store.check();
        checked.map_err(|violation| EngineError::Internal(violation.to_string()))
    }
}

impl From<crate::info::StreamInfo> for StreamMetrics {
    fn from(info: crate::info::StreamInfo) -> Self {
        StreamMetrics {
            iri: info.iri,
            tuples: info.tuples,
            late: info.late,
            amended: info.amended,
            batches: info.batches,
            watermark: info.watermark,
            stable_time: info.stable_time,
            lag_ms: info.lag_ms,
            memory_bytes: info.memory_bytes,
        }
    }
}
