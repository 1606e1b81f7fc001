//! The limit on times that lie ahead (AHEAD).

use crate::harness::{Driver, stream, was_logged, was_repeat, windows};
use somersault_lang::{AheadLimit, LatePolicy, TimeDomain};
use somersault_model::Millis;
use somersault_stream::{Admission, Input, Refusal, Repeat, StreamLimits};

const A: &str = "http://a/";
const DAY: i64 = 86_400_000;
/// 2026-03-01T12:00:00Z
const NOW: i64 = 1_772_366_400_000;

/// A day ahead is the limit, and the clock stands at [`NOW`].
fn driver(ahead: AheadLimit) -> Driver {
    let mut driver = Driver::limited(StreamLimits {
        ahead: Some(Millis(DAY)),
        ..StreamLimits::default()
    });
    driver.now_ms = NOW;
    let mut declaration = stream(A);
    declaration.ahead = ahead;
    driver.create(declaration).unwrap();
    driver
}

#[test]
fn one_wrong_time_does_not_stop_a_stream() {
    let mut driver = driver(AheadLimit::Default);
    driver.push(A, &[(NOW, 1)]).unwrap();
    // A source that sends microseconds, and one whose clock is a year ahead.
    for wrong in [9_223_372_036_854_774, NOW + 365 * DAY, NOW + DAY + 1] {
        let refusal = driver.push(A, &[(NOW, 2), (wrong, 3)]).unwrap_err();
        let refusal = refusal.to_string();
        assert!(refusal.contains("statement 2 of the push"), "{refusal}");
        assert!(refusal.contains("<http://s/3>"), "{refusal}");
        assert!(refusal.contains("more than 1d ahead"), "{refusal}");
        assert!(refusal.contains("2026-03-01T12:00:00Z"), "{refusal}");
        assert!(refusal.contains("AHEAD ANY"), "{refusal}");
        assert!(driver.advance(&[(A, wrong)]).is_err());
    }
    assert!(was_logged(
        &driver.push(A, &[(NOW, 4), (NOW + DAY, 5)]).unwrap()
    ));
    // The newest time counts as well as the clock: grouping into pushes does not matter.
    assert!(was_logged(&driver.push(A, &[(NOW + 2 * DAY, 6)]).unwrap()));
    assert!(was_logged(&driver.advance(&[(A, NOW + 3 * DAY)]).unwrap()));
}

#[test]
fn a_first_time_beyond_a_hundred_years_is_refused() {
    let mut driver = driver(AheadLimit::Default);
    let refusal = driver.push(A, &[(9_223_372_036_854_774, 1)]).unwrap_err();
    let refusal = refusal.to_string();
    assert!(refusal.contains("294247-01-10T"), "{refusal}");
    assert!(
        refusal.contains("more than 36525d ahead of the clock"),
        "{refusal}"
    );
    assert!(driver.advance(&[(A, 9_223_372_036_854_774)]).is_err());
}

#[test]
fn recorded_data_of_the_past_and_of_the_future_is_taken() {
    let mut past = driver(AheadLimit::Default);
    for year in [1970, 1990, 2010, 2026] {
        past.push(A, &[((year - 1970) * 365 * DAY, 1)]).unwrap();
    }
    let mut future = driver(AheadLimit::Default);
    for day in 0..10 {
        future.push(A, &[(NOW + (9_000 + day) * DAY, 1)]).unwrap();
    }
}

#[test]
fn ahead_of_a_stream_overrides_the_default() {
    let mut wide = driver(AheadLimit::Within(Millis(400 * DAY)));
    wide.push(A, &[(NOW, 1), (NOW + 365 * DAY, 2)]).unwrap();
    assert!(wide.push(A, &[(NOW + 800 * DAY, 3)]).is_err());
    let mut any = driver(AheadLimit::Any);
    any.push(A, &[(NOW, 1), (9_223_372_036_854_774, 2)])
        .unwrap();
}

#[test]
fn a_clock_that_jumps_is_not_refused() {
    let mut driver = driver(AheadLimit::Default);
    let mut arrival = stream("http://b/");
    arrival.time = TimeDomain::Arrival;
    driver.create(arrival).unwrap();
    driver.push("http://b/", &[(0, 1)]).unwrap();
    driver.now_ms += 365 * DAY;
    assert!(was_logged(&driver.push("http://b/", &[(0, 2)]).unwrap()));
}

#[test]
fn an_absurd_lateness_is_not_recommended() {
    let mut driver = driver(AheadLimit::Any);
    driver.push(A, &[(NOW + 400 * DAY, 1)]).unwrap();
    let late = driver.push(A, &[(NOW, 2)]).unwrap_err().to_string();
    assert!(late.contains("400 days earlier"), "{late}");
    assert!(late.contains("reset-time"), "{late}");
    assert!(!late.contains("LATENESS"), "{late}");
    let late = driver.push(A, &[(NOW + 400 * DAY - 7, 2)]).unwrap_err();
    assert!(
        late.to_string().contains("a LATENESS of at least 7ms"),
        "{late}"
    );
}

