//! Checkpoints of engines with procedures: an engine that begins from one goes on like the one that
//! was never stopped.

use super::calls::{integer, integers, select};
use somersault::disk::{CrashKeep, Disk, SimDisk};
use somersault::folder::{VerifyState, copy_folder, receive_backup, start_branch, verify_folder};
use somersault::process_simulation::SimulatedProcess;
use somersault::{
    CallAnswer, CallOutcome, Clock, Engine, EngineConfig, EngineError, EventTime, PushLines,
};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(super) type Step = Box<dyn Fn(&Engine) -> Result<(), EngineError>>;

pub(super) fn config(workers: u16) -> EngineConfig {
    EngineConfig {
        clock: Clock::Manual,
        workers,
        default_namespace: Some("urn:".to_owned()),
        ..EngineConfig::default()
    }
}

pub(super) fn open(disk: &SimDisk, workers: u16) -> Result<Engine, EngineError> {
    Engine::open_on(config(workers), Arc::new(disk.clone()))
}

/// Numbers are summed up, doubled and noted in threes; windows by number and by time; a nest; calls
/// that emit. Names without a prefix are of the default namespace.
const DECLARED: [&str; 9] = [
    "CREATE OR REPLACE PROCEDURE take ON STREAM s BATCH 1 MESSAGE
        OWNS WINDOW <urn:w> ON s [LAST 3 MESSAGES]
        WHEN <urn:w> SLIDES {
            DELETE { <urn:c> <urn:shown> ?old } INSERT { <urn:c> <urn:shown> ?new }
                WHERE { <urn:c> <urn:shown> ?old
                    { SELECT (SUM(?n) AS ?new) { WINDOW <urn:w> { ?m <urn:is> ?n } } } }
        } AS {
            IF ASK { BATCH { ?m <urn:is> 6 } } { ABORT \"unlucky\" };
            DELETE { <urn:c> <urn:sum> ?a } INSERT { <urn:c> <urn:sum> ?b }
                WHERE { <urn:c> <urn:sum> ?a BATCH { ?m <urn:is> ?n } BIND(?a + ?n AS ?b) };
            EMIT INTO doubled CONSTRUCT { ?m <urn:twice> ?d }
                WHERE { BATCH { ?m <urn:is> ?n } BIND(2 * ?n AS ?d) }
        }",
    "CREATE OR REPLACE PROCEDURE note ON STREAM doubled BATCH 3 MESSAGES AS {
        INSERT { <urn:log> <urn:has> ?d } WHERE { BATCH { ?m <urn:twice> ?d } };
        EMIT INTO noted CONSTRUCT { ?m <urn:noted> ?d } WHERE { BATCH { ?m <urn:twice> ?d } }
    }",
    "CREATE OR REPLACE PROCEDURE inside ON STREAM noted BATCH 1 MESSAGE AS {
        INSERT { <urn:inside> <urn:has> ?d } WHERE { BATCH { ?m <urn:noted> ?d } }
    }",
    "CREATE OR REPLACE PROCEDURE timed ON STREAM s BATCH 20ms
        OWNS WINDOW <urn:v> ON s [RANGE 40ms SLIDE 20ms]
        WHEN <urn:v> SLIDES {
            INSERT { ?m <urn:slid> ?n } WHERE { WINDOW <urn:v> { ?m <urn:is> ?n } }
        } AS {
            INSERT { ?m <urn:timed> ?n } WHERE { BATCH { ?m <urn:is> ?n } }
        }",
    "CREATE OR REPLACE PROCEDURE append(?n) AS {
        DELETE { <urn:calls> <urn:sum> ?s } INSERT { <urn:calls> <urn:sum> ?t }
            WHERE { <urn:calls> <urn:sum> ?s BIND(?s + ?n AS ?t) };
        EMIT INTO called CONSTRUCT { <urn:call> <urn:is> ?n } WHERE { };
        RETURN SELECT ?s { <urn:calls> <urn:sum> ?s }
    }",
    "CREATE OR REPLACE PROCEDURE gather ON STREAM called BATCH 2 MESSAGES AS {
        INSERT { <urn:gathered> <urn:has> ?n } WHERE { BATCH { ?c <urn:is> ?n } }
    }",
    "CREATE OR REPLACE DATAFLOW flow { take, NEST { note, inside } } ON ABORT STOP RECOVERY STRONG",
    "CREATE OR REPLACE DATAFLOW beside { timed } RECOVERY STRONG",
    "CREATE OR REPLACE DATAFLOW calls { append, gather } RECOVERY STRONG",
];

