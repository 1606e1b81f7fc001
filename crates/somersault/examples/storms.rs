//! Measures records that make thousands of firings due: `cargo run --release --example storms`.
//!
//! 1. Three queries `ELEMENTS n STEP 1` over one stream, and pushes of 5,000 statements, for some
//!    n (`elements` as argument measures this alone).
//! 2. A query `RANGE 1h STEP 1s` over a stream with LATE AMEND, and late statements (`late`).
//!
//! It prints the time of a push until it is acknowledged and until all its firings are answered,
//! and the longest time that a push to another stream and an update took meanwhile.

use somersault::oxrdf::{GraphName, NamedNode, Quad};
use somersault::{Engine, EngineConfig, EventTime, Push, StreamStatement};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

type Fallible<T = ()> = Result<T, Box<dyn std::error::Error>>;

const FIRINGS: Duration = Duration::from_secs(600);
const STREAM: &str = "http://x/s";

fn name(text: String) -> NamedNode {
    NamedNode::new_unchecked(text)
}

fn statement(at_ms: i64, number: i64) -> StreamStatement {
    StreamStatement {
        at: Some(EventTime(at_ms)),
        quad: Quad::new(
            name(format!("http://x/person{}", number % 997)),
            name(format!("http://x/p{}", number % 3)),
            name(format!("http://x/place{}", number % 89)),
            GraphName::DefaultGraph,
        ),
    }
}

fn push(engine: &Engine, stream: &str, statements: Vec<StreamStatement>) -> Fallible {
    let statements = Push {
        statements,
        ..Push::default()
    };
    engine.push(stream, statements)?;
    Ok(())
}

/// The longest pushes to another stream and the longest updates, until `done`.
fn others(engine: &Engine, done: &AtomicBool) -> Fallible<[Duration; 2]> {
    static TIME: AtomicI64 = AtomicI64::new(0);
    let mut longest = [Duration::ZERO; 2];
    while !done.load(Ordering::Relaxed) {
        let number = TIME.fetch_add(1, Ordering::Relaxed);
        let started = Instant::now();
        push(engine, "http://x/other", vec![statement(number, number)])?;
        longest[0] = longest[0].max(started.elapsed());
        let started = Instant::now();
        engine
            .update("INSERT DATA { <http://x/a> <http://x/b> 1 }")
            .run()?;
        engine
            .update("DELETE DATA { <http://x/a> <http://x/b> 1 }")
            .run()?;
        longest[1] = longest[1].max(started.elapsed() / 2);
        thread::sleep(Duration::from_millis(5));
    }
    Ok(longest)
}

/// Runs `storm` beside other inputs. Returns how long it took until it returned, and until all
/// firings were answered.
fn beside(
    engine: &Engine,
    storm: impl FnOnce() -> Fallible,
) -> Fallible<([Duration; 2], [Duration; 2])> {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let others = scope.spawn(|| others(engine, &done).map_err(|error| error.to_string()));
        thread::sleep(Duration::from_millis(20));
        let started = Instant::now();
        let stormed = storm();
        let returned = started.elapsed();
        let quiet = engine.quiesce(FIRINGS);
        let answered = started.elapsed();
        done.store(true, Ordering::Relaxed);
        let others = others.join().map_err(|_| "the other inputs panicked")?;
        stormed?;
        quiet?;
        Ok(([returned, answered], others?))
    })
}

fn engine(late: &str) -> Fallible<Engine> {
    let engine = Engine::open(EngineConfig::default())?;
    let stream = format!("CREATE STREAM <{STREAM}> BATCH 1s IDLE NEVER {late}");
    engine.create_stream(None, &stream)?;
    engine.create_stream(None, "CREATE STREAM <http://x/other> BATCH 1s IDLE NEVER")?;
    Ok(engine)
}

fn count_windows(count: u64, patterns: [&str; 3]) -> Fallible {
    let engine = engine("")?;
    engine.advance([(STREAM, EventTime(0))])?;
    for (number, pattern) in patterns.iter().enumerate() {
        let text = format!(
            "PREFIX : <http://x/> SELECT * FROM NAMED WINDOW :w ON :s [ELEMENTS {count} STEP 1] \
             WHERE {{ WINDOW :w {{ {pattern} }} }}"
        );
        engine.register(Some(&format!("q{number}")), &text)?;
    }
    for second in 0..3 {
        let statements = |at| (0..5_000).map(move |n| statement(at + n / 5, at * 7 + n));
        let storm = || {
            push(&engine, STREAM, statements(second * 1000).collect())?;
            engine.advance([(STREAM, EventTime((second + 1) * 1000))])?;
            Ok(())
        };
        let ([returned, answered], [pushed, updated]) = beside(&engine, storm)?;
        println!(
            "ELEMENTS {count} STEP 1: push {returned:.3?}, 15,000 firings {answered:.3?}; meanwhile push {pushed:.1?}, update {updated:.1?}"
        );
    }
    engine.shutdown()?;
    Ok(())
}

fn late_statements() -> Fallible {
    let engine = engine("LATENESS 1s LATE AMEND WITHIN 1h")?;
    engine.advance([(STREAM, EventTime(0))])?;
    engine.register(
        Some("q"),
        "PREFIX : <http://x/> SELECT ?a ?c FROM STREAM :s [RANGE 1h STEP 1s] WHERE { ?a :p1 ?c }",
    )?;
    for second in 0..3_700 {
        push(&engine, STREAM, vec![statement(second * 1000, second)])?;
    }
    engine.quiesce(FIRINGS)?;
    for round in 0..2 {
        let storm = || {
            for number in 0..20 {
                push(
                    &engine,
                    STREAM,
                    vec![statement(
                        3_690_000 - 3_590_000 + number,
                        4 + 3 * (round * 20 + number),
                    )],
                )?;
            }
            Ok(())
        };
        let ([returned, answered], [pushed, updated]) = beside(&engine, storm)?;
        println!(
            "20 late statements: pushes {returned:.3?}, firings {answered:.3?}; meanwhile push {pushed:.1?}, update {updated:.1?}; {} firings in all",
            engine.query_info("q")?.firings
        );
    }
    engine.shutdown()?;
    Ok(())
}

fn main() -> Fallible {
    let which = std::env::args().nth(1);
    if which.as_deref() != Some("late") {
        for count in [10, 100, 1_000] {
            count_windows(
                count,
                ["?x :p0 ?y", "?x :p1 ?y . ?x :p2 ?z", "?x ?p :place7"],
            )?;
        }
    }
    match which.as_deref() {
        Some("elements") => Ok(()),
        _ => late_statements(),
    }
}
