//! Registers queries of different shapes, in four parts, and prints what each part takes:
//! `cargo run --release --example many_shapes -- 20000`. No two queries share a plan here, so it
//! shows the price of a cohort and not that of a member. The time of a query must not grow with the
//! number of queries before it.

use somersault::{Engine, EngineConfig, NewQuery};
use std::time::Instant;

/// The resident memory of this process in KiB, where the system tells it.
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().nth(1));
    number.and_then(|kib| kib.parse().ok()).unwrap_or(0)
}

fn query(number: usize) -> NewQuery {
    NewQuery {
        name: Some(format!("query{number}")),
        text: format!(
            "PREFIX : <http://x/> SELECT ?a ?c FROM STREAM :s [RANGE 10s STEP 1s] \
             WHERE {{ GRAPH :s {{ ?a :p{number} ?b }} ?b :q ?c FILTER(?c > 3) }}"
        ),
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let queries: usize = std::env::args().nth(1).map_or(Ok(4_000), |n| n.parse())?;
    let engine = Engine::open(EngineConfig::default())?;
    engine.create_stream(None, "CREATE STREAM <http://x/s> BATCH 1s IDLE NEVER")?;
    let part = queries.div_ceil(4);
    for first in (0..queries).step_by(part.max(1)) {
        let (start, resident) = (Instant::now(), resident_kib());
        let numbers = first..(first + part).min(queries);
        let count = numbers.len();
        for outcome in engine.register_many(numbers.map(query))? {
            outcome?;
        }
        println!(
            "{count} queries: {:.2} s, {:.1} KiB resident each",
            start.elapsed().as_secs_f64(),
            (resident_kib().saturating_sub(resident)) as f64 / count as f64
        );
    }
    engine.shutdown()?;
    Ok(())
}
