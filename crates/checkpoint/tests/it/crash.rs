//! Checkpoints through crashes at every sync: one that was committed reads back whole, and what is
//! removed was not needed.

use crate::samples::{ORIGIN, Writer, read};
use somersault_checkpoint::{
    CheckpointError, FileKind, Manifest, VerifyDepth, next_number, remove_unneeded,
    whole_checkpoints,
};
use somersault_disk::{AlteredDisk, CrashKeep, Disk, SimDisk};

const CHECKPOINTS: u64 = 3;
const TEARS: u64 = 6;

fn keeps() -> impl Iterator<Item = CrashKeep> {
    let seeded = (0..TEARS).map(CrashKeep::Seeded);
    [CrashKeep::Synced, CrashKeep::Written]
        .into_iter()
        .chain(seeded)
}

/// Writes checkpoints, and removes what the newest two do not need, until the disk is gone. Returns
/// the last one that was committed.
fn write_until_crash(disk: &dyn Disk) -> Option<Manifest> {
    let (mut writer, mut kept) = (Writer::new(), Vec::new());
    for number in 1..=CHECKPOINTS {
        match writer.write(disk, number) {
            Ok(manifest) => kept.insert(0, manifest),
            Err(_) => break,
        }
        kept.truncate(2);
        if remove_unneeded(disk, &kept).is_err() {
            break;
        }
    }
    kept.into_iter().next()
}

/// Which checkpoint is lost, or does not read back as it was written.
fn check(disk: &dyn Disk, committed: u64) -> Result<Option<Manifest>, String> {
    let said = |error: CheckpointError| error.to_string();
    let found = whole_checkpoints(disk, ORIGIN.log, VerifyDepth::Bytes, 2).map_err(said)?;
    if let Some(error) = found.passed_over.first() {
        return Err(format!("a manifest is there without its files: {error}"));
    }
    let newest = found.whole.first().map_or(0, Manifest::number);
    if newest < committed {
        return Err(format!("{committed} was committed, {newest} is there"));
    }
    // The ids that a dictionary gives depend on what came before alone.
    let mut twin = Writer::new();
    let other = SimDisk::new();
    for number in 1..=newest {
        twin.write(&other, number).map_err(said)?;
        let manifest = found.whole.iter().find(|it| it.number() == number);
        if let Some(manifest) = manifest
            && read(disk, manifest).map_err(said)? != twin.content(number)
        {
            return Err(format!("checkpoint {number} reads back as another one"));
        }
    }
    Ok(found.whole.into_iter().next())
}

fn syncs() -> u64 {
    let disk = SimDisk::new();
    let written = write_until_crash(&disk).unwrap();
    assert_eq!(written.number(), CHECKPOINTS);
    assert_eq!(
        (written.position(), written.shards()),
        (CHECKPOINTS * 100, 2)
    );
    disk.syncs()
}

#[test]
fn a_committed_checkpoint_survives_a_crash_at_every_sync() {
    for at in 0..syncs() {
        for keep in keeps() {
            let disk = SimDisk::new();
            disk.crash_at_sync(at, keep);
            let committed = write_until_crash(&disk).map_or(0, |it| it.number());
            let after = disk.restarted();
            let newest = check(&after, committed)
                .unwrap_or_else(|lost| panic!("crash at sync {at}, {keep:?}: {lost}"));
            // The next one goes on beside what the crash left behind.
            let number = next_number(&after).unwrap();
            assert!(
                newest
                    .as_ref()
                    .is_none_or(|newest| number > newest.number())
            );
            let mut writer = Writer::new();
            let manifest = writer.write(&after, number).unwrap();
            remove_unneeded(&after, std::slice::from_ref(&manifest)).unwrap();
            let files = manifest.files().len() + 1;
            assert_eq!(
                after.list().unwrap().len(),
                files,
                "nothing is left of the others"
            );
            manifest.verify(&after, VerifyDepth::Bytes).unwrap();
        }
    }
}

#[test]
fn a_failed_sync_abandons_the_checkpoint() {
    for at in 0..syncs() {
        let disk = SimDisk::new();
        disk.fail_sync_after(Some(at));
        let committed = write_until_crash(&disk).map_or(0, |it| it.number());
        let after = disk.crash(CrashKeep::Synced);
        check(&after, committed).unwrap_or_else(|lost| panic!("failed sync {at}: {lost}"));
    }
}

