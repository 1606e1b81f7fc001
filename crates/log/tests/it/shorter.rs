//! A log that lost its end is refused with the number of missing records; opening keeps what it
//! sets aside under another name; a log that is only read is not changed.

use crate::samples::{contents, number_of, open, push, records_of, small, written};
use somersault_disk::{CrashKeep, SimDisk};
use somersault_log::{LoadRecord, Log, LogError, LogOptions, Record};
use std::sync::Arc;
use std::time::Duration;

const FIRST: &str = "log-0000000001.seg";
const PROOF: &str = "log.proof";

/// The same files without one of them.
fn without(disk: &SimDisk, name: &str) -> SimDisk {
    let copy = SimDisk::new();
    let rest = contents(disk)
        .into_iter()
        .filter(|(other, _)| other != name);
    rest.for_each(|(name, bytes)| copy.plant(&name, bytes));
    copy
}

fn read(disk: &SimDisk) -> Result<Vec<Record>, LogError> {
    let (_log, recovered) = Log::read(Arc::new(disk.clone()), Arc::default())?;
    recovered
        .map(|item| item.map(|(_, record)| record))
        .collect()
}

/// A load and one record in a log, closed in order.
fn loaded() -> SimDisk {
    let disk = SimDisk::new();
    let (log, _) = Log::open(Arc::new(disk.clone()), LogOptions::default()).unwrap();
    let mut writer = log.load_segment().unwrap();
    writer.write(&number_of("loaded", 1)).unwrap();
    let segment = writer.finish().unwrap();
    let load = LoadRecord {
        received_ms: 1,
        segment,
        clears: Vec::new(),
    };
    let record: Record = Record::Load(load);
    log.append(&record).unwrap();
    log.append(&push(1)).unwrap();
    log.close().unwrap();
    disk
}

#[test]
fn a_closed_log_cut_or_zeroed_anywhere_is_refused_or_whole() {
    let disk = written(3, 2, true);
    let newest = disk
        .names()
        .into_iter()
        .filter(|name| name.ends_with(".seg"));
    let newest = newest.max().unwrap();
    let whole = disk.bytes(&newest).unwrap();
    for length in 0..whole.len() {
        let cut = whole[..length].to_vec();
        let mut zeroed = cut.clone();
        zeroed.resize(whole.len(), 0);
        for bytes in [cut, zeroed] {
            let copy = disk.copy();
            copy.plant(&newest, bytes);
            let before = contents(&copy);
            match records_of(&copy) {
                Ok(records) => assert_eq!(records, (0..6).map(push).collect::<Vec<_>>()),
                Err(_) => assert_eq!(contents(&copy), before, "a refusal changes nothing"),
            }
        }
    }
    let copy = disk.copy();
    copy.plant(&newest, whole[..whole.len() - 42].to_vec());
    let error = records_of(&copy).unwrap_err();
    assert!(
        matches!(error, LogError::Short { closed: true, .. }),
        "{error}"
    );
    let said = error.to_string();
    for part in [
        newest.as_str(),
        "through record 5",
        "in order with record 6",
        PROOF,
    ] {
        assert!(said.contains(part), "{said}");
    }
}

#[test]
fn a_first_segment_cut_within_its_header_loses_no_load_file() {
    let disk = loaded();
    let load = "load-0000000001.nq.zst";
    for copy in [disk.copy(), without(&disk, PROOF)] {
        for length in 0..=64 {
            copy.plant(FIRST, disk.bytes(FIRST).unwrap()[..length].to_vec());
            let before = contents(&copy);
            assert!(read(&copy).is_err() || length == 64);
            if length == 64 && copy.bytes(PROOF).is_none() {
                // A whole header and nothing behind it: what the folder held is not known without
                // the proof.
                assert!(records_of(&copy).unwrap().is_empty());
                assert_eq!(copy.bytes(&format!("{load}.orphan")), disk.bytes(load));
                continue;
            }
            let error = records_of(&copy).unwrap_err();
            assert!(
                matches!(error, LogError::Damaged { .. } | LogError::Short { .. }),
                "{error}"
            );
            assert_eq!(contents(&copy), before);
        }
    }
    assert_eq!(records_of(&disk).unwrap().len(), 2);
}

