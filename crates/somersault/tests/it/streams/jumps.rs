//! Jumps in time and storms of amendments: what else comes first while the closes of one query wait
//! for their turn.

use crate::support::scenario::*;
use somersault::disk::{CrashKeep, SimDisk};
use somersault::{Engine, EngineConfig, EngineError, EventTime, HealthStatus, Limits};
use std::sync::{Arc, mpsc};
use std::time::Duration;

const YEAR_MS: i64 = 365 * 86_400_000;

/// Any number of closes may become due at once.
fn unlimited() -> EngineConfig {
    EngineConfig {
        limits: Limits {
            closes_at_once: u64::MAX,
            ..Limits::default()
        },
        ..config()
    }
}

fn declare(engine: &Engine) {
    for name in ["s", "t"] {
        let text = format!("CREATE STREAM <{NS}{name}> BATCH 1s IDLE NEVER");
        engine.create_stream(None, &text).unwrap();
    }
    let text = format!(
        "PREFIX : <{NS}> SELECT ?x FROM STREAM :s [RANGE 365d STEP 1s] WHERE {{ ?x :at ?y }}"
    );
    engine.register(Some("year"), &text).unwrap();
}

fn insert(engine: &Engine, name: &str) {
    let text = format!("PREFIX : <{NS}> INSERT DATA {{ :{name} :is :there }}");
    engine.update(&text).run().unwrap();
}

fn push_to(engine: &Engine, stream: &str, statements: &[(i64, &str)]) {
    let stream = format!("{NS}{stream}");
    engine.push(&stream, push(statements)).unwrap();
}

/// Whether closes wait for their turn.
fn is_behind(engine: &Engine) -> bool {
    let health = engine.health();
    assert_eq!(health.status, HealthStatus::Ok);
    health.message.contains("closes are due")
}

/// A jump of a year makes 31.5 million closes due; each of these inputs would have waited for the
/// last of them.
#[test]
fn a_jump_of_a_year_holds_up_nothing_but_its_stream() {
    let engine = Engine::open(unlimited()).unwrap();
    declare(&engine);
    push_to(&engine, "s", &[(0, "a at x"), (YEAR_MS, "b at y")]);
    assert!(is_behind(&engine));
    push_to(&engine, "t", &[(5, "c at z")]);
    insert(&engine, "tea");
    assert_eq!(ask(&engine, "SELECT ?x WHERE { ?x :is :there }"), ["tea"]);
    assert!(
        is_behind(&engine),
        "the update came before the closes that were left"
    );
    engine.pause_query("year").unwrap();
    assert!(!is_behind(&engine));
    engine.resume_query("year").unwrap();
    engine.drop_query("year").unwrap();
    engine.quiesce(Duration::from_secs(60)).unwrap();
    push_to(&engine, "s", &[(YEAR_MS + 10, "d at y")]);
}

#[test]
fn inputs_that_wait_for_closes_are_bounded() {
    let engine = Engine::open(unlimited()).unwrap();
    declare(&engine);
    push_to(&engine, "s", &[(0, "a at x"), (YEAR_MS, "b at y")]);
    let (send, answers) = mpsc::channel();
    for number in 0..65 {
        let (engine, send) = (engine.clone(), send.clone());
        std::thread::spawn(move || {
            let late = push(&[(YEAR_MS + number, "c at y")]);
            send.send(engine.push(&format!("{NS}s"), late).map(drop))
        });
    }
    // The others wait.
    let refused = answers.recv().unwrap().unwrap_err();
    assert!(matches!(refused, EngineError::Limit { .. }), "{refused}");
    assert!(refused.to_string().contains("64 inputs"), "{refused}");
    engine.drop_query("year").unwrap();
    let taken = (0..64).filter(|_| answers.recv().unwrap().is_ok());
    assert!(taken.count() > 0);
}

