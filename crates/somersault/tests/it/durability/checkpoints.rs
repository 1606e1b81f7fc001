//! An engine that begins from a checkpoint ends like the one that was never stopped, whatever the
//! number of its shards, and passes over a checkpoint that is damaged.

use super::restart::{Step, inputs, outcome, uninterrupted};
use crate::support::scenario::*;
use somersault::disk::{CrashKeep, Disk, SimDisk};
use somersault::{
    Clock, Engine, EngineConfig, EngineError, EventTime, FiringId, LoadOptions, RdfFormat,
    SubscribeOptions, SubscriptionEvent,
};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

fn open(disk: &SimDisk, workers: u16) -> Result<Engine, EngineError> {
    let config = EngineConfig {
        workers,
        ..config()
    };
    Engine::open_on(config, Arc::new(disk.clone()))
}

fn names(disk: &SimDisk, ending: &str) -> Vec<String> {
    let mut names = disk.names();
    names.retain(|name| name.ends_with(ending));
    names
}

#[test]
fn taken_after_any_input_and_opened_with_other_shards() {
    let expected = uninterrupted();
    let inputs = inputs();
    for taken in 0..inputs.len() {
        let crashes = (taken + 2).min(inputs.len());
        let disk = SimDisk::new();
        let engine = open(&disk, 2).unwrap();
        inputs[..taken].iter().for_each(|it| it(&engine).unwrap());
        let checkpoint = engine.checkpoint().unwrap();
        assert_eq!(checkpoint.number, 1);
        assert!(checkpoint.written_bytes > 0 && checkpoint.written_bytes == checkpoint.bytes);
        inputs[taken..crashes]
            .iter()
            .for_each(|it| it(&engine).unwrap());
        drop(engine);
        let disk = disk.restarted();
        let engine = open(&disk, [1, 2, 4][taken % 3]).unwrap();
        engine.checkpoint().unwrap();
        drop(engine);
        let engine = open(&disk.restarted(), [4, 1, 2][taken % 3]).unwrap();
        inputs[crashes..].iter().for_each(|it| it(&engine).unwrap());
        assert_eq!(outcome(&engine), expected, "taken after {taken} inputs");
    }
}

#[test]
fn crashed_at_any_sync_with_checkpoints_between_the_inputs() {
    let expected = uninterrupted();
    let inputs = inputs();
    // Checkpoints are asked for before these inputs.
    let run = |engine: &Engine, from: usize| {
        let go_on = |at: &usize| {
            let is_taken = at % 3 < 2 || engine.checkpoint().is_ok();
            is_taken && inputs[*at](engine).is_ok()
        };
        from + (from..inputs.len()).take_while(go_on).count()
    };
    let mut trimmed = false;
    for sync in 0..400 {
        let keep = [
            CrashKeep::Synced,
            CrashKeep::Written,
            CrashKeep::Seeded(sync),
        ][sync as usize % 3];
        let disk = SimDisk::new();
        let engine = open(&disk, 2).unwrap();
        let mut acknowledged = 3;
        (inputs[..acknowledged].iter()).for_each(|it| it(&engine).unwrap());
        drop(engine);
        // The next opening begins another segment, so checkpoints make the first one needless.
        let disk = disk.restarted();
        disk.crash_at_sync(sync, keep);
        let crashed = open(&disk, 1).map(|engine| acknowledged = run(&engine, acknowledged));
        trimmed |= !disk.names().contains(&"log-0000000001.seg".to_owned());
        if crashed.is_ok() && acknowledged == inputs.len() {
            assert!(trimmed && sync > 50, "{sync}");
            return;
        }
        let engine = open(&disk.restarted(), 4).unwrap();
        let acknowledged = run(&engine, acknowledged);
        assert_eq!(acknowledged, inputs.len(), "crashed at sync {sync}");
        assert_eq!(
            outcome(&engine),
            expected,
            "crashed at sync {sync}, kept {keep:?}"
        );
    }
    panic!("the run has more syncs");
}

/// A disk with two checkpoints and a log that begins behind its first record, the last inputs still
/// to come.
fn trimmed() -> (SimDisk, usize) {
    let disk = SimDisk::new();
    let inputs = inputs();
    let mut done = 0;
    // The older one that is kept needs a segment that the newest does not.
    for (until, is_taken) in [(4, true), (7, true), (9, false), (10, true)] {
        let engine = open(&disk, 2).unwrap();
        inputs[done..until]
            .iter()
            .for_each(|it| it(&engine).unwrap());
        done = until;
        if is_taken {
            engine.checkpoint().unwrap();
        }
        engine.shutdown().unwrap();
    }
    assert_eq!(
        names(&disk, ".manifest").len(),
        2,
        "the newest two are kept"
    );
    assert!(!disk.names().contains(&"log-0000000001.seg".to_owned()));
    (disk, done)
}

