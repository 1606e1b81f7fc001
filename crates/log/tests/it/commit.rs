//! Group commit: order, waiting, back-pressure, and failures that stay.

use crate::samples::{number_of, open, push, quad, records_of, small};
use oxrdf::{Literal, Term, Triple};
use somersault_disk::{AlteredDisk, RealDisk, SimDisk};
use somersault_log::{
    CommitMode, DeliveredRecord, Log, LogError, LogOptions, Position, Record, UpdateRecord,
};
use somersault_model::{EventTime, QueryUid, Sn};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

/// The longest time that a thread may take to reach its goal.
const PATIENCE: Duration = Duration::from_secs(10);

#[test]
fn positions_are_in_call_order_from_many_threads() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Arc::new(RealDisk::new(folder.path()).unwrap());
    let options = LogOptions {
        segment_bytes: 10_000,
        pending_bytes: 500,
        ..small()
    };
    let (log, _) = Log::open(disk.clone(), options.clone()).unwrap();
    let seen = Arc::new(AtomicU64::new(0));
    let observed = Arc::clone(&seen);
    log.on_durable(Box::new(move |position| {
        observed.fetch_max(position.0, Ordering::SeqCst);
    }));
    let mut written: Vec<(Position, u64)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4_u64)
            .map(|thread| {
                let log = &log;
                scope.spawn(move || {
                    let append = |n: u64| {
                        let number = thread * 1_000 + n;
                        let position = log.append(&push(number)).unwrap();
                        if n.is_multiple_of(10) {
                            log.wait_durable(position).unwrap();
                            assert!(log.durable() >= position);
                        }
                        (position, number)
                    };
                    (0..100).map(append).collect::<Vec<_>>()
                })
            })
            .collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap())
            .collect()
    });
    log.close().unwrap();
    assert_eq!(seen.load(Ordering::SeqCst), 400);
    written.sort_unstable();
    let (_log, recovered) = Log::open(disk, options).unwrap();
    let read: Vec<(Position, Record)> = recovered.map(Result::unwrap).collect();
    let expected: Vec<_> = written
        .into_iter()
        .map(|(at, number)| (at, push(number)))
        .collect();
    assert_eq!(read, expected);
}

#[test]
fn a_failed_sync_acknowledges_nothing_more() {
    for commits in [CommitMode::Thread, CommitMode::Callers] {
        // The sync that fails is that of a group: no other segment is made.
        let segment_bytes = LogOptions::default().segment_bytes;
        a_failed_sync_stops(LogOptions {
            commits,
            segment_bytes,
            ..small()
        });
    }
}

fn a_failed_sync_stops(options: LogOptions) {
    let disk = SimDisk::new();
    let (log, _) = Log::open(Arc::new(disk.clone()), options).unwrap();
    let first = log.append(&push(0)).unwrap();
    log.wait_durable(first).unwrap();
    disk.fail_sync_after(Some(0));
    let second = log.append(&push(1)).unwrap();
    let error = log.wait_durable(second).unwrap_err();
    assert!(
        matches!(error, LogError::Io { action: "sync", .. }),
        "{error}"
    );
    assert_eq!(log.durable(), first);
    log.wait_durable(first).unwrap();
    assert!(log.append(&push(2)).is_err());
    assert!(!log.commit() && !log.may_commit());
    assert!(log.close().is_err());
}

fn by_callers() -> LogOptions {
    LogOptions {
        commits: CommitMode::Callers,
        ..small()
    }
}

