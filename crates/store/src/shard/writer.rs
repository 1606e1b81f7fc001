//! The one writer of a shard. Applying an SN sorts its half edges, so that each list is touched
//! once. A new list is built in place and needs no tail. Replaced memory is kept until no pin that
//! was taken before is alive.
//!
//! A large load makes a new generation instead: an image of all that there is. The old generation
//! stays as it is until no reader of earlier SNs is left. So the cost of an SN is that of its
//! changes, or of the whole shard if the changes are a good part of it.
//!
//! The order that matters: a word is replaced first, and only then is the number of the next pin
//! read (under the registry's lock). A pin with that number or a higher one was taken later and
//! cannot have seen the old word; once all lower ones are dropped, the old content is freed.
#![allow(unsafe_code)]

#[cfg(test)]
mod accounting;

use crate::half_edges::{Group, HalfEdge};
use crate::image::{Build, Frozen, Image};
use crate::lists::Changes;
use crate::lists::Date;
use crate::lists::Freed;
use crate::lists::Table;
use crate::lists::{Cell, Key, Owned};
use crate::shard::applied::{Applied, ApplyError};
use crate::shard::apply::ApplyPass;
use crate::shard::batch::ShardBatch;
use crate::shard::generation::{CellChunks, Generation};
use crate::shard::markers::{CellsSeen, OpenList};
use crate::shard::next_generation::CopySpan;
use crate::shard::renewal::RenewedGeneration;
use crate::shard::{ReplacedBytes, ReplacedHold, Shard};
use crate::snapshots::{Horizon, Snapshots};
use somersault_model::{Operation, Placement, ShardId, Sn, TermId};
use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The number of waiting lists that an SN folds at most, besides twice as many as it touches: so
/// the backlog shrinks gradually after a long query.
const FOLDS_PER_APPLY: usize = 4096;

/// The number of replaced objects out of reach of all pins that are freed at once if more wait:
/// some milliseconds.
const FREES_AT_ONCE: usize = 1 << 13;
/// The number of words ahead of its use at which the writer prefetches a replaced word's content.
const FREE_AHEAD: usize = 8;

/// The one writer of a shard. Dropping it gives the shard back: another generation (S16) can take
/// the writer again.
pub struct ShardWriter {
    shard: Arc<Shard>,
    snapshots: Arc<Snapshots>,
    layout: ShardLayout,
    state: Option<Box<WriterState>>,
}

/// The placement of statements on the shards of a store, and the form in which they are stored.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ShardLayout {
    pub(crate) placement: Placement,
    pub(crate) images: ImagePolicy,
}

/// The conditions under which a shard gets an image, and the steps in which one is renewed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ImagePolicy {
    /// Loads with fewer half edges for a shard go to cells.
    pub(crate) smallest_load: usize,
    /// Predicates with fewer edges in a graph stay in cells.
    pub(crate) smallest_predicate: usize,
    /// The number of vertices or cells of one step of a renewal.
    pub(crate) portion: usize,
}

/// The writer's own state, beside the state that readers see.
#[derive(Default)]
pub(crate) struct WriterState {
    /// The cells of the newest generation.
    cells: CellChunks,
    /// The cells changed since the last marker.
    pub(crate) changes: OpenList,
    /// Older generations, oldest first.
    superseded: VecDeque<OldGeneration>,
    /// The number of older generations, including those that wait to be freed, and their
    /// approximate bytes.
    superseded_count: usize,
    superseded_bytes: usize,
    /// The number of statements that the shard holds, and half edges in cells.
    statements: u64,
    in_cells: usize,
    /// The number of half edges that were inserted or deleted in cells of the newest generation,
    /// and the number from which on its image is worth renewing.
    changed_edges: usize,
    renewed_from: usize,
    /// Lists of the newest generation with tails, and the SN of the newest tail at the time: oldest
    /// first.
    pub(crate) waiting: VecDeque<(u64, NonNull<Cell>)>,
    /// Replaced memory, by the number of the first pin that cannot see it.
    retired: VecDeque<(u64, Retired)>,
    /// The number of entries added since memory was last freed.
    stamped: usize,
    /// The number of lists that [`ShardWriter::settle`] may fold.
    folds_left: usize,
    /// The approximate bytes of those of them that are not generations.
    waiting_bytes: usize,
    /// Bytes of all tails, with those that were replaced and are not freed yet.
    pub(crate) tail_bytes: usize,
    /// Memory replaced since the number of the next pin was last read.
    fresh: Vec<Retired>,
    /// Whether an SN is being applied: between its first and last change the shard is not
    /// consistent.
    applying: bool,
    /// Bytes of lists, cells and tables; shared parts may be counted twice for a moment.
    pub(crate) live_bytes: isize,
    pub(crate) edges: Vec<HalfEdge>,
    pub(crate) effective: Changes,
    /// The ids and dates of a block.
    pub(crate) dated: (Vec<TermId>, Vec<Date>),
}

