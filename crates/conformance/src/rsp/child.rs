//! An engine in a process of its own, which is killed at seeded points (SIGKILL, no warning) and
//! started again on the same folder. The client repeats only unacknowledged requests and resumes
//! each subscription after the last close that it has (RC-1). The two sides speak JSON lines over
//! the child's standard input and output.

use super::expected::Given;
use super::host::{Counters, Firing, Host, HostOptions, InProcess};
use crate::error::ConformanceError;
use oxrdfio::{RdfFormat, RdfParser};
use serde::{Deserialize, Serialize};
use somersault::{EventTime, StreamStatement};
use somersault_model::SeededRandom;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

/// A request of the client to the child.
#[derive(Debug, Clone, Serialize, Deserialize)]
enum Request {
    Open(HostOptions),
    Load {
        path: PathBuf,
        graph: Option<String>,
    },
    CreateStream(String),
    Register {
        name: Option<String>,
        text: String,
    },
    Subscribe {
        query: usize,
        name: String,
        after_ms: Option<i64>,
    },
    Push {
        stream: String,
        seq: u64,
        times_ms: Vec<Option<i64>>,
        quads: String,
    },
    Advance(Vec<(String, i64)>),
    Query {
        text: String,
        default_graph: Option<String>,
    },
    Firings {
        settle: bool,
    },
    Counters,
    Close,
}

/// The child's answer.
#[derive(Debug, Serialize, Deserialize)]
enum Response {
    Done,
    Registered(String),
    Answer(Given),
    Firings(Vec<Firing>),
    Counters(Counters),
    Refused(String),
}

/// The child's side: serves requests from `input` until it ends.
pub fn serve(input: impl BufRead, mut output: impl Write) -> std::io::Result<()> {
    let mut host = None;
    for line in input.lines() {
        let response = match serde_json::from_str(&line?) {
            Ok(request) => answer(&mut host, request)
                .unwrap_or_else(|error| Response::Refused(error.to_string())),
            Err(error) => Response::Refused(error.to_string()),
        };
        serde_json::to_writer(&mut output, &response)?;
        output.write_all(b"\n")?;
        output.flush()?;
    }
    Ok(())
}

fn answer(host: &mut Option<InProcess>, request: Request) -> Result<Response, ConformanceError> {
    if let Request::Open(options) = request {
        *host = Some(InProcess::open(&options)?);
        return Ok(Response::Done);
    }
    let host = host.as_mut().ok_or_else(|| {
        ConformanceError::Child("received a request before it was opened".to_owned())
    })?;
    if !matches!(request, Request::Close) {
        host.count_request()?;
    }
    match request {
        Request::Open(_) => {}
        Request::Load { path, graph } => host.load(&path, graph.as_deref())?,
        Request::CreateStream(text) => host.create_stream(&text)?,
        Request::Register { name, text } => {
            return host
                .register_only(name.as_deref(), &text)
                .map(Response::Registered);
        }
        Request::Subscribe {
            query,
            name,
            after_ms,
        } => host.subscribe(query, &name, after_ms)?,
        Request::Push {
            stream,
            seq,
            times_ms,
            quads,
        } => host.push(&stream, seq, statements(&times_ms, &quads)?)?,
        Request::Advance(to_ms) => host.advance(&to_ms)?,
        Request::Query {
            text,
            default_graph,
        } => {
            return host
                .query(&text, default_graph.as_deref())
                .map(Response::Answer);
        }
        Request::Firings { settle } => return host.firings(settle).map(Response::Firings),
        Request::Counters => return host.counters().map(Response::Counters),
        Request::Close => host.close()?,
    }
    Ok(Response::Done)
}

fn statements(
    times_ms: &[Option<i64>],
    quads: &str,
) -> Result<Vec<StreamStatement>, ConformanceError> {
    let parser = RdfParser::from_format(RdfFormat::NQuads);
    times_ms
        .iter()
        .zip(parser.for_slice(quads))
        .map(|(at_ms, quad)| {
            let quad = quad.map_err(|error| {
                ConformanceError::Child(format!("was sent a push that does not parse: {error}"))
            })?;
            Ok(StreamStatement {
                at: at_ms.map(EventTime),
                quad,
            })
        })
        .collect()
}

/// When to kill.
#[derive(Debug, Clone)]
pub struct KillPlan {
    /// The number of kills.
    pub points: usize,
    /// The seed that the points are drawn from.
    pub seed: u64,
    /// The program that has the `rsp-child` command.
    pub program: PathBuf,
}

/// The client's side.
pub struct ChildHost {
    plan: KillPlan,
    options: HostOptions,
    process: Process,
    draw: Draw,
    points: BTreeSet<usize>,
    asked: usize,
    kills: usize,
    /// The name of each registered query and the last close that has come from it.
    queries: BTreeMap<usize, (String, Option<i64>)>,
}

