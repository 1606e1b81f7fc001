//! The one binary: parses the command line, runs the subcommand, says in one sentence what went
//! wrong.

mod args;
mod client;
mod commands;
mod demo;
mod error;
mod files;
mod follow;
mod script;
mod signals;
mod sse;
mod table;
mod target;
mod times;
mod values;

use args::{Cli, Command};
use clap::Parser;
use mimalloc::MiMalloc;
use std::io::IsTerminal;
use std::process::ExitCode;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

/// Slices, lists and pushes are freed on other threads than those that made them (ADR 18).
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Which of the engine's own reports are shown, such as `debug` or `somersault_server=debug`;
/// warnings if it is not set.
const REPORTS: &str = "SOMERSAULT_LOG";

fn main() -> ExitCode {
    let cli = Cli::parse();
    show_reports();
    if let Err(error) = survive_size_limit() {
        eprintln!("somersault: a file that reaches the size limit will end the process: {error}");
    }
    let outcome = match &cli.command {
        Command::Serve(args) => commands::serve::run(args),
        Command::Load(args) => commands::load::run(args),
        Command::Query(args) => commands::query::query(args),
        Command::Update(args) => commands::query::update(args),
        Command::Explain(args) => commands::query::explain(args),
        Command::Register(args) => commands::register::run(args),
        Command::Push(args) => commands::push::run(args),
        Command::Status(args) => commands::status::run(args),
        Command::Checkpoint(args) => commands::checkpoint::run(args),
        Command::Subscribe(args) => commands::subscribe::run(args),
        Command::Subscriptions(args) => commands::subscriptions::run(&args.command),
        Command::Call(args) => commands::call::run(args),
        Command::Procedures(args) => commands::transactions::procedures(&args.command),
        Command::Dataflows(args) => commands::transactions::dataflows(&args.command),
        Command::Token(args) => commands::token::run(&args.command),
        Command::Drop(args) => commands::manage::drop(args),
        Command::Pause(args) => commands::manage::pause(args),
        Command::Resume(args) => commands::manage::resume(args),
        Command::Advance(args) => commands::manage::advance(args),
        Command::Export(args) => commands::export::run(args),
        Command::Dump(args) => commands::dump::run(args),
        Command::Backup(args) => commands::backup::run(args),
        Command::Restore(args) => commands::backup::restore(args),
        Command::Verify(args) => commands::verify::run(args),
        Command::Replay(args) => commands::replay::run(args),
        Command::Generate(args) => commands::generate::run(args),
        Command::Sources(args) => commands::connectors::list("sources", args),
        Command::Sinks(args) => commands::connectors::list("sinks", args),
        Command::Demo(args) => demo::run(args),
        Command::DemoVote(args) => demo::vote::run(args),
    };
    match outcome {
        Ok(()) | Err(error::CliError::ReaderGone) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("somersault: {error}");
            error.exit_code()
        }
    }
}

/// Makes a write beyond the limit of file sizes (RLIMIT_FSIZE) an error: without a handler for
/// SIGXFSZ the system ends the process. The handler stays when the runtime that set it is gone.
#[cfg(unix)]
fn survive_size_limit() -> std::io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    const SIGXFSZ: i32 = if cfg!(any(target_arch = "mips", target_arch = "mips64")) {
        31
    } else {
        25
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()?;
    let _entered = runtime.enter();
    signal(SignalKind::from_raw(SIGXFSZ)).map(drop)
}

#[cfg(not(unix))]
fn survive_size_limit() -> std::io::Result<()> {
    Ok(())
}

/// Shows what the engine and the server report (a torn tail of the log, a failed shard…) on
/// standard error.
fn show_reports() {
    let filter = EnvFilter::builder()
        .with_default_directive(LevelFilter::WARN.into())
        .with_env_var(REPORTS)
        .from_env_lossy();
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
}
