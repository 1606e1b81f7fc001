//! Holds on the files of a log and of its checkpoints: while there is one, neither trimming nor a
//! new checkpoint takes files away, so that a backup can read them.
//!
//! The one thing to know: a backup takes its hold first and chooses its files then. A file that an
//! earlier decision removes is not needed by the newest checkpoint, so it is never among them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The holds on one folder. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct FolderHolds(Arc<AtomicUsize>);

/// Keeps the files of a folder until it is dropped.
#[derive(Debug)]
pub struct FolderHold(FolderHolds);

impl FolderHolds {
    /// Whether there is a hold: no file may be removed.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.0.load(Ordering::SeqCst) > 0
    }

    /// Takes a hold.
    #[must_use]
    pub fn hold(&self) -> FolderHold {
        self.0.fetch_add(1, Ordering::SeqCst);
        FolderHold(self.clone())
    }
}

impl Drop for FolderHold {
    fn drop(&mut self) {
        (self.0).0.fetch_sub(1, Ordering::SeqCst);
    }
}
