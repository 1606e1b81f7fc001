//! Merging before a close, against the plain set of statements: windows are the same whatever has
//! been merged ahead, and the merged runs are freed.

use crate::windows::{INTERVAL, STREAM, compare, fill, key, many, triple, twin};
use proptest::prelude::*;
use somersault_model::{BatchNumber, EventTime, Sn, TimedTriple};
use somersault_store::{Slice, Store, ViewKey};

/// Each statement this many times, with other subjects: a window is soon too large for one run.
const FAN: u64 = 400;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 1 } else { 24 }))]

    #[test]
    fn windows_equal_their_statements_whatever_has_been_merged_ahead(
        sizes in prop::collection::vec(0u64..4, 1..40),
        ahead in prop::collection::vec(0i64..12, 1..40),
        amended in prop::collection::vec((0i64..40, any::<bool>()), 0..6),
        range in 1i64..24,
        until in prop_oneof![Just(0i64), 1i64..5],
        step in 1i64..4,
        first in -20i64..20,
    ) {
        let key = ViewKey { range, until, step };
        let store = Store::new(1);
        let slices = store.slices();
        let fan = |batch: i64, of: std::ops::Range<u64>| -> Vec<TimedTriple> {
            let all = of.flat_map(|n| (0..FAN).map(move |s| (n, s)));
            all.map(|(n, s)| TimedTriple {
                at: EventTime(batch * INTERVAL.0),
                triple: triple(s * 7 % 1_000, n % 3, (batch.unsigned_abs() / 3 + n) % 5),
            }).collect()
        };
        let mut statements = Vec::new();
        let mut next = first;
        for (at, size) in (0..).zip(&sizes) {
            if *size > 0 {
                let of_batch = fan(next, 0..*size);
                slices.insert(STREAM, Slice::build(BatchNumber(next), INTERVAL, 0, &of_batch));
                statements.extend(of_batch);
            }
            next += 1;
            // Late statements come behind batches that have been merged already, as another
            // revision or as an amendment.
            for (batch, amends) in amended.iter().filter(|(batch, _)| *batch == at) {
                let batch = BatchNumber(next - 1 - batch % 7);
                let late = fan(batch.0, 4..5);
                statements.extend(&late);
                let whole = || -> Vec<_> {
                    let of_batch = statements.iter().copied();
                    of_batch.filter(|s| BatchNumber::of(s.at, INTERVAL) == batch).collect()
                };
                if *amends {
                    slices.amend(STREAM, batch, Sn(at as u64 + 1), Sn(0), |_| {
                        Slice::build(batch, INTERVAL, 100, &whole())
                    });
                } else {
                    slices.insert(STREAM, Slice::build(batch, INTERVAL, 100, &whole()));
                }
            }
            // Sometimes at once, sometimes some batches later, sometimes never.
            let behind = ahead[at as usize % ahead.len()];
            if behind < 8 {
                slices.merge_ahead(STREAM, BatchNumber(next - behind));
            }
            if next.rem_euclid(step) == 0 {
                let (lo, hi) = (BatchNumber(next - until - range), BatchNumber(next - until));
                let window = slices.window(STREAM, lo, hi, key);
                compare(&window, &twin(&statements, lo, hi));
                slices.forget_passed(STREAM);
            }
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "too many statements")]
fn a_window_is_the_merged_runs_and_its_newest_slice() {
    let statements = many(160, 100);
    let store = Store::new(1);
    let mut batches = statements.chunk_by(|a, b| a.at.0 / INTERVAL.0 == b.at.0 / INTERVAL.0);
    for (range, step, runs) in [(20, 1, 2), (24, 4, 2), (16, 16, 2), (10, 1, 1)] {
        let window_at = |hi: i64| {
            let (lo, hi) = (BatchNumber(hi - range), BatchNumber(hi));
            store.slices().window(STREAM, lo, hi, key(range, step))
        };
        let first = store
            .slices()
            .extent(STREAM)
            .map_or(0, |(_, _, last)| last.0 + 1);
        let mut steps = 0;
        for number in first..first + 40 {
            let batch = BatchNumber(number);
            let of_batch = batches.next().unwrap();
            let slice = Slice::build(batch, INTERVAL, 0, of_batch);
            store.slices().insert(STREAM, slice);
            if (number + 1) % step == 0 {
                let window = window_at(number + 1);
                let (lo, hi) = window.batches();
                compare(&window, &twin(&statements, lo, hi));
                assert_eq!(window.run_count(), if steps == 0 { 1 } else { runs });
                steps += 1;
            }
            store.slices().merge_ahead(STREAM, batch.next());
        }
    }
}