fn damage(disk: &SimDisk, name: &str) {
    let mut bytes = disk.bytes(name).unwrap();
    let at = bytes.len() / 2;
    bytes[at] ^= 1;
    disk.plant(name, bytes);
}

#[test]
fn a_damaged_file_is_passed_over_for_the_checkpoint_before_it() {
    let expected = uninterrupted();
    let (disk, done) = trimmed();
    let newest = |ending: &str| names(&disk, ending).pop();
    let endings = [
        ".manifest",
        ".terms",
        ".transient",
        ".image",
        ".slices",
        ".core",
        ".answers",
    ];
    for ending in endings {
        let name = newest(ending).unwrap();
        for is_lost in [false, true] {
            let disk = disk.copy();
            match is_lost {
                true => disk.remove(&name).unwrap(),
                false => damage(&disk, &name),
            }
            let engine = match open(&disk, 2) {
                Ok(engine) => engine,
                // Files that both name.
                Err(error) => {
                    assert!(error.to_string().contains(&name), "{error}");
                    assert!(!name.starts_with("checkpoint-0000000003"), "{error}");
                    continue;
                }
            };
            inputs()[done..].iter().for_each(|it| it(&engine).unwrap());
            assert_eq!(outcome(&engine), expected, "{name}");
        }
    }
}

#[test]
fn without_a_whole_checkpoint_a_trimmed_log_is_refused_and_both_are_named() {
    let (disk, _) = trimmed();
    let manifests = names(&disk, ".manifest");
    manifests.iter().for_each(|name| damage(&disk, name));
    let Err(EngineError::Damaged { message, .. }) = open(&disk, 2) else {
        panic!("records are missing")
    };
    assert!(message.contains("are needed"), "{message}");
    let all = manifests.iter().all(|name| message.contains(name));
    assert!(all, "{message}");
}

#[test]
fn a_log_that_is_whole_needs_no_checkpoint() {
    let expected = uninterrupted();
    let inputs = inputs();
    let disk = SimDisk::new();
    let engine = open(&disk, 2).unwrap();
    inputs[..8].iter().for_each(|it| it(&engine).unwrap());
    engine.checkpoint().unwrap();
    drop(engine);
    damage(&disk, &names(&disk, ".core")[0]);
    let engine = open(&disk, 2).unwrap();
    inputs[8..].iter().for_each(|it| it(&engine).unwrap());
    assert_eq!(outcome(&engine), expected);
}

#[test]
fn the_time_of_the_newest_record_is_that_of_before() {
    let config = EngineConfig {
        clock: Clock::System,
        ..config()
    };
    let disk = SimDisk::new();
    let open = || Engine::open_on(config.clone(), Arc::new(disk.clone())).unwrap();
    let engine = open();
    engine
        .update("INSERT DATA { <urn:a> <urn:p> 1 }")
        .run()
        .unwrap();
    let now = |engine: &Engine| ask(engine, "SELECT (NOW() AS ?now) {}");
    let before = now(&engine);
    assert!(!before[0].contains("1970"), "{before:?}");
    engine.checkpoint().unwrap();
    drop(engine);
    assert_eq!(now(&open()), before);
}

#[test]
fn unchanged_files_are_carried_over_and_changes_are_written_alone() {
    let disk = SimDisk::new();
    let engine = open(&disk, 2).unwrap();
    let insert = |from: usize, to: usize| {
        let triple = |at| format!(":s{at} :p :o{} .", at % 50);
        let triples: String = (from..to).map(triple).collect();
        let text = format!("PREFIX : <{NS}> INSERT DATA {{ {triples} }}");
        engine.update(&text).run().unwrap();
    };
    insert(0, 4_000);
    let whole = engine.checkpoint().unwrap();
    let nothing = engine.checkpoint().unwrap();
    assert!(
        nothing.written_bytes * 4 < whole.written_bytes,
        "{nothing:?}, {whole:?}"
    );
    assert_eq!(names(&disk, ".delta"), Vec::<String>::new());
    // The lists of 50 objects change with every insertion; those of the subjects are new.
    for round in 0..20 {
        insert(4_000 + round, 4_001 + round);
        let changed = engine.checkpoint().unwrap();
        assert!(
            changed.written_bytes * 2 < whole.written_bytes,
            "{changed:?}, {whole:?}"
        );
        let deltas = names(&disk, ".delta").len();
        assert!(
            (1..22).contains(&deltas),
            "{deltas} deltas after round {round}"
        );
    }
    assert_eq!(
        names(&disk, ".image").len(),
        2,
        "of two shards, still the first"
    );
    let text = format!("PREFIX : <{NS}> DELETE WHERE {{ :s7 :p ?o }}");
    engine.update(&text).run().unwrap();
    engine.checkpoint().unwrap();
    let count = "SELECT (COUNT(*) AS ?n) { ?s :p ?o }";
    let expected = ask(&engine, count);
    let stored = ask(&engine, "SELECT ?s ?o { ?s :p ?o }");
    drop(engine);
    for shards in [2, 4, 1] {
        let engine = open(&disk.copy(), shards).unwrap();
        assert_eq!(ask(&engine, count), expected);
        assert_eq!(ask(&engine, "SELECT ?s ?o { ?s :p ?o }"), stored);
        engine.check().unwrap();
    }
}

