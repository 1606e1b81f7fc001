//! The common parts of the tests: engines, pushes, and answers as sorted rows of N-Triples text.

use somersault::answer_format::{AnswerRow, answer_rows};
use somersault::oxrdf::{GraphName, Triple};
use somersault::{
    Answer, Clock, Engine, EngineConfig, EventTime, FiringId, FiringResult, Push, StreamStatement,
    SubscribeOptions, SubscriptionEvent,
};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

/// The prefix of all names in the tests.
pub(crate) const NS: &str = "http://example.org/";

pub(crate) fn config() -> EngineConfig {
    EngineConfig {
        clock: Clock::Manual,
        ..EngineConfig::default()
    }
}

pub(crate) fn engine() -> Engine {
    Engine::open(config()).unwrap()
}

/// `a p b` in short names becomes a statement; an object in quotes is a literal.
pub(crate) fn triple(text: &str) -> Triple {
    let words: Vec<&str> = text.split(' ').collect();
    let term = |word: &str| match word.starts_with(['"', '_']) {
        true => word.to_owned(),
        false => format!("<{NS}{word}>"),
    };
    let [s, p, o] = words[..] else {
        panic!("three words: {text}")
    };
    Triple::from_str(&format!("{} {} {} .", term(s), term(p), term(o))).unwrap()
}

/// Pushes statements, each with its event time.
pub(crate) fn push(statements: &[(i64, &str)]) -> Push {
    Push {
        statements: statements
            .iter()
            .map(|(at, text)| StreamStatement {
                at: Some(EventTime(*at)),
                quad: triple(text).in_graph(GraphName::DefaultGraph),
            })
            .collect(),
        ..Push::default()
    }
}

pub(crate) fn numbered(seq: u64, statements: &[(i64, &str)]) -> Push {
    Push {
        seq: Some(seq),
        ..push(statements)
    }
}

pub(crate) fn advance(engine: &Engine, to_ms: i64) {
    let to = EventTime(to_ms);
    let streams = engine.streams();
    let to = streams.iter().map(|stream| (&stream.iri, to));
    engine.advance(to).unwrap();
}

/// Rows with their short names, sorted: `a b` for two columns, `-` for unbound.
pub(crate) fn shown(answer: &Answer) -> Vec<String> {
    let short = |cell: &Option<String>| match cell {
        None => "-".to_owned(),
        Some(text) => text
            .trim_start_matches(&format!("<{NS}"))
            .trim_end_matches('>')
            .to_owned(),
    };
    let show = |row: AnswerRow| row.iter().map(short).collect::<Vec<_>>().join(" ");
    let mut rows: Vec<String> = answer_rows(answer).into_iter().map(show).collect();
    rows.sort();
    rows
}

pub(crate) fn ask(engine: &Engine, text: &str) -> Vec<String> {
    let text = format!("PREFIX : <{NS}> {text}");
    shown(&engine.query(&text).run().unwrap().answer)
}

/// All firings so far of a query with a close later than `after_ms`, as (close, rows).
pub(crate) fn firings(
    engine: &Engine,
    name: &str,
    after_ms: Option<i64>,
) -> Vec<(i64, Vec<String>)> {
    engine.quiesce(Duration::from_secs(60)).unwrap();
    let options = SubscribeOptions {
        after: after_ms.map(|close| FiringId::at(EventTime(close))),
        ..SubscribeOptions::default()
    };
    let subscription = engine.subscribe(name, options).unwrap();
    std::iter::from_fn(|| subscription.try_recv())
        .map(|event| firing(event).unwrap())
        .map(|firing| (firing.close.0, shown(firing.answer.as_ref().unwrap())))
        .collect()
}

pub(crate) fn firing(event: SubscriptionEvent) -> Option<Arc<FiringResult>> {
    match event {
        SubscriptionEvent::Firing(firing) => Some(firing),
        _ => None,
    }
}

/// The expected firings: close and rows.
pub(crate) fn expected(firings: &[(i64, &[&str])]) -> Vec<(i64, Vec<String>)> {
    firings
        .iter()
        .map(|(close, rows)| (*close, rows.iter().map(|row| (*row).to_owned()).collect()))
        .collect()
}
