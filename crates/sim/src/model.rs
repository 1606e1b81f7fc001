//! The parts of a scenario as plain data: streams, windows, queries and steps. The twin computes
//! with them, `render` writes them as text for the engine, `generate` draws them. Nothing here
//! depends on earlier steps, so that any part of a scenario is a scenario.

use somersault_disk::CrashKeep;
use std::collections::BTreeSet;

/// A KEEP that is longer than any scenario.
pub const LONG_MS: i64 = 600_000;

/// Queries with this number or a greater one derive the stream with that number; no source has it.
pub const FIRST_DERIVED: u8 = 8;

/// A triple of the small alphabets: subject and object are nodes, the predicate is from its own.
pub type Triple = (u8, u8, u8);

/// A statement of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Statement {
    /// Its event time.
    pub at_ms: i64,
    /// The triple.
    pub triple: Triple,
    /// The graph that it is pushed with; windows ignore it.
    pub graph: Option<u8>,
}

/// The statements of a stream that the stored graph absorbs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Absorbs {
    /// TIMELESS: everything.
    Everything,
    /// TIMING ALL: none.
    Nothing,
    /// TIMING (…): everything but these predicates.
    AllBut(Vec<u8>),
}

/// The treatment of a statement that is later than LATENESS allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Late {
    /// The whole push is refused.
    Reject,
    /// It is dropped and counted.
    Drop,
    /// If it is not older than this (WITHIN), it is accepted, and firings that should have seen it
    /// are repeated.
    Amend(i64),
}

/// A stream as declared.
#[derive(Debug, Clone)]
pub struct StreamModel {
    /// BATCH.
    pub batch_ms: i64,
    /// TIMELESS or TIMING.
    pub absorbs: Absorbs,
    /// INTO GRAPH.
    pub into: Option<u8>,
    /// LATENESS.
    pub lateness_ms: i64,
    /// LATE.
    pub late: Late,
    /// KEEP.
    pub keep_ms: i64,
}

/// The extent of a window, as it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// `RANGE r STEP s`, or `RANGE r TUMBLING`, in every dialect.
    Sliding,
    /// `FROM NOW-… TO NOW-… STEP s` of RSP-QL.
    Past,
    /// `NOW` of CQELS-QL: the batch that has just closed.
    Now,
    /// `RANGE r` of CQELS-QL, which closes with every batch.
    EachBatch,
    /// `ALL` of CQELS-QL: everything since the registration.
    All,
    /// `ELEMENTS n STEP m`, `TRIPLES n`: the last `count` statements, closing after every `step`
    /// more.
    Statements {
        /// The number of statements that it holds.
        count: usize,
        /// After how many more it closes.
        step: usize,
    },
}

/// A window of a query.
#[derive(Debug, Clone)]
pub struct WindowModel {
    /// The stream's number.
    pub stream: usize,
    /// The extent, as it is written.
    pub extent: Extent,
    /// RANGE.
    pub range_ms: i64,
    /// The time before its close at which it ends.
    pub until_ms: i64,
    /// STEP.
    pub step_ms: i64,
    /// Whether the window is part of the default graph (FROM STREAM) or only a named one (FROM
    /// NAMED STREAM).
    pub in_default: bool,
}

/// The surface syntax that a query is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// C-SPARQL.
    CSparql,
    /// RSP-QL.
    RspQl,
    /// CQELS-QL.
    CqelsQl,
}

/// The source of a block of patterns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The window with this number.
    Window(usize),
    /// The default graph: the stored one or those of FROM, and the windows that are in it.
    Default,
    /// A stored graph of FROM NAMED.
    Graph(u8),
    /// `GRAPH ?v`: any graph of FROM NAMED, and in C-SPARQL any window.
    AnyGraph(u8),
    /// `WINDOW ?v` of RSP-QL: any window.
    AnyWindow(u8),
}

/// Subject or object of a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slot {
    /// A constant.
    Term(u8),
    /// A variable.
    Var(u8),
}

