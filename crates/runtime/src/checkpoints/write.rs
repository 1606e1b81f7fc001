//! Writes a checkpoint, beside the sequencer.
//!
//! Before changing anything here: terms come first. Later steps give up what keeps transient terms
//! known: the answers of its SN, the leases of open batches, and the pin.

use super::CheckpointRuns;
use super::lists::{CheckpointMarkers, ListRuns, write_lists};
use crate::error::RuntimeError;
use crate::host::Host;
use somersault_checkpoint::{
    CheckpointTimes, Coverage, FileKind, LogOrigin, Manifest, NewCheckpoint, RecordWriter,
    SavedSlice, SliceWriter, VerifyDepth, next_number, remove_unneeded, whole_checkpoints,
};
use somersault_disk::Disk;
use somersault_log::{FolderHolds, Log, Position};
use somersault_model::Sn;
use somersault_store::{Snapshot, Store};
use somersault_stream::FrozenCore;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// About this many terms go into one file.
const TERMS_PER_FILE: u64 = 8 << 20;
/// The newest checkpoints that are kept, so that a damaged newest one can be passed over.
const KEPT: usize = 2;

/// Writes the checkpoints of one log, one after another, and takes away the part of the log that
/// they make needless.
pub struct CheckpointWriter {
    disk: Arc<dyn Disk>,
    log: Arc<Log>,
    origin: LogOrigin,
    runs: CheckpointRuns,
    stop: StopFlag,
}

/// Whether the engine ends: a checkpoint that is being written is abandoned then.
#[derive(Clone, Default)]
pub(crate) struct StopFlag(Arc<AtomicBool>);

impl StopFlag {
    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The pauses between any two small parts of a checkpoint.
pub(super) struct Pauses<'p> {
    stop: StopFlag,
    /// In a process without threads: gives the others a turn.
    others: Option<&'p dyn Fn()>,
}

impl Pauses<'_> {
    /// One of the pauses. The checkpoint is abandoned if the engine has ended.
    pub(super) fn pause(&self) -> Result<(), RuntimeError> {
        if let Some(others) = self.others {
            others();
        }
        match self.stop.is_set() {
            true => Err(RuntimeError::Stopped),
            false => Ok(()),
        }
    }

    /// The number of lists that are read from the store between two pauses. A simulated process
    /// holds little.
    pub(super) fn lists_at_a_time(&self) -> usize {
        match self.others {
            None => 4_096,
            Some(_) => 32,
        }
    }
}

/// The state of the engine at one position of its log. Slices of its SN are not retired meanwhile.
pub(crate) struct FrozenState {
    pub(crate) core: FrozenCore,
    pub(crate) position: Position,
    pub(crate) times: CheckpointTimes,
    /// Keeps the SN, which is stable once the state is written.
    pub(crate) pin: Snapshot,
    pub(crate) markers: CheckpointMarkers,
}

impl CheckpointWriter {
    /// A writer of checkpoints of this log, into its folder. `runs` are those of the checkpoint
    /// from which the engine began. `None` for a log that is not written.
    pub fn new(
        disk: Arc<dyn Disk>,
        log: &Arc<Log>,
        runs: CheckpointRuns,
    ) -> Option<CheckpointWriter> {
        let identity = log.identity().filter(|_| log.incarnation() > 0)?;
        let origin = LogOrigin {
            log: identity.bytes(),
            incarnation: log.incarnation(),
        };
        let log = Arc::clone(log);
        Some(CheckpointWriter {
            disk,
            log,
            origin,
            runs,
            stop: StopFlag::default(),
        })
    }

    /// Set it when the engine ends.
    pub(crate) fn stop_flag(&self) -> &StopFlag {
        &self.stop
    }

