//! A stream's time: sources, LATENESS, IDLE, ARRIVAL TIME, repeats, blank nodes.

use crate::harness::{Driver, blank_statement, statement, stream, was_logged, was_repeat, windows};
use somersault_lang::{LatePolicy, TimeDomain};
use somersault_model::{EventTime, Millis};
use somersault_stream::Record;
use somersault_stream::{Admission, Input, Output, Push, PushStatement, Repeat};

const A: &str = "http://a/";
const B: &str = "http://b/";

fn watermark(driver: &Driver, iri: &str) -> Option<i64> {
    let status = driver.coordinator.stream(iri).unwrap();
    status.watermark.map(|time| time.0)
}

#[test]
fn a_stream_is_complete_through_the_least_of_its_sources() {
    let mut driver = Driver::with_streams(&[A]);
    let push = |driver: &mut Driver, source: &str, at: i64| {
        let one = vec![(at, at as u64, "reading")];
        driver.push_from(A, source, None, one).unwrap();
    };
    push(&mut driver, "x", 50);
    assert_eq!(watermark(&driver, A), Some(50));
    // A source that joins behind does not take the stream back.
    push(&mut driver, "y", 60);
    push(&mut driver, "x", 100);
    assert_eq!(watermark(&driver, A), Some(60));
    push(&mut driver, "y", 120);
    assert_eq!(watermark(&driver, A), Some(100));
    driver.advance(&[(A, 110)]).unwrap();
    assert_eq!(watermark(&driver, A), Some(110));
}

#[test]
fn an_advance_that_goes_back_moves_nothing() {
    let mut driver = Driver::with_streams(&[A, B]);
    driver.advance(&[(A, 50)]).unwrap();
    let nothing = driver.advance(&[(A, 40)]).unwrap();
    assert!(matches!(nothing, Admission::Nothing));
    driver.advance(&[(A, 30), (B, 30)]).unwrap();
    assert_eq!(watermark(&driver, A), Some(50));
    assert_eq!(watermark(&driver, B), Some(30));
}

#[test]
fn lateness_holds_the_stream_back_and_lets_statements_in() {
    let mut driver = Driver::new();
    let mut late = stream(A);
    late.lateness = Millis(20);
    driver.create(late).unwrap();
    driver.register("q", windows(&[(A, 20, 20)])).unwrap();
    driver.push(A, &[(25, 1), (50, 2), (30, 3)]).unwrap();
    assert_eq!(watermark(&driver, A), Some(30));
    driver.push(A, &[(35, 4), (62, 5)]).unwrap();
    assert_eq!(driver.closes("q"), [20, 40]);
    assert_eq!(driver.content("q", 40), [[1, 3, 4]]);
    assert!(driver.push(A, &[(41, 6)]).is_err());
}

#[test]
fn late_drop_drops_and_counts_and_takes_the_rest() {
    let mut driver = Driver::new();
    let mut late = stream(A);
    late.late_policy = LatePolicy::Drop;
    driver.create(late).unwrap();
    driver.register("q", windows(&[(A, 20, 20)])).unwrap();
    driver
        .push(A, &[(15, 1), (5, 2), (16, 3), (40, 4)])
        .unwrap();
    let status = driver.coordinator.stream(A).unwrap();
    assert_eq!((status.statements, status.late), (3, 1));
    assert_eq!(driver.content("q", 20), [[1, 3]]);
}

#[test]
fn repeats_of_a_sources_push_are_dropped() {
    let mut driver = Driver::with_streams(&[A]);
    let push = |driver: &mut Driver, source: &str, seq: u64, at: i64| {
        let one = vec![(at, at as u64, "reading")];
        driver.push_from(A, source, Some(seq), one).unwrap()
    };
    assert!(was_logged(&push(&mut driver, "x", 1, 10)));
    assert!(was_repeat(&push(&mut driver, "x", 1, 10), Repeat::Push));
    // Gaps are fine, and another source counts for itself.
    assert!(was_logged(&push(&mut driver, "x", 5, 20)));
    assert!(was_repeat(&push(&mut driver, "x", 5, 30), Repeat::Push));
    assert!(was_logged(&push(&mut driver, "y", 1, 30)));
    assert_eq!(driver.coordinator.stream(A).unwrap().statements, 3);
}

#[test]
fn a_number_that_was_refused_is_taken_after_later_ones() {
    let mut driver = Driver::new();
    let mut small = stream(A);
    small.budget_bytes = 800;
    driver.create(small).unwrap();
    let pushed: Vec<_> = (0..20).map(|number| (10, number, "reading")).collect();
    assert!(driver.push_from(A, "x", Some(5), pushed).is_err());
    let push = |driver: &mut Driver, seq: u64, number: u64| {
        driver.push_from(A, "x", Some(seq), vec![(10, number, "reading")])
    };
    assert!(was_logged(&push(&mut driver, 6, 60).unwrap()));
    assert!(was_logged(&push(&mut driver, 5, 50).unwrap()));
    for seq in [5, 6] {
        assert!(was_repeat(
            &push(&mut driver, seq, 70).unwrap(),
            Repeat::Push
        ));
    }
    assert_eq!(driver.coordinator.stream(A).unwrap().statements, 2);
}

