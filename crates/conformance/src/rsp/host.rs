//! The place where the engine of a run lives: in this process here, in a child process that can be
//! killed in `child`. The runner knows only this trait, so both are asked exactly the same.

use super::expected::Given;
use super::suite::open;
use crate::error::ConformanceError;
use serde::{Deserialize, Serialize};
use somersault::answer_format::answer_rows;
use somersault::oxrdf::NamedNode;
use somersault::{
    Answer, AnswerKind, Clock, DeltaMode, Engine, EngineConfig, EventTime, FabricKind, FiringId,
    LoadOptions, Push, QueryOptions, RdfFormat, StreamStatement, SubscribeOptions, Subscription,
    SubscriptionEvent,
};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The time that a run waits for the firings that are due.
const SETTLE: Duration = Duration::from_secs(600);

/// Firings that may wait between two looks at them; a suite is looked at after each step.
const CAPACITY: usize = 1 << 16;

/// The settings with which the engine of a run is opened.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct HostOptions {
    /// The number of shards.
    pub shards: u16,
    /// The seed of the simulated fabric; `None` is timely.
    pub simulated: Option<u64>,
    /// The folder that keeps the log.
    pub data: Option<PathBuf>,
    /// The namespace that bare names are resolved against.
    pub default_namespace: Option<String>,
    /// Rows are kept from close to close wherever that is possible.
    pub delta: bool,
    /// A checkpoint is begun after this number of requests, again and again; 0 for none.
    pub checkpoint_every: usize,
}

/// One firing of the continuous query with this number.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Firing {
    /// The number that the query was registered under.
    pub query: usize,
    /// Its close.
    pub close_ms: i64,
    /// 0, and more for amended firings.
    pub revision: u32,
    /// The answer.
    pub answer: Given,
}

/// The engine's counters.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Statements stored at the end.
    pub stored: u64,
    /// Half edges written to each shard.
    pub injected: Vec<u64>,
}

/// An engine to run a suite on.
pub trait Host {
    /// Loads a file into a graph.
    fn load(&mut self, path: &Path, graph: Option<&str>) -> Result<(), ConformanceError>;
    /// Declares a stream.
    fn create_stream(&mut self, text: &str) -> Result<(), ConformanceError>;
    /// Registers a continuous query under a name and subscribes to it; its firings carry the
    /// number.
    fn register(
        &mut self,
        query: usize,
        name: Option<&str>,
        text: &str,
    ) -> Result<(), ConformanceError>;
    /// Pushes statements; `seq` counts the pushes of the stream.
    fn push(
        &mut self,
        stream: &str,
        seq: u64,
        statements: Vec<StreamStatement>,
    ) -> Result<(), ConformanceError>;
    /// Advances streams in one record.
    fn advance(&mut self, to_ms: &[(String, i64)]) -> Result<(), ConformanceError>;
    /// Runs a one-shot query.
    fn query(&mut self, text: &str, default_graph: Option<&str>)
    -> Result<Given, ConformanceError>;
    /// The firings since the last call. With `settle`, it first waits until everything that is due
    /// has been answered.
    fn firings(&mut self, settle: bool) -> Result<Vec<Firing>, ConformanceError>;
    /// The engine's counters.
    fn counters(&mut self) -> Result<Counters, ConformanceError>;
    /// Checks the store's invariants and stops the engine.
    fn close(&mut self) -> Result<(), ConformanceError>;
}

/// An engine in this process.
pub struct InProcess {
    engine: Engine,
    subscriptions: Vec<(usize, Subscription)>,
    checkpoint_every: usize,
    /// The requests since the last checkpoint was begun.
    requests: usize,
}

impl InProcess {
    /// Opens an engine whose time moves by pushes and advances alone.
    pub fn open(options: &HostOptions) -> Result<Self, ConformanceError> {
        let config = EngineConfig {
            data: options.data.clone(),
            workers: options.shards,
            fabric: options
                .simulated
                .map_or(FabricKind::Timely, |seed| FabricKind::Simulated { seed }),
            default_namespace: options.default_namespace.clone(),
            clock: Clock::Manual,
            kept_firings: CAPACITY,
            delta: match options.delta {
                true => DeltaMode::Always,
                false => DeltaMode::Auto,
            },
            ..EngineConfig::default()
        };
        let engine =
            Engine::open(config).map_err(|error| ConformanceError::engine("open", error))?;
        Ok(Self {
            engine,
            subscriptions: Vec::new(),
            checkpoint_every: options.checkpoint_every,
            requests: 0,
        })
    }

    /// Counts a request, and begins a checkpoint if it is time for one, which is written beside the
    /// next requests.
    pub fn count_request(&mut self) -> Result<(), ConformanceError> {
        self.requests += 1;
        if self.requests == self.checkpoint_every {
            self.requests = 0;
            (self.engine.begin_checkpoint())
                .map_err(|error| ConformanceError::engine("begin a checkpoint", error))?;
        }
        Ok(())
    }

    /// Subscribes to a registered query from a close on.
    pub fn subscribe(
        &mut self,
        query: usize,
        name: &str,
        after_ms: Option<i64>,
    ) -> Result<(), ConformanceError> {
        let options = SubscribeOptions {
            after: after_ms.map(|close| FiringId::at(EventTime(close))),
            empties: true,
            capacity: CAPACITY,
            ..SubscribeOptions::default()
        };
        let subscription = self.engine.subscribe(name, options).map_err(|error| {
            ConformanceError::engine(format!("let a subscriber read {name}"), error)
        })?;
        self.subscriptions.push((query, subscription));
        Ok(())
    }

