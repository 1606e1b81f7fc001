//! The own writes of an update that has several operations (S14): what it inserted and deleted so
//! far, beside the snapshot that it is evaluated on. Only net changes are kept: a statement that was
//! inserted and deleted again is not here.

use rustc_hash::FxHashMap;
use somersault_model::{Direction, QuadIds, TermId, TripleIds};
use std::collections::BTreeSet;
use std::collections::hash_map::Entry;

/// The net changes of one list of neighbours; both ascending.
#[derive(Debug, Default)]
pub(crate) struct ListChange {
    pub(crate) inserted: Vec<TermId>,
    pub(crate) deleted: Vec<TermId>,
}

impl ListChange {
    /// `base` with the changes applied, into `out`; ascending.
    pub(crate) fn merge(&self, base: &[TermId], out: &mut Vec<TermId>) {
        out.clear();
        out.extend(
            base.iter()
                .filter(|id| self.deleted.binary_search(id).is_err()),
        );
        out.extend(&self.inserted);
        out.sort_unstable();
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

    /// Whether the triple holds, if this graph's changes say anything about it.
    pub(crate) fn contains(&self, triple: TripleIds) -> Option<bool> {
        let change = self.neighbours(triple.subject, triple.predicate, Direction::Out)?;
        if change.inserted.binary_search(&triple.object).is_ok() {
            Some(true)
        } else if change.deleted.binary_search(&triple.object).is_ok() {
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

    /// The changes of a list; `bytes` grows by what is new.
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

/// What a list takes that has not been touched before, beside its ids: its place in the map, which is
/// half empty at worst, and its first allocation.
const LIST_BYTES: usize = 192;
/// What a vertex takes whose predicates have not been touched before: a map's place and a set's node.
const VERTEX_BYTES: usize = 176;
/// What one more id in a list or set takes, which is half empty at worst.
const ID_BYTES: usize = 16;

/// The net changes of all graphs.
#[derive(Debug, Default)]
pub(crate) struct Overlay {
    graphs: FxHashMap<TermId, GraphChanges>,
    bytes: usize,
}

impl Overlay {
    pub(crate) fn graph(&self, graph: TermId) -> Option<&GraphChanges> {
        self.graphs.get(&graph)
    }

    pub(crate) fn graphs(&self) -> impl Iterator<Item = TermId> + '_ {
        self.graphs.keys().copied()
    }

    /// What the changes take, roughly; what was taken back is not given back.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Makes the statement hold; `stored` says whether the snapshot holds it.
    pub(crate) fn insert(&mut self, quad: QuadIds, stored: bool) {
        let graph = self.graphs.entry(quad.graph).or_default();
        let mut counted = false;
        for (vertex, direction, other) in ends(quad) {
            let list = graph.list(vertex, quad.predicate, direction, &mut self.bytes);
            counted = if stored {
                remove(&mut list.deleted, other)
            } else {
                add(&mut list.inserted, other)
            };
            self.bytes += if counted { ID_BYTES } else { 0 };
        }
        match (counted, stored) {
            (false, _) => {}
            (true, true) => graph.deleted -= 1,
            (true, false) => graph.inserted += 1,
        }
    }

    /// Makes the statement not hold; `stored` says whether the snapshot holds it.
    pub(crate) fn delete(&mut self, quad: QuadIds, stored: bool) {
        let graph = self.graphs.entry(quad.graph).or_default();
        let mut counted = false;
        for (vertex, direction, other) in ends(quad) {
            let list = graph.list(vertex, quad.predicate, direction, &mut self.bytes);
            counted = if stored {
                add(&mut list.deleted, other)
            } else {
                remove(&mut list.inserted, other)
            };
            self.bytes += if counted { ID_BYTES } else { 0 };
        }
        match (counted, stored) {
            (false, _) => {}
            (true, true) => graph.deleted += 1,
            (true, false) => graph.inserted -= 1,
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

fn add(list: &mut Vec<TermId>, id: TermId) -> bool {
    match list.binary_search(&id) {
        Ok(_) => false,
        Err(at) => {
            list.insert(at, id);
            true
        }
    }
}

fn remove(list: &mut Vec<TermId>, id: TermId) -> bool {
    match list.binary_search(&id) {
        Ok(at) => {
            list.remove(at);
            true
        }
        Err(_) => false,
    }
}
