//! A backup of a running engine: its newest checkpoint, and the log behind it up to what is
//! durable.
//!
//! 1. A checkpoint is taken.
//! 2. A hold keeps trimming and newer checkpoints from removing files.
//! 3. The newest whole checkpoint is chosen; none if none could be taken yet.
//! 4. The log's durable end is fixed, and the files that hold its records behind the checkpoint.
//!
//! Before changing it: the hold comes first. Files that are chosen under it stay, and their bytes
//! up to the lengths that are noted here never change.

use super::Engine;
use crate::access::RightKind;
use crate::archive::ArchiveWriter;
use crate::contexts::CONTEXTS_FILE;
use crate::error::EngineError;
use somersault_checkpoint::{Manifest, VerifyDepth, whole_checkpoints};
use somersault_disk::Disk;
use somersault_log::{FolderHold, LogCopy, Position};
use somersault_model::Sn;
use std::io::{self, Read, Write};
use std::sync::Arc;

/// The files of a backup. As long as it lives, the engine removes none of its files.
pub struct Backup {
    _hold: FolderHold,
    disk: Arc<dyn Disk>,
    files: Vec<BackupFile>,
    sn: Option<Sn>,
    position: Position,
}

struct BackupFile {
    name: String,
    length: u64,
    /// The content, where it is not read from the file of this name.
    content: Option<Vec<u8>>,
}

/// # Open
///
/// Backups of an engine that goes on.
impl Engine {
    /// Begins a backup of the data folder, with everything that is durable now. The engine goes on.
    ///
    /// ```
    /// use somersault::disk::{Disk, SimDisk};
    /// use somersault::folder::{receive_backup, verify_folder};
    /// use somersault::{Engine, EngineConfig};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let disk: std::sync::Arc<dyn Disk> = std::sync::Arc::new(SimDisk::new());
    /// let engine = Engine::open_on(EngineConfig::default(), disk)?;
    /// engine.update("INSERT DATA { <urn:a> <urn:p> 1 }").run()?;
    /// let mut archive = Vec::new();
    /// engine.backup()?.write_to(&mut archive)?;
    /// let copy = std::sync::Arc::new(SimDisk::new());
    /// receive_backup(&archive[..], &*copy)?;
    /// assert!(verify_folder(copy, Default::default(), &Default::default())?.is_sound());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`EngineError::Conflict`] if the engine has no data folder, or does not write it; those of
    /// the disk.
    pub fn backup(&self) -> Result<Backup, EngineError> {
        self.admit(RightKind::Admin, None)?;
        let log = &self.inner.log;
        let written = (log.disk()).zip(log.holds()).zip(log.identity());
        let Some(((disk, holds), identity)) = written else {
            return Err(EngineError::Conflict(
                "this engine has no data folder that it writes, so there is nothing to back up; start the server with --data"
                    .to_owned(),
            ));
        };
        if let Err(error) = self.checkpoint() {
            // An older one and the log behind it are a backup too. A full disk must not prevent it.
            tracing::warn!("the backup begins from an earlier checkpoint: {error}");
        }
        let hold = holds.hold();
        let found = whole_checkpoints(&**disk, identity.bytes(), VerifyDepth::Lengths, 1);
        let found = found.map_err(|error| EngineError::DiskFailed(error.to_string()))?;
        let manifest = found.whole.first();
        let after = Position(manifest.map_or(0, Manifest::position));
        log.wait_durable(after)?;
        let copy = log.copy(after)?;
        let mut files: Vec<BackupFile> = [LogCopy::mark(), copy.proof()]
            .map(|(name, content)| BackupFile {
                name: name.to_owned(),
                length: content.len() as u64,
                content: Some(content.to_vec()),
            })
            .into();
        files.extend(self.inner.contexts.file().map(|content| BackupFile {
            name: CONTEXTS_FILE.to_owned(),
            length: content.len() as u64,
            content: Some(content),
        }));
        let of_log = copy.files().iter();
        files.extend(of_log.map(|(name, length)| BackupFile::of_disk(name.clone(), *length)));
        if let Some(manifest) = manifest {
            let listed = manifest.files().iter();
            files.extend(
                listed.map(|file| BackupFile::of_disk(file.name.to_string(), file.summary.length)),
            );
            let name = manifest.name().to_string();
            let length = disk.length(&name).map_err(|source| unread(&name, source))?;
            files.push(BackupFile::of_disk(name, length));
        }
        Ok(Backup {
            _hold: hold,
            disk: Arc::clone(disk),
            files,
            sn: manifest.map(Manifest::sn),
            position: copy.end(),
        })
    }
}

impl BackupFile {
    fn of_disk(name: String, length: u64) -> BackupFile {
        BackupFile {
            name,
            length,
            content: None,
        }
    }
}

impl Backup {
    /// The snapshot number of its checkpoint; `None` if it is the log alone.
    pub fn checkpoint(&self) -> Option<Sn> {
        self.sn
    }

    /// The position of the last record of the log that is in it.
    pub fn position(&self) -> u64 {
        self.position.0
    }

    /// The bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.length).sum()
    }

    /// Writes all files as one archive, which tar can unpack and
    /// [`receive_backup`](crate::folder::receive_backup) reads.
    ///
    /// # Errors
    /// A file cannot be read, or the archive cannot be written.
    pub fn write_to(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut archive = ArchiveWriter::new(out);
        for file in &self.files {
            let content: Box<dyn Read + '_> = match &file.content {
                Some(content) => Box::new(&content[..]),
                None => self.disk.read(&file.name)?,
            };
            archive.add(&file.name, file.length, content)?;
        }
        archive.finish()
    }
}

fn unread(name: &str, source: io::Error) -> EngineError {
    EngineError::Io {
        context: format!("{name} cannot be read"),
        source,
    }
}
