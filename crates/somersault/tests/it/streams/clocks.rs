//! A machine's clock that jumps by hours and years, forth and back, while the engine runs. Streams
//! that follow it may be carried away, and are told so; nothing else may be affected.

use crate::support::scenario::*;
use somersault::process_simulation::SimulatedProcess;
use somersault::{Clock, Engine, EngineConfig, EngineError};

const SECOND: i64 = 1_000;
const HOUR: i64 = 3_600 * SECOND;
const YEAR: i64 = 365 * 24 * HOUR;
/// The right time when the machine starts.
const START: i64 = 1_700_000_000_000;
const STREAMS: [(&str, &str); 4] = [
    ("arrival", "ARRIVAL TIME"),
    ("idle", "IDLE 1s"),
    ("never", "IDLE NEVER"),
    ("amend", "IDLE 1s LATENESS 1s LATE AMEND WITHIN 1m"),
];
/// Rounds of requests between two jumps, half a second apart.
const ROUNDS: i64 = 8;

/// An engine in a process whose wall clock the test sets.
struct Machine {
    process: SimulatedProcess,
    engine: Engine,
    /// The right time.
    time: i64,
    /// The distance of the clock from it.
    wrong_by: i64,
    requests: u64,
    taken: u64,
    late: u64,
}

impl Machine {
    fn start(seed: u64) -> Machine {
        let process = SimulatedProcess::new(seed);
        process.set_wall_clock(START);
        let engine = Engine::open(EngineConfig {
            process: Some(process.clone()),
            clock: Clock::System,
            ..EngineConfig::default()
        });
        let machine = Machine {
            process,
            engine: engine.unwrap(),
            time: START,
            wrong_by: 0,
            requests: 0,
            taken: 0,
            late: 0,
        };
        for (name, clauses) in STREAMS {
            let text = format!("CREATE STREAM <{NS}{name}> TIMELESS {clauses} BATCH 100ms");
            machine.engine.create_stream(None, &text).unwrap();
            machine.register(name);
        }
        machine
    }

    fn register(&self, name: &str) {
        let text = format!(
            "SELECT (COUNT(*) AS ?n) FROM NAMED STREAM <{NS}{name}> [RANGE 2s STEP 1s] WHERE {{ GRAPH <{NS}{name}> {{ ?s ?p ?o }} }}"
        );
        self.engine.register(Some(name), &text).unwrap();
    }

    fn firings(&self, name: &str) -> u64 {
        self.engine.query_info(name).unwrap().firings
    }

    /// Lets time pass, and pushes to each stream what happens now by the clock.
    fn round(&mut self) {
        self.time += SECOND / 2;
        let now = self.time + self.wrong_by;
        self.process.set_wall_clock(now);
        for (name, clauses) in STREAMS {
            self.requests += 1;
            let statement = format!("s{} p o", self.requests);
            let mut push = push(&[(now, &statement)]);
            if clauses == "ARRIVAL TIME" {
                push.statements[0].at = None;
            }
            match self.engine.push(&format!("{NS}{name}"), push) {
                Ok(receipt) => self.taken += receipt.accepted,
                Err(EngineError::Late(_)) => self.late += 1,
                Err(other) => panic!("{name}: {other}"),
            }
        }
        let update = format!(
            "INSERT DATA {{ GRAPH <urn:g> {{ <urn:s> <urn:p> {} }} }}",
            self.requests
        );
        self.engine.update(&update).run().unwrap();
        assert!(ask(&self.engine, "ASK {}"));
        for _ in 0..100 {
            self.process.take_turn();
        }
    }

    fn rounds(&mut self) {
        for _ in 0..ROUNDS {
            self.round();
        }
    }
}

fn ask(engine: &Engine, text: &str) -> bool {
    let results = engine.query(text).run().unwrap();
    results.answer.boolean().unwrap()
}

#[test]
fn a_clock_that_jumps_neither_stops_nor_floods_the_engine() {
    for seed in 0..6 {
        let mut machine = Machine::start(seed);
        machine.rounds();
        assert_eq!(machine.late, 0);
        for wrong_by in [HOUR, 0, -HOUR, 0, YEAR, HOUR, -YEAR, 0] {
            machine.wrong_by = wrong_by;
            let before = STREAMS.map(|(name, _)| machine.firings(name));
            machine.rounds();
            for ((name, _), before) in STREAMS.iter().zip(before) {
                // Closes that nothing changes are passed in bulk.
                let fired = machine.firings(name) - before;
                assert!(
                    fired < 3 * ROUNDS as u64,
                    "{name}: {fired} firings after {wrong_by} ms"
                );
            }
        }
        assert!(machine.late > 0, "streams were carried away");
        // A stream that begins again works as before.
        for (name, _) in STREAMS {
            machine.engine.drop_query(name).unwrap();
            machine.engine.reset_stream(&format!("{NS}{name}")).unwrap();
            machine.register(name);
        }
        // Every statement that was taken is stored.
        let stored = machine.engine.query("SELECT * { ?s ?p ?o }").run().unwrap();
        assert_eq!(stored.answer.len() as u64, machine.taken, "seed {seed}");
        let (late, taken) = (machine.late, machine.taken);
        machine.rounds();
        assert_eq!(machine.late, late, "seed {seed}");
        assert_eq!(machine.taken, taken + 4 * ROUNDS as u64);
        for (name, _) in STREAMS {
            assert!(
                machine.firings(name) > 1,
                "seed {seed}: {name} does not fire"
            );
        }
        machine.engine.shutdown().unwrap();
    }
}