    /// Writes a checkpoint, with the answers of the host. If that fails, those before it are as
    /// they were. In a process without threads, `others` gives the rest of it a turn.
    pub(crate) fn write(
        &mut self,
        frozen: FrozenState,
        host: &dyn Host,
        others: Option<&dyn Fn()>,
    ) -> Result<Manifest, RuntimeError> {
        let pauses = Pauses {
            stop: self.stop.clone(),
            others,
        };
        let FrozenState {
            core,
            position,
            times,
            pin,
            markers,
        } = frozen;
        let disk = Arc::clone(&self.disk);
        let store = Arc::clone(pin.store());
        let at = (position.0, pin.sn());
        let number = next_number(&*disk)?;
        let new = NewCheckpoint::begin(&*disk, number, self.origin, at, store.shard_count());
        let mut new = new.at_times(times);
        let dictionary = store.dictionary();
        let terms = (self.runs.terms).write(&mut new, dictionary, TERMS_PER_FILE, pin.sn())?;
        pauses.pause()?;
        write_slices(&mut new, &store, &core, &pauses)?;
        pauses.pause()?;
        write_answers(&mut new, host, core.sn())?;
        pauses.pause()?;
        write_core(&mut new, core)?;
        let before = self.runs.lists.as_ref();
        let CheckpointMarkers { since, until } = markers;
        let ranges = write_lists((&mut new, &*disk), before, &until, pin, &pauses)?;
        pauses.pause()?;
        let manifest = new.commit()?;
        let lists = Some(ListRuns::written(&manifest, since, ranges));
        self.runs = CheckpointRuns { terms, lists };
        // The new checkpoint exists even if this fails. The next one removes what is left.
        if let Err(error) = self.remove_older() {
            tracing::warn!("what only older checkpoints need was not removed: {error}");
        }
        Ok(manifest)
    }

    /// Removes the files that only older checkpoints need, and then the part of the log before the
    /// oldest one that is kept. With fewer than [`KEPT`] the log stays: it is what remains if the
    /// only checkpoint turns out damaged.
    fn remove_older(&self) -> Result<(), RuntimeError> {
        if self.log.holds().is_some_and(FolderHolds::is_held) {
            // A backup reads these files. They go with the next checkpoint.
            return Ok(());
        }
        let disk = &*self.disk;
        let kept = whole_checkpoints(disk, self.origin.log, VerifyDepth::Lengths, KEPT)?;
        remove_unneeded(disk, &kept.whole)?;
        if let (KEPT, Some(oldest)) = (kept.whole.len(), kept.whole.last()) {
            self.log.trim(Position(oldest.position()))?;
        }
        Ok(())
    }
}

/// Writes the records of the host.
fn write_answers(new: &mut NewCheckpoint<'_>, host: &dyn Host, sn: Sn) -> Result<(), RuntimeError> {
    let mut writer = RecordWriter::new(new.create(FileKind::Answers)?);
    let mut written = Ok(());
    host.save(&mut |record| {
        if written.is_ok() {
            written = writer.push_bytes(record);
        }
    });
    written?;
    new.add(writer.into_file(), Coverage::whole(sn))?;
    Ok(())
}

/// Writes the slices of all streams, as they are at the checkpoint's SN.
fn write_slices(
    new: &mut NewCheckpoint<'_>,
    store: &Store,
    core: &FrozenCore,
    pauses: &Pauses<'_>,
) -> Result<(), RuntimeError> {
    let mut writer = SliceWriter::new(new.create(FileKind::Slices)?);
    for shown in core.shown() {
        for slice in (store.slices()).slices_at(shown.stream, shown.end, core.sn()) {
            pauses.pause()?;
            writer.push(&SavedSlice {
                stream: shown.stream,
                batch: slice.batch(),
                interval: shown.interval,
                revision: slice.revision(),
                epoch: slice.lease().map(|lease| lease.epoch().number()),
                statements: slice.in_order_of_arrival(),
            })?;
        }
    }
    new.add(writer.into_file(), Coverage::whole(core.sn()))?;
    Ok(())
}

fn write_core(new: &mut NewCheckpoint<'_>, core: FrozenCore) -> Result<(), RuntimeError> {
    let coverage = Coverage::whole(core.sn());
    let mut writer = RecordWriter::new(new.create(FileKind::Core)?);
    for record in core.records() {
        writer.push(&record)?;
    }
    new.add(writer.into_file(), coverage)?;
    Ok(())
}
