//! Windows against their dull twin: the set of the raw statements whose event time is in the
//! window. Repeats in and across batches, empty batches, late slices, gaps where STEP is above
//! RANGE, windows too large for one run.

use crate::reference::{predicate, vertex};
use proptest::prelude::*;
use somersault_model::{
    BatchNumber, Direction, EventTime, Millis, Sn, StreamUid, TimedTriple, TripleIds,
};
use somersault_store::{Pace, Slice, SliceRows, SliceStore, Store, ViewKey, WindowVersion};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;

pub(crate) const STREAM: StreamUid = StreamUid(1);
pub(crate) const INTERVAL: Millis = Millis(10);

pub(crate) fn key(range: i64, step: i64) -> ViewKey {
    ViewKey {
        range,
        until: 0,
        step,
    }
}

pub(crate) fn triple(s: u64, p: u64, o: u64) -> TripleIds {
    TripleIds::new(vertex(s), predicate(p), vertex(o))
}

/// The newest event time of each triple in `lo..hi`.
pub(crate) fn twin(
    statements: &[TimedTriple],
    lo: BatchNumber,
    hi: BatchNumber,
) -> BTreeMap<TripleIds, EventTime> {
    let mut newest = BTreeMap::new();
    for statement in statements {
        if (lo.start(INTERVAL)..hi.start(INTERVAL)).contains(&statement.at) {
            let at = newest.entry(statement.triple).or_insert(statement.at);
            *at = statement.at.max(*at);
        }
    }
    newest
}

pub(crate) fn compare(window: &WindowVersion, twin: &BTreeMap<TripleIds, EventTime>) {
    let mut scratch = Vec::new();
    assert_eq!(window.len(), twin.len());
    assert_eq!(window.is_empty(), twin.is_empty());
    let predicates: BTreeSet<_> = twin.keys().map(|t| t.predicate).collect();
    assert_eq!(window.predicates(), Vec::from_iter(predicates));
    let mut lists: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    let mut used: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    let mut index: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    for (t, at) in twin {
        assert!(window.contains(*t));
        assert_eq!(window.newest_time_of(*t), Some(*at));
        assert_eq!(
            window.newest_batch_of(*t),
            Some(BatchNumber::of(*at, INTERVAL))
        );
        for (from, to, direction) in [
            (t.subject, t.object, Direction::Out),
            (t.object, t.subject, Direction::In),
        ] {
            lists
                .entry((from, t.predicate, direction))
                .or_default()
                .insert(to);
            used.entry((from, direction))
                .or_default()
                .insert(t.predicate);
            index
                .entry((t.predicate, direction))
                .or_default()
                .insert(from);
        }
    }
    for ((v, p, direction), expected) in &lists {
        let read = window.neighbours(*v, *p, *direction, &mut scratch);
        assert_eq!(read, Vec::from_iter(expected.iter().copied()));
        assert!(window.neighbour_estimate(*v, *p, *direction) >= expected.len());
    }
    for ((v, direction), expected) in &used {
        let read = window.predicates_of(*v, *direction, &mut scratch);
        assert_eq!(read, Vec::from_iter(expected.iter().copied()));
    }
    for ((p, direction), expected) in &index {
        let read = window.vertices_with(*p, *direction, &mut scratch);
        assert_eq!(read, Vec::from_iter(expected.iter().copied()));
        let ends = |v| lists[&(v, *p, *direction)].iter().copied();
        let all: Vec<_> = (expected.iter())
            .flat_map(|v| ends(*v).map(|end| (*v, end)))
            .collect();
        for wanted in [0, 1, all.len() / 2, usize::MAX] {
            // Behind what there is, and up to the end of the vertex whose edges are enough.
            let before = all[0];
            let (mut vertices, mut neighbours) = (vec![before.0], vec![before.1]);
            let look = &mut |_| ControlFlow::Continue(());
            let mut pace = Pace::new(1, wanted, look);
            window.edges(*p, *direction, &mut pace, &mut vertices, &mut neighbours);
            let lengths =
                (1..=all.len()).filter(|n| all.get(*n).map(|e| e.0) != Some(all[n - 1].0));
            let end = [0].into_iter().chain(lengths).find(|n| *n >= wanted);
            let read: Vec<_> = vertices.into_iter().zip(neighbours).collect();
            assert_eq!(
                (read[0], &read[1..]),
                (before, &all[..end.unwrap_or(all.len())])
            );
        }
    }
    let absent = triple(9_997, 1, 9_998);
    assert!(!window.contains(absent) && window.newest_time_of(absent).is_none());
    assert!(
        window
            .neighbours(vertex(9_997), predicate(1), Direction::Out, &mut scratch)
            .is_empty()
    );
    for p in (0..3).map(predicate) {
        let statements = twin.keys().filter(|t| t.predicate == p).count() as u64;
        assert!(window.predicate_statistics(p).statements >= statements);
    }
}

