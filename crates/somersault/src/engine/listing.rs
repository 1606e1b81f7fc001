//! The continuous queries, a page at a time: there may be a million of them, and the driver must
//! not wait while they are listed.

use super::Engine;
use crate::info::QueryInfo;

/// Some of the continuous queries.
#[derive(Clone, Debug)]
pub struct QueryPage {
    /// The queries, in the order of their names.
    pub queries: Vec<QueryInfo>,
    /// Number of registered queries in total.
    pub total: usize,
    /// Whether there are more with later names.
    pub more: bool,
}

/// # Continuous queries
///
/// A page at a time.
impl Engine {
    /// Returns up to `most` continuous queries whose names come after this one, in the order of
    /// their names. Queries that are registered or dropped meanwhile may be among them or not.
    ///
    /// ```
    /// use somersault::{Engine, EngineConfig};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// # engine.create_stream(None, "CREATE STREAM <urn:s> BATCH 1s IDLE NEVER")?;
    /// # let text = "SELECT ?x FROM STREAM <urn:s> [RANGE 2s STEP 1s] WHERE { ?x ?p ?o }";
    /// # engine.register(Some("seen"), text)?;
    /// let page = engine.queries_after(None, 100);
    /// assert_eq!((page.total, page.more), (1, false));
    /// # Ok(())
    /// # }
    /// ```
    pub fn queries_after(&self, after: Option<&str>, most: usize) -> QueryPage {
        let driver = &self.inner.driver;
        let mut names = driver.query_names(after, most.saturating_add(1));
        let more = names.len() > most;
        names.truncate(most);
        let found = names.iter().filter_map(|name| driver.query(name));
        QueryPage {
            queries: found.map(|status| self.describe(status)).collect(),
            total: driver.query_count(),
            more,
        }
    }
}
