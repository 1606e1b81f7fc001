//! A simulated disk with a fault planted in one of its operations: a sync that lies or waits, a
//! replacement that does not replace, space that cannot be set aside, a file that cannot be read.
//!
//! The one thing to know before changing it: whatever no test alters is the simulated disk's own,
//! so a fault that a test sees is the planted one.

use crate::disk::{Disk, DiskFile, DiskLayer};
use crate::sim::SimDisk;
use std::io::{self, Read};
use std::sync::Arc;

type SyncFile = dyn Fn(&mut dyn DiskFile) -> io::Result<()> + Send + Sync;
type ReserveSpace = dyn Fn(&mut dyn DiskFile, u64) -> io::Result<bool> + Send + Sync;
type ReplaceFile = dyn Fn(&SimDisk, &str, &str) -> io::Result<()> + Send + Sync;
type ReadFile = dyn Fn(&SimDisk, &str) -> io::Result<Box<dyn Read + Send>> + Send + Sync;

/// A [`SimDisk`] of which a test alters single operations.
///
/// ```
/// use somersault_disk::{AlteredDisk, Disk, SimDisk};
/// let disk = AlteredDisk::of(&SimDisk::new())
///     .with_sync(|_| Err(std::io::Error::other("the disk is broken")));
/// let mut file = disk.create("log").unwrap();
/// file.append(b"bytes").unwrap();
/// assert!(file.sync().is_err());
/// ```
pub struct AlteredDisk {
    disk: SimDisk,
    sync: Arc<SyncFile>,
    reserve: Arc<ReserveSpace>,
    replace: Box<ReplaceFile>,
    read: Box<ReadFile>,
}

struct AlteredFile {
    file: Box<dyn DiskFile>,
    sync: Arc<SyncFile>,
    reserve: Arc<ReserveSpace>,
}

impl AlteredDisk {
    /// Returns a disk that behaves as `disk` does, and shares its files.
    #[must_use]
    pub fn of(disk: &SimDisk) -> AlteredDisk {
        AlteredDisk {
            disk: disk.clone(),
            sync: Arc::new(|file| file.sync()),
            reserve: Arc::new(|file, length| file.reserve(length)),
            replace: Box::new(|disk, from, to| disk.replace(from, to)),
            read: Box::new(|disk, name| disk.read(name)),
        }
    }

    /// Syncs each file by `sync`.
    #[must_use]
    pub fn with_sync(
        self,
        sync: impl Fn(&mut dyn DiskFile) -> io::Result<()> + Send + Sync + 'static,
    ) -> AlteredDisk {
        AlteredDisk {
            sync: Arc::new(sync),
            ..self
        }
    }

    /// Sets space aside by `reserve`, which gets the file and the length.
    #[must_use]
    pub fn with_reserve(
        self,
        reserve: impl Fn(&mut dyn DiskFile, u64) -> io::Result<bool> + Send + Sync + 'static,
    ) -> AlteredDisk {
        AlteredDisk {
            reserve: Arc::new(reserve),
            ..self
        }
    }

    /// Replaces files by `replace`, which gets the disk, the old name and the new one.
    #[must_use]
    pub fn with_replace(
        self,
        replace: impl Fn(&SimDisk, &str, &str) -> io::Result<()> + Send + Sync + 'static,
    ) -> AlteredDisk {
        AlteredDisk {
            replace: Box::new(replace),
            ..self
        }
    }

    /// Reads files by `read`, which gets the disk and the name.
    #[must_use]
    pub fn with_read(
        self,
        read: impl Fn(&SimDisk, &str) -> io::Result<Box<dyn Read + Send>> + Send + Sync + 'static,
    ) -> AlteredDisk {
        AlteredDisk {
            read: Box::new(read),
            ..self
        }
    }

    fn altered(&self, file: Box<dyn DiskFile>) -> Box<dyn DiskFile> {
        Box::new(AlteredFile {
            file,
            sync: Arc::clone(&self.sync),
            reserve: Arc::clone(&self.reserve),
        })
    }
}

impl DiskLayer for AlteredDisk {
    fn below(&self) -> &dyn Disk {
        &self.disk
    }

    fn read(&self, name: &str) -> io::Result<Box<dyn Read + Send>> {
        (self.read)(&self.disk, name)
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        Ok(self.altered(self.disk.create(name)?))
    }

    fn append_to(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        Ok(self.altered(self.disk.append_to(name)?))
    }

    fn replace(&self, from: &str, to: &str) -> io::Result<()> {
        (self.replace)(&self.disk, from, to)
    }
}

impl DiskFile for AlteredFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.append(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        (self.sync)(&mut *self.file)
    }

    fn reserve(&mut self, length: u64) -> io::Result<bool> {
        (self.reserve)(&mut *self.file, length)
    }

    fn extend(&mut self, length: u64) -> io::Result<()> {
        self.file.extend(length)
    }

    fn is_in_place(&self) -> io::Result<bool> {
        self.file.is_in_place()
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        self.file.truncate(length)
    }
}
