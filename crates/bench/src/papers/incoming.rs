//! Wukong, table 4: L1–L7 of LUBM while a million triples a second come in, against standing still.
//! The paper has 10,240 universities on six machines; its overheads are 4.7 to 12.0%. Here it is
//! some universities on one machine, and further ones come in as a stream of text that is absorbed
//! into the same graph. Since that graph grows within the run, a query beside the stream is
//! compared with the mean of its times before and after it.

use super::ask::{Asked, ask_for, ask_while};
use super::universities::load;
use super::{Failure, PaperPart, PapersOptions};
use crate::figures::results::geometric_mean;
use crate::figures::sheet::{Grid, Sheet};
use crate::figures::table::thousands;
use crate::harness::target::{Row, at_least, at_most};
use crate::streams::stage::configuration;
use somersault::{Engine, EventTime, PushLines};
use somersault_generate::Universities;
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

pub(super) const PART: PaperPart = PaperPart {
    name: "incoming",
    run,
    rows,
};

const STREAM: &str = "http://example.org/stream/universities";
const BATCH_MS: i64 = 100;
/// The light queries, which the paper slows by 6.3% at most, and the heavy ones, by 12.0%.
const LIGHT: [&str; 3] = ["L4", "L5", "L6"];
const MEAN: &str = "geometric mean";
const LIGHT_MEAN: &str = "geometric mean of L4–L6";
const AGAINST: &str = "beside against still, ×";
const CAME: &str = "triples/s that came in";
/// The overheads of the paper, of L1 to L7.
const PAPER_PERCENT: [f64; 7] = [12.0, 10.3, 8.6, 4.7, 5.6, 6.3, 10.1];
const PAPER_MOST: f64 = 1.12;
const PAPER_MOST_LIGHT: f64 = 1.063;

/// Measures, and prints the figures as they come.
fn run(options: &PapersOptions) -> Result<Sheet, Failure> {
    let engine = Engine::open(configuration(options.workers))?;
    let loaded = load(&engine, options.some_universities)?;
    let text = format!("CREATE STREAM <{STREAM}> TIMELESS BATCH {BATCH_MS}ms IDLE NEVER");
    engine.create_stream(None, &text)?;
    let sheet = Sheet::new(
        "Papers: queries beside incoming triples (Wukong, table 4)",
        format!(
            "LUBM-like, {} universities, {} triples stored at first; {} triples/s were sent, as text, for {} s beside each query.",
            options.some_universities,
            thousands(loaded.triples),
            thousands(options.incoming),
            options.seconds
        ),
    );
    let columns = [
        "before p50, ms",
        "beside p50, ms",
        "after p50, ms",
        AGAINST,
        CAME,
        "the paper, ×",
    ];
    let mut grid = Grid::new("query", columns);
    let (mut ratios, mut rates) = (Vec::new(), Vec::new());
    let mut feed = Feed::after(options.some_universities);
    let still = Duration::from_millis(options.seconds.unsigned_abs() * 250);
    for (query, paper) in Universities::queries().iter().zip(PAPER_PERCENT) {
        let texts = feed.batches(options.incoming, options.seconds * 1000);
        let before = ask_for(&engine, &query.text, still)?;
        let (asked, came) = beside(&engine, &query.text, texts)?;
        let after = ask_for(&engine, &query.text, still)?;
        let against = asked.p50() / ((before.p50() + after.p50()) / 2.0);
        ratios.push((query.name, against));
        rates.push(came);
        let values = [before.p50(), asked.p50(), after.p50(), against, came];
        let [before, asked, after, against, came] = values.map(Some);
        let paper = Some(1.0 + paper / 100.0);
        grid.line(query.name, [before, asked, after, against, came, paper]);
    }
    let mean = |of: &dyn Fn(&str) -> bool| {
        let ratios = ratios.iter().filter(|(name, _)| of(name));
        geometric_mean(&ratios.map(|(_, ratio)| *ratio).collect::<Vec<_>>())
    };
    let (light, all) = (mean(&|name| LIGHT.contains(&name)), mean(&|_| true));
    grid.line(LIGHT_MEAN, [None, None, None, light, None, None]);
    let came = geometric_mean(&rates);
    grid.line(MEAN, [None, None, None, all, came, None]);
    engine.shutdown()?;
    Ok(sheet.with([grid]))
}

