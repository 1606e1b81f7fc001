//! A continuous query that joins a window of a stream with stored data to which the stream itself
//! adds.

use somersault::oxrdf::{GraphName, NamedNode, Quad};
use somersault::{
    Engine, EngineConfig, EventTime, Push, StreamStatement, SubscribeOptions, SubscriptionEvent,
};

fn name(local: &str) -> NamedNode {
    NamedNode::new_unchecked(format!("http://example.org/{local}"))
}

/// One statement with its event time.
fn at(at_ms: i64, subject: &str, predicate: &str, object: &str) -> StreamStatement {
    let (subject, predicate, object) = (name(subject), name(predicate), name(object));
    StreamStatement {
        at: Some(EventTime(at_ms)),
        quad: Quad::new(subject, predicate, object, GraphName::DefaultGraph),
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let engine = Engine::open(EngineConfig::default())?;
    let friends =
        "PREFIX : <http://example.org/> INSERT DATA { :ann :knows :bob . :bob :knows :cid }";
    engine.update(friends).run()?;

    // Posts are facts and are absorbed; a person's place matters only while a window covers it.
    let stream = "http://example.org/life";
    engine.create_stream(
        None,
        "CREATE STREAM <http://example.org/life> TIMING (<http://example.org/at>) BATCH 1s IDLE NEVER",
    )?;
    engine.register(
        None,
        "PREFIX : <http://example.org/>
         REGISTER QUERY near AS
         SELECT ?friend ?place ?post FROM STREAM :life [RANGE 2s STEP 1s]
         WHERE { :ann :knows ?friend . ?friend :at ?place OPTIONAL { ?friend :wrote ?post } }",
    )?;
    let answers = engine.subscribe("near", SubscribeOptions::default())?;

    engine.advance([(stream, EventTime(0))])?;
    for statements in [
        vec![at(200, "bob", "at", "cafe"), at(300, "cid", "at", "park")],
        vec![at(1500, "bob", "wrote", "post1")],
        vec![at(2100, "cid", "wrote", "post2")],
    ] {
        let second = statements[0].at.unwrap_or_default().0 / 1000;
        engine.push(
            stream,
            Push {
                statements,
                ..Push::default()
            },
        )?;
        engine.advance([(stream, EventTime((second + 1) * 1000))])?;
    }

    for _ in 0..3 {
        let Some(SubscriptionEvent::Firing(firing)) = answers.recv() else {
            return Err("the subscription ended".into());
        };
        let answer = firing.answer.as_ref().map_err(Clone::clone)?;
        println!("at {}, in {:?}:", firing.close, firing.execution);
        for row in answer.rows() {
            let cells = row.iter().map(|cell| match cell {
                Some(term) => term.to_string(),
                None => "nothing yet".to_owned(),
            });
            println!("  {}", cells.collect::<Vec<_>>().join("  "));
        }
    }
    engine.shutdown()?;
    Ok(())
}