// SAFETY: the pointers are to memory that this state owns (cells) or is the last to know
// (replaced words and tables); none is tied to a thread.
unsafe impl Send for WriterState {}

enum Retired {
    /// A replaced word, and about how many bytes only it held.
    Word(Owned, usize),
    Table(NonNull<Table>),
    Generation(OldGeneration),
}

/// A generation that a newer one has replaced.
struct OldGeneration {
    generation: NonNull<Generation>,
    cells: CellChunks,
    /// From this SN on readers read a newer one.
    until: u64,
    /// About how many bytes only it holds.
    bytes: usize,
}

impl ShardWriter {
    /// The writer of a shard; `None` while there is one, or after one was lost in a panic.
    pub(crate) fn take(
        shard: &Arc<Shard>,
        snapshots: &Arc<Snapshots>,
        layout: ShardLayout,
    ) -> Option<ShardWriter> {
        let state = shard.writer.lock().take()?;
        Some(ShardWriter {
            shard: Arc::clone(shard),
            snapshots: Arc::clone(snapshots),
            layout,
            state: Some(state),
        })
    }

    /// The shard that this writes.
    pub fn shard(&self) -> ShardId {
        self.parts().0.id
    }

    /// The last SN that was applied.
    pub fn applied(&self) -> Sn {
        Sn(self.parts().0.applied.load(Ordering::Acquire))
    }

    /// Applies the changes of one SN. SNs ascend, several batches of one SN may follow one another,
    /// and SNs that hold nothing for this shard may be left out.
    ///
    /// # Errors
    /// Fails if the batch is for another shard, or the SN is behind what was applied or stable;
    /// then nothing is changed.
    pub fn apply(&mut self, sn: Sn, batch: &ShardBatch) -> Result<Applied, ApplyError> {
        let applied = self.apply_promptly(sn, batch)?;
        self.settle();
        Ok(applied)
    }

    /// As [`ShardWriter::apply`], but leaves its share of folding and freeing to
    /// [`ShardWriter::settle`], which no reader of the SN has to wait for.
    ///
    /// # Errors
    /// As for [`ShardWriter::apply`].
    pub fn apply_promptly(&mut self, sn: Sn, batch: &ShardBatch) -> Result<Applied, ApplyError> {
        let stable = self.snapshots.stable();
        let (shard, at) = (self.shard(), self.applied());
        if batch.shard() != shard {
            return Err(ApplyError::WrongShard {
                batch: batch.shard(),
                writer: shard,
            });
        }
        if sn < at {
            return Err(ApplyError::OutOfOrder { sn, at });
        }
        if sn <= stable {
            return Err(ApplyError::AlreadyStable { sn, stable });
        }
        Ok(self.apply_unchecked(sn, batch))
    }

    /// Folds lists and frees memory: the share of the SNs that were applied promptly since the last
    /// time.
    pub fn settle(&mut self) {
        let horizon = self.snapshots.horizon();
        self.free(&horizon, FREES_AT_ONCE);
        let lists = std::mem::take(&mut self.parts_mut().1.folds_left);
        self.fold_some(&horizon, lists);
    }