/// How dataflows recover; the outcome is the same.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Recovery {
    Strong,
    Weak,
    /// Each is WEAK at first, then STRONG, then WEAK again.
    Changes,
}

fn literal(number: u64) -> String {
    format!("\"{number}\"^^<http://www.w3.org/2001/XMLSchema#integer>")
}

fn push(number: u64) -> Step {
    push_value(number, number)
}

fn push_value(number: u64, value: u64) -> Step {
    Box::new(move |engine| {
        let at = number * 10;
        let line = format!("{at}\t<urn:m{number}> <urn:is> {} .\n", literal(value));
        let push = PushLines {
            seq: Some(number),
            lines: line.as_bytes(),
            ..PushLines::default()
        };
        engine.push_lines("urn:s", push).map(drop)
    })
}

fn call(number: u64) -> Step {
    Box::new(move |engine| {
        let call = engine.call("append").arguments([integer(number as i64)]);
        let answer = integers(call.key("till", number).run()?);
        assert_eq!(answer, [(number * (number + 1) / 2) as i64]);
        Ok(())
    })
}

fn declare(text: impl Into<String>) -> Step {
    let text = text.into();
    Box::new(move |engine| engine.declare(&text))
}

/// Resumes the flow once the abort has stopped it.
fn resume() -> Step {
    Box::new(|engine| {
        // It runs already if a crash came after the command was logged.
        let until = Instant::now() + Duration::from_secs(5);
        while engine.dataflow_state("flow")? != "stopped" && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        engine.declare("RESUME DATAFLOW flow")
    })
}

/// The dataflows, all of one recovery.
fn dataflows(recovery: &str) -> impl Iterator<Item = Step> {
    let texts = DECLARED[6..].iter();
    texts.map(move |text| declare(text.replace("RECOVERY STRONG", &format!("RECOVERY {recovery}"))))
}

fn stream(text: &'static str) -> Step {
    Box::new(move |engine| match engine.create_stream(None, text) {
        Err(EngineError::Conflict(_)) | Ok(_) => Ok(()),
        Err(error) => Err(error),
    })
}

/// The inputs, each safe to be sent again.
pub(super) fn inputs(recovery: Recovery) -> Vec<Step> {
    let mut inputs: Vec<Step> = vec![
        Box::new(|engine| {
            let start =
                "INSERT DATA { <urn:c> <urn:sum> 0 ; <urn:shown> 0 . <urn:calls> <urn:sum> 0 }";
            engine.update(start).run().map(drop)
        }),
        stream("CREATE STREAM s BATCH 1s IDLE NEVER"),
        stream("CREATE STREAM doubled INTERIOR BATCH 1s"),
        stream("CREATE STREAM noted INTERIOR BATCH 1s"),
        stream("CREATE STREAM called INTERIOR BATCH 1s"),
        // A message from before the first consumer.
        push(1),
    ];
    inputs.extend(DECLARED[..6].iter().copied().map(declare));
    inputs.extend(dataflows(match recovery {
        Recovery::Strong => "STRONG",
        Recovery::Weak | Recovery::Changes => "WEAK",
    }));
    inputs.extend([
        push(2),
        call(1),
        push(3),
        push(4),
        call(2),
        push(5),
        push(6),
    ]);
    // The abort of 6 has stopped the flow.
    if recovery == Recovery::Changes {
        inputs.extend(dataflows("STRONG"));
    }
    inputs.extend([push(7), call(3), push(8), resume()]);
    inputs.extend([
        push(9),
        declare("PAUSE DATAFLOW beside"),
        push(10),
        push(11),
    ]);
    inputs.push(declare(
        "CREATE OR REPLACE PROCEDURE gone() AS { ABORT \"no\" }",
    ));
    inputs.push(Box::new(|engine| {
        match engine.declare("DROP PROCEDURE gone") {
            Err(EngineError::NotFound(_)) | Ok(()) => Ok(()),
            Err(error) => Err(error),
        }
    }));
    inputs.push(Box::new(|engine| {
        engine.advance([("urn:s", EventTime(120))]).map(drop)
    }));
    inputs.extend([
        push(13),
        call(4),
        declare("RESUME DATAFLOW beside"),
        push(14),
    ]);
    inputs
}

