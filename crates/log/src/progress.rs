//! The progress of opening a log, for people who wait for it.
//!
//! The one thing to know: it counts bytes of files. Every segment and every load segment is read
//! twice, once to verify it and once for its contents.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The bytes that opening has read, and the bytes that it has to read. Shared between the opening
/// thread and the threads that report progress.
#[derive(Debug, Default)]
pub struct OpenProgress {
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

    pub(crate) fn begin(&self, total: u64) {
        self.done.store(0, Ordering::Relaxed);
        self.total.store(total, Ordering::Relaxed);
    }

    pub(crate) fn add(&self, bytes: usize) {
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
