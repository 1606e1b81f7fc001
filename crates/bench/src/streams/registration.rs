//! Registration of many queries: by one call, with the memory of a query, and over HTTP by one `PUT
//! /queries:batch` of JSON lines, which are made while they are sent to a server on a loopback
//! address.

use super::Failure;
use super::stage::{self, BATCH_MS, Stage};
use super::standing_queries::{LIGHT_SHAPES, drop_all, light};
use crate::ALLOCATOR;
use crate::figures::table;
use crate::harness::heap::Count;
use crate::harness::http;
use crate::harness::machine::resident_bytes;
use crate::harness::target::{Row, at_most};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use somersault::{Engine, EngineConfig, NewQuery};
use somersault_generate::SocialNetwork;
use somersault_server::{Running, ServerConfig};
use std::net::TcpListener;
use std::time::Instant;

/// The approximate bytes that are sent at once.
const CHUNK_BYTES: usize = 256 << 10;

/// The figures of registering many queries.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Registration {
    pub(super) queries: u64,
    /// The time by one call of the engine.
    pub(super) seconds: Option<f64>,
    /// Bytes of the heap, see [`memory`].
    pub(super) bytes_per_query: Option<f64>,
    /// Over HTTP, from the connection to the whole answer.
    pub(super) http_seconds: Option<f64>,
    /// The bytes sent.
    pub(super) http_bytes: u64,
}

/// Memory held at one moment, in bytes.
struct Held {
    /// Live on the heap.
    heap: i64,
    /// The dictionary's part of these, which holds the terms of constants.
    dictionary: u64,
    /// Bytes of the store: its large arrays are mapped, and not on the heap.
    stored: u64,
    resident: u64,
}

impl Held {
    fn now(count: &Count<'_>, engine: &Engine) -> Held {
        let memory = engine.metrics().memory;
        Held {
            heap: count.live_bytes(),
            dictionary: memory.dictionary_bytes,
            stored: memory.store_bytes,
            resident: resident_bytes(),
        }
    }
}

/// The heap that a query takes among many, with the terms of its constants: measured on the second
/// half of them, in an engine without data, because the first half allocates the shared parts.
/// Outside the heap there are only arrays of stored statements, of which there are none. The growth
/// of resident memory is printed for comparison: it counts pages, and includes memory that
/// registering used temporarily, for as long as the allocator keeps that.
pub(super) fn memory(network: &SocialNetwork, queries: u64) -> Result<f64, Failure> {
    let count = ALLOCATOR.count();
    let engine = Engine::open(EngineConfig::default())?;
    stage::declare(&engine, BATCH_MS)?;
    let mut all = light(network, queries);
    let half = queries.div_ceil(2);
    let probes: Vec<_> = light(network, LIGHT_SHAPES.min(half)).collect();
    settled(&engine, all.by_ref().take(half as usize), &probes)?;
    let before = Held::now(&count, &engine);
    settled(&engine, all, &probes)?;
    let after = Held::now(&count, &engine);
    if after.stored != before.stored {
        return Err("the stored data grew while queries were registered, and the heap does not show all of it".into());
    }
    let each = |grown: i64| grown as f64 / (queries - half).max(1) as f64;
    let bytes = each(after.heap - before.heap);
    println!(
        "{} queries take {bytes:.1} bytes of the heap each, {:.1} of them for terms; resident memory grew by {:.0} for each",
        table::thousands(queries),
        each(after.dictionary.cast_signed() - before.dictionary.cast_signed()),
        each(after.resident.cast_signed() - before.resident.cast_signed()),
    );
    engine.shutdown()?;
    Ok(bytes)
}

/// Registers queries and waits until their groups are complete, so that a look-up of any query
/// finds its whole group. `probes` has one query of each group.
fn settled(
    engine: &Engine,
    queries: impl Iterator<Item = NewQuery>,
    probes: &[NewQuery],
) -> Result<(), Failure> {
    for outcome in engine.register_many(queries)? {
        outcome?;
    }
    for name in probes.iter().filter_map(|probe| probe.name.as_deref()) {
        engine.query_info(name)?;
    }
    Ok(())
}

