//! One partition of the store as readers see it: the generation of their SN, found without a lock.
#![allow(unsafe_code)]

mod applied;
mod apply;
mod batch;
mod edge_lists;
mod generation;
mod markers;
mod next_generation;
mod pinned;
mod prepared;
mod renewal;
mod replaced;
mod restore;
mod writer;

pub use applied::{Applied, ApplyError, WriterTaken};
pub use batch::ShardBatch;
pub(crate) use edge_lists::EdgeWalk;
pub(crate) use generation::Generation;
pub(crate) use markers::{ChangeList, ListHold};
pub(crate) use pinned::PinnedGeneration;
pub use prepared::PreparedEdges;
pub(crate) use renewal::Renewals;
pub use renewal::{RenewalNeed, RenewalState};
pub(crate) use replaced::{ReplacedBytes, ReplacedHold};
pub use restore::{RestoreError, RestoredLists, RestoredRange, ShardRestore};
pub use writer::ShardWriter;
pub(crate) use writer::{ImagePolicy, ShardLayout};

use crate::image::Image;
use markers::ChangeLists;
use parking_lot::Mutex;
use renewal::RenewalSlot;
use somersault_model::ShardId;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use writer::WriterState;

/// One shard.
pub(crate) struct Shard {
    pub(crate) id: ShardId,
    /// The newest generation; never null.
    current: AtomicPtr<Generation>,
    /// The last SN that the writer has applied.
    pub(crate) applied: AtomicU64,
    pub(crate) stored_bytes: AtomicUsize,
    pub(crate) retired_bytes: AtomicUsize,
    pub(crate) snapshot_bytes: AtomicUsize,
    /// The number of older generations, as of the writer's last work.
    pub(crate) superseded: AtomicUsize,
    /// The lists of changed cells, for holders of markers.
    pub(crate) changes: ChangeLists,
    /// The renewal of its image, as far as the writer and the builder share it.
    pub(crate) renewal: RenewalSlot,
    /// Replaced memory that is kept for readers.
    pub(crate) replaced: ReplacedBytes,
    /// The writer's state while there is no writer.
    pub(crate) writer: Mutex<Option<Box<WriterState>>>,
}

impl Shard {
    pub(crate) fn new(id: ShardId) -> Shard {
        let first = Generation::new(0, Image::default(), null_mut());
        let state = WriterState::of(&first);
        Shard {
            id,
            current: AtomicPtr::new(Box::into_raw(Box::new(first))),
            applied: AtomicU64::new(0),
            stored_bytes: AtomicUsize::new(0),
            retired_bytes: AtomicUsize::new(0),
            snapshot_bytes: AtomicUsize::new(0),
            superseded: AtomicUsize::new(0),
            changes: ChangeLists::default(),
            renewal: RenewalSlot::default(),
            replaced: ReplacedBytes::default(),
            writer: Mutex::new(Some(Box::new(state))),
        }
    }

    /// The generation that readers at `sn` read.
    ///
    /// # Safety
    /// The caller holds a pin throughout `'a` (or is the writer, which frees none meanwhile).
    #[inline]
    pub(crate) unsafe fn at<'a>(&'a self, sn: u64) -> &'a Generation {
        // SAFETY: generations are published complete with Release. The newest is never freed, an
        // older one only after it was unlinked and all pins from before that are dropped.
        unsafe {
            let mut generation: &'a Generation = &*self.current.load(Ordering::Acquire);
            while generation.born > sn {
                match generation.older.load(Ordering::Acquire).as_ref() {
                    Some(older) => generation = older,
                    // Only an expired pin comes here, and its result is not used: any generation
                    // will do.
                    None => break,
                }
            }
            generation
        }
    }

    /// Makes a generation the newest.
    pub(crate) fn publish(&self, generation: Box<Generation>) {
        self.current
            .store(Box::into_raw(generation), Ordering::Release);
    }
}

impl Drop for Shard {
    fn drop(&mut self) {
        // A writer that was lost in a panic has left its memory behind on purpose: it is leaked.
        let Some(mut writer) = self.writer.get_mut().take() else {
            return;
        };
        // SAFETY: snapshots (through the store) and writers keep the shard alive, so neither is
        // left.
        unsafe { writer.free_everything(*self.current.get_mut()) };
    }
}
