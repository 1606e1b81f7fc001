//! Bulk loading: the same data by every way in, errors at their place, and again after a restart.

use crate::support::scenario::ask;
use somersault::disk::{CrashKeep, SimDisk};
use somersault::oxrdf::{GraphName, NamedNode};
use somersault::{Engine, EngineConfig, EngineError, FabricKind, LoadOptions, RdfFormat};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// More than one chunk of lines, with blank nodes that meet again in far lines, escapes and
/// repeats.
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

/// All statements, blank nodes by their labels: those of the first document of an engine are the
/// same in each.
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

/// A large load replaces all lists by an image. The replaced memory is freed once no reader needs
/// it, without another write.
#[test]
fn memory_replaced_by_a_load_is_freed_without_further_writes() {
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
    // Read correctly: an IRI that continues on the next line, which a line reader must not cut.
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

fn graph() -> NamedNode {
    NamedNode::new_unchecked("urn:g")
}

fn put(engine: &Engine, text: &str, format: RdfFormat) -> Result<[u64; 2], EngineError> {
    let name = GraphName::from(graph());
    let done = engine.replace_graph(&name, text.as_bytes(), format, None)?;
    Ok([done.inserted, done.deleted])
}

fn post(engine: &Engine, text: &str, format: RdfFormat) -> Result<[u64; 2], EngineError> {
    let name = GraphName::from(graph());
    let done = engine.add_to_graph(&name, text.as_bytes(), format, None)?;
    Ok([done.inserted, done.deleted])
}

fn in_graph(engine: &Engine) -> BTreeSet<String> {
    let rows = ask(engine, "SELECT ?s ?p ?o { GRAPH <urn:g> { ?s ?p ?o } }");
    let count = rows.len();
    let set = BTreeSet::from_iter(rows);
    assert_eq!(set.len(), count, "a graph is a set");
    set
}

/// Another document as long as the first, with some of its statements.
fn other_document() -> String {
    let mut text = document();
    for n in 0..3_000 {
        let _ = writeln!(text, "<urn:s{n}> <urn:p> \"of the other document, {n}\" .");
    }
    let is_kept = |(at, line): &(usize, &str)| at % 9 != 0 || line.contains("urn:s");
    let lines = text.lines().enumerate().filter(is_kept);
    lines.map(|(_, line)| format!("{line}\n")).collect()
}

/// The content of each of these documents, the n-th one of an engine.
fn loaded(document: &str, number: usize) -> BTreeSet<String> {
    let engine = Engine::open(EngineConfig::default()).unwrap();
    for _ in 1..number {
        engine
            .load(&b""[..], RdfFormat::Turtle, LoadOptions::default())
            .unwrap();
    }
    let options = LoadOptions {
        graph: Some(graph()),
        ..LoadOptions::default()
    };
    let format = RdfFormat::NTriples;
    engine.load(document.as_bytes(), format, options).unwrap();
    in_graph(&engine)
}

#[test]
fn large_documents_are_put_and_posted_as_small_ones_are() {
    let (first, second) = (document(), other_document());
    let [one, two] = [loaded(&first, 1), loaded(&second, 2)];
    let both: BTreeSet<String> = one.union(&two).cloned().collect();
    let came = two.difference(&one).count() as u64;
    let went = one.difference(&two).count() as u64;
    assert!(came > 0 && went > 0 && came + went < both.len() as u64);
    for format in [RdfFormat::NTriples, RdfFormat::Turtle] {
        let open = || Engine::open(EngineConfig::default()).unwrap();
        let replaced = open();
        assert_eq!(
            put(&replaced, &first, format).unwrap(),
            [one.len() as u64, 0]
        );
        assert!(in_graph(&replaced) == one, "{format}");
        assert_eq!(put(&replaced, &second, format).unwrap(), [came, went]);
        assert!(in_graph(&replaced) == two, "{format}");
        replaced.check().unwrap();

        let added = open();
        assert_eq!(post(&added, &first, format).unwrap(), [one.len() as u64, 0]);
        assert_eq!(post(&added, &second, format).unwrap(), [came, 0]);
        assert!(in_graph(&added) == both, "{format}");
        assert!(statements(&added).is_empty(), "all went into one graph");
        added.check().unwrap();
    }
}

#[test]
fn a_large_document_that_says_nothing_new_changes_nothing() {
    let engine = Engine::open(EngineConfig::default()).unwrap();
    let text = "<urn:a> <urn:p> \"again and again\" .\n".repeat(40_000);
    assert_eq!(put(&engine, &text, RdfFormat::NTriples).unwrap(), [1, 0]);
    let sn = engine.metrics().stable_sn;
    assert_eq!(put(&engine, &text, RdfFormat::NTriples).unwrap(), [0, 0]);
    assert_eq!(post(&engine, &text, RdfFormat::Turtle).unwrap(), [0, 0]);
    assert_eq!(engine.metrics().stable_sn, sn);
    assert_eq!(in_graph(&engine).len(), 1);
}

#[test]
fn a_large_document_that_does_not_parse_leaves_its_graph_alone() {
    let engine = Engine::open(EngineConfig::default()).unwrap();
    put(&engine, "<urn:a> <urn:p> 1 .", RdfFormat::Turtle).unwrap();
    let text = document() + "<http://example.com/a> nonsense .\n" + &document();
    for format in [RdfFormat::NTriples, RdfFormat::Turtle] {
        for write in [put, post] {
            let error = write(&engine, &text, format).unwrap_err();
            let EngineError::Data { line, .. } = error else {
                panic!("{error}")
            };
            assert_eq!(line, document().lines().count() as u64 + 1, "{format}");
        }
    }
    assert_eq!(in_graph(&engine).len(), 1);
}

#[test]
fn a_graph_loaded_from_large_documents_survives_a_restart() {
    let disk = SimDisk::new();
    let engine = Engine::open_on(EngineConfig::default(), Arc::new(disk.clone())).unwrap();
    for text in [document(), other_document()] {
        put(&engine, &text, RdfFormat::NTriples).unwrap();
    }
    post(&engine, &document(), RdfFormat::Turtle).unwrap();
    let before = in_graph(&engine);
    drop(engine);
    let disk = disk.crash(CrashKeep::Synced);
    let again = Engine::open_on(EngineConfig::default(), Arc::new(disk)).unwrap();
    assert!(in_graph(&again) == before);
}
