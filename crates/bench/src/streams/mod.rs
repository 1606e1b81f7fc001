//! Streams: the setting of the Wukong+S paper and further targets of continuous queries, in parts
//! that run alone. Each part writes a file of figures, so that it can be measured again without the
//! others, and has a process of its own, so that it does not inherit the memory of another part.

pub(crate) mod absorption;
mod bag;
mod batches;
mod case;
mod citybench;
pub(crate) mod figures;
pub(crate) mod long_query;
pub(crate) mod measure;
mod memory;
pub(crate) mod oneshot;
mod paper;
mod peers;
pub(crate) mod rates;
mod registration;
mod report;
pub(crate) mod snapshots;
pub(crate) mod stage;
pub(crate) mod standing;
pub(crate) mod standing_queries;
mod steps;
pub(crate) mod suite;
mod targets;
mod terms;
pub(crate) mod threads;

pub(crate) use figures::StreamFigures;
pub(crate) use report::write;
pub(crate) use targets::rows;

use crate::figures::parts::Failure;
use crate::figures::results::Results;
use crate::harness::machine::{Machine, resident_bytes};
use crate::harness::process::in_own_process;
use clap::{Args, ValueEnum};
use serde::Serialize;
use std::path::PathBuf;

/// The parts that can be measured alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// L1–L6 and E1–E3, each alone and all together, at the paper's rate
    Paper,
    /// L1–L3 as the streams go faster, as more is stored, as the streams grow old
    Rates,
    /// Tuples a second, and the cost of a tuple
    Absorption,
    /// One-shot queries while the streams run, against standing still
    Oneshot,
    /// CityBench, its answers compared
    Citybench,
    /// Bytes a statement in slices
    Memory,
    /// Snapshot numbers retained by 1 to 300 streams, and a one-shot query of half a minute beside
    /// the streams
    Snapshots,
    /// A snapshot every 1, 10, 100, 1000 ms: the age of visible statements, and the cost of a tuple
    Steps,
    /// Batches of 100, 10 and 1 ms: the cost of a tuple, and the delay of L1–L3
    Batches,
    /// Many standing queries of the shapes L1–L3 with random constants, over batches of several
    /// lengths, and their registration
    Standing,
    /// An hour of a timing stream of fresh IRIs, as fast as possible, and the resident memory
    /// meanwhile
    Terms,
    /// The same queries by pyoxigraph and by rsp-rs, their answers compared
    Peers,
}

#[derive(Args, Clone)]
pub(crate) struct StreamsOptions {
    /// Only these parts
    #[arg(long, value_delimiter = ',', value_enum)]
    only: Vec<Part>,
    /// Only these queries of the paper's setting, alone; figures of less are not kept
    #[arg(long, value_delimiter = ',')]
    queries: Vec<String>,
    /// About how many triples are stored before anything streams
    #[arg(long, default_value_t = 1_000_000)]
    stored: u64,
    /// Tuples per second of all five streams together
    #[arg(long, default_value_t = 133_500)]
    rate: u32,
    /// Seconds that each figure is measured
    #[arg(long, default_value_t = 5)]
    seconds: i64,
    /// Shards
    #[arg(long, default_value_t = 1)]
    workers: u16,
    /// The number of statements of an open batch that the shards prepare together; 0 prepares
    /// nothing
    #[arg(long)]
    portion: Option<usize>,
    /// The length of the line by stored triples: from 1 million to 10 and to 100
    #[arg(long, default_value_t = 10_000_000)]
    largest: u64,
    /// The ages of the streams in the line by age, in minutes
    #[arg(long, value_delimiter = ',', default_values_t = [1, 10, 60])]
    minutes: Vec<i64>,
    /// The approximate time of the one-shot query beside the streams, in seconds without them
    #[arg(long, default_value_t = 30)]
    heavy_seconds: u64,
    /// The numbers of standing queries, one figure after the other
    #[arg(long, value_delimiter = ',', default_values_t = [1_000, 115_000, 1_000_000])]
    standing: Vec<u64>,
    /// The batches of the streams under the standing queries, in milliseconds, measured one after
    /// the other; the stored graph grows meanwhile
    #[arg(long, value_delimiter = ',', default_values_t = [1, 10, 100])]
    batches: Vec<i64>,
    /// The size of the data stored for the peers, in percent of 10 million triples
    #[arg(long, default_value_t = 100)]
    peer_percent: u32,
    /// Folder for files that a part writes while it runs
    #[arg(long, default_value = "target/bench-data")]
    data: PathBuf,
    /// The folder that the figures are kept in
    #[arg(long, default_value = "bench/results")]
    results: PathBuf,
}

