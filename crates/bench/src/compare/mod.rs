//! Two builds of the engine, measured in turn in one run: the base, then this one, round after
//! round.
//!
//! Machines are shared and drift, so absolute times of two runs say little. Each round measures
//! both builds and gives one ratio a figure; a figure counts as worse only if every round says so.
//! Before changing anything here: the base is another commit's binary, so this module may use only
//! arguments and result files that both commits have.

mod figures;
mod ratios;

use clap::Args;
use figures::Measurement;
use ratios::{Comparison, Finding};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

#[derive(Args, Clone)]
pub(crate) struct PairOptions {
    /// The somersault-bench binary of the build to compare with
    #[arg(long)]
    base: PathBuf,
    /// Rounds; each measures both builds once
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Only these measurements
    #[arg(long, value_delimiter = ',', value_parser = figures::names())]
    only: Vec<String>,
    /// Triples stored before the streams start
    #[arg(long, default_value_t = 10_000_000)]
    stored: u64,
    /// Percentage by which a figure may be worse than that of the base
    #[arg(long, default_value_t = 3.0)]
    tolerance: f64,
    /// The folder for the result files and the output of the rounds
    #[arg(long, default_value = "target/ab/rounds")]
    rounds_folder: PathBuf,
}

/// One of the two builds.
struct Build<'a> {
    name: &'a str,
    program: PathBuf,
}

/// Measures both builds and prints one line a figure.
///
/// # Errors
/// If a build cannot be measured, or if a figure is worse than that of the base in every round.
pub(crate) fn run(options: &PairOptions) -> Result<(), String> {
    let current = std::env::current_exe()
        .map_err(|error| format!("the path of this binary is not known: {error}"))?;
    let builds = [
        Build {
            name: "base",
            program: options.base.clone(),
        },
        Build {
            name: "this",
            program: current,
        },
    ];
    let mut worse = Vec::new();
    for measurement in figures::MEASUREMENTS {
        if !options.only.is_empty() && !options.only.iter().any(|name| name == measurement.name) {
            continue;
        }
        println!("\n{}: {}", measurement.name, measurement.what);
        let comparisons = measure(measurement, &builds, options)?;
        print(&comparisons, options.tolerance);
        worse.extend(
            comparisons
                .into_iter()
                .filter(|comparison| comparison.finding(options.tolerance) == Finding::Worse)
                .map(|comparison| format!("{}, {}", measurement.name, comparison.figure)),
        );
    }
    if worse.is_empty() {
        println!("\nno figure is worse than that of the base in every round");
        return Ok(());
    }
    Err(format!(
        "worse than the base by more than {} % in every round:\n  {}",
        options.tolerance,
        worse.join("\n  ")
    ))
}

/// Runs one measurement with both builds, round after round.
fn measure(
    measurement: &Measurement,
    builds: &[Build; 2],
    options: &PairOptions,
) -> Result<Vec<Comparison>, String> {
    let mut rounds: BTreeMap<String, Vec<[f64; 2]>> = BTreeMap::new();
    for round in 0..options.rounds {
        let mut values = [BTreeMap::new(), BTreeMap::new()];
        // The first build warms the machine up for the second, so they swap places every round.
        let order = if round % 2 == 0 { [0, 1] } else { [1, 0] };
        for index in order {
            let build = &builds[index];
            eprintln!(
                "  round {} of {}: {} build",
                round + 1,
                options.rounds,
                build.name
            );
            let folder = options
                .rounds_folder
                .join(format!("{}-{round}-{}", measurement.name, build.name));
            values[index] = measured_by(measurement, build, &folder, options)?;
        }
        let [base, this] = values;
        for (figure, base) in base {
            if let Some(this) = this.get(&figure) {
                rounds.entry(figure).or_default().push([base, *this]);
            }
        }
    }
    if rounds.is_empty() {
        return Err(format!(
            "{}: the two builds have no figure in common",
            measurement.name
        ));
    }
    Ok(rounds
        .into_iter()
        .map(|(figure, rounds)| Comparison { figure, rounds })
        .collect())
}

/// The figures of one build in one round, by name.
fn measured_by(
    measurement: &Measurement,
    build: &Build<'_>,
    folder: &Path,
    options: &PairOptions,
) -> Result<BTreeMap<String, f64>, String> {
    let failed = |error: &dyn std::fmt::Display| {
        format!("{}, {} build: {error}", measurement.name, build.name)
    };
    std::fs::create_dir_all(folder).map_err(|error| failed(&error))?;
    let output = folder.join("output.txt");
    let file = std::fs::File::create(&output).map_err(|error| failed(&error))?;
    let errors = file.try_clone().map_err(|error| failed(&error))?;
    let status = Command::new(&build.program)
        .args(measurement.arguments(options.stored))
        .arg("--results")
        .arg(folder)
        .stdin(Stdio::null())
        .stdout(file)
        .stderr(errors)
        .status()
        .map_err(|error| failed(&error))?;
    if !status.success() {
        return Err(failed(&format!(
            "{} ended with {status}; its output is in {}",
            build.program.display(),
            output.display()
        )));
    }
    let path = folder.join(format!("{}.json", measurement.file));
    let text = std::fs::read_to_string(&path)
        .map_err(|error| failed(&format!("{} cannot be read: {error}", path.display())))?;
    let report: Value = serde_json::from_str(&text)
        .map_err(|error| failed(&format!("{} is not JSON: {error}", path.display())))?;
    Ok((measurement.figures)(&report))
}

fn print(comparisons: &[Comparison], tolerance: f64) {
    println!(
        "  {:<34} {:>12} {:>12} {:>8}  {:<15} finding",
        "figure (less is better)", "base", "this", "ratio", "least to most"
    );
    for comparison in comparisons {
        let [least, most] = comparison.range();
        let range = format!("{least:.3} to {most:.3}");
        println!(
            "  {:<34} {:>12.4} {:>12.4} {:>8.3}  {range:<15} {}",
            comparison.figure,
            comparison.median_of(0),
            comparison.median_of(1),
            comparison.ratio(),
            comparison.finding(tolerance)
        );
    }
}
