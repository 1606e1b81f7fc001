//! The dull twin of `SnapshotView`: a view over ordered sets, scanned from end to end.

use oxrdf::{GraphName, NamedNode, Quad, Term, Triple};
use somersault_dictionary::Dictionary;
use somersault_model::{Direction, TermId, TripleIds};
use somersault_query::{Dataset, GraphView, NamedGraphs, Source, TermSource};
use somersault_store::PredicateStatistics;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};

/// A view over sets of triples.
pub(crate) struct NaiveView {
    dictionary: Dictionary,
    dataset: Dataset,
    stored: BTreeMap<TermId, BTreeSet<TripleIds>>,
    windows: Vec<BTreeSet<TripleIds>>,
    index_reads: AtomicUsize,
}

impl NaiveView {
    /// Stored quads only, and the dataset of a query without a dataset clause.
    pub(crate) fn stored(quads: &[Quad]) -> NaiveView {
        let mut view = NaiveView {
            dictionary: Dictionary::new(),
            dataset: Dataset::stored(),
            stored: BTreeMap::new(),
            windows: Vec::new(),
            index_reads: AtomicUsize::new(0),
        };
        for quad in quads {
            let graph = match &quad.graph_name {
                GraphName::DefaultGraph => TermId::DEFAULT_GRAPH,
                GraphName::NamedNode(node) => view.intern(&node.clone().into()),
                GraphName::BlankNode(node) => view.intern(&node.clone().into()),
            };
            let triple = view.triple(&Triple::from(quad.clone()));
            view.stored.entry(graph).or_default().insert(triple);
        }
        view
    }

    /// Windows beside them: each is part of the default graph, and a named graph. The stored
    /// default graph takes part; so do the stored named graphs, by name.
    pub(crate) fn with_windows(quads: &[Quad], windows: &[(NamedNode, Vec<Triple>)]) -> NaiveView {
        let mut view = NaiveView::stored(quads);
        let mut named: Vec<(TermId, Source)> = view
            .stored
            .keys()
            .filter(|graph| **graph != TermId::DEFAULT_GRAPH)
            .map(|graph| (*graph, Source::Stored(*graph)))
            .collect();
        let mut default = vec![Source::Stored(TermId::DEFAULT_GRAPH)];
        for (at, (name, triples)) in windows.iter().enumerate() {
            let name = view.intern(&name.clone().into());
            let triples = triples.iter().map(|t| view.triple(t)).collect();
            view.windows.push(triples);
            named.push((name, Source::Window(at)));
            default.push(Source::Window(at));
        }
        view.dataset = Dataset {
            default,
            named: NamedGraphs::List(named),
        };
        view
    }

    /// The number of reads of an index vertex.
    pub(crate) fn index_reads(&self) -> usize {
        self.index_reads.load(Ordering::Relaxed)
    }

    fn intern(&self, term: &Term) -> TermId {
        self.dictionary.intern(term.as_ref())
    }

    fn triple(&self, triple: &Triple) -> TripleIds {
        TripleIds::new(
            self.intern(&triple.subject.clone().into()),
            self.intern(&triple.predicate.clone().into()),
            self.intern(&triple.object),
        )
    }

    fn set(&self, source: Source) -> impl Iterator<Item = &TripleIds> {
        match source {
            Source::Stored(graph) => self.stored.get(&graph),
            Source::Window(at) => self.windows.get(at),
        }
        .into_iter()
        .flatten()
    }

    fn vertices(
        &self,
        source: Source,
        predicate: TermId,
        direction: Direction,
    ) -> impl Iterator<Item = TermId> {
        self.set(source)
            .filter(move |triple| triple.predicate == predicate)
            .map(move |triple| ends(triple, direction).0)
    }
}

/// The start and the end of a triple, as a direction sees them.
fn ends(triple: &TripleIds, direction: Direction) -> (TermId, TermId) {
    match direction {
        Direction::Out => (triple.subject, triple.object),
        Direction::In => (triple.object, triple.subject),
    }
}

fn sorted(ids: impl Iterator<Item = TermId>, into: &mut Vec<TermId>) -> &[TermId] {
    *into = ids.collect::<BTreeSet<_>>().into_iter().collect();
    into
}

impl GraphView for NaiveView {
    fn dictionary(&self) -> TermSource<'_> {
        TermSource::Here(&self.dictionary)
    }

    fn dataset(&self) -> &Dataset {
        &self.dataset
    }

    fn stored_graphs(&self) -> Vec<TermId> {
        let named = |graph: &&TermId| **graph != TermId::DEFAULT_GRAPH;
        self.stored.keys().filter(named).copied().collect()
    }

    fn neighbours<'a>(
        &'a self,
        source: Source,
        vertex: TermId,
        predicate: TermId,
        direction: Direction,
        scratch: &'a mut Vec<TermId>,
    ) -> &'a [TermId] {
        let found = self.set(source).filter_map(|triple| {
            let (from, to) = ends(triple, direction);
            (triple.predicate == predicate && from == vertex).then_some(to)
        });
        sorted(found, scratch)
    }

    fn neighbour_estimate(
        &self,
        source: Source,
        vertex: TermId,
        predicate: TermId,
        direction: Direction,
    ) -> usize {
        let mut list = Vec::new();
        self.neighbours(source, vertex, predicate, direction, &mut list)
            .len()
    }

    fn contains(&self, source: Source, triple: TripleIds) -> bool {
        self.set(source).any(|other| *other == triple)
    }

    fn predicates_of<'a>(
        &'a self,
        source: Source,
        vertex: TermId,
        direction: Direction,
        scratch: &'a mut Vec<TermId>,
    ) -> &'a [TermId] {
        let found = self
            .set(source)
            .filter(|triple| ends(triple, direction).0 == vertex)
            .map(|triple| triple.predicate);
        sorted(found, scratch)
    }

    fn vertices_with<'a>(
        &'a self,
        source: Source,
        predicate: TermId,
        direction: Direction,
        scratch: &'a mut Vec<TermId>,
    ) -> &'a [TermId] {
        self.index_reads.fetch_add(1, Ordering::Relaxed);
        sorted(self.vertices(source, predicate, direction), scratch)
    }

    fn predicates(&self, source: Source) -> Vec<TermId> {
        let mut list = Vec::new();
        sorted(self.set(source).map(|triple| triple.predicate), &mut list).to_vec()
    }

    fn predicate_statistics(&self, source: Source, predicate: TermId) -> PredicateStatistics {
        let mut list = Vec::new();
        let mut count =
            |direction| sorted(self.vertices(source, predicate, direction), &mut list).len() as u64;
        PredicateStatistics {
            subjects: count(Direction::Out),
            objects: count(Direction::In),
            statements: self
                .set(source)
                .filter(|triple| triple.predicate == predicate)
                .count() as u64,
        }
    }

    fn statement_count(&self, source: Source) -> u64 {
        self.set(source).count() as u64
    }
}
