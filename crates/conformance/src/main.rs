//! `somersault-conformance`: the command line of the test suites. Exit codes: 0 as expected, 1 a
//! surprise, 2 wrong usage.

use clap::{Args, Parser, Subcommand, ValueEnum};
use somersault_conformance::jena::{self, JenaOptions};
use somersault_conformance::rsp::child::{self, KillPlan};
use somersault_conformance::rsp::dialect::Dialect;
use somersault_conformance::rsp::suite::Suite;
use somersault_conformance::rsp::{self, RunOptions};
use somersault_conformance::script::{Script, ScriptOptions};
use somersault_conformance::txn::{self, TxnOptions};
use somersault_conformance::w3c::skips::Skips;
use somersault_conformance::w3c::subject::{EngineSubject, Subject};
use somersault_conformance::w3c::{self, twin::SparevalSubject};
use somersault_suites::RecoveryText;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Parser)]
#[command(
    name = "somersault-conformance",
    version,
    about = "Runs the public test suites and our own"
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the W3C suites: a line per suite with passed, failed and skipped tests.
    #[command(after_help = "Example:\n  somersault-conformance w3c ../shared/data/w3c")]
    W3c {
        /// The folder that holds sparql/ and rdf/.
        folder: PathBuf,
        /// Only the suites whose name contains this.
        #[arg(long, default_value = "")]
        only: String,
        /// The system under test; spareval answers queries only, over plain quads, and shows
        /// whether a failure is the engine's
        #[arg(long, value_enum, default_value_t = System::Somersault)]
        engine: System,
    },
    /// Run suites of windowed queries over recorded streams: a line per query with closes compared
    /// and differing.
    #[command(
        after_help = "Example:\n  somersault-conformance rsp ../shared/data/lsbench/gen200/suite.json --shards 4"
    )]
    Rsp(RspArguments),
    /// Run suites of transactions: a line per suite, and one for each of the first differences.
    #[command(
        after_help = "Example:\n  somersault-conformance txn ../shared/data/transactions/chains/*/suite*.json --shards 4 --kill-points 3"
    )]
    Txn(TxnArguments),
    /// Run cases by name, which state the inputs of the engine and its required answers: a line per
    /// case.
    #[command(
        after_help = "Example:\n  somersault-conformance cases crates/conformance/cases/by-name/*.case"
    )]
    Cases(CaseArguments),
    /// Compare every operator and function, and drawn queries, with Apache Jena: a line per
    /// difference that crates/conformance/oracle/differences.tsv does not allow, and counts of
    /// those that it does.
    #[command(
        after_help = "Example:\n  make jena-oracle\n  somersault-conformance jena --classpath jena.jar:oracle --queries 2000"
    )]
    Jena(JenaArguments),
    /// The engine's side of a run with --kill-points; not for people.
    #[command(hide = true)]
    RspChild,
    /// The same for suites of transactions.
    #[command(hide = true)]
    TxnChild,
}

