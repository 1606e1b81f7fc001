//! Durable subscriptions: each answer comes until it is acknowledged, whatever ends the engine, and
//! none is lost unnoticed.

use crate::support::scenario::*;
use somersault::disk::{CrashKeep, SimDisk};
use somersault::process_simulation::SimulatedProcess;
use somersault::{
    DurableEvent, DurableOptions, DurableStart, Engine, EngineConfig, EngineError, EventTime,
    FiringResult, SubscribeOptions, SubscriptionEvent, WhenFull,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

const STREAM: &str = "http://example.org/s";

fn prepare(engine: &Engine) {
    let text = format!("CREATE STREAM <{STREAM}> TIMING (<{NS}at>) BATCH 1s IDLE NEVER");
    engine.create_stream(None, &text).unwrap();
    let text = format!(
        "PREFIX : <{NS}> SELECT ?x ?y FROM STREAM :s [RANGE 2s STEP 1s] WHERE {{ ?x :at ?y }}"
    );
    engine.register(Some("q"), &text).unwrap();
    engine.advance([(STREAM, EventTime(0))]).map(drop).unwrap();
}

/// A second of the stream. Each third one has no statement, so an answer is empty at times.
fn second(engine: &Engine, second: i64) {
    let at = second * 1000 + 100;
    if second % 6 < 3 {
        let place = format!("a at p{second}");
        let sent = numbered(second as u64, &[(at, &place)]);
        engine.push(STREAM, sent).unwrap();
    }
    let to = [(STREAM, EventTime((second + 1) * 1000))];
    engine.advance(to).map(drop).unwrap();
}

fn rows(firing: &FiringResult) -> Vec<String> {
    shown(firing.answer.as_ref().unwrap())
}

/// The answers of all closes, of a run that nothing ends.
fn all_answers(seconds: i64) -> BTreeMap<i64, Vec<String>> {
    let engine = engine();
    prepare(&engine);
    (0..seconds).for_each(|at| second(&engine, at));
    firings(&engine, "q", None).into_iter().collect()
}

fn durable(empties: bool) -> DurableOptions {
    DurableOptions {
        empties,
        ..DurableOptions::default()
    }
}

/// Reads what is there, and acknowledges all but the last `less`.
fn read(engine: &Engine, name: &str, less: usize) -> Vec<Arc<FiringResult>> {
    quiesce(engine);
    let mut reader = engine.read_durably("q", name).unwrap();
    let mut read = Vec::new();
    while let Some(event) = reader.try_recv() {
        match event {
            DurableEvent::Firing(firing) => read.push(firing),
            other => panic!("{other:?}"),
        }
    }
    if let Some(last) = read.iter().rev().nth(less) {
        engine.acknowledge("q", name, last.id()).unwrap();
    }
    read
}

/// An engine on this disk, which keeps two answers that no durable subscription needs.
fn open(disk: &SimDisk) -> Engine {
    let settings = EngineConfig {
        kept_firings: 2,
        ..config()
    };
    Engine::open_on(settings, Arc::new(disk.clone())).unwrap()
}

fn quiesce(engine: &Engine) {
    engine.quiesce(Duration::from_secs(60)).unwrap();
}

/// The engine is ended at every point of a run, with more answers waiting than are kept otherwise.
/// The reader sees every answer, each until it is acknowledged, and each time the same.
#[test]
fn each_answer_comes_until_it_is_acknowledged() {
    const SECONDS: i64 = 40;
    let expected = all_answers(SECONDS);
    for (period, less, checkpoints) in [(7, 0, 0), (5, 3, 3), (13, 6, 4), (11, 9, 2), (13, 2, 0)] {
        let mut disk = SimDisk::new();
        let mut engine = open(&disk);
        prepare(&engine);
        engine
            .subscribe_durably("q", "all", &durable(true))
            .unwrap();
        engine
            .subscribe_durably("q", "some", &durable(false))
            .unwrap();
        let mut received: [BTreeMap<i64, Vec<String>>; 2] = Default::default();
        let mut keys = BTreeMap::new();
        let mut take = |engine: &Engine| {
            for (name, received) in ["all", "some"].into_iter().zip(&mut received) {
                let acknowledged = engine.durable_subscription("q", name).unwrap().acknowledged;
                for firing in read(engine, name, less) {
                    assert!(
                        acknowledged.is_none_or(|id| firing.close > id.close),
                        "{} was acknowledged",
                        firing.close
                    );
                    let before = received.insert(firing.close.0, rows(&firing));
                    assert!(before.is_none_or(|before| before == rows(&firing)));
                    let key = keys.entry(firing.close).or_insert(firing.id());
                    assert_eq!(*key, firing.id(), "it has the same key again");
                }
            }
        };
        for at in 0..SECONDS {
            second(&engine, at);
            if checkpoints > 0 && at % checkpoints == 0 {
                engine.checkpoint().unwrap();
            }
            if at % period == period - 1 {
                // Not read, then ended, then read.
                if at % 2 == 0 {
                    take(&engine);
                }
                drop(engine);
                disk = disk.crash(CrashKeep::Synced);
                engine = open(&disk);
                if at % 3 == 0 {
                    take(&engine);
                }
            }
        }
        take(&engine);
        let [all, some] = &received;
        assert_eq!(all, &expected);
        let filled = expected.iter().filter(|(_, rows)| !rows.is_empty());
        let filled: BTreeMap<i64, Vec<String>> =
            filled.map(|(close, rows)| (*close, rows.clone())).collect();
        assert!(filled.len() < expected.len());
        assert_eq!(some, &filled);
        engine.check().unwrap();
    }
}

/// An answer that one subscription has not acknowledged holds the marks back, so a restart executes
/// its firing again. An answer that all have acknowledged does not.
#[test]
fn acknowledged_answers_are_not_executed_again() {
    let disk = SimDisk::new();
    let engine = open(&disk);
    prepare(&engine);
    engine
        .subscribe_durably("q", "all", &durable(true))
        .unwrap();
    let executed_after = |engine: Engine, disk: SimDisk| {
        quiesce(&engine);
        engine.shutdown().unwrap();
        let disk = disk.crash(CrashKeep::Synced);
        let engine = open(&disk);
        quiesce(&engine);
        let firings = engine.query_info("q").unwrap().firings;
        (engine, disk, firings)
    };
    (0..60).for_each(|at| second(&engine, at));
    let (engine, disk, firings) = executed_after(engine, disk);
    assert_eq!(firings, 60, "all are needed");
    assert_eq!(engine.durable_subscription("q", "all").unwrap().waiting, 60);
    assert_eq!(read(&engine, "all", 0).len(), 60);
    (60..100).for_each(|at| {
        second(&engine, at);
        assert_eq!(read(&engine, "all", 0).len(), 1);
    });
    let (engine, _, firings) = executed_after(engine, disk);
    assert!(firings < 30, "{firings} were executed again");
    assert_eq!(engine.durable_subscription("q", "all").unwrap().waiting, 0);
}

#[test]
fn a_limit_ends_a_subscription_with_a_sentence() {
    let disk = SimDisk::new();
    let engine = open(&disk);
    prepare(&engine);
    let options = DurableOptions {
        answers: 5,
        ..durable(true)
    };
    engine.subscribe_durably("q", "ends", &options).unwrap();
    let mut reader = engine.read_durably("q", "ends").unwrap();
    (0..9).for_each(|at| second(&engine, at));
    quiesce(&engine);
    let ended = engine.durable_subscription("q", "ends").unwrap();
    let sentence = ended.ended.unwrap();
    assert!(sentence.contains("more answers waited"), "{sentence}");
    assert!(sentence.contains("delete it"), "{sentence}");
    assert_eq!(ended.waiting, 0);
    let events: Vec<_> = std::iter::from_fn(|| reader.try_recv()).collect();
    let [
        DurableEvent::Missed { answers },
        DurableEvent::Ended { message },
    ] = &events[..]
    else {
        panic!("{events:?}");
    };
    assert!(*answers > 0);
    assert_eq!(message, &sentence);
    // It stays ended over a restart.
    drop(engine);
    let engine = open(&disk.crash(CrashKeep::Synced));
    second(&engine, 9);
    quiesce(&engine);
    let ended = engine.durable_subscription("q", "ends").unwrap();
    assert_eq!((ended.ended, ended.waiting), (Some(sentence), 0));
    engine.unsubscribe("q", "ends").unwrap();
    assert!(engine.subscribe_durably("q", "ends", &options).unwrap());
    second(&engine, 10);
    assert_eq!(read(&engine, "ends", 0).len(), 1);
}

#[test]
fn a_limit_lets_the_oldest_answers_go_and_says_how_many() {
    let disk = SimDisk::new();
    let engine = open(&disk);
    prepare(&engine);
    let options = DurableOptions {
        answers: 5,
        when_full: WhenFull::SkipOldest,
        ..durable(true)
    };
    engine.subscribe_durably("q", "skips", &options).unwrap();
    for at in 0..9 {
        second(&engine, at);
        quiesce(&engine);
    }
    let check = |engine: &Engine| {
        let info = engine.durable_subscription("q", "skips").unwrap();
        assert_eq!(info.missed + info.waiting, 9);
        assert_eq!(info.ended, None);
        assert!(info.waiting <= 6, "{info:?}");
        let mut reader = engine.read_durably("q", "skips").unwrap();
        let Some(DurableEvent::Missed { answers }) = reader.try_recv() else {
            panic!("it is told");
        };
        assert_eq!(answers, info.missed);
        let firings = std::iter::from_fn(|| reader.try_recv());
        assert_eq!(firings.count() as u64, info.waiting);
    };
    check(&engine);
    drop(engine);
    let engine = open(&disk.crash(CrashKeep::Synced));
    quiesce(&engine);
    check(&engine);
}

/// An answer that waits too long counts as lost when the next one comes.
#[test]
fn a_deadline_ends_a_subscription() {
    let engine = engine();
    prepare(&engine);
    let options = DurableOptions {
        deadline: Some(Duration::from_millis(1)),
        ..durable(true)
    };
    engine.subscribe_durably("q", "late", &options).unwrap();
    second(&engine, 0);
    quiesce(&engine);
    std::thread::sleep(Duration::from_millis(20));
    second(&engine, 1);
    quiesce(&engine);
    let ended = engine.durable_subscription("q", "late").unwrap().ended;
    assert!(ended.unwrap().contains("deadline"));
}

/// The state of a subscription whose answers have become too late.
fn is_let_go(engine: &Engine, name: &str, answers: u64) -> bool {
    let info = engine.durable_subscription("q", name).unwrap();
    assert_eq!(info.missed + info.waiting, answers, "{info:?}");
    info.waiting == 0
}

/// An engine in a process that takes turns, with subscriptions to three answers: two whose deadline
/// comes soon, and one whose deadline is far away.
fn with_deadlines(disk: &SimDisk, seed: u64) -> (SimulatedProcess, Engine) {
    let (process, engine) = simulated(disk, seed);
    prepare(&engine);
    for (name, deadline_ms, when_full) in [
        ("ends", 20, WhenFull::End),
        ("skips", 20, WhenFull::SkipOldest),
        ("stays", 3_600_000, WhenFull::End),
    ] {
        let options = DurableOptions {
            deadline: Some(Duration::from_millis(deadline_ms)),
            when_full,
            ..durable(true)
        };
        engine.subscribe_durably("q", name, &options).unwrap();
    }
    (process, engine)
}

fn simulated(disk: &SimDisk, seed: u64) -> (SimulatedProcess, Engine) {
    let process = SimulatedProcess::new(seed);
    let settings = EngineConfig {
        process: Some(process.clone()),
        ..config()
    };
    let engine = Engine::open_on(settings, Arc::new(disk.clone())).unwrap();
    (process, engine)
}

/// Lets time pass, without any request that changes something, until both answers are too late.
fn wait_for_deadlines(process: &SimulatedProcess, engine: &Engine, answers: u64) {
    for _ in 0..100_000 {
        let is_over = engine
            .durable_subscription("q", "ends")
            .unwrap()
            .ended
            .is_some();
        if is_over && is_let_go(engine, "skips", answers) {
            return;
        }
        process.take_turn();
    }
    panic!("{:?}", engine.durable_subscriptions("q"));
}

/// An engine that does nothing else lets go at the deadline, whichever part of its process has the
/// next turn. One seed is one run, and a crash afterwards changes nothing.
#[test]
fn an_idle_engine_lets_go_at_the_deadline() {
    for seed in 0..8 {
        let run = || {
            let disk = SimDisk::new();
            let (process, engine) = with_deadlines(&disk, seed);
            (0..3).for_each(|at| second(&engine, at));
            quiesce(&engine);
            wait_for_deadlines(&process, &engine, 3);
            let ended = engine.durable_subscription("q", "ends").unwrap().ended;
            assert!(ended.unwrap().contains("deadline"));
            let mut reader = engine.read_durably("q", "skips").unwrap();
            let told = reader.try_recv();
            assert!(
                matches!(told, Some(DurableEvent::Missed { answers: 3 })),
                "{told:?}"
            );
            assert_eq!(
                engine.durable_subscription("q", "stays").unwrap().waiting,
                3
            );
            engine.check().unwrap();
            quiesce(&engine);
            let states = format!("{:?}", engine.durable_subscriptions("q").unwrap());
            drop(engine);
            (process.turns(), states, disk)
        };
        let (turns, states, disk) = run();
        let again = run();
        assert_eq!((turns, &states), (again.0, &again.1), "seed {seed}");
        let (_process, engine) = simulated(&disk.crash(CrashKeep::Synced), seed + 100);
        quiesce(&engine);
        assert!(is_let_go(&engine, "skips", 3));
        let ended = engine.durable_subscription("q", "ends").unwrap();
        assert!(ended.ended.unwrap().contains("deadline"));
        assert_eq!(
            engine.durable_subscription("q", "stays").unwrap().waiting,
            3
        );
    }
}

/// A restart, from the log or a checkpoint, forgets no deadline: it begins again.
#[test]
fn a_deadline_outlives_a_restart() {
    for (seed, takes_checkpoint) in (0..8).map(|seed| (seed, seed % 2 == 0)) {
        let disk = SimDisk::new();
        let (_process, engine) = with_deadlines(&disk, seed);
        second(&engine, 0);
        quiesce(&engine);
        if takes_checkpoint {
            engine.checkpoint().unwrap();
        }
        drop(engine);
        let (process, engine) = simulated(&disk.crash(CrashKeep::Synced), seed + 100);
        wait_for_deadlines(&process, &engine, 1);
        assert_eq!(
            engine.durable_subscription("q", "stays").unwrap().waiting,
            1
        );
    }
}

/// The same with threads, whose driver sleeps until the deadline.
#[test]
fn a_driver_wakes_at_a_deadline() {
    let engine = engine();
    prepare(&engine);
    let options = DurableOptions {
        deadline: Some(Duration::from_millis(30)),
        when_full: WhenFull::SkipOldest,
        ..durable(true)
    };
    engine.subscribe_durably("q", "late", &options).unwrap();
    second(&engine, 0);
    quiesce(&engine);
    while !is_let_go(&engine, "late", 1) {
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_subscription_begins_where_it_says() {
    let engine = engine();
    prepare(&engine);
    (0..4).for_each(|at| second(&engine, at));
    let from = |start| DurableOptions {
        start,
        ..durable(true)
    };
    let all = firings(&engine, "q", None);
    let options = SubscribeOptions::default();
    let subscription = engine.subscribe("q", options).unwrap();
    let Some(SubscriptionEvent::Firing(first)) = subscription.recv() else {
        panic!("there is a first answer");
    };
    for (name, start, count) in [
        ("now", DurableStart::Now, 0),
        ("kept", DurableStart::Kept, all.len()),
        ("after", DurableStart::After(first.id()), all.len() - 1),
    ] {
        assert!(engine.subscribe_durably("q", name, &from(start)).unwrap());
        assert!(!engine.subscribe_durably("q", name, &from(start)).unwrap());
        assert_eq!(read(&engine, name, 0).len(), count, "{name}");
    }
    let unknown = somersault::FiringId::at(EventTime(77));
    let refused = engine.subscribe_durably("q", "x", &from(DurableStart::After(unknown)));
    assert!(
        matches!(refused, Err(EngineError::Invalid(_))),
        "{refused:?}"
    );
    let refused = engine.acknowledge("q", "now", unknown);
    assert!(
        matches!(refused, Err(EngineError::Invalid(_))),
        "{refused:?}"
    );
    let refused = engine.acknowledge("q", "nobody", first.id());
    assert!(
        matches!(refused, Err(EngineError::NotFound(_))),
        "{refused:?}"
    );
}

/// A reader on another thread is woken by the next answer, and by the end.
#[test]
fn a_reader_waits() {
    let engine = engine();
    prepare(&engine);
    engine
        .subscribe_durably("q", "waits", &durable(true))
        .unwrap();
    let mut reader = engine.read_durably("q", "waits").unwrap();
    assert!(reader.recv_timeout(Duration::from_millis(1)).is_none());
    let waiting = std::thread::spawn(move || {
        let next = reader.recv_timeout(Duration::from_secs(60));
        let end = reader.recv_timeout(Duration::from_secs(60));
        (next, end)
    });
    second(&engine, 0);
    quiesce(&engine);
    while engine.durable_subscription("q", "waits").unwrap().handed == 0 {
        std::thread::yield_now();
    }
    engine.unsubscribe("q", "waits").unwrap();
    second(&engine, 1);
    let (next, end) = waiting.join().unwrap();
    assert!(matches!(next, Some(DurableEvent::Firing(_))), "{next:?}");
    assert!(matches!(end, Some(DurableEvent::Ended { .. })), "{end:?}");
}

/// How a sink goes about its answers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Manner {
    /// It delivers, then acknowledges.
    Right,
    /// It acknowledges, then delivers.
    AcknowledgesFirst,
    /// It follows the live answers, which are kept only while they are among the newest.
    WithoutOutbox,
}

/// The answers that a sink has after a run in which the engine is ended between its two steps, when
/// it takes answers after this second.
fn delivered(manner: Manner, ended_at: i64) -> BTreeMap<i64, Vec<String>> {
    let mut disk = SimDisk::new();
    let mut engine = open(&disk);
    prepare(&engine);
    if manner != Manner::WithoutOutbox {
        let options = durable(true);
        engine.subscribe_durably("q", "sink", &options).unwrap();
    }
    let mut sink: BTreeMap<i64, Vec<String>> = BTreeMap::new();
    for at in 0..20 {
        second(&engine, at);
        if at % 5 != 4 {
            continue;
        }
        quiesce(&engine);
        let answers: Vec<Arc<FiringResult>> = match manner {
            Manner::WithoutOutbox => {
                let subscription = engine.subscribe("q", SubscribeOptions::default());
                let subscription = subscription.unwrap();
                let events = std::iter::from_fn(|| subscription.try_recv());
                events.filter_map(firing).collect()
            }
            Manner::Right | Manner::AcknowledgesFirst => {
                let mut reader = engine.read_durably("q", "sink").unwrap();
                let events = std::iter::from_fn(|| reader.try_recv());
                let firings = events.map(|event| match event {
                    DurableEvent::Firing(firing) => firing,
                    other => panic!("{other:?}"),
                });
                firings.collect()
            }
        };
        let acknowledge = |engine: &Engine| {
            if let Some(last) = answers.last()
                && manner != Manner::WithoutOutbox
            {
                engine.acknowledge("q", "sink", last.id()).unwrap();
            }
        };
        let mut deliver = || {
            let answers = answers.iter();
            sink.extend(answers.map(|answer| (answer.close.0, rows(answer))));
        };
        match manner {
            Manner::AcknowledgesFirst => acknowledge(&engine),
            Manner::Right | Manner::WithoutOutbox => deliver(),
        }
        if at == ended_at {
            drop(engine);
            disk = disk.crash(CrashKeep::Synced);
            engine = open(&disk);
            continue;
        }
        match manner {
            Manner::AcknowledgesFirst => deliver(),
            Manner::Right | Manner::WithoutOutbox => acknowledge(&engine),
        }
    }
    sink
}

#[test]
fn a_sink_has_every_answer_wherever_the_engine_ends() {
    let expected = all_answers(20);
    for ended_at in [4, 9, 14, 19] {
        assert_eq!(delivered(Manner::Right, ended_at), expected, "{ended_at}");
    }
}

/// The comparison notices what it is there for.
#[test]
fn planted_mistakes_of_sinks_are_noticed() {
    let expected = all_answers(20);
    for ended_at in [4, 9, 14, 19] {
        assert_ne!(delivered(Manner::AcknowledgesFirst, ended_at), expected);
        assert_ne!(delivered(Manner::WithoutOutbox, ended_at), expected);
    }
}

/// Answers that are also kept for others, on both sides of a checkpoint.
#[test]
fn answers_of_a_checkpoint_and_later_ones_are_read_after_a_restart() {
    for (kept, taken_at, seconds) in [(64, 5, 12), (64, 11, 12), (2, 5, 12), (64, 30, 80)] {
        let open = |disk: &SimDisk| {
            let settings = EngineConfig {
                kept_firings: kept,
                ..config()
            };
            Engine::open_on(settings, Arc::new(disk.clone())).unwrap()
        };
        let disk = SimDisk::new();
        let engine = open(&disk);
        prepare(&engine);
        let options = DurableOptions {
            start: DurableStart::Kept,
            ..durable(true)
        };
        engine.subscribe_durably("q", "slow", &options).unwrap();
        engine.subscribe_durably("q", "quick", &options).unwrap();
        for at in 0..seconds {
            second(&engine, at);
            read(&engine, "quick", 0);
            if at == taken_at {
                engine.checkpoint().unwrap();
            }
        }
        drop(engine);
        let engine = open(&disk.crash(CrashKeep::Written));
        let answers = read(&engine, "slow", 0);
        assert_eq!(answers.len() as i64, seconds, "{kept} {taken_at}");
    }
}
