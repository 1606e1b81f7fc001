//! Transactions: transfers between accounts, a voting show, chains of triggers, calls beside the
//! streams, plain updates. All engines here are durable unless a part says otherwise: a call is
//! answered when its effects are synced. The peers run the same work in the same part.

mod bank;
mod beside;
mod chains;
mod leaderboard;
mod one_call;
mod peers;
mod recovery;
mod transfers;
mod triggers;
mod updates;

use crate::figures::parts::{Failure, SheetPart, SheetParts};
use crate::streams::absorption::clear;
use crate::streams::stage::configuration;
use clap::Args;
use clap::builder::PossibleValuesParser;
use somersault::{Engine, EngineConfig};
use std::fs;
use std::path::{Path, PathBuf};

/// The parts, in the order in which they run.
pub(crate) const PARTS: SheetParts<TransactionOptions> = SheetParts {
    command: "transactions",
    parts: &[
        transfers::PART,
        one_call::PART,
        leaderboard::PART,
        triggers::PART,
        recovery::PART,
        beside::PART,
        updates::PART,
    ],
};

#[derive(Args, Clone)]
pub(crate) struct TransactionOptions {
    /// Only these parts
    #[arg(long, value_delimiter = ',', value_parser = PossibleValuesParser::new(PARTS.names()))]
    only: Vec<String>,
    /// Accounts of the bank
    #[arg(long, default_value_t = 10_000)]
    accounts: u32,
    /// Calls in a frame, one setting each
    #[arg(long, value_delimiter = ',', default_values_t = [8_000, 1_000, 100, 10])]
    frames: Vec<usize>,
    /// Seconds that each figure is measured
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// Clients of PostgreSQL, and of the updates over HTTP
    #[arg(long, default_value_t = 64)]
    clients: usize,
    /// Calls of the part `one-call`
    #[arg(long, default_value_t = 2_000)]
    calls: usize,
    /// Votes of the part `leaderboard`
    #[arg(long, default_value_t = 60_000)]
    votes: usize,
    /// Batches that the part `recovery` logs before it opens the engine again
    #[arg(long, default_value_t = 5_000)]
    batches: u64,
    /// Transfers a second that are offered beside the streams
    #[arg(long, default_value_t = 20_000)]
    transfers: u64,
    /// Tuples a second of all five streams together
    #[arg(long, default_value_t = 133_500)]
    rate: u32,
    /// About how many triples are stored before anything streams
    #[arg(long, default_value_t = 1_000_000)]
    stored: u64,
    /// Shards
    #[arg(long, default_value_t = 1)]
    workers: u16,
    /// Leaves the peers out
    #[arg(long)]
    alone: bool,
    /// Folder for the data folders of the parts; it decides which device is measured
    #[arg(long, default_value = "target/bench-data")]
    data: PathBuf,
    /// The folder that the figures are kept in
    #[arg(long, default_value = "bench/results")]
    results: PathBuf,
}

/// Runs the parts that were asked for, all of them where none was named.
///
/// # Errors
/// The parts that could not be measured, and why.
pub(crate) fn run(options: &TransactionOptions) -> Result<(), String> {
    PARTS.run(&options.only, options, &options.results)
}

/// A part of this command.
type TransactionPart = SheetPart<TransactionOptions>;

impl TransactionOptions {
    /// An empty folder for a part.
    fn folder(&self, part: &str) -> Result<PathBuf, Failure> {
        let folder = self.data.join(format!("transactions-{part}"));
        clear(&folder)?;
        fs::create_dir_all(&folder)?;
        Ok(folder)
    }

    /// A durable engine that takes no checkpoints by itself.
    fn durable(&self, folder: &Path) -> Result<Engine, Failure> {
        Ok(Engine::open(EngineConfig {
            data: Some(folder.to_owned()),
            ..configuration(self.workers)
        })?)
    }

    /// An engine in memory.
    fn in_memory(&self) -> Result<Engine, Failure> {
        Ok(Engine::open(configuration(self.workers))?)
    }
}

#[cfg(test)]
impl TransactionOptions {
    /// The smallest setting, for tests of the counts and not of the times.
    fn smallest(data: PathBuf) -> TransactionOptions {
        TransactionOptions {
            only: Vec::new(),
            accounts: 20,
            frames: vec![50, 3],
            seconds: 1,
            clients: 2,
            calls: 5,
            votes: 300,
            batches: 20,
            transfers: 200,
            rate: 2_000,
            stored: 20_000,
            workers: 1,
            alone: true,
            data,
            results: PathBuf::new(),
        }
    }
}
