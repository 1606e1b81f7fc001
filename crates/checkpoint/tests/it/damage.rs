//! Damage to any file of a checkpoint is found, said in a sentence, and survived by the checkpoint
//! before.

use crate::samples::{ORIGIN, Writer, read};
use somersault_checkpoint::{
    CheckpointError, FileHeader, FileName, FileReader, FileWriter, LogOrigin, Manifest,
    NewCheckpoint, VerifyDepth, whole_checkpoints,
};
use somersault_disk::{Disk, SimDisk};
use somersault_model::Sn;

/// Two checkpoints, the newest first. They share no file.
fn two() -> (SimDisk, [Manifest; 2]) {
    let disk = SimDisk::new();
    let first = Writer::new().write(&disk, 1).unwrap();
    let second = Writer::new().write(&disk, 2).unwrap();
    (disk, [second, first])
}

/// The names of the newest checkpoint's files.
fn names(manifest: &Manifest) -> Vec<String> {
    let files = manifest.files().iter().map(|file| file.name);
    files
        .chain([manifest.name()])
        .map(|name| name.to_string())
        .collect()
}

/// The newest checkpoint is passed over, with an error that names the file, and the one before is
/// found.
fn passed_over(disk: &SimDisk, name: &str, before: &Manifest) -> CheckpointError {
    let found = whole_checkpoints(disk, ORIGIN.log, VerifyDepth::Bytes, 1).unwrap();
    assert_eq!(found.whole, std::slice::from_ref(before), "{name}");
    let [error] = &found.passed_over[..] else {
        panic!(
            "{name}: one checkpoint is passed over: {:?}",
            found.passed_over
        );
    };
    assert!(error.to_string().contains(name), "{error}");
    error.clone()
}

/// The error with which the newest checkpoint does not load.
fn not_loaded(disk: &SimDisk, manifest: &Manifest) -> CheckpointError {
    let loaded = Manifest::read(disk, manifest.number()).and_then(|it| read(disk, &it));
    loaded.map(|_| ()).unwrap_err()
}

#[test]
fn a_flipped_bit_of_any_file_is_found() {
    let (disk, [second, first]) = two();
    for name in names(&second) {
        let whole = disk.bytes(&name).unwrap();
        for at in 0..whole.len() {
            let mut flipped = whole.clone();
            flipped[at] ^= 1 << (at % 8);
            disk.plant(&name, flipped);
            passed_over(&disk, &name, &first);
        }
        disk.plant(&name, whole.clone());
        // Loading finds it too, without the check before.
        for at in (0..whole.len()).step_by(7) {
            let mut flipped = whole.clone();
            flipped[at] ^= 0x10;
            disk.plant(&name, flipped);
            not_loaded(&disk, &second);
        }
        disk.plant(&name, whole);
    }
    let found = whole_checkpoints(&disk, ORIGIN.log, VerifyDepth::Bytes, 2).unwrap();
    assert_eq!(found.whole, [second, first]);
    assert!(found.passed_over.is_empty());
}

#[test]
fn a_file_cut_anywhere_or_with_more_bytes_is_found() {
    let (disk, [second, first]) = two();
    for name in names(&second) {
        let whole = disk.bytes(&name).unwrap();
        for length in 0..whole.len() {
            disk.plant(&name, whole[..length].to_vec());
            let error = passed_over(&disk, &name, &first);
            assert!(matches!(error, CheckpointError::Damaged { .. }), "{error}");
        }
        disk.plant(&name, [&whole[..], &[0]].concat());
        passed_over(&disk, &name, &first);
        disk.plant(&name, whole);
    }
}

