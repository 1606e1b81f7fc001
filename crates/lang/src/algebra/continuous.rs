//! Continuous queries: a query, its windows, and when it fires.

use crate::algebra::query::Query;
use crate::algebra::stream::Classification;
use oxrdf::NamedNode;
use somersault_model::{EventTime, Millis};

/// The object that a registration makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RegistrationKind {
    /// `REGISTER QUERY`: answers go to subscribers.
    Query,
    /// `REGISTER STREAM`: answers are the statements of a derived stream.
    Stream,
}

/// Which firings of a query its subscribers are sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Report {
    /// `REPORT ON CHANGE`: only firings whose answer differs from that of the previous one.
    pub on_change: bool,
    /// `REPORT NON EMPTY`: only firings that have an answer with rows.
    pub non_empty: bool,
}

/// The behaviour of a query that cannot keep up with its closes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Overload {
    /// Every close is answered; inputs wait.
    #[default]
    Wait,
    /// `ON OVERLOAD SKIP`: while a firing is under way, only the newest of the closes that become
    /// due is answered.
    Skip,
}

/// The stream that `REGISTER STREAM` makes of a query's answers.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DerivedStream {
    /// Its IRI, which is the query's name too.
    pub iri: NamedNode,
    /// Which of its statements are timing.
    pub classification: Classification,
    /// The graph that absorbs; `None` = the default graph, or the graph that the template says.
    pub into: Option<NamedNode>,
    /// The span of the past that a newly registered query sees.
    pub keep: Millis,
    /// The memory that its slices may take.
    pub budget_bytes: u64,
}

/// The surface syntax that a continuous query was written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Dialect {
    /// C-SPARQL.
    CSparql,
    /// The dialect of the Wukong+S paper: bare names, and `FROM g` also names `g` for GRAPH.
    Paper,
    /// RSP-QL: named windows, read with WINDOW.
    RspQl,
    /// CQELS-QL: windows stand in WHERE, with STREAM.
    CqelsQl,
}

/// Which part of its answers a continuous query gives (the relation-to-stream operator of RSP-QL
/// and CQL).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum StreamOperator {
    /// RSTREAM: every firing gives its whole answer.
    #[default]
    RStream,
    /// ISTREAM: the solutions that the previous firing did not have, as a difference of bags.
    IStream,
    /// DSTREAM: the solutions of the previous firing that this one does not have.
    DStream,
}

impl StreamOperator {
    /// Whether an answer depends on the previous firing.
    #[must_use]
    pub fn compares(self) -> bool {
        self != StreamOperator::RStream
    }
}

/// The content of a window, and its closes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Extent {
    /// `RANGE r STEP s`, or `FROM NOW-a TO NOW-b STEP s` with r = a − b and until = b: the
    /// statements with close − until − range ≤ event time < close − until.
    Time {
        /// The length of the span of event time.
        range: Millis,
        /// The distance of its end before the close.
        until: Millis,
        /// The interval between closes; `None` = with every batch of the stream.
        step: Option<Millis>,
    },
    /// `NOW`: the batch that has just closed.
    Now,
    /// `ALL`: everything since the query was registered, as far back as the stream's KEEP.
    All,
    /// `ELEMENTS n STEP m`, `RANGE TRIPLES n STEP m`: the last `count` statements, closing with
    /// every `step` more.
    Statements {
        /// The number of statements that it holds.
        count: u64,
        /// After how many more it closes.
        step: u64,
    },
}

/// One window over one stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WindowClause {
    /// The stream.
    pub stream: NamedNode,
    /// The name by which the pattern reads the window: in C-SPARQL the stream's own, in RSP-QL the
    /// one that the text gives it, in CQELS-QL one that the text does not contain.
    pub name: NamedNode,
    /// Its content and its closes.
    pub extent: Extent,
    /// Whether its content is part of the default graph.
    pub in_default: bool,
    /// Whether GRAPH (in RSP-QL WINDOW, in CQELS-QL STREAM) reads it.
    pub named: bool,
    /// Line of the clause, from 1, for messages about it.
    pub line: u32,
    /// Column of the clause, from 1.
    pub column: u32,
}

impl WindowClause {
    /// Whether it is the same window, wherever in their texts the two stand.
    #[must_use]
    pub fn is_like(&self, other: &WindowClause) -> bool {
        let moved = WindowClause {
            line: self.line,
            column: self.column,
            ..other.clone()
        };
        *self == moved
    }
}

/// A continuous query.
#[derive(Debug, Clone)]
pub struct ContinuousQuery {
    /// The name in the text, if it has one; an IRI or prefixed name is given resolved.
    pub name: Option<String>,
    /// The object that is registered.
    pub kind: RegistrationKind,
    /// Which part of its answers it gives.
    pub operator: StreamOperator,
    /// The windows, in the order of the text; a live query has none.
    pub windows: Vec<WindowClause>,
    /// `COMPUTED EVERY`: fires at these times instead of at the closes.
    pub computed_every: Option<Millis>,
    /// `EVERY`: the shortest time between two firings of a live query.
    pub every: Option<Millis>,
    /// `REPORT`
    pub report: Report,
    /// `ON OVERLOAD`
    pub overload: Overload,
    /// The stream that the answers make.
    pub derives: Option<DerivedStream>,
    /// `STARTING AT`: the origin of the closes; the Unix epoch by default.
    pub starting_at: EventTime,
    /// The query over the windows and the stored graphs; its dataset clause holds the stored graphs
    /// only.
    pub query: Query,
    /// The syntax it was written in.
    pub dialect: Dialect,
    /// The whole text as given.
    pub text: String,
}

impl ContinuousQuery {
    /// Whether it is a live query: it has no window, and fires when the stored graphs change.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.windows.is_empty()
    }
}