#[test]
fn callers_commit_group_by_group() {
    let disk = SimDisk::new();
    let (log, _) = Log::open(Arc::new(disk.clone()), by_callers()).unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let observed = Arc::clone(&seen);
    log.on_durable(Box::new(move |position| {
        observed.lock().unwrap().push(position.0)
    }));
    assert!(!log.may_commit() && !log.commit(), "nothing was appended");
    log.append(&push(0)).unwrap();
    log.append(&push(1)).unwrap();
    assert_eq!(log.durable(), Position::START, "no caller has committed");
    assert!(records_of(&disk.copy()).unwrap().is_empty());
    assert!(log.may_commit() && log.commit());
    assert_eq!(log.durable(), Position(2));
    assert_eq!(records_of(&disk.copy()).unwrap(), [push(0), push(1)]);
    // The witness behind the group, then the proof.
    assert!(log.commit() && log.may_commit() && log.commit());
    assert!(!log.may_commit() && !log.commit(), "the log is idle");
    let third = log.append(&push(2)).unwrap();
    log.wait_durable(third).unwrap();
    assert_eq!(*seen.lock().unwrap(), [2, 3]);
    let last = log.append(&push(3)).unwrap();
    log.close().unwrap();
    assert_eq!(log.durable(), last, "closing commits what is left");
    assert!(!log.commit());
    let (_log, recovered) = Log::open(Arc::new(disk), by_callers()).unwrap();
    assert!(recovered.was_closed());
    assert_eq!(recovered.count(), 4);
}

#[test]
fn a_caller_without_room_commits() {
    let options = LogOptions {
        pending_bytes: 200,
        ..by_callers()
    };
    let (log, _) = Log::open(Arc::new(SimDisk::new()), options).unwrap();
    for number in 0..100 {
        log.append(&push(number)).unwrap();
    }
    assert!(log.durable() > Position(90), "{}", log.durable());
}

/// The thread and the callers take the same steps, so the files are equal to the byte.
#[test]
fn both_modes_write_the_same_bytes() {
    let [thread, callers] = [CommitMode::Thread, CommitMode::Callers].map(|commits| {
        let disk = SimDisk::new();
        let options = LogOptions {
            commits,
            proof_groups: 3,
            idle_proof: Duration::from_secs(3_600),
            ..small()
        };
        let (log, _) = Log::open(Arc::new(disk.clone()), options).unwrap();
        for number in 0..40 {
            let position = log.append(&push(number)).unwrap();
            log.wait_durable(position).unwrap();
        }
        log.close().unwrap();
        let files = disk.names().into_iter();
        let files = files.map(|name| (disk.bytes(&name), name));
        files.collect::<Vec<_>>()
    });
    assert!(thread.len() > 5, "the log is to roll: {}", thread.len());
    assert_eq!(thread, callers);
}

#[test]
fn a_segment_that_was_replaced_acknowledges_nothing_more() {
    let disk = SimDisk::new();
    let (log, _) = open(&disk).unwrap();
    let first = log.append(&push(0)).unwrap();
    log.wait_durable(first).unwrap();
    disk.plant("log-0000000001.seg", vec![1; 50]);
    let second = log.append(&push(1)).unwrap();
    let error = log.wait_durable(second).unwrap_err();
    assert!(matches!(error, LogError::Gone { .. }), "{error}");
    assert!(log.append(&push(2)).is_err() && log.close().is_err());
}

fn nested(depth: usize) -> Record {
    let mut object: Term = Literal::from(1).into();
    for _ in 0..depth {
        let triple = Triple::new(
            number_of("s", 1).subject,
            number_of("s", 1).predicate,
            object,
        );
        object = Term::Triple(Box::new(triple));
    }
    Record::Update(UpdateRecord {
        inserts: vec![quad("s", object)],
        ..UpdateRecord::default()
    })
}

#[test]
fn an_unwritable_record_is_not_in_the_log() {
    let disk = SimDisk::new();
    let (log, _) = open(&disk).unwrap();
    log.append(&nested(64)).unwrap();
    let error = log.append(&nested(65)).unwrap_err();
    assert!(matches!(error, LogError::Unwritable { .. }), "{error}");
    assert_eq!(log.append(&push(1)).unwrap(), Position(2));
    log.close().unwrap();
    assert_eq!(records_of(&disk).unwrap(), [nested(64), push(1)]);
}

