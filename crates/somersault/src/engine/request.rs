//! One-shot queries and updates as requests: a text, then its settings, then `run`.
//!
//! The one thing to know before changing it: a request borrows its settings until one is changed,
//! so that a caller who runs many queries with the same settings copies nothing.

use super::options::{CancelToken, QueryOptions, UpdateOptions};
use super::{BegunUpdate, DeferredQuery, Engine, PreparedQuery, QueryResults, UpdateSummary};
use crate::error::EngineError;
use oxrdf::NamedNode;
use std::borrow::Cow;
use std::time::Duration;

/// # Query
///
/// SPARQL queries on one consistent snapshot, and updates. A request has settings of its own, and
/// does nothing before it is run.
impl Engine {
    /// Returns a request to answer a SPARQL query on the stable snapshot.
    ///
    /// ```
    /// use somersault::{Engine, EngineConfig};
    /// use std::time::Duration;
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// # engine.update("INSERT DATA { <urn:ann> <urn:knows> <urn:bob> }").run()?;
    /// let found = engine.query("SELECT ?x { <urn:ann> <urn:knows> ?x }").run()?;
    /// assert_eq!(found.answer.len(), 1);
    ///
    /// let limited = engine.query("SELECT * { ?s ?p ?o }").timeout(Duration::from_secs(1));
    /// assert_eq!(limited.run()?.answer.len(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn query<'q>(&'q self, text: &'q str) -> QueryRequest<'q> {
        QueryRequest {
            engine: self,
            text,
            options: Cow::Owned(QueryOptions::default()),
        }
    }

    /// Returns a request to carry out a SPARQL update.
    ///
    /// ```
    /// use somersault::{Engine, EngineConfig};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// let done = engine.update("INSERT DATA { <urn:a> <urn:p> 1, 2 }").run()?;
    /// assert_eq!((done.inserted, done.deleted), (2, 0));
    /// # Ok(())
    /// # }
    /// ```
    pub fn update<'q>(&'q self, text: &'q str) -> UpdateRequest<'q> {
        UpdateRequest {
            engine: self,
            text,
            options: Cow::Owned(UpdateOptions::default()),
        }
    }

    /// Prepares a query to be executed any number of times; `parameters` are the variables (with or
    /// without `?`) whose values come with each execution. For other settings see
    /// [`QueryRequest::prepare`].
    ///
    /// # Errors
    /// As [`QueryRequest::prepare`].
    ///
    /// ```
    /// use somersault::oxrdf::{NamedNode, Term};
    /// use somersault::{Engine, EngineConfig};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// # engine.update("INSERT DATA { <urn:ann> <urn:knows> <urn:bob> }").run()?;
    /// let friends = engine.prepare("SELECT ?x { ?who <urn:knows> ?x }", &["who"])?;
    /// let ann = Term::from(NamedNode::new("urn:ann")?);
    /// assert_eq!(friends.execute(&[ann])?.answer.len(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn prepare(&self, text: &str, parameters: &[&str]) -> Result<PreparedQuery, EngineError> {
        self.query(text).prepare(parameters)
    }
}

/// A query with its settings; made by [`Engine::query`].
///
/// ```
/// use somersault::oxrdf::NamedNode;
/// use somersault::{CancelToken, Engine, EngineConfig};
/// use std::time::Duration;
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let engine = Engine::open(EngineConfig::default())?;
/// # engine.update("INSERT DATA { GRAPH <urn:g> { <urn:a> <urn:p> 1 } }").run()?;
/// let token = CancelToken::new();
/// let found = engine
///     .query("SELECT * { ?s ?p ?o }")
///     .graphs([NamedNode::new("urn:g")?])
///     .timeout(Duration::from_secs(1))
///     .result_rows(1000)
///     .cancel(&token)
///     .run()?;
/// assert_eq!(found.answer.len(), 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "a request does nothing before it is run"]
pub struct QueryRequest<'q> {
    engine: &'q Engine,
    text: &'q str,
    options: Cow<'q, QueryOptions>,
}

/// The outcome of trying a query on its caller's thread.
///
/// ```
/// use somersault::{Engine, EngineConfig, FastPath};
/// # fn main() -> Result<(), somersault::EngineError> {
/// # let engine = Engine::open(EngineConfig::default())?;
/// let results = match engine.query("ASK { ?s ?p ?o }").begin()? {
///     FastPath::Answered(results) => results,
///     FastPath::Deferred(query) => query.wait()?,
/// };
/// assert_eq!(results.answer.boolean(), Some(false));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub enum FastPath {
    /// The query is answered.
    Answered(QueryResults),
    /// It takes longer than a caller that must not wait can afford.
    Deferred(DeferredQuery),
}

