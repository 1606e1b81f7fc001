//! An engine that begins from a checkpoint ends like the one that was never stopped, whatever the
//! number of its shards, and passes over a checkpoint that is damaged.

use super::restart::{Step, inputs, outcome, uninterrupted};
use crate::support::scenario::*;
use somersault::disk::{AlteredDisk, CrashKeep, Disk, SimDisk};
use somersault::{
    Clock, Engine, EngineConfig, EngineError, EventTime, FiringId, LoadOptions, RdfFormat,
    SubscribeOptions, SubscriptionEvent,
};
use std::collections::BTreeSet;
use std::io::{self, Read};
use std::sync::{Arc, Mutex};
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

/// Two checkpoints share a file, and a bit of it flips: the next one holds its content again.
#[test]
fn a_damaged_file_that_checkpoints_share_is_written_again_from_memory() {
    let inputs = inputs();
    let begin = |disk: &SimDisk| {
        let engine = open(disk, 2).unwrap();
        inputs[..9].iter().for_each(|it| it(&engine).unwrap());
        let triples: String = (0..400).map(|at| format!(":x{at} :p :y{at} .")).collect();
        let text = format!("PREFIX : <{NS}> INSERT DATA {{ {triples} }}");
        engine.update(&text).run().unwrap();
        engine
    };
    let end = |engine: Engine| {
        inputs[9..].iter().for_each(|it| it(&engine).unwrap());
        engine.check().unwrap();
        (outcome(&engine), ask(&engine, "SELECT ?s { ?s ?p ?o }"))
    };
    let expected = end(begin(&SimDisk::new()));
    let disk = SimDisk::new();
    let engine = begin(&disk);
    engine.checkpoint().unwrap();
    engine.checkpoint().unwrap();
    let rewritten = || engine.health().checkpoints.unwrap().rewritten_files;
    for (ending, shards) in [
        (".terms", 2),
        (".image", 1),
        (".slices", 4),
        (".core", 2),
        (".answers", 1),
    ] {
        // The newest checkpoint names it; of terms and lists the one before does, too.
        let name = names(&disk, ending).pop().unwrap();
        let before = rewritten();
        damage(&disk, &name);
        engine.checkpoint().unwrap();
        engine.checkpoint().unwrap();
        assert!(rewritten() > before, "{name}");
        let left = names(&disk, ending);
        assert!(!left.contains(&name), "{name} is among {left:?}");
        for taken_away in [None, names(&disk, ".manifest").pop()] {
            let copy = disk.copy();
            if let Some(newest) = taken_away {
                copy.remove(&newest).unwrap();
            }
            assert_eq!(end(open(&copy, shards).unwrap()), expected, "{name}");
        }
    }
}

/// What the disk gives of a file that it cannot read.
struct Unreadable;

impl io::Read for Unreadable {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(io::Error::other("input/output error"))
    }
}

/// A disk of which the second half of one file cannot be read while its name is set.
fn with_unreadable_file(disk: &SimDisk) -> (AlteredDisk, Arc<Mutex<Option<String>>>) {
    let unreadable = Arc::new(Mutex::new(None));
    let name = Arc::clone(&unreadable);
    let read = move |disk: &SimDisk, file: &str| {
        let whole = disk.read(file)?;
        if name.lock().unwrap().as_deref() != Some(file) {
            return Ok(whole);
        }
        let half: Box<dyn io::Read + Send> = Box::new(whole.take(disk.length(file)? / 2));
        Ok(Box::new(half.chain(Unreadable)) as Box<dyn io::Read + Send>)
    };
    (AlteredDisk::of(disk).with_read(read), unreadable)
}

