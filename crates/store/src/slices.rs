//! Slices and windows.
use crate::PredicateStatistics;
use somersault_model::{
    BatchNumber, Direction, EventTime, Millis, StreamUid, TermId, TimedTriple, TripleIds,
};
use std::sync::Arc;

/// An immutable, sorted, compact adjacency of a set of triples.
pub struct Run {}

/// A closed batch, indexed.
pub struct Slice {}

impl Slice {
    /// `statements` in arrival order, event times within the batch.
    pub fn build(
        batch: BatchNumber,
        interval: Millis,
        revision: u32,
        statements: &[TimedTriple],
    ) -> Slice {
        unimplemented!()
    }
    pub fn batch(&self) -> BatchNumber {
        unimplemented!()
    }
    pub fn revision(&self) -> u32 {
        unimplemented!()
    }
    /// Statements as they arrived, repeats counted.
    pub fn arrivals(&self) -> usize {
        unimplemented!()
    }
}

/// A window at one close: each distinct statement once (S11).
pub struct WindowVersion {}

impl WindowVersion {
    pub fn empty() -> Arc<WindowVersion> {
        unimplemented!()
    }
    pub fn neighbours<'a>(
        &'a self,
        vertex: TermId,
        predicate: TermId,
        direction: Direction,
        scratch: &'a mut Vec<TermId>,
    ) -> &'a [TermId] {
        unimplemented!()
    }
    pub fn neighbour_estimate(
        &self,
        vertex: TermId,
        predicate: TermId,
        direction: Direction,
    ) -> usize {
        unimplemented!()
    }
    pub fn contains(&self, triple: TripleIds) -> bool {
        unimplemented!()
    }
    pub fn predicates_of<'a>(
        &'a self,
        vertex: TermId,
        direction: Direction,
        scratch: &'a mut Vec<TermId>,
    ) -> &'a [TermId] {
        unimplemented!()
    }
    pub fn vertices_with<'a>(
        &'a self,
        predicate: TermId,
        direction: Direction,
        scratch: &'a mut Vec<TermId>,
    ) -> &'a [TermId] {
        unimplemented!()
    }
    pub fn predicates(&self) -> Vec<TermId> {
        unimplemented!()
    }
    pub fn predicate_statistics(&self, predicate: TermId) -> PredicateStatistics {
        unimplemented!()
    }
    /// Distinct statements.
    pub fn len(&self) -> usize {
        unimplemented!()
    }
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    pub fn newest_batch_of(&self, triple: TripleIds) -> Option<BatchNumber> {
        unimplemented!()
    }
    /// The event time of the newest arrival of this triple in the window (`f:timestamp`).
    pub fn newest_time_of(&self, triple: TripleIds) -> Option<EventTime> {
        unimplemented!()
    }
}

/// All slices of all streams, and the windows over them.
pub struct SliceStore {}

impl SliceStore {
    /// Replaces a slice of the same batch with a lower revision.
    pub fn insert(&self, stream: StreamUid, slice: Slice) {
        unimplemented!()
    }
    /// The window over the batches `lo..hi` (hi exclusive); `step` in batches. Empty batches need no slice.
    pub fn window(
        &self,
        stream: StreamUid,
        lo: BatchNumber,
        hi: BatchNumber,
        step: u64,
    ) -> Arc<WindowVersion> {
        unimplemented!()
    }
    /// Frees the slices of batches below.
    pub fn retire(&self, stream: StreamUid, below: BatchNumber) {
        unimplemented!()
    }
    pub fn drop_stream(&self, stream: StreamUid) {
        unimplemented!()
    }
    /// Slices and cached windows of this stream.
    pub fn memory_bytes(&self, stream: StreamUid) -> usize {
        unimplemented!()
    }
}
