//! Checkpoints: taking one, and beginning from the newest that is whole.
//!
//! Before changing anything here: a checkpoint that cannot be read is passed over for the one
//! before it, or for the log if that still has its first record. A warning then names the file.
//! What was acknowledged is lost in none of these cases.

use super::Engine;
use super::counted_disk::CountedDisk;
use crate::access::RightKind;
use crate::config::EngineConfig;
use crate::error::EngineError;
use crate::info::CheckpointInfo;
use somersault_checkpoint::Manifest;
use somersault_dictionary::Dictionary;
use somersault_disk::{Access, Disk};
use somersault_log::{Log, LogError, LogIdentity, OpenProgress, Position};
use somersault_runtime::{
    CheckpointRuns, Pending, RecentCheckpoint, Restored, RestoredState, RuntimeError,
    restore_newest,
};
use somersault_store::Store;
use std::num::NonZero;
use std::sync::Arc;
use std::time::Instant;

/// What an engine begins with, before its log is opened.
#[derive(Default)]
pub(super) struct Beginning {
    restored: Option<Restored>,
    /// The records behind this one are replayed.
    pub(super) after: Position,
    /// What is wrong with newer checkpoints.
    passed_over: Vec<RuntimeError>,
}

impl Beginning {
    /// Looks for the newest whole checkpoint of the log on this disk, and reads it.
    pub(super) fn of(
        config: &EngineConfig,
        disk: &Arc<dyn Disk>,
        progress: &Arc<OpenProgress>,
    ) -> Result<Beginning, EngineError> {
        let access = match config.read_only {
            true => Access::Read,
            false => Access::Write,
        };
        match Log::identity_in(&**disk, access)? {
            None => Ok(Beginning::default()),
            Some(log) => Beginning::of_log(config, disk, log, progress),
        }
    }

    fn of_log(
        config: &EngineConfig,
        disk: &Arc<dyn Disk>,
        log: LogIdentity,
        progress: &Arc<OpenProgress>,
    ) -> Result<Beginning, EngineError> {
        let empty = |dictionary| empty_store(config, dictionary);
        let threads = match config.process {
            None => std::thread::available_parallelism().map_or(1, NonZero::get),
            Some(_) => 1,
        };
        let counted = CountedDisk::new(disk, progress);
        let begin = |manifest: &Manifest| progress.begin_checkpoint(manifest.bytes());
        let RecentCheckpoint {
            restored,
            passed_over,
        } = restore_newest(&counted, log, empty, begin, threads)?;
        for error in &passed_over {
            tracing::warn!("a checkpoint is passed over: {error}");
        }
        let manifest = restored.as_ref().map(|restored| &restored.manifest);
        if let Some(manifest) = manifest.filter(|_| !passed_over.is_empty()) {
            tracing::warn!(
                "the engine begins from the checkpoint before it, {}, and replays the log behind record {}",
                manifest.name(),
                manifest.position()
            );
        }
        Ok(Beginning {
            after: manifest.map_or(Position::START, |it| Position(it.position())),
            restored,
            passed_over,
        })
    }

    /// The store, what a driver begins with, and what the next checkpoint goes on with.
    pub(super) fn into_parts(
        self,
        config: &EngineConfig,
    ) -> (Arc<Store>, Option<RestoredState>, CheckpointRuns) {
        match self.restored {
            None => {
                let store = empty_store(config, Dictionary::new());
                (store, None, CheckpointRuns::default())
            }
            Some(it) => (it.store, Some(it.state), it.runs),
        }
    }

    /// The error of a log that cannot be opened behind this beginning.
    pub(super) fn refusal(&self, error: LogError) -> EngineError {
        let needs_more = matches!(
            error,
            LogError::Missing { .. } | LogError::Trimmed { .. } | LogError::Ended { .. }
        );
        match EngineError::from(error) {
            EngineError::Damaged {
                file,
                offset,
                message,
            } if needs_more && !self.passed_over.is_empty() => {
                let found = self.passed_over.iter().map(ToString::to_string);
                let found: Vec<String> = found.collect();
                EngineError::Damaged {
                    file,
                    offset,
                    message: format!(
                        "{message}. Newer checkpoints cannot be read: {}",
                        found.join("; ")
                    ),
                }
            }
            error => error,
        }
    }
}

/// An empty store. A simulated process holds little, so with every other seed images are small
/// there, and are made and renewed all the time.
fn empty_store(config: &EngineConfig, dictionary: Dictionary) -> Arc<Store> {
    let workers = config.workers.max(1);
    match &config.process {
        Some(process) if process.seed() % 2 == 1 => Store::with_images(workers, 16, 3, dictionary),
        _ => Store::with_dictionary(workers, dictionary),
    }
}

/// # Checkpoints
///
/// A checkpoint holds the whole state of the engine at one position of its log. An engine that is
/// opened again begins from the newest one, and replays only the log behind it.
impl Engine {
    /// Takes a checkpoint, and returns when it is written. Queries and inputs go on meanwhile. When
    /// there are two, what the log has before the older one is removed.
    ///
    /// ```
    /// use somersault::disk::SimDisk;
    /// use somersault::{Engine, EngineConfig};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// let disk = std::sync::Arc::new(SimDisk::new());
    /// let engine = Engine::open_on(EngineConfig::default(), disk)?;
    /// let done = engine.update("INSERT DATA { <urn:a> <urn:p> 1 }").run()?;
    /// assert_eq!(engine.checkpoint()?.sn, done.sn);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`EngineError::UnderWay`] if another checkpoint is being written; [`EngineError::Conflict`]
    /// if nothing is written to a folder; [`EngineError::DiskFull`] or [`EngineError::DiskFailed`]
    /// if its files cannot be written. Nothing else has changed then.
    pub fn checkpoint(&self) -> Result<CheckpointInfo, EngineError> {
        self.begin_checkpoint()?.wait()
    }

    /// Asks for a checkpoint, to be waited for later.
    ///
    /// # Errors
    /// The engine is stopped, or was opened to read only.
    #[doc(hidden)]
    pub fn begin_checkpoint(&self) -> Result<PendingCheckpoint, EngineError> {
        self.admit(RightKind::Admin, None)?;
        Ok(PendingCheckpoint {
            begun: Instant::now(),
            written: self.inner.driver.checkpoint()?,
        })
    }
}

/// A checkpoint that was asked for. It is written whether it is waited for or not.
#[doc(hidden)]
pub struct PendingCheckpoint {
    begun: Instant,
    written: Pending<Manifest>,
}

impl PendingCheckpoint {
    /// Waits until it is written.
    ///
    /// # Errors
    /// As [`Engine::checkpoint`].
    pub fn wait(self) -> Result<CheckpointInfo, EngineError> {
        let manifest = self.written.wait()?;
        let seconds = self.begun.elapsed().as_secs_f64();
        Ok(CheckpointInfo::of(&manifest, seconds))
    }
}
