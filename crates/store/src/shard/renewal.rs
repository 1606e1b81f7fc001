//! Renewing the image of a shard while its writer goes on: what streams added statement by
//! statement becomes as compact as what was loaded.
//!
//! 1. The writer sets a marker, and pins the SN c that everything before the marker is at or below.
//! 2. A builder, beside the writer, makes an image of the shard at c, a portion at a time. Edges of
//!    predicates without cells are shared with the old image.
//! 3. It copies what the image leaves out (small predicates, counts) into the cells of a new
//!    generation that has no reader yet.
//! 4. In rounds it copies the lists that changed: the writer sets another marker, and pins another
//!    SN c'; the builder copies the cells of the list between the markers as they are at c'. Each
//!    round takes less time than the one before, so its list is shorter.
//! 5. When a list was short, the writer copies what changed since, and publishes the generation.
//!
//! A load that makes a generation of its own meanwhile ends the renewal. Every step is bounded but
//! for sorting the cells of one predicate and indexing one graph, which neither readers nor
//! the writer wait for.
#![allow(unsafe_code)]

use crate::image::{
    Assembly, DirectionIndex, EdgesBuilder, Label, LabelEdges, Numbering, room_for,
};
use crate::lists::{Key, ListKind};
use crate::shard::Shard;
use crate::shard::edge_lists::{EdgeCell, EdgeCells, LabelWalk};
use crate::shard::generation::Generation;
use crate::shard::markers::{CellsSeen, ChangeList, ListHold};
use crate::shard::next_generation::{CopySpan, NextGeneration};
use crate::shard::pinned::PinnedGeneration;
use crate::shard::writer::ShardLayout;
use crate::snapshots::Snapshots;
use parking_lot::Mutex;
use somersault_model::Direction;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A list of changed cells of at most this many portions is short enough that the writer copies the
/// next one itself.
const SHORT: usize = 8;
/// After this many rounds the writer copies the rest in any case.
const MOST_ROUNDS: usize = 8;

/// The state of the renewals of a store after a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RenewalState {
    /// No shard is to be renewed.
    Idle,
    /// A step was made, and there is more to do.
    Working,
    /// The renewals under way wait for the writers: for their next work, or for
    /// [`ShardWriter::renew`](crate::ShardWriter::renew).
    Waiting,
}

/// Which shards may begin to be renewed. What has begun goes on in any case: its pin keeps memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RenewalNeed {
    /// All whose writers have changed enough that it is worthwhile.
    Worthwhile,
    /// Those alone whose cells hold twice as much as makes a renewal worthwhile: the bound up to
    /// which more urgent work goes first.
    Overdue,
}

/// The renewals of all shards.
pub(crate) struct Renewals {
    by_shard: Vec<Option<Renewal>>,
    next: usize,
}

impl Renewals {
    /// No renewals, of this many shards.
    pub(crate) fn new(shards: u16) -> Renewals {
        Renewals {
            by_shard: (0..shards).map(|_| None).collect(),
            next: 0,
        }
    }

    /// Makes one step of one shard's renewal, or begins one that is needed. The shards take turns.
    pub(crate) fn step(
        &mut self,
        need: RenewalNeed,
        shards: &[Arc<Shard>],
        snapshots: &Arc<Snapshots>,
        layout: ShardLayout,
    ) -> RenewalState {
        let mut state = RenewalState::Idle;
        for _ in 0..shards.len() {
            let at = self.next;
            self.next = (at + 1) % shards.len();
            let shard = &shards[at];
            if shard.renewal.is_finished() {
                state = RenewalState::Waiting;
                continue;
            }
            let renewal = match self.by_shard[at].take() {
                Some(renewal) => renewal,
                None if shard.renewal.needs(need) => Renewal::new(shard, snapshots, layout),
                None => continue,
            };
            match renewal.step() {
                RenewalStep::More(renewal) => {
                    self.by_shard[at] = Some(renewal);
                    return RenewalState::Working;
                }
                RenewalStep::Waiting(renewal) => {
                    self.by_shard[at] = Some(renewal);
                    state = RenewalState::Waiting;
                }
                RenewalStep::Ended => return RenewalState::Working,
            }
        }
        state
    }
}

/// A generation that is ready to be published, but for what changed since the marker.
pub(crate) struct RenewedGeneration {
    pub(crate) next: NextGeneration,
    /// The generation that it replaces, and the SN that it shows.
    pub(crate) at: PinnedGeneration,
    pub(crate) marker: ListHold,
}

