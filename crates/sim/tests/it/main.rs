//! A modest number of seeds in every `cargo test`; `somersault-sim --seeds N` runs more.

use somersault::{Engine, EngineConfig, EventTime};
use somersault_log::{CrashKeep, SimDisk};
use somersault_sim::{Plant, run, run_planted};
use std::sync::Arc;

#[test]
fn seeds_hold() {
    for seed in 1..=200 {
        if let Err(failure) = run(seed, 100) {
            panic!("{failure}");
        }
    }
}

/// Some seed of these must see a planted bug; most may miss it, as when nothing lies on a boundary.
#[test]
fn planted_bugs_are_seen() {
    for plant in [
        Plant::OpenOnTheLeft,
        Plant::ClosedOnTheRight,
        Plant::Bag,
        Plant::OneSize,
        Plant::Leak,
        Plant::LateWipes,
        Plant::Unamended,
        Plant::Hasty,
        Plant::StoredLate,
        Plant::LostUpdate,
        Plant::RepeatedFiring,
        Plant::RepeatsUncounted,
        Plant::WholeBatches,
        Plant::AllFromTheBeginning,
        Plant::DerivedEarly,
        Plant::DerivedUnseen,
        Plant::OldestTimestamp,
        Plant::NoTemplateGraph,
        Plant::ReportedAll,
        Plant::NewestSkipped,
        Plant::OneForAll,
        Plant::FiltersIgnored,
        Plant::DuplicateLost,
        Plant::HandedOverLate,
        Plant::NeverCloses,
    ] {
        let seen = (1..=400).any(|seed| run_planted(seed, 100, plant).is_err());
        assert!(seen, "no seed saw {plant:?}");
    }
}

/// LG-1 for an advance that makes nothing due: its acknowledgement waits for the disk all the same.
#[test]
fn an_acknowledged_advance_survives_a_crash() {
    let stream = "http://sim.example/s";
    let mut disk = SimDisk::new();
    for round in 1..=40 {
        let open = |disk: &SimDisk| {
            Engine::open_on(EngineConfig::default(), Arc::new(disk.clone()))
                .expect("the engine opens")
        };
        let engine = open(&disk);
        let text = format!("CREATE STREAM <{stream}> BATCH 100ms IDLE NEVER");
        engine
            .create_stream(None, &text)
            .expect("the stream is declared");
        engine
            .advance([(stream, EventTime(round * 1000))])
            .expect("the stream advances");
        disk = disk.crash(CrashKeep::Synced);
        let reopened = open(&disk).stream(stream).expect("the stream is there");
        assert_eq!(reopened.complete_through_ms, Some(round * 1000));
        disk = disk.crash(CrashKeep::Synced);
    }
}
