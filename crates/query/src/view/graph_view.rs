//! The data that a query reads: stored graphs at a snapshot, window versions, an overlay of own
//! writes. The one thing to know before changing it: lists are ascending by id and hold no id
//! twice; every join relies on it.

use crate::view::term_source::TermSource;
use somersault_lang::DatasetClause;
use somersault_model::{Direction, EventTime, TermId, TripleIds};
use somersault_store::{Ends, Pace, PredicateStatistics};

/// One set of triples that a query can read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// A stored graph, by its name ([`TermId::DEFAULT_GRAPH`] for the stored default graph).
    Stored(TermId),
    /// A window, as an index into the view's list of window versions.
    Window(usize),
}

/// The named graphs of a dataset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NamedGraphs {
    /// All stored named graphs that are not empty.
    AllStored,
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
            NamedGraphs::AllStored => &[],
            NamedGraphs::List(list) | NamedGraphs::ListAndStored(list) => list,
        }
    }

    /// Whether all stored named graphs are included without being listed.
    pub fn has_stored(&self) -> bool {
        !matches!(self, NamedGraphs::List(_))
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

    /// The source that `GRAPH name` reads, if the dataset has such a named graph.
    pub fn named_source(&self, name: TermId) -> Option<Source> {
        let mut listed = self.named.listed().iter();
        match listed.find(|(other, _)| *other == name) {
            Some((_, source)) => Some(*source),
            None if self.named.has_stored() && name != TermId::DEFAULT_GRAPH => {
                Some(Source::Stored(name))
            }
            None => None,
        }
    }
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

    /// For each vertex in order, appends its neighbours to `ids` and, for each of them, the sum of
    /// `first_row` and the vertex's index to `rows`. Stops after the vertex with which `ids`
    /// reaches `wanted`; returns the number of vertices done.
    #[allow(clippy::too_many_arguments, reason = "the parts of one hot loop")]
    fn expand(
        &self,
        source: Source,
        predicate: TermId,
        direction: Direction,
        vertices: &[TermId],
        first_row: u32,
        wanted: usize,
        rows: &mut Vec<u32>,
        ids: &mut Vec<TermId>,
    ) -> usize {
        let key = (source, predicate, direction);
        expand_singly(self, key, vertices, first_row, wanted, rows, ids)
    }

    /// Appends `first_row` + index to `rows` for every index at which an edge leads from the
    /// subject to the object. At least one end is a column; columns have the same length.
    fn connected(
        &self,
        source: Source,
        predicate: TermId,
        subjects: Ends<'_>,
        objects: Ends<'_>,
        first_row: u32,
        rows: &mut Vec<u32>,
    ) {
        connected_singly(
            self,
            (source, predicate),
            subjects,
            objects,
            first_row,
            rows,
        );
    }

    /// Appends the edges of a predicate, vertices ascending as in [`GraphView::vertices_with`],
    /// until the pace says to stop. Both columns have the same length.
    fn edges(
        &self,
        source: Source,
        predicate: TermId,
        direction: Direction,
        pace: &mut Pace<'_>,
        vertices: &mut Vec<TermId>,
        neighbours: &mut Vec<TermId>,
    ) {
        let key = (source, predicate, direction);
        edges_singly(self, key, pace, vertices, neighbours);
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

    /// Whether everything read so far was valid: a pin that is held for too long is revoked (S9).
    fn is_valid(&self) -> bool {
        true
    }
}

/// [`GraphView::expand`], a vertex at a time: for sources that cannot read whole columns, and the
/// twin of those that can.
pub(crate) fn expand_singly<V: GraphView + ?Sized>(
    view: &V,
    (source, predicate, direction): (Source, TermId, Direction),
    vertices: &[TermId],
    first_row: u32,
    wanted: usize,
    rows: &mut Vec<u32>,
    ids: &mut Vec<TermId>,
) -> usize {
    let mut scratch = Vec::new();
    for (at, vertex) in vertices.iter().enumerate() {
        let found = view.neighbours(source, *vertex, predicate, direction, &mut scratch);
        ids.extend_from_slice(found);
        rows.resize(rows.len() + found.len(), first_row + at as u32);
        if ids.len() >= wanted {
            return at + 1;
        }
    }
    vertices.len()
}

/// [`GraphView::connected`], a row at a time.
pub(crate) fn connected_singly<V: GraphView + ?Sized>(
    view: &V,
    (source, predicate): (Source, TermId),
    subjects: Ends<'_>,
    objects: Ends<'_>,
    first_row: u32,
    rows: &mut Vec<u32>,
) {
    for at in 0..subjects.len().max(objects.len()) {
        let triple = TripleIds::new(subjects.at(at), predicate, objects.at(at));
        if view.contains(source, triple) {
            rows.push(first_row + at as u32);
        }
    }
}

/// [`GraphView::edges`], a vertex at a time.
pub(crate) fn edges_singly<V: GraphView + ?Sized>(
    view: &V,
    (source, predicate, direction): (Source, TermId, Direction),
    pace: &mut Pace<'_>,
    vertices: &mut Vec<TermId>,
    neighbours: &mut Vec<TermId>,
) {
    let (mut index, mut list) = (Vec::new(), Vec::new());
    for start in view.vertices_with(source, predicate, direction, &mut index) {
        if pace.ends(neighbours.len()) {
            return;
        }
        let found = view.neighbours(source, *start, predicate, direction, &mut list);
        neighbours.extend_from_slice(found);
        vertices.resize(neighbours.len(), *start);
    }
}
