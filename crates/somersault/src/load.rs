//! Bulk loading of stored data, and the Graph Store Protocol's operations.

use oxrdf::{GraphName, NamedNode};
use somersault_model::Sn;
use std::sync::Arc;

/// The options of [`Engine::load`](crate::Engine::load).
#[derive(Clone, Default)]
pub struct LoadOptions {
    /// The graph for triples without a graph; `None` is the default graph.
    pub graph: Option<NamedNode>,
    /// The IRI that relative IRIs are resolved against.
    pub base: Option<String>,
    /// Whether to take IRIs and language tags as they are, for data that is nearly right.
    pub lenient: bool,
    /// Called about every 100,000 statements, and once at the end.
    pub progress: Option<Arc<dyn Fn(LoadProgress) + Send + Sync>>,
}

/// The progress of a load.
#[derive(Clone, Copy, Debug)]
pub struct LoadProgress {
    /// Statements read so far.
    pub statements: u64,
    /// Whether reading is done and the store is being built.
    pub read: bool,
}

/// The counts of a load.
#[derive(Clone, Copy, Debug)]
pub struct LoadSummary {
    /// Statements in the document.
    pub statements: u64,
    /// Number of statements in the store afterwards, over all graphs.
    pub stored: u64,
    /// The snapshot number in which they are visible.
    pub sn: Sn,
}

/// The effects of a Graph Store Protocol write.
#[derive(Clone, Debug)]
pub struct GraphWrite {
    /// The graph that was written.
    pub graph: GraphName,
    /// Whether the graph held nothing before.
    pub created: bool,
    /// Statements that are new.
    pub inserted: u64,
    /// Statements that no longer exist.
    pub deleted: u64,
    /// The snapshot number in which the effects are visible.
    pub sn: Sn,
}
