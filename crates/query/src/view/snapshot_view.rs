//! The view of the real store: a pinned snapshot, the window versions of a firing, and the overlay
//! of an update's own writes (S14). A read goes straight to the store unless the overlay has
//! changed its key.

use crate::view::graph_view::{Columns, Dataset, GraphView, Source};
use crate::view::overlay::{GraphChanges, ListChange, Overlay};
use crate::view::term_source::TermSource;
use somersault_model::{Direction, EventTime, QuadIds, TermId, TripleIds, inline};
use somersault_store::{PinEnd, PredicateStatistics, Snapshot, WindowVersion};
use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

/// The name of an empty graph: no graph is named by a literal.
static NO_GRAPH: LazyLock<TermId> =
    LazyLock::new(|| inline::integer(0).expect("small integers are inline"));

/// The data that a query on the real store reads.
pub struct SnapshotView {
    snapshot: Snapshot,
    /// The windows that the dataset numbers, followed, where set, by the statements that each
    /// received since an earlier execution.
    windows: Vec<Arc<WindowVersion>>,
    dataset: Arc<Dataset>,
    overlay: Option<Overlay>,
    /// The number of windows before the fresh ones, if there are fresh ones.
    fresh_from: Option<usize>,
}

impl SnapshotView {
    /// A view of a pinned snapshot, with the windows that the dataset's
    /// [`Source::Window`] number.
    ///
    /// # Panics
    /// If the dataset names a window that is not in the list.
    pub fn new(
        snapshot: Snapshot,
        windows: Vec<Arc<WindowVersion>>,
        dataset: impl Into<Arc<Dataset>>,
    ) -> SnapshotView {
        let dataset = dataset.into();
        let named = dataset.named.listed();
        for source in dataset.default.iter().chain(named.iter().map(|(_, s)| s)) {
            if let Source::Window(at) = source {
                assert!(*at < windows.len(), "every window of a dataset is there");
            }
        }
        SnapshotView {
            snapshot,
            windows,
            dataset,
            overlay: None,
            fresh_from: None,
        }
    }

    /// The windows, without their fresh parts.
    pub(crate) fn windows(&self) -> &[Arc<WindowVersion>] {
        &self.windows[..self.fresh_from.unwrap_or(self.windows.len())]
    }

    /// The statements that a window received since an earlier execution.
    pub(crate) fn fresh_of(&self, window: usize) -> Option<&WindowVersion> {
        Some(&self.windows[self.fresh_from? + window])
    }

    /// Sets, or removes, the statements that each window received since an earlier execution.
    pub(crate) fn set_fresh(&mut self, fresh: Option<Vec<Arc<WindowVersion>>>) {
        let own = self.windows().len();
        self.windows.truncate(own);
        self.fresh_from = fresh.is_some().then_some(own);
        self.windows.extend(fresh.into_iter().flatten());
    }

    /// The pinned snapshot.
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    pub(crate) fn set_dataset(&mut self, dataset: Dataset) {
        self.dataset = Arc::new(dataset);
    }

    pub(crate) fn overlay_mut(&mut self) -> &mut Overlay {
        self.overlay.get_or_insert_with(Overlay::default)
    }

    /// The approximate bytes of the overlay.
    pub(crate) fn overlay_bytes(&self) -> usize {
        self.overlay.as_ref().map_or(0, Overlay::bytes)
    }

    /// Whether the overlay changes a graph.
    pub(crate) fn is_changed(&self, graph: TermId) -> bool {
        self.changes(Source::Stored(graph)).is_some()
    }

    pub(crate) fn take_overlay(&mut self) -> Option<Overlay> {
        self.overlay.take()
    }

    /// Whether the snapshot itself, without the overlay, holds the statement.
    pub(crate) fn stored(&self, quad: QuadIds) -> bool {
        let graph = self.base(quad.graph);
        self.snapshot.contains(QuadIds { graph, ..quad })
    }

