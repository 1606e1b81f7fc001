//! The settings of queries and updates, and the token that cancels a query.

use oxrdf::NamedNode;
use somersault_lang::DatasetClause;
use somersault_query::Using;
use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Gives up a query whose answer is no longer wanted; clones are handles to the same token. The
/// query ends soon after, with [`EngineError::Cancelled`](crate::EngineError::Cancelled).
///
/// ```
/// use somersault::{CancelToken, Engine, EngineConfig, EngineError};
/// # fn main() -> Result<(), EngineError> {
/// # let engine = Engine::open(EngineConfig::default())?;
/// let token = CancelToken::new();
/// token.cancel();
/// assert!(token.is_cancelled());
/// // Another thread would cancel it later.
/// let given_up = engine.query("SELECT * { ?s ?p ?o }").cancel(&token).run();
/// assert!(given_up.is_ok() || matches!(given_up, Err(EngineError::Cancelled)));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct CancelToken(Arc<AtomicBool>);

impl CancelToken {
    /// Returns a token that has not been cancelled.
    ///
    /// ```
    /// assert!(!somersault::CancelToken::new().is_cancelled());
    /// ```
    pub fn new() -> CancelToken {
        CancelToken::default()
    }

    /// Cancels the queries that have this token.
    ///
    /// ```
    /// let token = somersault::CancelToken::new();
    /// let clone = token.clone();
    /// std::thread::spawn(move || clone.cancel()).join().unwrap();
    /// assert!(token.is_cancelled());
    /// ```
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it has been cancelled.
    ///
    /// ```
    /// let token = somersault::CancelToken::new();
    /// token.cancel();
    /// assert!(token.is_cancelled());
    /// ```
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0)
    }
}

/// The settings of one query, from the SPARQL protocol and the caller; for
/// [`QueryRequest::options`](crate::QueryRequest::options).
///
/// ```
/// use somersault::QueryOptions;
/// let options = QueryOptions { result_rows: Some(100), ..QueryOptions::default() };
/// assert!(options.timeout.is_none(), "the engine's limit holds");
/// ```
#[derive(Clone, Debug, Default)]
pub struct QueryOptions {
    /// `default-graph-uri`: replaces the query's own dataset if this or `named_graphs` is not
    /// empty.
    pub default_graphs: Vec<NamedNode>,
    /// `named-graph-uri`.
    pub named_graphs: Vec<NamedNode>,
    /// The IRI that relative IRIs are resolved against.
    pub base: Option<String>,
    /// A shorter (or longer) time limit than the engine's.
    pub timeout: Option<Duration>,
    /// Another limit of rows than the engine's.
    pub result_rows: Option<u64>,
    /// The token by which the caller gives the query up.
    pub cancel: Option<CancelToken>,
}

/// The settings of one update, from the SPARQL protocol; for
/// [`UpdateRequest::options`](crate::UpdateRequest::options).
///
/// ```
/// use somersault::UpdateOptions;
/// let base = Some("http://example.org/".to_owned());
/// let options = UpdateOptions { base, ..UpdateOptions::default() };
/// assert!(options.using_graphs.is_empty());
/// ```
#[derive(Clone, Debug, Default)]
pub struct UpdateOptions {
    /// `using-graph-uri`.
    pub using_graphs: Vec<NamedNode>,
    /// `using-named-graph-uri`.
    pub using_named_graphs: Vec<NamedNode>,
    /// The IRI that relative IRIs are resolved against.
    pub base: Option<String>,
    /// A shorter (or longer) time limit than the engine's.
    pub timeout: Option<Duration>,
}

impl QueryOptions {
    /// Whether the caller no longer wants the answer.
    pub(super) fn is_given_up(&self) -> bool {
        self.cancel.as_ref().is_some_and(CancelToken::is_cancelled)
    }

    /// Returns the protocol's dataset if it gives one, otherwise the query's own.
    pub(super) fn dataset<'a>(&self, own: &'a DatasetClause) -> Cow<'a, DatasetClause> {
        if self.default_graphs.is_empty() && self.named_graphs.is_empty() {
            return Cow::Borrowed(own);
        }
        Cow::Owned(DatasetClause {
            present: true,
            default: self.default_graphs.clone(),
            named: self.named_graphs.clone(),
            all_named: false,
        })
    }
}

impl UpdateOptions {
    pub(super) fn using(&self) -> Option<Using> {
        if self.using_graphs.is_empty() && self.using_named_graphs.is_empty() {
            return None;
        }
        Some(Using {
            default: self.using_graphs.clone(),
            named: self.using_named_graphs.clone(),
        })
    }
}
