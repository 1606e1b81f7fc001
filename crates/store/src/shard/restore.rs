//! Filling an empty shard from lists of edges, as a [`ListReader`](crate::ListReader) gave them.
//!
//! Lists come in stretches of ascending keys ([`RestoredLists`]), which several threads may fill at
//! the same time: the lists go into arrays as they come. Then the arrays of each label are joined
//! ([`RestoredRange`]), and become those of an image. Lists of other shards are passed over, so the
//! number of shards may differ from that of the store that the lists are from.
//!
//! Before changing it: an array that one stretch fills alone becomes that of the image without a
//! copy.

use crate::half_edges::{Group, HalfEdge, ListKey};
use crate::image::{Assembly, Edges, EdgesBuilder, Label, LabelEdges, Numbering, room_for};
use crate::lists::Key;
use crate::shard::writer::ShardWriter;
use somersault_dictionary::rdf_type;
use somersault_model::{Direction, Placement, ShardId, Sn, TermId};
use somersault_pool::in_parallel;
use std::collections::BTreeMap;
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

/// The restore of one shard.
pub struct ShardRestore {
    writer: ShardWriter,
    sn: Sn,
}

/// The lists of one shard from a stretch of ascending keys.
pub struct RestoredLists {
    shard: ShardId,
    placement: Placement,
    first: Option<ListKey>,
    last: Option<ListKey>,
    /// The most edges that may come.
    most: usize,
    /// Whether empty lists take something away.
    changes: bool,
    /// One more than the highest sequence of a vertex.
    room: u64,
    labels: Vec<RestoredLabel>,
    scratch: Vec<TermId>,
}

/// The lists of one shard from one range of virtual shards.
#[derive(Default)]
pub struct RestoredRange {
    /// All lists that there were, in stretches that ascend.
    pub base: Vec<RestoredLists>,
    /// Lists that have replaced them, and each other, oldest first: each in stretches that ascend.
    pub changes: Vec<Vec<RestoredLists>>,
}

impl RestoredRange {
    /// A range without any list, with room for this many changes.
    #[must_use]
    pub fn with_changes(changes: usize) -> RestoredRange {
        RestoredRange {
            base: Vec::new(),
            changes: std::iter::repeat_with(Vec::new).take(changes).collect(),
        }
    }
}

/// A direction, graph and predicate.
type LabelKey = (Direction, TermId, TermId);

/// The edges of one label.
struct RestoredLabel {
    key: LabelKey,
    edges: EdgesBuilder,
}

/// The edges of one label in one stretch, with the number of its range and that of its layer: 0 for
/// the base.
type LabelPiece = ((usize, usize), EdgesBuilder);

/// The edges of one label in all stretches.
struct LabelPieces {
    key: LabelKey,
    pieces: Vec<LabelPiece>,
}

/// What becomes of a label.
enum FinishedLabel {
    /// It is part of the image.
    Edges(Direction, Label, Arc<Edges>),
    /// It is so small that it stays in cells.
    Cells(Group),
    /// Later lists have taken all edges away.
    Gone,
}

impl RestoredLists {
    /// A stretch of [`RestoredRange::base`], to which at most this many edges come.
    #[must_use]
    pub fn base(shard: ShardId, placement: Placement, most: usize) -> RestoredLists {
        RestoredLists {
            shard,
            placement,
            first: None,
            last: None,
            most,
            changes: false,
            room: 0,
            labels: Vec::new(),
            scratch: Vec::new(),
        }
    }

    /// As [`RestoredLists::base`], of [`RestoredRange::changes`].
    #[must_use]
    pub fn changes(shard: ShardId, placement: Placement, most: usize) -> RestoredLists {
        RestoredLists {
            changes: true,
            ..RestoredLists::base(shard, placement, most)
        }
    }

    /// Takes a list, or what of it belongs to this shard. An empty one among changes takes away
    /// what there was; others are passed over.
    ///
    /// # Errors
    /// Fails if the key is not above that of the list before, or if this is no list of edges.
    #[inline]
    pub fn list(&mut self, key: ListKey, members: &[TermId]) -> Result<(), RestoreError> {
        match self.last {
            None => self.first = Some(key),
            Some(last) if last >= key => return Err(RestoreError::OutOfOrder(self.shard)),
            Some(_) => {}
        }
        self.last = Some(key);
        let of = Key::adjacency(key.graph, key.vertex, key.predicate, key.direction);
        let ascend = members.windows(2).all(|pair| pair[0] < pair[1]);
        // The lowest id of a term has a tag.
        let are_terms = members.first().is_none_or(|first| first.raw() >> 60 != 0);
        if !of.is_adjacency() || !ascend || !are_terms {
            return Err(RestoreError::NoList(self.shard));
        }
        let (shard, placement) = (self.shard, self.placement);
        let classes = key.direction == Direction::In && key.predicate == rdf_type();
        if classes && placement.shards() > 1 {
            let mut own = std::mem::take(&mut self.scratch);
            own.clear();
            own.extend(members.iter().filter(|id| placement.owner(**id) == shard));
            self.add(key, &own);
            self.scratch = own;
        } else if placement.owner(key.vertex) == shard {
            self.add(key, members);
        }
        Ok(())
    }

    #[inline]
    fn add(&mut self, key: ListKey, members: &[TermId]) {
        if members.is_empty() && !self.changes {
            return;
        }
        self.room = self.room.max(room_for(key.vertex));
        let label = (key.direction, key.graph, key.predicate);
        match self.labels.last_mut() {
            Some(last) if last.key == label => last.edges.list(key.vertex, members),
            _ => self.begin(label).list(key.vertex, members),
        }
    }

