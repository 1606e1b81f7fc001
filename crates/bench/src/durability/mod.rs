//! What durability costs and what it gives back: restarts after `kill -9`, memory, delays beside
//! other work, and the commit of a push. Parts that kill a process start one (`process`), which
//! takes orders as lines (`orders`); the others measure in this process.

mod absorption;
mod age;
mod checkpoint;
mod commit;
mod delay;
mod long_query;
mod node;
mod orders;
mod process;
mod resident;
mod restart;

pub(crate) use process::ProcessOptions;
pub(crate) use process::run as run_process;

use crate::figures::parts::{Failure, SheetPart, SheetParts};
use clap::Args;
use clap::builder::PossibleValuesParser;
use std::path::PathBuf;

/// The parts, in the order in which they run.
pub(crate) const PARTS: SheetParts<DurabilityOptions> = SheetParts {
    command: "durability",
    parts: &[
        restart::PART,
        age::PART,
        checkpoint::PART,
        absorption::PART,
        resident::PART,
        long_query::PART,
        delay::PART,
        commit::PART,
    ],
};

#[derive(Args, Clone)]
pub(crate) struct DurabilityOptions {
    /// Only these parts
    #[arg(long, value_delimiter = ',', value_parser = PossibleValuesParser::new(PARTS.names()))]
    only: Vec<String>,
    /// About how many triples are stored before anything streams, in the part `restart`
    #[arg(long, default_value_t = 5_000_000)]
    stored: u64,
    /// About how many triples are stored in all other parts
    #[arg(long, default_value_t = 1_000_000)]
    stored_elsewhere: u64,
    /// Tuples per second of all five streams together
    #[arg(long, default_value_t = 133_500)]
    rate: u32,
    /// Seconds that each figure is measured
    #[arg(long, default_value_t = 5)]
    seconds: i64,
    /// Shards
    #[arg(long, default_value_t = 1)]
    workers: u16,
    /// The event time that is played before the restart, in seconds
    #[arg(long, default_value_t = 60)]
    played: i64,
    /// The event time between the last checkpoint and the end of the process, in seconds
    #[arg(long, default_value_t = 5)]
    behind: i64,
    /// Restarts with the checkpoints that the engine takes by itself, instead of one before the end
    #[arg(long)]
    automatic: bool,
    /// Also a restart from the log alone
    #[arg(long)]
    log_alone: bool,
    /// The ages of the streams in the part `age`, in seconds of event time
    #[arg(long, value_delimiter = ',', default_values_t = [20, 40, 80])]
    ages: Vec<i64>,
    /// The same where no statement is absorbed
    #[arg(long, value_delimiter = ',', default_values_t = [60, 180, 540])]
    passing_ages: Vec<i64>,
    /// Timeless statements that are absorbed in the part `resident`
    #[arg(long, default_value_t = 10_000_000)]
    absorbed: u64,
    /// The approximate time of the one-shot query beside the streams, in seconds without them
    #[arg(long, default_value_t = 40)]
    heavy_seconds: u64,
    /// Pushes of the part `commit`
    #[arg(long, default_value_t = 2_000)]
    pushes: usize,
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
pub(crate) fn run(options: &DurabilityOptions) -> Result<(), String> {
    PARTS.run(&options.only, options, &options.results)
}

/// A part of this command.
type DurabilityPart = SheetPart<DurabilityOptions>;

#[cfg(test)]
impl DurabilityOptions {
    /// The smallest setting, for tests of the counts and not of the times.
    fn smallest(data: PathBuf) -> DurabilityOptions {
        DurabilityOptions {
            only: Vec::new(),
            stored: 20_000,
            stored_elsewhere: 20_000,
            rate: 2_000,
            seconds: 1,
            workers: 1,
            played: 1,
            behind: 0,
            automatic: false,
            log_alone: false,
            ages: vec![1],
            passing_ages: vec![1, 2],
            absorbed: 1_000,
            heavy_seconds: 1,
            pushes: 5,
            data,
            results: PathBuf::new(),
        }
    }
}
