//! Filling an empty shard from lists of edges that come in the order of their keys, as a
//! [`ListReader`](crate::ListReader) gave them: the lists go into the arrays of an image as they
//! come. Lists of other shards are passed over, so the number of shards may differ from that of the
//! store that the lists are from.

use crate::half_edges::{Group, HalfEdge, ListKey};
use crate::image::{Assembly, EdgesBuilder, LabelEdges, Numbering, parallel, room_for};
use crate::lists::Key;
use crate::shard::writer::ShardWriter;
use parking_lot::Mutex;
use somersault_dictionary::rdf_type;
use somersault_model::{Direction, ShardId, Sn, TermId};
use std::sync::Arc;

/// The reason why a shard could not be restored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// Keys ascend without repeats.
    #[error(
        "a list of shard {} comes after another with the same or a higher key; merge the runs that \
         it is restored from", .0.0
    )]
    OutOfOrder(ShardId),
    /// Members of a list are ids of terms and ascend without repeats, and its key names an edge.
    #[error("a list for shard {} names no term or does not ascend; its file is damaged", .0.0)]
    NoList(ShardId),
    /// The shard holds something, or the SN is not after what it shows.
    #[error("shard {} is not empty or is at a later snapshot; restore into a new store", .shard.0)]
    NotEmpty {
        /// The shard.
        shard: ShardId,
    },
}

/// Takes the lists of one shard.
pub struct ShardRestore {
    writer: ShardWriter,
    sn: Sn,
    last: Option<ListKey>,
    /// One more than the highest sequence of a vertex.
    room: u64,
    labels: Vec<RestoredLabel>,
    scratch: Vec<TermId>,
}

/// The edges of one direction, graph and predicate.
struct RestoredLabel {
    direction: Direction,
    graph: TermId,
    predicate: TermId,
    edges: EdgesBuilder,
}

impl ShardRestore {
    /// A restore through the writer of an empty shard, which will show the lists from `sn` on.
    ///
    /// # Errors
    /// Fails if the shard is not empty, or `sn` is not after its last SN and the stable one.
    pub fn new(writer: ShardWriter, sn: Sn) -> Result<ShardRestore, RestoreError> {
        if !writer.is_empty_before(sn) {
            let shard = writer.shard();
            return Err(RestoreError::NotEmpty { shard });
        }
        Ok(ShardRestore {
            writer,
            sn,
            last: None,
            room: 0,
            labels: Vec::new(),
            scratch: Vec::new(),
        })
    }

    /// Takes a list, or what of it belongs to this shard. Empty lists are passed over.
    ///
    /// # Errors
    /// Fails if the key is not above that of the list before, or if this is no list of edges.
    pub fn list(&mut self, key: ListKey, members: &[TermId]) -> Result<(), RestoreError> {
        let shard = self.writer.shard();
        if self.last.is_some_and(|last| last >= key) {
            return Err(RestoreError::OutOfOrder(shard));
        }
        self.last = Some(key);
        let of = Key::adjacency(key.graph, key.vertex, key.predicate, key.direction);
        let ascend = members.windows(2).all(|pair| pair[0] < pair[1]);
        // The lowest id of a term has a tag.
        let are_terms = members.first().is_none_or(|first| first.raw() >> 60 != 0);
        if !of.is_adjacency() || !ascend || !are_terms {
            return Err(RestoreError::NoList(shard));
        }
        let placement = self.writer.placement();
        let classes = key.direction == Direction::In && key.predicate == rdf_type();
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.clear();
        if classes && placement.shards() > 1 {
            let own = members.iter().filter(|id| placement.owner(**id) == shard);
            scratch.extend(own);
        } else if placement.owner(key.vertex) == shard {
            scratch.extend_from_slice(members);
        }
        if !scratch.is_empty() {
            self.room = self.room.max(room_for(key.vertex));
            self.label(key).list(key.vertex, &scratch);
        }
        self.scratch = scratch;
        Ok(())
    }

    /// The edges of the label that the newest key is of.
    fn label(&mut self, key: ListKey) -> &mut EdgesBuilder {
        let is_same = |label: &RestoredLabel| {
            (label.direction, label.graph, label.predicate)
                == (key.direction, key.graph, key.predicate)
        };
        if !self.labels.last().is_some_and(is_same) {
            self.labels.push(RestoredLabel {
                direction: key.direction,
                graph: key.graph,
                predicate: key.predicate,
                edges: EdgesBuilder::with_capacity(0),
            });
        }
        let last = self.labels.len() - 1;
        &mut self.labels[last].edges
    }

    /// Makes the shard show the lists, on at most this many threads, and gives its writer back.
    /// The SN may be published as stable when all shards are restored.
    pub fn finish(mut self, threads: usize) -> ShardWriter {
        let placement = self.writer.placement();
        let shard = self.writer.shard();
        let numbering = Numbering::new(shard, placement, self.room);
        let smallest = self.writer.smallest_predicate();
        let (built, small): (Vec<_>, Vec<_>) =
            (self.labels.into_iter()).partition(|label| label.edges.len() >= smallest);
        // The largest first, so that no thread is left alone with it at the end.
        let mut built: Vec<_> = built.into_iter().map(|it| (it.edges.len(), it)).collect();
        built.sort_by_key(|(length, _)| std::cmp::Reverse(*length));
        let built: Vec<_> = built
            .into_iter()
            .map(|(_, it)| Mutex::new(Some(it)))
            .collect();
        let finished = parallel(threads, &built, |label| {
            let label = label.lock().take()?;
            let RestoredLabel {
                direction,
                graph,
                predicate,
                edges,
            } = label;
            let edges = edges.finish(numbering, direction, predicate, placement)?;
            Some((direction, (graph, predicate), Arc::new(edges)))
        });
        let mut sides = [LabelEdges::new(), LabelEdges::new()];
        for (direction, label, edges) in finished.into_iter().flatten() {
            sides[direction as usize].insert(label, edges);
        }
        let assembly = Assembly::new(shard, placement, self.room, sides);
        let indexes = parallel(threads, assembly.parts(), |part| assembly.index(part, None));
        let rest: Vec<Group> = small.iter().map(RestoredLabel::group).collect();
        self.writer
            .restore(self.sn, assembly.finish(indexes), &rest);
        self.writer
    }
}

impl RestoredLabel {
    /// The half edges.
    fn group(&self) -> Group {
        let mut edges = Vec::with_capacity(self.edges.len());
        self.edges.for_each(|vertex, ids| {
            edges.extend(ids.iter().map(|neighbour| HalfEdge {
                vertex,
                predicate: self.predicate,
                neighbour: *neighbour,
            }));
        });
        Group {
            graph: self.graph,
            direction: self.direction,
            edges,
        }
    }
}
