//! Measures the engine on generated data and prints a table; `bench/results/streams.json` keeps the figures.
//! Times here are for people to read, never for a test to assert.

mod machine;
mod streams;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Workloads and measurements of Somersault.
#[derive(Parser)]
#[command(name = "somersault-bench")]
struct Cli {
    #[command(subcommand)]
    workload: Workload,
}

#[derive(Subcommand)]
enum Workload {
    /// Everything
    All(streams::Options),
    /// Continuous queries over the five streams, and injection alone
    Streams(streams::Options),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().workload {
        Workload::All(options) | Workload::Streams(options) => streams::run(&options),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("somersault-bench: {error}");
            ExitCode::FAILURE
        }
    }
}
