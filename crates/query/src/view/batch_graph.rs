//! A batch as a graph: its statements in two sorted lists, one for each direction.
//!
//! The one thing to know before changing it: most batches are one message of a few statements,
//! which a few steps read once each. So a batch has no index to build and to tear down, and a
//! lookup is a search in a sorted list, which serves large batches as well.

use somersault_model::{Direction, TermId, TripleIds};
use somersault_store::{Pace, PredicateStatistics};

/// The statements of one batch.
#[derive(Debug, Default)]
pub(crate) struct BatchGraph {
    /// Predicate, subject, object; ascending, each once.
    out: Vec<[TermId; 3]>,
    /// Predicate, object, subject; ascending, each once.
    within: Vec<[TermId; 3]>,
}

impl BatchGraph {
    /// Fills the graph, which is empty.
    pub(crate) fn fill(&mut self, triples: impl Iterator<Item = TripleIds>) {
        self.out
            .extend(triples.map(|it| [it.predicate, it.subject, it.object]));
        let turned = self.out.iter().map(|[p, s, o]| [*p, *o, *s]);
        self.within.extend(turned);
        for list in [&mut self.out, &mut self.within] {
            list.sort_unstable();
            list.dedup();
        }
    }

    /// Empties the graph.
    pub(crate) fn clear(&mut self) {
        self.out.clear();
        self.within.clear();
    }

    /// The bytes of its statements.
    pub(crate) fn bytes(&self) -> usize {
        self.len() * 2 * size_of::<[TermId; 3]>()
    }

    /// The number of its statements.
    pub(crate) fn len(&self) -> usize {
        self.out.len()
    }

    fn list(&self, direction: Direction) -> &[[TermId; 3]] {
        match direction {
            Direction::Out => &self.out,
            Direction::In => &self.within,
        }
    }

    /// The edges with a predicate: the predicate, the vertex, the other end; ascending.
    pub(crate) fn edges(&self, predicate: TermId, direction: Direction) -> &[[TermId; 3]] {
        equal(self.list(direction), 0, predicate)
    }

    pub(crate) fn contains(&self, triple: TripleIds) -> bool {
        let wanted = [triple.predicate, triple.subject, triple.object];
        self.out.binary_search(&wanted).is_ok()
    }

    /// The number of neighbours.
    pub(crate) fn degree(&self, vertex: TermId, predicate: TermId, direction: Direction) -> usize {
        equal(self.edges(predicate, direction), 1, vertex).len()
    }

    /// Appends the edges of a predicate until the pace says to stop.
    pub(crate) fn edges_until(
        &self,
        predicate: TermId,
        direction: Direction,
        pace: &mut Pace<'_>,
        vertices: &mut Vec<TermId>,
        neighbours: &mut Vec<TermId>,
    ) {
        for of_vertex in self
            .edges(predicate, direction)
            .chunk_by(|a, b| a[1] == b[1])
        {
            if pace.ends(neighbours.len()) {
                return;
            }
            for [_, vertex, other] in of_vertex {
                vertices.push(*vertex);
                neighbours.push(*other);
            }
        }
    }

    /// Writes the neighbours to `into`; ascending.
    pub(crate) fn neighbours(
        &self,
        vertex: TermId,
        predicate: TermId,
        direction: Direction,
        into: &mut Vec<TermId>,
    ) {
        let edges = equal(self.edges(predicate, direction), 1, vertex);
        into.clear();
        into.extend(edges.iter().map(|[_, _, other]| *other));
    }

    /// Writes the vertices that have edges with a predicate to `into`; ascending.
    pub(crate) fn vertices_with(
        &self,
        predicate: TermId,
        direction: Direction,
        into: &mut Vec<TermId>,
    ) {
        into.clear();
        into.extend(self.edges(predicate, direction).iter().map(|edge| edge[1]));
        into.dedup();
    }

    /// Writes the predicates of a vertex to `into`; ascending.
    pub(crate) fn predicates_of(
        &self,
        vertex: TermId,
        direction: Direction,
        into: &mut Vec<TermId>,
    ) {
        into.clear();
        let of_it = self.list(direction).iter().filter(|edge| edge[1] == vertex);
        into.extend(of_it.map(|edge| edge[0]));
        into.dedup();
    }

