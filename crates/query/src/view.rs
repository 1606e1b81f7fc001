//! What a query reads: stored graphs at a snapshot, window versions, an overlay of own writes. The
//! one thing to know before changing it: lists are ascending by id and hold no id twice; every
//! join relies on it.

use somersault_lang::DatasetClause;
use somersault_model::{Direction, TermId, TripleIds};
use somersault_store::{Dictionary, PredicateStatistics};

/// One set of triples that a query can read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// A stored graph, by its name ([`TermId::DEFAULT_GRAPH`] for the stored default graph).
    Stored(TermId),
    /// A window: its place in the view's list of window versions.
    Window(usize),
}

/// The named graphs of a dataset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NamedGraphs {
    /// All stored named graphs that hold something.
    AllStored,
    /// These, each with the source that it reads.
    List(Vec<(TermId, Source)>),
}

/// What the parts of a query range over (language.md, "Settled small print").
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dataset {
    /// The default graph is the set union of these: a triple in two of them counts once.
    pub default: Vec<Source>,
    /// What `GRAPH` reads.
    pub named: NamedGraphs,
}

impl Dataset {
    /// The dataset of a query without a dataset clause: the stored default graph, and all stored
    /// named graphs.
    pub fn stored() -> Dataset {
        Dataset {
            default: vec![Source::Stored(TermId::DEFAULT_GRAPH)],
            named: NamedGraphs::AllStored,
        }
    }

    /// The dataset that a dataset clause over stored graphs asks for. Graphs that no statement
    /// ever named hold nothing, and are left out.
    pub fn of_clause(clause: &DatasetClause, dictionary: &Dictionary) -> Dataset {
        if !clause.present {
            return Dataset::stored();
        }
        let mut default = Vec::new();
        for graph in &clause.default {
            if let Some(id) = dictionary.lookup(graph.as_ref().into()) {
                let source = Source::Stored(id);
                if !default.contains(&source) {
                    default.push(source);
                }
            }
        }
        let mut named: Vec<(TermId, Source)> = Vec::new();
        for graph in &clause.named {
            if let Some(id) = dictionary.lookup(graph.as_ref().into())
                && !named.iter().any(|(name, _)| *name == id)
            {
                named.push((id, Source::Stored(id)));
            }
        }
        let named = if clause.all_named {
            NamedGraphs::AllStored
        } else {
            NamedGraphs::List(named)
        };
        Dataset { default, named }
    }

    /// The source that `GRAPH name` reads, if the dataset has such a named graph.
    pub fn named_source(&self, name: TermId) -> Option<Source> {
        match &self.named {
            NamedGraphs::AllStored if name == TermId::DEFAULT_GRAPH => None,
            NamedGraphs::AllStored => Some(Source::Stored(name)),
            NamedGraphs::List(list) => list
                .iter()
                .find(|(other, _)| *other == name)
                .map(|(_, source)| *source),
        }
    }
}

/// Everything that exploration needs to read, per source. [`crate::SnapshotView`] is the real one;
/// the tests have a naive one over ordered sets.
pub trait GraphView: Sync {
    /// Where the terms are.
    fn dictionary(&self) -> &Dictionary;

    /// What the query ranges over.
    fn dataset(&self) -> &Dataset;

    /// The stored named graphs that hold something, ascending.
    fn stored_graphs(&self) -> Vec<TermId>;

    /// The objects (`Out`) or subjects (`In`) that `predicate` connects `vertex` to; ascending,
    /// without repeats. `scratch` is overwritten where the list has to be put together.
    fn neighbours<'a>(
        &'a self,
        source: Source,
        vertex: TermId,
        predicate: TermId,
        direction: Direction,
        scratch: &'a mut Vec<TermId>,
    ) -> &'a [TermId];

    /// A cheap upper bound of the length of [`GraphView::neighbours`].
    fn neighbour_estimate(
        &self,
        source: Source,
        vertex: TermId,
        predicate: TermId,
        direction: Direction,
    ) -> usize;

    /// Whether the source holds the triple.
    fn contains(&self, source: Source, triple: TripleIds) -> bool;

    /// The predicates of the edges that leave (`Out`) or reach (`In`) `vertex`; ascending.
    fn predicates_of<'a>(
        &'a self,
        source: Source,
        vertex: TermId,
        direction: Direction,
        scratch: &'a mut Vec<TermId>,
    ) -> &'a [TermId];

    /// The index vertex: the subjects (`Out`) or objects (`In`) of the edges with `predicate`;
    /// ascending.
    fn vertices_with<'a>(
        &'a self,
        source: Source,
        predicate: TermId,
        direction: Direction,
        scratch: &'a mut Vec<TermId>,
    ) -> &'a [TermId];

    /// The predicates of the source, ascending.
    fn predicates(&self, source: Source) -> Vec<TermId>;

    /// How many statements, subjects and objects a predicate has.
    fn predicate_statistics(&self, source: Source, predicate: TermId) -> PredicateStatistics;

    /// How many statements the source holds.
    fn statement_count(&self, source: Source) -> u64;

    /// Whether what was read so far was right: a pin that was held for too long is taken away (S9).
    fn is_valid(&self) -> bool {
        true
    }
}
