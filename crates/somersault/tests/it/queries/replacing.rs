//! A query takes the place of another while data flows: each close is answered by one of them,
//! whatever crashes.

use crate::support::scenario::*;
use somersault::disk::{CrashKeep, SimDisk};
use somersault::{
    Engine, EngineError, EventTime, FiringId, Replacement, SubscribeOptions, Subscription,
    SubscriptionEvent,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// A query over the last `range` seconds, with constants, or with a BASE, which leaves it without a
/// shape.
fn text(range: i64, alone: bool) -> String {
    let base = if alone { "BASE <urn:x>" } else { "" };
    format!(
        "PREFIX : <{NS}> {base} SELECT ?x FROM NAMED STREAM :s [RANGE {range}s STEP 1s] WHERE {{ GRAPH :s {{ ?x :at :home }} }}"
    )
}

fn with_stream(engine: &Engine) {
    let text = format!("CREATE STREAM <{NS}s> TIMING (<{NS}at>) BATCH 1s IDLE NEVER");
    engine.create_stream(None, &text).unwrap();
    advance(engine, 0);
}

/// Second number `second`: one statement, and its close.
fn second(engine: &Engine, second: i64) {
    let statement = format!("p{second} at home");
    let push = numbered(second as u64, &[(second * 1000 + 100, &statement)]);
    engine.push(&format!("{NS}s"), push).unwrap();
    advance(engine, (second + 1) * 1000);
}

/// The closes that come until the end, and whether something was missed.
fn to_the_end(subscription: &Subscription) -> (Vec<i64>, bool) {
    let (mut closes, mut missed) = (Vec::new(), false);
    while let Some(event) = subscription
        .recv_timeout(Duration::from_secs(30))
        .expect("the subscription ends in time")
    {
        match event {
            SubscriptionEvent::Firing(firing) => closes.push(firing.close.0),
            _ => missed = true,
        }
    }
    (closes, missed)
}

/// Whether a subscriber who saw the close at this time last is told of others since.
fn has_missed(engine: &Engine, after: i64) -> bool {
    let options = SubscribeOptions {
        after: Some(FiringId::at(EventTime(after))),
        ..SubscribeOptions::default()
    };
    let first = engine.subscribe("q", options).unwrap().try_recv();
    matches!(first, Some(SubscriptionEvent::Lagged { missed: None }))
}

#[test]
fn each_close_is_answered_by_one_of_the_two() {
    for alone in [false, true] {
        let engine = engine();
        with_stream(&engine);
        let (_, registered) = engine.replace(Some("q"), &text(1, alone)).unwrap();
        assert_eq!(registered, Replacement::Created);
        let neighbour = engine.register(Some("n"), &text(1, alone)).unwrap();
        let old = engine.query_info("q").unwrap();
        let listening = engine.subscribe("q", SubscribeOptions::default()).unwrap();
        assert_eq!(listening.uid(), old.uid);
        for number in 0..3 {
            second(&engine, number);
        }
        let (new, replaced) = engine.replace(Some("q"), &text(2, alone)).unwrap();
        let expected_outcome = Replacement::Replaced {
            uid: old.uid,
            after: Some(EventTime(3000)),
        };
        assert_eq!(replaced, expected_outcome);
        assert_eq!((new.firings, new.next_close), (0, Some(EventTime(4000))));
        let (_, again) = engine.replace(Some("q"), &text(2, alone)).unwrap();
        assert_eq!(again, Replacement::Unchanged);
        second(&engine, 3);
        assert_eq!(to_the_end(&listening), (vec![1000, 2000, 3000], false));
        assert_eq!(
            firings(&engine, "q", None),
            expected(&[(4000, &["p2", "p3"])])
        );
        // A reconnecting subscriber continues with the new query, and is told of the firings of the
        // old one that it had not seen.
        let missed = |after| has_missed(&engine, after);
        assert_eq!([missed(2000), missed(3000)], [true, false]);
        // Its neighbour has noticed nothing.
        assert_eq!(engine.query_info("n").unwrap().uid, neighbour.uid);
        assert_eq!(firings(&engine, "n", None).len(), 4);
        engine.check().unwrap();
    }
}

#[test]
fn replacing_twice_reports_firings_of_both_predecessors() {
    for alone in [false, true] {
        let engine = engine();
        with_stream(&engine);
        engine.register(Some("q"), &text(1, alone)).unwrap();
        for number in 0..3 {
            second(&engine, number);
        }
        // The second one has answered nothing when the third one comes.
        for range in [2, 3] {
            engine.replace(Some("q"), &text(range, alone)).unwrap();
        }
        let missed = |after| has_missed(&engine, after);
        assert_eq!([missed(2000), missed(3000)], [true, false]);
        // A query registered under a free name has no predecessor.
        engine.drop_query("q").unwrap();
        engine.register(Some("q"), &text(1, alone)).unwrap();
        assert!(!has_missed(&engine, 2000));
    }
}

#[test]
fn subscribing_during_a_replacement_gives_the_end() {
    for alone in [false, true] {
        let engine = engine();
        with_stream(&engine);
        // It belongs to the group of every other one of them, so the group outlives those.
        engine.register(Some("n"), &text(1, alone)).unwrap();
        engine.register(Some("q"), &text(1, alone)).unwrap();
        let done = AtomicBool::new(false);
        let listening: Vec<Subscription> = thread::scope(|scope| {
            scope.spawn(|| {
                for round in 1..=500 {
                    let text = text(1 + round % 2, alone);
                    engine.replace(Some("q"), &text).unwrap();
                }
                done.store(true, Ordering::Release);
            });
            let until_done = std::iter::from_fn(|| {
                let goes_on = !done.load(Ordering::Acquire);
                goes_on.then(|| engine.subscribe("q", SubscribeOptions::default()).unwrap())
            });
            until_done.collect()
        });
        engine.drop_query("q").unwrap();
        for subscription in &listening {
            assert_eq!(to_the_end(subscription), (vec![], false));
        }
    }
}

#[test]
fn closes_that_are_under_way_are_answered_first() {
    for alone in [false, true] {
        let engine = engine();
        with_stream(&engine);
        engine.register(Some("q"), &text(1, alone)).unwrap();
        for round in 0..40_i64 {
            let listening = engine.subscribe("q", SubscribeOptions::default()).unwrap();
            let texts: Vec<(i64, String)> = (0..3)
                .map(|at| (round * 3000 + at * 1000 + 1, format!("p{round} at home")))
                .collect();
            let statements: Vec<(i64, &str)> =
                texts.iter().map(|(at, it)| (*at, it.as_str())).collect();
            // Answered when it is durable; its closes are executed while the query is replaced.
            engine.push(&format!("{NS}s"), push(&statements)).unwrap();
            engine
                .replace(Some("q"), &text(2 + round % 2, alone))
                .unwrap();
            let (closes, missed) = to_the_end(&listening);
            let first = if round == 0 { 1 } else { round * 3 };
            let due: Vec<i64> = (first..=round * 3 + 2).map(|it| it * 1000).collect();
            assert_eq!((closes, missed), (due, false), "round {round}");
        }
        engine.quiesce(Duration::from_secs(30)).unwrap();
        engine.check().unwrap();
    }
}

#[test]
fn a_checkpoint_between_a_replacement_and_the_last_firing_of_the_old_query_opens() {
    for alone in [false, true] {
        let disk = SimDisk::new();
        let engine = Engine::open_on(config(), Arc::new(disk.clone())).unwrap();
        with_stream(&engine);
        engine.register(Some("q"), &text(1, alone)).unwrap();
        // Of the same shape, so that the cohort outlives those that leave it.
        engine.register(Some("other"), &text(1, alone)).unwrap();
        for round in 0..20_i64 {
            let texts: Vec<(i64, String)> = (0..30)
                .map(|at| (round * 30_000 + at * 1000 + 1, format!("p{at} at home")))
                .collect();
            let statements: Vec<(i64, &str)> =
                texts.iter().map(|(at, it)| (*at, it.as_str())).collect();
            // Its closes are executed while the query is replaced.
            engine.push(&format!("{NS}s"), push(&statements)).unwrap();
            engine
                .replace(Some("q"), &text(2 - round % 2, alone))
                .unwrap();
            engine.checkpoint().unwrap();
            let copy = Arc::new(disk.copy());
            let again = Engine::open_on(config(), copy)
                .unwrap_or_else(|error| panic!("alone {alone}, round {round}: {error}"));
            again.quiesce(Duration::from_secs(30)).unwrap();
            again.check().unwrap();
        }
    }
}

#[test]
fn a_refused_replacement_changes_nothing() {
    let engine = engine();
    with_stream(&engine);
    engine.register(Some("q"), &text(1, false)).unwrap();
    let before = engine.query_info("q").unwrap();
    for bad in [
        "SELECT ?x FROM",
        &text(1, false).replace(":s ", ":nobody "),
        &text(1, false).replace("1s STEP 1s", "1500ms STEP 500ms"),
        &format!("REGISTER QUERY other AS {}", text(2, false)),
    ] {
        engine.replace(Some("q"), bad).unwrap_err();
    }
    let after = engine.query_info("q").unwrap();
    assert_eq!((before.uid, before.text), (after.uid, after.text));
    let name = format!("{NS}d");
    let derives = |range: i64| {
        format!(
            "PREFIX : <{NS}> REGISTER STREAM :d TIMING ALL AS CONSTRUCT {{ ?x :at :d }} FROM NAMED STREAM :s [RANGE {range}s STEP 1s] WHERE {{ GRAPH :s {{ ?x :at :home }} }}"
        )
    };
    engine.register(Some(&name), &derives(1)).unwrap();
    let reader = text(1, false).replace(":s ", ":d ");
    engine.register(Some("reader"), &reader).unwrap();
    let refused = engine.replace(Some(&name), &derives(2)).unwrap_err();
    assert!(matches!(refused, EngineError::Conflict(_)), "{refused}");
    engine.drop_query("reader").unwrap();
    engine.replace(Some(&name), &derives(2)).unwrap();
}

#[test]
fn a_crash_leaves_the_old_one_or_the_new_one() {
    let step = |engine: &Engine, number: usize| -> Result<(), EngineError> {
        match number {
            0 => {
                let text = format!("CREATE STREAM <{NS}s> TIMING (<{NS}at>) BATCH 1s IDLE NEVER");
                engine.create_stream(None, &text).map(drop)
            }
            1 => engine.advance([(format!("{NS}s"), EventTime(0))]).map(drop),
            2 => engine.register(Some("member"), &text(1, false)).map(drop),
            3 => engine.register(Some("alone"), &text(1, true)).map(drop),
            6 => engine.replace(Some("member"), &text(3, false)).map(drop),
            7 => engine.replace(Some("alone"), &text(3, true)).map(drop),
            _ => {
                let at = number as i64;
                let to = [(format!("{NS}s"), EventTime(at * 1000))];
                let statement = format!("p{at} at home");
                let push = numbered(at as u64, &[(at * 1000 - 500, &statement)]);
                engine.push(&format!("{NS}s"), push)?;
                engine.advance(to).map(drop)
            }
        }
    };
    const STEPS: usize = 11;
    let outcome = |engine: &Engine| {
        let of = |name: &str| {
            let info = engine.query_info(name).unwrap();
            (info.text, firings(engine, name, None))
        };
        BTreeMap::from(["member", "alone"].map(|name| (name, of(name))))
    };
    let whole = engine();
    (0..STEPS).for_each(|number| step(&whole, number).unwrap());
    let wanted = outcome(&whole);
    let closes: Vec<i64> = wanted["member"].1.iter().map(|(close, _)| *close).collect();
    assert_eq!(closes, [6000, 7000, 8000, 9000, 10_000]);
    for sync in 0..60 {
        for keep in [
            CrashKeep::Synced,
            CrashKeep::Written,
            CrashKeep::Seeded(sync),
        ] {
            let disk = SimDisk::new();
            disk.crash_at_sync(sync, keep);
            let mut done = 0;
            let crashed = Engine::open_on(config(), Arc::new(disk.clone())).map(|engine| {
                done = (0..STEPS)
                    .take_while(|number| step(&engine, *number).is_ok())
                    .count();
            });
            if crashed.is_ok() && done == STEPS {
                return;
            }
            let engine = Engine::open_on(config(), Arc::new(disk.restarted())).unwrap();
            for number in done..STEPS {
                step(&engine, number).unwrap();
            }
            assert_eq!(outcome(&engine), wanted, "crashed at sync {sync}, {keep:?}");
            engine.check().unwrap();
        }
    }
    panic!("it crashed at every sync");
}