/// Runs the parts that were asked for, all of them where none was named.
///
/// # Errors The parts that could not be measured, and why; the others are measured nevertheless.
pub(crate) fn run(options: &StreamsOptions) -> Result<(), String> {
    let wanted = |part: &Part| options.only.is_empty() || options.only.contains(part);
    let parts = Part::value_variants().iter().copied();
    let parts: Vec<Part> = parts.filter(wanted).collect();
    let alone = parts.len() == 1;
    let mut failures = Vec::new();
    for part in parts {
        let run = match alone {
            true => measured(part, options).map_err(|error| error.to_string()),
            false => in_own_process(&name(part)),
        };
        let failed = run.err();
        failures.extend(failed.map(|error| format!("streams, {}: {error}", name(part))));
    }
    if failures.is_empty() {
        Ok(())
    } else {
        Err(failures.join("\n"))
    }
}

/// Measures one part in this process, and prints the figures as they come.
fn measured(part: Part, options: &StreamsOptions) -> Result<(), Failure> {
    let machine = Machine::read();
    println!(
        "{}, {} cores, {} GiB, commit {}",
        machine.processor, machine.cores, machine.memory_gib, machine.commit
    );
    println!("\nstreams, {}", name(part));
    measure(part, options)?;
    println!("resident memory {} MiB", resident_bytes() >> 20);
    Ok(())
}

fn measure(part: Part, options: &StreamsOptions) -> Result<(), Failure> {
    match part {
        Part::Paper => keep(part, options, &paper::run(options)?),
        Part::Rates => rates::run(options, &|lines| keep(part, options, lines)),
        Part::Absorption => keep(part, options, &absorption::run(options)?),
        Part::Oneshot => keep(part, options, &oneshot::run(options)?),
        Part::Citybench => keep(part, options, &citybench::run(options)?),
        Part::Memory => keep(part, options, &memory::run(options)?),
        Part::Snapshots => keep(part, options, &snapshots::run(options)?),
        Part::Steps => keep(part, options, &steps::run(options)?),
        Part::Batches => keep(part, options, &batches::run(options)?),
        Part::Standing => keep(part, options, &standing::run(options)?),
        Part::Terms => keep(part, options, &terms::run(options)?),
        Part::Peers => keep(part, options, &peers::run(options)?),
    }
}

fn keep(part: Part, options: &StreamsOptions, figures: &impl Serialize) -> Result<(), Failure> {
    if part == Part::Paper && !options.queries.is_empty() {
        return Ok(());
    }
    let path = Results::within(&options.results).write(&figures::file(&name(part)), figures)?;
    println!("figures kept in {}", path.display());
    Ok(())
}

/// The part's name on the command line, and in the name of its file.
fn name(part: Part) -> String {
    format!("{part:?}").to_lowercase()
}

#[cfg(test)]
impl StreamsOptions {
    /// The smallest setting, for tests of the counts and not of the times.
    fn smallest() -> StreamsOptions {
        StreamsOptions {
            only: Vec::new(),
            queries: Vec::new(),
            stored: 20_000,
            rate: 2_000,
            seconds: 1,
            workers: 1,
            portion: None,
            largest: 0,
            minutes: Vec::new(),
            heavy_seconds: 1,
            standing: vec![30],
            batches: vec![100, 10],
            peer_percent: 1,
            data: PathBuf::new(),
            results: PathBuf::new(),
        }
    }
}
