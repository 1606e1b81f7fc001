//! One SN's changes, split for the shards: each statement becomes an out half at the owner of its
//! subject and an in half at the owner of its object. The instances of a class are at the owner of
//! each instance instead, so that a class with millions of them is spread over all shards.

use crate::half_edges::{Group, HalfEdge};
use rustc_hash::FxHashMap;
use somersault_dictionary::rdf_type;
use somersault_model::{Direction, Mutation, Operation, Placement, QuadIds, ShardId, TermId};
use std::sync::Arc;

/// The half edges of one SN for one shard. Of each statement it holds the last operation only, so
/// the order inside does not matter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardBatch {
    shard: ShardId,
    placement: Placement,
    /// Graphs that are emptied before anything else.
    pub(crate) clears: Arc<[TermId]>,
    /// Statements to be inserted first; the writer takes its halves of them.
    pub(crate) loads: Vec<Arc<[QuadIds]>>,
    /// The number of half edges of the loads that belong to this shard.
    loaded: usize,
    pub(crate) deletes: Vec<Group>,
    pub(crate) inserts: Vec<Group>,
}

impl ShardBatch {
    /// One batch per shard, in the order of the shards, empty ones too. Of several mutations of
    /// one statement the last wins.
    pub fn split(mutations: &[Mutation], placement: Placement) -> Vec<ShardBatch> {
        ShardBatch::split_with_loads(&[], mutations, placement)
    }

    /// As [`ShardBatch::split`], with loads, which are insertions that come before the mutations.
    /// They are not copied, unless something is deleted in the same SN.
    pub fn split_with_loads(
        loads: &[Arc<[QuadIds]>],
        mutations: &[Mutation],
        placement: Placement,
    ) -> Vec<ShardBatch> {
        let mut deletes = Splitter::new(placement);
        let mut inserts = Splitter::new(placement);
        // Only statements that are deleted somewhere need their last operation looked up.
        let mut last: FxHashMap<QuadIds, Operation> = (mutations.iter())
            .filter(|m| m.operation == Operation::Delete)
            .map(|m| (m.quad, m.operation))
            .collect();
        let by_writers = last.is_empty();
        if by_writers {
            inserts.room = mutations.len().div_ceil(placement.shards().into());
            for mutation in mutations {
                inserts.add(mutation.quad);
            }
        } else {
            for mutation in mutations {
                if let Some(operation) = last.get_mut(&mutation.quad) {
                    *operation = mutation.operation;
                }
            }
            let loaded = loads.iter().flat_map(|load| load.iter().copied());
            for quad in loaded.chain(mutations.iter().map(|m| m.quad)) {
                match last.get(&quad) {
                    Some(Operation::Delete) => deletes.add(quad),
                    Some(Operation::Insert) | None => inserts.add(quad),
                }
            }
        }
        let loads = if by_writers { loads } else { &[] };
        let loaded = halves(loads, placement);
        (placement.all().zip(deletes.groups).zip(inserts.groups))
            .zip(loaded)
            .map(|(((shard, deletes), inserts), loaded)| ShardBatch {
                shard,
                placement,
                clears: Arc::default(),
                loads: loads.to_vec(),
                loaded,
                deletes,
                inserts,
            })
            .collect()
    }

    /// The same batch, with graphs that are emptied first: each shard removes its own statements.
    #[must_use]
    pub fn clearing(mut self, graphs: &Arc<[TermId]>) -> ShardBatch {
        self.clears = Arc::clone(graphs);
        self
    }

    /// The number of half edges of the loads that belong to this shard.
    pub(crate) fn loaded(&self) -> usize {
        self.loaded
    }

    /// The loads as half edges.
    pub(crate) fn load_groups(&self) -> Vec<Group> {
        let mut splitter = Splitter::new(self.placement);
        splitter.only = Some(self.shard);
        for quad in self.loads.iter().flat_map(|load| load.iter()) {
            splitter.add(*quad);
        }
        splitter.groups.swap_remove(usize::from(self.shard.0))
    }

    /// The shard of this batch.
    pub fn shard(&self) -> ShardId {
        self.shard
    }

    /// Whether the batch is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0 && self.clears.is_empty()
    }

    /// Whether the batch does nothing but insert half edges of its own.
    pub(crate) fn only_inserts(&self) -> bool {
        let deletes = self.deletes.iter().all(|group| group.edges.is_empty());
        deletes && self.clears.is_empty() && self.loads.is_empty()
    }

    /// Memory of the half edges, without those of loads, which all shards share.
    pub fn bytes(&self) -> usize {
        let edges = self.len() - self.loaded;
        edges * size_of::<HalfEdge>()
    }

    /// The number of half edges, without those of cleared graphs.
    pub fn len(&self) -> usize {
        let groups = self.deletes.iter().chain(&self.inserts);
        self.loaded + groups.map(|group| group.edges.len()).sum::<usize>()
    }
}

