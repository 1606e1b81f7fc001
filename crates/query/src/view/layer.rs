//! Changes of stored graphs that no snapshot has yet: of each statement whether it holds, by both
//! ends. Layers lie on a snapshot, the newer one on the older one.
//!
//! The one thing to know before changing it: a layer says what holds, not what differs from the
//! data below. What it inserts may be below already, and what it deletes may be absent there.
//! Lists of objects are written at once. Lists of subjects and the indexes follow when
//! [`Layer::index`] is called, for most transactions read no more than a few lists of objects.

use crate::view::id_entries::IdEntries;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use somersault_model::{Direction, QuadIds, TermId, TripleIds, scattered};
use std::collections::BTreeSet;
use std::hash::{Hash, Hasher};

/// The bytes of one statement in a layer: two lists with one entry each, and their places in maps
/// that are half empty at worst.
const STATEMENT_BYTES: usize = 512;

/// What a layer says of one list of neighbours. An account that changes its balance a thousand
/// times has a thousand ids in `gone`, and one in `here`.
#[derive(Debug, Default)]
pub(crate) struct ListPatch {
    /// The ids that are in the list.
    here: IdEntries<()>,
    /// The ids that are not in it.
    gone: IdEntries<()>,
}

impl ListPatch {
    fn is_empty(&self) -> bool {
        self.here.is_empty() && self.gone.is_empty()
    }

    /// Whether an id is in the list, if it says so.
    fn says(&self, id: TermId) -> Option<bool> {
        match (self.here.get(id), self.gone.get(id)) {
            (Some(()), _) => Some(true),
            (None, Some(())) => Some(false),
            (None, None) => None,
        }
    }

    /// Says whether an id is in the list, or nothing of it.
    fn set(&mut self, id: TermId, holds: Option<bool>) {
        self.here.set(id, (holds == Some(true)).then_some(()));
        self.gone.set(id, (holds == Some(false)).then_some(()));
    }

    /// Writes the list that it makes of `base` to `out`; ascending.
    pub(crate) fn apply(&self, base: &[TermId], out: &mut Vec<TermId>) {
        out.clear();
        self.copy_unmentioned(base, out);
        // From behind, so that each id moves once.
        let mut unmoved = out.len();
        let mut end = unmoved + self.here.len();
        out.resize(end, TermId::UNBOUND);
        for (id, ()) in self.here.iter().rev() {
            let at = out[..unmoved].partition_point(|other| *other < id);
            end -= unmoved - at;
            out.copy_within(at..unmoved, end);
            end -= 1;
            out[end] = id;
            unmoved = at;
        }
    }

    /// Adds the ids of a list of which it says nothing.
    fn copy_unmentioned(&self, base: &[TermId], out: &mut Vec<TermId>) {
        if base.len() <= self.here.len() + self.gone.len() {
            out.extend(base.iter().filter(|id| !self.mentions(**id)));
            return;
        }
        let mentioned = self.here.iter().chain(self.gone.iter());
        let places = mentioned.filter_map(|(id, ())| base.binary_search(&id).ok());
        let mut places: SmallVec<[usize; 8]> = places.collect();
        places.sort_unstable();
        let mut from = 0;
        for place in places {
            out.extend_from_slice(&base[from..place]);
            from = place + 1;
        }
        out.extend_from_slice(&base[from..]);
    }

    /// The ids that it puts into the list, ascending.
    pub(crate) fn inserted(&self) -> impl Iterator<Item = TermId> + '_ {
        self.here.iter().map(|(id, ())| id)
    }

    /// Whether it says anything of an id.
    pub(crate) fn mentions(&self, id: TermId) -> bool {
        self.says(id).is_some()
    }

    /// Each id of which it says something, and whether it is in the list; in no order.
    fn said(&self) -> impl Iterator<Item = (TermId, bool)> + '_ {
        let here = self.here.iter().map(|(id, ())| (id, true));
        here.chain(self.gone.iter().map(|(id, ())| (id, false)))
    }

    /// An upper bound of the ids that the list has more than the one below.
    pub(crate) fn growth(&self) -> usize {
        self.here.len()
    }
}

/// A list of neighbours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ListKey {
    graph: TermId,
    vertex: TermId,
    predicate: TermId,
    direction: Direction,
}

