//! From the last record acknowledged to the answer ready: L1–L3, each alone, batches of 100 ms at
//! the paper's rate; with batches prepared while they are open, and without, in the same run, with
//! the processor time of a tuple in both.

use super::{DurabilityOptions, DurabilityPart, Failure};
use crate::figures::sheet::{Grid, Sheet};
use crate::figures::table::thousands;
use crate::harness::target::{Row, at_most};
use crate::streams::measure::{Play, measure, named};
use crate::streams::stage::{Stage, configuration, network};
use somersault::EngineConfig;
use somersault_generate::SocialNetwork;

pub(super) const PART: DurabilityPart = DurabilityPart {
    name: "delay",
    run,
    rows,
};

const QUERIES: [&str; 3] = ["L1", "L2", "L3"];
const PREPARED: &str = "prepared";
const NOT_PREPARED: &str = "not prepared";
const P50: &str = "delay p50, ms";
const P99: &str = "delay p99, ms";
const COST: &str = "µs of processor time a tuple";

/// Measures, and prints the figures as they come.
fn run(options: &DurabilityOptions) -> Result<Sheet, Failure> {
    let network = network(options.stored_elsewhere, options.rate);
    let sheet = Sheet::new(
        "Durability: from the last record to the answer",
        format!(
            "L1–L3, each alone, five streams at {} tuples/s in real time, batches of 100 ms, over {} stored triples.",
            thousands(options.rate.into()),
            thousands(options.stored_elsewhere)
        ),
    );
    let mut grid = Grid::new("query, batches", [P50, P99, COST]);
    let prepared = configuration(options.workers).portion;
    for (words, portion) in [(NOT_PREPARED, usize::MAX), (PREPARED, prepared)] {
        of(&network, options, words, portion, &mut grid)?;
    }
    Ok(sheet.with([grid]))
}

fn of(
    network: &SocialNetwork,
    options: &DurabilityOptions,
    words: &str,
    portion: usize,
    grid: &mut Grid,
) -> Result<(), Failure> {
    let config = EngineConfig {
        portion,
        ..configuration(options.workers)
    };
    let mut stage = Stage::open(network, config)?;
    let warm_up = stage.stretch(2_000, 1.0);
    stage.play(warm_up, true)?;
    let how = Play {
        duration_ms: options.seconds * 1000,
        times: 1.0,
        paced: true,
    };
    for query in QUERIES {
        let queries = named(&stage, &[query]);
        let measured = measure(&mut stage, &queries, how)?;
        let figures = measured.queries.first().ok_or("the query has not fired")?;
        grid.line(
            line(query, words),
            [
                Some(figures.delay_p50_ms),
                Some(figures.delay_p99_ms),
                Some(measured.us_per_tuple),
            ],
        );
    }
    stage.engine.shutdown()?;
    Ok(())
}

fn line(query: &str, words: &str) -> String {
    format!("{query}, {words}")
}

/// The targets that these figures are held to.
fn rows(sheet: Option<&Sheet>) -> Vec<Row> {
    let figures = |words: &str, column: &str| -> Option<Vec<f64>> {
        let of = |query: &&str| sheet?.figure(&line(query, words), column);
        QUERIES.iter().map(of).collect()
    };
    let most = |column: &str| figures(PREPARED, column)?.into_iter().reduce(f64::max);
    let sum = |words: &str| Some(figures(words, COST)?.iter().sum::<f64>());
    let cost = || Some(sum(PREPARED)? / sum(NOT_PREPARED)?);
    vec![
        at_most(
            "durability: last record acknowledged to answer ready, L1–L3, p50",
            3.0,
            most(P50),
            "ms",
        ),
        at_most("durability: the same, p99", 6.0, most(P99), "ms"),
        at_most(
            "durability: processor time a tuple, batches prepared against not",
            1.0,
            cost(),
            "×",
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_query_counts_and_costs_are_of_all() {
        let mut grid = Grid::new("query, batches", [P50, P99, COST]);
        for (query, ms) in QUERIES.into_iter().zip([1.0, 2.0, 3.5]) {
            grid.line(line(query, PREPARED), [Some(ms), Some(2.0 * ms), Some(2.0)]);
            grid.line(line(query, NOT_PREPARED), [Some(9.0), Some(9.0), Some(1.0)]);
        }
        let sheet = Sheet::new("", "").with([grid]);
        let figures: Vec<String> = rows(Some(&sheet))
            .into_iter()
            .map(|row| row.figure)
            .collect();
        assert_eq!(figures, ["3.50 ms", "7.00 ms", "2.00 ×"]);
    }
}
