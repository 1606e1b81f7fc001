//! Derived streams: what they hold and when, what amends them, and that a firing's statements are
//! taken once.

use crate::harness::{Driver, Seen, amended_stream, derived, over, statement, was_repeat, windows};
use somersault_lang::Extent;
use somersault_model::{EventTime, Millis};
use somersault_stream::Record;
use somersault_stream::{Admission, Input, QueryDeclaration, RefusalKind, Repeat};
use std::collections::{BTreeMap, BTreeSet};

const A: &str = "http://a/";
const D: &str = "http://d/";
const E: &str = "http://e/";

/// A query over windows (stream, RANGE, STEP) whose answers make a stream.
fn deriving(iri: &str, of: &[(&str, i64, i64)]) -> QueryDeclaration {
    QueryDeclaration {
        derives: Some(derived(iri)),
        ..windows(of)
    }
}

/// With a stream that may be amended.
fn amended(within: i64) -> Driver {
    let mut driver = Driver::new();
    driver.create(amended_stream(A, within)).unwrap();
    driver
}

fn watermark(driver: &Driver, iri: &str) -> Option<i64> {
    let status = driver.coordinator.stream(iri).unwrap();
    status.watermark.map(|time| time.0)
}

#[test]
fn derived_statements_have_the_time_of_the_close_and_advance_the_stream_to_the_next() {
    let mut driver = Driver::with_streams(&[A]);
    driver.register(D, deriving(D, &[(A, 40, 20)])).unwrap();
    driver.register("q", windows(&[(D, 40, 20)])).unwrap();
    assert_eq!(
        driver.coordinator.stream(D).unwrap().declaration.batch,
        Millis(20)
    );
    driver.advance(&[(A, 0)]).unwrap();
    assert_eq!(watermark(&driver, D), None, "no firing, no time");
    driver.push(A, &[(5, 1), (25, 2), (60, 3)]).unwrap();
    assert_eq!(driver.closes(D), [20, 40, 60]);
    assert_eq!(watermark(&driver, D), Some(80));
    // The statements of the firing at 20 are in windows from 40 on.
    assert_eq!(driver.closes("q"), [40, 60, 80]);
    assert_eq!(driver.content("q", 40), [vec![1]]);
    assert_eq!(driver.content("q", 60), [vec![1, 1, 2]]);
    let held_up = driver.coordinator.query("q").unwrap().waiting_for.unwrap();
    assert_eq!(
        (held_up.stream.as_str(), held_up.watermark),
        (D, Some(EventTime(80)))
    );
}

#[test]
fn the_batch_divides_all_closes() {
    let mut driver = Driver::with_streams(&[A]);
    let batch = |driver: &mut Driver, iri: &str, declaration: QueryDeclaration| {
        driver.register(iri, declaration).unwrap();
        driver.coordinator.stream(iri).unwrap().declaration.batch.0
    };
    assert_eq!(
        batch(&mut driver, D, deriving(D, &[(A, 60, 40), (A, 60, 60)])),
        20
    );
    let mut shifted = deriving(E, &[(A, 60, 60)]);
    shifted.starting_at = EventTime(90);
    assert_eq!(batch(&mut driver, E, shifted), 30);
    let mut every = deriving("http://f/", &[(A, 60, 40)]);
    every.computed_every = Some(Millis(70));
    assert_eq!(batch(&mut driver, "http://f/", every), 70);
}

#[test]
fn a_failed_or_empty_firing_moves_the_stream_and_a_repeat_does_nothing() {
    let mut driver = Driver::with_streams(&[A]);
    driver.register(D, deriving(D, &[(A, 20, 20)])).unwrap();
    driver.advance(&[(A, 0)]).unwrap();
    driver.advance(&[(A, 40)]).unwrap();
    assert_eq!(watermark(&driver, D), Some(60));
    let again = Input::Derived {
        received_ms: 0,
        key: driver.at(D, 40).firing.key(),
        statements: vec![statement(9, "reading")],
    };
    assert!(was_repeat(&driver.input(again).unwrap(), Repeat::Derived));
    // A record that is in the log all the same changes nothing either.
    let record = driver
        .log
        .iter()
        .rev()
        .find(|record| matches!(record, Record::Derived(_)));
    let Some(Record::Derived(mut doubled)) = record.cloned() else {
        panic!("a firing has come back");
    };
    doubled.statements.push(statement(9, "reading"));
    driver.record(Record::Derived(doubled));
    assert_eq!(driver.coordinator.stream(D).unwrap().statements, 0);

    // After the query has been dropped its statements are not wanted.
    let key = driver.at(D, 40).firing.key();
    driver.drop_query(D);
    assert!(
        driver.coordinator.stream(D).is_none(),
        "dropping the query ends the stream"
    );
    let late = Input::Derived {
        received_ms: 0,
        key,
        statements: Vec::new(),
    };
    assert!(!matches!(driver.input(late).unwrap(), Admission::Record(_)));
}