#[test]
fn lengths_alone_show_what_is_missing_cut_or_foreign() {
    let (disk, [second, first]) = two();
    let shallow = || {
        let found = whole_checkpoints(&disk, ORIGIN.log, VerifyDepth::Lengths, 1).unwrap();
        found.whole[0].number()
    };
    assert_eq!(shallow(), 2);
    for file in second.files() {
        let name = file.name.to_string();
        let whole = disk.bytes(&name).unwrap();
        disk.plant(&name, whole[..whole.len() - 1].to_vec());
        assert_eq!(shallow(), first.number());
        disk.remove(&name).unwrap();
        assert_eq!(shallow(), first.number());
        let error = passed_over(&disk, &name, &first);
        assert!(matches!(error, CheckpointError::Missing { .. }), "{error}");
        // Another file of the same checkpoint under this name.
        let other = second
            .files()
            .iter()
            .find(|other| other.name != file.name)
            .unwrap();
        disk.plant(&name, disk.bytes(&other.name.to_string()).unwrap());
        let error = passed_over(&disk, &name, &first);
        assert!(error.to_string().contains("was written as"), "{error}");
        disk.plant(&name, whole);
    }
}

#[test]
fn files_of_another_log_are_not_taken() {
    let (disk, [second, first]) = two();
    let other = LogOrigin {
        log: *b"another log's id",
        ..ORIGIN
    };
    let found = whole_checkpoints(&disk, other.log, VerifyDepth::Lengths, 2).unwrap();
    assert_eq!((found.whole.len(), found.passed_over.len()), (0, 2));
    // One file, whole, of the same name and length.
    let file = second.files()[0];
    let name = file.name.to_string();
    let mut copied = FileReader::open(&disk, file.name).unwrap();
    let mut content = Vec::new();
    while !copied.is_at_end().unwrap() {
        content.extend_from_slice(copied.take(1).unwrap());
    }
    let whole = disk.bytes(&name).unwrap();
    for origin in [
        other,
        LogOrigin {
            incarnation: 9,
            ..ORIGIN
        },
    ] {
        disk.remove(&name).unwrap();
        let header = FileHeader::new(file.name, origin);
        let mut written = FileWriter::create(&disk, &header).unwrap();
        written.write(&content).unwrap();
        assert_eq!(written.finish().unwrap().length, file.summary.length);
        let error = passed_over(&disk, &name, &first);
        assert!(matches!(error, CheckpointError::Foreign { .. }), "{error}");
    }
    disk.plant(&name, whole);
    // A manifest of another checkpoint under this one's name.
    let name = second.name().to_string();
    let whole = disk.bytes(&name).unwrap();
    disk.plant(&name, disk.bytes(&first.name().to_string()).unwrap());
    passed_over(&disk, &name, &first);
    disk.plant(&name, whole);
    assert_eq!(Manifest::read(&disk, 2).unwrap(), second);
}

#[test]
fn a_checkpoint_of_a_newer_version_is_refused() {
    let (disk, _) = two();
    let name = FileName::manifest(3);
    let newer = FileHeader {
        version: 77,
        ..FileHeader::new(name, ORIGIN)
    };
    FileWriter::create(&disk, &newer).unwrap().finish().unwrap();
    let error = whole_checkpoints(&disk, ORIGIN.log, VerifyDepth::Lengths, 1).unwrap_err();
    assert!(matches!(error, CheckpointError::Newer { .. }), "{error}");
}

#[test]
fn a_manifest_that_lists_nonsense_is_refused() {
    let disk = SimDisk::new();
    let later = NewCheckpoint::begin(&disk, 5, ORIGIN, (1, Sn(1)), 1)
        .commit()
        .unwrap();
    assert!(later.files().is_empty());
    let with = Writer::new().write(&disk, 7).unwrap();
    let mut earlier = NewCheckpoint::begin(&disk, 6, ORIGIN, (1, Sn(1)), 1);
    earlier.carry_over(&with.files()[0]);
    earlier.commit().unwrap();
    let error = Manifest::read(&disk, 6).unwrap_err().to_string();
    assert!(error.contains("a later checkpoint"), "{error}");
    let mut covered = NewCheckpoint::begin(&disk, 8, ORIGIN, (1, Sn(1)), 1);
    let mut file = with.files()[0];
    file.coverage.end_shard = u16::MAX;
    covered.carry_over(&file);
    covered.commit().unwrap();
    assert!(Manifest::read(&disk, 8).is_err());
}
