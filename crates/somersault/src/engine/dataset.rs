//! The whole dataset at once: replaced by a document.
//!
//! The one thing to know before changing it: readers see all graphs of before or all of the
//! document, because one record empties the graphs and fills them.

use super::graphs::distinct;
use super::{Engine, UpdateSummary};
use crate::access::RightKind;
use crate::error::EngineError;
use oxrdf::{GraphName, Term};
use oxrdfio::RdfFormat;
use somersault_model::{QuadIds, TermId};
use somersault_query::Effects;
use somersault_runtime::Change;
use somersault_store::Snapshot;
use std::io::Read;
use std::sync::Arc;

impl Engine {
    /// Replaces all stored statements, of all graphs, by those of a document in N-Quads, TriG or
    /// another syntax. What it holds already stays as it is.
    ///
    /// ```
    /// use somersault::{Engine, EngineConfig, RdfFormat};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// let update = "INSERT DATA { <urn:a> <urn:p> 1, 7 GRAPH <urn:g> { <urn:b> <urn:p> 2 } }";
    /// engine.update(update).run()?;
    /// let text = "<urn:a> <urn:p> 1 . <urn:h> { <urn:c> <urn:p> 3 }";
    /// let done = engine.replace_dataset(text.as_bytes(), RdfFormat::TriG, None)?;
    /// assert_eq!((done.inserted, done.deleted), (1, 2));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The document is malformed, or the handle may not write all graphs. Nothing is changed then.
    pub fn replace_dataset(
        &self,
        reader: impl Read,
        format: RdfFormat,
        base: Option<&str>,
    ) -> Result<UpdateSummary, EngineError> {
        self.admit(RightKind::Write, None)?;
        self.access.require(RightKind::Write, Some("default"))?;
        let (segment, mut statements) = self.gather_dataset(reader, format, base)?.into_parts();
        Arc::get_mut(&mut statements)
            .expect("no other thread has them yet")
            .sort_unstable();
        let bytes = size_of_val(&statements[..]);
        let store = Arc::clone(&self.inner.store);
        let done = self.evaluate_and_apply(bytes, move |snapshot| {
            let mut graphs = snapshot.graphs();
            graphs.push(TermId::DEFAULT_GRAPH);
            let count = graphs.iter().map(|it| snapshot.statement_count(*it)).sum();
            let kept = kept(&snapshot, &statements);
            let all = distinct(&statements).count() as u64;
            if kept == all && kept == count {
                return Ok(Change::Effects(Effects::default()));
            }
            let name = |graph: &TermId| match *graph {
                TermId::DEFAULT_GRAPH => Some(GraphName::DefaultGraph),
                graph => match store.dictionary().decode(graph)? {
                    Term::NamedNode(name) => Some(name.into()),
                    Term::BlankNode(name) => Some(name.into()),
                    Term::Literal(_) | Term::Triple(_) => None,
                },
            };
            let replaces = kept < count;
            let clears = graphs.iter().filter(|_| replaces).filter_map(name);
            let clears: Vec<GraphName> = clears.collect();
            if statements.is_empty() {
                return Ok(Change::Effects(Effects {
                    clears,
                    cleared: count,
                    ..Effects::default()
                }));
            }
            Ok(Change::Load {
                clears,
                segment: segment.finish()?,
                statements: Arc::clone(&statements),
                inserted: all - kept,
                deleted: count - kept,
            })
        })?;
        Ok(done.into())
    }
}

/// How many of these sorted statements are stored.
fn kept(snapshot: &Snapshot, statements: &[QuadIds]) -> u64 {
    let stored = distinct(statements).filter(|ids| snapshot.contains(**ids));
    stored.count() as u64
}
