//! Bulk loading: the same data by every way in, errors at their place, and again after a restart.

use crate::scenario::ask;
use somersault::disk::{CrashKeep, SimDisk};
use somersault::{Engine, EngineConfig, EngineError, FabricKind, LoadOptions, RdfFormat};
use std::fmt::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// More than one chunk of lines, with blank nodes that meet again in far lines, escapes and repeats.
fn document() -> String {
    const NS: &str = "http://example.com/a/rather/long/name/so/that/there/are/many/bytes/";
    let mut text = String::new();
    for n in 0..16_000 {
        let (own, other) = (n % 700, n % 90);
        // Writing to a String never fails.
        let _ = match n % 5 {
            0 => writeln!(text, "_:b{own} <{NS}knows> _:b{other} ."),
            1 => writeln!(text, "<{NS}{n}> <{NS}name> \"a\\tname {n}\"@en-GB . # odd"),
            2 => writeln!(text, "<{NS}{other}> <{NS}age> \"0{n}\" ."),
            3 => writeln!(
                text,
                "<{NS}{n}> <{NS}said> <<( _:b{own} <{NS}p> \"x\" )>> .\r"
            ),
            _ => writeln!(text, "<{NS}a> <{NS}p> <{NS}o> ."),
        };
    }
    assert!(text.len() > 1 << 21, "several chunks");
    text
}

fn load(engine: &Engine, text: &str, format: RdfFormat, lenient: bool) -> u64 {
    let options = LoadOptions {
        lenient,
        ..LoadOptions::default()
    };
    let loaded = engine.load(text.as_bytes(), format, options).unwrap();
    loaded.statements
}

/// All statements, blank nodes by their labels: those of the first document of an engine are the same in
/// each.
fn statements(engine: &Engine) -> Vec<String> {
    ask(engine, "SELECT ?s ?p ?o { ?s ?p ?o }")
}

#[test]
fn every_way_in_stores_the_same() {
    let text = document();
    let open = || Engine::open(EngineConfig::default()).unwrap();
    let in_chunks = open();
    assert_eq!(load(&in_chunks, &text, RdfFormat::NTriples, false), 16_000);
    let expected = statements(&in_chunks);
    // The pairs of blank nodes repeat after the least common multiple of 700 and 90.
    assert_eq!(expected.len(), 6_300 / 5 + 3 * 3_200 + 1);
    in_chunks.check().unwrap();
    for (format, lenient) in [
        (RdfFormat::NQuads, false),
        (RdfFormat::NTriples, true),
        (RdfFormat::Turtle, false),
    ] {
        let other = open();
        load(&other, &text, format, lenient);
        assert!(statements(&other) == expected, "{format} {lenient}");
    }
}

/// A large load replaces what there was by an image of all. What it replaced goes when nobody reads it
/// any more, though nothing is written after it.
#[test]
fn what_a_load_replaces_is_freed_without_further_writes() {
    // Enough for an image, in one chunk of lines.
    let mut text = String::new();
    for n in 0..30_000 {
        let _ = writeln!(text, "<a:{n}> <a:p{}> <a:{}> .", n % 7, n * 31 % 30_000);
    }
    for fabric in [FabricKind::Timely, FabricKind::Simulated { seed: 7 }] {
        let engine = Engine::open(EngineConfig {
            workers: 1,
            fabric,
            ..EngineConfig::default()
        })
        .unwrap();
        let stored_bytes = || engine.metrics().memory.store_bytes;
        load(&engine, &text, RdfFormat::NTriples, false);
        let once = stored_bytes();
        load(&engine, &text, RdfFormat::NTriples, false);
        let deadline = Instant::now() + Duration::from_secs(30);
        while stored_bytes() > once + once / 10 {
            let bytes = stored_bytes();
            assert!(Instant::now() < deadline, "{bytes} bytes, {once} before");
            std::thread::sleep(Duration::from_millis(20));
        }
        engine.check().unwrap();
    }
}

#[test]
fn a_document_that_does_not_parse_leaves_nothing() {
    let mut text = document();
    let lines = text.lines().count() as u64;
    text.push_str("<http://example.com/a> nonsense .\n");
    text.push_str(&document());
    let engine = Engine::open(EngineConfig::default()).unwrap();
    let error = engine
        .load(text.as_bytes(), RdfFormat::NTriples, LoadOptions::default())
        .unwrap_err();
    let EngineError::Data { line, column, .. } = &error else {
        panic!("{error}")
    };
    assert_eq!((*line, *column), (lines + 1, 24));
    assert_eq!(statements(&engine), Vec::<String>::new());
}

#[test]
fn a_load_is_there_after_a_restart() {
    let disk = SimDisk::new();
    let engine = Engine::open_on(EngineConfig::default(), Arc::new(disk.clone())).unwrap();
    load(&engine, &document(), RdfFormat::NTriples, false);
    // Taken as it is: an IRI that goes on in the next line, which a reader of lines must not cut.
    let odd = "<http://example.com/s\n2> <http://example.com/p> <http://example.com/o> .\n"
        .repeat(20_000);
    load(&engine, &odd, RdfFormat::NTriples, true);
    let before = statements(&engine);
    assert!(before.iter().any(|row| row.contains('\n')));
    drop(engine);
    let disk = disk.crash(CrashKeep::Synced);
    let again = Engine::open_on(EngineConfig::default(), Arc::new(disk)).unwrap();
    assert!(statements(&again) == before);
}
