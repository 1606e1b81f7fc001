//! One-shot queries: whatever way an answer takes (parsed, lifted, prepared, on the caller's thread
//! or handed over to the pool), it is the same answer, of a stable snapshot, within the same
//! limits.

use somersault::oxrdf::{NamedNode, Term};
use somersault::{
    Engine, EngineConfig, EngineError, FastPath, LimitKind, Limits, QueryOptions, QueryResults, Sn,
};
use std::fmt::Write;
use std::time::Duration;

fn options() -> QueryOptions {
    QueryOptions::default()
}

/// People who know the next few of their kind.
fn crowd(people: usize, config: EngineConfig) -> Engine {
    let engine = Engine::open(config).expect("opens");
    let mut update = String::from("PREFIX : <http://x/> INSERT DATA {\n");
    for n in 0..people {
        for m in 1..=n % 4 {
            let other = (n + m) % people;
            writeln!(update, ":p{n} :knows :p{other} .").expect("writing to a string cannot fail");
        }
        writeln!(update, ":p{n} :age {} ; a :C{} .", n % 50, n % 3)
            .expect("writing to a string cannot fail");
    }
    update.push('}');
    engine.update(&update).run().expect("is taken");
    engine
}

fn rows(results: &QueryResults) -> Vec<String> {
    let mut rows: Vec<String> = (results.answer.rows())
        .map(|row| format!("{row:?}"))
        .collect();
    rows.sort();
    rows
}

#[test]
fn every_way_gives_the_same_answer() {
    let engine = crowd(120, EngineConfig::default());
    let body = "{ ?who :knows ?x . ?x :age ?age OPTIONAL { ?x :knows ?y . ?y a :C1 } FILTER(?age < 40 || ?x != ?who) }";
    // Nested so deeply that no caller's thread takes it.
    let deep = (0..20).fold(String::new(), |inner, n| {
        format!("OPTIONAL {{ ?who :knows ?z{n} . ?z{n} :nothing ?q{n} {inner} }}")
    });
    let prepared = engine
        .prepare(
            &format!("PREFIX : <http://x/> SELECT ?x ?age ?y {body}"),
            &["who"],
        )
        .expect("prepares");
    let mut reused = None;
    for n in (0..120).chain([7, 7, 500]) {
        let who = Term::from(NamedNode::new_unchecked(format!("http://x/p{n}")));
        let text = |body: &str| {
            let body = body.replace("?who", &format!(":p{n}"));
            format!("PREFIX : <http://x/> SELECT ?x ?age ?y {body}")
        };
        let text_once = text(body);
        let answers = [
            engine.query(&text_once).run().expect("answers"),
            engine.query(&text_once).run().expect("answers"),
            engine
                .query(&text(&body.replace(" FILTER", &format!(" {deep} FILTER"))))
                .run()
                .expect("answers"),
            prepared
                .execute(std::slice::from_ref(&who))
                .expect("answers"),
        ];
        let expected = rows(&answers[0]);
        for other in &answers[1..] {
            assert_eq!(rows(other), expected, "{n}");
        }
        match &mut reused {
            None => reused = Some(prepared.execute(&[who]).expect("answers")),
            Some(results) => prepared.execute_into(&[who], results).expect("answers"),
        }
        assert_eq!(reused.as_ref().map(rows), Some(expected), "{n}");
    }
}

#[test]
fn an_answer_that_is_still_held_is_not_overwritten() {
    let engine = crowd(10, EngineConfig::default());
    let query = "SELECT ?x { ?who <http://x/knows> ?x }";
    let prepared = engine.prepare(query, &["who"]).expect("prepares");
    let person = |n: usize| {
        [Term::from(NamedNode::new_unchecked(format!(
            "http://x/p{n}"
        )))]
    };
    let mut results = prepared.execute(&person(3)).expect("answers");
    let held = results.answer.clone();
    prepared
        .execute_into(&person(1), &mut results)
        .expect("answers");
    assert_eq!((held.len(), results.answer.len()), (3, 1));
}

