//! The shards of a store from the images and deltas of a checkpoint. Threads share the files: each
//! file is read once, by one thread, into arrays of every shard that has a part of it. Then they
//! share the labels of each shard in turn.
//!
//! Before changing anything here: the files may be those of another number of shards, so a file may
//! fill several shards, and a shard may be filled from several ranges.

use super::lists::{ListFiles, RangeRuns};
use super::restore::unreadable;
use crate::error::RuntimeError;
use somersault_checkpoint::{ListFileReader, ListedFile, Manifest};
use somersault_disk::Disk;
use somersault_model::{Placement, ShardId};
use somersault_pool::in_parallel;
use somersault_store::{ListRun, RestoreError, RestoredLists, RestoredRange, ShardRestore, Store};
use std::sync::Arc;

/// The most edges of a label for which room is made at once. An image of version 1 is a single file
/// of any length.
const MOST_EXPECTED: u64 = 64 << 20;

/// A file of lists to be read.
struct FileToRead {
    range: usize,
    /// The number of the delta, counted from 1; 0 for the image.
    layer: usize,
    file: ListedFile,
    /// The shards that have virtual shards of its range.
    shards: Vec<ShardId>,
}

/// Fills all shards, on at most this many threads.
pub(super) fn restore_shards(
    disk: &dyn Disk,
    manifest: &Manifest,
    store: &Arc<Store>,
    threads: usize,
) -> Result<(), RuntimeError> {
    let failed = |error: RestoreError| unreadable(manifest, error.to_string());
    let begin = |shard| {
        let writer = store.take_writer(shard);
        let writer = writer.map_err(|error| unreadable(manifest, error.to_string()))?;
        ShardRestore::new(writer, manifest.sn()).map_err(failed)
    };
    let placement = store.placement();
    let restores: Vec<ShardRestore> = placement.all().map(begin).collect::<Result<_, _>>()?;
    let runs = RangeRuns::all(manifest).into_values().collect::<Vec<_>>();
    let mut shards: Vec<Vec<RestoredRange>> = Vec::new();
    for _ in &restores {
        let of_range = |runs: &RangeRuns| RestoredRange::with_changes(runs.deltas.len());
        shards.push(runs.iter().map(of_range).collect());
    }
    // The order of work is that of the files, so stretches come back in the order of their keys.
    let read = in_parallel(threads, files_of(&runs, store), |file| {
        let stretches = read_file(disk, manifest, placement, &file)?;
        Ok::<_, RuntimeError>((file, stretches))
    });
    for read in read {
        let (file, stretches) = read?;
        for (shard, stretch) in file.shards.iter().zip(stretches) {
            let range = &mut shards[usize::from(shard.0)][file.range];
            match file.layer.checked_sub(1) {
                None => range.base.push(stretch),
                Some(delta) => range.changes[delta].push(stretch),
            }
        }
    }
    for (restore, ranges) in restores.into_iter().zip(shards) {
        drop(restore.finish(ranges, threads).map_err(failed)?);
    }
    Ok(())
}

fn files_of(runs: &[RangeRuns], store: &Store) -> Vec<FileToRead> {
    let placement = store.placement();
    let mut all = Vec::new();
    for (range, runs) in runs.iter().enumerate() {
        let layers = [&runs.image].into_iter().chain(&runs.deltas);
        for (layer, ListFiles(files)) in layers.enumerate() {
            for file in files {
                let covered = file.coverage;
                let holds = |shard: &ShardId| {
                    let own = placement.range_of(*shard);
                    covered.first_shard < own.end && own.start < covered.end_shard
                };
                all.push(FileToRead {
                    range,
                    layer,
                    file: *file,
                    shards: placement.all().filter(holds).collect(),
                });
            }
        }
    }
    all
}

/// Reads a file, for each of its shards.
fn read_file(
    disk: &dyn Disk,
    manifest: &Manifest,
    placement: Placement,
    from: &FileToRead,
) -> Result<Vec<RestoredLists>, RuntimeError> {
    // An edge takes a byte at least.
    let most = from.file.summary.length.min(MOST_EXPECTED) as usize;
    let stretch = |shard: &ShardId| match from.layer {
        0 => RestoredLists::base(*shard, placement, most),
        _ => RestoredLists::changes(*shard, placement, most),
    };
    let mut stretches: Vec<RestoredLists> = from.shards.iter().map(stretch).collect();
    let mut lists = ListFileReader::new(manifest.open(disk, &from.file)?);
    let mut members = Vec::new();
    while let Some(key) = lists.next_list(&mut members)? {
        for stretch in &mut stretches {
            (stretch.list(key, &members))
                .map_err(|error| unreadable(manifest, error.to_string()))?;
        }
    }
    stretches.iter_mut().for_each(RestoredLists::settle);
    Ok(stretches)
}
