//! Live queries: nothing is declared but the query, and its subscribers are told when its answer
//! changes.

use somersault::{Engine, EngineConfig, SubscribeOptions, SubscriptionEvent};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let engine = Engine::open(EngineConfig::default())?;
    let update = |text: &str| {
        let text = format!("PREFIX : <http://example.org/> {text}");
        engine.update(&text).run()
    };
    update("INSERT DATA { :ann :knows :bob . :bob :at :cafe }")?;

    engine.register(
        None,
        "PREFIX : <http://example.org/>
         REGISTER QUERY near AS SELECT ?friend ?place WHERE { :ann :knows ?friend . ?friend :at ?place }",
    )?;
    // Of each change, what came.
    engine.register(
        None,
        "PREFIX : <http://example.org/>
         REGISTER ISTREAM moved AS SELECT ?friend ?place WHERE { :ann :knows ?friend . ?friend :at ?place }",
    )?;
    let near = engine.subscribe("near", SubscribeOptions::default())?;
    let moved = engine.subscribe("moved", SubscribeOptions::default())?;
    let next = |subscription: &somersault::Subscription| match subscription.recv() {
        Some(SubscriptionEvent::Firing(firing)) => firing
            .answer
            .as_ref()
            .map(|answer| answer.len())
            .map_err(Clone::clone),
        other => Err(format!("no firing, but {other:?}")),
    };
    println!("at the registration: {} near", next(&near)?);
    println!("at the registration: {} came", next(&moved)?);

    // Ann does not know Cid yet, so her answer stays.
    update("INSERT DATA { :cid :at :park }")?;
    // Now she does.
    update("INSERT DATA { :ann :knows :cid }")?;
    println!("ann meets cid: {} near", next(&near)?);
    println!("ann meets cid: {} came", next(&moved)?);

    update("DELETE { ?who :at :cafe } INSERT { ?who :at :park } WHERE { ?who :at :cafe }")?;
    println!("bob walks: {} near", next(&near)?);
    println!("bob walks: {} came", next(&moved)?);
    engine.shutdown()?;
    Ok(())
}