pub(crate) fn fill(store: &SliceStore, statements: &[TimedTriple]) {
    let mut batches: BTreeMap<BatchNumber, Vec<TimedTriple>> = BTreeMap::new();
    for statement in statements {
        let batch = BatchNumber::of(statement.at, INTERVAL);
        batches.entry(batch).or_default().push(*statement);
    }
    for (batch, statements) in batches {
        // Half of it comes as portions that are sorted ahead.
        let mut rows = SliceRows::default();
        let ahead = statements[..statements.len() / 2].chunks(3);
        ahead.for_each(|portion| rows.add(portion));
        store.insert(
            STREAM,
            Slice::of_rows(batch, INTERVAL, (0, rows), &statements),
        );
    }
}

fn statement() -> impl Strategy<Value = TimedTriple> {
    (-60i64..400, 0u64..6, 0u64..3, 0u64..6).prop_map(|(at, s, p, o)| TimedTriple {
        at: EventTime(at),
        triple: triple(s, p, o),
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 200 }))]

    #[test]
    fn every_version_equals_its_statements(
        mut statements in prop::collection::vec(statement(), 0..200),
        late in prop::collection::vec(statement(), 0..10),
        range in 1i64..9,
        step in 1i64..9,
    ) {
        statements.sort_by_key(|statement| statement.at);
        let store = Store::new(1);
        fill(store.slices(), &statements);
        let mut held = Vec::new();
        for k in 0..12 {
            let hi = BatchNumber(k * step);
            let lo = BatchNumber(hi.0 - range);
            let window = store.slices().window(STREAM, lo, hi, key(range, step));
            let twin = twin(&statements, lo, hi);
            compare(&window, &twin);
            let again = store.slices().window(STREAM, lo, hi, key(range, step));
            prop_assert!(window.is_empty() || std::sync::Arc::ptr_eq(&window, &again), "queries share versions");
            held.push((window, twin));
        }
        // Late statements make revisions of closed batches; versions that are held do not change.
        let mut amended = statements.clone();
        amended.extend(&late);
        for statement in &late {
            let batch = BatchNumber::of(statement.at, INTERVAL);
            let of_batch: Vec<_> = (amended.iter().copied())
                .filter(|s| BatchNumber::of(s.at, INTERVAL) == batch)
                .collect();
            store.slices().insert(STREAM, Slice::build(batch, INTERVAL, 1, &of_batch));
        }
        for (window, twin) in &held {
            compare(window, twin);
        }
        // Late statements amend earlier closes in order: each version is made from the one before.
        for k in (0..12).rev().chain(0..12) {
            let hi = BatchNumber(k * step);
            let lo = BatchNumber(hi.0 - range);
            compare(&store.slices().window(STREAM, lo, hi, key(range, step)), &twin(&amended, lo, hi));
        }
    }
}

