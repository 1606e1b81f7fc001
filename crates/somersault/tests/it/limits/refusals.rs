//! Bad input gets the right kind of error, a sentence with the place, and leaves nothing half-done.

use crate::support::scenario::*;
use somersault::{
    Engine, EngineConfig, EngineError, FastPath, LoadOptions, RdfFormat, SubscribeOptions,
};

const CREATE: &str = "CREATE STREAM <http://example.org/s> BATCH 1s IDLE NEVER";
const QUERY: &str =
    "SELECT ?x FROM STREAM <http://example.org/s> [RANGE 2s STEP 1s] WHERE { ?x ?p ?o }";

#[test]
fn texts_that_do_not_parse_say_where() {
    let engine = engine();
    let query = engine.query("SELECT ?x\nWHERE { ?x ?p }").run();
    assert!(
        matches!(query, Err(EngineError::Parse { line: 2, .. })),
        "{query:?}"
    );
    let update = engine.update("INSERT DATA { <a> }").run();
    assert!(
        matches!(update, Err(EngineError::Parse { line: 1, .. })),
        "{update:?}"
    );
    let stream = engine.create_stream(None, "CREATE STREAM");
    assert!(
        matches!(stream, Err(EngineError::Parse { .. })),
        "{stream:?}"
    );
    let text = "<urn:a> <urn:b> <urn:c> .\n<urn:a> <urn:b> .";
    let load = engine.load(text.as_bytes(), RdfFormat::NTriples, LoadOptions::default());
    assert!(
        matches!(load, Err(EngineError::Data { line: 2, .. })),
        "{load:?}"
    );
    assert!(
        ask(&engine, "SELECT * { ?s ?p ?o }").is_empty(),
        "no statement of the refused data was taken"
    );
}

#[test]
fn streams_and_queries_that_are_not_there_or_are_something_else() {
    let engine = engine();
    let unknown = engine.push("http://example.org/s", push(&[(1, "a b c")]));
    assert!(
        matches!(unknown, Err(EngineError::NotFound(_))),
        "{unknown:?}"
    );
    let window = engine.register(Some("q"), QUERY).unwrap_err();
    assert!(
        window.to_string().contains("http://example.org/s"),
        "{window}"
    );
    engine
        .create_stream(Some("http://example.org/s"), CREATE)
        .unwrap();
    engine.create_stream(None, CREATE).unwrap();
    let other = engine.create_stream(None, "CREATE STREAM <http://example.org/s> BATCH 2s");
    assert!(matches!(other, Err(EngineError::Conflict(_))), "{other:?}");
    let name = engine.create_stream(Some("urn:other"), CREATE);
    assert!(matches!(name, Err(EngineError::Invalid(_))), "{name:?}");
    let first = engine.register(Some("q"), QUERY).unwrap();
    assert_eq!(engine.register(Some("q"), QUERY).unwrap().uid, first.uid);
    let other = engine.register(Some("q"), &QUERY.replace("2s", "3s"));
    assert!(matches!(other, Err(EngineError::Conflict(_))), "{other:?}");
    let nameless = engine.register(None, QUERY);
    assert!(
        matches!(nameless, Err(EngineError::Invalid(_))),
        "{nameless:?}"
    );
    let in_use = engine.drop_stream("http://example.org/s");
    assert!(
        matches!(in_use, Err(EngineError::Conflict(_))),
        "{in_use:?}"
    );
    let subscription = engine.subscribe("other", SubscribeOptions::default());
    assert!(matches!(subscription, Err(EngineError::NotFound(_))));
    engine.drop_query("q").unwrap();
    assert!(matches!(
        engine.drop_query("q"),
        Err(EngineError::NotFound(_))
    ));
    engine.drop_stream("http://example.org/s").unwrap();
}

#[test]
fn times_that_do_not_fit() {
    let engine = engine();
    engine.create_stream(None, CREATE).unwrap();
    let uneven = engine.register(Some("q"), &QUERY.replace("STEP 1s", "STEP 500ms"));
    assert!(matches!(uneven, Err(EngineError::Invalid(_))), "{uneven:?}");
    engine
        .push("http://example.org/s", push(&[(5000, "a b c")]))
        .unwrap();
    let back = engine.push(
        "http://example.org/s",
        push(&[(6000, "a b c"), (4000, "d e f")]),
    );
    let message = back.unwrap_err().to_string();
    assert!(
        message.contains("4000") && message.contains("statement 2"),
        "{message}"
    );
    assert_eq!(engine.stream("http://example.org/s").unwrap().tuples, 1);
    let mut timeless = push(&[(7000, "a b c")]);
    timeless.statements[0].at = None;
    let missing = engine.push("http://example.org/s", timeless);
    assert!(
        matches!(missing, Err(EngineError::Invalid(_))),
        "{missing:?}"
    );
}

#[test]
fn limits_are_named() {
    let mut settings = config();
    settings.limits.push_statements = 1;
    settings.limits.query_text_bytes = 100;
    settings.limits.registered_queries = 1;
    let engine = somersault::Engine::open(settings).unwrap();
    engine.create_stream(None, CREATE).unwrap();
    let large = engine.push("http://example.org/s", push(&[(1, "a b c"), (2, "a b d")]));
    let message = large.unwrap_err().to_string();
    assert!(message.contains("push_statements"), "{message}");
    let long = engine.query(&format!("ASK {{ }}{}", " ".repeat(200))).run();
    assert!(long.unwrap_err().to_string().contains("query_text_bytes"));
    engine.register(Some("q"), QUERY).unwrap();
    let second = engine.register(Some("r"), QUERY).unwrap_err();
    assert!(
        second.to_string().contains("registered_queries"),
        "{second}"
    );
}

#[test]
fn damage_refuses_to_open_and_two_engines_do_not_share_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let mut settings = config();
    settings.data = Some(folder.path().to_owned());
    let engine = somersault::Engine::open(settings.clone()).unwrap();
    for number in 0..20 {
        let text = format!("INSERT DATA {{ <urn:a> <urn:p> {number} }}");
        engine.update(&text).run().unwrap();
    }
    let second = somersault::Engine::open(settings.clone());
    assert!(matches!(second.err(), Some(EngineError::Conflict(_))));
    engine.shutdown().unwrap();
    drop(engine);
    let segment = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .max_by_key(|path| std::fs::metadata(path).unwrap().len())
        .unwrap();
    let mut bytes = std::fs::read(&segment).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0xff;
    std::fs::write(&segment, bytes).unwrap();
    let damaged = somersault::Engine::open(settings).err().unwrap();
    let EngineError::Damaged { offset, file, .. } = &damaged else {
        panic!("{damaged}");
    };
    assert!(*offset > 0 && file.ends_with(segment.file_name().unwrap()));
}

/// A thread that must not wait must not parse for long either: each call is read twice.
#[test]
fn a_text_that_takes_long_to_parse_is_parsed_on_the_query_pool() {
    let engine = Engine::open(EngineConfig::default()).unwrap();
    let call = "REPLACE(".repeat(12) + "?o" + &",'a','b')".repeat(12);
    let text = format!("SELECT * {{ ?s ?p ?o FILTER({call} != '') }}");
    let begun = engine.query(&text).begin().unwrap();
    assert!(matches!(begun, FastPath::Deferred(_)));
    drop(begun);
    assert!(engine.query(&text).run().unwrap().answer.is_empty());
    let wrong = text.replace("!= ''", "!=");
    let refused = engine.query(&wrong).run();
    assert!(
        matches!(refused, Err(EngineError::Parse { .. })),
        "{refused:?}"
    );
}
