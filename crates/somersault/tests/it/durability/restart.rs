//! A run that is cut off anywhere and continues later ends like the uninterrupted run (RC-1, LG-1).

use crate::support::scenario::*;
use somersault::disk::{CrashKeep, SimDisk};
use somersault::{
    Engine, EngineConfig, EngineError, EventTime, FiringId, HealthStatus, LoadOptions,
    SubscribeOptions, SubscriptionEvent,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(super) type Step = Box<dyn Fn(&Engine) -> Result<(), EngineError>>;

/// The inputs of the run, each safe to be sent again.
pub(super) fn inputs() -> Vec<Step> {
    let mut inputs: Vec<Step> = vec![
        Box::new(|engine| {
            let text = format!("CREATE STREAM <{NS}s> TIMING (<{NS}at>) BATCH 1s IDLE NEVER");
            engine.create_stream(None, &text).map(drop)
        }),
        Box::new(|engine| {
            let text = format!(
                "PREFIX : <{NS}> SELECT ?x ?y ?z FROM STREAM :s [RANGE 2s STEP 1s] WHERE {{ ?x :at ?y . ?x :knows ?z }}"
            );
            engine.register(Some("q"), &text).map(drop)
        }),
        Box::new(|engine| engine.advance([(format!("{NS}s"), EventTime(0))]).map(drop)),
        Box::new(|engine| {
            let text = format!("PREFIX : <{NS}> INSERT DATA {{ :a :knows :b }}");
            engine.update(&text).run().map(drop)
        }),
    ];
    for second in 0..5_i64 {
        inputs.push(Box::new(move |engine| {
            let at = second * 1000 + 100;
            let (place, friend) = (format!("a at p{second}"), format!("a knows f{second}"));
            let push = numbered(
                second as u64,
                &[(at, &place), (at + 1, &friend), (at + 1, "_:n at home")],
            );
            engine.push(&format!("{NS}s"), push).map(drop)
        }));
        inputs.push(Box::new(move |engine| {
            let to = [(format!("{NS}s"), EventTime((second + 1) * 1000))];
            engine.advance(to).map(drop)
        }));
    }
    inputs.push(Box::new(|engine| {
        let text = format!("PREFIX : <{NS}> DELETE DATA {{ :a :knows :b }}");
        engine.update(&text).run().map(drop)
    }));
    inputs
}

pub(super) type Outcome = (BTreeMap<i64, Vec<String>>, Vec<String>);

/// Firings and stored statements at the end.
pub(super) fn outcome(engine: &Engine) -> Outcome {
    let all = firings(engine, "q", None).into_iter().collect();
    let stored = ask(engine, "SELECT ?s ?p ?o { ?s ?p ?o }");
    engine.check().unwrap();
    (all, stored)
}

pub(super) fn uninterrupted() -> Outcome {
    let engine = engine();
    for input in inputs() {
        input(&engine).unwrap();
    }
    let outcome = outcome(&engine);
    assert_eq!(outcome.0.len(), 5);
    assert!(outcome.0.values().all(|rows| !rows.is_empty()));
    outcome
}

#[test]
fn dropped_without_shutdown_after_any_input() {
    let expected = uninterrupted();
    let inputs = inputs();
    for cut in 0..inputs.len() {
        let folder = tempfile::tempdir().unwrap();
        let mut settings = config();
        settings.data = Some(folder.path().to_owned());
        let engine = Engine::open(settings.clone()).unwrap();
        for input in &inputs[..cut] {
            input(&engine).unwrap();
        }
        drop(engine);
        let engine = Engine::open(settings).unwrap();
        for input in &inputs[cut..] {
            input(&engine).unwrap();
        }
        assert_eq!(outcome(&engine), expected, "cut before input {cut}");
        engine.shutdown().unwrap();
    }
}

#[test]
fn crashed_at_any_sync_of_the_disk() {
    let expected = uninterrupted();
    let inputs = inputs();
    for sync in 0..60 {
        for keep in [
            CrashKeep::Synced,
            CrashKeep::Written,
            CrashKeep::Seeded(sync),
        ] {
            let disk = SimDisk::new();
            disk.crash_at_sync(sync, keep);
            let mut acknowledged = 0;
            let crashed = Engine::open_on(config(), Arc::new(disk.clone())).map(|engine| {
                acknowledged = inputs
                    .iter()
                    .take_while(|input| input(&engine).is_ok())
                    .count();
            });
            if crashed.is_ok() && acknowledged == inputs.len() {
                return;
            }
            // Only what was not acknowledged is sent again, the first of it perhaps twice.
            let engine = Engine::open_on(config(), Arc::new(disk.restarted())).unwrap();
            for input in &inputs[acknowledged..] {
                input(&engine).unwrap();
            }
            assert_eq!(
                outcome(&engine),
                expected,
                "crashed at sync {sync}, kept {keep:?}"
            );
        }
    }
}

#[test]
fn a_full_disk_stops_acknowledgements_and_nothing_else() {
    let disk = SimDisk::new();
    let engine = Engine::open_on(config(), Arc::new(disk.clone())).unwrap();
    let text = format!("PREFIX : <{NS}> INSERT DATA {{ :a :p :b }}");
    engine.update(&text).run().unwrap();
    disk.set_capacity(Some(disk.space()));
    let insert = format!("PREFIX : <{NS}> INSERT DATA {{ :a :p :c }}");
    let delete = format!("PREFIX : <{NS}> DELETE DATA {{ :a :p :c }}");
    // Space that was set aside is used up first.
    let big = "x".repeat(1 << 19);
    let fill = |number: u64| {
        let text = format!("PREFIX : <{NS}> INSERT DATA {{ :a :q '{number}{big}' }}");
        engine.update(&text).run().err()
    };
    let refused = (0..100).find_map(fill).unwrap();
    assert!(matches!(refused, EngineError::DiskFull(_)), "{refused}");
    let refused = engine.update(&insert).run().unwrap_err();
    assert!(matches!(refused, EngineError::DiskFull(_)), "{refused}");
    assert_eq!(engine.health().status, HealthStatus::ReadOnly);
    assert!(engine.health().message.contains("full"));
    assert_eq!(ask(&engine, "SELECT ?o { :a :p ?o }"), ["b"]);
    // Inputs are taken again once there is room.
    disk.set_capacity(None);
    let begun = Instant::now();
    while engine.update(&insert).run().is_err() {
        assert!(begun.elapsed() < Duration::from_secs(10));
    }
    assert_eq!(engine.health().status, HealthStatus::Ok);
    assert_eq!(ask(&engine, "SELECT ?o { :a :p ?o }"), ["b", "c"]);
    engine.update(&delete).run().unwrap();
    drop(engine);
    let engine = Engine::open_on(config(), Arc::new(disk.restarted())).unwrap();
    engine.update(&insert).run().unwrap();
    assert_eq!(ask(&engine, "SELECT ?o { :a :p ?o }"), ["b", "c"]);
}

#[test]
fn only_kept_firings_are_answered_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut settings = config();
    settings.data = Some(folder.path().to_owned());
    settings.kept_firings = 3;
    let run = |from: i64, to: i64| {
        let engine = Engine::open(settings.clone()).unwrap();
        inputs()[0](&engine).unwrap();
        inputs()[1](&engine).unwrap();
        for second in from..to {
            let statement = format!("a at p{second}");
            let push = numbered(second as u64, &[(second * 1000 + 1, &statement)]);
            engine.push(&format!("{NS}s"), push).unwrap();
            advance(&engine, (second + 1) * 1000);
        }
        let closes: Vec<i64> = firings(&engine, "q", None)
            .iter()
            .map(|(close, _)| *close)
            .collect();
        (closes, engine.query_info("q").unwrap().firings)
    };
    let (closes, _) = run(0, 60);
    assert_eq!(closes, [58_000, 59_000, 60_000]);
    let (closes, executed) = run(60, 61);
    assert_eq!(closes, [59_000, 60_000, 61_000]);
    assert!(executed < 30, "{executed} firings were executed again");
}

