//! The files of checkpoints: immutable once a manifest names them, each with its format, its
//! version, its log and its checksums.
//!
//! The one thing to know before changing it: a checkpoint exists from the moment its manifest has
//! its name. Everything that the manifest names is durable before, and nothing that a kept manifest
//! names is ever removed. docs/format.md has the bytes of every file.
//!
//! Rooms, lowest first: error, name, container, records, manifest, pieces, terms, lists, slices,
//! folder, verify, dictionary.

mod container;
mod dictionary;
mod error;
mod folder;
mod lists;
mod manifest;
mod name;
mod pieces;
mod records;
mod slices;
mod terms;
mod verify;

pub use container::{FileHeader, FileReader, FileSummary, FileWriter, LogOrigin};
pub use dictionary::{RestoredDictionary, TermRuns, restore_dictionary};
pub use error::CheckpointError;
pub use folder::{WholeCheckpoints, next_number, remove_unneeded, whole_checkpoints};
pub use lists::{ListFileReader, ListFileWriter};
pub use manifest::{CheckpointTimes, Coverage, ListedFile, Manifest, NewCheckpoint, VerifyDepth};
pub use name::{FileKind, FileName};
pub use pieces::{PieceReader, PieceRuns, PieceWriter};
pub use slices::{SavedSlice, SliceReader, SliceWriter};
pub use terms::{TermFileReader, read_transient_terms, write_terms, write_transient_terms};
pub use verify::{VerifiedCheckpoint, VerifiedCheckpoints, verify_checkpoints};
