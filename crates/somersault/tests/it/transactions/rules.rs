//! Sentences of docs/transactions.md and docs/language.md that no other test has by name.

use super::calls::{integer, select};
use crate::support::scenario::firings;
use somersault::{Clock, Engine, EngineConfig, EventTime, Limits, PushLines};
use std::time::Duration;

fn manual(limits: Limits) -> Engine {
    let config = EngineConfig {
        clock: Clock::Manual,
        limits,
        ..EngineConfig::default()
    };
    Engine::open(config).unwrap()
}

fn push(engine: &Engine, stream: &str, number: i64) {
    let line = format!("{number}\t<urn:m{number}> <urn:is> {} .\n", integer(number));
    let push = PushLines {
        lines: line.as_bytes(),
        ..PushLines::default()
    };
    engine.push_lines(stream, push).unwrap();
    engine.quiesce(Duration::from_secs(60)).unwrap();
}

#[test]
fn a_consumed_stream_is_absorbed_and_its_facts_come_after_its_transactions() {
    let engine = manual(Limits::default());
    engine
        .create_stream(None, "CREATE STREAM <urn:s> TIMELESS BATCH 10ms IDLE NEVER")
        .unwrap();
    engine
        .declare(
            "CREATE PROCEDURE take ON STREAM <urn:s> BATCH 1 MESSAGE AS {
                IF ASK { BATCH { ?m <urn:is> ?n } FILTER NOT EXISTS { ?m <urn:is> ?n } }
                    { INSERT { <urn:before> <urn:has> ?n } WHERE { BATCH { ?m <urn:is> ?n } } };
                DELETE { ?m <urn:is> ?n } WHERE { BATCH { ?m <urn:is> ?n } }
            }",
        )
        .unwrap();
    let before = "SELECT ?n { <urn:before> <urn:has> ?n } ORDER BY ?n";
    let facts = "SELECT ?n { ?m <urn:is> ?n } ORDER BY ?n";
    (1..=3).for_each(|number| push(&engine, "urn:s", number));
    assert_eq!(select(&engine, before), [1, 2, 3]);
    assert_eq!(select(&engine, facts), [0; 0], "the batch is open");
    engine.advance([("urn:s", EventTime(20))]).unwrap();
    engine.quiesce(Duration::from_secs(60)).unwrap();
    assert_eq!(select(&engine, facts), [1, 2, 3], "no delete reached them");
}

#[test]
fn a_firing_sees_the_transactions_that_were_logged_before_its_close_was_due() {
    let engine = manual(Limits::default());
    engine
        .create_stream(None, "CREATE STREAM <urn:t> BATCH 10ms IDLE NEVER")
        .unwrap();
    engine
        .declare("CREATE PROCEDURE note(?n) AS { INSERT { <urn:log> <urn:has> ?n } WHERE { } }")
        .unwrap();
    engine
        .register(
            None,
            "REGISTER QUERY seen AS SELECT (COUNT(*) AS ?c) FROM STREAM <urn:t> [RANGE 10ms STEP 10ms]
             WHERE { <urn:log> <urn:has> ?n }",
        )
        .unwrap();
    let note = |number| {
        let call = engine.call("note").arguments([integer(number)]);
        call.run().unwrap();
    };
    let close = |at: i64| {
        push(&engine, "urn:t", at - 5);
        engine.advance([("urn:t", EventTime(at))]).unwrap();
        engine.quiesce(Duration::from_secs(60)).unwrap();
    };
    for at in 1..=3 {
        note(at);
        close(at * 10);
        note(at + 10);
    }
    let counts: Vec<String> = firings(&engine, "seen", None)
        .into_iter()
        .map(|(close, rows)| format!("{close}: {}", rows.join(" ")))
        .collect();
    let expected = [(10, 1), (20, 3), (30, 5)];
    assert_eq!(counts.len(), expected.len(), "{counts:?}");
    for (count, (close, seen)) in counts.iter().zip(expected) {
        let is_it = count.starts_with(&format!("{close}: ")) && count.contains(&seen.to_string());
        assert!(is_it, "{counts:?}");
    }
}

#[test]
fn a_round_that_reaches_a_limit_is_kept_with_its_reason_and_the_next_goes_on() {
    let limits = Limits {
        query_memory_bytes: 1 << 20,
        ..Limits::default()
    };
    let engine = manual(limits);
    engine
        .create_stream(None, "CREATE STREAM <urn:s> BATCH 10ms IDLE NEVER")
        .unwrap();
    let data: String = (0..400)
        .map(|n| format!("<urn:a{n}> <urn:p> {n} . "))
        .collect();
    let insert = format!("INSERT DATA {{ {data} }}");
    engine.update(&insert).run().unwrap();
    engine
        .declare(
            "CREATE PROCEDURE much ON STREAM <urn:s> BATCH 1 MESSAGE AS {
                IF ASK { BATCH { ?m <urn:is> 1 } }
                    { INSERT { ?a <urn:q> ?o } WHERE { ?a <urn:p> ?n . ?b <urn:p> ?o } }
                ELSE { INSERT { <urn:log> <urn:has> ?n } WHERE { BATCH { ?m <urn:is> ?n } } }
            }",
        )
        .unwrap();
    push(&engine, "urn:s", 1);
    push(&engine, "urn:s", 2);
    let aborted = engine.aborted_by("much").unwrap();
    assert_eq!(aborted.newest.len(), 1, "{aborted:?}");
    let reason = &aborted.newest[0].reason;
    assert!(reason.contains("query_memory_bytes"), "{reason}");
    assert_eq!(engine.metrics().transactions.aborts_limit, 1);
    let log = "SELECT ?n { <urn:log> <urn:has> ?n }";
    assert_eq!(select(&engine, log), [2]);
    assert_eq!(select(&engine, "SELECT ?o { ?a <urn:q> ?o }"), [0; 0]);
}

#[test]
fn a_text_holds_one_call_alone() {
    let engine = manual(Limits::default());
    engine
        .declare("CREATE PROCEDURE set() AS { INSERT DATA { <urn:a> <urn:p> 1 } }")
        .unwrap();
    for text in [
        "CALL set() ; CALL set()",
        "CALL set() ; INSERT DATA { <urn:a> <urn:p> 2 }",
        "CALL set() CALL set()",
    ] {
        let refused = engine.call_text(text, None).err();
        assert!(refused.is_some(), "{text}");
    }
    assert_eq!(engine.health().stored_statements, 0);
}
