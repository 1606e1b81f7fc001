//! Checkpoints of a running engine: what the sequencer has frozen is written to files, and an
//! engine begins from them.
//!
//! Before changing anything here: a checkpoint is the state after the log's records up to one
//! position, at the newest SN that was cut there. The log is replayed behind that position, so
//! whatever a record up to there has changed is in the files, or was waited for.

mod lists;
mod pace;
mod policy;
mod restore;
mod restore_lists;
mod status;
mod transactions;
mod write;

pub(crate) use lists::CheckpointMarkers;
pub use policy::{CheckpointConfig, RestartEstimate};
pub(crate) use policy::{CheckpointPolicy, Opened};
pub(crate) use restore::RestoredCores;
pub use restore::{RecentCheckpoint, Restored, RestoredState, restore_checkpoint, restore_newest};
pub(crate) use status::CheckpointedNumbers;
pub use status::{CheckpointStatus, NewestCheckpoint};
pub(crate) use transactions::{DeclarationRecord, RestoredTransactions, read_saved};
pub use write::CheckpointWriter;
pub(crate) use write::{Beside, FrozenState, RewrittenFiles, StopFlag};

use lists::ListRuns;
use somersault_checkpoint::{FileName, Manifest, PieceRuns, TermRuns};
use std::collections::BTreeSet;

/// The files of a checkpoint that the one after it can carry over.
#[derive(Default)]
pub struct CheckpointRuns {
    /// The checkpoint; `None` before the first.
    manifest: Option<Manifest>,
    terms: TermRuns,
    /// `None` before the first checkpoint, and if its shards were others.
    lists: Option<ListRuns>,
    /// These are written once by each process, so none are known when one begins.
    slices: PieceRuns,
    core: PieceRuns,
    answers: PieceRuns,
    transactions: PieceRuns,
}

impl CheckpointRuns {
    /// The files of a checkpoint from which an engine begins.
    fn restored(manifest: &Manifest, terms: TermRuns, lists: Option<ListRuns>) -> CheckpointRuns {
        CheckpointRuns {
            manifest: Some(manifest.clone()),
            terms,
            lists,
            ..CheckpointRuns::default()
        }
    }

    /// Forgets these files: what they hold is written again.
    fn forget(&mut self, files: &BTreeSet<FileName>) {
        self.terms.forget(files);
        if let Some(lists) = &mut self.lists {
            lists.forget(files);
        }
        let records = [&mut self.core, &mut self.answers, &mut self.transactions];
        for pieces in [&mut self.slices].into_iter().chain(records) {
            pieces.forget(files);
        }
    }
}