impl ListKey {
    /// The list of a vertex that a statement is in.
    fn of(quad: QuadIds, vertex: TermId, direction: Direction) -> ListKey {
        ListKey {
            graph: quad.graph,
            vertex,
            predicate: quad.predicate,
            direction,
        }
    }
}

/// A vertex or a predicate of a graph, in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct IndexKey {
    graph: TermId,
    of: TermId,
    direction: Direction,
}

/// Mixes once for all parts.
impl Hash for ListKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let predicate = self.predicate.raw().rotate_left(23);
        let graph = self.graph.raw().rotate_left(46);
        let key = self.vertex.raw() ^ predicate ^ graph ^ self.direction as u64;
        state.write_u64(scattered(key));
    }
}

impl Hash for IndexKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let graph = self.graph.raw().rotate_left(46);
        state.write_u64(scattered(self.of.raw() ^ graph ^ self.direction as u64));
    }
}

/// The numbers of entries of a graph.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    inserted: usize,
    deleted: usize,
}

/// What holds in some graphs, whatever is below.
#[derive(Debug, Default)]
pub(crate) struct Layer {
    /// Those of `Direction::In` are behind by the statements of `unindexed`.
    lists: FxHashMap<ListKey, ListPatch>,
    /// The predicates of a vertex whose lists have entries; behind as well.
    predicates: FxHashMap<IndexKey, IdEntries<()>>,
    /// The vertices whose lists of a predicate have entries; behind as well.
    vertices: FxHashMap<IndexKey, IdEntries<()>>,
    /// Statements of which something else was said since the last [`Layer::index`].
    unindexed: Vec<QuadIds>,
    graphs: FxHashMap<TermId, Counts>,
    /// Graphs whose statements below do not hold.
    cleared: BTreeSet<TermId>,
    entries: usize,
}

/// This many statements may wait for [`Layer::index`], with as many as the layer has.
const FEW_UNINDEXED: usize = 1 << 10;