/// A statement in each batch, then one in the last batch of each step alone: nothing is made ahead
/// any more.
#[test]
fn slices_that_windows_have_passed_are_released_under_a_slow_source() {
    let (range, step) = (20, 4);
    let store = Store::new(1);
    let mut early = Vec::new();
    for number in 0..100 {
        let batch = BatchNumber(number);
        if number < 40 || number % step == step - 1 {
            let statement = TimedTriple {
                at: batch.start(INTERVAL),
                triple: triple(number as u64, 1, 2),
            };
            let slice = Slice::build(batch, INTERVAL, 0, &[statement]);
            store.slices().insert(STREAM, slice);
        }
        if number % step == step - 1 {
            let (lo, hi) = (BatchNumber(number + 1 - range), batch.next());
            let window = store.slices().window(STREAM, lo, hi, key(range, step));
            if number < 40 {
                early.extend(window.slices().iter().map(std::sync::Arc::downgrade));
            }
            store.slices().retire(STREAM, lo);
        }
        if number < 40 || number % step == step - 1 {
            store.slices().merge_ahead(STREAM, batch.next());
        }
    }
    assert!(early.len() > 20);
    assert!(early.iter().all(|slice| slice.upgrade().is_none()));
}

#[test]
#[cfg_attr(miri, ignore = "too many statements")]
fn windows_of_a_number_of_statements_keep_the_runs_that_cover_them() {
    let statements = many(40, 1_000);
    let store = Store::new(1);
    let slices = store.slices();
    fill(slices, &statements);
    let of_slices = slices.memory_bytes(STREAM);
    let stretch = |from: i64| {
        let (from, to) = (BatchNumber(from), BatchNumber(from + 21));
        let window = slices.stretch(STREAM, (from, 500), (to, 500));
        assert!(window.run_count() > 2, "it is covered");
    };
    stretch(0);
    let covered = slices.memory_bytes(STREAM) - of_slices;
    slices.forget_passed(STREAM);
    slices.forget_passed(STREAM);
    assert_eq!(slices.memory_bytes(STREAM) - of_slices, covered);
    stretch(18);
    slices.forget_passed(STREAM);
    let later = slices.memory_bytes(STREAM) - of_slices;
    stretch(18);
    assert_eq!(
        slices.memory_bytes(STREAM) - of_slices,
        later,
        "nothing is merged again"
    );
    assert!(later < 2 * covered);
}

#[test]
#[cfg_attr(miri, ignore = "too many statements")]
fn merging_ahead_leaves_a_window_few_runs() {
    let statements = many(200, 500);
    let store = Store::new(1);
    let mut batches = statements.chunk_by(|a, b| a.at.0 / INTERVAL.0 == b.at.0 / INTERVAL.0);
    let range = 64;
    for number in 0..200 {
        let batch = BatchNumber(number);
        let of_batch = batches.next().unwrap();
        store
            .slices()
            .insert(STREAM, Slice::build(batch, INTERVAL, 0, of_batch));
        let (lo, hi) = (BatchNumber(number + 1 - range), batch.next());
        let window = store.slices().window(STREAM, lo, hi, key(range, 1));
        // At most one of each length where the window begins and where it ends, and what has come
        // since.
        assert!(
            window.run_count() <= 2 * 6 + 1,
            "{number}: {}",
            window.run_count()
        );
        let before = store.slices().memory_bytes(STREAM);
        store.slices().merge_ahead(STREAM, hi);
        let after = store.slices().memory_bytes(STREAM);
        // Windows of this many statements have runs of two batches and more, and each ends with an
        // odd number.
        if number > range {
            assert_eq!(after > before, number % 2 == 1, "{number}");
        }
        store.slices().forget_passed(STREAM);
    }
}
