//! Procedures after a restart: what is declared, what was answered, and what calls have changed.

use super::calls::{TRANSFER, account, integer, integers, open_accounts, select};
use somersault::disk::{CrashKeep, SimDisk};
use somersault::process_simulation::SimulatedProcess;
use somersault::{CallOutcome, Engine, EngineConfig, FabricKind};
use std::sync::Arc;

fn open(disk: &SimDisk) -> Engine {
    let config = EngineConfig {
        fabric: FabricKind::Simulated { seed: 1 },
        ..EngineConfig::default()
    };
    Engine::open_on(config, Arc::new(disk.clone())).unwrap()
}

fn transfer(engine: &Engine, number: u64) -> CallOutcome {
    let arguments = [account(number % 4), account(4), integer(40)];
    let call = engine.call("transfer").arguments(arguments);
    call.key("till", number).run().unwrap()
}

#[test]
fn procedures_keys_and_effects_outlive_a_restart() {
    let disk = SimDisk::new();
    let engine = open(&disk);
    open_accounts(&engine, 5);
    engine.declare(TRANSFER).unwrap();
    engine
        .declare("CREATE PROCEDURE gone() AS { ABORT \"no\" }")
        .unwrap();
    engine.declare("DROP PROCEDURE gone").unwrap();
    let answers: Vec<CallOutcome> = (1..60).map(|number| transfer(&engine, number)).collect();
    assert!(
        answers
            .iter()
            .any(|it| matches!(it, CallOutcome::Aborted { .. }))
    );
    let balances = "SELECT ?b { ?a <urn:balance> ?b } ORDER BY ?a";
    let expected = select(&engine, balances);
    let mut crashed = disk.crash(CrashKeep::Synced);
    drop(engine);
    for _ in 0..2 {
        let engine = open(&crashed);
        assert_eq!(select(&engine, balances), expected);
        let again: Vec<CallOutcome> = (1..60).map(|number| transfer(&engine, number)).collect();
        assert_eq!(again, answers);
        assert_eq!(select(&engine, balances), expected);
        assert!(engine.call("gone").run().is_err());
        engine.check().unwrap();
        crashed = crashed.crash(CrashKeep::Synced);
    }
}

fn simulated(disk: &SimDisk, seed: u64) -> (SimulatedProcess, Engine) {
    let process = SimulatedProcess::new(seed);
    let config = EngineConfig {
        workers: u16::try_from(1 + seed % 4).unwrap(),
        process: Some(process.clone()),
        ..EngineConfig::default()
    };
    let engine = Engine::open_on(config, Arc::new(disk.clone())).unwrap();
    (process, engine)
}

/// Calls in flight when the machine crashes at any turn are whole or not there, in their order; those
/// that were answered are there. Sent again with their keys, each counts once.
#[test]
fn calls_in_flight_survive_a_crash_in_order_or_not_at_all() {
    let text = "CREATE PROCEDURE append(?n) AS {
        DELETE { <urn:c> <urn:sum> ?s } INSERT { <urn:c> <urn:sum> ?t }
            WHERE { <urn:c> <urn:sum> ?s BIND(?s + ?n AS ?t) };
        INSERT { <urn:log> <urn:has> ?n } WHERE { };
        RETURN SELECT ?s { <urn:c> <urn:sum> ?s }
    }";
    for seed in 0..60_u64 {
        let disk = SimDisk::new();
        let (process, engine) = simulated(&disk, seed);
        engine
            .update("INSERT DATA { <urn:c> <urn:sum> 0 }")
            .run()
            .unwrap();
        engine.declare(text).unwrap();
        let append = |engine: &Engine, number: u64| {
            let call = engine.call("append").arguments([integer(number as i64)]);
            call.key("till", number).begin().unwrap()
        };
        let first: Vec<_> = (1..=4).map(|number| append(&engine, number)).collect();
        for call in first {
            assert!(!integers(call.wait().unwrap()).is_empty());
        }
        let pending: Vec<_> = (5..=12).map(|number| append(&engine, number)).collect();
        for _ in 0..seed {
            process.take_turn();
        }
        let disk = disk.crash(CrashKeep::Seeded(seed));
        drop((pending, engine));
        let (_process, engine) = simulated(&disk, seed + 1_000);
        let logged = select(&engine, "SELECT ?n { <urn:log> <urn:has> ?n } ORDER BY ?n");
        let expected: Vec<i64> = (1..=logged.len() as i64).collect();
        assert_eq!(logged, expected, "seed {seed}: a prefix of the calls");
        assert!(logged.len() >= 4, "seed {seed}: {logged:?}");
        let sum = "SELECT ?s { <urn:c> <urn:sum> ?s }";
        assert_eq!(
            select(&engine, sum),
            [expected.iter().sum::<i64>()],
            "seed {seed}"
        );
        for number in 1..=12 {
            let answer = integers(append(&engine, number).wait().unwrap());
            assert_eq!(answer, [(number * (number + 1) / 2) as i64], "seed {seed}");
        }
        assert_eq!(select(&engine, sum), [78], "seed {seed}");
        engine.check().unwrap();
    }
}