/// Statements enough that windows are covered by several runs.
pub(crate) fn many(batches: i64, per_batch: u64) -> Vec<TimedTriple> {
    (0..batches)
        .flat_map(|batch| {
            (0..per_batch).map(move |n| TimedTriple {
                at: EventTime(batch * INTERVAL.0 + (n % 10) as i64),
                triple: triple((n * 31 + batch as u64 * 17) % 5_000, n % 3, (n * 7) % 900),
            })
        })
        .collect()
}

#[test]
#[cfg_attr(miri, ignore = "too many statements")]
fn large_windows_equal_their_statements() {
    let statements = many(40, 6_000);
    let store = Store::new(1);
    fill(store.slices(), &statements);
    for (lo, hi) in [(0, 40), (3, 29), (4, 30), (5, 31), (17, 40), (-5, 21)] {
        let (lo, hi) = (BatchNumber(lo), BatchNumber(hi));
        let window = store.slices().window(STREAM, lo, hi, key(hi.0 - lo.0, 1));
        compare(&window, &twin(&statements, lo, hi));
        let sum = window.len_estimate();
        assert!(sum > 1 << 16 && sum >= window.len());
    }
}

/// Readers that had the same earlier version share the changes since then, and others get the
/// changes since theirs, in any order of asking.
#[test]
fn changes_since_a_version_refer_to_that_version() {
    let statements = many(12, 3);
    let since = |of: i64| twin(&statements, BatchNumber(of), BatchNumber(12));
    for first in [11, 5] {
        let store = Store::new(1);
        fill(store.slices(), &statements);
        let version = |hi: i64| {
            let (lo, hi) = (BatchNumber(hi - 8), BatchNumber(hi));
            store.slices().window(STREAM, lo, hi, key(8, 1))
        };
        let pasts = [1, 5, 11].map(|hi| (hi, version(hi).past()));
        let newest = version(12);
        let ask = |of: i64| {
            let (_, past) = pasts.iter().find(|(hi, _)| *hi == of).expect("there is");
            newest.since(past).expect("it has slid")
        };
        let asked = ask(first);
        for of in [11, 5, 11] {
            compare(&ask(of), &since(of));
        }
        assert!(Arc::ptr_eq(&asked, &ask(first)));
        compare(&ask(1), &since(4));
    }
}

#[test]
#[cfg_attr(miri, ignore = "too many statements")]
fn slices_that_all_windows_have_passed_are_freed() {
    let statements = many(40, 6_000);
    let store = Store::new(1);
    fill(store.slices(), &statements);
    let slices = store.slices().memory_bytes(STREAM);
    let range = 8;
    let mut most = 0;
    for hi in range..=40 {
        let (lo, hi) = (BatchNumber(hi - range), BatchNumber(hi));
        let window = store.slices().window(STREAM, lo, hi, key(range, 1));
        compare(&window, &twin(&statements, lo, hi));
        store.slices().forget_passed(STREAM);
        most = most.max(store.slices().memory_bytes(STREAM) - slices);
    }
    // Runs of two, four and eight batches, with a column more than slices have; the longest begin
    // before the window. All that there ever were of them would take five times as much as the
    // slices.
    assert!(
        most < 2 * slices,
        "{most} bytes besides the {slices} of all slices"
    );
}

#[test]
#[cfg_attr(miri, ignore = "too many windows")]
fn making_a_window_does_not_look_at_all_others() {
    // Were each to lock all that there are, this would take 10^10 steps.
    const WINDOWS: i64 = 150_000;
    let statements = many(8, 6_000);
    let store = Store::new(1);
    fill(store.slices(), &statements);
    let (lo, hi) = (BatchNumber(0), BatchNumber(8));
    for step in 1..=WINDOWS {
        let window = store.slices().window(STREAM, lo, hi, key(8, step));
        assert_eq!(window.batches(), (lo, hi));
    }
}

