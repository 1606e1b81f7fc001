//! The state of an engine from the files of a checkpoint: the dictionary first, by whose ids
//! everything else is written, then shards, slices, the coordinator and the answers.
//!
//! Before changing anything here: a transient term that no lease covers is reclaimed, so the leases
//! of the restored dictionary are kept until slices, open batches and answers hold their terms.

use super::CheckpointRuns;
use super::lists::ListRuns;
use super::status::NewestCheckpoint;
use crate::error::RuntimeError;
use crate::host::Host;
use crate::replay::logged_texts;
use oxrdf::TermRef;
use parking_lot::Mutex;
use somersault_checkpoint::{
    CheckpointError, CheckpointTimes, FileKind, FileName, ListFileReader, ListedFile, Manifest,
    RecordReader, SliceReader, TermRuns, VerifyDepth, restore_dictionary, whole_checkpoints,
};
use somersault_dictionary::{Dictionary, RestoredLeases};
use somersault_disk::Disk;
use somersault_log::LogIdentity;
use somersault_model::{Intern, Lease, ShardId, Sn, StreamUid, TermId};
use somersault_store::{ListRun, MergedRuns, ShardRestore, Slice, Store};
use somersault_stream::{Coordinator, CoreRecord, RestoredTerms};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The newest checkpoint of a log that could be read.
pub struct RecentCheckpoint {
    /// `None` if there is none.
    pub restored: Option<Restored>,
    /// What is wrong with newer ones.
    pub passed_over: Vec<RuntimeError>,
}

/// What a checkpoint holds, as an engine begins with it.
pub struct Restored {
    /// The manifest.
    pub manifest: Manifest,
    /// The store, at the SN of the checkpoint, which is stable.
    pub store: Arc<Store>,
    /// The rest of the state, for [`DriverParts::restored`](crate::DriverParts::restored).
    pub state: RestoredState,
    /// What the checkpoint after this one goes on with.
    pub runs: CheckpointRuns,
}

/// The state of a driver and of its host at a checkpoint. Transient terms that only the host's
/// answers hold are kept until this is dropped.
pub struct RestoredState {
    pub(crate) coordinator: Coordinator,
    pub(crate) times: CheckpointTimes,
    pub(crate) newest: NewestCheckpoint,
    /// The time that reading it took.
    pub(crate) load: Duration,
    answers: RecordReader,
    answers_name: FileName,
    leases: RestoredLeases,
}

impl RestoredState {
    /// Gives the host its records. Returns the coordinator and the times, and the leases, which are
    /// kept until the host has met its queries.
    pub(crate) fn give_answers(
        self,
        host: &dyn Host,
    ) -> Result<(Coordinator, CheckpointTimes, RestoredLeases), RuntimeError> {
        let records = self.answers.into_bytes();
        let mut records = records.map(|record| record.map_err(RuntimeError::from));
        host.restore(&mut records)
            .and_then(|()| records.try_for_each(|record| record.map(drop)))
            .map_err(|error| in_file(self.answers_name, error))?;
        Ok((self.coordinator, self.times, self.leases))
    }
}

/// Reads the newest checkpoint of a log that is whole, as [`restore_checkpoint`] does. A damaged
/// one is passed over. Before one is read, `begin` is called with it.
///
/// # Errors
/// A checkpoint of a newer version, or IO.
pub fn restore_newest(
    disk: &dyn Disk,
    log: LogIdentity,
    empty: impl Fn(Dictionary) -> Arc<Store>,
    begin: impl Fn(&Manifest),
    threads: usize,
) -> Result<RecentCheckpoint, RuntimeError> {
    let mut unreadable = Vec::new();
    loop {
        // Damage shows only when a checkpoint is read; then the one before it is tried.
        let most = unreadable.len() + 1;
        let found = whole_checkpoints(disk, log.bytes(), VerifyDepth::Lengths, most)?;
        let manifest = found.whole.get(unreadable.len());
        manifest.into_iter().for_each(&begin);
        let restored = match manifest {
            None => None,
            Some(manifest) => match restore_checkpoint(disk, manifest, &empty, threads) {
                Err(error) if is_damage(&error) => {
                    unreadable.push(error);
                    continue;
                }
                restored => Some(restored?),
            },
        };
        let passed_over = found.passed_over.into_iter().map(RuntimeError::from);
        return Ok(RecentCheckpoint {
            restored,
            passed_over: passed_over.chain(unreadable).collect(),
        });
    }
}