impl FastPath {
    /// Returns the answer, and waits for it if the query was deferred.
    pub(super) fn wait(self) -> Result<QueryResults, EngineError> {
        match self {
            FastPath::Answered(results) => Ok(results),
            FastPath::Deferred(query) => query.wait(),
        }
    }
}

impl<'q> QueryRequest<'q> {
    /// Takes all settings from `options`.
    ///
    /// ```
    /// use somersault::{Engine, EngineConfig, QueryOptions};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// let options = QueryOptions { result_rows: Some(10), ..QueryOptions::default() };
    /// let found = engine.query("ASK {}").options(&options).run()?;
    /// assert_eq!(found.answer.boolean(), Some(true));
    /// # Ok(())
    /// # }
    /// ```
    pub fn options(self, options: &'q QueryOptions) -> QueryRequest<'q> {
        QueryRequest {
            options: Cow::Borrowed(options),
            ..self
        }
    }

    /// Reads these graphs as the default graph, in place of the query's own dataset
    /// (`default-graph-uri` of the SPARQL protocol).
    ///
    /// ```
    /// use somersault::oxrdf::NamedNode;
    /// use somersault::{Engine, EngineConfig};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// # engine.update("INSERT DATA { GRAPH <urn:g> { <urn:a> <urn:p> 1 } }").run()?;
    /// let request = engine.query("SELECT * { ?s ?p ?o }").graphs([NamedNode::new("urn:g")?]);
    /// assert_eq!(request.run()?.answer.len(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn graphs(mut self, graphs: impl IntoIterator<Item = NamedNode>) -> QueryRequest<'q> {
        self.options.to_mut().default_graphs = graphs.into_iter().collect();
        self
    }

