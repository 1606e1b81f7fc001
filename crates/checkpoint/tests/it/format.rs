//! The format stays readable: tests/fixtures/v1 holds two checkpoints of the first version, with a
//! file of every kind. Fixtures never change; a new version of a kind gets a new fixture, which the
//! writer of `samples.rs` makes.

use crate::samples::{ORIGIN, Writer, read};
use somersault_checkpoint::{FileKind, VerifyDepth, whole_checkpoints};
use somersault_disk::SimDisk;

const FIXTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/v1");

#[test]
fn version_1_reads_back() {
    let disk = SimDisk::new();
    for entry in std::fs::read_dir(FIXTURE).unwrap() {
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