#[test]
fn absorbed_derived_statements_are_facts() {
    let mut driver = Driver::with_streams(&[A]);
    driver.derives = "fact";
    driver.register(D, deriving(D, &[(A, 20, 20)])).unwrap();
    driver.register("q", windows(&[(D, 20, 20)])).unwrap();
    driver.advance(&[(A, 0)]).unwrap();
    driver.push(A, &[(5, 1), (45, 2)]).unwrap();
    assert_eq!(driver.at("q", 40).stored, BTreeSet::from([1]));
}

#[test]
fn an_amended_firing_replaces_its_derived_statements_and_amends_the_next() {
    let mut driver = amended(100);
    driver.register(D, deriving(D, &[(A, 20, 20)])).unwrap();
    driver.register("q", windows(&[(D, 40, 20)])).unwrap();
    driver.advance(&[(A, 0)]).unwrap();
    driver.push(A, &[(5, 1), (25, 2), (80, 3)]).unwrap();
    assert_eq!(driver.closes("q"), [40, 60, 80, 100]);
    driver.push(A, &[(6, 7), (7, 8)]).unwrap();
    let revised: Vec<(i64, u32, Vec<u64>)> = (driver.seen.iter())
        .filter(|seen| seen.firing.revision > 0)
        .map(|seen| {
            let numbers = seen.windows[0].iter().map(|it| it.1).collect();
            (seen.firing.close.0, seen.firing.revision, numbers)
        })
        .collect();
    // One revision of the deriving query's close, and one of each close of q that has it in its
    // window.
    assert_eq!(
        revised,
        [
            (20, 1, vec![1, 7, 8]),
            (40, 1, vec![1, 7, 8]),
            (60, 1, vec![1, 7, 8, 2])
        ]
    );
    let status = driver.coordinator.stream(D).unwrap();
    assert_eq!((status.statements, status.amended), (4, 3));
}

#[test]
fn an_amended_firing_is_taken_once_even_after_its_close_is_past_amending() {
    let mut driver = amended(100);
    driver.register(D, deriving(D, &[(A, 20, 20)])).unwrap();
    driver.advance(&[(A, 0)]).unwrap();
    driver.push(A, &[(5, 1), (80, 2)]).unwrap();
    driver.push(A, &[(6, 3)]).unwrap();
    let amended = |seen: &&Seen| seen.firing.revision > 0;
    let key = driver.seen.iter().find(amended).unwrap().firing.key();
    assert_eq!((key.close, key.revision), (EventTime(20), 1));
    // Amends a close so much later that the first one is past amending.
    driver.push(A, &[(500, 4)]).unwrap();
    driver.push(A, &[(450, 5)]).unwrap();
    let before = driver.coordinator.stream(D).unwrap();
    let again = Input::Derived {
        received_ms: 0,
        key,
        statements: vec![statement(9, "reading")],
    };
    assert!(was_repeat(&driver.input(again).unwrap(), Repeat::Derived));
    let after = driver.coordinator.stream(D).unwrap();
    assert_eq!((after.late, after.amended), (before.late, before.amended));
}

#[test]
fn closes_before_an_amended_batch_is_shown_are_not_looked_at() {
    // Walked one by one, the closes between would take 10^11 steps.
    const UNTIL: i64 = 1_000_000_000_000;
    let mut driver = amended(2 * UNTIL);
    let past = Extent::Time {
        range: Millis(20),
        until: Millis(UNTIL),
        step: Some(Millis(10)),
    };
    driver.register("q", over([(A, past)])).unwrap();
    driver.advance(&[(A, 0)]).unwrap();
    driver.advance(&[(A, UNTIL + 40)]).unwrap();
    driver.push(A, &[(5, 1)]).unwrap();
    let amended: Vec<i64> = (driver.seen.iter())
        .filter(|seen| seen.firing.revision > 0)
        .map(|seen| seen.firing.close.0)
        .collect();
    assert_eq!(amended, [UNTIL + 10, UNTIL + 20]);
}

#[test]
fn memory_is_bounded_by_within_and_older_statements_are_dropped() {
    let mut driver = amended(200);
    driver.register(D, deriving(D, &[(A, 50, 10)])).unwrap();
    driver
        .register("q", windows(&[(D, 50, 10), (A, 50, 10)]))
        .unwrap();
    driver.advance(&[(A, 0)]).unwrap();
    for at in 0..2_000_i64 {
        driver.push(A, &[(at * 5, at as u64 + 1)]).unwrap();
        if at % 10 == 9 {
            driver
                .push(A, &[(at * 5 - 150, at as u64), (at * 5 - 250, 0)])
                .unwrap();
        }
        for iri in [A, D] {
            let held = driver.coordinator.stream(iri).unwrap().held_statements;
            assert!(held < 900, "{iri} holds {held} at {at}");
        }
    }
    let status = driver.coordinator.stream(A).unwrap();
    // Three of those that are late by less than WITHIN lie before the stream's beginning.
    assert_eq!((status.late, status.amended), (203, 197));
}

