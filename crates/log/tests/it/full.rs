//! A full disk is met ahead: inputs are refused, other records pass, nothing acknowledged is lost,
//! and inputs are taken again without a restart.

use crate::samples::{push, records_of, small};
use oxrdf::GraphName;
use somersault_disk::{AlteredDisk, CrashKeep, SimDisk};
use somersault_log::{
    Command, CommandRecord, CommitMode, DeliveredRecord, Log, LogError, LogOptions, PlanRecord,
    Position, Record, Resolved, UpdateRecord,
};
use somersault_model::{EventTime, QueryUid, Sn};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The longest time that a thread may take to find room.
const PATIENCE: Duration = Duration::from_secs(10);

fn options(commits: CommitMode) -> LogOptions {
    LogOptions {
        commits,
        segment_bytes: 1_500,
        ahead_bytes: 1_000,
        reserve_bytes: 2_000,
        room_patience: Duration::from_millis(1),
        ..small()
    }
}

const MODES: [CommitMode; 2] = [CommitMode::Thread, CommitMode::Callers];

fn mark(close: i64) -> Record {
    Record::Delivered(DeliveredRecord {
        query: QueryUid(1),
        close: EventTime(close),
        sn: Some(Sn(1)),
    })
}

fn command(command: Command) -> Record {
    Record::Command(CommandRecord {
        received_ms: 1,
        command,
        resolved: Resolved::default(),
    })
}

/// Records that pass when the disk is full.
fn passing() -> Vec<Record> {
    let plan = PlanRecord {
        sn: Sn(1),
        through: None,
        log_end: Position(4),
        stream_times: Vec::new(),
        held: Vec::new(),
    };
    let clear = UpdateRecord {
        clears: vec![GraphName::DefaultGraph],
        ..UpdateRecord::default()
    };
    let name = || "q".to_owned();
    vec![
        mark(1),
        Record::Plan(plan),
        Record::Update(clear),
        command(Command::DropQuery { name: name() }),
        command(Command::DropStream { iri: name() }),
        command(Command::PauseQuery { name: name() }),
    ]
}

/// Records that a full disk refuses.
fn refused() -> Vec<Record> {
    let (name, text) = ("q".to_owned(), "ASK {}".to_owned());
    let register = Command::RegisterQuery {
        name,
        text,
        namespace: None,
    };
    vec![
        push(1),
        Record::Update(UpdateRecord::default()),
        command(register),
    ]
}

fn acknowledged(log: &Log, record: &Record) -> Result<(), LogError> {
    log.wait_durable(log.append(record)?)
}

/// Appends pushes until one is refused; the records that were acknowledged.
fn fill(log: &Log) -> Vec<Record> {
    let mut taken = Vec::new();
    loop {
        let record = push(taken.len() as u64);
        match acknowledged(log, &record) {
            Ok(()) => taken.push(record),
            Err(LogError::Full { .. }) => return taken,
            Err(error) => panic!("{error}"),
        }
    }
}

/// Appends a push as soon as there is room.
fn append_when_there_is_room(log: &Log, record: &Record) {
    let begun = Instant::now();
    while let Err(error) = acknowledged(log, record) {
        assert!(matches!(error, LogError::Full { .. }), "{error}");
        assert!(begun.elapsed() < PATIENCE, "there is no room yet");
    }
}

#[test]
fn inputs_are_refused_ahead_and_taken_again_without_a_restart() {
    for commits in MODES {
        let disk = SimDisk::new();
        let (log, _) = Log::open(Arc::new(disk.clone()), options(commits)).unwrap();
        let mut expected = Vec::new();
        for _ in 0..3 {
            disk.set_capacity(Some(disk.space()));
            let taken = fill(&log);
            assert!(!taken.is_empty(), "what is set aside is used");
            expected.extend(taken);
            assert_eq!(log.failed().map(|error| error.to_string()), None);
            let said = log.no_room().unwrap().to_string();
            assert!(
                said.contains("full") && said.contains("without a restart"),
                "{said}"
            );
            assert!(!log.no_room().unwrap().stops_the_log());
            for record in refused() {
                let error = log.append(&record).unwrap_err();
                assert!(matches!(error, LogError::Full { .. }), "{error}");
            }
            for record in passing() {
                acknowledged(&log, &record).unwrap();
                expected.push(record);
            }
            disk.set_capacity(None);
            append_when_there_is_room(&log, &push(7));
            expected.push(push(7));
            assert!(log.no_room().is_none());
        }
        log.close().unwrap();
        assert_eq!(records_of(&disk).unwrap(), expected);
    }
}

