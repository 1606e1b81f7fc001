//! Terms that only expired timing statements used: an hour of a timing stream whose statements each
//! have a new IRI, played as fast as the engine takes it, with a standing query that finds some of
//! them. The resident memory of the process should stop growing once the stream is as old as the
//! statements that it keeps.

use super::measure::{QUIESCE, Reader};
use super::stage::configuration;
use super::{Failure, StreamsOptions};
use crate::figures::table;
use crate::harness::machine::{Machine, resident_bytes};
use crate::harness::markdown;
use crate::harness::target::{Row, at_most};
use serde::{Deserialize, Serialize};
use somersault::{Engine, EventTime, PushLines};
use std::fmt::Write as _;
use std::time::Instant;

const STREAM: &str = "http://example.org/stream/fixes";
/// The time that is kept, the statements a second of event time, and the number of places.
const KEEP_MS: i64 = 30_000;
const RATE: i64 = 10_000;
const PLACES: i64 = 1_000;
const BATCH_MS: i64 = 100;
const HOUR_MS: i64 = 3_600_000;
/// The event time between samples, of which one in [`PRINTED`] is printed.
const SAMPLE_MS: i64 = 10_000;
const PRINTED: usize = 30;
/// The event time in which slices, terms and tables grow to their final size.
const WARM_MS: i64 = 180_000;

/// Figures of this part.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Terms {
    pub(crate) machine: Machine,
    pub(crate) statements: u64,
    pub(crate) keep_ms: i64,
    pub(crate) seconds: f64,
    /// Firings of the standing query, and their rows.
    pub(crate) firings: usize,
    pub(crate) rows: u64,
    pub(crate) curve: Vec<Sample>,
}

/// The state at one time of the stream.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Sample {
    pub(crate) at_ms: i64,
    pub(crate) resident_bytes: u64,
    pub(crate) dictionary_bytes: u64,
    pub(crate) terms: u64,
    pub(crate) reclaimed: u64,
}

impl Terms {
    fn count(&mut self, reader: &Reader) -> Result<(), Failure> {
        reader.read(|firing| {
            self.firings += 1;
            self.rows += firing.rows;
        })
    }

    /// The largest resident memory of the last third over that of the first, once it is warm;
    /// `None` with too few samples.
    pub(super) fn growth(&self) -> Option<f64> {
        let warm = self.curve.iter().filter(|sample| sample.at_ms >= WARM_MS);
        let resident: Vec<u64> = warm.map(|sample| sample.resident_bytes).collect();
        let third = resident.len() / 3;
        let most = |part: &[u64]| part.iter().max().copied();
        let first = most(resident.get(..third)?)?;
        let last = most(resident.get(resident.len() - third..)?)?;
        Some(last as f64 / first as f64)
    }
}

/// Measures, and prints the figures as they come.
pub(super) fn run(options: &StreamsOptions) -> Result<Terms, Failure> {
    play(options, HOUR_MS)
}

fn play(options: &StreamsOptions, until_ms: i64) -> Result<Terms, Failure> {
    let engine = Engine::open(configuration(options.workers))?;
    let declaration = format!(
        "CREATE STREAM <{STREAM}> TIMING ALL BATCH {BATCH_MS}ms KEEP {KEEP_MS}ms IDLE NEVER BUDGET {}",
        4u64 << 30
    );
    engine.create_stream(None, &declaration)?;
    let text = format!(
        "SELECT ?fix FROM NAMED STREAM <{STREAM}> [RANGE 10s STEP 1s] \
         WHERE {{ GRAPH <{STREAM}> {{ ?fix <http://example.org/at> <http://example.org/place/7> }} }}"
    );
    let reader = Reader::register(&engine, "fixes", &text)?;
    let mut figures = Terms {
        machine: Machine::read(),
        keep_ms: KEEP_MS,
        ..Terms::default()
    };
    let began = Instant::now();
    let mut lines = String::new();
    let mut statement = 0;
    for batch in 0..until_ms / BATCH_MS {
        lines.clear();
        let each = RATE * BATCH_MS / 1000;
        for n in 0..each {
            let at_ms = batch * BATCH_MS + n * BATCH_MS / each;
            writeln!(
                lines,
                "{at_ms}\t<http://example.org/fix/{statement}> <http://example.org/at> <http://example.org/place/{}> .",
                statement % PLACES
            )?;
            statement += 1;
        }
        let push = PushLines {
            lines: lines.as_bytes(),
            ..PushLines::default()
        };
        engine.push_lines(STREAM, push)?;
        let at_ms = (batch + 1) * BATCH_MS;
        if at_ms % SAMPLE_MS == 0 {
            // The answer that was read is released: 64 answers are kept all the same, with their
            // terms.
            figures.count(&reader)?;
            figures.curve.push(sample(&engine, at_ms));
            if figures.curve.len() % PRINTED == 1 {
                say(&figures.curve[figures.curve.len() - 1], began);
            }
        }
    }
    engine.advance([(STREAM, EventTime(until_ms))])?;
    engine.quiesce(QUIESCE)?;
    figures.seconds = began.elapsed().as_secs_f64();
    figures.statements = statement as u64;
    figures.count(&reader)?;
    println!(
        "{} statements in {:.0} s, {} firings with {} rows; resident at the end {:.3} times what it was",
        table::thousands(figures.statements),
        figures.seconds,
        figures.firings,
        table::thousands(figures.rows),
        figures.growth().unwrap_or(f64::NAN)
    );
    engine.shutdown()?;
    Ok(figures)
}

