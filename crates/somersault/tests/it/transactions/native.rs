//! Procedures in Rust: the same transactions in the same order, and what waits for a body after a
//! restart.

use super::calls::{integer, integers, select};
use somersault::disk::{CrashKeep, SimDisk};
use somersault::oxrdf::{NamedNode, NamedOrBlankNode, Term, Triple};
use somersault::{
    Abort, CallAnswer, CallOutcome, Engine, EngineConfig, EngineError, EventTime, FabricKind,
    LimitKind, PushLines, Txn,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

const ADD: &str = "CREATE PROCEDURE raise(?n) AS NATIVE";
/// Its steps are those of the body of `add`.
const ADD_STEPS: &str = "CREATE PROCEDURE raise_by_steps(?n) AS {
    DELETE { <urn:c> <urn:sum> ?s } INSERT { <urn:c> <urn:sum> ?t }
        WHERE { <urn:c> <urn:sum> ?s BIND(?s + ?n AS ?t) };
    IF ASK { <urn:c> <urn:sum> ?s FILTER(?s > 100) } { ABORT \"above 100\" };
    RETURN SELECT ?s { <urn:c> <urn:sum> ?s }
}";

fn iri(name: &str) -> NamedNode {
    NamedNode::new_unchecked(format!("urn:{name}"))
}

fn open(disk: &SimDisk) -> Engine {
    let config = EngineConfig {
        fabric: FabricKind::Simulated { seed: 1 },
        ..EngineConfig::default()
    };
    Engine::open_on(config, Arc::new(disk.clone())).unwrap()
}

fn in_memory() -> Engine {
    let engine = Engine::open(EngineConfig::default()).unwrap();
    engine
        .update("INSERT DATA { <urn:c> <urn:sum> 0 }")
        .run()
        .unwrap();
    engine
}

fn add(tx: &mut Txn<'_, '_>) -> Result<CallAnswer, Abort> {
    tx.update(
        "DELETE { <urn:c> <urn:sum> ?s } INSERT { <urn:c> <urn:sum> ?t }
         WHERE { <urn:c> <urn:sum> ?s BIND(?s + ?n AS ?t) }",
        &[],
    )?;
    if tx.ask("ASK { <urn:c> <urn:sum> ?s FILTER(?s > 100) }", &[])? {
        return tx.abort("above 100");
    }
    tx.query("SELECT ?s { <urn:c> <urn:sum> ?s }", &[])
}

fn call(engine: &Engine, procedure: &str, number: i64) -> CallOutcome {
    let call = engine.call(procedure).arguments([integer(number)]);
    call.run().unwrap()
}

fn push(engine: &Engine, numbers: impl IntoIterator<Item = i64>) {
    for number in numbers {
        let at = number * 10;
        let line = format!("{at}\t<urn:m{number}> <urn:is> {} .\n", integer(number));
        let push = PushLines {
            seq: Some(number as u64),
            lines: line.as_bytes(),
            ..PushLines::default()
        };
        engine.push_lines("urn:s", push).unwrap();
    }
}

fn settle(engine: &Engine) {
    engine.quiesce(Duration::from_secs(60)).unwrap();
}

#[test]
fn a_body_in_rust_and_its_steps_do_the_same() {
    let engine = in_memory();
    engine.declare(ADD).unwrap();
    engine.declare(ADD_STEPS).unwrap();
    engine.procedure("raise", add).unwrap();
    let mut sum = 0;
    for number in [5, 40, 50, 20, -3, 8, 1] {
        let expected = match sum + number {
            above if above > 100 => CallOutcome::Aborted {
                reason: "above 100".to_owned(),
            },
            new => {
                sum = new;
                call(&engine, "raise_by_steps", 0)
            }
        };
        let outcome = call(&engine, "raise", number);
        match outcome {
            CallOutcome::Aborted { .. } => assert_eq!(outcome, expected),
            answered => assert_eq!(integers(answered), [sum]),
        }
        assert_eq!(integers(call(&engine, "raise_by_steps", 0)), [sum]);
    }
    let info = engine.procedure_info("raise").unwrap();
    assert_eq!((info.body, info.waits), ("NATIVE", None));
    let shown = engine.explain_procedure("raise").unwrap();
    assert_eq!(shown, "PROCEDURE raise (?n ANY)\nAS NATIVE\n");
}

#[test]
fn a_panic_is_an_abort_and_the_engine_goes_on() {
    let engine = in_memory();
    engine.declare(ADD).unwrap();
    engine
        .procedure("raise", |tx| {
            tx.update("INSERT DATA { <urn:x> <urn:p> 1 }", &[])?;
            match tx.argument("n")? {
                Term::Literal(n) if n.value() == "0" => panic!("no zero"),
                _ => Ok(()),
            }
        })
        .unwrap();
    let CallOutcome::Aborted { reason } = call(&engine, "raise", 0) else {
        panic!("it panicked")
    };
    assert_eq!(reason, "the body of procedure raise panicked: no zero");
    assert_eq!(engine.health().stored_statements, 1);
    let done = call(&engine, "raise", 1);
    assert_eq!(done, CallOutcome::Answered(CallAnswer::Done));
    assert_eq!(engine.health().stored_statements, 2);
}

#[test]
fn what_a_body_may_not_do_aborts_with_a_sentence() {
    let engine = in_memory();
    engine.declare(ADD).unwrap();
    type Body = fn(&mut Txn<'_, '_>) -> Result<(), Abort>;
    let cases: [(Body, &str); 9] = [
        (
            |tx| tx.query("SELECT ?", &[]).map(|_| ()),
            "the text is: SELECT ?",
        ),
        (|tx| tx.update("CLEAR ALL", &[]), "INSERT, DELETE or WITH"),
        (|tx| tx.ask("SELECT * { }", &[]).map(|_| ()), "no ASK"),
        (|tx| tx.rows("ASK { }", &[]).map(|_| ()), "no SELECT"),
        (
            |tx| tx.update("INSERT DATA { <urn:a> <urn:p> 1 }", &[("n", integer(1))]),
            "?n has a value already",
        ),
        (|tx| tx.argument("m").map(|_| ()), "no parameter ?m"),
        (
            |tx| tx.batch(&iri("s")).map(|_| ()),
            "add ON STREAM <urn:s>",
        ),
        (
            |tx| tx.window(&iri("w")).map(|_| ()),
            "add OWNS WINDOW <urn:w>",
        ),
        (|tx| tx.emit(&iri("out"), &[]), "add EMITS INTO <urn:out>"),
    ];
    for (body, said) in cases {
        engine.procedure("raise", body).unwrap();
        let CallOutcome::Aborted { reason } = call(&engine, "raise", 1) else {
            panic!("{said}")
        };
        assert!(reason.contains(said), "{said}: {reason}");
    }
    let refused = engine.procedure("none", add).unwrap_err();
    assert!(matches!(refused, EngineError::NotFound(_)), "{refused}");
    engine.declare(ADD_STEPS).unwrap();
    let refused = engine.procedure("raise_by_steps", add).unwrap_err();
    assert!(refused.to_string().contains("AS NATIVE"), "{refused}");
}

/// `take` keeps the sum of what its window shows and doubles odd numbers; `note` by steps notes
/// what comes of it.
const STREAMING: [&str; 5] = [
    "CREATE STREAM <urn:s> BATCH 1s IDLE NEVER",
    "CREATE STREAM <urn:out> INTERIOR BATCH 1s",
    "CREATE PROCEDURE take ON STREAM <urn:s> BATCH 1 MESSAGE
        OWNS WINDOW <urn:w> ON <urn:s> [LAST 3 MESSAGES] EMITS INTO <urn:out> AS NATIVE",
    "CREATE PROCEDURE note ON STREAM <urn:out> BATCH 1 MESSAGE AS {
        INSERT { <urn:log> <urn:has> ?n } WHERE { BATCH { ?m <urn:twice> ?n } }
    }",
    "CREATE DATAFLOW flow { NEST { take, note } }",
];

