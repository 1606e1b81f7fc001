//! The one writer of a shard. Applying an SN sorts its half edges, so that each list is touched
//! once; a list that is new is built in place and needs no tail; what an SN replaces is kept until
//! no pin that was taken before is alive.
//!
//! The order that matters: a word is replaced first, and only then is the number of the next pin
//! read (under the registry's lock). A pin with that number or a higher one was taken later and
//! cannot have seen the old word; once all lower ones are dropped, the old content is freed.
#![allow(unsafe_code)]

use crate::Store;
use crate::apply::Pass;
use crate::batch::{HalfEdge, ShardBatch};
use crate::cell::{Cell, Key, Owned};
use crate::changes::Changes;
use crate::shard::Shard;
use crate::snapshots::Horizon;
use crate::store::{Applied, ApplyError};
use crate::table::Table;
use somersault_model::{Operation, ShardId, Sn};
use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Cells are made in chunks of this many.
const CELL_CHUNK: usize = 512;
/// How many waiting lists an SN folds at most, besides twice as many as it touches: after a long
/// query the backlog goes down by and by.
const FOLDS_PER_APPLY: usize = 4096;

/// So many words ahead of its use the writer asks for what a replaced word led to.
const FREE_AHEAD: usize = 8;

/// The one writer of a shard. Dropping it gives the shard back: another generation (S16) can take
/// the writer again.
pub struct ShardWriter {
    store: Arc<Store>,
    shard: usize,
    state: Option<Box<WriterState>>,
}

/// What the writer knows besides what readers see.
#[derive(Default)]
pub(crate) struct WriterState {
    cells: Vec<NonNull<[Cell]>>,
    cells_used: usize,
    /// Lists with tails, and the SN of the newest tail at the time: oldest first.
    pub(crate) waiting: VecDeque<(u64, NonNull<Cell>)>,
    /// What was replaced, by the number of the first pin that cannot see it.
    retired: VecDeque<(u64, Retired)>,
    /// Replaced since the number of the next pin was last read.
    fresh: Vec<Retired>,
    /// Between the first and the last change of an SN the shard is not consistent.
    applying: bool,
    /// Bytes of lists, cells and tables; shared parts may be counted twice for a moment.
    pub(crate) live_bytes: isize,
    pub(crate) edges: Vec<HalfEdge>,
    pub(crate) effective: Changes,
}

// SAFETY: the pointers are to memory that this state owns (cells) or is the last to know
// (replaced words and tables); none is tied to a thread.
unsafe impl Send for WriterState {}

enum Retired {
    Word(Owned),
    Table(NonNull<Table>),
}

