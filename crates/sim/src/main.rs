//! `somersault-sim`: runs seeds and says which one failed. Exit codes: 0 all held, 1 one failed, 2 wrong usage.

use clap::Parser;
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
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    for seed in arguments.seed..arguments.seed.saturating_add(arguments.seeds) {
        match somersault_sim::run(seed, arguments.steps) {
            Ok(summary) => println!("seed {seed}: {summary:?}"),
            Err(failure) => {
                eprintln!("{failure}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}
