//! Calls of procedures, one at a time and many at once, beside updates and pushes.

use somersault::oxrdf::{Literal, NamedNode, Term};
use somersault::{
    AnswerRoom, CallAnswer, CallOutcome, CancelToken, Engine, EngineConfig, EngineError, LimitKind,
    PushLines,
};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

pub(super) fn integer(number: i64) -> Term {
    Literal::from(number).into()
}

pub(super) fn account(number: u64) -> Term {
    NamedNode::new_unchecked(format!("urn:account:{number}")).into()
}

/// Moves an amount from one account to another, if there is enough.
pub(super) const TRANSFER: &str = "CREATE PROCEDURE transfer(?from IRI, ?to IRI, ?amount) AS {
    IF ASK { ?from <urn:balance> ?had FILTER(?had < ?amount) } { ABORT \"not enough\" };
    DELETE { ?from <urn:balance> ?a } INSERT { ?from <urn:balance> ?less }
        WHERE { ?from <urn:balance> ?a BIND(?a - ?amount AS ?less) };
    DELETE { ?to <urn:balance> ?b } INSERT { ?to <urn:balance> ?more }
        WHERE { ?to <urn:balance> ?b BIND(?b + ?amount AS ?more) };
    RETURN SELECT ?left { ?from <urn:balance> ?left }
}";

/// Counts one more, and returns the number.
const COUNT: &str = "CREATE PROCEDURE count() AS {
    DELETE { <urn:c> <urn:n> ?n } INSERT { <urn:c> <urn:n> ?m }
        WHERE { <urn:c> <urn:n> ?n BIND(?n + 1 AS ?m) };
    RETURN SELECT ?n { <urn:c> <urn:n> ?n }
}";

pub(super) fn open_accounts(engine: &Engine, accounts: u64) {
    let rows: Vec<String> = (0..accounts)
        .map(|number| format!("<urn:account:{number}> <urn:balance> 100 ."))
        .collect();
    let text = format!("INSERT DATA {{ {} }}", rows.join(" "));
    engine.update(&text).run().unwrap();
}

/// The integers of the rows of an answer with one column.
pub(super) fn integers(outcome: CallOutcome) -> Vec<i64> {
    let CallOutcome::Answered(CallAnswer::Rows { rows, .. }) = outcome else {
        panic!("{outcome:?}")
    };
    let value = |row: Vec<Option<Term>>| match &row[0] {
        Some(Term::Literal(literal)) => literal.value().parse().unwrap(),
        other => panic!("{other:?}"),
    };
    rows.into_iter().map(value).collect()
}

pub(super) fn select(engine: &Engine, query: &str) -> Vec<i64> {
    let found = engine.query(query).run().unwrap();
    let rows = found.answer.rows();
    let value = |row: Vec<Option<Term>>| match &row[0] {
        Some(Term::Literal(literal)) => literal.value().parse().unwrap(),
        other => panic!("{other:?}"),
    };
    rows.map(value).collect()
}

fn balances(engine: &Engine) -> Vec<i64> {
    select(engine, "SELECT ?b { ?a <urn:balance> ?b } ORDER BY ?a")
}

#[test]
fn a_call_commits_as_a_whole_or_leaves_nothing() {
    let engine = Engine::open(EngineConfig::default()).unwrap();
    open_accounts(&engine, 2);
    engine.declare(TRANSFER).unwrap();
    let transfer = |amount| {
        let arguments = [account(0), account(1), integer(amount)];
        engine.call("transfer").arguments(arguments).run().unwrap()
    };
    assert_eq!(integers(transfer(30)), [70]);
    assert_eq!(balances(&engine), [70, 130]);
    assert_eq!(integers(transfer(70)), [0]);
    let aborted = CallOutcome::Aborted {
        reason: "not enough".to_owned(),
    };
    assert_eq!(transfer(1), aborted);
    assert_eq!(balances(&engine), [0, 200]);
    engine.check().unwrap();
}

