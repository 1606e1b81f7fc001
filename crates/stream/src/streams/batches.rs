//! Batches of a stream: those that still take statements, and the statements that a push or a
//! firing adds to them.
//!
//! Before changing anything here: one batch is taken out of the map at a time, and goes back with
//! what was added. A push seldom spans more than one or two.

use crate::saved::streams::{BatchKind, SavedBatch, StreamRecord};
use crate::saved::{CoreRecord, PORTION, portions};
use somersault_model::{BatchNumber, EventTime, Lease, Mutation, QuadIds, StreamUid, TimedTriple};
use std::collections::BTreeMap;

/// A batch that still takes statements, or that is closed and waits for its cut.
#[derive(Clone, Debug, Default)]
pub(crate) struct Batch {
    /// All statements in order of arrival.
    pub(super) statements: Vec<TimedTriple>,
    /// The facts of the batch, to be absorbed.
    pub(super) absorbed: Vec<Mutation>,
    /// The lease on the terms of its timing statements.
    pub(super) lease: Option<Lease>,
}

impl Batch {
    /// Adds a statement, and the fact to absorb from it.
    pub(super) fn add(&mut self, at: EventTime, quad: QuadIds, absorbed: Option<QuadIds>) {
        let triple = quad.triple();
        self.statements.push(TimedTriple { at, triple });
        self.absorbed.extend(absorbed.map(Mutation::insert));
    }

    /// The batch as a checkpoint holds it, in portions.
    pub(super) fn save(
        &self,
        (stream, number, kind): (StreamUid, BatchNumber, BatchKind),
        out: &mut Vec<CoreRecord>,
    ) {
        let facts: Vec<QuadIds> = self.absorbed.iter().map(|fact| fact.quad).collect();
        let mut facts = portions(facts);
        let mut statements = self.statements.chunks(PORTION);
        let mut portion = (statements.next(), facts.next());
        loop {
            let (statements_part, facts_part) = portion;
            let batch = SavedBatch {
                stream,
                number,
                kind,
                epoch: self.lease.as_ref().map(|lease| lease.epoch().number()),
                statements: statements_part.unwrap_or_default().to_vec(),
                facts: facts_part.unwrap_or_default(),
            };
            out.push(CoreRecord::Stream(StreamRecord::Batch(batch)));
            portion = (statements.next(), facts.next());
            if portion == (None, None) {
                break;
            }
        }
    }

    /// The lease on the terms of its timing statements.
    pub(super) fn lease(&self) -> Option<&Lease> {
        self.lease.as_ref()
    }

    /// Adds a portion of a saved batch, with the lease of its epoch.
    pub(super) fn add_saved(&mut self, saved: SavedBatch, lease: Option<Lease>) {
        self.lease = self.lease.take().or(lease);
        self.statements.extend(saved.statements);
        let facts = saved.facts.into_iter();
        self.absorbed.extend(facts.map(Mutation::insert));
    }

    /// Adds the lease of further statements.
    pub(super) fn keep(&mut self, lease: Option<Lease>) {
        self.lease = Lease::older(self.lease.take(), lease);
    }
}

/// A late statement of a closed batch (LATE AMEND).
#[derive(Debug)]
pub(super) struct LateStatement {
    pub(super) batch: BatchNumber,
    pub(super) statement: TimedTriple,
    pub(super) absorbed: Option<Mutation>,
    pub(super) lease: Option<Lease>,
}

/// The batches of a stream that still take statements.
#[derive(Debug, Default)]
pub(super) struct OpenBatches(BTreeMap<BatchNumber, Batch>);

/// An open batch that is taken out of the map, to add statements to it.
#[derive(Debug)]
pub(super) struct GrowingBatch {
    pub(super) number: BatchNumber,
    pub(super) batch: Batch,
    before: usize,
}

impl GrowingBatch {
    /// The number of statements that were added.
    pub(super) fn added(&self) -> u64 {
        (self.batch.statements.len() - self.before) as u64
    }
}

impl OpenBatches {
    /// Takes a batch out; an empty one if it has no statements yet.
    pub(super) fn take_out(&mut self, number: BatchNumber) -> GrowingBatch {
        let batch = self.0.remove(&number).unwrap_or_default();
        GrowingBatch {
            number,
            before: batch.statements.len(),
            batch,
        }
    }

    pub(super) fn reinsert(&mut self, grown: GrowingBatch) {
        self.0.insert(grown.number, grown.batch);
    }

    /// Each batch with its number, ascending.
    pub(super) fn iter(&self) -> impl Iterator<Item = (BatchNumber, &Batch)> {
        self.0.iter().map(|(number, batch)| (*number, batch))
    }

    /// The batch of this number, which is added if it is new.
    pub(super) fn entry(&mut self, number: BatchNumber) -> &mut Batch {
        self.0.entry(number).or_default()
    }

    pub(super) fn first(&self) -> Option<BatchNumber> {
        self.0.keys().next().copied()
    }

    /// The batches, newest first.
    pub(super) fn newest_first(&self) -> impl Iterator<Item = (BatchNumber, &Batch)> {
        self.0.iter().rev().map(|(number, batch)| (*number, batch))
    }

    pub(super) fn take_first(&mut self) -> Option<(BatchNumber, Batch)> {
        self.0.pop_first()
    }

    /// Removes all batches, when the stream is dropped.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = Batch> + use<> {
        std::mem::take(&mut self.0).into_values()
    }
}