    pub(crate) fn apply_unchecked(&mut self, sn: Sn, batch: &ShardBatch) -> Applied {
        self.set_markers(Some(sn));
        let horizon = self.snapshots.horizon();
        self.parts_mut().1.applying = true;
        let before = self.parts().1.statements;
        let smallest_load = self.layout.images.smallest_load;
        let mut loaded = Vec::new();
        let mut renewed = false;
        let cleared = self.statements_of(&batch.clears);
        if batch.loaded() > 0 || cleared > 0 {
            renewed = self.is_worth_an_image(batch.loaded()) || self.is_worth_leaving_out(cleared);
            loaded = if renewed {
                self.load_image(sn, batch)
            } else {
                batch.load_groups()
            };
        }
        let (shard, state) = self.parts_mut();
        // SAFETY: this is the writer, with its own state, and the newest generation; it frees
        // nothing while the pass is at work.
        let mut pass = unsafe {
            let generation = shard.at(u64::MAX);
            ApplyPass::new(generation, state, &horizon.retained, sn.0)
        };
        if !renewed {
            batch.clears.iter().for_each(|graph| pass.clear(*graph));
        }
        // Half edges that a new generation leaves to cells are inserted before anything is deleted.
        for group in &loaded {
            pass.group(group, Operation::Insert);
        }
        for group in &batch.deletes {
            pass.group(group, Operation::Delete);
        }
        for group in &batch.inserts {
            pass.group(group, Operation::Insert);
        }
        let (mut applied, touched) = pass.finish();
        state.statements = state.statements + applied.inserted - applied.deleted;
        if renewed {
            // The new generation has left out what is cleared. Of what was moved nothing is new.
            applied.deleted += cleared;
            applied.inserted = state.statements + applied.deleted - before;
        }
        let changed =
            |groups: &[Group]| groups.iter().map(|group| group.edges.len()).sum::<usize>();
        let inserted = changed(&loaded) + changed(&batch.inserts);
        state.in_cells += inserted;
        if !renewed {
            state.changed_edges += inserted + changed(&batch.deletes) + 2 * cleared as usize;
        }
        let renewed_from = smallest_load.max(state.renewed_from);
        shard.renewal.changed(state.changed_edges, renewed_from);
        state.applying = false;
        state.folds_left += FOLDS_PER_APPLY + 2 * touched;
        self.publish_bytes();
        let (shard, _) = self.parts();
        shard.applied.store(sn.0, Ordering::Release);
        applied
    }

    /// Whether to load `loaded` half edges by making a new generation: if they and the half edges
    /// in cells are a good part of all, so that everything is rebuilt a logarithmic number of
    /// times, however it arrives.
    fn is_worth_an_image(&self, loaded: usize) -> bool {
        let (shard, state) = self.parts();
        // SAFETY: this is the writer, which frees nothing meanwhile.
        let in_image = unsafe { shard.at(u64::MAX) }.image.half_edges();
        loaded >= self.layout.images.smallest_load
            && (loaded.saturating_add(state.in_cells)).saturating_mul(2) >= in_image
    }

    /// Whether a new generation without `cleared` statements costs less than removing each from its
    /// lists.
    fn is_worth_leaving_out(&self, cleared: u64) -> bool {
        cleared > 0 && cleared.saturating_mul(2) >= self.layout.images.smallest_load as u64
    }

    /// The number of statements of these graphs whose subjects the shard owns.
    fn statements_of(&self, graphs: &[TermId]) -> u64 {
        // SAFETY: this is the writer, which frees nothing meanwhile.
        let newest = unsafe { self.parts().0.at(u64::MAX) };
        // SAFETY: as above.
        let count =
            |graph: &TermId| unsafe { newest.count(u64::MAX, Key::count(*graph, TermId::UNBOUND)) };
        graphs.iter().map(count).sum()
    }

    /// Makes a new generation for readers from `sn` on: an image of all that there is and the
    /// loads, without the cleared graphs. Returns the half edges that are left for its cells.
    fn load_image(&mut self, sn: Sn, batch: &ShardBatch) -> Vec<Group> {
        let ShardLayout { placement, images } = self.layout;
        let shards = placement.shards();
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let (shard, state) = self.parts();
        // SAFETY: this is the writer, and it changes and frees nothing in this call.
        let old = unsafe { shard.at(u64::MAX) };
        let build = Build {
            shard: shard.id,
            placement,
            // SAFETY: as above.
            old: unsafe { Frozen::new(&old.image, &old.segments) },
            clears: &batch.clears,
            loads: &batch.loads,
            // The other shards' writers do the same work.
            threads: cores.div_ceil(shards.into()),
            smallest: images.smallest_predicate,
        };
        debug_assert!(state.applying, "what a panic leaves is not read");
        let built = build.run();
        self.begin_generation(sn, built.image);
        built.rest
    }

