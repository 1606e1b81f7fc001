//! The graphs of the Graph Store Protocol. Writes to graphs are updates like any other (S15);
//! `graphs.rs` makes them from documents.

use super::{Engine, QueryOptions, QueryResults, UpdateSummary};
use crate::access::RightKind;
use crate::error::EngineError;
use crate::load::GraphWrite;
use crate::push::NESTING_LIMIT;
use oxrdf::{GraphName, GraphNameRef, Quad, QuadRef, TermRef};
use oxrdfio::{RdfFormat, RdfParser};
use somersault_dictionary::Dictionary;
use somersault_model::{QuadIds, Sn, TermId};
use somersault_query::{Effects, Watch};
use somersault_store::Snapshot;
use std::collections::HashSet;
use std::io::Read;
use std::sync::Arc;

/// # Store
///
/// The stored graphs, read and written as a whole.
impl Engine {
    /// Returns the number of statements in the stable snapshot, over all graphs.
    pub(super) fn stored_statements(&self) -> u64 {
        let snapshot = self.inner.store.pin_stable();
        let named = snapshot.graphs();
        let named: u64 = (named.iter())
            .map(|graph| snapshot.statement_count(*graph))
            .sum();
        named + snapshot.statement_count(TermId::DEFAULT_GRAPH)
    }

    /// Returns the triples of a graph (Graph Store Protocol GET).
    ///
    /// ```
    /// use somersault::oxrdf::{GraphName, NamedNode};
    /// use somersault::{Engine, EngineConfig};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// # let graph = GraphName::from(NamedNode::new_unchecked("urn:g"));
    /// engine.update("INSERT DATA { GRAPH <urn:g> { <urn:a> <urn:p> 1 } }").run()?;
    /// assert_eq!(engine.graph(&graph)?.answer.triples().count(), 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`EngineError::NotFound`] for a named graph that holds nothing.
    pub fn graph(&self, graph: &GraphName) -> Result<QueryResults, EngineError> {
        let mut options = QueryOptions::default();
        self.graph_sn(graph)?;
        if let GraphName::NamedNode(name) = graph {
            options.default_graphs.push(name.clone());
        }
        self.query("CONSTRUCT { ?s ?p ?o } WHERE { ?s ?p ?o }")
            .options(&options)
            .run()
    }