/// Whether an error means that a checkpoint is not whole.
fn is_damage(error: &RuntimeError) -> bool {
    match error {
        RuntimeError::Checkpoint(error) => matches!(
            error,
            CheckpointError::Damaged { .. }
                | CheckpointError::Missing { .. }
                | CheckpointError::Foreign { .. }
        ),
        RuntimeError::Unreadable { .. } => true,
        _ => false,
    }
}

/// Reads a checkpoint, on at most this many threads, into the store that `empty` makes of its
/// dictionary; that may have any number of shards. Then the log is replayed behind
/// [`Manifest::position`].
///
/// # Errors
/// Damage, a text that this version does not understand, or IO.
pub fn restore_checkpoint(
    disk: &dyn Disk,
    manifest: &Manifest,
    empty: impl FnOnce(Dictionary) -> Arc<Store>,
    threads: usize,
) -> Result<Restored, RuntimeError> {
    let begun = Instant::now();
    let (dictionary, leases) = restore_dictionary(disk, manifest, threads)?;
    let terms = TermRuns::restored(manifest, &dictionary);
    let store = empty(dictionary);
    // Nothing was cut before SN 1, so a checkpoint at SN 0 has no lists.
    if manifest.sn() > Sn::ZERO {
        restore_shards(disk, manifest, &store, threads)?;
        store.snapshots().publish_stable(manifest.sn());
    }
    restore_slices(disk, manifest, &store, &leases)?;
    let resolved = TermsOfCheckpoint {
        store: &store,
        leases,
    };
    let coordinator = restore_coordinator(disk, manifest, &resolved)?;
    if coordinator.last_cut() != manifest.sn() {
        let message = format!(
            "{} is of {}, and its coordinator of {}; start from the checkpoint before it",
            manifest.name(),
            manifest.sn(),
            coordinator.last_cut()
        );
        return Err(unreadable(manifest, message));
    }
    let answers = the_file(manifest, FileKind::Answers)?;
    // The host takes the answers later, when no other checkpoint can be tried: verify them now.
    manifest.open(disk, answers)?.finish()?;
    let state = RestoredState {
        coordinator,
        times: manifest.times(),
        newest: NewestCheckpoint::of(manifest),
        load: begun.elapsed(),
        answers: RecordReader::new(manifest.open(disk, answers)?),
        answers_name: answers.name,
        leases: resolved.leases,
    };
    let lists = ListRuns::restored(manifest, &store);
    let runs = CheckpointRuns { terms, lists };
    Ok(Restored {
        manifest: manifest.clone(),
        store,
        state,
        runs,
    })
}

/// The only file of a kind.
fn the_file(manifest: &Manifest, kind: FileKind) -> Result<&ListedFile, RuntimeError> {
    manifest.files_of(kind).next().ok_or_else(|| {
        let (name, file) = (
            manifest.name(),
            FileName {
                kind,
                ..manifest.name()
            },
        );
        let what = "start from the checkpoint before it";
        unreadable(manifest, format!("{name} does not name {file}; {what}"))
    })
}

/// The error about what a file of a checkpoint holds, with its name.
fn in_file(name: FileName, error: RuntimeError) -> RuntimeError {
    match error {
        RuntimeError::Unreadable { message, .. } => RuntimeError::Unreadable {
            message: format!("{name}: {message}"),
            file: name.to_string(),
        },
        error => error,
    }
}

fn unreadable(manifest: &Manifest, message: String) -> RuntimeError {
    RuntimeError::Unreadable {
        file: manifest.name().to_string(),
        message,
    }
}

/// Fills all shards, several at a time if there are threads for it.
fn restore_shards(
    disk: &dyn Disk,
    manifest: &Manifest,
    store: &Arc<Store>,
    threads: usize,
) -> Result<(), RuntimeError> {
    let shards = usize::from(store.shard_count());
    let of_shard = (threads / shards).max(1);
    let waiting = Mutex::new(store.placement().all());
    let restore = || loop {
        let next = waiting.lock().next();
        match next {
            Some(shard) => restore_shard(disk, manifest, store, shard, of_shard)?,
            None => return Ok(()),
        }
    };
    let threads = threads.min(shards);
    if threads <= 1 {
        return restore();
    }
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(restore)).collect();
        let mut restored = threads.into_iter().map(|thread| match thread.join() {
            Ok(restored) => restored,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        restored.try_for_each(|restored| restored)
    })
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
    let file = the_file(manifest, FileKind::Core)?;
    let reader = RecordReader::new(manifest.open(disk, file)?);
    let records = reader.into_records::<CoreRecord>();
    let records = records.map(|record| record.map_err(RuntimeError::from));
    Coordinator::restore(records, &mut logged_texts(), terms)
        .map_err(|error| in_file(file.name, error))
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
