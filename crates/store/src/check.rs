//! The invariants of the persistent store, checked by walking all of it: ST-1 (both ends of every
//! statement, and the index vertices, agree), ST-2 (nothing is stored twice), SN-2 (nobody reads
//! below the floor). SN-1 is a law about two reads: [`fingerprint`] before and after.
#![allow(unsafe_code)]

use crate::cell::Key;
use crate::store::Violation;
use crate::{Snapshot, rdf_type};
use somersault_model::{Direction, QuadIds, ShardId, TermId};
use std::collections::{BTreeMap, BTreeSet};

/// A number that two reads of the same SN must agree on (SN-1): a hash of all that a snapshot
/// shows.
pub fn fingerprint(snapshot: &Snapshot) -> u64 {
    let mut sum = 0u64;
    let mut scratch = Vec::new();
    for shard in snapshot.store().shards() {
        // SAFETY: the snapshot is a pin.
        for key in unsafe { shard.keys() } {
            if key.vertex.raw() == 2 {
                continue;
            }
            scratch.clear();
            // SAFETY: as above.
            let ids = unsafe { shard.read(snapshot.sn().0, key, &mut scratch) };
            let mut hash = key.hash();
            for id in ids {
                hash = (hash ^ id.raw())
                    .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                    .rotate_left(29);
            }
            if !ids.is_empty() {
                // A sum, since keys come in no order.
                sum = sum.wrapping_add(hash);
            }
        }
    }
    sum
}

/// Checks everything that must hold in what this snapshot shows.
pub(crate) fn check(snapshot: &Snapshot) -> Result<(), Violation> {
    let store = snapshot.store();
    if let Err((pin, floor)) = store.snapshots().check() {
        return broken(
            "SN-2",
            format!("SN {pin} is pinned, but lists may be folded up to {floor}"),
        );
    }
    let mut found = Found::default();
    for shard in store.shards() {
        // SAFETY: the snapshot is a pin.
        for key in unsafe { shard.keys() } {
            if key.vertex.raw() == 2 {
                continue;
            }
            let mut scratch = Vec::new();
            // SAFETY: as above.
            let ids = unsafe { shard.read(snapshot.sn().0, key, &mut scratch) };
            if let Some(pair) = ids.windows(2).find(|pair| pair[0] >= pair[1]) {
                return broken(
                    "ST-2",
                    format!("{:?} stands after {:?} in {key:?}", pair[1], pair[0]),
                );
            }
            found.add(snapshot, shard.id, key, ids)?;
        }
    }
    found.compare(snapshot)
}

fn broken(invariant: &'static str, what: String) -> Result<(), Violation> {
    Err(Violation { invariant, what })
}

/// All lists, turned back into statements and memberships.
#[derive(Default)]
struct Found {
    out: BTreeSet<QuadIds>,
    into: BTreeSet<QuadIds>,
    listed: BTreeSet<Membership>,
}

/// A shard, the key of an index or predicate list, and a member.
type Membership = (ShardId, TermId, TermId, TermId, Direction, TermId);

impl Found {
    fn add(
        &mut self,
        snapshot: &Snapshot,
        shard: ShardId,
        key: Key,
        ids: &[TermId],
    ) -> Result<(), Violation> {
        for id in ids {
            if !key.is_adjacency() {
                let Key {
                    graph,
                    vertex,
                    predicate,
                    direction,
                } = key;
                let membership = (shard, graph, vertex, predicate, direction, *id);
                self.listed.insert(membership);
                continue;
            }
            let (subject, object) = match key.direction {
                Direction::Out => (key.vertex, *id),
                Direction::In => (*id, key.vertex),
            };
            let quad = QuadIds {
                graph: key.graph,
                subject,
                predicate: key.predicate,
                object,
            };
            let spread = key.direction == Direction::In && key.predicate == rdf_type();
            let owner = if spread { *id } else { key.vertex };
            if snapshot.store().placement().owner(owner) != shard {
                let what = format!(
                    "{quad:?} is on shard {} that does not own {owner:?}",
                    shard.0
                );
                return broken("ST-1", what);
            }
            let side = match key.direction {
                Direction::Out => &mut self.out,
                Direction::In => &mut self.into,
            };
            if !side.insert(quad) {
                return broken("ST-2", format!("{quad:?} is stored twice"));
            }
        }
        Ok(())
    }

    fn compare(self, snapshot: &Snapshot) -> Result<(), Violation> {
        if let Some(quad) = self.out.symmetric_difference(&self.into).next() {
            let what = format!("{quad:?} is in the list of one end only");
            return broken("ST-1", what);
        }
        let mut expected: BTreeSet<Membership> = BTreeSet::new();
        let mut counts: BTreeMap<(TermId, TermId), u64> = BTreeMap::new();
        let none = TermId::UNBOUND;
        let placement = snapshot.store().placement();
        for quad in &self.out {
            let QuadIds {
                graph,
                subject,
                predicate,
                object,
            } = *quad;
            let from = placement.owner(subject);
            let to = if predicate == rdf_type() {
                from
            } else {
                placement.owner(object)
            };
            for (shard, vertex, direction) in
                [(from, subject, Direction::Out), (to, object, Direction::In)]
            {
                expected.insert((shard, graph, vertex, none, direction, predicate));
                expected.insert((shard, graph, none, predicate, direction, vertex));
                expected.insert((shard, graph, none, none, direction, predicate));
            }
            if graph != TermId::DEFAULT_GRAPH {
                expected.insert((from, none, none, none, Direction::Out, graph));
            }
            *counts.entry((graph, predicate)).or_default() += 1;
            *counts.entry((graph, none)).or_default() += 1;
        }
        if let Some(entry) = self.listed.symmetric_difference(&expected).next() {
            let what = format!("an index vertex and the statements differ in {entry:?}");
            return broken("ST-1", what);
        }
        for ((graph, predicate), count) in counts {
            let kept = if predicate.is_unbound() {
                snapshot.statement_count(graph)
            } else {
                snapshot.predicate_statistics(graph, predicate).statements
            };
            if kept != count {
                let what = format!(
                    "{count} statements of {predicate:?} in {graph:?} are counted as {kept}"
                );
                return broken("ST-1", what);
            }
        }
        Ok(())
    }
}