/// What the builder of a shard's image and the shard's writer tell each other.
#[derive(Default)]
pub(crate) struct RenewalSlot {
    is_wanted: AtomicBool,
    is_overdue: AtomicBool,
    is_finished: AtomicBool,
    finished: Mutex<Option<RenewedGeneration>>,
}

impl RenewalSlot {
    /// For the writer, which has changed this many half edges since the image was made: it is worth
    /// renewing from `worthwhile` on.
    pub(crate) fn changed(&self, half_edges: usize, worthwhile: usize) {
        let is_overdue = half_edges >= worthwhile.saturating_mul(2);
        (self.is_wanted).store(half_edges >= worthwhile, Ordering::Release);
        self.is_overdue.store(is_overdue, Ordering::Release);
    }

    fn needs(&self, need: RenewalNeed) -> bool {
        match need {
            RenewalNeed::Worthwhile => self.is_wanted.load(Ordering::Acquire),
            RenewalNeed::Overdue => self.is_overdue.load(Ordering::Acquire),
        }
    }

    fn is_finished(&self) -> bool {
        self.is_finished.load(Ordering::Acquire)
    }

    fn finish(&self, renewed: RenewedGeneration) {
        *self.finished.lock() = Some(renewed);
        self.is_finished.store(true, Ordering::Release);
    }

    /// Takes what the builder has finished.
    pub(crate) fn take(&self) -> Option<RenewedGeneration> {
        if !self.is_finished() {
            return None;
        }
        let taken = self.finished.lock().take();
        self.is_finished.store(false, Ordering::Release);
        taken
    }
}

/// The renewal of one shard.
struct Renewal {
    shard: Arc<Shard>,
    snapshots: Arc<Snapshots>,
    layout: ShardLayout,
    /// Changes from here on are not in the next generation yet.
    marker: ListHold,
    stage: RenewalStage,
}

enum RenewalStep {
    More(Renewal),
    Waiting(Renewal),
    Ended,
}

enum RenewalStage {
    /// The first marker is not set, or its SN is not stable.
    Asked,
    Edges(EdgesStage),
    Indexes(IndexesStage),
    Copying(CopyingStage),
}

/// The edges of each predicate are built.
struct EdgesStage {
    at: PinnedGeneration,
    /// One more than the highest sequence of a vertex.
    room: u64,
    cells: EdgeCells,
    /// The labels of this direction that are not built; `None` while cells are collected.
    labels: Option<BTreeSet<Label>>,
    current: Option<(Label, LabelWalk, EdgesBuilder)>,
    sides: [LabelEdges; 2],
    /// What is to be copied into cells.
    keys: Vec<Key>,
}

/// The graphs and directions are indexed, in their order.
struct IndexesStage {
    at: PinnedGeneration,
    assembly: Assembly,
    indexes: Vec<DirectionIndex>,
    keys: Vec<Key>,
}

/// Keys are copied into the next generation.
struct CopyingStage {
    at: PinnedGeneration,
    next: NextGeneration,
    rounds: usize,
    /// The number of cells of the last round.
    recent: usize,
    round: CopyRound,
}

enum CopyRound {
    /// What the image leaves out, from a place on.
    Keys(Vec<Key>, usize),
    /// The next marker is not set, or its SN is not stable.
    Asked(ListHold),
    Changed(ChangedRound),
}

/// The lists that changed up to a marker.
struct ChangedRound {
    marker: ListHold,
    until: PinnedGeneration,
    lists: Vec<Arc<ChangeList>>,
    /// The cells that were copied.
    copied: CellsSeen,
    /// The next list, and the next cell of it.
    list: usize,
    cell: usize,
}

impl Renewal {
    fn new(shard: &Arc<Shard>, snapshots: &Arc<Snapshots>, layout: ShardLayout) -> Renewal {
        Renewal {
            shard: Arc::clone(shard),
            snapshots: Arc::clone(snapshots),
            layout,
            marker: ListHold::ask_with_pin(shard),
            stage: RenewalStage::Asked,
        }
    }

    fn step(mut self) -> RenewalStep {
        let stage = match std::mem::replace(&mut self.stage, RenewalStage::Asked) {
            RenewalStage::Asked => {
                if self.marker.is_lost() {
                    return RenewalStep::Ended;
                }
                let Some(at) = self.pinned(&self.marker) else {
                    return RenewalStep::Waiting(self);
                };
                Some(RenewalStage::Edges(EdgesStage::new(at)))
            }
            RenewalStage::Edges(stage) => stage.step(&self),
            RenewalStage::Indexes(stage) => Some(stage.step()),
            RenewalStage::Copying(stage) => return self.copy(stage),
        };
        match stage {
            Some(stage) => {
                self.stage = stage;
                RenewalStep::More(self)
            }
            None => RenewalStep::Ended,
        }
    }

