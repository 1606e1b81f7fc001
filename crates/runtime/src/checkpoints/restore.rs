//! The state of an engine from the files of a checkpoint: the dictionary first, by whose ids
//! everything else is written, then shards, slices, the coordinator and the answers.
//!
//! Before changing anything here: a transient term that no lease covers is reclaimed, so the leases
//! of the restored dictionary are kept until slices, open batches and answers hold their terms.

use super::CheckpointRuns;
use super::lists::ListRuns;
use super::restore_lists::restore_shards;
use super::status::NewestCheckpoint;
use super::transactions::{RestoredTransactions, restore_transactions};
use crate::error::RuntimeError;
use crate::host::Host;
use crate::replay::logged_texts;
use oxrdf::TermRef;
use parking_lot::Mutex;
use somersault_checkpoint::{
    CheckpointError, CheckpointTimes, FileKind, FileName, ListedFile, Manifest, PieceReader,
    RestoredDictionary, SavedSlice, SliceReader, VerifyDepth, restore_dictionary,
    whole_checkpoints,
};
use somersault_dictionary::{Dictionary, RestoredLeases};
use somersault_disk::Disk;
use somersault_log::LogIdentity;
use somersault_model::{Intern, Lease, Sn, StreamUid, TermId};
use somersault_pool::in_parallel;
use somersault_store::{Slice, Store};
use somersault_stream::{Coordinator, CoreRecord, RestoredTerms};
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
    transactions: RestoredTransactions,
    pub(crate) times: CheckpointTimes,
    pub(crate) newest: NewestCheckpoint,
    /// The time that reading it took.
    pub(crate) load: Duration,
    answers: PieceReader,
    answers_name: FileName,
    leases: RestoredLeases,
}

/// The part of a restored state that the sequencer goes on with.
#[derive(Default)]
pub(crate) struct RestoredCores {
    pub(crate) coordinator: Coordinator,
    pub(crate) transactions: RestoredTransactions,
    pub(crate) times: CheckpointTimes,
}

impl RestoredState {
    /// Gives the host its records. Returns the rest, and the leases, which are kept until the host
    /// has met its queries.
    pub(crate) fn give_answers(
        self,
        host: &dyn Host,
    ) -> Result<(RestoredCores, RestoredLeases), RuntimeError> {
        let records = self.answers.into_record_bytes();
        let mut records = records.map(|record| record.map_err(RuntimeError::from));
        host.restore(&mut records)
            .and_then(|()| records.try_for_each(|record| record.map(drop)))
            .map_err(|error| in_file(self.answers_name, error))?;
        let cores = RestoredCores {
            coordinator: self.coordinator,
            transactions: self.transactions,
            times: self.times,
        };
        Ok((cores, self.leases))
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
                Err(error) if is_unreadable(&error) => {
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

/// Whether the checkpoint before may do: this one is not whole, or the disk does not give it.
fn is_unreadable(error: &RuntimeError) -> bool {
    match error {
        RuntimeError::Checkpoint(error) => {
            error.is_damage() || matches!(error, CheckpointError::Io { .. })
        }
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
    let RestoredDictionary {
        dictionary,
        leases,
        runs: terms,
    } = restore_dictionary(disk, manifest, threads)?;
    let store = empty(dictionary);
    // Nothing was cut before SN 1, so a checkpoint at SN 0 has no lists.
    if manifest.sn() > Sn::ZERO {
        restore_shards(disk, manifest, &store, threads)?;
        store.snapshots().publish_stable(manifest.sn());
    }
    restore_slices(disk, manifest, &store, &leases, threads)?;
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
    for file in manifest.files_of(FileKind::Answers) {
        manifest.open(disk, file)?.finish()?;
    }
    let transactions = restore_transactions(disk, manifest, &coordinator)?;
    let state = RestoredState {
        coordinator,
        transactions,
        times: manifest.times(),
        newest: NewestCheckpoint::of(manifest),
        load: begun.elapsed(),
        answers: PieceReader::open(disk, manifest, answers)?,
        answers_name: answers.name,
        leases: resolved.leases,
    };
    let lists = ListRuns::restored(manifest, &store);
    let runs = CheckpointRuns::restored(manifest, terms, lists);
    Ok(Restored {
        manifest: manifest.clone(),
        store,
        state,
        runs,
    })
}

/// The file of a kind that the checkpoint wrote itself.
pub(super) fn own_file(manifest: &Manifest, kind: FileKind) -> Option<&ListedFile> {
    let mut files = manifest.files_of(kind);
    files.find(|file| file.name.checkpoint == manifest.number())
}

/// The file of a kind that each checkpoint writes.
fn the_file(manifest: &Manifest, kind: FileKind) -> Result<&ListedFile, RuntimeError> {
    own_file(manifest, kind).ok_or_else(|| {
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
pub(super) fn in_file(name: FileName, error: RuntimeError) -> RuntimeError {
    match error {
        RuntimeError::Unreadable { message, .. } => RuntimeError::Unreadable {
            message: format!("{name}: {message}"),
            file: name.to_string(),
        },
        error => error,
    }
}

pub(super) fn unreadable(manifest: &Manifest, message: String) -> RuntimeError {
    RuntimeError::Unreadable {
        file: manifest.name().to_string(),
        message,
    }
}

/// The slices of all streams. They are read one after the other, and built by all threads.
fn restore_slices(
    disk: &dyn Disk,
    manifest: &Manifest,
    store: &Store,
    leases: &RestoredLeases,
    threads: usize,
) -> Result<(), RuntimeError> {
    let file = the_file(manifest, FileKind::Slices)?;
    let slices = SliceReader::new(PieceReader::open(disk, manifest, file)?);
    let slices = Mutex::new((0, Some(slices)));
    let built = in_parallel(threads, 0..threads.max(1), |_| {
        let mut built = Vec::new();
        loop {
            let Some((number, saved)) = next_slice(&mut slices.lock())? else {
                return Ok::<_, RuntimeError>(built);
            };
            let stream = saved.stream;
            let slice = restore_slice(manifest, file, saved, leases)?;
            built.push((number, stream, slice));
        }
    });
    let built = built.into_iter().collect::<Result<Vec<_>, _>>()?;
    let mut built: Vec<(u64, StreamUid, Slice)> = built.into_iter().flatten().collect();
    // As they stand in the file: the earlier ones of a stream first.
    built.sort_unstable_by_key(|(number, ..)| *number);
    for (_, stream, slice) in built {
        store.slices().insert(stream, slice);
    }
    Ok(())
}

/// The next slice of a file, with its number; nothing is read behind an error.
fn next_slice(
    (number, slices): &mut (u64, Option<SliceReader>),
) -> Result<Option<(u64, SavedSlice)>, CheckpointError> {
    let Some(mut reader) = slices.take() else {
        return Ok(None);
    };
    let saved = reader.take()?;
    *slices = Some(reader);
    *number += 1;
    Ok(saved.map(|saved| (*number, saved)))
}

fn restore_slice(
    manifest: &Manifest,
    file: &ListedFile,
    saved: SavedSlice,
    leases: &RestoredLeases,
) -> Result<Slice, RuntimeError> {
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
    Ok(slice.with_lease(lease.cloned()))
}

fn restore_coordinator(
    disk: &dyn Disk,
    manifest: &Manifest,
    terms: &TermsOfCheckpoint<'_>,
) -> Result<Coordinator, RuntimeError> {
    let file = the_file(manifest, FileKind::Core)?;
    let reader = PieceReader::open(disk, manifest, file)?;
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