    /// Makes a generation with this image, and no cells, the newest, for readers from `sn` on. It
    /// holds everything that there is, or will with the cells of `sn`.
    fn begin_generation(&mut self, sn: Sn, image: Image) {
        let (_, state) = self.parts_mut();
        state.statements = image.statements();
        state.in_cells = 0;
        let generation = Generation::new(sn.0, image, std::ptr::null_mut());
        self.replace_generation(Box::new(generation), CellChunks::default());
    }

    /// Publishes a generation in place of the newest one, which stays for readers of earlier SNs.
    fn replace_generation(&mut self, generation: Box<Generation>, cells: CellChunks) {
        let (shard, state) = self.parts_mut();
        // SAFETY: this is the writer, which frees nothing meanwhile.
        let old = NonNull::from(unsafe { shard.at(u64::MAX) });
        generation.older.store(old.as_ptr(), Ordering::Relaxed);
        state.changed_edges = 0;
        // A renewal costs as much as the image is large, and the next change of each list looks
        // into the image again. So an image that grows is renewed whenever it has doubled.
        state.renewed_from = generation.image.half_edges();
        shard.renewal.changed(0, usize::MAX);
        // The old generation is never touched again.
        state.waiting.clear();
        let applied = shard.applied.load(Ordering::Relaxed);
        shard.changes.end_generation(applied, &mut state.changes);
        let others = state.superseded_bytes + state.waiting_bytes;
        let bytes = usize::try_from(state.live_bytes)
            .unwrap_or(0)
            .saturating_sub(others);
        state.live_bytes += generation.own_bytes() as isize;
        state.superseded.push_back(OldGeneration {
            generation: old,
            cells: std::mem::replace(&mut state.cells, cells),
            until: generation.born,
            bytes,
        });
        state.superseded_count += 1;
        state.superseded_bytes += bytes;
        shard
            .replaced
            .add(ReplacedHold::SnsBelow(generation.born), bytes);
        shard.publish(generation);
    }

    /// Whether nothing was ever written to the shard, and readers have not come to `sn`.
    pub(crate) fn is_empty_before(&self, sn: Sn) -> bool {
        let (shard, state) = self.parts();
        // SAFETY: this is the writer, which frees nothing meanwhile.
        let first = unsafe { shard.at(u64::MAX) }.born == 0;
        let untouched = first && state.statements == 0 && state.cells.is_empty();
        untouched && shard.applied.load(Ordering::Relaxed) < sn.0 && self.snapshots.stable() < sn
    }

    /// The placement of statements.
    pub(crate) fn placement(&self) -> Placement {
        self.layout.placement
    }

    /// Predicates with fewer edges in a graph stay in cells.
    pub(crate) fn smallest_predicate(&self) -> usize {
        self.layout.images.smallest_predicate
    }

    /// Fills the shard, which is empty, with an image and further half edges, for readers from `sn`
    /// on.
    pub(crate) fn restore(&mut self, sn: Sn, image: Image, rest: &[Group]) {
        let horizon = self.snapshots.horizon();
        self.parts_mut().1.applying = true;
        self.begin_generation(sn, image);
        let (shard, state) = self.parts_mut();
        // SAFETY: this is the writer, with its own state, and the newest generation; it frees
        // nothing while the pass is at work.
        let mut pass = unsafe {
            let generation = shard.at(u64::MAX);
            ApplyPass::new(generation, state, &horizon.retained, sn.0)
        };
        for group in rest {
            pass.group(group, Operation::Insert);
        }
        let (applied, _) = pass.finish();
        state.statements += applied.inserted;
        state.in_cells += rest.iter().map(|group| group.edges.len()).sum::<usize>();
        state.applying = false;
        shard.applied.store(sn.0, Ordering::Release);
        self.fold_some(&horizon, 0);
    }