fn declare_streaming(engine: &Engine) {
    for text in STREAMING {
        match text.contains("STREAM <urn:s> BATCH 1s") || text.contains("INTERIOR") {
            true => drop(engine.create_stream(None, text).unwrap()),
            false => engine.declare(text).unwrap(),
        }
    }
}

fn take(tx: &mut Txn<'_, '_>) -> Result<(), Abort> {
    let batch = tx.batch(&iri("s"))?;
    let shown = tx.window(&iri("w"))?.len() as i64;
    tx.update(
        "DELETE WHERE { <urn:w> <urn:shows> ?old } ;
         INSERT { <urn:w> <urn:shows> ?shown } WHERE { }",
        &[("shown", integer(shown))],
    )?;
    for statement in batch {
        let Term::Literal(number) = &statement.object else {
            return tx.abort("no number");
        };
        let number: i64 = number.value().parse().map_err(|_| "no integer")?;
        if number == 6 {
            return tx.abort("unlucky");
        }
        if number % 2 == 1 {
            let subject: NamedOrBlankNode = statement.subject;
            let twice = Triple::new(subject, iri("twice"), integer(2 * number));
            tx.emit(&iri("out"), &[twice])?;
        }
        assert_eq!(tx.now(), EventTime(number * 10));
    }
    Ok(())
}