#[test]
fn a_full_disk_abandons_the_checkpoint() {
    let disk = SimDisk::new();
    let mut writer = Writer::new();
    let first = writer.write(&disk, 1).unwrap();
    let files = disk.names();
    for room in (0..first.bytes()).step_by(97) {
        disk.set_capacity(Some(first.bytes() + 200 + room));
        let error = match Writer::new().write(&disk, 2) {
            Err(error) => error,
            Ok(_) => break,
        };
        assert!(matches!(error, CheckpointError::DiskFull { .. }), "{error}");
        assert_eq!(check(&disk, 1).unwrap(), Some(first.clone()));
        // The number of the abandoned one is not taken again; here its files make room for more.
        assert_eq!(next_number(&disk).unwrap(), 3);
        for name in disk
            .names()
            .into_iter()
            .filter(|name| !files.contains(name))
        {
            disk.remove(&name).unwrap();
        }
    }
}

#[test]
fn nothing_unknown_and_nothing_newer_is_removed() {
    let disk = SimDisk::new();
    let mut writer = Writer::new();
    let mut kept = vec![writer.write(&disk, 1).unwrap()];
    for name in [
        "log-0000000001.seg",
        "checkpoint-0000000001-0000.other",
        "checkpoint-0000000009-0000.core",
        "checkpoint-0000000001-0000.core.tmp",
    ] {
        disk.plant(name, b"bytes".to_vec());
    }
    disk.plant("checkpoint-0000000001-0000.manifest.tmp", Vec::new());
    disk.plant("checkpoint-0000000001-0099.core", Vec::new());
    assert_eq!(remove_unneeded(&disk, &[]).unwrap(), 0, "nothing is kept");
    assert_eq!(remove_unneeded(&disk, &kept).unwrap(), 2);
    assert_eq!(remove_unneeded(&disk, &kept).unwrap(), 0);
    assert_eq!(next_number(&disk).unwrap(), 10);
    // The file of checkpoint 9 belongs to one that is being written.
    let second = writer.write(&disk, 2).unwrap();
    kept.insert(0, second.clone());
    assert_eq!(remove_unneeded(&disk, &kept).unwrap(), 0);
    let terms = second
        .files()
        .iter()
        .filter(|file| file.name.checkpoint == 1 && file.name.kind == FileKind::Terms);
    assert_eq!(
        terms.count(),
        2,
        "the terms of the first are needed by the second"
    );
    kept.truncate(1);
    assert!(remove_unneeded(&disk, &kept).unwrap() > 0);
    assert_eq!(disk.names().len(), 4 + second.files().len() + 1);
    assert_eq!(read(&disk, &second).unwrap(), writer.content(2));
}

/// A planted mistake: a manifest gets its name before the names of its files are durable.
#[test]
fn a_manifest_before_its_files_is_caught() {
    let other = SimDisk::new();
    let name = Writer::new().write(&other, 1).unwrap().name().to_string();
    let disk = SimDisk::new();
    let files = Writer::new().files(&disk, 1).unwrap();
    disk.plant(&name, other.bytes(&name).unwrap());
    drop(files);
    assert!(check(&disk, 1).is_ok());
    assert!(check(&disk.crash(CrashKeep::Synced), 0).is_err());
}

/// A planted mistake: files are removed that the older of two kept checkpoints needs.
#[test]
fn removing_what_is_needed_is_caught() {
    let disk = SimDisk::new();
    let mut writer = Writer::new();
    let first = writer.write(&disk, 1).unwrap();
    let second = writer.write(&disk, 2).unwrap();
    let removed = remove_unneeded(&disk, std::slice::from_ref(&second)).unwrap();
    assert!(removed > 0);
    disk.plant(&first.name().to_string(), Vec::new());
    let lost = check(&disk, 2).unwrap_err();
    assert!(lost.contains("without its files"), "{lost}");
}

/// A planted mistake: a checkpoint is called committed although the disk only says so.
#[test]
fn a_sync_that_lies_is_caught() {
    let disk = SimDisk::new();
    let lying = AlteredDisk::of(&disk).with_sync(|_| Ok(()));
    let committed = write_until_crash(&lying).unwrap().number();
    let after = disk.crash(CrashKeep::Synced);
    assert!(check(&after, committed).is_err());
}