#[test]
fn a_call_that_does_not_fit_is_refused() {
    let engine = Engine::open(EngineConfig::default()).unwrap();
    engine.declare(TRANSFER).unwrap();
    let call = |name: &str, arguments: Vec<Term>| engine.call(name).arguments(arguments).run();
    let unknown = call("nothing", vec![]).unwrap_err();
    assert!(matches!(unknown, EngineError::NotFound(_)), "{unknown}");
    let missing = call("transfer", vec![account(0)]).unwrap_err();
    assert!(missing.to_string().contains("?to is missing"), "{missing}");
    let kind = call("transfer", vec![integer(1), account(1), integer(1)]).unwrap_err();
    assert!(kind.to_string().contains("?from cannot be"), "{kind}");
    let again = engine.declare(TRANSFER).unwrap_err();
    assert!(matches!(again, EngineError::Conflict(_)), "{again}");
    let streaming = "CREATE PROCEDURE p ON STREAM <urn:s> BATCH 1 MESSAGE AS { INSERT { ?s ?p ?o } WHERE { BATCH { ?s ?p ?o } } }";
    let refused = engine.declare(streaming).unwrap_err();
    assert!(matches!(refused, EngineError::NotFound(_)), "{refused}");
    let refused = engine.declare("DROP PROCEDURE p").unwrap_err();
    assert!(matches!(refused, EngineError::NotFound(_)), "{refused}");
}

#[test]
fn a_procedure_is_replaced_and_dropped() {
    let engine = Engine::open(EngineConfig::default()).unwrap();
    let returns = |replace: &str, number| {
        format!("CREATE {replace} PROCEDURE f() AS {{ RETURN SELECT ({number} AS ?n) {{ }} }}")
    };
    engine.declare(&returns("", 1)).unwrap();
    assert_eq!(integers(engine.call("f").run().unwrap()), [1]);
    engine.declare(&returns("OR REPLACE", 2)).unwrap();
    assert_eq!(integers(engine.call("f").run().unwrap()), [2]);
    engine.declare("DROP PROCEDURE f").unwrap();
    let gone = engine.call("f").run().unwrap_err();
    assert!(matches!(gone, EngineError::NotFound(_)), "{gone}");
}

#[test]
fn a_call_with_a_used_key_is_answered_as_before() {
    let engine = Engine::open(EngineConfig::default()).unwrap();
    engine
        .update("INSERT DATA { <urn:c> <urn:n> 0 }")
        .run()
        .unwrap();
    engine.declare(COUNT).unwrap();
    engine
        .declare("CREATE PROCEDURE never() AS { ABORT \"no\" }")
        .unwrap();
    let count = |number| integers(engine.call("count").key("till", number).run().unwrap());
    assert_eq!(
        [count(1), count(2), count(1), count(2)],
        [[1], [2], [1], [2]]
    );
    // A refusal leaves the key unused, an abort is an answer.
    let refused = engine
        .call("count")
        .arguments([integer(1)])
        .key("till", 3)
        .run();
    assert!(refused.is_err());
    let no = CallOutcome::Aborted {
        reason: "no".to_owned(),
    };
    assert_eq!(engine.call("never").key("till", 3).run().unwrap(), no);
    assert_eq!(engine.call("count").key("till", 3).run().unwrap(), no);
    assert_eq!(select(&engine, "SELECT ?n { <urn:c> <urn:n> ?n }"), [2]);
}

