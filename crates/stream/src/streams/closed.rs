//! Closed batches that wait for their cut.
//!
//! Before changing anything here: a cut takes them in the order of their ends, so that the facts of
//! an earlier batch are absorbed before those of a later one.

use super::batches::Batch;
use crate::protocol::inject::{ClosedBatch, Inject};
use crate::saved::CoreRecord;
use crate::saved::streams::BatchKind;
use somersault_model::{BatchNumber, EventTime, Lease, Mutation, StreamUid};
use std::collections::BTreeMap;

/// Closed batches by end, stream and number.
#[derive(Debug, Default)]
pub(super) struct ClosedBatches(BTreeMap<(EventTime, StreamUid, BatchNumber), Batch>);

impl ClosedBatches {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn insert(&mut self, key: (EventTime, StreamUid, BatchNumber), batch: Batch) {
        self.0.insert(key, batch);
    }

    pub(super) fn remove(&mut self, key: (EventTime, StreamUid, BatchNumber)) {
        self.0.remove(&key);
    }

    /// The batch of this key, and whether it was empty until now.
    pub(super) fn entry(&mut self, key: (EventTime, StreamUid, BatchNumber)) -> (&mut Batch, bool) {
        let is_new = !self.0.contains_key(&key);
        (self.0.entry(key).or_default(), is_new)
    }

    /// The batches as a checkpoint holds them.
    pub(super) fn save(&self, out: &mut Vec<CoreRecord>) {
        for ((_, stream, number), batch) in &self.0 {
            batch.save((*stream, *number, BatchKind::Closed), out);
        }
    }

    /// The leases on the terms of the statements.
    pub(super) fn leases(&self) -> impl Iterator<Item = &Lease> {
        self.0.values().filter_map(Batch::lease)
    }

    /// Whether batches that end at or before `through` (or all) have facts to be absorbed.
    pub(super) fn has_facts(&self, through: Option<EventTime>) -> bool {
        let ended = |end: EventTime| through.is_none_or(|close| end <= close);
        let mut batches = self.0.iter().take_while(|((end, ..), _)| ended(*end));
        batches.any(|(_, batch)| !batch.absorbed.is_empty())
    }

    /// Moves the batches that end at or before `through` (or all) into the SN.
    pub(super) fn take_through(&mut self, through: Option<EventTime>, inject: &mut Inject) {
        while let Some(entry) = self.0.first_entry() {
            let (end, stream, number) = *entry.key();
            if through.is_some_and(|close| end > close) {
                break;
            }
            let mut batch = entry.remove();
            let first = inject.mutations.len();
            if inject.mutations.is_empty() {
                inject.mutations = batch.absorbed;
            } else {
                inject.mutations.append(&mut batch.absorbed);
            }
            inject.slices.push(ClosedBatch {
                stream,
                batch: number,
                statements: batch.statements,
                facts: first..inject.mutations.len(),
                lease: batch.lease,
            });
        }
    }

    /// Drops a stream's batches. Returns their facts, which are absorbed all the same.
    pub(super) fn drop_stream(&mut self, uid: StreamUid) -> Vec<Mutation> {
        let mut absorbed = Vec::new();
        self.0.retain(|(_, stream, _), batch| {
            if *stream == uid {
                absorbed.append(&mut batch.absorbed);
            }
            *stream != uid
        });
        absorbed
    }
}
