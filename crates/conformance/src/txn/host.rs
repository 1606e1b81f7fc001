//! The engine of a run and what it is asked. A request is data, so that it can be made in this
//! process, or in a child that can be killed.
//!
//! Before changing anything here: what the engine refuses is an answer. Whatever else fails is an
//! error, and after a planned crash the same request is made again.

use super::watch::Watch;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use somersault::disk::{Disk, RealDisk};
use somersault::oxrdf::{Quad, Term};
use somersault::process_simulation::SimulatedProcess;
use somersault::{
    Answer, AnswerKind, CallAnswer, CallOutcome, CheckpointConfig, Clock, Engine, EngineConfig,
    EngineError, EventTime, MessageNumbers, MessagePush, MessageSyntax,
};
use somersault_lang::{Parser, Statement};
use somersault_suites::{AbortedTransaction, AlwaysQuery, PushTally, terms};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

/// The time that what is due may take.
const PATIENCE: Duration = Duration::from_secs(300);
/// Limits on time never hold in a simulated process.
const NEVER: Duration = Duration::from_secs(86_400);

/// The settings with which the engine of a run is opened.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct EngineOptions {
    /// The number of shards.
    pub shards: u16,
    /// The seed of the simulated process; without it the engine has threads.
    pub simulated: Option<u64>,
    /// The folder of an engine in a child.
    pub data: Option<PathBuf>,
    /// The file that gets a line for each violation, beside the list that requests ask for.
    pub violations: Option<PathBuf>,
}

/// A call, its arguments as N-Triples terms in the order of the parameters.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct HostCall {
    /// The procedure.
    pub procedure: String,
    /// The arguments.
    pub arguments: Vec<String>,
    /// The source and the number under which it is remembered.
    pub key: Option<(String, u64)>,
}

/// What an engine is asked.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum EngineRequest {
    /// These queries are asked from now on.
    Watch(Vec<AlwaysQuery>),
    /// These statements, in N-Quads, are stored.
    Store(Vec<String>),
    /// A statement of the language.
    Statement(String),
    /// A body of messages.
    Push {
        /// The stream.
        stream: String,
        /// The source.
        source: String,
        /// The number of the first message.
        seq: u64,
        /// The media type of the text.
        media_type: String,
        /// The number of the messages.
        count: u64,
        /// The text.
        text: String,
    },
    /// Streams become complete through a time, in milliseconds.
    Advance(Vec<String>, i64),
    /// Calls, pipelined.
    Calls(Vec<HostCall>),
    /// A SPARQL update.
    Update(String),
    /// The state of a dataflow.
    State(String),
    /// A query on the stored graphs.
    Query(String),
    /// All that is due ends.
    Settle,
    /// The aborted transactions of a dataflow.
    Aborted(String),
    /// A checkpoint is taken.
    Checkpoint,
    /// The violations since the last time, and the number of queries that were asked.
    Violations,
    /// The invariants are checked, and the engine stops.
    Close,
}

impl EngineRequest {
    /// Whether it may be made twice without another effect than once.
    pub fn is_repeatable(&self) -> bool {
        !matches!(
            self,
            EngineRequest::Store(_)
                | EngineRequest::Statement(_)
                | EngineRequest::Update(_)
                | EngineRequest::Close
        )
    }
}

/// What it answers.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum EngineResponse {
    /// It is done.
    Done,
    /// It is refused, for this reason.
    Refused(String),
    /// What became of messages.
    Pushed(PushTally),
    /// The answers of calls.
    Answers(Vec<Value>),
    /// The answer of a query.
    Answer(Value),
    /// A state.
    State(String),
    /// Aborted transactions.
    Aborted(Vec<AbortedTransaction>),
    /// Violations, and the number of queries that were asked.
    Violations(Vec<String>, u64),
}

/// An engine in this process.
pub struct EngineHost {
    engine: Engine,
    watch: Watch,
}

