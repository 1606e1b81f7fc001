//! A query takes the place of another: which closes each of them has, what is refused, and that a
//! replay ends the same. That members of cohorts do as they would alone is in `cohorts`.

use crate::harness::{Driver, derived, stream, was_repeat, windows};
use somersault_log::Command;
use somersault_model::{Millis, QueryUid};
use somersault_stream::Record;
use somersault_stream::{
    Admission, Output, QueryChange, QueryDeclaration, QueryEvent, Refusal, RefusalKind, Repeat,
};

const A: &str = "http://a/";
const B: &str = "http://b/";
const D: &str = "http://d/";

fn uid(driver: &Driver, name: &str) -> QueryUid {
    driver.coordinator.query(name).unwrap().uid
}

/// The closes that were executed for a registration.
fn closes_of(driver: &Driver, uid: QueryUid) -> Vec<i64> {
    let own = driver.seen.iter().filter(|seen| seen.firing.query == uid);
    own.map(|seen| seen.firing.close.0).collect()
}

fn deriving(iri: &str, of: &[(&str, i64, i64)]) -> QueryDeclaration {
    QueryDeclaration {
        derives: Some(derived(iri)),
        ..windows(of)
    }
}

#[test]
fn the_old_query_has_the_due_closes_and_the_new_one_the_later_ones() {
    let mut driver = Driver::with_streams(&[A]);
    driver.register("q", windows(&[(A, 40, 20)])).unwrap();
    let old = uid(&driver, "q");
    driver.push(A, &[(1, 1), (21, 2)]).unwrap();
    driver.stable_at_once = false;
    driver.push(A, &[(45, 3)]).unwrap();
    driver.replace("q", windows(&[(A, 20, 10)])).unwrap();
    let new = uid(&driver, "q");
    assert_ne!(old, new);
    let dropped = |driver: &Driver| {
        let of_old = |it: &&Output| matches!(it, Output::Query(QueryEvent { cohort, change: QueryChange::Ended }) if *cohort == old);
        driver.decided.iter().filter(of_old).count()
    };
    assert_eq!(dropped(&driver), 0, "40 is due and not answered");
    driver.advance(&[(A, 62)]).unwrap();
    driver.stable_at_once = true;
    driver.stabilise();
    assert_eq!(closes_of(&driver, old), [20, 40]);
    assert_eq!(closes_of(&driver, new), [50, 60], "45 was complete already");
    assert!(driver.cancelled.is_empty(), "{:?}", driver.cancelled);
    assert_eq!(dropped(&driver), 1);
    assert_eq!(driver.content("q", 50), [[3]]);
    // The old query's member is gone for good: DROP finds the new one under the name.
    driver.drop_query("q");
    assert_eq!(dropped(&driver), 1);
}

#[test]
fn closes_that_wait_for_a_stream_go_to_the_new_one() {
    let mut driver = Driver::with_streams(&[A, B]);
    let both = |range| windows(&[(A, range, 20), (B, 20, 20)]);
    driver.register("q", both(20)).unwrap();
    driver.advance(&[(A, 0), (B, 0)]).unwrap();
    driver
        .push(A, &[(15, 1), (35, 2), (55, 3), (101, 4)])
        .unwrap();
    driver.push(B, &[(25, 11)]).unwrap();
    // A query registered now starts after the closes that A has passed, and gets none of the old
    // query's.
    driver.register("late", both(20)).unwrap();
    let old = uid(&driver, "q");
    driver.replace("q", both(40)).unwrap();
    driver.drop_query("late");
    driver.register("later", both(20)).unwrap();
    driver.replace("q", both(60)).unwrap();
    let first = driver.coordinator.query("q").unwrap().next_close;
    assert_eq!(first.map(|it| it.0), Some(40));
    driver.push(B, &[(66, 12), (121, 13)]).unwrap();
    driver.advance(&[(A, 121)]).unwrap();
    assert_eq!(closes_of(&driver, old), [20]);
    assert_eq!(driver.closes("q"), [40, 60, 80, 100, 120]);
    assert_eq!(driver.content("q", 40), [vec![1, 2], vec![11]]);
    assert_eq!(driver.content("q", 60), [vec![1, 2, 3], vec![]]);
    assert_eq!(driver.closes("later"), [120]);
}

