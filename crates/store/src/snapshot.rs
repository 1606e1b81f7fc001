//! Snapshots: pins and reading.
use crate::Store;
use somersault_model::{Direction, QuadIds, Sn, TermId};
use std::sync::Arc;

/// Which pin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PinId(pub u64);

/// Why a snapshot cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    #[error(
        "snapshot {sn} is no longer kept: the oldest that is kept is {floor}; ask again at the current one"
    )]
    BelowFloor { sn: Sn, floor: Sn },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PredicateStatistics {
    pub statements: u64,
    pub subjects: u64,
    pub objects: u64,
}

/// Which SNs are retained.
pub struct Snapshots {}

impl Snapshots {
    pub fn stable(&self) -> Sn {
        unimplemented!()
    }
    /// VT-1: never goes back (asserted).
    pub fn publish_stable(&self, sn: Sn) {
        unimplemented!()
    }
    /// The smallest retained SN: min(pinned and not expired, stable).
    pub fn floor(&self) -> Sn {
        unimplemented!()
    }
    /// Gives up the pins whose deadline has passed; returns how many.
    pub fn expire(&self, now_ms: i64) -> usize {
        unimplemented!()
    }
    /// Live pins.
    pub fn pinned(&self) -> usize {
        unimplemented!()
    }
}

/// A pin. Drop unpins.
pub struct Snapshot {
    store: Arc<Store>,
}

impl Snapshot {
    pub fn sn(&self) -> Sn {
        unimplemented!()
    }
    /// False once the pin's deadline has passed: what was read before it turned false was right, later reads are memory-safe but may be wrong.
    pub fn is_valid(&self) -> bool {
        unimplemented!()
    }
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }
    pub fn neighbours<'a>(
        &'a self,
        graph: TermId,
        vertex: TermId,
        predicate: TermId,
        direction: Direction,
        scratch: &'a mut Vec<TermId>,
    ) -> &'a [TermId] {
        unimplemented!()
    }
    pub fn neighbour_estimate(
        &self,
        graph: TermId,
        vertex: TermId,
        predicate: TermId,
        direction: Direction,
    ) -> usize {
        unimplemented!()
    }
    pub fn contains(&self, quad: QuadIds) -> bool {
        unimplemented!()
    }
    pub fn predicates_of<'a>(
        &'a self,
        graph: TermId,
        vertex: TermId,
        direction: Direction,
        scratch: &'a mut Vec<TermId>,
    ) -> &'a [TermId] {
        unimplemented!()
    }
    pub fn vertices_with<'a>(
        &'a self,
        graph: TermId,
        predicate: TermId,
        direction: Direction,
        scratch: &'a mut Vec<TermId>,
    ) -> &'a [TermId] {
        unimplemented!()
    }
    /// Predicates that the graph uses, ascending.
    pub fn predicates(&self, graph: TermId) -> Vec<TermId> {
        unimplemented!()
    }
    /// Named graphs that hold something, ascending; not the default graph.
    pub fn graphs(&self) -> Vec<TermId> {
        unimplemented!()
    }
    pub fn statement_count(&self, graph: TermId) -> u64 {
        unimplemented!()
    }
    pub fn predicate_statistics(&self, graph: TermId, predicate: TermId) -> PredicateStatistics {
        unimplemented!()
    }
}
