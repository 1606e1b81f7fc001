//! The format stays readable. A folder of tests/fixtures holds two checkpoints, with a file of every
//! kind. Fixtures never change: a new version of a kind gets a new folder, which the writer of
//! `samples.rs` makes. `v2` came with version 2 of manifests.

use crate::samples::{ORIGIN, Writer, read, times};
use somersault_checkpoint::{CheckpointTimes, FileKind, VerifyDepth, whole_checkpoints};
use somersault_disk::SimDisk;

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures");

#[test]
fn version_1_reads_back() {
    reads_back("v1", |_| CheckpointTimes::default());
}

#[test]
fn version_2_reads_back() {
    reads_back("v2", times);
}

/// Compares the checkpoints of a fixture with what `samples.rs` writes, and with these times.
fn reads_back(fixture: &str, times: impl Fn(u64) -> CheckpointTimes) {
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
        for kind in FileKind::ALL
            .into_iter()
            .filter(|kind| *kind != FileKind::Manifest)
        {
            assert!(
                manifest.files_of(kind).count() > 0,
                "a fixture has a file of {kind:?}"
            );
        }
    }
}