/// The first event that a reconnecting subscriber gets, and the closes of the firings that follow.
fn heard_after(engine: &Engine, name: &str, after_ms: i64) -> (bool, Vec<i64>) {
    engine.quiesce(Duration::from_secs(60)).unwrap();
    let options = SubscribeOptions {
        after: Some(FiringId::at(EventTime(after_ms))),
        ..SubscribeOptions::default()
    };
    let subscription = engine.subscribe(name, options).unwrap();
    let mut has_missed = false;
    let closes = std::iter::from_fn(|| subscription.try_recv())
        .filter_map(|event| match event {
            SubscriptionEvent::Firing(firing) => Some(firing.close.0),
            _ => {
                has_missed = true;
                None
            }
        })
        .collect();
    (has_missed, closes)
}

#[test]
fn a_subscriber_reconnecting_after_a_restart_is_told_of_missed_firings() {
    let disk = SimDisk::new();
    let mut settings = config();
    settings.kept_firings = 3;
    let window = "FROM NAMED WINDOW :w ON :s [RANGE 2s STEP 1s] WHERE { WINDOW :w";
    let count = "FROM NAMED WINDOW :w ON :s [ELEMENTS 2 STEP 1] WHERE { WINDOW :w";
    let queries = [
        (
            "alone",
            format!(
                "REGISTER RSTREAM alone REPORT NON EMPTY AS SELECT ?x {window} {{ ?x :at ?y }} }}"
            ),
        ),
        (
            "a",
            format!("REGISTER RSTREAM a AS SELECT ?x {window} {{ ?x :at :p1 }} }}"),
        ),
        (
            "b",
            format!("REGISTER RSTREAM b AS SELECT ?x {window} {{ ?x :at :p2 }} }}"),
        ),
        (
            "came",
            format!("REGISTER ISTREAM came AS SELECT ?y {window} {{ ?x :at ?y }} }}"),
        ),
        (
            "last",
            format!("REGISTER ISTREAM last AS SELECT ?y {count} {{ ?x :at ?y }} }}"),
        ),
    ];
    let open = |disk: &SimDisk| Engine::open_on(settings.clone(), Arc::new(disk.clone())).unwrap();
    let engine = open(&disk);
    let create = format!("CREATE STREAM <{NS}s> BATCH 1s IDLE NEVER");
    engine.create_stream(None, &create).unwrap();
    for (_, text) in &queries {
        let text = format!("PREFIX : <{NS}> {text}");
        engine.register(None, &text).unwrap();
    }
    advance(&engine, 0);
    // After this many firings a mark says that all but the kept ones need not be executed again.
    for second in 0..19 {
        let statement = format!("a at p{second}");
        let push = numbered(second as u64, &[(second * 1000 + 1, &statement)]);
        engine.push(&format!("{NS}s"), push).unwrap();
        advance(&engine, (second + 1) * 1000);
    }
    let heard = |engine: &Engine| {
        let of = |name: &str| [0, 15_000, 16_000, 18_000].map(|ms| heard_after(engine, name, ms));
        queries.each_ref().map(|(name, _)| (*name, of(name)))
    };
    let before = heard(&engine);
    let newest = vec![17_000, 18_000, 19_000];
    for (name, heard) in &before {
        let expected = [
            (true, newest.clone()),
            (true, newest.clone()),
            (false, newest.clone()),
            (false, vec![19_000]),
        ];
        assert_eq!(heard, &expected, "{name}");
    }
    engine.quiesce(Duration::from_secs(60)).unwrap();
    engine.shutdown().unwrap();
    assert_eq!(heard(&open(&disk.restarted())), before);
}