struct Process {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

/// The point in a request at which the child is killed.
#[derive(Debug, Clone, Copy)]
enum Moment {
    BeforeSending,
    InFlight,
    AfterTheAnswer,
}

impl ChildHost {
    /// Starts the child; of the `requests` that will be made, some are drawn to be killed at.
    pub fn start(
        plan: KillPlan,
        options: HostOptions,
        requests: usize,
    ) -> Result<Self, ConformanceError> {
        let mut draw = Draw::new(plan.seed);
        let mut points = BTreeSet::new();
        while points.len() < plan.points.min(requests) {
            points.insert(draw.below(requests));
        }
        let process = Process::start(&plan.program)?;
        let mut host = Self {
            plan,
            options,
            process,
            draw,
            points,
            asked: 0,
            kills: 0,
            queries: BTreeMap::new(),
        };
        host.process.ask(&Request::Open(host.options.clone()))?;
        Ok(host)
    }

    /// The number of times that the child was killed.
    pub fn kills(&self) -> usize {
        self.kills
    }

    /// Makes a request, which may be one that the child is killed at.
    fn ask(&mut self, request: &Request) -> Result<Response, ConformanceError> {
        let at = self.asked;
        self.asked += 1;
        if !self.points.contains(&at) {
            return self.process.ask(request);
        }
        let moment = [
            Moment::BeforeSending,
            Moment::InFlight,
            Moment::AfterTheAnswer,
        ][self.draw.below(3)];
        let mut acknowledged = None;
        match moment {
            Moment::BeforeSending => {}
            Moment::InFlight => {
                self.process.send(request)?;
                std::thread::sleep(Duration::from_micros(self.draw.below(3000) as u64));
            }
            Moment::AfterTheAnswer => {
                let response = self.process.ask(request)?;
                self.note(&response);
                acknowledged = Some(response);
            }
        }
        self.restart()?;
        match acknowledged {
            Some(response) => Ok(response),
            None => self.process.ask(request),
        }
    }

    /// Remembers the closes that have come, so that a restart resumes after them.
    fn note(&mut self, response: &Response) {
        if let Response::Firings(firings) = response {
            for firing in firings {
                if let Some((_, last)) = self.queries.get_mut(&firing.query) {
                    *last = Some(firing.close_ms);
                }
            }
        }
    }

    fn restart(&mut self) -> Result<(), ConformanceError> {
        self.process.kill()?;
        self.kills += 1;
        if self.options.checkpoint_every > 0 {
            // A checkpoint is for any number of shards.
            self.options.shards = [1, 2, 4][self.kills % 3];
        }
        self.process = Process::start(&self.plan.program)?;
        self.process.ask(&Request::Open(self.options.clone()))?;
        for (query, (name, after_ms)) in &self.queries {
            self.process.ask(&Request::Subscribe {
                query: *query,
                name: name.clone(),
                after_ms: *after_ms,
            })?;
        }
        Ok(())
    }
}

impl Process {
    fn start(program: &Path) -> Result<Self, ConformanceError> {
        let failed = |error: std::io::Error| {
            ConformanceError::Child(format!("{} does not start: {error}", program.display()))
        };
        let mut child = Command::new(program)
            .arg("rsp-child")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        match (child.stdin.take(), child.stdout.take()) {
            (Some(input), Some(output)) => Ok(Self {
                child,
                input,
                output: BufReader::new(output),
            }),
            _ => Err(ConformanceError::Child(
                "has no standard input and output".to_owned(),
            )),
        }
    }

    fn send(&mut self, request: &Request) -> Result<(), ConformanceError> {
        let mut line = serde_json::to_vec(request)
            .map_err(|error| ConformanceError::Child(error.to_string()))?;
        line.push(b'\n');
        self.input
            .write_all(&line)
            .map_err(|error| ConformanceError::Child(format!("takes no requests: {error}")))
    }

    fn ask(&mut self, request: &Request) -> Result<Response, ConformanceError> {
        self.send(request)?;
        let mut line = String::new();
        let read = self.output.read_line(&mut line);
        if read.map_err(|error| ConformanceError::Child(format!("gives no answer: {error}")))? == 0
        {
            return Err(ConformanceError::Child(format!(
                "ended by itself while asked for {}",
                request.name()
            )));
        }
        match serde_json::from_str(&line)
            .map_err(|error| ConformanceError::Child(format!("answered {line:?}: {error}")))?
        {
            Response::Refused(reason) => Err(ConformanceError::Child(format!(
                "refused {}: {reason}",
                request.name()
            ))),
            response => Ok(response),
        }
    }