#[test]
fn retired_slices_are_freed_after_their_last_reader() {
    let statements = many(30, 200);
    let store = Store::new(1);
    fill(store.slices(), &statements);
    let full = store.slices().memory_bytes(STREAM);
    let (lo, hi) = (BatchNumber(2), BatchNumber(12));
    let window = store.slices().window(STREAM, lo, hi, key(hi.0 - lo.0, 1));
    store.slices().retire(STREAM, BatchNumber(20));
    assert!(store.slices().memory_bytes(STREAM) < full / 2);
    compare(&window, &twin(&statements, lo, hi));
    let extent = store.slices().extent(STREAM);
    assert_eq!(extent, Some((10, BatchNumber(20), BatchNumber(29))));
    store.slices().drop_stream(STREAM);
    assert_eq!(store.slices().memory_bytes(STREAM), 0);
    assert!(
        store
            .slices()
            .window(STREAM, lo, hi, key(hi.0 - lo.0, 1))
            .is_empty()
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 200 }))]

    #[test]
    fn readers_below_an_amendment_see_the_earlier_batch(
        mut statements in prop::collection::vec(statement(), 0..100),
        late in prop::collection::vec(prop::collection::vec(statement(), 1..5), 1..5),
        floor in 0u64..7,
        range in 1i64..9,
    ) {
        statements.sort_by_key(|statement| statement.at);
        let store = Store::new(1);
        let slices = store.slices();
        fill(slices, &statements);
        // The statements that have arrived at each SN from 1 on; each amends.
        let mut at_sn = vec![statements.clone()];
        for (sn, late) in (2u64..).zip(&late) {
            let mut all = at_sn.last().unwrap().clone();
            all.extend(late);
            for batch in late.iter().map(|s| BatchNumber::of(s.at, INTERVAL)).collect::<BTreeSet<_>>() {
                let of_batch = |all: &[TimedTriple]| -> Vec<TimedTriple> {
                    let of_batch = all.iter().filter(|s| BatchNumber::of(s.at, INTERVAL) == batch);
                    of_batch.copied().collect()
                };
                slices.amend(STREAM, batch, Sn(sn), Sn(0), |old| match old {
                    Some(old) => old.with_late(INTERVAL, &of_batch(late), None),
                    None => Slice::build(batch, INTERVAL, 1, &of_batch(&all)),
                });
            }
            at_sn.push(all);
        }
        let seen = |sn: usize, hi: i64| {
            let (lo, hi) = (BatchNumber(hi - range), BatchNumber(hi));
            let window = slices.window_at(STREAM, (lo, hi), key(range, 1), Sn(sn as u64));
            compare(&window, &twin(&at_sn[sn - 1], lo, hi));
            // The slices hold the statements in order of arrival, batch by batch.
            let of_sn = slices.slices_at(STREAM, hi, Sn(sn as u64));
            let mut arrived = at_sn[sn - 1].clone();
            arrived.retain(|statement| statement.at < hi.start(INTERVAL));
            arrived.sort_by_key(|statement| BatchNumber::of(statement.at, INTERVAL));
            let held: Vec<_> = of_sn.iter().flat_map(|it| it.in_order_of_arrival()).collect();
            assert_eq!(held, arrived);
        };
        for hi in -6..40 {
            (1..=at_sn.len()).rev().for_each(|sn| seen(sn, hi));
        }
        slices.forget_superseded(Sn(floor));
        let newest = at_sn.len();
        (newest.min(floor as usize).max(1)..=newest).for_each(|sn| seen(sn, 12));
        slices.forget_superseded(Sn(newest as u64));
        let amended = slices.memory_bytes(STREAM);
        slices.retire(STREAM, BatchNumber(i64::MAX));
        prop_assert!(amended >= slices.memory_bytes(STREAM));
        prop_assert_eq!(slices.memory_bytes(STREAM), 0);
    }
}

