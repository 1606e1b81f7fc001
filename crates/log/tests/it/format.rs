//! The format stays readable. tests/fixtures holds a log of each released version, logs with the
//! kinds of records that were added since (`v1-added`, `v1-replace`, `v1-reset`, `v1-clear`,
//! `v1-clear-load`), one with a proof file (`v1-proof`), one that was killed (`v1-killed`), one of
//! version 2 whose beginning was trimmed (`v2`), and logs with the kinds that were added to it
//! (`v2-subscriptions`, `v2-messages`, `v2-holding`); each is opened here, or in
//! `transactions` (`v2-transactions`).
//!
//! `cargo test -p somersault-log -- --ignored write_fixture` writes the newest fixture if it does
//! not exist. A new kind gets a new fixture; existing fixtures never change.

use crate::samples::{
    every_kind, kind_of_messages, kind_of_subscriptions, kind_that_clears, kind_that_holds,
    kinds_added_last, kinds_since_version_1, load_that_clears, number_of, push, push_of_all_terms,
    reset_command, small,
};
use somersault_disk::{CrashKeep, RealDisk, SimDisk};
use somersault_log::{
    Command, CommandRecord, LoadSegment, Log, LogError, MessagesRecord, Position, Record,
    StreamStatement,
};
use somersault_model::EventTime;
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
        kind_of_subscriptions(),
        kind_of_messages(),
        kind_that_holds(),
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

/// All fixtures of version 1.
const VERSION_1: [&str; 8] = [
    "v1",
    "v1-added",
    "v1-replace",
    "v1-reset",
    "v1-clear",
    "v1-clear-load",
    "v1-proof",
    "v1-killed",
];

/// The version in a segment's header.
fn version(segment: &[u8]) -> u8 {
    segment[8]
}

#[test]
fn a_log_of_version_1_is_carried_over() {
    for name in VERSION_1 {
        let disk = planted(name);
        let (_, recovered) = Log::read(Arc::new(disk.clone()), Arc::default()).unwrap();
        let old: Vec<Record> = recovered.map(|item| item.unwrap().1).collect();
        let before = disk.names();
        let mut expected = old.clone();
        for opening in 1..4 {
            let (log, recovered) = Log::open(Arc::new(disk.clone()), small()).unwrap();
            let read: Vec<Record> = recovered.map(|item| item.unwrap().1).collect();
            assert_eq!(read, expected, "{name}, opening {opening}");
            assert_eq!(log.incarnation(), opening);
            log.append(&push(opening)).unwrap();
            log.close().unwrap();
            expected.push(push(opening));
        }
        // The old segments are as they were, except for an end that was not proven.
        for file in before.iter().filter(|file| file.ends_with(".seg")) {
            let (now, then) = (
                disk.bytes(file).unwrap(),
                planted(name).bytes(file).unwrap(),
            );
            assert!(
                version(&now) == 1 && then.starts_with(&now),
                "{name}/{file}"
            );
            assert!(now == then || name == "v1-killed", "{name}/{file}");
        }
        let names = disk.names().into_iter();
        let new = names.filter(|file| file.ends_with(".seg") && !before.contains(file));
        let new: Vec<u8> = new
            .map(|file| version(&disk.bytes(&file).unwrap()))
            .collect();
        assert_eq!(new, [2; 3], "{name}");
    }
}

/// A crash at any sync of the opening that carries a log over loses nothing.
#[test]
fn carrying_over_may_crash_at_any_sync() {
    let keeps = [CrashKeep::Synced, CrashKeep::Written];
    for keep in keeps.into_iter().chain((0..10).map(CrashKeep::Seeded)) {
        for name in VERSION_1 {
            let (_, recovered) = Log::read(Arc::new(planted(name)), Arc::default()).unwrap();
            let old: Vec<Record> = recovered.map(|item| item.unwrap().1).collect();
            for at in 0..8 {
                let disk = planted(name);
                disk.crash_at_sync(at, keep);
                drop(Log::open(Arc::new(disk.clone()), small()));
                let disk = disk.crash(keep);
                let (_log, recovered) = Log::open(Arc::new(disk), small()).unwrap();
                let read: Vec<Record> = recovered.map(|item| item.unwrap().1).collect();
                assert_eq!(read, old, "{name}, sync {at}, {keep:?}");
            }
        }
    }
}

#[test]
fn a_segment_of_version_1_behind_one_of_version_2_is_refused() {
    let disk = planted("v1");
    let (log, _) = Log::open(Arc::new(disk.clone()), small()).unwrap();
    log.append(&push(1)).unwrap();
    log.close().unwrap();
    let mut old = planted("v1").bytes("log-0000000004.seg").unwrap();
    old[12] = 6;
    let crc = crc32c::crc32c(&old[..28]).to_le_bytes();
    old[28..32].copy_from_slice(&crc);
    disk.plant("log-0000000006.seg", old);
    let refused = Log::open(Arc::new(disk), small()).map(drop).unwrap_err();
    assert!(matches!(refused, LogError::Foreign { .. }), "{refused}");
    assert!(refused.to_string().contains("version 1"), "{refused}");
}

