//! Verifying finds damage to any file and names it, changes nothing, and reads what a backup takes.

use crate::samples::{contents, number_of, push, small};
use somersault_disk::{RealDisk, SimDisk};
use somersault_log::{
    LoadRecord, Log, LogCopy, LogError, LogFileKind, LogOptions, Position, Record, VerifiedLog,
    verify_log,
};
use std::io::Read;
use std::sync::Arc;

/// A trailing witness has this length; nothing that is behind it depends on it.
const WITNESS: usize = 41;

fn segment(number: u64) -> String {
    format!("log-{number:010}.seg")
}

/// Appends records, a group each. Each tenth is a load.
fn append(log: &Log, numbers: std::ops::Range<u64>) {
    for number in numbers {
        let record = if number % 10 == 5 {
            let mut writer = log.load_segment().unwrap();
            writer.write(&number_of("loaded", number as i64)).unwrap();
            Record::Load(LoadRecord {
                received_ms: 1,
                segment: writer.finish().unwrap(),
                clears: Vec::new(),
            })
        } else {
            push(number)
        };
        log.wait_durable(log.append(&record).unwrap()).unwrap();
    }
}

/// A log of several segments and load segments, closed in order.
fn closed() -> SimDisk {
    let disk = SimDisk::new();
    let (log, _) = Log::open(Arc::new(disk.clone()), small()).unwrap();
    append(&log, 0..40);
    log.close().unwrap();
    disk
}

fn verified(disk: &SimDisk) -> VerifiedLog {
    let before = contents(disk);
    let verified = verify_log(Arc::new(disk.clone()), &Arc::default()).unwrap();
    assert_eq!(contents(disk), before);
    verified
}

fn sentences(verified: &VerifiedLog) -> Vec<String> {
    verified.all_damage().map(LogError::to_string).collect()
}

#[test]
fn a_sound_log_is_read_to_its_end() {
    let log = verified(&closed());
    assert_eq!(sentences(&log), Vec::<String>::new());
    assert_eq!((log.before, log.end), (Position::START, Position(40)));
    assert!(log.closed && log.torn.is_none() && log.identity.is_some());
    assert_eq!((log.loads.len(), log.incarnation), (4, 1));
    assert!(log.segments.len() > 3);
    let nothing = verified(&SimDisk::new());
    assert!(nothing.segments.is_empty() && nothing.damage.is_empty());
}

#[test]
fn a_flipped_bit_of_any_file_is_found() {
    let disk = closed();
    for name in disk.names() {
        let kind = LogFileKind::of(&name);
        let counted = [LogFileKind::Segment, LogFileKind::Load, LogFileKind::Proof];
        if !kind.is_some_and(|kind| counted.contains(&kind)) {
            continue;
        }
        let whole = disk.bytes(&name).unwrap();
        let end = match kind {
            Some(LogFileKind::Segment) => whole.len() - WITNESS,
            _ => whole.len(),
        };
        for at in (0..end).step_by(3) {
            let mut flipped = whole.clone();
            flipped[at] ^= 1 << (at % 8);
            disk.plant(&name, flipped);
            let found = sentences(&verified(&disk));
            assert!(
                found.iter().any(|sentence| sentence.contains(&name)),
                "byte {at} of {name}: {found:?}"
            );
        }
        disk.plant(&name, whole);
    }
    assert_eq!(sentences(&verified(&disk)), Vec::<String>::new());
}

#[test]
fn all_damage_is_listed() {
    let disk = closed();
    let damaged = [segment(2), segment(4)];
    for name in &damaged {
        let mut bytes = disk.bytes(name).unwrap();
        bytes[130] ^= 1;
        disk.plant(name, bytes);
    }
    let found = sentences(&verified(&disk));
    for name in &damaged {
        let named = found.iter().filter(|sentence| sentence.contains(name));
        assert_eq!(named.count(), 1, "{found:?}");
    }
    let disk = closed();
    let loads = verified(&disk).loads;
    for name in &loads {
        disk.plant(name, b"other bytes".to_vec());
    }
    let found = verified(&disk);
    let lost: Vec<&String> = found.lost_loads.iter().map(|lost| &lost.name).collect();
    assert_eq!(lost, loads.iter().collect::<Vec<_>>());
    assert!(found.damage.is_empty(), "{:?}", found.damage);
}

#[test]
fn a_trimmed_log_and_a_torn_end_are_sound() {
    let disk = SimDisk::new();
    let (log, _) = Log::open(Arc::new(disk.clone()), small()).unwrap();
    append(&log, 0..40);
    assert!(log.trim(Position(25)).unwrap().segments > 0);
    let first = log.first();
    log.close().unwrap();
    let name = verified(&disk).segments.pop().unwrap();
    let mut bytes = disk.bytes(&name).unwrap();
    bytes.extend([7; 20]);
    disk.plant(&name, bytes);
    let log = verified(&disk);
    assert_eq!(sentences(&log), Vec::<String>::new());
    assert_eq!(log.before.next(), first);
    assert!(log.torn.is_some_and(|torn| torn.bytes == 20));
}