    /// The graph of the snapshot that the overlay's changes of a graph apply to: the graph itself,
    /// or an empty one where it was cleared.
    fn base(&self, graph: TermId) -> TermId {
        match &self.overlay {
            Some(overlay) if overlay.is_cleared(graph) => *NO_GRAPH,
            _ => graph,
        }
    }

    fn changes(&self, source: Source) -> Option<&GraphChanges> {
        let Source::Stored(graph) = source else {
            return None;
        };
        self.overlay.as_ref()?.graph(graph)
    }
}

impl GraphView for SnapshotView {
    fn dictionary(&self) -> TermSource<'_> {
        TermSource::Here(self.snapshot.store().dictionary())
    }

    fn dataset(&self) -> &Dataset {
        &self.dataset
    }

    fn fresh(&self, source: Source) -> Option<Source> {
        match source {
            Source::Window(at) => Some(Source::Window(self.fresh_from? + at)),
            Source::Stored(_) => None,
        }
    }

    fn event_time(&self, triple: TripleIds) -> Option<EventTime> {
        let windows = self.windows.iter();
        windows
            .filter_map(|window| window.newest_time_of(triple))
            .max()
    }

    fn stored_graphs(&self) -> Vec<TermId> {
        let mut graphs = self.snapshot.graphs();
        if let Some(overlay) = &self.overlay {
            graphs.extend(overlay.graphs());
            graphs.retain(|graph| {
                *graph != TermId::DEFAULT_GRAPH && self.statement_count(Source::Stored(*graph)) > 0
            });
        }
        graphs.sort_unstable();
        graphs.dedup();
        graphs
    }

    fn neighbours<'a>(
        &'a self,
        source: Source,
        vertex: TermId,
        predicate: TermId,
        direction: Direction,
        scratch: &'a mut Vec<TermId>,
    ) -> &'a [TermId] {
        match source {
            Source::Window(at) => {
                self.windows[at].neighbours(vertex, predicate, direction, scratch)
            }
            Source::Stored(graph) => {
                let graph = self.base(graph);
                let change = self
                    .changes(source)
                    .and_then(|changes| changes.neighbours(vertex, predicate, direction));
                let Some(change) = change else {
                    return self
                        .snapshot
                        .neighbours(graph, vertex, predicate, direction, scratch);
                };
                let mut base = Vec::new();
                let list = self
                    .snapshot
                    .neighbours(graph, vertex, predicate, direction, &mut base);
                change.merge(list, scratch);
                scratch
            }
        }
    }

    fn neighbour_estimate(
        &self,
        source: Source,
        vertex: TermId,
        predicate: TermId,
        direction: Direction,
    ) -> usize {
        match source {
            Source::Window(at) => self.windows[at].neighbour_estimate(vertex, predicate, direction),
            Source::Stored(graph) => {
                let base = self.snapshot.neighbour_estimate(
                    self.base(graph),
                    vertex,
                    predicate,
                    direction,
                );
                let own = self
                    .changes(source)
                    .and_then(|changes| changes.neighbours(vertex, predicate, direction))
                    .map_or(0, ListChange::growth);
                base + own
            }
        }
    }

    fn contains(&self, source: Source, triple: TripleIds) -> bool {
        match source {
            Source::Window(at) => self.windows[at].contains(triple),
            Source::Stored(graph) => self
                .changes(source)
                .and_then(|changes| changes.contains(triple))
                .unwrap_or_else(|| self.stored(triple.in_graph(graph))),
        }
    }

    fn columns(&self, source: Source) -> Option<Columns<'_>> {
        match source {
            Source::Window(at) => Some(Columns::Window(&self.windows[at])),
            Source::Stored(graph) if self.changes(source).is_none() => {
                Some(Columns::Stored(&self.snapshot, self.base(graph)))
            }
            Source::Stored(_) => None,
        }
    }

    fn predicates_of<'a>(
        &'a self,
        source: Source,
        vertex: TermId,
        direction: Direction,
        scratch: &'a mut Vec<TermId>,
    ) -> &'a [TermId] {
        let graph = match source {
            Source::Window(at) => {
                return self.windows[at].predicates_of(vertex, direction, scratch);
            }
            Source::Stored(graph) => self.base(graph),
        };
        let Some(own) = self
            .changes(source)
            .and_then(|changes| changes.predicates_of(vertex, direction))
        else {
            return self
                .snapshot
                .predicates_of(graph, vertex, direction, scratch);
        };
        let mut base = Vec::new();
        let base = (self.snapshot).predicates_of(graph, vertex, direction, &mut base);
        with_own(base, own, scratch);
        let mut list = Vec::new();
        scratch.retain(|predicate| {
            !self
                .neighbours(source, vertex, *predicate, direction, &mut list)
                .is_empty()
        });
        scratch
    }

    fn vertices_with<'a>(
        &'a self,
        source: Source,
        predicate: TermId,
        direction: Direction,
        scratch: &'a mut Vec<TermId>,
    ) -> &'a [TermId] {
        let graph = match source {
            Source::Window(at) => {
                return self.windows[at].vertices_with(predicate, direction, scratch);
            }
            Source::Stored(graph) => self.base(graph),
        };
        let Some(own) = self
            .changes(source)
            .and_then(|changes| changes.vertices_with(predicate, direction))
        else {
            return self
                .snapshot
                .vertices_with(graph, predicate, direction, scratch);
        };
        let mut base = Vec::new();
        let base = (self.snapshot).vertices_with(graph, predicate, direction, &mut base);
        with_own(base, own, scratch);
        let mut list = Vec::new();
        // Only a vertex that the overlay changed can have lost its last edge.
        scratch.retain(|vertex| {
            !own.contains(vertex)
                || !self
                    .neighbours(source, *vertex, predicate, direction, &mut list)
                    .is_empty()
        });
        scratch
    }

    fn predicates(&self, source: Source) -> Vec<TermId> {
        let graph = match source {
            Source::Window(at) => return self.windows[at].predicates(),
            Source::Stored(graph) => self.base(graph),
        };
        let mut all = self.snapshot.predicates(graph);
        if let Some(changes) = self.changes(source) {
            all.extend(changes.predicates());
            all.sort_unstable();
            all.dedup();
            let mut list = Vec::new();
            all.retain(|predicate| {
                !self
                    .vertices_with(source, *predicate, Direction::Out, &mut list)
                    .is_empty()
            });
        }
        all
    }

    fn predicate_statistics(&self, source: Source, predicate: TermId) -> PredicateStatistics {
        match source {
            Source::Window(at) => self.windows[at].predicate_statistics(predicate),
            // The overlay of one update is small compared with the graph; counting it is not worth
            // the time.
            Source::Stored(graph) => {
                let graph = self.base(graph);
                self.snapshot.predicate_statistics(graph, predicate)
            }
        }
    }

    fn end(&self) -> Option<PinEnd> {
        self.snapshot.end()
    }

    fn statement_count(&self, source: Source) -> u64 {
        match source {
            // Counting the distinct ones of a large window would mean sorting all of it at each
            // close.
            Source::Window(at) => self.windows[at].len_estimate() as u64,
            Source::Stored(graph) => {
                let base = self.snapshot.statement_count(self.base(graph));
                match self.changes(source) {
                    Some(changes) => base + changes.inserted() as u64 - changes.deleted() as u64,
                    None => base,
                }
            }
        }
    }
}

/// The ids of a stored list and of the overlay's changes to it, ascending, each once.
fn with_own(base: &[TermId], own: &BTreeSet<TermId>, all: &mut Vec<TermId>) {
    all.clear();
    all.extend_from_slice(base);
    all.extend(own);
    all.sort_unstable();
    all.dedup();
}
