//! The view of a one-shot query that may take long: the stored graphs at an SN that it holds
//! without keeping memory. An execution opens it for each part of its work ([`GraphView::open`]);
//! the rest goes through a snapshot of its own for each read, and lists are copied out of it.

use crate::view::graph_view::{Dataset, GraphView, Source};
use crate::view::snapshot_view::SnapshotView;
use crate::view::term_source::TermSource;
use somersault_model::{Direction, TermId, TripleIds};
use somersault_store::{PinEnd, PredicateStatistics, SnapshotHold};
use std::sync::Arc;

/// The data that a long query on the real store reads.
pub struct HeldView {
    hold: SnapshotHold,
    dataset: Arc<Dataset>,
}

impl HeldView {
    /// A view of the SN that is held. The dataset has no windows.
    pub fn new(hold: SnapshotHold, dataset: impl Into<Arc<Dataset>>) -> HeldView {
        HeldView {
            hold,
            dataset: dataset.into(),
        }
    }

    fn read(&self) -> SnapshotView {
        SnapshotView::new(self.hold.open(), Vec::new(), Arc::clone(&self.dataset))
    }

    /// Copies a list, so that it outlives what it was read through.
    fn copied<'a>(
        &self,
        scratch: &'a mut Vec<TermId>,
        list: impl for<'v> FnOnce(&'v SnapshotView, &'v mut Vec<TermId>) -> &'v [TermId],
    ) -> &'a [TermId] {
        let (view, mut own) = (self.read(), Vec::new());
        scratch.clear();
        scratch.extend_from_slice(list(&view, &mut own));
        scratch
    }
}

impl GraphView for HeldView {
    fn dictionary(&self) -> TermSource<'_> {
        TermSource::Here(self.hold.store().dictionary())
    }

    fn dataset(&self) -> &Dataset {
        &self.dataset
    }

    fn open(&self) -> Option<Box<dyn GraphView>> {
        Some(Box::new(self.read()))
    }

    fn end(&self) -> Option<PinEnd> {
        self.hold.end()
    }

    fn stored_graphs(&self) -> Vec<TermId> {
        self.read().stored_graphs()
    }

    fn neighbours<'a>(
        &'a self,
        source: Source,
        vertex: TermId,
        predicate: TermId,
        direction: Direction,
        scratch: &'a mut Vec<TermId>,
    ) -> &'a [TermId] {
        self.copied(scratch, |view, own| {
            view.neighbours(source, vertex, predicate, direction, own)
        })
    }

    fn neighbour_estimate(
        &self,
        source: Source,
        vertex: TermId,
        predicate: TermId,
        direction: Direction,
    ) -> usize {
        (self.read()).neighbour_estimate(source, vertex, predicate, direction)
    }

    fn contains(&self, source: Source, triple: TripleIds) -> bool {
        self.read().contains(source, triple)
    }

    fn predicates_of<'a>(
        &'a self,
        source: Source,
        vertex: TermId,
        direction: Direction,
        scratch: &'a mut Vec<TermId>,
    ) -> &'a [TermId] {
        self.copied(scratch, |view, own| {
            view.predicates_of(source, vertex, direction, own)
        })
    }

    fn vertices_with<'a>(
        &'a self,
        source: Source,
        predicate: TermId,
        direction: Direction,
        scratch: &'a mut Vec<TermId>,
    ) -> &'a [TermId] {
        self.copied(scratch, |view, own| {
            view.vertices_with(source, predicate, direction, own)
        })
    }

    fn predicates(&self, source: Source) -> Vec<TermId> {
        self.read().predicates(source)
    }

    fn predicate_statistics(&self, source: Source, predicate: TermId) -> PredicateStatistics {
        self.read().predicate_statistics(source, predicate)
    }

    fn statement_count(&self, source: Source) -> u64 {
        self.read().statement_count(source)
    }
}
