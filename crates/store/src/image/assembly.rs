//! The last step of making an image: from the edges of each predicate to the indexes of each graph
//! and direction. Loads, restores and renewals share it; they differ in where the edges come from.

use super::edges::Edges;
use super::sets::Sets;
use super::vertices::Numbering;
use super::{DirectionIndex, Image, PredicateEdges, Sides};
use rustc_hash::FxHashMap;
use somersault_dictionary::rdf_type;
use somersault_model::{Direction, Placement, ShardId, TermId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A graph and a predicate.
pub(crate) type Label = (TermId, TermId);

/// The edges of one direction.
pub(crate) type LabelEdges = BTreeMap<Label, Arc<Edges>>;

/// All edges of an image to be.
pub(crate) struct Assembly {
    shard: ShardId,
    placement: Placement,
    room: u64,
    parts: Vec<GraphPart>,
}

/// The edges of one graph and direction.
pub(crate) struct GraphPart {
    graph: TermId,
    direction: Direction,
    edges: LabelEdges,
}

impl Assembly {
    /// The edges of both directions; `room` is one more than the highest sequence of a vertex.
    pub(crate) fn new(
        shard: ShardId,
        placement: Placement,
        room: u64,
        [mut out, mut into]: [LabelEdges; 2],
    ) -> Assembly {
        let labels = out.keys().chain(into.keys());
        let mut graphs: Vec<TermId> = labels.map(|(graph, _)| *graph).collect();
        graphs.sort_unstable();
        graphs.dedup();
        let mut parts = Vec::with_capacity(2 * graphs.len());
        for graph in graphs {
            for (direction, side) in [(Direction::Out, &mut out), (Direction::In, &mut into)] {
                let later = side.split_off(&(graph, TermId::from_raw(u64::MAX)));
                let edges = std::mem::replace(side, later);
                parts.push(GraphPart {
                    graph,
                    direction,
                    edges,
                });
            }
        }
        Assembly {
            shard,
            placement,
            room,
            parts,
        }
    }

    /// The parts to be indexed, for each graph `Out` before `In`.
    pub(crate) fn parts(&self) -> &[GraphPart] {
        &self.parts
    }

    /// The index of one part. What an older image has of it is shared, if its edges are the same.
    pub(crate) fn index(&self, part: &GraphPart, older: Option<&Image>) -> DirectionIndex {
        let GraphPart {
            graph,
            direction,
            edges,
        } = part;
        let predicates: Box<[TermId]> = edges.keys().map(|(_, predicate)| *predicate).collect();
        let spread = *direction == Direction::In && self.placement.shards() > 1;
        let in_sets: Vec<(TermId, &Edges)> = (edges.iter())
            .map(|((_, predicate), edges)| (*predicate, &**edges))
            .filter(|(predicate, _)| !(spread && *predicate == rdf_type()))
            .collect();
        let older = older.and_then(|older| older.side(*graph, *direction));
        let same = older.filter(|old| {
            old.predicates == predicates
                && (edges.iter())
                    .all(|((_, predicate), edges)| Arc::ptr_eq(&old.edges[predicate].edges, edges))
        });
        let sets = match same {
            Some(old) => Arc::clone(&old.sets),
            None => {
                let numbering = Numbering::new(self.shard, self.placement, self.room);
                Arc::new(Sets::build(&in_sets, numbering, true))
            }
        };
        let held = |((_, predicate), edges): (&Label, &Arc<Edges>)| {
            (*predicate, PredicateEdges::new(Arc::clone(edges)))
        };
        DirectionIndex {
            edges: edges.iter().map(held).collect(),
            length: edges.values().map(|edges| edges.len() as u64).sum(),
            predicates,
            sets,
        }
    }

    /// The image, from the indexes of all parts in their order.
    pub(crate) fn finish(self, indexes: Vec<DirectionIndex>) -> Image {
        let mut graphs = FxHashMap::default();
        let mut named = Vec::new();
        let mut indexes = indexes.into_iter();
        for part in self.parts.iter().step_by(2) {
            let (Some(out), Some(into)) = (indexes.next(), indexes.next()) else {
                unreachable!("each graph has two parts, and each part an index");
            };
            if part.graph != TermId::DEFAULT_GRAPH && !out.predicates.is_empty() {
                named.push(part.graph);
            }
            graphs.insert(part.graph, Sides([out, into]));
        }
        Image {
            graphs,
            named: named.into(),
            room: self.room,
            spread: self.placement.shards() > 1,
        }
    }
}