#[test]
fn a_stopped_engine_says_so() {
    let engine = engine();
    let other = engine.clone();
    engine.shutdown().unwrap();
    engine.shutdown().unwrap();
    let query = other.query("ASK {}").run();
    assert!(matches!(query, Err(EngineError::Stopped)));
    let update = other.update("INSERT DATA { <urn:a> <urn:b> 1 }").run();
    assert!(matches!(update, Err(EngineError::Stopped)));
    assert_eq!(other.health().status, HealthStatus::Stopping);
}

#[test]
fn each_start_draws_its_own_identifiers() {
    // Nothing is written, so that the log is the same at each start.
    let disk = SimDisk::new();
    let drawn = || {
        let engine = Engine::open_on(config(), Arc::new(disk.restarted())).unwrap();
        let text = "SELECT ?id ?iri ?node { BIND(STRUUID() AS ?id) BIND(UUID() AS ?iri) BIND(BNODE() AS ?node) }";
        let drawn = ask(&engine, text);
        engine.shutdown().unwrap();
        drawn
    };
    let both = (drawn(), drawn());
    assert_eq!((both.0.len(), both.1.len()), (1, 1));
    assert_ne!(both.0, both.1);
}

#[test]
fn an_engine_that_only_reads_refuses_inputs_and_changes_nothing() {
    let disk = SimDisk::new();
    let open = |read_only| {
        let settings = EngineConfig {
            read_only,
            ..config()
        };
        Engine::open_on(settings, Arc::new(disk.clone())).unwrap()
    };
    let writer = open(false);
    let load = "<urn:a> <urn:p> <urn:b> .";
    let format = somersault::RdfFormat::NTriples;
    writer
        .load(load.as_bytes(), format, LoadOptions::default())
        .unwrap();
    writer.shutdown().unwrap();
    drop(writer);
    let files = |disk: &SimDisk| {
        let names = disk.names().into_iter();
        names.map(|name| disk.bytes(&name)).collect::<Vec<_>>()
    };
    let before = files(&disk);
    let reader = open(true);
    let ask = "ASK { <urn:a> <urn:p> <urn:b> }";
    let found = reader.query(ask).run().unwrap();
    assert_eq!(found.answer.boolean(), Some(true));
    let insert = "INSERT DATA { <urn:x> <urn:p> <urn:y> }";
    let updated = reader.update(insert).run().map(|_| ());
    let loaded = reader
        .load(load.as_bytes(), format, LoadOptions::default())
        .map(|_| ());
    let created = reader
        .create_stream(None, "CREATE STREAM <urn:s> BATCH 1s IDLE NEVER")
        .map(|_| ());
    for refused in [updated, loaded, created] {
        let said = refused.unwrap_err();
        assert!(matches!(said, EngineError::Conflict(_)), "{said}");
        assert!(said.to_string().contains("read only"), "{said}");
    }
    reader.shutdown().unwrap();
    assert_eq!(files(&disk), before);
}