/// Registers a number of queries in both ways, prints the times, and drops all of them.
pub(super) fn measure(
    stage: &Stage<'_>,
    queries: u64,
    bytes_per_query: f64,
) -> Result<Registration, Failure> {
    let network = stage.network;
    let start = Instant::now();
    for outcome in stage.engine.register_many(light(network, queries))? {
        outcome?;
    }
    let seconds = start.elapsed().as_secs_f64();
    let count = table::thousands(queries);
    println!("{count} queries registered in {seconds:.2} s");
    let names: Vec<String> = light(network, queries).filter_map(|it| it.name).collect();
    let start = Instant::now();
    drop_all(&stage.engine, &names)?;
    println!("dropped in {:.2} s", start.elapsed().as_secs_f64());
    let (http_seconds, http_bytes) = over_http(stage, queries)?;
    println!(
        "{count} queries registered over HTTP in {http_seconds:.2} s, {} MiB",
        http_bytes >> 20
    );
    drop_all(&stage.engine, &names)?;
    Ok(Registration {
        queries,
        seconds: Some(seconds),
        bytes_per_query: Some(bytes_per_query),
        http_seconds: Some(http_seconds),
        http_bytes,
    })
}

/// Seconds, and the bytes that were sent.
fn over_http(stage: &Stage<'_>, queries: u64) -> Result<(f64, u64), Failure> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let server = Running::start(stage.engine.clone(), listener, ServerConfig::default())?;
    let mut sent = 0;
    let mut lines = light(stage.network, queries).peekable();
    let chunks = std::iter::from_fn(|| {
        lines.peek()?;
        let mut chunk = Vec::with_capacity(CHUNK_BYTES + 4096);
        while chunk.len() < CHUNK_BYTES
            && let Some(query) = lines.next()
        {
            let line = json!({ "name": query.name, "query": query.text });
            chunk.extend_from_slice(line.to_string().as_bytes());
            chunk.push(b'\n');
        }
        sent += chunk.len() as u64;
        Some(chunk)
    });
    let start = Instant::now();
    let media_type = "application/x-ndjson";
    let answer = http::put(&server.url(), "/queries:batch", media_type, chunks)?;
    let seconds = start.elapsed().as_secs_f64();
    server.stop()?;
    let answer: Value = serde_json::from_slice(&answer)?;
    if answer["registered"] != json!(queries) {
        return Err(format!("not all queries were registered over HTTP: {answer}").into());
    }
    Ok((seconds, sent))
}

/// Its targets, which hold for a million queries: with few queries, the engine's fixed memory
/// dominates.
pub(super) fn rows(figures: Option<&Registration>) -> [Row; 2] {
    let of_a_million = figures.filter(|figures| figures.queries >= 1_000_000);
    [
        at_most(
            "streams: registration of a million queries over HTTP",
            60.0,
            of_a_million.and_then(|figures| figures.http_seconds),
            "s",
        ),
        at_most(
            "streams: memory a standing query",
            300.0,
            of_a_million.and_then(|figures| figures.bytes_per_query),
            "bytes",
        ),
    ]
}

/// The result in words.
pub(super) fn sentence(figures: &Registration) -> String {
    let (Some(seconds), Some(http), Some(bytes)) = (
        figures.seconds,
        figures.http_seconds,
        figures.bytes_per_query,
    ) else {
        return String::new();
    };
    format!(
        "{} queries are registered over HTTP in {http:.1} s, {} MiB of lines in one request, and by one call in {seconds:.1} s; one \
         takes {bytes:.0} bytes of the heap.\n\n",
        table::thousands(figures.queries),
        figures.http_bytes >> 20
    )
}