    /// Registers a query and gives the name that it got.
    pub fn register_only(
        &mut self,
        name: Option<&str>,
        text: &str,
    ) -> Result<String, ConformanceError> {
        self.engine
            .register(name, text)
            .map(|info| info.name)
            .map_err(|error| {
                ConformanceError::engine(format!("register this query:\n{text}"), error)
            })
    }
}

impl Host for InProcess {
    fn load(&mut self, path: &Path, graph: Option<&str>) -> Result<(), ConformanceError> {
        let options = LoadOptions {
            graph: graph.map(NamedNode::new_unchecked),
            ..LoadOptions::default()
        };
        self.engine
            .load(open(path)?, rdf_format(path)?, options)
            .map(|_| ())
            .map_err(|error| ConformanceError::engine(format!("load {}", path.display()), error))
    }

    fn create_stream(&mut self, text: &str) -> Result<(), ConformanceError> {
        self.engine
            .create_stream(None, text)
            .map(|_| ())
            .map_err(|error| ConformanceError::engine(format!("declare a stream ({text})"), error))
    }

    fn register(
        &mut self,
        query: usize,
        name: Option<&str>,
        text: &str,
    ) -> Result<(), ConformanceError> {
        let name = self.register_only(name, text)?;
        self.subscribe(query, &name, None)
    }

    fn push(
        &mut self,
        stream: &str,
        seq: u64,
        statements: Vec<StreamStatement>,
    ) -> Result<(), ConformanceError> {
        let push = Push {
            source: None,
            seq: Some(seq),
            statements,
        };
        self.engine.push(stream, push).map(|_| ()).map_err(|error| {
            ConformanceError::engine(format!("take push {seq} of <{stream}>"), error)
        })
    }

    fn advance(&mut self, to_ms: &[(String, i64)]) -> Result<(), ConformanceError> {
        let to = to_ms.iter().map(|(stream, ms)| (stream, EventTime(*ms)));
        self.engine.advance(to).map(|_| ()).map_err(|error| {
            ConformanceError::engine(
                format!("advance the streams to {:?}", to_ms.first().map(|to| to.1)),
                error,
            )
        })
    }

    fn query(
        &mut self,
        text: &str,
        default_graph: Option<&str>,
    ) -> Result<Given, ConformanceError> {
        let options = QueryOptions {
            default_graphs: default_graph
                .map(NamedNode::new_unchecked)
                .into_iter()
                .collect(),
            ..QueryOptions::default()
        };
        Ok(self
            .engine
            .query(text)
            .options(&options)
            .run()
            .map(|results| given(&results.answer))
            .map_err(|error| error.to_string()))
    }

    fn firings(&mut self, settle: bool) -> Result<Vec<Firing>, ConformanceError> {
        if settle {
            self.engine.quiesce(SETTLE).map_err(|error| {
                ConformanceError::engine("answer everything that is due", error)
            })?;
        }
        let mut firings = Vec::new();
        for (query, subscription) in &self.subscriptions {
            while let Some(event) = subscription.try_recv() {
                match event {
                    SubscriptionEvent::Firing(firing) => firings.push(Firing {
                        query: *query,
                        close_ms: firing.close.0,
                        revision: firing.revision,
                        answer: firing.answer.as_ref().map(given).map_err(Clone::clone),
                    }),
                    other => {
                        return Err(ConformanceError::engine(
                            "keep every firing for its subscriber",
                            format!("{other:?}"),
                        ));
                    }
                }
            }
        }
        Ok(firings)
    }

    fn counters(&mut self) -> Result<Counters, ConformanceError> {
        let metrics = self.engine.metrics();
        Ok(Counters {
            stored: metrics.stored_statements,
            injected: metrics.shards.iter().map(|shard| shard.injected).collect(),
        })
    }

    fn close(&mut self) -> Result<(), ConformanceError> {
        self.subscriptions.clear();
        self.engine
            .check()
            .map_err(|error| ConformanceError::engine("pass its own check of the store", error))?;
        self.engine
            .shutdown()
            .map_err(|error| ConformanceError::engine("stop", error))
    }
}

fn given(answer: &Answer) -> (Vec<String>, Vec<somersault::answer_format::AnswerRow>) {
    let variables = match answer.kind() {
        AnswerKind::Boolean => Vec::new(),
        _ => answer.variables().to_vec(),
    };
    (variables, answer_rows(answer))
}

/// The syntax of a file of stored data, told by its name without `.gz` or `.zst`.
pub(super) fn rdf_format(path: &Path) -> Result<RdfFormat, ConformanceError> {
    let name = path.to_string_lossy();
    let plain = name
        .strip_suffix(".gz")
        .or_else(|| name.strip_suffix(".zst"))
        .unwrap_or(&name);
    plain
        .rsplit_once('.')
        .and_then(|(_, ending)| RdfFormat::from_extension(ending))
        .ok_or_else(|| ConformanceError::broken(path, "has an ending that names no RDF syntax; use .nt, .ttl, .nq, .trig, .rdf or .jsonld"))
}
