//! Dictionary, persistent store, slices and snapshots.
#![allow(unused_variables, missing_docs, dead_code)]

mod batch;
mod dictionary;
mod slices;
mod snapshot;
mod store;

pub use batch::ShardBatch;
pub use dictionary::{Dictionary, rdf_type};
pub use slices::{Run, Slice, SliceStore, WindowVersion};
pub use snapshot::{PinId, PredicateStatistics, Snapshot, SnapshotError, Snapshots};
pub use somersault_model::{Mutation, Operation};
pub use store::{Applied, ApplyError, Memory, ShardWriter, Store, Violation, WriterTaken};
