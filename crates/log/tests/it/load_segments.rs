//! Load segments: what was written comes back, and nothing else does.

use crate::samples::{every_kind, number_of, open, push, records_of};
use oxrdf::{GraphName, Quad};
use somersault_disk::{CrashKeep, Disk, SimDisk};
use somersault_log::{
    LoadRecord, LoadSegment, Log, LogError, LogOptions, OpenProgress, Position, Record, verify_log,
};
use std::sync::Arc;

fn quads() -> Vec<Quad> {
    let nowhere = LoadSegment {
        name: String::new(),
        hash: [0; 32],
        statements: 0,
    };
    let Some(Record::Update(update)) = every_kind(nowhere)
        .into_iter()
        .find(|record| matches!(record, Record::Update(_)))
    else {
        panic!("the samples have an update")
    };
    update.inserts
}

fn load(log: &Log) -> LoadSegment {
    let mut writer = log.load_segment().unwrap();
    for quad in &quads() {
        writer.write(quad).unwrap();
    }
    writer.finish().unwrap()
}

fn record(segment: &LoadSegment) -> Record {
    Record::Load(LoadRecord {
        received_ms: 1,
        segment: segment.clone(),
        clears: Vec::new(),
    })
}

#[test]
fn statements_come_back() {
    let disk = SimDisk::new();
    let (log, _) = open(&disk).unwrap();
    let segment = load(&log);
    log.append(&record(&segment)).unwrap();
    log.wait_durable(log.end()).unwrap();
    let disk = disk.crash(CrashKeep::Synced);
    let (log, recovered) = open(&disk).unwrap();
    assert_eq!(
        recovered.map(Result::unwrap).next().unwrap().1,
        record(&segment)
    );
    let read: Vec<Quad> = log
        .read_load_segment(&segment)
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    assert_eq!(read, quads());
    assert_ne!(load(&log).name, segment.name);
}

#[test]
fn opening_reports_its_progress() {
    let disk = SimDisk::new();
    let (log, _) = open(&disk).unwrap();
    let segment = load(&log);
    log.append(&record(&segment)).unwrap();
    log.append(&push(1)).unwrap();
    log.close().unwrap();
    let progress = Arc::new(OpenProgress::default());
    assert!(progress.fraction() == 0.0 && progress.total_bytes() == 0);
    let options = LogOptions {
        progress: Arc::clone(&progress),
        ..LogOptions::default()
    };
    let (log, recovered) = Log::open(Arc::new(disk), options).unwrap();
    let mut before = progress.fraction();
    assert!(before > 0.0 && before < 0.5, "{before}");
    for item in recovered {
        if let Record::Load(load) = item.unwrap().1 {
            let read = log.read_load_segment(&load.segment).unwrap();
            assert_eq!(read.count(), quads().len());
        }
        let now = progress.fraction();
        assert!(now > before, "{before} {now}");
        before = now;
    }
    // The headers, and the marks of the end.
    assert!(before > 0.8 && before <= 1.0, "{before}");
}

#[test]
fn parts_read_in_the_order_in_which_they_were_added() {
    let disk = SimDisk::new();
    let (log, _) = open(&disk).unwrap();
    let mut writer = log.load_segment().unwrap();
    let (mut late, mut early) = (writer.part(), writer.part());
    late.write(&number_of("late", 1)).unwrap();
    early.write(&number_of("early", 2)).unwrap();
    writer.write(&number_of("first", 0)).unwrap();
    writer.append(&early.take_compressed().unwrap()).unwrap();
    early.write(&number_of("early", 3)).unwrap();
    writer.append(&late.take_compressed().unwrap()).unwrap();
    writer.append(&late.take_compressed().unwrap()).unwrap();
    writer.append(&early.take_compressed().unwrap()).unwrap();
    writer.write(&number_of("last", 4)).unwrap();
    let segment = writer.finish().unwrap();
    assert_eq!(segment.statements, 5);
    let read: Result<Vec<Quad>, _> = log.read_load_segment(&segment).unwrap().collect();
    let expected = [
        number_of("first", 0),
        number_of("early", 2),
        number_of("late", 1),
        number_of("early", 3),
        number_of("last", 4),
    ];
    assert_eq!(read.unwrap(), expected);
}

#[test]
fn an_empty_segment_is_one() {
    let disk = SimDisk::new();
    let (log, _) = open(&disk).unwrap();
    let segment = log.load_segment().unwrap().finish().unwrap();
    assert_eq!(log.read_load_segment(&segment).unwrap().count(), 0);
}

#[test]
fn damage_is_found_before_the_first_statement() {
    let disk = SimDisk::new();
    let (log, _) = open(&disk).unwrap();
    let segment = load(&log);
    let whole = disk.bytes(&segment.name).unwrap();
    for bit in 0..whole.len() * 8 {
        let mut bytes = whole.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        disk.plant(&segment.name, bytes);
        assert!(matches!(
            log.read_load_segment(&segment),
            Err(LogError::Damaged { .. })
        ));
    }
    disk.plant(&segment.name, whole);
    let fewer = LoadSegment {
        statements: segment.statements - 1,
        ..segment.clone()
    };
    assert!(
        log.read_load_segment(&fewer)
            .unwrap()
            .any(|item| item.is_err())
    );
    let more = LoadSegment {
        statements: segment.statements + 1,
        ..segment
    };
    assert!(
        log.read_load_segment(&more)
            .unwrap()
            .any(|item| item.is_err())
    );
}

