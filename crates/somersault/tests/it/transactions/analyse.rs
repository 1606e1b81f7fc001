//! EXPLAIN ANALYZE CALL: it says what a call would do, and leaves nothing.

use super::calls::{account, integer, open_accounts};
use somersault::disk::SimDisk;
use somersault::{CallAnswer, CallOutcome, Engine, EngineConfig, EngineError};
use std::sync::Arc;
use std::time::Duration;

const NOTE: &str = "CREATE PROCEDURE note(?from IRI, ?most) AS {
    IF ASK { FILTER(?most > 3) } { ABORT \"too many\" } ELSE { INSERT DATA { <urn:n> <urn:is> <urn:fresh> } };
    FOR EACH (?a ?b) IN SELECT ?a ?b { ?a <urn:balance> ?b } {
        DELETE { ?a <urn:balance> ?b } INSERT { ?a <urn:balance> ?c } WHERE { BIND(?b + 1 AS ?c) };
        INSERT { ?a <urn:seen> true } WHERE { }
    };
    EMIT INTO <urn:out> CONSTRUCT { ?from <urn:noted> ?most } WHERE { };
    RETURN SELECT ?b { ?from <urn:balance> ?b }
}";

fn engine(disk: &SimDisk) -> Engine {
    let engine = Engine::open_on(EngineConfig::default(), Arc::new(disk.clone())).unwrap();
    engine
        .create_stream(None, "CREATE STREAM <urn:out> INTERIOR BATCH 1s")
        .unwrap();
    open_accounts(&engine, 3);
    engine.declare(NOTE).unwrap();
    engine
        .declare(
            "CREATE PROCEDURE consume ON STREAM <urn:out> BATCH 1 MESSAGE AS {
                INSERT { ?s <urn:consumed> ?o } WHERE { BATCH { ?s ?p ?o } } }",
        )
        .unwrap();
    engine
}

/// All that is stored, the length of the log, and the number of transactions. Once an engine has
/// something to run, it logs how far its interior streams are, which is waited for.
fn state(engine: &Engine) -> (Vec<String>, u64, u64) {
    let first = engine.call("note").arguments([account(0), integer(0)]);
    first.explain_analyze().unwrap();
    let mut bytes = 0;
    loop {
        engine.quiesce(Duration::from_secs(60)).unwrap();
        let before = std::mem::replace(&mut bytes, engine.metrics().memory.log_bytes);
        if before == bytes {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let all = engine.query("SELECT * { ?s ?p ?o }").run().unwrap();
    let mut rows: Vec<String> = all.answer.rows().map(|row| format!("{row:?}")).collect();
    rows.sort();
    let metrics = engine.metrics();
    (rows, metrics.memory.log_bytes, metrics.transactions.commits)
}

#[test]
fn an_analysed_call_says_what_it_would_do_and_leaves_nothing() {
    let disk = SimDisk::new();
    let engine = engine(&disk);
    let before = state(&engine);
    let call = || engine.call("note").arguments([account(1), integer(2)]);
    let shown = call().key("till", 7).explain_analyze().unwrap();
    for said in [
        "CALL note: ran on snapshot ",
        "1. IF ASK { FILTER(?most > 3) }",
        "\n  1. INSERT DATA { <urn:n> <urn:is> <urn:fresh> }\n     1 run, ",
        "2. FOR EACH (?a ?b) IN SELECT ?a ?b { ?a <urn:balance> ?b } {",
        ", 3 statements deleted, 6 statements inserted",
        "\n  1. DELETE { ?a <urn:balance> ?b }",
        "\n     3 runs, ",
        "3. EMIT INTO <urn:out>",
        ", 1 message emitted",
        "it would have left: 3 statements deleted, 7 statements inserted, 1 message\n",
        "  + <urn:n> <urn:is> <urn:fresh> .",
        "  INTO <urn:out>\n    <urn:account:1> <urn:noted> ",
        "it would have returned 1 row\n  ?b = \"101\"",
    ] {
        assert!(shown.contains(said), "{said}\n{shown}");
    }
    assert!(!shown.contains("aborted here"), "{shown}");
    assert_eq!(state(&engine), before, "{shown}");
    // The key is unused: the call under it runs, with the values that were shown.
    let CallOutcome::Answered(CallAnswer::Rows { rows, .. }) = call().key("till", 7).run().unwrap()
    else {
        panic!("it returns a row")
    };
    assert_eq!(rows, [[Some(integer(101))]]);
    let after = state(&engine);
    assert_ne!(after, before);
    let aborted = call().arguments([account(1), integer(4)]);
    let shown = aborted.explain_analyze().unwrap();
    assert!(shown.contains("aborted here: too many"), "{shown}");
    assert!(
        shown.ends_with("it would have aborted: too many\n"),
        "{shown}"
    );
    assert_eq!(state(&engine), after);
    engine.check().unwrap();
}

#[test]
fn texts_explain_calls_with_and_without_running_them() {
    let engine = engine(&SimDisk::new());
    let before = state(&engine);
    let call = "CALL note(<urn:account:1>, 2)";
    let plans = engine.query(call).explain().unwrap();
    assert!(
        plans.starts_with("PROCEDURE note (?from IRI, ?most ANY)"),
        "{plans}"
    );
    let analysed = engine.query(call).explain_analyze().unwrap();
    assert!(analysed.starts_with("CALL note: ran on"), "{analysed}");
    let text = format!("  explain\nANALYZE {call}");
    let shown = engine.explain_call_text(&text, None).unwrap().unwrap();
    assert!(shown.starts_with("CALL note: ran on"), "{shown}");
    let faulty = engine.explain_call_text("EXPLAIN ANALYZE CALL note(", None);
    let faulty = faulty.unwrap_err().to_string();
    assert!(faulty.contains("column 26"), "{faulty}");
    let none = engine.call("none").explain_analyze();
    assert!(matches!(none, Err(EngineError::NotFound(_))));
    let streaming = engine.call("consume").explain_analyze().unwrap_err();
    assert!(streaming.to_string().contains("cannot be called"));
    let missing = engine.call("note").explain_analyze().unwrap_err();
    assert!(
        missing.to_string().contains("?from is missing"),
        "{missing}"
    );
    assert_eq!(state(&engine), before);
}

#[test]
fn a_native_procedure_is_analysed_by_the_texts_that_it_runs() {
    let engine = engine(&SimDisk::new());
    engine
        .declare("CREATE PROCEDURE raise(?who IRI) AS NATIVE")
        .unwrap();
    engine
        .procedure("raise", |tx| {
            tx.update(
                "DELETE { ?who <urn:balance> ?b } WHERE { ?who <urn:balance> ?b }",
                &[],
            )?;
            tx.query("SELECT ?b { ?who <urn:balance> ?b }", &[])
        })
        .unwrap();
    let before = state(&engine);
    let call = engine.call("raise").arguments([account(2)]);
    let shown = call.explain_analyze().unwrap();
    for said in [
        "1. DELETE { ?who <urn:balance> ?b }",
        "1 statement deleted",
        "2. SELECT ?b { ?who <urn:balance> ?b }",
        "it would have returned 0 rows",
    ] {
        assert!(shown.contains(said), "{said}\n{shown}");
    }
    assert_eq!(state(&engine), before);
}
