//! CityBench: C1–C6 together over fourteen sensors, each close on a quiet engine, its rows compared
//! with the reference's.

use super::figures::{CityBench, Stolen};
use super::measure::{Firing, QUIESCE, Reader, figures_of, heading, print_figures};
use super::stage::configuration;
use super::suite::Suite;
use super::{Failure, StreamsOptions};
use crate::harness::machine::Machine;
use somersault::Engine;
use somersault::replay::{Speed, Step, replay};

/// The number of times that the recording is played, each time into a new engine.
const LAPS: usize = 20;
/// Every query's windows slide by this.
const STEP_MS: i64 = 1_000;

/// Measures, and prints the figures as they come.
pub(super) fn run(options: &StreamsOptions) -> Result<CityBench, Failure> {
    let suite = Suite::read("suite.json")?;
    let stolen = Stolen::from_here();
    let mut firings: Vec<Vec<Firing>> = suite.continuous.iter().map(|_| Vec::new()).collect();
    let mut differences = Vec::new();
    for _ in 0..LAPS {
        lap(&suite, options, &mut firings, &mut differences)?;
    }
    differences.sort();
    differences.dedup();
    let stolen_ms = stolen.ms();
    let mut figures = CityBench {
        machine: Machine::read(),
        laps: LAPS,
        differences,
        stolen_ms,
        ..CityBench::default()
    };
    heading();
    for (query, firings) in suite.continuous.iter().zip(&firings) {
        let row = figures_of(&query.name, STEP_MS, firings, stolen_ms)?;
        print_figures(&row);
        figures.queries.push(row);
    }
    match figures.differences.as_slice() {
        [] => println!("all rows are as many as the reference's"),
        differences => differences
            .iter()
            .for_each(|sentence| println!("{sentence}")),
    }
    Ok(figures)
}

fn lap(
    suite: &Suite,
    options: &StreamsOptions,
    firings: &mut [Vec<Firing>],
    differences: &mut Vec<String>,
) -> Result<(), Failure> {
    let engine = Engine::open(configuration(options.workers))?;
    suite.prepare(&engine)?;
    let mut readers = Vec::new();
    for query in &suite.continuous {
        readers.push(Reader::register(&engine, &query.name, &suite.text(query)?)?);
    }
    replay(&engine, &suite.plan(), Speed::Max, &mut |step, _| {
        if let Step::Advance { .. } = step {
            engine.quiesce(QUIESCE)?;
        }
        Ok(())
    })?;
    for ((query, reader), firings) in suite.continuous.iter().zip(&readers).zip(firings) {
        let expected = suite.rows(query)?;
        reader.read(|firing| {
            let wanted = expected.get(&firing.close_ms).copied().unwrap_or(0);
            if wanted != firing.rows {
                differences.push(format!(
                    "{} at {} has {} rows, the reference {wanted}",
                    query.name, firing.close_ms, firing.rows
                ));
            }
            firings.push(firing);
        })?;
    }
    engine.shutdown()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lap_has_the_rows_of_the_reference() {
        let Ok(suite) = Suite::read("suite.json") else {
            println!("skipped: no test data");
            return;
        };
        let mut firings: Vec<Vec<Firing>> = suite.continuous.iter().map(|_| Vec::new()).collect();
        let mut differences = Vec::new();
        lap(
            &suite,
            &StreamsOptions::smallest(),
            &mut firings,
            &mut differences,
        )
        .unwrap();
        assert_eq!(differences, Vec::<String>::new());
        assert!(
            firings.iter().all(|firings| firings.len() == 20),
            "{firings:?}"
        );
    }
}