    /// Reads these named graphs, in place of the query's own dataset (`named-graph-uri` of the
    /// SPARQL protocol).
    ///
    /// ```
    /// use somersault::oxrdf::NamedNode;
    /// use somersault::{Engine, EngineConfig};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// # engine.update("INSERT DATA { GRAPH <urn:g> { <urn:a> <urn:p> 1 } }").run()?;
    /// let request = engine.query("SELECT * { GRAPH ?g { ?s ?p ?o } }");
    /// let found = request.named_graphs([NamedNode::new("urn:other")?]).run()?;
    /// assert!(found.answer.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    pub fn named_graphs(mut self, graphs: impl IntoIterator<Item = NamedNode>) -> QueryRequest<'q> {
        self.options.to_mut().named_graphs = graphs.into_iter().collect();
        self
    }

    /// Resolves relative IRIs against this one.
    ///
    /// ```
    /// use somersault::{Engine, EngineConfig};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// let request = engine.query("ASK { <a> <p> <b> }").base("http://example.org/");
    /// assert_eq!(request.run()?.answer.boolean(), Some(false));
    /// # Ok(())
    /// # }
    /// ```
    pub fn base(mut self, iri: impl Into<String>) -> QueryRequest<'q> {
        self.options.to_mut().base = Some(iri.into());
        self
    }

    /// Sets a shorter or longer time limit than the engine's.
    ///
    /// ```
    /// use std::time::Duration;
    /// use somersault::{Engine, EngineConfig};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// let request = engine.query("SELECT * { ?s ?p ?o }").timeout(Duration::from_millis(500));
    /// assert!(request.run()?.answer.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    pub fn timeout(mut self, timeout: Duration) -> QueryRequest<'q> {
        self.options.to_mut().timeout = Some(timeout);
        self
    }

    /// Sets another limit of rows than the engine's.
    ///
    /// ```
    /// use somersault::{Engine, EngineConfig, EngineError, LimitKind};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// let request = engine.query("SELECT * { VALUES ?x { 1 2 3 } }").result_rows(2);
    /// let refused = request.run();
    /// assert!(matches!(refused, Err(EngineError::Limit { which: LimitKind::ResultRows, .. })));
    /// # Ok(())
    /// # }
    /// ```
    pub fn result_rows(mut self, rows: u64) -> QueryRequest<'q> {
        self.options.to_mut().result_rows = Some(rows);
        self
    }

    /// Lets the caller give the query up by this token.
    ///
    /// ```
    /// use somersault::{CancelToken, Engine, EngineConfig};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// let token = CancelToken::new();
    /// let found = engine.query("ASK {}").cancel(&token).run()?;
    /// assert_eq!(found.answer.boolean(), Some(true), "the token was not cancelled");
    /// # Ok(())
    /// # }
    /// ```
    pub fn cancel(mut self, token: &CancelToken) -> QueryRequest<'q> {
        self.options.to_mut().cancel = Some(token.clone());
        self
    }

    /// Answers the query. A light query is answered on the calling thread, any other by the query
    /// pool.
    ///
    /// ```
    /// use somersault::{Engine, EngineConfig};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// # engine.update("INSERT DATA { GRAPH <urn:g> { <urn:a> <urn:p> 1 } }").run()?;
    /// let found = engine.query("SELECT ?o { GRAPH ?g { ?s ?p ?o } }").run()?;
    /// println!("{} rows at snapshot {} in {:?}", found.answer.len(), found.sn, found.execution);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The query does not parse, or hits a limit; see [`EngineError`].
    pub fn run(self) -> Result<QueryResults, EngineError> {
        self.begin()?.wait()
    }

    /// Answers the query at once if that takes well under a millisecond, and otherwise returns it
    /// for the query pool. For threads that must not wait, such as those of an async runtime.
    ///
    /// ```
    /// use somersault::{Engine, EngineConfig, FastPath};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// let (sender, receiver) = std::sync::mpsc::channel();
    /// match engine.query("ASK { ?s ?p ?o }").begin()? {
    ///     FastPath::Answered(results) => sender.send(Ok(results)).unwrap(),
    ///     FastPath::Deferred(query) => query.submit(move |results| sender.send(results).unwrap()),
    /// }
    /// assert_eq!(receiver.recv().unwrap()?.answer.boolean(), Some(false));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`QueryRequest::run`].
    pub fn begin(self) -> Result<FastPath, EngineError> {
        self.engine.begin_query(self.text, &self.options)
    }

    /// Prepares the query to be executed any number of times, with these settings; `parameters` are
    /// the variables (with or without `?`) whose values come with each execution.
    ///
    /// ```
    /// use somersault::oxrdf::{NamedNode, Term};
    /// use std::time::Duration;
    /// use somersault::{Engine, EngineConfig};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// let request = engine.query("SELECT ?o { ?s <urn:p> ?o }").timeout(Duration::from_secs(1));
    /// let prepared = request.prepare(&["s"])?;
    /// let subject = Term::from(NamedNode::new("urn:a")?);
    /// assert!(prepared.execute(&[subject])?.answer.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The query does not parse; a parameter is not one of its variables, or gets its value in the
    /// query (by BIND, AS, VALUES or GROUP BY).
    pub fn prepare(self, parameters: &[&str]) -> Result<PreparedQuery, EngineError> {
        self.engine
            .prepare_query(self.text, parameters, self.options.into_owned())
    }

    /// Describes how the query would be run. The text may also be a continuous query, which is
    /// described over the windows of its latest close.
    ///
    /// ```
    /// use somersault::{Engine, EngineConfig};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// let plan = engine.query("SELECT ?s { ?s <urn:p> ?o }").explain()?;
    /// assert!(plan.contains("urn:p"), "{plan}");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// It does not parse.
    pub fn explain(self) -> Result<String, EngineError> {
        (self.engine).explain_text(self.text, &self.options, false)
    }

    /// As [`QueryRequest::explain`], and runs the query to show actual rows and times.
    ///
    /// ```
    /// use somersault::{Engine, EngineConfig};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// let plan = engine.query("SELECT ?s { ?s <urn:p> ?o }").explain_analyze()?;
    /// println!("{plan}");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// It does not parse, or hits a limit.
    pub fn explain_analyze(self) -> Result<String, EngineError> {
        (self.engine).explain_text(self.text, &self.options, true)
    }
}

/// An update with its settings; made by [`Engine::update`].
///
/// ```
/// use somersault::{Engine, EngineConfig};
/// use std::time::Duration;
/// # fn main() -> Result<(), somersault::EngineError> {
/// # let engine = Engine::open(EngineConfig::default())?;
/// let update = "INSERT DATA { <a> <p> <b> }";
/// let request = engine.update(update).base("http://example.org/").timeout(Duration::from_secs(5));
/// assert_eq!(request.run()?.inserted, 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "a request does nothing before it is run"]
pub struct UpdateRequest<'q> {
    engine: &'q Engine,
    text: &'q str,
    options: Cow<'q, UpdateOptions>,
}