#[test]
fn a_streaming_body_reads_batches_and_windows_and_feeds_a_nest() {
    let engine = in_memory();
    declare_streaming(&engine);
    engine.procedure("take", take).unwrap();
    push(&engine, 1..=7);
    settle(&engine);
    let noted = "SELECT ?n { <urn:log> <urn:has> ?n } ORDER BY ?n";
    assert_eq!(select(&engine, noted), [2, 6, 10, 14]);
    // The window slid at 3, 4, 5 and 7: the abort at 6 undid its slide.
    assert_eq!(select(&engine, "SELECT ?n { <urn:w> <urn:shows> ?n }"), [3]);
    let aborted = engine.aborted("flow").unwrap();
    assert_eq!(aborted.newest.len(), 1);
    assert_eq!(aborted.newest[0].reason, "unlucky");
    assert_eq!(aborted.newest[0].procedure, "take");
}

/// A body that counts how often it ran.
fn counted(
    runs: &Arc<AtomicU64>,
    body: fn(&mut Txn<'_, '_>) -> Result<CallAnswer, Abort>,
) -> impl Fn(&mut Txn<'_, '_>) -> Result<CallAnswer, Abort> + Send + Sync + 'static {
    let runs = Arc::clone(runs);
    move |tx| {
        runs.fetch_add(1, Ordering::SeqCst);
        body(tx)
    }
}

