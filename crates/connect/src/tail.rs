//! The file source: the lines of a file that grows, as `tail -F` follows it.
//!
//! The one thing to know before changing it: positions count on over rotations. A note for the next
//! start says which file begins at which position; it is durable before the first line of that file
//! is brought. So a line has the same position after a restart, although the file's name may belong
//! to another file by then.
//!
//! 1. The file that was read last is looked for: under its path, then beside it under another name.
//! 2. It is read from the highest position on that the stream has taken.
//! 3. At its end, it is compared with the file that has the path. If that is another one, the open
//!    file is read to its end once more, and the other one begins at the position behind it. A file
//!    that became shorter than what was read of it begins again in the same way.

pub(crate) mod lines;

use crate::error::SourceError;
use crate::identity::{FileIdentity, is_at};
use crate::source::{LOOK, Ledger, PORTION_BYTES, Portion, Source, SourceClass, SourceMessage};
use crate::worker::StopSignal;
use lines::LineCutter;
use serde_json::{Value, json};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// The bytes that are read at once.
const READ_BYTES: usize = 256 << 10;
/// The bytes at the beginning of a file by which it is recognised, beside its number.
const HEAD_BYTES: usize = 64;

/// Where the lines of a file that is new to a source begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TailStart {
    /// At the beginning of the file.
    Begin,
    /// At its end: lines that are there already are not brought.
    End,
}

/// Brings the lines of a file.
#[derive(Debug)]
pub struct TailSource {
    path: PathBuf,
    partition: String,
    start: TailStart,
    followed: Option<Followed>,
}

/// The file that is read.
#[derive(Debug)]
struct Followed {
    file: File,
    begin: FileBegin,
    cutter: LineCutter,
    /// Whether a file that took its place was seen: it grows no more once it is read.
    is_replaced: bool,
}

/// Which file it is, and the position of its first byte: what is noted for the next start.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FileBegin {
    identity: FileIdentity,
    /// Its first bytes. A file that was shorter when they were noted had no others.
    head: Vec<u8>,
    /// The position of its first byte.
    base: u64,
    /// The position of the first line that is brought.
    first: u64,
}

impl FileBegin {
    fn of(file: &mut File, base: u64, first: u64) -> io::Result<FileBegin> {
        Ok(FileBegin {
            identity: FileIdentity::of(&file.metadata()?),
            head: head_of(file)?,
            base,
            first,
        })
    }

    fn is(&self, file: &mut File) -> io::Result<bool> {
        let same_number = FileIdentity::of(&file.metadata()?) == self.identity;
        Ok(same_number && head_of(file)?.starts_with(&self.head))
    }

    fn to_json(&self) -> Value {
        json!({
            "device": self.identity.device,
            "number": self.identity.number,
            "head": self.head,
            "base": self.base,
            "first": self.first,
        })
    }

    fn of_json(note: &Value) -> Option<FileBegin> {
        let number = |member: &str| note[member].as_u64();
        let head = note["head"].as_array()?.iter();
        let head = head.map(|byte| u8::try_from(byte.as_u64()?).ok());
        Some(FileBegin {
            identity: FileIdentity {
                device: number("device")?,
                number: number("number")?,
            },
            head: head.collect::<Option<_>>()?,
            base: number("base")?,
            first: number("first")?,
        })
    }
}

fn head_of(file: &mut File) -> io::Result<Vec<u8>> {
    file.seek(SeekFrom::Start(0))?;
    let mut head = Vec::new();
    file.take(HEAD_BYTES as u64).read_to_end(&mut head)?;
    Ok(head)
}

impl TailSource {
    /// Returns a source of the name `source` for this file.
    pub fn new(source: &str, path: impl Into<PathBuf>, start: TailStart) -> TailSource {
        let path = path.into();
        TailSource {
            partition: format!("{source}/{}", path.display()),
            path,
            start,
            followed: None,
        }
    }

    fn failed(&self, source: io::Error) -> SourceError {
        SourceError::File {
            file: self.path.clone(),
            source,
        }
    }

    /// Finds the file that was read last, or begins with the one at the path.
    fn find(&self, ledger: &dyn Ledger) -> Result<Followed, SourceError> {
        let taken = ledger.position(&self.partition)?;
        let noted = ledger.note().as_ref().and_then(FileBegin::of_json);
        let Some(noted) = noted else {
            let mut file = self.open_path()?;
            let length = self.length(&file)?;
            let (base, first) = match (taken, self.start) {
                // The stream knows the source, and the note was lost: the same file, if it can be.
                (Some(taken), _) if taken <= length => (0, taken),
                (Some(taken), _) => (taken, taken),
                (None, TailStart::Begin) => (0, 0),
                (None, TailStart::End) => (0, length),
            };
            let begin =
                FileBegin::of(&mut file, base, first).map_err(|error| self.failed(error))?;
            return self.follow(file, begin, first, ledger);
        };
        let from = taken.unwrap_or(0).max(noted.first);
        match self
            .find_noted(&noted)
            .map_err(|error| self.failed(error))?
        {
            Some(file) if noted.base + self.length(&file)? >= from => {
                self.follow(file, noted, from, ledger)
            }
            found => {
                if found.is_none() {
                    tracing::warn!(
                        "{}: the file that was read before is gone, with whatever was written to it meanwhile",
                        self.partition
                    );
                }
                self.begin_next(from, ledger)
            }
        }
    }

