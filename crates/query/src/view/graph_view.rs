//! The data that a query reads: stored graphs at a snapshot, window versions, the layers of a
//! transaction. The one thing to know before changing it: lists are ascending by id and hold no id
//! twice; every join relies on it.

use crate::view::graph_rights::{GraphRights, ReadableGraphs};
use crate::view::term_source::TermSource;
use somersault_dictionary::Dictionary;
use somersault_lang::DatasetClause;
use somersault_model::{Direction, EventTime, TermId, TripleIds};
use somersault_store::{Pace, PinEnd, PredicateStatistics, Snapshot, WindowVersion};
use std::sync::Arc;
use std::time::Duration;

/// One set of triples that a query can read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// A stored graph, by its name ([`TermId::DEFAULT_GRAPH`] for the stored default graph); a
    /// batch or an owned window, by its mark ([`TermId::kept_graph`]).
    Stored(TermId),
    /// A window, as an index into the view's list of window versions.
    Window(usize),
}

/// The named graphs of a dataset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NamedGraphs {
    /// All stored named graphs that are not empty.
    AllStored,
    /// Those of them that the query may read.
    Readable(ReadableGraphs),
    /// The listed graphs, each with the source that it reads.
    List(Vec<(TermId, Source)>),
    /// The listed graphs, and all other stored named graphs that are not empty: for a query whose
    /// windows are not a dataset clause.
    ListAndStored(Vec<(TermId, Source)>),
}

impl NamedGraphs {
    /// The listed graphs.
    pub fn listed(&self) -> &[(TermId, Source)] {
        match self {
            NamedGraphs::AllStored | NamedGraphs::Readable(_) => &[],
            NamedGraphs::List(list) | NamedGraphs::ListAndStored(list) => list,
        }
    }

    /// Whether stored named graphs are included without being listed.
    pub fn has_stored(&self) -> bool {
        !matches!(self, NamedGraphs::List(_))
    }

    /// Whether a stored named graph is included without being listed.
    fn includes(&self, name: TermId) -> bool {
        match self {
            NamedGraphs::AllStored | NamedGraphs::ListAndStored(_) => true,
            NamedGraphs::Readable(graphs) => graphs.contains(name),
            NamedGraphs::List(_) => false,
        }
    }
}

/// The graphs that the parts of a query read (docs/language.md).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dataset {
    /// The default graph is the set union of these: a triple in two of them counts once.
    pub default: Vec<Source>,
    /// The graphs that `GRAPH` reads.
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

    /// The dataset that a dataset clause over stored graphs asks for. Graphs that no statement has
    /// ever named are empty, and are left out.
    pub fn of_clause<'d>(clause: &DatasetClause, dictionary: impl Into<TermSource<'d>>) -> Dataset {
        let dictionary = dictionary.into();
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

    /// The source that `GRAPH name` reads, if the dataset has such a named graph. Every dataset has
    /// the batches and windows of a procedure ([`TermId::kept_graph`]), by name alone: `GRAPH ?g`
    /// does not range over them.
    pub fn named_source(&self, name: TermId) -> Option<Source> {
        if name.is_kept_graph() {
            return Some(Source::Stored(name));
        }
        let mut listed = self.named.listed().iter();
        match listed.find(|(other, _)| *other == name) {
            Some((_, source)) => Some(*source),
            None if name != TermId::DEFAULT_GRAPH && self.named.includes(name) => {
                Some(Source::Stored(name))
            }
            None => None,
        }
    }

    /// The dataset of stored graphs without those that may not be read.
    #[must_use]
    pub fn narrowed(mut self, rights: &Arc<GraphRights>, dictionary: &Arc<Dictionary>) -> Dataset {
        let readable = &rights.read;
        let is_readable = |source: &Source| match source {
            Source::Stored(graph) => readable.contains_id(*graph, dictionary.into()),
            Source::Window(_) => false,
        };
        self.default.retain(is_readable);
        if readable.named.is_all() {
            return self;
        }
        self.named = match self.named {
            NamedGraphs::List(mut list) => {
                list.retain(|(_, source)| is_readable(source));
                NamedGraphs::List(list)
            }
            _ => NamedGraphs::Readable(ReadableGraphs::new(rights, dictionary)),
        };
        self
    }
}