fn sample(engine: &Engine, at_ms: i64) -> Sample {
    let metrics = engine.metrics();
    Sample {
        at_ms,
        resident_bytes: resident_bytes(),
        dictionary_bytes: metrics.memory.dictionary_bytes,
        terms: metrics.terms,
        reclaimed: metrics.reclaimed_terms,
    }
}

fn say(sample: &Sample, began: Instant) {
    println!(
        "minute {:>4.1}: resident {:>5} MiB, dictionary {:>4} MiB, {:>10} terms, {:>11} reclaimed, after {:.0} s",
        sample.at_ms as f64 / 60_000.0,
        sample.resident_bytes >> 20,
        sample.dictionary_bytes >> 20,
        table::thousands(sample.terms),
        table::thousands(sample.reclaimed),
        began.elapsed().as_secs_f64()
    );
}

/// The target of this part.
pub(super) fn row(terms: Option<&Terms>) -> Row {
    at_most(
        "streams: resident memory, an hour of fresh terms, last third against first",
        1.1,
        terms.and_then(Terms::growth),
        "×",
    )
}

/// The figures as a table.
pub(super) fn report(terms: &Terms) -> String {
    let mut out = format!(
        "\n## Streams: an hour of fresh terms\n\n{}. {} statements, each with an IRI of its own, on a stream that keeps {} s, in {:.0} s, with a \
         query over 10 s of it ({} firings, {} rows). Most resident in the last third against the first: {:.3}×.\n\n",
        terms.machine,
        table::thousands(terms.statements),
        terms.keep_ms / 1000,
        terms.seconds,
        terms.firings,
        table::thousands(terms.rows),
        terms.growth().unwrap_or(f64::NAN)
    );
    let names = [
        "minute",
        "resident, MiB",
        "dictionary, MiB",
        "terms",
        "reclaimed",
    ];
    let shown = terms.curve.iter().skip(PRINTED - 1).step_by(PRINTED);
    let lines = shown.map(|sample| {
        [
            format!("{:.0}", sample.at_ms as f64 / 60_000.0),
            (sample.resident_bytes >> 20).to_string(),
            (sample.dictionary_bytes >> 20).to_string(),
            table::thousands(sample.terms),
            table::thousands(sample.reclaimed),
        ]
    });
    markdown::table(&mut out, names, lines);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minute_of_fresh_terms_is_reclaimed() {
        let figures = play(&StreamsOptions::smallest(), 40_000).unwrap();
        assert_eq!(figures.statements, 400_000);
        assert_eq!(figures.firings, 40);
        assert!(figures.rows > 0);
        let last = figures.curve.last().unwrap();
        assert!(last.reclaimed > 0, "{last:?}");
        assert_eq!(figures.growth(), None, "it was never warm");
    }

    #[test]
    fn growth_is_that_of_the_most() {
        let curve = (0..100).map(|at| Sample {
            at_ms: WARM_MS + at,
            resident_bytes: 1000 + at as u64,
            ..Sample::default()
        });
        let terms = Terms {
            curve: curve.collect(),
            ..Terms::default()
        };
        let growth = terms.growth().unwrap();
        assert!((growth - 1099.0 / 1032.0).abs() < 1e-9, "{growth}");
    }
}
