//! The format stays readable: a log of each released version lies in tests/fixtures and is opened here.
//!
//! `cargo test -p somersault-log -- --ignored write_fixture` writes the newest one; only a new version may do that.

use crate::samples::{every_kind, kinds_since_version_1, number_of, small};
use somersault_log::{LoadSegment, Log, RealDisk, Record, SimDisk};
use std::path::PathBuf;
use std::sync::Arc;

fn fixture() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/v1")
}

#[test]
fn version_1_reads_back() {
    let disk = SimDisk::new();
    for entry in std::fs::read_dir(fixture()).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        disk.plant(&name, std::fs::read(entry.path()).unwrap());
    }
    let (log, recovered) = Log::open(Arc::new(disk), small()).unwrap();
    assert!(recovered.was_closed());
    let read: Vec<Record> = recovered.map(|item| item.unwrap().1).collect();
    let loads = read.iter().filter_map(|record| match record {
        Record::Load(load) => Some(load.segment.clone()),
        _ => None,
    });
    let segments: Vec<LoadSegment> = loads.collect();
    assert_eq!(segments.len(), 1);
    assert_eq!(read, every_kind(segments[0].clone()));
    let loaded: Vec<_> = log
        .read_load_segment(&segments[0])
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert_eq!(loaded, [number_of("loaded", 1), number_of("loaded", 2)]);
}

#[test]
fn kinds_that_came_later_read_back() {
    let disk = SimDisk::new();
    let (log, _) = Log::open(Arc::new(disk.clone()), small()).unwrap();
    for record in kinds_since_version_1() {
        let position = log.append(&record).unwrap();
        log.wait_durable(position).unwrap();
    }
    log.close().unwrap();
    let (_log, recovered) = Log::open(Arc::new(disk), small()).unwrap();
    let read: Vec<Record> = recovered.map(|item| item.unwrap().1).collect();
    assert_eq!(read, kinds_since_version_1());
}

#[test]
fn a_kind_that_this_version_does_not_know_is_refused() {
    // 7 is kept free for streaming transactions.
    let error = Record::from_bytes(&[7]).unwrap_err();
    assert!(error.to_string().contains("transaction"), "{error}");
}

#[test]
#[ignore = "writes the fixture of the format's version"]
fn write_fixture() {
    let folder = fixture();
    std::fs::create_dir_all(&folder).unwrap();
    let disk = Arc::new(RealDisk::new(&folder).unwrap());
    let (log, recovered) = Log::open(disk, small()).unwrap();
    assert!(recovered.is_empty(), "a fixture is written once");
    let mut writer = log.load_segment().unwrap();
    writer.write(&number_of("loaded", 1)).unwrap();
    writer.write(&number_of("loaded", 2)).unwrap();
    let segment = writer.finish().unwrap();
    for record in every_kind(segment) {
        let position = log.append(&record).unwrap();
        log.wait_durable(position).unwrap();
    }
    log.close().unwrap();
    std::fs::remove_file(folder.join("LOCK")).unwrap();
}