#[test]
fn a_slice_keeps_the_order_of_arrival_and_repeats() {
    let statement = |at, s| TimedTriple {
        at: EventTime(at),
        triple: triple(s, 1, 2),
    };
    let statements = [
        statement(13, 9),
        statement(11, 3),
        statement(19, 9),
        statement(15, 3),
    ];
    let slice = Slice::build(BatchNumber(1), INTERVAL, 0, &statements);
    assert_eq!((slice.arrivals(), slice.run().len()), (4, 2));
    assert_eq!(slice.in_order_of_arrival(), statements);
    assert_eq!(slice.newest_time_of(triple(3, 1, 2)), Some(EventTime(15)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 300 }))]

    #[test]
    fn a_stretch_of_statements_equals_their_list(
        statements in prop::collection::vec(statement(), 1..120),
        from in any::<prop::sample::Index>(),
        to in any::<prop::sample::Index>(),
    ) {
        let store = Store::new(1);
        fill(store.slices(), &statements);
        // The order of batches, and in them of arrival.
        let mut listed = statements.clone();
        listed.sort_by_key(|statement| BatchNumber::of(statement.at, INTERVAL));
        let (from, to) = (from.index(listed.len()), to.index(listed.len()));
        let (from, to) = (from.min(to), from.max(to) + 1);
        let place = |at: usize| {
            let batch = BatchNumber::of(listed[at].at, INTERVAL);
            let before = listed[..at].iter().rev();
            let in_batch = before.take_while(|s| BatchNumber::of(s.at, INTERVAL) == batch);
            (batch, in_batch.count())
        };
        let (last, place_of_last) = place(to - 1);
        let end = (last.next(), place_of_last + 1);
        let window = store.slices().stretch(STREAM, place(from), end);
        let mut newest: BTreeMap<TripleIds, EventTime> = BTreeMap::new();
        for statement in &listed[from..to] {
            let at = newest.entry(statement.triple).or_insert(statement.at);
            *at = statement.at.max(*at);
        }
        compare(&window, &newest);
        let arrived: Vec<TimedTriple> = (window.slices().iter())
            .flat_map(|slice| slice.in_order_of_arrival())
            .collect();
        prop_assert_eq!(&arrived, &listed[from..to]);
        let again = store.slices().stretch(STREAM, place(from), end);
        prop_assert!(std::sync::Arc::ptr_eq(&window, &again), "queries share it while it is held");
    }
}

#[test]
#[cfg_attr(miri, ignore = "too many statements")]
fn windows_that_slide_by_one_statement_cost_their_content() {
    // Were each as dear as the batch that it lies in, this would take 10^11 steps.
    const STATEMENTS: usize = 300_000;
    let statements: Vec<TimedTriple> = (0..STATEMENTS as u64)
        .map(|at| TimedTriple {
            at: EventTime(0),
            triple: triple(at, at % 3, at % 1_000),
        })
        .collect();
    let store = Store::new(1);
    let slice = Slice::build(BatchNumber(0), INTERVAL, 0, &statements);
    store.slices().insert(STREAM, slice);
    let mut seen = 0;
    for upto in 2..=STATEMENTS {
        let (from, to) = ((BatchNumber(0), upto - 2), (BatchNumber(1), upto));
        let window = store.slices().stretch(STREAM, from, to);
        seen += usize::from(window.len() == 2 && window.contains(statements[upto - 1].triple));
    }
    assert_eq!(seen, STATEMENTS - 1);
}

#[test]
#[cfg_attr(miri, ignore = "too many statements")]
fn a_large_stretch_is_covered_by_shared_runs() {
    let statements = many(12, 6_000);
    let store = Store::new(1);
    fill(store.slices(), &statements);
    let (first, last) = (BatchNumber(1), BatchNumber(10));
    let window = store
        .slices()
        .stretch(STREAM, (first, 100), (last.next(), 50));
    let inside: Vec<TimedTriple> = (statements.iter().copied())
        .filter(|s| (first.next()..last).contains(&BatchNumber::of(s.at, INTERVAL)))
        .chain(statements[6_100..12_000].iter().copied())
        .chain(statements[60_000..60_050].iter().copied())
        .collect();
    compare(&window, &twin(&inside, BatchNumber(0), BatchNumber(12)));
    assert!(
        store
            .slices()
            .stretch(STREAM, (last, 0), (last, 0))
            .is_empty()
    );
}
