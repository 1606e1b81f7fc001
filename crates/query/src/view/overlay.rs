//! An update's own writes between its operations (S14): the statements it has inserted and deleted
//! so far, beside the snapshot that it is evaluated on. The overlay keeps only net changes: a
//! statement that was inserted and deleted again is not in it.

use rustc_hash::FxHashMap;
use somersault_model::{Direction, QuadIds, TermId, TripleIds};
use std::collections::BTreeSet;
use std::collections::hash_map::Entry;

/// The net changes of one list of neighbours. Sets, since an operation may take a million members
/// from the list of a class one by one, in any order.
#[derive(Debug, Default)]
pub(crate) struct ListChange {
    /// Inserted ids; none is in the snapshot's list.
    inserted: BTreeSet<TermId>,
    /// Deleted ids; all are in the snapshot's list.
    deleted: BTreeSet<TermId>,
}

impl ListChange {
    /// Applies the changes to `base`, the snapshot's list, and writes the result to `out`;
    /// ascending.
    pub(crate) fn merge(&self, base: &[TermId], out: &mut Vec<TermId>) {
        out.clear();
        let mut inserted = self.inserted.iter().copied().peekable();
        let mut deleted = self.deleted.iter().copied().peekable();
        for id in base {
            while let Some(new) = inserted.next_if(|new| new < id) {
                out.push(new);
            }
            if deleted.next_if_eq(id).is_none() {
                out.push(*id);
            }
        }
        out.extend(inserted);
    }

    /// An upper bound of the ids that the list has more than the snapshot's.
    pub(crate) fn growth(&self) -> usize {
        self.inserted.len()
    }
}

/// The net changes of one graph, by key in both directions.
#[derive(Debug, Default)]
pub(crate) struct GraphChanges {
    lists: FxHashMap<(TermId, TermId, Direction), ListChange>,
    predicates: FxHashMap<(TermId, Direction), BTreeSet<TermId>>,
    vertices: FxHashMap<(TermId, Direction), BTreeSet<TermId>>,
    inserted: usize,
    deleted: usize,
}

impl GraphChanges {
    pub(crate) fn neighbours(
        &self,
        vertex: TermId,
        predicate: TermId,
        direction: Direction,
    ) -> Option<&ListChange> {
        self.lists.get(&(vertex, predicate, direction))
    }

    /// Whether the triple holds; `None` if this graph's changes do not mention it.
    pub(crate) fn contains(&self, triple: TripleIds) -> Option<bool> {
        let change = self.neighbours(triple.subject, triple.predicate, Direction::Out)?;
        if change.inserted.contains(&triple.object) {
            Some(true)
        } else if change.deleted.contains(&triple.object) {
            Some(false)
        } else {
            None
        }
    }

    pub(crate) fn predicates_of(
        &self,
        vertex: TermId,
        direction: Direction,
    ) -> Option<&BTreeSet<TermId>> {
        self.predicates.get(&(vertex, direction))
    }

    pub(crate) fn vertices_with(
        &self,
        predicate: TermId,
        direction: Direction,
    ) -> Option<&BTreeSet<TermId>> {
        self.vertices.get(&(predicate, direction))
    }

    pub(crate) fn predicates(&self) -> impl Iterator<Item = TermId> + '_ {
        self.vertices.keys().map(|(predicate, _)| *predicate)
    }

    pub(crate) fn inserted(&self) -> usize {
        self.inserted
    }

    pub(crate) fn deleted(&self) -> usize {
        self.deleted
    }

    /// The changes of a list; increases `bytes` by the memory of new entries.
    fn list(
        &mut self,
        vertex: TermId,
        predicate: TermId,
        direction: Direction,
        bytes: &mut usize,
    ) -> &mut ListChange {
        match self.lists.entry((vertex, predicate, direction)) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let predicates = self.predicates.entry((vertex, direction)).or_default();
                if predicates.is_empty() {
                    *bytes += VERTEX_BYTES;
                }
                predicates.insert(predicate);
                let vertices = self.vertices.entry((predicate, direction)).or_default();
                vertices.insert(vertex);
                *bytes += LIST_BYTES + 2 * ID_BYTES;
                new.insert(ListChange::default())
            }
        }
    }
}

/// Bytes of the first change to a list, beside its ids: its entry in the map, which is half empty
/// at worst, and its first allocation.
const LIST_BYTES: usize = 192;
/// Bytes of the first change to a vertex's predicates: an entry of a map and a node of a set.
const VERTEX_BYTES: usize = 176;
/// Bytes of one more id in a list or set, which is half empty at worst.
const ID_BYTES: usize = 16;

/// The net changes of all graphs.
#[derive(Debug, Default)]
pub(crate) struct Overlay {
    /// Graphs whose statements in the snapshot no longer count.
    cleared: BTreeSet<TermId>,
    graphs: FxHashMap<TermId, GraphChanges>,
    bytes: usize,
}

impl Overlay {
    pub(crate) fn graph(&self, graph: TermId) -> Option<&GraphChanges> {
        self.graphs.get(&graph)
    }

    /// Clears a graph: its statements in the snapshot, and the own writes to it.
    pub(crate) fn clear(&mut self, graph: TermId) {
        self.graphs.remove(&graph);
        if self.cleared.insert(graph) {
            self.bytes += ID_BYTES;
        }
    }

    /// Whether a graph's statements in the snapshot were cleared.
    pub(crate) fn is_cleared(&self, graph: TermId) -> bool {
        self.cleared.contains(&graph)
    }

