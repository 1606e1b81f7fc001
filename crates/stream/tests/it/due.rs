//! Closes that are cut in slices, what may come between, and how many one input may make due.

use crate::harness::{Driver, amended_stream, stream, was_logged, windows};
use somersault_model::{EventTime, Millis};
use somersault_stream::{Input, Refusal, StreamLimits};

const A: &str = "http://a/";
const B: &str = "http://b/";
/// Far beyond what the windows of these tests reach.
const JUMP: i64 = 1_000_000_000;

fn limited(closes_at_once: u64) -> Driver {
    let mut driver = Driver::limited(StreamLimits {
        closes_at_once,
        ..StreamLimits::default()
    });
    driver.create(stream(A)).unwrap();
    driver.create(stream(B)).unwrap();
    driver
}

fn update(driver: &mut Driver, number: u64) {
    let statement = crate::harness::statement(number, "fact");
    driver
        .input(Input::Update {
            clears: Vec::new(),
            received_ms: 0,
            evaluated_at: None,
            deletes: Vec::new(),
            inserts: vec![statement],
        })
        .unwrap();
}

#[test]
fn a_jump_that_makes_too_many_closes_due_is_refused() {
    let mut driver = limited(1_000);
    driver
        .register("wide", windows(&[(A, 100_000, 10)]))
        .unwrap();
    driver.push(A, &[(5, 1)]).unwrap();
    let refusal = driver.push(A, &[(90_000, 2)]).unwrap_err();
    assert!(
        matches!(
            refusal,
            Refusal::TooManyCloses {
                closes: 9_000,
                most: 1_000,
                step: EventTime(10_000),
                ..
            }
        ),
        "{refusal}"
    );
    let text = refusal.to_string();
    assert!(text.contains("9000 closes of query wide"), "{text}");
    assert!(text.contains("1970-01-01T00:00:10Z"), "{text}");
    assert!(driver.advance(&[(A, 90_000)]).is_err());
    // The remedy in the refusal helps.
    for step in 1..9 {
        assert!(was_logged(&driver.advance(&[(A, step * 10_000)]).unwrap()));
    }
    driver.push(A, &[(90_000, 2)]).unwrap();
    assert_eq!(driver.closes("wide").len(), 9_000);
}

#[test]
fn empty_closes_that_are_skipped_are_not_counted() {
    let mut driver = limited(100);
    driver.register("narrow", windows(&[(A, 100, 10)])).unwrap();
    driver.push(A, &[(5, 1)]).unwrap();
    assert!(was_logged(&driver.push(A, &[(JUMP, 2)]).unwrap()));
    // Between two statements of one push too, whichever stream comes last.
    driver
        .register("both", windows(&[(A, 100, 10), (B, 50, 10)]))
        .unwrap();
    driver
        .push(B, &[(5, 1), (JUMP + 5, 2), (2 * JUMP, 3)])
        .unwrap();
    driver.push(A, &[(2 * JUMP, 3)]).unwrap();
    assert!(driver.closes("both").len() < 100);
}

#[test]
fn the_statements_of_the_push_itself_count() {
    let mut driver = limited(100);
    driver
        .register("wide", windows(&[(A, 100_000, 10)]))
        .unwrap();
    // The first statements of the stream: nothing was there before.
    assert!(driver.push(A, &[(5, 1), (90_000, 2)]).is_err());
    driver.push(A, &[(5, 1), (900, 2)]).unwrap();
    assert_eq!(driver.closes("wide").len(), 90);
}

#[test]
fn a_stream_that_holds_up_the_query_makes_nothing_due() {
    let mut driver = limited(100);
    driver
        .register("both", windows(&[(A, 90_000, 10), (B, 10, 10)]))
        .unwrap();
    driver.advance(&[(A, 0), (B, 0)]).unwrap();
    driver.push(A, &[(5, 1), (90_000, 2)]).unwrap();
    assert!(driver.push(B, &[(80_000, 3)]).is_err());
    driver.push(B, &[(500, 3)]).unwrap();
    assert_eq!(driver.closes("both").len(), 50);
}

