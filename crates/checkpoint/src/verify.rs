//! Verifying all checkpoints of a folder: every byte of every file that a manifest names, and all
//! damage that there is, not only the first.
//!
//! The one thing to know: nothing is changed, and a file that several manifests name is read once.

use crate::container::FileSummary;
use crate::error::CheckpointError;
use crate::folder::names;
use crate::manifest::Manifest;
use crate::name::{FileKind, FileName};
use somersault_disk::{Disk, UNFINISHED};
use std::collections::BTreeMap;

/// A checkpoint of a folder, whole or not.
#[derive(Clone, Debug)]
pub struct VerifiedCheckpoint {
    /// Its number.
    pub number: u64,
    /// Its manifest; `None` if that does not read back.
    pub manifest: Option<Manifest>,
    /// All that is wrong with its files.
    pub damage: Vec<CheckpointError>,
}

/// The checkpoint files of a folder.
#[derive(Clone, Debug, Default)]
pub struct VerifiedCheckpoints {
    /// All checkpoints that have a manifest, the newest first.
    pub checkpoints: Vec<VerifiedCheckpoint>,
    /// The names of checkpoint files that no manifest names, and of unfinished manifests.
    pub unnamed: Vec<String>,
}

/// Reads all files of all checkpoints.
///
/// # Errors
/// The folder cannot be read.
pub fn verify_checkpoints(disk: &dyn Disk) -> Result<VerifiedCheckpoints, CheckpointError> {
    let names = names(disk)?;
    let mut numbers: Vec<u64> = names
        .iter()
        .filter(|(name, text)| name.kind == FileKind::Manifest && !text.ends_with(UNFINISHED))
        .map(|(name, _)| name.checkpoint)
        .collect();
    numbers.sort_unstable_by(|a, b| b.cmp(a));
    let mut verified = VerifiedCheckpoints::default();
    let mut whole: BTreeMap<FileName, FileSummary> = BTreeMap::new();
    for number in numbers {
        let checkpoint = match Manifest::read(disk, number) {
            Ok(manifest) => verify_files(disk, manifest, &mut whole),
            Err(error) => VerifiedCheckpoint {
                number,
                manifest: None,
                damage: vec![error],
            },
        };
        verified.checkpoints.push(checkpoint);
    }
    let is_named = |name: &FileName, text: &str| {
        !text.ends_with(UNFINISHED)
            && verified.checkpoints.iter().any(|checkpoint| {
                let mut files = checkpoint.manifest.iter().flat_map(Manifest::files);
                FileName::manifest(checkpoint.number) == *name
                    || files.any(|file| file.name == *name)
            })
    };
    let unnamed = names.iter().filter(|(name, text)| !is_named(name, text));
    verified.unnamed = unnamed.map(|(_, text)| text.clone()).collect();
    Ok(verified)
}

/// Reads the files of a checkpoint, except those that were found whole.
fn verify_files(
    disk: &dyn Disk,
    manifest: Manifest,
    whole: &mut BTreeMap<FileName, FileSummary>,
) -> VerifiedCheckpoint {
    let mut damage = Vec::new();
    for file in manifest.files() {
        // Opening compares the file with this manifest, whichever names it too.
        let outcome = manifest.open(disk, file).and_then(|reader| {
            match whole.get(&file.name) == Some(&file.summary) {
                true => Ok(file.summary),
                false => reader.finish(),
            }
        });
        match outcome {
            Ok(summary) => {
                whole.insert(file.name, summary);
            }
            Err(error) => damage.push(error),
        }
    }
    VerifiedCheckpoint {
        number: manifest.number(),
        manifest: Some(manifest),
        damage,
    }
}
