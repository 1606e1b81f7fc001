//! Trimming takes whole segments away, and a crash at any instant leaves a log that opens behind
//! the checkpoint.

use crate::samples::{number_of, open, push, small};
use somersault_disk::{CrashKeep, Disk, SimDisk};
use somersault_log::{CommitMode, LoadRecord, Log, LogError, LogOptions, Position, Record};
use std::sync::Arc;

/// The number of records of [`long`].
const RECORDS: u64 = 60;

fn segment(number: u64) -> String {
    format!("log-{number:010}.seg")
}

/// Appends records, a group each. Each tenth is a load.
fn append(log: &Log, numbers: std::ops::Range<u64>) -> Result<Vec<Record>, LogError> {
    let records = numbers.map(|number| {
        let record = if number % 10 == 5 {
            let mut writer = log.load_segment()?;
            writer.write(&number_of("loaded", number as i64))?;
            Record::Load(LoadRecord {
                received_ms: 1,
                segment: writer.finish()?,
                clears: Vec::new(),
            })
        } else {
            push(number)
        };
        log.wait_durable(log.append(&record)?)?;
        Ok(record)
    });
    records.collect()
}

/// A log of several segments, with its records.
fn long() -> (SimDisk, Log, Vec<Record>) {
    long_with(small())
}

/// The same log, in which all writes and syncs happen on the thread of the test: a plan that counts
/// syncs meets those of the call that follows, and none of a segment that is made ahead.
fn long_on_this_thread() -> (SimDisk, Log, Vec<Record>) {
    long_with(LogOptions {
        commits: CommitMode::Callers,
        ..small()
    })
}

fn long_with(options: LogOptions) -> (SimDisk, Log, Vec<Record>) {
    let disk = SimDisk::new();
    let (log, _) = Log::open(Arc::new(disk.clone()), options).unwrap();
    let records = append(&log, 0..RECORDS).unwrap();
    // It waits until the segments before the newest are not written any more.
    log.trim(Position::START).unwrap();
    (disk, log, records)
}

fn open_after(disk: &SimDisk, after: u64) -> Result<(Log, Vec<(Position, Record)>), LogError> {
    let (log, recovered) = Log::open_after(Arc::new(disk.clone()), small(), Position(after))?;
    let records: Result<Vec<_>, _> = recovered.collect();
    Ok((log, records?))
}

/// The records behind `after`, with their positions.
fn behind(records: &[Record], after: u64) -> Vec<(Position, Record)> {
    let numbered = (1..).map(Position).zip(records.iter().cloned());
    numbered.skip(after as usize).collect()
}

/// The load segments that these records name.
fn loads(records: &[(Position, Record)]) -> Vec<String> {
    let names = records.iter().filter_map(|(_, record)| match record {
        Record::Load(load) => Some(load.segment.name.clone()),
        _ => None,
    });
    names.collect()
}

fn files(disk: &SimDisk, begin: &str) -> Vec<String> {
    let names = disk.names().into_iter();
    names.filter(|name| name.starts_with(begin)).collect()
}

#[test]
fn records_after_any_position_are_recovered() {
    let (disk, log, records) = long();
    log.close().unwrap();
    for after in 0..=RECORDS {
        let copy = disk.copy();
        let (log, read) = open_after(&copy, after).unwrap();
        assert_eq!(read, behind(&records, after), "after {after}");
        assert_eq!(log.end(), Position(RECORDS));
        // Nothing is set aside although segments were not read.
        assert_eq!(files(&copy, "load-"), files(&disk, "load-"));
        let (_, recovered) =
            Log::read_after(Arc::new(disk.clone()), Arc::default(), Position(after)).unwrap();
        assert_eq!(recovered.len(), RECORDS - after);
        assert_eq!(recovered.map(Result::unwrap).collect::<Vec<_>>(), read);
    }
    let error = open_after(&disk, RECORDS + 1).map(drop).unwrap_err();
    assert!(matches!(error, LogError::Ended { .. }), "{error}");
    let said = error.to_string();
    assert!(
        said.contains("record 60") && said.contains("after 61"),
        "{said}"
    );
    assert!(open_after(&SimDisk::new(), 1).is_err());
}

