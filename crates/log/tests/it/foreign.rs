//! Files of another log, of another time, or that are there twice are refused with the file and the
//! remedy, and nothing is changed.

use crate::samples::{contents, open, push, records_of, written, written_on};
use somersault_disk::{Disk, SimDisk};
use somersault_log::{Log, LogError};
use std::sync::Arc;

const PROOF: &str = "log.proof";

fn segment(number: u64) -> String {
    format!("log-{number:010}.seg")
}

/// A log like `written` makes, with another identity.
fn another(groups: u64) -> SimDisk {
    let disk = SimDisk::new();
    disk.draw_identity().unwrap();
    written_on(disk, groups, 2, true)
}

/// The refusal of this folder, which names `file`.
fn refused(disk: &SimDisk, file: &str) -> String {
    let before = contents(disk);
    let error = records_of(disk).unwrap_err();
    let said = error.to_string();
    assert!(matches!(error, LogError::Foreign { .. }), "{said}");
    assert!(
        said.contains(file) && said.contains("nothing was changed"),
        "{said}"
    );
    assert_eq!(contents(disk), before);
    let read = Log::read(Arc::new(disk.clone()), Arc::default()).map(drop);
    assert!(matches!(read, Err(LogError::Foreign { .. })));
    said
}

#[test]
fn a_segment_of_another_log_is_refused() {
    for number in [1, 2, 3] {
        let disk = written(20, 2, true);
        let other = another(20).bytes(&segment(number)).unwrap();
        disk.plant(&segment(number), other);
        let said = refused(&disk, &segment(number));
        assert!(said.contains("it is of log 02"), "{said}");
    }
    // Without the proof it is not known which of the two is the stranger.
    let disk = written(20, 2, true);
    disk.plant(&segment(2), another(20).bytes(&segment(2)).unwrap());
    disk.remove(PROOF).unwrap();
    refused(&disk, &segment(2));
}

#[test]
fn the_proof_of_another_log_is_refused() {
    let disk = written(2, 2, true);
    disk.plant(PROOF, another(2).bytes(PROOF).unwrap());
    refused(&disk, &segment(1));
}

#[test]
fn a_segment_that_is_there_twice_is_refused() {
    let disk = written(20, 2, true);
    let last = (1..).take_while(|n| disk.bytes(&segment(*n)).is_some());
    let last = last.last().unwrap();
    disk.plant(&segment(last + 1), disk.bytes(&segment(last)).unwrap());
    let said = refused(&disk, &segment(last + 1));
    assert!(
        said.contains(&format!("a copy of {}", segment(last))),
        "{said}"
    );
    disk.remove(&segment(last + 1)).unwrap();
    assert_eq!(records_of(&disk).unwrap().len(), 40);
    let swapped = written(20, 2, true);
    let (second, third) = (swapped.bytes(&segment(2)), swapped.bytes(&segment(3)));
    swapped.plant(&segment(2), third.unwrap());
    swapped.plant(&segment(3), second.unwrap());
    refused(&swapped, &segment(2));
}

/// A log that is opened three times, with records in each.
fn opened_thrice() -> Vec<SimDisk> {
    let disk = SimDisk::new();
    let states = (0..3).map(|opening| {
        let (log, _) = open(&disk).unwrap();
        assert_eq!(log.incarnation(), opening + 1);
        log.append(&push(opening)).unwrap();
        log.close().unwrap();
        disk.copy()
    });
    states.collect()
}

#[test]
fn each_opening_begins_a_segment_of_its_own() {
    let states = opened_thrice();
    for (state, number) in states.iter().zip(1..) {
        let expected: Vec<_> = (0..number).map(push).collect();
        assert_eq!(records_of(&state.copy()).unwrap(), expected);
        // An earlier segment does not change.
        for earlier in 1..number {
            let name = segment(earlier);
            assert_eq!(
                state.bytes(&name),
                states[earlier as usize - 1].bytes(&name)
            );
        }
    }
    // Openings without a record leave nothing.
    let disk = states[2].copy();
    (0..5).for_each(|_| drop(open(&disk).unwrap()));
    assert!(disk.bytes(&segment(4)).is_some() && disk.bytes(&segment(5)).is_none());
    let (log, _) = open(&disk).unwrap();
    assert_eq!(log.incarnation(), 9);
}

#[test]
fn a_segment_of_an_earlier_opening_is_refused() {
    let states = opened_thrice();
    // The third segment, as an opening before the second one would have begun it.
    let disk = states[2].copy();
    let forged = states[0].copy();
    let mut bytes = forged.bytes(&segment(1)).unwrap();
    bytes[12] = 3;
    let crc = crc32c::crc32c(&bytes[..60]).to_le_bytes();
    bytes[60..64].copy_from_slice(&crc);
    disk.plant(&segment(3), bytes);
    let said = refused(&disk, &segment(3));
    assert!(said.contains("opening 1 of the log began it"), "{said}");
}

#[test]
fn a_newest_segment_from_before_the_last_opening_is_refused() {
    let disk = SimDisk::new();
    drop(open(&disk).unwrap());
    let old = disk.bytes(&segment(1)).unwrap();
    // It takes the place of the first one, which holds no record.
    drop(open(&disk).unwrap());
    disk.plant(&segment(1), old);
    let said = refused(&disk, &segment(1));
    assert!(said.contains("opened 2 times"), "{said}");
}

#[test]
fn bytes_of_an_earlier_opening_or_another_log_never_read_as_this_one() {
    // Frames that stand where this log would write them, of a log with another identity.
    let (disk, other) = (written(3, 2, false), another(3));
    let own = disk.bytes(&segment(1)).unwrap();
    let behind = other.bytes(&segment(1)).unwrap();
    assert_eq!(own[..28], behind[..28]);
    let header_and_group: Vec<u8> = own[..64].to_vec();
    disk.plant(
        &segment(1),
        [header_and_group, behind[64..].to_vec()].concat(),
    );
    disk.remove(PROOF).unwrap();
    let later: Vec<String> = disk.names();
    later
        .iter()
        .filter(|name| **name != segment(1))
        .for_each(|name| disk.remove(name).unwrap());
    assert_eq!(records_of(&disk).unwrap(), []);
}

#[test]
fn a_folder_that_was_copied_while_it_was_written_is_refused() {
    let disk = SimDisk::new();
    let (log, _) = open(&disk).unwrap();
    let copy = SimDisk::new();
    log.append(&push(0)).unwrap();
    log.wait_durable(log.end()).unwrap();
    copy.plant(&segment(1), disk.bytes(&segment(1)).unwrap());
    for number in 1..10 {
        log.append(&push(number)).unwrap();
        log.wait_durable(log.end()).unwrap();
    }
    log.close().unwrap();
    for name in disk.names().iter().filter(|name| **name != segment(1)) {
        copy.plant(name, disk.bytes(name).unwrap());
    }
    let error = records_of(&copy).unwrap_err();
    assert!(matches!(error, LogError::Damaged { .. }), "{error}");
    assert!(error.to_string().contains(&segment(1)), "{error}");
    // The same if the segments that came later were not copied.
    let short = SimDisk::new();
    short.plant(&segment(1), copy.bytes(&segment(1)).unwrap());
    short.plant(PROOF, disk.bytes(PROOF).unwrap());
    let error = records_of(&short).unwrap_err();
    assert!(matches!(error, LogError::Short { .. }), "{error}");
}
