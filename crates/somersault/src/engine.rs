//! The engine: a cheap handle, to be cloned and shared between threads.
//! Calls that change something return when their effect is durable (push) or stable (all others).

use crate::answer::Answer;
use crate::config::EngineConfig;
use crate::error::EngineError;
use crate::info::{Health, QueryInfo, StreamInfo};
use crate::load::{GraphWrite, LoadOptions, LoadSummary};
use crate::metrics::MetricsSnapshot;
use crate::push::{Push, PushReceipt};
use crate::subscription::{SubscribeOptions, Subscription};
use oxrdf::{GraphName, NamedNode, Quad};
use oxrdfio::RdfFormat;
use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

/// The engine. Clones are handles to the same one.
#[derive(Clone)]
pub struct Engine {
    _inner: Arc<()>,
}

/// What the SPARQL protocol and the caller say about one query.
#[derive(Clone, Debug, Default)]
pub struct QueryOptions {
    /// `default-graph-uri`: replaces the query's own dataset if this or `named_graphs` is not empty.
    pub default_graphs: Vec<NamedNode>,
    /// `named-graph-uri`.
    pub named_graphs: Vec<NamedNode>,
    /// What relative IRIs are resolved against.
    pub base: Option<String>,
    /// A shorter (or longer) time limit than the engine's.
    pub timeout: Option<Duration>,
    /// Another limit of rows than the engine's.
    pub result_rows: Option<u64>,
}

/// What the SPARQL protocol says about one update.
#[derive(Clone, Debug, Default)]
pub struct UpdateOptions {
    /// `using-graph-uri`.
    pub using_graphs: Vec<NamedNode>,
    /// `using-named-graph-uri`.
    pub using_named_graphs: Vec<NamedNode>,
    /// What relative IRIs are resolved against.
    pub base: Option<String>,
    /// A shorter (or longer) time limit than the engine's.
    pub timeout: Option<Duration>,
}

/// What an update did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpdateSummary {
    /// The snapshot number in which the effects are visible.
    pub sn: u64,
    /// Statements that were not there before.
    pub inserted: u64,
    /// Statements that are not there any more.
    pub deleted: u64,
}

/// The answer of a one-shot query and how it came about.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct QueryResults {
    /// The answer.
    pub answer: Answer,
    /// The snapshot number that it was evaluated at.
    pub sn: u64,
    /// Start of execution → answer ready.
    pub execution: Duration,
    /// Why part of it ran in `spareval`; `None` if the native engine ran it all.
    pub fallback_reason: Option<String>,
}

impl Engine {
    /// Opens an engine; with a data directory, what was acknowledged before is there again.
    ///
    /// # Errors
    /// [`EngineError::Damaged`] if the folder is not understood, [`EngineError::Io`] if it cannot be read.
    pub fn open(_config: EngineConfig) -> Result<Engine, EngineError> {
        unimplemented!()
    }

    /// The configuration that it was opened with.
    pub fn config(&self) -> &EngineConfig {
        unimplemented!()
    }

    /// Answers a SPARQL query on the stable snapshot.
    pub fn query(&self, _text: &str, _options: &QueryOptions) -> Result<QueryResults, EngineError> {
        unimplemented!()
    }

    /// Carries out a SPARQL update and returns when its effects are stable (S15).
    pub fn update(
        &self,
        _text: &str,
        _options: &UpdateOptions,
    ) -> Result<UpdateSummary, EngineError> {
        unimplemented!()
    }

    /// Says how a one-shot or continuous query would be run; with `analyze` it is also run, and actual rows are shown.
    pub fn explain(
        &self,
        _text: &str,
        _options: &QueryOptions,
        _analyze: bool,
    ) -> Result<String, EngineError> {
        unimplemented!()
    }

    /// Whether a query parses, without evaluating it.
    pub fn check_query_syntax(&self, _text: &str, _base: Option<&str>) -> Result<(), EngineError> {
        unimplemented!()
    }

    /// Whether an update parses, without evaluating it.
    pub fn check_update_syntax(&self, _text: &str, _base: Option<&str>) -> Result<(), EngineError> {
        unimplemented!()
    }

    /// Loads a document into the store; returns when it is stable. Its blank nodes are its own.
    pub fn load(
        &self,
        _reader: impl Read,
        _format: RdfFormat,
        _options: LoadOptions,
    ) -> Result<LoadSummary, EngineError> {
        unimplemented!()
    }

    /// Loads statements that are there already, or are generated; the same path as [`Engine::load`].
    pub fn load_quads(&self, _quads: impl IntoIterator<Item = Quad>) -> Result<LoadSummary, EngineError> {
        unimplemented!()
    }