#[test]
fn records_wait_when_the_reserve_is_used_up() {
    for commits in MODES {
        let disk = SimDisk::new();
        let (log, _) = Log::open(Arc::new(disk.clone()), options(commits)).unwrap();
        disk.set_capacity(Some(disk.space()));
        let mut expected = fill(&log);
        assert!(disk.bytes("log.reserve").is_some());
        for close in 0..2_000 {
            log.append(&mark(close)).unwrap();
            expected.push(mark(close));
        }
        if commits == CommitMode::Callers {
            let error = log.wait_durable(log.end()).unwrap_err();
            assert!(matches!(error, LogError::Full { .. }), "{error}");
        }
        assert!(log.failed().is_none() && log.durable() < log.end());
        disk.set_capacity(None);
        log.wait_durable(log.end()).unwrap();
        append_when_there_is_room(&log, &push(7));
        expected.push(push(7));
        log.close().unwrap();
        assert_eq!(records_of(&disk).unwrap(), expected);
    }
}

#[test]
fn closing_says_that_records_found_no_room() {
    for commits in MODES {
        let disk = SimDisk::new();
        let (log, _) = Log::open(Arc::new(disk.clone()), options(commits)).unwrap();
        disk.set_capacity(Some(disk.space()));
        let taken = fill(&log);
        for close in 0..2_000 {
            log.append(&mark(close)).unwrap();
        }
        let error = log.close().unwrap_err();
        assert!(matches!(error, LogError::DiskFull { .. }), "{error}");
        disk.set_capacity(None);
        let records = records_of(&disk).unwrap();
        assert_eq!(records[..taken.len()], taken);
    }
}

#[test]
fn a_log_on_a_full_disk_opens_and_refuses_inputs() {
    let disk = SimDisk::new();
    let (log, _) = Log::open(Arc::new(disk.clone()), options(CommitMode::Thread)).unwrap();
    disk.set_capacity(Some(disk.space()));
    let mut expected = fill(&log);
    drop(log);
    let disk = disk.crash(CrashKeep::Written);
    // The reserve has room for what opening writes.
    disk.set_capacity(Some(disk.space()));
    let (log, recovered) = Log::open(Arc::new(disk.clone()), options(CommitMode::Thread)).unwrap();
    assert_eq!(recovered.len(), expected.len() as u64);
    assert!(log.no_room().is_some());
    assert!(matches!(log.append(&push(1)), Err(LogError::Full { .. })));
    disk.set_capacity(None);
    append_when_there_is_room(&log, &push(7));
    expected.push(push(7));
    log.close().unwrap();
    assert_eq!(records_of(&disk).unwrap(), expected);
}

#[test]
fn nothing_acknowledged_is_lost_on_a_disk_of_any_size() {
    for capacity in (0..9_000).step_by(61) {
        for keep in [CrashKeep::Synced, CrashKeep::Seeded(capacity)] {
            let disk = SimDisk::new();
            disk.set_capacity(Some(capacity));
            let mut taken = Vec::new();
            if let Ok((log, _)) = Log::open(Arc::new(disk.clone()), options(CommitMode::Callers)) {
                taken = (0..60).map(push).collect();
                let refused = taken.iter().position(|it| acknowledged(&log, it).is_err());
                taken.truncate(refused.unwrap_or(60));
            }
            let disk = disk.crash(keep);
            disk.set_capacity(None);
            let records = records_of(&disk).unwrap();
            assert!(records.starts_with(&taken), "capacity {capacity}, {keep:?}");
            assert!(records.len() <= taken.len() + 1);
        }
    }
}

/// The planted mistake: a disk that says it has set space aside and has not.
#[test]
fn space_that_was_not_set_aside_is_caught() {
    let disk = SimDisk::new();
    let lying = AlteredDisk::of(&disk).with_reserve(|_, _| Ok(true));
    let (log, _) = Log::open(Arc::new(lying), options(CommitMode::Callers)).unwrap();
    disk.set_capacity(Some(1));
    let stopped = (0..60).find_map(|number| acknowledged(&log, &push(number)).err());
    assert!(
        matches!(stopped, Some(LogError::DiskFull { .. })),
        "{stopped:?}"
    );
    assert!(log.failed().is_some());
}

/// Where the file system cannot set space aside, a write finds the disk full.
#[test]
fn without_space_set_aside_a_full_disk_acknowledges_nothing_more() {
    let disk = SimDisk::new();
    let altered = AlteredDisk::of(&disk).with_reserve(|_, _| Ok(false));
    let (log, _) = Log::open(Arc::new(altered), small()).unwrap();
    disk.set_capacity(Some(1_000));
    let mut acknowledged = 0;
    let error = loop {
        let outcome = log
            .append(&push(acknowledged))
            .and_then(|at| log.wait_durable(at));
        match outcome {
            Ok(()) => acknowledged += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, LogError::DiskFull { .. }), "{error}");
    disk.set_capacity(None);
    // The failure stays: how much of the failed group the disk holds is unknown.
    assert!(matches!(
        log.append(&push(99)),
        Err(LogError::DiskFull { .. })
    ));
    assert!(matches!(log.failed(), Some(LogError::DiskFull { .. })));
    assert!(matches!(log.close(), Err(LogError::DiskFull { .. })));
    let records = records_of(&disk).unwrap();
    assert!(records.len() as u64 >= acknowledged);
    assert!(
        (0..)
            .zip(&records)
            .all(|(number, record)| *record == push(number))
    );
}