/// A read error is not damage: the file may be whole, so nothing is written again or removed.
#[test]
fn a_file_that_cannot_be_read_fails_the_checkpoint_and_stays() {
    let inputs = inputs();
    let disk = SimDisk::new();
    let (altered, unreadable) = with_unreadable_file(&disk);
    let engine = Engine::open_on(config(), Arc::new(altered)).unwrap();
    inputs[..9].iter().for_each(|it| it(&engine).unwrap());
    engine.checkpoint().unwrap();
    engine.checkpoint().unwrap();
    for ending in [".terms", ".image", ".slices", ".core", ".answers"] {
        let before = disk.names();
        let name = names(&disk, ending).pop().unwrap();
        *unreadable.lock().unwrap() = Some(name.clone());
        let refused = engine.checkpoint().unwrap_err().to_string();
        assert!(refused.contains(&name), "{refused}");
        assert!(refused.contains("input/output error"), "{refused}");
        let after = disk.names();
        assert_eq!(before, after, "{name}");
    }
    let checkpoints = engine.health().checkpoints.unwrap();
    assert_eq!(checkpoints.rewritten_files, 0);
    // The remedy for a file that stays unreadable.
    let name = unreadable.lock().unwrap().clone().unwrap();
    disk.remove(&name).unwrap();
    engine.checkpoint().unwrap();
    let checkpoints = engine.health().checkpoints.unwrap();
    assert_eq!(checkpoints.rewritten_files, 1);
}

/// The older of the kept checkpoints cannot be read when files are removed: its files stay.
#[test]
fn nothing_is_removed_while_a_kept_checkpoint_cannot_be_read() {
    let inputs = inputs();
    let disk = SimDisk::new();
    let (altered, unreadable) = with_unreadable_file(&disk);
    let engine = Engine::open_on(config(), Arc::new(altered)).unwrap();
    for taken in inputs[..9].chunks(3) {
        taken.iter().for_each(|it| it(&engine).unwrap());
        engine.checkpoint().unwrap();
    }
    let manifests = names(&disk, ".manifest");
    assert_eq!(manifests.len(), 2);
    *unreadable.lock().unwrap() = manifests.last().cloned();
    engine.checkpoint().unwrap();
    let kept = names(&disk, ".manifest");
    assert_eq!(kept[..2], manifests, "{kept:?}");
    *unreadable.lock().unwrap() = None;
    engine.checkpoint().unwrap();
    assert_eq!(names(&disk, ".manifest").len(), 2);
}

/// A start that cannot read the newest checkpoint begins from the one before it.
#[test]
fn a_checkpoint_that_cannot_be_read_is_passed_over() {
    let inputs = inputs();
    let disk = SimDisk::new();
    let engine = open(&disk, 2).unwrap();
    for taken in inputs[..9].chunks(3) {
        taken.iter().for_each(|it| it(&engine).unwrap());
        engine.checkpoint().unwrap();
    }
    inputs[9..].iter().for_each(|it| it(&engine).unwrap());
    let expected = outcome(&engine);
    drop(engine);
    for ending in [".manifest", ".core", ".slices"] {
        let (altered, unreadable) = with_unreadable_file(&disk.copy());
        let name = names(&disk, ending).pop().unwrap();
        *unreadable.lock().unwrap() = Some(name.clone());
        let engine = Engine::open_on(config(), Arc::new(altered)).unwrap();
        assert_eq!(outcome(&engine), expected, "{name}");
    }
}

