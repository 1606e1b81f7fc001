//! The state of an engine from the files of a checkpoint: the dictionary first, by whose ids
//! everything else is written, then shards, slices and the coordinator.
//!
//! Before changing anything here: a transient term that no lease covers is reclaimed, so the leases
//! of the restored dictionary are kept until slices and open batches have theirs.

use crate::error::RuntimeError;
use crate::replay::logged_texts;
use oxrdf::TermRef;
use somersault_checkpoint::{
    FileKind, ListFileReader, ListedFile, Manifest, RecordReader, SliceReader, TermRuns,
    restore_dictionary,
};
use somersault_dictionary::RestoredLeases;
use somersault_disk::Disk;
use somersault_model::{Intern, Lease, ShardId, Sn, StreamUid, TermId};
use somersault_store::{ListRun, MergedRuns, ShardRestore, Slice, Store};
use somersault_stream::{Coordinator, CoreRecord, RestoredTerms};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a checkpoint holds, as an engine begins with it.
pub struct Restored {
    /// The store, at the SN of the checkpoint, which is stable.
    pub store: Arc<Store>,
    /// The coordinator, for [`DriverParts::restored`](crate::DriverParts::restored).
    pub coordinator: Coordinator,
    /// The runs of terms, for the next checkpoint.
    pub runs: TermRuns,
}

/// Reads a checkpoint into a store of this many shards, on at most this many threads. Then the log
/// is replayed behind [`Manifest::position`].
///
/// # Errors
/// Damage, a text that this version does not understand, or IO.
pub fn restore_checkpoint(
    disk: &dyn Disk,
    manifest: &Manifest,
    shards: u16,
    threads: usize,
) -> Result<Restored, RuntimeError> {
    let (dictionary, leases) = restore_dictionary(disk, manifest, threads)?;
    let runs = TermRuns::restored(manifest, &dictionary);
    let store = Store::with_dictionary(shards, dictionary);
    // Nothing was cut before SN 1, so a checkpoint at SN 0 has no lists.
    if manifest.sn() > Sn::ZERO {
        for shard in store.placement().all() {
            restore_shard(disk, manifest, &store, shard, threads)?;
        }
        store.snapshots().publish_stable(manifest.sn());
    }
    restore_slices(disk, manifest, &store, &leases)?;
    let terms = TermsOfCheckpoint {
        store: &store,
        leases,
    };
    let coordinator = restore_coordinator(disk, manifest, &terms)?;
    if coordinator.last_cut() != manifest.sn() {
        let message = format!(
            "{} is of {}, and its coordinator of {}; start from the checkpoint before it",
            manifest.name(),
            manifest.sn(),
            coordinator.last_cut()
        );
        return Err(unreadable(manifest, message));
    }
    Ok(Restored {
        store,
        coordinator,
        runs,
    })
}

fn unreadable(manifest: &Manifest, message: String) -> RuntimeError {
    RuntimeError::Unreadable {
        file: manifest.name().to_string(),
        message,
    }
}

/// Fills a shard from the files that hold lists of its virtual shards, whose ranges were those of
/// another number of shards perhaps.
fn restore_shard(
    disk: &dyn Disk,
    manifest: &Manifest,
    store: &Arc<Store>,
    shard: ShardId,
    threads: usize,
) -> Result<(), RuntimeError> {
    let range = store.placement().range_of(shard);
    let holds = |file: &&ListedFile| {
        let covered = file.coverage;
        covered.first_shard < range.end && range.start < covered.end_shard
    };
    // The runs of a range come oldest first.
    let mut files: Vec<&ListedFile> = (manifest.files_of(FileKind::Image))
        .chain(manifest.files_of(FileKind::Delta))
        .filter(holds)
        .collect();
    files.sort_by_key(|file| file.coverage.through);
    let mut ranges: BTreeMap<u16, Vec<ListFileReader>> = BTreeMap::new();
    for file in files {
        let reader = ListFileReader::new(manifest.open(disk, file)?);
        let of_range = ranges.entry(file.coverage.first_shard).or_default();
        of_range.push(reader);
    }
    let failed = |error: &dyn std::error::Error| unreadable(manifest, error.to_string());
    let writer = store.take_writer(shard).map_err(|error| failed(&error))?;
    let mut restore = ShardRestore::new(writer, manifest.sn()).map_err(|error| failed(&error))?;
    let mut runs = MergedRuns::new(ranges.into_values().collect());
    let mut members = Vec::new();
    while let Some(key) = runs.next_list(&mut members)? {
        (restore.list(key, &members)).map_err(|error| failed(&error))?;
    }
    drop(restore.finish(threads));
    Ok(())
}

fn restore_slices(
    disk: &dyn Disk,
    manifest: &Manifest,
    store: &Store,
    leases: &RestoredLeases,
) -> Result<(), RuntimeError> {
    for file in manifest.files_of(FileKind::Slices) {
        let mut slices = SliceReader::new(manifest.open(disk, file)?);
        while let Some(saved) = slices.take()? {
            let lease = match saved.epoch {
                None => None,
                Some(epoch) => Some(leases.of_epoch(saved.stream, epoch).ok_or_else(|| {
                    let what = "its slices name terms that it does not keep";
                    let file = file.name;
                    unreadable(
                        manifest,
                        format!("{file}: {what}; start from the checkpoint before it"),
                    )
                })?),
            };
            let (batch, interval) = (saved.batch, saved.interval);
            let slice = Slice::build(batch, interval, saved.revision, &saved.statements);
            let slice = slice.with_lease(lease.cloned());
            store.slices().insert(saved.stream, slice);
        }
    }
    Ok(())
}

fn restore_coordinator(
    disk: &dyn Disk,
    manifest: &Manifest,
    terms: &TermsOfCheckpoint<'_>,
) -> Result<Coordinator, RuntimeError> {
    let Some(file) = manifest.files_of(FileKind::Core).next() else {
        let message = "it names no file of the coordinator; start from the checkpoint before it";
        return Err(unreadable(
            manifest,
            format!("{}: {message}", manifest.name()),
        ));
    };
    let reader = RecordReader::new(manifest.open(disk, file)?);
    let records = reader.into_records::<CoreRecord>();
    let records = records.map(|record| record.map_err(RuntimeError::from));
    Coordinator::restore(records, &mut logged_texts(), terms)
}

/// The terms of a restored dictionary, for the coordinator.
struct TermsOfCheckpoint<'s> {
    store: &'s Store,
    leases: RestoredLeases,
}

impl Intern for TermsOfCheckpoint<'_> {
    fn intern(&self, term: TermRef<'_>) -> TermId {
        self.store.dictionary().intern(term)
    }
}

impl RestoredTerms for TermsOfCheckpoint<'_> {
    fn lease_of(&self, stream: StreamUid, epoch: u64) -> Option<Lease> {
        self.leases.of_epoch(stream, epoch).cloned()
    }
}
