//! Bulk loading of stored data, and the Graph Store Protocol's operations.

use oxrdf::{GraphName, NamedNode};
use std::sync::Arc;

/// How [`Engine::load`](crate::Engine::load) reads a document.
#[derive(Clone, Default)]
pub struct LoadOptions {
    /// Where triples without a graph go; `None` is the default graph.
    pub graph: Option<NamedNode>,
    /// What relative IRIs are resolved against.
    pub base: Option<String>,
    /// Take IRIs and language tags as they are, for data that is nearly right.
    pub lenient: bool,
    /// Called every 100,000 statements or so, and once at the end.
    pub progress: Option<Arc<dyn Fn(LoadProgress) + Send + Sync>>,
}

/// How far a load has come.
#[derive(Clone, Copy, Debug)]
pub struct LoadProgress {
    /// Statements read so far.
    pub statements: u64,
    /// Whether reading is done and the store is being built.
    pub read: bool,
}

/// What a load did.
#[derive(Clone, Copy, Debug)]
pub struct LoadSummary {
    /// Statements in the document.
    pub statements: u64,
    /// How many statements the store holds afterwards, over all graphs.
    pub stored: u64,
    /// The snapshot number in which they are visible.
    pub sn: u64,
}

/// What a Graph Store Protocol write did.
#[derive(Clone, Debug)]
pub struct GraphWrite {
    /// The graph that was written.
    pub graph: GraphName,
    /// Whether the graph held nothing before.
    pub created: bool,
    /// Statements that were not there before.
    pub inserted: u64,
    /// Statements that are not there any more.
    pub deleted: u64,
    /// The snapshot number in which this is visible.
    pub sn: u64,
}