#[test]
fn names_say_what_files_are_for() {
    for (name, kind) in [
        ("log-0000000012.seg", Some(LogFileKind::Segment)),
        ("load-0000000001.nq.zst", Some(LogFileKind::Load)),
        ("log.proof", Some(LogFileKind::Proof)),
        ("log.copy", Some(LogFileKind::CopyMark)),
        ("log.reserve", Some(LogFileKind::Reserve)),
        ("log.proof.tmp", Some(LogFileKind::Leftover)),
        ("log-0000000012.seg.torn", Some(LogFileKind::Leftover)),
        ("log-0000000012.seg.torn2", Some(LogFileKind::Leftover)),
        ("load-0000000001.nq.zst.orphan", Some(LogFileKind::Leftover)),
        ("load-0000000001.nq.zst.tmp", Some(LogFileKind::Leftover)),
        ("log-12.seg", None),
        ("data.nt", None),
        ("", None),
    ] {
        assert_eq!(LogFileKind::of(name), kind, "{name}");
    }
}

/// The files of a copy as a backup writes them.
fn copied(log: &Log, after: Position) -> SimDisk {
    let disk = log.disk().unwrap();
    let copy = log.copy(after).unwrap();
    let target = SimDisk::new();
    for (name, bytes) in [LogCopy::mark(), copy.proof()] {
        target.plant(name, bytes.to_vec());
    }
    for (name, length) in copy.files() {
        let mut bytes = Vec::new();
        let mut file = disk.read(name).unwrap().take(*length);
        file.read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes.len() as u64, *length);
        target.plant(name, bytes);
    }
    assert_eq!(verified(&target).end, copy.end());
    target
}

#[test]
fn a_running_log_is_copied_at_any_time() {
    let disk = SimDisk::new();
    let (log, _) = Log::open(Arc::new(disk.clone()), small()).unwrap();
    for number in 0..30 {
        append(&log, number..number + 1);
        for after in [0, number / 2, number] {
            let copy = copied(&log, Position(after));
            let found = verified(&copy);
            assert_eq!(sentences(&found), Vec::<String>::new(), "{number} {after}");
            assert_eq!(found.end, Position(number + 1));
            assert!(found.torn.is_none());
            let options = LogOptions {
                is_copy: true,
                ..small()
            };
            let opened = Log::open_after(Arc::new(copy), options, Position(after));
            assert_eq!(opened.unwrap().1.count() as u64, number + 1 - after);
        }
    }
    assert!(matches!(
        Log::volatile().copy(Position::START),
        Err(LogError::Unwritable { .. })
    ));
}

#[test]
fn nothing_is_trimmed_while_there_is_a_hold() {
    let disk = SimDisk::new();
    let (log, _) = Log::open(Arc::new(disk.clone()), small()).unwrap();
    append(&log, 0..40);
    let holds = log.holds().unwrap();
    let (first, second) = (holds.hold(), holds.hold());
    drop(first);
    assert_eq!(log.trim(Position(30)).unwrap().segments, 0);
    copied(&log, Position::START);
    drop(second);
    assert!(log.trim(Position(30)).unwrap().segments > 0);
    assert!(matches!(
        log.copy(Position::START),
        Err(LogError::Missing { .. })
    ));
    copied(&log, Position(30));
}

#[test]
fn a_copy_and_its_original_never_take_segments_of_each_other() {
    let original = SimDisk::new();
    let (log, _) = Log::open(Arc::new(original.clone()), small()).unwrap();
    append(&log, 0..4);
    let copy = copied(&log, Position::START);
    log.close().unwrap();
    // Both go on, and begin a segment of the same number and position.
    let (mine, _) = Log::open(Arc::new(original.clone()), small()).unwrap();
    let options = LogOptions {
        is_copy: true,
        ..small()
    };
    let refused = Log::open(Arc::new(copy.clone()), small()).map(drop);
    assert!(matches!(refused, Err(LogError::Copy { .. })));
    let (branch, _) = Log::open(Arc::new(copy.clone()), options).unwrap();
    assert_eq!(mine.incarnation(), 2);
    assert!(branch.incarnation() > 1 << 32);
    append(&mine, 10..12);
    append(&branch, 20..22);
    mine.close().unwrap();
    branch.close().unwrap();
    let newest = verified(&copy).segments.pop().unwrap();
    let theirs = copy.bytes(&newest).unwrap();
    assert_ne!(original.bytes(&newest).unwrap(), theirs);
    copy.plant(&newest, original.bytes(&newest).unwrap());
    assert!(!verified(&copy).damage.is_empty());
    // From then on it is a log like any other.
    copy.plant(&newest, theirs);
    let (again, recovered) = Log::open(Arc::new(copy.clone()), small()).unwrap();
    assert_eq!(recovered.count(), 6);
    assert_eq!(again.incarnation(), branch.incarnation() + 1);
}

#[test]
fn folders_of_earlier_versions_are_sound() {
    let fixtures = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let mut count = 0;
    for entry in std::fs::read_dir(fixtures).unwrap() {
        let disk = RealDisk::existing(entry.unwrap().path()).unwrap();
        let log = verify_log(Arc::new(disk), &Arc::default()).unwrap();
        assert_eq!(sentences(&log), Vec::<String>::new());
        assert!(log.end > Position::START);
        count += u32::from(log.identity.is_none());
    }
    assert!(count >= 8, "{count} of version 1");
}
