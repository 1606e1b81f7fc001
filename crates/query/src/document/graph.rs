//! The triples of a document, as a view. The ids of its terms are local to the next execution,
//! except for predicates and containers that documents have in common.

use crate::view::batch_graph::BatchGraph;
use crate::view::graph_view::{Dataset, GraphView, Source};
use crate::view::local_terms::LocalTerms;
use crate::view::term_source::TermSource;
use oxrdf::Term;
use somersault_dictionary::Dictionary;
use somersault_model::{Direction, TermId, TripleIds};
use somersault_store::{Pace, PredicateStatistics};

/// The triples of one document. One value serves many documents, one after the other.
#[derive(Default)]
pub struct DocumentGraph {
    terms: LocalTerms,
    triples: Vec<TripleIds>,
    graph: BatchGraph,
}

impl DocumentGraph {
    /// A graph without triples.
    pub fn new() -> DocumentGraph {
        DocumentGraph::default()
    }

    /// Forgets the triples.
    pub fn clear(&mut self) {
        self.terms = LocalTerms::default();
        self.triples.clear();
        self.graph.clear();
    }

    /// The id of a term in this document.
    pub(crate) fn id(&mut self, term: Term, dictionary: &Dictionary) -> TermId {
        self.terms.id(term, TermSource::Here(dictionary))
    }

    /// Adds a triple of ids that a [`DocumentQuery`](crate::DocumentQuery) gave for the document.
    pub fn add(&mut self, triple: TripleIds) {
        self.triples.push(triple);
    }

    /// Makes the triples readable. Takes the document's terms, for an execution.
    pub(crate) fn finish(&mut self) -> LocalTerms {
        self.graph.fill(self.triples.drain(..));
        std::mem::take(&mut self.terms)
    }
}

/// A document while a query reads it.
pub(crate) struct DocumentView<'d> {
    pub(crate) document: &'d DocumentGraph,
    pub(crate) dictionary: &'d Dictionary,
    pub(crate) dataset: &'d Dataset,
}

impl DocumentView<'_> {
    /// The triples of a source: all are in the default graph.
    fn graph(&self) -> &BatchGraph {
        &self.document.graph
    }
}

impl GraphView for DocumentView<'_> {
    fn dictionary(&self) -> TermSource<'_> {
        TermSource::Here(self.dictionary)
    }

    fn dataset(&self) -> &Dataset {
        self.dataset
    }

    fn stored_graphs(&self) -> Vec<TermId> {
        Vec::new()
    }

    fn neighbours<'a>(
        &'a self,
        _source: Source,
        vertex: TermId,
        predicate: TermId,
        direction: Direction,
        scratch: &'a mut Vec<TermId>,
    ) -> &'a [TermId] {
        self.graph()
            .neighbours(vertex, predicate, direction, scratch);
        scratch
    }

    fn neighbour_estimate(
        &self,
        _source: Source,
        vertex: TermId,
        predicate: TermId,
        direction: Direction,
    ) -> usize {
        self.graph().degree(vertex, predicate, direction)
    }

    fn contains(&self, _source: Source, triple: TripleIds) -> bool {
        self.graph().contains(triple)
    }

    fn edges(
        &self,
        _source: Source,
        predicate: TermId,
        direction: Direction,
        pace: &mut Pace<'_>,
        vertices: &mut Vec<TermId>,
        neighbours: &mut Vec<TermId>,
    ) {
        self.graph()
            .edges_until(predicate, direction, pace, vertices, neighbours);
    }

    fn predicates_of<'a>(
        &'a self,
        _source: Source,
        vertex: TermId,
        direction: Direction,
        scratch: &'a mut Vec<TermId>,
    ) -> &'a [TermId] {
        self.graph().predicates_of(vertex, direction, scratch);
        scratch
    }

    fn vertices_with<'a>(
        &'a self,
        _source: Source,
        predicate: TermId,
        direction: Direction,
        scratch: &'a mut Vec<TermId>,
    ) -> &'a [TermId] {
        self.graph().vertices_with(predicate, direction, scratch);
        scratch
    }

    fn predicates(&self, _source: Source) -> Vec<TermId> {
        self.graph().predicates()
    }

    fn predicate_statistics(&self, _source: Source, predicate: TermId) -> PredicateStatistics {
        self.graph().predicate_statistics(predicate)
    }

    fn statement_count(&self, _source: Source) -> u64 {
        self.graph().len() as u64
    }
}
