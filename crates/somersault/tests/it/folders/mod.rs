//! Data folders without an engine: verified, backed up while one runs, restored; and dumps.

mod backup;
mod dump;
mod verify;

use crate::support::scenario::*;
use somersault::disk::{Disk, SimDisk};
use somersault::folder::{FolderReport, VerifyState, verify_folder};
use somersault::{Engine, EventTime, LoadOptions, RdfFormat};
use std::sync::Arc;

/// An engine on this disk, with loads, updates, a stream, queries and firings.
fn filled(disk: &SimDisk) -> Engine {
    let engine = Engine::open_on(config(), Arc::new(disk.clone())).unwrap();
    let text = format!(
        "<{NS}a> <{NS}knows> <{NS}b> .\n<{NS}b> <{NS}knows> _:c <{NS}g> .\n_:c <{NS}name> \"C\"@en <{NS}g> .\n"
    );
    (engine.load(text.as_bytes(), RdfFormat::NQuads, LoadOptions::default())).unwrap();
    let text = format!(
        "PREFIX : <{NS}> INSERT DATA {{ :a :says <<( :b :knows <<( :x :p 1.50 )>> )>> . :a :n 01, 1e3, \"q\\\"\\n\" }}"
    );
    engine.update(&text).run().unwrap();
    let text = format!("CREATE STREAM <{NS}s> TIMING (<{NS}at>) BATCH 1s IDLE NEVER");
    engine.create_stream(None, &text).unwrap();
    let text = format!(
        "PREFIX : <{NS}> SELECT ?x ?z FROM STREAM :s [RANGE 2s STEP 1s] WHERE {{ ?x :knows ?z }}"
    );
    engine.register(Some("q"), &text).unwrap();
    engine.advance([(format!("{NS}s"), EventTime(0))]).unwrap();
    go_on(&engine, 0..3);
    engine
}

/// Pushes and advances through these seconds.
fn go_on(engine: &Engine, seconds: std::ops::Range<i64>) {
    for second in seconds {
        let friend = format!("a knows f{second}");
        let pushed = numbered(second as u64, &[(second * 1_000 + 1, &friend)]);
        engine.push(&format!("{NS}s"), pushed).unwrap();
        let to = [(format!("{NS}s"), EventTime((second + 1) * 1_000))];
        engine.advance(to).unwrap();
    }
}

/// The firings and all that is stored.
fn outcome(engine: &Engine) -> (Vec<(i64, Vec<String>)>, Vec<String>) {
    let stored = ask(
        engine,
        "SELECT ?g ?s ?p ?o { { ?s ?p ?o } UNION { GRAPH ?g { ?s ?p ?o } } }",
    );
    (firings(engine, "q", None), stored)
}

fn report(disk: &SimDisk, state: VerifyState) -> FolderReport {
    verify_folder(Arc::new(disk.clone()), state, &Arc::default()).unwrap()
}

/// The folder is sound, with its state.
fn sound(disk: &SimDisk) -> FolderReport {
    let report = report(disk, VerifyState::Yes);
    assert!(report.is_sound(), "{:?}", report.damage);
    report
}

fn contents(disk: &SimDisk) -> Vec<(String, Option<Vec<u8>>)> {
    let names = disk.list().unwrap().into_iter();
    names
        .map(|name| {
            let bytes = disk.bytes(&name);
            (name, bytes)
        })
        .collect()
}
