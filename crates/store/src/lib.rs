//! The hybrid store of Somersault: the persistent store (stored graphs at any retained snapshot),
//! slices and windows of streams, and the registry of snapshots. It knows no
//! query and has no thread of its own: writers and readers come to it.
//!
//! Rooms, lowest first: memory, statistics, pace, spread, stretches, half_edges, lists, snapshots,
//! image, shard, windows, store.
//!
//! # Why reading without locks is safe
//!
//! A reader holds a [`Snapshot`], which is a pin. It goes from a segment's table to a cell and from
//! the cell's word to an immutable list; the writer replaces tables and words, with Release, and
//! never changes what they lead to. Four things could go wrong, and do not:
//!
//! 1. *Freed memory.* What the writer replaces is kept with the number of the next pin, which is
//!    read under the registry's lock after the replacing. A pin with that or a higher number was
//!    taken (under the same lock) later and loads the new word. Once every lower pin is dropped,
//!    which also goes through the lock, no reader can have the old one. Deadlines play no part in
//!    it: an expired pin loses its SN, not its memory.
//! 2. *A wrong state.* A list holds what readers at every retained SN see: its base if born by
//!    then, and the tails at or before it; a short one, each id from its date on. The writer adds
//!    tails and dates only at SNs above the stable one, and folds only at or below the floor, where
//!    no unexpired pin is. Pins are given out only for SNs that are pinned already or not below the
//!    stable one, so no reader can tell that tails between pins were joined.
//! 3. *A key between two tables.* A growing segment publishes the larger table complete; a reader
//!    in the smaller one misses only keys that were added later, hence at an SN above its own.
//! 4. *The wrong generation.* A large load at SN n publishes a new generation of its shard,
//!    complete but for cells of n itself: an image of all that there is, beside the old generation,
//!    which the writer never changes again. A reader takes the newest that was born at or before
//!    its SN. So readers below n stay in the old one, whenever they look; readers at n or above
//!    came when n was stable, hence after the publishing, and find the new one. Pins below n are
//!    given out until n is stable; so the old one is unlinked only when the floor has reached n,
//!    and then freed like anything replaced (1). Images never change; a list that borrows from one
//!    is reached through a cell of the same generation only, and goes with it. That an image has
//!    cells beside it is noted before the first can be found, hence before its SN is stable: a
//!    reader that misses the note has no use for the cell.
//!
//! 5. *Two generations for one SN.* A renewal publishes a generation born at the last SN a that the
//!    shard has applied. It is complete when it is published: it has cells of all keys that changed
//!    since its image was read. Later batches, of a too, change it alone. At SNs from a on that are
//!    stable already both generations show the same, so a reader may go from the older one to the
//!    newer one between two reads. Readers of SNs that become stable later come after the
//!    publishing, and find the newer one. Readers below a stay in the older one. It is unlinked
//!    when the floor has reached a, and freed like anything replaced (1): a reader that still
//!    borrows from it has a pin from before that.
//! 6. *A reader that renews its pin.* A reader that walks a shard in portions pins its SN again
//!    before it drops the earlier pin, so the SN stays retained. It borrows no list between
//!    portions. It keeps pointers to cells, which are freed with their generation, and looks the
//!    generation up again through each new pin. If it is the same, it was not unlinked when that
//!    pin was taken, so the new pin keeps it (1). If it is another one (5), the reader drops the
//!    pointers. Lists of changed cells name their generation by a number that is never used again,
//!    and a reader follows them only in that generation. A long query holds its SN apart
//!    ([`SnapshotHold`]), and reads through pins of memory alone, one after the other.
//!
//! Cells are freed with their generation. The rooms `memory`, `lists`, `image`, `shard` and `store`
//! hold all the `unsafe` there is, and run under miri.

mod half_edges;
mod image;
mod lists;
mod memory;
mod pace;
mod shard;
mod snapshots;
mod spread;
mod statistics;
mod store;
mod stretches;
mod windows;

pub use half_edges::ListKey;
pub use pace::Pace;
pub use shard::{
    Applied, ApplyError, PreparedEdges, RenewalNeed, RenewalState, RestoreError, RestoredLists,
    RestoredRange, ShardBatch, ShardRestore, ShardWriter, WriterTaken,
};
pub use snapshots::{PinEnd, PinStatus, SnapshotError, Snapshots};
pub use somersault_model::{Mutation, Operation};
pub use statistics::PredicateStatistics;
pub use store::{
    Ends, ListReader, ListRun, Marker, Memory, MergedRuns, Snapshot, SnapshotHold, Store,
    StoreHold, Violation, fingerprint,
};
pub use windows::{PastWindow, Run, Slice, SliceRows, SliceStore, ViewKey, WindowVersion};