impl EngineHost {
    /// Opens an engine on a disk; without one, on the folder of the options.
    ///
    /// # Errors
    /// The disk or the engine cannot be opened.
    pub fn open(options: &EngineOptions, disk: Option<Arc<dyn Disk>>) -> Result<Self, EngineError> {
        let disk: Arc<dyn Disk> = match (disk, &options.data) {
            (Some(disk), _) => disk,
            (None, Some(folder)) => {
                Arc::new(RealDisk::new(folder).map_err(|source| EngineError::Io {
                    context: format!("the folder {} cannot be used", folder.display()),
                    source,
                })?)
            }
            (None, None) => return Err(EngineError::Invalid("there is no disk".to_owned())),
        };
        let process = options.simulated.map(SimulatedProcess::new);
        let defaults = EngineConfig::default();
        let config = EngineConfig {
            workers: options.shards,
            clock: Clock::Manual,
            in_place_time: match process {
                Some(_) => NEVER,
                None => defaults.in_place_time,
            },
            process: process.clone(),
            // None but those that are asked for: the log is read before each, and then trimmed.
            checkpoints: CheckpointConfig {
                recovery_target: Duration::MAX,
                log_bytes: u64::MAX,
                at_shutdown: Duration::ZERO,
            },
            ..defaults
        };
        let engine = Engine::open_on(config, disk)?;
        let watch = Watch::new(&engine, process, options.violations.clone());
        Ok(EngineHost { engine, watch })
    }

    /// Answers a request.
    ///
    /// # Errors
    /// The engine fails, or its disk has crashed.
    pub fn ask(&mut self, request: &EngineRequest) -> Result<EngineResponse, EngineError> {
        match self.carry_out(request) {
            Err(error) if is_refusal(&error) => Ok(EngineResponse::Refused(error.to_string())),
            answer => answer,
        }
    }

    fn carry_out(&mut self, request: &EngineRequest) -> Result<EngineResponse, EngineError> {
        let engine = &self.engine;
        match request {
            EngineRequest::Watch(queries) => self.watch.begin(engine, queries.clone())?,
            EngineRequest::Store(lines) => {
                let quads = lines.iter().map(|line| {
                    Quad::from_str(line).map_err(|error| EngineError::Internal(error.to_string()))
                });
                engine.apply_effects(Vec::new(), quads.collect::<Result<_, _>>()?)?;
            }
            EngineRequest::Statement(text) => execute(engine, text)?,
            EngineRequest::Push {
                stream,
                source,
                seq,
                media_type,
                count,
                text,
            } => {
                let push = MessagePush {
                    source: Some(source.clone()),
                    seq: Some(*seq),
                    at: None,
                    syntax: syntax_of(media_type)?,
                };
                return push_all(engine, stream, push, *count, text);
            }
            EngineRequest::Advance(streams, to_ms) => {
                let to = EventTime(*to_ms);
                engine.advance(streams.iter().map(|stream| (stream, to)))?;
            }
            EngineRequest::Calls(calls) => return call_all(engine, calls),
            EngineRequest::Update(text) => {
                engine.update(text).run()?;
            }
            EngineRequest::State(name) => {
                let state = engine.dataflow_state(name)?;
                return Ok(EngineResponse::State(state.to_owned()));
            }
            EngineRequest::Query(text) => {
                let found = engine.query(text).run()?;
                return Ok(EngineResponse::Answer(of_query(&found.answer)));
            }
            EngineRequest::Settle => engine.quiesce(PATIENCE)?,
            EngineRequest::Aborted(dataflow) => return aborted(engine, dataflow),
            EngineRequest::Checkpoint => {
                engine.checkpoint()?;
            }
            EngineRequest::Violations => {
                let (violations, asked) = self.watch.take();
                return Ok(EngineResponse::Violations(violations, asked));
            }
            EngineRequest::Close => {
                self.watch.end();
                engine.check()?;
                engine.shutdown()?;
            }
        }
        Ok(EngineResponse::Done)
    }
}

impl Drop for EngineHost {
    fn drop(&mut self) {
        self.watch.end();
    }
}

fn syntax_of(media_type: &str) -> Result<MessageSyntax, EngineError> {
    let syntax = MessageSyntax::of_media_type(media_type);
    syntax.ok_or_else(|| EngineError::Internal(format!("{media_type} is no type of messages")))
}

/// Whether the error is a refusal of the request, rather than a failure of the engine.
fn is_refusal(error: &EngineError) -> bool {
    matches!(
        error,
        EngineError::Invalid(_)
            | EngineError::Late(_)
            | EngineError::NotFound(_)
            | EngineError::Conflict(_)
            | EngineError::NotSupported(_)
            | EngineError::UnderWay(_)
            | EngineError::Evaluation(_)
            | EngineError::Parse { .. }
            | EngineError::Data { .. }
    )
}

