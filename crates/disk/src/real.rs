//! A folder of the operating system's file system.
//!
//! Folders are synced through their own file handle; where a platform cannot do that (Windows),
//! names are as durable as its file system makes them.

use crate::disk::{Access, Disk, DiskFile, DiskLock};
use std::collections::hash_map::RandomState;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::hash::BuildHasher;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

const LOCK_FILE: &str = "LOCK";

/// A real folder; one process at a time.
#[derive(Debug)]
pub struct RealDisk {
    folder: PathBuf,
}

impl RealDisk {
    /// Uses this folder, and makes it, durably, if it is not there.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn new(folder: impl AsRef<Path>) -> io::Result<RealDisk> {
        let folder = folder.as_ref().to_path_buf();
        let missing = folder.ancestors().take_while(|path| !path.exists());
        let missing: Vec<PathBuf> = missing.map(Path::to_path_buf).collect();
        fs::create_dir_all(&folder)?;
        for created in &missing {
            sync_folder_at(match created.parent() {
                Some(parent) if parent != Path::new("") => parent,
                _ => Path::new("."),
            })?;
        }
        Ok(RealDisk { folder })
    }

    /// Uses this folder, which is there already.
    ///
    /// # Errors
    /// If it is not there, or is no folder.
    pub fn existing(folder: impl AsRef<Path>) -> io::Result<RealDisk> {
        let folder = folder.as_ref().to_path_buf();
        fs::read_dir(&folder)?;
        Ok(RealDisk { folder })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

impl Disk for RealDisk {
    fn describe(&self) -> String {
        self.folder.display().to_string()
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            if entry.file_type()?.is_file()
                && let Ok(name) = entry.file_name().into_string()
                && name != LOCK_FILE
            {
                names.push(name);
            }
        }
        Ok(names)
    }

    fn length(&self, name: &str) -> io::Result<u64> {
        Ok(fs::metadata(self.path(name))?.len())
    }

    fn read(&self, name: &str) -> io::Result<Box<dyn Read + Send>> {
        Ok(Box::new(File::open(self.path(name))?))
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(self.path(name))?;
        RealFile::boxed(file, self.path(name))
    }

    fn append_to(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let mut file = OpenOptions::new().write(true).open(self.path(name))?;
        file.seek(SeekFrom::End(0))?;
        RealFile::boxed(file, self.path(name))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.path(name))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        if self.path(to).exists() {
            return Err(io::Error::new(
                io::ErrorKind::AlreadyExists,
                "the name is taken",
            ));
        }
        fs::rename(self.path(from), self.path(to))
    }

    fn replace(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path(from), self.path(to))
    }

    fn sync_folder(&self) -> io::Result<()> {
        sync_folder_at(&self.folder)
    }

    fn lock(&self, access: Access) -> io::Result<Option<DiskLock>> {
        let path = self.path(LOCK_FILE);
        let file = match access {
            Access::Read => File::open(path),
            Access::Write => OpenOptions::new()
                .create(true)
                .truncate(false)
                .write(true)
                .open(path),
        };
        match (file, access) {
            (Ok(file), _) => try_lock(file, access),
            // No process has opened the folder to write, or the file was deleted.
            (Err(error), Access::Read) if error.kind() == io::ErrorKind::NotFound => {
                Ok(Some(Box::new(())))
            }
            (Err(error), _) => Err(error),
        }
    }

    fn draw_identity(&self) -> io::Result<[u8; 16]> {
        // The keys of the standard library's hash maps are from the system's random source.
        let halves = [0_u64, 1].map(|half| RandomState::new().hash_one(half).to_le_bytes());
        let mut identity = [0; 16];
        identity.copy_from_slice(halves.as_flattened());
        Ok(identity)
    }

    fn lock_file(&self, name: &str, access: Access) -> io::Result<Option<DiskLock>> {
        // Elsewhere a lock keeps this process's own readers out too.
        if cfg!(unix) {
            try_lock(File::open(self.path(name))?, access)
        } else {
            Ok(Some(Box::new(())))
        }
    }
}

fn sync_folder_at(folder: &Path) -> io::Result<()> {
    if cfg!(unix) {
        File::open(folder)?.sync_all()
    } else {
        Ok(())
    }
}

/// The lock, which `file` holds; `None` if another process has it.
fn try_lock(file: File, access: Access) -> io::Result<Option<DiskLock>> {
    let locked = match access {
        Access::Read => file.try_lock_shared(),
        Access::Write => file.try_lock(),
    };
    match locked {
        Ok(()) => Ok(Some(Box::new(file))),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

struct RealFile {
    /// Its cursor is where the next bytes are appended.
    file: File,
    path: PathBuf,
    /// Tells the file from another one of its name, where the system has such a thing.
    identity: Option<(u64, u64)>,
}

impl RealFile {
    fn boxed(file: File, path: PathBuf) -> io::Result<Box<dyn DiskFile>> {
        let identity = identity(&file.metadata()?);
        Ok(Box::new(RealFile {
            file,
            path,
            identity,
        }))
    }
}

#[cfg(unix)]
fn identity(metadata: &fs::Metadata) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    Some((metadata.dev(), metadata.ino()))
}

#[cfg(not(unix))]
fn identity(_metadata: &fs::Metadata) -> Option<(u64, u64)> {
    None
}

#[cfg(target_os = "linux")]
fn reserve(file: &File, length: u64) -> io::Result<bool> {
    use rustix::fs::{FallocateFlags, fallocate};
    match fallocate(file, FallocateFlags::KEEP_SIZE, 0, length).map_err(io::Error::from) {
        Ok(()) => Ok(true),
        Err(error) => match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Err(error),
            // Not all file systems have it.
            _ => Ok(false),
        },
    }
}

#[cfg(not(target_os = "linux"))]
fn reserve(_file: &File, _length: u64) -> io::Result<bool> {
    Ok(false)
}

impl DiskFile for RealFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn reserve(&mut self, length: u64) -> io::Result<bool> {
        reserve(&self.file, length)
    }

    fn is_in_place(&self) -> io::Result<bool> {
        match fs::metadata(&self.path) {
            Ok(metadata) => Ok(identity(&metadata) == self.identity),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn extend(&mut self, length: u64) -> io::Result<()> {
        match self.file.metadata()?.len() < length {
            true => self.file.set_len(length),
            false => Ok(()),
        }
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        self.file.set_len(length)?;
        let end = self.file.stream_position()?;
        self.file.seek(SeekFrom::Start(end.min(length)))?;
        Ok(())
    }
}