    /// The empty edges of the next label.
    #[cold]
    fn begin(&mut self, key: LabelKey) -> &mut EdgesBuilder {
        self.settle();
        let edges = EdgesBuilder::with_most(self.most);
        self.labels.push(RestoredLabel { key, edges });
        let last = self.labels.len() - 1;
        &mut self.labels[last].edges
    }

    /// No list comes any more: gives back the room that was kept for them.
    pub fn settle(&mut self) {
        if let Some(last) = self.labels.last_mut() {
            last.edges.settle();
            self.most = self.most.saturating_sub(last.edges.len());
        }
    }
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
        Ok(ShardRestore { writer, sn })
    }

    /// Makes the shard show the lists, on at most this many threads, and gives its writer back.
    /// The SN may be published as stable when all shards are restored.
    ///
    /// # Errors
    /// Fails if the stretches do not ascend, or two ranges have the same edge.
    pub fn finish(
        mut self,
        ranges: Vec<RestoredRange>,
        threads: usize,
    ) -> Result<ShardWriter, RestoreError> {
        let (shard, placement) = (self.writer.shard(), self.writer.placement());
        let (labels, room) = labels_of(ranges, shard)?;
        let smallest = self.writer.smallest_predicate();
        let numbering = Numbering::new(shard, placement, room);
        let finished = in_parallel(threads, labels, |label| {
            label.finish(numbering, placement, smallest)
        });
        let mut sides = [LabelEdges::new(), LabelEdges::new()];
        let mut rest = Vec::new();
        for finished in finished {
            match finished.ok_or(RestoreError::NoList(shard))? {
                FinishedLabel::Edges(direction, label, edges) => {
                    sides[direction as usize].insert(label, edges);
                }
                FinishedLabel::Cells(group) => rest.push(group),
                FinishedLabel::Gone => {}
            }
        }
        let assembly = Assembly::new(shard, placement, room, sides);
        let indexes = in_parallel(threads, assembly.parts(), |part| assembly.index(part, None));
        self.writer
            .restore(self.sn, assembly.finish(indexes), &rest);
        Ok(self.writer)
    }
}

/// The labels of all stretches, the largest first, so that no thread is left alone with it at the
/// end; and one more than the highest sequence of a vertex.
fn labels_of(
    ranges: Vec<RestoredRange>,
    shard: ShardId,
) -> Result<(Vec<LabelPieces>, u64), RestoreError> {
    let mut room = 0;
    let mut labels: BTreeMap<LabelKey, Vec<LabelPiece>> = BTreeMap::new();
    for (range, RestoredRange { base, changes }) in ranges.into_iter().enumerate() {
        for (layer, stretches) in [base].into_iter().chain(changes).enumerate() {
            let mut highest = None;
            for stretch in stretches {
                if stretch.first.is_some_and(|first| highest >= Some(first)) {
                    return Err(RestoreError::OutOfOrder(shard));
                }
                highest = stretch.last.or(highest);
                room = room.max(stretch.room);
                for RestoredLabel { key, edges } in stretch.labels {
                    let pieces = labels.entry(key).or_default();
                    pieces.push(((range, layer), edges));
                }
            }
        }
    }
    let labels = labels.into_iter();
    let mut labels: Vec<LabelPieces> = labels
        .map(|(key, pieces)| LabelPieces { key, pieces })
        .collect();
    labels.sort_by_key(|label| std::cmp::Reverse(label.len()));
    Ok((labels, room))
}

impl LabelPieces {
    fn len(&self) -> usize {
        self.pieces.iter().map(|(_, edges)| edges.len()).sum()
    }

    /// What becomes of it; `None` if two ranges have the same edge.
    fn finish(
        self,
        numbering: Numbering,
        placement: Placement,
        smallest: usize,
    ) -> Option<FinishedLabel> {
        let key @ (direction, graph, predicate) = self.key;
        let mut layers: BTreeMap<(usize, usize), Vec<EdgesBuilder>> = BTreeMap::new();
        for (place, edges) in self.pieces {
            layers.entry(place).or_default().push(edges);
        }
        let mut ranges: BTreeMap<usize, (Vec<EdgesBuilder>, Vec<EdgesBuilder>)> = BTreeMap::new();
        for ((range, layer), pieces) in layers {
            let (base, changes) = ranges.entry(range).or_default();
            match layer {
                0 => *base = pieces,
                _ => changes.push(EdgesBuilder::concatenated(pieces)),
            }
        }
        let ranges = ranges.into_values();
        let ranges = ranges.map(|(base, changes)| EdgesBuilder::changed(base, &changes));
        let edges = EdgesBuilder::merged(ranges.collect())?;
        if edges.len() == 0 {
            return Some(FinishedLabel::Gone);
        }
        if edges.len() < smallest {
            let group = RestoredLabel { key, edges }.group();
            return Some(FinishedLabel::Cells(group));
        }
        edges
            .finish(numbering, direction, predicate, placement)
            .map(|edges| FinishedLabel::Edges(direction, (graph, predicate), Arc::new(edges)))
    }
}

impl RestoredLabel {
    /// The half edges.
    fn group(&self) -> Group {
        let (direction, graph, predicate) = self.key;
        let mut edges = Vec::with_capacity(self.edges.len());
        self.edges.for_each(|vertex, ids| {
            edges.extend(ids.iter().map(|neighbour| HalfEdge {
                vertex,
                predicate,
                neighbour: *neighbour,
            }));
        });
        Group {
            graph,
            direction,
            edges,
        }
    }
}
