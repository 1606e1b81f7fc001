//! Cases of windows, first closes, registrations, pauses and jumps, each with its sentence of
//! language.md.

use crate::harness::{Driver, amended_stream, stream, was_logged, was_repeat, windows};
use somersault_model::{EventTime, Millis};
use somersault_stream::{Output, QueryChange, QueryDeclaration, Record, Repeat};

const A: &str = "http://a/";
const B: &str = "http://b/";

#[test]
fn a_window_holds_its_range_before_the_close() {
    let mut driver = Driver::with_streams(&[A]);
    driver.register("q", windows(&[(A, 40, 20)])).unwrap();
    driver
        .push(A, &[(1, 1), (19, 2), (20, 3), (39, 4), (40, 5), (61, 6)])
        .unwrap();
    assert_eq!(driver.closes("q"), [20, 40, 60]);
    assert_eq!(driver.content("q", 20), [[1, 2]]);
    assert_eq!(driver.content("q", 40), [[1, 2, 3, 4]]);
    assert_eq!(driver.content("q", 60), [[3, 4, 5]]);
}

#[test]
fn windows_of_different_steps_show_their_latest_close() {
    let mut driver = Driver::with_streams(&[A, B]);
    driver
        .register("q", windows(&[(A, 20, 20), (B, 30, 30)]))
        .unwrap();
    driver.advance(&[(A, 0), (B, 0)]).unwrap();
    driver.push(A, &[(5, 1), (25, 2), (45, 3)]).unwrap();
    driver.push(B, &[(15, 11), (35, 12)]).unwrap();
    driver.advance(&[(A, 60), (B, 60)]).unwrap();
    assert_eq!(driver.closes("q"), [20, 30, 40, 60]);
    assert_eq!(driver.content("q", 20), [vec![1], vec![]]);
    assert_eq!(driver.content("q", 30), [vec![1], vec![11]]);
    assert_eq!(driver.content("q", 40), [vec![2], vec![11]]);
    assert_eq!(driver.content("q", 60), [vec![3], vec![12]]);
}

#[test]
fn computed_every_replaces_the_closes() {
    let mut driver = Driver::with_streams(&[A]);
    let declaration = QueryDeclaration {
        computed_every: Some(Millis(50)),
        ..windows(&[(A, 20, 20)])
    };
    driver.register("q", declaration).unwrap();
    driver.push(A, &[(30, 1), (41, 2), (100, 3)]).unwrap();
    assert_eq!(driver.closes("q"), [50, 100]);
    assert_eq!(driver.content("q", 50), [[1]]);
    assert_eq!(driver.content("q", 100), [Vec::<u64>::new()]);
}

#[test]
fn the_first_close_is_the_first_after_the_latest_time_at_registration() {
    let mut driver = Driver::with_streams(&[A, B]);
    driver.advance(&[(A, 40), (B, 75)]).unwrap();
    driver
        .register("q", windows(&[(A, 20, 20), (B, 20, 20)]))
        .unwrap();
    let Some(Record::Command(command)) = driver.log.last() else {
        panic!("a registration is a command");
    };
    let resolved = &command.record().resolved;
    assert_eq!(resolved.first_close, Some(EventTime(80)));
    assert_eq!(resolved.stream_times.len(), 2);
    assert_eq!(
        driver.coordinator.query("q").unwrap().next_close,
        Some(EventTime(80))
    );
    driver.advance(&[(A, 200), (B, 100)]).unwrap();
    assert_eq!(driver.closes("q"), [80, 100]);
    // A stream that stands exactly at a close is past it.
    driver.register("later", windows(&[(B, 20, 20)])).unwrap();
    driver.advance(&[(B, 120)]).unwrap();
    assert_eq!(driver.closes("later"), [120]);
}

