//! The parameters of one execution: its limits, its time, what random functions are keyed by, and
//! the threads and remote endpoints that it may use. No answer depends on a clock (S6).

use crate::view::graph_rights::GraphRights;
use oxrdf::{Quad, Term};
use somersault_model::{EventTime, Limits, QueryUid};
use somersault_pool::Workers;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// The client of SERVICE and LOAD, which leave the machine. Given only where remote access is
/// allowed.
pub trait Remote: Send + Sync {
    /// Evaluates a SELECT query at a SPARQL endpoint: the variables' names, and the rows.
    ///
    /// # Errors
    /// A sentence that says what failed.
    fn select(&self, endpoint: &str, query: &str) -> Result<RemoteSolutions, String>;

    /// Reads a document for LOAD. Its blank nodes must be new.
    ///
    /// # Errors
    /// A sentence that says what failed.
    fn document(&self, iri: &str) -> Result<Vec<Quad>, String>;
}

/// The answer of a remote endpoint.
#[derive(Debug, Clone, Default)]
pub struct RemoteSolutions {
    /// The columns, without `?`.
    pub variables: Vec<String>,
    /// The rows, as wide as `variables`.
    pub rows: Vec<Vec<Option<Term>>>,
}

/// Parameters of one execution.
#[derive(Clone)]
pub struct Execution {
    /// The limits of time, rows and memory.
    pub limits: Limits,
    /// When it has to be done; `None` = when [`Limits::query_time`] has passed since its start.
    pub deadline: Option<Instant>,
    /// When it started, if its caller has read the clock; `None` = at its beginning.
    pub started: Option<Instant>,
    /// Set to stop it.
    pub cancel: Option<Arc<AtomicBool>>,
    /// Set when the caller does not want the answer any more; stops it as well.
    pub abandoned: Option<Arc<AtomicBool>>,
    /// NOW(): the close, or for a one-shot query the time of its SN.
    pub now: EventTime,
    /// With [`Execution::close`]: what RAND, UUID, STRUUID and BNODE are keyed by.
    pub query: QueryUid,
    /// The close that it is for; for a one-shot query something that no other execution has.
    pub close: EventTime,
    /// SERVICE and LOAD, where they are allowed.
    pub remote: Option<Arc<dyn Remote>>,
    /// The graphs that it may read and write; `None` = all.
    pub graph_rights: Option<Arc<GraphRights>>,
    /// Give up with [`QueryError::OverBudget`](crate::QueryError::OverBudget) when this much time
    /// has passed, or when the plan expects to need more: for trying a query where a long one must
    /// not run.
    pub budget: Option<Duration>,
    /// Threads that may take shares of it; `None` = the caller's thread alone.
    pub workers: Option<Arc<dyn Workers>>,
    /// Forced choices of the planner, for tests: every choice gives the same answer.
    #[doc(hidden)]
    pub plan_choices: PlanChoices,
    /// Rows of a morsel; tests make it small, so that small data has many.
    #[doc(hidden)]
    pub morsel_rows: usize,
}

/// Choices taken from the planner.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PlanChoices {
    /// Orders are found greedily, however few parts there are.
    pub greedy: bool,
    /// No intersections.
    pub no_intersect: bool,
    /// Blocks and optional parts that may do either run by themselves and are joined by hash
    /// (`true`), or run from the rows so far (`false`).
    pub hash: Option<bool>,
    /// Rows are reduced wherever they can be.
    pub reduce: bool,
    /// Samples are taken and orders tried out however little the query may cost.
    pub try_out: bool,
    /// Queries of procedures run by a plan, though one row may suffice.
    pub no_point: bool,
}

/// Rows of a morsel: their columns fit into the caches.
pub(crate) const MORSEL_ROWS: usize = 1 << 11;

impl Execution {
    /// An execution with these limits at this time; nothing remote, falling back allowed.
    pub fn new(limits: Limits, now: EventTime) -> Execution {
        Execution {
            limits,
            deadline: None,
            started: None,
            cancel: None,
            abandoned: None,
            now,
            query: QueryUid(0),
            close: now,
            remote: None,
            graph_rights: None,
            budget: None,
            workers: None,
            plan_choices: PlanChoices::default(),
            morsel_rows: MORSEL_ROWS,
        }
    }
}
