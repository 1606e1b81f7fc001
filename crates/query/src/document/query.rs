//! The CONSTRUCT, and what documents have in common: the ids of predicates and of containers.
//!
//! A query without variables as predicates reads few predicates, and triples with others are not
//! even given ids. Which ones it reads, the parser's algebra says ([`Query::stored_reads`]); where
//! it does not, all triples are kept.

use crate::algebra::error::QueryError;
use crate::context::answer::Answer;
use crate::context::execution::Execution;
use crate::document::graph::{DocumentGraph, DocumentView};
use crate::prepared::Prepared;
use crate::prepared::execute::Invocation;
use crate::view::graph_view::{Dataset, NamedGraphs, Source};
use oxrdf::{BlankNode, GraphName, NamedNodeRef, Quad, Term, TermRef};
use rustc_hash::FxHashMap;
use somersault_dictionary::Dictionary;
use somersault_lang::Query;
use somersault_model::TermId;

/// The containers whose ids all documents share; further ones get ids with their document.
const SHARED_CONTAINERS: u32 = 64;

/// A CONSTRUCT that is evaluated on one document after the other, by any number of threads.
pub struct DocumentQuery {
    prepared: Prepared,
    /// Knows the constants of the query, and what documents share.
    dictionary: Dictionary,
    dataset: Dataset,
    /// The predicates that it reads; `None` = any.
    reads: Option<FxHashMap<String, TermId>>,
    containers: Vec<TermId>,
}

impl DocumentQuery {
    /// Compiles a CONSTRUCT that reads its default graph alone.
    pub fn new(query: &Query) -> DocumentQuery {
        let dictionary = Dictionary::new();
        let predicates = query.stored_reads().into_iter().map(|read| read.predicate);
        let predicates: Option<Vec<_>> = predicates.collect();
        let reads = predicates.map(|predicates| {
            let known = predicates.into_iter().map(|predicate| {
                let id = dictionary.intern(predicate.as_ref().into());
                (predicate.into_string(), id)
            });
            known.collect()
        });
        let containers = (0..SHARED_CONTAINERS)
            .map(|number| dictionary.intern(TermRef::from(container(number).as_ref())));
        let prepared = Prepared::compact(query.clone()).of_procedure();
        // Their ids are the same in all documents, also where no document has had them yet.
        for constant in &prepared.inner().compiled.constants.terms {
            dictionary.intern(constant.as_ref());
        }
        DocumentQuery {
            prepared,
            dataset: Dataset {
                default: vec![Source::Stored(TermId::DEFAULT_GRAPH)],
                named: NamedGraphs::List(Vec::new()),
            },
            reads,
            containers: containers.collect(),
            dictionary,
        }
    }

    /// The id of a predicate in a document; `None` if no triple with it matters to the query.
    pub fn predicate(&self, iri: &str, document: &mut DocumentGraph) -> Option<TermId> {
        match &self.reads {
            Some(reads) => reads.get(iri).copied(),
            None => {
                let predicate = NamedNodeRef::new_unchecked(iri).into_owned();
                Some(document.id(predicate.into(), &self.dictionary))
            }
        }
    }

    /// The id of the container with this number, a blank node.
    pub fn container(&self, number: u32, document: &mut DocumentGraph) -> TermId {
        let shared = self.containers.get(number as usize).copied();
        shared.unwrap_or_else(|| document.id(container(number).into(), &self.dictionary))
    }

    /// The id of another term in a document.
    pub fn term(&self, term: Term, document: &mut DocumentGraph) -> TermId {
        document.id(term, &self.dictionary)
    }

    /// Whether the ids of predicates are the same in all documents.
    pub fn shares_predicates(&self) -> bool {
        self.reads.is_some()
    }

    /// The statements that the query makes of a document, each once. The document is empty then.
    ///
    /// # Errors
    /// A limit was reached.
    pub fn construct(
        &self,
        document: &mut DocumentGraph,
        execution: &Execution,
    ) -> Result<Vec<Quad>, QueryError> {
        let terms = document.finish();
        let view = DocumentView {
            document,
            dictionary: &self.dictionary,
            dataset: &self.dataset,
        };
        let invocation = Invocation::new(&view, execution).knowing(terms);
        let answer = self.prepared.run(invocation);
        document.clear();
        Ok(match answer? {
            Answer::Graph(triples) => {
                let triples = triples.into_iter();
                triples
                    .map(|triple| triple.in_graph(GraphName::DefaultGraph))
                    .collect()
            }
            Answer::Dataset(quads) => quads,
            Answer::Boolean(_) | Answer::Solutions(_) => Vec::new(),
        })
    }
}

/// The blank node of a container.
fn container(number: u32) -> BlankNode {
    BlankNode::new_unchecked(format!("c{number}"))
}