#[test]
fn a_clock_jump_is_made_up_for_in_steps() {
    let mut driver = Driver::limited(StreamLimits {
        closes_at_once: 100,
        ..StreamLimits::default()
    });
    let mut idle = stream(A);
    idle.idle = Some(Millis(1_000));
    driver.create(idle).unwrap();
    driver
        .register("wide", windows(&[(A, 1_000_000, 10)]))
        .unwrap();
    driver.push(A, &[(5, 1)]).unwrap();
    // The machine slept.
    for tick in 0..10 {
        driver.tick(50_000 + tick);
        assert!(driver.closes("wide").len() as i64 <= (tick + 1) * 100);
    }
    for tick in 10..100 {
        driver.tick(50_000 + tick);
    }
    assert_eq!(driver.closes("wide").last(), Some(&49_100));
}

#[test]
fn inputs_between_two_slices_precede_the_remaining_closes() {
    let mut driver = limited(u64::MAX);
    driver
        .register("wide", windows(&[(A, 10_000, 10)]))
        .unwrap();
    driver.register("other", windows(&[(B, 10, 10)])).unwrap();
    driver.advance(&[(A, 0), (B, 0)]).unwrap();
    driver.closes_in_a_row = 3;
    driver.push(A, &[(5, 1), (1_000, 2)]).unwrap();
    assert_eq!(driver.closes("wide"), [10, 20, 30]);
    assert_eq!(driver.coordinator.closes_due(), 97);
    update(&mut driver, 77);
    driver.push(B, &[(35, 3)]).unwrap();
    driver.cut_slice();
    assert_eq!(
        driver.closes("other"),
        [10, 20, 30],
        "the earliest close comes first"
    );
    driver.closes_in_a_row = usize::MAX;
    driver.cut_slice();
    assert_eq!(driver.closes("wide").len(), 100);
    for (close, sees_update) in [(30, false), (40, true), (1_000, true)] {
        assert_eq!(
            driver.at("wide", close).stored.contains(&77),
            sees_update,
            "{close}"
        );
        assert_eq!(driver.content("wide", close), [vec![1]]);
    }
}

#[test]
fn a_query_is_dropped_while_its_closes_wait() {
    let mut driver = limited(u64::MAX);
    driver
        .register("wide", windows(&[(A, 10_000, 10)]))
        .unwrap();
    driver.register("same", windows(&[(A, 100, 10)])).unwrap();
    driver.advance(&[(A, 0)]).unwrap();
    driver.closes_in_a_row = 3;
    driver.push(A, &[(5, 1), (1_000, 2)]).unwrap();
    driver.pause("same");
    driver.drop_query("wide");
    assert_eq!(driver.coordinator.closes_due(), 0);
    driver.resume("same");
    driver.closes_in_a_row = usize::MAX;
    driver.push(A, &[(1_020, 3)]).unwrap();
    assert_eq!(driver.closes("same"), [10, 20, 30, 1_010, 1_020]);
    let status = driver.coordinator.query("same").unwrap();
    assert_eq!(status.passed_while_paused, 97);
}

/// A push that waits for closes of its stream, as the driver has it wait.
fn push_in_turn(driver: &mut Driver, iri: &str, at: i64, number: u64) {
    while driver.waits(iri) {
        driver.cut_slice();
    }
    driver.push(iri, &[(at, number)]).unwrap();
}

