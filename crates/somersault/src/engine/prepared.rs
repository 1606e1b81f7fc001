//! Prepared queries: parsed once, with the values of some variables given at each execution.

use super::execute::{DeferredQuery, Executed, Wanted, panicked};
use super::{Engine, FastPath, QueryOptions, QueryResults};
use crate::error::EngineError;
use oxrdf::Term;
use somersault_query::{Answer, BoundQuery, Invocation, Prepared, QueryError};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// A query that is ready to be executed any number of times, by any number of threads. Cheap to
/// clone.
///
/// Its parameters are variables whose values come with each execution: the executed query has the
/// values in place of the variables. A projected parameter has its value in every solution.
///
/// ```
/// use somersault::oxrdf::{NamedNode, Term};
/// use somersault::{Engine, EngineConfig};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let engine = Engine::open(EngineConfig::default())?;
/// let data = "INSERT DATA { <urn:ann> <urn:knows> <urn:bob> . <urn:bob> <urn:knows> <urn:cem> }";
/// engine.update(data).run()?;
/// let friends = engine.prepare("SELECT ?who ?friend { ?who <urn:knows> ?friend }", &["who"])?;
/// let bob = Term::from(NamedNode::new("urn:bob")?);
/// let mut results = friends.execute(&[bob.clone()])?;
/// let cem = Term::from(NamedNode::new("urn:cem")?);
/// assert_eq!(results.answer.rows().next(), Some(vec![Some(bob), Some(cem)]));
///
/// // The memory of an answer that is no longer needed serves the next.
/// let ann = Term::from(NamedNode::new("urn:ann")?);
/// friends.execute_into(&[ann], &mut results)?;
/// assert_eq!(results.answer.len(), 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct PreparedQuery {
    engine: Engine,
    prepared: Prepared,
    options: Arc<QueryOptions>,
}

impl std::fmt::Debug for PreparedQuery {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PreparedQuery")
            .field("text", &self.prepared.query().text)
            .finish_non_exhaustive()
    }
}

impl Engine {
    pub(super) fn prepare_query(
        &self,
        text: &str,
        parameters: &[&str],
        options: QueryOptions,
    ) -> Result<PreparedQuery, EngineError> {
        self.check_running()?;
        self.check_text(text)?;
        let query = self.parser(options.base.as_deref()).parse_query(text)?;
        Ok(PreparedQuery {
            engine: self.clone(),
            prepared: Prepared::with_parameters(query, parameters)?,
            options: Arc::new(options),
        })
    }
}

impl PreparedQuery {
    /// Executes it on the stable snapshot, with a value for each parameter. As with
    /// [`QueryRequest::run`](super::QueryRequest::run), a light query runs on the calling thread
    /// and any other on the query pool.
    ///
    /// ```
    /// use somersault::{Engine, EngineConfig};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// let ages = engine.prepare("SELECT ?age { ?who <urn:age> ?age }", &[])?;
    /// assert!(ages.execute(&[])?.answer.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The values do not fit the parameters, or a limit is hit; see [`EngineError`].
    pub fn execute(&self, values: &[Term]) -> Result<QueryResults, EngineError> {
        self.begin(values)?.wait()
    }

    /// As [`PreparedQuery::execute`], into the memory of results that are no longer needed.
    /// Repeated executions of a selective query then allocate nothing.
    ///
    /// ```
    /// use somersault::{Engine, EngineConfig};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// let ages = engine.prepare("SELECT ?age { ?who <urn:age> ?age }", &[])?;
    /// let mut results = ages.execute(&[])?;
    /// ages.execute_into(&[], &mut results)?;
    /// assert!(results.answer.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`PreparedQuery::execute`]; the content of `results` is then unspecified.
    pub fn execute_into(
        &self,
        values: &[Term],
        results: &mut QueryResults,
    ) -> Result<(), EngineError> {
        let tried = self.try_here(values, results.answer.reclaim());
        match tried.map_err(|error| self.failed(error))? {
            Some(executed) => executed.replace(results, self.engine.inner.store.dictionary_arc()),
            None => *results = self.deferred(values)?.wait()?,
        }
        Ok(())
    }

    /// Executes it at once if that takes well under a millisecond, and otherwise returns it for
    /// the query pool, as [`QueryRequest::begin`](super::QueryRequest::begin) does.
    ///
    /// ```
    /// use somersault::{Engine, EngineConfig, FastPath};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// let ages = engine.prepare("SELECT ?age { ?who <urn:age> ?age }", &[])?;
    /// let results = match ages.begin(&[])? {
    ///     FastPath::Answered(results) => results,
    ///     FastPath::Deferred(query) => query.wait()?,
    /// };
    /// assert!(results.answer.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`PreparedQuery::execute`].
    pub fn begin(&self, values: &[Term]) -> Result<FastPath, EngineError> {
        let tried = self.try_here(values, None);
        match tried.map_err(|error| self.failed(error))? {
            Some(executed) => {
                let dictionary = self.engine.inner.store.dictionary_arc();
                Ok(FastPath::Answered(executed.into_results(dictionary)))
            }
            None => self.deferred(values).map(FastPath::Deferred),
        }
    }

    /// Returns the query for the pool, with these values.
    fn deferred(&self, values: &[Term]) -> Result<DeferredQuery, EngineError> {
        let bound = BoundQuery::new(self.prepared.clone(), values.to_vec());
        let deferred = bound.map_err(EngineError::from).and_then(|bound| {
            let query = Wanted::Query(Arc::new(bound));
            self.engine.deferred(query, &self.options)
        });
        deferred.map_err(|error| self.failed(error))
    }

    /// Counts a failure.
    fn failed(&self, error: EngineError) -> EngineError {
        self.engine.inner.counters.stripe().failed();
        error
    }

    /// Runs the query; the answer takes the place of an earlier one to which no other reference
    /// exists, and its memory.
    fn run(
        &self,
        invocation: Invocation<'_>,
        earlier: Option<Arc<Answer>>,
    ) -> Result<Arc<Answer>, QueryError> {
        if let Some(mut answer) = earlier
            && let Some(place) = Arc::get_mut(&mut answer)
        {
            let earlier = std::mem::replace(place, Answer::Boolean(false));
            *place = self.prepared.run(invocation.reusing(earlier))?;
            return Ok(answer);
        }
        self.prepared.run(invocation).map(Arc::new)
    }

    /// Executes the query here; returns `None` if it is not light.
    fn try_here(
        &self,
        values: &[Term],
        reuse: Option<Arc<Answer>>,
    ) -> Result<Option<Executed>, EngineError> {
        let engine = &self.engine;
        engine.check_running()?;
        if !Engine::may_run_here(&self.prepared) {
            return Ok(None);
        }
        let run = AssertUnwindSafe(|| {
            engine.execute_here(&self.prepared, &self.options, |view, execution| {
                let invocation = Invocation::new(view, execution).terms(values);
                self.run(invocation, reuse)
            })
        });
        let result = catch_unwind(run).unwrap_or_else(|_| Err(panicked()));
        if let Ok(Some(executed)) = &result {
            engine.inner.counters.stripe().answered(executed.execution);
        }
        result
    }
}
