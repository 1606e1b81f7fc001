//! Declared streams.

use crate::algebra::query::Query;
use oxrdf::NamedNode;
use somersault_model::Millis;
use std::sync::Arc;

/// Which statements of a stream are timing; the others are absorbed into the stored graph.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Classification {
    /// Every statement is a fact and is absorbed.
    Timeless,
    /// No statement is absorbed.
    TimingAll,
    /// Statements with these predicates are timing, the others are absorbed.
    Timing(Vec<NamedNode>),
}

/// The origin of a stream's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeDomain {
    /// The source gives it.
    Event,
    /// The clock at arrival.
    Arrival,
}

/// The limit on how far a time may lie ahead of the stream's newest time and of the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AheadLimit {
    /// As far as the engine's setting says.
    Default,
    /// `AHEAD dur`.
    Within(Millis),
    /// `AHEAD ANY`: as far as event times go.
    Any,
}

/// The treatment of a statement that is later than LATENESS allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LatePolicy {
    /// The push is refused.
    Reject,
    /// It is dropped and counted.
    Drop,
    /// The firings it belongs to run again, if it is not older than this.
    Amend {
        /// `WITHIN`; by default the stream's KEEP.
        within: Millis,
    },
}

/// What fills a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamSource {
    /// Pushes, or the answers of a query.
    Outside,
    /// `INTERIOR`: the EMIT steps of procedures.
    Interior,
}

/// `MAPPED BY CONSTRUCT …`: makes the statements of a message of the triples of one document.
#[derive(Debug, Clone)]
pub struct StreamMapping {
    /// The CONSTRUCT. Its text stands alone, with the declarations that it needs.
    pub construct: Arc<Query>,
}

/// Mappings with the same text are the same.
impl PartialEq for StreamMapping {
    fn eq(&self, other: &StreamMapping) -> bool {
        self.construct.text == other.construct.text
    }
}

impl Eq for StreamMapping {}

/// A declared source stream, with every default filled in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateStream {
    /// The stream.
    pub iri: NamedNode,
    /// What fills it.
    pub source: StreamSource,
    /// Which of its statements are timing.
    pub classification: Classification,
    /// The graph that absorbs; `None` = the default graph, or the pushed quad's own graph.
    pub into: Option<NamedNode>,
    /// The batch interval.
    pub batch: Millis,
    /// The origin of its time.
    pub time: TimeDomain,
    /// `TIMESTAMP`: the path to the event time in the data of a message; not empty.
    pub timestamp: Option<Vec<NamedNode>>,
    /// `CONTEXT`: the URL of the JSON-LD context that is laid over plain JSON.
    pub context: Option<NamedNode>,
    /// `MAPPED BY`: what makes messages of JSON and CSV.
    pub mapping: Option<StreamMapping>,
    /// `DEAD LETTER INTO`: the stream for documents that make no message.
    pub dead_letters: Option<NamedNode>,
    /// The span by which event times may go back.
    pub lateness: Millis,
    /// The treatment of later statements.
    pub late_policy: LatePolicy,
    /// The limit on times that lie ahead.
    pub ahead: AheadLimit,
    /// `IDLE`: after this long without data the clock moves the stream's time on; `None` = NEVER.
    pub idle: Option<Millis>,
    /// The span of the past that a newly registered query sees.
    pub keep: Millis,
    /// The memory that the stream's slices may take.
    pub budget_bytes: u64,
    /// The text as given.
    pub text: String,
}