    /// The graphs that were cleared.
    pub(crate) fn cleared(&self) -> impl Iterator<Item = TermId> + '_ {
        self.cleared.iter().copied()
    }

    pub(crate) fn graphs(&self) -> impl Iterator<Item = TermId> + '_ {
        self.graphs.keys().copied()
    }

    /// The approximate bytes of the changes; undone changes are not subtracted.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Makes the statement hold; `stored` says whether the snapshot holds it.
    pub(crate) fn insert(&mut self, quad: QuadIds, stored: bool) {
        self.set(quad, stored, true);
    }

    /// Makes the statement not hold; `stored` says whether the snapshot holds it.
    pub(crate) fn delete(&mut self, quad: QuadIds, stored: bool) {
        self.set(quad, stored, false);
    }

    fn set(&mut self, quad: QuadIds, stored: bool, holds: bool) {
        let graph = self.graphs.entry(quad.graph).or_default();
        // What the snapshot holds is among the deleted, or is no change; the rest is among the
        // inserted.
        let is_change = stored != holds;
        let mut counted = false;
        for (vertex, direction, other) in ends(quad) {
            let list = graph.list(vertex, quad.predicate, direction, &mut self.bytes);
            let changed = match stored {
                true => &mut list.deleted,
                false => &mut list.inserted,
            };
            counted = match is_change {
                true => changed.insert(other),
                false => changed.remove(&other),
            };
            self.bytes += if counted { ID_BYTES } else { 0 };
        }
        let count = match stored {
            true => &mut graph.deleted,
            false => &mut graph.inserted,
        };
        match is_change {
            true => *count += usize::from(counted),
            false => *count -= usize::from(counted),
        }
    }

    /// All net deletes and all net inserts, in the order of their ids.
    pub(crate) fn into_effects(self) -> (Vec<QuadIds>, Vec<QuadIds>) {
        let (mut deletes, mut inserts) = (Vec::new(), Vec::new());
        for (graph, changes) in self.graphs {
            for ((subject, predicate, direction), list) in changes.lists {
                if direction == Direction::In {
                    continue;
                }
                let quad = |object| TripleIds::new(subject, predicate, object).in_graph(graph);
                deletes.extend(list.deleted.into_iter().map(quad));
                inserts.extend(list.inserted.into_iter().map(quad));
            }
        }
        deletes.sort_unstable();
        inserts.sort_unstable();
        (deletes, inserts)
    }
}

fn ends(quad: QuadIds) -> [(TermId, Direction, TermId); 2] {
    [
        (quad.subject, Direction::Out, quad.object),
        (quad.object, Direction::In, quad.subject),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn quad(subject: u64, object: u64) -> QuadIds {
        let id = TermId::from_raw;
        TripleIds::new(id(subject), id(100), id(object)).in_graph(TermId::DEFAULT_GRAPH)
    }

    /// The neighbours of a vertex in a set of statements, read naively.
    fn neighbours(quads: &BTreeSet<QuadIds>, vertex: TermId, direction: Direction) -> Vec<TermId> {
        let all = quads.iter().flat_map(|quad| ends(*quad));
        let found = all.filter(|(from, way, _)| (*from, *way) == (vertex, direction));
        let set: BTreeSet<TermId> = found.map(|(.., other)| other).collect();
        set.into_iter().collect()
    }

    proptest! {
        #[test]
        fn a_snapshot_with_an_overlay_reads_as_the_set_does(
            stored in prop::collection::btree_set((1u64..5, 10u64..16), 0..20),
            steps in prop::collection::vec((1u64..5, 10u64..16, any::<bool>()), 0..60),
        ) {
            let stored: BTreeSet<QuadIds> = stored.iter().map(|(s, o)| quad(*s, *o)).collect();
            let mut model = stored.clone();
            let mut overlay = Overlay::default();
            for (subject, object, insert) in steps {
                let quad = quad(subject, object);
                if insert {
                    overlay.insert(quad, stored.contains(&quad));
                    model.insert(quad);
                } else {
                    overlay.delete(quad, stored.contains(&quad));
                    model.remove(&quad);
                }
            }
            let changes = overlay.graph(TermId::DEFAULT_GRAPH);
            let ways = [(1..5, Direction::Out), (10..16, Direction::In)];
            for (vertex, direction) in ways.into_iter().flat_map(|(ids, way)| ids.map(move |id| (id, way))) {
                let vertex = TermId::from_raw(vertex);
                let mut found = neighbours(&stored, vertex, direction);
                let predicate = TermId::from_raw(100);
                if let Some(change) = changes.and_then(|c| c.neighbours(vertex, predicate, direction)) {
                    let base = std::mem::take(&mut found);
                    change.merge(&base, &mut found);
                    prop_assert!(found.len() <= base.len() + change.growth());
                }
                prop_assert_eq!(found, neighbours(&model, vertex, direction));
            }
            for (subject, object) in (1..5).flat_map(|s| (10..16).map(move |o| (s, o))) {
                let quad = quad(subject, object);
                let own = changes.and_then(|changes| changes.contains(quad.triple()));
                prop_assert_eq!(own.unwrap_or(stored.contains(&quad)), model.contains(&quad));
            }
            let counts = changes.map_or((0, 0), |c| (c.deleted(), c.inserted()));
            let (deletes, inserts) = overlay.into_effects();
            prop_assert_eq!(counts, (deletes.len(), inserts.len()));
            prop_assert_eq!(deletes, stored.difference(&model).copied().collect::<Vec<_>>());
            prop_assert_eq!(inserts, model.difference(&stored).copied().collect::<Vec<_>>());
        }
    }
}
