//! Wukong, table 5: what each design choice contributes. The paper adds its choices to a base one
//! by one (RDMA, full-history pruning, index vertices, the predicate-based store, dynamic modes).
//! Ours are others, and each is left out by itself, in the same run: plans that are kept, queries
//! that are answered on their caller's thread, help from idle threads, loading in one piece; and
//! for continuous queries batches prepared while they are open, rows kept from close to close.

use super::ask::ask_for;
use super::universities::load;
use super::{Failure, PaperPart, PapersOptions};
use crate::figures::results::geometric_mean;
use crate::figures::sheet::{Grid, Sheet, ms};
use crate::streams::measure::{Play, measure, named};
use crate::streams::stage::{Stage, configuration, network};
use somersault::oxrdf::GraphName;
use somersault::{DeltaMode, Engine, EngineConfig, EventTime, Push, StreamStatement};
use somersault_generate::{NamedQuery, Universities};
use std::time::{Duration, Instant};

pub(super) const PART: PaperPart = PaperPart {
    name: "ablation",
    run,
    // Nothing was promised of a single choice.
    rows: |_| Vec::new(),
};

/// The most that is stored under the continuous queries.
const MOST_STORED: u64 = 1_000_000;
const CONTINUOUS: [&str; 6] = ["L1", "L2", "L3", "L4", "L5", "L6"];
/// The number of texts that are asked, each a new one, without kept plans.
const NEW_TEXTS: usize = 15;
/// Statements of one push where data come as a stream instead of being loaded.
const PUSH: usize = 100_000;

/// The ways in which one-shot queries are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asking {
    All,
    NewTexts,
    NotInPlace,
    NoHelp,
    Streamed,
}

const ASKING: [(Asking, &str); 5] = [
    (Asking::All, "all of it"),
    (Asking::NewTexts, "without kept plans"),
    (Asking::NotInPlace, "not on the caller's thread"),
    (Asking::NoHelp, "without help from a second thread"),
    (Asking::Streamed, "absorbed from a stream, not loaded"),
];

/// Measures, and prints the figures as they come.
fn run(options: &PapersOptions) -> Result<Sheet, Failure> {
    let sheet = Sheet::new(
        "Papers: what each choice contributes (Wukong, table 5)",
        format!(
            "Each choice left out by itself. One-shot: L1–L7 of {} LUBM-like universities, from text to answer, median in ms. Continuous: L1–L6 together, five streams at {} tuples/s in real time.",
            options.some_universities, options.rate
        ),
    );
    let queries = Universities::queries();
    let columns = ["L1", "L2", "L3", "L4", "L5", "L6", "L7", "geometric mean"];
    let mut one_shot = Grid::new("one-shot, ms", columns);
    for (asking, words) in ASKING {
        let medians = medians(options, asking, &queries)?;
        let mut values = [None; 8];
        for (value, median) in values.iter_mut().zip(&medians) {
            *value = Some(*median);
        }
        values[7] = geometric_mean(&medians);
        one_shot.line(words, values);
    }
    Ok(sheet.with([one_shot, continuous(options)?]))
}

/// The median of each query, in milliseconds.
fn medians(
    options: &PapersOptions,
    asking: Asking,
    queries: &[NamedQuery],
) -> Result<Vec<f64>, Failure> {
    let config = configuration(options.workers);
    let engine = Engine::open(match asking {
        Asking::NotInPlace => EngineConfig {
            in_place_time: Duration::ZERO,
            ..config
        },
        Asking::NoHelp => EngineConfig {
            query_threads: 1,
            ..config
        },
        _ => config,
    })?;
    match asking {
        Asking::Streamed => absorb(&engine, options.some_universities)?,
        _ => {
            load(&engine, options.some_universities)?;
        }
    }
    let least = Duration::from_millis(options.seconds.unsigned_abs() * 250);
    let mut medians = Vec::new();
    for query in queries {
        // The first execution reads what the loading has left elsewhere.
        ask_for(&engine, &query.text, Duration::ZERO)?;
        let new_texts = asking == Asking::NewTexts;
        medians.push(from_text(&engine, &query.text, new_texts, least)?);
    }
    engine.shutdown()?;
    Ok(medians)
}

/// The median from text to answer.
fn from_text(
    engine: &Engine,
    text: &str,
    new_texts: bool,
    least: Duration,
) -> Result<f64, Failure> {
    let mut times = Vec::new();
    let start = Instant::now();
    while times.len() < NEW_TEXTS || start.elapsed() < least {
        let own;
        let asked = match new_texts {
            true => {
                own = format!("{text} # {}", times.len());
                own.as_str()
            }
            false => text,
        };
        let before = Instant::now();
        engine.query(asked).run()?;
        times.push(before.elapsed());
    }
    times.sort_unstable();
    Ok(ms(times[times.len() / 2]))
}

/// The same universities as a stream that is absorbed.
fn absorb(engine: &Engine, universities: u32) -> Result<(), Failure> {
    const STREAM: &str = "http://example.org/stream/universities";
    let text = format!("CREATE STREAM <{STREAM}> TIMELESS BATCH 100ms IDLE NEVER");
    engine.create_stream(None, &text)?;
    let mut at = EventTime(0);
    for number in 0..universities {
        let mut made = Vec::new();
        Universities::new(1).generate(number, |triple| made.push(triple));
        for some in made.chunks(PUSH) {
            let statement = |triple: &somersault::oxrdf::Triple| StreamStatement {
                at: Some(at),
                quad: triple.clone().in_graph(GraphName::DefaultGraph),
            };
            let push = Push {
                statements: some.iter().map(statement).collect(),
                ..Push::default()
            };
            engine.push(STREAM, push)?;
            at = EventTime(at.0 + 100);
            engine.advance([(STREAM, at)])?;
        }
    }
    Ok(())
}

/// The settings of continuous queries.
fn continuous(options: &PapersOptions) -> Result<Grid, Failure> {
    let network = network(options.stored.min(MOST_STORED), options.rate);
    let config = || configuration(options.workers);
    let settings = [
        ("all of it", config()),
        (
            "batches not prepared",
            EngineConfig {
                portion: usize::MAX,
                ..config()
            },
        ),
        (
            "no rows kept",
            EngineConfig {
                delta: DeltaMode::Never,
                ..config()
            },
        ),
        (
            "rows kept wherever possible",
            EngineConfig {
                delta: DeltaMode::Always,
                ..config()
            },
        ),
        (
            "two shards",
            EngineConfig {
                workers: 2,
                ..config()
            },
        ),
    ];
    let columns = [
        "execution p50, mean of L1–L6, ms",
        "delay p50, mean of L1–L6, ms",
        "µs of processor time a tuple",
    ];
    let mut grid = Grid::new("continuous", columns);
    for (words, config) in settings {
        let mut stage = Stage::open(&network, config)?;
        let how = Play {
            duration_ms: options.seconds * 1000,
            times: 1.0,
            paced: true,
        };
        let queries = named(&stage, &CONTINUOUS);
        let measured = measure(&mut stage, &queries, how)?;
        stage.engine.shutdown()?;
        let mean = |of: fn(&crate::streams::figures::QueryFigures) -> f64| {
            geometric_mean(&measured.queries.iter().map(of).collect::<Vec<_>>())
        };
        let execution = mean(|query| query.execution_p50_ms);
        let delay = mean(|query| query.delay_p50_ms);
        grid.line(words, [execution, delay, Some(measured.us_per_tuple)]);
    }
    Ok(grid)
}