#[test]
fn segments_before_the_position_are_not_read() {
    let (disk, log, records) = long();
    log.close().unwrap();
    let mut second = disk.bytes(&segment(2)).unwrap();
    second[100] ^= 1;
    disk.plant(&segment(2), second);
    assert!(matches!(
        open(&disk).map(drop),
        Err(LogError::Damaged { .. })
    ));
    let (_log, read) = open_after(&disk, RECORDS - 5).unwrap();
    assert_eq!(read, behind(&records, RECORDS - 5));
}

#[test]
fn trimming_takes_segments_and_their_loads() {
    let (disk, log, records) = long();
    let (segments, before) = (files(&disk, "log-"), log.bytes());
    assert!(segments.len() > 8, "{segments:?}");
    assert_eq!(log.trim(Position::START).unwrap().segments, 0);
    let trimmed = log.trim(Position(30)).unwrap();
    assert!(
        trimmed.segments > 3 && trimmed.load_segments > 1,
        "{trimmed:?}"
    );
    assert_eq!(
        files(&disk, "log-"),
        segments[trimmed.segments as usize..].to_vec()
    );
    let kept = behind(&records, log.first().0 - 1);
    assert!(log.first() <= Position(31) && log.first() > Position(20));
    assert_eq!(files(&disk, "load-"), loads(&kept));
    assert!(log.bytes() < before);
    assert_eq!(log.trim(Position(30)).unwrap().segments, 0);
    // The log goes on, and opens behind the checkpoint only.
    let more = append(&log, RECORDS..RECORDS + 9).unwrap();
    let records = [records, more].concat();
    log.close().unwrap();
    // The newest segment has no zeros at its end any more.
    let lengths = files(&disk, "log-")
        .into_iter()
        .filter(|name| name.ends_with(".seg"));
    let lengths = lengths.map(|name| disk.bytes(&name).unwrap().len() as u64);
    assert_eq!(log.bytes(), lengths.sum());
    let (log, read) = open_after(&disk, 30).unwrap();
    assert_eq!(read, behind(&records, 30));
    drop(log);
    let error = open(&disk).map(drop).unwrap_err();
    assert!(matches!(error, LogError::Trimmed { .. }), "{error}");
    assert!(
        error.to_string().contains("records from 1 on are needed"),
        "{error}"
    );
}

#[test]
fn the_newest_segment_stays() {
    let (disk, log, records) = long();
    log.trim(Position(u64::MAX - 1)).unwrap();
    // Besides one that is made ahead perhaps, which has no record.
    let mut segments = files(&disk, "log-");
    segments.retain(|name| disk.bytes(name).is_some_and(|bytes| bytes.len() > 64));
    assert_eq!(segments.len(), 1);
    assert_eq!(
        files(&disk, "load-"),
        loads(&behind(&records, log.first().0 - 1))
    );
    log.close().unwrap();
    let (log, read) = open_after(&disk, RECORDS).unwrap();
    assert_eq!(read, []);
    // Each opening begins a segment; those before go as well.
    append(&log, 0..3).unwrap();
    log.trim(Position(RECORDS)).unwrap();
    assert!(log.first() > Position(RECORDS));
    log.close().unwrap();
    let (_log, read) = open_after(&disk, RECORDS).unwrap();
    assert_eq!(read.len(), 3);
}