#[test]
fn a_late_fact_is_absorbed_even_after_its_slice_was_released() {
    let mut driver = Driver::with_streams(&["http://other/"]);
    let mut declared = amended_stream(A, 10_000);
    declared.budget_bytes = 800;
    driver.create(declared).unwrap();
    driver
        .register("q", windows(&[("http://other/", 20, 20)]))
        .unwrap();
    driver.advance(&[(A, 0), ("http://other/", 0)]).unwrap();
    for n in 1..=50 {
        driver.push(A, &[(n * 10, n as u64)]).unwrap();
        driver.freshness_cut();
    }
    // Late by less than WITHIN, and older than what the budget has kept.
    let late = vec![(15, 90, "fact"), (16, 91, "reading"), (-20_000, 92, "fact")];
    driver.push_from(A, "", None, late).unwrap();
    driver.push("http://other/", &[(40, 1)]).unwrap();
    assert_eq!(driver.at("q", 40).stored, BTreeSet::from([90]));
    let status = driver.coordinator.stream(A).unwrap();
    // A statement whose time was all there was to it is dropped, and said to be.
    assert_eq!((status.late, status.amended), (2, 1));
}

#[test]
fn a_full_derived_stream_slows_its_source_down() {
    let mut driver = Driver::with_streams(&[A, "http://other/"]);
    let mut small = deriving(D, &[(A, 10, 10)]);
    if let Some(derived) = &mut small.derives {
        derived.budget_bytes = 4_000;
    }
    driver.register(D, small).unwrap();
    driver
        .register(
            "q",
            windows(&[(D, 1_000_000, 10), ("http://other/", 10, 10)]),
        )
        .unwrap();
    driver.advance(&[(A, 0), ("http://other/", 0)]).unwrap();
    let refusal = (0..200).find_map(|n| driver.push(A, &[(n * 10, n as u64)]).err());
    let refusal = refusal.expect("the derived stream's budget is reached");
    assert_eq!(refusal.kind(), RefusalKind::Retry);
    let sentence = refusal.to_string();
    assert!(
        sentence.contains("<http://d/>") && sentence.contains("feeds it"),
        "{sentence}"
    );
    let clock = driver.coordinator.clock_of(A).unwrap();
    assert!(!clock.has_room(1));
    driver.pause("q");
    driver.freshness_cut();
    assert!(clock.has_room(1));
}

/// The statements of each window: time and number.
type Windows = Vec<Vec<(i64, u64)>>;

/// The windows of each firing, by query, close and revision.
fn by_key(driver: &Driver) -> BTreeMap<(u64, i64, u32), Windows> {
    let key = |seen: &Seen| {
        let firing = &seen.firing;
        (firing.query.0, firing.close.0, firing.revision)
    };
    driver
        .seen
        .iter()
        .map(|seen| (key(seen), seen.windows.clone()))
        .collect()
}

#[test]
fn a_crash_after_any_record_ends_as_the_run_without() {
    let mut driver = amended(100);
    driver.register(D, deriving(D, &[(A, 40, 20)])).unwrap();
    driver
        .register(E, deriving(E, &[(D, 40, 20), (A, 20, 20)]))
        .unwrap();
    driver.register("q", windows(&[(E, 40, 20)])).unwrap();
    driver.advance(&[(A, 0)]).unwrap();
    driver
        .push(A, &[(5, 1), (25, 2), (70, 3), (95, 4)])
        .unwrap();
    driver.push(A, &[(30, 5), (31, 6), (50, 7)]).unwrap();
    driver.push(A, &[(140, 8)]).unwrap();
    let whole = by_key(&driver);
    assert!(whole.keys().any(|(_, _, revision)| *revision > 0));
    let is_input = |record: &Record| !matches!(record, Record::Plan(_) | Record::Derived(_));
    let last_input = driver.log.iter().rposition(is_input).unwrap();
    for end in last_input + 1..=driver.log.len() {
        let recovered = Driver::recovered(&driver.world, &driver.log[..end]);
        assert_eq!(by_key(&recovered), whole, "after record {end}");
        let times = |driver: &Driver| [A, D, E].map(|iri| watermark(driver, iri));
        assert_eq!(times(&recovered), times(&driver));
    }
}
