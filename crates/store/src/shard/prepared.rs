//! Insertions that wait for their SN, split by graph and direction while they wait.

use crate::half_edges::Group;
use crate::shard::batch::ShardBatch;

/// Half edges of one shard that an SN will insert.
#[derive(Debug, Default)]
pub struct PreparedEdges {
    groups: Vec<Group>,
}

impl PreparedEdges {
    /// Adds the insertions of a batch, which does nothing else.
    pub fn add(&mut self, batch: ShardBatch) {
        debug_assert!(batch.only_inserts(), "what is prepared only inserts");
        add_groups(&mut self.groups, batch.inserts);
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
    pub fn insert_prepared(&mut self, prepared: PreparedEdges) {
        add_groups(&mut self.inserts, prepared.groups);
    }
}

/// Adds the half edges of some groups to others. Their order does not matter.
fn add_groups(to: &mut Vec<Group>, groups: Vec<Group>) {
    for mut group in groups {
        let label = (group.graph, group.direction);
        match to.iter_mut().find(|it| (it.graph, it.direction) == label) {
            Some(same) => {
                // The shorter ones are copied.
                if same.edges.len() < group.edges.len() {
                    std::mem::swap(&mut same.edges, &mut group.edges);
                }
                same.edges.append(&mut group.edges);
            }
            None => to.push(group),
        }
    }
}