/// The layout of the engine under test.
#[derive(Args)]
struct Layout {
    /// Number of shards of the store
    #[arg(long, default_value_t = 2)]
    shards: u16,
    /// The fabric that carries batches to the shards
    #[arg(long, value_enum, default_value_t = Fabric::Timely)]
    fabric: Fabric,
    /// The seed of the simulated fabric and of the kill points
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

impl Layout {
    /// The seed of the simulated fabric, if that is what carries batches.
    fn simulated(&self) -> Option<u64> {
        (self.fabric == Fabric::Sim).then_some(self.seed)
    }
}

#[derive(Args)]
struct RspArguments {
    /// The suites.
    #[arg(required = true)]
    suites: Vec<PathBuf>,
    #[command(flatten)]
    layout: Layout,
    /// The system under test; spareval stands for the dull twin, which keeps the whole history and
    /// recomputes every window
    #[arg(long, value_enum, default_value_t = System::Somersault)]
    engine: System,
    /// The dialect of the continuous queries: rsp-ql and cqels-ql translate them, and the report
    /// names those that they cannot express
    #[arg(long, value_enum, default_value_t = Dialect::CSparql)]
    dialect: Dialect,
    /// Have queries retain rows between closes wherever that is possible, not only where it is
    /// quicker.
    #[arg(long)]
    delta: bool,
    /// Keep the engine's log in a new folder below this one.
    #[arg(long)]
    data: Option<PathBuf>,
    /// Number of times to kill the engine's process (SIGKILL) and restart it
    #[arg(long, default_value_t = 0)]
    kill_points: usize,
    /// With --kill-points: begin a checkpoint after this number of requests, again and again, and
    /// restart with 1, 2 and 4 shards in turn
    #[arg(long, default_value_t = 0)]
    checkpoint_every: usize,
}

#[derive(Args)]
struct TxnArguments {
    /// The suites.
    #[arg(required = true)]
    suites: Vec<PathBuf>,
    #[command(flatten)]
    layout: Layout,
    /// The recovery of all dataflows: RECOVERY STRONG and RECOVERY WEAK are replaced in their texts
    #[arg(long, value_enum, default_value_t = Recovery::AsWritten)]
    recovery: Recovery,
    /// Number of times to kill the engine and restart it: its process with SIGKILL; with --fabric
    /// sim and --crash, by a crash of its simulated disk
    #[arg(long, default_value_t = 0)]
    kill_points: usize,
    /// Let a simulated disk crash under an engine with threads, where --kill-points would end a
    /// process
    #[arg(long)]
    crash: bool,
    /// After this number of requests, again and again, kill the engine and take a checkpoint of the
    /// one that comes after it, which has 1, 2 or 4 shards
    #[arg(long, default_value_t = 0)]
    checkpoint_every: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Recovery {
    /// As the suite has it.
    AsWritten,
    /// STRONG everywhere.
    Strong,
    /// WEAK everywhere.
    Weak,
}

#[derive(Args)]
struct CaseArguments {
    /// The cases.
    #[arg(required = true)]
    cases: Vec<PathBuf>,
    #[command(flatten)]
    layout: Layout,
}

#[derive(Args)]
struct JenaArguments {
    /// Class path of Jena and the compiled Oracle.java
    #[arg(long)]
    classpath: String,
    /// Number of queries to draw
    #[arg(long, default_value_t = 1000)]
    queries: u64,
    /// The seed of queries and data
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only expressions of the matrix that contain this, and no queries.
    #[arg(long, default_value = "")]
    only: String,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum System {
    /// The engine.
    Somersault,
    /// Its dull twin.
    Spareval,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Fabric {
    /// Timely dataflow workers.
    Timely,
    /// The seeded simulator on one thread.
    Sim,
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::W3c {
            folder,
            only,
            engine,
        } => run_w3c(&folder, &only, engine),
        Command::Rsp(arguments) => run_rsp(&arguments),
        Command::Txn(arguments) => run_txn(&arguments),
        Command::Cases(arguments) => run_cases(&arguments),
        Command::Jena(arguments) => run_jena(arguments),
        Command::RspChild => child::serve(std::io::stdin().lock(), std::io::stdout().lock())
            .map(|()| true)
            .map_err(Into::into),
        Command::TxnChild => txn::serve(std::io::stdin().lock(), std::io::stdout().lock())
            .map(|()| true)
            .map_err(Into::into),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

type RunResult = Result<bool, Box<dyn std::error::Error>>;

fn run_w3c(folder: &std::path::Path, only: &str, engine: System) -> RunResult {
    let skips = Skips::of_this_crate()?;
    let mut subject: Box<dyn Subject> = match engine {
        System::Somersault => Box::new(EngineSubject::open()?),
        System::Spareval => Box::<SparevalSubject>::default(),
    };
    let report = w3c::run(folder, only, subject.as_mut(), &skips, &mut |suite| {
        println!("{suite}")
    })?;
    for id in &report.unmet {
        println!("the skip list names {id}, which no suite has");
    }
    println!();
    for (group, (passed, failed, skipped)) in report.totals() {
        println!("{group:<50} passed {passed:>4}  failed {failed:>3}  skipped {skipped:>3}");
    }
    Ok(report.is_clean())
}

fn run_rsp(arguments: &RspArguments) -> RunResult {
    let kill = match arguments.kill_points {
        0 => None,
        points => Some(KillPlan {
            points,
            seed: arguments.layout.seed,
            program: std::env::current_exe()?,
        }),
    };
    let options = RunOptions {
        shards: arguments.layout.shards,
        simulated: arguments.layout.simulated(),
        data: arguments.data.clone(),
        twin: arguments.engine == System::Spareval,
        dialect: arguments.dialect,
        delta: arguments.delta,
        kill,
        checkpoint_every: arguments.checkpoint_every,
    };
    let mut exact = true;
    for path in &arguments.suites {
        let report = rsp::run(&Suite::read(path)?, &options)?;
        println!("{report}");
        exact &= report.is_exact();
    }
    Ok(exact)
}

fn run_txn(arguments: &TxnArguments) -> RunResult {
    let options = TxnOptions {
        shards: arguments.layout.shards,
        simulated: arguments.layout.simulated(),
        seed: arguments.layout.seed,
        recovery: match arguments.recovery {
            Recovery::AsWritten => RecoveryText::AsWritten,
            Recovery::Strong => RecoveryText::Strong,
            Recovery::Weak => RecoveryText::Weak,
        },
        kill_points: arguments.kill_points,
        program: match arguments.crash {
            true => None,
            false => Some(std::env::current_exe()?),
        },
        checkpoint_every: arguments.checkpoint_every,
    };
    let mut exact = true;
    for path in &arguments.suites {
        match txn::run_file(path, &options) {
            Ok(report) => {
                println!("{report}");
                exact &= report.is_exact();
            }
            Err(error) => {
                println!("{}: FAILS: {error}", path.display());
                exact = false;
            }
        }
    }
    Ok(exact)
}

fn run_jena(arguments: JenaArguments) -> RunResult {
    let report = jena::run(&JenaOptions {
        classpath: arguments.classpath,
        queries: arguments.queries,
        seed: arguments.seed,
        only: arguments.only,
    })?;
    println!("{report}");
    Ok(report.is_clean())
}

fn run_cases(arguments: &CaseArguments) -> RunResult {
    let options = ScriptOptions {
        shards: arguments.layout.shards,
        simulated: arguments.layout.simulated(),
    };
    let mut right = true;
    for path in &arguments.cases {
        let script = Script::read(path)?;
        let outcome = script.run(options);
        right &= outcome.is_ok();
        match outcome {
            Ok(()) => println!("{}: right", script.name),
            Err(fault) => println!("{fault}"),
        }
    }
    Ok(right)
}
