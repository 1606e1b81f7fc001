//! The limits of an execution, for work other than queries, such as a change to a whole graph.

use crate::algebra::error::QueryError;
use crate::context::execution::Execution;
use crate::context::limiter::Limiter;
use crate::view::local_terms::quad_bytes;
use oxrdf::Quad;

/// Checks the time and the memory of such work. It starts when it is created.
pub struct Watch<'e>(Limiter<'e>);

impl<'e> Watch<'e> {
    /// The limits of this execution, from now on.
    pub fn new(execution: &'e Execution) -> Watch<'e> {
        Watch(Limiter::start(execution))
    }

    /// Called once for each of many things; looks at the clock now and then.
    ///
    /// # Errors
    /// The time is over, or the work was cancelled.
    pub fn tick(&mut self) -> Result<(), QueryError> {
        self.0.tick()
    }

    /// Counts a statement that stays in memory.
    ///
    /// # Errors
    /// As [`Watch::tick`]; all statements together take more memory than they may.
    pub fn hold(&mut self, quad: &Quad) -> Result<(), QueryError> {
        self.0.tick()?;
        self.0.reserve(quad_bytes(quad))
    }
}