    /// The newest generation at the SN of a marker, once that is set and stable.
    fn pinned(&self, marker: &ListHold) -> Option<PinnedGeneration> {
        let pin = marker.take_pin(self.snapshots.stable().0)?;
        Some(PinnedGeneration::new(&self.shard, &self.snapshots, pin))
    }

    fn copy(mut self, mut stage: CopyingStage) -> RenewalStep {
        let mut waits = false;
        let most = self.layout.images.portion;
        stage.round = match stage.round {
            CopyRound::Keys(keys, from) => {
                let until = keys.len().min(from + most);
                copy_keys(&keys[from..until], &stage.at, &mut stage.next);
                if until < keys.len() {
                    CopyRound::Keys(keys, until)
                } else {
                    stage.next.settle();
                    CopyRound::Asked(ListHold::ask_with_pin(&self.shard))
                }
            }
            CopyRound::Asked(marker) => match self.pinned(&marker) {
                None => {
                    waits = true;
                    CopyRound::Asked(marker)
                }
                Some(until) => {
                    let lists = self.marker.until(&marker);
                    let same = until.get().number == stage.at.get().number;
                    let Some(lists) = lists.filter(|_| same) else {
                        return RenewalStep::Ended;
                    };
                    stage.rounds += 1;
                    CopyRound::Changed(ChangedRound {
                        marker,
                        until,
                        copied: CellsSeen::of_lists(lists.len()),
                        lists,
                        list: 0,
                        cell: 0,
                    })
                }
            },
            CopyRound::Changed(mut round) => {
                if round.portion(&stage.at, &mut stage.next, most) {
                    if !round.until.renew() {
                        return RenewalStep::Ended;
                    }
                    CopyRound::Changed(round)
                } else {
                    stage.next.settle();
                    let length = round.lists.iter().map(|list| list.len()).sum::<usize>();
                    let converges = length < stage.recent;
                    stage.recent = length;
                    stage.at = round.until;
                    self.marker = round.marker;
                    if length <= SHORT * most || !converges || stage.rounds >= MOST_ROUNDS {
                        return self.hand_over(stage.next, stage.at);
                    }
                    CopyRound::Asked(ListHold::ask_with_pin(&self.shard))
                }
            }
        };
        if !stage.at.renew() || !stage.at.is_newest() {
            return RenewalStep::Ended;
        }
        self.stage = RenewalStage::Copying(stage);
        if waits {
            RenewalStep::Waiting(self)
        } else {
            RenewalStep::More(self)
        }
    }

    /// Leaves the rest to the writer.
    fn hand_over(self, next: NextGeneration, at: PinnedGeneration) -> RenewalStep {
        let marker = self.marker;
        let renewed = RenewedGeneration { next, at, marker };
        self.shard.renewal.finish(renewed);
        RenewalStep::Ended
    }
}

impl EdgesStage {
    fn new(at: PinnedGeneration) -> EdgesStage {
        EdgesStage {
            room: at.get().image.room(),
            at,
            cells: EdgeCells::new(Direction::Out),
            labels: None,
            current: None,
            sides: [LabelEdges::new(), LabelEdges::new()],
            keys: Vec::new(),
        }
    }

    /// The next stage; `None` if another generation was published.
    fn step(mut self, renewal: &Renewal) -> Option<RenewalStage> {
        let direction = self.cells.direction();
        let images = renewal.layout.images;
        if self.labels.is_none() {
            self.collect(images.portion);
        } else if let Some((label, mut walk, mut edges)) = self.current.take() {
            // SAFETY: the cells were collected in this generation; the renewal ends if there is
            // another one.
            let more = unsafe {
                walk.portion(&self.at, images.portion, |vertex, ids| {
                    edges.list(vertex, ids)
                })
            };
            if more {
                self.current = Some((label, walk, edges));
            } else {
                let ShardLayout { placement, .. } = renewal.layout;
                let numbering = Numbering::new(renewal.shard.id, placement, self.room);
                if let Some(edges) = edges.finish(numbering, direction, label.1, placement) {
                    self.sides[direction as usize].insert(label, Arc::new(edges));
                }
            }
        } else if let Some(label) = self.labels.as_mut().and_then(BTreeSet::pop_first) {
            self.begin(label, images.smallest_predicate);
        } else if direction == Direction::Out {
            self.cells = EdgeCells::new(Direction::In);
            self.labels = None;
        } else {
            let ShardLayout { placement, .. } = renewal.layout;
            let (shard, room) = (renewal.shard.id, self.room);
            return Some(RenewalStage::Indexes(IndexesStage {
                assembly: Assembly::new(shard, placement, room, self.sides),
                at: self.at,
                indexes: Vec::new(),
                keys: self.keys,
            }));
        }
        (self.at.renew() && self.at.is_newest()).then_some(RenewalStage::Edges(self))
    }

