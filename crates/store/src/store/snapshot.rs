//! A snapshot: a pin on one SN and the reads through it. Reads take no lock and never wait; lists
//! that are one block or one value are borrowed, others are merged into the caller's scratch.
#![allow(unsafe_code)]

use crate::lists::Key;
use crate::snapshots::{Pin, PinEnd};
use crate::statistics::PredicateStatistics;
use crate::store::Store;
use crate::store::shard_source::ShardSource;
use somersault_dictionary::rdf_type;
use somersault_model::{Direction, QuadIds, Sn, TermId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// One end of a column of edges.
#[derive(Debug, Clone, Copy)]
pub enum Ends<'a> {
    /// The same vertex in every row.
    One(TermId),
    /// One vertex for each row.
    Column(&'a [TermId]),
}

impl Ends<'_> {
    /// The vertex in a row.
    ///
    /// # Panics
    /// Panics if a column has no such row.
    #[inline]
    pub fn at(&self, row: usize) -> TermId {
        match self {
            Ends::One(vertex) => *vertex,
            Ends::Column(column) => column[row],
        }
    }

    /// The number of rows; 0 if the vertex is the same in every row.
    #[inline]
    pub fn len(&self) -> usize {
        match self {
            Ends::One(_) => 0,
            Ends::Column(column) => column.len(),
        }
    }

    /// Whether this is a column without rows, or no column.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The stored graphs at one SN. Dropping it unpins.
///
/// Everything borrowed from it lives as long as it does. The SN of a snapshot must be stable before
/// it is read.
pub struct Snapshot {
    store: StoreRef,
    pin: Arc<Pin>,
}

/// A hold on a store that some threads share, each by a count of this hold: so their many snapshots
/// do not all write to the store's one count.
pub struct StoreHold(Arc<Store>);

impl StoreHold {
    /// A hold for some threads.
    pub fn new(store: &Arc<Store>) -> Arc<StoreHold> {
        Arc::new(StoreHold(Arc::clone(store)))
    }

    /// As [`Store::pin_stable_until`], for a query that takes well under a millisecond: those of
    /// one thread share a pin, which lasts until the latest of their deadlines.
    pub fn pin_stable(self: &Arc<Self>, deadline_ms: i64) -> Snapshot {
        let pin = self.0.snapshots().pin_shared(deadline_ms);
        Snapshot::shared(Arc::clone(self), pin)
    }
}

/// A hold on an SN for a reader that takes long: it keeps the SN, and no memory. The reader opens a
/// snapshot for each part of its work, between which it borrows no list; so of what is replaced
/// meanwhile only the states that the SN shows are kept.
pub struct SnapshotHold {
    store: Arc<Store>,
    pin: Arc<Pin>,
}

impl SnapshotHold {
    pub(crate) fn new(store: Arc<Store>, pin: Arc<Pin>) -> SnapshotHold {
        SnapshotHold { store, pin }
    }

    /// The SN that is held.
    pub fn sn(&self) -> Sn {
        Sn(self.pin.sn)
    }

    /// The store that it is an SN of.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// Why the SN is no longer kept, if it is not.
    pub fn end(&self) -> Option<PinEnd> {
        self.pin.end()
    }

    /// The snapshot of the SN. It keeps memory until it is dropped, and is valid for as long as
    /// the hold is.
    pub fn open(&self) -> Snapshot {
        let pin = self.store.snapshots().pin_memory(&self.pin);
        Snapshot::new(Arc::clone(&self.store), pin)
    }
}

/// A snapshot's hold on its store.
enum StoreRef {
    Own(Arc<Store>),
    Shared(Arc<StoreHold>),
}

impl StoreRef {
    #[inline]
    fn arc(&self) -> &Arc<Store> {
        match self {
            StoreRef::Own(store) => store,
            StoreRef::Shared(hold) => &hold.0,
        }
    }
}

impl std::ops::Deref for StoreRef {
    type Target = Store;

    #[inline]
    fn deref(&self) -> &Store {
        self.arc()
    }
}

impl Snapshot {
    pub(crate) fn new(store: Arc<Store>, pin: Arc<Pin>) -> Snapshot {
        Snapshot {
            store: StoreRef::Own(store),
            pin,
        }
    }

    pub(crate) fn shared(store: Arc<StoreHold>, pin: Arc<Pin>) -> Snapshot {
        Snapshot {
            store: StoreRef::Shared(store),
            pin,
        }
    }

    /// The same snapshot, from now on with a deadline as for [`Store::pin_stable_until`], if it had
    /// none.
    #[must_use]
    pub fn until(self, deadline_ms: i64) -> Snapshot {
        self.pin.limit(deadline_ms);
        self
    }

    /// The SN that this shows.
    #[inline]
    pub fn sn(&self) -> Sn {
        Sn(self.pin.sn)
    }

    /// Whether the pin's deadline has not passed. If this is true after a read, the result of the
    /// read is correct. Once it is false, reads are still safe but may show parts of other SNs:
    /// give up.
    #[inline]
    pub fn is_valid(&self) -> bool {
        !self.pin.is_expired()
    }

    /// Why the snapshot is no longer valid, if it is not.
    pub fn end(&self) -> Option<PinEnd> {
        self.pin.end()
    }

    /// The store that this is a snapshot of.
    #[inline]
    pub fn store(&self) -> &Arc<Store> {
        self.store.arc()
    }

    /// The vertices that `vertex` has such edges to (`Out`) or from (`In`), ascending by id,
    /// without repeats. `scratch` is used, and overwritten, if the list cannot be borrowed.
    #[inline]
    pub fn neighbours<'a>(
        &'a self,
        graph: TermId,
        vertex: TermId,
        predicate: TermId,
        direction: Direction,
        scratch: &'a mut Vec<TermId>,
    ) -> &'a [TermId] {
        let key = Key::adjacency(graph, vertex, predicate, direction);
        if !key.is_adjacency() {
            return &[];
        }
        if self.is_spread(predicate, direction) {
            return self.gather(key, scratch);
        }
        scratch.clear();
        // SAFETY: this pin lives throughout 'a.
        unsafe { self.owner(vertex).read(self.pin.sn, key, scratch) }
    }

    /// The length of [`Snapshot::neighbours`], without reading them.
    #[inline]
    pub fn neighbour_estimate(
        &self,
        graph: TermId,
        vertex: TermId,
        predicate: TermId,
        direction: Direction,
    ) -> usize {
        let key = Key::adjacency(graph, vertex, predicate, direction);
        if !key.is_adjacency() {
            return 0;
        }
        if self.is_spread(predicate, direction) {
            return self.sum(key);
        }
        // SAFETY: this is a pin.
        unsafe { self.owner(vertex).len(self.pin.sn, key) }
    }

    /// Whether the statement holds.
    #[inline]
    pub fn contains(&self, quad: QuadIds) -> bool {
        let key = Key::adjacency(quad.graph, quad.subject, quad.predicate, Direction::Out);
        // SAFETY: this is a pin.
        key.is_adjacency()
            && unsafe {
                self.owner(quad.subject)
                    .contains(self.pin.sn, key, quad.object)
            }
    }

    /// The predicates of the edges from (`Out`) or to (`In`) a vertex, ascending.
    pub fn predicates_of<'a>(
        &'a self,
        graph: TermId,
        vertex: TermId,
        direction: Direction,
        scratch: &'a mut Vec<TermId>,
    ) -> &'a [TermId] {
        if vertex.raw() <= 2 {
            return &[];
        }
        let key = Key::predicates_of(graph, vertex, direction);
        match direction {
            Direction::Out => {
                scratch.clear();
                // SAFETY: this pin lives throughout 'a.
                unsafe { self.owner(vertex).read(self.pin.sn, key, scratch) }
            }
            // A class has its instances on every shard.
            Direction::In => self.gather(key, scratch),
        }
    }

    /// The index vertex: all vertices that have an edge with this predicate as its subject (`Out`)
    /// or object (`In`), ascending.
    pub fn vertices_with<'a>(
        &'a self,
        graph: TermId,
        predicate: TermId,
        direction: Direction,
        scratch: &'a mut Vec<TermId>,
    ) -> &'a [TermId] {
        if predicate.is_unbound() {
            return &[];
        }
        self.gather(Key::index(graph, predicate, direction), scratch)
    }

    /// The predicates that a graph uses, ascending.
    pub fn predicates(&self, graph: TermId) -> Vec<TermId> {
        self.collect(Key::predicates(graph, Direction::Out))
    }

    /// The named graphs that hold a statement, ascending.
    pub fn graphs(&self) -> Vec<TermId> {
        self.collect(Key::graphs())
    }

    /// The number of statements in a graph.
    pub fn statement_count(&self, graph: TermId) -> u64 {
        self.count(graph, TermId::UNBOUND)
    }

    /// The last SN, at or below that of this snapshot, that changed the statements of a predicate
    /// in a graph, or any statement of the graph (`None`). The result is never too early; after a
    /// large load it is at least the SN of the load.
    pub fn changed_at(&self, graph: TermId, predicate: Option<TermId>) -> Sn {
        let key = Key::count(graph, predicate.unwrap_or(TermId::UNBOUND));
        // SAFETY: this is a pin.
        let changed = |part: ShardSource<'_>| unsafe { part.changed(self.pin.sn, key) };
        Sn(self.sources().map(changed).max().unwrap_or(0))
    }

    /// Exact numbers for one predicate of a graph, without reading its statements; for `rdf:type`
    /// on several shards, `objects` reads the list of classes.
    pub fn predicate_statistics(&self, graph: TermId, predicate: TermId) -> PredicateStatistics {
        let vertices = |direction| Key::index(graph, predicate, direction);
        let objects = if self.is_spread(predicate, Direction::In) {
            self.collect(vertices(Direction::In)).len()
        } else {
            self.sum(vertices(Direction::In))
        };
        PredicateStatistics {
            statements: self.count(graph, predicate),
            subjects: self.sum(vertices(Direction::Out)) as u64,
            objects: objects as u64,
        }
    }

    /// The sets of predicates that subjects of a graph have, and the number of subjects with each,
    /// as of the last large load. Returns `None` without such a load, or with more than `most`
    /// sets.
    pub fn predicate_sets(&self, graph: TermId, most: usize) -> Option<Vec<(Vec<TermId>, u64)>> {
        let mut counts: BTreeMap<&[TermId], u64> = BTreeMap::new();
        let mut any = false;
        for source in self.sources() {
            let Some(sets) = source.image().predicate_sets(graph, Direction::Out) else {
                continue;
            };
            any = true;
            if sets.len() > most {
                return None;
            }
            for (set, count) in sets {
                *counts.entry(set).or_default() += count;
            }
        }
        let found = counts.into_iter().map(|(set, count)| (set.to_vec(), count));
        let found: Vec<_> = found.collect();
        (any && found.len() <= most).then_some(found)
    }

    #[inline]
    fn owner(&self, vertex: TermId) -> ShardSource<'_> {
        let owner = self.store.placement().owner(vertex);
        // SAFETY: this is a pin, and lives as long as what is lent out.
        unsafe { ShardSource::of(self.store.shard(owner.0.into()), self.pin.sn) }
    }

    /// The sources of this snapshot's reads, by shard.
    pub(crate) fn sources(&self) -> impl Iterator<Item = ShardSource<'_>> {
        let shards = self.store.shards().iter();
        // SAFETY: as above.
        shards.map(|shard| unsafe { ShardSource::of(shard, self.pin.sn) })
    }

    /// Whether the list is split over several shards: the instances of a class.
    #[inline]
    pub(crate) fn is_spread(&self, predicate: TermId, direction: Direction) -> bool {
        direction == Direction::In && self.store.shard_count() > 1 && predicate == rdf_type()
    }

    /// A list that may have parts on every shard.
    fn gather<'a>(&'a self, key: Key, scratch: &'a mut Vec<TermId>) -> &'a [TermId] {
        scratch.clear();
        let sn = self.pin.sn;
        // SAFETY: this pin lives throughout 'a.
        let held = |part: &ShardSource<'_>| unsafe { part.len(sn, key) } > 0;
        let mut holders = self.sources().filter(held);
        let Some(first) = holders.next() else {
            return &[];
        };
        let Some(second) = holders.next() else {
            // SAFETY: as above.
            return unsafe { first.read(sn, key, scratch) };
        };
        let mut part = Vec::new();
        for holder in [first, second].into_iter().chain(holders) {
            part.clear();
            // SAFETY: as above.
            let ids = unsafe { holder.read(sn, key, &mut part) };
            scratch.extend_from_slice(ids);
        }
        // Ascending stretches: the stable sort merges them in linear time.
        scratch.sort();
        scratch.dedup();
        scratch
    }

    fn collect(&self, key: Key) -> Vec<TermId> {
        let mut scratch = Vec::new();
        self.gather(key, &mut scratch).to_vec()
    }

    fn sum(&self, key: Key) -> usize {
        // SAFETY: this is a pin.
        let length = |part: ShardSource<'_>| unsafe { part.len(self.pin.sn, key) };
        self.sources().map(length).sum()
    }

    fn count(&self, graph: TermId, predicate: TermId) -> u64 {
        let key = Key::count(graph, predicate);
        // SAFETY: this is a pin.
        let count = |part: ShardSource<'_>| unsafe { part.count(self.pin.sn, key) };
        self.sources().map(count).sum()
    }

    #[cfg(test)]
    pub(crate) fn at(store: &Arc<Store>, pin: Arc<Pin>) -> Snapshot {
        Snapshot::new(Arc::clone(store), pin)
    }
}