#[test]
fn a_closed_log_takes_nothing() {
    let (log, recovered) = open(&SimDisk::new()).unwrap();
    assert!(recovered.is_empty());
    log.close().unwrap();
    log.close().unwrap();
    assert!(matches!(log.append(&push(1)), Err(LogError::Closed { .. })));
    assert!(matches!(
        log.wait_durable(Position(1)),
        Err(LogError::Closed { .. })
    ));
}

#[test]
fn a_volatile_log_is_durable_at_once() {
    let log = Log::volatile();
    let seen = Arc::new(AtomicU64::new(0));
    let observed = Arc::clone(&seen);
    log.on_durable(Box::new(move |position| {
        observed.store(position.0, Ordering::SeqCst)
    }));
    let position = log.append(&push(1)).unwrap();
    assert_eq!(
        (position, log.durable(), log.end()),
        (Position(1), Position(1), Position(1))
    );
    assert_eq!(seen.load(Ordering::SeqCst), 1);
    let mut segment = log.load_segment().unwrap();
    segment.write(&number_of("s", 1)).unwrap();
    let segment = segment.finish().unwrap();
    assert_eq!(segment.statements, 1);
    assert!(matches!(
        log.read_load_segment(&segment),
        Err(LogError::Missing { .. })
    ));
}

#[test]
fn the_newest_delivered_marks_are_known_before_the_first_record() {
    let disk = SimDisk::new();
    let (log, recovered) = open(&disk).unwrap();
    assert_eq!(recovered.delivered().count(), 0);
    let mark = |query, close| -> Record {
        Record::Delivered(DeliveredRecord {
            query: QueryUid(query),
            close: EventTime(close),
            // Marks of both forms, in one log.
            sn: (close > 20).then_some(Sn(close as u64)),
        })
    };
    for n in 0..30 {
        let position = log.append(&mark(n % 2, n as i64)).unwrap();
        log.wait_durable(position).unwrap();
    }
    log.close().unwrap();
    let files = (1..).map_while(|n| disk.bytes(&format!("log-{n:010}.seg")));
    assert_eq!(log.bytes(), files.map(|file| file.len() as u64).sum());
    let (_log, recovered) = open(&disk).unwrap();
    let marks: Vec<_> = recovered
        .delivered()
        .map(|mark| (mark.query.0, mark.close.0, mark.sn))
        .collect();
    assert_eq!(marks, [(0, 28, Some(Sn(28))), (1, 29, Some(Sn(29)))]);
}

/// The observer of durability may hold the last reference to the log. The log is then closed by its
/// own thread, which cannot join itself.
#[test]
fn the_log_may_be_dropped_by_its_own_thread() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Arc::new(RealDisk::new(folder.path()).unwrap());
    let (log, _) = Log::open(disk.clone(), small()).unwrap();
    let log = Arc::new(log);
    let weak = Arc::downgrade(&log);
    let (held, is_held) = mpsc::channel();
    let (alone, is_alone) = mpsc::channel();
    let (dropped, is_dropped) = mpsc::channel();
    let is_alone = Mutex::new(is_alone);
    log.on_durable(Box::new(move |_| {
        let Some(last) = weak.upgrade() else { return };
        held.send(()).unwrap();
        is_alone.lock().unwrap().recv().unwrap();
        drop(last);
        dropped.send(()).unwrap();
    }));
    log.append(&push(1)).unwrap();
    is_held.recv().unwrap();
    drop(log);
    alone.send(()).unwrap();
    assert_eq!(is_dropped.recv_timeout(PATIENCE), Ok(()));
    // The folder is free once the thread has ended.
    let begun = Instant::now();
    let recovered = loop {
        match Log::open(disk.clone(), small()) {
            Ok((_, recovered)) => break recovered,
            Err(LogError::Locked { .. }) if begun.elapsed() < PATIENCE => std::thread::yield_now(),
            Err(error) => panic!("{error}"),
        }
    };
    assert_eq!(recovered.count(), 1);
}