impl Layer {
    /// Whether it says nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries == 0 && self.cleared.is_empty()
    }

    /// The approximate bytes that it takes.
    pub(crate) fn bytes(&self) -> usize {
        self.entries * STATEMENT_BYTES
    }

    /// Whether it says something of single statements of a graph.
    pub(crate) fn touches(&self, graph: TermId) -> bool {
        self.graphs.contains_key(&graph)
    }

    /// The graphs of whose single statements it says something.
    pub(crate) fn graphs(&self) -> impl Iterator<Item = TermId> + '_ {
        self.graphs.keys().copied()
    }

    /// The numbers of statements of a graph that it inserts and deletes.
    pub(crate) fn counts(&self, graph: TermId) -> (usize, usize) {
        let counts = self.graphs.get(&graph).copied().unwrap_or_default();
        (counts.inserted, counts.deleted)
    }

    /// Whether no statement below it holds in a graph.
    pub(crate) fn is_cleared(&self, graph: TermId) -> bool {
        !self.cleared.is_empty() && self.cleared.contains(&graph)
    }

    /// Whether all lists and indexes say what it says of statements.
    pub(crate) fn is_indexed(&self) -> bool {
        self.unindexed.is_empty()
    }

    /// What it says of a list. One of subjects (`Direction::In`) is to be read after
    /// [`Layer::index`].
    #[inline]
    pub(crate) fn list(
        &self,
        graph: TermId,
        vertex: TermId,
        predicate: TermId,
        direction: Direction,
    ) -> Option<&ListPatch> {
        debug_assert!(direction == Direction::Out || self.is_indexed());
        if self.entries == 0 {
            return None;
        }
        self.lists.get(&ListKey {
            graph,
            vertex,
            predicate,
            direction,
        })
    }

    /// What it says of a statement.
    pub(crate) fn holds(&self, quad: QuadIds) -> Option<bool> {
        let QuadIds {
            graph,
            subject,
            predicate,
            object,
        } = quad;
        self.list(graph, subject, predicate, Direction::Out)?
            .says(object)
    }

    /// The predicates of a vertex of which it says something.
    pub(crate) fn predicates_of(
        &self,
        graph: TermId,
        vertex: TermId,
        direction: Direction,
    ) -> Option<&IdEntries<()>> {
        debug_assert!(self.is_indexed());
        self.predicates.get(&IndexKey {
            graph,
            of: vertex,
            direction,
        })
    }

    /// The vertices of whose edges with a predicate it says something.
    pub(crate) fn vertices_with(
        &self,
        graph: TermId,
        predicate: TermId,
        direction: Direction,
    ) -> Option<&IdEntries<()>> {
        debug_assert!(self.is_indexed());
        self.vertices.get(&IndexKey {
            graph,
            of: predicate,
            direction,
        })
    }

    /// Whether it says something of statements of a graph with a predicate.
    pub(crate) fn says_of(&self, graph: TermId, predicate: TermId) -> bool {
        self.vertices_with(graph, predicate, Direction::Out)
            .is_some()
    }

    /// The predicates of a graph of which it says something.
    pub(crate) fn predicates(&self, graph: TermId) -> impl Iterator<Item = TermId> + '_ {
        debug_assert!(self.is_indexed());
        let keys = self.vertices.keys();
        let of_graph =
            keys.filter(move |key| key.graph == graph && key.direction == Direction::Out);
        of_graph.map(|key| key.of)
    }

    /// Says of a statement whether it holds, or nothing; returns what it said before.
    pub(crate) fn set(&mut self, quad: QuadIds, holds: Option<bool>) -> Option<bool> {
        let before = self.holds(quad);
        if before == holds {
            return before;
        }
        let [(subject, direction, object), _] = ends(quad);
        self.set_in(ListKey::of(quad, subject, direction), object, holds);
        self.count(quad.graph, before, holds);
        if self.unindexed.len() >= self.entries + FEW_UNINDEXED {
            self.index();
        }
        self.unindexed.push(quad);
        before
    }

    /// Says in one list whether an id is there. Whether the list has entries now.
    fn set_in(&mut self, key: ListKey, id: TermId, holds: Option<bool>) -> bool {
        let list = self.lists.entry(key).or_default();
        list.set(id, holds);
        let has_entries = !list.is_empty();
        if !has_entries {
            self.lists.remove(&key);
        }
        has_entries
    }

    /// Brings the lists of subjects and the indexes up to date. All reads but those of
    /// [`Layer::holds`] and of lists of objects need it.
    pub(crate) fn index(&mut self) {
        let mut unindexed = std::mem::take(&mut self.unindexed);
        for quad in unindexed.drain(..) {
            let said = self.holds(quad);
            let [(subject, out, _), (object, into, _)] = ends(quad);
            let key = ListKey::of(quad, subject, out);
            let has_entries = self.lists.contains_key(&key);
            self.index_list(key, has_entries);
            let key = ListKey::of(quad, object, into);
            let has_entries = self.set_in(key, subject, said);
            self.index_list(key, has_entries);
        }
        self.unindexed = unindexed;
    }

    /// Lists, or no longer lists, a list among those of its vertex and of its predicate.
    fn index_list(&mut self, key: ListKey, is_there: bool) {
        let ListKey {
            graph,
            vertex,
            predicate,
            direction,
        } = key;
        let places = [
            (&mut self.predicates, vertex, predicate),
            (&mut self.vertices, predicate, vertex),
        ];
        for (map, of, id) in places {
            let at = IndexKey {
                graph,
                of,
                direction,
            };
            let set = map.entry(at).or_default();
            set.set(id, is_there.then_some(()));
            if set.is_empty() {
                map.remove(&at);
            }
        }
    }

    fn count(&mut self, graph: TermId, before: Option<bool>, holds: Option<bool>) {
        let counts = self.graphs.entry(graph).or_default();
        match before {
            Some(true) => counts.inserted -= 1,
            Some(false) => counts.deleted -= 1,
            None => self.entries += 1,
        }
        match holds {
            Some(true) => counts.inserted += 1,
            Some(false) => counts.deleted += 1,
            None => self.entries -= 1,
        }
        if counts.inserted + counts.deleted == 0 {
            self.graphs.remove(&graph);
        }
    }

    /// The statements of a graph that it inserts, in no order.
    pub(crate) fn statements(&self, graph: TermId) -> Vec<QuadIds> {
        let said = self.said_of(graph).into_iter();
        said.filter_map(|(quad, holds)| holds.then_some(quad))
            .collect()
    }

    fn said_of(&self, graph: TermId) -> Vec<(QuadIds, bool)> {
        let mut said = Vec::new();
        if !self.touches(graph) {
            return said;
        }
        for (key, subjects) in &self.vertices {
            if key.graph != graph || key.direction != Direction::Out {
                continue;
            }
            for (subject, ()) in subjects.iter() {
                if let Some(list) = self.list(graph, subject, key.of, Direction::Out) {
                    said.extend(list.said().map(|(object, holds)| {
                        let triple = TripleIds::new(subject, key.of, object);
                        (triple.in_graph(graph), holds)
                    }));
                }
            }
        }
        let unindexed = self.unindexed.iter().filter(|quad| quad.graph == graph);
        said.extend(unindexed.filter_map(|quad| Some((*quad, self.holds(*quad)?))));
        said.sort_unstable();
        said.dedup();
        said
    }

    /// Takes away all that it says of single statements of a graph.
    pub(crate) fn take_graph(&mut self, graph: TermId) -> Vec<(QuadIds, bool)> {
        let taken = self.said_of(graph);
        for (quad, _) in &taken {
            self.set(*quad, None);
        }
        taken
    }

    /// Says that no statement below it holds in a graph, or says so no longer; returns whether it
    /// said so before.
    pub(crate) fn set_cleared(&mut self, graph: TermId, is_cleared: bool) -> bool {
        match is_cleared {
            true => !self.cleared.insert(graph),
            false => self.cleared.remove(&graph),
        }
    }
}