/// The path from the subject of a pattern to its object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Path {
    /// `p`
    One(u8),
    /// `?v`
    Var(u8),
    /// `^p`
    Inverse(u8),
    /// `p/q`
    Sequence(u8, u8),
    /// `p|q`
    Either(u8, u8),
    /// `p+`
    OneOrMore(u8),
}

/// A triple or path pattern.
pub type Pattern = (Slot, Path, Slot);

/// A group of a WHERE clause: its elements in order, then its filters.
#[derive(Debug, Clone, Default)]
pub struct Group {
    /// The elements that are joined, from left to right.
    pub elements: Vec<Element>,
    /// The conditions on the result.
    pub filters: Vec<Condition>,
}

/// An element of a group.
#[derive(Debug, Clone)]
pub enum Element {
    /// Patterns over one graph.
    Block(Place, Vec<Pattern>),
    /// OPTIONAL
    Optional(Group),
    /// UNION
    Union(Group, Group),
    /// MINUS
    Minus(Group),
    /// `{ SELECT DISTINCT … WHERE … }`
    Distinct(Vec<u8>, Group),
    /// `BIND(f:timestamp(s, p, o) AS ?v)`; nothing before it binds the variable.
    Timestamp(u8, (Slot, u8, Slot)),
}

/// The condition of a FILTER.
#[derive(Debug, Clone)]
pub enum Condition {
    /// `a = b`
    Equal(Slot, Slot),
    /// `a != b`
    Unequal(Slot, Slot),
    /// `BOUND(?v)`
    Bound(u8),
    /// `!`
    Not(Box<Condition>),
    /// `||`
    Or(Box<Condition>, Box<Condition>),
    /// `EXISTS`, of blocks and comparisons only
    Exists(Group),
    /// `NOT EXISTS`, likewise
    NotExists(Group),
}

/// The form of a query's answer.
#[derive(Debug, Clone)]
pub enum Form {
    /// SELECT
    Select {
        /// The projected variables.
        variables: Vec<u8>,
        /// DISTINCT
        distinct: bool,
        /// ORDER BY all projected variables, LIMIT.
        limit: Option<usize>,
    },
    /// SELECT with a COUNT as its last column.
    Count {
        /// GROUP BY
        group_by: Vec<u8>,
        /// The variable that is counted; `None` is `*`.
        counted: Option<u8>,
        /// DISTINCT within the COUNT.
        distinct: bool,
    },
    /// ASK
    Ask,
    /// CONSTRUCT
    Construct(Vec<(Slot, u8, Slot, TemplateGraph)>),
}

/// The destination of a triple of a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TemplateGraph {
    /// Into the default graph.
    Default,
    /// Into this graph.
    Named(u8),
    /// Into the one that a variable stands for.
    Var(u8),
}

/// The part of its answers that a query of RSP-QL gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Changes {
    /// ISTREAM: the rows that the firing before had not.
    New,
    /// DSTREAM: the rows of the firing before that this one has not.
    Gone,
}

/// Which firings subscribers are given.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Report {
    /// REPORT ON CHANGE
    pub on_change: bool,
    /// REPORT NON EMPTY
    pub non_empty: bool,
}

/// The stream that a query derives. Its number is that of the query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DerivedModel {
    /// TIMELESS or TIMING.
    pub absorbs: Absorbs,
    /// INTO GRAPH.
    pub into: Option<u8>,
}

