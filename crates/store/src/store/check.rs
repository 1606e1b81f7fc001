//! The invariants of the persistent store, checked by walking all of it: ST-1 (both ends of every
//! statement, and the index vertices, agree), ST-2 (nothing is stored twice), SN-2 (no reader is
//! below the floor); and DI-1 (no id of a reclaimed term is in use), for which slices and windows
//! are walked too. SN-1 is a law about two reads: [`fingerprint`] before and after.
#![allow(unsafe_code)]

use crate::lists::Key;
use crate::store::{Snapshot, Store};
use somersault_dictionary::rdf_type;
use somersault_model::{Direction, QuadIds, ShardId, TermId};
use std::collections::{BTreeMap, BTreeSet};

/// An invariant that does not hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{invariant} is broken: {what}")]
pub struct Violation {
    /// Its name in docs/invariants.md.
    pub invariant: &'static str,
    /// The violation, and its place.
    pub what: String,
}

/// A number that two reads of the same SN must agree on (SN-1): a hash of everything that a
/// snapshot shows.
pub fn fingerprint(snapshot: &Snapshot) -> u64 {
    let mut sum = 0u64;
    let mut scratch = Vec::new();
    for shard in snapshot.store().shards() {
        // SAFETY: the snapshot is a pin.
        let generation = unsafe { shard.at(snapshot.sn().0) };
        // SAFETY: as above.
        for key in unsafe { generation.keys() } {
            scratch.clear();
            // SAFETY: as above.
            let ids = unsafe { generation.read(snapshot.sn().0, key, &mut scratch) };
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

/// Checks all invariants of the state that this snapshot shows.
pub(crate) fn check(snapshot: &Snapshot) -> Result<(), Violation> {
    let store = snapshot.store();
    if let Err((pin, floor)) = store.snapshots().check() {
        return broken(
            "SN-2",
            format!("SN {pin} is pinned, but lists may be folded up to {floor}"),
        );
    }
    let mut found = FoundStatements::default();
    for shard in store.shards() {
        // SAFETY: the snapshot is a pin.
        let generation = unsafe { shard.at(snapshot.sn().0) };
        // SAFETY: as above.
        for key in unsafe { generation.keys() } {
            let mut scratch = Vec::new();
            // SAFETY: as above.
            let ids = unsafe { generation.read(snapshot.sn().0, key, &mut scratch) };
            if let Some(pair) = ids.windows(2).find(|pair| pair[0] >= pair[1]) {
                return broken(
                    "ST-2",
                    format!("{:?} stands after {:?} in {key:?}", pair[1], pair[0]),
                );
            }
            found.add(snapshot, shard.id, key, ids)?;
        }
    }
    found.compare(snapshot)?;
    check_windows(store)
}

/// Checks DI-1 for slices and windows.
fn check_windows(store: &Store) -> Result<(), Violation> {
    store.slices().try_each_run(|stream, run| {
        let mut ids = run
            .triples()
            .flat_map(|it| [it.subject, it.predicate, it.object]);
        match ids.find(|id| id.is_transient() && !store.dictionary().is_known(*id)) {
            None => Ok(()),
            Some(gone) => broken(
                "DI-1",
                format!(
                    "a batch of stream {} holds {gone:?}, which is reclaimed",
                    stream.0
                ),
            ),
        }
    })
}

fn broken(invariant: &'static str, what: String) -> Result<(), Violation> {
    Err(Violation { invariant, what })
}

/// All lists, turned back into statements and memberships.
#[derive(Default)]
struct FoundStatements {
    out: BTreeSet<QuadIds>,
    into: BTreeSet<QuadIds>,
    listed: BTreeSet<Membership>,
}

/// A shard, the key of an index or predicate list, and a member.
type Membership = (ShardId, TermId, TermId, TermId, Direction, TermId);

impl FoundStatements {
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
            let dictionary = snapshot.store().dictionary();
            let mut ids = [key.graph, key.vertex, key.predicate, *id].into_iter();
            if let Some(transient) =
                ids.find(|id| id.is_transient() && !dictionary.is_permanent(*id))
            {
                let what = format!("{transient:?} is stored, and may be reclaimed");
                return broken("DI-1", what);
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

#[cfg(test)]
mod tests {
    //! Each invariant is broken on purpose, past the interface that keeps it, and must be named.

    use super::*;
    use crate::half_edges::{Group, HalfEdge};
    use crate::{ShardBatch, ShardWriter, Slice};
    use oxrdf::NamedNode;
    use somersault_model::{
        BatchNumber, EventTime, Lease, Millis, Mutation, Placement, Sn, StreamUid, Tag,
        TimedTriple, TripleIds, VirtualShard,
    };
    use std::sync::Arc;

    /// Of two shards, even numbers are on the first.
    fn id(n: u64) -> TermId {
        let shard = VirtualShard::truncated((n as u16).reverse_bits() >> 4);
        TermId::in_dictionary(Tag::NamedNode, shard, n)
    }

    fn quad(subject: u64, object: u64) -> QuadIds {
        QuadIds {
            graph: id(500),
            subject: id(subject),
            predicate: id(600),
            object: id(object),
        }
    }

    /// A sound store of two shards at SN 1.
    fn sound() -> (Arc<Store>, Vec<ShardWriter>) {
        let store = Store::new(2);
        let mut writers: Vec<_> = (0..2)
            .map(|n| store.take_writer(ShardId(n)).expect("free"))
            .collect();
        let mutations: Vec<_> = (0..20).map(|n| Mutation::insert(quad(n, n + 1))).collect();
        for batch in ShardBatch::split(&mutations, store.placement()) {
            let writer = &mut writers[usize::from(batch.shard().0)];
            writer.apply(Sn(1), &batch).expect("in order");
        }
        store.snapshots().publish_stable(Sn(1));
        store.check().expect("sound so far");
        (store, writers)
    }

    /// Applies only the batch of one shard, changed by `plant`.
    fn break_with(plant: impl FnOnce(&mut ShardBatch)) -> Violation {
        let (store, mut writers) = sound();
        let mutations = [Mutation::insert(quad(40, 60))];
        let mut batch = ShardBatch::split(&mutations, store.placement()).swap_remove(0);
        plant(&mut batch);
        writers[0].apply(Sn(2), &batch).expect("in order");
        store.snapshots().publish_stable(Sn(2));
        store.check().expect_err("the planted fault is found")
    }

    /// A term that a timing statement of stream 1 mentions.
    fn mentioned(store: &Store, name: &str, lease: &Lease) -> TermId {
        let node = NamedNode::new_unchecked(name);
        let mut mentions = store.dictionary().mentions(lease);
        store
            .dictionary()
            .mention(node.as_ref().into(), &mut mentions)
    }

    #[test]
    fn di_1_a_window_of_reclaimed_terms() {
        for keeps_lease in [true, false] {
            let store = Store::new(1);
            let stream = StreamUid(1);
            let lease = store.dictionary().lease(stream);
            let of = |name: &str| mentioned(&store, name, &lease);
            let statement = TimedTriple {
                at: EventTime(3),
                triple: TripleIds::new(of("http://s"), of("http://p"), of("http://o")),
            };
            let slice = Slice::build(BatchNumber(0), Millis(10), 0, &[statement]);
            // The fault: a slice without the lease of its statements.
            let slice = slice.with_lease(keeps_lease.then(|| lease.clone()));
            store.slices().insert(stream, slice);
            drop(lease);
            store.dictionary().tidy(100);
            match store.check() {
                Ok(()) => assert!(keeps_lease, "the planted fault is found"),
                Err(violation) => {
                    assert!(!keeps_lease, "{violation}");
                    assert_eq!(violation.invariant, "DI-1");
                }
            }
        }
    }

    #[test]
    fn di_1_a_term_that_is_stored_and_not_permanent() {
        let store = Store::new(1);
        let lease = store.dictionary().lease(StreamUid(1));
        let subject = mentioned(&store, "http://s", &lease);
        let quad = QuadIds {
            subject,
            ..quad(1, 2)
        };
        let mut writer = store.take_writer(ShardId(0)).expect("free");
        let batch = ShardBatch::split(&[Mutation::insert(quad)], store.placement()).swap_remove(0);
        writer.apply(Sn(1), &batch).expect("in order");
        store.snapshots().publish_stable(Sn(1));
        let violation = store.check().expect_err("the planted fault is found");
        assert_eq!(violation.invariant, "DI-1");
        assert!(store.dictionary().make_permanent(subject));
        store.check().expect("sound now");
    }

    #[test]
    fn st_1_a_statement_at_one_end_only() {
        let violation = break_with(|batch| batch.inserts.truncate(1));
        assert_eq!(violation.invariant, "ST-1");
        assert!(violation.to_string().contains("one end"), "{violation}");
    }

    #[test]
    fn st_1_a_statement_at_the_wrong_owner() {
        let violation = break_with(|batch| {
            let edge = HalfEdge {
                vertex: id(41),
                predicate: id(600),
                neighbour: id(60),
            };
            batch.inserts[0].edges.push(edge);
        });
        assert_eq!(violation.invariant, "ST-1");
        assert!(violation.to_string().contains("own"), "{violation}");
    }

    #[test]
    fn st_1_an_index_vertex_that_misses_a_vertex() {
        let violation = break_with(|batch| {
            // An edge without a vertex stands for an index vertex's list: this deletes a member.
            batch.inserts.clear();
            batch.deletes = vec![Group {
                graph: id(500),
                direction: Direction::Out,
                edges: vec![HalfEdge {
                    vertex: TermId::UNBOUND,
                    predicate: id(600),
                    neighbour: id(2),
                }],
            }];
        });
        assert_eq!(violation.invariant, "ST-1");
        assert!(violation.to_string().contains("index"), "{violation}");
    }

    #[test]
    fn st_2_a_statement_stored_twice() {
        let (store, mut writers) = sound();
        let violation = {
            writers[0].plant_repeat(Key::adjacency(id(500), id(2), id(600), Direction::Out));
            store.check().expect_err("the planted fault is found")
        };
        assert_eq!(violation.invariant, "ST-2");
    }

    #[test]
    fn sn_1_a_snapshot_that_changes_under_a_reader() {
        let (store, mut writers) = sound();
        let reader = store.pin_stable();
        let before = fingerprint(&reader);
        let batch = |store: &Store| {
            ShardBatch::split(&[Mutation::insert(quad(40, 62))], store.placement()).swap_remove(0)
        };
        writers[0].apply(Sn(2), &batch(&store)).expect("in order");
        assert_eq!(
            fingerprint(&reader),
            before,
            "SN-1 holds for changes at a later SN"
        );
        // The same change at the reader's own SN, past the check that refuses it.
        assert!(writers[0].apply(Sn(1), &batch(&store)).is_err());
        let (store, mut writers) = sound();
        let reader = store.pin_stable();
        let before = fingerprint(&reader);
        writers[0].apply_unchecked(Sn(1), &batch(&store));
        assert_ne!(fingerprint(&reader), before, "the fingerprint tells");
    }

    /// A load of two statements as the batch of the one shard, which makes an image of them.
    fn load(from: u64) -> ShardBatch {
        let quads: Arc<[QuadIds]> = [quad(from, from + 1), quad(from, from + 2)].into();
        ShardBatch::split_with_loads(&[quads], &[], Placement::new(1)).swap_remove(0)
    }

    #[test]
    fn sn_1_a_generation_that_begins_at_a_readers_sn() {
        let store = Store::with_images_from(1, 1, 1);
        let mut writer = store.take_writer(ShardId(0)).expect("free");
        writer.apply(Sn(1), &load(1)).expect("in order");
        store.snapshots().publish_stable(Sn(1));
        let reader = store.pin_stable();
        let before = fingerprint(&reader);
        writer.apply(Sn(2), &load(11)).expect("in order");
        assert_eq!(fingerprint(&reader), before, "the older one is read");
        store.snapshots().publish_stable(Sn(2));
        let newer = store.pin_stable();
        assert_ne!(fingerprint(&newer), before, "the newer one is read");
        // One at the newer reader's own SN, past the check that refuses it.
        let before = fingerprint(&newer);
        writer.apply_unchecked(Sn(2), &load(21));
        assert_ne!(fingerprint(&newer), before, "the fingerprint tells");
    }

    #[test]
    fn st_1_a_statement_of_an_image_deleted_at_one_end_only() {
        let store = Store::with_images_from(1, 1, 1);
        let mut writer = store.take_writer(ShardId(0)).expect("free");
        writer.apply(Sn(1), &load(1)).expect("in order");
        store.snapshots().publish_stable(Sn(1));
        store.check().expect("sound so far");
        let mutations = [Mutation::delete(quad(1, 2))];
        let mut batch = ShardBatch::split(&mutations, store.placement()).swap_remove(0);
        batch.deletes.truncate(1);
        writer.apply(Sn(2), &batch).expect("in order");
        store.snapshots().publish_stable(Sn(2));
        let violation = store.check().expect_err("the planted fault is found");
        assert_eq!(violation.invariant, "ST-1");
        assert!(violation.to_string().contains("one end"), "{violation}");
    }

    #[test]
    fn sn_2_a_reader_below_the_floor() {
        let (store, mut writers) = sound();
        store.snapshots().publish_stable(Sn(3));
        writers[0].fold(usize::MAX);
        assert!(store.pin(Sn(2)).is_err(), "the interface refuses it");
        let pin = store.snapshots().pin_without_checking(Sn(2));
        let _reader = Snapshot::at(&store, pin);
        let violation = store.check().expect_err("the planted fault is found");
        assert_eq!(violation.invariant, "SN-2");
    }
}
