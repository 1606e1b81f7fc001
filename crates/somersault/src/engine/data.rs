//! The graphs of the Graph Store Protocol. The writes to graphs are updates like any other (S15).

use super::{Engine, QueryOptions, QueryResults, UpdateSummary};
use crate::error::EngineError;
use crate::load::GraphWrite;
use oxrdf::{GraphName, GraphNameRef, Quad, QuadRef, Term, TermRef, Triple};
use oxrdfio::{RdfFormat, RdfParser, ReaderQuadParser};
use somersault_model::{Direction, QuadIds, TermId};
use somersault_query::Effects;
use somersault_store::{Dictionary, Snapshot};
use std::collections::HashSet;
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Triple terms nested deeper than this are refused: reading and dropping them recurses.
const NESTING_LIMIT: usize = 64;

impl Engine {
    /// How many statements the stable snapshot holds, over all graphs.
    pub(super) fn stored_statements(&self) -> u64 {
        let snapshot = self.inner.store.pin_stable();
        let named = snapshot.graphs();
        let named: u64 = (named.iter())
            .map(|graph| snapshot.statement_count(*graph))
            .sum();
        named + snapshot.statement_count(TermId::DEFAULT_GRAPH)
    }

    /// The triples of a graph (Graph Store Protocol GET).
    ///
    /// # Errors
    /// [`EngineError::NotFound`] for a named graph that holds nothing.
    pub fn graph(&self, graph: &GraphName) -> Result<QueryResults, EngineError> {
        let mut options = QueryOptions::default();
        match graph {
            GraphName::DefaultGraph => {}
            GraphName::NamedNode(name) => {
                let snapshot = self.inner.store.pin_stable();
                if is_empty(&snapshot, graph, self.inner.store.dictionary()) {
                    return Err(EngineError::no_graph(graph));
                }
                options.default_graphs.push(name.clone());
            }
            GraphName::BlankNode(_) => return Err(EngineError::no_graph(graph)),
        }
        self.query("CONSTRUCT { ?s ?p ?o } WHERE { ?s ?p ?o }", &options)
    }

    /// Replaces a graph (Graph Store Protocol PUT).
    ///
    /// # Errors
    /// [`EngineError::Data`] with the place where the document does not parse; the graph stays as it was.
    pub fn put_graph(
        &self,
        graph: &GraphName,
        reader: impl Read,
        format: RdfFormat,
        base: Option<&str>,
    ) -> Result<GraphWrite, EngineError> {
        let new = self.read_graph(graph, reader, format, base)?;
        self.write_graph(graph, move |old| Ok(difference(old, new, true)))
    }

    /// Adds to a graph (Graph Store Protocol POST).
    ///
    /// # Errors
    /// [`EngineError::Data`] with the place where the document does not parse; the graph stays as it was.
    pub fn post_graph(
        &self,
        graph: &GraphName,
        reader: impl Read,
        format: RdfFormat,
        base: Option<&str>,
    ) -> Result<GraphWrite, EngineError> {
        let new = self.read_graph(graph, reader, format, base)?;
        self.write_graph(graph, move |old| Ok(difference(old, new, false)))
    }

    /// Empties a graph (Graph Store Protocol DELETE).
    ///
    /// # Errors
    /// [`EngineError::NotFound`] for a named graph that holds nothing.
    pub fn delete_graph(&self, graph: &GraphName) -> Result<GraphWrite, EngineError> {
        let name = graph.clone();
        self.write_graph(graph, move |old| {
            if old.is_empty() && !name.is_default_graph() {
                return Err(EngineError::no_graph(&name));
            }
            Ok(difference(old, HashSet::new(), true))
        })
    }

    /// Deletes, then inserts, in one snapshot.
    ///
    /// # Errors
    /// The log or a shard has failed.
    pub fn apply_effects(
        &self,
        deletes: Vec<Quad>,
        inserts: Vec<Quad>,
    ) -> Result<UpdateSummary, EngineError> {
        self.check_running()?;
        for quad in &inserts {
            check_nesting(quad)?;
        }
        let store = Arc::clone(&self.inner.store);
        let result = self.evaluate_and_apply(move |snapshot| {
            let dictionary = store.dictionary();
            let holds =
                |quad: &Quad| lookup(dictionary, quad).is_some_and(|ids| snapshot.contains(ids));
            let inserted: HashSet<Quad> = inserts.into_iter().collect();
            let deleted: HashSet<Quad> = deletes.into_iter().collect();
            Ok(Effects {
                deletes: (deleted.iter())
                    .filter(|quad| !inserted.contains(*quad) && holds(quad))
                    .cloned()
                    .collect(),
                inserts: inserted.into_iter().filter(|quad| !holds(quad)).collect(),
            })
        })?;
        Ok(result.into())
    }

