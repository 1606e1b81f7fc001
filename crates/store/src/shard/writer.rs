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
use crate::image::{Build, Frozen};
use crate::lists::Changes;
use crate::lists::Date;
use crate::lists::Freed;
use crate::lists::Table;
use crate::lists::{Cell, Key, Owned};
use crate::shard::Shard;
use crate::shard::applied::{Applied, ApplyError};
use crate::shard::apply::ApplyPass;
use crate::shard::batch::ShardBatch;
use crate::shard::generation::{CellChunks, Generation};
use crate::snapshots::{Horizon, Snapshots};
use somersault_model::{Operation, Placement, ShardId, Sn, TermId};
use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Cells are made in chunks of this many.
const CELL_CHUNK: usize = 512;
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

/// The conditions under which a load makes an image.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ImagePolicy {
    /// Loads with fewer half edges for a shard go to cells.
    pub(crate) smallest_load: usize,
    /// Predicates with fewer edges in a graph stay in cells.
    pub(crate) smallest_predicate: usize,
}

/// The writer's own state, beside the state that readers see.
#[derive(Default)]
pub(crate) struct WriterState {
    /// The cells of the newest generation.
    cells: CellChunks,
    cells_used: usize,
    /// Older generations and their cells, oldest first, each with the SN from which on readers read
    /// a newer one.
    superseded: VecDeque<(u64, NonNull<Generation>, CellChunks)>,
    /// The number of older generations, including those that wait to be freed.
    superseded_count: usize,
    /// The number of statements that the shard holds, and half edges in cells.
    statements: u64,
    in_cells: usize,
    /// Lists of the newest generation with tails, and the SN of the newest tail at the time: oldest
    /// first.
    pub(crate) waiting: VecDeque<(u64, NonNull<Cell>)>,
    /// Replaced memory, by the number of the first pin that cannot see it.
    retired: VecDeque<(u64, Retired)>,
    /// The number of entries added since memory was last freed.
    stamped: usize,
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
    Generation(NonNull<Generation>, CellChunks),
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