    /// Collects some cells of this direction, and once the keys of all counts.
    fn collect(&mut self, most: usize) {
        let (keys, direction) = (&mut self.keys, self.cells.direction());
        let count = |key: Key| {
            if key.kind() == ListKind::Count && direction == Direction::Out {
                keys.push(key);
            }
        };
        if !self.cells.collect(&self.at, most, count) {
            let rooms = self.cells.vertices().map(room_for);
            self.room = rooms.chain([self.room]).max().unwrap_or(0);
            self.labels = Some(self.cells.labels(&self.at.get().image));
        }
    }

    /// Begins a predicate of a graph: shares its edges, leaves it to cells, or begins to walk it.
    fn begin(&mut self, label: Label, smallest: usize) {
        let direction = self.cells.direction();
        let (graph, predicate) = label;
        let held = self.at.get().image.held(graph, predicate, direction);
        let held = held.map(|held| Arc::clone(&held.edges));
        let cells = self.cells.take(label);
        match held {
            Some(edges) if cells.is_empty() => {
                self.sides[direction as usize].insert(label, edges);
            }
            // SAFETY: the cells were collected in this generation.
            None if unsafe { EdgeCell::are_fewer_edges(&cells, &self.at, smallest) } => {
                for cell in &cells {
                    let vertex = cell.vertex();
                    (self.keys).push(Key::adjacency(graph, vertex, predicate, direction));
                    self.keys.push(Key::predicates_of(graph, vertex, direction));
                }
                self.keys.push(Key::predicates(graph, direction));
            }
            held => {
                let room = held.as_ref().map_or(0, |edges| edges.len()) + cells.len();
                let edges = EdgesBuilder::with_capacity(room);
                self.current = Some((label, LabelWalk::new(held, cells, None), edges));
            }
        }
    }
}

impl IndexesStage {
    fn step(mut self) -> RenewalStage {
        if let Some(part) = self.assembly.parts().get(self.indexes.len()) {
            let older = Some(&self.at.get().image);
            self.indexes.push(self.assembly.index(part, older));
            return RenewalStage::Indexes(self);
        }
        self.keys.push(Key::graphs());
        RenewalStage::Copying(CopyingStage {
            at: self.at,
            next: NextGeneration::new(self.assembly.finish(self.indexes)),
            rounds: 0,
            recent: usize::MAX,
            round: CopyRound::Keys(self.keys, 0),
        })
    }
}

/// Copies keys that the image leaves out.
fn copy_keys(keys: &[Key], at: &PinnedGeneration, next: &mut NextGeneration) {
    let span = CopySpan {
        since: None,
        sn: at.sn(),
    };
    for key in keys {
        // SAFETY: the generation is pinned at the SN.
        unsafe { next.copy(at.get(), *key, span) };
    }
}

impl ChangedRound {
    /// Copies at most `most` changed keys. Returns whether there are more.
    fn portion(&mut self, at: &PinnedGeneration, next: &mut NextGeneration, most: usize) -> bool {
        let from: &Generation = self.until.get();
        let span = CopySpan {
            since: Some(at.sn()),
            sn: self.until.sn(),
        };
        let mut left = most;
        while let Some(list) = self.lists.get(self.list) {
            let cells = list.cells(from.number).unwrap_or(&[]);
            let end = cells.len().min(self.cell + left);
            let some = cells[self.cell..end].iter();
            for cell in some.filter(|cell| self.copied.is_first(**cell)) {
                // SAFETY: the cell is of this generation, which is pinned at both SNs.
                unsafe { next.copy(from, cell.as_ref().key(), span) };
            }
            left -= end - self.cell;
            self.cell = end;
            if end < cells.len() {
                return true;
            }
            self.list += 1;
            self.cell = 0;
        }
        false
    }
}