#[test]
fn a_paused_one_is_replaced_by_one_that_runs() {
    let mut driver = Driver::with_streams(&[A]);
    driver.register("q", windows(&[(A, 20, 20)])).unwrap();
    driver.push(A, &[(1, 1), (21, 2)]).unwrap();
    driver.pause("q");
    driver.push(A, &[(65, 3)]).unwrap();
    let declaration = || windows(&[(A, 40, 20)]);
    driver.replace("q", declaration()).unwrap();
    driver.push(A, &[(81, 4)]).unwrap();
    assert_eq!(driver.closes("q"), [80]);
    // The same text changes nothing, and does not let it go on either.
    driver.pause("q");
    let end = driver.log.len();
    let again = driver.replace("q", declaration()).unwrap();
    assert!(was_repeat(&again, Repeat::Query(uid(&driver, "q"))));
    assert_eq!(driver.log.len(), end);
    assert!(driver.coordinator.query("q").unwrap().paused);
}

#[test]
fn without_one_of_its_name_it_is_registered() {
    let mut driver = Driver::with_streams(&[A]);
    let admitted = driver.replace("q", windows(&[(A, 20, 20)])).unwrap();
    let Admission::Record(Record::Command(command)) = admitted else {
        panic!("it is logged")
    };
    assert!(matches!(
        command.record().command,
        Command::RegisterQuery { .. }
    ));
    assert_eq!(command.record().resolved.replaced, None);
}

#[test]
fn a_refused_one_leaves_the_old_one_alone() {
    let mut driver = Driver::with_streams(&[A]);
    driver.register(D, deriving(D, &[(A, 20, 20)])).unwrap();
    driver.register("q", windows(&[(D, 20, 20)])).unwrap();
    driver.push(A, &[(21, 1)]).unwrap();
    let before = (
        driver.log.len(),
        format!("{:?}", driver.coordinator.queries()),
    );
    let mut refused = |name: &str, declaration| {
        let refusal: Refusal = driver.replace(name, declaration).unwrap_err();
        let now = (
            driver.log.len(),
            format!("{:?}", driver.coordinator.queries()),
        );
        assert_eq!(now, before, "{refusal}");
        refusal
    };
    let unknown = refused("q", windows(&[(B, 20, 20)]));
    assert!(matches!(unknown, Refusal::WindowOnUnknownStream { .. }));
    let odd = refused("q", windows(&[(A, 25, 5)]));
    assert!(matches!(odd, Refusal::BatchDoesNotDivide { .. }));
    let in_use = refused(D, deriving(D, &[(A, 40, 20)]));
    assert_eq!(in_use.kind(), RefusalKind::Conflict);
    assert!(in_use.to_string().contains("windowed by q"), "{in_use}");
    let taken = refused("q", deriving(A, &[(D, 20, 20)]));
    let text = taken.to_string();
    assert!(matches!(taken, Refusal::DerivationCycle { .. }), "{text}");
    driver.drop_query("q");
    let before = driver.log.len();
    for (declaration, says) in [
        (windows(&[(D, 20, 20)]), "ends with that one"),
        (deriving(D, &[(D, 20, 20)]), "ends with that one"),
    ] {
        let refusal = driver.replace(D, declaration).unwrap_err();
        assert_eq!(refusal.kind(), RefusalKind::Conflict);
        assert!(refusal.to_string().contains(says), "{refusal}");
    }
    assert_eq!(driver.log.len(), before);
    assert!(driver.coordinator.stream(D).is_some());
}

/// Its members would fire after a time that their streams have yet to reach, and a resumed member
/// after an earlier one.
#[test]
fn one_whose_streams_are_behind_is_refused() {
    let mut driver = Driver::with_streams(&[A, B]);
    driver.register("q", windows(&[(A, 20, 20)])).unwrap();
    driver.register("other", windows(&[(B, 20, 20)])).unwrap();
    driver.push(A, &[(1, 1), (101, 2)]).unwrap();
    for behind in [None, Some(41)] {
        if let Some(at) = behind {
            driver.advance(&[(B, at)]).unwrap();
        }
        let before = driver.log.len();
        let refusal = driver.replace("q", windows(&[(B, 20, 20)])).unwrap_err();
        assert_eq!(refusal.kind(), RefusalKind::Conflict);
        let says = "has answered closes up to 101";
        assert!(refusal.to_string().contains(says), "{refusal}");
        assert_eq!(driver.log.len(), before);
    }
    driver.advance(&[(B, 121)]).unwrap();
    let old = uid(&driver, "q");
    driver.replace("q", windows(&[(B, 20, 20)])).unwrap();
    let new = uid(&driver, "q");
    for name in ["q", "other"] {
        driver.pause(name);
        driver.resume(name);
    }
    driver.advance(&[(B, 161)]).unwrap();
    assert_eq!(closes_of(&driver, old), [20, 40, 60, 80, 100]);
    assert_eq!(closes_of(&driver, new), [140, 160]);
}

