//! Statements that declare and manage streams and continuous queries.

use crate::continuous::ContinuousQuery;
use oxrdf::NamedNode;
use somersault_model::Millis;

/// A statement of the declaration language.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Statement {
    /// `CREATE STREAM iri …`
    CreateStream(CreateStream),
    /// `DROP STREAM iri`
    DropStream(NamedNode),
    /// `DROP QUERY name`
    DropQuery(String),
    /// `PAUSE QUERY name`
    PauseQuery(String),
    /// `RESUME QUERY name`
    ResumeQuery(String),
    /// `REGISTER … AS …`
    Register(Box<ContinuousQuery>),
}

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

/// Where a stream's time comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeDomain {
    /// The source gives it.
    Event,
    /// The clock at arrival.
    Arrival,
}

/// How far ahead of the stream's newest time and of the clock a time may lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AheadLimit {
    /// As far as the engine's setting says.
    Default,
    /// `AHEAD dur`.
    Within(Millis),
    /// `AHEAD ANY`: as far as event times go.
    Any,
}

/// What happens to a statement that is later than LATENESS allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LatePolicy {
    /// The push is refused.
    Reject,
    /// It is dropped and counted.
    Drop,
    /// The firings it belongs to run again, if it is not older than this.
    Amend {
        /// `WITHIN`; the stream's KEEP where nothing is said.
        within: Millis,
    },
}

/// A declared source stream, with every default filled in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateStream {
    /// The stream.
    pub iri: NamedNode,
    /// What of it is timing.
    pub classification: Classification,
    /// The graph that absorbs; `None` = the default graph, or the pushed quad's own graph.
    pub into: Option<NamedNode>,
    /// The batch interval.
    pub batch: Millis,
    /// Where its time comes from.
    pub time: TimeDomain,
    /// How far event times may go back.
    pub lateness: Millis,
    /// What happens to what is later.
    pub late_policy: LatePolicy,
    /// How far ahead its times may lie.
    pub ahead: AheadLimit,
    /// After so long without data the stream's time goes on by itself; `None` = NEVER.
    pub idle: Option<Millis>,
    /// How much past a newly registered query may see.
    pub keep: Millis,
    /// What the stream's slices may cost.
    pub budget_bytes: u64,
    /// The text as given.
    pub text: String,
}
