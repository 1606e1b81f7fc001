//! Writes a checkpoint, beside the sequencer.
//!
//! 1. Files of the checkpoint before, which this one may name again, are read back. What a damaged
//!    one holds is written again: the engine still has it in memory.
//! 2. Terms, slices, answers, the coordinator's records, what is declared of transactions, and
//!    lists are written, and the manifest.
//! 3. Files that no kept manifest names are removed, and the log that no kept checkpoint needs.
//!
//! Before changing anything here: terms come first in 2. Later steps give up what keeps transient
//! terms known: the answers of its SN, the leases of open batches, and the pin. 1 comes before 3,
//! since the log behind a damaged file is the only other place of what it holds.

use super::CheckpointRuns;
use super::lists::{CheckpointMarkers, ListRuns, write_lists};
use super::pace::Pace;
use super::transactions::{DeclarationRecord, write_transactions};
use crate::error::RuntimeError;
use crate::host::Host;
use somersault_checkpoint::{
    CheckpointTimes, Coverage, FileKind, ListedFile, LogOrigin, Manifest, NewCheckpoint, PieceRuns,
    PieceWriter, SavedSlice, SliceWriter, VerifyDepth, next_number, remove_unneeded,
    whole_checkpoints,
};
use somersault_disk::Disk;
use somersault_log::{FolderHolds, Log, Position};
use somersault_model::Sn;
use somersault_store::{Snapshot, Store};
use somersault_stream::FrozenCore;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

/// About this many terms go into one file. Files are what threads share at a restart.
const TERMS_PER_FILE: u64 = 1 << 18;
/// The length from which on a file of lists ends where the next label begins.
const SHORT_PART: u64 = 8 << 20;
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
    rewritten: RewrittenFiles,
}

/// The number of damaged files whose content was written again.
#[derive(Clone, Default)]
pub(crate) struct RewrittenFiles(Arc<AtomicU64>);

impl RewrittenFiles {
    pub(crate) fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn add(&self, files: usize) {
        self.0.fetch_add(files as u64, Ordering::Relaxed);
    }
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

/// What goes on beside the writing of a checkpoint.
pub(crate) enum Beside<'p> {
    /// Threads: tells whether inputs or firings are due.
    Threads(&'p dyn Fn() -> bool),
    /// A process without threads: gives its other parts a turn.
    Turns(&'p dyn Fn()),
}

/// The pauses between any two small parts of a checkpoint.
pub(super) struct Pauses<'p> {
    stop: StopFlag,
    beside: Beside<'p>,
    pace: RefCell<Pace>,
}

impl Pauses<'_> {
    /// One of the pauses. The checkpoint is abandoned if the engine has ended.
    pub(super) fn pause(&self) -> Result<(), RuntimeError> {
        match self.beside {
            Beside::Threads(_) => self.rest(),
            Beside::Turns(others) => others(),
        }
        match self.stop.is_set() {
            true => Err(RuntimeError::Stopped),
            false => Ok(()),
        }
    }

    /// A pause within a part that is not abandoned, and that others do not interrupt.
    fn rest(&self) {
        if let Beside::Threads(is_busy) = self.beside
            && !self.stop.is_set()
        {
            let rest = self.pace.borrow_mut().rest(Instant::now(), is_busy);
            if !rest.is_zero() {
                std::thread::sleep(rest);
            }
        }
    }

    /// The number of lists that are read from the store between two pauses. A simulated process
    /// holds little.
    pub(super) fn lists_at_a_time(&self) -> usize {
        match self.beside {
            Beside::Threads(_) => 256,
            Beside::Turns(_) => 32,
        }
    }

    /// The length from which on a file of lists ends where the next label begins; at twice this
    /// length it ends anyway.
    pub(super) fn part_bytes(&self) -> u64 {
        match self.beside {
            Beside::Threads(_) => SHORT_PART,
            Beside::Turns(_) => 256,
        }
    }

