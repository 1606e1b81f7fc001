//! A modest number of seeds in every `cargo test`; `somersault-sim --seeds N` runs more.

use somersault_sim::{Plant, run, run_planted};

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
fn a_window_that_is_closed_on_the_right_is_seen() {
    assert_seen(Plant::ClosedOnTheRight);
}

#[test]
fn a_lost_update_is_seen() {
    assert_seen(Plant::LostUpdate);
}

#[test]
fn a_firing_that_comes_twice_is_seen() {
    assert_seen(Plant::RepeatedFiring);
}