    /// The triples of a graph (Graph Store Protocol GET).
    ///
    /// # Errors
    /// [`EngineError::NotFound`] for a named graph that holds nothing.
    pub fn graph(&self, _graph: &GraphName) -> Result<QueryResults, EngineError> {
        unimplemented!()
    }

    /// Replaces a graph (Graph Store Protocol PUT).
    pub fn put_graph(
        &self,
        _graph: &GraphName,
        _reader: impl Read,
        _format: RdfFormat,
        _base: Option<&str>,
    ) -> Result<GraphWrite, EngineError> {
        unimplemented!()
    }

    /// Adds to a graph (Graph Store Protocol POST).
    pub fn post_graph(
        &self,
        _graph: &GraphName,
        _reader: impl Read,
        _format: RdfFormat,
        _base: Option<&str>,
    ) -> Result<GraphWrite, EngineError> {
        unimplemented!()
    }

    /// Empties a graph (Graph Store Protocol DELETE).
    ///
    /// # Errors
    /// [`EngineError::NotFound`] for a named graph that holds nothing.
    pub fn delete_graph(&self, _graph: &GraphName) -> Result<GraphWrite, EngineError> {
        unimplemented!()
    }

    /// Deletes, then inserts, in one snapshot.
    pub fn apply_effects(
        &self,
        _deletes: Vec<Quad>,
        _inserts: Vec<Quad>,
    ) -> Result<UpdateSummary, EngineError> {
        unimplemented!()
    }

    /// Declares a stream by a CREATE STREAM text. If `name` is given (an IRI), the text must not say another one.
    /// The same text again changes nothing.
    pub fn create_stream(
        &self,
        _name: Option<&str>,
        _text: &str,
    ) -> Result<StreamInfo, EngineError> {
        unimplemented!()
    }

    /// Drops a stream that no query windows.
    pub fn drop_stream(&self, _iri: &str) -> Result<(), EngineError> {
        unimplemented!()
    }

    /// All streams, by IRI.
    pub fn streams(&self) -> Vec<StreamInfo> {
        unimplemented!()
    }

    /// One stream.
    pub fn stream(&self, _iri: &str) -> Result<StreamInfo, EngineError> {
        unimplemented!()
    }

    /// Pushes statements into a stream; returns when they are durable.
    pub fn push(&self, _stream: &str, _push: Push) -> Result<PushReceipt, EngineError> {
        unimplemented!()
    }

    /// Moves streams' complete-through times, all in one record (S4); returns the snapshot number when what it made due is stable.
    pub fn advance(&self, _to_ms: &[(String, i64)]) -> Result<u64, EngineError> {
        unimplemented!()
    }

    /// Registers a continuous query. If `name` is given, the text must not say another one.
    /// The same text again changes nothing; another text under a taken name is a conflict.
    pub fn register(&self, _name: Option<&str>, _text: &str) -> Result<QueryInfo, EngineError> {
        unimplemented!()
    }

    /// Drops a continuous query; its subscriptions end.
    pub fn drop_query(&self, _name: &str) -> Result<(), EngineError> {
        unimplemented!()
    }

    /// Stops a query from firing until it is resumed.
    pub fn pause_query(&self, _name: &str) -> Result<(), EngineError> {
        unimplemented!()
    }

    /// Lets a paused query fire again.
    pub fn resume_query(&self, _name: &str) -> Result<(), EngineError> {
        unimplemented!()
    }

    /// All continuous queries, by name.
    pub fn queries(&self) -> Vec<QueryInfo> {
        unimplemented!()
    }

    /// One continuous query.
    pub fn query_info(&self, _name: &str) -> Result<QueryInfo, EngineError> {
        unimplemented!()
    }

    /// Reads the firings of a query: the kept ones, then the live ones.
    pub fn subscribe(
        &self,
        _name: &str,
        _options: SubscribeOptions,
    ) -> Result<Subscription, EngineError> {
        unimplemented!()
    }

    /// Waits until everything that is due has been answered.
    ///
    /// # Errors
    /// [`EngineError::Limit`] if that takes longer than `timeout`.
    pub fn quiesce(&self, _timeout: Duration) -> Result<(), EngineError> {
        unimplemented!()
    }

    /// The stable snapshot number.
    pub fn stable(&self) -> u64 {
        unimplemented!()
    }

    /// How the engine is.
    pub fn health(&self) -> Health {
        unimplemented!()
    }

    /// All counters.
    pub fn metrics(&self) -> MetricsSnapshot {
        unimplemented!()
    }

    /// Checks the invariants of the store (ST-1, ST-2); slow on large data.
    pub fn check(&self) -> Result<(), EngineError> {
        unimplemented!()
    }

    /// Stops: takes nothing more, finishes what is due, flushes the log. Other handles get [`EngineError::Stopped`].
    pub fn shutdown(&self) -> Result<(), EngineError> {
        unimplemented!()
    }
}