    /// SIGKILL: the process can write nothing more.
    fn kill(&mut self) -> Result<(), ConformanceError> {
        let failed =
            |error: std::io::Error| ConformanceError::Child(format!("cannot be killed: {error}"));
        self.child.kill().map_err(failed)?;
        self.child.wait().map(|_| ()).map_err(failed)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // A child that cannot be killed while this process ends is left to the system.
        let _ = self.kill();
    }
}

impl Request {
    fn name(&self) -> &'static str {
        match self {
            Self::Open(_) => "opening",
            Self::Load { .. } => "a load",
            Self::CreateStream(_) => "a stream",
            Self::Register { .. } => "a registration",
            Self::Subscribe { .. } => "a subscription",
            Self::Push { .. } => "a push",
            Self::Advance(_) => "an advance",
            Self::Query { .. } => "a one-shot query",
            Self::Firings { .. } => "firings",
            Self::Counters => "counters",
            Self::Close => "closing",
        }
    }
}

fn unexpected(response: &Response) -> ConformanceError {
    ConformanceError::Child(format!("answered out of turn: {response:?}"))
}

impl Host for ChildHost {
    fn load(&mut self, path: &Path, graph: Option<&str>) -> Result<(), ConformanceError> {
        // Never a kill point: a load is acknowledged as a whole, and if it were sent twice, its
        // blank nodes would be stored twice.
        let path = std::path::absolute(path).map_err(|source| ConformanceError::Unreadable {
            path: path.to_owned(),
            source,
        })?;
        let request = Request::Load {
            path,
            graph: graph.map(str::to_owned),
        };
        self.process.ask(&request).map(|_| ())
    }

    fn create_stream(&mut self, text: &str) -> Result<(), ConformanceError> {
        self.ask(&Request::CreateStream(text.to_owned()))
            .map(|_| ())
    }

    fn register(
        &mut self,
        query: usize,
        name: Option<&str>,
        text: &str,
    ) -> Result<(), ConformanceError> {
        let request = Request::Register {
            name: name.map(str::to_owned),
            text: text.to_owned(),
        };
        let name = match self.ask(&request)? {
            Response::Registered(name) => name,
            other => return Err(unexpected(&other)),
        };
        self.process.ask(&Request::Subscribe {
            query,
            name: name.clone(),
            after_ms: None,
        })?;
        self.queries.insert(query, (name, None));
        Ok(())
    }

    fn push(
        &mut self,
        stream: &str,
        seq: u64,
        statements: Vec<StreamStatement>,
    ) -> Result<(), ConformanceError> {
        let mut quads = String::new();
        for statement in &statements {
            writeln!(quads, "{} .", statement.quad).expect("writing to a String does not fail");
        }
        let request = Request::Push {
            stream: stream.to_owned(),
            seq,
            times_ms: (statements.iter())
                .map(|statement| statement.at.map(|at| at.0))
                .collect(),
            quads,
        };
        self.ask(&request).map(|_| ())
    }

    fn advance(&mut self, to_ms: &[(String, i64)]) -> Result<(), ConformanceError> {
        self.ask(&Request::Advance(to_ms.to_vec())).map(|_| ())
    }

    fn query(
        &mut self,
        text: &str,
        default_graph: Option<&str>,
    ) -> Result<Given, ConformanceError> {
        let request = Request::Query {
            text: text.to_owned(),
            default_graph: default_graph.map(str::to_owned),
        };
        match self.ask(&request)? {
            Response::Answer(given) => Ok(given),
            other => Err(unexpected(&other)),
        }
    }

    fn firings(&mut self, settle: bool) -> Result<Vec<Firing>, ConformanceError> {
        let response = self.ask(&Request::Firings { settle })?;
        self.note(&response);
        match response {
            Response::Firings(firings) => Ok(firings),
            other => Err(unexpected(&other)),
        }
    }

    fn counters(&mut self) -> Result<Counters, ConformanceError> {
        match self.process.ask(&Request::Counters)? {
            Response::Counters(counters) => Ok(counters),
            other => Err(unexpected(&other)),
        }
    }

    fn close(&mut self) -> Result<(), ConformanceError> {
        self.process.ask(&Request::Close).map(|_| ())
    }
}

/// Draws kill points, the same everywhere.
#[derive(Debug, Clone)]
pub struct Draw(SeededRandom);

impl Draw {
    /// The sequence of a seed.
    pub fn new(seed: u64) -> Draw {
        Draw(SeededRandom::new(seed))
    }

    /// A number below `bound`, which is not 0.
    pub fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.0.below(bound.max(1) as u64)).unwrap_or(0)
    }
}
