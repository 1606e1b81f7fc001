//! The way of a pushed tuple, alone: `cargo run --release -p somersault-bench --example absorb --
//! [STAGE] [SECONDS] [FOLDER]`. A stretch of the social network's five streams is written as lines
//! first, one push per stream and batch of 100 ms. The first half warms the engine up and the
//! second is measured, as fast as possible: `parse` (lines to statements, no more), `terms`
//! (statements as terms to stable), `by-terms` (lines, each made terms by the library, to stable),
//! `lines` (lines to stable). With a folder the log is kept there.

use somersault::oxrdf::NamedNode;
use somersault::replay::parse_line;
use somersault::{Engine, EngineConfig, EventTime, Push, PushLines, StreamStatement, TimedLines};
use somersault_generate::{Parameters, Rates, STORED_GRAPH, SocialNetwork, StreamKind};
use std::error::Error;
use std::fmt::Write;
use std::hint::black_box;
use std::path::PathBuf;
use std::time::{Duration, Instant};

const BATCH_MS: i64 = 100;
const USERS: u32 = 10_000;
const RATE: u32 = 133_500;

/// One batch interval: the lines of each stream, and how many there are.
struct Interval {
    end_ms: i64,
    lines: Vec<(&'static str, String)>,
    tuples: u64,
}

/// Processor time of this process so far, in steps of 10 ms; zero where the system does not say.
fn processor_time() -> Duration {
    let status = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let behind_name = status.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks = behind_name.split_whitespace().skip(11).take(2);
    let ticks: u64 = ticks.filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
    Duration::from_millis(10 * ticks)
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let stage = arguments.first().map_or("lines", String::as_str);
    let seconds: i64 = arguments.get(1).map_or(Ok(10), |text| text.parse())?;
    let network = SocialNetwork::new(Parameters {
        users: USERS,
        rates: Rates::in_total(RATE),
        streams_ms: 2000 * seconds,
        ..Parameters::default()
    });
    let engine = Engine::open(EngineConfig {
        workers: 1,
        data: arguments.get(2).map(PathBuf::from),
        ..EngineConfig::default()
    })?;
    let mut activity = network.activity();
    let graph = NamedNode::new(STORED_GRAPH)?;
    let stored = network.people().chain(activity.past());
    engine.load_quads(stored.map(|triple| triple.in_graph(graph.clone())))?;
    for kind in StreamKind::ALL {
        engine.create_stream(None, &kind.declaration())?;
    }
    let mut intervals = Vec::new();
    let mut interval = Interval::ending(BATCH_MS);
    for streamed in activity {
        while streamed.at_ms >= interval.end_ms {
            let next = Interval::ending(interval.end_ms + BATCH_MS);
            intervals.push(std::mem::replace(&mut interval, next));
        }
        let (_, lines) = &mut interval.lines[streamed.kind.index()];
        writeln!(lines, "{}\t{} .", streamed.at_ms, streamed.triple)?;
        interval.tuples += 1;
    }
    intervals.push(interval);
    let (warm_up, measured) = intervals.split_at(intervals.len() / 2);
    let first = if stage == "parse" { "lines" } else { stage };
    run(&engine, first, warm_up)?;
    let terms = if stage == "terms" {
        as_terms(measured)?
    } else {
        Vec::new()
    };
    let (start, processor) = (Instant::now(), processor_time());
    if stage == "terms" {
        push_terms(&engine, terms)?;
    } else {
        run(&engine, stage, measured)?;
    }
    let (elapsed, processor) = (start.elapsed(), processor_time() - processor);
    let tuples: u64 = measured.iter().map(|interval| interval.tuples).sum();
    println!(
        "{stage}: {tuples} tuples, {:.0} tuples/s, {:.3} µs of processor time a tuple",
        tuples as f64 / elapsed.as_secs_f64(),
        processor.as_secs_f64() * 1e6 / tuples as f64
    );
    engine.shutdown()?;
    Ok(())
}

impl Interval {
    fn ending(end_ms: i64) -> Interval {
        let lines = StreamKind::ALL.map(|kind| (kind.iri(), String::new()));
        Interval {
            end_ms,
            lines: lines.into(),
            tuples: 0,
        }
    }
}

fn parsed(lines: &str) -> Result<Vec<StreamStatement>, String> {
    let mut last = EventTime::MIN;
    let mut statements = Vec::new();
    for line in lines.lines() {
        let (at, statement) = parse_line(line, last)?;
        last = at;
        statements.push(statement);
    }
    Ok(statements)
}

type Terms = Vec<(i64, Vec<(&'static str, Vec<StreamStatement>)>)>;

fn as_terms(intervals: &[Interval]) -> Result<Terms, Box<dyn Error>> {
    let mut all = Vec::new();
    for interval in intervals {
        let mut pushes = Vec::new();
        for (stream, lines) in &interval.lines {
            pushes.push((*stream, parsed(lines)?));
        }
        all.push((interval.end_ms, pushes));
    }
    Ok(all)
}

fn push_terms(engine: &Engine, terms: Terms) -> Result<(), Box<dyn Error>> {
    for (end_ms, pushes) in terms {
        for (stream, statements) in pushes {
            let push = Push {
                statements,
                ..Push::default()
            };
            engine.push(stream, push)?;
        }
        advance(engine, end_ms)?;
    }
    Ok(())
}

/// Returns when all that was pushed before is stable.
fn advance(engine: &Engine, to_ms: i64) -> Result<(), Box<dyn Error>> {
    let to = EventTime(to_ms);
    engine.advance(StreamKind::ALL.iter().map(|kind| (kind.iri(), to)))?;
    Ok(())
}

fn run(engine: &Engine, stage: &str, intervals: &[Interval]) -> Result<(), Box<dyn Error>> {
    for interval in intervals {
        for (stream, lines) in &interval.lines {
            let lines = lines.as_bytes();
            match stage {
                "parse" => {
                    let read = TimedLines::read(lines, u64::MAX).ok_or("all lines are plain")?;
                    black_box(&read);
                }
                "by-terms" => {
                    let push = Push {
                        statements: parsed(std::str::from_utf8(lines)?)?,
                        ..Push::default()
                    };
                    engine.push(stream, push)?;
                }
                _ => {
                    let push = PushLines {
                        lines,
                        ..PushLines::default()
                    };
                    engine.push_lines(stream, push)?;
                }
            }
        }
        if stage != "parse" {
            advance(engine, interval.end_ms)?;
        }
    }
    Ok(())
}
