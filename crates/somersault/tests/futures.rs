//! Subscriptions as streams of asynchronous programs: the events, the wake-ups and the end are
//! those of a subscriber that blocks.

#![allow(clippy::unwrap_used)]

use futures_util::{FutureExt, StreamExt};
use somersault::{
    Clock, Engine, EngineConfig, EventTime, Subscription, SubscriptionEvent, SubscriptionStream,
};
use std::time::Duration;

const STREAM: &str = "urn:s";
const PATIENCE: Duration = Duration::from_secs(60);

fn engine() -> Engine {
    let engine = Engine::open(EngineConfig {
        clock: Clock::Manual,
        ..EngineConfig::default()
    })
    .unwrap();
    let stream = "CREATE STREAM <urn:s> BATCH 1s IDLE NEVER";
    engine.create_stream(None, stream).unwrap();
    let text = "SELECT ?x FROM STREAM <urn:s> [RANGE 2s STEP 1s] WHERE { ?x ?p ?o }";
    engine.register(Some("seen"), text).unwrap();
    engine.advance([(STREAM, EventTime(0))]).unwrap();
    engine
}

fn subscribe(engine: &Engine) -> Subscription {
    engine.subscribe("seen", Default::default()).unwrap()
}

/// The close of the next event, which is a firing; `None` at the end of the stream.
async fn next_close(events: &mut SubscriptionStream) -> Option<EventTime> {
    match tokio::time::timeout(PATIENCE, events.next())
        .await
        .unwrap()?
    {
        SubscriptionEvent::Firing(firing) => Some(firing.close),
        other => panic!("the next event is {other:?}, not a firing"),
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_time().build().unwrap().block_on(future)
}

#[test]
fn a_stream_has_the_events_of_a_subscriber_that_blocks() {
    let engine = engine();
    let blocking = subscribe(&engine);
    let mut events = subscribe(&engine).into_stream();
    engine.advance([(STREAM, EventTime(3_000))]).unwrap();
    engine.quiesce(PATIENCE).unwrap();
    let expected = [1_000, 2_000, 3_000].map(EventTime);
    let blocked = blocking.take(3).map(|event| match event {
        SubscriptionEvent::Firing(firing) => firing.close,
        other => panic!("the next event is {other:?}, not a firing"),
    });
    assert_eq!(blocked.collect::<Vec<_>>(), expected);
    block_on(async {
        for close in expected {
            assert_eq!(next_close(&mut events).await, Some(close));
        }
        assert!(
            events.next().now_or_never().is_none(),
            "nothing else has fired"
        );
    });
}

#[test]
fn a_task_that_waits_is_woken_by_a_firing_and_by_the_end() {
    let engine = engine();
    let mut events = subscribe(&engine).into_stream();
    let feeder = std::thread::spawn({
        let engine = engine.clone();
        move || {
            // The task most likely waits by now; the outcome is the same if it does not.
            std::thread::sleep(Duration::from_millis(50));
            engine.advance([(STREAM, EventTime(1_000))]).unwrap();
            engine.quiesce(PATIENCE).unwrap();
            std::thread::sleep(Duration::from_millis(50));
            engine.drop_query("seen").unwrap();
        }
    });
    block_on(async {
        assert_eq!(next_close(&mut events).await, Some(EventTime(1_000)));
        assert_eq!(next_close(&mut events).await, None);
        assert_eq!(
            next_close(&mut events).await,
            None,
            "an ended stream stays ended"
        );
    });
    feeder.join().unwrap();
}

#[test]
fn dropping_a_stream_unsubscribes_and_its_subscription_loses_nothing() {
    let engine = engine();
    let events = subscribe(&engine).into_stream();
    engine.advance([(STREAM, EventTime(1_000))]).unwrap();
    engine.quiesce(PATIENCE).unwrap();
    let subscription = events.into_inner();
    assert!(matches!(
        subscription.try_recv(),
        Some(SubscriptionEvent::Firing(_))
    ));
    let subscribers = || engine.query_info("seen").unwrap().subscribers;
    assert_eq!(subscribers(), 1);
    drop(subscription.into_stream());
    assert_eq!(subscribers(), 0);
}
