//! Which file an open file is, whatever its name is by now.

use std::fs::{self, File, Metadata};
use std::io;
use std::path::Path;

/// The number of a file on its device. A later file may have the number of one that was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileIdentity {
    pub(crate) device: u64,
    pub(crate) number: u64,
}

impl FileIdentity {
    #[cfg(unix)]
    pub(crate) fn of(metadata: &Metadata) -> FileIdentity {
        use std::os::unix::fs::MetadataExt;
        FileIdentity {
            device: metadata.dev(),
            number: metadata.ino(),
        }
    }

    /// All files are one here: an open file is neither moved nor removed.
    #[cfg(not(unix))]
    pub(crate) fn of(_metadata: &Metadata) -> FileIdentity {
        FileIdentity {
            device: 0,
            number: 0,
        }
    }

    /// The file at a path, if there is one.
    pub(crate) fn at(path: &Path) -> io::Result<Option<FileIdentity>> {
        match fs::metadata(path) {
            Ok(found) => Ok(Some(FileIdentity::of(&found))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Whether an open file still has this path. After a rotation the path is that of another file, or
/// of none.
pub(crate) fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let open = FileIdentity::of(&file.metadata()?);
    Ok(FileIdentity::at(path)? == Some(open))
}