#[test]
fn loads_of_segments_that_were_not_read_go_too() {
    let (disk, log, records) = long();
    log.close().unwrap();
    disk.plant("load-0000000099.nq.zst", vec![1, 2, 3]);
    let (log, _) = open_after(&disk, 50).unwrap();
    let before = files(&disk, "load-");
    assert_eq!(before.len(), 7, "no record names the last one: {before:?}");
    log.trim(Position(30)).unwrap();
    let left = loads(&behind(&records, log.first().0 - 1));
    assert_eq!(files(&disk, "load-")[..left.len()], left);
    assert_eq!(
        files(&disk, "load-").len(),
        left.len() + 1,
        "it is not known yet"
    );
    log.trim(Position(RECORDS)).unwrap();
    let orphan = "load-0000000099.nq.zst.orphan".to_owned();
    let left = loads(&behind(&records, log.first().0 - 1));
    assert_eq!(files(&disk, "load-"), [left, vec![orphan]].concat());
}

/// A crash at every sync of a trim.
#[test]
fn a_crash_while_trimming_leaves_a_whole_log() {
    let syncs = {
        let (disk, log, _) = long_on_this_thread();
        let before = disk.syncs();
        log.trim(Position(30)).unwrap();
        disk.syncs() - before
    };
    assert_eq!(syncs, 4);
    let keeps = [CrashKeep::Synced, CrashKeep::Written];
    let keeps = keeps.into_iter().chain((0..20).map(CrashKeep::Seeded));
    for keep in keeps {
        for at in 0..=syncs {
            let (disk, log, records) = long_on_this_thread();
            disk.crash_at_sync(at, keep);
            let trimmed = log.trim(Position(30));
            assert_eq!(trimmed.is_err(), at < syncs, "sync {at}");
            drop(log);
            let disk = disk.crash(keep);
            let (log, read) = open_after(&disk, 30)
                .unwrap_or_else(|error| panic!("crash at sync {at}, {keep:?}: {error}"));
            assert_eq!(read, behind(&records, 30));
            // Whether the trim had happened or not, no file is left over.
            log.trim(Position(30)).unwrap();
            let left = loads(&behind(&records, log.first().0 - 1));
            assert_eq!(files(&disk, "load-"), left, "sync {at}, {keep:?}");
            assert!(files(&disk, "log-")[0] > segment(3));
            append(&log, 0..3).unwrap();
            log.close().unwrap();
            assert_eq!(
                open_after(&disk, 30).unwrap().1.len() as u64,
                RECORDS - 30 + 3
            );
        }
    }
}

/// The planted mistake: the log is trimmed further than the checkpoint goes.
#[test]
fn trimming_too_early_is_caught() {
    let (disk, log, _) = long();
    log.trim(Position(40)).unwrap();
    log.close().unwrap();
    let error = open_after(&disk, 20).map(drop).unwrap_err();
    assert!(matches!(error, LogError::Trimmed { .. }), "{error}");
    assert!(
        error.to_string().contains("from 21 on are needed"),
        "{error}"
    );
    // The segments before were trimmed, so no copy of a single file helps.
    for (part, is_said) in [
        ("Restore the folder from a backup", true),
        (".seg is missing", false),
    ] {
        assert_eq!(error.to_string().contains(part), is_said, "{error}");
    }
}

/// The proof says where a trimmed log begins, so a lost first segment is missed.
#[test]
fn a_lost_first_segment_of_a_trimmed_log_is_missed() {
    let (disk, log, _) = long();
    log.trim(Position(30)).unwrap();
    log.close().unwrap();
    let oldest = files(&disk, "log-").remove(0);
    disk.remove(&oldest).unwrap();
    let error = open_after(&disk, RECORDS).map(drop).unwrap_err();
    assert!(matches!(error, LogError::Missing { .. }), "{error}");
    assert!(error.to_string().contains(&oldest), "{error}");
}

#[test]
fn a_log_that_is_not_written_trims_nothing() {
    assert_eq!(Log::volatile().trim(Position(9)).unwrap().segments, 0);
    let (disk, log, _) = long();
    log.close().unwrap();
    let (log, _) = Log::read(Arc::new(disk.clone()), Arc::default()).unwrap();
    let before = disk.names();
    assert_eq!(log.trim(Position(30)).unwrap().segments, 0);
    assert_eq!(disk.names(), before);
}