/// The lives of a stream, one after the other under the same name: what its statements leave behind
/// differs.
const LIVES: [&str; 3] = ["TIMING (:at)", "TIMING ALL", ""];

fn live(engine: &Engine, life: usize) {
    let stream = format!("{NS}s");
    if life > 0 {
        engine.drop_query("q").unwrap();
        engine.drop_stream(&stream).unwrap();
    }
    let timing = LIVES[life];
    let text = format!(
        "PREFIX : <{NS}> CREATE STREAM :s {timing} BATCH 1s LATENESS 0s LATE DROP IDLE NEVER"
    );
    engine.create_stream(None, &text).unwrap();
    let text = format!(
        "PREFIX : <{NS}> SELECT ?x ?y FROM STREAM :s [RANGE 2s STEP 1s] WHERE {{ ?x :at ?y }}"
    );
    engine.register(Some("q"), &text).unwrap();
    advance(engine, 0);
    for second in 0..90_i64 {
        let at = second * 1000 + 500;
        let (place, friend) = (
            format!("a at p{life}x{second}"),
            format!("a knows f{life}x{second}"),
        );
        let push = numbered(
            second as u64,
            &[
                (at, &place),
                (at, &friend),
                (at, "_:n at home"),
                (at, "_:n knows b"),
                (at - 3000, "a knows late"),
            ],
        );
        engine.push(&stream, push).unwrap();
        advance(engine, (second + 1) * 1000);
    }
}

/// The terms of a long log become ids before its records are applied.
#[test]
fn a_long_log_over_several_lives_of_a_stream_ends_as_the_run_did() {
    for checkpoint_after in [None, Some(0)] {
        let folder = tempfile::tempdir().unwrap();
        let mut settings = config();
        settings.data = Some(folder.path().to_owned());
        let engine = Engine::open(settings.clone()).unwrap();
        for life in 0..LIVES.len() {
            live(&engine, life);
            if checkpoint_after == Some(life) {
                engine.checkpoint().unwrap();
            }
        }
        let expected = outcome(&engine);
        assert!(!expected.0.is_empty());
        drop(engine);
        let engine = Engine::open(settings).unwrap();
        assert_eq!(outcome(&engine), expected);
        engine.shutdown().unwrap();
    }
}
