//! Wukong+S, table 6: the time to inject and index a batch of 100 ms, stream by stream. The paper
//! times its injector on a node of its cluster. Here one stream at a time is pushed as text, batch
//! after batch, on a quiet engine without queries: the time of the push until it is acknowledged,
//! and that of the close until it is visible. Batches are prepared while they are open, so most of
//! the injection belongs to neither; therefore the processor time is shown as well.

use super::{Failure, PaperPart, PapersOptions};
use crate::figures::sheet::{Grid, Sheet};
use crate::harness::target::{Row, at_most};
use crate::streams::absorption::{Batch, texts};
use crate::streams::figures::quantile_ms;
use crate::streams::stage::{BATCH_MS, Stage, configuration, network};
use crate::streams::threads::Spent;
use somersault::{Engine, EventTime, PushLines};
use somersault_generate::StreamKind;
use std::time::{Duration, Instant};

pub(super) const PART: PaperPart = PaperPart {
    name: "injection",
    run,
    rows,
};

/// The most that is stored.
const MOST_STORED: u64 = 1_000_000;
/// The batches whose times do not count: tables grow to their size.
const WARM_UP: usize = 5;
const CLOSE: &str = "close to visible p50, ms";
const PAPER: &str = "the paper, ms";
/// The paper's totals, in the order of the streams.
const PAPER_MS: [f64; 5] = [0.75, 2.20, 0.67, 0.37, 1.57];

/// Measures, and prints the figures as they come.
fn run(options: &PapersOptions) -> Result<Sheet, Failure> {
    let network = network(options.stored.min(MOST_STORED), options.rate);
    let sheet = Sheet::new(
        "Papers: the injection of a batch (Wukong+S, table 6)",
        "One stream at a time, as text, in batches of 100 ms, one after the other on a quiet engine.",
    );
    let columns = [
        "tuples a batch",
        "push p50, ms",
        CLOSE,
        "injectors, ms of processor time",
        "all threads, ms of processor time",
        PAPER,
    ];
    let mut grid = Grid::new("stream", columns);
    let mut stage = Stage::open(&network, configuration(options.workers))?;
    let lead_ms = WARM_UP as i64 * BATCH_MS;
    let stretch = stage.stretch(lead_ms + options.seconds * 1000, 1.0);
    let batches = texts(&stretch);
    for (kind, paper) in StreamKind::ALL.into_iter().zip(PAPER_MS) {
        let taken = take(&stage.engine, &batches, kind)?;
        let each = |spent: Duration| spent.as_secs_f64() * 1e3 / taken.closes.len() as f64;
        let injectors = taken.spent.iter().find(|(name, _)| name == "injectors");
        grid.line(
            kind.short_name(),
            [
                Some(taken.tuples as f64 / taken.closes.len() as f64),
                Some(quantile_ms(&taken.pushes, 50)),
                Some(quantile_ms(&taken.closes, 50)),
                injectors.map(|(_, spent)| each(*spent)),
                Some(each(taken.spent.iter().map(|(_, spent)| *spent).sum())),
                Some(paper),
            ],
        );
    }
    stage.engine.shutdown()?;
    Ok(sheet.with([grid]))
}

/// The batches of one stream, as they were taken.
struct Injected {
    tuples: u64,
    /// Ascending times of the pushes, and of the closes.
    pushes: Vec<Duration>,
    closes: Vec<Duration>,
    /// Processor time by group of threads.
    spent: Vec<(String, Duration)>,
}

fn take(engine: &Engine, batches: &[Batch], kind: StreamKind) -> Result<Injected, Failure> {
    let mut taken = Injected {
        tuples: 0,
        pushes: Vec::new(),
        closes: Vec::new(),
        spent: Vec::new(),
    };
    let mut before = Spent::now();
    for (number, batch) in batches.iter().enumerate() {
        if number == WARM_UP {
            before = Spent::now();
        }
        let push = PushLines {
            lines: batch.texts[kind.index()].as_bytes(),
            ..PushLines::default()
        };
        let start = Instant::now();
        let accepted = engine.push_lines(kind.iri(), push)?.accepted;
        let pushed = start.elapsed();
        engine.advance([(kind.iri(), EventTime(batch.end_ms))])?;
        if number >= WARM_UP {
            taken.tuples += accepted;
            taken.pushes.push(pushed);
            taken.closes.push(start.elapsed() - pushed);
        }
    }
    taken.spent = Spent::now().since(&before);
    taken.pushes.sort_unstable();
    taken.closes.sort_unstable();
    Ok(taken)
}

/// The targets that these figures are held to.
fn rows(sheet: Option<&Sheet>) -> Vec<Row> {
    let row = |(kind, paper): (StreamKind, f64)| {
        let name = kind.short_name();
        let what = format!("papers: a batch of {name}, close to visible, p50");
        let figure = sheet.and_then(|sheet| sheet.figure(name, CLOSE));
        at_most(&what, paper, figure, "ms")
    };
    StreamKind::ALL.into_iter().zip(PAPER_MS).map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::target::Verdict;

    #[test]
    fn every_stream_is_measured() {
        let sheet = run(&PapersOptions::smallest()).unwrap();
        // 86 of 133.5 tuples are likes of posts: 2,000 a second are 128 a batch.
        let tuples = sheet.figure("POL", "tuples a batch").unwrap();
        assert!((110.0..150.0).contains(&tuples), "{tuples}");
        let rows = rows(Some(&sheet));
        assert!(rows.iter().all(|row| row.verdict != Verdict::NotMeasured));
    }
}
