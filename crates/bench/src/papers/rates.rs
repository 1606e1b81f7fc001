//! Wukong+S, figure 13, for L4–L6: their times as the streams go from a quarter of the paper's rate
//! to four times it, each query alone; and at the highest rate on one core and on all of them. In
//! the paper they rise and stay under 16 ms; four cores instead of one make them 2.7 to 3.5 times
//! as quick. (L1–L3 are in `streams --only rates`.)

use super::{Failure, PaperPart, PapersOptions};
use crate::figures::sheet::{Grid, Sheet};
use crate::figures::table::thousands;
use crate::harness::target::{Row, at_most};
use crate::streams::figures::Point;
use crate::streams::rates::{QUARTERS, point};
use crate::streams::stage::{Stage, configuration, network};
use crate::streams::threads::Apart;

pub(super) const PART: PaperPart = PaperPart {
    name: "rates",
    run,
    rows,
};

const GROUP: [&str; 3] = ["L4", "L5", "L6"];
const COLUMNS: [&str; 4] = ["L4 p50, ms", "L5 p50, ms", "L6 p50, ms", "behind, ms"];
/// The paper's bound at its highest rate.
const PAPER_MS: f64 = 16.0;

/// Measures, and prints the figures as they come.
fn run(options: &PapersOptions) -> Result<Sheet, Failure> {
    let network = network(options.stored, options.rate);
    let mut stage = Stage::open(&network, configuration(options.workers))?;
    let sheet = Sheet::new(
        "Papers: L4–L6 as the streams go faster (Wukong+S, figure 13)",
        format!(
            "Execution p50 of each alone, {} stored triples; queries have the last core for themselves, where no other setting stands.",
            thousands(stage.stored.triples)
        ),
    );
    let mut grid = Grid::new("tuples/s", COLUMNS);
    let apart = Apart::keep();
    for quarters in QUARTERS {
        let rate = u64::from(options.rate * quarters / 4);
        let times = f64::from(quarters) / 4.0;
        let figures = point(&mut stage, &GROUP, options.seconds, rate, times)?;
        grid.line(thousands(rate), line(&figures));
    }
    drop(apart);
    let most = QUARTERS.into_iter().max().unwrap_or(4);
    let rate = u64::from(options.rate * most / 4);
    let times = f64::from(most) / 4.0;
    let figures = point(&mut stage, &GROUP, options.seconds, rate, times)?;
    grid.line(format!("{}, on all cores", thousands(rate)), line(&figures));
    stage.engine.shutdown()?;
    Ok(sheet.with([grid]))
}

fn line(point: &Point) -> [Option<f64>; 4] {
    let of = |name: &str| {
        let found = point.queries.iter().find(|query| query.query == name);
        found.map(|query| query.execution_p50_ms)
    };
    [of("L4"), of("L5"), of("L6"), Some(point.behind_ms as f64)]
}

/// The targets that these figures are held to.
fn rows(sheet: Option<&Sheet>) -> Vec<Row> {
    let row = |(query, column): (&str, &str)| {
        let what = format!("papers: {query} at any rate up to four times the paper's, p50");
        let figure = sheet.and_then(|sheet| sheet.most(column));
        at_most(&what, PAPER_MS, figure, "ms")
    };
    GROUP.into_iter().zip(COLUMNS).map(row).collect()
}
