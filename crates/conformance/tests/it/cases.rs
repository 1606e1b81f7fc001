//! Our own cases: repeats, unbound values, unequal steps, boundaries, every form of query.

use crate::{assert_exact, cases, run};
use somersault_conformance::rsp::RunOptions;
use somersault_conformance::rsp::child::KillPlan;
use std::path::PathBuf;

#[test]
fn answers_are_exact_whatever_the_number_of_shards() {
    for shards in [1, 2, 4] {
        assert_exact(
            &cases(),
            &RunOptions {
                shards,
                ..RunOptions::default()
            },
        );
    }
}

#[test]
fn the_dull_twin_gives_the_same_answers() {
    let options = RunOptions {
        twin: true,
        ..RunOptions::default()
    };
    assert_exact(&cases(), &options);
}

#[test]
fn answers_are_exact_by_delta() {
    for shards in [1, 3] {
        let options = RunOptions {
            shards,
            delta: true,
            ..RunOptions::default()
        };
        assert_exact(&cases(), &options);
    }
}

#[test]
fn answers_are_exact_on_the_simulated_fabric() {
    for seed in 1..=3 {
        let options = RunOptions {
            shards: 3,
            simulated: Some(seed),
            ..RunOptions::default()
        };
        assert_exact(&cases(), &options);
    }
}

#[test]
fn answers_are_exact_when_the_engine_is_killed() {
    for seed in 1..=2 {
        let kill = KillPlan {
            points: 8,
            seed,
            program: PathBuf::from(env!("CARGO_BIN_EXE_somersault-conformance")),
        };
        let options = RunOptions {
            kill: Some(kill),
            ..RunOptions::default()
        };
        let report = run(&cases(), &options);
        assert!(report.is_exact(), "seed {seed}: {report}");
        assert_eq!(report.kills, 8);
    }
}

#[test]
fn every_query_has_its_answers_compared() {
    let report = run(&cases(), &RunOptions::default());
    for query in &report.queries {
        assert!(query.compared > 0, "nothing of {} was compared", query.name);
    }
    assert!(report.queries.len() >= 26);
}
