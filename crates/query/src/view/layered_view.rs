//! The view of a transaction: a snapshot, on it what committed since in two layers, and beside them
//! the batches and owned windows of procedures. A read goes straight to the snapshot unless a layer
//! says something of its key.
//!
//! The one thing to know before changing it: layers hold what the snapshot may hold by now, too
//! (`layer`). So lists are merged, and nothing is counted from the numbers of entries alone.

use crate::view::batch_graph::BatchGraph;
use crate::view::graph_view::{Columns, Dataset, GraphView, Source};
use crate::view::id_entries::IdEntries;
use crate::view::kept_edges::{ColumnKey, KeptEdges};
use crate::view::layer::{Layer, ListPatch};
use crate::view::term_source::TermSource;
use somersault_model::{Direction, QuadIds, TermId, TripleIds};
use somersault_store::{Pace, PinEnd, PredicateStatistics, Snapshot};

/// The data that transactions read.
pub(crate) struct Layers {
    base: Snapshot,
    /// What committed up to a point.
    older: Layer,
    /// What committed since, and what the transaction in flight has written.
    newer: Layer,
    /// Owned windows. There is nothing below them.
    pub(crate) kept: Layer,
    batches: Batches,
    edges: KeptEdges,
}

/// What a layer said of a cleared graph.
#[derive(Debug)]
pub(crate) struct ClearedGraph {
    was_cleared: bool,
    said: Vec<(QuadIds, bool)>,
}

/// The batches that a transaction reads at the moment.
#[derive(Default)]
struct Batches {
    /// With their marks; the one that was shown last comes last.
    shown: Vec<(TermId, BatchGraph)>,
    /// Those that are no longer shown, for the next ones.
    spare: Vec<BatchGraph>,
}

/// The ids of a list, as far as a reader of one wants to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Only {
    None,
    One(TermId),
    Several,
}

impl Only {
    /// With one more id of the list; whether a further one would change nothing.
    fn add(&mut self, id: TermId) -> bool {
        *self = match *self {
            Only::None => Only::One(id),
            Only::One(other) if other == id => Only::One(id),
            Only::One(_) | Only::Several => Only::Several,
        };
        *self == Only::Several
    }
}

/// The parts of the data that have statements of one graph.
struct Parts<'l> {
    base: Option<&'l Snapshot>,
    layers: [Option<&'l Layer>; 2],
}

impl Layers {
    pub(crate) fn new(base: Snapshot) -> Layers {
        Layers {
            base,
            older: Layer::default(),
            newer: Layer::default(),
            kept: Layer::default(),
            batches: Batches::default(),
            edges: KeptEdges::default(),
        }
    }

    /// The snapshot below.
    pub(crate) fn base(&self) -> &Snapshot {
        &self.base
    }

    /// Whether something committed that is not sealed.
    pub(crate) fn has_unsealed(&self) -> bool {
        !self.newer.is_empty()
    }

    /// Whether the snapshot has all that committed.
    pub(crate) fn is_settled(&self) -> bool {
        self.older.is_empty() && self.newer.is_empty()
    }

    /// Makes what committed so far the older layer. Returns false, and does nothing, while there is
    /// an older layer already.
    pub(crate) fn seal(&mut self) -> bool {
        let can = self.older.is_empty();
        if can {
            std::mem::swap(&mut self.older, &mut self.newer);
        }
        can
    }

    /// Goes to a newer snapshot, which may lack what was sealed.
    pub(crate) fn rebase(&mut self, base: Snapshot) {
        self.base = base;
        self.edges.clear();
    }

    /// Goes to a snapshot that has all that was sealed.
    pub(crate) fn advance(&mut self, base: Snapshot) {
        self.rebase(base);
        self.older = Layer::default();
    }

    /// A statement begins or ceases to hold. Returns what the newer layer said of it before.
    pub(crate) fn set(&mut self, quad: QuadIds, holds: bool) -> Option<bool> {
        self.edges.change(quad, holds);
        self.newer.set(quad, Some(holds))
    }

