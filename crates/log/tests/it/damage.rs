//! Damage is refused with file and offset. Cases that look like an incomplete write are pinned down
//! here.

use crate::samples::{open, push, records_of, small, written};
use somersault_disk::{CrashKeep, RealDisk, SimDisk};
use somersault_log::{Log, LogError, Record};
use std::sync::Arc;
use std::time::Duration;

fn segment(number: u64) -> String {
    format!("log-{number:010}.seg")
}

fn expected(count: u64) -> Vec<Record> {
    (0..count).map(push).collect()
}

fn last_segment(disk: &SimDisk) -> u64 {
    (1..)
        .take_while(|number| disk.bytes(&segment(*number)).is_some())
        .last()
        .unwrap()
}

/// Flips every bit of every segment, one at a time; gives the outcome to `judge`.
fn for_every_flip(disk: &SimDisk, judge: impl Fn(u64, usize, Result<Vec<Record>, LogError>)) {
    for number in 1..=last_segment(disk) {
        let whole = disk.bytes(&segment(number)).unwrap();
        for bit in 0..whole.len() * 8 {
            let copy = disk.copy();
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            copy.plant(&segment(number), bytes);
            judge(number, bit, records_of(&copy));
        }
    }
}

#[test]
fn any_flipped_bit_of_a_closed_log_refuses_or_loses_nothing() {
    let disk = written(6, 2, true);
    assert!(last_segment(&disk) > 1);
    for_every_flip(&disk, |number, bit, outcome| match outcome {
        Ok(records) => assert_eq!(records, expected(12), "segment {number}, bit {bit}"),
        Err(LogError::Damaged { .. } | LogError::Version { .. }) => {}
        Err(other) => panic!("segment {number}, bit {bit}: {other}"),
    });
}

/// The exception: of a log that was killed before it was idle, damage to the last group looks like
/// a torn write.
#[test]
fn a_flipped_bit_of_a_killed_log_costs_at_most_the_last_group() {
    let disk = written(6, 2, false);
    for_every_flip(&disk, |number, bit, outcome| {
        if let Ok(records) = outcome {
            let kept = records.len() as u64;
            assert!(
                kept >= 10,
                "segment {number}, bit {bit}: {kept} of 12 records"
            );
            assert_eq!(records, expected(kept));
        }
    });
}

#[test]
fn an_idle_log_knows_its_last_group() {
    let disk = SimDisk::new();
    let mut options = small();
    options.idle_witness = Duration::from_millis(1);
    let (log, _) = Log::open(Arc::new(disk.clone()), options).unwrap();
    let position = log.append(&push(3)).unwrap();
    log.wait_durable(position).unwrap();
    // A segment is longer ahead: behind what is written come zeros.
    let written = || {
        let bytes = disk.bytes(&segment(1)).unwrap();
        bytes
            .iter()
            .rposition(|byte| *byte != 0)
            .map_or(0, |at| at + 1)
    };
    let group = written();
    // No time is asserted: it waits as long as the machine needs.
    while written() == group {
        std::thread::yield_now();
    }
    let disk = disk.crash(CrashKeep::Written);
    let mut bytes = disk.bytes(&segment(1)).unwrap();
    bytes[group - 1] ^= 1;
    disk.plant(&segment(1), bytes);
    let error = records_of(&disk).unwrap_err();
    assert!(matches!(error, LogError::Damaged { .. }), "{error}");
}

#[test]
fn damage_names_the_file_and_the_offset() {
    let disk = written(3, 1, true);
    let mut bytes = disk.bytes(&segment(1)).unwrap();
    // The second byte of the first record's payload: header, witness, head of the frame.
    bytes[64 + 41 + 9 + 1] ^= 1;
    disk.plant(&segment(1), bytes.clone());
    let error = records_of(&disk).unwrap_err();
    let LogError::Damaged { file, offset, .. } = &error else {
        panic!("{error}")
    };
    assert!(file.ends_with(&segment(1)), "{file}");
    assert_eq!(*offset, 64 + 41);
    assert!(
        error
            .to_string()
            .contains("record 1 does not read back, yet the log was durable through record 3")
    );
    assert_eq!(
        disk.bytes(&segment(1)).unwrap(),
        bytes,
        "a refusal changes nothing"
    );
}

