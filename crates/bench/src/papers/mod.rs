//! Figures of the Wukong and Wukong+S papers that one machine can show and that `streams` does not
//! have. Each part names its section or table, and says what is measured otherwise. All settings
//! of a part are measured in one run, so that their ratios are of one machine at one time.

mod ablation;
mod ask;
mod city;
mod incoming;
mod injection;
mod log;
mod one_shot;
mod predicates;
mod rates;
mod raw;
mod snapshot_numbers;
mod universities;

use crate::figures::parts::{Failure, SheetPart, SheetParts};
use clap::Args;
use clap::builder::PossibleValuesParser;
use std::path::PathBuf;

/// The parts, in the order in which they run.
pub(crate) const PARTS: SheetParts<PapersOptions> = SheetParts {
    command: "papers",
    parts: &[
        log::PART,
        injection::PART,
        raw::PART,
        snapshot_numbers::PART,
        rates::PART,
        one_shot::PART,
        city::PART,
        incoming::PART,
        ablation::PART,
        universities::PART,
        predicates::PART,
    ],
};

#[derive(Args, Clone)]
pub(crate) struct PapersOptions {
    /// Only these parts
    #[arg(long, value_delimiter = ',', value_parser = PossibleValuesParser::new(PARTS.names()))]
    only: Vec<String>,
    /// About how many triples are stored before anything streams
    #[arg(long, default_value_t = 5_000_000)]
    stored: u64,
    /// Tuples per second of all five streams together
    #[arg(long, default_value_t = 133_500)]
    rate: u32,
    /// Seconds that each figure is measured
    #[arg(long, default_value_t = 4)]
    seconds: i64,
    /// Shards
    #[arg(long, default_value_t = 1)]
    workers: u16,
    /// Standing queries of the part `log`
    #[arg(long, default_value_t = 10_000)]
    queries: u64,
    /// Universities of the part `universities`, of some 134,000 triples each; 2,560 need 40 GiB
    #[arg(long, default_value_t = 400)]
    universities: u32,
    /// Universities that are stored in the parts `incoming` and `ablation`
    #[arg(long, default_value_t = 40)]
    some_universities: u32,
    /// Triples a second that come in beside the queries of the part `incoming`
    #[arg(long, default_value_t = 1_000_000)]
    incoming: u64,
    /// Triples of the part `predicates`
    #[arg(long, default_value_t = 5_000_000)]
    triples: u64,
    /// Predicates of the part `predicates`
    #[arg(long, default_value_t = 14_000)]
    predicates: u32,
    /// Folder for files that a part writes while it runs
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
pub(crate) fn run(options: &PapersOptions) -> Result<(), String> {
    PARTS.run(&options.only, options, &options.results)
}

/// A part of this command.
type PaperPart = SheetPart<PapersOptions>;

#[cfg(test)]
impl PapersOptions {
    /// The smallest setting, for tests of the counts and not of the times.
    fn smallest() -> PapersOptions {
        PapersOptions {
            only: Vec::new(),
            stored: 20_000,
            rate: 2_000,
            seconds: 1,
            workers: 1,
            queries: 30,
            universities: 1,
            some_universities: 1,
            incoming: 5_000,
            triples: 20_000,
            predicates: 200,
            data: PathBuf::new(),
            results: PathBuf::new(),
        }
    }
}