impl<'q> UpdateRequest<'q> {
    /// Takes all settings from `options`.
    ///
    /// ```
    /// use somersault::{Engine, EngineConfig, UpdateOptions};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// let base = Some("http://example.org/".to_owned());
    /// let options = UpdateOptions { base, ..UpdateOptions::default() };
    /// let done = engine.update("INSERT DATA { <a> <p> <b> }").options(&options).run()?;
    /// assert_eq!(done.inserted, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn options(self, options: &'q UpdateOptions) -> UpdateRequest<'q> {
        UpdateRequest {
            options: Cow::Borrowed(options),
            ..self
        }
    }

    /// Reads these graphs in WHERE (`using-graph-uri` of the SPARQL protocol).
    ///
    /// ```
    /// use somersault::oxrdf::NamedNode;
    /// use somersault::{Engine, EngineConfig};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// # engine.update("INSERT DATA { GRAPH <urn:g> { <urn:a> <urn:p> 1 } }").run()?;
    /// let update = "DELETE { GRAPH <urn:g> { ?s ?p ?o } } WHERE { ?s ?p ?o }";
    /// let done = engine.update(update).using([NamedNode::new("urn:g")?]).run()?;
    /// assert_eq!(done.deleted, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn using(mut self, graphs: impl IntoIterator<Item = NamedNode>) -> UpdateRequest<'q> {
        self.options.to_mut().using_graphs = graphs.into_iter().collect();
        self
    }

    /// Reads these named graphs in WHERE (`using-named-graph-uri` of the SPARQL protocol).
    ///
    /// ```
    /// use somersault::oxrdf::NamedNode;
    /// use somersault::{Engine, EngineConfig};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// # engine.update("INSERT DATA { GRAPH <urn:g> { <urn:a> <urn:p> 1 } }").run()?;
    /// let update = "DELETE { GRAPH ?g { ?s ?p ?o } } WHERE { GRAPH ?g { ?s ?p ?o } }";
    /// let done = engine.update(update).using_named([NamedNode::new("urn:other")?]).run()?;
    /// assert_eq!(done.deleted, 0, "<urn:g> is not among the graphs read");
    /// # Ok(())
    /// # }
    /// ```
    pub fn using_named(mut self, graphs: impl IntoIterator<Item = NamedNode>) -> UpdateRequest<'q> {
        self.options.to_mut().using_named_graphs = graphs.into_iter().collect();
        self
    }

    /// Resolves relative IRIs against this one.
    ///
    /// ```
    /// use somersault::{Engine, EngineConfig};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// let request = engine.update("INSERT DATA { <a> <p> <b> }").base("http://example.org/");
    /// assert_eq!(request.run()?.inserted, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn base(mut self, iri: impl Into<String>) -> UpdateRequest<'q> {
        self.options.to_mut().base = Some(iri.into());
        self
    }

    /// Sets a shorter or longer time limit than the engine's.
    ///
    /// ```
    /// use std::time::Duration;
    /// use somersault::{Engine, EngineConfig};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// let request = engine.update("INSERT DATA { <urn:a> <urn:p> 1 }");
    /// assert_eq!(request.timeout(Duration::from_secs(5)).run()?.inserted, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn timeout(mut self, timeout: Duration) -> UpdateRequest<'q> {
        self.options.to_mut().timeout = Some(timeout);
        self
    }

    /// Carries out the update and returns when its effects are stable (S15).
    ///
    /// ```
    /// use somersault::{Engine, EngineConfig};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// # engine.update("INSERT DATA { GRAPH <urn:g> { <urn:a> <urn:p> 1 } }").run()?;
    /// let done = engine.update("DELETE WHERE { GRAPH <urn:g> { ?s ?p ?o } }").run()?;
    /// assert_eq!((done.inserted, done.deleted), (0, 1));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The update does not parse, is refused, or hits a limit; then it has no effect.
    pub fn run(self) -> Result<UpdateSummary, EngineError> {
        self.engine.carry_out(self.text, &self.options)
    }

    /// Hands the update in, and does not wait for its answer. For threads that must not wait, such
    /// as those of an async runtime.
    ///
    /// ```
    /// use somersault::{BegunUpdate, Engine, EngineConfig};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// let done = match engine.update("INSERT DATA { <urn:a> <urn:p> 1 }").begin()? {
    ///     // An async function writes `update.await`.
    ///     BegunUpdate::HandedIn(update) => update.wait()?,
    ///     BegunUpdate::Deferred(update) => update.run()?,
    /// };
    /// assert_eq!(done.inserted, 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The update does not parse, or the engine takes none.
    pub fn begin(self) -> Result<BegunUpdate, EngineError> {
        self.engine.begin_update(self.text, &self.options)
    }
}

impl std::fmt::Debug for QueryRequest<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("QueryRequest")
            .field("text", &self.text)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for UpdateRequest<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UpdateRequest")
            .field("text", &self.text)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
