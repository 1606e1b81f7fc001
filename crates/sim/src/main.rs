//! `somersault-sim`: runs seeds and says which one failed. Exit codes: 0 all held, 1 one failed, 2 wrong usage.

use clap::Parser;
use somersault_sim::{Summary, run, run_part};
use std::process::ExitCode;

/// Random streams, windows, queries, updates and crashes on the simulated fabric and disk, compared with a dull twin.
#[derive(Parser)]
#[command(
    name = "somersault-sim",
    version,
    after_help = "Example:\n  somersault-sim --seed 42"
)]
struct Arguments {
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many seeds to run, one after another.
    #[arg(long, default_value_t = 1)]
    seeds: u64,
    /// How many things happen in each.
    #[arg(long, default_value_t = 120)]
    steps: usize,
    /// Only these steps, by number, of the one seed.
    #[arg(long, value_delimiter = ',', conflicts_with = "seeds")]
    only: Option<Vec<usize>>,
    /// Say what each seed did, not only what all of them did.
    #[arg(long)]
    verbose: bool,
}

/// After so many seeds it says how far it is.
const PROGRESS: u64 = 1000;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let mut total = Summary::default();
    for seed in arguments.seed..arguments.seed.saturating_add(arguments.seeds) {
        let outcome = match &arguments.only {
            Some(only) => run_part(seed, arguments.steps, only),
            None => run(seed, arguments.steps),
        };
        match outcome {
            Ok(summary) => {
                if arguments.verbose {
                    println!("seed {seed}: {summary}");
                }
                total += summary;
                let done = seed - arguments.seed + 1;
                if done.is_multiple_of(PROGRESS) {
                    println!("{done} seeds so far: {total}");
                }
            }
            Err(failure) => {
                eprintln!("{failure}");
                return ExitCode::FAILURE;
            }
        }
    }
    println!("{} seeds: {total}", arguments.seeds);
    ExitCode::SUCCESS
}