    /// Sets the markers that were asked for, if the writer is between two SNs: `next` comes next,
    /// or anything that is not stable.
    fn set_markers(&mut self, next: Option<Sn>) {
        let applied = self.applied();
        if next.unwrap_or(self.snapshots.stable().next()) <= applied {
            return;
        }
        let snapshots = Arc::clone(&self.snapshots);
        let (shard, state) = self.parts_mut();
        // SAFETY: this is the writer, which frees nothing meanwhile.
        let number = unsafe { shard.at(u64::MAX) }.number;
        let WriterState { cells, changes, .. } = state;
        (shard.changes).attend(applied.0, &snapshots, number, cells, changes);
    }

    /// Does the writer's part of renewing the image: sets the markers that the builder has asked
    /// for, and publishes what it has finished. Returns whether a new generation was published.
    /// Call this in idle times; see [`Store::renew_portion`](crate::Store::renew_portion).
    pub fn renew(&mut self) -> bool {
        self.set_markers(None);
        let Some(renewed) = self.parts().0.renewal.take() else {
            return false;
        };
        let RenewedGeneration {
            mut next,
            at,
            marker,
        } = renewed;
        let Some(lists) = marker.lists().filter(|_| at.is_newest()) else {
            return false;
        };
        let horizon = self.snapshots.horizon();
        self.free(&horizon, FREES_AT_ONCE);
        let (shard, state) = self.parts_mut();
        // SAFETY: this is the writer, which frees nothing meanwhile.
        let old = unsafe { shard.at(u64::MAX) };
        let span = CopySpan {
            since: Some(at.sn()),
            sn: u64::MAX,
        };
        let closed = lists.iter().filter_map(|list| list.cells(old.number));
        let mut copied = CellsSeen::of_lists(lists.len() + 1);
        let cells = closed.chain([state.changes.cells()]).flatten();
        for cell in cells.filter(|cell| copied.is_first(**cell)) {
            // SAFETY: the cells are of the newest generation, and this is its writer.
            unsafe { next.copy(old, cell.as_ref().key(), span) };
        }
        next.settle();
        let applied = shard.applied.load(Ordering::Relaxed);
        let next = next.into_parts(applied, old.loaded());
        let bytes = next.bytes;
        state.in_cells = next.in_cells;
        self.replace_generation(next.generation, next.cells);
        self.parts_mut().1.live_bytes += bytes;
        drop(at);
        self.fold_some(&horizon, 0);
        true
    }

    /// Folds up to `lists` waiting lists as far as the retained SNs allow, and frees memory that no
    /// pin can see, some thousands of objects or `lists`. Returns the number of lists that still
    /// wait. Settling does the share of each SN, so call this in idle times.
    pub fn fold(&mut self, lists: usize) -> usize {
        self.set_markers(None);
        let horizon = self.snapshots.horizon();
        self.free(&horizon, lists.max(FREES_AT_ONCE));
        self.fold_some(&horizon, lists);
        self.parts().1.waiting.len()
    }

    /// As [`WriterState::free`].
    fn free(&mut self, horizon: &Horizon, most: usize) {
        let (shard, state) = self.parts_mut();
        state.free(horizon, most, &shard.replaced);
    }

    fn fold_some(&mut self, horizon: &Horizon, lists: usize) {
        let (shard, state) = self.parts_mut();
        let sn = shard.applied.load(Ordering::Relaxed);
        state.unlink(shard, horizon.retained.floor);
        // SAFETY: this is the writer, with its own state, and the newest generation; it frees
        // nothing while the pass is at work.
        let mut pass = unsafe {
            let generation = shard.at(u64::MAX);
            ApplyPass::new(generation, state, &horizon.retained, sn)
        };
        pass.fold_waiting(lists);
        // The header says why this is read last.
        let next_pin = self.snapshots.horizon().next_pin;
        let (shard, state) = self.parts_mut();
        state.stamp(next_pin, &shard.replaced);
        self.publish_bytes();
    }

