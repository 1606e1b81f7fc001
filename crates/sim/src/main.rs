//! `somersault-sim`: runs seeds and says which ones failed. Exit codes: 0 all held, 1 one failed, 2
//! wrong usage.

use clap::Parser;
use somersault_sim::histories::run_history;
use somersault_sim::many::{Event, Running, run_many};
use somersault_sim::{Summary, run, run_part, run_twice, trace_of};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Random streams, windows, queries, updates and crashes on a simulated process and disk, compared
/// with a dull twin.
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
    /// Number of seeds to run
    #[arg(long, default_value_t = 1)]
    seeds: u64,
    /// Number of seeds to run at once; the number of cores by default
    #[arg(long)]
    threads: Option<usize>,
    /// Number of steps in each
    #[arg(long, default_value_t = 120)]
    steps: usize,
    /// Only these steps, by number, of the one seed.
    #[arg(long, value_delimiter = ',', conflicts_with = "seeds")]
    only: Option<Vec<usize>>,
    /// Run each seed twice; it fails if the second run differs
    #[arg(long, conflicts_with = "only")]
    twice: bool,
    /// Write what the one seed does to this file: a line for each turn, write and answer
    #[arg(long, conflicts_with_all = ["seeds", "only", "twice"])]
    trace: Option<PathBuf>,
    /// Histories of concurrent transactions instead, with crashes, checked for serializability
    #[arg(long, conflicts_with_all = ["only", "twice", "trace"])]
    histories: bool,
    /// Print the counts of each seed, not only those of all.
    #[arg(long)]
    verbose: bool,
}

/// The interval between reports of progress.
const PROGRESS: Duration = Duration::from_secs(10);
/// A seed that runs for longer than this is named.
const LONG: Duration = Duration::from_secs(30);

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Some(file) = &arguments.trace {
        return write_trace(&arguments, file);
    }
    if arguments.histories {
        return run_histories(&arguments);
    }
    let all_cores = || std::thread::available_parallelism().map_or(1, usize::from);
    let threads = arguments.threads.unwrap_or_else(all_cores);
    let seeds = arguments.seed..arguments.seed.saturating_add(arguments.seeds);
    let run = |seed: u64| match &arguments.only {
        Some(only) => run_part(seed, arguments.steps, only),
        None if arguments.twice => run_twice(seed, arguments.steps),
        None => run(seed, arguments.steps),
    };
    let mut progress = Progress {
        seeds: arguments.seeds,
        verbose: arguments.verbose,
        done: 0,
        total: Summary::default(),
        started: Instant::now(),
        said: Instant::now(),
    };
    let failed = run_many(seeds, threads, &run, PROGRESS, &mut |event, running| {
        progress.on(event, running);
    });
    let Progress { done, total, .. } = progress;
    println!("{done} seeds: {total}");
    if failed.is_empty() {
        return ExitCode::SUCCESS;
    }
    let numbers: Vec<String> = failed.iter().map(u64::to_string).collect();
    eprintln!("failed: seeds {}", numbers.join(", "));
    ExitCode::FAILURE
}

/// Runs the seeds of histories, one after the other.
fn run_histories(arguments: &Arguments) -> ExitCode {
    let seeds = arguments.seed..arguments.seed.saturating_add(arguments.seeds);
    let (mut ok, mut crashes) = (0, 0);
    for seed in seeds {
        match run_history(seed, arguments.steps as u64, None) {
            Ok(run) if run.verdict.anomalies.is_empty() => {
                if arguments.verbose {
                    println!("seed {seed}: {}", run.verdict);
                }
                ok += run.verdict.ok;
                crashes += run.crashes;
            }
            Ok(run) => {
                eprintln!("seed {seed}: {}", run.verdict);
                return ExitCode::FAILURE;
            }
            Err(reason) => {
                eprintln!("seed {seed}: {reason}");
                return ExitCode::FAILURE;
            }
        }
    }
    println!(
        "{} seeds: {ok} transactions, {crashes} crashes",
        arguments.seeds
    );
    ExitCode::SUCCESS
}

/// Writes the trace of a seed. Two traces of it are equal; `diff` shows where a change of the
/// engine changed the run.
fn write_trace(arguments: &Arguments, file: &Path) -> ExitCode {
    let trace = trace_of(arguments.seed, arguments.steps);
    let mut text = trace.lines().join("\n");
    text.push('\n');
    match std::fs::write(file, text) {
        Ok(()) => {
            println!("seed {}: trace {:016x}", arguments.seed, trace.hash());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{} cannot be written: {error}", file.display());
            ExitCode::FAILURE
        }
    }
}

struct Progress {
    seeds: u64,
    verbose: bool,
    done: u64,
    total: Summary,
    started: Instant,
    said: Instant,
}

impl Progress {
    fn on(&mut self, event: Event, running: &Running) {
        match event {
            Event::Passed(seed, summary) => {
                self.done += 1;
                self.total += summary;
                if self.verbose {
                    println!("seed {seed}: {summary}");
                }
            }
            Event::Failed(_, what) => {
                self.done += 1;
                eprintln!("{what}");
            }
            Event::Waiting => {}
        }
        if self.said.elapsed() >= PROGRESS && self.done < self.seeds {
            self.said = Instant::now();
            self.say(running);
        }
    }

    fn say(&self, running: &Running) {
        let took = self.started.elapsed().as_secs_f64();
        let left = took / self.done.max(1) as f64 * (self.seeds - self.done) as f64;
        let long = running.oldest().filter(|(_, since)| *since >= LONG);
        let long = long.map_or_else(String::new, |(seed, since)| {
            format!("; seed {seed} has been running for {} s", since.as_secs())
        });
        println!(
            "{} of {} seeds in {took:.0} s, about {left:.0} s to go: {}{long}",
            self.done, self.seeds, self.total
        );
    }
}
