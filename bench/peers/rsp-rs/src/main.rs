//! rsp-rs over one case of streams (see ../README.md). Its windows and its R2R operator are driven from one thread, in order of
//! event time, so that every emission can be timed and its rows counted: its own engine feeds each window from a thread of its
//! own, and says neither when an evaluation began nor that one had no rows.

use oxigraph::io::{RdfFormat, RdfParser};
use oxigraph::model::{GraphName, NamedNode, Quad};
use oxigraph::sparql::{QueryResults, QuerySolution};
use rsp_rs::{CSPARQLWindow, R2ROperator, RSPEngine, StreamType};
use serde::Deserialize;
use sha2::{Digest, Sha256};
use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::io::BufReader;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// rsp-rs takes time 0 for no time: event times are moved by so much.
const SHIFT_MS: i64 = 3_600_000;

#[derive(Deserialize)]
struct Case {
    stored: Vec<File>,
    streams: Vec<File>,
    queries: Vec<Query>,
    until_ms: i64,
    limit_ms: u64,
}

#[derive(Deserialize)]
struct File {
    iri: String,
    file: String,
}

#[derive(Deserialize)]
struct Query {
    name: String,
    sparql: String,
    first_close_ms: i64,
    windows: Vec<Window>,
}

#[derive(Deserialize)]
struct Window {
    stream: String,
    range_ms: i64,
    step_ms: i64,
}

/// A statement of a stream, with the stream's number.
type Streamed = (i64, usize, Quad);

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("a case is wanted")?;
    let case: Case = serde_json::from_str(&fs::read_to_string(path)?)?;
    let start = Instant::now();
    let stored = stored(&case.stored)?;
    let count: usize = stored.iter().map(|(_, quads)| quads.len()).sum();
    println!("loaded {count} {}", start.elapsed().as_nanos());
    let streamed = streamed(&case.streams)?;
    for query in &case.queries {
        if let Err(error) = run(&case, query, &stored, &streamed) {
            println!(
                "failed {} {}",
                query.name,
                error.to_string().replace('\n', " ")
            );
        }
    }
    Ok(())
}

/// What is stored, file by file, with its graph.
fn stored(files: &[File]) -> Result<Vec<(String, Vec<Quad>)>, Box<dyn Error>> {
    let mut all = Vec::new();
    for file in files {
        let graph = NamedNode::new(&file.iri)?;
        let reader = BufReader::new(fs::File::open(&file.file)?);
        let parser = RdfParser::from_format(RdfFormat::NTriples).with_default_graph(graph);
        let quads = parser.for_reader(reader).collect::<Result<_, _>>()?;
        all.push((file.iri.clone(), quads));
    }
    Ok(all)
}

/// The statements of all streams in order of time.
fn streamed(files: &[File]) -> Result<Vec<Streamed>, Box<dyn Error>> {
    let mut all = Vec::new();
    for (number, file) in files.iter().enumerate() {
        for line in fs::read_to_string(&file.file)?.lines() {
            let (at_ms, triple) = line.split_once('\t').ok_or("a line has no tab")?;
            let parser = RdfParser::from_format(RdfFormat::NTriples);
            let quad = parser
                .for_slice(triple)
                .next()
                .ok_or("a line has no statement")??;
            all.push((at_ms.parse::<i64>()? + SHIFT_MS, number, quad));
        }
    }
    all.sort_by_key(|(at_ms, ..)| *at_ms);
    Ok(all)
}