#[test]
fn a_replay_asks_for_no_limit() {
    let mut driver = driver(AheadLimit::Any);
    let mut late = stream("http://b/");
    late.late_policy = LatePolicy::Drop;
    late.ahead = AheadLimit::Any;
    driver.create(late).unwrap();
    driver
        .push("http://b/", &[(NOW, 1), (NOW + 500 * DAY, 2)])
        .unwrap();
    // The log is replayed with another limit.
    let mut replayed = Driver::recovered(&driver.world, &driver.log);
    replayed.coordinator = std::mem::take(&mut replayed.coordinator).with_limits(StreamLimits {
        ahead: Some(Millis(1)),
        closes_at_once: 1,
    });
    let time = |driver: &Driver| driver.coordinator.stream("http://b/").unwrap().watermark;
    assert_eq!(time(&replayed), time(&driver));
}

fn reset(driver: &mut Driver, iri: &str) -> Result<Admission, Refusal> {
    driver.input(Input::ResetStream {
        received_ms: driver.now_ms,
        iri: iri.to_owned(),
    })
}

#[test]
fn a_stream_that_a_clock_has_carried_away_begins_again() {
    let mut driver = driver(AheadLimit::Default);
    let mut arrival = stream("http://b/");
    arrival.time = TimeDomain::Arrival;
    driver.create(arrival).unwrap();
    let push = |driver: &mut Driver, seq: u64, name: &str| {
        driver.push_from("http://b/", "x", Some(seq), vec![(0, seq, name)])
    };
    push(&mut driver, 1, "reading").unwrap();
    let ahead = |driver: &Driver| {
        let clock = driver.coordinator.clock_of("http://b/").unwrap();
        clock.ahead_of_clock(driver.now_ms)
    };
    assert_eq!(ahead(&driver), None);
    // A year ahead for a moment.
    driver.now_ms += 365 * DAY;
    push(&mut driver, 2, "fact").unwrap();
    driver.now_ms = NOW + 1_000;
    push(&mut driver, 3, "reading").unwrap();
    let by = Millis(365 * DAY - 1_000);
    assert_eq!(ahead(&driver), Some(by));
    let through = |driver: &Driver| {
        let status = driver.coordinator.stream("http://b/").unwrap();
        status.watermark.map(|time| time.0)
    };
    assert_eq!(through(&driver), Some(NOW + 365 * DAY));

    driver
        .register("q", windows(&[("http://b/", 100, 100)]))
        .unwrap();
    let refusal = reset(&mut driver, "http://b/").unwrap_err().to_string();
    assert!(refusal.contains("windowed by q"), "{refusal}");
    driver.drop_query("q");
    let before = driver.coordinator.stream("http://b/").unwrap();
    assert!(was_logged(&reset(&mut driver, "http://b/").unwrap()));
    assert_eq!(through(&driver), None);
    driver.freshness_cut();
    let status = driver.coordinator.stream("http://b/").unwrap();
    assert_eq!(status.statements, before.statements);
    assert_eq!(status.held_statements, 0);
    assert_ne!(status.uid, before.uid);

    driver
        .register("q", windows(&[("http://b/", 100, 100)]))
        .unwrap();
    assert!(was_repeat(
        &push(&mut driver, 3, "reading").unwrap(),
        Repeat::Push
    ));
    push(&mut driver, 4, "reading").unwrap();
    driver.now_ms += 1_000;
    push(&mut driver, 5, "reading").unwrap();
    assert_eq!(through(&driver), Some(driver.now_ms));
    assert_eq!(driver.content("q", NOW + 1_100), [[4]]);
    // An acknowledged statement of a timeless stream is a fact.
    let close = *driver.closes("q").last().unwrap();
    assert!(driver.at("q", close).stored.contains(&2));
    let replayed = Driver::recovered(&driver.world, &driver.log);
    assert_eq!(through(&replayed), through(&driver));
    assert!(replayed.decided == driver.decided);
}

#[test]
fn one_wrong_time_that_was_taken_is_undone_by_a_reset() {
    let mut driver = driver(AheadLimit::Any);
    driver.push(A, &[(NOW, 1), (NOW + 400 * DAY, 2)]).unwrap();
    assert!(driver.push(A, &[(NOW + 1, 3)]).is_err());
    reset(&mut driver, A).unwrap();
    driver.push(A, &[(NOW + 1, 3)]).unwrap();
    assert!(reset(&mut driver, "http://nowhere/").is_err());
}