    /// Takes back that a statement began or ceased to hold.
    pub(crate) fn undo(&mut self, quad: QuadIds, held: bool, said: Option<bool>) {
        self.edges.change(quad, held);
        self.newer.set(quad, said);
    }

    /// Lets the newer layer say of a statement what it said before; it holds or not as it did.
    pub(crate) fn say_as_before(&mut self, quad: QuadIds, said: Option<bool>) {
        self.newer.set(quad, said);
    }

    /// Clears a graph, whatever the snapshot has of it.
    pub(crate) fn clear(&mut self, graph: TermId) -> ClearedGraph {
        self.edges.clear();
        let said = self.newer.take_graph(graph);
        let was_cleared = self.newer.set_cleared(graph, true);
        ClearedGraph { was_cleared, said }
    }

    /// Takes back that a graph was cleared.
    pub(crate) fn undo_clear(&mut self, graph: TermId, cleared: ClearedGraph) {
        self.edges.clear();
        self.newer.set_cleared(graph, cleared.was_cleared);
        for (quad, holds) in cleared.said {
            self.newer.set(quad, Some(holds));
        }
    }

    /// Shows a batch under a mark.
    pub(crate) fn show(&mut self, mark: TermId, statements: impl Iterator<Item = TripleIds>) {
        let mut batch = self.batches.spare.pop().unwrap_or_default();
        batch.fill(statements);
        self.batches.shown.push((mark, batch));
    }

    /// Hides the batch that was shown last.
    pub(crate) fn hide(&mut self) {
        if let Some((_, mut batch)) = self.batches.shown.pop() {
            batch.clear();
            self.batches.spare.push(batch);
        }
    }

    #[inline]
    fn batch(&self, graph: TermId) -> Option<&BatchGraph> {
        if !graph.is_kept_graph() {
            return None;
        }
        let mut shown = self.batches.shown.iter().rev();
        let found = shown.find(|(mark, _)| *mark == graph);
        found.map(|(_, batch)| batch)
    }

    /// Makes what was written readable in every way, as a [`LayeredView`] reads it.
    pub(crate) fn index(&mut self) {
        for layer in [&mut self.older, &mut self.newer, &mut self.kept] {
            layer.index();
        }
    }