    /// About the number of terms of a file.
    fn terms_per_file(&self) -> u64 {
        match self.beside {
            Beside::Threads(_) => TERMS_PER_FILE,
            Beside::Turns(_) => 64,
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
    /// Procedures, dataflows and their core; none if nothing was ever declared.
    pub(crate) transactions: Vec<DeclarationRecord>,
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
            rewritten: RewrittenFiles::default(),
        })
    }

    /// Set it when the engine ends.
    pub(crate) fn stop_flag(&self) -> &StopFlag {
        &self.stop
    }

    /// Counts the damaged files whose content was written again.
    pub(crate) fn rewritten(&self) -> &RewrittenFiles {
        &self.rewritten
    }

    /// Writes a checkpoint, with the answers of the host. If that fails, those before it are as
    /// they were.
    pub(crate) fn write(
        &mut self,
        frozen: FrozenState,
        host: &dyn Host,
        beside: Beside<'_>,
    ) -> Result<Manifest, RuntimeError> {
        let pauses = Pauses {
            stop: self.stop.clone(),
            beside,
            pace: RefCell::new(Pace::new(Instant::now())),
        };
        let FrozenState {
            core,
            position,
            times,
            pin,
            markers,
            transactions,
        } = frozen;
        self.read_back(&pauses)?;
        let disk = Arc::clone(&self.disk);
        let store = Arc::clone(pin.store());
        let at = (position.0, pin.sn());
        let number = next_number(&*disk)?;
        let rest = || pauses.rest();
        let new = NewCheckpoint::begin(&*disk, number, self.origin, at, store.shard_count());
        let mut new = new.at_times(times).pausing(&rest);
        let runs = &self.runs;
        let terms = (runs.terms).write(
            &mut new,
            store.dictionary(),
            pauses.terms_per_file(),
            pin.sn(),
        )?;
        pauses.pause()?;
        let slices = write_slices((&mut new, &runs.slices), &store, &core, &pauses)?;
        pauses.pause()?;
        let answers = write_answers((&mut new, &runs.answers), host, core.sn(), &pauses)?;
        pauses.pause()?;
        let core = write_core((&mut new, &runs.core), core, &pauses)?;
        let before = (&mut new, &runs.transactions);
        let transactions = write_transactions(before, &transactions, pin.sn(), || pauses.rest())?;
        let CheckpointMarkers { since, until } = markers;
        let before = runs.lists.as_ref();
        let ranges = write_lists((&mut new, &*disk), before, &until, pin, &pauses)?;
        pauses.pause()?;
        let manifest = new.commit()?;
        self.runs = CheckpointRuns {
            manifest: Some(manifest.clone()),
            terms,
            lists: Some(ListRuns::written(&manifest, since, ranges)),
            slices,
            core,
            answers,
            transactions,
        };
        // The new checkpoint exists even if this fails. The next one removes what is left.
        if let Err(error) = self.remove_older() {
            tracing::warn!("what only older checkpoints need was not removed: {error}");
        }
        Ok(manifest)
    }

    /// Reads the files of the newest checkpoint back, and forgets those that are damaged: this
    /// checkpoint writes what they hold again. A file that cannot be read may be whole, so it is an
    /// error.
    fn read_back(&mut self, pauses: &Pauses<'_>) -> Result<(), RuntimeError> {
        let Some(newest) = &self.runs.manifest else {
            return Ok(());
        };
        let mut damaged = BTreeSet::new();
        for file in newest.files() {
            match read_file_back(&*self.disk, newest, file, pauses) {
                Ok(()) => {}
                Err(RuntimeError::Checkpoint(error)) if error.is_damage() => {
                    tracing::warn!(
                        "a file of checkpoint {} does not read back; the next checkpoint writes what it held again, \
                         from memory, so no copy of the file is needed: {error}",
                        newest.number()
                    );
                    damaged.insert(file.name);
                }
                Err(error) => {
                    if matches!(error, RuntimeError::Checkpoint(_)) {
                        tracing::warn!(
                            "a file of checkpoint {} cannot be read; if that stays so, move the file away: the next \
                             checkpoint writes what it held again, from memory",
                            newest.number()
                        );
                    }
                    return Err(error);
                }
            }
        }
        if !damaged.is_empty() {
            self.rewritten.add(damaged.len());
            self.runs.forget(&damaged);
        }
        Ok(())
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
        let unread = kept.passed_over.into_iter().find(|it| !it.is_damage());
        if let Some(error) = unread {
            // It may be whole.
            return Err(error.into());
        }
        remove_unneeded(disk, &kept.whole)?;
        if let (KEPT, Some(oldest)) = (kept.whole.len(), kept.whole.last()) {
            self.log.trim(Position(oldest.position()))?;
        }
        Ok(())
    }
}

/// Reads a file of a checkpoint, and checks all of it.
fn read_file_back(
    disk: &dyn Disk,
    manifest: &Manifest,
    file: &ListedFile,
    pauses: &Pauses<'_>,
) -> Result<(), RuntimeError> {
    let mut reader = manifest.open(disk, file)?;
    while reader.pass_block()? {
        pauses.pause()?;
    }
    Ok(())
}

/// Writes the records of the host.
fn write_answers(
    (new, before): (&mut NewCheckpoint<'_>, &PieceRuns),
    host: &dyn Host,
    sn: Sn,
    pauses: &Pauses<'_>,
) -> Result<PieceRuns, RuntimeError> {
    let mut writer = PieceWriter::new(new.create(FileKind::Answers)?, before)?;
    let mut written = Ok(());
    host.save(&mut |record| {
        if written.is_ok() {
            written = writer.push_record(record);
            pauses.rest();
        }
    });
    written?;
    Ok(writer.finish(new, Coverage::whole(sn))?)
}

/// Writes the slices of all streams, as they are at the checkpoint's SN. Those that the checkpoint
/// before has are named alone.
fn write_slices(
    (new, before): (&mut NewCheckpoint<'_>, &PieceRuns),
    store: &Store,
    core: &FrozenCore,
    pauses: &Pauses<'_>,
) -> Result<PieceRuns, RuntimeError> {
    let pieces = PieceWriter::new(new.create(FileKind::Slices)?, before)?;
    let mut writer = SliceWriter::new(pieces);
    for shown in core.shown() {
        for slice in (store.slices()).slices_at(shown.stream, shown.end, core.sn()) {
            pauses.pause()?;
            writer.push_numbered(slice.number(), || SavedSlice {
                stream: shown.stream,
                batch: slice.batch(),
                interval: shown.interval,
                revision: slice.revision(),
                epoch: slice.lease().map(|lease| lease.epoch().number()),
                statements: slice.in_order_of_arrival(),
            })?;
        }
    }
    Ok((writer.into_pieces()).finish(new, Coverage::whole(core.sn()))?)
}

fn write_core(
    (new, before): (&mut NewCheckpoint<'_>, &PieceRuns),
    core: FrozenCore,
    pauses: &Pauses<'_>,
) -> Result<PieceRuns, RuntimeError> {
    let coverage = Coverage::whole(core.sn());
    let mut writer = PieceWriter::new(new.create(FileKind::Core)?, before)?;
    for record in core.records() {
        writer.push_value(&record)?;
        pauses.rest();
    }
    Ok(writer.finish(new, coverage)?)
}