/// What a checkpoint has written of streams, the next ones only name, and it comes back with them.
#[test]
fn slices_are_written_once() {
    let disk = SimDisk::new();
    let engine = open(&disk, 2).unwrap();
    let text = format!("CREATE STREAM <{NS}s> TIMING (<{NS}at>) BATCH 1s IDLE NEVER");
    engine.create_stream(None, &text).unwrap();
    let text = format!(
        "PREFIX : <{NS}> SELECT (COUNT(*) AS ?n) FROM STREAM :s [RANGE 100s STEP 1s] WHERE {{ ?x :at ?y }}"
    );
    engine.register(Some("q"), &text).unwrap();
    let mut written = Vec::new();
    for second in 0..10 {
        let lines: Vec<String> = (0..50)
            .map(|at| format!("x{second}{at} at p{at}"))
            .collect();
        let statements: Vec<(i64, &str)> = (lines.iter().zip(0..))
            .map(|(line, at)| (second * 1_000 + at, line.as_str()))
            .collect();
        engine.push(&format!("{NS}s"), push(&statements)).unwrap();
        let to = [(format!("{NS}s"), EventTime((second + 1) * 1_000))];
        engine.advance(to).unwrap();
        engine.checkpoint().unwrap();
        let own = format!("checkpoint-{:010}-0000.slices", second + 1);
        written.push(disk.bytes(&own).unwrap().len());
    }
    // Without merging, the last one would be as long as the first; in ten checkpoints eight files
    // become one once at most.
    let (all, first) = (written.iter().sum::<usize>(), written[0]);
    assert!(all < 25 * first, "{written:?}");
    drop(engine);
    let engine = open(&disk, 1).unwrap();
    let to = [(format!("{NS}s"), EventTime(11_000))];
    engine.advance(to).unwrap();
    let (_, rows) = firings(&engine, "q", Some(10_000)).remove(0);
    assert!(rows[0].contains("500"), "{rows:?}");
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

/// The inputs of a stream whose slices expire, and are amended before that: `second` is pushed, and
/// a statement that is three seconds late.
fn amend_and_expire(engine: &Engine, second: i64) {
    let at = second * 1_000 + 100;
    // Many equal statements make a slice so large that checkpoints name it instead of writing it.
    let lines: Vec<String> = (0..40).map(|n| format!("x{} p o{n}", second % 3)).collect();
    let statements: Vec<(i64, &str)> = lines.iter().map(|line| (at, line.as_str())).collect();
    engine.push(&format!("{NS}s"), push(&statements)).unwrap();
    let to = [(format!("{NS}s"), EventTime((second + 1) * 1_000))];
    engine.advance(to).unwrap();
    if second >= 3 {
        let line = format!("late{second} p o{second}");
        let late = [(at - 3_000, line.as_str())];
        engine.push(&format!("{NS}s"), push(&late)).unwrap();
    }
}

/// Slices that late statements amend, and slices that expire, while checkpoints name pieces of the
/// files of earlier ones. The dull twin takes no checkpoint and replays all of its log.
#[test]
fn amended_and_expired_slices_come_back_from_pieces_of_earlier_files() {
    const SECONDS: i64 = 24;
    // A replay executes all firings again, so that the counts are those of a run without an end.
    let open = |disk: &SimDisk, workers| {
        let settings = EngineConfig {
            workers,
            kept_firings: 1_000,
            ..config()
        };
        Engine::open_on(settings, Arc::new(disk.clone())).unwrap()
    };
    let begin = |disk: &SimDisk| {
        let engine = open(disk, 2);
        let clauses = "BATCH 1s LATENESS 0s LATE AMEND WITHIN 5s IDLE NEVER";
        let text = format!("CREATE STREAM <{NS}s> {clauses}");
        engine.create_stream(None, &text).unwrap();
        for (name, range) in [("short", 2), ("long", 6)] {
            let text = format!(
                "PREFIX : <{NS}> SELECT ?x ?y FROM NAMED STREAM :s [RANGE {range}s STEP 1s] \
                 WHERE {{ GRAPH :s {{ ?x :p ?y }} }}"
            );
            engine.register(Some(name), &text).unwrap();
        }
        engine
    };
    let twin_disk = SimDisk::new();
    let twin = begin(&twin_disk);
    let disk = SimDisk::new();
    let mut engine = begin(&disk);
    let (mut named, mut gone) = (0, BTreeSet::new());
    for second in 0..SECONDS {
        amend_and_expire(&twin, second);
        amend_and_expire(&engine, second);
        engine.checkpoint().unwrap();
        let files = names(&disk, ".slices");
        let newest = files.last().cloned().unwrap();
        // More files than the two checkpoints have written themselves: earlier ones are named.
        named += usize::from(files.len() > 2);
        gone.insert(newest);
        if second % 5 == 4 {
            drop(engine);
            engine = open(&disk, [1, 2, 4][second as usize % 3]);
        }
        // Both from a checkpoint and by replaying everything.
        if second % 6 == 5 || second == SECONDS - 1 {
            let checkpointed = open(&disk.copy(), [4, 1, 2][second as usize % 3]);
            let replayed = open(&twin_disk.copy(), 1);
            // The next second needs the slices, and so does the late statement of it.
            amend_and_expire(&checkpointed, second + 1);
            amend_and_expire(&replayed, second + 1);
            let (found, expected) = (everything_of(&checkpointed), everything_of(&replayed));
            for (found, expected) in found.iter().zip(&expected) {
                assert_eq!(found, expected, "after second {second}");
            }
            assert_eq!(found.len(), expected.len(), "after second {second}");
        }
    }
    assert!(
        named > 10,
        "pieces of earlier files were named {named} times"
    );
    gone.retain(|name| disk.names().contains(name));
    assert!(gone.len() < 12, "files of expired slices go: {gone:?}");
    assert_eq!(everything_of(&engine), everything_of(&twin));
}