    #[inline]
    fn parts(&self, graph: TermId) -> Parts<'_> {
        if graph.is_kept_graph() {
            return Parts {
                base: None,
                layers: [None, Some(&self.kept)],
            };
        }
        let only = |layer: &'_ Layer| !layer.is_empty();
        let newer = Some(&self.newer).filter(|layer| only(layer));
        if self.newer.is_cleared(graph) {
            return Parts {
                base: None,
                layers: [None, newer],
            };
        }
        Parts {
            base: (!self.older.is_cleared(graph)).then_some(&self.base),
            layers: [Some(&self.older).filter(|layer| only(layer)), newer],
        }
    }

    /// Whether a statement holds.
    pub(crate) fn holds(&self, quad: QuadIds) -> bool {
        if let Some(batch) = self.batch(quad.graph) {
            return batch.contains(quad.triple());
        }
        let parts = self.parts(quad.graph);
        let mut layers = parts.layers.iter().rev().flatten();
        let said = layers.find_map(|layer| layer.holds(quad));
        said.unwrap_or_else(|| parts.base.is_some_and(|base| base.contains(quad)))
    }

    /// The only id of a list. A list of subjects is to be read after [`Layers::index`].
    pub(crate) fn only(
        &self,
        graph: TermId,
        vertex: TermId,
        predicate: TermId,
        direction: Direction,
        scratch: &mut Vec<TermId>,
    ) -> Only {
        let mut only = Only::None;
        if let Some(batch) = self.batch(graph) {
            batch.neighbours(vertex, predicate, direction, scratch);
            let _ = scratch.iter().any(|id| only.add(*id));
            return only;
        }
        let Parts { base, layers } = self.parts(graph);
        let [older, newer] = layers.map(|layer| layer?.list(graph, vertex, predicate, direction));
        let says = |patch: Option<&ListPatch>, id| patch.is_some_and(|patch| patch.mentions(id));
        let committed = newer.into_iter().flat_map(ListPatch::inserted);
        let sealed = older.into_iter().flat_map(ListPatch::inserted);
        let mut above = committed.chain(sealed.filter(|id| !says(newer, *id)));
        if above.any(|id| only.add(id)) {
            return only;
        }
        if let Some(base) = base {
            let list = base.neighbours(graph, vertex, predicate, direction, scratch);
            let mut rest = list.iter().copied();
            let _ = rest.any(|id| !says(newer, id) && !says(older, id) && only.add(id));
        }
        only
    }

    /// The edges of a batch with a predicate: predicate, subject, object.
    pub(crate) fn batch_edges(&self, batch: TermId, predicate: TermId) -> &[[TermId; 3]] {
        let batch = self.batch(batch);
        batch.map_or(&[], |batch| batch.edges(predicate, Direction::Out))
    }

    /// The bytes of what committed since the snapshot, and of the transaction in flight.
    pub(crate) fn bytes(&self) -> usize {
        let batches = self.batches.shown.iter();
        let batches: usize = batches.map(|(_, batch)| batch.bytes()).sum();
        self.older.bytes() + self.newer.bytes() + self.kept.bytes() + batches
    }

    /// The ids of a list; ascending. A list of subjects is to be read after [`Layers::index`].
    pub(crate) fn neighbours<'a>(
        &'a self,
        graph: TermId,
        vertex: TermId,
        predicate: TermId,
        direction: Direction,
        scratch: &'a mut Vec<TermId>,
    ) -> &'a [TermId] {
        if let Some(batch) = self.batch(graph) {
            batch.neighbours(vertex, predicate, direction, scratch);
            return scratch;
        }
        let parts = self.parts(graph);
        let change = |layer: &Option<&'a Layer>| -> Option<&'a ListPatch> {
            (*layer)?.list(graph, vertex, predicate, direction)
        };
        let base = |scratch: &'a mut Vec<TermId>| -> &'a [TermId] {
            match parts.base {
                Some(base) => base.neighbours(graph, vertex, predicate, direction, scratch),
                None => &[],
            }
        };
        let mut changes = parts.layers.iter().filter_map(change);
        let Some(first) = changes.next() else {
            return base(scratch);
        };
        let mut own = Vec::new();
        let list: &[TermId] = match parts.base {
            Some(base) => base.neighbours(graph, vertex, predicate, direction, &mut own),
            None => &[],
        };
        let Some(second) = changes.next() else {
            first.apply(list, scratch);
            return scratch;
        };
        let mut between = Vec::new();
        first.apply(list, &mut between);
        second.apply(&between, scratch);
        scratch
    }

    /// The ids of the base's list and of the layers' entries in an index; ascending.
    fn with_entries<'a>(
        parts: &Parts<'a>,
        entries: impl Fn(&'a Layer) -> Option<&'a IdEntries<()>>,
        base: &[TermId],
        all: &mut Vec<TermId>,
    ) {
        all.clear();
        all.extend_from_slice(base);
        let before = all.len();
        for entries in parts.layers.iter().flatten().filter_map(|l| entries(l)) {
            all.extend(entries.iter().map(|(id, ())| id));
        }
        if before > 0 || parts.layers.iter().flatten().count() > 1 {
            all.sort_unstable();
            all.dedup();
        }
    }

    fn predicates_of<'a>(
        &'a self,
        graph: TermId,
        vertex: TermId,
        direction: Direction,
        scratch: &'a mut Vec<TermId>,
    ) -> &'a [TermId] {
        if let Some(batch) = self.batch(graph) {
            batch.predicates_of(vertex, direction, scratch);
            return scratch;
        }
        let parts = self.parts(graph);
        let entries = |layer: &'a Layer| layer.predicates_of(graph, vertex, direction);
        let layers = || parts.layers.iter().flatten();
        if !layers().any(|layer| entries(layer).is_some()) {
            return match parts.base {
                Some(base) => base.predicates_of(graph, vertex, direction, scratch),
                None => &[],
            };
        }
        let mut own = Vec::new();
        let base = (parts.base).map_or(&[][..], |base| {
            base.predicates_of(graph, vertex, direction, &mut own)
        });
        Self::with_entries(&parts, entries, base, scratch);
        let mut list = Vec::new();
        let is_left = |predicate: &TermId| {
            let is_touched = |layer: &&Layer| {
                entries_of(layer.predicates_of(graph, vertex, direction), *predicate)
            };
            !layers().any(is_touched)
                || !self
                    .neighbours(graph, vertex, *predicate, direction, &mut list)
                    .is_empty()
        };
        retain(scratch, is_left);
        scratch
    }

    fn vertices_with<'a>(
        &'a self,
        graph: TermId,
        predicate: TermId,
        direction: Direction,
        scratch: &'a mut Vec<TermId>,
    ) -> &'a [TermId] {
        if let Some(batch) = self.batch(graph) {
            batch.vertices_with(predicate, direction, scratch);
            return scratch;
        }
        let parts = self.parts(graph);
        let entries = |layer: &'a Layer| layer.vertices_with(graph, predicate, direction);
        let layers = || parts.layers.iter().flatten();
        if !layers().any(|layer| entries(layer).is_some()) {
            return match parts.base {
                Some(base) => base.vertices_with(graph, predicate, direction, scratch),
                None => &[],
            };
        }
        let mut own = Vec::new();
        let base = (parts.base).map_or(&[][..], |base| {
            base.vertices_with(graph, predicate, direction, &mut own)
        });
        Self::with_entries(&parts, entries, base, scratch);
        let mut list = Vec::new();
        // Only a vertex of which a layer says something can have lost its last edge.
        let is_left = |vertex: &TermId| {
            let is_touched = |layer: &&Layer| {
                entries_of(layer.vertices_with(graph, predicate, direction), *vertex)
            };
            !layers().any(is_touched)
                || !self
                    .neighbours(graph, *vertex, predicate, direction, &mut list)
                    .is_empty()
        };
        retain(scratch, is_left);
        scratch
    }

    /// Appends the edges of a predicate until the pace says to stop.
    fn edges(
        &self,
        (graph, predicate, direction): ColumnKey,
        pace: &mut Pace<'_>,
        vertices: &mut Vec<TermId>,
        neighbours: &mut Vec<TermId>,
    ) {
        if let Some(batch) = self.batch(graph) {
            return batch.edges_until(predicate, direction, pace, vertices, neighbours);
        }
        let key = (graph, predicate, direction);
        if self.edges.read(key, pace, vertices, neighbours) {
            return;
        }
        let first = neighbours.len();
        let is_whole = self.merged_edges(key, pace, vertices, neighbours);
        if is_whole && !graph.is_kept_graph() {
            let (vertices, neighbours) = (&vertices[first..], &neighbours[first..]);
            self.edges.keep(key, vertices, neighbours);
        }
    }

    /// Appends the edges of a predicate from the snapshot and the layers; false if the pace said to
    /// stop before the end. Only lists of which a layer says something are merged.
    fn merged_edges(
        &self,
        (graph, predicate, direction): ColumnKey,
        pace: &mut Pace<'_>,
        vertices: &mut Vec<TermId>,
        neighbours: &mut Vec<TermId>,
    ) -> bool {
        let Parts { base, layers } = self.parts(graph);
        let mut touched: Vec<TermId> = Vec::new();
        for layer in layers.iter().flatten() {
            if let Some(entries) = layer.vertices_with(graph, predicate, direction) {
                touched.extend(entries.iter().map(|(vertex, ())| vertex));
            }
        }
        touched.sort_unstable();
        touched.dedup();
        let (mut index, mut list) = (Vec::new(), Vec::new());
        let mut merged = [Vec::new(), Vec::new()];
        let below = (base).map_or(&[][..], |base| {
            base.vertices_with(graph, predicate, direction, &mut index)
        });
        let mut below = below.iter().copied().peekable();
        let mut above = touched.into_iter().peekable();
        while let Some(vertex) = least(below.peek(), above.peek()) {
            if pace.ends(neighbours.len()) {
                return false;
            }
            let is_below = below.next_if_eq(&vertex).is_some();
            let found = match base.filter(|_| is_below) {
                Some(base) => base.neighbours(graph, vertex, predicate, direction, &mut list),
                None => &[],
            };
            let found = match above.next_if_eq(&vertex) {
                Some(_) => {
                    let patches =
                        layers.map(|layer| layer?.list(graph, vertex, predicate, direction));
                    merge(found, patches, &mut merged)
                }
                None => found,
            };
            neighbours.extend_from_slice(found);
            vertices.resize(neighbours.len(), vertex);
        }
        true
    }

    fn predicates(&self, graph: TermId) -> Vec<TermId> {
        if let Some(batch) = self.batch(graph) {
            return batch.predicates();
        }
        let parts = self.parts(graph);
        let mut all = parts.base.map_or(Vec::new(), |base| base.predicates(graph));
        let before = all.len();
        for layer in parts.layers.iter().flatten() {
            all.extend(layer.predicates(graph));
        }
        if all.len() > before {
            all.sort_unstable();
            all.dedup();
            let mut list = Vec::new();
            all.retain(|predicate| {
                !self
                    .vertices_with(graph, *predicate, Direction::Out, &mut list)
                    .is_empty()
            });
        }
        all
    }

    fn neighbour_estimate(
        &self,
        graph: TermId,
        vertex: TermId,
        predicate: TermId,
        direction: Direction,
    ) -> usize {
        if let Some(batch) = self.batch(graph) {
            return batch.degree(vertex, predicate, direction);
        }
        let parts = self.parts(graph);
        let base = (parts.base).map_or(0, |base| {
            base.neighbour_estimate(graph, vertex, predicate, direction)
        });
        let lists = parts.layers.iter().flatten();
        let lists = lists.filter_map(|layer| layer.list(graph, vertex, predicate, direction));
        base + lists.map(ListPatch::growth).sum::<usize>()
    }

    fn statement_count(&self, graph: TermId) -> u64 {
        if let Some(batch) = self.batch(graph) {
            return batch.len() as u64;
        }
        let parts = self.parts(graph);
        let mut count = parts.base.map_or(0, |base| base.statement_count(graph));
        for layer in parts.layers.iter().flatten() {
            let (inserted, deleted) = layer.counts(graph);
            count = (count + inserted as u64).saturating_sub(deleted as u64);
        }
        count
    }

    fn predicate_statistics(&self, graph: TermId, predicate: TermId) -> PredicateStatistics {
        if let Some(batch) = self.batch(graph) {
            return batch.predicate_statistics(predicate);
        }
        let parts = self.parts(graph);
        match parts.base {
            // The layers are small compared with the graph; counting them is not worth the time.
            Some(base) => base.predicate_statistics(graph, predicate),
            None => {
                let layers = || parts.layers.iter().flatten();
                let ends = |direction| {
                    let entries =
                        layers().filter_map(|l| l.vertices_with(graph, predicate, direction));
                    entries.map(|set| set.len() as u64).sum()
                };
                let (subjects, objects) = (ends(Direction::Out), ends(Direction::In));
                PredicateStatistics {
                    statements: u64::max(subjects, objects),
                    subjects,
                    objects,
                }
            }
        }
    }

    fn stored_graphs(&self) -> Vec<TermId> {
        let mut graphs = self.base.graphs();
        let is_named = |graph: &TermId| *graph != TermId::DEFAULT_GRAPH;
        graphs.extend(self.older.graphs().filter(is_named));
        graphs.extend(self.newer.graphs().filter(is_named));
        graphs.sort_unstable();
        graphs.dedup();
        let is_as_below = |graph: TermId| {
            let layers = [&self.older, &self.newer];
            !layers
                .iter()
                .any(|layer| layer.touches(graph) || layer.is_cleared(graph))
        };
        graphs.retain(|graph| is_as_below(*graph) || !self.predicates(*graph).is_empty());
        graphs
    }
}