#[test]
fn another_version_is_refused() {
    let disk = written(1, 1, true);
    let mut bytes = disk.bytes(&segment(1)).unwrap();
    bytes[8] = 3;
    disk.plant(&segment(1), bytes);
    let error = records_of(&disk).unwrap_err();
    assert!(
        matches!(
            error,
            LogError::Version {
                found: 3,
                expected: 2,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn missing_segments_are_refused() {
    let disk = written(20, 2, true);
    assert!(disk.bytes(&segment(3)).is_some());
    let last = (1..)
        .take_while(|n| disk.bytes(&segment(*n)).is_some())
        .last()
        .unwrap();
    for number in [1, 2, last] {
        let copy = SimDisk::new();
        for other in (1..=last).filter(|other| *other != number) {
            copy.plant(&segment(other), disk.bytes(&segment(other)).unwrap());
        }
        let error = records_of(&copy).unwrap_err();
        let LogError::Missing { file, .. } = &error else {
            panic!("{number}: {error}")
        };
        assert!(file.ends_with(&segment(number)), "{file}");
    }
}

#[test]
fn segments_of_another_log_are_refused() {
    let (one, other) = (written(20, 2, true), written(20, 7, true));
    one.plant(&segment(2), other.bytes(&segment(2)).unwrap());
    let error = records_of(&one).unwrap_err();
    assert!(matches!(error, LogError::Damaged { .. }), "{error}");
    let swapped = written(20, 2, true);
    let third = swapped.bytes(&segment(3)).unwrap();
    swapped.plant(&segment(2), third);
    let error = records_of(&swapped).unwrap_err();
    assert!(matches!(error, LogError::Foreign { .. }), "{error}");
    assert!(error.to_string().contains(&segment(3)), "{error}");
}

#[test]
fn any_truncation_gives_a_prefix_or_refuses() {
    let disk = written(6, 2, true);
    let last = last_segment(&disk);
    let whole = disk.bytes(&segment(last)).unwrap();
    for length in 0..whole.len() {
        let copy = disk.copy();
        copy.plant(&segment(last), whole[..length].to_vec());
        if let Ok(records) = records_of(&copy) {
            assert_eq!(records, expected(records.len() as u64), "cut to {length}");
        }
    }
    let first = disk.bytes(&segment(1)).unwrap();
    for length in 0..first.len() {
        let copy = disk.copy();
        copy.plant(&segment(1), first[..length].to_vec());
        // Only bytes behind its last record may be missing.
        if let Ok(records) = records_of(&copy) {
            assert_eq!(records, expected(12), "cut to {length}");
        }
    }
}

#[test]
fn one_process_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Arc::new(RealDisk::new(folder.path()).unwrap());
    let (log, _) = Log::open(disk.clone(), small()).unwrap();
    let Err(error) = Log::open(disk.clone(), small()) else {
        panic!("opened twice")
    };
    assert!(matches!(error, LogError::Locked { .. }), "{error}");
    if cfg!(unix) {
        // A segment is locked too, so the folder stays locked without its lock file, also after the
        // log has moved on to other segments.
        std::fs::remove_file(folder.path().join("LOCK")).unwrap();
        assert!(matches!(
            Log::open(disk.clone(), small()),
            Err(LogError::Locked { .. })
        ));
        assert!(matches!(
            Log::read(disk.clone(), Arc::default()),
            Err(LogError::Locked { .. })
        ));
    }
    log.append(&push(1)).unwrap();
    log.close().unwrap();
    let (_log, recovered) = Log::open(disk, small()).unwrap();
    assert!(recovered.was_closed());
    assert_eq!(recovered.len(), 1);
}

#[test]
fn a_refused_folder_is_free_again() {
    let disk = written(1, 1, true);
    let bytes = disk.bytes(&segment(1)).unwrap();
    let mut other = bytes.clone();
    other[8] = 9;
    disk.plant(&segment(1), other);
    assert!(open(&disk).is_err());
    disk.plant(&segment(1), bytes);
    assert_eq!(records_of(&disk).unwrap(), expected(1));
}