/// Pushes and updates from a seed, cutting `closes_in_a_row` closes at once.
fn sliced_run(seed: u64, closes_in_a_row: usize) -> Driver {
    let mut driver = limited(u64::MAX);
    let mut late = amended_stream("http://c/", 200);
    late.lateness = Millis(20);
    driver.create(late).unwrap();
    driver.register("wide", windows(&[(A, 500, 10)])).unwrap();
    driver
        .register("two", windows(&[(A, 100, 20), (B, 300, 50)]))
        .unwrap();
    driver
        .register("late", windows(&[("http://c/", 100, 10)]))
        .unwrap();
    driver.closes_in_a_row = closes_in_a_row;
    let mut seed = seed;
    let mut draw = |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) % below
    };
    let mut times = [0i64; 3];
    for number in 0..200u64 {
        let of = draw(3) as usize;
        let iri = [A, B, "http://c/"][of];
        times[of] += draw(if number % 17 == 0 { 800 } else { 30 }) as i64;
        push_in_turn(&mut driver, iri, times[of], number);
        if of == 2 && times[of] > 100 {
            let at = times[of] - draw(100) as i64;
            push_in_turn(&mut driver, iri, at, 1_000 + number);
        }
        if draw(5) == 0 {
            update(&mut driver, 10_000 + number);
        }
    }
    driver.closes_in_a_row = usize::MAX;
    driver.cut_slice();
    driver
}

#[test]
fn slices_change_no_window() {
    for seed in 0..20 {
        let whole = sliced_run(seed, usize::MAX);
        let sliced = sliced_run(seed, 1 + seed as usize % 5);
        for name in ["wide", "two"] {
            let seen = |driver: &Driver| -> Vec<_> {
                let uid = driver.coordinator.query(name).unwrap().uid;
                let of_query = driver.seen.iter().filter(|seen| seen.firing.query == uid);
                of_query
                    .map(|seen| (seen.firing.close, seen.windows.clone()))
                    .collect()
            };
            assert!(seen(&whole) == seen(&sliced), "seed {seed}, query {name}");
        }
        // The newest revision of an amended close counts.
        let newest = |driver: &Driver| -> std::collections::BTreeMap<_, _> {
            let uid = driver.coordinator.query("late").unwrap().uid;
            let of_query = driver.seen.iter().filter(|seen| seen.firing.query == uid);
            of_query
                .map(|seen| {
                    let mut windows = seen.windows.clone();
                    windows.iter_mut().for_each(|window| window.sort_unstable());
                    (seen.firing.close, windows)
                })
                .collect()
        };
        assert!(newest(&whole) == newest(&sliced), "seed {seed}, amended");
        // The log says what came first: a replay gives the same.
        let replayed = Driver::recovered(&sliced.world, &sliced.log);
        assert!(replayed.decided == sliced.decided, "seed {seed}");
    }
}

#[test]
fn amendments_that_wait_are_joined() {
    let amended = |joins: bool| {
        let mut driver = Driver::new();
        driver.create(amended_stream(A, 10_000)).unwrap();
        driver.register("q", windows(&[(A, 1_000, 10)])).unwrap();
        driver.push(A, &[(0, 1), (3_000, 2)]).unwrap();
        driver.joins_amendments = joins;
        for number in 0..20 {
            driver
                .push(A, &[(1_500 + 7 * number, 100 + number as u64)])
                .unwrap();
        }
        // Closes that become due meanwhile come first, and what they read stays.
        driver.push(A, &[(14_000, 3)]).unwrap();
        driver.joins_amendments = false;
        driver.cut_slice();
        driver
    };
    let (joined, each) = (amended(true), amended(false));
    let revisions = |driver: &Driver| {
        let of = driver.seen.iter().filter(|seen| seen.firing.revision > 0);
        of.count()
    };
    assert!(
        revisions(&each) >= 20 * 99,
        "each re-fires a hundred closes"
    );
    assert!(revisions(&joined) <= 120, "{}", revisions(&joined));
    let newest = |driver: &Driver| -> std::collections::BTreeMap<_, _> {
        let seen = driver.seen.iter();
        let windows = |seen: &crate::harness::Seen| {
            let mut window = seen.windows[0].clone();
            window.sort_unstable();
            window
        };
        seen.map(|seen| (seen.firing.close, windows(seen)))
            .collect()
    };
    assert!(newest(&joined) == newest(&each));
    let replayed = Driver::recovered(&joined.world, &joined.log);
    assert!(replayed.decided == joined.decided);
}
