//! Checkpoints that an engine takes without being asked: when a restart would take long, when the
//! log has grown, and at a clean shutdown.

use crate::support::scenario::config;
use somersault::disk::{Disk, SimDisk};
use somersault::process_simulation::SimulatedProcess;
use somersault::{
    CheckpointConfig, CheckpointStatus, Clock, Engine, EngineConfig, EventTime, PushLines,
};
use std::sync::Arc;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

fn opened(disk: &SimDisk, checkpoints: CheckpointConfig) -> Engine {
    let config = EngineConfig {
        checkpoints,
        ..config()
    };
    Engine::open_on(config, Arc::new(disk.clone())).unwrap()
}

/// Adds this many statements.
fn insert(engine: &Engine, from: usize, count: usize) {
    let statements: String = (from..from + count)
        .map(|number| format!("<urn:s> <urn:p> {number} . "))
        .collect();
    let text = format!("INSERT DATA {{ {statements} }}");
    engine.update(&text).run().unwrap();
}

#[track_caller]
fn until(engine: &Engine, holds: impl Fn(&CheckpointStatus) -> bool) -> CheckpointStatus {
    let started = Instant::now();
    loop {
        let status = engine.checkpoints().unwrap();
        if holds(&status) {
            return status;
        }
        assert!(started.elapsed() < PATIENCE, "{status:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn never() -> CheckpointConfig {
    CheckpointConfig {
        recovery_target: Duration::MAX,
        log_bytes: u64::MAX,
        at_shutdown: Duration::ZERO,
    }
}

#[test]
fn a_restart_that_would_take_too_long_leads_to_a_checkpoint() {
    let disk = SimDisk::new();
    let target = Duration::from_millis(10);
    let config = CheckpointConfig {
        recovery_target: target,
        ..never()
    };
    let engine = opened(&disk, config);
    insert(&engine, 0, 8_000);
    let status = until(&engine, |status| status.taken == 1);
    assert!(status.restart.replay < target, "{status:?}");
    assert!(status.newest.is_some_and(|newest| newest.took.is_some()));
    insert(&engine, 8_000, 8_000);
    until(&engine, |status| status.taken == 2);
    std::thread::sleep(Duration::from_millis(100));
    let taken = engine.checkpoints().unwrap().taken;
    assert_eq!(taken, 2, "nothing has changed since");
}

#[test]
fn a_log_that_has_grown_leads_to_a_checkpoint() {
    let disk = SimDisk::new();
    let config = CheckpointConfig {
        log_bytes: 50_000,
        ..never()
    };
    let engine = opened(&disk, config);
    insert(&engine, 0, 10);
    let status = engine.checkpoints().unwrap();
    assert_eq!((status.taken, status.newest), (0, None));
    insert(&engine, 10, 5_000);
    let status = until(&engine, |status| status.taken == 1);
    assert!(status.log_bytes < 50_000, "{status:?}");
}

#[test]
fn a_checkpoint_that_fails_is_tried_again_and_said() {
    let process = SimulatedProcess::new(3);
    let disk = SimDisk::new();
    let config = EngineConfig {
        checkpoints: CheckpointConfig {
            recovery_target: Duration::from_millis(1),
            ..never()
        },
        process: Some(process.clone()),
        clock: Clock::System,
        ..config()
    };
    let engine = Engine::open_on(config, Arc::new(disk.clone())).unwrap();
    // The log has set space aside; nothing is left for other files.
    disk.set_capacity(Some(disk.space()));
    insert(&engine, 0, 2_000);
    let turns = |holds: &dyn Fn(&CheckpointStatus) -> bool| {
        for _ in 0..1_000_000 {
            if holds(&engine.checkpoints().unwrap()) {
                return;
            }
            process.take_turn();
        }
        panic!("{:?}", engine.checkpoints());
    };
    turns(&|status| status.failures > 0);
    let failure = engine.checkpoints().unwrap().failure.unwrap();
    assert!(failure.contains("the disk is full"), "{failure}");
    disk.set_capacity(None);
    let said = engine.health().message;
    assert!(
        said.contains("the newest checkpoint could not be made"),
        "{said}"
    );
    assert!(said.contains(&failure), "{said}");
    turns(&|status| status.taken == 1);
    assert_eq!(engine.checkpoints().unwrap().failure, None);
    assert_eq!(engine.health().message, "everything works");
}

/// Shards may have applied the SN of an input that is not stable yet when they are asked for their
/// marker, and then nothing asks them again but the checkpoint itself.
#[test]
fn a_checkpoint_beside_an_input_ends_though_nothing_follows() {
    let config = EngineConfig {
        workers: 4,
        checkpoints: never(),
        ..config()
    };
    let engine = &Engine::open_on(config, Arc::new(SimDisk::new())).unwrap();
    let streams = ["urn:s0", "urn:s1", "urn:s2", "urn:s3"];
    for stream in streams {
        let text = format!("CREATE STREAM <{stream}> TIMELESS");
        engine.create_stream(None, &text).unwrap();
    }
    let input = move |stream: &str, second: i64| {
        let line = format!("{second}000\t<urn:a> <urn:p> <urn:b{second}> .\n");
        let push = PushLines {
            lines: line.as_bytes(),
            ..PushLines::default()
        };
        engine.push_lines(stream, push).unwrap();
        let to = EventTime(second * 1_000 + 900);
        engine.advance([(stream, to)]).unwrap();
    };
    for round in 0..500 {
        let pending = std::thread::scope(|scope| {
            let pending = scope.spawn(|| engine.begin_checkpoint().unwrap());
            for stream in streams {
                scope.spawn(move || input(stream, round));
            }
            pending.join().unwrap()
        });
        let (ended, has_ended) = std::sync::mpsc::channel();
        std::thread::spawn(move || ended.send(pending.wait().map(drop)));
        let written = has_ended.recv_timeout(PATIENCE);
        assert!(matches!(written, Ok(Ok(()))), "round {round}: {written:?}");
    }
}

#[test]
fn a_clean_shutdown_takes_a_checkpoint_that_the_next_start_begins_from() {
    let disk = SimDisk::new();
    let config = CheckpointConfig {
        recovery_target: Duration::from_millis(20),
        at_shutdown: PATIENCE,
        ..never()
    };
    let engine = opened(&disk, config.clone());
    // Replaying it takes less than the target, and more than a fifth of it.
    insert(&engine, 0, 4_000);
    let files = || -> Vec<String> {
        let mut names = disk.list().unwrap();
        names.retain(|name| name.starts_with("checkpoint-"));
        names
    };
    assert_eq!(files(), [""; 0]);
    engine.shutdown().unwrap();
    assert!(!files().is_empty());
    drop(engine);
    let engine = opened(&disk, config.clone());
    let status = engine.checkpoints().unwrap();
    assert!(status.newest.is_some(), "{status:?}");
    assert_eq!(
        status.restart.replay,
        Duration::ZERO,
        "nothing was replayed"
    );
    assert_eq!(engine.health().stored_statements, 4_000);
    let before = files();
    engine.shutdown().unwrap();
    drop(engine);
    assert_eq!(files(), before, "nothing had changed");
    let engine = opened(&disk, never());
    insert(&engine, 4_000, 4_000);
    engine.shutdown().unwrap();
    assert_eq!(files(), before, "none is wanted");
}
