//! Late statements of closed batches (LATE AMEND): which batches change, and which firings run
//! again.
//!
//! Before changing anything here: one cut shows all late statements of a record, so that they make
//! one revision of each close that they amend. That cut comes before any close that the same record
//! made due, so such a close sees them in its first revision, unless the driver joins amendments
//! (ADR 23): then closes may come first, and the cut amends them. Windows stay as far back as
//! WITHIN and waiting amendments reach (`Group::earliest_needed`), so an amended firing reads all
//! that its first revision read.

use crate::closes::groups::{GroupId, Groups};
use crate::closes::schedule::WindowShape;
use crate::coordinator::Coordinator;
use crate::output::{Output, QueryChange};
use crate::protocol::firing::Firing;
use crate::protocol::inject::{AmendedBatch, BatchChange, Inject};
use crate::queries::Delivery;
use crate::streams::stream::{Batch, LateStatement, Stream};
use somersault_model::{BatchNumber, EventTime, Lease, Mutation, StreamUid};
use std::collections::{BTreeMap, BTreeSet};

/// Changes of batches of earlier cuts, waiting for the next cut.
#[derive(Clone, Debug, Default)]
pub(crate) struct Amendments {
    batches: BTreeMap<(StreamUid, BatchNumber), Change>,
    absorbed: Vec<(StreamUid, Mutation)>,
}

#[derive(Clone, Debug)]
struct Change {
    change: BatchChange,
    lease: Option<Lease>,
}

/// An amended batch as windows see it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Amended {
    pub(crate) stream: StreamUid,
    pub(crate) number: BatchNumber,
    pub(crate) start: EventTime,
    pub(crate) end: EventTime,
}

impl Amended {
    fn new(stream: &Stream, batch: BatchNumber) -> Amended {
        Amended {
            stream: stream.uid,
            number: batch,
            start: batch.start(stream.interval()),
            end: batch.end(stream.interval()),
        }
    }

    /// Whether a window over the batch's stream holds the batch at a close.
    pub(crate) fn is_in(&self, shape: &WindowShape, close: EventTime) -> bool {
        // Admission refuses windows of a number of statements over streams that are amended.
        let span = shape.span().map(|span| span.span_at(close));
        span.is_some_and(|(from, to)| from <= self.start && self.end <= to)
    }
}

impl Amendments {
    pub(crate) fn is_empty(&self) -> bool {
        self.batches.is_empty() && self.absorbed.is_empty()
    }

    /// From the next cut on, a batch that a cut has shown holds these statements instead.
    pub(crate) fn replace(&mut self, uid: StreamUid, number: BatchNumber, batch: Batch) {
        let change = Change {
            change: BatchChange::Replaced(batch.statements),
            lease: batch.lease,
        };
        self.batches.insert((uid, number), change);
        self.absorb(uid, batch.absorbed);
    }

    /// Adds facts that late statements of a stream bring apart from what windows show.
    pub(crate) fn absorb(&mut self, uid: StreamUid, facts: impl IntoIterator<Item = Mutation>) {
        let facts = facts.into_iter().map(|mutation| (uid, mutation));
        self.absorbed.extend(facts);
    }

    /// Drops a stream's batch changes. Returns its acknowledged facts, which are absorbed all the
    /// same.
    pub(crate) fn drop_stream(&mut self, uid: StreamUid) -> Vec<Mutation> {
        self.batches.retain(|(stream, _), _| *stream != uid);
        let of_stream = |(stream, _): &mut (StreamUid, Mutation)| *stream == uid;
        let absorbed = self.absorbed.extract_if(.., of_stream);
        absorbed.map(|(_, mutation)| mutation).collect()
    }
}

impl Coordinator {
    /// Adds late statements of one push to their closed batches. A batch that no cut has shown yet
    /// simply grows.
    pub(crate) fn take_late(&mut self, uid: StreamUid, late: Vec<LateStatement>) {
        let Some(stream) = self.streams.get_mut(&uid) else {
            return;
        };
        for LateStatement {
            batch: number,
            statement,
            absorbed,
            lease,
        } in late
        {
            let end = number.end(stream.interval());
            if Some(end) > stream.planned {
                let batch = self.closed.entry((end, uid, number)).or_insert_with(|| {
                    stream.batches += 1;
                    Batch::default()
                });
                batch.statements.push(statement);
                batch.absorbed.extend(absorbed);
                batch.keep(lease);
                continue;
            }
            stream.await_amendment(number);
            let change = self.amendments.batches.entry((uid, number));
            let change = change.or_insert_with(|| Change {
                change: BatchChange::Late(Vec::new()),
                lease: None,
            });
            change.lease = Lease::older(change.lease.take(), lease);
            match &mut change.change {
                BatchChange::Late(statements) | BatchChange::Replaced(statements) => {
                    statements.push(statement);
                }
            }
            self.amendments.absorb(uid, absorbed);
        }
    }

    /// The closes of groups that have fired and have one of these batches in a window, each with
    /// those batches.
    fn amended_closes<'a>(
        &self,
        batches: impl Iterator<Item = &'a (StreamUid, BatchNumber)>,
    ) -> BTreeMap<(EventTime, GroupId), Vec<Amended>> {
        let mut closes: BTreeMap<(EventTime, GroupId), Vec<Amended>> = BTreeMap::new();
        for (uid, batch) in batches {
            let Some(stream) = self.streams.get(uid) else {
                continue;
            };
            let amended = Amended::new(stream, *batch);
            for id in Groups::readers_of(stream) {
                for close in self.groups.get(id).closes_with(&amended) {
                    closes.entry((close, id)).or_default().push(amended);
                }
            }
        }
        closes
    }

    /// Shows all amendments with this SN, and makes the firings whose windows they change due
    /// again.
    pub(crate) fn amend(
        &mut self,
        inject: &mut Inject,
        firings: &mut Vec<Firing>,
        out: &mut Vec<Output>,
    ) {
        let amendments = std::mem::take(&mut self.amendments);
        for (uid, _) in amendments.batches.keys() {
            if let Some(stream) = self.streams.get_mut(uid) {
                stream.amended_from = None;
            }
        }
        let absorbed = amendments.absorbed.into_iter();
        inject.mutations = absorbed.map(|(_, mutation)| mutation).collect();
        let mut amended = BTreeSet::new();
        for ((close, id), batches) in self.amended_closes(amendments.batches.keys()) {
            let revision = self.groups.amend(id, close);
            amended.insert(id);
            let group = self.groups.get(id);
            for uid in group.members_at(close) {
                // Queries of one group fire together, but their windows reach back to different
                // times.
                let query = self.queries.get_mut(uid);
                let Some(query) = query.filter(|query| query.shows(close, &batches)) else {
                    continue;
                };
                query.on_amended(close);
                let sn = inject.sn;
                let firing = query.firing(&self.streams, group, (close, 0, revision), sn);
                // No later answer is compared with an amended firing.
                match query.delivery((close, sn), self.delivered.get(&uid)) {
                    Delivery::Done => {
                        let key = firing.key();
                        out.push(Output::query(uid, QueryChange::Delivered { key, sn }));
                    }
                    Delivery::Owed | Delivery::Repeated => firings.push(firing),
                }
            }
        }
        for id in amended {
            self.groups.forget_revisions(&self.streams, id);
        }
        let batches = amendments.batches.into_iter();
        inject.amended = batches
            .map(|((stream, batch), Change { change, lease })| AmendedBatch {
                stream,
                batch,
                change,
                lease,
            })
            .collect();
    }
}