#[test]
fn a_derived_stream_ends_with_the_old_query_and_begins_again() {
    let mut driver = Driver::with_streams(&[A]);
    driver.register(D, deriving(D, &[(A, 20, 20)])).unwrap();
    driver.push(A, &[(1, 1), (25, 2)]).unwrap();
    let before = driver.coordinator.stream(D).unwrap();
    assert_eq!(before.statements, 1);
    driver.replace(D, deriving(D, &[(A, 40, 10)])).unwrap();
    let after = driver.coordinator.stream(D).unwrap();
    assert_ne!(before.uid, after.uid);
    assert_eq!(
        (before.declaration.batch, after.declaration.batch),
        (Millis(20), Millis(10))
    );
    assert_eq!(
        (after.watermark, after.derived_by.as_deref()),
        (None, Some(D))
    );
    driver.register("q", windows(&[(D, 10, 10)])).unwrap();
    driver.push(A, &[(45, 3)]).unwrap();
    assert_eq!(driver.closes(D), [30, 40]);
    assert_eq!(driver.content("q", 40), [[1, 2]]);
    // Replaced by a query that derives nothing, the derived stream ends.
    driver.drop_query("q");
    driver.replace(D, windows(&[(A, 40, 10)])).unwrap();
    assert!(driver.coordinator.stream(D).is_none());
}

#[test]
fn a_dropped_stream_discards_the_last_firings() {
    let mut driver = Driver::with_streams(&[A, B]);
    driver.register("q", windows(&[(A, 20, 20)])).unwrap();
    driver.push(A, &[(1, 1)]).unwrap();
    driver.stable_at_once = false;
    driver.push(A, &[(25, 2)]).unwrap();
    driver.advance(&[(B, 30)]).unwrap();
    driver.replace("q", windows(&[(B, 20, 20)])).unwrap();
    driver.drop_stream(A).unwrap();
    driver.stable_at_once = true;
    driver.stabilise();
    assert_eq!(driver.cancelled.len(), 1);
    let dropped =
        |it: &&Output| matches!(it, Output::Query(event) if event.change == QueryChange::Ended);
    assert_eq!(driver.decided.iter().filter(dropped).count(), 1);
}

#[test]
fn a_crash_after_any_record_ends_the_same() {
    let run = |driver: &mut Driver, steps: std::ops::Range<usize>| {
        for step in steps {
            match step {
                0 => driver.create(stream(A)).map(drop),
                1 => driver.register("q", windows(&[(A, 20, 20)])).map(drop),
                2 => driver.push(A, &[(1, 1), (41, 2)]).map(drop),
                3 => driver.replace("q", windows(&[(A, 40, 10)])).map(drop),
                4 => driver.push(A, &[(72, 3)]).map(drop),
                _ => driver.replace("q", windows(&[(A, 10, 10)])).map(drop),
            }
            .unwrap();
        }
    };
    let mut whole = Driver::new();
    run(&mut whole, 0..6);
    let closes = |driver: &Driver| {
        let seen = driver.seen.iter();
        let mut all: Vec<_> = seen
            .map(|seen| (seen.firing.query, seen.firing.close, seen.windows.clone()))
            .collect();
        all.sort();
        all
    };
    let expected = closes(&whole);
    for cut in 0..=whole.log.len() {
        let recovered = Driver::recovered(&whole.world, &whole.log[..cut]);
        let again = closes(&recovered);
        let so_far = expected.iter().filter(|it| again.contains(it)).count();
        assert_eq!(
            so_far,
            again.len(),
            "no firing that the run has not, at {cut}"
        );
        let status = recovered.coordinator.query("q").map(|it| it.uid);
        let registrations = whole.log[..cut].iter().filter(
            |record| matches!(record, Record::Command(it) if it.record().resolved.query.is_some()),
        );
        assert_eq!(
            status,
            registrations
                .count()
                .checked_sub(1)
                .map(|n| QueryUid(n as u64 + 1))
        );
    }
    assert_eq!(
        closes(&Driver::recovered(&whole.world, &whole.log)),
        expected
    );
}
