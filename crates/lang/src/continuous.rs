//! Continuous queries: a query, its windows, and when it fires.

use crate::query::Query;
use oxrdf::NamedNode;
use somersault_model::{EventTime, Millis};

/// What a registration makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RegistrationKind {
    /// `REGISTER QUERY`: answers go to subscribers.
    Query,
    /// `REGISTER STREAM`: answers are the statements of a derived stream.
    Stream,
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

/// One window over one stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WindowClause {
    /// The stream.
    pub stream: NamedNode,
    /// The name by which the pattern reads the window: in C-SPARQL the stream's own, in RSP-QL the one that the
    /// text gives it, in CQELS-QL one that no text can say.
    pub name: NamedNode,
    /// How far back it reaches.
    pub range: Millis,
    /// How often it closes.
    pub step: Millis,
    /// Whether its content is part of the default graph.
    pub in_default: bool,
    /// Whether GRAPH (in RSP-QL WINDOW, in CQELS-QL STREAM) reads it.
    pub named: bool,
    /// Line of the clause, from 1, for messages about it.
    pub line: u32,
    /// Column of the clause, from 1.
    pub column: u32,
}

/// A continuous query.
#[derive(Debug, Clone)]
pub struct ContinuousQuery {
    /// The name in the text, if it has one; an IRI or prefixed name is given resolved.
    pub name: Option<String>,
    /// What is registered.
    pub kind: RegistrationKind,
    /// The windows, in the order of the text; at least one.
    pub windows: Vec<WindowClause>,
    /// `COMPUTED EVERY`: fires at these times instead of at the closes.
    pub computed_every: Option<Millis>,
    /// `STARTING AT`: the origin of the closes; the Unix epoch where nothing is said.
    pub starting_at: EventTime,
    /// The query over the windows and the stored graphs; its dataset clause holds the stored graphs only.
    pub query: Query,
    /// The syntax it was written in.
    pub dialect: Dialect,
    /// The whole text as given.
    pub text: String,
}
