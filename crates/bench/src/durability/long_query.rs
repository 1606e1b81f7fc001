//! A long one-shot query beside the streams at their rate: the memory that it makes the process
//! hold, and the time that it adds to a push. Two processes play the same stretch, one with the
//! query beside it.

use super::node::Node;
use super::orders::{Order, Playing};
use super::{DurabilityOptions, DurabilityPart, Failure};
use crate::figures::sheet::{Grid, Sheet};
use crate::figures::table::thousands;
use crate::harness::target::{Row, at_most};

pub(super) const PART: DurabilityPart = DurabilityPart {
    name: "long-query",
    run,
    rows,
};

const WITHOUT: &str = "without it";
const BESIDE: &str = "beside it";
const RESIDENT: &str = "resident at most, MB";
const PUSH: &str = "a batch's push p50, ms";
/// Played before the measurement.
const WARM_UP_MS: i64 = 2_000;

/// Measures, and prints the figures as they come.
fn run(options: &DurabilityOptions) -> Result<Sheet, Failure> {
    let sheet = Sheet::new(
        "Durability: a long query beside the streams",
        format!(
            "A one-shot query of about {} s over {} stored triples and more, five streams at {} tuples/s in real time, nine continuous queries, in memory; two processes with the same data.",
            options.heavy_seconds,
            thousands(options.stored_elsewhere),
            thousands(options.rate.into())
        ),
    );
    let columns = [RESIDENT, PUSH, "p99, ms", "behind, ms", "the query, s"];
    let mut grid = Grid::new("streams", columns);
    for (words, beside) in [(WITHOUT, false), (BESIDE, true)] {
        let playing = of(options, beside)?;
        grid.line(
            words,
            [
                Some(playing.resident_bytes as f64 / 1e6),
                Some(playing.batch_p50_ms),
                Some(playing.batch_p99_ms),
                Some(playing.behind_ms as f64),
                playing.query_seconds,
            ],
        );
    }
    Ok(sheet.with([grid]))
}

fn of(options: &DurabilityOptions, beside: bool) -> Result<Playing, Failure> {
    let mut node = Node::start(options, options.stored_elsewhere, None)?;
    node.order(&Order::Begin { passing: false })?;
    node.play(WARM_UP_MS, true, false)?;
    // Both processes look for the query, so that they have allocated the same.
    let seconds = options.heavy_seconds;
    node.order(&Order::FindLongQuery { seconds })?;
    let ms = i64::try_from(seconds)? * 1000;
    let playing = node.play(ms, true, beside)?;
    node.kill()?;
    Ok(playing)
}

/// The targets that these figures are held to.
fn rows(sheet: Option<&Sheet>) -> Vec<Row> {
    let against = |column: &str| {
        let of = |line| sheet?.figure(line, column);
        Some(of(BESIDE)? / of(WITHOUT)?)
    };
    vec![
        at_most(
            "durability: memory beside a long query, against without",
            1.1,
            against(RESIDENT),
            "×",
        ),
        at_most(
            "durability: a batch's push beside it, p50 against without",
            1.5,
            against(PUSH),
            "×",
        ),
    ]
}
