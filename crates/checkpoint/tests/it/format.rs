//! The format stays readable. A folder of tests/fixtures holds two checkpoints, with a file of
//! every kind. Fixtures never change: a new version of a kind gets a new folder, which the writer of
//! `samples.rs` makes. `v2` came with version 2 of manifests, `v3` with pieces of earlier files,
//! `v4` with version 2 of images and deltas, `v5` with files of transactions.

use crate::samples::{ORIGIN, Writer, read, times};
use somersault_checkpoint::{CheckpointTimes, FileKind, Manifest, VerifyDepth, whole_checkpoints};
use somersault_disk::SimDisk;
use std::collections::BTreeSet;

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures");

/// Makes a fixture of the present version, in the folder that the variable names.
#[test]
fn a_fixture_is_made_on_request() {
    let Some(folder) = std::env::var_os("SOMERSAULT_MAKE_FIXTURE") else {
        return;
    };
    let disk = SimDisk::new();
    let mut writer = Writer::new();
    for number in [1, 2] {
        writer.write(&disk, number).unwrap();
    }
    for name in disk.names() {
        let path = std::path::Path::new(&folder).join(&name);
        std::fs::write(path, disk.bytes(&name).unwrap()).unwrap();
    }
}

#[test]
fn version_1_reads_back() {
    reads_back("v1", |_| CheckpointTimes::default());
}

#[test]
fn version_2_reads_back() {
    reads_back("v2", times);
}

#[test]
fn version_2_of_pieces_reads_back() {
    reads_back("v3", times);
}

#[test]
fn version_2_of_lists_reads_back() {
    reads_back("v4", times);
}

#[test]
fn files_of_transactions_read_back() {
    let kinds = reads_back("v5", times);
    assert!(kinds.contains(&FileKind::Transactions));
}

/// Compares the checkpoints of a fixture with what `samples.rs` writes, and with these times.
/// Returns the kinds of their files.
fn reads_back(fixture: &str, times: impl Fn(u64) -> CheckpointTimes) -> BTreeSet<FileKind> {
    let disk = SimDisk::new();
    for entry in std::fs::read_dir(format!("{FIXTURES}/{fixture}")).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        disk.plant(&name, std::fs::read(entry.path()).unwrap());
    }
    let found = whole_checkpoints(&disk, ORIGIN.log, VerifyDepth::Bytes, 2).unwrap();
    assert_eq!((found.whole.len(), found.passed_over.len()), (2, 0));
    let (mut writer, other) = (Writer::new(), SimDisk::new());
    for manifest in found.whole.iter().rev() {
        let number = manifest.number();
        writer.write(&other, number).unwrap();
        assert_eq!(read(&disk, manifest).unwrap(), writer.content(number));
        assert_eq!(
            (manifest.position(), manifest.sn().0),
            (number * 100, number * 10)
        );
        assert_eq!(manifest.times(), times(number));
        // Later kinds are in later fixtures.
        for kind in FileKind::ALL.into_iter().take(8).skip(1) {
            assert!(
                manifest.files_of(kind).count() > 0,
                "a fixture has a file of {kind:?}"
            );
        }
    }
    let files = found.whole.iter().flat_map(Manifest::files);
    files.map(|file| file.name.kind).collect()
}