/// The lesser of two.
fn least(one: Option<&TermId>, other: Option<&TermId>) -> Option<TermId> {
    one.into_iter().chain(other).min().copied()
}

/// A list with what layers say of it, the older one first.
fn merge<'m>(
    list: &'m [TermId],
    patches: [Option<&ListPatch>; 2],
    [between, merged]: &'m mut [Vec<TermId>; 2],
) -> &'m [TermId] {
    match patches {
        [None, None] => return list,
        [Some(only), None] | [None, Some(only)] => only.apply(list, merged),
        [Some(older), Some(newer)] => {
            older.apply(list, between);
            newer.apply(between, merged);
        }
    }
    merged
}

fn entries_of(set: Option<&IdEntries<()>>, id: TermId) -> bool {
    set.is_some_and(|set| set.get(id).is_some())
}

/// [`Vec::retain`] with a condition that changes.
fn retain(list: &mut Vec<TermId>, mut is_left: impl FnMut(&TermId) -> bool) {
    list.retain(|id| is_left(id));
}

/// The data of a transaction as the dataset of one query. It is read after [`Layers::index`].
pub(crate) struct LayeredView<'t> {
    pub(crate) layers: &'t Layers,
    pub(crate) dataset: &'t Dataset,
}

impl LayeredView<'_> {
    fn graph(source: Source) -> TermId {
        match source {
            Source::Stored(graph) => graph,
            Source::Window(_) => unreachable!("the dataset of a transaction has no stream windows"),
        }
    }
}