    /// The noted file, under its path or another name in the same folder.
    fn find_noted(&self, noted: &FileBegin) -> io::Result<Option<File>> {
        let is_noted = |path: &Path| -> io::Result<Option<File>> {
            if FileIdentity::at(path)? != Some(noted.identity) {
                return Ok(None);
            }
            let mut file = File::open(path)?;
            Ok(noted.is(&mut file)?.then_some(file))
        };
        if let Some(file) = is_noted(&self.path)? {
            return Ok(Some(file));
        }
        for entry in folder_of(&self.path).read_dir()? {
            // A file that goes away meanwhile, or cannot be read, is not the one.
            if let Ok(Some(file)) = is_noted(&entry?.path()) {
                return Ok(Some(file));
            }
        }
        Ok(None)
    }

    /// Begins with the file at the path, whose first byte has this position.
    fn begin_next(&self, base: u64, ledger: &dyn Ledger) -> Result<Followed, SourceError> {
        let mut file = self.open_path()?;
        let begin = FileBegin::of(&mut file, base, base).map_err(|error| self.failed(error))?;
        self.follow(file, begin, base, ledger)
    }

    /// Notes which file it is, and reads it from a position on.
    fn follow(
        &self,
        mut file: File,
        begin: FileBegin,
        from: u64,
        ledger: &dyn Ledger,
    ) -> Result<Followed, SourceError> {
        ledger.keep(begin.to_json())?;
        let sought = file.seek(SeekFrom::Start(from - begin.base));
        sought.map_err(|error| self.failed(error))?;
        Ok(Followed {
            file,
            begin,
            cutter: LineCutter::at(from),
            is_replaced: false,
        })
    }

    fn open_path(&self) -> Result<File, SourceError> {
        File::open(&self.path).map_err(|error| self.failed(error))
    }

    fn length(&self, file: &File) -> Result<u64, SourceError> {
        let metadata = file.metadata();
        metadata
            .map(|it| it.len())
            .map_err(|error| self.failed(error))
    }

    /// Looks, at the end of the file, whether it goes on with another one.
    fn look(
        &self,
        followed: &mut Followed,
        ledger: &dyn Ledger,
    ) -> Result<Option<Followed>, SourceError> {
        let failed = |error| self.failed(error);
        let read = followed.cutter.position() - followed.begin.base;
        let is_shorter = self.length(&followed.file)? < read;
        if is_shorter || followed.is_replaced {
            return self
                .begin_next(followed.cutter.position(), ledger)
                .map(Some);
        }
        let has_next = !is_at(&followed.file, &self.path).map_err(failed)?
            && FileIdentity::at(&self.path).map_err(failed)?.is_some();
        // What was written before the rotation may have come behind the last read.
        followed.is_replaced = has_next;
        Ok(None)
    }

    /// Notes the file again once it has more first bytes than were noted.
    fn note_head(followed: &mut Followed, ledger: &dyn Ledger) -> Result<(), SourceError> {
        let read = followed.cutter.position() - followed.begin.base;
        if followed.begin.head.len() >= HEAD_BYTES || read <= followed.begin.head.len() as u64 {
            return Ok(());
        }
        let mut noted = || -> io::Result<FileBegin> {
            let begin = &followed.begin;
            let again = FileBegin::of(&mut followed.file, begin.base, begin.first)?;
            followed.file.seek(SeekFrom::Start(read))?;
            Ok(again)
        };
        followed.begin = noted().map_err(SourceError::Note)?;
        ledger.keep(followed.begin.to_json())
    }
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

impl Source for TailSource {
    fn class(&self) -> SourceClass {
        SourceClass::ExactlyOnce
    }

    fn open(&mut self, ledger: &dyn Ledger, _stop: &StopSignal) -> Result<(), SourceError> {
        self.followed = None;
        self.followed = Some(self.find(ledger)?);
        Ok(())
    }

    fn next(
        &mut self,
        ledger: &dyn Ledger,
        stop: &StopSignal,
    ) -> Result<Option<Portion>, SourceError> {
        let Some(mut followed) = self.followed.take() else {
            return Err(self.failed(io::Error::other("it is not open")));
        };
        let mut messages: Vec<SourceMessage> = Vec::new();
        let mut buffer = vec![0; READ_BYTES];
        let mut bytes = 0;
        while messages.is_empty() && bytes < PORTION_BYTES && !stop.is_set() {
            let read = followed.file.read(&mut buffer);
            let read = read.map_err(|error| self.failed(error))?;
            followed.cutter.cut(&buffer[..read], &mut messages);
            bytes += read;
            if read > 0 {
                continue;
            }
            if followed.is_replaced {
                followed.cutter.end(&mut messages);
            }
            if !messages.is_empty() {
                break;
            }
            match self.look(&mut followed, ledger)? {
                Some(next) => followed = next,
                None if followed.is_replaced => {}
                None => {
                    stop.wait(LOOK);
                    break;
                }
            }
        }
        TailSource::note_head(&mut followed, ledger)?;
        self.followed = Some(followed);
        Ok((!messages.is_empty()).then(|| Portion {
            partition: self.partition.clone(),
            messages,
        }))
    }

    /// The stream's position is all that there is.
    fn acknowledge(&mut self, _messages: usize) -> Result<(), SourceError> {
        Ok(())
    }

    /// The bytes of the file that are not read.
    fn lag(&self) -> Option<u64> {
        let followed = self.followed.as_ref()?;
        let length = followed.file.metadata().ok()?.len();
        Some((followed.begin.base + length).saturating_sub(followed.cutter.position()))
    }
}

#[cfg(test)]
mod tests;