/// The number of half edges of these loads for each shard.
fn halves(loads: &[Arc<[QuadIds]>], placement: Placement) -> Vec<usize> {
    let mut halves = vec![0; placement.shards().into()];
    if let [all] = &mut halves[..] {
        *all = 2 * loads.iter().map(|load| load.len()).sum::<usize>();
        return halves;
    }
    let kind = rdf_type();
    for quad in loads.iter().flat_map(|load| load.iter()) {
        let [from, to] = owners(quad, placement, kind);
        halves[usize::from(from.0)] += 1;
        halves[usize::from(to.0)] += 1;
    }
    halves
}

/// The owners of the out half and of the in half of a statement.
#[inline]
fn owners(quad: &QuadIds, placement: Placement, rdf_type: TermId) -> [ShardId; 2] {
    let from = placement.owner(quad.subject);
    if quad.predicate == rdf_type {
        return [from, from];
    }
    [from, placement.owner(quad.object)]
}

/// Puts half edges into groups per shard, graph and direction.
struct Splitter {
    placement: Placement,
    rdf_type: TermId,
    groups: Vec<Vec<Group>>,
    /// The places of a graph's groups: per shard the out and the in group.
    places: FxHashMap<TermId, usize>,
    /// Most statements follow one of the same graph.
    recent: Option<(TermId, usize)>,
    /// The only shard whose halves are kept, if set.
    only: Option<ShardId>,
    /// The number of half edges for which the groups of the first graph have room.
    room: usize,
}

impl Splitter {
    fn new(placement: Placement) -> Splitter {
        Splitter {
            placement,
            rdf_type: rdf_type(),
            groups: vec![Vec::new(); placement.shards().into()],
            places: FxHashMap::default(),
            recent: None,
            only: None,
            room: 0,
        }
    }

    fn add(&mut self, quad: QuadIds) {
        let place = match self.recent {
            Some((graph, place)) if graph == quad.graph => place,
            _ => self.place(quad.graph),
        };
        let [from, to] = owners(&quad, self.placement, self.rdf_type);
        let out = HalfEdge {
            vertex: quad.subject,
            predicate: quad.predicate,
            neighbour: quad.object,
        };
        let into = HalfEdge {
            vertex: quad.object,
            predicate: quad.predicate,
            neighbour: quad.subject,
        };
        for (owner, place, half) in [(from, place, out), (to, place + 1, into)] {
            if self.only.is_none_or(|only| only == owner) {
                self.groups[usize::from(owner.0)][place].edges.push(half);
            }
        }
    }

    fn place(&mut self, graph: TermId) -> usize {
        let (groups, room) = (&mut self.groups, &mut self.room);
        let place = *self.places.entry(graph).or_insert_with(|| {
            let room = std::mem::take(room);
            let place = groups[0].len();
            for shard in groups {
                shard.extend([Direction::Out, Direction::In].map(|direction| Group {
                    graph,
                    direction,
                    edges: Vec::with_capacity(room),
                }));
            }
            place
        });
        self.recent = Some((graph, place));
        place
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quad(subject: u64, predicate: TermId, object: u64) -> QuadIds {
        QuadIds {
            graph: TermId::DEFAULT_GRAPH,
            subject: TermId::from_raw(1 << 60 | subject << 58),
            predicate,
            object: TermId::from_raw(1 << 60 | object << 58),
        }
    }

    #[test]
    fn halves_go_to_the_owners_of_their_vertices() {
        let p = TermId::from_raw(1 << 60 | 77);
        let knows = Mutation::insert(quad(0, p, 1));
        let class = Mutation::insert(quad(2, rdf_type(), 1));
        let batches = ShardBatch::split(&[knows, class], Placement::new(4));
        let lengths: Vec<_> = batches.iter().map(ShardBatch::len).collect();
        assert_eq!(
            lengths,
            [1, 1, 2, 0],
            "a class's instance is with the instance"
        );
    }

    #[test]
    fn the_last_operation_wins_also_over_loads() {
        let p = TermId::from_raw(1 << 60 | 77);
        let (a, b, c) = (quad(0, p, 1), quad(0, p, 2), quad(0, p, 3));
        let loads: Arc<[QuadIds]> = [a, b].into();
        let mutations = [
            Mutation::delete(a),
            Mutation::delete(c),
            Mutation::insert(c),
        ];
        let loads = [loads];
        let batches = ShardBatch::split_with_loads(&loads, &mutations, Placement::new(1));
        let objects = |groups: &[Group]| -> Vec<TermId> {
            let mut objects: Vec<_> = groups[0].edges.iter().map(|e| e.neighbour).collect();
            objects.sort_unstable();
            objects.dedup();
            objects
        };
        assert_eq!(objects(&batches[0].deletes), [a.object]);
        assert_eq!(objects(&batches[0].inserts), [b.object, c.object]);
        assert_eq!(batches[0].loaded(), 0, "what is deleted too is not loaded");
        let batches = ShardBatch::split_with_loads(&loads, &mutations[2..], Placement::new(3));
        let of_loads = |batch: &ShardBatch| -> usize {
            let groups = batch.load_groups();
            groups.iter().map(|group| group.edges.len()).sum()
        };
        assert!(
            batches
                .iter()
                .all(|batch| batch.loaded() == of_loads(batch))
        );
        assert_eq!(batches.iter().map(ShardBatch::len).sum::<usize>(), 6);
    }
}