/// Both ends of a statement, each with the way to the other one.
pub(crate) fn ends(quad: QuadIds) -> [(TermId, Direction, TermId); 2] {
    [
        (quad.subject, Direction::Out, quad.object),
        (quad.object, Direction::In, quad.subject),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

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
        fn a_list_with_a_layer_reads_as_the_set_does(
            stored in prop::collection::btree_set((1u64..4, 10u64..90), 0..60),
            steps in prop::collection::vec((1u64..4, 10u64..90, prop::option::of(any::<bool>())), 0..120),
        ) {
            let stored: BTreeSet<QuadIds> = stored.iter().map(|(s, o)| quad(*s, *o)).collect();
            let (mut said, mut layer) = (BTreeMap::new(), Layer::default());
            for (subject, object, holds) in steps {
                let quad = quad(subject, object);
                let before = match holds {
                    Some(holds) => said.insert(quad, holds),
                    None => said.remove(&quad),
                };
                prop_assert_eq!(layer.set(quad, holds), before);
            }
            layer.index();
            let model: BTreeSet<QuadIds> = stored
                .iter()
                .filter(|quad| !said.contains_key(quad))
                .chain(said.iter().filter_map(|(quad, holds)| holds.then_some(quad)))
                .copied()
                .collect();
            let ways = [(1..4, Direction::Out), (10..90, Direction::In)];
            for (vertex, direction) in ways.into_iter().flat_map(|(ids, way)| ids.map(move |id| (id, way))) {
                let (vertex, predicate) = (TermId::from_raw(vertex), TermId::from_raw(100));
                let mut found = neighbours(&stored, vertex, direction);
                let list = layer.list(TermId::DEFAULT_GRAPH, vertex, predicate, direction);
                let vertices = layer.vertices_with(TermId::DEFAULT_GRAPH, predicate, direction);
                prop_assert_eq!(vertices.is_some_and(|set| set.get(vertex).is_some()), list.is_some());
                if let Some(change) = list {
                    let base = std::mem::take(&mut found);
                    change.apply(&base, &mut found);
                    prop_assert!(found.len() <= base.len() + change.growth());
                }
                prop_assert_eq!(found, neighbours(&model, vertex, direction));
            }
            let inserted = said.values().filter(|holds| **holds).count();
            prop_assert_eq!(layer.counts(TermId::DEFAULT_GRAPH), (inserted, said.len() - inserted));
            let mut taken = layer.take_graph(TermId::DEFAULT_GRAPH);
            taken.sort_unstable();
            prop_assert_eq!(taken, said.into_iter().collect::<Vec<_>>());
            layer.index();
            prop_assert!(layer.is_empty() && layer.lists.is_empty() && layer.vertices.is_empty());
        }
    }
}
