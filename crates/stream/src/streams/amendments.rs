//! Changes of batches that a cut has shown, waiting for the next cut (LATE AMEND).
//!
//! Before changing anything here: one cut shows all late statements of a record, so that they make
//! one revision of each close that they amend.

use super::batches::{Batch, LateStatement};
use crate::protocol::inject::{AmendedBatch, BatchChange};
use crate::saved::streams::{BatchKind, SavedBatch, StreamRecord};
use crate::saved::{CoreRecord, portions};
use somersault_model::{BatchNumber, Lease, Mutation, QuadIds, StreamUid};
use std::collections::BTreeMap;

/// Changes of batches of earlier cuts.
#[derive(Debug, Default)]
pub(super) struct Amendments {
    batches: BTreeMap<(StreamUid, BatchNumber), Change>,
    absorbed: Vec<(StreamUid, Mutation)>,
}

#[derive(Debug)]
struct Change {
    change: BatchChange,
    lease: Option<Lease>,
}

impl Amendments {
    pub(super) fn is_empty(&self) -> bool {
        self.batches.is_empty() && self.absorbed.is_empty()
    }

    /// Whether there are facts to be absorbed.
    pub(super) fn has_facts(&self) -> bool {
        !self.absorbed.is_empty()
    }

    /// From the next cut on, a batch that a cut has shown holds this statement too.
    pub(super) fn add(&mut self, uid: StreamUid, late: LateStatement) {
        let change = self.batches.entry((uid, late.batch));
        let change = change.or_insert_with(|| Change {
            change: BatchChange::Late(Vec::new()),
            lease: None,
        });
        change.lease = Lease::older(change.lease.take(), late.lease);
        match &mut change.change {
            BatchChange::Late(statements) | BatchChange::Replaced(statements) => {
                statements.push(late.statement);
            }
        }
        self.absorb(uid, late.absorbed);
    }

    /// From the next cut on, a batch that a cut has shown holds these statements instead.
    pub(super) fn replace(&mut self, uid: StreamUid, number: BatchNumber, batch: Batch) {
        let change = Change {
            change: BatchChange::Replaced(batch.statements),
            lease: batch.lease,
        };
        self.batches.insert((uid, number), change);
        self.absorb(uid, batch.absorbed);
    }

    /// Adds facts that late statements of a stream bring apart from what windows show.
    pub(super) fn absorb(&mut self, uid: StreamUid, facts: impl IntoIterator<Item = Mutation>) {
        let facts = facts.into_iter().map(|mutation| (uid, mutation));
        self.absorbed.extend(facts);
    }

    /// Drops a stream's batch changes. Returns its acknowledged facts, which are absorbed all the
    /// same.
    pub(super) fn drop_stream(&mut self, uid: StreamUid) -> Vec<Mutation> {
        self.batches.retain(|(stream, _), _| *stream != uid);
        let of_stream = |(stream, _): &mut (StreamUid, Mutation)| *stream == uid;
        let absorbed = self.absorbed.extract_if(.., of_stream);
        absorbed.map(|(_, mutation)| mutation).collect()
    }

    /// The changes of batches and the facts as a checkpoint holds them.
    pub(super) fn save(&self, out: &mut Vec<CoreRecord>) {
        for ((stream, number), Change { change, lease }) in &self.batches {
            let (kind, statements) = match change {
                BatchChange::Late(statements) => (BatchKind::Late, statements),
                BatchChange::Replaced(statements) => (BatchKind::Replaced, statements),
            };
            let batch = Batch {
                statements: statements.clone(),
                absorbed: Vec::new(),
                lease: lease.clone(),
            };
            batch.save((*stream, *number, kind), out);
        }
        let facts = self.absorbed.iter().map(|(uid, fact)| (*uid, fact.quad));
        let records = portions(facts).map(StreamRecord::Facts);
        out.extend(records.map(CoreRecord::Stream));
    }

    /// The leases on the terms of the statements.
    pub(super) fn leases(&self) -> impl Iterator<Item = &Lease> {
        let changes = self.batches.values();
        changes.filter_map(|change| change.lease.as_ref())
    }

    /// Adds a portion of a saved change, with the lease of its epoch.
    pub(super) fn add_saved(&mut self, saved: SavedBatch, lease: Option<Lease>) {
        let change = self.batches.entry((saved.stream, saved.number));
        let change = change.or_insert_with(|| Change {
            change: match saved.kind {
                BatchKind::Replaced => BatchChange::Replaced(Vec::new()),
                _ => BatchChange::Late(Vec::new()),
            },
            lease,
        });
        match &mut change.change {
            BatchChange::Late(statements) | BatchChange::Replaced(statements) => {
                statements.extend(saved.statements);
            }
        }
    }

    /// Adds saved facts, in their order.
    pub(super) fn add_facts(&mut self, facts: Vec<(StreamUid, QuadIds)>) {
        let facts = facts.into_iter();
        self.absorbed
            .extend(facts.map(|(uid, fact)| (uid, Mutation::insert(fact))));
    }

    /// Removes and returns the facts and the changes of batches, ascending by stream and number.
    pub(super) fn take(&mut self) -> (Vec<Mutation>, Vec<AmendedBatch>) {
        let Amendments { batches, absorbed } = std::mem::take(self);
        let batches = batches
            .into_iter()
            .map(|((stream, batch), Change { change, lease })| AmendedBatch {
                stream,
                batch,
                change,
                lease,
            });
        let absorbed = absorbed.into_iter().map(|(_, mutation)| mutation);
        (absorbed.collect(), batches.collect())
    }
}