    fn read_graph(
        &self,
        graph: &GraphName,
        reader: impl Read,
        format: RdfFormat,
        base: Option<&str>,
    ) -> Result<HashSet<Quad>, EngineError> {
        self.check_running()?;
        let mut scope = self.document_scope();
        let quads: ReaderQuadParser<_> = document_parser(format, base)?
            .without_named_graphs()
            .for_reader(reader);
        let mut read = HashSet::new();
        for quad in quads {
            let mut quad = quad.map_err(EngineError::from_document)?;
            check_nesting(&quad)?;
            scope.rename(&mut quad);
            quad.graph_name = graph.clone();
            read.insert(quad);
        }
        Ok(read)
    }

    /// Changes one graph by what `change` makes of its present statements.
    fn write_graph(
        &self,
        graph: &GraphName,
        change: impl FnOnce(HashSet<Quad>) -> Result<Effects, EngineError> + Send + 'static,
    ) -> Result<GraphWrite, EngineError> {
        self.check_running()?;
        let store = Arc::clone(&self.inner.store);
        let name = graph.clone();
        let was_empty = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let seen = Arc::clone(&was_empty);
        let result = self.evaluate_and_apply(move |snapshot| {
            let old = statements(&snapshot, &name, store.dictionary());
            seen.store(old.is_empty(), Ordering::SeqCst);
            change(old)
        })?;
        Ok(GraphWrite {
            graph: graph.clone(),
            created: was_empty.load(Ordering::SeqCst) && !graph.is_default_graph(),
            inserted: result.inserted,
            deleted: result.deleted,
            sn: result.sn.0,
        })
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

/// What turns `old` into `new`, or with `replace` false adds `new` to it.
fn difference(old: HashSet<Quad>, new: HashSet<Quad>, replace: bool) -> Effects {
    let deletes = if replace {
        old.difference(&new).cloned().collect()
    } else {
        Vec::new()
    };
    let inserts = new.into_iter().filter(|quad| !old.contains(quad)).collect();
    Effects { deletes, inserts }
}

/// The ids of a statement whose terms are all known.
fn lookup(dictionary: &Dictionary, quad: &Quad) -> Option<QuadIds> {
    Some(QuadIds {
        graph: graph_id(&quad.graph_name, dictionary)?,
        subject: dictionary.lookup(quad.subject.as_ref().into())?,
        predicate: dictionary.lookup(quad.predicate.as_ref().into())?,
        object: dictionary.lookup(quad.object.as_ref())?,
    })
}

fn graph_id(graph: &GraphName, dictionary: &Dictionary) -> Option<TermId> {
    match graph.as_ref() {
        GraphNameRef::DefaultGraph => Some(TermId::DEFAULT_GRAPH),
        GraphNameRef::NamedNode(name) => dictionary.lookup(name.into()),
        GraphNameRef::BlankNode(name) => dictionary.lookup(name.into()),
    }
}

fn is_empty(snapshot: &Snapshot, graph: &GraphName, dictionary: &Dictionary) -> bool {
    graph_id(graph, dictionary).is_none_or(|graph| snapshot.statement_count(graph) == 0)
}

/// All statements of a graph, decoded.
fn statements(snapshot: &Snapshot, graph: &GraphName, dictionary: &Dictionary) -> HashSet<Quad> {
    let mut found = HashSet::new();
    let Some(id) = graph_id(graph, dictionary) else {
        return found;
    };
    let (mut subjects, mut objects) = (Vec::new(), Vec::new());
    for predicate in snapshot.predicates(id) {
        let Some(Term::NamedNode(name)) = dictionary.decode(predicate) else {
            continue;
        };
        let vertices = snapshot.vertices_with(id, predicate, Direction::Out, &mut subjects);
        for vertex in vertices {
            let subject = match dictionary.decode(*vertex) {
                Some(Term::NamedNode(node)) => oxrdf::NamedOrBlankNode::from(node),
                Some(Term::BlankNode(node)) => oxrdf::NamedOrBlankNode::from(node),
                _ => continue,
            };
            let list = snapshot.neighbours(id, *vertex, predicate, Direction::Out, &mut objects);
            for object in list.iter().filter_map(|object| dictionary.decode(*object)) {
                let triple = Triple::new(subject.clone(), name.clone(), object);
                found.insert(triple.in_graph(graph.clone()));
            }
        }
    }
    found
}

/// Refuses triple terms that are nested too deeply to be handled safely.
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
