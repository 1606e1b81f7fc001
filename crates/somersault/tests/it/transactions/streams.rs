//! Procedures over streams: chains, windows, nests, aborts, calls beside them, and crashes.

use super::calls::{integers, select};
use somersault::disk::{CrashKeep, SimDisk};
use somersault::process_simulation::SimulatedProcess;
use somersault::{CallOutcome, Clock, Engine, EngineConfig, EngineError, PushLines};
use std::sync::Arc;
use std::time::Duration;

fn quiesce(engine: &Engine) {
    engine.quiesce(Duration::from_secs(60)).unwrap();
}

/// One message: a number.
fn push(engine: &Engine, number: i64) {
    let line = format!(
        "{}\t<urn:m{number}> <urn:is> {} .\n",
        number * 10,
        literal(number)
    );
    let push = PushLines {
        seq: Some(number as u64),
        lines: line.as_bytes(),
        ..PushLines::default()
    };
    engine.push_lines("urn:s", push).unwrap();
}

fn literal(number: i64) -> String {
    format!("\"{number}\"^^<http://www.w3.org/2001/XMLSchema#integer>")
}

/// Each number is added to a sum, and doubled into an interior stream; each three doubled ones are
/// noted with the number of those that came before. A window shows the last three numbers.
const DECLARED: [&str; 6] = [
    "CREATE STREAM <urn:s> BATCH 1s IDLE NEVER",
    "CREATE STREAM <urn:doubled> INTERIOR BATCH 1s",
    "CREATE PROCEDURE take ON STREAM <urn:s> BATCH 1 MESSAGE
        OWNS WINDOW <urn:w> ON <urn:s> [LAST 3 MESSAGES]
        WHEN <urn:w> SLIDES {
            DELETE { <urn:c> <urn:shown> ?old } INSERT { <urn:c> <urn:shown> ?new }
                WHERE { <urn:c> <urn:shown> ?old
                    { SELECT (SUM(?n) AS ?new) { WINDOW <urn:w> { ?m <urn:is> ?n } } } }
        } AS {
            IF ASK { BATCH { ?m <urn:is> 13 } } { ABORT \"unlucky\" };
            DELETE { <urn:c> <urn:sum> ?a } INSERT { <urn:c> <urn:sum> ?b }
                WHERE { <urn:c> <urn:sum> ?a BATCH { ?m <urn:is> ?n } BIND(?a + ?n AS ?b) };
            EMIT INTO <urn:doubled> CONSTRUCT { ?m <urn:twice> ?d }
                WHERE { BATCH { ?m <urn:is> ?n } BIND(2 * ?n AS ?d) }
        }",
    "CREATE PROCEDURE note ON STREAM <urn:doubled> BATCH 3 MESSAGES AS {
        INSERT { <urn:log> <urn:has> ?d } WHERE { BATCH { ?m <urn:twice> ?d } }
    }",
    "CREATE DATAFLOW flow { take, note }",
    "CREATE PROCEDURE read() AS { RETURN SELECT ?s { <urn:c> <urn:sum> ?s } }",
];

fn declare(engine: &Engine) {
    let start = "INSERT DATA { <urn:c> <urn:sum> 0 ; <urn:shown> 0 }";
    engine.update(start).run().unwrap();
    for text in DECLARED {
        match text.starts_with("CREATE STREAM") {
            true => drop(engine.create_stream(None, text).unwrap()),
            false => engine.declare(text).unwrap(),
        }
    }
}

/// What the stored graph must hold after these numbers.
fn check(engine: &Engine, numbers: i64) {
    quiesce(engine);
    let taken: Vec<i64> = (1..=numbers).filter(|number| *number != 13).collect();
    let sum = "SELECT ?s { <urn:c> <urn:sum> ?s }";
    assert_eq!(
        select(engine, sum),
        [taken.iter().sum::<i64>()],
        "{numbers} numbers"
    );
    let shown = match taken.len() {
        0..3 => 0,
        count => taken[count - 3..].iter().sum(),
    };
    let window = "SELECT ?s { <urn:c> <urn:shown> ?s }";
    assert_eq!(select(engine, window), [shown], "{numbers} numbers");
    let noted = "SELECT ?d { <urn:log> <urn:has> ?d } ORDER BY ?d";
    let whole = taken.len() / 3 * 3;
    let expected: Vec<i64> = taken[..whole].iter().map(|number| 2 * number).collect();
    assert_eq!(select(engine, noted), expected, "{numbers} numbers");
    engine.check().unwrap();
}

fn manual() -> EngineConfig {
    EngineConfig {
        clock: Clock::Manual,
        ..EngineConfig::default()
    }
}

#[test]
fn messages_lead_to_transactions_along_the_graph() {
    let engine = Engine::open(manual()).unwrap();
    declare(&engine);
    for number in 1..=20 {
        push(&engine, number);
        if number % 7 == 0 {
            check(&engine, number);
        }
    }
    check(&engine, 20);
    let read = engine.call("read").run().unwrap();
    assert_eq!(integers(read), [210 - 13]);
    // A message that is sent again counts once.
    push(&engine, 20);
    check(&engine, 20);
}