#[test]
fn a_stream_without_time_begins_with_its_first_statement_not_its_first_push() {
    let mut driver = Driver::with_streams(&[A, B]);
    driver
        .register("q", windows(&[(A, 20, 20), (B, 20, 20)]))
        .unwrap();
    driver.push(A, &[(5, 1), (300, 2)]).unwrap();
    assert_eq!(driver.closes("q"), []);
    let held_up = driver.coordinator.query("q").unwrap().waiting_for.unwrap();
    assert_eq!((held_up.stream.as_str(), held_up.watermark), (B, None));
    driver.push(B, &[(31, 11), (70, 12)]).unwrap();
    assert_eq!(driver.closes("q"), [40, 60]);
    assert_eq!(driver.content("q", 40), [vec![], vec![11]]);
}

#[test]
fn a_late_statement_amends_no_close_before_the_first() {
    let mut driver = Driver::new();
    driver.create(amended_stream(A, 100)).unwrap();
    driver.create(stream(B)).unwrap();
    driver
        .register("q", windows(&[(A, 40, 20), (B, 20, 20)]))
        .unwrap();
    driver.push(A, &[(5, 1), (81, 2)]).unwrap();
    driver.advance(&[(B, 50)]).unwrap();
    driver.advance(&[(B, 81)]).unwrap();
    assert_eq!(driver.closes("q"), [60, 80]);
    // The window of the close at 40 would hold it too, but B began after that close.
    driver.push(A, &[(31, 3)]).unwrap();
    driver.freshness_cut();
    assert_eq!(driver.closes("q"), [60, 80, 60]);
}

#[test]
fn a_query_names_the_stream_that_it_waits_for_and_since_when() {
    let mut driver = Driver::with_streams(&[A, B]);
    driver
        .register("q", windows(&[(A, 20, 20), (B, 20, 20)]))
        .unwrap();
    driver.now_ms = 1_000;
    driver.advance(&[(A, 0), (B, 0)]).unwrap();
    driver.now_ms = 2_000;
    driver.push(A, &[(50, 1)]).unwrap();
    let status = driver.coordinator.query("q").unwrap();
    let held_up = status.waiting_for.unwrap();
    assert_eq!(held_up.stream, B);
    assert_eq!(held_up.watermark, Some(EventTime(0)));
    assert_eq!(held_up.since_ms, Some(1_000));
    assert_eq!(status.next_close, Some(EventTime(20)));
    let reached: Vec<_> = (status.streams.iter())
        .map(|reached| (reached.stream.as_str(), reached.watermark))
        .collect();
    assert_eq!(reached, [(A, Some(EventTime(50))), (B, Some(EventTime(0)))]);
    // Also one that has no other stream to be compared with.
    driver.register("alone", windows(&[(A, 20, 20)])).unwrap();
    let alone = driver.coordinator.query("alone").unwrap();
    assert_eq!(alone.next_close, Some(EventTime(60)));
    assert_eq!(alone.waiting_for.unwrap().since_ms, Some(2_000));
    driver.pause("alone");
    assert_eq!(driver.coordinator.query("alone").unwrap().waiting_for, None);
}

#[test]
fn a_window_beyond_keep_reports_its_complete_from() {
    let mut driver = Driver::with_streams(&[A]);
    // KEEP is 100ms.
    for at in 0..100 {
        driver.push(A, &[(at * 10, at as u64)]).unwrap();
        driver.freshness_cut();
    }
    driver.register("q", windows(&[(A, 500, 10)])).unwrap();
    driver.advance(&[(A, 1500)]).unwrap();
    let seen = driver.at("q", 1000);
    let complete_from = seen.firing.complete_from.unwrap();
    assert!(
        complete_from <= EventTime(890),
        "KEEP is kept: {complete_from:?}"
    );
    let expected: Vec<u64> = (complete_from.0 as u64 / 10..100).collect();
    assert_eq!(driver.content("q", 1000), [expected]);
    assert_eq!(driver.at("q", 1500).firing.complete_from, None);
}

