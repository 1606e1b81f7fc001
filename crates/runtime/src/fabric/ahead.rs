//! Work on batches that are still open: a shard sorts their statements as they come, so that little
//! is left to do when they close (ADR 41).
//!
//! Before changing anything here: what is prepared is a copy. Batches are handed out whole when
//! they close, whatever was prepared of them, and no answer depends on it.

use crate::fabric::SliceWork;
use parking_lot::Mutex;
use somersault_model::{BatchNumber, StreamUid, TimedTriple};
use somersault_store::{PreparedEdges, ShardBatch, SliceRows};
use std::collections::HashMap;

/// Work for one shard that belongs to no SN yet.
#[derive(Debug)]
pub enum AheadWork {
    /// To be prepared.
    Portion(BatchPortion),
    /// The stream is gone: what was prepared of its batches is not needed.
    Forget(StreamUid),
}

/// The next statements of an open batch.
#[derive(Debug)]
pub struct BatchPortion {
    /// The stream.
    pub stream: StreamUid,
    /// The batch.
    pub batch: BatchNumber,
    /// The statements, in order of arrival; only for the shard that will build the slice.
    pub statements: Vec<TimedTriple>,
    /// The half edges of their facts that the shard owns.
    pub edges: ShardBatch,
}

/// The facts of a closed batch that a shard has in its portions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PreparedFacts {
    /// The stream.
    pub stream: StreamUid,
    /// The batch.
    pub batch: BatchNumber,
    /// The number of their half edges that the shard owns.
    pub edges: usize,
}

/// What one shard has prepared of open batches.
#[derive(Default)]
pub(super) struct PreparedBatches(Mutex<HashMap<(StreamUid, BatchNumber), PreparedBatch>>);

#[derive(Default)]
struct PreparedBatch {
    rows: SliceRows,
    edges: PreparedEdges,
}

impl PreparedBatches {
    /// Adds a portion.
    pub(super) fn add(&self, portion: BatchPortion) {
        let mut batches = self.0.lock();
        let batch = batches.entry((portion.stream, portion.batch)).or_default();
        batch.rows.add(&portion.statements);
        batch.edges.add(portion.edges);
    }

    /// Forgets the batches of a stream.
    pub(super) fn forget(&self, stream: StreamUid) {
        self.0.lock().retain(|(of, _), _| *of != stream);
    }

    /// Moves facts that were prepared into the batch of an SN.
    ///
    /// # Panics
    /// If they are not those that were handed over (PA-1).
    pub(super) fn insert_facts(&self, prepared: &[PreparedFacts], batch: &mut ShardBatch) {
        let mut batches = self.0.lock();
        for facts in prepared {
            let key = (facts.stream, facts.batch);
            let found = batches.get_mut(&key);
            let edges = found.map_or_else(PreparedEdges::default, |found| {
                std::mem::take(&mut found.edges)
            });
            // The rows stay for the slice, which is made after the facts are applied.
            if batches.get(&key).is_some_and(|left| left.rows.is_empty()) {
                batches.remove(&key);
            }
            assert_eq!(
                edges.len(),
                facts.edges,
                "PA-1: a shard has prepared what it was handed of batch {} of stream {}",
                facts.batch.0,
                facts.stream.0
            );
            batch.insert_prepared(edges);
        }
    }

    /// Takes the rows of a batch that becomes a slice.
    pub(super) fn take_rows(&self, slice: &SliceWork) -> SliceRows {
        let taken = self.0.lock().remove(&(slice.stream, slice.batch));
        taken.unwrap_or_default().rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use somersault_model::{Mutation, Placement, QuadIds, TermId};

    const STREAM: StreamUid = StreamUid(3);
    const BATCH: BatchNumber = BatchNumber(7);

    fn edges(objects: std::ops::Range<u64>) -> ShardBatch {
        let id = |number| TermId::from_raw(1 << 60 | number);
        let facts: Vec<Mutation> = objects
            .map(|object| {
                Mutation::insert(QuadIds {
                    graph: TermId::DEFAULT_GRAPH,
                    subject: id(1),
                    predicate: id(9_999),
                    object: id(object),
                })
            })
            .collect();
        ShardBatch::split(&facts, Placement::new(1)).swap_remove(0)
    }

    fn portion(objects: std::ops::Range<u64>) -> BatchPortion {
        BatchPortion {
            stream: STREAM,
            batch: BATCH,
            statements: Vec::new(),
            edges: edges(objects),
        }
    }

    fn prepared(edges: usize) -> PreparedFacts {
        PreparedFacts {
            stream: STREAM,
            batch: BATCH,
            edges,
        }
    }

    #[test]
    fn portions_and_the_rest_are_the_whole_batch() {
        let batches = PreparedBatches::default();
        batches.add(portion(0..4));
        batches.add(portion(4..5));
        let mut batch = edges(5..7);
        batches.insert_facts(&[prepared(10)], &mut batch);
        assert_eq!(batch.len(), edges(0..7).len());
        assert!(batches.0.lock().is_empty());
        batches.add(portion(0..4));
        batches.forget(STREAM);
        assert!(batches.0.lock().is_empty());
    }

    #[test]
    #[should_panic(expected = "PA-1")]
    fn pa_1_a_portion_that_was_lost() {
        let batches = PreparedBatches::default();
        batches.add(portion(0..4));
        batches.insert_facts(&[prepared(10)], &mut edges(5..7));
    }
}
