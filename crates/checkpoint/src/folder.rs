//! The checkpoints of a folder: which are whole, which files no kept one needs.
//!
//! Before changing it: a file is removed only if its name is that of a checkpoint file, its
//! checkpoint is not newer than the newest one that is kept, and no kept manifest names it. So a
//! checkpoint that is being written, and a newer one that turned out damaged, stay.

use crate::container::place;
use crate::error::CheckpointError;
use crate::manifest::{Manifest, VerifyDepth, sync_folder};
use crate::name::{FileKind, FileName};
use somersault_disk::{Disk, UNFINISHED};
use std::collections::BTreeSet;

/// The checkpoints of a folder.
#[derive(Clone, Debug, Default)]
pub struct WholeCheckpoints {
    /// Those that are whole, the newest first.
    pub whole: Vec<Manifest>,
    /// What is wrong with newer ones.
    pub passed_over: Vec<CheckpointError>,
}

/// Looks for the newest checkpoints of a log that are whole, at most `most`.
///
/// # Errors
/// A checkpoint of a newer version; or the folder cannot be read.
pub fn whole_checkpoints(
    disk: &dyn Disk,
    log: [u8; 16],
    depth: VerifyDepth,
    most: usize,
) -> Result<WholeCheckpoints, CheckpointError> {
    let mut found = WholeCheckpoints::default();
    let names = names(disk)?.into_iter();
    let manifests = names.filter(|(name, _)| name.kind == FileKind::Manifest);
    let numbers: BTreeSet<u64> = (manifests.filter(|(_, text)| !text.ends_with(UNFINISHED)))
        .map(|(name, _)| name.checkpoint)
        .collect();
    for number in numbers.into_iter().rev() {
        if found.whole.len() == most {
            break;
        }
        match read_whole(disk, number, log, depth) {
            Ok(manifest) => found.whole.push(manifest),
            Err(error @ CheckpointError::Newer { .. }) => return Err(error),
            Err(error) => found.passed_over.push(error),
        }
    }
    Ok(found)
}

fn read_whole(
    disk: &dyn Disk,
    number: u64,
    log: [u8; 16],
    depth: VerifyDepth,
) -> Result<Manifest, CheckpointError> {
    let manifest = Manifest::read(disk, number)?;
    if manifest.origin().log != log {
        let place = place(disk, &manifest.name().to_string());
        return Err(CheckpointError::foreign(
            &place,
            "it belongs to another log",
        ));
    }
    manifest.verify(disk, depth)?;
    Ok(manifest)
}

/// The number for the next checkpoint: higher than that of every checkpoint file in the folder.
///
/// # Errors
/// The folder cannot be read.
pub fn next_number(disk: &dyn Disk) -> Result<u64, CheckpointError> {
    let names = names(disk)?.into_iter();
    let newest = names.map(|(name, _)| name.checkpoint).max();
    Ok(newest.unwrap_or_default() + 1)
}

/// Removes the files that none of these checkpoints needs; returns how many. `kept` are whole, and
/// the newest that there are.
///
/// # Errors
/// Those of the disk. What is left then is removed the next time.
pub fn remove_unneeded(disk: &dyn Disk, kept: &[Manifest]) -> Result<usize, CheckpointError> {
    let Some(newest) = kept.iter().map(Manifest::number).max() else {
        return Ok(0);
    };
    let files = kept.iter().flat_map(Manifest::files).map(|file| file.name);
    let needed: BTreeSet<FileName> = kept.iter().map(Manifest::name).chain(files).collect();
    let is_needed =
        |(name, text): &(FileName, String)| needed.contains(name) && !text.ends_with(UNFINISHED);
    let mut unneeded = names(disk)?;
    unneeded.retain(|file| file.0.checkpoint <= newest && !is_needed(file));
    // Manifests go first, so that a crash leaves none without its files.
    let (manifests, others): (Vec<_>, Vec<_>) =
        (unneeded.into_iter()).partition(|(name, _)| name.kind == FileKind::Manifest);
    let count = manifests.len() + others.len();
    for files in [manifests, others] {
        for (_, text) in &files {
            let removed = disk.remove(text);
            removed.map_err(|error| CheckpointError::io("remove", &place(disk, text), &error))?;
        }
        if !files.is_empty() {
            sync_folder(disk)?;
        }
    }
    Ok(count)
}

/// All checkpoint files of the folder, unfinished manifests included, with the names that they
/// have.
pub(crate) fn names(disk: &dyn Disk) -> Result<Vec<(FileName, String)>, CheckpointError> {
    let listed = disk.list();
    let listed = listed.map_err(|error| CheckpointError::io("list", &disk.describe(), &error))?;
    let known = listed.into_iter().filter_map(|text| {
        let whole = text.strip_suffix(UNFINISHED);
        let name: FileName = whole.unwrap_or(&text).parse().ok()?;
        let is_known = whole.is_none() || name.kind == FileKind::Manifest;
        is_known.then_some((name, text))
    });
    Ok(known.collect())
}
