//! The format stays readable. tests/fixtures holds a log of each released version, logs with the
//! kinds of records that were added since (`v1-added`, `v1-replace`, `v1-reset`, `v1-clear`,
//! `v1-clear-load`), and one with a proof file (`v1-proof`); each is opened here.
//!
//! `cargo test -p somersault-log -- --ignored write_fixture` writes the newest fixture if it does
//! not exist. A new kind gets a new fixture; existing fixtures never change.

use crate::samples::{
    every_kind, kind_that_clears, kinds_added_last, kinds_since_version_1, load_that_clears,
    number_of, push_of_all_terms, reset_command, small,
};
use somersault_disk::{RealDisk, SimDisk};
use somersault_log::{Command, CommandRecord, LoadSegment, Log, LogError, Record};
use std::path::PathBuf;
use std::sync::Arc;

fn fixture(name: &str) -> PathBuf {
    let fixtures = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    fixtures.join(name)
}

/// The log of a fixture on a disk, so that opening it changes nothing.
fn planted(name: &str) -> SimDisk {
    let disk = SimDisk::new();
    for entry in std::fs::read_dir(fixture(name)).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        disk.plant(&name, std::fs::read(entry.path()).unwrap());
    }
    disk
}

#[test]
fn version_1_reads_back() {
    let (log, recovered) = Log::open(Arc::new(planted("v1")), small()).unwrap();
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
fn kinds_added_later_read_back() {
    let disk = SimDisk::new();
    let (log, _) = Log::open(Arc::new(disk.clone()), small()).unwrap();
    let later = [
        kinds_since_version_1(),
        kinds_added_last(),
        reset_command(),
        kind_that_clears(),
    ]
    .concat();
    for record in &later {
        let position = log.append(record).unwrap();
        log.wait_durable(position).unwrap();
    }
    log.close().unwrap();
    let (_log, recovered) = Log::open(Arc::new(disk), small()).unwrap();
    let read: Vec<Record> = recovered.map(|item| item.unwrap().1).collect();
    assert_eq!(read, later);
}

#[test]
fn kinds_added_to_version_1_read_back() {
    let (_log, recovered) = Log::open(Arc::new(planted("v1-added")), small()).unwrap();
    let read: Vec<Record> = recovered.map(|item| item.unwrap().1).collect();
    let push = push_of_all_terms();
    assert_eq!(read, [kinds_since_version_1(), vec![push]].concat());
    let (_log, recovered) = Log::open(Arc::new(planted("v1-replace")), small()).unwrap();
    let read: Vec<Record> = recovered.map(|item| item.unwrap().1).collect();
    assert_eq!(read, kinds_added_last());
    let (_log, recovered) = Log::open(Arc::new(planted("v1-reset")), small()).unwrap();
    let read: Vec<Record> = recovered.map(|item| item.unwrap().1).collect();
    assert_eq!(read, reset_command());
    let (_log, recovered) = Log::open(Arc::new(planted("v1-clear")), small()).unwrap();
    let read: Vec<Record> = recovered.map(|item| item.unwrap().1).collect();
    assert_eq!(read, kind_that_clears());
}

#[test]
fn a_load_that_clears_reads_back() {
    let (log, recovered) = Log::open(Arc::new(planted("v1-clear-load")), small()).unwrap();
    let read: Vec<Record> = recovered.map(|item| item.unwrap().1).collect();
    let Some(Record::Load(load)) = read.first() else {
        panic!("{read:?}");
    };
    assert_eq!(read, load_that_clears(load.segment.clone()));
    let loaded: Vec<_> = log
        .read_load_segment(&load.segment)
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert_eq!(loaded, [number_of("loaded", 1), number_of("loaded", 2)]);
}

#[test]
fn a_log_with_a_proof_reads_back() {
    let disk = planted("v1-proof");
    let (_log, recovered) = Log::open(Arc::new(disk.clone()), small()).unwrap();
    assert!(recovered.was_closed());
    let read: Vec<Record> = recovered.map(|item| item.unwrap().1).collect();
    assert_eq!(read, kinds_added_last());
    // The proof of the fixture is understood: it refuses the same log without its last segment's
    // records.
    let cut = planted("v1-proof");
    let newest = "log-0000000001.seg";
    cut.plant(newest, cut.bytes(newest).unwrap()[..32].to_vec());
    let refused = Log::open(Arc::new(cut), small()).map(drop).unwrap_err();
    assert!(
        matches!(refused, LogError::Short { closed: true, .. }),
        "{refused}"
    );
}

#[test]
fn a_kind_that_this_version_does_not_know_was_written_by_a_newer_one() {
    // 7 is kept free for streaming transactions; 12 and command 9 are the next to come.
    let command = |tag: u8| [2, 0, tag, 0].to_vec();
    for bytes in [vec![7], vec![12, 1, 2], vec![200, 1], command(9)] {
        let error = Record::from_bytes(&bytes).unwrap_err().to_string();
        for part in ["newer version", "Open the data folder with"] {
            assert!(error.contains(part), "{bytes:?}: {error}");
        }
    }
    // For kinds that this version knows, the bytes are damaged.
    for bytes in [vec![9], vec![10], vec![11], vec![], command(8)] {
        let error = Record::from_bytes(&bytes).unwrap_err().to_string();
        assert!(
            error.contains("do not fit the format"),
            "{bytes:?}: {error}"
        );
    }
    // There is a sample of the newest kind and of the newest command.
    let newest = |is_command: bool| {
        let samples = kinds_since_version_1().into_iter();
        let of_kind = samples.filter(|record| matches!(record, Record::Command(_)) == is_command);
        of_kind.map(|record| record.to_bytes().unwrap()[0]).max()
    };
    assert_eq!((newest(false), newest(true)), (Some(9), Some(2)));
    assert_eq!(kind_that_clears()[0].to_bytes().unwrap()[0], 10);
    let segment = LoadSegment {
        name: "load".to_owned(),
        hash: [0; 32],
        statements: 0,
    };
    let kinds = load_that_clears(segment).into_iter();
    let kinds: Vec<u8> = kinds.map(|it| it.to_bytes().unwrap()[0]).collect();
    assert_eq!(kinds, [11, 3]);
    assert!(kinds_added_last().iter().any(|record| matches!(
        record,
        Record::Command(CommandRecord {
            command: Command::ReplaceQuery { .. },
            ..
        })
    )));
}

#[test]
#[ignore = "writes the newest fixture"]
fn write_fixture() {
    let folder = fixture("v1-clear-load");
    std::fs::create_dir_all(&folder).unwrap();
    let disk = Arc::new(RealDisk::new(&folder).unwrap());
    let (log, recovered) = Log::open(disk, small()).unwrap();
    assert!(recovered.is_empty(), "a fixture is written once");
    let mut segment = log.load_segment().unwrap();
    for number in [1, 2] {
        segment.write(&number_of("loaded", number)).unwrap();
    }
    for record in load_that_clears(segment.finish().unwrap()) {
        let position = log.append(&record).unwrap();
        log.wait_durable(position).unwrap();
    }
    log.close().unwrap();
    std::fs::remove_file(folder.join("LOCK")).unwrap();
}