#[test]
fn a_lost_load_segment_is_refused_at_opening() {
    let disk = SimDisk::new();
    let (log, _) = open(&disk).unwrap();
    let segment = load(&log);
    log.append(&record(&segment)).unwrap();
    log.close().unwrap();
    let rest = SimDisk::new();
    rest.plant(
        "log-0000000001.seg",
        disk.bytes("log-0000000001.seg").unwrap(),
    );
    let error = records_of(&rest).unwrap_err();
    let LogError::Missing { file, .. } = &error else {
        panic!("{error}")
    };
    assert!(file.ends_with(&segment.name));
    let alone = SimDisk::new();
    alone.plant(&segment.name, disk.bytes(&segment.name).unwrap());
    assert!(matches!(records_of(&alone), Err(LogError::Missing { .. })));
}

/// A checkpoint covers the record that names it, so whatever has become of it, the log opens.
#[test]
fn a_load_segment_of_records_before_the_checkpoint_is_not_needed() {
    let disk = SimDisk::new();
    let (log, _) = open(&disk).unwrap();
    let segment = load(&log);
    log.append(&record(&segment)).unwrap();
    log.append(&push(1)).unwrap();
    log.close().unwrap();
    let name = segment.name.as_str();
    let mut flipped = disk.bytes(name).unwrap();
    flipped[9] ^= 1;
    for bytes in [None, Some(Vec::new()), Some(flipped)] {
        let copy = disk.copy();
        copy.remove(name).unwrap();
        if let Some(bytes) = bytes {
            copy.plant(name, bytes);
        }
        let verified = verify_log(Arc::new(copy.clone()), &Arc::default()).unwrap();
        let damage: Vec<_> = verified.all_damage().collect();
        assert!(
            damage.len() == 1 && damage[0].to_string().contains(name),
            "{damage:?}"
        );
        let covered = Position(1);
        let opened = Log::open_after(Arc::new(copy.clone()), LogOptions::default(), covered);
        let (log, recovered) = opened.unwrap();
        let is_noticed = copy.bytes(name).is_none_or(|bytes| bytes.is_empty());
        assert_eq!(recovered.lost_loads().len(), usize::from(is_noticed));
        assert_eq!(recovered.map(Result::unwrap).count(), 1);
        // Trimming takes it along, if it is there.
        assert_eq!(log.trim(Position(2)).unwrap().segments, 1);
        assert!(copy.bytes(name).is_none());
    }
}

#[test]
fn the_segment_of_a_load_that_clears_is_kept_and_missed_like_others() {
    let disk = SimDisk::new();
    let (log, _) = open(&disk).unwrap();
    let segment = load(&log);
    let record: Record = Record::Load(LoadRecord {
        received_ms: 1,
        segment: segment.clone(),
        clears: vec![GraphName::DefaultGraph],
    });
    log.append(&record).unwrap();
    log.close().unwrap();
    assert_eq!(records_of(&disk).unwrap(), [record]);
    assert!(disk.bytes(&segment.name).is_some());
    let rest = SimDisk::new();
    let log = "log-0000000001.seg";
    rest.plant(log, disk.bytes(log).unwrap());
    let lost = records_of(&rest);
    assert!(matches!(lost, Err(LogError::Missing { .. })), "{lost:?}");
}

#[test]
fn unused_and_unfinished_ones_go() {
    let disk = SimDisk::new();
    let (log, _) = open(&disk).unwrap();
    let unused = load(&log);
    let mut dropped = log.load_segment().unwrap();
    dropped.write(&number_of("s", 1)).unwrap();
    drop(dropped);
    let mut left = log.load_segment().unwrap();
    left.write(&number_of("s", 1)).unwrap();
    assert!(disk.bytes(&unused.name).is_some());
    assert!(disk.bytes("load-0000000002.nq.zst.tmp").is_none());
    assert!(disk.bytes("load-0000000003.nq.zst.tmp").is_some());
    let disk = disk.crash(CrashKeep::Written);
    records_of(&disk).unwrap();
    assert!(disk.bytes(&unused.name).is_none());
    assert!(disk.bytes(&format!("{}.orphan", unused.name)).is_some());
    assert!(disk.bytes("load-0000000003.nq.zst.tmp").is_none());
}

#[test]
fn a_full_disk_fails_the_load_only() {
    let disk = SimDisk::new();
    let (log, _) = open(&disk).unwrap();
    disk.set_capacity(Some(100));
    let mut writer = log.load_segment().unwrap();
    let written = quads().iter().try_for_each(|quad| writer.write(quad));
    let error = written
        .and_then(|()| writer.finish().map(|_| ()))
        .unwrap_err();
    assert!(matches!(error, LogError::DiskFull { .. }), "{error}");
    assert!(disk.bytes("load-0000000001.nq.zst.tmp").is_none());
    disk.set_capacity(None);
    let position = log.append(&push(1)).unwrap();
    log.wait_durable(position).unwrap();
}