/// The records of the fixture `v2`, of three openings.
fn records_of_version_2() -> Vec<Record> {
    (0..30).map(push).chain(kinds_added_last()).collect()
}

/// The position through which the fixture `v2` was trimmed.
const TRIMMED: Position = Position(10);

#[test]
fn version_2_reads_back() {
    let disk = planted("v2");
    let (log, recovered) = Log::open_after(Arc::new(disk.clone()), small(), TRIMMED).unwrap();
    assert!(recovered.was_closed());
    let read: Vec<Record> = recovered.map(|item| item.unwrap().1).collect();
    assert_eq!(read, records_of_version_2()[TRIMMED.0 as usize..]);
    assert_eq!(log.incarnation(), 4);
    assert!(log.first() > Position(1) && log.first() <= TRIMMED.next());
    let whole = Log::open(Arc::new(planted("v2")), small()).map(drop);
    assert!(matches!(whole, Err(LogError::Trimmed { .. })));
}

#[test]
fn subscriptions_read_back() {
    let (_log, recovered) = Log::open(Arc::new(planted("v2-subscriptions")), small()).unwrap();
    let read: Vec<Record> = recovered.map(|item| item.unwrap().1).collect();
    assert_eq!(read, kind_of_subscriptions());
}

#[test]
fn messages_read_back() {
    let (_log, recovered) = Log::open(Arc::new(planted("v2-messages")), small()).unwrap();
    let read: Vec<Record> = recovered.map(|item| item.unwrap().1).collect();
    assert_eq!(read, kind_of_messages());
}

#[test]
fn plans_that_hold_queries_back_read_back() {
    let (_log, recovered) = Log::open(Arc::new(planted("v2-holding")), small()).unwrap();
    let read: Vec<Record> = recovered.map(|item| item.unwrap().1).collect();
    assert_eq!(read, kind_that_holds());
}

#[test]
fn messages_that_do_not_fit_their_statements_are_damaged() {
    let altered = |alter: fn(&mut MessagesRecord)| {
        let Some(Record::Messages(mut record)) = kind_of_messages().into_iter().next() else {
            unreachable!("the samples are messages");
        };
        alter(&mut record);
        let bytes = Record::<Vec<StreamStatement>>::Messages(record)
            .to_bytes()
            .unwrap();
        Record::from_bytes(&bytes).unwrap_err().to_string()
    };
    for (alter, says) in [
        (
            (|it| it.messages[3].statements = 3) as fn(&mut MessagesRecord),
            "more statements",
        ),
        (|it| it.messages[3].statements = 1, "fewer statements"),
        (|it| it.messages.clear(), "fewer statements"),
        (|it| it.messages[0].statements = 0, "at least one"),
        (|it| it.statements[2].at = EventTime(0), "one event time"),
    ] {
        let error = altered(alter);
        assert!(error.contains(says) && error.contains("damaged"), "{error}");
    }
}

#[test]
fn a_kind_that_this_version_does_not_know_was_written_by_a_newer_one() {
    // 15 and command 15 are the next to come.
    let command = |tag: u8| [2, 0, tag, 0].to_vec();
    for bytes in [vec![15, 1, 2], vec![200, 1], command(15)] {
        let error = Record::from_bytes(&bytes).unwrap_err().to_string();
        for part in ["newer version", "Open the data folder with"] {
            assert!(error.contains(part), "{bytes:?}: {error}");
        }
    }
    // For kinds that this version knows, the bytes are damaged.
    for bytes in [
        vec![7],
        vec![9],
        vec![10],
        vec![11],
        vec![12],
        vec![13],
        vec![14],
        vec![],
        command(14),
    ] {
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
    assert_eq!(kind_of_subscriptions()[0].to_bytes().unwrap()[0], 12);
    assert_eq!(kind_of_messages()[0].to_bytes().unwrap()[0], 13);
    assert_eq!(kind_that_holds()[0].to_bytes().unwrap()[0], 14);
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
    let folder = fixture("v2-holding");
    std::fs::create_dir_all(&folder).unwrap();
    let disk = Arc::new(RealDisk::new(&folder).unwrap());
    let (log, recovered) = Log::open(disk, small()).unwrap();
    assert!(recovered.is_empty(), "existing fixtures never change");
    for record in kind_that_holds() {
        let position = log.append(&record).unwrap();
        log.wait_durable(position).unwrap();
    }
    log.close().unwrap();
    for name in ["LOCK", "log.reserve"] {
        std::fs::remove_file(folder.join(name)).unwrap();
    }
}
