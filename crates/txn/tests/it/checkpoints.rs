//! The saved form: versions, damage, records that contradict each other. That a restored core goes
//! on as the saved one would is in `laws`.

use crate::driver::*;
use crate::laws::thawed;
use proptest::prelude::*;
use somersault_txn::{Core, Key, OnAbort, RestoreError, SavedRecord};

/// A core with something of everything.
fn full() -> Core {
    let window = owning(
        procedure("a", &[(1, messages(2))], &[3]),
        "w",
        1,
        last(3, 1),
        &[],
    );
    let timed = owning(
        procedure("b", &[(3, span(10))], &[]),
        "v",
        3,
        range(20, 5),
        &[],
    );
    let acts = vec![
        pushed(1),
        interior(3),
        create(window),
        create(timed),
        create(procedure("deposit", &[], &[])),
        create(procedure("alone", &[(1, messages(3))], &[])),
        dataflow("d", vec![one("a"), one("b")], OnAbort::Stop),
    ];
    let mut driver = after(aborting(&[("a", 6), ("alone", 3)]), acts);
    for at in 1..=9 {
        driver.act(&Act::Message(1, at * 4)).expect("it is taken");
    }
    driver.act(&Act::Complete(1, 20)).expect("it is taken");
    for act in [Act::Settle, Act::Advance, Act::Settle] {
        driver.act(&act).expect("it runs");
    }
    let source = "till".to_owned();
    driver
        .call("deposit", Some(Key { source, number: 4 }), 5)
        .expect("it runs");
    driver.core
}

fn restore(records: Vec<SavedRecord>) -> Result<Core, RestoreError> {
    Core::restore(records.into_iter().map(Ok))
}

#[test]
fn everything_is_saved() {
    let core = full();
    let kinds: std::collections::BTreeSet<String> = (core.freeze().iter())
        .map(|record| {
            format!("{record:?}")
                .chars()
                .take_while(|letter| letter.is_alphabetic())
                .collect()
        })
        .collect();
    println!("{kinds:?}");
    assert!(kinds.len() >= 14, "{kinds:?}");
    assert_eq!(thawed(&core).freeze(), core.freeze());
}

#[test]
fn a_missing_or_repeated_record_is_noticed() {
    let records = full().freeze();
    for at in 0..records.len() {
        let mut fewer = records.clone();
        fewer.remove(at);
        restore(fewer).expect_err("a record is missing");
        let mut more = records.clone();
        more.insert(at, records[at].clone());
        restore(more).expect_err("a record is there twice");
    }
}

#[test]
fn a_newer_version_is_named() {
    let mut records = full().freeze();
    let SavedRecord::Counts(version, ..) = &mut records[0] else {
        unreachable!("it is the first record");
    };
    *version = 2;
    let error = restore(records).expect_err("it is newer");
    assert_eq!(error, RestoreError::Newer { found: 2, known: 1 });
}

/// The records of version 1, one a line, are read on, and written the same.
#[test]
fn version_1_is_read() {
    let hex = |record: &SavedRecord| -> String {
        let bytes = record.to_bytes();
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    };
    let lines: Vec<String> = full().freeze().iter().map(hex).collect();
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/core-v1.hex");
        std::fs::write(path, lines.join("\n") + "\n").expect("the fixture is written");
        return;
    }
    let golden: Vec<&str> = include_str!("core-v1.hex").lines().collect();
    assert_eq!(lines, golden);
    let bytes = |line: &&str| -> Vec<u8> {
        let digits = (0..line.len()).step_by(2).map(|at| &line[at..at + 2]);
        digits
            .map(|digits| u8::from_str_radix(digits, 16).expect("it is hex"))
            .collect()
    };
    let read = golden
        .iter()
        .map(|line| SavedRecord::from_bytes(&bytes(line)));
    let core = Core::restore::<RestoreError>(read).expect("it is whole");
    assert_eq!(core.freeze(), full().freeze());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// Altered records restore to a core that goes on, or end in a sentence.
    #[test]
    fn altered_records_end_in_a_sentence_or_a_core(
        changes in proptest::collection::vec((any::<u16>(), any::<u16>(), any::<u8>()), 1..4),
    ) {
        let mut records: Vec<Vec<u8>> = full().freeze().iter().map(SavedRecord::to_bytes).collect();
        for (record, byte, value) in changes {
            let count = records.len();
            let record = &mut records[usize::from(record) % count];
            let length = record.len();
            record[usize::from(byte) % length] = value;
        }
        let read = records.iter().map(|bytes| SavedRecord::from_bytes(bytes));
        if let Ok(core) = Core::restore::<RestoreError>(read) {
            let mut driver = Driver::new(passing());
            driver.core = core;
            let _ = driver.core.next();
            let _ = driver.core.advances();
            let again = Core::restore::<RestoreError>(driver.core.freeze().into_iter().map(Ok));
            prop_assert_eq!(again.expect("it is whole").freeze(), driver.core.freeze());
        }
    }
}
