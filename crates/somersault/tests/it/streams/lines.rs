//! Pushes of lines: the same as pushes of their terms, and what is refused of them.

use crate::support::scenario::*;
use somersault::{Engine, EngineError, LimitKind, Push, PushLines, PushReceipt};

fn push_lines(engine: &Engine, seq: Option<u64>, lines: &str) -> Result<PushReceipt, EngineError> {
    let push = PushLines {
        source: None,
        seq,
        lines: lines.as_bytes(),
    };
    engine.push_lines(&format!("{NS}s"), push)
}

/// The statements of `push` as lines.
fn lines_of(push: &Push) -> String {
    let line = |s: &somersault::StreamStatement| format!("{}\t{} .\n", s.at.unwrap().0, s.quad);
    push.statements.iter().map(line).collect()
}

fn with_stream(clauses: &str) -> Engine {
    let engine = engine();
    let text = format!("CREATE STREAM <{NS}s> TIMELESS BATCH 1s {clauses} IDLE NEVER");
    engine.create_stream(None, &text).unwrap();
    let query = format!(
        "PREFIX : <{NS}> SELECT ?x ?o FROM STREAM :s [RANGE 2s STEP 1s] WHERE {{ ?x :p ?o }}"
    );
    engine.register(Some("q"), &query).unwrap();
    engine
}

#[test]
fn lines_and_terms_come_to_the_same() {
    let pushes = [
        push(&[
            (0, "a p b"),
            (1, "a p \"1\""),
            (1, "a p \"01\"^^<http://www.w3.org/2001/XMLSchema#integer>"),
        ]),
        push(&[
            (1000, "_:n p _:n"),
            (1000, "_:n p _:m"),
            (1999, "a p \"x\"@en-GB"),
            (1999, "a p \"x\\u0020y\""),
        ]),
        push(&[(2000, "_:n p _:n"), (2500, "a p \"\\t\\\"\"")]),
    ];
    let run = |by_lines: bool| {
        let engine = with_stream("");
        for push in &pushes {
            if by_lines {
                push_lines(&engine, None, &lines_of(push)).unwrap();
            } else {
                engine.push(&format!("{NS}s"), push.clone()).unwrap();
            }
        }
        advance(&engine, 4000);
        engine.check().unwrap();
        (
            firings(&engine, "q", None),
            ask(&engine, "SELECT * { ?s ?p ?o }"),
        )
    };
    let (firings, stored) = run(true);
    assert_eq!((&firings, &stored), (&run(false).0, &run(false).1));
    assert_eq!(firings.len(), 4);
    assert_eq!(
        stored.len(),
        9,
        "the nodes _:n of two pushes differ: {stored:?}"
    );
    let loops = stored.iter().filter(|row| {
        let words: Vec<&str> = row.split(' ').collect();
        words[0].starts_with("_:") && words[0] == words[2]
    });
    assert_eq!(
        loops.count(),
        2,
        "within a push a label is one node: {stored:?}"
    );
}

#[test]
fn a_number_is_taken_once() {
    let engine = with_stream("");
    let line = format!("1\t<{NS}a> <{NS}p> <{NS}b> .\n");
    let taken = |repeated, accepted| PushReceipt {
        accepted,
        dropped: 0,
        repeated,
    };
    assert_eq!(
        push_lines(&engine, Some(3), &line).unwrap(),
        taken(false, 1)
    );
    assert_eq!(push_lines(&engine, Some(3), &line).unwrap(), taken(true, 0));
    assert_eq!(
        push_lines(&engine, None, "# nothing\n\n").unwrap(),
        taken(false, 0)
    );
}

#[test]
fn a_wrong_line_is_named_and_nothing_is_taken() {
    let engine = with_stream("");
    let right = format!("1\t<{NS}a> <{NS}p> <{NS}b> .\n");
    let deep = format!(
        "2\t<{NS}a> <{NS}p> {}<{NS}o>{} .\n",
        format!("<<( <{NS}a> <{NS}p> ").repeat(1000),
        " )>>".repeat(1000)
    );
    for (wrong, place) in [
        (format!("2 <{NS}a> <{NS}p> <{NS}b> .\n"), (2, 1)),
        (format!("2\t<{NS}a> <{NS}p> oops .\n"), (2, 49)),
        (format!("2\t<{NS}a> <{NS}p>\n"), (2, 48)),
        ("2\t".to_owned(), (2, 3)),
        (
            format!("2\t<{NS}a> <{NS}p> <{NS}b> . <{NS}a> <{NS}p> <{NS}b> .\n"),
            (2, 74),
        ),
        (deep, (2, 3)),
    ] {
        match push_lines(&engine, None, &format!("{right}{wrong}")) {
            Err(EngineError::Data {
                line,
                column,
                message,
            }) => {
                assert_eq!((line, column), place, "{wrong}: {message}");
            }
            other => panic!("{wrong}: {other:?}"),
        }
    }
    let unknown = engine.push_lines(
        "http://e/none",
        PushLines {
            lines: right.as_bytes(),
            ..PushLines::default()
        },
    );
    assert!(
        matches!(unknown, Err(EngineError::NotFound(_))),
        "{unknown:?}"
    );
    advance(&engine, 2000);
    let late = push_lines(&engine, None, &right).unwrap_err().to_string();
    assert!(
        late.contains(&format!(
            "statement 1 of the push to <{NS}s>, <{NS}a> <{NS}p> <{NS}b>, has event time 1"
        )),
        "{late}"
    );
    assert!(ask(&engine, "SELECT * { ?s ?p ?o }").is_empty());
}

#[test]
fn a_wrong_line_says_what_was_found() {
    let engine = with_stream("");
    for (wrong, says) in [
        ("2 <urn:a> <urn:p> <urn:b> .", "there is no tab"),
        (
            "2026-01-01\t<urn:a> <urn:p> <urn:b> .",
            "\"2026-01-01\" is not an event time",
        ),
        (
            &format!("{}\t<urn:a> <urn:p> <urn:b> .", "9".repeat(1_000)),
            &format!("\"{}\" is not an event time", "9".repeat(40)),
        ),
    ] {
        let refused = push_lines(&engine, None, wrong).unwrap_err().to_string();
        assert!(refused.contains(says), "{refused}");
        assert!(
            refused.contains("in milliseconds since 1970, a tab"),
            "{refused}"
        );
    }
}

#[test]
fn a_statement_without_a_time_is_named() {
    let engine = with_stream("");
    let mut two = push(&[(1, "a p b"), (1, "a p c")]);
    two.statements[1].at = None;
    let error = engine.push(&format!("{NS}s"), two).unwrap_err().to_string();
    assert!(error.contains("statement 2 of the push"), "{error}");
    assert!(ask(&engine, "SELECT * { ?s ?p ?o }").is_empty());
}

#[test]
fn a_push_may_have_as_many_statements_as_the_limit() {
    let mut config = config();
    config.limits.push_statements = 2;
    let engine = Engine::open(config).unwrap();
    engine
        .create_stream(None, &format!("CREATE STREAM <{NS}s> ARRIVAL TIME"))
        .unwrap();
    let line = format!("1\t<{NS}a> <{NS}p> <{NS}b> .\n");
    assert_eq!(
        push_lines(&engine, None, &line.repeat(2)).unwrap().accepted,
        2
    );
    match push_lines(&engine, None, &line.repeat(3)) {
        Err(EngineError::Limit {
            which: LimitKind::PushStatements,
            ..
        }) => {}
        other => panic!("{other:?}"),
    }
}