impl GraphView for LayeredView<'_> {
    fn dictionary(&self) -> TermSource<'_> {
        TermSource::Here(self.layers.base.store().dictionary())
    }

    fn dataset(&self) -> &Dataset {
        self.dataset
    }

    fn stored_graphs(&self) -> Vec<TermId> {
        self.layers.stored_graphs()
    }

    #[inline]
    fn neighbours<'a>(
        &'a self,
        source: Source,
        vertex: TermId,
        predicate: TermId,
        direction: Direction,
        scratch: &'a mut Vec<TermId>,
    ) -> &'a [TermId] {
        let graph = Self::graph(source);
        self.layers
            .neighbours(graph, vertex, predicate, direction, scratch)
    }

    fn neighbour_estimate(
        &self,
        source: Source,
        vertex: TermId,
        predicate: TermId,
        direction: Direction,
    ) -> usize {
        let graph = Self::graph(source);
        self.layers
            .neighbour_estimate(graph, vertex, predicate, direction)
    }

    fn contains(&self, source: Source, triple: TripleIds) -> bool {
        self.layers.holds(triple.in_graph(Self::graph(source)))
    }

    fn columns(&self, source: Source, predicate: TermId) -> Option<Columns<'_>> {
        let graph = Self::graph(source);
        let Parts { base, layers } = self.layers.parts(graph);
        let says = |layer: &Layer| layer.says_of(graph, predicate);
        let is_untouched = !layers.into_iter().flatten().any(says);
        base.filter(|_| is_untouched)
            .map(|base| Columns::Stored(base, graph))
    }

    fn edges(
        &self,
        source: Source,
        predicate: TermId,
        direction: Direction,
        pace: &mut Pace<'_>,
        vertices: &mut Vec<TermId>,
        neighbours: &mut Vec<TermId>,
    ) {
        let key = (Self::graph(source), predicate, direction);
        self.layers.edges(key, pace, vertices, neighbours);
    }

    fn predicates_of<'a>(
        &'a self,
        source: Source,
        vertex: TermId,
        direction: Direction,
        scratch: &'a mut Vec<TermId>,
    ) -> &'a [TermId] {
        let graph = Self::graph(source);
        self.layers.predicates_of(graph, vertex, direction, scratch)
    }

    fn vertices_with<'a>(
        &'a self,
        source: Source,
        predicate: TermId,
        direction: Direction,
        scratch: &'a mut Vec<TermId>,
    ) -> &'a [TermId] {
        let graph = Self::graph(source);
        (self.layers).vertices_with(graph, predicate, direction, scratch)
    }

    fn predicates(&self, source: Source) -> Vec<TermId> {
        self.layers.predicates(Self::graph(source))
    }

    fn predicate_statistics(&self, source: Source, predicate: TermId) -> PredicateStatistics {
        let graph = Self::graph(source);
        self.layers.predicate_statistics(graph, predicate)
    }

    fn statement_count(&self, source: Source) -> u64 {
        self.layers.statement_count(Self::graph(source))
    }

    fn end(&self) -> Option<PinEnd> {
        self.layers.base.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use somersault_model::{Mutation, ShardId, Sn};
    use somersault_store::{ShardBatch, ShardWriter, Store};
    use std::ops::ControlFlow;
    use std::sync::Arc;

    type Small = (bool, u64, u64, u64);

    #[derive(Debug, Clone)]
    enum Act {
        Set(Small, bool),
        Undo,
        Clear(bool),
        UndoClear,
        Seal,
        /// A snapshot that has what was sealed, and a foreign statement.
        Advance(Small),
        Read(u64, bool),
    }

    fn act() -> impl Strategy<Value = Act> {
        let small = || (prop::bool::weighted(0.2), 1u64..5, 1u64..3, 1u64..5);
        prop_oneof![
            8 => (small(), any::<bool>()).prop_map(|(it, holds)| Act::Set(it, holds)),
            2 => Just(Act::Undo),
            1 => any::<bool>().prop_map(Act::Clear),
            1 => Just(Act::UndoClear),
            1 => Just(Act::Seal),
            1 => small().prop_map(Act::Advance),
            4 => (1u64..3, any::<bool>()).prop_map(|(predicate, out)| Act::Read(predicate, out)),
        ]
    }

    struct Place {
        store: Arc<Store>,
        writer: ShardWriter,
        sn: u64,
        ids: Vec<TermId>,
    }

    impl Place {
        fn new() -> Place {
            let store = Store::new(1);
            let writer = store.take_writer(ShardId(0)).expect("the first writer");
            store.snapshots().publish_stable(Sn(0));
            let name = |n: u64| oxrdf::NamedNode::new_unchecked(format!("http://x/{n}"));
            let intern = |n| store.dictionary().intern(name(n).as_ref().into());
            let ids = (0..12).map(intern).collect();
            Place {
                store,
                writer,
                sn: 0,
                ids,
            }
        }

        fn quad(&self, (is_named, subject, predicate, object): Small) -> QuadIds {
            QuadIds {
                graph: self.graph(is_named),
                subject: self.ids[subject as usize],
                predicate: self.ids[4 + predicate as usize],
                object: self.ids[object as usize],
            }
        }

        fn graph(&self, is_named: bool) -> TermId {
            match is_named {
                true => self.ids[0],
                false => TermId::DEFAULT_GRAPH,
            }
        }

        fn apply(&mut self, mutations: &[Mutation]) -> Snapshot {
            self.sn += 1;
            for batch in ShardBatch::split(mutations, self.store.placement()) {
                self.writer.apply(Sn(self.sn), &batch).expect("in order");
            }
            self.store.snapshots().publish_stable(Sn(self.sn));
            self.store.pin_stable()
        }
    }

    fn read(
        walk: impl FnOnce(&mut Pace<'_>, &mut Vec<TermId>, &mut Vec<TermId>),
    ) -> Vec<[TermId; 2]> {
        let (mut vertices, mut others) = (Vec::new(), Vec::new());
        let mut look = |_| ControlFlow::Continue(());
        walk(
            &mut Pace::new(0, usize::MAX, &mut look),
            &mut vertices,
            &mut others,
        );
        vertices
            .into_iter()
            .zip(others)
            .map(|(vertex, other)| [vertex, other])
            .collect()
    }

    fn compare(layers: &mut Layers, key: ColumnKey) {
        layers.index();
        let merged = read(|pace, vertices, others| {
            assert!(layers.merged_edges(key, pace, vertices, others));
        });
        for _ in 0..2 {
            let kept = read(|pace, vertices, others| layers.edges(key, pace, vertices, others));
            assert_eq!(kept, merged);
        }
    }

    /// What can be undone.
    enum Done {
        Set(QuadIds, bool, Option<bool>),
        Clear(TermId, ClearedGraph),
    }

    /// Ends the transaction: nothing of it can be undone.
    fn commit(done: &mut Vec<Done>, committed: &mut Vec<Mutation>) {
        for it in done.drain(..) {
            if let Done::Set(quad, holds, _) = it {
                committed.push(match holds {
                    true => Mutation::insert(quad),
                    false => Mutation::delete(quad),
                });
            }
        }
    }

    proptest! {
        /// Kept edges are what the snapshot and the layers come to, whatever happens between.
        #[test]
        fn kept_edges_are_those_of_the_layers(
            stored in prop::collection::vec((prop::bool::weighted(0.2), 1u64..5, 1u64..3, 1u64..5), 0..12),
            acts in prop::collection::vec(act(), 1..60),
        ) {
            let mut place = Place::new();
            let stored: Vec<Mutation> = stored.into_iter().map(|it| Mutation::insert(place.quad(it))).collect();
            let mut layers = Layers::new(place.apply(&stored));
            let mut done = Vec::new();
            let (mut committed, mut sealed) = (Vec::new(), Vec::new());
            for act in acts {
                match act {
                    Act::Set(it, holds) => {
                        let quad = place.quad(it);
                        if layers.holds(quad) != holds {
                            done.push(Done::Set(quad, holds, layers.set(quad, holds)));
                        }
                    }
                    Act::Clear(is_named) => {
                        let graph = place.graph(is_named);
                        done.push(Done::Clear(graph, layers.clear(graph)));
                    }
                    Act::Undo | Act::UndoClear => match done.pop() {
                        Some(Done::Set(quad, holds, said)) => layers.undo(quad, !holds, said),
                        Some(Done::Clear(graph, cleared)) => layers.undo_clear(graph, cleared),
                        None => {}
                    },
                    // A clear is no statement that could be applied to the store.
                    Act::Seal | Act::Advance(_) if done.iter().any(|it| matches!(it, Done::Clear(..))) => {}
                    Act::Seal => {
                        commit(&mut done, &mut committed);
                        if layers.seal() {
                            sealed.append(&mut committed);
                        }
                    }
                    Act::Advance(foreign) => {
                        commit(&mut done, &mut committed);
                        let mut mutations = std::mem::take(&mut sealed);
                        let quad = place.quad(foreign);
                        if !mutations.iter().any(|it| it.quad == quad) {
                            mutations.push(Mutation::insert(quad));
                        }
                        layers.advance(place.apply(&mutations));
                    }
                    Act::Read(predicate, is_out) => {
                        let direction = if is_out { Direction::Out } else { Direction::In };
                        for is_named in [false, true] {
                            let key = (place.graph(is_named), place.ids[4 + predicate as usize], direction);
                            compare(&mut layers, key);
                        }
                    }
                }
            }
            for predicate in 1..3 {
                for direction in [Direction::Out, Direction::In] {
                    compare(&mut layers, (TermId::DEFAULT_GRAPH, place.ids[4 + predicate], direction));
                }
            }
        }
    }
}