#[test]
fn after_a_restart_calls_and_rounds_wait_for_the_bodies_and_nothing_runs_again() {
    for has_checkpoint in [false, true] {
        let disk = SimDisk::new();
        let engine = open(&disk);
        engine
            .update("INSERT DATA { <urn:c> <urn:sum> 0 }")
            .run()
            .unwrap();
        engine.declare(ADD).unwrap();
        declare_streaming(&engine);
        let runs = Arc::new(AtomicU64::new(0));
        engine.procedure("raise", counted(&runs, add)).unwrap();
        engine.procedure("take", take).unwrap();
        let keyed = |engine: &Engine, number: u64| {
            let call = engine.call("raise").arguments([integer(number as i64)]);
            call.key("till", number).begin().unwrap()
        };
        let first = integers(keyed(&engine, 1).wait().unwrap());
        push(&engine, 1..=4);
        settle(&engine);
        if has_checkpoint {
            engine.checkpoint().unwrap();
        }
        assert_eq!(integers(keyed(&engine, 2).wait().unwrap()), [3]);
        push(&engine, 5..=5);
        settle(&engine);
        let state = "SELECT ?o { ?s ?p ?o FILTER(isLiteral(?o)) } ORDER BY ?o";
        let expected = select(&engine, state);
        let crashed = disk.crash(CrashKeep::Synced);
        drop(engine);

        let engine = open(&crashed);
        runs.store(0, Ordering::SeqCst);
        assert_eq!(select(&engine, state), expected);
        assert_eq!(engine.procedures().unwrap().len(), 3);
        let health = engine.health();
        assert_eq!(health.absent_procedures, ["raise", "take"]);
        let waits = engine.procedure_info("take").unwrap().waits;
        assert!(waits.unwrap().contains("has not registered its body"));
        // Keys are known, so what was answered is answered.
        assert_eq!(integers(keyed(&engine, 1).wait().unwrap()), first);
        let waiting = [keyed(&engine, 3), keyed(&engine, 4)];
        push(&engine, 7..=9);
        settle(&engine);
        assert_eq!(select(&engine, state), expected, "nothing has run");
        assert_eq!(
            engine.procedure_info("take").unwrap().streams[0].waiting_messages,
            3
        );
        let other = "CREATE PROCEDURE other() AS { INSERT DATA { <urn:o> <urn:p> <urn:o> } }";
        engine.declare(other).unwrap();
        engine.call("other").run().unwrap();
        assert!(waiting.iter().all(|call| !call.is_answered()));

        engine.procedure("raise", counted(&runs, add)).unwrap();
        let answers: Vec<i64> = waiting
            .into_iter()
            .flat_map(|call| integers(call.wait().unwrap()))
            .collect();
        assert_eq!(answers, [6, 10], "they run in their order");
        assert_eq!(runs.load(Ordering::SeqCst), 2, "recovery ran nothing");
        engine.procedure("take", take).unwrap();
        settle(&engine);
        let noted = "SELECT ?n { <urn:log> <urn:has> ?n } ORDER BY ?n";
        assert_eq!(select(&engine, noted), [2, 6, 10, 14, 18]);
        assert_eq!(select(&engine, "SELECT ?n { <urn:w> <urn:shows> ?n }"), [3]);
        assert_eq!(engine.health().absent_procedures, [""; 0]);
        engine.check().unwrap();
    }
}

#[test]
fn a_call_waits_for_its_body_no_longer_than_a_call_may_take() {
    let engine = in_memory();
    engine.declare(ADD).unwrap();
    let call = engine.call("raise").arguments([integer(1)]);
    let waited = call.timeout(Duration::from_millis(20)).run().unwrap_err();
    let EngineError::Limit { which, message } = &waited else {
        panic!("{waited}")
    };
    assert_eq!(*which, LimitKind::NativeBody);
    assert!(
        message.contains("register the body with Engine::procedure"),
        "{message}"
    );
    let missing = engine.call("raise").run().unwrap_err().to_string();
    assert!(missing.contains("the argument ?n is missing"), "{missing}");
    let cancel = somersault::CancelToken::new();
    let call = engine.call("raise").arguments([integer(1)]).cancel(&cancel);
    let waiting = call.begin().unwrap();
    cancel.cancel();
    assert!(matches!(waiting.wait(), Err(EngineError::Cancelled)));
    assert_eq!(engine.metrics().transactions.refused_calls, 3);
}