fn run(
    case: &Case,
    query: &Query,
    stored: &[(String, Vec<Quad>)],
    streamed: &[Streamed],
) -> Result<(), Box<dyn Error>> {
    let mut engine = RSPEngine::new(rsp_ql(query));
    engine.initialize()?;
    let mut operator = R2ROperator::new(engine.parsed_query().sparql_query.clone());
    // Statements that a query does not read are left out: all of them would be copied at each evaluation.
    let is_read = |graph: &str| query.sparql.contains(&format!("<{graph}>"));
    for (_, quads) in stored.iter().filter(|(graph, _)| is_read(graph)) {
        quads
            .iter()
            .for_each(|quad| operator.add_static_data(quad.clone()));
    }
    // By stream: none where the query has no window over it.
    let windows: Vec<_> = (case.streams.iter())
        .map(|stream| engine.get_window(&stream.iri))
        .collect();
    let step_ms = query
        .windows
        .iter()
        .map(|window| window.step_ms)
        .min()
        .ok_or("no window")?;
    let first = windows
        .iter()
        .flatten()
        .next()
        .ok_or("no window of that name")?;
    let others: Vec<_> = (windows.iter().flatten())
        .filter(|window| !Arc::ptr_eq(window, first))
        .cloned()
        .collect();
    let now_ms = Arc::new(AtomicI64::new(0));
    let failure = Arc::new(Mutex::new(None));
    let seen = (Arc::clone(&now_ms), Arc::clone(&failure));
    let name = query.name.clone();
    let first_close_ms = query.first_close_ms;
    let mut window = first.lock().map_err(|_| "a window is poisoned")?;
    window.subscribe(StreamType::RStream, move |mut container| {
        let (now_ms, failure) = &seen;
        // What closed before the statement that is being added came.
        let now_ms = now_ms.load(Ordering::Relaxed);
        let close_ms = (now_ms - 1).div_euclid(step_ms) * step_ms;
        for other in &others {
            let Ok(other) = other.lock() else { continue };
            if let Some(content) = other.get_content_from_window(close_ms - 1) {
                for quad in &content.elements {
                    container.add(quad.clone(), close_ms);
                }
            }
        }
        let start = Instant::now();
        let rows: Vec<QuerySolution> = match operator.execute(&container) {
            Ok(QueryResults::Solutions(solutions)) => solutions.flatten().collect(),
            Ok(_) => Vec::new(),
            Err(error) => {
                if let Ok(mut failure) = failure.lock() {
                    *failure = Some(error.to_string());
                }
                return;
            }
        };
        let nanoseconds = start.elapsed().as_nanos();
        let close_ms = close_ms - SHIFT_MS;
        if close_ms >= first_close_ms {
            let (count, hash) = (rows.len(), hash(&rows));
            println!("close {name} {close_ms} {count} {hash} {nanoseconds} 0");
        }
    });
    drop(window);
    feed(case, &windows, streamed, &now_ms)?;
    let failed: Option<String> = failure.lock().map_err(|_| "a callback panicked")?.take();
    failed.map_or(Ok(()), |reason| Err(reason.into()))
}

/// The hash of some rows, see ../README.md.
fn hash(rows: &[QuerySolution]) -> String {
    let line = |row: &QuerySolution| {
        let terms = row.values().iter();
        let terms =
            terms.map(|term| spelled(term.as_ref().map_or(String::new(), |t| t.to_string())));
        terms.collect::<Vec<_>>().join("\t") + "\n"
    };
    let mut lines: Vec<String> = rows.iter().map(line).collect();
    lines.sort_unstable();
    let digest = Sha256::digest(lines.concat());
    digest.iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

/// A number by its value, a blank node without its label, everything else as it is.
fn spelled(term: String) -> String {
    const DATATYPE: &str = "\"^^<http://www.w3.org/2001/XMLSchema#";
    if term.starts_with("_:") {
        return "_:".to_owned();
    }
    let number = || {
        let (lexical, _) = term.strip_prefix('"')?.split_once(DATATYPE)?;
        let is_plain = |c: char| c.is_ascii_digit() || "+-.eE".contains(c);
        let value: f64 = (lexical.chars().all(is_plain)).then(|| lexical.parse().ok())??;
        let bits = (value + 0.0).to_bits();
        Some(format!("{bits:016x}"))
    };
    number().unwrap_or(term)
}

/// Adds the statements to the windows of their streams, until all are in or the time is over.
fn feed(
    case: &Case,
    windows: &[Option<Arc<Mutex<CSPARQLWindow>>>],
    streamed: &[Streamed],
    now_ms: &AtomicI64,
) -> Result<(), Box<dyn Error>> {
    let limit = Duration::from_millis(case.limit_ms);
    let start = Instant::now();
    let nothing = NamedNode::new("urn:nothing")?;
    let nothing = Quad::new(
        nothing.clone(),
        nothing.clone(),
        nothing,
        GraphName::DefaultGraph,
    );
    let add = |stream: usize, quad: &Quad, at_ms: i64| -> Result<(), Box<dyn Error>> {
        if let Some(window) = &windows[stream] {
            now_ms.store(at_ms, Ordering::Relaxed);
            let mut window = window.lock().map_err(|_| "a window is poisoned")?;
            window.add(quad.clone(), at_ms);
        }
        Ok(())
    };
    // Windows are counted from the first statement on, and close when a later one comes.
    for stream in 0..windows.len() {
        add(stream, &nothing, SHIFT_MS)?;
    }
    for (at_ms, stream, quad) in streamed {
        add(*stream, quad, *at_ms)?;
        if start.elapsed() > limit {
            return Err("over time".into());
        }
    }
    for stream in 0..windows.len() {
        add(stream, &nothing, case.until_ms + SHIFT_MS + 1)?;
    }
    Ok(())
}

/// The query in RSP-QL: a window has the name of its stream, so that the patterns need no change.
fn rsp_ql(query: &Query) -> String {
    let mut text = String::from("REGISTER RStream <urn:answers> AS\n");
    for Window {
        stream,
        range_ms,
        step_ms,
    } in &query.windows
    {
        let _ = writeln!(
            text,
            "FROM NAMED WINDOW <{stream}> ON STREAM <{stream}> [RANGE {range_ms} STEP {step_ms}]"
        );
    }
    text + &query.sparql
}
