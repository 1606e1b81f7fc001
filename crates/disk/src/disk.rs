//! The folder that the log writes to: flat, of append-only files, behind a trait, so that tests can
//! tear, fill and crash it.
//!
//! The one promise to know: [`DiskFile::append`] gives no durability, [`DiskFile::sync`] makes all
//! bytes of that file durable, and a file's *name* is durable only after [`Disk::sync_folder`].

use std::io::{self, Read};

/// Holds a lock until it is dropped.
pub type DiskLock = Box<dyn Send + Sync>;

/// The purpose of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reading: shared with other readers. Locking changes nothing.
    Read,
    /// Writing: exclusive.
    Write,
}

/// A flat folder of append-only files.
pub trait Disk: Send + Sync + 'static {
    /// The folder's name in messages.
    fn describe(&self) -> String;
    /// The names of all files, in no particular order.
    fn list(&self) -> io::Result<Vec<String>>;
    /// The length of a file in bytes.
    fn length(&self, name: &str) -> io::Result<u64>;
    /// A reader from the start of a file.
    fn read(&self, name: &str) -> io::Result<Box<dyn Read + Send>>;
    /// A new, empty file; an error if the name is taken.
    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>>;
    /// An existing file, to append to.
    fn append_to(&self, name: &str) -> io::Result<Box<dyn DiskFile>>;
    /// Takes a file away.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Gives a file another name, replacing nothing.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Renames a file in one step, replacing a file of that name.
    fn replace(&self, from: &str, to: &str) -> io::Result<()>;
    /// Makes creations, removals and renames durable.
    fn sync_folder(&self) -> io::Result<()>;
    /// Takes the folder for this process until the guard is dropped; `None` if another process has
    /// it.
    fn lock(&self, access: Access) -> io::Result<Option<DiskLock>>;
    /// 16 bytes that this disk has never given before, to tell what is made on it from all else. A
    /// simulated disk counts, so that what is written to it repeats.
    fn draw_identity(&self) -> io::Result<[u8; 16]>;
    /// Locks one file for this process in the same way. This lock holds even if the folder's own
    /// lock file is deleted.
    fn lock_file(&self, name: &str, access: Access) -> io::Result<Option<DiskLock>>;
}

/// A disk on top of another one, which changes some operations and leaves all others as they are.
pub trait DiskLayer: Send + Sync + 'static {
    /// The disk below.
    fn below(&self) -> &dyn Disk;
    /// As [`Disk::read`].
    fn read(&self, name: &str) -> io::Result<Box<dyn Read + Send>> {
        self.below().read(name)
    }
    /// As [`Disk::create`].
    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        self.below().create(name)
    }
    /// As [`Disk::append_to`].
    fn append_to(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        self.below().append_to(name)
    }
    /// As [`Disk::replace`].
    fn replace(&self, from: &str, to: &str) -> io::Result<()> {
        self.below().replace(from, to)
    }
}

impl<L: DiskLayer> Disk for L {
    fn describe(&self) -> String {
        self.below().describe()
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.below().list()
    }

    fn length(&self, name: &str) -> io::Result<u64> {
        self.below().length(name)
    }

    fn read(&self, name: &str) -> io::Result<Box<dyn Read + Send>> {
        DiskLayer::read(self, name)
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        DiskLayer::create(self, name)
    }

    fn append_to(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        DiskLayer::append_to(self, name)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.below().remove(name)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.below().rename(from, to)
    }

    fn replace(&self, from: &str, to: &str) -> io::Result<()> {
        DiskLayer::replace(self, from, to)
    }

    fn sync_folder(&self) -> io::Result<()> {
        self.below().sync_folder()
    }

    fn lock(&self, access: Access) -> io::Result<Option<DiskLock>> {
        self.below().lock(access)
    }

    fn draw_identity(&self) -> io::Result<[u8; 16]> {
        self.below().draw_identity()
    }

    fn lock_file(&self, name: &str, access: Access) -> io::Result<Option<DiskLock>> {
        self.below().lock_file(name, access)
    }
}

/// A file that is written at its end.
pub trait DiskFile: Send {
    /// Writes all bytes behind those that this handle has written, or behind those that the file
    /// had when it was opened; durable only after [`DiskFile::sync`].
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Sets space aside, so that the file can grow to this length on a full disk. Its length and
    /// contents stay. Returns `false` if the file system cannot do that. Space beyond the end is
    /// free again after [`DiskFile::truncate`].
    fn reserve(&mut self, length: u64) -> io::Result<bool>;
    /// Makes the file at least this long, with zeros behind what was appended. What is appended
    /// later takes their place, so that its sync has no new length to write down.
    fn extend(&mut self, length: u64) -> io::Result<()>;
    /// Makes everything written to this file durable.
    fn sync(&mut self) -> io::Result<()>;
    /// Whether the file still has its name in the folder, so that the next process to open the
    /// folder finds it.
    fn is_in_place(&self) -> io::Result<bool>;
    /// Cuts the file to this length.
    fn truncate(&mut self, length: u64) -> io::Result<()>;
}
