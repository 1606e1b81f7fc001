//! Files that appear in a folder whole or not at all.
//!
//! 1. [`create_unfinished`] makes the file under another name, and the caller writes its content.
//! 2. [`finish`] syncs the content, gives the file its own name, and syncs the folder.
//!
//! Before changing it: the content is durable before the file has its name, so a crash leaves no
//! file that has its name and is cut.

use crate::disk::{Disk, DiskFile};
use std::io;

/// The end of the name of a file that is being written.
pub const UNFINISHED: &str = ".tmp";

/// What becomes of a file that has the name already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameTaken {
    /// It is an error, and the file stays.
    Refuse,
    /// The new file takes its place in one step.
    Replace,
}

/// The name under which a file is written until it is whole.
#[must_use]
pub fn unfinished(name: &str) -> String {
    format!("{name}{UNFINISHED}")
}

/// Makes a file that is to have this name once it is whole. What a crash has left of an earlier
/// writing is removed.
///
/// # Errors
/// Those of the disk.
pub fn create_unfinished(disk: &dyn Disk, name: &str) -> io::Result<Box<dyn DiskFile>> {
    let unfinished = unfinished(name);
    match disk.create(&unfinished) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            disk.remove(&unfinished)?;
            disk.create(&unfinished)
        }
        created => created,
    }
}

/// Gives a file that [`create_unfinished`] made its own name; both the content and the name are
/// durable then.
///
/// # Errors
/// Those of the disk. Then the file has one of its two names.
pub fn finish(
    disk: &dyn Disk,
    name: &str,
    mut file: Box<dyn DiskFile>,
    taken: NameTaken,
) -> io::Result<()> {
    file.sync()?;
    drop(file);
    let unfinished = unfinished(name);
    match taken {
        NameTaken::Refuse => disk.rename(&unfinished, name)?,
        NameTaken::Replace => disk.replace(&unfinished, name)?,
    }
    disk.sync_folder()
}

/// Writes a file of these bytes, durably.
///
/// # Errors
/// Those of the disk.
pub fn write_whole(disk: &dyn Disk, name: &str, bytes: &[u8], taken: NameTaken) -> io::Result<()> {
    let mut file = create_unfinished(disk, name)?;
    file.append(bytes)?;
    finish(disk, name, file, taken)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::{CrashKeep, SimDisk};

    #[test]
    fn after_any_crash_a_file_is_the_one_before_or_the_new_one() {
        for sync in 0..2 {
            let disk = SimDisk::new();
            write_whole(&disk, "file", b"before", NameTaken::Replace).unwrap();
            disk.crash_at_sync(sync, CrashKeep::Written);
            assert!(write_whole(&disk, "file", b"after", NameTaken::Replace).is_err());
            let disk = disk.restarted();
            let bytes = disk.bytes("file").unwrap();
            assert!(bytes == b"before" || bytes == b"after", "{bytes:?}");
            // What is left of it is in the way of no further writing.
            write_whole(&disk, "file", b"later", NameTaken::Replace).unwrap();
            assert_eq!(disk.bytes("file").unwrap(), b"later");
            assert_eq!(disk.names(), ["file"]);
        }
    }

    #[test]
    fn a_name_that_is_taken_is_refused_or_replaced() {
        let disk = SimDisk::new();
        write_whole(&disk, "file", b"before", NameTaken::Refuse).unwrap();
        let refused = write_whole(&disk, "file", b"after", NameTaken::Refuse).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(disk.bytes("file").unwrap(), b"before");
    }
}
