//! The view of the real store: a pinned snapshot, and the window versions of a firing. The one
//! thing to know before changing it: each read goes straight to the store, and copies nothing.

use crate::view::graph_view::{Columns, Dataset, GraphView, Source};
use crate::view::term_source::TermSource;
use somersault_model::{Direction, EventTime, TermId, TripleIds};
use somersault_store::{PinEnd, PredicateStatistics, Snapshot, WindowVersion};
use std::sync::Arc;

/// The data that a query on the real store reads.
pub struct SnapshotView {
    snapshot: Snapshot,
    /// The windows that the dataset numbers, followed, where set, by the statements that each
    /// received since an earlier execution.
    windows: Vec<Arc<WindowVersion>>,
    dataset: Arc<Dataset>,
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
                (self.snapshot).neighbours(graph, vertex, predicate, direction, scratch)
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
                (self.snapshot).neighbour_estimate(graph, vertex, predicate, direction)
            }
        }
    }

    fn contains(&self, source: Source, triple: TripleIds) -> bool {
        match source {
            Source::Window(at) => self.windows[at].contains(triple),
            Source::Stored(graph) => self.snapshot.contains(triple.in_graph(graph)),
        }
    }

    fn columns(&self, source: Source, _predicate: TermId) -> Option<Columns<'_>> {
        Some(match source {
            Source::Window(at) => Columns::Window(&self.windows[at]),
            Source::Stored(graph) => Columns::Stored(&self.snapshot, graph),
        })
    }

    fn predicates_of<'a>(
        &'a self,
        source: Source,
        vertex: TermId,
        direction: Direction,
        scratch: &'a mut Vec<TermId>,
    ) -> &'a [TermId] {
        match source {
            Source::Window(at) => self.windows[at].predicates_of(vertex, direction, scratch),
            Source::Stored(graph) => {
                (self.snapshot).predicates_of(graph, vertex, direction, scratch)
            }
        }
    }

    fn vertices_with<'a>(
        &'a self,
        source: Source,
        predicate: TermId,
        direction: Direction,
        scratch: &'a mut Vec<TermId>,
    ) -> &'a [TermId] {
        match source {
            Source::Window(at) => self.windows[at].vertices_with(predicate, direction, scratch),
            Source::Stored(graph) => {
                (self.snapshot).vertices_with(graph, predicate, direction, scratch)
            }
        }
    }

    fn predicates(&self, source: Source) -> Vec<TermId> {
        match source {
            Source::Window(at) => self.windows[at].predicates(),
            Source::Stored(graph) => self.snapshot.predicates(graph),
        }
    }

    fn predicate_statistics(&self, source: Source, predicate: TermId) -> PredicateStatistics {
        match source {
            Source::Window(at) => self.windows[at].predicate_statistics(predicate),
            Source::Stored(graph) => self.snapshot.predicate_statistics(graph, predicate),
        }
    }

    fn statement_count(&self, source: Source) -> u64 {
        match source {
            // Counting the distinct ones of a large window would mean sorting all of it at each
            // close.
            Source::Window(at) => self.windows[at].len_estimate() as u64,
            Source::Stored(graph) => self.snapshot.statement_count(graph),
        }
    }

    fn end(&self) -> Option<PinEnd> {
        self.snapshot.end()
    }
}