#[test]
fn a_stream_that_procedures_use_stays() {
    let engine = Engine::open(manual()).unwrap();
    declare(&engine);
    for stream in ["urn:s", "urn:doubled"] {
        let refused = engine.drop_stream(stream).unwrap_err();
        assert!(matches!(refused, EngineError::Conflict(_)), "{refused}");
    }
    assert!(engine.reset_stream("urn:s").is_err());
    push(&engine, 1);
    check(&engine, 1);
    let called = engine.call("take").run().unwrap_err();
    assert!(called.to_string().contains("cannot be called"), "{called}");
}

#[test]
fn a_paused_dataflow_takes_messages_and_runs_them_later() {
    let engine = Engine::open(manual()).unwrap();
    declare(&engine);
    (1..=4).for_each(|number| push(&engine, number));
    check(&engine, 4);
    engine.declare("PAUSE DATAFLOW flow").unwrap();
    (5..=9).for_each(|number| push(&engine, number));
    check(&engine, 4);
    let read = engine.call("read").run().unwrap();
    assert_eq!(integers(read), [10], "calls go on");
    engine.declare("RESUME DATAFLOW flow").unwrap();
    check(&engine, 9);
}

#[test]
fn a_nest_is_one_transaction() {
    let engine = Engine::open(manual()).unwrap();
    for text in [
        "CREATE STREAM <urn:s> BATCH 1s IDLE NEVER",
        "CREATE STREAM <urn:inner> INTERIOR BATCH 1s",
    ] {
        engine.create_stream(None, text).unwrap();
    }
    for text in [
        "CREATE PROCEDURE first ON STREAM <urn:s> BATCH 1 MESSAGE AS {
            INSERT { <urn:log> <urn:first> ?n } WHERE { BATCH { ?m <urn:is> ?n } };
            EMIT INTO <urn:inner> CONSTRUCT { ?m <urn:is> ?n } WHERE { BATCH { ?m <urn:is> ?n } }
        }",
        "CREATE PROCEDURE second ON STREAM <urn:inner> BATCH 1 MESSAGE AS {
            IF ASK { BATCH { ?m <urn:is> 2 } } { ABORT \"two\" };
            INSERT { <urn:log> <urn:second> ?n } WHERE { BATCH { ?m <urn:is> ?n } <urn:log> <urn:first> ?n }
        }",
        "CREATE DATAFLOW nested { NEST { first, second } }",
    ] {
        engine.declare(text).unwrap();
    }
    (1..=3).for_each(|number| push(&engine, number));
    quiesce(&engine);
    for predicate in ["first", "second"] {
        let query = format!("SELECT ?n {{ <urn:log> <urn:{predicate}> ?n }} ORDER BY ?n");
        assert_eq!(select(&engine, &query), [1, 3], "{predicate}");
    }
    engine.check().unwrap();
}

fn simulated(disk: &SimDisk, seed: u64) -> (SimulatedProcess, Engine) {
    let process = SimulatedProcess::new(seed);
    let config = EngineConfig {
        workers: u16::try_from(1 + seed % 4).unwrap(),
        process: Some(process.clone()),
        ..manual()
    };
    let engine = Engine::open_on(config, Arc::new(disk.clone())).unwrap();
    (process, engine)
}

/// A checkpoint from before the first procedure has the streams that procedures name later.
#[test]
fn procedures_are_declared_after_a_checkpoint() {
    let disk = SimDisk::new();
    let open = |disk: &SimDisk| Engine::open_on(manual(), Arc::new(disk.clone())).unwrap();
    let engine = open(&disk);
    for text in &DECLARED[..2] {
        engine.create_stream(None, text).unwrap();
    }
    engine.checkpoint().unwrap();
    drop(engine);
    let engine = open(&disk);
    engine
        .update("INSERT DATA { <urn:c> <urn:sum> 0 ; <urn:shown> 0 }")
        .run()
        .unwrap();
    for text in &DECLARED[2..] {
        engine.declare(text).unwrap();
    }
    (1..=5).for_each(|number| push(&engine, number));
    check(&engine, 5);
    drop(engine);
    let engine = open(&disk);
    check(&engine, 5);
    (6..=14).for_each(|number| push(&engine, number));
    check(&engine, 14);
}

/// Whenever the machine crashes, each message that was acknowledged counts once, the others count
/// once when they are sent again, and windows and batches go on where they were.
#[test]
fn messages_count_once_over_crashes() {
    for seed in 0..40_u64 {
        let mut disk = SimDisk::new();
        let (mut process, mut engine) = simulated(&disk, seed);
        declare(&engine);
        let mut sent = 0;
        for crash in 1..=3_u64 {
            for _ in 0..4 + seed % 3 {
                sent += 1;
                push(&engine, sent);
            }
            if seed % 2 == 0 {
                let called = engine.call("read").run().unwrap();
                assert!(matches!(called, CallOutcome::Answered(_)));
            }
            for _ in 0..seed * crash % 37 {
                process.take_turn();
            }
            disk = disk.crash(CrashKeep::Seeded(seed * 3 + crash));
            drop(engine);
            (process, engine) = simulated(&disk, seed + 100 * crash);
            // What was sent last is sent again.
            push(&engine, sent);
            check(&engine, sent);
        }
    }
}