#[test]
fn a_number_of_which_nothing_is_known_any_more_is_refused() {
    let mut driver = Driver::with_streams(&[A]);
    let push = |driver: &mut Driver, seq: u64| {
        driver.push_from(A, "x", Some(seq), vec![(10, seq, "reading")])
    };
    for seq in (2..=2_200).step_by(2) {
        assert!(was_logged(&push(&mut driver, seq).unwrap()));
    }
    let refusal = push(&mut driver, 3).unwrap_err().to_string();
    assert!(
        refusal.contains("sequence number 3 of source \"x\""),
        "{refusal}"
    );
    assert!(refusal.contains("below 153"), "{refusal}");
    assert!(push(&mut driver, 2).is_err(), "it may not be told from 3");
    assert!(was_repeat(&push(&mut driver, 2_000).unwrap(), Repeat::Push));
    assert!(was_logged(&push(&mut driver, 1_999).unwrap()));
}

#[test]
fn each_number_is_taken_once_in_any_order_and_after_a_crash() {
    let mut driver = Driver::with_streams(&[A]);
    let mut taken = std::collections::BTreeSet::new();
    let mut seed = 7u64;
    for step in 0..400u64 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let seq = (seed >> 33) % 120;
        let admission = driver
            .push_from(A, "x", Some(seq), vec![(10, step, "reading")])
            .unwrap();
        assert_eq!(was_logged(&admission), taken.insert(seq), "number {seq}");
        if step % 97 == 0 {
            driver = Driver::recovered(&driver.world, &driver.log);
        }
    }
    let statements = driver.coordinator.stream(A).unwrap().statements;
    assert_eq!(statements, taken.len() as u64);
}

#[test]
fn idle_streams_advance_with_the_clock() {
    let mut driver = Driver::new();
    let mut idle = stream(A);
    idle.idle = Some(Millis(5_000));
    driver.create(idle).unwrap();
    driver.register("q", windows(&[(A, 100, 100)])).unwrap();
    driver.tick(90_000);
    assert_eq!(watermark(&driver, A), None, "no time before the first push");
    driver.now_ms = 100_000;
    driver.push(A, &[(730, 1)]).unwrap();
    driver.tick(105_000);
    assert_eq!(watermark(&driver, A), Some(730));
    // 70 ms after IDLE has passed the close at 800 is reached, not before.
    driver.tick(105_069);
    assert_eq!(driver.closes("q"), []);
    driver.tick(105_070);
    assert_eq!(driver.closes("q"), [800]);
    driver.tick(105_370);
    assert_eq!(driver.closes("q"), [800, 900, 1_000, 1_100]);
    // Statements behind the stream's watermark are late.
    assert!(driver.push(A, &[(1_000, 2)]).is_err());
    driver.push(A, &[(1_130, 3)]).unwrap();
    // Data again: the silence counts from here.
    driver.tick(110_000);
    assert_eq!(watermark(&driver, A), Some(1_130));
}

#[test]
fn statements_made_late_by_the_clock_are_told_apart() {
    let mut driver = Driver::new();
    let mut idle = stream(A);
    idle.idle = Some(Millis(5_000));
    driver.create(idle).unwrap();
    driver.register("q", windows(&[(A, 100, 100)])).unwrap();
    driver.now_ms = 100_000;
    driver.push(A, &[(730, 1)]).unwrap();
    let said = |driver: &mut Driver, at: i64| {
        let refusal = driver.push(A, &[(at, 2)]).expect_err("it is late");
        refusal.to_string()
    };
    // The source itself has moved on.
    let own = said(&mut driver, 700);
    assert!(own.contains("LATENESS of at least 30ms"), "{own}");
    driver.tick(106_000);
    assert_eq!(watermark(&driver, A), Some(1_730));
    let by_clock = said(&mut driver, 900);
    assert!(
        by_clock.contains("IDLE 5000ms") && by_clock.contains("IDLE NEVER"),
        "{by_clock}"
    );
    assert!(!by_clock.contains("LATENESS"), "{by_clock}");
    // An advance is not the clock's doing.
    driver.advance(&[(A, 1_000_000)]).unwrap();
    let advanced = said(&mut driver, 999_990);
    assert!(advanced.contains("LATENESS of at least 10ms"), "{advanced}");
}

#[test]
fn ticks_that_change_nothing_log_nothing() {
    let mut driver = Driver::new();
    let mut idle = stream(A);
    idle.idle = Some(Millis(1_000));
    driver.create(idle).unwrap();
    driver.push(A, &[(5, 1)]).unwrap();
    driver.tick(2_000);
    let logged = driver.log.len();
    for now in 2_001..3_000 {
        driver.tick(now);
    }
    assert_eq!(
        driver.log.len(),
        logged,
        "no batch is open and no query waits"
    );
}