    /// Shows the memory of the shard. An SN is reported with what it added, so this comes before.
    fn publish_bytes(&self) {
        let (shard, state) = self.parts();
        let bytes = usize::try_from(state.live_bytes).unwrap_or(0);
        shard.stored_bytes.store(bytes, Ordering::Relaxed);
        let retired = state.retired.len() * size_of::<(u64, Retired)>();
        shard.retired_bytes.store(retired, Ordering::Relaxed);
        let snapshots = state.tail_bytes + state.waiting_bytes + retired;
        shard.snapshot_bytes.store(snapshots, Ordering::Relaxed);
        let superseded = state.superseded_count;
        shard.superseded.store(superseded, Ordering::Relaxed);
    }

    /// Makes a list hold its first member twice: a fault for the checks to find.
    #[cfg(test)]
    pub(crate) fn plant_repeat(&mut self, key: Key) {
        let (shard, state) = self.parts_mut();
        let mut scratch = Vec::new();
        // SAFETY: this is the writer.
        unsafe {
            let generation = shard.at(u64::MAX);
            let first = generation.read(u64::MAX, key, &mut scratch)[0];
            let cell = (generation.segments.find(key)).expect("the list has a cell");
            state.retire(cell.publish_ids(0, &[first, first]));
        }
    }

    fn parts(&self) -> (&Shard, &WriterState) {
        let state = self
            .state
            .as_ref()
            .expect("a writer has its state until it is dropped");
        (&self.shard, state)
    }

    fn parts_mut(&mut self) -> (&Shard, &mut WriterState) {
        let state = self
            .state
            .as_mut()
            .expect("a writer has its state until it is dropped");
        (&self.shard, state)
    }
}

impl Drop for ShardWriter {
    fn drop(&mut self) {
        let Some(state) = self.state.take() else {
            return;
        };
        if state.applying {
            // A panic in the middle of an SN: readers of earlier SNs go on, but this shard cannot
            // be written again, and its cells must outlive the readers.
            std::mem::forget(state);
        } else {
            *self.shard.writer.lock() = Some(state);
        }
    }
}

impl WriterState {
    /// The state of a shard with nothing but this generation.
    pub(crate) fn of(first: &Generation) -> WriterState {
        WriterState {
            live_bytes: first.own_bytes() as isize,
            ..WriterState::default()
        }
    }

    /// A new cell with this key, which is not in the table yet.
    pub(crate) fn new_cell(&mut self, key: Key) -> NonNull<Cell> {
        let (cell, allocated) = self.cells.new_cell(key);
        self.live_bytes += allocated as isize;
        cell
    }

    /// Lets readers find a cell that [`WriterState::new_cell`] has made.
    ///
    /// # Safety
    /// The state is that of the writer of this generation, and the cell is one of its cells.
    pub(crate) unsafe fn insert_cell(
        &mut self,
        generation: &Generation,
        cell: NonNull<Cell>,
        key: Key,
    ) {
        generation.image.note(key);
        // SAFETY: the writer frees nothing while it works. The cell and all others lie in the
        // chunks of this generation, which are freed after its segments.
        let inserted = unsafe { generation.segments.insert(cell, key.hash()) };
        self.live_bytes += inserted.allocated as isize;
        if let Some(table) = inserted.replaced {
            self.retire_table(table);
        }
    }

    /// Keeps the former content of a cell until no reader can see it.
    pub(crate) fn retire(&mut self, owned: Owned) {
        if !owned.is_nothing() {
            let bytes = owned.own_bytes();
            self.waiting_bytes += bytes;
            self.fresh.push(Retired::Word(owned, bytes));
        }
    }

    /// Keeps a replaced table until no reader is in it.
    pub(crate) fn retire_table(&mut self, table: NonNull<Table>) {
        self.fresh.push(Retired::Table(table));
    }

    /// Unlinks the generations that no pin may read any more: those that a newer one replaces from
    /// an SN on that the floor has reached. New pins are at or above the floor.
    fn unlink(&mut self, shard: &Shard, floor: u64) {
        let may_go = |old: &OldGeneration| old.until <= floor;
        while self.superseded.front().is_some_and(may_go)
            && let Some(old) = self.superseded.pop_front()
        {
            let newer = match self.superseded.front() {
                // SAFETY: it is freed after it was unlinked itself, which comes later.
                Some(newer) => unsafe { newer.generation.as_ref() },
                // SAFETY: the newest one is not freed.
                None => unsafe { shard.at(u64::MAX) },
            };
            newer.older.store(std::ptr::null_mut(), Ordering::Release);
            let hold = ReplacedHold::SnsBelow(old.until);
            shard.replaced.subtract(hold, old.bytes);
            self.fresh.push(Retired::Generation(old));
        }
    }