/// The stored named graphs that `GRAPH ?g` reads without listing them, in ascending order.
pub(crate) fn unlisted_graphs(
    view: &(impl GraphView + ?Sized),
    named: &NamedGraphs,
) -> Vec<TermId> {
    if let NamedGraphs::Readable(readable) = named
        && let Some(mut graphs) = readable.listed()
    {
        graphs.retain(|graph| view.statement_count(Source::Stored(*graph)) > 0);
        return graphs;
    }
    match named.has_stored() {
        true => view
            .stored_graphs()
            .into_iter()
            .filter(|graph| named.includes(*graph))
            .collect(),
        false => Vec::new(),
    }
}

/// A source that the store can read by whole columns.
pub enum Columns<'v> {
    /// A graph at a snapshot.
    Stored(&'v Snapshot, TermId),
    /// A window at a close.
    Window(&'v WindowVersion),
}

/// Everything that exploration needs to read, per source. [`crate::SnapshotView`] is the production
/// implementation; the tests have a naive one over ordered sets.
pub trait GraphView: Sync {
    /// The dictionary that holds the terms.
    fn dictionary(&self) -> TermSource<'_>;

    /// The dataset of the query.
    fn dataset(&self) -> &Dataset;

    /// The stored named graphs that are not empty, ascending.
    fn stored_graphs(&self) -> Vec<TermId>;

    /// The objects (`Out`) or subjects (`In`) that `predicate` connects `vertex` to; ascending,
    /// without repeats. Overwrites `scratch` where the list has to be merged.
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

    /// The source as the store holds the edges of a predicate, for reads of whole columns of
    /// vertices. Without it they are read one by one.
    fn columns(&self, _source: Source, _predicate: TermId) -> Option<Columns<'_>> {
        None
    }

    /// Appends the edges of a predicate, vertices ascending, until the pace says to stop. Both
    /// columns have the same length.
    fn edges(
        &self,
        source: Source,
        predicate: TermId,
        direction: Direction,
        pace: &mut Pace<'_>,
        vertices: &mut Vec<TermId>,
        neighbours: &mut Vec<TermId>,
    ) {
        let (mut index, mut list) = (Vec::new(), Vec::new());
        for vertex in self.vertices_with(source, predicate, direction, &mut index) {
            if pace.ends(neighbours.len()) {
                return;
            }
            let found = self.neighbours(source, *vertex, predicate, direction, &mut list);
            neighbours.extend_from_slice(found);
            vertices.resize(neighbours.len(), *vertex);
        }
    }

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

    /// The numbers of statements, subjects and objects of a predicate.
    fn predicate_statistics(&self, source: Source, predicate: TermId) -> PredicateStatistics;

    /// The number of statements in the source. For a window it is an upper bound, which suffices
    /// for estimates.
    fn statement_count(&self, source: Source) -> u64;

    /// The statements that a window received since the last execution of a query whose rows are
    /// kept, as a source of its own; `None` if there is no such execution, and for a stored graph.
    fn fresh(&self, _source: Source) -> Option<Source> {
        None
    }

    /// The event time of the newest statement with this triple in the windows; `None` if no window
    /// holds one.
    fn event_time(&self, _triple: TripleIds) -> Option<EventTime> {
        None
    }

    /// A view of the same data for a part of the work of a long execution. A view that has this
    /// keeps its SN and no memory, and copies each list that is read through it.
    fn open(&self) -> Option<Box<dyn GraphView>> {
        None
    }

    /// The time for which an execution may keep a view that it has opened.
    fn open_time(&self) -> Duration {
        Duration::from_millis(1)
    }

    /// Why what was read so far may be wrong, if it may: a pin that is held for too long ends, and
    /// so does one whose SN keeps too much memory (S9).
    fn end(&self) -> Option<PinEnd> {
        None
    }
}
