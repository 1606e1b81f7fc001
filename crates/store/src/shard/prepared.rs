//! Insertions that wait for their SN, sorted by list while they wait.

use crate::half_edges::{Group, HalfEdge};
use crate::shard::batch::ShardBatch;
use crate::stretches::Stretches;
use somersault_model::{Direction, TermId};

/// Half edges of one shard that an SN will insert.
#[derive(Debug, Default)]
pub struct PreparedEdges {
    groups: Vec<PreparedGroup>,
}

#[derive(Debug)]
struct PreparedGroup {
    graph: TermId,
    direction: Direction,
    edges: Stretches<HalfEdge>,
}

impl PreparedEdges {
    /// Adds the insertions of a batch, which does nothing else.
    pub fn add(&mut self, batch: ShardBatch) {
        debug_assert!(batch.only_inserts(), "what is prepared only inserts");
        for Group {
            graph,
            direction,
            edges,
        } in batch.inserts
        {
            let is_its = |it: &&mut PreparedGroup| (it.graph, it.direction) == (graph, direction);
            match self.groups.iter_mut().find(is_its) {
                Some(group) => group.edges.add(edges),
                None => {
                    let mut group = PreparedGroup {
                        graph,
                        direction,
                        edges: Stretches::default(),
                    };
                    group.edges.add(edges);
                    self.groups.push(group);
                }
            }
        }
    }

    /// The number of half edges.
    pub fn len(&self) -> usize {
        self.groups.iter().map(|group| group.edges.len()).sum()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl ShardBatch {
    /// Adds insertions that were prepared.
    pub fn insert_prepared(&mut self, prepared: &PreparedEdges) {
        for PreparedGroup {
            graph,
            direction,
            edges,
        } in &prepared.groups
        {
            let (graph, direction) = (*graph, *direction);
            let edges = edges.rows();
            let is_its = |it: &&mut Group| (it.graph, it.direction) == (graph, direction);
            match self.inserts.iter_mut().find(is_its) {
                Some(group) => group.edges.extend_from_slice(edges),
                None => self.inserts.push(Group {
                    graph,
                    direction,
                    edges: edges.to_vec(),
                }),
            }
        }
    }
}
