//! Copies of folders: of one on this machine, and of one that a server sends. A copy that goes on
//! by itself is a *branch* of the log.
//!
//! The one thing to know: files come in an order in which no beginning of a copy reads as a shorter
//! log. First comes the mark of a copy, with which nothing opens to write, then the proof, which
//! says what the log must hold, and last the manifests. Each file gets its name only when its
//! content is durable.

use super::verify::VerifiedFiles;
use crate::archive::ArchiveReader;
use crate::contexts::CONTEXTS_FILE;
use crate::error::EngineError;
use somersault_checkpoint::{FileKind, FileName};
use somersault_disk::{Disk, NameTaken, create_unfinished, finish, unfinished};
use somersault_log::{Log, LogCopy, LogFileKind, LogOptions, verify_log};
use std::io::{self, Read};
use std::sync::Arc;

const CHUNK: usize = 1 << 18;

/// The files of a copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CopySummary {
    /// Their number.
    pub files: usize,
    /// Their bytes.
    pub bytes: u64,
    /// The number of files that were linked: original and copy share them.
    pub linked: usize,
}

/// Copies the state of a folder that no engine writes into an empty one, once the original turned
/// out to be sound. Files that never change again are linked by `link`, which gets their names;
/// where it fails, they are copied.
///
/// ```
/// use somersault::disk::{Disk, SimDisk};
/// use somersault::folder::{copy_folder, verify_folder};
/// use somersault::{Engine, EngineConfig};
/// # fn main() -> Result<(), somersault::EngineError> {
/// let original: std::sync::Arc<dyn Disk> = std::sync::Arc::new(SimDisk::new());
/// Engine::open_on(EngineConfig::default(), original.clone())?.shutdown()?;
/// let copy = std::sync::Arc::new(SimDisk::new());
/// copy_folder(&original, &*copy, &mut |_| Err(std::io::ErrorKind::Unsupported.into()))?;
/// assert!(verify_folder(copy, Default::default(), &Default::default())?.is_sound());
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// An engine has the original open to write, or it is damaged; the target is not empty, or cannot
/// be written. What was written is removed then.
pub fn copy_folder(
    from: &Arc<dyn Disk>,
    to: &dyn Disk,
    link: &mut dyn FnMut(&str) -> io::Result<()>,
) -> Result<CopySummary, EngineError> {
    let _lock = Log::lock_to_read(&**from)?;
    let files = VerifiedFiles::read(from, &Arc::default())?;
    let report = files.report(&**from)?;
    if let Some(first) = report.damage.first() {
        return Err(EngineError::Damaged {
            file: from.describe().into(),
            offset: 0,
            message: format!(
                "{} is not copied, because it is damaged: {first}; see the whole list with somersault verify",
                from.describe()
            ),
        });
    }
    if report.log.is_none() {
        return Err(EngineError::NotFound(format!(
            "{} holds no data of Somersault; name the folder that serve --data was started with, or a backup",
            from.describe()
        )));
    }
    let mut copy = FolderWriter::begin(to)?;
    copy.or_abandon(|copy| {
        let (mark, text) = LogCopy::mark();
        copy.write(mark, text.len() as u64, text)?;
        for name in files.in_order_of_copy() {
            let is_fixed = is_immutable(&name) && files.newest_segment() != Some(&name);
            if is_fixed && link(&name).is_ok() {
                copy.note_linked(&name)?;
                continue;
            }
            let length = from
                .length(&name)
                .map_err(|error| unread(&**from, &name, error))?;
            let content = from
                .read(&name)
                .map_err(|error| unread(&**from, &name, error))?;
            copy.write(&name, length, content)?;
        }
        copy.finish()
    })
}

/// Whether a file never changes once it has its name, unless it is the newest segment.
fn is_immutable(name: &str) -> bool {
    let of_log = LogFileKind::of(name);
    matches!(of_log, Some(LogFileKind::Segment | LogFileKind::Load)) || is_checkpoint_file(name)
}

/// Whether a file says how the others are to be taken, so that it is durable before they are.
fn is_written_first(name: &str) -> bool {
    matches!(
        LogFileKind::of(name),
        Some(LogFileKind::Proof | LogFileKind::CopyMark)
    )
}

fn is_checkpoint_file(name: &str) -> bool {
    name.parse::<FileName>().is_ok()
}

/// Writes the backup that a server sends ([`Backup`](crate::Backup)) into an empty folder.
///
/// # Errors
/// The stream breaks off, or is none of a backup; the target is not empty, or cannot be written.
/// What was written is removed then.
pub fn receive_backup(input: impl Read, to: &dyn Disk) -> Result<CopySummary, EngineError> {
    let mut archive = ArchiveReader::new(input);
    let mut copy = FolderWriter::begin(to)?;
    copy.or_abandon(|copy| {
        let mut more = true;
        while more {
            let taken = archive
                .next(|name, length, content| copy.write(name, length, content).map_err(Received));
            more = taken.map_err(|error| error.0)?;
        }
        copy.finish()
    })
}

