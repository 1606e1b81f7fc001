//! What the shards have been handed of batches that are still open (ADR 41).
//!
//! Before changing anything here: the portions of a batch are its first statements and its first
//! facts, in order of arrival. A batch only grows until it is handed out, so the rest that is
//! handed out then is everything behind its portions.

use crate::fabric::{AheadWork, BatchPortion, PreparedFacts};
use somersault_model::{BatchNumber, Mutation, Operation, Placement, ShardId, StreamUid};
use somersault_store::ShardBatch;
use somersault_stream::{Inject, OpenBatch};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

/// The most statements of a portion, so that an SN that comes meanwhile does not wait for long.
const LARGEST: usize = 4_096;
/// The most statements that are prepared of a batch. Beyond that, sorting at the close costs less
/// than the memory.
const MOST_OF_A_BATCH: usize = 1 << 18;

/// The portions of open batches.
pub(super) struct Ahead {
    /// The number of new statements from which on a batch has another portion.
    portion: usize,
    batches: BTreeMap<(StreamUid, BatchNumber), HandedOver>,
}

/// The portions of one batch.
#[derive(Default)]
struct HandedOver {
    statements: usize,
    facts: usize,
    /// Per shard: the half edges of the facts.
    edges: Vec<usize>,
}

/// What was prepared of the batches that an SN shows.
pub(super) struct ClosedAhead {
    /// Per shard.
    pub(super) prepared: Vec<Vec<PreparedFacts>>,
    /// Their places in the SN's mutations, ascending.
    facts: Vec<Range<usize>>,
}

impl Ahead {
    pub(super) fn new(portion: usize) -> Ahead {
        Ahead {
            portion: portion.max(1),
            batches: BTreeMap::new(),
        }
    }

    /// The next portion of a batch, for each shard that has a part of it; `None` while it is too
    /// small.
    pub(super) fn portions(
        &mut self,
        open: OpenBatch<'_>,
        home: ShardId,
        placement: Placement,
    ) -> Option<Vec<(ShardId, AheadWork)>> {
        let key = (open.stream, open.batch);
        let before = self.batches.get(&key);
        let (statements, facts) = before.map_or((0, 0), |it| (it.statements, it.facts));
        let most = open.statements.len().min(MOST_OF_A_BATCH);
        if most < statements + self.portion {
            return None;
        }
        let statements = &open.statements[statements..most.min(statements + LARGEST)];
        let facts = &open.facts[facts..open.facts.len().min(facts + LARGEST)];
        debug_assert!(
            facts.iter().all(|fact| fact.operation == Operation::Insert),
            "facts are inserted"
        );
        let handed = self.batches.entry(key).or_default();
        handed.statements += statements.len();
        handed.facts += facts.len();
        handed.edges.resize(placement.shards().into(), 0);
        let edges = ShardBatch::split(facts, placement);
        let portions = edges.into_iter().zip(&mut handed.edges);
        let portions = portions.filter_map(|(edges, sum)| {
            let shard = edges.shard();
            *sum += edges.len();
            (shard == home || !edges.is_empty()).then(|| {
                let portion = BatchPortion {
                    stream: open.stream,
                    batch: open.batch,
                    statements: match shard == home {
                        true => statements.to_vec(),
                        false => Vec::new(),
                    },
                    edges,
                };
                (shard, AheadWork::Portion(portion))
            })
        });
        Some(portions.collect())
    }

    /// Forgets the batches of a stream. Returns whether there were any.
    pub(super) fn forget(&mut self, stream: StreamUid) -> bool {
        let before = self.batches.len();
        self.batches.retain(|(of, _), _| *of != stream);
        self.batches.len() < before
    }

    /// Takes out the batches that an SN shows.
    pub(super) fn take_closed(&mut self, inject: &Inject, placement: Placement) -> ClosedAhead {
        let mut closed = ClosedAhead {
            prepared: vec![Vec::new(); placement.shards().into()],
            facts: Vec::new(),
        };
        for batch in &inject.slices {
            let Some(handed) = self.batches.remove(&(batch.stream, batch.batch)) else {
                continue;
            };
            let first = batch.facts.start;
            closed.facts.push(first..first + handed.facts);
            for (prepared, edges) in closed.prepared.iter_mut().zip(handed.edges) {
                if edges > 0 {
                    prepared.push(PreparedFacts {
                        stream: batch.stream,
                        batch: batch.batch,
                        edges,
                    });
                }
            }
        }
        closed
    }
}

impl ClosedAhead {
    /// The mutations without the facts that were prepared.
    pub(super) fn rest<'m>(&self, mutations: &'m [Mutation]) -> Cow<'m, [Mutation]> {
        if self.facts.is_empty() {
            return Cow::Borrowed(mutations);
        }
        let mut rest = Vec::new();
        let mut end = 0;
        for facts in &self.facts {
            rest.extend_from_slice(&mutations[end..facts.start]);
            end = facts.end;
        }
        rest.extend_from_slice(&mutations[end..]);
        Cow::Owned(rest)
    }
}
