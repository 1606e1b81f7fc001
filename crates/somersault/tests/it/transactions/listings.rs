//! What the engine says of procedures and dataflows: texts, states, what waits, what aborted.

use super::calls::integer;
use somersault::disk::{CrashKeep, SimDisk};
use somersault::{Engine, EngineConfig, EngineError, FabricKind, PushLines};
use std::sync::Arc;
use std::time::Duration;

const TAKE: &str = "CREATE PROCEDURE take ON STREAM <urn:s> BATCH 1 MESSAGE
    OWNS WINDOW <urn:w> ON <urn:s> [LAST 3 MESSAGES SLIDE 2]
    WHEN <urn:w> SLIDES { INSERT { ?m <urn:seen> ?n } WHERE { WINDOW <urn:w> { ?m <urn:is> ?n } } }
    AS {
        IF ASK { BATCH { ?m <urn:is> ?n } FILTER(?n = 13) } { ABORT \"unlucky\" };
        EMIT INTO <urn:out> CONSTRUCT { ?m <urn:is> ?n } WHERE { BATCH { ?m <urn:is> ?n } }
    }";
const NOTE: &str = "CREATE PROCEDURE note ON STREAM <urn:out> BATCH 3 MESSAGES AS {
    INSERT { <urn:log> <urn:has> ?n } WHERE { BATCH { ?m <urn:is> ?n } }
}";
const FLOW: &str = "CREATE DATAFLOW flow { take, note } ON ABORT STOP";

fn open(disk: &SimDisk) -> Engine {
    let config = EngineConfig {
        fabric: FabricKind::Simulated { seed: 1 },
        ..EngineConfig::default()
    };
    Engine::open_on(config, Arc::new(disk.clone())).unwrap()
}

fn declare(engine: &Engine) {
    for stream in [
        "CREATE STREAM <urn:s> BATCH 1s IDLE NEVER",
        "CREATE STREAM <urn:out> INTERIOR BATCH 1s",
    ] {
        engine.create_stream(None, stream).unwrap();
    }
    for text in [TAKE, NOTE, FLOW] {
        engine.declare(text).unwrap();
    }
}

fn push(engine: &Engine, number: i64) {
    let line = format!(
        "{}\t<urn:m{number}> <urn:is> {} .\n",
        number * 10,
        integer(number)
    );
    let push = PushLines {
        seq: Some(number as u64),
        lines: line.as_bytes(),
        ..PushLines::default()
    };
    engine.push_lines("urn:s", push).unwrap();
}

#[test]
fn procedures_say_what_they_consume_and_what_waits() {
    let engine = Engine::open(EngineConfig::default()).unwrap();
    declare(&engine);
    let parameters =
        "CREATE PROCEDURE raise(?to IRI, ?n) AS { INSERT { ?to <urn:n> ?n } WHERE { } }";
    engine.declare(parameters).unwrap();
    for number in 1..=4 {
        push(&engine, number);
    }
    engine.quiesce(Duration::from_secs(60)).unwrap();
    let names: Vec<String> = engine
        .procedures()
        .unwrap()
        .into_iter()
        .map(|it| it.name)
        .collect();
    assert_eq!(names, ["note", "raise", "take"]);
    let take = engine.procedure_info("take").unwrap();
    assert_eq!(take.text, TAKE);
    assert_eq!(take.dataflow.as_deref(), Some("flow"));
    assert_eq!(take.emits, ["urn:out"]);
    let window = &take.windows[0];
    assert_eq!((&*window.name, &*window.stream), ("urn:w", "urn:s"));
    assert_eq!(window.extent, "LAST 3 MESSAGES SLIDE 2");
    assert_eq!(
        (&*take.streams[0].batch, take.streams[0].batches),
        ("BATCH 1 MESSAGE", 4)
    );
    let note = engine.procedure_info("note").unwrap();
    let stream = &note.streams[0];
    assert_eq!(
        (
            stream.batches,
            stream.waiting_batches,
            stream.waiting_messages
        ),
        (1, 0, 1)
    );
    let raise = engine.procedure_info("raise").unwrap();
    let kinds: Vec<&str> = raise.parameters.iter().map(|it| it.kind.as_str()).collect();
    assert_eq!((kinds, raise.dataflow), (vec!["IRI", "ANY"], None));
    let missing = engine.procedure_info("nothing").unwrap_err();
    assert!(matches!(missing, EngineError::NotFound(_)), "{missing}");
}

