//! A query that is ready to run: parsed, with its expressions resolved. It holds terms and no ids,
//! since ids belong to a dictionary that reclaims them; constants are looked up at each execution.

use crate::{Answer, Execution, Explanation, GraphView, QueryError};
use somersault_lang::Query;
use std::sync::Arc;

/// A query that is ready to run, any number of times and on any view. Cheap to clone.
#[derive(Clone)]
pub struct Prepared {
    query: Arc<Query>,
}

impl Prepared {
    /// Prepares a parsed query.
    pub fn new(query: Query) -> Prepared {
        Prepared {
            query: Arc::new(query),
        }
    }

    /// The query as parsed.
    pub fn query(&self) -> &Query {
        &self.query
    }

    /// Whether no part of it needs spareval.
    pub fn is_native(&self) -> bool {
        self.fallback_reason().is_none()
    }

    /// What of it needs spareval.
    pub fn fallback_reason(&self) -> Option<&str> {
        None
    }

    /// Evaluates it on a view.
    ///
    /// # Errors
    /// A limit was reached, it was cancelled, or a remote part failed.
    pub fn execute(
        &self,
        _view: &dyn GraphView,
        _execution: &Execution,
    ) -> Result<Answer, QueryError> {
        unimplemented!()
    }

    /// The steps that it would take on this view, with estimates; with `analyze` it is executed,
    /// and actual rows and times are shown.
    ///
    /// # Errors
    /// As [`Prepared::execute`], with `analyze`.
    pub fn explain(
        &self,
        _view: &dyn GraphView,
        _execution: &Execution,
        _analyze: bool,
    ) -> Result<Explanation, QueryError> {
        unimplemented!()
    }
}
