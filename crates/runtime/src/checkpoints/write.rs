//! Writes a checkpoint, beside the sequencer.
//!
//! Before changing anything here: terms come first. Later steps give up what keeps transient terms
//! known: the leases of open batches, and the pin.

use crate::error::RuntimeError;
use somersault_checkpoint::{
    Coverage, FileKind, ListFileWriter, LogOrigin, Manifest, NewCheckpoint, RecordWriter,
    SavedSlice, SliceWriter, TermRuns, VerifyDepth, next_number, remove_unneeded,
    whole_checkpoints,
};
use somersault_disk::Disk;
use somersault_log::{Log, Position};
use somersault_model::{ShardId, TermId};
use somersault_store::{ListKey, ListReader, Snapshot, Store};
use somersault_stream::FrozenCore;
use std::sync::Arc;

/// About this many terms go into one file.
const TERMS_PER_FILE: u64 = 8 << 20;
/// This many lists are read from the store at a time.
const LISTS_AT_A_TIME: usize = 4_096;
/// The newest checkpoints that are kept, so that a damaged newest one can be passed over.
const KEPT: usize = 2;

/// Writes the checkpoints of one log, one after another.
pub struct CheckpointWriter {
    disk: Arc<dyn Disk>,
    origin: LogOrigin,
    runs: TermRuns,
}

/// The state of the engine at one position of its log. Slices of its SN are not retired meanwhile.
pub(crate) struct FrozenState {
    pub(crate) core: FrozenCore,
    pub(crate) position: Position,
    /// Keeps the SN, which is stable once the state is written.
    pub(crate) pin: Snapshot,
}

impl CheckpointWriter {
    /// A writer of checkpoints of this log, into its folder. `runs` are the terms that the
    /// checkpoint has from which the engine began. `None` for a log that is not written.
    pub fn new(disk: Arc<dyn Disk>, log: &Log, runs: TermRuns) -> Option<CheckpointWriter> {
        let identity = log.identity().filter(|_| log.incarnation() > 0)?;
        let origin = LogOrigin {
            log: identity.bytes(),
            incarnation: log.incarnation(),
        };
        Some(CheckpointWriter { disk, origin, runs })
    }

    /// Writes a checkpoint. If that fails, those before it are as they were.
    pub(crate) fn write(&mut self, frozen: FrozenState) -> Result<Manifest, RuntimeError> {
        let FrozenState {
            core,
            position,
            pin,
        } = frozen;
        let disk = Arc::clone(&self.disk);
        let store = Arc::clone(pin.store());
        let at = (position.0, pin.sn());
        let number = next_number(&*disk)?;
        let mut new = NewCheckpoint::begin(&*disk, number, self.origin, at, store.shard_count());
        let terms = store.dictionary();
        let runs = (self.runs).write(&mut new, terms, TERMS_PER_FILE, pin.sn())?;
        write_slices(&mut new, &store, &core)?;
        write_core(&mut new, core)?;
        write_lists(&mut new, &store, pin)?;
        let manifest = new.commit()?;
        self.runs = runs;
        self.remove_older();
        Ok(manifest)
    }

    /// Removes the files that only older checkpoints need. The new one is there, whatever comes of
    /// it.
    fn remove_older(&self) {
        let disk = &*self.disk;
        let kept = whole_checkpoints(disk, self.origin.log, VerifyDepth::Lengths, KEPT);
        let removed = kept.and_then(|kept| remove_unneeded(disk, &kept.whole));
        if let Err(error) = removed {
            tracing::warn!("files of older checkpoints were not removed: {error}");
        }
    }
}

/// Writes the slices of all streams, as they are at the checkpoint's SN.
fn write_slices(
    new: &mut NewCheckpoint<'_>,
    store: &Store,
    core: &FrozenCore,
) -> Result<(), RuntimeError> {
    let mut writer = SliceWriter::new(new.create(FileKind::Slices)?);
    for shown in core.shown() {
        for slice in (store.slices()).slices_at(shown.stream, shown.end, core.sn()) {
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

/// Writes all lists of each shard. The reader of a shard keeps the SN by then, and renews its pin.
fn write_lists(
    new: &mut NewCheckpoint<'_>,
    store: &Store,
    pin: Snapshot,
) -> Result<(), RuntimeError> {
    let sn = pin.sn();
    let placement = store.placement();
    let read = |shard| {
        let reader = store.lists_at(shard, sn);
        reader.map_err(|error| RuntimeError::Internal(error.to_string()))
    };
    let mut reader = read(ShardId(0))?;
    drop(pin);
    for shard in placement.all() {
        if shard != ShardId(0) {
            reader = read(shard)?;
        }
        let range = placement.range_of(shard);
        let coverage = Coverage {
            first_shard: range.start,
            end_shard: range.end,
            ..Coverage::whole(sn)
        };
        let mut writer = ListFileWriter::new(new.create(FileKind::Image)?);
        copy_lists(&mut reader, &mut writer)?;
        new.add(writer.into_file(), coverage)?;
    }
    Ok(())
}

fn copy_lists(reader: &mut ListReader, writer: &mut ListFileWriter) -> Result<(), RuntimeError> {
    let mut written = Ok(());
    let mut write = |key: ListKey, members: &[TermId]| {
        if written.is_ok() {
            written = writer.push(&key, members);
        }
    };
    while reader.portion(LISTS_AT_A_TIME, &mut write) {}
    Ok(written?)
}
