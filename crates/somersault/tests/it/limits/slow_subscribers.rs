//! Subscribers that read more slowly than their query fires.

use crate::support::scenario::*;
use somersault::{Backlog, Engine, SubscribeOptions, Subscription, SubscriptionEvent, WhenSlow};
use std::time::Duration;

/// An engine with a query that has two rows in each firing.
fn started() -> Engine {
    let engine = engine();
    let stream = format!("CREATE STREAM <{NS}s> BATCH 1s IDLE NEVER");
    engine.create_stream(None, &stream).unwrap();
    let text = format!("SELECT ?s FROM STREAM <{NS}s> [RANGE 1s STEP 1s] WHERE {{ ?s ?p ?o }}");
    engine.register(Some("q"), &text).unwrap();
    advance(&engine, 0);
    engine
}

fn fire(engine: &Engine, closes: std::ops::Range<i64>) {
    for close in closes {
        let rows = [(close * 1000, "a p b"), (close * 1000, "c p d")];
        engine.push(&format!("{NS}s"), push(&rows)).unwrap();
    }
    advance(engine, engine.streams()[0].watermark.unwrap().0 + 1000);
    engine.quiesce(Duration::from_secs(60)).unwrap();
}

fn subscribe(engine: &Engine, backlog: &Backlog, when_slow: WhenSlow) -> Subscription {
    let options = SubscribeOptions {
        from_now: true,
        backlog: Some(backlog.clone()),
        when_slow,
        ..SubscribeOptions::default()
    };
    engine.subscribe("q", options).unwrap()
}

#[test]
fn a_waiting_firing_counts_once_and_is_freed_when_read() {
    let engine = started();
    let backlog = Backlog::new(u64::MAX, u64::MAX);
    let readers = [(); 3].map(|()| subscribe(&engine, &backlog, WhenSlow::End));
    fire(&engine, 0..1);
    let of_one = backlog.bytes();
    assert!(of_one > 0);
    fire(&engine, 1..3);
    assert_eq!(backlog.bytes(), 3 * of_one);
    for reader in &readers[..2] {
        assert_eq!(firing(reader.try_recv().unwrap()).unwrap().close.0, 1000);
    }
    assert_eq!(
        backlog.bytes(),
        3 * of_one,
        "it still waits for the third subscriber"
    );
    assert!(readers[2].try_recv().is_some());
    assert_eq!(backlog.bytes(), 2 * of_one);
    drop(readers);
    assert_eq!((backlog.bytes(), backlog.slow()), (0, 0));
}

#[test]
fn a_subscriber_with_too_much_waiting_is_told() {
    let engine = started();
    // A firing that waits alone is kept, whatever it takes.
    let ending = Backlog::new(1, u64::MAX);
    let ended = subscribe(&engine, &ending, WhenSlow::End);
    let skipping = Backlog::new(1, u64::MAX);
    let skipped = subscribe(&engine, &skipping, WhenSlow::SkipOldest);
    fire(&engine, 0..1);
    assert!(firing(ended.try_recv().unwrap()).is_some());
    fire(&engine, 1..5);
    assert!(matches!(
        ended.recv(),
        Some(SubscriptionEvent::Slow { missed: 4 })
    ));
    assert!(ended.recv().is_none());
    assert_eq!((ending.bytes(), ending.slow()), (0, 1));
    let missed = skipped.recv();
    assert!(matches!(
        missed,
        Some(SubscriptionEvent::Lagged { missed: Some(4) })
    ));
    assert_eq!(firing(skipped.recv().unwrap()).unwrap().close.0, 5000);
    assert_eq!((skipping.bytes(), skipping.slow()), (0, 1));
}

#[test]
fn all_together_have_a_limit_too() {
    let engine = started();
    let backlog = Backlog::new(u64::MAX, 1);
    let slow = subscribe(&engine, &backlog, WhenSlow::End);
    fire(&engine, 0..4);
    let prompt = subscribe(&engine, &backlog, WhenSlow::End);
    fire(&engine, 4..5);
    assert!(matches!(
        slow.try_recv(),
        Some(SubscriptionEvent::Slow { .. })
    ));
    assert!(
        firing(prompt.try_recv().unwrap()).is_some(),
        "few firings wait for it"
    );
}
