//! The progress of opening a log, for people who wait for it.
//!
//! The one thing to know: it counts bytes of files. Every segment and every load segment is read
//! twice, once to verify it and once for its contents. A checkpoint that is read before is counted
//! by its reader.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// What an opening reads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OpenPhase {
    /// Nothing yet.
    #[default]
    Begun,
    /// The newest checkpoint.
    Checkpoint,
    /// The log behind it, or all of it.
    Log,
}

/// The phase of an opening, the bytes that it has read of what it reads now, and the bytes of that.
/// Shared between the opening thread and the threads that report progress.
#[derive(Debug, Default)]
pub struct OpenProgress {
    phase: AtomicU8,
    total: AtomicU64,
    done: AtomicU64,
}

impl OpenProgress {
    /// The bytes to read; 0 as long as that is not known.
    ///
    /// ```
    /// assert_eq!(somersault_log::OpenProgress::default().total_bytes(), 0);
    /// ```
    pub fn total_bytes(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    /// The bytes that were read, at most all.
    ///
    /// ```
    /// assert_eq!(somersault_log::OpenProgress::default().done_bytes(), 0);
    /// ```
    pub fn done_bytes(&self) -> u64 {
        self.done.load(Ordering::Relaxed).min(self.total_bytes())
    }

    /// The part that is done, from 0 to 1; 0 as long as it is not known how much there is.
    ///
    /// ```
    /// assert_eq!(somersault_log::OpenProgress::default().fraction(), 0.0);
    /// ```
    pub fn fraction(&self) -> f64 {
        match self.total_bytes() {
            0 => 0.0,
            total => self.done_bytes() as f64 / total as f64,
        }
    }

    /// What is read now.
    ///
    /// ```
    /// use somersault_log::{OpenPhase, OpenProgress};
    /// assert_eq!(OpenProgress::default().phase(), OpenPhase::Begun);
    /// ```
    pub fn phase(&self) -> OpenPhase {
        match self.phase.load(Ordering::Relaxed) {
            0 => OpenPhase::Begun,
            1 => OpenPhase::Checkpoint,
            _ => OpenPhase::Log,
        }
    }

    /// A checkpoint of this many bytes is read from now on.
    #[doc(hidden)]
    pub fn begin_checkpoint(&self, total: u64) {
        self.begin_phase(OpenPhase::Checkpoint, total);
    }

    pub(crate) fn begin(&self, total: u64) {
        self.begin_phase(OpenPhase::Log, total);
    }

    fn begin_phase(&self, phase: OpenPhase, total: u64) {
        self.phase.store(phase as u8, Ordering::Relaxed);
        self.done.store(0, Ordering::Relaxed);
        self.total.store(total, Ordering::Relaxed);
    }

    /// Counts bytes that were read.
    #[doc(hidden)]
    pub fn add(&self, bytes: usize) {
        self.done.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

/// A reader that counts what is read.
pub(crate) struct Counted {
    pub(crate) inner: Box<dyn Read + Send>,
    pub(crate) progress: Arc<OpenProgress>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.progress.add(read);
        Ok(read)
    }
}