/// Calls of several threads, updates, absorbed facts and declarations are serial: no increment is
/// lost, and no number is returned twice.
#[test]
fn calls_updates_and_pushes_are_serial() {
    let engine = Engine::open(EngineConfig::default()).unwrap();
    engine
        .update("INSERT DATA { <urn:c> <urn:n> 0 }")
        .run()
        .unwrap();
    engine.declare(COUNT).unwrap();
    engine
        .create_stream(None, "CREATE STREAM <urn:s> TIMELESS BATCH 10ms IDLE NEVER")
        .unwrap();
    let (threads, calls, updates) = (3, 40, 15);
    let seen: Vec<i64> = std::thread::scope(|scope| {
        let callers: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    let calls = (0..calls).map(|_| engine.call("count").run().unwrap());
                    calls.flat_map(integers).collect::<Vec<i64>>()
                })
            })
            .collect();
        scope.spawn(|| {
            for _ in 0..updates {
                let text = "DELETE { <urn:c> <urn:n> ?n } INSERT { <urn:c> <urn:n> ?m } WHERE { <urn:c> <urn:n> ?n BIND(?n + 1 AS ?m) }";
                engine.update(text).run().unwrap();
            }
        });
        scope.spawn(|| {
            for at in 0..100 {
                let line = format!("{}\t<urn:x{at}> <urn:q> <urn:y> .\n", at * 10);
                let push = PushLines {
                    lines: line.as_bytes(),
                    ..PushLines::default()
                };
                engine.push_lines("urn:s", push).unwrap();
            }
        });
        scope.spawn(|| {
            for number in 0..5 {
                let text = format!("CREATE PROCEDURE p{number}() AS {{ ABORT \"no\" }}");
                engine.declare(&text).unwrap();
            }
        });
        callers
            .into_iter()
            .flat_map(|it| it.join().unwrap())
            .collect()
    });
    let total = threads * calls + updates;
    assert_eq!(select(&engine, "SELECT ?n { <urn:c> <urn:n> ?n }"), [total]);
    let distinct: BTreeSet<i64> = seen.iter().copied().collect();
    assert_eq!(distinct.len(), seen.len());
    engine.check().unwrap();
}

#[test]
fn a_transaction_reads_what_those_before_it_wrote() {
    let engine = Engine::open(EngineConfig::default()).unwrap();
    engine
        .update("INSERT DATA { <urn:c> <urn:n> 0 }")
        .run()
        .unwrap();
    engine.declare(COUNT).unwrap();
    let calls: Vec<_> = (0..200)
        .map(|_| engine.call("count").begin().unwrap())
        .collect();
    let seen: Vec<i64> = (calls.into_iter())
        .flat_map(|call| integers(call.wait().unwrap()))
        .collect();
    let expected: Vec<i64> = (1..=200).collect();
    assert_eq!(seen, expected);
}

/// The lane may hear of a stable snapshot and of the end at the same time.
#[test]
fn an_engine_that_is_dropped_after_calls_ends() {
    let (ended, has_ended) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for round in 0..200 {
            let engine = Engine::open(EngineConfig::default()).unwrap();
            engine.declare(COUNT).unwrap();
            for _ in 0..100 {
                drop(engine.call("count").begin().unwrap());
            }
            drop(engine);
            ended.send(round).unwrap();
        }
    });
    for round in 0..200 {
        let heard = has_ended.recv_timeout(Duration::from_secs(60));
        assert_eq!(heard, Ok(round), "the engine does not end");
    }
}

/// A call that is called off before it runs leaves nothing, and its key is free.
#[test]
fn a_call_that_is_called_off_in_time_is_not_carried_out() {
    let engine = Engine::open(EngineConfig::default()).unwrap();
    engine.declare(COUNT).unwrap();
    engine
        .update("INSERT DATA { <urn:c> <urn:n> 0 }")
        .run()
        .unwrap();
    let token = CancelToken::new();
    let call = engine.call("count").key("till", 1).cancel(&token);
    token.cancel();
    let refused = call.run().unwrap_err();
    assert!(matches!(refused, EngineError::Cancelled), "{refused}");
    let counted = engine.call("count").key("till", 1).run().unwrap();
    assert_eq!(integers(counted), [1]);
}

#[test]
fn a_call_whose_answer_has_no_room_is_not_carried_out() {
    let engine = Engine::open(EngineConfig::default()).unwrap();
    engine.declare(COUNT).unwrap();
    engine
        .update("INSERT DATA { <urn:c> <urn:n> 0 }")
        .run()
        .unwrap();
    let room = Arc::new(AnswerRoom::new(1));
    let count = |number| {
        engine
            .call("count")
            .key("till", number)
            .within(&room)
            .begin()
    };
    let first = count(1).unwrap();
    let refused = count(2).unwrap().wait().unwrap_err();
    let is_limit = matches!(
        refused,
        EngineError::Limit {
            which: LimitKind::UnreadAnswers,
            ..
        }
    );
    assert!(
        is_limit && refused.to_string().contains("not carried out"),
        "{refused}"
    );
    assert_eq!(integers(first.wait().unwrap()), [1]);
    let again = count(2).unwrap().wait().unwrap();
    assert_eq!(integers(again), [2], "the key was free");
    assert_eq!(room.held(), 0);
}
