//! `somersault-conformance`: the command line of the test suites. Exit codes: 0 as expected, 1 a surprise, 2 wrong usage.

use clap::{Parser, Subcommand};
use somersault_conformance::w3c::{self, skips::Skips, subject::EngineSubject};
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Parser)]
#[command(name = "somersault-conformance", about = "Runs the public test suites")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the W3C suites of a folder that holds sparql/ and rdf/.
    W3c {
        /// The folder.
        folder: PathBuf,
        /// Only the suites whose name contains this.
        #[arg(long, default_value = "")]
        only: String,
        #[arg(long, default_value = "somersault")]
        engine: String,
    },
}

fn main() -> ExitCode {
    match run(Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Arguments) -> Result<bool, Box<dyn std::error::Error>> {
    match arguments.command {
        Command::W3c { folder, only, engine } => {
            let skips = Skips::of_this_crate()?;
            let mut subject: Box<dyn w3c::subject::Subject> = if engine == "spareval" { Box::<w3c::twin::SparevalSubject>::default() } else { Box::new(EngineSubject::open()?) };
            let report = w3c::run(&folder, &only, subject.as_mut(), &skips, &mut |suite| println!("{suite}"))?;
            for id in &report.unmet {
                println!("the skip list names {id}, which no suite has");
            }
            for (group, (passed, failed, skipped)) in report.totals() {
                println!("{group:<50} passed {passed:>4}  failed {failed:>3}  skipped {skipped:>3}");
            }
            Ok(report.is_clean())
        }
    }
}