#[test]
fn a_year_of_empty_closes_is_skipped_and_counted() {
    let year = 365 * 24 * 3600 * 1000;
    let mut driver = Driver::with_streams(&[A]);
    driver.register("q", windows(&[(A, 100, 10)])).unwrap();
    driver.push(A, &[(5, 1)]).unwrap();
    driver.push(A, &[(year + 5, 2)]).unwrap();
    let closes = driver.closes("q");
    assert_eq!(closes[..10], [10, 20, 30, 40, 50, 60, 70, 80, 90, 100]);
    assert_eq!(closes[10..], [year], "the newest due close always fires");
    let passed = driver.decided.iter().find_map(|output| match output {
        Output::Query(event) => match event.change {
            QueryChange::Passed { first, last, count } => Some((first.0, last.0, count)),
            _ => None,
        },
        _ => None,
    });
    let count = (year as u64 - 10 - 110) / 10 + 1;
    assert_eq!(passed, Some((110, year - 10, count)));
    assert_eq!(driver.coordinator.query("q").unwrap().skipped_empty, count);
    driver.advance(&[(A, year + 10)]).unwrap();
    assert_eq!(driver.content("q", year + 10), [[2]]);
}

#[test]
fn at_a_normal_pace_empty_closes_fire() {
    let mut driver = Driver::with_streams(&[A]);
    driver.register("q", windows(&[(A, 10, 10)])).unwrap();
    driver.advance(&[(A, 0)]).unwrap();
    driver.advance(&[(A, 640)]).unwrap();
    assert_eq!(driver.closes("q").len(), 64);
    for at in 65..=200 {
        driver.advance(&[(A, at * 10)]).unwrap();
    }
    assert_eq!(driver.closes("q").len(), 200);
}

#[test]
fn a_sampling_window_does_not_stop_a_jump() {
    let mut driver = Driver::with_streams(&[A]);
    // Sees one batch in a thousand; the statements lie in those that it does not see.
    driver.register("q", windows(&[(A, 10, 10_000)])).unwrap();
    let statements: Vec<(i64, u64)> = (0..5_000).map(|at| (at * 1_000 + 5, at as u64)).collect();
    driver.push(A, &statements).unwrap();
    driver.advance(&[(A, 5_000_000)]).unwrap();
    assert_eq!(driver.closes("q"), [4_990_000, 5_000_000]);
}

#[test]
fn a_paused_query_fires_again_from_the_first_close_after_resuming() {
    let mut driver = Driver::with_streams(&[A]);
    driver.register("q", windows(&[(A, 20, 20)])).unwrap();
    driver.push(A, &[(1, 1), (25, 2)]).unwrap();
    driver.pause("q");
    assert!(driver.coordinator.query("q").unwrap().paused);
    driver.push(A, &[(95, 3)]).unwrap();
    driver.resume("q");
    driver.push(A, &[(120, 4)]).unwrap();
    assert_eq!(driver.closes("q"), [20, 100, 120]);
    assert_eq!(driver.content("q", 100), [[3]]);
    let status = driver.coordinator.query("q").unwrap();
    assert_eq!(status.passed_while_paused, 3);
    assert_eq!(status.firings, 3);
}

#[test]
fn pausing_a_paused_query_and_resuming_a_running_one_change_nothing() {
    let mut driver = Driver::with_streams(&[A]);
    driver.register("q", windows(&[(A, 20, 20)])).unwrap();
    driver.resume("q");
    driver.pause("q");
    let logged = driver.log.len();
    driver.pause("q");
    assert_eq!(driver.log.len(), logged);
}

#[test]
fn a_query_that_is_dropped_and_registered_again_has_a_new_uid() {
    let mut driver = Driver::with_streams(&[A]);
    driver.register("q", windows(&[(A, 20, 20)])).unwrap();
    let first = driver.coordinator.query("q").unwrap().uid;
    driver.push(A, &[(1, 1), (25, 2)]).unwrap();
    driver.drop_query("q");
    assert!(driver.coordinator.query("q").is_none());
    driver.register("q", windows(&[(A, 20, 20)])).unwrap();
    assert_ne!(driver.coordinator.query("q").unwrap().uid, first);
    driver.push(A, &[(45, 3)]).unwrap();
    assert_eq!(driver.closes("q"), [40]);
}