const WINDOW: &str = "FROM NAMED WINDOW :w ON :s [RANGE 2s STEP 1s] WHERE { WINDOW :w";

/// Queries of all kinds, by name.
fn queries() -> Vec<(&'static str, String)> {
    let counted = "FROM NAMED WINDOW :w ON :s [ELEMENTS 3 STEP 2] WHERE { WINDOW :w";
    vec![
        ("all", format!("SELECT ?x ?y {WINDOW} {{ ?x :p ?y }} }}")),
        ("stored", format!("SELECT ?x ?z {WINDOW} {{ ?x :p ?y }} ?x :knows ?z }}")),
        ("came", format!("SELECT ISTREAM ?x {WINDOW} {{ ?x :p ?y }} }}")),
        ("went", format!("SELECT DSTREAM ?x {WINDOW} {{ ?x :p ?y }} }}")),
        (
            "changed",
            "SELECT ?x FROM NAMED STREAM :s [RANGE 1s STEP 1s] REPORT ON CHANGE WHERE { GRAPH :s { ?x :p ?y } }".to_owned(),
        ),
        ("last", format!("SELECT ?x {counted} {{ ?x :p ?y }} }}")),
        ("newest", format!("SELECT ISTREAM ?x {counted} {{ ?x :p ?y }} }}")),
        (
            "amended",
            "SELECT ?x ?y FROM NAMED WINDOW :w ON :kept [RANGE 2s STEP 1s] WHERE { WINDOW :w { ?x :p ?y } }".to_owned(),
        ),
        ("of0", format!("SELECT ?y {WINDOW} {{ :a0 :p ?y }} }}")),
        ("of1", format!("SELECT ?y {WINDOW} {{ :a1 :p ?y }} }}")),
        ("of2", format!("SELECT ?y {WINDOW} {{ :a2 :p ?y }} }}")),
        (
            "derive",
            format!("REGISTER STREAM :d AS CONSTRUCT ISTREAM {{ ?x :is :new }} {WINDOW} {{ ?x :p ?y }} }}"),
        ),
        (
            "derived",
            "SELECT ?x FROM NAMED WINDOW :v ON :d [RANGE 3s STEP 1s] WHERE { WINDOW :v { ?x :is :new } }".to_owned(),
        ),
    ]
}

fn register(name: &'static str, text: String) -> Step {
    Box::new(move |engine| {
        let text = format!("PREFIX : <{NS}> {text}");
        let name = (!text.contains("REGISTER")).then_some(name);
        engine.register(name, &text).map(drop)
    })
}

/// Statements of two streams, updates, loads, and queries that come, go and pause.
fn everything() -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for (name, clauses) in [
        ("s", ""),
        ("kept", "TIMELESS LATENESS 0s LATE AMEND WITHIN 1h"),
    ] {
        steps.push(Box::new(move |engine| {
            let text = format!("CREATE STREAM <{NS}{name}> {clauses} BATCH 1s IDLE NEVER");
            engine.create_stream(None, &text).map(drop)
        }));
    }
    steps.extend(
        queries()
            .into_iter()
            .map(|(name, text)| register(name, text)),
    );
    let update = |text: &'static str| -> Step {
        Box::new(move |engine| {
            engine
                .update(&format!("PREFIX : <{NS}> {text}"))
                .run()
                .map(drop)
        })
    };
    for second in 0..9_i64 {
        for name in ["s", "kept"] {
            steps.push(Box::new(move |engine| {
                let at = second * 1000 + 100;
                let statement = |n: i64| format!("a{} p o{}", (second + n) % 4, n);
                let texts = [statement(0), statement(1), statement(5)];
                let statements = texts.each_ref().map(|text| (at, text.as_str()));
                let seq = u64::try_from(second).unwrap();
                engine
                    .push(&format!("{NS}{name}"), numbered(2 * seq, &statements))
                    .map(drop)
            }));
        }
        steps.push(Box::new(move |engine| {
            let to = EventTime((second + 1) * 1000);
            engine
                .advance(["s", "kept"].map(|name| (format!("{NS}{name}"), to)))
                .map(drop)
        }));
        steps.push(match second {
            0 => update("INSERT DATA { :a0 :knows :x . :a1 :knows :y . GRAPH :g { :a :b :c } }"),
            1 => Box::new(|engine| engine.pause_query("of1")),
            2 => Box::new(|engine| {
                let text = format!("<{NS}a2> <{NS}knows> <{NS}z> <{NS}h> .\n").repeat(3);
                let format = RdfFormat::NQuads;
                engine
                    .load(text.as_bytes(), format, LoadOptions::default())
                    .map(drop)
            }),
            3 => register("of3", format!("SELECT ?y {WINDOW} {{ :a3 :p ?y }} }}")),
            4 => Box::new(|engine| {
                let late = numbered(9, &[(2_500, "late p o1")]);
                engine.push(&format!("{NS}kept"), late).map(drop)
            }),
            5 => Box::new(|engine| engine.drop_query("of2")),
            6 => Box::new(|engine| engine.resume_query("of1")),
            7 => Box::new(|engine| {
                engine.drop_query("derived")?;
                engine.drop_query(&format!("{NS}d"))
            }),
            _ => update("CLEAR GRAPH :g ; DELETE DATA { :a1 :knows :y }"),
        });
    }
    steps
}