/// A continuous query.
#[derive(Debug, Clone)]
pub struct QueryModel {
    /// The syntax that it is written in.
    pub dialect: Dialect,
    /// The form of its answers.
    pub form: Form,
    /// The part of each answer that it gives; `None` is the whole.
    pub changes: Option<Changes>,
    /// Which of its firings it reports.
    pub report: Report,
    /// ON OVERLOAD SKIP
    pub skips: bool,
    /// REGISTER STREAM
    pub derives: Option<DerivedModel>,
    /// Queries of one family differ in their constants alone.
    pub family: Option<usize>,
    /// Its windows; in C-SPARQL each over another stream.
    pub windows: Vec<WindowModel>,
    /// COMPUTED EVERY
    pub every_ms: Option<i64>,
    /// STARTING AT, or 0.
    pub origin_ms: i64,
    /// FROM
    pub from: Vec<u8>,
    /// FROM NAMED
    pub from_named: Vec<u8>,
    /// WHERE
    pub pattern: Group,
}

/// A push of one of a stream's sources.
#[derive(Debug, Clone)]
pub struct PushModel {
    /// The stream.
    pub stream: usize,
    /// The source.
    pub source: u8,
    /// The statements that are pushed.
    pub statements: Vec<Statement>,
    /// Whether the same push is sent again.
    pub again: bool,
}

/// Something that happens.
#[derive(Debug, Clone)]
pub enum Step {
    /// A push of one of a stream's sources.
    Push(PushModel),
    /// A heartbeat of some streams, in one record.
    Advance(Vec<(usize, i64)>),
    /// A registration under a number.
    Register(u8, Box<QueryModel>),
    /// The same, in the place of the query that has the number, if there is one.
    Replace(u8, Box<QueryModel>),
    /// DROP QUERY
    Drop(u8),
    /// PAUSE QUERY
    Pause(u8),
    /// RESUME QUERY
    Resume(u8),
    /// INSERT DATA or DELETE DATA of one triple.
    Update {
        /// Whether it is inserted.
        insert: bool,
        /// The graph.
        graph: Option<u8>,
        /// The triple.
        triple: Triple,
    },
    /// The stored graphs and what the engine says about its queries are compared.
    Look,
    /// A checkpoint is taken. It is waited for, or written beside the next steps.
    Checkpoint {
        /// Whether it is waited for.
        waits: bool,
    },
    /// The machine crashes.
    Crash(CrashKeep),
    /// The machine will crash at a later sync of the disk.
    PlanCrash(u64, CrashKeep),
    /// The machine will crash after this many more turns of the process.
    CrashAtTurn(u64, CrashKeep),
}

/// Streams and what happens to them.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// The streams.
    pub streams: Vec<StreamModel>,
    /// The steps, in order.
    pub steps: Vec<Step>,
}

impl QueryModel {
    /// A query over these windows that asks whether its pattern is empty, which it is.
    pub fn over(windows: Vec<WindowModel>) -> Self {
        Self {
            dialect: Dialect::CSparql,
            form: Form::Ask,
            changes: None,
            report: Report::default(),
            skips: false,
            derives: None,
            family: None,
            windows,
            every_ms: None,
            origin_ms: 0,
            from: Vec::new(),
            from_named: Vec::new(),
            pattern: Group::default(),
        }
    }
}

impl Group {
    /// The variables that its solutions may bind, ascending.
    pub fn variables(&self) -> BTreeSet<u8> {
        let of_slot = |slot: &Slot| match slot {
            Slot::Var(variable) => Some(*variable),
            Slot::Term(_) => None,
        };
        let mut all = BTreeSet::new();
        for element in &self.elements {
            match element {
                Element::Block(place, patterns) => {
                    if let Place::AnyGraph(variable) | Place::AnyWindow(variable) = place {
                        all.insert(*variable);
                    }
                    for (subject, path, object) in patterns {
                        all.extend(of_slot(subject).into_iter().chain(of_slot(object)));
                        if let Path::Var(variable) = path {
                            all.insert(*variable);
                        }
                    }
                }
                Element::Optional(inner) => all.extend(inner.variables()),
                Element::Union(left, right) => {
                    all.extend(left.variables());
                    all.extend(right.variables());
                }
                Element::Minus(_) => {}
                Element::Distinct(variables, _) => all.extend(variables),
                Element::Timestamp(variable, _) => _ = all.insert(*variable),
            }
        }
        all
    }
}
