//! Verifying reads every file of every checkpoint, and names all that is wrong.

use crate::samples::Writer;
use somersault_checkpoint::{CheckpointError, FileName, VerifiedCheckpoints, verify_checkpoints};
use somersault_disk::{Disk, SimDisk};

fn verified(disk: &SimDisk) -> VerifiedCheckpoints {
    verify_checkpoints(disk).unwrap()
}

/// The damage of each checkpoint, the newest first.
fn damage(disk: &SimDisk) -> Vec<Vec<String>> {
    let checkpoints = verified(disk).checkpoints.into_iter();
    checkpoints
        .map(|it| it.damage.iter().map(CheckpointError::to_string).collect())
        .collect()
}

/// Two checkpoints that share the terms of the first.
fn two() -> SimDisk {
    let disk = SimDisk::new();
    let mut writer = Writer::new();
    writer.write(&disk, 1).unwrap();
    writer.write(&disk, 2).unwrap();
    disk
}

#[test]
fn a_flipped_bit_of_any_file_is_named_at_each_checkpoint_that_needs_it() {
    let disk = two();
    let sound = verified(&disk);
    assert_eq!(damage(&disk), vec![Vec::<String>::new(); 2]);
    for name in disk.names() {
        let whole = disk.bytes(&name).unwrap();
        for at in [0, 30, whole.len() / 2, whole.len() - 1] {
            let mut flipped = whole.clone();
            flipped[at] ^= 4;
            disk.plant(&name, flipped);
            let file: FileName = name.parse().unwrap();
            for (checkpoint, found) in sound.checkpoints.iter().zip(damage(&disk)) {
                let manifest = checkpoint.manifest.as_ref().unwrap();
                let needs = manifest.files().iter().any(|listed| listed.name == file)
                    || manifest.name() == file;
                assert_eq!(found.len(), usize::from(needs), "{name} {at}: {found:?}");
                assert!(found.iter().all(|sentence| sentence.contains(&name)));
            }
        }
        disk.plant(&name, whole);
    }
}

#[test]
fn all_damage_is_listed_and_missing_files_too() {
    let disk = two();
    let newest = verified(&disk).checkpoints[0].manifest.clone().unwrap();
    let files: Vec<String> = newest
        .files()
        .iter()
        .map(|it| it.name.to_string())
        .collect();
    for name in &files {
        disk.remove(name).unwrap();
    }
    let found = damage(&disk);
    assert_eq!(found[0].len(), files.len(), "{found:?}");
}

#[test]
fn files_that_no_manifest_names_are_no_damage() {
    let disk = two();
    let mut writer = Writer::new();
    let left: Vec<String> = {
        let before = disk.names();
        drop(writer.files(&disk, 3).unwrap());
        let after = disk.names().into_iter();
        after.filter(|name| !before.contains(name)).collect()
    };
    disk.plant("checkpoint-0000000004-0000.manifest.tmp", Vec::new());
    let verified = verified(&disk);
    assert_eq!(verified.checkpoints.len(), 2);
    assert_eq!(verified.unnamed.len(), left.len() + 1);
    assert!(damage(&disk).concat().is_empty());
}