#[test]
fn dropping_the_only_early_query_of_a_group_needs_no_cuts_for_its_closes() {
    let mut driver = Driver::with_streams(&[A, B]);
    let both = windows(&[(A, 20, 20), (B, 20, 20)]);
    driver.advance(&[(A, 0), (B, 0)]).unwrap();
    driver.register("early", both.clone()).unwrap();
    driver.advance(&[(A, 500)]).unwrap();
    driver.register("late", both).unwrap();
    driver.drop_query("early");
    let before = driver.coordinator.last_cut();
    driver.advance(&[(B, 500)]).unwrap();
    assert_eq!(driver.coordinator.last_cut(), before);
    driver.advance(&[(A, 520), (B, 520)]).unwrap();
    assert_eq!(driver.closes("late"), [520]);
}

#[test]
fn the_same_text_again_is_a_repeat() {
    let mut driver = Driver::with_streams(&[A]);
    assert!(was_logged(
        &driver.register("q", windows(&[(A, 20, 20)])).unwrap()
    ));
    let uid = driver.coordinator.query("q").unwrap().uid;
    let again = driver.register("q", windows(&[(A, 20, 20)])).unwrap();
    assert!(was_repeat(&again, Repeat::Query(uid)));
    let stream_uid = driver.coordinator.stream(A).unwrap().uid;
    let again = driver.create(stream(A)).unwrap();
    assert!(was_repeat(&again, Repeat::Stream(stream_uid)));
    // Under another name it is another query.
    assert!(was_logged(
        &driver.register("r", windows(&[(A, 20, 20)])).unwrap()
    ));
    driver.push(A, &[(1, 1), (20, 2)]).unwrap();
    assert_eq!(
        (driver.closes("q"), driver.closes("r")),
        (vec![20], vec![20])
    );
}

#[test]
fn negative_times_and_starting_at_are_times_like_others() {
    let mut driver = Driver::with_streams(&[A]);
    let declaration = QueryDeclaration {
        starting_at: EventTime(10),
        ..windows(&[(A, 30, 30)])
    };
    driver.register("q", declaration).unwrap();
    driver
        .push(A, &[(-75, 1), (-51, 2), (-50, 3), (-15, 4)])
        .unwrap();
    assert_eq!(driver.closes("q"), [-50, -20]);
    assert_eq!(driver.content("q", -50), [[1, 2]]);
    assert_eq!(driver.content("q", -20), [[3]]);
}

#[test]
fn a_thousand_waiting_groups_cost_a_push_nothing_until_they_are_due() {
    // Not a timing: the waiting list of the stream is what a push looks at.
    let mut driver = Driver::with_streams(&[A, B]);
    driver.advance(&[(A, 0), (B, 0)]).unwrap();
    for step in 1..=1_000 {
        let name = format!("q{step}");
        driver
            .register(&name, windows(&[(A, 10, step * 1_000), (B, 10, 10_000)]))
            .unwrap();
    }
    for at in 1..900 {
        driver.push(A, &[(at, at as u64)]).unwrap();
    }
    assert!(driver.seen.is_empty());
    driver.advance(&[(A, 10_000), (B, 10_000)]).unwrap();
    assert_eq!(driver.closes("q3"), [3_000, 6_000, 9_000, 10_000]);
    assert_eq!(driver.closes("q1000"), [10_000]);
}

#[test]
fn explain_says_when_a_query_fires_and_which_closes_it_skips() {
    let declaration = QueryDeclaration {
        computed_every: Some(Millis(50)),
        ..windows(&[(A, 20, 20)])
    };
    let text = declaration.explain();
    assert!(text.contains("c − 20 ms ≤ event time < c"), "{text}");
    assert!(text.contains("k·50 ms (COMPUTED EVERY)"), "{text}");
    assert!(
        text.contains("more than 64 consecutive due closes with empty windows"),
        "{text}"
    );
}
