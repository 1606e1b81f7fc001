//! `replay`: recorded streams through queries in this process; every firing is one line of the
//! answer format.

use crate::args::{ReplayArgs, Speed};
use crate::error::CliError;
use crate::files;
use crate::script;
use crate::target::load_file;
use somersault::answer_format::{AnswerLine, AnswerTime};
use somersault::replay::{self, ReplayError, ReplayPlan, Step, StreamFile};
use somersault::{
    Clock, Engine, EngineConfig, EventTime, SubscribeOptions, Subscription, SubscriptionEvent,
};
use somersault_lang::Statement;
use std::collections::BTreeSet;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Batch interval of a stream that no declaration names.
const DEFAULT_BATCH_MS: i64 = 100;
/// The time that the engine may take to answer everything that is due at the end.
const DRAIN: Duration = Duration::from_secs(600);

/// Loads, declares, registers, plays, and writes the answers.
///
/// # Errors
/// At the first file, text or line that is refused.
pub(crate) fn run(args: &ReplayArgs) -> Result<(), CliError> {
    let engine = Engine::open(EngineConfig {
        workers: args.workers,
        default_namespace: args.namespace.clone(),
        clock: Clock::Manual,
        ..EngineConfig::default()
    })?;
    for path in &args.stored {
        load_file(&engine, path, args.graph.as_deref())?;
    }
    let files = args
        .streams
        .iter()
        .map(|given| stream_file(given))
        .collect::<Result<Vec<_>, _>>()?;
    let batch_ms = declare(&engine, args, &files)?;
    let mut answers = Answers::new(&engine, args)?;

    let plan = ReplayPlan {
        files,
        batch_ms,
        until: args.until.map(EventTime),
        snapshots: Vec::new(),
    };
    let speed = match args.speed {
        Speed::Max => replay::Speed::Max,
        Speed::Real => replay::Speed::Times(1.0),
        Speed::Ten => replay::Speed::Times(10.0),
    };
    let bar = files::spinner("{spinner} {pos} statements  {msg}  {elapsed}");
    let summary = replay::replay(&engine, &plan, speed, &mut |step, so_far| {
        bar.set_position(so_far.statements);
        if let Step::Advance { to } = step {
            bar.set_message(format!("at {to}"));
        }
        answers
            .write_ready()
            .map_err(|error| ReplayError::Target(error.to_string()))
    })
    .map_err(|error| CliError::Failed(error.to_string()))?;
    engine.quiesce(DRAIN)?;
    answers.write_ready()?;
    answers.out.flush()?;
    bar.finish_and_clear();
    eprintln!(
        "{} statements of {} streams played to {} in {:.2} s, {} firings written",
        summary.statements,
        plan.files.len(),
        summary.end,
        summary.elapsed.as_secs_f64(),
        answers.written
    );
    engine.shutdown()?;
    Ok(())
}

/// `IRI=FILE`, split at the last `=` that leaves an existing file.
fn stream_file(given: &str) -> Result<StreamFile, CliError> {
    given
        .match_indices('=')
        .map(|(at, _)| (&given[..at], Path::new(&given[at + 1..])))
        .find(|(iri, path)| !iri.is_empty() && path.is_file())
        .map(|(iri, path)| StreamFile {
            stream: iri.to_owned(),
            path: path.to_owned(),
        })
        .ok_or_else(|| {
            CliError::Usage(format!(
                "--stream {given} is not IRI=FILE with a file that exists"
            ))
        })
}

/// Declares every stream and returns the interval that the replay pushes by: the greatest common
/// divisor of the batches.
fn declare(engine: &Engine, args: &ReplayArgs, files: &[StreamFile]) -> Result<i64, CliError> {
    let mut declared = BTreeSet::new();
    for path in &args.create {
        for statement in script::read(path, args.namespace.as_deref())? {
            let place = script::place(path, &statement);
            if !matches!(statement.statement, Statement::CreateStream(_)) {
                return Err(CliError::Failed(format!(
                    "{place}: --create takes CREATE STREAM statements, and this is {}; continuous queries are given with --query",
                    script::kind(&statement.statement)
                )));
            }
            let stream = engine.create_stream(None, &statement.text);
            declared.insert(stream.map_err(|error| CliError::failed(place, error))?.iri);
        }
    }
    for file in files {
        if !declared.contains(&file.stream) {
            engine.create_stream(
                None,
                &format!(
                    "CREATE STREAM <{}> BATCH {DEFAULT_BATCH_MS}ms IDLE NEVER",
                    file.stream
                ),
            )?;
        }
    }
    Ok(engine
        .streams()
        .iter()
        .map(|stream| stream.batch_ms)
        .fold(0, gcd)
        .max(1))
}

fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// The subscriptions of a replay and where their firings go.
struct Answers {
    subscriptions: Vec<Subscription>,
    out: BufWriter<Box<dyn Write>>,
    written: u64,
}

impl Answers {
    fn new(engine: &Engine, args: &ReplayArgs) -> Result<Self, CliError> {
        let mut subscriptions = Vec::new();
        for path in &args.queries {
            for statement in script::read(path, args.namespace.as_deref())? {
                let place = script::place(path, &statement);
                let Statement::Register(query) = &statement.statement else {
                    return Err(CliError::Failed(format!(
                        "{place}: --query takes continuous queries, and this is {}; CREATE STREAM statements are given with --create",
                        script::kind(&statement.statement)
                    )));
                };
                let name = query.name.clone().unwrap_or_else(|| stem(path));
                engine
                    .register(Some(&name), &statement.text)
                    .map_err(|error| CliError::failed(place, error))?;
                let options = SubscribeOptions {
                    capacity: usize::MAX,
                    ..SubscribeOptions::default()
                };
                subscriptions.push(engine.subscribe(&name, options)?);
            }
        }
        Ok(Self {
            subscriptions,
            out: BufWriter::new(files::output(args.output.as_deref())?),
            written: 0,
        })
    }

    /// Writes the firings that are there, query by query.
    fn write_ready(&mut self) -> Result<(), CliError> {
        for subscription in &self.subscriptions {
            while let Some(event) = subscription.try_recv() {
                let SubscriptionEvent::Firing(firing) = event else {
                    return Err(CliError::Failed(
                        "firings were lost before they were written; use a slower --speed"
                            .to_owned(),
                    ));
                };
                let answer = firing.answer.as_ref().map_err(|reason| {
                    CliError::Failed(format!(
                        "query {} has no answer for its close {}: {reason}",
                        firing.query, firing.close
                    ))
                })?;
                let line =
                    AnswerLine::new(&firing.query, AnswerTime::Close(firing.close), answer, true);
                writeln!(self.out, "{}", line.to_json())?;
                self.written += 1;
            }
        }
        Ok(())
    }
}

fn stem(path: &Path) -> String {
    PathBuf::from(path).file_stem().map_or_else(
        || "query".to_owned(),
        |stem| stem.to_string_lossy().into_owned(),
    )
}