/// Further universities as batches of text.
struct Feed {
    next: u32,
    /// Triples that were made and not given yet, as lines without their times.
    ready: VecDeque<String>,
    at_ms: i64,
}

/// A batch: its text, its end, and its triples.
struct FedBatch {
    text: String,
    end_ms: i64,
    triples: u64,
}

impl Feed {
    fn after(universities: u32) -> Feed {
        Feed {
            next: universities,
            ready: VecDeque::new(),
            at_ms: 0,
        }
    }

    /// The batches of a time at a rate.
    fn batches(&mut self, a_second: u64, duration_ms: i64) -> Vec<FedBatch> {
        let each = (a_second * BATCH_MS.unsigned_abs() / 1000).max(1);
        let batch = |_| {
            while (self.ready.len() as u64) < each {
                let ready = &mut self.ready;
                let made = Universities::new(1);
                made.generate(self.next, |triple| ready.push_back(triple.to_string()));
                self.next += 1;
            }
            let mut text = String::new();
            for triple in self.ready.drain(..each as usize) {
                // Writing into a string does not fail.
                let _ = writeln!(text, "{}\t{triple} .", self.at_ms);
            }
            self.at_ms += BATCH_MS;
            FedBatch {
                text,
                end_ms: self.at_ms,
                triples: each,
            }
        };
        (0..duration_ms / BATCH_MS).map(batch).collect()
    }
}

/// Asks while the batches come in, each at its time or as soon as the engine takes it; returns also
/// the triples that came in a second.
fn beside(engine: &Engine, text: &str, batches: Vec<FedBatch>) -> Result<(Asked, f64), Failure> {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let over = &over;
        let feeder = scope.spawn(move || {
            let fed = feed(engine, batches);
            over.store(true, Ordering::Release);
            fed
        });
        let goes_on = || !over.load(Ordering::Acquire);
        let asked = ask_while(engine, text, Duration::ZERO, goes_on);
        let came = feeder.join();
        let came = came.map_err(|_| "the thread that pushes has panicked")?;
        Ok((asked?, came?))
    })
}

fn feed(engine: &Engine, batches: Vec<FedBatch>) -> Result<f64, Failure> {
    let start = Instant::now();
    let mut triples = 0;
    for (number, batch) in (1..).zip(&batches) {
        let due = Duration::from_millis(BATCH_MS.unsigned_abs() * (number - 1));
        std::thread::sleep(due.saturating_sub(start.elapsed()));
        let push = PushLines {
            lines: batch.text.as_bytes(),
            ..PushLines::default()
        };
        engine.push_lines(STREAM, push)?;
        engine.advance([(STREAM, EventTime(batch.end_ms))])?;
        triples += batch.triples;
    }
    let planned = Duration::from_millis(BATCH_MS.unsigned_abs() * batches.len() as u64);
    let took = start.elapsed().max(planned);
    Ok(triples as f64 / took.as_secs_f64())
}

/// The targets that these figures are held to.
fn rows(sheet: Option<&Sheet>) -> Vec<Row> {
    let figure = |line: &str, column: &str| sheet?.figure(line, column);
    vec![
        at_least(
            "papers: triples/s that come in beside L1–L7",
            1e6,
            figure(MEAN, CAME),
            "triples/s",
        ),
        at_most(
            "papers: L1–L7 beside them, mean against standing still",
            PAPER_MOST,
            figure(MEAN, AGAINST),
            "×",
        ),
        at_most(
            "papers: L4–L6 beside them, mean against standing still",
            PAPER_MOST_LIGHT,
            figure(LIGHT_MEAN, AGAINST),
            "×",
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_have_their_share_of_a_second_and_go_on_where_the_last_ended() {
        let mut feed = Feed::after(3);
        let first = feed.batches(1_000, 200);
        assert_eq!(first.len(), 2);
        assert_eq!((first[1].triples, first[1].end_ms), (100, 200));
        assert_eq!(first[1].text.lines().count(), 100);
        assert!(first[1].text.starts_with("100\t<http://www."));
        let next = feed.batches(1_000, 100);
        assert!(next[0].text.starts_with("200\t<"));
        assert_ne!(first[0].text[4..], next[0].text[4..]);
    }
}