impl ShardWriter {
    pub(crate) fn new(store: Arc<Store>, state: Box<WriterState>, shard: ShardId) -> ShardWriter {
        ShardWriter {
            store,
            shard: shard.0.into(),
            state: Some(state),
        }
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
    /// Where the batch is for another shard, or the SN is behind what was applied or stable: then
    /// nothing was changed.
    pub fn apply(&mut self, sn: Sn, batch: &ShardBatch) -> Result<Applied, ApplyError> {
        let stable = self.store.snapshots().stable();
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
        let horizon = self.store.snapshots().horizon();
        let (shard, state) = self.parts_mut();
        state.free(&horizon);
        state.applying = true;
        let mut pass = Pass::new(shard, state, &horizon.retained, sn.0);
        for group in &batch.deletes {
            pass.group(group, Operation::Delete);
        }
        for group in &batch.inserts {
            pass.group(group, Operation::Insert);
        }
        let Pass {
            applied, touched, ..
        } = pass;
        state.applying = false;
        shard.applied.store(sn.0, Ordering::Release);
        self.fold_some(&horizon, FOLDS_PER_APPLY + 2 * touched);
        applied
    }

    /// Folds up to `lists` waiting lists as far as the retained SNs allow and frees what no pin can
    /// see; how many lists still wait. Applying does its share, so this is for idle times.
    pub fn fold(&mut self, lists: usize) -> usize {
        let horizon = self.store.snapshots().horizon();
        self.parts_mut().1.free(&horizon);
        self.fold_some(&horizon, lists);
        self.parts().1.waiting.len()
    }

    fn fold_some(&mut self, horizon: &Horizon, lists: usize) {
        let (shard, state) = self.parts_mut();
        let sn = shard.applied.load(Ordering::Relaxed);
        let mut pass = Pass::new(shard, state, &horizon.retained, sn);
        pass.fold_waiting(lists);
        // Read after everything was replaced: see the file's head.
        let next_pin = self.store.snapshots().horizon().next_pin;
        let (shard, state) = self.parts_mut();
        state.stamp(next_pin);
        let bytes = usize::try_from(state.live_bytes).unwrap_or(0);
        shard.stored_bytes.store(bytes, Ordering::Relaxed);
        let retired = state.retired.len() * size_of::<(u64, Retired)>();
        shard.retired_bytes.store(retired, Ordering::Relaxed);
    }

    /// Makes a list hold its first member twice: a fault for the checks to find.
    #[cfg(test)]
    pub(crate) fn plant_repeat(&mut self, key: Key) {
        let (shard, state) = self.parts_mut();
        let mut scratch = Vec::new();
        // SAFETY: this is the writer.
        unsafe {
            let first = shard.read(u64::MAX, key, &mut scratch)[0];
            let cell = shard.segments.find(key).expect("the list is there");
            state.retire(cell.publish_ids(0, &[first, first]));
        }
    }

    fn parts(&self) -> (&Shard, &WriterState) {
        let state = self
            .state
            .as_ref()
            .expect("a writer has its state until it is dropped");
        (self.store.shard(self.shard), state)
    }

    fn parts_mut(&mut self) -> (&Shard, &mut WriterState) {
        let state = self
            .state
            .as_mut()
            .expect("a writer has its state until it is dropped");
        (self.store.shard(self.shard), state)
    }
}

impl Drop for ShardWriter {
    fn drop(&mut self) {
        let Some(state) = self.state.take() else {
            return;
        };
        if state.applying {
            // A panic in the middle of an SN: readers of earlier SNs go on, but nobody may write
            // to this shard again, and its cells must outlive the readers.
            std::mem::forget(state);
        } else {
            *self.store.shard(self.shard).writer.lock() = Some(state);
        }
    }
}

impl WriterState {
    /// A new cell with this key, which is not in the table yet.
    pub(crate) fn new_cell(&mut self, key: Key) -> NonNull<Cell> {
        if self.cells_used == CELL_CHUNK || self.cells.is_empty() {
            let chunk: Box<[Cell]> = std::iter::repeat_with(Cell::default)
                .take(CELL_CHUNK)
                .collect();
            self.live_bytes += size_of_val(&*chunk) as isize;
            let chunk = NonNull::new(Box::into_raw(chunk)).expect("boxes are not null");
            self.cells.push(chunk);
            self.cells_used = 0;
        }
        let chunk = self.cells[self.cells.len() - 1];
        // SAFETY: the index is below the chunk's length.
        let cell = unsafe { chunk.cast::<Cell>().add(self.cells_used) };
        self.cells_used += 1;
        // SAFETY: chunks live as long as this state, and cells are shared only (all atomics).
        unsafe { cell.as_ref() }.set_key(key);
        cell
    }

    /// Keeps what a cell led to until nobody can see it.
    pub(crate) fn retire(&mut self, owned: Owned) {
        if !owned.is_nothing() {
            self.fresh.push(Retired::Word(owned));
        }
    }

    /// Keeps a replaced table until nobody is in it.
    pub(crate) fn retire_table(&mut self, table: NonNull<Table>) {
        self.fresh.push(Retired::Table(table));
    }

    fn stamp(&mut self, next_pin: u64) {
        let fresh = self.fresh.drain(..);
        self.retired
            .extend(fresh.map(|retired| (next_pin, retired)));
    }

    /// Frees what no pin that is alive can see. Nothing that a caller of this state has a reference
    /// to may be retired: it is called between SNs only.
    fn free(&mut self, horizon: &Horizon) {
        while let Some((pin, _)) = self.retired.front()
            && *pin <= horizon.oldest_pin
            && let Some((_, retired)) = self.retired.pop_front()
        {
            if let Some((_, Retired::Word(ahead))) = self.retired.get(FREE_AHEAD) {
                ahead.prefetch();
            }
            // SAFETY: it was replaced before `pin` could be taken, all lower pins have been
            // dropped, and this state is the only one that knows it.
            self.live_bytes -= unsafe { retired.free() } as isize;
        }
    }

    /// Frees all memory of the shard but the tables.
    ///
    /// # Safety
    /// No reader is left, and no cell is used afterwards.
    pub(crate) unsafe fn free_everything(&mut self) {
        let retired = self.retired.drain(..).map(|(_, retired)| retired);
        for retired in retired.chain(self.fresh.drain(..)) {
            // SAFETY: no reader is left.
            unsafe { retired.free() };
        }
        for chunk in self.cells.drain(..) {
            // SAFETY: made by Box::into_raw in `new_cell`, and nobody uses a cell any more.
            drop(unsafe { Box::from_raw(chunk.as_ptr()) });
        }
    }
}

impl Retired {
    /// # Safety
    /// No reader can be looking at it any more.
    unsafe fn free(self) -> usize {
        match self {
            // SAFETY: passed on.
            Retired::Word(owned) => unsafe { owned.release() },
            Retired::Table(table) => {
                // SAFETY: made by Box::into_raw in `Segments::insert`, replaced once, and no reader
                // is in it, as the caller promises.
                let table = unsafe { Box::from_raw(table.as_ptr()) };
                table.bytes()
            }
        }
    }
}