/// While the next segment is made, groups become durable in this one; then the log goes on there.
#[test]
fn no_group_waits_for_the_next_segment_to_be_made() {
    let (is_open, opened) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (gate, made) = (Arc::clone(&is_open), Arc::clone(&opened));
    let disk = SimDisk::new();
    let altered = AlteredDisk::of(&disk).with_reserve(move |file, length| {
        // A segment that is made ahead asks for exactly this.
        if length == 5_000 {
            while gate.load(Ordering::SeqCst) == 0 {
                thread::yield_now();
            }
            made.fetch_add(1, Ordering::SeqCst);
        }
        file.reserve(length)
    });
    let options = LogOptions {
        segment_bytes: 20_000,
        ahead_bytes: 5_000,
        ..small()
    };
    let (log, _) = Log::open(Arc::new(altered), options).unwrap();
    let mut records = 0;
    while log.bytes() < 15_000 {
        let position = log.append(&push(records)).unwrap();
        log.wait_durable(position).unwrap();
        records += 1;
    }
    assert_eq!(opened.load(Ordering::SeqCst), 0);
    // It is under way, or will be soon.
    while !disk.names().contains(&"log-0000000002.seg".to_owned()) {
        thread::yield_now();
    }
    is_open.store(1, Ordering::SeqCst);
    while log.bytes() < 50_000 {
        let position = log.append(&push(records)).unwrap();
        log.wait_durable(position).unwrap();
        records += 1;
    }
    log.close().unwrap();
    let segments = disk
        .names()
        .into_iter()
        .filter(|name| name.ends_with(".seg"));
    assert_eq!(segments.count(), 3, "none that is not used is left");
    assert_eq!(records_of(&disk).unwrap().len() as u64, records);
}

/// Records that are appended while the group is held become durable by one sync.
#[test]
fn a_held_group_is_synced_once() {
    let disk = SimDisk::new();
    let options = LogOptions {
        commits: CommitMode::Callers,
        ..LogOptions::default()
    };
    let (log, _) = Log::open(Arc::new(disk.clone()), options).unwrap();
    while log.commit() {}
    let before = disk.syncs();
    let hold = log.hold_group();
    log.append(&push(0)).unwrap();
    assert!(!log.may_commit() && !log.commit());
    log.append(&push(1)).unwrap();
    drop(hold);
    assert!(log.may_commit() && log.commit());
    assert_eq!((log.durable(), disk.syncs() - before), (Position(2), 1));
}

#[test]
fn a_held_group_goes_when_the_hold_ends_or_more_has_to_wait() {
    let options = LogOptions {
        pending_bytes: 500,
        ..small()
    };
    let (log, _) = Log::open(Arc::new(SimDisk::new()), options).unwrap();
    for number in 0..50 {
        let hold = log.hold_group();
        log.append(&push(2 * number)).unwrap();
        let second = log.append(&push(2 * number + 1)).unwrap();
        drop(hold);
        log.wait_durable(second).unwrap();
    }
    // A hold that is never dropped keeps nothing back that others wait for.
    let _hold = log.hold_group();
    for number in 100..200 {
        log.append(&push(number)).unwrap();
    }
    assert!(log.durable() > Position(150));
    log.close().unwrap();
    assert_eq!(log.durable(), Position(200));
}

/// The hold is dropped behind a record that could not be written.
#[test]
fn a_hold_without_a_record_keeps_nothing_back() {
    let (log, _) = Log::open(Arc::new(SimDisk::new()), LogOptions::default()).unwrap();
    let hold = log.hold_group();
    assert!(log.append(&nested(65)).is_err());
    drop(hold);
    let next = log.append(&push(0)).unwrap();
    log.wait_durable(next).unwrap();
}
