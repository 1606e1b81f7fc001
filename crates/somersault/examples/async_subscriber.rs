//! A subscriber in an asynchronous program: the events of two queries in one task.
//!
//! Run it with `cargo run --example async_subscriber --features futures`.

use futures_util::{StreamExt, stream};
use somersault::{Engine, EngineConfig, EventTime, PushLines, SubscribeOptions, SubscriptionEvent};

const STREAM: &str = "urn:readings";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let engine = Engine::open(EngineConfig::default())?;
    engine.create_stream(None, "CREATE STREAM <urn:readings> BATCH 1s IDLE NEVER")?;
    for (name, sensor) in [("kitchen", "urn:kitchen"), ("cellar", "urn:cellar")] {
        let text = format!(
            "SELECT (MAX(?value) AS ?top) FROM STREAM <{STREAM}> [RANGE 2s STEP 1s]
             WHERE {{ <{sensor}> <urn:shows> ?value }}"
        );
        engine.register(Some(name), &text)?;
    }
    engine.advance([(STREAM, EventTime(0))])?;

    // Both subscriptions as one stream of events.
    let kitchen = engine.subscribe("kitchen", SubscribeOptions::default())?;
    let cellar = engine.subscribe("cellar", SubscribeOptions::default())?;
    let mut events = stream::select(kitchen.into_stream(), cellar.into_stream());

    let lines =
        b"100\t<urn:kitchen> <urn:shows> \"21\" .\n1200\t<urn:cellar> <urn:shows> \"12\" .\n";
    let push = PushLines {
        lines,
        ..PushLines::default()
    };
    engine.push_lines(STREAM, push)?;
    engine.advance([(STREAM, EventTime(3_000))])?;

    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    runtime.block_on(async {
        for _ in 0..6 {
            let Some(SubscriptionEvent::Firing(firing)) = events.next().await else {
                return Err("the subscriptions ended".into());
            };
            let answer = firing.answer.as_ref().map_err(Clone::clone)?;
            let top = answer.rows().flatten().flatten().next();
            let top = top.map_or("nothing".to_owned(), |top| top.to_string());
            println!("{} at {}: {top}", firing.query, firing.close);
        }
        Ok(())
    })
}