/// What is kept for the subscribers of a query, behind a close: gaps, closes, revisions, rows.
fn heard(engine: &Engine, name: &str, after_ms: Option<i64>) -> Vec<String> {
    let options = SubscribeOptions {
        after: after_ms.map(|close| FiringId::at(EventTime(close))),
        empties: true,
        ..SubscribeOptions::default()
    };
    let subscription = engine.subscribe(name, options).unwrap();
    std::iter::from_fn(|| subscription.try_recv())
        .map(|event| match event {
            SubscriptionEvent::Firing(it) => {
                let rows = shown(it.answer.as_ref().unwrap());
                format!("{} {} {rows:?}", it.close.0, it.revision)
            }
            other => format!("{other:?}"),
        })
        .collect()
}

/// Everything that an engine shows.
fn everything_of(engine: &Engine) -> Vec<String> {
    engine.quiesce(Duration::from_secs(60)).unwrap();
    engine.check().unwrap();
    let mut shown = ask(
        engine,
        "SELECT * { { ?s ?p ?o } UNION { GRAPH ?g { ?s ?p ?o } } }",
    );
    for stream in engine.streams() {
        let counts = (stream.tuples, stream.late, stream.amended, stream.batches);
        shown.push(format!("{} {:?} {counts:?}", stream.iri, stream.watermark));
    }
    let mut queries: Vec<String> = engine.queries().into_iter().map(|it| it.name).collect();
    queries.sort();
    for name in queries {
        let info = engine.query_info(&name).unwrap();
        let counts = (info.firings, info.rows, info.amended, info.skipped_empty);
        let closes = (info.last_close, info.next_close, info.paused);
        shown.push(format!("{name} {} {counts:?} {closes:?}", info.uid));
        for after in [None, Some(3_000), Some(7_000)] {
            shown.push(format!(
                "{name} after {after:?}: {:?}",
                heard(engine, &name, after)
            ));
        }
    }
    shown
}

#[test]
fn everything_goes_on_from_a_checkpoint_that_was_written_beside_inputs() {
    let open = |disk: &SimDisk, workers| {
        let settings = EngineConfig {
            workers,
            kept_firings: 4,
            ..config()
        };
        Engine::open_on(settings, Arc::new(disk.clone())).unwrap()
    };
    let steps = everything();
    let run = |taken: Option<usize>| {
        let mut engine = open(&SimDisk::new(), 2);
        let mut disk = SimDisk::new();
        if taken.is_some() {
            engine = open(&disk, 2);
        }
        let mut begun = None;
        for (at, step) in steps.iter().enumerate() {
            if Some(at) == taken {
                begun = Some(engine.begin_checkpoint().unwrap());
            }
            step(&engine).unwrap_or_else(|error| panic!("step {at}: {error}"));
            if let Some(pending) = begun.take_if(|_| taken.is_some_and(|taken| at == taken + 3)) {
                pending.wait().unwrap();
                disk = disk.crash(CrashKeep::Synced);
                engine = open(&disk, [1, 2, 4][at % 3]);
            }
        }
        everything_of(&engine)
    };
    let expected = run(None);
    let names: BTreeSet<&str> = queries().iter().map(|(name, _)| *name).collect();
    assert!(expected.len() > 3 * names.len());
    for taken in (0..steps.len() - 3)
        .step_by(2)
        .chain([steps.len() - 8, steps.len() - 6])
    {
        let found = run(Some(taken));
        for (found, expected) in found.iter().zip(&expected) {
            assert_eq!(found, expected, "taken before step {taken}");
        }
        assert_eq!(found.len(), expected.len(), "taken before step {taken}");
    }
}