#[test]
fn a_heavy_query_is_deferred() {
    let engine = crowd(100, EngineConfig::default());
    let cross = "SELECT (COUNT(*) AS ?n) { ?a <http://x/age> ?b . ?c <http://x/age> ?d . ?e a ?f }";
    let FastPath::Deferred(heavy) = engine.query(cross).begin().expect("starts") else {
        panic!("a million rows are not light");
    };
    let results = heavy.wait().expect("answers");
    let count = results.answer.rows().next().and_then(|row| row[0].clone());
    assert_eq!(
        count.map(|count| count.to_string()).as_deref(),
        Some("\"1000000\"^^<http://www.w3.org/2001/XMLSchema#integer>")
    );
    // A light query is deferred too if this thread is kept from running for long enough.
    let mut light = (0..100).map(|_| engine.query("ASK { <http://x/p1> ?p ?o }").begin());
    assert!(light.any(|begun| {
        matches!(begun, Ok(FastPath::Answered(results)) if results.answer.boolean() == Some(true))
    }));
    let limited = QueryOptions {
        timeout: Some(Duration::from_millis(30)),
        ..options()
    };
    let error = engine
        .query(&cross.replace("?f", "?f . ?g a ?h"))
        .options(&limited)
        .run();
    assert!(
        matches!(
            &error,
            Err(EngineError::Limit {
                which: LimitKind::QueryTime,
                ..
            })
        ),
        "{error:?}"
    );
}

#[test]
fn queries_that_wait_count() {
    let limits = Limits {
        concurrent_queries: 1,
        ..Limits::default()
    };
    let engine = crowd(
        100,
        EngineConfig {
            limits,
            ..EngineConfig::default()
        },
    );
    let cross = "SELECT (COUNT(*) AS ?n) { ?a <http://x/age> ?b . ?c <http://x/age> ?d . ?e a ?f }";
    let waiting = engine.query(cross).begin().expect("starts");
    assert!(matches!(waiting, FastPath::Deferred(_)));
    let refused = engine.query(cross).run();
    assert!(
        matches!(
            &refused,
            Err(EngineError::Limit {
                which: LimitKind::ConcurrentQueries,
                ..
            })
        ),
        "{refused:?}"
    );
    // Light queries take no slot of heavy ones.
    assert!(engine.query("ASK {}").run().is_ok());
    drop(waiting);
    let next = engine.query(cross).begin().expect("starts");
    assert!(matches!(next, FastPath::Deferred(_)));
}

/// S5, and state kept between executions never shows an older snapshot: updates of three statements
/// each are seen whole and in order by every reader.
#[test]
fn answers_are_of_stable_snapshots_while_updates_come() {
    let engine = crowd(4, EngineConfig::default());
    let text = "SELECT ?o { <http://x/counter> <http://x/has> ?o }";
    let prepared = engine
        .prepare("SELECT ?o { ?s <http://x/has> ?o }", &["s"])
        .expect("prepares");
    let counter = [Term::from(NamedNode::new_unchecked("http://x/counter"))];
    let done = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for way in 0..3 {
            let (engine, prepared, counter, done) = (&engine, &prepared, &counter, &done);
            scope.spawn(move || {
                let (mut seen, mut sn) = (0, Sn::ZERO);
                loop {
                    let before = done.load(std::sync::atomic::Ordering::SeqCst);
                    let results = match way {
                        0 => engine.query(text).run(),
                        1 => engine.query(&format!("{text} # {seen}")).run(),
                        _ => prepared.execute(counter),
                    }
                    .expect("answers");
                    let found = results.answer.len();
                    assert!(found.is_multiple_of(3) && found >= seen && results.sn >= sn);
                    assert!(found >= 3 * before, "an acknowledged update is visible");
                    (seen, sn) = (found, results.sn);
                    if before == 60 {
                        break;
                    }
                }
            });
        }
        for n in 0..60 {
            let update = format!(
                "INSERT DATA {{ <http://x/counter> <http://x/has> \"a{n}\", \"b{n}\", \"and c {n}\" }}"
            );
            engine.update(&update).run().expect("is taken");
            done.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        }
    });
}
