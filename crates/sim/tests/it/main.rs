//! A modest number of seeds in every `cargo test`; `somersault-sim --seeds N` runs more.

use somersault::{Engine, EngineConfig};
use somersault_log::{CrashKeep, SimDisk};
use somersault_sim::{Plant, run, run_planted};
use std::sync::Arc;

#[test]
fn seeds_hold() {
    for seed in 1..=16 {
        if let Err(failure) = run(seed, 100) {
            panic!("{failure}");
        }
    }
}

/// Some seed of a few must see a planted bug; one may miss it, as when nothing lies on a boundary.
fn assert_seen(plant: Plant) {
    let seen = (1..=8).any(|seed| run_planted(seed, 100, Some(plant)).is_err());
    assert!(seen, "no seed saw {plant:?}");
}

#[test]
fn a_window_that_is_open_on_the_left_is_seen() {
    assert_seen(Plant::OpenOnTheLeft);
}

#[test]
fn a_lost_update_is_seen() {
    assert_seen(Plant::LostUpdate);
}

#[test]
fn a_firing_that_comes_twice_is_seen() {
    assert_seen(Plant::RepeatedFiring);
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
            .advance(&[(stream.to_owned(), round * 1000)])
            .expect("the stream advances");
        disk = disk.crash(CrashKeep::Synced);
        let reopened = open(&disk).stream(stream).expect("the stream is there");
        assert_eq!(reopened.complete_through_ms, Some(round * 1000));
        disk = disk.crash(CrashKeep::Synced);
    }
}