#[test]
fn rounds_that_lead_to_an_absent_body_do_not_begin_and_others_do() {
    let engine = in_memory();
    for stream in [
        "CREATE STREAM <urn:s> BATCH 1s IDLE NEVER",
        "CREATE STREAM <urn:out> INTERIOR BATCH 1s",
    ] {
        engine.create_stream(None, stream).unwrap();
    }
    for text in [
        "CREATE PROCEDURE pass ON STREAM <urn:s> BATCH 1 MESSAGE AS {
            EMIT INTO <urn:out> CONSTRUCT { ?m <urn:is> ?n } WHERE { BATCH { ?m <urn:is> ?n } }
        }",
        "CREATE PROCEDURE late ON STREAM <urn:out> BATCH 1 MESSAGE AS NATIVE",
        "CREATE PROCEDURE beside ON STREAM <urn:s> BATCH 1 MESSAGE AS {
            INSERT { <urn:beside> <urn:has> ?n } WHERE { BATCH { ?m <urn:is> ?n } }
        }",
    ] {
        engine.declare(text).unwrap();
    }
    push(&engine, 1..=2);
    settle(&engine);
    let waits = |name: &str| engine.procedure_info(name).unwrap().streams[0].waiting_messages;
    assert_eq!((waits("pass"), waits("late"), waits("beside")), (2, 0, 0));
    engine
        .procedure("late", |tx| {
            tx.update(
                "INSERT { <urn:late> <urn:has> ?n } WHERE { BATCH { ?m <urn:is> ?n } }",
                &[],
            )
        })
        .unwrap();
    settle(&engine);
    assert_eq!((waits("pass"), waits("late")), (0, 0));
    let late = "SELECT ?n { <urn:late> <urn:has> ?n } ORDER BY ?n";
    assert_eq!(select(&engine, late), [1, 2]);
    // Another declaration keeps the body; steps in its place take it away.
    let again = "CREATE OR REPLACE PROCEDURE late ON STREAM <urn:out> BATCH 2 MESSAGES AS NATIVE";
    engine.declare(again).unwrap();
    push(&engine, 3..=4);
    settle(&engine);
    assert_eq!(select(&engine, late), [1, 2, 3, 4]);
    let steps = "CREATE OR REPLACE PROCEDURE late ON STREAM <urn:out> BATCH 1 MESSAGE AS {
        INSERT DATA { <urn:a> <urn:p> 1 } }";
    engine.declare(steps).unwrap();
    engine.declare(again).unwrap();
    assert!(engine.procedure_info("late").unwrap().waits.is_some());
    assert_eq!(engine.health().absent_procedures, ["late"]);
    engine.drop_procedure("late", true).unwrap();
    assert_eq!(engine.procedures().unwrap().len(), 2);
    assert_eq!(engine.health().absent_procedures, [""; 0]);
}

#[test]
fn weak_recovery_is_refused_for_native_procedures() {
    let engine = in_memory();
    engine.declare(ADD).unwrap();
    engine.declare(ADD_STEPS).unwrap();
    let refused = engine.declare("CREATE DATAFLOW flow { raise } RECOVERY WEAK");
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("RECOVERY STRONG"), "{refused}");
    let weak = "CREATE DATAFLOW flow { raise_by_steps } RECOVERY WEAK";
    engine.declare(weak).unwrap();
    let native = "CREATE OR REPLACE PROCEDURE raise_by_steps(?n) AS NATIVE";
    let refused = engine.declare(native).unwrap_err().to_string();
    assert!(
        refused.contains("native procedure raise_by_steps"),
        "{refused}"
    );
}

#[test]
fn bodies_run_in_one_order_with_steps_and_updates_of_many_threads() {
    let engine = in_memory();
    let plus = "CREATE PROCEDURE plus(?n) AS NATIVE";
    engine.declare(plus).unwrap();
    let steps = "CREATE PROCEDURE plus_by_steps(?n) AS {
        DELETE { <urn:c> <urn:sum> ?s } INSERT { <urn:c> <urn:sum> ?t }
            WHERE { <urn:c> <urn:sum> ?s BIND(?s + ?n AS ?t) } }";
    engine.declare(steps).unwrap();
    engine
        .procedure("plus", |tx| {
            let rows = tx.rows(
                "SELECT ?t { <urn:c> <urn:sum> ?s BIND(?s + ?n AS ?t) }",
                &[],
            )?;
            let Some(Some(new)) = rows.first().and_then(|row| row.first().cloned()) else {
                return tx.abort("no sum");
            };
            tx.update("DELETE WHERE { <urn:c> <urn:sum> ?old }", &[])?;
            tx.update(
                "INSERT { <urn:c> <urn:sum> ?new } WHERE { }",
                &[("new", new)],
            )
        })
        .unwrap();
    thread::scope(|scope| {
        for procedure in ["plus", "plus_by_steps", "plus", "plus_by_steps"] {
            let engine = &engine;
            scope.spawn(move || {
                for _ in 0..50 {
                    call(engine, procedure, 1);
                }
            });
        }
        for number in 0..20 {
            let text = format!("INSERT DATA {{ <urn:u> <urn:has> {number} }}");
            engine.update(&text).run().unwrap();
        }
    });
    assert_eq!(select(&engine, "SELECT ?s { <urn:c> <urn:sum> ?s }"), [200]);
}