    fn stamp(&mut self, next_pin: u64, replaced: &ReplacedBytes) {
        self.stamped += self.fresh.len();
        let bytes = self.fresh.iter().map(Retired::bytes).sum();
        replaced.add(ReplacedHold::PinsBefore(next_pin), bytes);
        let fresh = self.fresh.drain(..);
        self.retired
            .extend(fresh.map(|retired| (next_pin, retired)));
    }

    /// Frees memory that no live pin can see: at most `most` objects plus one and a half times the
    /// number added since, so that the backlog of a long query does not hold up the SN after it. No
    /// retired memory may be referenced by a caller of this state: it is called between SNs only.
    fn free(&mut self, horizon: &Horizon, most: usize, replaced: &ReplacedBytes) {
        let mut left = most.saturating_add(self.stamped * 3 / 2);
        self.stamped = 0;
        let mut gone = (0, 0);
        while left > 0
            && let Some((pin, _)) = self.retired.front()
            && *pin <= horizon.oldest_pin
            && let Some((pin, retired)) = self.retired.pop_front()
        {
            left -= 1;
            if pin != gone.0 {
                replaced.subtract(ReplacedHold::PinsBefore(gone.0), gone.1);
                gone = (pin, 0);
            }
            gone.1 += retired.bytes();
            if let Some((_, Retired::Word(ahead, _))) = self.retired.get(FREE_AHEAD) {
                ahead.prefetch();
            }
            match &retired {
                Retired::Word(_, bytes) => self.waiting_bytes -= bytes,
                Retired::Generation(old) => {
                    self.superseded_count -= 1;
                    self.superseded_bytes -= old.bytes;
                }
                Retired::Table(_) => {}
            }
            // SAFETY: it was replaced before `pin` could be taken, all lower pins have been
            // dropped, and this state is the only one that knows it.
            let freed = unsafe { retired.free() };
            self.live_bytes -= freed.bytes as isize;
            self.tail_bytes = self.tail_bytes.saturating_sub(freed.tails);
        }
        replaced.subtract(ReplacedHold::PinsBefore(gone.0), gone.1);
    }

    /// Frees all memory of the shard; `newest` is its newest generation.
    ///
    /// # Safety
    /// No reader is left, and nothing of it is used afterwards.
    pub(crate) unsafe fn free_everything(&mut self, newest: *mut Generation) {
        let retired = self.retired.drain(..).map(|(_, retired)| retired);
        for retired in retired.chain(self.fresh.drain(..)) {
            // SAFETY: no reader is left.
            unsafe { retired.free() };
        }
        for old in self.superseded.drain(..) {
            // SAFETY: made by Box::into_raw when it was published, and no reader is left.
            unsafe { Generation::free(old.generation, old.cells) };
        }
        if let Some(newest) = NonNull::new(newest) {
            // SAFETY: as above.
            unsafe { Generation::free(newest, std::mem::take(&mut self.cells)) };
        }
    }
}

impl Retired {
    /// About how many bytes only it holds.
    fn bytes(&self) -> usize {
        match self {
            Retired::Word(_, bytes) => *bytes,
            // SAFETY: it is freed by `free`, which takes this value.
            Retired::Table(table) => unsafe { table.as_ref() }.bytes(),
            Retired::Generation(old) => old.bytes,
        }
    }

    /// # Safety
    /// No reader can be looking at it any more.
    unsafe fn free(self) -> Freed {
        match self {
            // SAFETY: passed on.
            Retired::Word(owned, _) => unsafe { owned.release() },
            Retired::Table(table) => {
                // SAFETY: made by Box::into_raw in `Segments::insert`, replaced once, and no reader
                // is in it, as the caller promises.
                let table = unsafe { Box::from_raw(table.as_ptr()) };
                table.bytes().into()
            }
            // SAFETY: made by Box::into_raw when it was published, unlinked once, and no reader is
            // in it, as the caller promises.
            Retired::Generation(old) => unsafe { Generation::free(old.generation, old.cells) },
        }
    }
}