/// Messages with random values, among them some that abort, and calls and updates between.
pub(super) fn random_inputs(recovery: &str, seed: u64) -> Vec<Step> {
    let mut state = seed;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005);
        state = state.wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut inputs = inputs(Recovery::Strong);
    inputs.truncate(6 + DECLARED.len());
    inputs.extend(DECLARED[6..].iter().map(|text| {
        let text = text.replace("RECOVERY STRONG", &format!("RECOVERY {recovery}"));
        declare(text.replace("ON ABORT STOP", "ON ABORT SKIP"))
    }));
    let (mut pushed, mut called) = (1, 0);
    while pushed < 14 {
        if called < 4 && random(4) == 0 {
            called += 1;
            inputs.push(call(called));
        } else {
            pushed += 1;
            inputs.push(push_value(pushed, 4 + random(4)));
        }
        let of = random(3);
        let update = match random(6) {
            0 => format!("INSERT DATA {{ GRAPH <urn:g> {{ <urn:g> <urn:of> {of} }} }}"),
            1 => "CLEAR SILENT GRAPH <urn:g>".to_owned(),
            _ => continue,
        };
        inputs.push(Box::new(move |engine| {
            engine.update(&update).run().map(drop)
        }));
    }
    inputs
}

/// All that is stored, what calls are answered, the states of dataflows, and that it goes on: the
/// rest of each batch and window is there.
pub(super) fn outcome(engine: &Engine) -> Vec<String> {
    for number in 1..=4 {
        call(number)(engine).unwrap();
    }
    for number in 15..=18 {
        push(number)(engine).unwrap();
    }
    call(5)(engine).unwrap();
    engine.quiesce(Duration::from_secs(60)).unwrap();
    let stored = engine.query("SELECT ?s ?p ?o { ?s ?p ?o }").run().unwrap();
    let mut all: Vec<String> = stored.answer.rows().map(|row| format!("{row:?}")).collect();
    all.sort_unstable();
    for flow in ["flow", "beside"] {
        all.push(engine.dataflow_state(flow).unwrap().to_owned());
    }
    engine.check().unwrap();
    all
}

pub(super) fn uninterrupted() -> Vec<String> {
    let engine = Engine::open(config(1)).unwrap();
    inputs(Recovery::Strong)
        .iter()
        .for_each(|it| it(&engine).unwrap());
    let outcome = outcome(&engine);
    assert!(outcome.len() > 40, "{outcome:?}");
    outcome
}

#[test]
fn taken_after_any_input_and_opened_with_other_shards() {
    taken_after_any_input(Recovery::Strong);
}

#[test]
fn taken_after_any_input_where_transactions_run_again() {
    taken_after_any_input(Recovery::Weak);
}

