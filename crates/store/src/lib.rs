//! The hybrid store of Somersault: the dictionary, the persistent store (stored graphs at any
//! retained snapshot), slices and windows of streams, and the registry of snapshots. It knows no
//! query and has no thread of its own: writers and readers come to it.
//!
//! # Why reading without locks is safe
//!
//! A reader holds a [`Snapshot`], which is a pin. It goes from a segment's table to a cell and from
//! the cell's word to an immutable list; the writer replaces tables and words, with Release, and
//! never changes what they lead to. Three things could go wrong, and do not:
//!
//! 1. *Freed memory.* What the writer replaces is kept with the number of the next pin, which is
//!    read under the registry's lock after the replacing. A pin with that or a higher number was
//!    taken (under the same lock) later and loads the new word. Once every lower pin is dropped,
//!    which also goes through the lock, no reader can have the old one. Deadlines play no part in
//!    it: an expired pin loses its SN, not its memory.
//! 2. *A wrong state.* A list holds what readers at every retained SN see: its base if born by then,
//!    and the tails at or before it. The writer adds tails only at SNs above the stable one, and
//!    folds only at or below the floor, where no unexpired pin is. Pins are given out only for SNs
//!    that are pinned already or not below the stable one, so joining tails between pins is seen
//!    by nobody.
//! 3. *A key between two tables.* A growing segment publishes the larger table complete; a reader
//!    in the smaller one misses only keys that were added later, hence at an SN above its own.
//!
//! Cells are freed with the shard. The modules `block`, `cell`, `table`, `arena`, `growing`,
//! `dictionary`, `interner`, `shard`, `apply`, `writer` and `snapshot` hold all the `unsafe` there is, and run under miri.

mod apply;
mod arena;
mod array;
mod base;
mod batch;
mod block;
mod cell;
mod changes;
mod check;
mod columns;
mod dictionary;
mod generation;
mod growing;
mod image;
mod interner;
mod list;
mod run;
mod shard;
mod shared_text;
mod side;
mod slice;
mod slice_store;
mod slots;
mod snapshot;
mod snapshots;
mod store;
mod table;
mod term_view;
mod walk;
mod window;
mod writer;

pub use batch::ShardBatch;
pub use check::fingerprint;
pub use dictionary::{Dictionary, rdf_type};
pub use interner::Interner;
pub use run::Run;
pub use slice::Slice;
pub use slice_store::SliceStore;
pub use snapshot::{Ends, PredicateStatistics, Snapshot};
pub use snapshots::{PinStatus, SnapshotError, Snapshots};
pub use somersault_model::{Mutation, Operation};
pub use store::{Applied, ApplyError, Memory, Store, Violation, WriterTaken};
pub use term_view::{TermKind, TermView, inline_view};
pub use window::WindowVersion;
pub use writer::ShardWriter;