    /// All predicates; ascending.
    pub(crate) fn predicates(&self) -> Vec<TermId> {
        let mut all: Vec<TermId> = self.out.iter().map(|edge| edge[0]).collect();
        all.dedup();
        all
    }

    pub(crate) fn predicate_statistics(&self, predicate: TermId) -> PredicateStatistics {
        let vertices = |direction| {
            let edges = self.edges(predicate, direction);
            edges.chunk_by(|a, b| a[1] == b[1]).count() as u64
        };
        PredicateStatistics {
            statements: self.edges(predicate, Direction::Out).len() as u64,
            subjects: vertices(Direction::Out),
            objects: vertices(Direction::In),
        }
    }
}

/// The rows of a list, which are alike in the columns before this one, that have a value in it.
fn equal(list: &[[TermId; 3]], column: usize, value: TermId) -> &[[TermId; 3]] {
    let begin = list.partition_point(|row| row[column] < value);
    let list = &list[begin..];
    &list[..list.partition_point(|row| row[column] == value)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::layer::Layer;
    use proptest::prelude::*;

    const DIRECTIONS: [Direction; 2] = [Direction::Out, Direction::In];

    /// What a read writes to its buffer, which is not empty before.
    fn read(into: impl FnOnce(&mut Vec<TermId>)) -> Vec<TermId> {
        let mut ids = vec![TermId::UNBOUND];
        into(&mut ids);
        ids
    }

    proptest! {
        /// A batch is read as a layer with its statements.
        #[test]
        fn a_batch_is_read_as_a_layer(
            rows in prop::collection::vec((1_u64..6, 1_u64..4, 1_u64..6), 0..40),
        ) {
            let id = TermId::from_raw;
            let triples: Vec<TripleIds> =
                rows.iter().map(|(s, p, o)| TripleIds::new(id(*s), id(*p), id(*o))).collect();
            let (graph, mut layer) = (TermId::kept_graph(1), Layer::default());
            for triple in &triples {
                layer.set(triple.in_graph(graph), Some(true));
            }
            layer.index();
            let mut batch = BatchGraph::default();
            batch.fill([TripleIds::new(id(9), id(9), id(9))].into_iter());
            batch.clear();
            batch.fill(triples.iter().copied());
            prop_assert_eq!(batch.len(), layer.counts(graph).0);
            let mut predicates: Vec<TermId> = layer.predicates(graph).collect();
            predicates.sort_unstable();
            prop_assert_eq!(batch.predicates(), predicates);
            for (one, direction) in (0..7).flat_map(|n| DIRECTIONS.map(|way| (id(n), way))) {
                let mut all = Vec::new();
                if let Some(entries) = layer.predicates_of(graph, one, direction) {
                    all.extend(entries.iter().map(|(id, ())| id));
                }
                prop_assert_eq!(read(|into| batch.predicates_of(one, direction, into)), all);
                let mut all = Vec::new();
                if let Some(entries) = layer.vertices_with(graph, one, direction) {
                    all.extend(entries.iter().map(|(id, ())| id));
                }
                let statistics = batch.predicate_statistics(one);
                let vertices = match direction {
                    Direction::Out => statistics.subjects,
                    Direction::In => statistics.objects,
                };
                prop_assert_eq!(vertices, all.len() as u64);
                prop_assert_eq!(read(|into| batch.vertices_with(one, direction, into)), all);
                for vertex in (0..7).map(id) {
                    let mut all = Vec::new();
                    if let Some(list) = layer.list(graph, vertex, one, direction) {
                        list.apply(&[], &mut all);
                    }
                    prop_assert_eq!(batch.degree(vertex, one, direction), all.len());
                    let found = read(|into| batch.neighbours(vertex, one, direction, into));
                    prop_assert_eq!(found, all);
                    let triple = TripleIds::new(vertex, one, vertex);
                    let holds = layer.holds(triple.in_graph(graph)) == Some(true);
                    prop_assert_eq!(batch.contains(triple), holds);
                }
            }
        }
    }
}