/// Carries out any statement of the language.
fn execute(engine: &Engine, text: &str) -> Result<(), EngineError> {
    let parsed = Parser::new().parse_statement(text);
    match parsed.map_err(|error| EngineError::Invalid(error.to_string()))? {
        Statement::CreateStream(_) => engine.create_stream(None, text).map(drop),
        Statement::DropStream(stream) => engine.drop_stream(stream.as_str()),
        Statement::Register(_) => engine.register(None, text).map(drop),
        Statement::DropQuery(name) => engine.drop_query(&name),
        Statement::PauseQuery(name) => engine.pause_query(&name),
        Statement::ResumeQuery(name) => engine.resume_query(&name),
        Statement::Call(call) => {
            let request = engine.call(&call.procedure).arguments(call.arguments);
            request.run().map(drop)
        }
        _ => engine.declare(text),
    }
}

fn push_all(
    engine: &Engine,
    stream: &str,
    push: MessagePush,
    count: u64,
    text: &str,
) -> Result<EngineResponse, EngineError> {
    let first = push.seq.unwrap_or(1);
    let receipt = match engine.push_messages(stream, push, text.as_bytes()) {
        // Nothing is taken from outside here.
        Err(error) if is_refusal(&error) => {
            return Ok(EngineResponse::Pushed(PushTally {
                refused: (first..first + count).collect(),
                ..PushTally::default()
            }));
        }
        receipt => receipt?,
    };
    let numbers = |of: &MessageNumbers| {
        let runs = of.runs().iter();
        runs.flat_map(|(first, last)| *first..=*last).collect()
    };
    let tally = PushTally {
        taken: numbers(&receipt.taken),
        repeated: numbers(&receipt.repeated),
        refused: numbers(&receipt.refused),
    };
    let looked_at = tally.taken.len() + tally.repeated.len() + tally.refused.len();
    match receipt.ended {
        Some(ended) if (looked_at as u64) < count => Err(ended.error),
        _ => Ok(EngineResponse::Pushed(tally)),
    }
}

fn call_all(engine: &Engine, calls: &[HostCall]) -> Result<EngineResponse, EngineError> {
    let mut pending = Vec::new();
    for call in calls {
        let terms = call.arguments.iter().map(|text| {
            Term::from_str(text).map_err(|error| EngineError::Internal(error.to_string()))
        });
        let mut request =
            (engine.call(&call.procedure)).arguments(terms.collect::<Result<Vec<_>, _>>()?);
        if let Some((source, number)) = &call.key {
            request = request.key(source, *number);
        }
        pending.push(request.begin());
    }
    let answers = pending
        .into_iter()
        .map(|call| match call.and_then(|call| call.wait()) {
            Ok(CallOutcome::Aborted { reason }) => Ok(json!({"abort": reason})),
            Ok(CallOutcome::Answered(answer)) => Ok(of_call(answer)),
            Err(error) if is_refusal(&error) => Ok(json!({"refused": true})),
            Err(error) => Err(error),
        });
    Ok(EngineResponse::Answers(answers.collect::<Result<_, _>>()?))
}

fn aborted(engine: &Engine, dataflow: &str) -> Result<EngineResponse, EngineError> {
    let listed = engine.aborted(dataflow)?;
    if listed.dropped > 0 {
        let dropped = listed.dropped;
        return Err(EngineError::Internal(format!(
            "{dataflow} lists its newest aborted transactions, and {dropped} are older; the runner compares all"
        )));
    }
    let all = listed.newest.into_iter().map(|abort| AbortedTransaction {
        procedure: abort.procedure,
        round: abort.round,
        reason: abort.reason,
    });
    Ok(EngineResponse::Aborted(all.collect()))
}

fn of_query(answer: &Answer) -> Value {
    match (answer.boolean(), answer.kind()) {
        (Some(value), _) => terms::of_boolean(value),
        (None, AnswerKind::Graph) => {
            let mut rows = Vec::new();
            for row in answer.rows() {
                let row: Vec<String> = row.into_iter().flatten().map(|it| it.to_string()).collect();
                rows.push(row);
            }
            rows.sort();
            json!({"graph": rows})
        }
        (None, _) => terms::of_rows(answer.variables(), answer.rows()),
    }
}

fn of_call(answer: CallAnswer) -> Value {
    match answer {
        CallAnswer::Done => json!({"done": true}),
        CallAnswer::NotKept => json!({"not_kept": true}),
        CallAnswer::Boolean(value) => terms::of_boolean(value),
        CallAnswer::Rows { variables, rows } => terms::of_rows(&variables, rows),
        CallAnswer::Graph(triples) => terms::of_graph(&triples),
    }
}