/// An error while a backup is received.
struct Received(EngineError);

impl From<io::Error> for Received {
    fn from(source: io::Error) -> Received {
        Received(EngineError::Io {
            context: "the backup was not received to its end".to_owned(),
            source,
        })
    }
}

/// Begins a branch of the log in a folder that was copied: from now on nothing that the original
/// or another copy writes reads as a part of this one, nor the other way round. Until then nothing
/// opens the folder to write.
///
/// # Errors
/// The folder does not open, or cannot be written.
pub fn start_branch(disk: Arc<dyn Disk>) -> Result<(), EngineError> {
    let end = verify_log(Arc::clone(&disk), &Arc::default())?.end;
    let options = LogOptions {
        is_copy: true,
        ..LogOptions::default()
    };
    let (log, recovered) = Log::open_after(disk, options, end)?;
    drop(recovered);
    Ok(log.close()?)
}

/// Writes a folder, file by file.
struct FolderWriter<'d> {
    disk: &'d dyn Disk,
    written: Vec<String>,
    summary: CopySummary,
}

impl<'d> FolderWriter<'d> {
    fn begin(disk: &'d dyn Disk) -> Result<FolderWriter<'d>, EngineError> {
        let names = disk.list().map_err(|error| unwritten(disk, "", error))?;
        if let Some(name) = names.first() {
            return Err(EngineError::Conflict(format!(
                "{} is not empty ({name} is in it): name a folder that is not there, or an empty one",
                disk.describe()
            )));
        }
        Ok(FolderWriter {
            disk,
            written: Vec::new(),
            summary: CopySummary::default(),
        })
    }

    /// Does this; if it fails, removes what was written.
    fn or_abandon<T>(
        &mut self,
        write: impl FnOnce(&mut Self) -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        let outcome = write(self);
        if outcome.is_err() {
            for name in self.written.iter().rev() {
                // The error to report is that of the copy. What stays is refused by every reader.
                let _ = self.disk.remove(name);
            }
        }
        outcome
    }

    /// Writes a file and gives it its name.
    fn write(&mut self, name: &str, length: u64, content: impl Read) -> Result<(), EngineError> {
        let is_known = is_immutable(name) || is_written_first(name) || name == CONTEXTS_FILE;
        if !is_known || self.written.iter().any(|written| written == name) {
            return Err(EngineError::Invalid(format!(
                "this is no backup of Somersault: it has a file {name} that has no place in it"
            )));
        }
        if is_manifest(name) {
            self.sync()?;
        }
        self.written.push(unfinished(name));
        let failed = |error| unwritten(self.disk, name, error);
        let mut file = create_unfinished(self.disk, name).map_err(failed)?;
        let mut content = content.take(length);
        let mut chunk = vec![0; CHUNK];
        loop {
            let read = content.read(&mut chunk).map_err(|source| EngineError::Io {
                context: format!("the backup breaks off within {name}"),
                source,
            })?;
            if read == 0 {
                break;
            }
            file.append(&chunk[..read]).map_err(failed)?;
        }
        if content.limit() > 0 {
            return Err(EngineError::Conflict(format!(
                "the backup breaks off within {name}, {} bytes before its end: begin again",
                content.limit()
            )));
        }
        finish(self.disk, name, file, NameTaken::Refuse).map_err(failed)?;
        self.written.pop();
        self.note(name, length)
    }

    /// A file has come by a link.
    fn note_linked(&mut self, name: &str) -> Result<(), EngineError> {
        let length = self.disk.length(name);
        let length = length.map_err(|error| unwritten(self.disk, name, error))?;
        self.summary.linked += 1;
        self.note(name, length)
    }

    fn note(&mut self, name: &str, length: u64) -> Result<(), EngineError> {
        self.written.push(name.to_owned());
        self.summary.files += 1;
        self.summary.bytes += length;
        match is_written_first(name) {
            true => self.sync(),
            false => Ok(()),
        }
    }

    fn sync(&self) -> Result<(), EngineError> {
        let synced = self.disk.sync_folder();
        synced.map_err(|error| unwritten(self.disk, "", error))
    }

    fn finish(&mut self) -> Result<CopySummary, EngineError> {
        self.sync()?;
        Ok(self.summary)
    }
}

fn is_manifest(name: &str) -> bool {
    name.parse()
        .is_ok_and(|name: FileName| name.kind == FileKind::Manifest)
}

fn unread(disk: &dyn Disk, name: &str, source: io::Error) -> EngineError {
    EngineError::Io {
        context: format!("{}/{name} cannot be read", disk.describe()),
        source,
    }
}

fn unwritten(disk: &dyn Disk, name: &str, source: io::Error) -> EngineError {
    let context = match name {
        "" => format!("{} cannot be written", disk.describe()),
        name => format!("{}/{name} cannot be written", disk.describe()),
    };
    EngineError::Io { context, source }
}
