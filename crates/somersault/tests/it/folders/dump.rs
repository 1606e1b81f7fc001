//! What is dumped and taken by another engine is equal.

use super::filled;
use crate::support::scenario::NS;
use somersault::disk::SimDisk;
use somersault::oxrdf::Dataset;
use somersault::oxrdf::dataset::CanonicalizationAlgorithm;
use somersault::{Engine, EventTime, LoadOptions, RdfFormat};
use somersault_lang::{Parser, Statement};
use std::collections::BTreeSet;

fn dumped(engine: &Engine) -> String {
    let mut dump = engine.dump().unwrap();
    let mut text = Vec::new();
    while dump.next_piece(&mut text).unwrap() {}
    let text = String::from_utf8(text).unwrap();
    assert_eq!(dump.statements(), text.lines().count() as u64);
    assert_eq!(dump.statements(), engine.health().stored_statements);
    assert_eq!(dump.sn(), engine.stable());
    text
}

/// The statements, with blank nodes named by what is said of them.
fn canonical(text: &str) -> BTreeSet<String> {
    let parser = oxrdfio::RdfParser::from_format(RdfFormat::NQuads);
    let quads: Result<Dataset, _> = parser.for_slice(text.as_bytes()).collect();
    let mut quads = quads.unwrap();
    quads.canonicalize(CanonicalizationAlgorithm::Unstable);
    quads.iter().map(|quad| quad.to_string()).collect()
}

/// Declares everything that a text says.
fn declare(engine: &Engine, text: &str) {
    for part in Parser::new().parse_script(text).unwrap() {
        match part.statement {
            Statement::CreateStream(_) => drop(engine.create_stream(None, &part.text).unwrap()),
            Statement::Register(_) => drop(engine.register(None, &part.text).unwrap()),
            Statement::PauseQuery(name) => engine.pause_query(&name).unwrap(),
            other => panic!("{other:?}"),
        }
    }
}

/// Another engine that has taken a dump.
fn taken(engine: &Engine) -> Engine {
    let other = crate::support::scenario::engine();
    let text = dumped(engine);
    (other.load(text.as_bytes(), RdfFormat::NQuads, LoadOptions::default())).unwrap();
    declare(&other, &engine.declarations().unwrap());
    other
}

#[test]
fn an_engine_that_takes_a_dump_dumps_the_same() {
    let engine = filled(&SimDisk::new());
    let other = taken(&engine);
    let text = dumped(&engine);
    assert!(
        text.contains("<<( ") && text.contains("\"01\"^^<") && text.contains("@en"),
        "{text}"
    );
    assert_eq!(canonical(&text), canonical(&dumped(&other)));
    assert_eq!(
        engine.declarations().unwrap(),
        other.declarations().unwrap()
    );
    // Names are kept as they are, so a third one has the same lines.
    let third = taken(&other);
    assert_eq!(canonical(&dumped(&third)), canonical(&text));
}

#[test]
fn nothing_is_dumped_of_an_empty_engine() {
    let engine = crate::support::scenario::engine();
    assert_eq!(
        (dumped(&engine), engine.declarations().unwrap()),
        Default::default()
    );
}

#[test]
fn a_dump_keeps_its_snapshot_while_others_write() {
    let engine = filled(&SimDisk::new());
    for shard in 0..50 {
        let text = format!("INSERT DATA {{ <{NS}v{shard}> <{NS}n> {shard} }}");
        engine.update(&text).run().unwrap();
    }
    let expected = dumped(&engine);
    let mut dump = engine.dump().unwrap();
    engine.update("CLEAR ALL").run().unwrap();
    let mut text = Vec::new();
    while dump.next_piece(&mut text).unwrap() {
        let added = format!("INSERT DATA {{ <{NS}later> <{NS}n> {} }}", text.len());
        engine.update(&added).run().unwrap();
    }
    assert_eq!(String::from_utf8(text).unwrap(), expected);
}

#[test]
fn declarations_come_behind_those_that_they_need() {
    let engine = crate::support::scenario::engine();
    let stream = format!("# likes\nCREATE STREAM <{NS}s> BATCH 1s IDLE NEVER # a comment");
    engine.create_stream(None, &stream).unwrap();
    let derived = |limit: u32| {
        format!(
            "REGISTER STREAM <{NS}d> AS CONSTRUCT {{ ?x <{NS}p> ?y }} FROM STREAM <{NS}s> [RANGE {limit}s STEP 1s] WHERE {{ ?x <{NS}knows> ?y }}"
        )
    };
    engine.register(None, &derived(1)).unwrap();
    let query =
        format!("PREFIX : <{NS}> SELECT ?x FROM STREAM :s [RANGE 1s STEP 1s] {{ ?x :p ?y }}");
    for name in [
        "plain",
        "two words",
        "quote \" and \\",
        "SELECT",
        "http://e/q",
    ] {
        engine.register(Some(name), &query).unwrap();
    }
    let over = format!(
        "REGISTER QUERY over AS SELECT ?x FROM STREAM <{NS}d> [RANGE 1s STEP 1s] {{ ?x ?p ?y }}"
    );
    engine.register(None, &over).unwrap();
    engine.pause_query("two words").unwrap();
    engine.advance([(format!("{NS}s"), EventTime(0))]).unwrap();
    let text = engine.declarations().unwrap();
    let other = crate::support::scenario::engine();
    declare(&other, &text);
    assert_eq!(other.declarations().unwrap(), text);
    assert!(other.query_info("two words").unwrap().paused);
    assert_eq!(other.queries().len(), engine.queries().len());
}