#[test]
fn a_stopped_dataflow_says_why_in_health_and_after_a_restart() {
    let disk = SimDisk::new();
    let engine = open(&disk);
    declare(&engine);
    for number in [1, 2, 13, 14, 15] {
        push(&engine, number);
    }
    engine.quiesce(Duration::from_secs(60)).unwrap();
    let check = |engine: &Engine| {
        let flow = engine.dataflow_info("flow").unwrap();
        assert_eq!(
            (flow.state, flow.recovery, flow.on_abort),
            ("stopped", "STRONG", "STOP")
        );
        assert_eq!((flow.rounds, flow.waiting_batches, flow.aborts), (3, 2, 1));
        assert_eq!(flow.units, [["take"], ["note"]]);
        assert_eq!(flow.text, FLOW);
        let abort = flow.stopped_by.clone().unwrap();
        assert_eq!(
            (&*abort.procedure, abort.round, &*abort.reason),
            ("take", 3, "unlucky")
        );
        assert_eq!(abort.time.0, 130, "the event time of the batch");
        let list = engine.aborted("flow").unwrap();
        assert_eq!((list.newest, list.dropped), (vec![abort.clone()], 0));
        let by_take = engine.aborted_by("take").unwrap();
        assert_eq!(by_take.newest, std::slice::from_ref(&abort));
        assert_eq!(
            engine.procedure_info("take").unwrap().last_abort,
            Some(abort.clone())
        );
        let stopped = engine.health().stopped_dataflows;
        assert_eq!((&*stopped[0].dataflow, &stopped[0].abort), ("flow", &abort));
    };
    check(&engine);
    let crashed = disk.crash(CrashKeep::Synced);
    drop(engine);
    let engine = open(&crashed);
    check(&engine);
    engine.declare("RESUME DATAFLOW flow").unwrap();
    engine.quiesce(Duration::from_secs(60)).unwrap();
    assert_eq!(engine.health().stopped_dataflows, []);
    let flow = engine.dataflow_info("flow").unwrap();
    assert_eq!(
        (flow.state, flow.stopped_by, flow.rounds),
        ("running", None, 5)
    );
    engine.declare("DROP DATAFLOW flow").unwrap();
    let gone = engine.dataflow_info("flow").unwrap_err();
    assert!(matches!(gone, EngineError::NotFound(_)), "{gone}");
    assert!(engine.dataflows().unwrap().is_empty());
}

#[test]
fn transactions_are_counted_by_how_they_ended() {
    let engine = Engine::open(EngineConfig::default()).unwrap();
    declare(&engine);
    let read = "CREATE PROCEDURE one(?n) AS { IF ASK { FILTER(?n = 13) } { ABORT \"no\" }; RETURN ASK { } }";
    engine.declare(read).unwrap();
    let call = |number| engine.call("one").arguments([integer(number)]);
    call(1).key("till", 1).run().unwrap();
    call(1).key("till", 1).run().unwrap();
    call(13).run().unwrap();
    engine.call("one").run().unwrap_err();
    let double = "CREATE PROCEDURE double() AS { LET (?x) BE SELECT ?x { VALUES ?x { 1 2 } }; RETURN ASK { } }";
    engine.declare(double).unwrap();
    engine.call("double").run().unwrap();
    for number in [1, 2, 13, 14, 15] {
        push(&engine, number);
    }
    engine.quiesce(Duration::from_secs(60)).unwrap();
    let counts = engine.metrics().transactions;
    assert_eq!(
        (counts.calls, counts.repeated_calls, counts.refused_calls),
        (4, 1, 1)
    );
    assert_eq!(
        (counts.commits, counts.rounds, counts.waiting_batches),
        (3, 3, 2)
    );
    let aborts = (
        counts.aborts_stated,
        counts.aborts_limit,
        counts.aborts_error,
    );
    assert_eq!(aborts, (2, 0, 1));
}