#[test]
fn a_silent_source_beside_a_busy_one_advances_by_the_clock() {
    let mut driver = Driver::new();
    let mut idle = stream(A);
    idle.idle = Some(Millis(1_000));
    driver.create(idle).unwrap();
    driver.register("q", windows(&[(A, 100, 100)])).unwrap();
    let push = |driver: &mut Driver, source: &str, at: i64| {
        let one = vec![(at, at as u64, "reading")];
        driver.push_from(A, source, None, one).unwrap();
    };
    push(&mut driver, "silent", 10);
    for at in 1..30 {
        driver.tick(at * 100);
        push(&mut driver, "busy", at * 100);
    }
    // The silent one stands at 10 + (2900 − 1000).
    assert_eq!(driver.closes("q").last(), Some(&1_900));
}

#[test]
fn a_stream_at_the_end_of_time_does_not_stop_the_others() {
    const FARTHEST: i64 = 1_000_000_000_000_000_000;
    let mut driver = Driver::new();
    for (iri, name) in [(A, "a"), (B, "b")] {
        let mut idle = stream(iri);
        idle.idle = Some(Millis(1_000));
        driver.create(idle).unwrap();
        driver.register(name, windows(&[(iri, 100, 100)])).unwrap();
    }
    driver.push(A, &[(FARTHEST - 150, 1)]).unwrap();
    driver.push(B, &[(10, 2)]).unwrap();
    driver.tick(1_100);
    assert_eq!(watermark(&driver, A), Some(FARTHEST - 50));
    for now in [1_200, 5_000] {
        driver.tick(now);
        assert_eq!(watermark(&driver, B), Some(now - 990));
    }
    assert!(watermark(&driver, A) <= Some(FARTHEST));
    assert_eq!(driver.closes("a"), [FARTHEST - 100, FARTHEST]);
}

#[test]
fn idle_never_streams_do_not_advance() {
    let mut driver = Driver::with_streams(&[A]);
    driver.register("q", windows(&[(A, 100, 100)])).unwrap();
    driver.push(A, &[(5, 1)]).unwrap();
    driver.tick(1_000_000_000);
    assert_eq!(watermark(&driver, A), Some(5));
}

#[test]
fn an_arrival_time_streams_time_is_the_clocks_and_never_goes_back() {
    let mut driver = Driver::new();
    let mut arrival = stream(A);
    arrival.time = TimeDomain::Arrival;
    driver.create(arrival).unwrap();
    driver.register("q", windows(&[(A, 100, 100)])).unwrap();
    driver.tick(1_000);
    let push = |driver: &mut Driver, now_ms: i64, number: u64| {
        driver
            .input(Input::Push(Push {
                stream: A.to_owned(),
                source: String::new(),
                seq: None,
                received_ms: now_ms,
                statements: vec![PushStatement {
                    at: None,
                    quad: statement(number, "reading"),
                }],
            }))
            .unwrap();
    };
    push(&mut driver, 1_010, 1);
    // The clock was set back.
    push(&mut driver, 900, 2);
    driver.tick(1_100);
    assert_eq!(driver.content("q", 1_100), [[1, 2]]);
    let Record::Push(last) = driver
        .log
        .iter()
        .rev()
        .find(|record| matches!(record, Record::Push(_)))
        .unwrap()
    else {
        panic!("found as a push");
    };
    assert_eq!(
        last.statements.iter().next().map(|(at, _)| at),
        Some(EventTime(1_010)),
        "the record holds it"
    );
}

#[test]
fn blank_nodes_are_their_pushs_own() {
    let mut driver = Driver::with_streams(&[A]);
    let push = |driver: &mut Driver, source: &str, seq: Option<u64>, at: i64| {
        driver
            .input(Input::Push(Push {
                stream: A.to_owned(),
                source: source.to_owned(),
                seq,
                received_ms: 0,
                statements: vec![PushStatement {
                    at: Some(EventTime(at)),
                    quad: blank_statement("b"),
                }],
            }))
            .unwrap();
    };
    push(&mut driver, "", None, 1);
    push(&mut driver, "", None, 2);
    push(&mut driver, "x", Some(1), 3);
    push(&mut driver, "x", Some(2), 4);
    push(&mut driver, "y", Some(1), 5);
    driver.advance(&[(A, 20)]).unwrap();
    driver.freshness_cut();
    let triples: Vec<_> = driver
        .decided
        .iter()
        .filter_map(|output| match output {
            Output::Inject(inject) => Some(&inject.slices),
            _ => None,
        })
        .flatten()
        .flat_map(|slice| slice.statements.iter().map(|timed| timed.triple))
        .collect();
    assert!(triples.iter().all(|triple| triple.subject == triple.object));
    let distinct: std::collections::BTreeSet<_> =
        triples.iter().map(|triple| triple.subject).collect();
    assert_eq!((triples.len(), distinct.len()), (5, 5));
}