    /// Whether a graph exists, without reading it. The default graph always does, a named graph
    /// while it holds something.
    ///
    /// ```
    /// use somersault::oxrdf::{GraphName, NamedNode};
    /// use somersault::{Engine, EngineConfig};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// # let graph = GraphName::from(NamedNode::new_unchecked("urn:g"));
    /// assert!(!engine.contains_graph(&graph)?);
    /// assert!(engine.contains_graph(&GraphName::DefaultGraph)?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The engine is stopping.
    pub fn contains_graph(&self, graph: &GraphName) -> Result<bool, EngineError> {
        match self.graph_sn(graph) {
            Ok(_) => Ok(true),
            Err(EngineError::NotFound(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Returns the snapshot number at which a graph exists, without reading it (Graph Store
    /// Protocol HEAD).
    ///
    /// ```
    /// use somersault::oxrdf::GraphName;
    /// use somersault::{Engine, EngineConfig};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// let sn = engine.graph_sn(&GraphName::DefaultGraph)?;
    /// assert!(sn <= engine.stable());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`EngineError::NotFound`] for a named graph that holds nothing.
    pub fn graph_sn(&self, graph: &GraphName) -> Result<Sn, EngineError> {
        self.admit(RightKind::Read, graph_name(graph))?;
        let snapshot = self.inner.store.pin_stable();
        let is_there = match graph {
            GraphName::DefaultGraph => true,
            GraphName::NamedNode(_) => !is_empty(&snapshot, graph, self.inner.store.dictionary()),
            GraphName::BlankNode(_) => false,
        };
        if !is_there {
            return Err(EngineError::no_graph(graph));
        }
        Ok(snapshot.sn())
    }

    /// Replaces a graph (Graph Store Protocol PUT).
    ///
    /// ```
    /// use somersault::oxrdf::{GraphName, NamedNode};
    /// use somersault::{Engine, EngineConfig, RdfFormat};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// # let graph = GraphName::from(NamedNode::new_unchecked("urn:g"));
    /// let text = "<urn:a> <urn:p> 1, 2 .";
    /// let written = engine.replace_graph(&graph, text.as_bytes(), RdfFormat::Turtle, None)?;
    /// assert!(written.created);
    /// assert_eq!((written.inserted, written.deleted), (2, 0));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`EngineError::Data`] with the place where the document does not parse; the graph is
    /// unchanged then.
    pub fn replace_graph(
        &self,
        graph: &GraphName,
        reader: impl Read,
        format: RdfFormat,
        base: Option<&str>,
    ) -> Result<GraphWrite, EngineError> {
        self.take_document(graph, reader, (format, base), true)
    }

    /// Adds a document to a graph (Graph Store Protocol POST).
    ///
    /// ```
    /// use somersault::oxrdf::{GraphName, NamedNode};
    /// use somersault::{Engine, EngineConfig, RdfFormat};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// # let graph = GraphName::from(NamedNode::new_unchecked("urn:g"));
    /// let text = "<urn:a> <urn:p> 1 .";
    /// engine.add_to_graph(&graph, text.as_bytes(), RdfFormat::Turtle, None)?;
    /// let again = engine.add_to_graph(&graph, text.as_bytes(), RdfFormat::Turtle, None)?;
    /// assert_eq!(again.inserted, 0, "it has the statement");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`EngineError::Data`] with the place where the document does not parse; the graph is
    /// unchanged then.
    pub fn add_to_graph(
        &self,
        graph: &GraphName,
        reader: impl Read,
        format: RdfFormat,
        base: Option<&str>,
    ) -> Result<GraphWrite, EngineError> {
        self.take_document(graph, reader, (format, base), false)
    }

    /// Empties a graph (Graph Store Protocol DELETE).
    ///
    /// ```
    /// use somersault::oxrdf::{GraphName, NamedNode};
    /// use somersault::{Engine, EngineConfig};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// # let graph = GraphName::from(NamedNode::new_unchecked("urn:g"));
    /// engine.update("INSERT DATA { GRAPH <urn:g> { <urn:a> <urn:p> 1 } }").run()?;
    /// assert_eq!(engine.clear_graph(&graph)?.deleted, 1);
    /// assert!(!engine.contains_graph(&graph)?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`EngineError::NotFound`] for a named graph that holds nothing.
    pub fn clear_graph(&self, graph: &GraphName) -> Result<GraphWrite, EngineError> {
        let name = graph.clone();
        self.write_graph(graph, 0, move |present| {
            if present.count() == 0 && !name.is_default_graph() {
                return Err(EngineError::no_graph(&name));
            }
            let effects = match present.is_listed() {
                true => Effects {
                    deletes: present.all()?,
                    ..Effects::default()
                },
                false => present.cleared_for(Vec::new(), 0),
            };
            Ok(effects.into())
        })
    }

    /// Deletes statements, then inserts others, in one snapshot.
    ///
    /// ```
    /// use somersault::oxrdf::{GraphName, NamedNode, Quad};
    /// use somersault::{Engine, EngineConfig};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// let node = |name: &str| NamedNode::new_unchecked(name);
    /// let [old, new] = ["urn:b", "urn:c"].map(|object| {
    ///     Quad::new(node("urn:a"), node("urn:p"), node(object), GraphName::DefaultGraph)
    /// });
    /// engine.apply_effects(Vec::new(), vec![old.clone()])?;
    /// let done = engine.apply_effects(vec![old], vec![new])?;
    /// assert_eq!((done.inserted, done.deleted), (1, 1));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The log or a shard has failed.
    pub fn apply_effects(
        &self,
        deletes: Vec<Quad>,
        inserts: Vec<Quad>,
    ) -> Result<UpdateSummary, EngineError> {
        for quad in deletes.iter().chain(&inserts) {
            self.admit(RightKind::Write, graph_name(&quad.graph_name))?;
        }
        self.check_running()?;
        for quad in &inserts {
            check_nesting(quad)?;
        }
        let store = Arc::clone(&self.inner.store);
        let execution = self.one_shot_execution(None, None);
        let bytes = size_of_val(&deletes[..]) + size_of_val(&inserts[..]);
        let result = self.evaluate_and_apply(bytes, move |snapshot| {
            let dictionary = store.dictionary();
            let holds =
                |quad: &Quad| lookup(dictionary, quad).is_some_and(|ids| snapshot.contains(ids));
            let mut watch = Watch::new(&execution);
            let inserted: HashSet<Quad> = inserts.into_iter().collect();
            let mut effects = Effects::default();
            for quad in deletes.into_iter().collect::<HashSet<_>>() {
                watch.tick()?;
                if !inserted.contains(&quad) && holds(&quad) {
                    effects.deletes.push(quad);
                }
            }
            for quad in inserted {
                watch.tick()?;
                if !holds(&quad) {
                    effects.inserts.push(quad);
                }
            }
            Ok(effects)
        })?;
        Ok(result.into())
    }
}

pub(super) fn document_parser(
    format: RdfFormat,
    base: Option<&str>,
) -> Result<RdfParser, EngineError> {
    let parser = RdfParser::from_format(format);
    match base {
        None => Ok(parser),
        Some(base) => parser.with_base_iri(base).map_err(|error| {
            EngineError::Invalid(format!(
                "the base IRI <{base}> is not an absolute IRI: {error}"
            ))
        }),
    }
}

/// Returns the ids of a statement whose terms are all known; `None` if one is not.
pub(super) fn lookup(dictionary: &Dictionary, quad: &Quad) -> Option<QuadIds> {
    Some(QuadIds {
        graph: graph_id(&quad.graph_name, dictionary)?,
        subject: dictionary.lookup(quad.subject.as_ref().into())?,
        predicate: dictionary.lookup(quad.predicate.as_ref().into())?,
        object: dictionary.lookup(quad.object.as_ref())?,
    })
}

/// The name of a graph in rights; none for a blank node, which only rights for all graphs cover.
pub(super) fn graph_name(graph: &GraphName) -> Option<&str> {
    match graph {
        GraphName::DefaultGraph => Some("default"),
        GraphName::NamedNode(name) => Some(name.as_str()),
        GraphName::BlankNode(_) => None,
    }
}

pub(super) fn graph_id(graph: &GraphName, dictionary: &Dictionary) -> Option<TermId> {
    match graph.as_ref() {
        GraphNameRef::DefaultGraph => Some(TermId::DEFAULT_GRAPH),
        GraphNameRef::NamedNode(name) => dictionary.lookup(name.into()),
        GraphNameRef::BlankNode(name) => dictionary.lookup(name.into()),
    }
}

fn is_empty(snapshot: &Snapshot, graph: &GraphName, dictionary: &Dictionary) -> bool {
    graph_id(graph, dictionary).is_none_or(|graph| snapshot.statement_count(graph) == 0)
}

/// Refuses triple terms that are nested too deeply to be processed safely.
pub(super) fn check_nesting<'a>(quad: impl Into<QuadRef<'a>>) -> Result<(), EngineError> {
    let mut depth = 0;
    let mut term = quad.into().object;
    while let TermRef::Triple(triple) = term {
        depth += 1;
        if depth > NESTING_LIMIT {
            return Err(EngineError::Invalid(format!(
                "a triple term is nested more than {NESTING_LIMIT} deep; flatten it with rdf:reifies"
            )));
        }
        term = triple.object.as_ref();
    }
    Ok(())
}