    pub(crate) fn apply_unchecked(&mut self, sn: Sn, batch: &ShardBatch) -> Applied {
        let horizon = self.snapshots.horizon();
        self.parts_mut().1.free(&horizon, FREES_AT_ONCE);
        self.parts_mut().1.applying = true;
        let before = self.parts().1.statements;
        let mut loaded = Vec::new();
        let mut renewed = false;
        let cleared = self.statements_of(&batch.clears);
        if batch.loaded() > 0 || cleared > 0 {
            renewed = self.is_worth_an_image(batch.loaded()) || self.is_worth_leaving_out(cleared);
            loaded = if renewed {
                self.renew(sn, batch)
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
        state.in_cells += changed(&loaded) + changed(&batch.inserts);
        state.applying = false;
        shard.applied.store(sn.0, Ordering::Release);
        self.fold_some(&horizon, FOLDS_PER_APPLY + 2 * touched);
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
    fn renew(&mut self, sn: Sn, batch: &ShardBatch) -> Vec<Group> {
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
        let built = build.run();
        debug_assert!(state.applying, "what a panic leaves is not read");
        let pointer = NonNull::from(old);
        let generation = Generation::new(sn.0, built.image, pointer.as_ptr());
        let (shard, state) = self.parts_mut();
        state.live_bytes += generation.own_bytes() as isize;
        state.statements = generation.image.statements();
        state.in_cells = 0;
        state.cells_used = 0;
        // The old generation is never touched again.
        state.waiting.clear();
        let cells = std::mem::take(&mut state.cells);
        state.superseded.push_back((sn.0, pointer, cells));
        state.superseded_count += 1;
        shard.publish(Box::new(generation));
        built.rest
    }

    /// Folds up to `lists` waiting lists as far as the retained SNs allow, and frees memory that no
    /// pin can see, some thousands of objects or `lists`. Returns the number of lists that still
    /// wait. Applying does its share of this work, so call this in idle times.
    pub fn fold(&mut self, lists: usize) -> usize {
        let horizon = self.snapshots.horizon();
        self.parts_mut().1.free(&horizon, lists.max(FREES_AT_ONCE));
        self.fold_some(&horizon, lists);
        self.parts().1.waiting.len()
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
        state.stamp(next_pin);
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
        if self.cells_used == CELL_CHUNK || self.cells.0.is_empty() {
            let chunk: Box<[Cell]> = std::iter::repeat_with(Cell::default)
                .take(CELL_CHUNK)
                .collect();
            self.live_bytes += size_of_val(&*chunk) as isize;
            let chunk = NonNull::new(Box::into_raw(chunk)).expect("boxes are not null");
            self.cells.0.push(chunk);
            self.cells_used = 0;
        }
        let chunk = self.cells.0[self.cells.0.len() - 1];
        // SAFETY: the index is below the chunk's length.
        let cell = unsafe { chunk.cast::<Cell>().add(self.cells_used) };
        self.cells_used += 1;
        // SAFETY: the chunks in `cells` are those of the newest generation and are freed with it,
        // after they were taken out of here; cells are shared only (all atomics).
        unsafe { cell.as_ref() }.set_key(key);
        cell
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
        while let Some((from, ..)) = self.superseded.front()
            && *from <= floor
            && let Some((_, generation, cells)) = self.superseded.pop_front()
        {
            let newer = match self.superseded.front() {
                // SAFETY: it is freed after it was unlinked itself, which comes later.
                Some((_, newer, _)) => unsafe { newer.as_ref() },
                // SAFETY: the newest one is not freed.
                None => unsafe { shard.at(u64::MAX) },
            };
            newer.older.store(std::ptr::null_mut(), Ordering::Release);
            self.fresh.push(Retired::Generation(generation, cells));
        }
    }

    fn stamp(&mut self, next_pin: u64) {
        self.stamped += self.fresh.len();
        let fresh = self.fresh.drain(..);
        self.retired
            .extend(fresh.map(|retired| (next_pin, retired)));
    }

    /// Frees memory that no live pin can see: at most `most` objects plus one and a half times the
    /// number added since, so that the backlog of a long query does not hold up the SN after it. No
    /// retired memory may be referenced by a caller of this state: it is called between SNs only.
    fn free(&mut self, horizon: &Horizon, most: usize) {
        let mut left = most.saturating_add(self.stamped * 3 / 2);
        self.stamped = 0;
        while left > 0
            && let Some((pin, _)) = self.retired.front()
            && *pin <= horizon.oldest_pin
            && let Some((_, retired)) = self.retired.pop_front()
        {
            left -= 1;
            if let Some((_, Retired::Word(ahead, _))) = self.retired.get(FREE_AHEAD) {
                ahead.prefetch();
            }
            match &retired {
                Retired::Word(_, bytes) => self.waiting_bytes -= bytes,
                Retired::Generation(..) => self.superseded_count -= 1,
                Retired::Table(_) => {}
            }
            // SAFETY: it was replaced before `pin` could be taken, all lower pins have been
            // dropped, and this state is the only one that knows it.
            let freed = unsafe { retired.free() };
            self.live_bytes -= freed.bytes as isize;
            self.tail_bytes = self.tail_bytes.saturating_sub(freed.tails);
        }
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
        for (_, generation, cells) in self.superseded.drain(..) {
            // SAFETY: made by Box::into_raw when it was published, and no reader is left.
            unsafe { Generation::free(generation, cells) };
        }
        if let Some(newest) = NonNull::new(newest) {
            // SAFETY: as above.
            unsafe { Generation::free(newest, std::mem::take(&mut self.cells)) };
        }
    }
}

impl Retired {
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
            Retired::Generation(generation, cells) => unsafe {
                Generation::free(generation, cells)
            },
        }
    }
}