fn taken_after_any_input(recovery: Recovery) {
    let expected = uninterrupted();
    let inputs = inputs(recovery);
    for taken in 0..=inputs.len() {
        let crashes = (taken + 2).min(inputs.len());
        let disk = SimDisk::new();
        let engine = open(&disk, 2).unwrap();
        inputs[..taken].iter().for_each(|it| it(&engine).unwrap());
        engine.checkpoint().unwrap();
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
fn crashed_at_any_sync_with_checkpoints_after_every_input() {
    let expected = uninterrupted();
    let inputs = inputs(Recovery::Strong);
    let run = |engine: &Engine, from: usize| {
        let go_on = |at: &usize| inputs[*at](engine).is_ok() && engine.checkpoint().is_ok();
        from + (from..inputs.len()).take_while(go_on).count()
    };
    let mut trimmed = false;
    // Each checkpoint has several syncs.
    for sync in (0..2_000).step_by(7) {
        let keep = [
            CrashKeep::Synced,
            CrashKeep::Written,
            CrashKeep::Seeded(sync),
        ][sync as usize % 3];
        let disk = SimDisk::new();
        let mut done = 12;
        let engine = open(&disk, 2).unwrap();
        (inputs[..done].iter()).for_each(|it| it(&engine).unwrap());
        drop(engine);
        // The next opening begins another segment, so checkpoints make the first one needless.
        let disk = disk.restarted();
        disk.crash_at_sync(sync, keep);
        let crashed = open(&disk, 1).map(|engine| done = run(&engine, done));
        trimmed |= !disk.names().contains(&"log-0000000001.seg".to_owned());
        if crashed.is_ok() && done == inputs.len() {
            assert!(trimmed && sync > 50, "{sync}");
            return;
        }
        let engine = open(&disk.restarted(), 4).unwrap();
        let done = run(&engine, done);
        assert_eq!(done, inputs.len(), "crashed at sync {sync}");
        assert_eq!(
            outcome(&engine),
            expected,
            "crashed at sync {sync}, kept {keep:?}"
        );
    }
    panic!("the run has more syncs");
}

pub(super) fn simulated(disk: &SimDisk, seed: u64) -> (SimulatedProcess, Engine) {
    let process = SimulatedProcess::new(seed);
    let config = EngineConfig {
        process: Some(process.clone()),
        ..config(u16::try_from(1 + seed % 4).unwrap())
    };
    let engine = Engine::open_on(config, Arc::new(disk.clone())).unwrap();
    (process, engine)
}

/// Calls and messages are on their way while checkpoints are taken, and the machine crashes at any
/// turn.
#[test]
fn taken_while_transactions_run() {
    let expected = uninterrupted();
    for seed in 0..60_u64 {
        let inputs =
            inputs([Recovery::Strong, Recovery::Weak, Recovery::Changes][seed as usize % 3]);
        let mut disk = SimDisk::new();
        let (mut process, mut engine) = simulated(&disk, seed);
        let until = 14 + seed as usize % (inputs.len() - 14);
        inputs[..until].iter().for_each(|it| it(&engine).unwrap());
        let taken = engine.checkpoint();
        assert!(taken.is_ok() || seed % 3 > 0, "{taken:?}");
        for crash in 0..2 {
            for _ in 0..seed * (crash + 3) % 23 {
                process.take_turn();
            }
            disk = disk.crash(CrashKeep::Seeded(seed + crash));
            drop(engine);
            (process, engine) = simulated(&disk, seed + 100 * crash);
            engine.checkpoint().unwrap();
        }
        inputs[until..].iter().for_each(|it| it(&engine).unwrap());
        assert_eq!(outcome(&engine), expected, "seed {seed}");
    }
}

/// A folder with two checkpoints, and inputs behind them.
fn filled() -> SimDisk {
    let disk = SimDisk::new();
    let inputs = inputs(Recovery::Strong);
    let engine = open(&disk, 2).unwrap();
    let until = [20, 26, inputs.len()];
    for (from, until) in [0].into_iter().chain(until).zip(until) {
        (inputs[from..until].iter()).for_each(|it| it(&engine).unwrap());
        if until < inputs.len() {
            engine.checkpoint().unwrap();
        }
    }
    drop(engine);
    disk.restarted()
}

fn files(disk: &SimDisk) -> Vec<String> {
    let mut names = disk.names();
    names.retain(|name| name.ends_with(".transactions"));
    names
}

#[test]
fn a_flipped_bit_is_passed_over_for_the_checkpoint_before() {
    let expected = uninterrupted();
    let disk = filled();
    let names = files(&disk);
    let newest = names.last().unwrap();
    let whole = disk.bytes(newest).unwrap();
    for at in (0..whole.len()).step_by(whole.len() / 20 + 1) {
        let disk = disk.copy();
        let mut flipped = whole.clone();
        flipped[at] ^= 1 << (at % 8);
        disk.plant(newest, flipped);
        let report = verify_folder(Arc::new(disk.clone()), VerifyState::Yes, &Arc::default());
        let report = report.unwrap();
        assert!(
            report.damage.iter().any(|it| it.contains(newest.as_str())),
            "{report:?}"
        );
        let engine = open(&disk, 2).unwrap();
        assert_eq!(outcome(&engine), expected, "byte {at}");
    }
}

#[test]
fn a_backup_goes_on_like_the_original() {
    let expected = uninterrupted();
    let disk = filled();
    let engine = open(&disk, 1).unwrap();
    let mut archive = Vec::new();
    engine.backup().unwrap().write_to(&mut archive).unwrap();
    let backup = SimDisk::new();
    receive_backup(&archive[..], &backup).unwrap();
    let restored = SimDisk::new();
    let from: Arc<dyn Disk> = Arc::new(backup);
    let no_file = &mut |_: &_| Err(std::io::ErrorKind::Unsupported.into());
    copy_folder(&from, &restored, no_file).unwrap();
    start_branch(Arc::new(restored.clone())).unwrap();
    let report = verify_folder(
        Arc::new(restored.clone()),
        VerifyState::Yes,
        &Arc::default(),
    );
    assert!(report.as_ref().unwrap().is_sound(), "{report:?}");
    assert_eq!(outcome(&engine), expected);
    assert_eq!(outcome(&open(&restored, 4).unwrap()), expected);
}

/// Engines without procedures write no file for them.
#[test]
fn nothing_is_written_where_nothing_was_declared() {
    let disk = SimDisk::new();
    let engine = open(&disk, 1).unwrap();
    engine
        .update("INSERT DATA { <urn:a> <urn:p> 1 }")
        .run()
        .unwrap();
    engine.checkpoint().unwrap();
    assert!(files(&disk).is_empty());
    engine
        .declare("CREATE PROCEDURE p() AS { ABORT \"no\" }")
        .unwrap();
    engine.declare("DROP PROCEDURE p").unwrap();
    engine.checkpoint().unwrap();
    assert_eq!(files(&disk).len(), 1, "numbers go on");
}

/// Procedures and keys that are gone or forgotten leave their numbers: what the log holds behind the
/// checkpoint fits.
#[test]
fn numbers_go_on_after_everything_was_dropped() {
    let disk = SimDisk::new();
    let engine = open(&disk, 1).unwrap();
    let text =
        "CREATE PROCEDURE draw() AS { INSERT { <urn:a> <urn:p> ?x } WHERE { BIND(UUID() AS ?x) } }";
    let add = |engine: &Engine, key| engine.call("draw").key("till", key).run().unwrap();
    engine.declare(text).unwrap();
    add(&engine, 1);
    engine.declare("DROP PROCEDURE draw").unwrap();
    engine.checkpoint().unwrap();
    engine.checkpoint().unwrap();
    engine.declare(text).unwrap();
    add(&engine, 2);
    drop(engine);
    let engine = open(&disk.restarted(), 2).unwrap();
    let done = CallOutcome::Answered(CallAnswer::Done);
    assert_eq!((add(&engine, 1), add(&engine, 2)), (done.clone(), done));
    let count = "SELECT (COUNT(*) AS ?n) { <urn:a> <urn:p> ?x }";
    assert_eq!(select(&engine, count), [2]);
    add(&engine, 3);
    assert_eq!(select(&engine, count), [3]);
    engine.check().unwrap();
}

/// Another engine that takes the declarations of a dump does the same with the same messages.
#[test]
fn a_dump_declares_procedures_and_dataflows() {
    let engine = Engine::open(config(1)).unwrap();
    let start = &inputs(Recovery::Strong)[0];
    start(&engine).unwrap();
    for text in ["s", "doubled INTERIOR", "noted INTERIOR", "called INTERIOR"] {
        let text = format!("CREATE STREAM {text} BATCH 1s");
        engine.create_stream(None, &text).unwrap();
    }
    DECLARED
        .iter()
        .for_each(|text| engine.declare(text).unwrap());
    engine.declare("PAUSE DATAFLOW beside").unwrap();
    let dumped = engine.declarations().unwrap();
    let other = Engine::open(config(1)).unwrap();
    start(&other).unwrap();
    for statement in dumped.split("\n;\n").filter(|it| !it.is_empty()) {
        match statement.starts_with("CREATE STREAM") {
            true => drop(other.create_stream(None, statement).unwrap()),
            false => other.declare(statement).unwrap(),
        }
    }
    assert_eq!(other.declarations().unwrap(), dumped);
    assert!(dumped.contains("PAUSE DATAFLOW"), "{dumped}");
    for engine in [&engine, &other] {
        engine.declare("RESUME DATAFLOW beside").unwrap();
        [push(2), push(4)].iter().for_each(|it| it(engine).unwrap());
    }
    assert_eq!(outcome(&engine), outcome(&other));
}
