//! Measures the engine, alone and beside other engines, and prints tables; `bench/results/` keeps
//! the figures. Times here are for people to read, never for a test to assert.
//!
//! Rooms, lowest first: harness, parties, figures, oneshot, load, crowd, streams, papers,
//! durability, transactions, histories, summary, compare.

mod compare;
mod crowd;
mod durability;
mod figures;
mod harness;
mod histories;
mod load;
mod oneshot;
mod papers;
mod parties;
mod streams;
mod summary;
mod transactions;

use crate::figures::results::Results;
use crate::harness::heap::Heap;
use clap::{Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;

/// The allocator of the `somersault` command (ADR 18); it counts live bytes where a measurement
/// asks for it.
#[global_allocator]
static ALLOCATOR: Heap = Heap::new();

/// Workloads and measurements of Somersault.
#[derive(Parser)]
#[command(name = "somersault-bench")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Loading, throughput, one-shot queries, and the targets; `streams` has a run of its own
    All,
    /// Continuous queries over the five streams, and injection alone
    Streams(streams::StreamsOptions),
    /// Figures of the Wukong and Wukong+S papers that one machine can show
    Papers(papers::PapersOptions),
    /// Restarts after kill -9, memory, delays and commits of a durable engine
    Durability(durability::DurabilityOptions),
    /// Calls of procedures, streaming transactions and updates beside the peers
    Transactions(transactions::TransactionOptions),
    /// Histories of concurrent clients, for a checker of isolation
    Histories(histories::HistoryOptions),
    /// One-shot queries beside the peers
    Oneshot(oneshot::OneshotOptions),
    /// Loading, and memory afterwards, beside the peers
    Load(load::LoadOptions),
    /// Light queries in crowds, over HTTP, beside heavy ones
    Throughput(crowd::CrowdOptions),
    /// This build beside another one, measured in turn
    Ab(compare::PairOptions),
    /// The targets, with the newest figures
    Check {
        /// The folder that the figures are kept in
        #[arg(long, default_value = "bench/results")]
        results: PathBuf,
    },
    /// Writes the newest figures into bench/RESULTS.md, and those of the papers into
    /// docs/benchmarks.md
    Report {
        /// The folder that the figures are kept in
        #[arg(long, default_value = "bench/results")]
        results: PathBuf,
        /// The document
        #[arg(long, default_value = "bench/RESULTS.md")]
        document: PathBuf,
        /// The document about the papers
        #[arg(long, default_value = "docs/benchmarks.md")]
        papers: PathBuf,
    },
    /// This engine in a process of its own; the bench starts it
    #[command(hide = true)]
    Child,
    /// A durable engine in a process of its own, which the bench starts and kills
    #[command(hide = true)]
    DurabilityProcess(durability::ProcessOptions),
}

impl Command {
    fn run(self) -> Result<(), String> {
        match self {
            Command::All => all(),
            Command::Streams(options) => streams::run(&options),
            Command::Papers(options) => papers::run(&options),
            Command::Durability(options) => durability::run(&options),
            Command::DurabilityProcess(options) => durability::run_process(&options),
            Command::Transactions(options) => transactions::run(&options),
            Command::Histories(options) => histories::run(&options),
            Command::Oneshot(options) => oneshot::run(&options),
            Command::Load(options) => load::run(&options),
            Command::Throughput(options) => crowd::run(&options),
            Command::Ab(options) => compare::run(&options),
            Command::Check { results } => summary::check::run(&Results::within(&results)),
            Command::Report {
                results,
                document,
                papers,
            } => summary::report::run(&Results::within(&results), &document, &papers),
            Command::Child => parties::child::run(),
        }
    }
}

/// Every part with its defaults; rows that differ fail the run when all of it is done.
fn all() -> Result<(), String> {
    let parts = [
        vec!["load"],
        vec!["throughput"],
        vec!["oneshot"],
        vec!["check"],
    ];
    let mut failures = Vec::new();
    for part in parts {
        let arguments = std::iter::once("somersault-bench").chain(part);
        let cli = Cli::try_parse_from(arguments).map_err(|error| error.to_string())?;
        failures.extend(cli.command.run().err());
    }
    if failures.is_empty() {
        Ok(())
    } else {
        Err(failures.join("\n"))
    }
}

fn main() -> ExitCode {
    match Cli::parse().command.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("somersault-bench: {error}");
            ExitCode::FAILURE
        }
    }
}