#[test]
fn remaining_closes_fire_after_a_crash() {
    let disk = SimDisk::new();
    let open = |disk: &SimDisk| Engine::open_on(unlimited(), Arc::new(disk.clone())).unwrap();
    let engine = open(&disk);
    declare(&engine);
    push_to(&engine, "s", &[(0, "a at x"), (YEAR_MS, "b at y")]);
    assert!(is_behind(&engine));
    let crashed = disk.crash(CrashKeep::Written);
    drop(engine);
    let engine = open(&crashed);
    assert!(
        is_behind(&engine),
        "the engine answers before the last close is cut"
    );
    insert(&engine, "tea");
    push_to(&engine, "t", &[(5, "c at z")]);
    let before = engine.query_info("year").unwrap().last_close;
    engine.drop_query("year").unwrap();
    assert!(before < Some(EventTime(YEAR_MS)));
    engine.quiesce(Duration::from_secs(60)).unwrap();
}

#[test]
fn closes_that_are_left_come_in_the_end() {
    let engine = Engine::open(unlimited()).unwrap();
    for name in ["s", "t"] {
        let text = format!("CREATE STREAM <{NS}{name}> BATCH 1s IDLE NEVER");
        engine.create_stream(None, &text).unwrap();
    }
    let text = format!(
        "PREFIX : <{NS}> SELECT ?x FROM STREAM :s [RANGE 1h STEP 1s] WHERE {{ ?x :at ?y }}"
    );
    engine.register(Some("hour"), &text).unwrap();
    push_to(&engine, "s", &[(0, "a at x"), (2_000_000, "b at y")]);
    insert(&engine, "tea");
    // This push and this advance wait for the closes of the first one.
    push_to(&engine, "s", &[(2_001_000, "c at y")]);
    advance(&engine, 2_002_000);
    engine.quiesce(Duration::from_secs(60)).unwrap();
    let info = engine.query_info("hour").unwrap();
    assert_eq!(
        (info.firings, info.last_close),
        (2_002, Some(EventTime(2_002_000)))
    );
    let last = firings(&engine, "hour", Some(2_001_000));
    assert_eq!(last, expected(&[(2_002_000, &["a", "b", "c"])]));
}

/// Each late statement amends 1,800 closes; those that come while the first amendment is under way
/// share one.
#[test]
fn amendments_that_wait_are_joined() {
    let engine = engine();
    let text =
        format!("CREATE STREAM <{NS}s> BATCH 1s LATENESS 0s LATE AMEND WITHIN 1h IDLE NEVER");
    engine.create_stream(None, &text).unwrap();
    let text = format!(
        "PREFIX : <{NS}> SELECT ?x FROM STREAM :s [RANGE 30m STEP 1s] WHERE {{ ?x :at ?y }}"
    );
    engine.register(Some("q"), &text).unwrap();
    push_to(&engine, "s", &[(0, "a at x"), (3_600_000, "b at y")]);
    advance(&engine, 3_600_000);
    engine.quiesce(Duration::from_secs(120)).unwrap();
    let fired = engine.query_info("q").unwrap().firings;
    for late in 0..20 {
        let text = format!("late{late} at x");
        push_to(&engine, "s", &[(1_800_000 + late, &text)]);
    }
    engine.quiesce(Duration::from_secs(120)).unwrap();
    let info = engine.query_info("q").unwrap();
    assert_eq!(info.firings - info.amended, fired);
    assert!(info.amended >= 1_799);
    assert!(
        info.amended < 10 * 1_799,
        "{} amended firings",
        info.amended
    );
    let kept = firings(&engine, "q", None);
    let newest = kept.iter().rev().find(|(close, _)| *close == 3_600_000);
    assert_eq!(newest.unwrap().1.len(), 20);
}

#[test]
fn a_jump_beyond_the_limit_is_refused_with_what_to_do() {
    let engine = engine();
    declare(&engine);
    push_to(&engine, "s", &[(0, "a at x")]);
    let refused = engine
        .push(&format!("{NS}s"), push(&[(YEAR_MS, "b at y")]))
        .unwrap_err()
        .to_string();
    assert!(
        refused.contains("31536000 closes of query year"),
        "{refused}"
    );
    assert!(refused.contains("at most 100000"), "{refused}");
    assert!(refused.contains("PAUSE QUERY year"), "{refused}");
    engine.pause_query("year").unwrap();
    push_to(&engine, "s", &[(YEAR_MS, "b at y")]);
}
