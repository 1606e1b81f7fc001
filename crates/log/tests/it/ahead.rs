//! A long log is decoded ahead on other threads: the records and the first failure are the same,
//! whatever the number of threads.

use crate::samples::quad;
use oxrdf::Literal;
use somersault_disk::{Disk, SimDisk};
use somersault_log::{
    CommitMode, Log, LogError, LogOptions, OpenProgress, Position, Record, Recovered, UpdateRecord,
};
use std::sync::Arc;

const RECORDS: u64 = 400;

fn options(decoders: usize) -> LogOptions {
    LogOptions {
        segment_bytes: 300_000,
        decoders,
        ..LogOptions::default()
    }
}

fn record(number: u64) -> Record {
    let object = Literal::from(number.to_string().repeat(4_000));
    Record::Update(UpdateRecord {
        received_ms: number as i64,
        inserts: vec![quad("s", object)],
        ..UpdateRecord::default()
    })
}

fn written() -> SimDisk {
    let disk = SimDisk::new();
    let (log, _) = Log::open(Arc::new(disk.clone()), options(1)).unwrap();
    for number in 1..=RECORDS {
        log.append(&record(number)).unwrap();
        if number.is_multiple_of(20) {
            log.wait_durable(log.end()).unwrap();
        }
    }
    log.close().unwrap();
    assert!(log.bytes() > 3 << 20, "{}", log.bytes());
    disk
}

/// Reads to the end or to a failure; the positions, and the failure.
fn read(recovered: Recovered) -> (Vec<u64>, Option<LogError>) {
    let mut positions = Vec::new();
    for item in recovered {
        match item {
            Ok((position, read)) => {
                assert_eq!(read, record(position.0));
                positions.push(position.0);
            }
            Err(error) => return (positions, Some(error)),
        }
    }
    (positions, None)
}

#[test]
fn threads_do_not_change_what_is_read() {
    let disk = written();
    for decoders in [0, 1, 3] {
        for after in [0, 1, 199, RECORDS - 1, RECORDS] {
            let copy = Arc::new(disk.copy());
            let progress = Arc::new(OpenProgress::default());
            let options = LogOptions {
                progress: Arc::clone(&progress),
                ..options(decoders)
            };
            let (_log, recovered) = Log::open_after(copy, options, Position(after)).unwrap();
            let (positions, failure) = read(recovered);
            assert!(failure.is_none(), "{failure:?}");
            assert_eq!(positions, (after + 1..=RECORDS).collect::<Vec<_>>());
            assert!(progress.fraction() > 0.9, "{}", progress.fraction());
        }
    }
}

#[test]
fn a_failure_comes_in_its_place_and_is_the_last() {
    let disk = written();
    for decoders in [0, 1, 3] {
        let copy = disk.copy();
        let (_log, recovered) = Log::open(Arc::new(copy.clone()), options(decoders)).unwrap();
        // The file changes after it was verified.
        let fourth = "log-0000000004.seg";
        let mut bytes = copy.bytes(fourth).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        copy.plant(fourth, bytes);
        let mut recovered = recovered;
        let read: Vec<_> = recovered.by_ref().take_while(Result::is_ok).collect();
        assert!(read.len() > 60 && read.len() < 200, "{}", read.len());
        let last = read.last().unwrap().as_ref().unwrap().0;
        assert_eq!(last.0, read.len() as u64);
        assert!(recovered.next().is_none());
    }
}

#[test]
fn reading_may_end_anywhere() {
    let disk = written();
    for count in [0, 1, 50, 399] {
        let copy = Arc::new(disk.copy());
        let (log, recovered) = Log::open(copy.clone() as Arc<dyn Disk>, options(3)).unwrap();
        assert_eq!(recovered.take(count).count(), count);
        log.close().unwrap();
        drop(log);
        assert!(Log::open(copy, options(0)).is_ok());
    }
}

/// A process that commits on its callers' threads has no others.
#[test]
fn no_threads_where_callers_commit() {
    let options = LogOptions {
        commits: CommitMode::Callers,
        ..options(3)
    };
    let (_log, recovered) = Log::open(Arc::new(written()), options).unwrap();
    assert_eq!(read(recovered).0.len() as u64, RECORDS);
}