#[test]
fn opening_keeps_the_files_that_it_sets_aside() {
    let disk = loaded();
    disk.plant("load-0000000007.nq.zst", vec![1, 2, 3]);
    disk.plant("log-0000000002.seg", vec![4; 9]);
    let mut first = disk.bytes(FIRST).unwrap();
    first.extend([7; 11]);
    disk.plant(FIRST, first);
    let before = contents(&disk);
    assert_eq!(read(&disk).unwrap().len(), 2);
    assert_eq!(contents(&disk), before, "reading changes nothing");
    let (log, recovered) = open(&disk).unwrap();
    let torn = recovered.torn_tail().unwrap().to_string();
    for part in ["11 bytes", "log-0000000001.seg.torn", "durable through 2"] {
        assert!(torn.contains(part), "{torn}");
    }
    assert!(!torn.contains("cut off; nothing"), "{torn}");
    for (name, bytes) in [
        ("load-0000000007.nq.zst.orphan", vec![1, 2, 3]),
        ("log-0000000002.seg.torn", vec![4; 9]),
        ("log-0000000001.seg.torn", vec![7; 11]),
    ] {
        assert_eq!(disk.bytes(name), Some(bytes), "{name}");
    }
    let next = log.load_segment().unwrap().finish().unwrap();
    assert_eq!(next.name, "load-0000000008.nq.zst");
}

#[test]
fn a_killed_log_is_bounded_by_its_proof() {
    let killed = |options: LogOptions| {
        let disk = SimDisk::new();
        let (log, _) = Log::open(Arc::new(disk.clone()), options).unwrap();
        for number in 0..6 {
            log.append(&push(number)).unwrap();
            log.wait_durable(log.end()).unwrap();
        }
        // No time is asserted: it waits as long as the machine needs.
        let proven = || disk.bytes(PROOF).unwrap()[32..40] != [0; 8];
        while !proven() {
            std::thread::yield_now();
        }
        let disk = disk.crash(CrashKeep::Written);
        assert_eq!(records_of(&disk.copy()).unwrap().len(), 6);
        disk.plant(FIRST, disk.bytes(FIRST).unwrap()[..64].to_vec());
        records_of(&disk).unwrap_err()
    };
    let groups = LogOptions {
        segment_bytes: 1 << 20,
        proof_groups: 5,
        ..small()
    };
    let error = killed(groups);
    let LogError::Short {
        durable, closed, ..
    } = error
    else {
        panic!("{error}")
    };
    assert_eq!((durable.0, closed), (5, false));
    let idle = LogOptions {
        segment_bytes: 1 << 20,
        idle_witness: Duration::ZERO,
        idle_proof: Duration::from_millis(1),
        ..LogOptions::default()
    };
    let error = killed(idle);
    assert!(
        matches!(error, LogError::Short { closed: false, .. }),
        "{error}"
    );
}

#[test]
fn a_damaged_proof_is_refused_and_a_newer_one_too() {
    let disk = written(2, 2, true);
    let whole = disk.bytes(PROOF).unwrap();
    for bit in 0..whole.len() * 8 {
        let copy = disk.copy();
        let mut bytes = whole.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        copy.plant(PROOF, bytes);
        let error = records_of(&copy).unwrap_err();
        assert!(
            matches!(
                error,
                LogError::DamagedProof { .. } | LogError::Newer { .. }
            ),
            "{error}"
        );
    }
    // A log from before the proof file has none, and opens.
    assert_eq!(records_of(&without(&disk, PROOF)).unwrap().len(), 4);
}

#[test]
fn the_refusal_of_a_damaged_proof_names_the_remedy_that_opens_the_folder() {
    let disk = written(2, 2, true);
    let whole = disk.bytes(PROOF).unwrap();
    let mut flipped = whole.clone();
    flipped[40] ^= 1;
    for bytes in [Vec::new(), whole[..50].to_vec(), flipped] {
        let copy = disk.copy();
        copy.plant(PROOF, bytes);
        let said = records_of(&copy).unwrap_err().to_string();
        for part in [
            PROOF,
            "delete or rename",
            "durable further than it now reads",
        ] {
            assert!(said.contains(part), "{said}");
        }
        assert!(!said.contains("start empty"), "{said}");
        assert_eq!(records_of(&without(&copy, PROOF)).unwrap().len(), 4);
    }
}

#[test]
fn a_log_that_is_read_shares_the_folder_with_readers_only() {
    let disk = loaded();
    let (one, _) = Log::read(Arc::new(disk.clone()), Arc::default()).unwrap();
    let (other, _) = Log::read(Arc::new(disk.clone()), Arc::default()).unwrap();
    assert!(matches!(open(&disk), Err(LogError::Locked { .. })));
    let position = one.append(&push(9)).unwrap();
    one.wait_durable(position).unwrap();
    assert_eq!(one.load_segment().unwrap().finish().unwrap().statements, 0);
    drop((one, other));
    let (_log, recovered) = open(&disk).unwrap();
    assert_eq!(recovered.len(), 2);
    assert!(matches!(read(&disk), Err(LogError::Locked { .. })));
}
